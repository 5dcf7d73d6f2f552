// The state of an instance as a safetensors file: every parameter and buffer that calls write, by name. The random
// generator is not part of it.
#ifndef SMELT_RUNTIME_STATE_FILE_H_
#define SMELT_RUNTIME_STATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/program.h"

namespace smelt {

// The instance must be one of the program.
absl::Status SaveStates(const Program& program, const Instance& instance, const std::string& path);

// Checks all of the file before it changes a state: it must have those states, with their present dtype and sizes, and no
// others. InvalidArgument names the one that is wrong.
absl::Status LoadStates(const Program& program, Instance& instance, const std::string& path);

// Returns the number of the state of that name, or -1.
int FindState(const Program& program, absl::string_view name);
// Returns InvalidArgument unless `value` can become the contents of `state`, which is called `name`.
absl::Status CheckStateFits(const Tensor& state, absl::string_view name, const Tensor& value);
// Copies the elements, from one device to another where the tensors are on two. They have the same dtype and sizes.
absl::Status CopyIntoState(const Tensor& state, const Tensor& value);

}  // namespace smelt

#endif  // SMELT_RUNTIME_STATE_FILE_H_
