// The kernels that draw random elements, and what all library kernels share.
//
//   uniform, normal, bernoulli, randint, exponential
//              each thread draws every (blocks * 256)th element by its number, as the host does (runtime/philox.h): six
//              divisions, and 10 rounds of two multiplications, 50 instructions. All but normal and exponential, which
//              call libdevice's functions of float64, give the host's bits
#include "smelt/codegen/cuda_library.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/codegen/cuda_attention.h"
#include "smelt/codegen/cuda_choice.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/codegen/cuda_long_order.h"
#include "smelt/codegen/cuda_order.h"
#include "smelt/codegen/cuda_product.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

namespace {

KernelSpec Words(int n) {
  KernelSpec s;
  s.scalars.assign(static_cast<size_t>(n), DType::kInt64);
  return s;
}

}  // namespace

CudaLibraryFunction::CudaLibraryFunction(llvm::Module& module, const LibraryKernel& kernel, const std::string& entry)
    : m_(module), words_(Words(kernel.NumWords())), f_(module, words_, entry) {}

void CudaLibraryFunction::For(const Term& from, const Term& to, const Term& step,
                              const std::function<void(Value*)>& body) {
  Value* first = Emit(from);
  Value* end = Emit(to);
  Value* by = Emit(step);
  f_.For(first, end, by, body);
}

Value* CudaLibraryFunction::Address(Value* base, DType t, const Term& at) {
  Value* pointer = base->getType()->isPointerTy()
                       ? base
                       : b().CreateIntToPtr(base, llvm::PointerType::get(m_.getContext(), kCudaGlobal));
  Value* bytes = Emit(at * ItemSize(t));
  return b().CreateGEP(b().getInt8Ty(), pointer, {bytes});
}

Value* CudaLibraryFunction::Load(Value* address, DType t) {
  Type* memory = t == DType::kBool ? b().getInt8Ty() : TypeOf(t);
  Value* v = b().CreateAlignedLoad(memory, address, llvm::Align(ItemSize(t)));
  if (t == DType::kBool) return b().CreateICmpNE(v, b().getInt8(0));
  return IsHalf(t) ? scalar().Cast(v, t, DType::kFloat32) : v;
}

void CudaLibraryFunction::Store(Value* value, Value* address, DType t) {
  if (t == DType::kBool) value = b().CreateZExt(value, b().getInt8Ty());
  if (IsHalf(t)) value = scalar().Cast(value, DType::kFloat32, t);
  b().CreateAlignedStore(value, address, llvm::Align(ItemSize(t)));
}

llvm::GlobalVariable* CudaLibraryFunction::Shared(const char* suffix, Type* type, int count) {
  auto* array = llvm::ArrayType::get(type, count);
  auto* shared =
      new llvm::GlobalVariable(m_, array, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(array),
                               absl::StrCat(b().GetInsertBlock()->getParent()->getName().str(), suffix), nullptr,
                               llvm::GlobalValue::NotThreadLocal, kCudaShared);
  shared->setAlignment(llvm::Align(16));
  return shared;
}

std::vector<Value*> CudaLibraryFunction::Offsets(Value* n, int sizes, const std::vector<int>& strides) {
  std::vector<Term> at(strides.size(), Term(0));
  Value* rest = n;
  for (int d = kStridedRank - 1; d >= 0; --d) {
    Value* index = d > 0 ? Emit(Term(rest) % Arg(sizes + d)) : rest;
    if (d > 0) rest = Emit(Term(rest) / Arg(sizes + d));
    for (size_t k = 0; k < strides.size(); ++k) at[k] = at[k] + Term(index) * Arg(strides[k] + d);
  }
  std::vector<Value*> out;
  for (const Term& t : at) out.push_back(Emit(t));
  return out;
}

void CudaLibraryFunction::ForItems(const Term& count, const std::function<void(Value*)>& body) {
  For(Term(f_.block()) * kCudaBlock + f_.thread(), count, Term(f_.blocks()) * kCudaBlock, body);
}

void CudaLibraryFunction::ForElements(int sizes, const std::function<void(Value*)>& body) {
  Term elements = 1;
  for (int d = 0; d < kStridedRank; ++d) elements = elements * Arg(sizes + d);
  ForItems(elements, body);
}

std::function<Value*(const Term&)> CudaLibraryFunction::SumOverBlock(Value* number) {
  Type* const i64 = b().getInt64Ty();
  llvm::GlobalVariable* const sums = Shared("_counts", i64, kCudaBlock);
  const auto at = [this, i64, sums](const Term& t) {
    Value* thread = Emit(t);
    return b().CreateGEP(i64, sums, {thread});
  };
  const auto load = [this, i64, at](const Term& t) -> Value* {
    Value* address = at(t);
    return b().CreateAlignedLoad(i64, address, llvm::Align(8));
  };
  b().CreateAlignedStore(number, at(f_.thread()), llvm::Align(8));
  f_.Barrier();
  for (int apart = 1; apart < kCudaBlock; apart *= 2) {
    Value* has_one = Emit(Term(apart - 1) < f_.thread());
    Value* other = load(Term::Select(has_one, Term(f_.thread()) - apart, 0));
    Value* own = load(f_.thread());
    Value* both = Emit(Term(own) + Term::Select(has_one, other, 0));
    f_.Barrier();
    b().CreateAlignedStore(both, at(f_.thread()), llvm::Align(8));
    f_.Barrier();
  }
  return load;
}

namespace {

// Draw number `n` of a stream as 64 bits.
Value* Draw(CudaLibraryFunction& f, Value* seed, Value* n) {
  const Term low = int64_t{0xffffffff};
  Value* counter = f.Emit(Term(n) / 2);
  Value* c[4] = {f.Emit(Term(counter) & low), f.Emit(Term(counter) >> 32), f.Emit(Term(0)), f.Emit(Term(0))};
  Value* k0 = f.Emit(Term(seed) & low);
  Value* k1 = f.Emit(Term(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    // The words hold 32 bits, so that the products are exact.
    Value* p0 = f.Emit(Term(c[0]) * int64_t{0xD2511F53});
    Value* p1 = f.Emit(Term(c[2]) * int64_t{0xCD9E8D57});
    Value* next0 = f.Emit(((Term(p1) >> 32) ^ c[1]) ^ k0);
    Value* next1 = f.Emit(Term(p1) & low);
    Value* next2 = f.Emit(((Term(p0) >> 32) ^ c[3]) ^ k1);
    Value* next3 = f.Emit(Term(p0) & low);
    c[0] = next0, c[1] = next1, c[2] = next2, c[3] = next3;
    k0 = f.Emit((Term(k0) + int64_t{0x9E3779B9}) & low);
    k1 = f.Emit((Term(k1) + int64_t{0xBB67AE85}) & low);
  }
  const Term second = (Term(n) % 2) != 0;
  Value* first_word = f.Emit(Term::Select(second, c[2], c[0]));
  Value* second_word = f.Emit(Term::Select(second, c[3], c[1]));
  return f.Emit(Term(first_word) | (Term(second_word) << 32));
}

// The upper half of the product of two numbers of 64 bits.
Value* HighHalf(llvm::IRBuilder<>& b, Value* x, Value* y) {
  Type* wide = b.getIntNTy(128);
  Value* wide_x = b.CreateZExt(x, wide);
  Value* wide_y = b.CreateZExt(y, wide);
  Value* product = b.CreateMul(wide_x, wide_y);
  return b.CreateTrunc(b.CreateLShr(product, 64), b.getInt64Ty());
}

void EmitRandom(CudaLibraryFunction& f, const std::string& base, DType t) {
  using namespace random_words;  // NOLINT
  llvm::IRBuilder<>& b = f.b();
  ScalarEmitter& scalar = f.scalar();
  const auto number = [&](double x) { return llvm::ConstantFP::get(b.getDoubleTy(), x); };
  const auto math = [&](ScalarOp op, Value* x) {
    const DType type = DType::kFloat64;
    return scalar.Emit(op, type, &type, &x, 1);
  };
  Value* const p0 = f.DoubleArg(kP0);
  Value* const p1 = f.DoubleArg(kP1);
  f.ForElements(kSizes, [&](Value* n) {
    Value* const draw = f.Emit(Term(f.Arg(kNext)) + n);
    Value* const bits = Draw(f, f.Arg(kSeed), draw);
    // [0, 1) with 53 bits.
    const auto unit = [&] {
      Value* whole = f.Emit(Term(bits) >> 11);
      return b.CreateFMul(b.CreateUIToFP(whole, b.getDoubleTy()), number(0x1p-53));
    };
    Value* out = nullptr;  // of dtype t, halves as their bits
    if (base == kUniformKernel) {
      Value* range = b.CreateFSub(p1, p0);
      Value* u = unit();
      Value* drawn = b.CreateFAdd(p0, b.CreateFMul(u, range));
      out = scalar.Cast(drawn, DType::kFloat64, t);
      // The interval is open above; rounding to the dtype may reach its end.
      Value* reached = b.CreateFCmpOGE(scalar.Cast(out, t, DType::kFloat64), p1);
      Value* open = b.CreateFCmpOLT(p0, p1);
      Value* first = scalar.Cast(p0, DType::kFloat64, t);
      out = b.CreateSelect(b.CreateAnd(reached, open), first, out);
    } else if (base == kNormalKernel) {
      // Box-Muller: the radius from one half of the bits, the angle from the other.
      Value* high = b.CreateUIToFP(f.Emit(Term(bits) >> 32), b.getDoubleTy());
      Value* u = b.CreateFMul(b.CreateFAdd(high, number(0.5)), number(0x1p-32));
      Value* low = b.CreateUIToFP(f.Emit(Term(bits) & int64_t{0xffffffff}), b.getDoubleTy());
      Value* angle = b.CreateFMul(b.CreateFMul(low, number(0x1p-32)), number(6.283185307179586));
      Value* log = math(ScalarOp::kLog, u);
      Value* radius = math(ScalarOp::kSqrt, b.CreateFMul(number(-2), log));
      Value* cosine = math(ScalarOp::kCos, angle);
      Value* scaled = b.CreateFMul(b.CreateFMul(p1, radius), cosine);
      out = scalar.Cast(b.CreateFAdd(p0, scaled), DType::kFloat64, t);
    } else if (base == kBernoulliKernel) {
      out = scalar.Cast(b.CreateFCmpOLT(unit(), p0), DType::kBool, t);
    } else if (base == kRandintKernel) {
      Value* from = b.CreateFPToSI(p0, b.getInt64Ty());
      Value* range = b.CreateFPToUI(b.CreateFSub(p1, p0), b.getInt64Ty());
      Value* offset = HighHalf(b, bits, range);
      out = scalar.Cast(b.CreateAdd(from, offset), DType::kInt64, t);
    } else {
      Value* log = math(ScalarOp::kLog1p, b.CreateFNeg(unit()));
      out = scalar.Cast(b.CreateFDiv(b.CreateFNeg(log), p0), DType::kFloat64, t);
    }
    const std::vector<Value*> at = f.Offsets(n, kSizes, {kTo + 1});
    Value* to = f.Address(f.Arg(kTo), t, at[0]);
    if (t == DType::kBool) out = b.CreateZExt(out, b.getInt8Ty());
    b.CreateAlignedStore(out, to, llvm::Align(ItemSize(t)));
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerLibraryKernel(llvm::LLVMContext& context,
                                                                 const LibraryKernel& kernel, int capability) {
  if (kernel.NumWords() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("there is no library kernel ", kernel.Entry()));
  }
  auto module = std::make_unique<llvm::Module>("library", context);
  const std::string& base = kernel.base;
  if (base == kProductKernel || base == kWideProductKernel || base == kSplitProductKernel ||
      base == kConvolutionKernel || base == kWideConvolutionKernel) {
    SMELT_RETURN_IF_ERROR(EmitProduct(*module, kernel, capability));
    return module;
  }
  if (base == kTensorAttentionKernel && capability < 80) {
    return absl::UnimplementedError(absl::StrCat(kernel.Entry(), " needs tensor cores of compute capability 8.0"));
  }
  const auto is_one_of = [&](std::initializer_list<const char*> bases) {
    return std::find(bases.begin(), bases.end(), base) != bases.end();
  };
  const bool is_choice = is_one_of(
      {kNonzeroKernel, kWideNonzeroKernel, kMaskedSelectKernel, kWideMaskedSelectKernel, kRunsKernel, kWideRunsKernel});
  if (is_choice || is_one_of({kOrderMergeKernel, kOrderTakeKernel, kBincountKernel})) {
    for (int stage = 0; stage < static_cast<int>(kernel.Launch().stages.size()); ++stage) {
      CudaLibraryFunction f(*module, kernel, kernel.StageEntry(stage));
      is_choice ? EmitChoice(f, kernel, stage) : EmitLongOrder(f, kernel, stage);
      f.b().CreateRetVoid();
    }
    return module;
  }
  CudaLibraryFunction f(*module, kernel, kernel.Entry());
  if (base == kAttentionKernel || base == kTensorAttentionKernel) {
    EmitAttention(f, kernel);
  } else if (is_one_of({kOrderKernel, kOrderPiecesKernel, kSearchKernel})) {
    EmitOrder(f, kernel);
  } else {
    EmitRandom(f, base, kernel.types[0]);
  }
  f.b().CreateRetVoid();
  return module;
}

}  // namespace smelt
