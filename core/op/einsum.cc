#include "smelt/core/op/einsum.h"

#include <algorithm>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace smelt {

absl::StatusOr<EinsumLabels> ParseEinsum(std::string equation, absl::Span<const int> ranks) {
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  EinsumLabels out{absl::StrSplit(sides[0], ','), ""};
  if (out.inputs.size() != ranks.size() || sides.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("equation \"", equation, "\" does not fit ", ranks.size(), " operands"));
  }
  std::string dots;
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    std::string& labels = out.inputs[i];
    if (const size_t at = labels.find("..."); at != std::string::npos) {
      const int own = ranks[i] - static_cast<int>(labels.size() - 3);
      if (own < 0) return absl::InvalidArgumentError("an operand's rank differs from its labels");
      while (static_cast<int>(dots.size()) < own) dots.insert(dots.begin(), static_cast<char>(1 + dots.size()));
      labels.replace(at, 3, dots.substr(dots.size() - own));
    }
    if (static_cast<int>(labels.size()) != ranks[i])
      return absl::InvalidArgumentError("an operand's rank differs from its labels");
  }
  if (sides.size() == 2) {
    out.output = sides[1];
    if (const size_t at = out.output.find("..."); at != std::string::npos) out.output.replace(at, 3, dots);
    return out;
  }
  // Labels that occur once, in alphabetical order, after "...".
  std::map<char, int> count;
  for (const std::string& labels : out.inputs) {
    for (char c : labels) ++count[c];
  }
  out.output = dots;
  for (auto [c, n] : count) {
    if (n == 1 && dots.find(c) == std::string::npos) out.output.push_back(c);
  }
  return out;
}

std::optional<std::pair<int64_t, int64_t>> TakeRepeatedLabel(std::string* labels) {
  for (size_t k = 0; k < labels->size(); ++k) {
    const char c = (*labels)[k];
    const size_t again = labels->find(c, k + 1);
    if (again == std::string::npos) continue;
    labels->erase(again, 1);
    labels->erase(k, 1);
    labels->push_back(c);
    return std::make_pair(static_cast<int64_t>(k), static_cast<int64_t>(again));
  }
  return std::nullopt;
}

}  // namespace smelt
