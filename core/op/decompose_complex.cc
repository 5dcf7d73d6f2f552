// Decomposes operators on complex numbers into operators on real and imaginary parts. A complex tensor is seen as a
// real tensor with a last dim of size 2, so that no kernel needs complex numbers.
#include <complex>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/complex_parts.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"

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

class ComplexRule {
 public:
  ComplexRule(Graph& g, NodeId n, const OpCall& call)
      : g_(g), n_(n), e_(g, n), call_(call), part_(PartComputedIn(g, n, call)), z_(e_, part_) {}

  // One branch for each operator, by its formula over the real and the imaginary part. The formulas share nothing but
  // these parts, so the list of them is long.
  absl::StatusOr<bool> Run() {
    const std::string name = PlainName(call_.op().name());
    const bool complex_result = IsComplexTensor(g_.value(g_.node(n_).outputs[0]).type);
    ValueId out;
    if (name == "aten::add" || name == "aten::sub" || name == "aten::rsub") {
      SMELT_ASSIGN_OR_RETURN(double alpha, call_.GetDoubleOr("alpha", 1));
      Parts a = Arg(0), b = Arg(1);
      if (name == "aten::rsub") std::swap(a, b);
      // Follows PyTorch, for any alpha: an infinite part makes the other part NaN.
      out = Make(z_.Add(a, z_.Mul(b, z_.Real(name == "aten::add" ? alpha : -alpha))));
    } else if (name == "aten::mul") {
      const Parts arg = Arg(1);
      out = Make(z_.Mul(Arg(0), arg));
    } else if (name == "aten::div" && call_.IsNone("rounding_mode")) {
      const Parts arg = Arg(1);
      out = Make(z_.Div(Arg(0), arg));
    } else if (name == "aten::addcmul" || name == "aten::addcdiv") {
      const Parts arg = Arg(1);
      const Parts scaled = z_.Mul(call_.IsNone("value") ? z_.Real(1) : Arg(3), arg);
      const Parts product = name == "aten::addcmul" ? z_.Mul(scaled, Arg(2)) : z_.Div(scaled, Arg(2));
      out = Make(z_.Add(Arg(0), product));
    } else if (name == "aten::lerp") {
      const Parts arg = Arg(2);
      const Parts second = Arg(1);
      out = Make(z_.Lerp(Arg(0), second, arg));
    } else if (name == "aten::pow") {
      const OpArg& exponent = call_.arg(1);
      const bool number = exponent.IsScalar() && exponent.kind != OpArg::Kind::kComplex;
      // The formula depends on the value of the exponent.
      if (number && !IsConstant(exponent)) return call_.Unsupported("an exponent that is known only at run time");
      if (number) {
        out = Make(z_.PowNumber(Arg(0), exponent.number));
      } else {
        const Parts second = Arg(1);
        out = Make(z_.Pow(Arg(0), second));
      }
    } else if (name == "aten::abs") {
      out = z_.Abs(Arg(0));
    } else if (name == "aten::angle") {
      out = z_.Angle(Arg(0));
    } else if (name == "aten::complex") {
      out = Make({call_.arg(0).value, call_.arg(1).value});
    } else if (name == "aten::polar") {
      const ValueId r = call_.arg(0).value, phi = call_.arg(1).value;
      out = Make({e_.Mul(r, e_.Op("aten::cos", {phi})), e_.Mul(r, e_.Op("aten::sin", {phi}))});
    } else if ((name == "aten::_to_copy" || name == "prims::convert_element_type" || name == "aten::clone") &&
               complex_result) {
      out = Make(Arg(0));
    } else if (name == "aten::_to_copy" || name == "prims::convert_element_type") {
      out = AsReal(Arg(0));
    } else if (name == "aten::eq" || name == "aten::ne") {
      const Parts arg = Arg(1);
      out = z_.IsEqual(Arg(0), arg);
      if (name == "aten::ne") out = e_.Op("aten::logical_not", {out});
    } else if (name == "aten::logical_not") {
      out = e_.Op("aten::logical_not", {z_.IsTrue(Arg(0))});
    } else if (name == "aten::logical_and" || name == "aten::logical_or" || name == "aten::logical_xor") {
      out = e_.Op(name, {z_.IsTrue(Arg(0)), z_.IsTrue(Arg(1))});
    } else if (name == "aten::isnan" || name == "aten::isinf" || name == "aten::isfinite") {
      const Parts a = Arg(0);
      out = e_.Op(name == "aten::isfinite" ? "aten::logical_and" : "aten::logical_or",
                  {e_.Op(name, {a.re}), e_.Op(name, {z_.Im(a)})});
    } else if (name == "aten::any" || name == "aten::all" || name == "aten::count_nonzero") {
      std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
      args[0] = z_.IsTrue(Arg(0));
      out = e_.Op(call_.op().full(), args);
    } else if (name == "aten::linalg_vector_norm" || name == "aten::norm") {
      std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
      args[0] = z_.Abs(Arg(0));
      if (const int dtype = call_.IndexOf("dtype"); dtype >= 0) args[dtype] = e_.None();  // the part's
      out = e_.Op(call_.op().full(), args);
    } else if (name == "aten::isreal") {
      out = e_.EqN(z_.Im(Arg(0)), 0);
    } else if (name == "aten::prod" || name == "aten::cumprod") {
      SMELT_ASSIGN_OR_RETURN(out, Product(Arg(0), name == "aten::cumprod"));
    } else if (name == "aten::where" && call_.args().size() == 3) {
      const Parts third = Arg(2);
      out = Make(z_.Where(call_.arg(0).value, Arg(1), third));
    } else if (name == "aten::masked_fill") {
      const Parts third = Arg(0);
      out = Make(z_.Where(call_.arg(1).value, Arg(2), third));
    } else if (name == "aten::copy" && !complex_result) {
      out = AsReal(Arg(1));
    } else if (name == "aten::copy" || name == "aten::fill") {
      out = Make(Arg(1));
    } else if (!complex_result && (IsFilledWith(name, "zeros") || IsFilledWith(name, "empty"))) {
      out = FullOfReal(0);
    } else if (!complex_result && IsFilledWith(name, "ones")) {
      out = FullOfReal(1);
    } else if (!complex_result && IsFilledWith(name, "full")) {
      const OpArg& value = call_.arg(name == "aten::new_full" ? 2 : 1);
      if (value.IsTensor() || value.kind == OpArg::Kind::kComplex || !IsConstant(value)) return false;
      out = FullOfReal(value.number);
    } else if (name == "aten::zero" || IsFilledWith(name, "zeros") || IsFilledWith(name, "empty")) {
      out = Make(z_.Real(0));
    } else if (IsFilledWith(name, "ones")) {
      out = Make(z_.Real(1));
    } else if (IsFilledWith(name, "full")) {
      out = Make(Arg(name == "aten::new_full" ? 2 : 1));
    } else if (name == "aten::scalar_tensor") {
      out = Make(Arg(0));
    } else if (call_.op().full() == "aten::sum.dim_IntList" || call_.op().full() == "aten::mean.dim" ||
               call_.op().full() == "aten::sum" || call_.op().full() == "aten::mean") {
      if (!complex_result || !call_.arg(0).IsTensor()) return false;
      const Parts a = Arg(0);
      Parts sums;
      for (auto [from, to] : {std::make_pair(a.re, &sums.re), std::make_pair(a.im, &sums.im)}) {
        if (!from.valid()) continue;  // of real elements
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        args[0] = from;
        args.back() = e_.None();  // dtype
        *to = e_.Op(call_.op().full(), args);
      }
      out = Make(sums);
    } else if (name == "aten::mm" || name == "aten::bmm") {
      const Parts a = Arg(0), b = Arg(1);
      auto mm = [&](ValueId x, ValueId y) { return e_.Op(name, {e_.Contiguous(x), e_.Contiguous(y)}); };
      const ValueId im = z_.Im(b);
      const ValueId second = mm(z_.Im(a), im);
      const ValueId difference = e_.Sub(mm(a.re, b.re), second);
      const ValueId second2 = mm(z_.Im(a), b.re);
      out = Make({difference, e_.Add(mm(a.re, z_.Im(b)), second2)});
    } else if (name == "aten::convolution") {
      // Computes products of the parts, as of matrices; the added operand is added only once.
      if (!complex_result) return false;
      const Parts x = Arg(0), w = Arg(1);
      Parts bias;
      if (call_.arg(2).IsTensor()) bias = Arg(2), bias.im = z_.Im(bias);
      const ValueId none = e_.None();
      auto convolve = [&](ValueId of, ValueId by, ValueId plus) {
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        args[0] = e_.Contiguous(of);
        args[1] = e_.Contiguous(by);
        args[2] = plus.valid() ? e_.Contiguous(plus) : none;
        return e_.Op("aten::convolution", args);
      };
      const ValueId second = z_.Im(w);
      const ValueId second2 = convolve(z_.Im(x), second, ValueId());
      const ValueId difference = e_.Sub(convolve(x.re, w.re, bias.re), second2);
      const ValueId second3 = convolve(z_.Im(x), w.re, ValueId());
      out = Make({difference, e_.Add(convolve(x.re, z_.Im(w), bias.im), second3)});
    } else if (name == "aten::constant_pad_nd") {
      const OpArg& given = call_.arg(2);
      if (!IsConstant(given)) return call_.Unsupported("a number that is known only at run time beside complex ones");
      const std::complex<double> value = given.kind == OpArg::Kind::kComplex ? given.complex : given.number;
      const Parts x = Arg(0);
      const ValueId pad = g_.node(n_).inputs[1];
      out = Make({e_.Op("aten::constant_pad_nd", {x.re, pad, e_.Const(value.real())}),
                  e_.Op("aten::constant_pad_nd", {z_.Im(x), pad, e_.Const(value.imag())})});
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
      const ValueId first = fill(x.re, value.re);
      const ValueId im = z_.Im(value);
      out = Make({first, fill(z_.Im(x), im)});
    } else if (name == "aten::cumsum") {
      const Parts a = Arg(0);
      const auto sum = [&](ValueId part) { return e_.Op("aten::cumsum", {part, g_.node(n_).inputs[1], e_.None()}); };
      if (!e_.ok()) return e_.status();
      out = Make({sum(a.re), sum(z_.Im(a))});
    } else if (complex_result && MovesEachPart(call_.op().full())) {
      Parts moved;
      for (const bool imaginary : {false, true}) {
        std::vector<ValueId> args(g_.node(n_).inputs.begin(), g_.node(n_).inputs.end());
        for (size_t i = 0; i < args.size(); ++i) {
          if (!IsComplexTensor(g_.value(args[i]).type)) continue;
          const Parts a = Arg(static_cast<int>(i));
          args[i] = imaginary ? z_.Im(a) : a.re;
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
        if (!a.IsTensor() || !a.tensor.dtype) return false;
        rank = a.tensor.rank();
        if (IsComplex(*a.tensor.dtype)) {
          parts.push_back(e_.Cast(e_.Op("aten::view_as_real", {a.value}), part_));
          continue;
        }
        const ValueId real = e_.Cast(a.value, part_);
        if (!e_.ok()) return e_.status();
        const ValueId none = e_.Full(part_, e_.Sizes(real), 0);
        parts.push_back(e_.Op("aten::stack", {e_.List({real, none}), e_.Const(static_cast<int64_t>(rank))}));
      }
      if (dim < 0) dim += rank + (name == "aten::stack");
      out = e_.Op("aten::view_as_complex", {e_.Contiguous(e_.Op(name, {e_.List(parts), e_.Const(dim)}))});
    } else if (const ComplexFunction* f = FindComplexFunction(name)) {
      out = Make((*f)(z_, Arg(0)));
    } else {
      return false;
    }
    if (!e_.ok()) return e_.status();
    SMELT_RETURN_IF_ERROR(Finish(out));
    return true;
  }

 private:
  static DType PartComputedIn(const Graph& g, NodeId n, const OpCall& call) {
    for (ValueId v : g.node(n).outputs) {
      if (IsComplexTensor(g.value(v).type)) return PartOf(*g.value(v).type.tensor().dtype);
    }
    std::vector<PromotionOperand> operands;
    for (const OpArg& a : call.args()) {
      if (a.IsTensor() && a.tensor.dtype) operands.push_back(op_internal::PromotionOf(a));
    }
    return PartOf(ResultType(operands)) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }
  // Returns whether the operator treats real parts and imaginary parts alike and independently.
  static bool MovesEachPart(const std::string& op) {
    static const auto* const kOps = new absl::flat_hash_set<std::string>{"aten::gather",
                                                                         "aten::take",
                                                                         "aten::scatter.src",
                                                                         "aten::scatter_add",
                                                                         "aten::flip",
                                                                         "aten::roll",
                                                                         "aten::tril",
                                                                         "aten::triu",
                                                                         "aten::masked_scatter",
                                                                         "aten::repeat",
                                                                         "aten::tile",
                                                                         "aten::reflection_pad1d",
                                                                         "aten::reflection_pad2d",
                                                                         "aten::reflection_pad3d",
                                                                         "aten::replication_pad1d",
                                                                         "aten::replication_pad2d",
                                                                         "aten::replication_pad3d",
                                                                         "aten::_pad_circular",
                                                                         "aten::im2col",
                                                                         "aten::col2im"};
    return kOps->contains(op);
  }

  // Returns the operator that an alias stands for.
  static std::string PlainName(const std::string& name) {
    static const auto* const kNames = new absl::flat_hash_map<std::string, std::string>{
        {"aten::true_divide", "aten::div"}, {"aten::divide", "aten::div"},   {"aten::multiply", "aten::mul"},
        {"aten::subtract", "aten::sub"},    {"aten::negative", "aten::neg"}, {"aten::absolute", "aten::abs"}};
    const auto it = kNames->find(name);
    return it == kNames->end() ? name : it->second;
  }

  ValueId FullOfReal(double value) {
    const TensorType& want = g_.value(g_.node(n_).outputs[0]).type.tensor();
    return e_.Full(*want.dtype, *want.sizes, value);
  }

  static bool IsConstant(const OpArg& number) {
    return number.known && (number.kind != OpArg::Kind::kInt || number.expr.IsConstant());
  }

  // PyTorch warns that the imaginary part is lost, except in a conversion to bool.
  ValueId AsReal(const Parts& a) {
    const bool truth = g_.value(g_.node(n_).outputs[0]).type.tensor().dtype == DType::kBool;
    return truth ? z_.IsTrue(a) : a.re;
  }

  // Returns the parts of argument i in the dtype of the computation.
  Parts Arg(int i) {
    const OpArg& a = call_.arg(i);
    if (!a.IsTensor()) {
      if (a.kind == OpArg::Kind::kComplex)
        return {e_.Scalar(part_, a.complex.real()), e_.Scalar(part_, a.complex.imag())};
      if (!IsConstant(a)) {
        const ValueId dtype = e_.Const(ScalarTypeOf(part_));
        return {e_.Op("aten::scalar_tensor", {a.value, dtype, e_.None(), e_.None(), e_.None()}), ValueId()};
      }
      return z_.Real(a.number);
    }
    if (!IsComplex(*a.tensor.dtype)) return {e_.Cast(a.value, part_), ValueId()};
    const ValueId real = e_.Op("aten::view_as_real", {a.value});
    if (!e_.ok()) return {};
    const int64_t last = e_.Rank(real) - 1;
    return {e_.Cast(e_.Select(real, last, 0), part_), e_.Cast(e_.Select(real, last, 1), part_)};
  }
  // Computes prod and cumprod element by element: the parts of a product are not products of the parts.
  absl::StatusOr<ValueId> Product(const Parts& a, bool running) {
    constexpr int64_t kMost = 64;
    if (!e_.ok()) return e_.status();
    Parts x = {a.re, z_.Im(a)};
    int64_t dim = 0;
    if (call_.Find("dim") != nullptr) {
      SMELT_ASSIGN_OR_RETURN(dim, call_.GetInt("dim"));
      dim = WrapDim(dim, e_.Rank(x.re));
    } else {
      x = {e_.Flatten(x.re), e_.Flatten(x.im)};
    }
    if (!e_.ok()) return e_.status();
    const std::optional<int64_t> n = e_.Rank(x.re) == 0 ? 1 : e_.Sizes(x.re)[dim].Constant();
    if (e_.Rank(x.re) == 0) return Make(x);
    if (!n || *n == 0 || *n > kMost)
      return call_.Unsupported(absl::StrCat("a product of complex numbers, but of 1 to ", kMost, " of them"));
    std::vector<ValueId> re, im;
    Parts product;
    for (int64_t i = 0; i < *n; ++i) {
      const Parts next = {e_.Select(x.re, dim, i), e_.Select(x.im, dim, i)};
      product = i == 0 ? next : z_.Mul(product, next);
      re.push_back(product.re);
      im.push_back(product.im);
    }
    if (running)
      return Make(
          {e_.Op("aten::stack", {e_.List(re), e_.Const(dim)}), e_.Op("aten::stack", {e_.List(im), e_.Const(dim)})});
    if (auto keepdim = call_.GetBoolOr("keepdim", false); keepdim.ok() && *keepdim && call_.Find("dim") != nullptr)
      product = {e_.Unsqueeze(product.re, dim), e_.Unsqueeze(product.im, dim)};
    return Make(product);
  }
  ValueId Make(Parts p) {
    if (!e_.ok()) return ValueId();
    std::vector<Expr> sizes = *g_.value(g_.node(n_).outputs[0]).type.tensor().sizes;
    p.im = z_.Im(p);
    for (ValueId* v : {&p.re, &p.im}) {
      *v = e_.Cast(*v, part_);
      if (e_.ok() && e_.Sizes(*v) != sizes) *v = e_.Expand(*v, sizes);
    }
    return e_.Op("aten::view_as_complex",
                 {e_.Op("aten::stack", {e_.List({p.re, p.im}), e_.Const(static_cast<int64_t>(sizes.size()))})});
  }
  // Gives the result the layout of the node's type.
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
  const DType part_;  // computed in
  ComplexParts z_;
};

}  // namespace

bool HasComplexNumbers(const Graph& g, NodeId n) {
  for (ValueId v : g.node(n).inputs) {
    if (IsComplexTensor(g.value(v).type)) return true;
    // Reads the attribute of a prim::Constant without a copy.
    const Attribute* number = g.node(g.value(v).def).FindAttribute("value");
    if (number != nullptr && std::holds_alternative<std::complex<double>>(*number)) return true;
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
