// Writes nodes in front of another one, with inferred types; decompositions use it. Errors stick: after the first one
// every call returns an invalid id, and status() returns the error.
//
//   Emit e(g, node);
//   ValueId m = e.Amax(x, {dim}, true);
//   ValueId y = e.Div(e.Exp(e.Sub(x, m)), ...);
//   if (!e.ok()) return e.status();
//   e.ReplaceNode({y});
#ifndef SMELT_CORE_OP_EMIT_H_
#define SMELT_CORE_OP_EMIT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class Emit {
 public:
  Emit(Graph& g, NodeId anchor) : g_(g), anchor_(anchor) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

  // Any operator, with all arguments in schema order.
  ValueId Op(absl::string_view op, std::vector<ValueId> args) { return Multi(op, std::move(args), 1)[0]; }
  std::vector<ValueId> Multi(absl::string_view op, std::vector<ValueId> args, int outputs);

  // --- constants ---
  ValueId None() { return Const(std::monostate()); }
  ValueId Const(const ConstantValue& v);
  ValueId Size(const Expr& e);               // an int
  ValueId Ints(const std::vector<Expr>& v);  // a list of ints
  ValueId Dims(const std::vector<int64_t>& v) { return Const(v); }
  ValueId List(const std::vector<ValueId>& tensors);  // prim::ListConstruct

  // --- what is known ---
  const Graph& graph() const { return g_; }
  const TensorType& TypeOf(ValueId v) const;
  DType DTypeOf(ValueId v) const { return *TypeOf(v).dtype; }
  const std::vector<Expr>& Sizes(ValueId v) const { return *TypeOf(v).sizes; }
  int Rank(ValueId v) const { return static_cast<int>(Sizes(v).size()); }
  bool IsContiguous(ValueId v) const;

  // --- arithmetic ---
  ValueId Add(ValueId a, ValueId b) { return Op("aten::add.Tensor", {a, b, Const(int64_t{1})}); }
  ValueId Sub(ValueId a, ValueId b) { return Op("aten::sub.Tensor", {a, b, Const(int64_t{1})}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("aten::mul.Tensor", {a, b}); }
  ValueId Div(ValueId a, ValueId b) { return Op("aten::div.Tensor", {a, b}); }
  ValueId AddN(ValueId a, double s) { return Op("aten::add.Scalar", {a, Const(s), Const(int64_t{1})}); }
  ValueId MulN(ValueId a, double s) { return Op("aten::mul.Scalar", {a, Const(s)}); }
  ValueId DivN(ValueId a, double s) { return Op("aten::div.Scalar", {a, Const(s)}); }
  // Divides by a number of elements that may be symbolic.
  ValueId DivBy(ValueId a, const Expr& n) { return Op("aten::div.Scalar", {a, Size(n)}); }
  ValueId Neg(ValueId a) { return Op("aten::neg", {a}); }
  ValueId Exp(ValueId a) { return Op("aten::exp", {a}); }
  ValueId Log(ValueId a) { return Op("aten::log", {a}); }
  ValueId Sqrt(ValueId a) { return Op("aten::sqrt", {a}); }
  ValueId Rsqrt(ValueId a) { return Op("aten::rsqrt", {a}); }
  ValueId Abs(ValueId a) { return Op("aten::abs", {a}); }
  ValueId Sigmoid(ValueId a) { return Op("aten::sigmoid", {a}); }
  ValueId Tanh(ValueId a) { return Op("aten::tanh", {a}); }
  ValueId Relu(ValueId a) { return Op("aten::relu", {a}); }
  ValueId PowN(ValueId a, double p) { return Op("aten::pow.Tensor_Scalar", {a, Const(p)}); }
  ValueId Square(ValueId a) { return Mul(a, a); }
  ValueId EqN(ValueId a, double s) { return Op("aten::eq.Scalar", {a, Const(s)}); }
  ValueId NeInt(ValueId a, int64_t s) { return Op("aten::ne.Scalar", {a, Const(s)}); }
  ValueId Where(ValueId c, ValueId a, ValueId b) { return Op("aten::where.self", {c, a, b}); }
  ValueId WhereN(ValueId c, ValueId a, double b) { return Where(c, a, Fill(a, b)); }
  ValueId Cast(ValueId v, DType t);
  ValueId Scalar(DType t, double v);  // a 0-dim tensor
  ValueId Fill(ValueId like, double v) { return Scalar(DTypeOf(like), v); }
  ValueId Full(DType t, const std::vector<Expr>& sizes, double v);

  // --- reductions ---
  ValueId Sum(ValueId a, const std::vector<int64_t>& dims, bool keepdim);
  ValueId Mean(ValueId a, const std::vector<int64_t>& dims, bool keepdim);
  ValueId Amax(ValueId a, const std::vector<int64_t>& dims, bool keepdim);
  // Lets a reduction without an identity run over no elements if `size`, the dim that it reduces, may be 0 in a call.
  // For results that are then empty too, so that any value is correct.
  void AllowEmptyReduction(ValueId reduced, const Expr& size);
  // Returns the number of elements that a reduction over dims covers.
  Expr Count(ValueId a, const std::vector<int64_t>& dims) const;

  // --- shapes ---
  ValueId View(ValueId a, const std::vector<Expr>& sizes);     // the strides must allow it
  ValueId Reshape(ValueId a, const std::vector<Expr>& sizes);  // copies if needed
  ValueId Flatten(ValueId a);                                  // Reshape to one dim
  ValueId Contiguous(ValueId a);
  ValueId Transpose(ValueId a, int64_t d0, int64_t d1) { return Op("aten::transpose.int", {a, Const(d0), Const(d1)}); }
  ValueId Permute(ValueId a, const std::vector<int64_t>& dims) { return Op("aten::permute", {a, Const(dims)}); }
  ValueId Unsqueeze(ValueId a, int64_t d) { return Op("aten::unsqueeze", {a, Const(d)}); }
  ValueId Squeeze(ValueId a, int64_t d) { return Op("aten::squeeze.dim", {a, Const(d)}); }
  ValueId Select(ValueId a, int64_t d, const Expr& i) { return Op("aten::select.int", {a, Const(d), Size(i)}); }
  ValueId Slice(ValueId a, int64_t d, const Expr& begin, const Expr& end) {
    return Op("aten::slice.Tensor", {a, Const(d), Size(begin), Size(end), Const(int64_t{1})});
  }
  ValueId Expand(ValueId a, const std::vector<Expr>& sizes);
  ValueId Cat(const std::vector<ValueId>& parts, int64_t dim) { return Op("aten::cat", {List(parts), Const(dim)}); }
  ValueId Mm(ValueId a, ValueId b) { return Op("aten::mm", {a, b}); }

  // smelt::write_region: the contents of `base` with `value` in the region `where`.
  ValueId WriteRegion(ValueId base, ValueId value, const SymbolicGeometry& where);

  // Redirects the uses of the anchor's outputs and erases it. An invalid id leaves an output that must have no uses.
  absl::Status ReplaceNode(const std::vector<ValueId>& results);

 private:
  Graph& g_;
  NodeId anchor_;
  absl::Status status_;
};

}  // namespace smelt

#endif  // SMELT_CORE_OP_EMIT_H_
