// The layouts of an eager-order program's results: kernels compute contiguous ones, and PyTorch may lay out others.
// Internal.
#ifndef SMELT_RUNTIME_EAGER_LAYOUTS_H_
#define SMELT_RUNTIME_EAGER_LAYOUTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/eager_memory.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// Returns the layout of each result of a computing instruction, from the layouts that its operands have now.
absl::StatusOr<std::vector<EvaluatedLayout>> LayoutsOfResults(const fb::EagerInstrT& i, const EagerValues& values);

// Returns a tensor with the elements of `t`, a result of the instruction, in memory with the given layout: `t` itself
// if it has that layout.
absl::StatusOr<Tensor> LaidOut(const fb::EagerInstrT& i, const EagerValues& values, const EagerMemory& memory,
                               const Tensor& t, const EvaluatedLayout& layout);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_LAYOUTS_H_
