#include "smelt/codegen/cuda_order_keys.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

Value* LogOf(CudaLibraryFunction& f, Value* n) {
  llvm::IRBuilder<>& b = f.b();
  Value* below = f.Emit(Term(n) - 1);
  Value* zeros = b.CreateIntrinsic(llvm::Intrinsic::ctlz, {b.getInt64Ty()}, {below, b.getFalse()});
  return f.Emit(Term(64) - zeros);
}

Value* KeyOf(CudaLibraryFunction& f, Value* v, DType t) {
  llvm::IRBuilder<>& b = f.b();
  if (!IsFloating(t)) {
    Value* wide = f.scalar().Cast(v, t, DType::kInt64);
    return IsSigned(t) ? b.CreateXor(wide, b.getInt64(uint64_t{1} << 63)) : wide;
  }
  const bool is_double = t == DType::kFloat64;
  Type* bits_type = is_double ? b.getInt64Ty() : b.getInt32Ty();
  const uint64_t sign = uint64_t{1} << (is_double ? 63 : 31);
  Value* zero = llvm::Constant::getNullValue(v->getType());
  Value* is_zero = b.CreateFCmpOEQ(v, zero);
  Value* number = b.CreateSelect(is_zero, zero, v);
  Value* bits = b.CreateBitCast(number, bits_type);
  Value* is_negative = b.CreateICmpSLT(bits, llvm::ConstantInt::get(bits_type, 0));
  Value* inverted = b.CreateNot(bits);
  Value* raised = b.CreateXor(bits, llvm::ConstantInt::get(bits_type, sign));
  Value* key = b.CreateSelect(is_negative, inverted, raised);
  Value* is_nan = b.CreateFCmpUNO(v, v);
  key = b.CreateSelect(is_nan, llvm::Constant::getAllOnesValue(bits_type), key);
  return b.CreateZExt(key, b.getInt64Ty());
}

uint64_t NanKey(DType t) {
  if (!IsFloating(t)) return 0;
  return t == DType::kFloat64 ? ~uint64_t{0} : 0xffffffff;
}

void Halve(CudaLibraryFunction& f, AllocaInst* low, AllocaInst* high, Value* steps,
           const std::function<Value*(Value*)>& lies_before) {
  llvm::IRBuilder<>& b = f.b();
  f.For(0, steps, 1, [&](Value*) {
    Value* from = f.f().Get(low);
    Value* to = f.f().Get(high);
    f.If(Term(from) < to, [&] {
      Value* middle = f.Emit(Term(from) + (Term(to) - from) / 2);
      Value* before = lies_before(middle);
      b.CreateStore(f.Emit(Term::Select(before, Term(middle) + 1, from)), low);
      b.CreateStore(f.Emit(Term::Select(before, to, middle)), high);
    });
  });
}

void PlaceMedian(CudaLibraryFunction& f, Value* numbers, Value* length, AllocaInst* place) {
  using W = order_words::Word;
  // 1: a NaN is the median if there is one. 2: NaN are left out.
  const Term middle = Term::Select(Term(numbers) == 0, 0, (Term(numbers) - 1) / 2);
  const Term takes_nan = (Term(f.Arg(W::kMedian)) == 1) & (Term(numbers) < length);
  f.b().CreateStore(f.Emit(Term::Select(takes_nan, numbers, middle)), place);
  // Which of NaN alone is chosen is PyTorch's.
  f.If((Term(numbers) == 0) & (Term(f.Arg(W::kMedian)) == 2) & (Term(f.Arg(W::kFlag)) != 0),
       [&] { f.Store(f.b().getInt64(1), f.Address(f.Arg(W::kFlag), DType::kInt64, 0), DType::kInt64); });
}

}  // namespace smelt
