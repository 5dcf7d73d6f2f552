// The instance: binds a plan to a call's sizes, and runs it. Internal.
//
// A call checks the arguments against the signature and reads the symbols (signature.h), finds shared memory
// (sharing.h) and chooses a plan (classify.h) that takes the arguments' strides (argument_strides.h) and the states where
// they are (state_store.h), binds it to the symbols, or reuses the binding of an earlier call with the same symbols
// (bind.h), sets the addresses, runs the steps (steps.h), and returns the results.
#ifndef SMELT_RUNTIME_EXECUTOR_H_
#define SMELT_RUNTIME_EXECUTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "smelt/runtime/argument_strides.h"
#include "smelt/runtime/bind.h"
#include "smelt/runtime/bound_call.h"
#include "smelt/runtime/classify.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/instance_memory.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/steps.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/runtime/written_memory.h"

namespace smelt {

class EagerCalls;

class Executor : public Instance {
 public:
  // A call of an eager-order program draws from its instance's generator, `random`.
  Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options, Generator* random = nullptr);
  // The part of the instance `whole` for one method.
  Executor(std::shared_ptr<const Executable> method, const InstanceOptions& options, const Executor& whole);
  ~Executor() override;
  absl::Status Init();

  absl::Status RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) override;
  absl::StatusOr<StartedCall> StartInto(absl::Span<const Datum> args, std::vector<Datum> outputs,
                                        uint64_t stream) override;
  absl::StatusOr<Instance*> Method(absl::string_view name) override;
  Tensor state(int index) const override { return memory_->states.tensors()[index]; }
  absl::Status ResetStates() override;
  std::vector<StepTime> step_times() const override { return runner_.step_times(); }
  void Seed(uint64_t seed) override { memory_->generator = Generator{seed, 0}; }

 private:
  Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options,
           std::shared_ptr<InstanceMemory> memory, Generator* random);

  // --- on a device other than the host ---
  // Gives a call to the device. *pending is null if it is over.
  absl::Status StartOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs, uint64_t stream,
                             std::shared_ptr<PendingCall>* pending);
  // Runs a call there. Its arguments come from the host and go back to it if it is an eager-order program's.
  absl::Status RunOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status RunInner(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Runs the bound plan there.
  absl::Status RunPlanOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Returns the end of the call that was given to the device; null if it is over.
  std::shared_ptr<PendingCall> TakePending(absl::Span<const Datum> args);
  bool HasIndexChecks() const;
  // Lets the device check the indices that are arguments, where the host does not.
  absl::Status CheckIndicesOnDevice();
  // Runs a plan in eager order on the host, with all storages that the call sees.
  absl::Status RunEagerOnHost(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs);

  // --- in eager order ---
  absl::Status RunEager(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Called if another plan was chosen and has found that it cannot give the result (`why`).
  absl::Status RunEagerInstead(absl::Span<const Datum> args, std::vector<Datum>* outputs, const absl::Status& why);

  // --- a call ---
  // RunInto, but for memory that cannot be had before a plan is bound: throws then.
  absl::Status Call(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status SetAddresses(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status CheckCall();
  // Uses a tensor of the caller as the memory of a fresh slot, if that is possible.
  bool Adopt(int output, const Tensor& t, absl::Span<const Datum> args);
  absl::Status Finish(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status Build(const fb::OutputRefT& o, absl::Span<const Datum> args, Datum* out);
  void Release();

  std::shared_ptr<const Executable> program_;
  const fb::BundleT& bundle_;
  ThreadPool* pool_;
  int width_;
  std::shared_ptr<InstanceMemory> memory_;
  std::vector<std::unique_ptr<Executor>> methods_;
  const bool is_inner_;  // a call of an eager-order program
  Generator* random_;
  GuardPages guard_;
  Signature signature_;
  ArgumentStrides strides_;
  WrittenMemory written_;
  PlanBinder binder_;
  CallClassifier classifier_;
  BoundCall call_;  // the current one
  StepRunner runner_;

  std::vector<std::unique_ptr<EagerCalls>> eager_calls_;  // by plan: made when it first runs in eager order
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EXECUTOR_H_
