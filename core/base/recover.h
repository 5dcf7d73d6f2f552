// The last line of defence around a compilation: a bug of smelt that causes a failed SMELT_CHECK or an exception ends
// the work, not the process that asked for it.
//
//   absl::Status s = Recovered("compile", [&]() -> absl::Status {
//     WorksOnPass("fuse");
//     return Fuse(graph);        // a CHECK fails in here
//   });
//   s.message() == "fuse: aten::add.Tensor (model.py:3): fuse.cc:41: check failed: n > 0; this is a bug in smelt"
//
// Within `work`, on this thread, a failed check throws. That is the one exception that smelt throws, and it ends here,
// as do those of the standard library; everything else returns a Status. Threads that `work` starts need a Recovered of
// their own. Objects are destroyed as their scopes are left, so that temporary files disappear and locks open. Other
// memory that `work` wrote is in an unknown state and must be discarded. A check that fails while a destructor runs,
// and every signal (SIGSEGV, a stack overflow), still ends the process.
#ifndef SMELT_CORE_BASE_RECOVER_H_
#define SMELT_CORE_BASE_RECOVER_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

// Notes the pass and the node that this thread works on, for the message of a failure. A new pass clears the node. A
// node is its operator and its source location in the model, which may be empty. Both cost a copy of a short string,
// and nothing outside of a Recovered.
void WorksOnPass(absl::string_view pass);
void WorksOnNode(absl::string_view op, absl::string_view source);

// Returns the status of `work`; or an Internal error that names the pass and the node, or ResourceExhausted if memory
// or threads ran out. `pass` is the first pass.
absl::Status Recovered(absl::string_view pass, absl::FunctionRef<absl::Status()> work);

template <typename T>
absl::StatusOr<T> Recovered(absl::string_view pass, absl::FunctionRef<absl::StatusOr<T>()> work) {
  absl::StatusOr<T> result = absl::UnknownError("not run");
  const absl::Status status = Recovered(pass, [&]() -> absl::Status {
    result = work();
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_RECOVER_H_
