// Operators on complex numbers, as operators on their real and imaginary parts: a complex tensor is seen as a real one
// with a last dim of size 2, so no kernel knows complex numbers.
#include <complex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

bool IsComplexTensor(const Type& t) { return t.IsTensor() && t.tensor().dtype && IsComplex(*t.tensor().dtype); }
DType PartOf(DType t) {
  return t == DType::kComplex128 ? DType::kFloat64 : t == DType::kComplex64 ? DType::kFloat32 : t;
}

// aten::zeros, aten::zeros_like, aten::new_zeros, ...
bool IsFilledWith(absl::string_view name, absl::string_view what) {
  return name == absl::StrCat("aten::", what) || name == absl::StrCat("aten::", what, "_like") ||
         name == absl::StrCat("aten::new_", what);
}

struct Parts {
  ValueId re, im;  // im is invalid of a real number
};

class ComplexRule {
 public:
  ComplexRule(Graph& g, NodeId n, const OpCall& call) : g_(g), n_(n), e_(g, n), call_(call) {
    for (ValueId v : g.node(n).outputs) {
      if (IsComplexTensor(g.value(v).type)) part_ = PartOf(*g.value(v).type.tensor().dtype);
    }
    for (const OpArg& a : call.args()) {
      if (part_ == DType::kFloat32 && a.IsTensor() && a.tensor.dtype == DType::kComplex128) part_ = DType::kFloat64;
    }
  }

  absl::StatusOr<bool> Run() {
    const std::string& name = call_.op().name();
    const bool complex_result = IsComplexTensor(g_.value(g_.node(n_).outputs[0]).type);
    ValueId out;
    if (name == "aten::add" || name == "aten::sub" || name == "aten::rsub") {
      SMELT_ASSIGN_OR_RETURN(double alpha, call_.GetDoubleOr("alpha", 1));
      Parts a = Arg(0), b = Arg(1);
      if (name == "aten::rsub") std::swap(a, b);
      // As PyTorch computes it, whatever alpha is: an infinite part makes the other one NaN.
      out = Make(Add(a, Mul(b, {e_.Scalar(part_, name == "aten::add" ? alpha : -alpha), ValueId()})));
    } else if (name == "aten::mul") {
      out = Make(Mul(Arg(0), Arg(1)));
    } else if (name == "aten::div" && call_.IsNone("rounding_mode")) {
      out = Make(Div(Arg(0), Arg(1)));
    } else if (name == "aten::addcmul" || name == "aten::addcdiv") {
      const Parts value = call_.IsNone("value") ? Parts{e_.Scalar(part_, 1), ValueId()} : Arg(3);
      const Parts scaled = Mul(value, Arg(1));
      out = Make(Add(Arg(0), name == "aten::addcmul" ? Mul(scaled, Arg(2)) : Div(scaled, Arg(2))));
    } else if (name == "aten::lerp") {
      out = Make(Lerp(Arg(0), Arg(1), Arg(2)));
    } else if (name == "aten::reciprocal") {
      out = Make(Div({e_.Scalar(part_, 1), ValueId()}, Arg(0)));
    } else if (name == "aten::neg") {
      const Parts a = Arg(0);
      out = Make({e_.Neg(a.re), e_.Neg(Im(a))});
    } else if (name == "aten::square") {
      const Parts a = Arg(0);
      out = Make(Mul(a, a));
    } else if (name == "aten::abs") {
      const Parts a = Arg(0);
      out = e_.Op("aten::hypot", {a.re, a.im});
    } else if (name == "aten::angle") {
      const Parts a = Arg(0);
      out = e_.Op("aten::atan2", {a.im, a.re});
    } else if (name == "aten::conj_physical") {
      const Parts a = Arg(0);
      out = Make({a.re, e_.Neg(a.im)});
    } else if (name == "aten::exp") {
      const Parts a = Arg(0);
      const ValueId r = e_.Exp(a.re);
      out = Make({e_.Mul(r, e_.Op("aten::cos", {a.im})), e_.Mul(r, e_.Op("aten::sin", {a.im}))});
    } else if (name == "aten::complex") {
      out = Make({call_.arg(0).value, call_.arg(1).value});
    } else if (name == "aten::polar") {
      const ValueId r = call_.arg(0).value, phi = call_.arg(1).value;
      out = Make({e_.Mul(r, e_.Op("aten::cos", {phi})), e_.Mul(r, e_.Op("aten::sin", {phi}))});
    } else if ((name == "aten::_to_copy" || name == "aten::clone") && complex_result) {
      out = Make(Arg(0));
    } else if (name == "aten::_to_copy") {
      out = Arg(0).re;  // PyTorch warns that the imaginary part is lost
    } else if (name == "aten::eq" || name == "aten::ne") {
      const Parts a = Arg(0), b = Arg(1);
      out = e_.Op("aten::logical_and",
                  {e_.Op("aten::eq.Tensor", {a.re, b.re}), e_.Op("aten::eq.Tensor", {Im(a), Im(b)})});
      if (name == "aten::ne") out = e_.Op("aten::logical_not", {out});
    } else if (call_.op().full() == "aten::where.self") {
      const ValueId c = call_.arg(0).value;
      const Parts a = Arg(1), b = Arg(2);
      out = Make({e_.Where(c, a.re, b.re), e_.Where(c, Im(a), Im(b))});
    } else if (name == "aten::masked_fill") {
      const ValueId c = call_.arg(1).value;
      const Parts a = Arg(0), b = Arg(2);
      out = Make({e_.Where(c, b.re, a.re), e_.Where(c, Im(b), Im(a))});
    } else if (name == "aten::copy" || name == "aten::fill") {
      out = Make(Arg(1));
    } else if (name == "aten::zero" || IsFilledWith(name, "zeros") || IsFilledWith(name, "empty")) {
      out = Make({e_.Scalar(part_, 0), ValueId()});
    } else if (IsFilledWith(name, "ones")) {
      out = Make({e_.Scalar(part_, 1), ValueId()});
    } else if (IsFilledWith(name, "full")) {
      out = Make(Arg(name == "aten::new_full" ? 2 : 1));
    } else if (name == "aten::scalar_tensor") {
      out = Make(Arg(0));
    } else if (name == "aten::logical_not") {
      const Parts a = Arg(0);
      out = e_.Op("aten::logical_not", {e_.Op("aten::logical_or", {a.re, Im(a)})});
    } else if (call_.op().full() == "aten::sum.dim_IntList" || call_.op().full() == "aten::mean.dim" ||
               call_.op().full() == "aten::sum" || call_.op().full() == "aten::mean") {
      if (!complex_result || !call_.arg(0).IsTensor()) return false;
      const Parts a = Arg(0);
      Parts sums;
      for (auto [from, to] : {std::make_pair(a.re, &sums.re), std::make_pair(a.im, &sums.im)}) {
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        args[0] = from;
        args.back() = e_.None();  // dtype
        *to = e_.Op(call_.op().full(), args);
      }
      out = Make(sums);
    } else if (name == "aten::mm" || name == "aten::bmm") {
      const Parts a = Arg(0), b = Arg(1);
      auto mm = [&](ValueId x, ValueId y) { return e_.Op(name, {e_.Contiguous(x), e_.Contiguous(y)}); };
      out = Make({e_.Sub(mm(a.re, b.re), mm(Im(a), Im(b))), e_.Add(mm(a.re, Im(b)), mm(Im(a), b.re))});
    } else if (name == "aten::convolution") {
      // Products of the parts, as of matrices; what is added is added once.
      if (!complex_result) return false;
      const Parts x = Arg(0), w = Arg(1);
      Parts bias;
      if (call_.arg(2).IsTensor()) bias = Arg(2), bias.im = Im(bias);
      const ValueId none = e_.None();
      auto convolve = [&](ValueId of, ValueId by, ValueId plus) {
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        args[0] = e_.Contiguous(of);
        args[1] = e_.Contiguous(by);
        args[2] = plus.valid() ? e_.Contiguous(plus) : none;
        return e_.Op("aten::convolution", args);
      };
      out = Make({e_.Sub(convolve(x.re, w.re, bias.re), convolve(Im(x), Im(w), ValueId())),
                  e_.Add(convolve(x.re, Im(w), bias.im), convolve(Im(x), w.re, ValueId()))});
    } else if (name == "aten::constant_pad_nd") {
      const OpArg& given = call_.arg(2);
      if (!given.known) return call_.Unsupported("a number that is known only at run time beside complex ones");
      const std::complex<double> value = given.kind == OpArg::Kind::kComplex ? given.complex : given.number;
      const Parts x = Arg(0);
      const ValueId pad = g_.node(n_).inputs[1];
      out = Make({e_.Op("aten::constant_pad_nd", {x.re, pad, e_.Const(value.real())}),
                  e_.Op("aten::constant_pad_nd", {Im(x), pad, e_.Const(value.imag())})});
    } else if (name == "aten::index_put" || name == "aten::_unsafe_index_put" || name == "aten::index_add" ||
               name == "aten::index_copy" || name == "aten::index_select" || name == "aten::index" ||
               name == "aten::_unsafe_index") {
      // The parts are elements of one more dim.
      std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
      const int rank = g_.value(args[0]).type.tensor().rank();
      if (rank == 0 || !IsComplexTensor(g_.value(args[0]).type)) return false;
      if (const int at = call_.IndexOf("dim"); at >= 0) {
        SMELT_ASSIGN_OR_RETURN(int64_t dim, call_.GetInt("dim"));
        args[at] = e_.Const(WrapDim(dim, rank));
      }
      if (const OpArg* alpha = call_.Find("alpha"); alpha != nullptr && alpha->kind == OpArg::Kind::kComplex)
        return false;
      for (ValueId& v : args) {
        if (IsComplexTensor(g_.value(v).type)) v = e_.Op("aten::view_as_real", {v});
      }
      if (!e_.ok()) return e_.status();
      out = e_.Op("aten::view_as_complex", {e_.Contiguous(e_.Op(call_.op().full(), args))});
    } else if (name == "aten::index_fill") {
      const Parts x = Arg(0), value = Arg(3);
      const auto fill = [&](ValueId part, ValueId with) {
        return e_.Op("aten::index_fill.int_Tensor", {part, g_.node(n_).inputs[1], g_.node(n_).inputs[2], with});
      };
      if (!e_.ok()) return e_.status();
      out = Make({fill(x.re, value.re), fill(Im(x), Im(value))});
    } else if (name == "aten::cumsum") {
      const Parts a = Arg(0);
      const auto sum = [&](ValueId part) { return e_.Op("aten::cumsum", {part, g_.node(n_).inputs[1], e_.None()}); };
      if (!e_.ok()) return e_.status();
      out = Make({sum(a.re), sum(Im(a))});
    } else if (complex_result && MovesEachPart(call_.op().full())) {
      Parts moved;
      for (const bool imaginary : {false, true}) {
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        for (size_t i = 0; i < args.size(); ++i) {
          if (!IsComplexTensor(g_.value(args[i]).type)) continue;
          const Parts a = Arg(static_cast<int>(i));
          args[i] = imaginary ? Im(a) : a.re;
        }
        (imaginary ? moved.im : moved.re) = e_.Op(call_.op().full(), args);
      }
      out = Make(moved);
    } else if (name == "aten::cat" || name == "aten::stack") {
      const OpArg& list = call_.arg(0);
      SMELT_ASSIGN_OR_RETURN(int64_t dim, call_.GetIntOr("dim", 0));
      std::vector<ValueId> parts;
      int rank = 0;
      for (const OpArg& a : list.elements) {
        if (!a.IsTensor() || !a.tensor.dtype || !IsComplex(*a.tensor.dtype)) return false;
        rank = a.tensor.rank();
        parts.push_back(e_.Op("aten::view_as_real", {a.value}));
      }
      if (dim < 0) dim += rank + (name == "aten::stack");
      out = e_.Op("aten::view_as_complex", {e_.Contiguous(e_.Op(name, {e_.List(parts), e_.Const(dim)}))});
    } else {
      return false;
    }
    if (!e_.ok()) return e_.status();
    SMELT_RETURN_IF_ERROR(Finish(out));
    return true;
  }

 private:
  // Of the real parts it makes the real parts, of the imaginary ones the imaginary ones.
  static bool MovesEachPart(const std::string& op) {
    static const auto* const kOps = new absl::flat_hash_set<std::string>{
        "aten::gather", "aten::take", "aten::scatter.src", "aten::scatter_add",   "aten::flip",
        "aten::roll",   "aten::tril", "aten::triu",        "aten::masked_scatter"};
    return kOps->contains(op);
  }

  // Argument i as parts in the dtype computed in.
  Parts Arg(int i) {
    const OpArg& a = call_.arg(i);
    if (!a.IsTensor()) {
      if (a.kind == OpArg::Kind::kComplex)
        return {e_.Scalar(part_, a.complex.real()), e_.Scalar(part_, a.complex.imag())};
      if (!a.known || (a.kind == OpArg::Kind::kInt && !a.expr.IsConstant())) {
        e_.Fail(call_.Unsupported("a number that is known only at run time beside complex ones"));
        return {};
      }
      return {e_.Scalar(part_, a.number), ValueId()};
    }
    if (!IsComplex(*a.tensor.dtype)) return {e_.Cast(a.value, part_), ValueId()};
    const ValueId real = e_.Op("aten::view_as_real", {a.value});
    if (!e_.ok()) return {};
    const int64_t last = e_.Rank(real) - 1;
    return {e_.Cast(e_.Select(real, last, 0), part_), e_.Cast(e_.Select(real, last, 1), part_)};
  }
  // A real number is one with an imaginary part of zero, which PyTorch computes with too: it decides about NaN and the
  // sign of zero.
  ValueId Im(const Parts& a) { return a.im.valid() ? a.im : e_.Scalar(part_, 0); }
  Parts Add(const Parts& a, const Parts& b) { return {e_.Add(a.re, b.re), e_.Add(Im(a), Im(b))}; }
  Parts Sub(const Parts& a, const Parts& b) { return {e_.Sub(a.re, b.re), e_.Sub(Im(a), Im(b))}; }
  Parts Mul(const Parts& a, const Parts& b) {
    const ValueId a_im = Im(a), b_im = Im(b);
    return {e_.Sub(e_.Mul(a.re, b.re), e_.Mul(a_im, b_im)), e_.Add(e_.Mul(a.re, b_im), e_.Mul(a_im, b.re))};
  }
  Parts Div(const Parts& a, const Parts& b) {
    // Scaled by the larger part, whose square may be no finite number.
    const ValueId larger = e_.Op("aten::maximum", {e_.Op("aten::abs", {b.re}), e_.Op("aten::abs", {Im(b)})});
    const Parts x = {e_.Div(a.re, larger), e_.Div(Im(a), larger)}, y = {e_.Div(b.re, larger), e_.Div(Im(b), larger)};
    const Parts top = Mul(x, {y.re, e_.Neg(y.im)});
    const ValueId norm = e_.Add(e_.Square(y.re), e_.Square(y.im));
    return {e_.Div(top.re, norm), e_.Div(top.im, norm)};
  }
  // Counted from the end that is nearer, as a weight's absolute value tells.
  Parts Lerp(const Parts& a, const Parts& b, const Parts& w) {
    const Parts way = Sub(b, a), from_a = Add(a, Mul(w, way));
    const Parts from_b = Sub(b, Mul(way, Sub({e_.Scalar(part_, 1), ValueId()}, w)));
    const ValueId norm = e_.Add(e_.Square(w.re), e_.Square(Im(w)));
    const ValueId small = e_.Op("aten::lt.Scalar", {norm, e_.Const(0.25)});
    return {e_.Where(small, from_a.re, from_b.re), e_.Where(small, from_a.im, from_b.im)};
  }
  ValueId Make(Parts p) {
    if (!e_.ok()) return ValueId();
    std::vector<Expr> sizes = *g_.value(g_.node(n_).outputs[0]).type.tensor().sizes;
    p.im = Im(p);
    for (ValueId* v : {&p.re, &p.im}) {
      *v = e_.Cast(*v, part_);
      if (e_.ok() && e_.Sizes(*v) != sizes) *v = e_.Expand(*v, sizes);
    }
    return e_.Op("aten::view_as_complex",
                 {e_.Op("aten::stack", {e_.List({p.re, p.im}), e_.Const(static_cast<int64_t>(sizes.size()))})});
  }
  // In the layout that the node's type says.
  absl::Status Finish(ValueId v) {
    const Type want = g_.value(g_.node(n_).outputs[0]).type;
    if (!IsComplexTensor(want)) v = e_.Cast(v, *want.tensor().dtype);
    if (!e_.ok()) return e_.status();
    const TensorType& have = e_.TypeOf(v);
    bool same = have.IsComplete() && *have.sizes == *want.tensor().sizes;
    if (!same) return call_.Unsupported("complex operands of these sizes");
    for (size_t d = 0; d < have.sizes->size(); ++d) {
      same = same && ((*have.sizes)[d] == Expr(1) || (*have.strides)[d] == (*want.tensor().strides)[d]);
    }
    if (!same) {
      const NodeId copy = g_.InsertBefore(n_, OpName::Get("smelt::materialize"), {v}, {want});
      g_.SetAttribute(copy, "strides", *want.tensor().strides);
      g_.SetSource(copy, g_.node(n_).source);
      v = g_.node(copy).outputs[0];
    }
    return e_.ReplaceNode({v});
  }

  Graph& g_;
  const NodeId n_;
  Emit e_;
  const OpCall& call_;
  DType part_ = DType::kFloat32;
};

}  // namespace

bool HasComplexNumbers(const Graph& g, NodeId n) {
  for (ValueId v : g.node(n).inputs) {
    if (IsComplexTensor(g.value(v).type)) return true;
    if (auto list = GetListElements(g, v)) {
      for (ValueId x : *list) {
        if (IsComplexTensor(g.value(x).type)) return true;
      }
    }
  }
  for (ValueId v : g.node(n).outputs) {
    if (IsComplexTensor(g.value(v).type)) return true;
  }
  return false;
}

absl::StatusOr<bool> DecomposeComplex(Graph& g, NodeId n) {
  if (g.node(n).outputs.size() != 1 || !g.value(g.node(n).outputs[0]).type.IsTensor() ||
      !g.value(g.node(n).outputs[0]).type.tensor().IsComplete()) {
    return false;
  }
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  return ComplexRule(g, n, call).Run();
}

}  // namespace smelt
