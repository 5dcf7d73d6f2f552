// Finds the word that is meant by a misspelled one, for errors that ask "did you mean ...?".
#ifndef SMELT_CORE_BASE_CLOSEST_WORD_H_
#define SMELT_CORE_BASE_CLOSEST_WORD_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace smelt {

// Returns the word that is most likely meant by a misspelled one; "" if none is near.
std::string ClosestWord(absl::string_view word, const std::vector<std::string>& words);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_CLOSEST_WORD_H_
