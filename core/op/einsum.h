// What the equation of an einsum says of its operands' dims.
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

// A label a dim. The dims of "...", counted from the right, have labels that no equation can hold.
struct EinsumLabels {
  std::vector<std::string> inputs;
  std::string output;
};

// `ranks` of the operands. kInvalidArgument: the equation does not fit them. That the output's labels are the inputs'
// is not checked.
absl::StatusOr<EinsumLabels> ParseEinsum(std::string equation, absl::Span<const int> ranks);

// The first two dims of one label, if there are such. They become one, which is the last, as aten::diagonal has it.
std::optional<std::pair<int64_t, int64_t>> TakeRepeatedLabel(std::string* labels);

}  // namespace smelt

#endif  // SMELT_CORE_OP_EINSUM_H_
