// Scalar operations as LLVM IR, for scalars and vectors alike. Internal to codegen: includes LLVM.
//
// bool is i1. float16 and bfloat16 are represented by their bits, i16, which only casts interpret.
#ifndef SMELT_CODEGEN_LOWER_SCALAR_H_
#define SMELT_CODEGEN_LOWER_SCALAR_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

class ScalarEmitter {
 public:
  ScalarEmitter(llvm::IRBuilder<>& b, const CpuFeatures& features) : b_(b), f_(features) {}

  // Sets the function that reports lanes in which an integer is divided by zero: (2, i1 or a vector of it).
  void SetStatusHandler(std::function<void(int, llvm::Value*)> handler) { status_ = std::move(handler); }

  // Sets the function that calls functions of another library; it returns null for those that the library lacks, which
  // are then inline.
  void SetMathHandler(std::function<llvm::Value*(ScalarOp, llvm::Value*, llvm::Value*)> handler) {
    math_ = std::move(handler);
  }

  llvm::Type* TypeOf(DType t);
  llvm::Value* Const(DType t, const ScalarImm& imm);  // a scalar
  llvm::Value* Cast(llvm::Value* v, DType from, DType to);
  // Converts from float32 or float64 if no NaN has a bit in the lower half of its float32.
  llvm::Value* ToBFloat16(llvm::Value* v, DType from);
  // Converts 16 even and 16 odd elements of float32 to bfloat16 in order, two per word; needs AVX-512.
  llvm::Value* ToBFloat16Pairs(llvm::Value* even, llvm::Value* odd, bool short_nans);
  // Returns a scalar argument from its word (i64) in the parameter block: floating-point arguments are the bits of a
  // double.
  llvm::Value* FromWord(llvm::Value* word, DType t);
  // Operands are all scalars or all vectors.
  llvm::Value* Emit(ScalarOp op, DType type, const DType* operand_types, llvm::Value* const* v, int lanes);

 private:
  llvm::Value* ToFloat(llvm::Value* bits, DType half);
  llvm::Value* OneNan(llvm::Value* v);
  llvm::Value* RoundToHighHalf(llvm::Value* v, bool short_nans);
  llvm::Value* HighHalf(llvm::Value* rounded);
  // Rounds float32 to bfloat16; needs `bf16`.
  llvm::Value* RoundedByInstruction(llvm::Value* v);
  llvm::Value* FromFloat(llvm::Value* v, DType half);
  llvm::Value* FromFloat8E4M3FN(llvm::Value* bits);
  llvm::Value* ToFloat8(llvm::Value* v, DType t);
  // Returns a float16 that is equal to v, a float32; null if none is known.
  llvm::Value* AsHalf(llvm::Value* v);
  // Returns v, a float32, as it is rounded to float16; null unless it is computed from values of float16.
  llvm::Value* HalfArithmetic(llvm::Value* v);
  llvm::Value* ToInteger(llvm::Value* v, DType to);
  llvm::Value* Divide(ScalarOp op, DType t, llvm::Value* a, llvm::Value* z);
  llvm::Value* Quotients(llvm::Value* a, llvm::Value* z);
  llvm::Value* IntegerPower(DType t, llvm::Value* base, llvm::Value* exponent);
  llvm::Value* MinMax(ScalarOp op, DType t, llvm::Value* a, llvm::Value* z);
  llvm::Value* Math(ScalarOp op, llvm::Value* x, llvm::Value* y);
  llvm::Value* CallMath(ScalarOp op, llvm::Value* x, llvm::Value* y);
  llvm::Type* Like(llvm::Value* v, llvm::Type* element) { return v->getType()->getWithNewType(element); }

  llvm::IRBuilder<>& b_;
  const CpuFeatures& f_;
  std::function<void(int, llvm::Value*)> status_;
  std::function<llvm::Value*(ScalarOp, llvm::Value*, llvm::Value*)> math_;
  std::map<std::pair<ScalarOp, llvm::Type*>, int> inlined_;  // the approximate number of instructions of each function
};

// Computes whether a kernel with these sizes and scalar arguments uses an index of a dim without elements, see
// IndexedSizes; null if it cannot.
llvm::Value* IndexesNothing(llvm::IRBuilder<>& b, const KernelSpec& spec, const std::vector<llvm::Value*>& sizes,
                            const std::vector<llvm::Value*>& scalars);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_SCALAR_H_
