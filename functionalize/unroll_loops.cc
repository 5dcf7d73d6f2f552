#include "smelt/functionalize/unroll_loops.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace smelt {
namespace {

constexpr int64_t kMostNodes = 4096;

bool IsTrue(const Graph& g, ValueId v) {
  const std::optional<ConstantValue> c = GetConstant(g, v);
  return c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
}

// Whether it is a list that the model returns, by itself or in a tuple.
bool IsReturnedList(const Graph& g, ValueId list) {
  if (g.value(list).type.kind() != TypeKind::kList) return false;
  return absl::c_any_of(g.value(list).uses, [&](const Use& use) {
    return use.user == g.block(g.top()).return_node || g.node(use.user).op == "prim::TupleConstruct";
  });
}

// Nodes of a block and of those inside it, and whether one of them may have a result whose size the data decide (its
// type does not say it), or changes a list that is returned.
struct Contents {
  int64_t nodes = 0;
  bool decides_sizes = false;
};
Contents ContentsOf(const Graph& g, BlockId b) {
  static const auto* const operators = new absl::flat_hash_set<std::string>{
      "aten::nonzero", "aten::argwhere", "aten::nonzero_numpy", "aten::masked_select", "aten::index.Tensor"};
  Contents c;
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    ++c.nodes;
    const Type* type = node.outputs.empty() ? nullptr : &g.value(node.outputs[0]).type;
    const bool sized = type != nullptr && type->IsTensor() && type->tensor().sizes;
    c.decides_sizes = c.decides_sizes || (operators->contains(node.op.full()) && !sized) ||
                      (node.op.name() == "aten::where" && node.inputs.size() == 1) ||
                      (ChangesFirstList(node.op) && IsReturnedList(g, node.inputs[0]));
    for (BlockId inner : node.blocks) {
      const Contents more = ContentsOf(g, inner);
      c.nodes += more.nodes;
      c.decides_sizes = c.decides_sizes || more.decides_sizes;
    }
  }
  return c;
}

class Unroller {
 public:
  explicit Unroller(Graph& g) : g_(g) {}

  // Whether the loop was unrolled.
  bool Run(NodeId loop) {
    const Node& node = g_.node(loop);
    if (node.op != "prim::Loop" || node.blocks.size() != 1 || node.inputs.size() < 2) return false;
    const BlockId body = node.blocks[0];
    const std::optional<ConstantValue> trips = GetConstant(g_, node.inputs[0]);
    if (!trips || !std::holds_alternative<int64_t>(*trips) || !IsTrue(g_, node.inputs[1]) || g_.results(body).empty() ||
        !IsTrue(g_, g_.results(body)[0]))
      return false;
    const int64_t count = std::get<int64_t>(*trips);
    const Contents contents = ContentsOf(g_, body);
    if (!contents.decides_sizes || count > kMostNodes / std::max<int64_t>(contents.nodes, 1)) return false;
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

  // The nodes of `from`, in front of `anchor`.
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

void UnrollLoopsOfDataSizes(Graph& g) {
  for (bool changed = true; changed;) {  // a loop inside a loop comes to light
    changed = false;
    for (NodeId n : g.Nodes(g.top())) changed = Unroller(g).Run(n) || changed;
  }
}

}  // namespace smelt
