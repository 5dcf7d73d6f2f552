#include "smelt/tools/plain_text.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace smelt {

std::string BytesText(int64_t bytes) {
  if (bytes < 10000) return absl::StrCat(bytes, " B");
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  double v = static_cast<double>(bytes) / 1000;
  int unit = 0;
  for (; v >= 1000 && unit < 3; ++unit) v /= 1000;
  return absl::StrFormat("%.*f %s", v < 100 ? 1 : 0, v, units[unit]);
}

std::string SecondsText(double seconds) {
  if (seconds < 9.95) return absl::StrFormat("%.*f s", seconds < 1 ? 2 : 1, seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 100) return absl::StrCat(whole, " s");
  return absl::StrFormat("%d:%02d min", whole / 60, whole % 60);
}

std::string Count(int64_t n, absl::string_view noun) { return absl::StrCat(n, " ", noun, n == 1 ? "" : "s"); }

std::string Printable(absl::string_view text) {
  std::string out;
  for (char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

size_t WidthOf(absl::string_view text) {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

std::string Shortened(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // within a character
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace smelt
