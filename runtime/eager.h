// The eager-order plan: the program as it was written, one operator at a time, on the caller's own tensors. Whatever
// memory the arguments, states and views share, the answer is eager PyTorch's, because the steps are. Internal.
//
// This part dispatches instructions and runs control flow. The jobs of others: eager_compute.h calls kernels and writes
// their results, eager_memory.h undoes a call that fails, eager_views.h makes views, eager_python.h computes numbers
// and containers, eager_custom.h calls operators of the user's own.
#ifndef SMELT_RUNTIME_EAGER_H_
#define SMELT_RUNTIME_EAGER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/bound_call.h"
#include "smelt/runtime/eager_calls.h"
#include "smelt/runtime/eager_compute.h"
#include "smelt/runtime/eager_memory.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {

// One call.
class EagerRun {
 public:
  // `calls` are the kernels of the program.
  EagerRun(BoundCall& call, ThreadPool* pool, int width, const fb::EagerProgramT& program, EagerCalls& calls,
           CallStats& stats);

  // If it fails, nothing that the caller sees has changed.
  absl::Status Run(absl::Span<const Datum> args, std::vector<Datum>* outputs);

 private:
  absl::Status BindInputs(absl::Span<const Datum> args);
  absl::Status Finish(std::vector<Datum>* outputs);

  absl::Status RunBlock(int index);
  absl::Status RunInstruction(const fb::EagerInstrT& i);
  absl::Status RunGroup(const fb::EagerInstrT& i);
  absl::Status RunIf(const fb::EagerInstrT& i);
  absl::Status RunLoop(const fb::EagerInstrT& i);
  absl::Status RunWhile(const fb::EagerInstrT& i);

  absl::Status MakeView(const fb::EagerInstrT& i);
  absl::Status ChangeView(const fb::EagerInstrT& i);  // t_, squeeze_
  absl::Status ComputeNumber(const fb::EagerInstrT& i);
  absl::Status SetSymbol(int symbol, const PythonValue& v);
  absl::Status Resize(const fb::EagerInstrT& i);
  absl::Status SetStorage(const fb::EagerInstrT& i);
  absl::Status Custom(const fb::EagerInstrT& i);

  BoundCall& call_;
  const fb::EagerProgramT& p_;
  EagerValues values_;
  EagerMemory memory_;
  EagerComputer computer_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_H_
