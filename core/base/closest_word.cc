#include "smelt/core/base/closest_word.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace smelt {

std::string ClosestWord(absl::string_view given, const std::vector<std::string>& words) {
  const std::string word = absl::AsciiStrToLower(given.substr(0, 64));
  std::string best;
  size_t best_distance = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : words) {
    const std::string other = absl::AsciiStrToLower(candidate.substr(0, 64));
    // The number of letters to insert, delete, replace or swap.
    std::vector<std::vector<size_t>> d(word.size() + 1, std::vector<size_t>(other.size() + 1));
    for (size_t i = 0; i <= word.size(); ++i) {
      for (size_t j = 0; j <= other.size(); ++j) {
        if (i == 0 || j == 0) {
          d[i][j] = i + j;
          continue;
        }
        const bool equal = word[i - 1] == other[j - 1];
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (equal ? 0 : 1)});
        if (i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
    size_t distance = d[word.size()][other.size()];
    if (word.size() >= 3 && absl::StartsWith(other, word)) distance = std::min<size_t>(distance, 1);
    if (distance < best_distance && distance < std::max<size_t>(word.size(), 1)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace smelt
