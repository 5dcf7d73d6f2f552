// The pure operator that computes what an in-place or out= operator writes.
#ifndef SMELT_FUNCTIONALIZE_FUNCTIONAL_COUNTERPART_H_
#define SMELT_FUNCTIONALIZE_FUNCTIONAL_COUNTERPART_H_

#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"

namespace smelt {

struct FunctionalCounterpart {
  OpName op;
  static constexpr int kNone = -1, kDTypeOfWritten = -2;
  // For each argument of `op`: an argument of the writing operator, or one of these two.
  std::vector<int> arguments;
  struct Result {
    int argument = -1;        // the argument of the writing operator that receives this result; -1: it is not written
    bool may_resize = false;  // out=: the argument takes the result's sizes
  };
  std::vector<Result> results;        // for each result of `op`
  std::vector<int> result_of_output;  // for each output of the writing operator
  bool fills = false;                 // a range: PyTorch keeps the dims of a tensor of as many elements
  // For each argument of the writing operator, the places that it may have relative to the written tensor; empty if
  // any.
  std::vector<OperandSharing> sharing;
};

// E.g. aten::add_.Tensor -> aten::add.Tensor; aten::max.dim_max -> aten::max.dim. Unimplemented if none is known.
absl::StatusOr<FunctionalCounterpart> FindFunctionalCounterpart(const FunctionSchema& schema);

// FillsSomeElements of write_rules.h, for the operands of a node.
bool FillsSomeElements(OpName writes, const Graph& g, absl::Span<const ValueId> inputs);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_FUNCTIONAL_COUNTERPART_H_
