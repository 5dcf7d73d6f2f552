#include "smelt/fuser/move_reshapes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {
namespace {

using Sizes = std::vector<Expr>;

class ReshapeMover {
 public:
  ReshapeMover(Graph& g, BlockId b) : g_(g), block_(b) {}

  int Run() {
    const std::vector<NodeId> nodes = g_.Nodes(block_);
    // Views disappear as their bases are moved.
    for (NodeId n : nodes) {
      if (g_.IsLive(n)) MoveBehind(n);
    }
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if (g_.IsLive(*it)) MoveAhead(*it);
    }
    return moved_;
  }

 private:
  // --- what values and nodes are ---

  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  bool IsTensor(ValueId v) const { return g_.value(v).type.IsTensor(); }
  // Returns whether an operand is broadcast to any sizes `to` as it is.
  bool IsBroadcast(ValueId v, const Sizes& to) const {
    const Sizes& sizes = *T(v).sizes;
    return sizes.size() <= to.size() && Product(to) != Expr(1) &&
           absl::c_all_of(sizes, [](const Expr& size) { return size == Expr(1); });
  }
  // Returns the node that makes v in this block, unless v is a parameter of the block.
  std::optional<NodeId> Maker(ValueId v) const {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).parent != block_) return std::nullopt;
    return def;
  }
  OpKind KindOf(NodeId n) const { return GetOpInfo(g_.node(n).op).kind; }
  bool IsView(NodeId n) const { return g_.node(n).op == op::kSmeltView; }
  // Returns whether the result is one dense tensor with the sizes that its operands are broadcast to.
  bool IsPointwise(NodeId n) const {
    const Node& node = g_.node(n);
    if (KindOf(n) != OpKind::kPointwise || node.outputs.size() != 1) return false;
    if (!IsDense(node.outputs[0])) return false;
    return absl::c_all_of(node.inputs, [&](ValueId v) { return !IsTensor(v) || T(v).IsComplete(); });
  }
  bool IsDense(ValueId v) const {
    if (!IsTensor(v) || !T(v).IsComplete()) return false;
    return *T(v).strides == ContiguousStrides(*T(v).sizes);
  }
  // Returns the base, if the view shows all of it in the order of its elements, in another shape. (Dims of size 1 split
  // no loop.)
  std::optional<ValueId> Reshaped(NodeId view) const {
    if (!IsView(view) || g_.node(view).FindAttribute("argument") != nullptr) return std::nullopt;
    const ValueId base = g_.node(view).inputs[0];
    const SymbolicGeometry shown = RegionGeometry(g_.node(view));
    if (!IsDense(base) || shown.offset != Expr(0) || shown.dtype != *T(base).dtype ||
        Dims(shown.sizes) == Dims(*T(base).sizes) || shown.strides != ContiguousStrides(shown.sizes) ||
        Product(shown.sizes) != Product(*T(base).sizes)) {
      return std::nullopt;
    }
    return base;
  }
  static Sizes Dims(Sizes sizes) {
    sizes.erase(std::remove(sizes.begin(), sizes.end(), Expr(1)), sizes.end());
    return sizes;
  }

  // --- a node over another shape ---

  // Returns the memory and the geometry with which a loop over `to` reads the operand of a loop over `from`; nullopt if
  // that needs a copy.
  std::optional<std::pair<ValueId, SymbolicGeometry>> SeenOver(ValueId v, const Sizes& from, const Sizes& to) const {
    auto [root, s] = ShownMemory(g_, v);
    if (const NodeId def = g_.value(v).def; !g_.IsParam(def) && g_.node(def).FindAttribute("argument") != nullptr)
      return std::nullopt;
    SymbolicDecide decide(&g_.symbols);
    const auto expanded = view_rules::Expand(decide, ExprGeometry{s.sizes, s.strides, s.offset}, from);
    if (!expanded.ok()) return std::nullopt;
    const auto reshaped = view_rules::Reshape(decide, *expanded, to);
    if (!reshaped.ok() || !reshaped->aliases || !decide.status().ok() || !decide.assumptions().empty())
      return std::nullopt;
    s.sizes = reshaped->geometry.sizes;
    s.strides = reshaped->geometry.strides;
    s.offset = reshaped->geometry.offset;
    return std::pair(root, std::move(s));
  }

  bool ShowsAsIs(ValueId base, const SymbolicGeometry& s) const {
    const TensorType& t = T(base);
    return s.offset == Expr(0) && s.dtype == *t.dtype && s.sizes == *t.sizes && s.strides == *t.strides;
  }
  ValueId View(NodeId anchor, ValueId base, const SymbolicGeometry& s) {
    return ShowsAsIs(base, s) ? base : g_.node(InsertView(g_, anchor, base, s)).outputs[0];
  }

  // Returns whether a reader of it may take its memory over.
  bool HasOwnerOfMemory(ValueId v) const {
    return absl::c_any_of(g_.value(v).uses, [&](const Use& use) {
      return !g_.IsReturn(use.user) && !IsView(use.user) &&
             absl::StartsWith(g_.node(use.user).op.name(), op::kSmeltNamespace);
    });
  }

  // Returns whether each operand of `n`, a pointwise operator, can be seen over `to`, and every reader of its result
  // can read a view.
  bool CanRunOver(NodeId n, const Sizes& to) const {
    if (HasOwnerOfMemory(g_.node(n).outputs[0])) return false;
    const Sizes from = *T(g_.node(n).outputs[0]).sizes;
    return absl::c_all_of(g_.node(n).inputs, [&](ValueId v) {
      return !IsTensor(v) || IsBroadcast(v, to) || SeenOver(v, from, to).has_value();
    });
  }

  // Replaces it by the same operator over `to`. Its readers see the old shape through a view, or read the new one
  // directly.
  ValueId RunOver(NodeId n, const Sizes& to) {
    const TensorType was = T(g_.node(n).outputs[0]);
    std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    for (ValueId& v : inputs) {
      if (!IsTensor(v) || IsBroadcast(v, to)) continue;
      const auto [root, s] = *SeenOver(v, *was.sizes, to);
      v = View(n, root, s);
    }
    const NodeId fresh =
        g_.InsertBefore(n, g_.node(n).op, inputs, {Type::Tensor(*was.dtype, to)}, g_.node(n).attributes);
    g_.SetSource(fresh, g_.node(n).source);
    return ReplaceShown(n, g_.node(fresh).outputs[0]);
  }

  // Replaces the node's result by the same memory in another shape.
  ValueId ReplaceShown(NodeId n, ValueId result) {
    const ValueId old = g_.node(n).outputs[0];
    const TensorType was = T(old);
    const std::vector<Use> uses(g_.value(old).uses.begin(), g_.value(old).uses.end());
    for (const Use& use : uses) {
      if (g_.IsReturn(use.user) || !IsView(use.user)) continue;
      if (ShowsAsIs(result, RegionGeometry(g_.node(use.user)))) {
        g_.ReplaceAllUses(g_.node(use.user).outputs[0], result);
        g_.Erase(use.user);
      } else {
        g_.SetInput(use.user, use.index, result);
      }
    }
    if (!g_.value(old).uses.empty())
      g_.ReplaceAllUses(old, View(n, result, SymbolicGeometry{*was.dtype, *was.sizes, *was.strides, Expr(0)}));
    g_.Erase(n);
    ++moved_;
    return result;
  }

  // --- behind: operators that follow a row ---

  // Returns whether it shows the results of reducing rows, or was made of those alone.
  bool IsOfRows(ValueId v) const {
    const ValueId root = ShownMemory(g_, v).first;
    const std::optional<NodeId> maker = Maker(root);
    return maker && (KindOf(*maker) == OpKind::kReduction || row_numbers_.contains(root));
  }
  // Returns whether the value stands in a loop with a reduction whose result it is made with.
  bool FollowsRow(NodeId n) const {
    const Expr all = Product(*T(g_.node(n).outputs[0]).sizes);
    return absl::c_any_of(g_.node(n).inputs, [&](ValueId v) {
      if (!IsTensor(v)) return false;
      if (in_rows_.contains(v)) return true;
      return IsOfRows(v) && Product(*T(v).sizes) != all;
    });
  }

  // Stores the results of rows in another order: in the rows' own shape, if that needs no copy.
  void MoveCopyBehind(NodeId n) {
    const ValueId out = g_.node(n).outputs[0];
    const std::optional<NodeId> view = Maker(g_.node(n).inputs[0]);
    const auto base = view ? Reshaped(*view) : std::nullopt;
    if (!base || !in_rows_.contains(*base) || !T(out).IsComplete() || HasOwnerOfMemory(out)) return;
    SymbolicDecide decide(&g_.symbols);
    const auto lies =
        view_rules::Reshape(decide, ExprGeometry{*T(out).sizes, *T(out).strides, Expr(0)}, *T(*base).sizes);
    if (!lies.ok() || !lies->aliases || !decide.status().ok() || !decide.assumptions().empty()) return;
    const std::vector<Expr>& strides = lies->geometry.strides;
    const NodeId copy = g_.InsertBefore(
        n, g_.node(n).op, {*base}, {Type::Tensor(*T(*base).dtype, *T(*base).sizes, strides)}, {{"strides", strides}});
    g_.SetSource(copy, g_.node(n).source);
    in_rows_.insert(ReplaceShown(n, g_.node(copy).outputs[0]));
  }

  void MoveBehind(NodeId n) {
    if (g_.node(n).op == op::kSmeltMaterialize) return MoveCopyBehind(n);
    if (!IsPointwise(n)) return;
    const ValueId out = g_.node(n).outputs[0];
    if (FollowsRow(n)) {
      in_rows_.insert(out);
      return;
    }
    // sqrt(mean + eps): computed from the rows' numbers.
    if (absl::c_any_of(g_.node(n).inputs, [&](ValueId v) { return IsTensor(v) && IsOfRows(v); }))
      row_numbers_.insert(out);
    std::optional<Sizes> to;
    for (ValueId v : g_.node(n).inputs) {
      if (!IsTensor(v)) continue;
      const std::optional<NodeId> maker = Maker(v);
      if (!maker) continue;
      if (const auto base = IsView(*maker) ? Reshaped(*maker) : std::nullopt; base && in_rows_.contains(*base)) {
        if (to && *to != *T(*base).sizes) return;
        to = *T(*base).sizes;
      } else if (*T(v).sizes == *T(out).sizes && Shares(*maker)) {
        return;  // it may be one loop with that
      }
    }
    if (!to || !CanRunOver(n, *to)) return;
    for (const Use& use : g_.value(out).uses) {
      if (!g_.IsReturn(use.user) && KindOf(use.user) == OpKind::kReduction) return;
    }
    in_rows_.insert(RunOver(n, *to));
  }
  // Returns whether a kernel makes the result of the node.
  bool Shares(NodeId n) const { return KindOf(n) == OpKind::kPointwise || KindOf(n) == OpKind::kReduction; }

  // --- ahead: operators that feed rows ---

  void MoveAhead(NodeId n) {
    if (!IsPointwise(n)) return;
    const ValueId out = g_.node(n).outputs[0];
    if (in_rows_.contains(out) || row_numbers_.contains(out)) return;  // they have a loop
    std::optional<Sizes> to;
    bool feeds = false;
    for (const Use& use : g_.value(out).uses) {
      if (g_.IsReturn(use.user)) continue;
      if (g_.node(use.user).parent != block_) return;
      if (!IsView(use.user)) {
        if (Shares(use.user)) return;  // it may be one loop with that
        continue;
      }
      if (!Reshaped(use.user)) return;
      const ValueId shown = g_.node(use.user).outputs[0];
      if (to && *to != *T(shown).sizes) return;
      to = *T(shown).sizes;
      for (const Use& reader : g_.value(shown).uses) {
        if (g_.IsReturn(reader.user)) continue;
        const auto& made = g_.node(reader.user).outputs;
        feeds = feeds || KindOf(reader.user) == OpKind::kReduction || (made.size() == 1 && ahead_.contains(made[0]));
      }
    }
    if (!feeds || !CanRunOver(n, *to)) return;
    ahead_.insert(RunOver(n, *to));
  }

  Graph& g_;
  const BlockId block_;
  absl::flat_hash_set<ValueId> in_rows_, row_numbers_, ahead_;
  int moved_ = 0;
};

int MoveIn(Graph& g, BlockId b) {
  int moved = ReshapeMover(g, b).Run();
  for (NodeId n : g.Nodes(b)) {
    const std::vector<BlockId> blocks(g.node(n).blocks.begin(), g.node(n).blocks.end());
    for (BlockId inner : blocks) moved += MoveIn(g, inner);
  }
  return moved;
}

}  // namespace

int MoveReshapes(Graph& g) { return MoveIn(g, g.top()); }

Pass MoveReshapesPass() {
  return {.name = "move-reshapes",
          .description = "reshapes that part two loops are moved past pointwise operators",
          .prerequisites = {"expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return MoveReshapes(g) > 0; }};
}

}  // namespace smelt
