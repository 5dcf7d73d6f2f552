#include "smelt/pipeline/call_function.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

// Returns whether the interpreter of scalar functions and every kernel agree on the bits of the result, and neither refuses.
bool IsSameInEveryKernel(const ScalarInstr& in) {
  switch (in.op) {
    // Integers may be divided by 0.
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
    case ScalarOp::kRemTrunc:
    case ScalarOp::kRemFloor:
    // Kernels have code of their own for these.
    case ScalarOp::kFma:
    case ScalarOp::kNextAfter:
    case ScalarOp::kRsqrt:
      return false;
    default:
      return IsExact(in.op);
  }
}

// Composes the functions of a graph's nodes.
class Composer {
 public:
  explicit Composer(const Graph& g) : g_(g) {}

  std::optional<ScalarFn> Run() {
    if (!absl::c_all_of(g_.inputs(), [&](ValueId v) { return Input(v); })) return std::nullopt;
    for (NodeId n : g_.Nodes(g_.top())) {
      if (g_.node(n).op == op::kPrimConstant || g_.node(n).op == op::kPrimListConstruct) continue;
      if (!absl::c_all_of(g_.node(n).outputs, [&](ValueId v) { return HasShape(v); }) || !Node(n)) return std::nullopt;
    }
    std::vector<int> results;
    for (ValueId v : g_.outputs()) {
      const auto it = made_.find(v);
      if (it == made_.end()) return std::nullopt;
      results.push_back(it->second);
    }
    ScalarFn f = b_.Finish(std::move(results));
    if (!absl::c_all_of(f.instrs, IsSameInEveryKernel)) return std::nullopt;
    return f;
  }

 private:
  bool Input(ValueId v) {
    const Type& type = g_.value(v).type;
    DType dtype = DType::kBool;
    if (type.IsTensor()) {
      if (!HasShape(v)) return false;
      dtype = *type.tensor().dtype;
    } else if (type.kind() == TypeKind::kInt) {
      dtype = DType::kInt64;
    } else if (type.kind() == TypeKind::kFloat) {
      dtype = DType::kFloat64;
    } else if (type.kind() != TypeKind::kBool) {
      return false;
    }
    made_[v] = b_.Arg(dtype);
    return true;
  }

  // Returns whether a tensor is a real number, or has the shape that all others with dims have.
  bool HasShape(ValueId v) {
    if (!g_.value(v).type.IsTensor()) return false;
    const TensorType& t = g_.value(v).type.tensor();
    if (!t.dtype || !t.sizes || IsComplex(*t.dtype)) return false;
    if (t.sizes->empty()) return true;
    if (!shape_) shape_ = *t.sizes;
    return *shape_ == *t.sizes;
  }

  bool Node(NodeId n) {
    const smelt::Node& node = g_.node(n);
    const OpFamily family = GetOpTraits(node.op).family;
    if (family == OpFamily::kConversion || family == OpFamily::kCopy) {
      const auto from = made_.find(node.inputs[0]);
      if (from == made_.end()) return false;
      const int made = b_.Cast(from->second, *g_.value(node.outputs[0]).type.tensor().dtype);
      made_[node.outputs[0]] = made;
      return true;
    }
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, n);
    if (!call.ok()) return false;
    if (family == OpFamily::kFill || node.op.name() == op::kZero || node.op.name() == op::kFill) {
      const DType dtype = *g_.value(node.outputs[0]).type.tensor().dtype;
      const std::optional<int> value = Filling(*call, dtype);
      if (value) made_[node.outputs[0]] = b_.Cast(*value, dtype);
      return value.has_value();
    }
    if (GetOpInfo(node.op).kind != OpKind::kPointwise) return false;
    const absl::StatusOr<PointwiseMeaning> meaning = BuildPointwise(*call);
    if (!meaning.ok() || meaning->results.size() < node.outputs.size()) return false;
    std::vector<int> operands;
    for (size_t k = 0; k < meaning->operands.size(); ++k) {
      const PointwiseOperand& o = meaning->operands[k];
      const std::optional<int> x = o.element < 0 ? Operand(call->arg(o.arg), meaning->fn.arg_types[k]) : std::nullopt;
      if (!x) return false;
      operands.push_back(*x);
    }
    const std::vector<int> results = b_.Inline(meaning->fn, operands);
    for (size_t k = 0; k < node.outputs.size(); ++k) made_[node.outputs[k]] = results[k];
    return true;
  }

  // Returns the number that an operator puts everywhere.
  std::optional<int> Filling(const OpCall& call, DType dtype) {
    for (const char* name : {"value", "fill_value", "s"}) {
      if (const OpArg* number = call.Find(name); number != nullptr) return Number(*number);
    }
    const bool is_one = absl::StrContains(call.op().name(), "ones");
    return b_.ConstInt(dtype, is_one ? 1 : 0);
  }

  // Returns a number or the element of a tensor without dims, in its own dtype.
  std::optional<int> Number(const OpArg& a) {
    if (const auto it = made_.find(a.value); it != made_.end()) {
      const bool has_dims = a.IsTensor() && !a.tensor.sizes->empty();
      return has_dims ? std::nullopt : std::optional<int>(it->second);
    }
    if (a.kind == OpArg::Kind::kInt) return Operand(a, DType::kInt64);
    return Operand(a, a.kind == OpArg::Kind::kBool ? DType::kBool : DType::kFloat64);
  }

  std::optional<int> Operand(const OpArg& a, DType as) {
    if (const auto it = made_.find(a.value); it != made_.end()) {
      // A function takes tensors in their own dtypes.
      const bool fits = a.IsScalar() || b_.TypeOf(it->second) == as;
      return fits ? std::optional<int>(b_.Cast(it->second, as)) : std::nullopt;
    }
    if (!a.known || !a.IsScalar()) return std::nullopt;
    if (a.kind == OpArg::Kind::kInt) {
      const std::optional<int64_t> number = a.expr.Constant();
      return number ? std::optional<int>(b_.ConstInt(as, *number)) : std::nullopt;
    }
    if (a.kind == OpArg::Kind::kComplex) return std::nullopt;
    return b_.Const(as, a.number);
  }

  const Graph& g_;
  ScalarBuilder b_;
  std::optional<std::vector<Expr>> shape_;
  absl::flat_hash_map<ValueId, int> made_;  // instructions, by value
};

}  // namespace

std::optional<ScalarFn> FunctionOfCall(const Graph& g) { return Composer(g).Run(); }

}  // namespace smelt
