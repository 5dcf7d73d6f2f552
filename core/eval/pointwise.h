// Pointwise operators and reductions, by their meanings in core/op: the scalar function of each is evaluated for one
// element after the other. Complex numbers, which scalar functions do not have, are computed here. Private to core/eval.
#ifndef SMELT_CORE_EVAL_POINTWISE_H_
#define SMELT_CORE_EVAL_POINTWISE_H_

#include "absl/status/statusor.h"
#include "smelt/core/eval/run.h"

namespace smelt::eval_internal {

// `c` is of an operator with BuildPointwise.
absl::StatusOr<Values> Pointwise(Call& c);
// `c` is of an operator with BuildReduction: a reduction or a scan. Elements are combined in row-major order.
absl::StatusOr<Values> Reduction(Call& c);

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_POINTWISE_H_
