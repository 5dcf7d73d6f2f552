#include "smelt/script/unroll_loops.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

constexpr int64_t kMostNodes = 4096;

bool IsTrue(const Graph& g, ValueId v) {
  const std::optional<ConstantValue> c = GetConstant(g, v);
  return c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
}

// Returns whether the model returns this list, by itself or in a tuple, or asks for its length.
bool LengthMatters(const Graph& g, ValueId list) {
  if (g.value(list).type.kind() != TypeKind::kList) return false;
  return absl::c_any_of(g.value(list).uses, [&](const Use& use) {
    return use.user == g.block(g.top()).return_node || g.node(use.user).op == op::kPrimTupleConstruct ||
           g.node(use.user).op.name() == op::kLen;
  });
}

bool IsListOfNumbers(const Type& t) {
  if (t.kind() != TypeKind::kList) return false;
  const TypeKind of = t.element().kind();
  return of == TypeKind::kInt || of == TypeKind::kFloat || of == TypeKind::kBool;
}

bool HoldsTensors(const Type& t) {
  return t.kind() != TypeKind::kInt && t.kind() != TypeKind::kFloat && t.kind() != TypeKind::kBool &&
         t.kind() != TypeKind::kString && t.kind() != TypeKind::kNone && !IsListOfNumbers(t);
}

// Counts the nodes of a block and of those inside it. Finds whether one of them may have a result whose size depends on
// data (its type does not state it), or changes a list whose length matters.
struct Contents {
  int64_t nodes = 0;
  bool decides_sizes = false;
  bool fills_lists = false;     // of numbers
  bool takes_elements = false;  // tensors or words out of lists, by an index that the loop counts
  bool only_numbers = true;     // no tensors at all, so that it is known as soon as what it begins with is
};
Contents ContentsOf(const Graph& g, BlockId b) {
  static const auto* const operators = new absl::flat_hash_set<std::string>{
      op::kNonzero, op::kArgwhere, op::kNonzeroNumpy, op::kMaskedSelect, op::kIndexTensor};
  Contents c;
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    ++c.nodes;
    const Type* type = node.outputs.empty() ? nullptr : &g.value(node.outputs[0]).type;
    const bool sized = type != nullptr && type->IsTensor() && type->tensor().sizes;
    c.decides_sizes = c.decides_sizes || (operators->contains(node.op.full()) && !sized) ||
                      (node.op.name() == op::kWhere && node.inputs.size() == 1) ||
                      (ChangesFirstList(node.op) && LengthMatters(g, node.inputs[0]));
    c.fills_lists = c.fills_lists || (ChangesFirstList(node.op) && IsListOfNumbers(g.value(node.inputs[0]).type));
    c.takes_elements = c.takes_elements || (node.op.full() == op::kDunderGetitemT &&
                                            (HoldsTensors(*type) || type->kind() == TypeKind::kString));
    for (ValueId v : node.inputs) c.only_numbers = c.only_numbers && !HoldsTensors(g.value(v).type);
    c.only_numbers = c.only_numbers && !node.outputs.empty();  // what has no result does something
    for (BlockId inner : node.blocks) {
      const Contents more = ContentsOf(g, inner);
      c.nodes += more.nodes;
      c.decides_sizes = c.decides_sizes || more.decides_sizes;
      c.fills_lists = c.fills_lists || more.fills_lists;
      c.takes_elements = c.takes_elements || more.takes_elements;
      c.only_numbers = c.only_numbers && more.only_numbers;
    }
  }
  return c;
}

class Unroller {
 public:
  explicit Unroller(Graph& g) : g_(g) {}

  // Returns whether the loop was unrolled.
  bool Run(NodeId loop) {
    const Node& node = g_.node(loop);
    if (node.op != op::kPrimLoop || node.blocks.size() != 1 || node.inputs.size() < 2) return false;
    const BlockId body = node.blocks[0];
    const std::optional<Expr> trips = GetIntExpr(g_, node.inputs[0]);
    if (!trips || !trips->IsConstant() || !IsTrue(g_, node.inputs[1]) || g_.results(body).empty() ||
        !IsTrue(g_, g_.results(body)[0]))
      return false;
    const int64_t count = *trips->Constant();
    const Contents contents = ContentsOf(g_, body);
    if (!contents.decides_sizes && !contents.fills_lists && !contents.takes_elements && !contents.only_numbers)
      return false;
    if (count > kMostNodes / std::max<int64_t>(contents.nodes, 1)) return false;
    std::vector<ValueId> carried(node.inputs.begin() + 2, node.inputs.end());
    for (int64_t i = 0; i < count; ++i) {
      of_.clear();
      const auto params = g_.params(body);
      of_[params[0]] = InsertConstant(g_, loop, i);
      for (size_t k = 0; k < carried.size(); ++k) of_[params[k + 1]] = carried[k];
      Copy(body, loop);
      for (size_t k = 0; k < carried.size(); ++k) carried[k] = Of(g_.results(body)[k + 1]);
    }
    const std::vector<ValueId> outputs(g_.node(loop).outputs.begin(), g_.node(loop).outputs.end());
    for (size_t k = 0; k < outputs.size(); ++k) g_.ReplaceAllUses(outputs[k], carried[k]);
    g_.Erase(loop);
    return true;
  }

 private:
  ValueId Of(ValueId v) const {
    const auto it = of_.find(v);
    return it == of_.end() ? v : it->second;
  }

  // Copies the nodes of `from` before `anchor`.
  void Copy(BlockId from, NodeId anchor) {
    for (NodeId n : g_.Nodes(from)) {
      std::vector<ValueId> inputs;
      std::vector<Type> types;
      for (ValueId v : g_.node(n).inputs) inputs.push_back(Of(v));
      for (ValueId v : g_.node(n).outputs) types.push_back(g_.value(v).type);
      const NodeId copy = g_.InsertBefore(anchor, g_.node(n).op, inputs, types, g_.node(n).attributes);
      g_.SetSource(copy, g_.node(n).source);
      for (size_t k = 0; k < types.size(); ++k) {
        const ValueId old = g_.node(n).outputs[k], made = g_.node(copy).outputs[k];
        of_[old] = made;
        if (g_.value(old).expr) g_.SetExpr(made, g_.value(old).expr);
      }
      for (size_t b = 0; b < g_.node(n).blocks.size(); ++b) {
        const BlockId inner = g_.node(n).blocks[b], made = g_.AddBlock(copy);
        const std::vector<ValueId> params(g_.params(inner).begin(), g_.params(inner).end());
        for (ValueId p : params) of_[p] = g_.AddParam(made, g_.value(p).type);
        Copy(inner, g_.block(made).return_node);
        const std::vector<ValueId> results(g_.results(inner).begin(), g_.results(inner).end());
        for (ValueId r : results) g_.AddResult(made, Of(r));
      }
    }
  }

  Graph& g_;
  absl::flat_hash_map<ValueId, ValueId> of_;
};

}  // namespace

bool UnrollLoops(Graph& g) {
  bool unrolled = false;
  for (bool changed = true; changed; unrolled = unrolled || changed) {  // a loop inside a loop comes to light
    changed = false;
    for (NodeId n : g.Nodes(g.top())) changed = Unroller(g).Run(n) || changed;
  }
  return unrolled;
}

}  // namespace smelt
