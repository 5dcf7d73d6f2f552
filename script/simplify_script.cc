#include "smelt/script/simplify_script.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/base/elementary.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/script/known_condition.h"
#include "smelt/script/resolve_dicts.h"
#include "smelt/script/resolve_lists.h"
#include "smelt/script/resolve_tuples.h"
#include "smelt/script/unroll_loops.h"

namespace smelt {
namespace {

bool IsUnused(const Graph& g, NodeId n) {
  const auto& outputs = g.node(n).outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return g.value(v).uses.empty(); });
}

// Returns whether the node computes numbers, lists and strings, does nothing else, and cannot fail for those that a
// text holds.
bool OnlyAnswers(const Graph& g, NodeId n) {
  static const auto* const operators = new absl::flat_hash_set<std::string>{op::kPrimUninitialized,
                                                                            op::kPrimUncheckedCast,
                                                                            op::kPrimListConstruct,
                                                                            op::kSize,
                                                                            op::kDim,
                                                                            op::kLen,
                                                                            op::kEq,
                                                                            op::kNe,
                                                                            op::kLt,
                                                                            op::kLe,
                                                                            op::kGt,
                                                                            op::kGe,
                                                                            op::kDunderIs,
                                                                            op::kDunderIsnot,
                                                                            op::kDunderNot,
                                                                            op::kDunderAnd,
                                                                            op::kDunderOr,
                                                                            op::kDunderContains,
                                                                            op::kFormat,
                                                                            op::kAdd,
                                                                            op::kSub,
                                                                            op::kMul,
                                                                            op::kNeg,
                                                                            op::kIsComplex,
                                                                            op::kIsFloatingPoint};
  const Node& node = g.node(n);
  if (!node.blocks.empty() || node.outputs.size() != 1 || !operators->contains(node.op.name())) return false;
  return node.op.name() == op::kPrimUninitialized || !g.value(node.outputs[0]).type.IsTensor();
}

bool IsPartsOfTensor(const std::string& op) {
  static const auto* const operators =
      new absl::flat_hash_set<std::string>{op::kChunk,       op::kSplit,  op::kSplitWithSizes, op::kUnbind,
                                           op::kTensorSplit, op::kHsplit, op::kVsplit,         op::kDsplit};
  return operators->contains(op);
}

class Simplifier {
 public:
  Simplifier(Graph& g, bool inferred) : g_(g), inferred_(inferred) {}

  bool Run() {
    for (NodeId n : g_.AllNodes()) {
      if (g_.IsLive(n)) Simplify(n);
    }
    changed_ = UnrollLoops(g_) || changed_;
    if (changed_) {
      ResolveTuples(g_);
      ResolveDicts(g_);
      ResolveLists(g_);
    }
    EraseUnused();
    return changed_;
  }

 private:
  void Simplify(NodeId n) {
    const std::string& name = g_.node(n).op.name();
    const bool sizes_hold = inferred_ && !InLoop(n);
    if (name == op::kPrimIf) {
      if (inferred_ && !sizes_hold) return;
      if (const BlockId taken = KnownBranch(g_, n); taken.valid()) {
        TakeBranch(g_, n, taken);
        changed_ = true;
      }
    } else if (name == op::kPrimUncheckedCast) {
      const TypeKind from = g_.value(g_.node(n).inputs[0]).type.kind(),
                     to = g_.value(g_.node(n).outputs[0]).type.kind();
      const bool number = from == TypeKind::kInt || from == TypeKind::kFloat;
      if (from == to || (number && to == TypeKind::kNumber)) Replace(n, g_.node(n).inputs[0]);
    } else if (name == op::kSize && g_.node(n).inputs.size() == 1) {
      if (sizes_hold) ListSizes(n);
    } else if (name == op::kList || name == op::kCopy) {
      const ValueId list = g_.node(n).inputs[0], copy = g_.node(n).outputs[0];
      if (IsConstantList(list) && IsConstantList(copy)) Replace(n, list);
    } else if (name == op::kTensor) {
      FlattenRows(n);
    } else if (g_.node(n).op.full() == op::kDunderGetitemT) {
      if (sizes_hold || !inferred_) TakeElement(n);
    } else if (name == op::kPrimListUnpack) {
      TakeElements(n);
    } else if (sizes_hold && IsPartsOfTensor(name) && g_.node(n).outputs.size() == 1) {
      UnpackParts(n);
    } else if (sizes_hold && IsFloat(n)) {
      if (const std::optional<double> v = Computed(name, n)) Replace(n, InsertConstant(g_, n, *v));
    }
  }

  bool InLoop(NodeId n) const {
    for (BlockId b = g_.node(n).parent; b != g_.top(); b = g_.node(g_.block(b).owner).parent) {
      const OpName op = g_.node(g_.block(b).owner).op;
      if (op == op::kPrimLoop || op == op::kSmeltWhileLoop) return true;
    }
    return false;
  }

  void Replace(NodeId n, ValueId by) {
    g_.ReplaceAllUses(g_.node(n).outputs[0], by);
    g_.Erase(n);
    changed_ = true;
  }

  // Takes the parts of a tensor apart where an operator needs them all: a list that is made in place shows its
  // elements.
  void UnpackParts(NodeId n) {
    const ValueId list = g_.node(n).outputs[0];
    if (!IsConstantList(list)) return;
    std::vector<Use> takers;
    for (const Use& use : g_.value(list).uses) {
      const std::string& name = g_.node(use.user).op.name();
      if (name != op::kPrimListUnpack && name != op::kDunderGetitem && name != op::kLen) takers.push_back(use);
    }
    if (takers.empty()) return;
    const auto call = OpCall::Of(g_, n);
    if (!call.ok()) return;
    const auto inferred = InferCall(*call, g_.symbols);
    if (!inferred.ok() || inferred->size() != 1 || (*inferred)[0].elements.empty()) return;
    const NodeId unpack = g_.InsertAfter(n, OpName::Get(op::kPrimListUnpack), {list}, (*inferred)[0].elements);
    const std::vector<ValueId> parts(g_.node(unpack).outputs.begin(), g_.node(unpack).outputs.end());
    const NodeId made = g_.InsertAfter(unpack, OpName::Get(op::kPrimListConstruct), parts, {g_.value(list).type});
    g_.SetSource(unpack, g_.node(n).source);
    g_.SetSource(made, g_.node(n).source);
    for (const Use& use : takers) g_.SetInput(use.user, use.index, g_.node(made).outputs[0]);
    changed_ = true;
  }

  // Returns whether the list is only read, by operators that keep no list.
  bool IsConstantList(ValueId v) const {
    if (g_.value(v).type.kind() != TypeKind::kList) return false;
    const auto& uses = g_.value(v).uses;
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      if (g_.IsReturn(use.user)) return false;
      const Node& user = g_.node(use.user);
      return user.op == op::kPrimListUnpack ||
             (user.op.name().compare(0, 6, op::kAtenNamespace) == 0 && !ChangesFirstList(user.op));
    });
  }

  // tensor([[a, b], [c, d]]) is tensor([a, b, c, d]).view(2, 2).
  void FlattenRows(NodeId n) {
    std::vector<int64_t> sizes;
    std::vector<ValueId> elements;
    if (!Flatten(g_.node(n).inputs[0], 0, sizes, elements) || sizes.size() < 2 || elements.empty()) return;
    const Type of = g_.value(elements[0]).type;
    for (ValueId v : elements) {
      if (g_.value(v).type.kind() != of.kind() || of.kind() == TypeKind::kList) return;
    }
    const NodeId flat = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), elements, {Type::List(of)});
    const ValueId out = g_.node(n).outputs[0];
    g_.SetInput(n, 0, g_.node(flat).outputs[0]);
    const NodeId next = g_.node(n).next.valid() ? g_.node(n).next : g_.block(g_.node(n).parent).return_node;
    const ValueId shape = InsertConstant(g_, next, sizes);
    const NodeId rows = g_.InsertBefore(next, OpName::Get(op::kView), {out, shape}, {Type::Tensor()});
    g_.SetSource(rows, g_.node(n).source);
    g_.ReplaceAllUses(out, g_.node(rows).outputs[0]);
    g_.SetInput(rows, 0, out);
    changed_ = true;
  }

  // False if the list is not known, or its rows are not alike.
  bool Flatten(ValueId v, size_t depth, std::vector<int64_t>& sizes, std::vector<ValueId>& elements) const {
    if (g_.value(v).type.kind() != TypeKind::kList) {
      elements.push_back(v);
      return depth == sizes.size();
    }
    const auto list = GetListElements(g_, v);
    if (!list) return false;
    const int64_t size = static_cast<int64_t>(list->size());
    if (depth == sizes.size() && elements.empty()) sizes.push_back(size);
    if (depth >= sizes.size() || sizes[depth] != size) return false;
    return std::all_of(list->begin(), list->end(), [&](ValueId e) { return Flatten(e, depth + 1, sizes, elements); });
  }

  bool IsFloat(NodeId n) const {
    const auto& outputs = g_.node(n).outputs;
    return outputs.size() == 1 && g_.value(outputs[0]).type.kind() == TypeKind::kFloat;
  }

  // Python's arithmetic; nullopt if it would raise an error.
  std::optional<double> Computed(const std::string& name, NodeId n) const {
    const auto& inputs = g_.node(n).inputs;
    if (inputs.empty() || inputs.size() > 2) return std::nullopt;
    const std::optional<double> a = KnownNumber(g_, inputs[0]), b = KnownNumber(g_, inputs[inputs.size() - 1]);
    if (!a || !b) return std::nullopt;
    if (inputs.size() == 1) {
      if (name == op::kNeg) return -*a;
      if (name == op::kFloat) return *a;
      if (name == op::kSqrt && *a >= 0) return std::sqrt(*a);
      return std::nullopt;
    }
    if (name == op::kAdd) return *a + *b;
    if (name == op::kSub) return *a - *b;
    if (name == op::kMul) return *a * *b;
    if ((name == op::kDiv || name == op::kTruediv) && *b != 0) return *a / *b;
    if (name == op::kPow && *a > 0) {
      const double power = Power(*a, *b);
      if (std::isfinite(power)) return power;
    }
    return std::nullopt;
  }

  // x.size() is a list of each x.size(d).
  void ListSizes(NodeId n) {
    const ValueId x = g_.node(n).inputs[0];
    const Type& t = g_.value(x).type;
    if (!t.IsTensor() || !t.tensor().sizes) return;
    std::vector<ValueId> sizes;
    for (int64_t d = 0; d < static_cast<int64_t>(t.tensor().sizes->size()); ++d) {
      const ValueId dim = InsertConstant(g_, n, d);
      const NodeId size = g_.InsertBefore(n, OpName::Get(op::kSizeInt), {x, dim}, {Type::Int()});
      g_.SetSource(size, g_.node(n).source);
      sizes.push_back(g_.node(size).outputs[0]);
    }
    const NodeId list = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), sizes, {Type::List(Type::Int())});
    g_.SetSource(list, g_.node(n).source);
    Replace(n, g_.node(list).outputs[0]);
  }

  // Takes an element of a list that nothing changes. An element that is a tensor becomes known later.
  void TakeElement(NodeId n) {
    if (g_.value(g_.node(n).outputs[0]).type.IsTensor()) return;
    const auto elements = GetListElements(g_, g_.node(n).inputs[0]);
    const std::optional<Expr> index = GetIntExpr(g_, g_.node(n).inputs[1]);
    if (!elements || !index || !index->IsConstant()) return;
    const int64_t size = static_cast<int64_t>(elements->size());
    const int64_t i = *index->Constant() + (*index->Constant() < 0 ? size : 0);
    if (i >= 0 && i < size) Replace(n, (*elements)[i]);  // otherwise an error, when it runs
  }

  void EraseUnused() {
    const std::vector<NodeId> nodes = g_.AllNodes();
    for (size_t k = nodes.size(); k-- > 0;) {
      if (!IsUnused(g_, nodes[k])) continue;
      if (OnlyAnswers(g_, nodes[k]) || DoesNothing(nodes[k])) g_.Erase(nodes[k]);
    }
  }

  // Returns whether nothing is left in a branch.
  bool DoesNothing(NodeId n) const {
    const auto& blocks = g_.node(n).blocks;
    return g_.node(n).op == op::kPrimIf &&
           std::all_of(blocks.begin(), blocks.end(), [&](BlockId b) { return g_.Nodes(b).empty(); });
  }

  void TakeElements(NodeId n) {
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    const auto elements = GetListElements(g_, g_.node(n).inputs[0]);
    if (!elements || elements->size() != outputs.size()) return;
    for (ValueId v : outputs) {
      if (g_.value(v).type.kind() != TypeKind::kInt) return;
    }
    for (size_t k = 0; k < outputs.size(); ++k) g_.ReplaceAllUses(outputs[k], (*elements)[k]);
    g_.Erase(n);
    changed_ = true;
  }

  Graph& g_;
  const bool inferred_;
  bool changed_ = false;
};

}  // namespace

bool SimplifyScript(Graph& g, bool inferred) { return Simplifier(g, inferred).Run(); }

Pass SimplifyScriptPass() {
  return {.name = "simplify-script",
          .description = "branches and loops that the text itself decides are taken",
          .prerequisites = {"resolve-numbers"},
          .is_optional = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return SimplifyScript(g, /*inferred=*/false); }};
}

}  // namespace smelt
