#include "smelt/pipeline/expected_types.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/pipeline/call_graph.h"

namespace smelt {
namespace {

bool IsTensor(const Graph& g, ValueId v) { return g.value(v).type.IsTensor(); }
const TensorType& TypeOf(const Graph& g, ValueId v) { return g.value(v).type.tensor(); }
std::vector<Expr> UnknownSizes(int rank) { return std::vector<Expr>(rank, Expr::Poison()); }
bool LacksDType(const Graph& g, ValueId v) { return IsTensor(g, v) && !TypeOf(g, v).dtype; }

class Expecter {
 public:
  Expecter(Graph& g, ExpectedDims dims) : g_(g), guess_dims_(dims == ExpectedDims::kLikeOperands) {
    // The type of a tensor about which nothing is known: a floating-point argument's, before another argument's.
    for (ValueId v : g_.inputs()) {
      if (!IsTensor(g_, v) || !TypeOf(g_, v).dtype) continue;
      if (!usual_ || (IsFloating(*TypeOf(g_, v).dtype) && !IsFloating(*usual_))) usual_ = TypeOf(g_, v).dtype;
    }
  }

  bool changed() const { return changed_; }

  void Block(BlockId b) {
    std::vector<NodeId> nodes;
    for (NodeId n : g_.Nodes(b)) nodes.push_back(n);
    for (NodeId n : nodes) {
      // Earlier expectations may decide its types.
      if (changed_ && g_.node(n).blocks.empty()) InferNode(g_, n).IgnoreError();
      const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
      for (BlockId inner : blocks) {
        const size_t ahead = g_.node(n).op.name() == op::kPrimLoop ? 1 : 0;  // the number of the trip
        for (size_t k = 0; k < g_.params(inner).size(); ++k) {
          const ValueId v = g_.params(inner)[k];
          const std::optional<TensorType> first = k >= ahead ? HandedIn(n, k - ahead) : std::nullopt;
          if (LacksDType(g_, v)) {
            Expect(v, first ? *first : LikelyType(n), First(inner));
          } else if (guess_dims_ && IsTensor(g_, v) && !TypeOf(g_, v).sizes && first && first->sizes) {
            Expect(v, TensorType{TypeOf(g_, v).dtype, first->sizes, std::nullopt}, First(inner));
          }
        }
        Block(inner);
      }
      const NodeId next = g_.node(n).next.valid() ? g_.node(n).next : g_.block(b).return_node;
      const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
      const auto is_open = [&](ValueId v) {
        return guess_dims_ && IsTensor(g_, v) && (!TypeOf(g_, v).dtype || !TypeOf(g_, v).sizes);
      };
      const bool any_open =
          std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return is_open(v) || LacksDType(g_, v); });
      std::vector<TensorType> made;
      if (any_open) made = TypesOfOperands(n, Operands::kDense);
      if (any_open && made.empty()) made = TypesOfOperands(n, Operands::kFlat);
      for (size_t k = 0; k < outputs.size(); ++k) {
        const ValueId v = outputs[k];
        const std::optional<TensorType> first = is_open(v) ? HandedIn(n, k) : std::nullopt;
        if ((is_open(v) || LacksDType(g_, v)) && k < made.size()) {
          Expect(v, made[k], next);
        } else if (first) {
          Expect(v, *first, next);
        } else if (LacksDType(g_, v)) {
          Expect(v, LikelyType(n), next);
        } else if (IsTensor(g_, v) && !TypeOf(g_, v).sizes && DimsOf(n)) {
          Expect(v, TensorType{TypeOf(g_, v).dtype, DimsOf(n), std::nullopt}, next);
        }
      }
    }
  }

 private:
  NodeId First(BlockId b) {
    for (NodeId n : g_.Nodes(b)) return n;
    return g_.block(b).return_node;
  }

  // Returns the operands, the elements that lists among them were made of, and the results of blocks.
  std::vector<ValueId> Sources(NodeId n) {
    std::vector<ValueId> from(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    for (BlockId b : g_.node(n).blocks) from.insert(from.end(), g_.results(b).begin(), g_.results(b).end());
    // From the elements of a list, the parts of a tensor, and the values that a branch or a loop passes on.
    for (size_t k = 0; k < from.size() && from.size() < kMostSources; ++k) {
      const ValueId v = from[k];
      if (IsTensor(g_, v) && TypeOf(g_, v).dtype) continue;
      const NodeId def = g_.value(v).def;
      const TypeKind kind = g_.value(v).type.kind();
      if (auto elements = GetListElements(g_, v)) {
        from.insert(from.end(), elements->begin(), elements->end());
      } else if (kind != TypeKind::kList && kind != TypeKind::kOptional && !IsTensor(g_, v)) {
        continue;
      } else if (g_.IsParam(def)) {
        const BlockId loop = g_.node(def).parent;
        if (loop != g_.top()) from.insert(from.end(), g_.results(loop).begin(), g_.results(loop).end());
      } else if (!g_.node(def).blocks.empty()) {
        for (BlockId b : g_.node(def).blocks) from.insert(from.end(), g_.results(b).begin(), g_.results(b).end());
      } else if (!g_.node(def).inputs.empty()) {
        from.push_back(g_.node(def).inputs[0]);
      }
    }
    return from;
  }

  // Returns the type of the k-th value that a loop or a branch is given, or that its first block returns.
  std::optional<TensorType> HandedIn(NodeId n, size_t k) const {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    ValueId v;
    if (name == op::kPrimIf) {
      for (BlockId b : node.blocks) {
        if (k < g_.results(b).size() && (!v.valid() || !IsTensor(g_, v) || !TypeOf(g_, v).dtype)) v = g_.results(b)[k];
      }
    } else if (!node.blocks.empty()) {
      const size_t at = k + (name == op::kPrimLoop ? 2 : name == op::kSmeltCond ? 1 : 0);
      if (at < node.inputs.size()) v = node.inputs[at];
    }
    if (!v.valid() || !IsTensor(g_, v) || !TypeOf(g_, v).dtype) return std::nullopt;
    TensorType t{TypeOf(g_, v).dtype, std::nullopt, std::nullopt};
    if (guess_dims_ && RankOf(v)) t.sizes = UnknownSizes(*RankOf(v));
    return t;
  }

  // Returns the results that an operator would have if its operands, whose dtypes and dims are known, were dense
  // (kDense); or if they, whose dtypes alone are known, had one dim (kFlat): then its results have the dims of DimsOf.
  // Empty if the results are unknown even so.
  enum class Operands { kDense, kFlat };
  std::vector<TensorType> TypesOfOperands(NodeId n, Operands operands_are) {
    const Node& node = g_.node(n);
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema == nullptr || schema->IsMutable() || !node.blocks.empty()) return {};
    const bool flat = operands_are == Operands::kFlat;
    CallGraph call(g_, flat);
    std::vector<ValueId> operands;
    for (ValueId v : node.inputs) {
      absl::StatusOr<ValueId> x = call.Operand(v);
      if (!x.ok()) return {};
      operands.push_back(*x);
    }
    absl::StatusOr<std::vector<ValueId>> results = call.Apply(node.op, operands, node.outputs.size(), node.source);
    if (!results.ok()) return {};
    std::vector<TensorType> types;
    for (ValueId v : *results) {
      const Type& t = call.graph().value(v).type;
      if (!t.IsTensor() || !t.tensor().dtype || !t.tensor().sizes) return {};
      types.push_back({t.tensor().dtype, flat ? DimsOf(n) : UnknownSizes(t.tensor().rank()), std::nullopt});
    }
    return types;
  }

  TensorType LikelyType(NodeId n) {
    TensorType t;
    t.dtype = usual_.value_or(DType::kFloat32);
    for (ValueId v : Sources(n)) {
      if (!IsTensor(g_, v) || !TypeOf(g_, v).dtype) continue;
      t.dtype = TypeOf(g_, v).dtype;
      break;
    }
    t.sizes = DimsOf(n);
    return t;
  }

  // Views between bounds that only the run knows have the dims of their operand and unknown sizes.
  std::optional<std::vector<Expr>> DimsOf(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    std::optional<int> rank;
    if (name == op::kSlice || name == op::kNarrow || name == op::kSelect) {
      rank = RankOf(node.inputs[0]);
      if (rank && name == op::kSelect) --*rank;
    } else if (name == op::kView || name == op::kReshape || name == op::kExpand || name == op::kResizeInPlace) {
      const NodeId sizes = g_.value(node.inputs[1]).def;
      if (!g_.IsParam(sizes) && g_.node(sizes).op == op::kPrimListConstruct)
        rank = static_cast<int>(g_.node(sizes).inputs.size());
    } else if (guess_dims_) {
      for (ValueId v : Sources(n)) {
        if (!rank) rank = RankOf(v);
      }
    }
    if (!rank || *rank < 0) return std::nullopt;
    return UnknownSizes(*rank);
  }
  std::optional<int> RankOf(ValueId v) const {
    if (!IsTensor(g_, v) || !TypeOf(g_, v).sizes) return std::nullopt;
    return TypeOf(g_, v).rank();
  }

  void Expect(ValueId v, TensorType t, NodeId anchor) {
    const NodeId check = g_.InsertBefore(
        anchor, OpName::Get(op::kSmeltAssertType), {v}, {},
        {{"dtype", static_cast<int64_t>(*t.dtype)}, {"rank", t.sizes ? static_cast<int64_t>(t.rank()) : int64_t{-1}}});
    g_.SetSource(check, g_.node(g_.value(v).def).source);
    g_.SetType(v, Type::Tensor(std::move(t)));
    changed_ = true;
  }

  static constexpr size_t kMostSources = 64;  // it is only a guess

  Graph& g_;
  const bool guess_dims_;
  std::optional<DType> usual_;
  bool changed_ = false;
};

}  // namespace

bool ExpectTypes(Graph& g, ExpectedDims dims) {
  Expecter expecter(g, dims);
  expecter.Block(g.top());
  return expecter.changed();
}

}  // namespace smelt
