#include "smelt/alias/live_passes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"

namespace smelt {

namespace {

std::vector<BlockId> AllBlocks(const Graph& g) {
  std::vector<BlockId> out = {g.top()};
  for (NodeId n : g.AllNodes()) {
    for (BlockId b : g.node(n).blocks) out.push_back(b);
  }
  return out;
}

bool IsInPlace(const Node& n) {
  const OpInfo& info = GetOpInfo(n.op);
  return info.kind == OpKind::kInplace && static_cast<bool>(info.functional) && n.outputs.size() == 1 &&
         n.inputs.size() >= 1 && n.op.name() != op::kCopyInPlace;
}

// Returns whether the pure operator's result certainly has the dtype of its first argument.
bool KeepsDtype(const Graph& g, const Node& n) {
  const Type& self = g.value(n.inputs[0]).type;
  const bool known = self.IsTensor() && self.tensor().dtype.has_value();
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    const Type& t = g.value(n.inputs[i]).type;
    if (t.IsTensor() && !(known && t.tensor().dtype == self.tensor().dtype)) return false;
    if ((t.kind() == TypeKind::kFloat || t.kind() == TypeKind::kNumber || t.kind() == TypeKind::kComplex) && !known)
      return false;
  }
  if (!known) return n.inputs.size() == 1 && (n.op.name() == op::kReluInPlace || n.op.name() == op::kNegInPlace);
  return IsFloating(*self.tensor().dtype);
}

class MutationRemover {
 public:
  MutationRemover(Graph& g, AliasDb& db, Editor& edit) : g_(g), db_(db), edit_(edit) {}

  int64_t Run() {
    for (BlockId b : AllBlocks(g_)) {
      for (NodeId n = g_.block(b).first; n.valid();) {
        const NodeId last = Allocation(n);
        n = g_.node(last).next;
      }
    }
    return removed_;
  }

 private:
  // Makes n and the in-place operators that can stand right behind it pure. Returns the last node that stands for them.
  NodeId Allocation(NodeId n) {
    if (g_.node(n).outputs.size() != 1 || !g_.node(n).blocks.empty()) return n;
    const ValueId base = g_.node(n).outputs[0];
    if (!g_.value(base).type.IsTensor() || !db_.OwnsItsMemory(base)) return n;
    NodeId writer = db_.FirstWriterAfter(base, n);
    if (!writer.valid()) return n;
    absl::InlinedVector<NodeId, 4> chain;
    absl::InlinedVector<ValueId, 4> versions = {base};
    ++allocations_;
    Mark(&version_of_, base.index);
    NodeId last = n;
    for (; writer.valid(); writer = db_.FirstWriterAfter(base, last)) {
      if (g_.node(writer).parent != g_.node(n).parent || !IsInPlace(g_.node(writer)) ||
          !IsMarked(version_of_, g_.node(writer).inputs[0].index)) {
        break;
      }
      if (g_.node(last).next != writer) {
        if (!db_.CanMoveAfter(writer, last)) break;
        // Its constants may stand between.
        const std::vector<NodeId> along = db_.MovesAlong(writer, last);
        if (!std::all_of(along.begin(), along.end(), [&](NodeId x) { return TakesNoMemory(x); })) break;
        NodeId at = last;
        for (NodeId x : along) {
          edit_.MoveAfter(x, at);
          at = x;
        }
        edit_.MoveAfter(writer, at);
      }
      chain.push_back(writer);
      versions.push_back(g_.node(writer).outputs[0]);
      Mark(&version_of_, versions.back().index);
      Mark(&member_of_, writer.index);
      last = writer;
    }
    if (chain.empty()) return n;
    // Every other use comes after the last of them and sees the written value.
    for (size_t i = 0; i + 1 < versions.size(); ++i) {
      const auto& uses = g_.value(versions[i]).uses;
      // A use that disappears leaves its place to the last one, which has been visited.
      for (size_t k = uses.size(); k-- > 0;) {
        const Use u = uses[k];
        if (!IsMarked(member_of_, u.user.index)) edit_.SetInput(u.user, u.index, versions.back());
      }
    }
    for (size_t i = 0; i < chain.size(); ++i) {
      for (uint32_t k = 0; k < g_.node(chain[i]).inputs.size(); ++k) {
        if (IsMarked(version_of_, g_.node(chain[i]).inputs[k].index)) edit_.SetInput(chain[i], k, versions[i]);
      }
    }
    // The last one comes first, so that nothing changes twice.
    NodeId end;
    for (size_t i = chain.size(); i-- > 0;) {
      const NodeId made = MakePure(chain[i]);
      if (i + 1 == chain.size()) end = made;
      ++removed_;
    }
    return end;
  }

  // Sets of indices that belong to this allocation.
  bool IsMarked(const std::vector<uint32_t>& set, uint32_t index) const {
    return index < set.size() && set[index] == allocations_;
  }
  void Mark(std::vector<uint32_t>* set, uint32_t index) {
    if (index >= set->size()) set->resize(std::max<size_t>(index + 1, 2 * set->size()));
    (*set)[index] = allocations_;
  }

  bool TakesNoMemory(NodeId n) const {
    const Node& node = g_.node(n);
    return node.blocks.empty() && std::none_of(node.inputs.begin(), node.inputs.end(),
                                               [&](ValueId v) { return IsAliasingType(g_.value(v).type); });
  }

  // Returns the node whose result stands for the written value of n.
  NodeId MakePure(NodeId n) {
    static const OpName kCopy = OpName::Get(op::kCopy);
    const Node& node = g_.node(n);
    const OpName functional = GetOpInfo(node.op).functional;
    const ValueId result = node.outputs[0], self = node.inputs[0];
    if (KeepsDtype(g_, node)) {
      edit_.SetOp(n, functional);
      return n;
    }
    // The result may have another dtype: it is copied into the first argument's.
    const Type type = g_.value(result).type;
    if (type == Type::Tensor()) {
      edit_.SetOp(n, functional);
      const NodeId next = node.next.valid() ? node.next : g_.block(node.parent).return_node;
      const NodeId copy = edit_.InsertBefore(next, kCopy, {self, result, False()}, {type});
      const ValueId copied = g_.node(copy).outputs[0];
      const auto& uses = g_.value(result).uses;
      while (uses.size() > 1) {
        const Use u = uses[uses.front().user == copy ? 1 : 0];
        edit_.SetInput(u.user, u.index, copied);
      }
      if (node.source != nullptr) g_.SetSource(copy, node.source);
      return copy;
    }
    const std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end());
    const NodeId pure = edit_.InsertBefore(n, functional, inputs, {Type::Tensor()});
    if (node.source != nullptr) g_.SetSource(pure, node.source);
    const NodeId copy = edit_.InsertBefore(n, kCopy, {self, g_.node(pure).outputs[0], False()}, {type});
    edit_.ReplaceAllUses(result, g_.node(copy).outputs[0]);
    edit_.Erase(n);
    return copy;
  }

  ValueId False() {
    if (!false_.valid()) {
      const NodeId first = g_.block(g_.top()).first;
      false_ =
          g_.node(edit_.InsertBefore(first, OpName::Get(op::kPrimConstant), {}, {Type::Bool()}, {{"value", false}}))
              .outputs[0];
    }
    return false_;
  }

  Graph& g_;
  AliasDb& db_;
  Editor& edit_;
  ValueId false_;
  int64_t removed_ = 0;
  uint32_t allocations_ = 0;
  std::vector<uint32_t> version_of_, member_of_;  // by index of value, of node: the last allocation it belongs to
};

class Grouper {
 public:
  Grouper(Graph& g, AliasDb& db, Editor& edit) : g_(g), db_(db), edit_(edit), pulled_for_(g.node_index_bound()) {}

  int64_t Run() {
    static const OpName kGroup = OpName::Get(op::kSmeltFusionGroup);
    int64_t groups = 0;
    for (BlockId b : AllBlocks(g_)) {
      for (NodeId n = g_.block(b).last; n.valid();) {
        if (!Fusible(n)) {
          n = g_.node(n).prev;
          continue;
        }
        std::vector<NodeId> members = Pull(n);
        if (members.size() < 2) {
          n = g_.node(n).prev;
          continue;
        }
        absl::StatusOr<NodeId> group = edit_.Group(members, kGroup);
        SMELT_CHECK(group.ok()) << group.status().ToString();
        ++groups;
        n = g_.node(*group).prev;
      }
    }
    return groups;
  }

 private:
  bool Fusible(NodeId n) const {
    const Node& node = g_.node(n);
    return node.blocks.empty() && GetOpInfo(node.op).kind == OpKind::kPointwise && GetOpEffects(node.op).pure;
  }

  // n and the producers that only the group uses, in program order, without others between them.
  std::vector<NodeId> Pull(NodeId n) {
    std::vector<NodeId> members = {n};
    ++pulls_;
    Mark(n);
    // Members are visited last to first; a pulled node stands before all present members.
    for (size_t at = 0; at < members.size(); ++at) {
      for (size_t i = g_.node(members[at]).inputs.size(); i-- > 0;) {
        const NodeId p = g_.value(g_.node(members[at]).inputs[i]).def;
        if (In(p) || g_.IsParam(p) || g_.node(p).parent != g_.node(n).parent || !Fusible(p)) continue;
        if (!OnlyGroupUses(p)) continue;
        const NodeId first = members.back();
        if (g_.node(first).prev != p) {
          // A node that nothing in between depends on can move down to the group. It can move up only if it needs
          // nothing in between.
          if (!db_.MovesAlone(p, first)) continue;
          if (!g_.IsBefore(p, first) && !db_.CanMoveBefore(p, first)) continue;
          edit_.MoveBefore(p, first);
        }
        members.push_back(p);
        Mark(p);
      }
    }
    std::reverse(members.begin(), members.end());
    return members;
  }

  bool In(NodeId n) const { return n.index < pulled_for_.size() && pulled_for_[n.index] == pulls_; }
  void Mark(NodeId n) {
    if (pulled_for_.size() < g_.node_index_bound()) pulled_for_.resize(g_.node_index_bound());
    if (used_by_.size() < g_.node_index_bound()) used_by_.resize(g_.node_index_bound());
    pulled_for_[n.index] = pulls_;
    for (ValueId v : g_.node(n).inputs) {
      Uses& uses = used_by_[g_.value(v).def.index];
      if (std::exchange(uses.pull, pulls_) != pulls_) uses.count = 0;
      ++uses.count;
    }
  }
  // A producer may have very many users: those in the group are counted as they join it.
  bool OnlyGroupUses(NodeId p) const {
    size_t all = 0;
    for (ValueId v : g_.node(p).outputs) all += g_.value(v).uses.size();
    return used_by_[p.index].pull == pulls_ && used_by_[p.index].count == all;
  }

  Graph& g_;
  AliasDb& db_;
  Editor& edit_;
  uint32_t pulls_ = 0;
  std::vector<uint32_t> pulled_for_;  // by node index: the last Pull that took it
  struct Uses {
    uint32_t pull = 0, count = 0;  // of the node's results by the group that this Pull makes
  };
  std::vector<Uses> used_by_;  // by node index
};

}  // namespace

int64_t RemoveMutations(Graph& g, AliasDb& db, Editor& edit) { return MutationRemover(g, db, edit).Run(); }
int64_t GroupPointwise(Graph& g, AliasDb& db, Editor& edit) { return Grouper(g, db, edit).Run(); }

}  // namespace smelt
