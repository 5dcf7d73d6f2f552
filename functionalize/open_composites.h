// Replaces operators that hide a view, a write, or the very identity of their argument by what they do for the types at
// hand, so that afterwards each node's schema tells the truth about memory:
//
//   reshape     -> view, or clone + view                 to, type_as   -> the argument itself, or _to_copy
//   contiguous  -> the argument itself, or clone         dropout(eval) -> the argument itself
//   batch_norm in training -> its functional form and two copy_s      _foreach_add_ -> one add_ per tensor
//
// Every tensor value must have a complete type. If the sizes of a call decide whether PyTorch copies, a copy is made
// and marked (kMayAlias in memory.h): functionalization refuses programs that would show the difference.
#ifndef SMELT_FUNCTIONALIZE_OPEN_COMPOSITES_H_
#define SMELT_FUNCTIONALIZE_OPEN_COMPOSITES_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

struct OpenedComposites {
  // True if strides decided a choice (is a reshape a view? does contiguous return its argument?), so that the graph
  // holds only for these strides. This concerns arguments' strides: those of fresh tensors follow from the order of the
  // arguments' strides.
  bool strides_decide = false;
  // True if such a choice was made for a fresh tensor: the graph holds for this order of the arguments' dims in memory.
  bool order_decides = false;
};
enum class StrideChoices {
  kNow,        // as above
  kAtRunTime,  // reshape, contiguous, to and similar operators stay: the strides are checked when the graph runs
};
absl::StatusOr<OpenedComposites> OpenComposites(Graph& g, StrideChoices choices = StrideChoices::kNow);

// "open-composites". Reads StrideChoices and leaves OpenedComposites.
Pass OpenCompositesPass();

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_OPEN_COMPOSITES_H_
