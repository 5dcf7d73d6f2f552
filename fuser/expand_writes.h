// Writes at indices from data: in place, or of one value where a mask is set. Internal to the fuser.
#ifndef SMELT_FUSER_EXPAND_WRITES_H_
#define SMELT_FUSER_EXPAND_WRITES_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/expansion.h"

namespace smelt {

absl::StatusOr<ExpansionStep> ExpandIndexedWrite(Expansion& edit, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUSER_EXPAND_WRITES_H_
