// Runs the steps of a plan, in a call for which it is bound. Internal.
#ifndef SMELT_RUNTIME_STEPS_H_
#define SMELT_RUNTIME_STEPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/runtime/bind.h"
#include "smelt/runtime/bound_call.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/strided.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/runtime/written_memory.h"

namespace smelt {

class StepRunner {
 public:
  // The parts of the instance that steps use. They outlive this object.
  struct Parts {
    ThreadPool* pool;
    int width;  // of threads
    PlanBinder* binder;
    WrittenMemory* written;
    Generator* random;
    CallStats* stats;
  };
  StepRunner(BoundCall& call, const Parts& parts, bool time_steps);

  absl::Status RunBlock(int block, size_t end = SIZE_MAX);  // its steps before number `end`
  // Returns Aborted if only the eager-order plan has the answer.
  absl::Status RunCheck(const fb::CheckT& c);
  std::vector<StepTime> step_times() const;

 private:
  absl::Status RunStep(int block, int index);
  absl::Status RunTimed(int block, int index);
  // Computes the parts of a launch that are known only now: its words and its number of tiles.
  absl::Status CompleteLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch);
  absl::Status RunLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch, int step);
  // Sets operands_.
  absl::Status UseOperands(const fb::LibraryCallT& l);
  // Sets operands_. The op stays valid until the next call of this method.
  absl::StatusOr<const PreparedOp*> CompleteLibraryCall(const fb::LibraryCallT& l, int step);
  // Returns false if the host has to compute the step.
  absl::StatusOr<bool> RunLibraryOnDevice(const fb::LibraryCallT& l, int step, const std::string& source);
  absl::Status RunLibrary(const fb::LibraryCallT& l, int step, const std::string& source);
  // Runs the library call at `index` and the following launch, its epilogue: on each part of the result while that is
  // in the inner caches, if the operator reports parts that are whole tiles.
  absl::Status RunWithEpilogue(int block, int index);
  // On a device: both by one kernel.
  absl::Status RunJoined(int block, int index);
  absl::Status RememberBefore(int step);
  // Returns all that the plan writes of arguments and states; none if that is not known yet.
  std::vector<StridedSpan> WrittenSpans() const;
  absl::Status RunCopy(const fb::CopyT& c);
  absl::Status CheckSharing(fb::CheckKind kind, const PlacedGeometry& written, const PlacedGeometry& read);
  absl::Status RunReadScalar(const fb::ReadScalarT& r);
  absl::Status RunComputeNumber(const fb::ComputeNumberT& c);
  absl::Status RunRandom(const fb::RandomT& r, int step);
  absl::StatusOr<bool> FillOnDevice(const fb::RandomT& r, int step);
  absl::Status FillRandom(const fb::RandomT& r, const StridedSpan& out);
  absl::Status RunLibraryOnHost(const PreparedOp& op, const fb::LibraryCallT& l);

  // --- choices on a device ---
  // Returns whether a device decides without the host: a condition at `index` + 1 of a block, which is read at `index`,
  // or a loop at `index`.
  bool IsChoiceOnDevice(int block, int index);
  bool IsPredicateOnDevice(const fb::StepT& step, int predicate) const;
  bool CanRunInChoice(int block, size_t end = SIZE_MAX) const;
  // Gives both sides of such a condition, or such a loop, to the device.
  absl::Status ChooseOnDevice(int block, int index);
  absl::Status LoopOnDevice(const fb::WhileT& w);
  absl::StatusOr<ExecutionDevice::Predicate> PredicateOf(const fb::StepT& step);
  absl::Status RememberBeforeAll(int block);

  BoundCall& call_;
  ThreadPool* const pool_;
  const int width_;
  PlanBinder& binder_;
  WrittenMemory& written_;
  Generator* const random_;
  CallStats& stats_;
  int64_t status_[8] = {};
  // The operands of the library call that runs.
  struct LibraryOperands {
    std::shared_ptr<const PreparedOp> late_op;  // for sizes that the binding did not know
    std::vector<char*> inputs, outputs;
  } operands_;
  std::vector<std::vector<StepTime>> step_times_;  // by plan and step; empty: not measured
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_STEPS_H_
