#include "smelt/script/resolve_tuples.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

bool IsTuple(const Graph& g, ValueId v) { return g.value(v).type.kind() == TypeKind::kTuple; }

class TupleResolver {
 public:
  explicit TupleResolver(Graph& g) : g_(g) {}

  void Run() {
    for (NodeId n : g_.AllNodes()) Split(n);
    for (NodeId n : g_.AllNodes()) Forward(n);
    EraseUnused();
  }

 private:
  // Splits the tuples that a branch or a loop returns, one at a time: those within them come last and are split too.
  void Split(NodeId n) {
    const bool loop = g_.node(n).op == op::kPrimLoop;
    if (!loop && g_.node(n).op != op::kPrimIf) return;
    for (int k = 0; k < static_cast<int>(g_.node(n).outputs.size());) {
      if (IsTuple(g_, g_.node(n).outputs[k])) {
        SplitResult(n, k, loop);
      } else {
        ++k;
      }
    }
  }

  void SplitResult(NodeId n, int k, bool loop) {
    const ValueId output = g_.node(n).outputs[k];
    const auto elements = g_.value(output).type.elements();
    const std::vector<Type> types(elements.begin(), elements.end());
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    if (loop) {
      const uint32_t input = static_cast<uint32_t>(k) + 2;
      for (ValueId v : Unpack(g_.node(n).inputs[input], types, n)) g_.AddNodeInput(n, v);
      g_.RemoveInput(n, input);
    }
    for (BlockId b : blocks) {
      const int result = loop ? k + 1 : k;
      if (loop) SplitParam(b, k + 1, types);
      for (ValueId v : Unpack(g_.results(b)[result], types, g_.block(b).return_node)) g_.AddResult(b, v);
      g_.EraseResult(b, result);
    }
    std::vector<ValueId> parts;
    for (const Type& t : types) parts.push_back(g_.AddNodeOutput(n, t));
    const NodeId whole = g_.InsertAfter(n, OpName::Get(op::kPrimTupleConstruct), parts, {g_.value(output).type});
    g_.SetSource(whole, g_.node(n).source);
    g_.ReplaceAllUses(output, g_.node(whole).outputs[0]);
    g_.EraseNodeOutput(n, k);
  }

  void SplitParam(BlockId b, int index, const std::vector<Type>& types) {
    const ValueId param = g_.params(b)[index];
    std::vector<ValueId> parts;
    for (const Type& t : types) parts.push_back(g_.AddParam(b, t));
    const NodeId first = g_.block(b).first;
    const NodeId whole = g_.InsertBefore(first.valid() ? first : g_.block(b).return_node,
                                         OpName::Get(op::kPrimTupleConstruct), parts, {g_.value(param).type});
    g_.ReplaceAllUses(param, g_.node(whole).outputs[0]);
    g_.EraseParam(b, index);
  }

  std::vector<ValueId> Unpack(ValueId tuple, const std::vector<Type>& types, NodeId anchor) {
    const NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kPrimTupleUnpack), {tuple}, types);
    return {g_.node(n).outputs.begin(), g_.node(n).outputs.end()};
  }

  // Replaces the results of a node that takes the elements of a known tuple.
  void Forward(NodeId n) {
    const Node& node = g_.node(n);
    const bool unpack = node.op == op::kPrimTupleUnpack, slice = node.op == op::kPrimTupleSlice;
    if (!unpack && !slice && node.op != op::kPrimTupleIndex) return;
    const Node& made = g_.node(g_.value(node.inputs[0]).def);
    if (made.op != op::kPrimTupleConstruct) return;
    const int64_t size = static_cast<int64_t>(made.inputs.size());
    if (unpack) {
      if (static_cast<int64_t>(node.outputs.size()) != size) return;
      for (size_t i = 0; i < node.outputs.size(); ++i) g_.ReplaceAllUses(node.outputs[i], made.inputs[i]);
    } else if (slice) {
      const Attribute *begin = node.FindAttribute("beg"), *end = node.FindAttribute("end");
      const auto* first = begin == nullptr ? nullptr : std::get_if<int64_t>(begin);
      const auto* last = end == nullptr ? nullptr : std::get_if<int64_t>(end);
      if (first == nullptr || last == nullptr || *first < 0 || *first > *last || *last > size) return;
      const std::vector<ValueId> parts(made.inputs.begin() + *first, made.inputs.begin() + *last);
      std::vector<Type> types;
      for (ValueId v : parts) types.push_back(g_.value(v).type);
      const NodeId part =
          g_.InsertBefore(n, OpName::Get(op::kPrimTupleConstruct), parts, {Type::Tuple(std::move(types))});
      g_.SetSource(part, g_.node(n).source);
      g_.ReplaceAllUses(g_.node(n).outputs[0], g_.node(part).outputs[0]);
    } else {
      const std::optional<Expr> index = GetIntExpr(g_, node.inputs[1]);
      if (!index || !index->IsConstant()) return;
      const int64_t i = *index->Constant() + (*index->Constant() < 0 ? size : 0);
      if (i < 0 || i >= size) return;  // an error, when it runs
      g_.ReplaceAllUses(node.outputs[0], made.inputs[i]);
    }
    g_.Erase(n);
  }

  void EraseUnused() {
    const std::vector<NodeId> nodes = g_.AllNodes();
    for (size_t k = nodes.size(); k-- > 0;) {
      const Node& node = g_.node(nodes[k]);
      if (node.op == op::kPrimTupleConstruct && g_.value(node.outputs[0]).uses.empty()) g_.Erase(nodes[k]);
    }
  }

  Graph& g_;
};

}  // namespace

void ResolveTuples(Graph& g) { TupleResolver(g).Run(); }

Pass ResolveTuplesPass() {
  return {.name = "resolve-tuples",
          .description = "tuples are replaced by their elements",
          .prerequisites = {"simplify-script"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            ResolveTuples(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
