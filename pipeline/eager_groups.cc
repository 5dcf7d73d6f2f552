#include "smelt/pipeline/eager_groups.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/schema/eager_ops.h"

namespace smelt {
namespace {

constexpr size_t kMostMembers = 48;
constexpr int kMostSteps = 192;  // nodes that a group looks at

bool IsKnown(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().dtype && t.tensor().sizes && !IsComplex(*t.tensor().dtype);
}

// Calls f(v) for each tensor among the operands, in lists too.
template <typename F>
void ForTensors(const Graph& g, NodeId n, const F& f) {
  for (ValueId v : g.node(n).inputs) {
    if (g.value(v).type.IsTensor()) {
      f(v);
    } else if (auto list = GetListElements(g, v)) {
      for (ValueId e : *list) {
        if (g.value(e).type.IsTensor()) f(e);
      }
    }
  }
}

// Returns the first name of the tensor: an operator that writes its argument returns it.
ValueId WrittenRoot(const Graph& g, ValueId v) {
  while (true) {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def)) return v;
    const bool writes = GetOpInfo(g.node(def).op).kind == OpKind::kInplace || g.node(def).op == op::kCopyInPlace;
    if (!writes || g.node(def).inputs.empty()) return v;
    v = g.node(def).inputs[0];
  }
}

// Returns whether a group's kernel can do the work of a node.
class Members {
 public:
  explicit Members(const Graph& g) : g_(g) {
    for (NodeId n : g.AllNodes()) {
      const OpName op = g.node(n).op;
      changes_dims_ |= GetOpInfo(op).kind == OpKind::kInplaceView || GetOpTraits(op).resizes;
    }
  }

  bool May(NodeId n) const {
    const Node& node = g_.node(n);
    if (!node.blocks.empty() || node.outputs.empty() || node.op.IsDeclared()) return false;
    if (!absl::c_all_of(node.outputs, [&](ValueId v) { return IsKnown(g_, v); })) return false;
    bool known = true;
    ForTensors(g_, n, [&](ValueId v) { known &= IsKnown(g_, v); });
    const FunctionSchema* schema = FindSchema(node.op);
    if (!known || schema == nullptr) return false;
    if (node.op.name() == op::kCopyInPlace) return !changes_dims_ && MayCopy(n);
    return schema->IsMutable() ? MayWrite(n, *schema) : MayCompute(n);
  }

 private:
  bool MayCopy(NodeId n) const {
    const TensorType &to = g_.value(g_.node(n).inputs[0]).type.tensor(),
                     &from = g_.value(g_.node(n).inputs[1]).type.tensor();
    return *to.sizes == *from.sizes && absl::c_none_of(*to.sizes, [](const Expr& e) { return e.IsPoison(); });
  }
  bool MayCompute(NodeId n) const {
    const OpName op = g_.node(n).op;
    const OpTraits& traits = GetOpTraits(op);
    switch (GetOpInfo(op).kind) {
      case OpKind::kPointwise:
      case OpKind::kReduction:
      case OpKind::kFactory:
      case OpKind::kMovement:
      case OpKind::kComposite:
        break;
      default:
        return false;
    }
    return traits.library == LibraryCall::kNone && traits.distribution == Distribution::kNone &&
           traits.family != OpFamily::kIndex && traits.family != OpFamily::kConversion &&
           traits.opening != Opening::kDataSizes && !traits.may_alias && !traits.resizes && !IsEagerViewOp(op.full()) &&
           !MayRefuseData(g_, n);
  }
  bool MayWrite(NodeId n, const FunctionSchema& schema) const {
    if (GetOpInfo(schema.op).kind != OpKind::kInplace || g_.node(n).outputs.size() != 1) return false;
    const auto pure = FindFunctionalCounterpart(schema);
    if (!pure.ok() || pure->fills || pure->results.size() != 1 || pure->results[0].argument != 0 ||
        pure->results[0].may_resize)
      return false;
    const OpTraits& traits = GetOpTraits(pure->op);
    const bool fills = schema.op.name() == op::kZeroInPlace || schema.op.name() == op::kFillInPlace;
    return (fills || GetOpInfo(pure->op).kind == OpKind::kPointwise) && traits.refusal == DataRefusal::kNone &&
           traits.distribution == Distribution::kNone;
  }

  const Graph& g_;
  bool changes_dims_ = false;
};

class Former {
 public:
  explicit Former(Graph& g) : g_(g), members_(g), db_(AliasDb::Build(g)) {
    for (ValueId v : g.inputs()) {
      ForExprs(v, [&](const Expr& e) {
        for (std::string& symbol : e.Symbols()) given_.insert(std::move(symbol));
        return true;
      });
    }
  }

  std::vector<EagerGroup> Run() {
    Block(g_.top());
    // A group runs as one instruction: nodes that stand between its own would not run.
    std::erase_if(groups_, [&](const EagerGroup& group) { return !IsConsecutive(group); });
    return std::move(groups_);
  }

 private:
  void Block(BlockId b) {
    for (NodeId n : std::vector<NodeId>(g_.Nodes(b))) {
      for (BlockId inner : std::vector<BlockId>(g_.node(n).blocks.begin(), g_.node(n).blocks.end())) Block(inner);
      if (!grouped_.contains(n) && members_.May(n)) Grow(n);
    }
  }

  void Grow(NodeId seed) {
    const NodeId end = g_.block(g_.node(seed).parent).return_node;
    group_.clear(), tensors_.clear(), written_.clear();
    Add(seed);
    NodeId next = g_.node(seed).next;
    for (int steps = 0; next.valid() && next != end && steps < kMostSteps && group_.size() < kMostMembers; ++steps) {
      const NodeId n = next;
      next = g_.node(n).next;
      if (!grouped_.contains(n) && members_.May(n) && Fits(n) && MoveBehind(n)) Add(n);
    }
    if (group_.size() < 2) return;
    grouped_.insert(group_.begin(), group_.end());
    groups_.push_back(group_);
  }

  void Add(NodeId n) {
    group_.push_back(n);
    ForTensors(g_, n, [&](ValueId v) { tensors_.insert(WrittenRoot(g_, v)); });
    for (ValueId v : g_.node(n).outputs) tensors_.insert(WrittenRoot(g_, v));
    if (FindSchema(g_.node(n).op)->IsMutable()) written_.insert(WrittenRoot(g_, g_.node(n).inputs[0]));
  }

  // Returns whether the node uses a tensor of the group, and none that shows elements that the group writes under
  // another name.
  bool Fits(NodeId n) const {
    bool uses = false, stale = false;
    ForTensors(g_, n, [&](ValueId v) {
      const ValueId root = WrittenRoot(g_, v);
      uses |= tensors_.contains(root);
      for (ValueId w : written_) stale |= w != root && db_->Alias(w, root) == AliasAnswer::kMust;
    });
    return uses && !stale;
  }

  // Calls f(e) for each expression in a value's type and for its own, until f returns false.
  template <typename F>
  bool ForExprs(ValueId v, const F& f) const {
    const Value& value = g_.value(v);
    if (value.expr && !f(*value.expr)) return false;
    return !value.type.IsTensor() || !value.type.tensor().sizes || absl::c_all_of(*value.type.tensor().sizes, f);
  }

  // Returns whether the node uses no number that another node reads from data, which the database does not know of.
  bool MayMove(NodeId n) const {
    const auto is_given = [&](const Expr& e) {
      return !e.IsPoison() && absl::c_all_of(e.Symbols(), [&](const std::string& s) { return given_.contains(s); });
    };
    const auto all_given = [&](ValueId v) { return ForExprs(v, is_given); };
    return g_.node(n).blocks.empty() && absl::c_all_of(g_.node(n).inputs, all_given) &&
           absl::c_all_of(g_.node(n).outputs, all_given);
  }

  bool IsConsecutive(const EagerGroup& group) const {
    for (size_t k = 0; k + 1 < group.size(); ++k) {
      if (g_.node(group[k]).next != group[k + 1]) return false;
    }
    return true;
  }

  // Moves the node behind the group, and what it needs ahead of it. Nodes of other groups stay.
  bool MoveBehind(NodeId n) {
    const NodeId last = group_.back();
    if (g_.node(last).next == n) return true;
    const std::vector<NodeId> along = db_->MovesAlong(n, last);
    const auto may_move = [&](NodeId needed) { return MayMove(needed) && !grouped_.contains(needed); };
    if (!MayMove(n) || !absl::c_all_of(along, may_move)) return false;
    for (NodeId needed : along) {
      if (!db_->MoveBefore(needed, group_.front()).ok()) return false;
    }
    return g_.node(last).next == n || (db_->MovesAlone(n, last) && db_->MoveAfter(n, last).ok());
  }

  Graph& g_;
  const Members members_;
  const std::unique_ptr<AliasDb> db_;
  absl::flat_hash_set<std::string> given_;  // symbols that the arguments decide
  std::vector<EagerGroup> groups_;
  absl::flat_hash_set<NodeId> grouped_;
  EagerGroup group_;                                // that grows
  absl::flat_hash_set<ValueId> tensors_, written_;  // of that group
};

}  // namespace

std::vector<EagerGroup> FormEagerGroups(Graph& g) { return Former(g).Run(); }

}  // namespace smelt
