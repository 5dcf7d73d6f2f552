// Parses the equation of an einsum into labels of its operands' dims.
//
//   ParseEinsum("...ii->i...", {3}) -> inputs {"\1ii"}, output "i\1"
#ifndef SMELT_CORE_OP_EINSUM_H_
#define SMELT_CORE_OP_EINSUM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace smelt {

// One label per dim. The dims of "...", counted from the right, have labels that cannot occur in an equation.
struct EinsumLabels {
  std::vector<std::string> inputs;
  std::string output;
};

// `ranks` are those of the operands. Returns kInvalidArgument if the equation does not fit them. It does not check that
// the output's labels are the inputs'.
absl::StatusOr<EinsumLabels> ParseEinsum(std::string equation, absl::Span<const int> ranks);

// Removes the first two dims with the same label, if there are such. They become one dim, which is the last, as in
// aten::diagonal.
std::optional<std::pair<int64_t, int64_t>> TakeRepeatedLabel(std::string* labels);

}  // namespace smelt

#endif  // SMELT_CORE_OP_EINSUM_H_
