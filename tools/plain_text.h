// How messages and pages write sizes, times, counts and names.
#ifndef SMELT_TOOLS_PLAIN_TEXT_H_
#define SMELT_TOOLS_PLAIN_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace smelt {

// "812 B", "1.3 MB"
std::string BytesText(int64_t bytes);
// "0.05 s", "12 s", "3:07 min"
std::string SecondsText(double seconds);
// "1 model", "2 models"
std::string Count(int64_t n, absl::string_view noun);
// A name that comes from a file: control characters, which would steer a terminal, are written as \x1b.
std::string Printable(absl::string_view text);

// The number of columns that a UTF-8 text takes in a terminal: one for each character.
size_t WidthOf(absl::string_view text);

// The text, or its beginning and an ellipsis: at most so many bytes, which are more than 3.
std::string Shortened(absl::string_view text, size_t most);

}  // namespace smelt

#endif  // SMELT_TOOLS_PLAIN_TEXT_H_
