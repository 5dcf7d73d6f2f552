// Arithmetic and functions of complex numbers as operators on their real and imaginary parts, for decompose_complex.cc.
// Where PyTorch's kernels compute the result for infinite parts by a formula, this uses the same formula.
#ifndef SMELT_CORE_OP_COMPLEX_PARTS_H_
#define SMELT_CORE_OP_COMPLEX_PARTS_H_

#include <functional>
#include <string>

#include "smelt/core/op/emit.h"

namespace smelt {

struct Parts {
  ValueId re, im;  // im is invalid for a real number
};

class ComplexParts {
 public:
  // Parts are tensors of the dtype `part`.
  ComplexParts(Emit& e, DType part) : e_(e), part_(part) {}

  Parts Real(double v) { return {e_.Scalar(part_, v), ValueId()}; }
  // A real number has an imaginary part of zero. PyTorch computes with that part too: it decides about NaN and the sign
  // of zero.
  ValueId Im(const Parts& a) { return a.im.valid() ? a.im : e_.Scalar(part_, 0); }

  Parts Add(const Parts& a, const Parts& b) {
    const ValueId sum = e_.Add(a.re, b.re);
    const ValueId im = Im(b);
    return {sum, e_.Add(Im(a), im)};
  }
  Parts Sub(const Parts& a, const Parts& b) {
    const ValueId difference = e_.Sub(a.re, b.re);
    const ValueId im = Im(b);
    return {difference, e_.Sub(Im(a), im)};
  }
  Parts Neg(const Parts& a) { return {e_.Neg(a.re), e_.Neg(Im(a))}; }
  Parts Mul(const Parts& a, const Parts& b);
  Parts Div(const Parts& a, const Parts& b);
  Parts Scale(const Parts& a, double s) { return {e_.MulN(a.re, s), e_.MulN(Im(a), s)}; }
  Parts Where(ValueId c, const Parts& a, const Parts& b) {
    const ValueId chosen = e_.Where(c, a.re, b.re);
    const ValueId im = Im(b);
    return {chosen, e_.Where(c, Im(a), im)};
  }
  // Counted from the nearer end, which a weight's absolute value decides.
  Parts Lerp(const Parts& a, const Parts& b, const Parts& weight);

  ValueId Abs(const Parts& a) { return e_.Op("aten::hypot", {a.re, Im(a)}); }
  ValueId Angle(const Parts& a) { return e_.Op("aten::atan2", {Im(a), a.re}); }
  // Bools. A number is true unless both parts are 0.
  ValueId IsTrue(const Parts& a) { return e_.Op("aten::logical_or", {a.re, Im(a)}); }
  ValueId IsEqual(const Parts& a, const Parts& b);

  Parts Exp(const Parts& a);
  Parts Log(const Parts& a) { return {e_.Log(Abs(a)), Angle(a)}; }
  Parts Sqrt(const Parts& a);
  // exp(b log a)
  Parts Pow(const Parts& a, const Parts& b);
  // Returns `product`, in which one factor is 0 where `im` is 0, whatever the other factor is: an infinite real part
  // leaves no imaginary part.
  ValueId NoneOf(ValueId im, ValueId product);
  // Multiplies for the exponents for which PyTorch does, and otherwise uses the general formula.
  Parts PowNumber(const Parts& a, double exponent);
  Parts Tanh(const Parts& a);

  Emit& emit() { return e_; }

 private:
  Emit& e_;
  const DType part_;
};

// The operator of one argument called `name`, or null.
using ComplexFunction = std::function<Parts(ComplexParts&, const Parts&)>;
const ComplexFunction* FindComplexFunction(const std::string& name);

}  // namespace smelt

#endif  // SMELT_CORE_OP_COMPLEX_PARTS_H_
