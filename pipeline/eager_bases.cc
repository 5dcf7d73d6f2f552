#include "smelt/pipeline/eager_bases.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/schema/eager_ops.h"

namespace smelt {
namespace {

// Views that show each element of their operand once at most, in places that depend on its sizes alone.
bool ShowsByIndex(OpName op) {
  static const auto* const kNames = new absl::flat_hash_set<absl::string_view>{
      op::kAlias, op::kDetach,  op::kDiagonal, op::kMovedim, op::kNarrow,    op::kPermute,   op::kSelect,
      op::kSlice, op::kSqueeze, op::kSwapaxes, op::kT,       op::kTranspose, op::kUnsqueeze, op::kView};
  return kNames->contains(op.name());
}

}  // namespace

EagerBases::EagerBases(const Graph& g, const AliasDb& db) : g_(g), db_(db) {
  for (NodeId n : g.AllNodes()) {
    // A tensor that takes another geometry later does not lie in its view's base any more.
    if (IsRepeatable(n) && !db.Memory(g.node(n).inputs[0]).geometry_changes &&
        !db.Memory(g.node(n).outputs[0]).geometry_changes)
      views_.insert(n);
  }
}

ValueId EagerBases::Name(ValueId v) const {
  while (true) {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def)) return v;
    const bool writes = GetOpInfo(g_.node(def).op).kind == OpKind::kInplace || g_.node(def).op == op::kCopyInPlace;
    if (!writes || g_.node(def).inputs.empty()) return v;
    v = g_.node(def).inputs[0];
  }
}

ValueId EagerBases::Base(ValueId v) const {
  while (true) {
    v = Name(v);
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || !IsView(def)) return v;
    v = g_.node(def).inputs[0];
  }
}

bool EagerBases::IsRepeatable(NodeId n) const {
  constexpr int64_t kFewElements = 1 << 12, kMostTimes = 4;
  const Node& node = g_.node(n);
  if (node.outputs.size() != 1 || !ShowsByIndex(node.op) || !IsEagerViewOp(node.op.full()) ||
      GetOpInfo(node.op).kind != OpKind::kView || GetOpTraits(node.op).may_alias)
    return false;
  // Numbers that only the call knows may be out of range.
  for (size_t k = 1; k < node.inputs.size(); ++k) {
    const auto list = GetListElements(g_, node.inputs[k]);
    const auto is_constant = [&](ValueId v) { return GetConstant(g_, v).has_value(); };
    if (list ? !absl::c_all_of(*list, is_constant) : !is_constant(node.inputs[k])) return false;
  }
  const Type &from = g_.value(node.inputs[0]).type, &to = g_.value(node.outputs[0]).type;
  if (!from.IsTensor() || !to.IsTensor() || !from.tensor().dtype || from.tensor().dtype != to.tensor().dtype)
    return false;
  const int64_t elements = NumElements(node.inputs[0]), shown = NumElements(node.outputs[0]);
  return elements >= 0 && shown >= 0 && (elements <= kFewElements || elements <= kMostTimes * shown);
}

int64_t EagerBases::NumElements(ValueId v) const {
  if (!g_.value(v).type.tensor().sizes) return -1;
  int64_t elements = 1;
  for (const Expr& e : *g_.value(v).type.tensor().sizes) {
    const absl::StatusOr<int64_t> size = e.Evaluate(g_.symbol_hints);
    if (!size.ok() || *size < 0 || __builtin_mul_overflow(elements, *size, &elements)) return -1;
  }
  return elements;
}

}  // namespace smelt
