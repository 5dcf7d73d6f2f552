// Writes at indices from data: the actions of a group. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_WRITES_H_
#define SMELT_FUSER_LOWER_WRITES_H_

#include "absl/status/status.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

// Emits the store of each element that the action of `r` writes.
absl::Status EmitIndexedWrite(Lowering& l, const Root& r);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_WRITES_H_
