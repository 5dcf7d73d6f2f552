#include "smelt/pipeline/expected_types.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "smelt/core/op/infer.h"

namespace smelt {
namespace {

bool IsTensor(const Graph& g, ValueId v) { return g.value(v).type.IsTensor(); }
const TensorType& TypeOf(const Graph& g, ValueId v) { return g.value(v).type.tensor(); }
bool LacksDType(const Graph& g, ValueId v) { return IsTensor(g, v) && !TypeOf(g, v).dtype; }

class Expecter {
 public:
  explicit Expecter(Graph& g) : g_(g) {
    // Of a tensor about which nothing is known: a floating point argument's, before another argument's.
    for (ValueId v : g_.inputs()) {
      if (!IsTensor(g_, v) || !TypeOf(g_, v).dtype) continue;
      if (!usual_ || (IsFloating(*TypeOf(g_, v).dtype) && !IsFloating(*usual_))) usual_ = TypeOf(g_, v).dtype;
    }
  }

  void Block(BlockId b) {
    std::vector<NodeId> nodes;
    for (NodeId n : g_.Nodes(b)) nodes.push_back(n);
    for (NodeId n : nodes) {
      // What was expected before may decide its types.
      if (changed_ && g_.node(n).blocks.empty()) InferNode(g_, n).IgnoreError();
      const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
      for (BlockId inner : blocks) {
        for (ValueId v : g_.params(inner)) {
          if (LacksDType(g_, v)) Expect(v, TensorType{LikelyOf(n), {}, {}}, First(inner));
        }
        Block(inner);
      }
      const NodeId next = g_.node(n).next.valid() ? g_.node(n).next : g_.block(b).return_node;
      const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
      for (ValueId v : outputs) {
        if (LacksDType(g_, v)) {
          Expect(v, LikelyType(n), next);
        } else if (IsTensor(g_, v) && !TypeOf(g_, v).sizes && KeepsDims(n)) {
          g_.SetType(v, Type::Tensor({TypeOf(g_, v).dtype, DimsOf(n), std::nullopt}));
          changed_ = true;
        }
      }
    }
  }

 private:
  NodeId First(BlockId b) {
    for (NodeId n : g_.Nodes(b)) return n;
    return g_.block(b).return_node;
  }

  // That of the operands that are tensors: of blocks' results and what a list was made of, too.
  DType LikelyOf(NodeId n) {
    std::vector<ValueId> from(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    for (BlockId b : g_.node(n).blocks) from.insert(from.end(), g_.results(b).begin(), g_.results(b).end());
    for (ValueId v : std::vector<ValueId>(from)) {
      if (auto elements = GetListElements(g_, v)) from.insert(from.end(), elements->begin(), elements->end());
    }
    for (ValueId v : from) {
      if (IsTensor(g_, v) && TypeOf(g_, v).dtype) return *TypeOf(g_, v).dtype;
    }
    return usual_.value_or(DType::kFloat32);
  }

  TensorType LikelyType(NodeId n) {
    TensorType t;
    t.dtype = LikelyOf(n);
    t.sizes = DimsOf(n);
    return t;
  }

  // Views between bounds that only the run knows have the dims of their operand, of sizes that are not known.
  bool KeepsDims(NodeId n) const {
    const std::string& name = g_.node(n).op.name();
    return name == "aten::slice" || name == "aten::narrow" || name == "aten::select";
  }
  std::optional<std::vector<Expr>> DimsOf(NodeId n) const {
    if (!KeepsDims(n)) return std::nullopt;
    const ValueId self = g_.node(n).inputs[0];
    if (!IsTensor(g_, self) || !TypeOf(g_, self).sizes) return std::nullopt;
    const int rank = TypeOf(g_, self).rank() - (g_.node(n).op.name() == "aten::select");
    if (rank < 0) return std::nullopt;
    return std::vector<Expr>(rank, Expr::Poison());
  }

  void Expect(ValueId v, TensorType t, NodeId anchor) {
    const NodeId check = g_.InsertBefore(
        anchor, OpName::Get("smelt::assert_type"), {v}, {},
        {{"dtype", static_cast<int64_t>(*t.dtype)}, {"rank", t.sizes ? static_cast<int64_t>(t.rank()) : int64_t{-1}}});
    g_.SetSource(check, g_.node(g_.value(v).def).source);
    g_.SetType(v, Type::Tensor(std::move(t)));
    changed_ = true;
  }

  Graph& g_;
  std::optional<DType> usual_;
  bool changed_ = false;
};

}  // namespace

void ExpectTypes(Graph& g) { Expecter(g).Block(g.top()); }

}  // namespace smelt
