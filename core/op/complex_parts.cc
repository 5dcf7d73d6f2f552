#include "smelt/core/op/complex_parts.h"

#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"

namespace smelt {

Parts ComplexParts::Mul(const Parts& a, const Parts& b) {
  const ValueId a_im = Im(a), b_im = Im(b);
  const ValueId product = e_.Mul(a_im, b_im);
  const ValueId difference = e_.Sub(e_.Mul(a.re, b.re), product);
  const ValueId second = e_.Mul(a_im, b.re);
  return {difference, e_.Add(e_.Mul(a.re, b_im), second)};
}

Parts ComplexParts::Div(const Parts& a, const Parts& b) {
  // Follows PyTorch step by step: the order of the operations decides where infinities, NaNs and the signs of zeros
  // appear.
  const ValueId a_im = Im(a), b_im = Im(b), re_size = e_.Abs(b.re), im_size = e_.Abs(b_im);
  const ValueId by_re = e_.Op("aten::ge.Tensor", {re_size, im_size});
  const ValueId by_zero = e_.EqN(e_.Add(re_size, im_size), 0);
  const ValueId larger = e_.Where(by_re, b.re, b_im), smaller = e_.Where(by_re, b_im, b.re);
  const ValueId ratio = e_.Div(smaller, larger);
  const ValueId infinity = e_.Scalar(part_, std::numeric_limits<double>::infinity());
  const ValueId sum = e_.Add(larger, e_.Mul(smaller, ratio));
  const ValueId scale = e_.Where(by_zero, infinity, e_.Div(e_.Scalar(part_, 1), sum));
  const ValueId third = e_.Add(e_.Mul(a.re, ratio), a_im);
  const ValueId re = e_.Where(by_re, e_.Add(a.re, e_.Mul(a_im, ratio)), third);
  const ValueId difference = e_.Sub(e_.Mul(a_im, ratio), a.re);
  const ValueId im = e_.Where(by_re, e_.Sub(a_im, e_.Mul(a.re, ratio)), difference);
  return {e_.Mul(e_.Where(by_zero, a.re, re), scale), e_.Mul(e_.Where(by_zero, a_im, im), scale)};
}

Parts ComplexParts::Lerp(const Parts& a, const Parts& b, const Parts& weight) {
  const Parts way = Sub(b, a), from_a = Add(a, Mul(weight, way));
  const Parts from_b = Sub(b, Mul(way, Sub(Real(1), weight)));
  const ValueId square = e_.Square(Im(weight));
  const ValueId norm = e_.Add(e_.Square(weight.re), square);
  return Where(e_.Op("aten::lt.Scalar", {norm, e_.Const(0.25)}), from_a, from_b);
}

ValueId ComplexParts::IsEqual(const Parts& a, const Parts& b) {
  return e_.Op("aten::logical_and", {e_.Op("aten::eq.Tensor", {a.re, b.re}), e_.Op("aten::eq.Tensor", {Im(a), Im(b)})});
}

ValueId ComplexParts::NoneOf(ValueId im, ValueId product) { return e_.Where(e_.EqN(im, 0), im, product); }

Parts ComplexParts::Exp(const Parts& a) {
  const ValueId r = e_.Exp(a.re);
  if (!a.im.valid()) return {r, ValueId()};
  return {e_.Mul(r, e_.Op("aten::cos", {a.im})), NoneOf(a.im, e_.Mul(r, e_.Op("aten::sin", {a.im})))};
}

Parts ComplexParts::Pow(const Parts& a, const Parts& b) {
  const Parts power = Exp(Mul(b, Log(a)));
  // 0 to a power with a positive real part is 0.
  const ValueId is_zero = e_.Op("aten::logical_and", {e_.Op("aten::logical_not", {IsTrue(a)}),
                                                      e_.Op("aten::gt.Scalar", {b.re, e_.Const(int64_t{0})})});
  return Where(is_zero, Real(0), power);
}

Parts ComplexParts::Sqrt(const Parts& a) {
  // Computes the part of the root that has no cancellation, and the other part from it: 2 re im is the imaginary part
  // of a.
  const ValueId im = Im(a), size = e_.Abs(a.re), zero = e_.Scalar(part_, 0);
  const ValueId larger = e_.Sqrt(e_.MulN(e_.Add(Abs({size, im}), size), 0.5));
  const ValueId quotient = e_.Div(e_.MulN(e_.Abs(im), 0.5), larger);
  const ValueId other = e_.Where(e_.EqN(larger, 0), zero, quotient);
  const ValueId right = e_.Op("aten::ge.Scalar", {a.re, e_.Const(int64_t{0})});
  const ValueId infinite = e_.Op("aten::isinf", {im});
  const ValueId infinity = e_.Scalar(part_, std::numeric_limits<double>::infinity());
  const ValueId re = e_.Where(infinite, infinity, e_.Where(right, larger, other));
  const ValueId height = e_.Where(infinite, infinity, e_.Where(right, other, larger));
  return {re, e_.Op("aten::copysign.Tensor", {height, im})};
}

Parts ComplexParts::PowNumber(const Parts& a, double exponent) {
  if (exponent == 0) return Real(1);
  if (exponent == 1) return a;
  if (exponent == 2) return Mul(a, a);
  if (exponent == 3) return Mul(Mul(a, a), a);
  if (exponent == 0.5) return Sqrt(a);
  if (exponent == -0.5) {
    const Parts root = Sqrt(a);
    return Div(Real(1), root);
  }
  if (exponent == -1) return Div(Real(1), a);
  if (exponent == -2) {
    const Parts product = Mul(a, a);
    return Div(Real(1), product);
  }
  // Leaves out the products with an imaginary part of 0, which would be NaN next to infinities.
  const Parts log = Log(a);
  const Parts power = Exp({e_.MulN(log.re, exponent), e_.MulN(log.im, exponent)});
  if (exponent < 0) return power;
  const ValueId zero = e_.Scalar(part_, 0);
  return Where(IsTrue(a), power, {zero, zero});
}

Parts ComplexParts::Tanh(const Parts& a) {
  // Uses the tangents of the parts, which do not overflow as hyperbolic cosines do.
  const ValueId t = e_.Tanh(a.re), u = e_.Op("aten::tan", {Im(a)});
  return Div({t, u}, {e_.Scalar(part_, 1), e_.Mul(t, u)});
}

namespace {

using Z = ComplexParts;

// (f(re) g(im), h(re) k(im)), as sines and cosines of a sum are; k(0) is 0.
Parts Products(Z& z, const Parts& a, const char* f, const char* g, const char* h, const char* k) {
  Emit& e = z.emit();
  const ValueId im = z.Im(a);
  const ValueId second = e.Op(g, {im});
  const ValueId product = e.Mul(e.Op(f, {a.re}), second);
  const ValueId second2 = e.Op(k, {im});
  return {product, z.NoneOf(im, e.Mul(e.Op(h, {a.re}), second2))};
}

Parts Cos(Z& z, const Parts& a) {
  const Parts p = Products(z, a, "aten::cos", "aten::cosh", "aten::sin", "aten::sinh");
  return {p.re, z.emit().Neg(p.im)};
}

Parts Tan(Z& z, const Parts& a) {  // -i tanh(ia)
  const Parts t = z.Tanh({z.emit().Neg(z.Im(a)), a.re});
  return {t.im, z.NoneOf(z.Im(a), z.emit().Neg(t.re))};
}

Parts Sgn(Z& z, const Parts& a) {
  Emit& e = z.emit();
  const ValueId r = z.Abs(a), none = e.EqN(r, 0), zero = e.Fill(r, 0);
  return {e.Where(none, zero, e.Div(a.re, r)), e.Where(none, zero, e.Div(z.Im(a), r))};
}

}  // namespace

const ComplexFunction* FindComplexFunction(const std::string& name) {
  static const auto* const kFunctions = new absl::flat_hash_map<std::string, ComplexFunction>{
      {"aten::neg", [](Z& z, const Parts& a) { return z.Neg(a); }},
      {"aten::square", [](Z& z, const Parts& a) { return z.Mul(a, a); }},
      {"aten::reciprocal", [](Z& z, const Parts& a) { return z.Div(z.Real(1), a); }},
      {"aten::_conj_physical", [](Z& z, const Parts& a) { return Parts{a.re, z.emit().Neg(z.Im(a))}; }},
      {"aten::conj_physical", [](Z& z, const Parts& a) { return Parts{a.re, z.emit().Neg(z.Im(a))}; }},
      {"aten::exp", [](Z& z, const Parts& a) { return z.Exp(a); }},
      {"aten::expm1", [](Z& z, const Parts& a) { return z.Sub(z.Exp(a), z.Real(1)); }},
      {"aten::log", [](Z& z, const Parts& a) { return z.Log(a); }},
      {"aten::log2", [](Z& z, const Parts& a) { return z.Scale(z.Log(a), 1 / M_LN2); }},
      {"aten::log10", [](Z& z, const Parts& a) { return z.Scale(z.Log(a), 1 / M_LN10); }},
      {"aten::sqrt", [](Z& z, const Parts& a) { return z.Sqrt(a); }},
      {"aten::rsqrt", [](Z& z, const Parts& a) { return z.Div(z.Real(1), z.Sqrt(a)); }},
      {"aten::sin",
       [](Z& z, const Parts& a) { return Products(z, a, "aten::sin", "aten::cosh", "aten::cos", "aten::sinh"); }},
      {"aten::cos", Cos},
      {"aten::tan", Tan},
      {"aten::sinh",
       [](Z& z, const Parts& a) { return Products(z, a, "aten::sinh", "aten::cos", "aten::cosh", "aten::sin"); }},
      {"aten::cosh",
       [](Z& z, const Parts& a) { return Products(z, a, "aten::cosh", "aten::cos", "aten::sinh", "aten::sin"); }},
      {"aten::tanh", [](Z& z, const Parts& a) { return z.Tanh(a); }},
      {"aten::sigmoid", [](Z& z, const Parts& a) { return z.Div(z.Real(1), z.Add(z.Real(1), z.Exp(z.Neg(a)))); }},
      {"aten::sgn", Sgn},
  };
  const auto it = kFunctions->find(name);
  return it == kFunctions->end() ? nullptr : &it->second;
}

}  // namespace smelt
