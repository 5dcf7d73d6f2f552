#include "smelt/functionalize/sharing_checks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {
namespace {

constexpr char kSharingMessage[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

// Inserts checks for the call of facts that CheckSharing cannot decide.
void CheckSharingAtTheCall(ProgramWalk& walk, TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  if (!walk.checked.Insert({written, read, rule})) return;
  const bool partly = rule == OperandSharing::kNotPartly;
  const NodeId n =
      walk.g.InsertBefore(anchor, OpName::Get(partly ? op::kSmeltAssertNoPartialOverlap : op::kSmeltAssertNoOverlap),
                          {ElementsInMemory(walk, written, anchor), ElementsInMemory(walk, read, anchor)}, {});
  if (!partly) walk.g.SetAttribute(n, "rule", static_cast<int64_t>(rule));
  walk.g.SetSource(n, walk.at.source);
}

absl::Status CheckOrder(ProgramWalk& walk, TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  const SymbolicGeometry &a = walk.tensors[written].geometry, &b = walk.tensors[read].geometry;
  const Overlap overlap = Compare(RegionOf(a), RegionOf(b), walk.g.symbols);
  const bool whole = rule == OperandSharing::kNotPartly || rule == OperandSharing::kWholeOrNone;
  if (overlap == Overlap::kDisjoint || (whole && overlap == Overlap::kSame)) return absl::OkStatus();
  const absl::Status refused = WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  const absl::Status in_order = absl::UnimplementedError(kReadsWhatItWrote);
  // Indices decide whether the operand changes: the eager-order plan looks at them.
  if (rule == OperandSharing::kNone && overlap != Overlap::kUnknown) return in_order;
  if (rule != OperandSharing::kNotPartly && overlap != Overlap::kUnknown) return refused;
  const std::optional<Geometry> to = ConcreteGeometry(a), from = ConcreteGeometry(b);
  if (rule == OperandSharing::kNotPartly && to && from) {
    ConcreteDecide decide;
    absl::StatusOr<Geometry> broadcast = view_rules::Expand(decide, *from, to->sizes);
    if (!broadcast.ok()) return absl::OkStatus();  // what does not fit is refused elsewhere
    const ElementOrder order =
        OrderOfElements({*to, nullptr, a.dtype}, {PlacedGeometry{*std::move(broadcast), nullptr, b.dtype}});
    return order.effect == OrderEffect::kNone   ? absl::OkStatus()
           : order.effect == OrderEffect::kOpen ? refused
                                                : in_order;
  }
  if (walk.at.block_depth > 0) return in_order;
  CheckSharingAtTheCall(walk, written, read, rule, anchor);
  return absl::OkStatus();
}

}  // namespace

void ForgetChecks(ProgramWalk& walk, TensorId t) {
  walk.checked.EraseIf([&](const ProgramWalk::Check& c) { return std::get<0>(c) == t || std::get<1>(c) == t; });
}

absl::Status CheckSharing(ProgramWalk& walk, TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  if (walk.tensors[written].memory != walk.tensors[read].memory) return absl::OkStatus();
  const bool whole = rule == OperandSharing::kNotPartly || rule == OperandSharing::kWholeOrNone;
  if (written == read) {
    if (whole) return absl::OkStatus();
    // PyTorch does not look at the elements if the operand is the written tensor itself.
    return rule == OperandSharing::kNone
               ? absl::FailedPreconditionError(kSharingMessage)
               : WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  }
  const SymbolicGeometry &a = walk.tensors[written].geometry, &b = walk.tensors[read].geometry;
  const bool same_home = walk.tensors[written].home == walk.tensors[read].home;
  // They are exactly the same elements. PyTorch compares the strides of dims of size 1, too.
  if (whole && same_home && SameGeometry(a, b) && a.strides == b.strides) return absl::OkStatus();
  if (walk.memories[walk.tensors[written].memory].shared && (!same_home || walk.options.symbolic_strides)) {
    // The places of the arguments are known at the call.
    CheckSharingAtTheCall(walk, written, read, rule, anchor);
    return absl::OkStatus();
  }
  const bool looked_at = rule == OperandSharing::kNotPartly || rule == OperandSharing::kNone;
  if (!looked_at || !IsDense(a, walk.g.symbols) || !IsDense(b, walk.g.symbols)) {
    // They are the same elements by other strides. PyTorch looks at a call whose sizes leave no gaps, and refuses it.
    const bool open = std::any_of(a.sizes.begin(), a.sizes.end(), [](const Expr& s) { return !s.IsConstant(); });
    if (looked_at && open && Compare(RegionOf(a), RegionOf(b), walk.g.symbols) == Overlap::kSame)
      CheckSharingAtTheCall(walk, written, read, rule, anchor);
    return CheckOrder(walk, written, read, rule, anchor);
  }
  const Overlap overlap = Compare(RegionOf(a), RegionOf(b), walk.g.symbols);
  // (Also for an operand of another dtype.)
  const bool very_same = overlap == Overlap::kSame && a.sizes == b.sizes && a.strides == b.strides;
  if (overlap == Overlap::kDisjoint || (whole && very_same)) return absl::OkStatus();
  if (overlap == Overlap::kUnknown) {
    return absl::UnimplementedError("a write beside an operand that may overlap it, which the sizes leave open");
  }
  return absl::FailedPreconditionError(kSharingMessage);
}

absl::Status CheckSharing(ProgramWalk& walk, TensorId written, ValueId operand, OperandSharing rule, NodeId anchor) {
  if (const TensorId* t = walk.tensor_of.Find(operand)) return CheckSharing(walk, written, *t, rule, anchor);
  // Neither a tensor nor a list of tensors.
  const TypeKind kind = walk.g.value(operand).type.kind();
  if (kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kBool || kind == TypeKind::kNone)
    return absl::OkStatus();
  if (auto it = walk.tensor_lists.find(operand); it != walk.tensor_lists.end()) {
    for (TensorId t : it->second) SMELT_RETURN_IF_ERROR(CheckSharing(walk, written, t, rule, anchor));
  } else if (auto it = walk.lists.find(operand); it != walk.lists.end()) {
    for (ValueId v : it->second) SMELT_RETURN_IF_ERROR(CheckSharing(walk, written, v, rule, anchor));
  }
  return absl::OkStatus();
}

}  // namespace smelt
