// Elementary functions as inline LLVM IR, for scalars and vectors of float and double alike. Internal to codegen:
// includes LLVM.
//
// Float functions are within 4 ULP of the correctly rounded value over all exponents (math_test measures it), treat
// NaN, infinities, -0 and denormals as PyTorch does, and call nothing. The value of a lane does not depend on the other
// lanes.
#ifndef SMELT_CODEGEN_MATH_H_
#define SMELT_CODEGEN_MATH_H_

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/core/op/scalar.h"

namespace smelt {

// Emits `op` of kPow, kAtan2, kHypot, kNextAfter, kRemTrunc (fmod) or a function of one argument. x and y: float,
// double or vectors of them, of one type. May add blocks: the builder's insertion point moves. Null if `op` is none of
// these.
llvm::Value* EmitMath(llvm::IRBuilder<>& b, const CpuFeatures& features, ScalarOp op, llvm::Value* x, llvm::Value* y);

// Emits e to the x for x <= 0 or NaN.
llvm::Value* EmitExpAtMostZero(llvm::IRBuilder<>& b, const CpuFeatures& features, llvm::Value* x);

// Returns the approximate number of simple instructions of a function.
int MathCost(ScalarOp op);

// Returns a's magnitude with the sign of `sign`, computed in bits. LLVM's own copysign looks through conversions of
// `sign`: for one that was widened from float16 it uses the half, and if that was narrowed from float64 it needs a
// conversion that exists only in a library.
llvm::Value* EmitCopySign(llvm::IRBuilder<>& b, const CpuFeatures& features, llvm::Value* a, llvm::Value* sign);

// Returns a * b + c with one rounding, even if the machine has no fma.
llvm::Value* EmitExactFma(llvm::IRBuilder<>& b, const CpuFeatures& features, llvm::Value* x, llvm::Value* y,
                          llvm::Value* z);

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_H_
