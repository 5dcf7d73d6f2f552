// The instructions of an eager-order program that compute: pure calls of kernels, whose results are new tensors or are
// written to given ones. Internal.
#ifndef SMELT_RUNTIME_EAGER_COMPUTE_H_
#define SMELT_RUNTIME_EAGER_COMPUTE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/eager_calls.h"
#include "smelt/runtime/eager_memory.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/runtime/eager_write_rules.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerComputer {
 public:
  // All must outlive this object.
  EagerComputer(EagerValues& values, EagerMemory& memory, EagerCalls& calls, CallStats& stats)
      : values_(values), memory_(memory), calls_(calls), stats_(stats) {}

  absl::Status Compute(const fb::EagerInstrT& i);
  // Does the work of a group's block by one call. Returns false, without having done anything, where it does not apply:
  // a tensor lies in memory that the group writes, or the call refuses its operands.
  absl::StatusOr<bool> ComputeGroup(const fb::EagerInstrT& i);
  // copy_, with a conversion if the dtypes differ.
  absl::Status Copy(const fb::EagerInstrT& i);

 private:
  // Checks the written tensors before anything is computed, as PyTorch does. Returns true if the whole instruction is
  // done: it reads what it writes, element by element.
  absl::StatusOr<bool> PrepareTargets(const fb::EagerInstrT& i, absl::Span<const PythonValue> inputs,
                                      const std::vector<int64_t>& shape);
  absl::Status StoreToTarget(const fb::EagerInstrT& i, size_t output, const Tensor& result,
                             const EvaluatedLayout& layout);
  // Makes an elementwise write in PyTorch's order if that matters. `call` computes an element; if it is negative, the
  // element is copied.
  absl::StatusOr<bool> WriteElements(const Tensor& to, absl::Span<const PythonValue> read, int call);
  absl::StatusOr<std::vector<Datum>> Call(int call, absl::Span<const PythonValue> inputs,
                                          const std::vector<int64_t>* shape) {
    return calls_.Run(call, inputs, shape, &stats_);
  }

  EagerValues& values_;
  EagerMemory& memory_;
  EagerCalls& calls_;
  CallStats& stats_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_COMPUTE_H_
