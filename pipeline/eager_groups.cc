#include "smelt/pipeline/eager_groups.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
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
#include "smelt/pipeline/eager_bases.h"
#include "smelt/schema/eager_ops.h"

namespace smelt {
namespace {

constexpr size_t kMostMembers = 48;
constexpr int kMostSteps = 192;  // nodes that a group looks at

bool IsKnown(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().dtype && t.tensor().sizes && !IsComplex(*t.tensor().dtype);
}

// Returns whether a group's kernel can do the work of a node.
class Members {
 public:
  Members(const Graph& g, const AliasDb& db) : g_(g), db_(db) {}

  bool May(NodeId n) const {
    const Node& node = g_.node(n);
    if (!node.blocks.empty() || node.outputs.empty() || node.op.IsDeclared()) return false;
    if (!absl::c_all_of(node.outputs, [&](ValueId v) { return IsKnown(g_, v); })) return false;
    bool known = true;
    ForTensorOperands(g_, n, [&](ValueId v) { known &= IsKnown(g_, v); });
    const FunctionSchema* schema = FindSchema(node.op);
    if (!known || schema == nullptr) return false;
    if (node.op.name() == op::kCopyInPlace) return MayCopy(n);
    if (GetOpTraits(node.op).family == OpFamily::kConversion) return MayConvert(n, *schema);
    return schema->IsMutable() ? MayWrite(n, *schema) : MayCompute(n);
  }

 private:
  bool MayCopy(NodeId n) const {
    const TensorType &to = g_.value(g_.node(n).inputs[0]).type.tensor(),
                     &from = g_.value(g_.node(n).inputs[1]).type.tensor();
    for (ValueId v : {g_.node(n).inputs[0], g_.node(n).inputs[1]}) {
      if (db_.Memory(v).geometry_changes) return false;
    }
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
    // If data refuse the group's call, its operators run in turn. A call may leave out what nothing reads.
    const bool is_read = absl::c_any_of(g_.node(n).outputs, [&](ValueId v) { return !g_.value(v).uses.empty(); });
    return traits.library == LibraryCall::kNone && traits.distribution == Distribution::kNone &&
           traits.opening != Opening::kDataSizes && !traits.may_alias && !traits.resizes && !IsEagerViewOp(op.full()) &&
           (is_read || !MayRefuseData(g_, n));
  }
  // A conversion to another dtype makes a tensor of its own, in the layout of its operand unless it names another.
  bool MayConvert(NodeId n, const FunctionSchema& schema) const {
    const ValueId from = g_.node(n).inputs[0], to = g_.node(n).outputs[0];
    const int format = schema.FindArgument("memory_format");
    const std::optional<ConstantValue> given =
        format < 0 ? ConstantValue(std::monostate()) : GetConstant(g_, g_.node(n).inputs[format]);
    const bool preserves = given && (std::holds_alternative<std::monostate>(*given) ||
                                     (std::holds_alternative<int64_t>(*given) && std::get<int64_t>(*given) == 1));
    return preserves && g_.value(from).type.IsTensor() &&
           *g_.value(from).type.tensor().dtype != *g_.value(to).type.tensor().dtype;
  }
  bool MayWrite(NodeId n, const FunctionSchema& schema) const {
    if (GetOpInfo(schema.op).kind != OpKind::kInplace || g_.node(n).outputs.size() != 1) return false;
    const auto pure = FindFunctionalCounterpart(schema);
    if (!pure.ok() || pure->fills || pure->results.size() != 1 || pure->results[0].argument != 0 ||
        pure->results[0].may_resize)
      return false;
    const OpTraits& traits = GetOpTraits(pure->op);
    const OpKind kind = GetOpInfo(pure->op).kind;
    const bool fills = schema.op.name() == op::kZeroInPlace || schema.op.name() == op::kFillInPlace;
    return (fills || kind == OpKind::kPointwise || kind == OpKind::kMovement) && traits.library == LibraryCall::kNone &&
           traits.distribution == Distribution::kNone && traits.opening != Opening::kDataSizes;
  }

  const Graph& g_;
  const AliasDb& db_;
};

class Former {
 public:
  explicit Former(Graph& g) : g_(g), db_(AliasDb::Build(g)), bases_(g, *db_), members_(g, *db_) {
    for (ValueId v : g.inputs()) {
      ForExprs(v, [&](const Expr& e) {
        for (std::string& symbol : e.Symbols()) given_.insert(std::move(symbol));
        return true;
      });
    }
  }

  EagerGroups Run() {
    Block(g_.top());
    // A group runs as one instruction: nodes that stand between its own would not run.
    std::erase_if(groups_, [&](const EagerGroup& group) { return !IsConsecutive(group); });
    return {std::move(db_), std::move(groups_), std::move(bases_)};
  }

 private:
  void Block(BlockId b) {
    for (NodeId n : std::vector<NodeId>(g_.Nodes(b))) {
      for (BlockId inner : std::vector<BlockId>(g_.node(n).blocks.begin(), g_.node(n).blocks.end())) Block(inner);
      if (!grouped_.contains(n) && Computes(n)) Grow(n);
    }
  }

  void Grow(NodeId seed) {
    const NodeId end = g_.block(g_.node(seed).parent).return_node;
    group_.clear(), tensors_.clear(), written_.clear(), made_.clear(), loops_.clear();
    Add(seed);
    NodeId next = g_.node(seed).next;
    for (int steps = 0; next.valid() && next != end && steps < kMostSteps && group_.size() < kMostMembers; ++steps) {
      const NodeId n = next;
      next = g_.node(n).next;
      if (grouped_.contains(n)) continue;
      if (IsInnerView(n) || (Computes(n) && Fits(n, /*uses=*/!HasLoopOfGroup(n)))) Take(n);
    }
    // A view that no member sees need not be in the group.
    while (bases_.IsView(group_.back())) group_.pop_back();
    const auto computes = [&](NodeId n) { return !bases_.IsView(n); };
    if (absl::c_count_if(group_, computes) < 2) return;
    grouped_.insert(group_.begin(), group_.end());
    groups_.push_back(group_);
  }

  void Add(NodeId n) {
    group_.push_back(n);
    ForTensorOperands(g_, n, [&](ValueId v) { tensors_.insert(bases_.Base(v)); });
    if (bases_.IsView(n)) return;
    for (ValueId v : g_.node(n).outputs) tensors_.insert(bases_.Base(v));
    if (IsElementwise(n)) loops_.push_back(*g_.value(g_.node(n).outputs[0]).type.tensor().sizes);
    if (FindSchema(g_.node(n).op)->IsMutable()) {
      written_.insert(bases_.Base(g_.node(n).inputs[0]));
    } else {
      made_.insert(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    }
  }

  bool Computes(NodeId n) const { return members_.May(n) && !ReadsPartOfWhatItWrites(n); }
  bool IsElementwise(NodeId n) const {
    const OpInfo& info = GetOpInfo(g_.node(n).op);
    return info.kind == OpKind::kPointwise ||
           (info.kind == OpKind::kInplace && GetOpInfo(info.functional).kind == OpKind::kPointwise);
  }
  // Returns whether one loop can do the node's work beside a member's.
  bool HasLoopOfGroup(NodeId n) const {
    return IsElementwise(n) && absl::c_linear_search(loops_, *g_.value(g_.node(n).outputs[0]).type.tensor().sizes);
  }
  bool IsInnerView(NodeId n) const { return bases_.IsView(n) && made_.contains(bases_.Base(g_.node(n).outputs[0])); }

  // Returns whether an operator may read elements that it has written, under another name. Then PyTorch refuses it, or
  // its order of elements decides, which a group does not follow.
  bool ReadsPartOfWhatItWrites(NodeId n) const {
    if (!FindSchema(g_.node(n).op)->IsMutable()) return false;
    const ValueId to = g_.node(n).inputs[0];
    bool reads = false;
    ForTensorOperands(g_, n, [&](ValueId v) {
      if (bases_.Name(v) == bases_.Name(to) || bases_.Base(v) != bases_.Base(to)) return;
      reads |= !bases_.AreApart(to, v);
    });
    return reads;
  }

  // Returns whether the node uses a tensor of the group, if `uses`, and none that shows elements that the group writes
  // under another name.
  bool Fits(NodeId n, bool uses) const {
    bool used = !uses, stale = false;
    ForTensorOperands(g_, n, [&](ValueId v) {
      const ValueId base = bases_.Base(v);
      used |= tensors_.contains(base);
      for (ValueId w : written_) stale |= w != base && db_->Alias(w, base) == AliasAnswer::kMust;
    });
    return used && !stale;
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

  // Moves the node behind the group and adds it, with the nodes in between that it needs: those become members or move
  // ahead of the group. Nodes of other groups stay.
  void Take(NodeId n) {
    if (g_.node(group_.back()).next == n) return Add(n);
    const std::vector<NodeId> along = db_->MovesAlong(n, group_.back());
    const auto may_move = [&](NodeId needed) { return MayMove(needed) && !grouped_.contains(needed); };
    if (!MayMove(n) || !absl::c_all_of(along, may_move)) return;
    for (NodeId needed : along) {
      const bool joins =
          group_.size() < kMostMembers && (IsInnerView(needed) || (Computes(needed) && Fits(needed, /*uses=*/false)));
      if (joins && MoveBehind(needed)) {
        Add(needed);
      } else if (!db_->MoveBefore(needed, group_.front()).ok()) {
        return;
      }
    }
    if (MoveBehind(n)) Add(n);
  }

  bool MoveBehind(NodeId n) {
    const NodeId last = group_.back();
    return g_.node(last).next == n || (db_->MovesAlone(n, last) && db_->MoveAfter(n, last).ok());
  }

  Graph& g_;
  std::unique_ptr<AliasDb> db_;
  EagerBases bases_;
  const Members members_;
  absl::flat_hash_set<std::string> given_;  // symbols that the arguments decide
  std::vector<EagerGroup> groups_;
  absl::flat_hash_set<NodeId> grouped_;
  EagerGroup group_;                                // that grows
  absl::flat_hash_set<ValueId> tensors_, written_;  // bases, of that group
  absl::flat_hash_set<ValueId> made_;               // by its nodes that do not write
  std::vector<std::vector<Expr>> loops_;            // the sizes of its elementwise nodes
};

}  // namespace

EagerGroups FormEagerGroups(Graph& g) { return Former(g).Run(); }

}  // namespace smelt
