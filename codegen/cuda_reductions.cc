#include "smelt/codegen/cuda_reductions.h"

#include <limits>
#include <tuple>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

CudaReductions::CudaReductions(CudaFunction& f, const KernelSpec& spec)
    : f_(f), s_(spec), b_(f.b()), scalar_(f.scalar()), i64_(b_.getInt64Ty()), i32_(b_.getInt32Ty()) {}

void CudaReductions::ShareAmongBlock() { shared_ = f_.Shared("_partial", 2 * kCudaBlock / kCudaWarp); }

Value* CudaReductions::LargestOfBlock(Value* v) {
  KernelInstr latest;
  latest.reduce = ReduceKind::kMax;
  return AcrossBlock(latest, DType::kInt64, v, nullptr).first;
}

DType CudaReductions::Kept(const KernelInstr& in) const {
  const DType t = Element(in);
  return in.op == KernelOp::kScan && IsFloating(t) && !IsArg(in.reduce) ? DType::kFloat64 : t;
}

Value* CudaReductions::Identity(ReduceKind kind, DType t) {
  const bool low = kind == ReduceKind::kMax || kind == ReduceKind::kArgMax;
  Type* type = scalar_.TypeOf(t);
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kOr:
      return llvm::Constant::getNullValue(type);
    case ReduceKind::kProd:
      return IsFloating(t) ? static_cast<Value*>(llvm::ConstantFP::get(type, 1)) : llvm::ConstantInt::get(type, 1);
    case ReduceKind::kAnd:
      return b_.getTrue();
    default:
      break;
  }
  if (IsFloating(t)) return llvm::ConstantFP::getInfinity(type, /*Negative=*/low);
  const unsigned bits = type->getIntegerBitWidth();
  if (!IsSigned(t)) return llvm::ConstantInt::get(type, low ? llvm::APInt(bits, 0) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(type,
                                low ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
}

bool CudaReductions::IsCompensated(const KernelInstr& in, DType t) {
  return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(t);
}

void CudaReductions::Begin(const KernelPhase& phase) {
  accumulators_.resize(s_.instrs.size());
  for (int i : phase.instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce && in.op != KernelOp::kScan) continue;
    const DType t = Kept(in);
    Accumulator& a = accumulators_[i];
    a.value = f_.Variable(scalar_.TypeOf(t));
    b_.CreateStore(Identity(in.reduce, t), a.value);
    if (IsArg(in.reduce)) {
      a.index = f_.Variable(i64_);
      b_.CreateStore(b_.getInt64(std::numeric_limits<int64_t>::max()), a.index);
    }
    if (IsCompensated(in, t)) {
      a.lost = f_.Variable(scalar_.TypeOf(t));
      b_.CreateStore(llvm::Constant::getNullValue(scalar_.TypeOf(t)), a.lost);
    }
  }
}

Value* CudaReductions::Combine(ReduceKind kind, DType t, Value* a, Value* z) {
  const DType types[] = {t, t};
  Value* const operands[] = {a, z, nullptr};
  switch (kind) {
    case ReduceKind::kSum:
      return scalar_.Emit(ScalarOp::kAdd, t, types, operands, 1);
    case ReduceKind::kProd:
      return scalar_.Emit(ScalarOp::kMul, t, types, operands, 1);
    case ReduceKind::kMin:
      return scalar_.Emit(ScalarOp::kMin, t, types, operands, 1);
    case ReduceKind::kMax:
      return scalar_.Emit(ScalarOp::kMax, t, types, operands, 1);
    case ReduceKind::kAnd:
      return b_.CreateAnd(a, z);
    case ReduceKind::kOr:
      return b_.CreateOr(a, z);
    default:
      SMELT_UNREACHABLE();
      return nullptr;
  }
}

Value* CudaReductions::Better(ReduceKind kind, DType t, const Candidate& first, const Candidate& second) {
  Value *a = first.first, *z = second.first;
  const bool min = kind == ReduceKind::kArgMin;
  Value* earlier = b_.CreateICmpSLT(second.second, first.second);
  using P = llvm::CmpInst;
  if (!IsFloating(t)) {
    const auto less = IsSigned(t) ? P::ICMP_SLT : P::ICMP_ULT, more = IsSigned(t) ? P::ICMP_SGT : P::ICMP_UGT;
    Value* both = b_.CreateAnd(b_.CreateICmpEQ(z, a), earlier);
    return b_.CreateOr(b_.CreateICmp(min ? less : more, z, a), both);
  }
  Value *a_nan = b_.CreateFCmpUNO(a, a), *z_nan = b_.CreateFCmpUNO(z, z);
  Value* better = b_.CreateFCmp(min ? P::FCMP_OLT : P::FCMP_OGT, z, a);
  Value* both = b_.CreateAnd(a_nan, z_nan);
  Value* same = b_.CreateOr(b_.CreateFCmpOEQ(z, a), both);
  Value* same_but_earlier = b_.CreateAnd(same, earlier);
  return b_.CreateOr(b_.CreateOr(better, b_.CreateAnd(z_nan, b_.CreateNot(a_nan))), same_but_earlier);
}

void CudaReductions::Accumulate(int i, std::vector<Value*>& values) {
  const KernelInstr& in = s_.instrs[i];
  Accumulator& a = accumulators_[i];
  const DType t = Kept(in);
  Value* x = scalar_.Cast(values[in.operands[0]], Element(in), t);
  Value* old = f_.Get(a.value);
  if (IsArg(in.reduce)) {
    Value *index = values[in.operands[1]], *old_index = f_.Get(a.index);
    Value* take = Better(in.reduce, t, {old, old_index}, {x, index});
    b_.CreateStore(b_.CreateSelect(take, x, old), a.value);
    b_.CreateStore(b_.CreateSelect(take, index, old_index), a.index);
    if (in.op == KernelOp::kScan) values[i] = f_.Get(a.index);
    return;
  }
  if (a.lost) {
    // Kahan's sum. If it is infinite nothing is carried: infinity less infinity would be NaN.
    Value* y = b_.CreateFSub(x, f_.Get(a.lost));
    Value* sum = b_.CreateFAdd(old, y);
    Value* lost = b_.CreateFSub(b_.CreateFSub(sum, old), y);
    Value* finite = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, lost),
                                     llvm::ConstantFP::getInfinity(lost->getType()));
    b_.CreateStore(b_.CreateSelect(finite, lost, llvm::Constant::getNullValue(lost->getType())), a.lost);
    b_.CreateStore(sum, a.value);
    return;
  }
  Value* next = Combine(in.reduce, t, old, x);
  b_.CreateStore(next, a.value);
  if (in.op == KernelOp::kScan) values[i] = scalar_.Cast(next, t, in.type);
}

void CudaReductions::End(const KernelPhase& phase, bool block, std::vector<Value*>& values) {
  for (int i : phase.instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    const Accumulator& a = accumulators_[i];
    const DType t = Kept(in);
    Value* value = f_.Get(a.value);
    Value* index = a.index ? f_.Get(a.index) : nullptr;
    if (a.lost) value = b_.CreateFSub(value, f_.Get(a.lost));
    if (block) std::tie(value, index) = AcrossBlock(in, t, value, index);
    if (index) {
      // With no elements the index is 0, as in the interpreter.
      Value* none = b_.CreateICmpEQ(index, b_.getInt64(std::numeric_limits<int64_t>::max()));
      value = b_.CreateSelect(none, b_.getInt64(0), index);
    }
    values[i] = value;
  }
}

CudaReductions::Candidate CudaReductions::Merge(const KernelInstr& in, DType t, const Candidate& a,
                                                const Candidate& z) {
  if (!a.second) return {Combine(in.reduce, t, a.first, z.first), nullptr};
  Value* take = Better(in.reduce, t, a, z);
  return {b_.CreateSelect(take, z.first, a.first), b_.CreateSelect(take, z.second, a.second)};
}

CudaReductions::Candidate CudaReductions::AcrossBlock(const KernelInstr& in, DType t, Value* value, Value* index) {
  Candidate mine = {value, index};
  for (int distance = kCudaWarp / 2; distance > 0; distance /= 2) {
    mine = Merge(in, t, mine, {Down(mine.first, distance), index ? Down(mine.second, distance) : nullptr});
  }
  const int warps = kCudaBlock / kCudaWarp;
  auto slot = [&](Value* w, int which) {
    Value* at = b_.CreateAdd(w, b_.getInt64(which * warps));
    return b_.CreateGEP(i64_, shared_, {at});
  };
  f_.Barrier();  // the slots may still be read
  f_.If(b_.CreateICmpEQ(b_.CreateURem(f_.thread(), b_.getInt64(kCudaWarp)), b_.getInt64(0)), [&] {
    Value* warp = b_.CreateUDiv(f_.thread(), b_.getInt64(kCudaWarp));
    Value* second2 = slot(warp, 0);
    b_.CreateAlignedStore(ToWord(mine.first), second2, llvm::Align(8));
    if (index) b_.CreateAlignedStore(mine.second, slot(warp, 1), llvm::Align(8));
  });
  f_.Barrier();
  auto read = [&](int w) -> Candidate {
    Value* first = b_.CreateAlignedLoad(i64_, slot(b_.getInt64(w), 0), llvm::Align(8));
    Value* second = index ? b_.CreateAlignedLoad(i64_, slot(b_.getInt64(w), 1), llvm::Align(8)) : nullptr;
    return {FromWord(first, value->getType()), second};
  };
  Candidate all = read(0);
  for (int w = 1; w < warps; ++w) all = Merge(in, t, all, read(w));
  return all;
}

Value* CudaReductions::ToWord(Value* v) {
  Type* bits = b_.getIntNTy(v->getType()->getPrimitiveSizeInBits());
  return b_.CreateZExt(b_.CreateBitCast(v, bits), i64_);
}

Value* CudaReductions::FromWord(Value* word, Type* type) {
  return b_.CreateBitCast(b_.CreateTrunc(word, b_.getIntNTy(type->getPrimitiveSizeInBits())), type);
}

Value* CudaReductions::Down(Value* v, int distance) {
  auto shuffle = [&](Value* x) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_down_i32,
                              {b_.getInt32(0xffffffff), x, b_.getInt32(distance), b_.getInt32(kCudaWarp - 1)});
  };
  Value* word = ToWord(v);
  Value* low = b_.CreateZExt(shuffle(b_.CreateTrunc(word, i32_)), i64_);
  if (v->getType()->getPrimitiveSizeInBits() <= 32) return FromWord(low, v->getType());
  Value* high = b_.CreateZExt(shuffle(b_.CreateTrunc(b_.CreateLShr(word, 32), i32_)), i64_);
  return FromWord(b_.CreateOr(b_.CreateShl(high, 32), low), v->getType());
}

}  // namespace smelt
