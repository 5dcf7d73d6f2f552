#include "smelt/core/op/emit.h"

#include "absl/strings/str_cat.h"
#include "smelt/core/op/infer.h"

namespace smelt {
namespace {

constexpr int64_t kMostNodes = int64_t{1} << 19;

}  // namespace

std::vector<ValueId> Emit::Multi(absl::string_view op, std::vector<ValueId> args, int outputs) {
  // Then a loop over a number from a file, which looks at ok(), ends.
  if (g_.num_nodes() > kMostNodes)
    Fail(absl::UnimplementedError(absl::StrCat("the graph would become more than ", kMostNodes, " nodes")));
  if (!ok()) return std::vector<ValueId>(outputs);
  NodeId n = g_.InsertBefore(anchor_, OpName::Get(op), args, std::vector<Type>(outputs, Type::Tensor()));
  g_.SetSource(n, g_.node(anchor_).source);
  if (outputs == 0) return {};  // an assertion: there is nothing to infer
  absl::Status s = InferNode(g_, n);
  if (!s.ok()) {
    Fail(std::move(s));
    return std::vector<ValueId>(outputs);
  }
  return std::vector<ValueId>(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
}

ValueId Emit::Const(const ConstantValue& v) { return ok() ? InsertConstant(g_, anchor_, v) : ValueId(); }

ValueId Emit::Size(const Expr& e) {
  if (!ok()) return ValueId();
  if (e.IsConstant()) return Const(*e.Constant());
  return InsertSize(g_, anchor_, e);
}

ValueId Emit::Ints(const std::vector<Expr>& v) {
  if (!ok()) return ValueId();
  std::vector<int64_t> constants;
  for (const Expr& e : v) {
    if (e.IsConstant()) constants.push_back(*e.Constant());
  }
  if (constants.size() == v.size()) return Const(constants);
  std::vector<ValueId> elements;
  for (const Expr& e : v) elements.push_back(Size(e));
  NodeId n = g_.InsertBefore(anchor_, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Int())});
  return g_.node(n).outputs[0];
}

ValueId Emit::List(const std::vector<ValueId>& tensors) {
  if (!ok()) return ValueId();
  NodeId n = g_.InsertBefore(anchor_, OpName::Get("prim::ListConstruct"), tensors, {Type::List(Type::Tensor())});
  return g_.node(n).outputs[0];
}

const TensorType& Emit::TypeOf(ValueId v) const {
  // After an error, rules continue without effect: they may index sizes.
  static const TensorType* const kNothing =
      new TensorType{DType::kFloat32, std::vector<Expr>(16, Expr(1)), std::vector<Expr>(16, Expr(1))};
  if (!ok() || !g_.value(v).type.IsTensor() || !g_.value(v).type.tensor().IsComplete()) return *kNothing;
  return g_.value(v).type.tensor();
}

bool Emit::IsContiguous(ValueId v) const {
  const TensorType& t = TypeOf(v);
  const std::vector<Expr> expected = ContiguousStrides(*t.sizes);
  for (size_t d = 0; d < expected.size(); ++d) {
    if ((*t.strides)[d] != expected[d] && (*t.sizes)[d] != Expr(1)) return false;
  }
  return true;
}

ValueId Emit::Cast(ValueId v, DType t) {
  if (!ok() || DTypeOf(v) == t) return v;
  // A decomposition that was written for real numbers would lose the imaginary parts.
  if (IsComplex(DTypeOf(v)) && !IsComplex(t)) {
    Fail(absl::UnimplementedError("complex numbers"));
    return v;
  }
  ValueId none = None();
  return Op("aten::_to_copy", {v, Const(ScalarTypeOf(t)), none, none, none, Const(false), none});
}

ValueId Emit::Scalar(DType t, double v) { return Full(t, {}, v); }

ValueId Emit::Full(DType t, const std::vector<Expr>& sizes, double v) {
  if (!ok()) return ValueId();
  ValueId none = None();
  ConstantValue value = v;
  if (t == DType::kBool) {
    value = v != 0;
  } else if (IsIntegral(t)) {
    value = static_cast<int64_t>(v);
  }
  return Op("aten::full", {Ints(sizes), Const(value), Const(ScalarTypeOf(t)), none, none, none});
}

ValueId Emit::Sum(ValueId a, const std::vector<int64_t>& dims, bool keepdim) {
  return Op("aten::sum.dim_IntList", {a, Dims(dims), Const(keepdim), None()});
}
ValueId Emit::Mean(ValueId a, const std::vector<int64_t>& dims, bool keepdim) {
  return Op("aten::mean.dim", {a, Dims(dims), Const(keepdim), None()});
}
ValueId Emit::Amax(ValueId a, const std::vector<int64_t>& dims, bool keepdim) {
  return Op("aten::amax", {a, Dims(dims), Const(keepdim)});
}
void Emit::AllowEmptyReduction(ValueId reduced, const Expr& size) {
  if (g_.symbols.Less(0, size) != true) g_.SetAttribute(g_.value(reduced).def, "may_be_of_nothing", true);
}
Expr Emit::Count(ValueId a, const std::vector<int64_t>& dims) const {
  Expr n = 1;
  const int rank = Rank(a);
  for (int64_t d : dims) n = n * Sizes(a)[d < 0 ? d + rank : d];
  return n;
}

ValueId Emit::View(ValueId a, const std::vector<Expr>& sizes) {
  if (!ok() || Sizes(a) == sizes) return a;
  return Op("aten::view", {a, Ints(sizes)});
}
ValueId Emit::Contiguous(ValueId a) {
  if (!ok() || IsContiguous(a)) return a;
  return Op("aten::clone", {a, Const(int64_t{0})});
}
ValueId Emit::Flatten(ValueId a) {
  Expr count = 1;
  for (const Expr& n : Sizes(a)) count = count * n;
  return Reshape(a, {count});
}

ValueId Emit::Reshape(ValueId a, const std::vector<Expr>& sizes) {
  if (!ok() || Sizes(a) == sizes) return a;
  return View(Contiguous(a), sizes);
}
ValueId Emit::Expand(ValueId a, const std::vector<Expr>& sizes) {
  if (!ok() || Sizes(a) == sizes) return a;
  return Op("aten::expand", {a, Ints(sizes), Const(false)});
}

ValueId Emit::WriteRegion(ValueId base, ValueId value, const SymbolicGeometry& where) {
  if (!ok()) return ValueId();
  NodeId n = g_.InsertBefore(anchor_, OpName::Get("smelt::write_region"), {base, value}, {g_.value(base).type});
  g_.SetAttribute(n, "sizes", where.sizes);
  g_.SetAttribute(n, "strides", where.strides);
  g_.SetAttribute(n, "offset", where.offset);
  g_.SetAttribute(n, "dtype", ScalarTypeOf(where.dtype));
  g_.SetSource(n, g_.node(anchor_).source);
  return g_.node(n).outputs[0];
}

absl::Status Emit::ReplaceNode(const std::vector<ValueId>& results) {
  if (!ok()) return status_;
  const std::vector<ValueId> outputs(g_.node(anchor_).outputs.begin(), g_.node(anchor_).outputs.end());
  if (results.size() < outputs.size()) return absl::InternalError("too few results");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (g_.IsLive(results[i])) {
      g_.ReplaceAllUses(outputs[i], results[i]);
    } else if (!g_.value(outputs[i]).uses.empty()) {
      return absl::UnimplementedError(
          absl::StrCat(g_.node(anchor_).op.full(), ": result ", i, " is used, and nothing computes it"));
    }
  }
  g_.Erase(anchor_);
  return absl::OkStatus();
}

}  // namespace smelt
