// The kernels of an eager-order program: each call is a small bundle of its own, which an executor runs. Internal.
#ifndef SMELT_RUNTIME_EAGER_CALLS_H_
#define SMELT_RUNTIME_EAGER_CALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/exec/value.h"
#include "smelt/runtime/eager_functions.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class Executor;

// The calls of one plan, which are made when they first run and kept for later calls of the plan.
class EagerCalls {
 public:
  // `calls` are those of the program. `random` is where they draw from; it must outlive this object.
  EagerCalls(const std::vector<std::shared_ptr<const Executable>>& calls, const fb::EagerProgramT& program,
             const InstanceOptions& options, Generator* random);
  ~EagerCalls();

  // Returns whether a call of few elements needs no launch.
  bool HasFunction(int call) const { return functions_.Has(call); }
  // Runs a call on contiguous copies of its operands, so that no kernel sees shared memory. If `shape` is given, the
  // operands that have dims are broadcast to it and passed in one dim. A call of few elements with a scalar function
  // needs no launch. Adds the launches to `stats`.
  absl::StatusOr<std::vector<Datum>> Run(int call, absl::Span<const PythonValue> inputs,
                                         const std::vector<int64_t>* shape, CallStats* stats);

 private:
  Executor& Get(int call);

  const std::vector<std::shared_ptr<const Executable>>& calls_;
  const EagerFunctions functions_;
  InstanceOptions options_;
  Generator* random_;
  std::vector<std::unique_ptr<Executor>> made_;  // by call
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_CALLS_H_
