// Binds a plan to a call's sizes: evaluates expressions, lays out views and words, checks sizes. The result is kept for
// later calls with the same sizes. Internal.
//
//   PlanBinder binder(program, signature, on_host, width);
//   SMELT_ASSIGN_OR_RETURN(BoundPlan* bound, binder.Bind(plan));   // for the symbols that `signature` has read
#ifndef SMELT_RUNTIME_BIND_H_
#define SMELT_RUNTIME_BIND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/runtime/bound_plan.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/signature.h"

namespace smelt {

class PlanBinder {
 public:
  // Both outlive this object. `width` is the number of threads.
  PlanBinder(const Executable& program, const Signature& signature, bool on_host, int width)
      : program_(program),
        signature_(signature),
        on_host_(on_host),
        width_(width),
        bound_plans_(program.plans().size()) {}

  // The plan stays bound until many other sizes have come.
  absl::StatusOr<BoundPlan*> Bind(int plan);
  static void BindView(const ExecutablePlan& plan, int v, BoundPlan* b);
  // Cuts the tiles of a launch into chunks for threads.
  void Slice(int64_t bytes, BoundPlan::Launch* launch) const;

 private:
  absl::Status BindNew(int plan, BoundPlan* out);
  // Prepares a library call or a draw whose sizes are known. `epilogue`: the step that is a call's, or null.
  absl::Status BindLibraryCall(const ExecutablePlan& plan, const fb::StepT& in_plan, const fb::StepT* epilogue,
                               int step, BoundPlan* b);
  void BindRandom(const ExecutablePlan& plan, const fb::RandomT& r, int step, BoundPlan* b);
  // ... or a library call and its epilogue, if the device has a kernel for both.
  void BindJoined(const LibraryRequest& request, const fb::StepT& epilogue, int step, BoundPlan* b);
  void CheckSizesOnly(const ExecutablePlan& plan, BoundPlan* b);

  const Executable& program_;
  const Signature& signature_;
  const bool on_host_;
  const int width_;
  std::vector<std::vector<std::unique_ptr<BoundPlan>>> bound_plans_;  // by plan, the last used first
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_BIND_H_
