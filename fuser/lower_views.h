// Views, pads, cat and other operators that move elements by their index. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_VIEWS_H_
#define SMELT_FUSER_LOWER_VIEWS_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

absl::StatusOr<int> LowerView(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerOverlay(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerConstantPad(Lowering& l, NodeId n, const Index& index, int guard);
// `kind` is a reflection pad, a circular pad or a replication pad.
absl::StatusOr<int> LowerEdgePad(Lowering& l, NodeId n, OpFamily kind, const Index& index, int guard);
absl::StatusOr<int> LowerFlip(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerRoll(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerRepeat(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerRepeatInterleave(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerCat(Lowering& l, NodeId n, bool stack, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_VIEWS_H_
