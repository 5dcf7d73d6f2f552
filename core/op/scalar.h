// The scalar meaning of pointwise operators and of the insides of kernels: a straight-line program over typed scalars.
// The evaluator runs it and both backends emit it, so `gelu` is written only once.
//
//   ScalarFn f = *ParseScalarFn("(x: f32) -> { h = x * 0.5; t = erf(x * 0.70710678118654752); return h * (t + 1.0); }");
//   f.ToString();   // parses to an equal function
//
// Rounding: every instruction rounds to its own type. float16 and bfloat16 occur only as the type of kArg, kConst and
// kCast: arithmetic is done in float32 and cast back where PyTorch's kernel rounds. There is no contraction: kFma
// occurs only where it is written.
#ifndef SMELT_CORE_OP_SCALAR_H_
#define SMELT_CORE_OP_SCALAR_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// The numbers are part of kernel identity only through the names that ToString prints; they may be reordered.
enum class ScalarOp : uint8_t {
  kArg,    // argument number `imm.i`
  kConst,  // imm (i for integers and bool, f for floating point), of the instruction's type
  kCast,   // to the instruction's type, as PyTorch does on x86: float->int truncates to int32 (to int64: int64), where
           // what does not fit and NaN become the least value, and keeps the low bits; anything->bool is != 0
  // Arithmetic; both operands of the instruction's type.
  kAdd,
  kSub,
  kMul,
  kDiv,       // floating point
  kDivTrunc,  // integers: C's division; the divisor 0 sets the kernel's status and gives 0
  kDivFloor,  // integers: Python's //; same
  kRemTrunc,  // C's fmod / %
  kRemFloor,  // Python's %: the sign of the divisor (floating point too)
  kNeg,
  kAbs,
  kMin,
  kMax,  // NaN if either is NaN (torch.minimum)
  kFMin,
  kFMax,  // the other operand if one is NaN (torch.fmin)
  kPow,
  kFma,  // kFma: three operands, one rounding
  kAtan2,
  kHypot,
  kCopysign,
  kNextAfter,
  // Bits; for integers and bool. A shift by less than 0 or by the type's width or more gives 0, kShr of a negative
  // number -1.
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr,
  // Comparisons: operands of one type, result kBool. Ordered, except kNe (true for NaN).
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kSelect,  // (condition: bool, a, b)
  kIsNan,
  kIsInf,
  kSignbit,
  // Rounding to an integer, in floating point.
  kFloor,
  kCeil,
  kTrunc,
  kRound,  // kRound: half to even
  // Functions, floating point.
  kSqrt,
  kRsqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kErfinv,
  kLgamma,
  kDigamma,
  kSigmoid,  // 1 / (1 + exp(-x)), one function so that it can be done well at the extremes
  kNumOps,
};
const char* Name(ScalarOp op);  // "add", "div_floor", ...
int NumOperands(ScalarOp op);
// Returns whether every machine gives the same bits. Others ask the C library, whose functions differ in their last bits
// from one machine and version to another.
bool IsExact(ScalarOp op);

struct ScalarImm {
  int64_t i = 0;
  double f = 0;
  bool operator==(const ScalarImm& o) const;  // by bits
};

struct ScalarInstr {
  ScalarOp op = ScalarOp::kConst;
  DType type = DType::kFloat32;                // of the result
  std::array<int, 3> operands = {-1, -1, -1};  // indices of earlier instructions
  ScalarImm imm;
};

struct ScalarFn {
  std::vector<DType> arg_types;
  std::vector<ScalarInstr> instrs;
  std::vector<int> results;  // indices of instructions

  std::string ToString() const;
};

// Builds a ScalarFn with local simplification (constants folded exactly, equal instructions shared).
class ScalarBuilder {
 public:
  int Arg(DType t);
  int Const(DType t, double v);
  int ConstInt(DType t, int64_t v);
  int Op(ScalarOp op, DType t, int a, int b = -1, int c = -1);
  int Cast(int a, DType t);
  DType TypeOf(int instr) const { return fn_.instrs[instr].type; }
  // Inserts a whole function on given operands; returns its results' instructions.
  std::vector<int> Inline(const ScalarFn& f, const std::vector<int>& args);
  ScalarFn Finish(std::vector<int> results);

 private:
  ScalarFn fn_;
};

absl::StatusOr<ScalarFn> ParseScalarFn(absl::string_view text);
absl::Status VerifyScalarFn(const ScalarFn& f);

// Returns `v` reduced to type `t`: modulo the integer type; for bool, whether it is not 0.
int64_t WrapInt(DType t, int64_t v);

// One scalar at run time: integers and bool in i, real floating point in f (float32 values are exactly representable
// floats).
union ScalarValue {
  int64_t i;
  double f;
};
// Evaluates with correctly rounded arithmetic per type and libm in double for functions (then rounded to the type).
// Slow. division_by_zero is set if an integer was divided by zero.
std::vector<ScalarValue> EvaluateScalarFn(const ScalarFn& f, const std::vector<ScalarValue>& args,
                                          bool* division_by_zero);

}  // namespace smelt

#endif  // SMELT_CORE_OP_SCALAR_H_
