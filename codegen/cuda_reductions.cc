#include "smelt/codegen/cuda_reductions.h"

#include <limits>
#include <utility>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

CudaReductions::CudaReductions(CudaFunction& f, const KernelSpec& spec)
    : f_(f), s_(spec), b_(f.b()), scalar_(f.scalar()), i64_(b_.getInt64Ty()), i32_(b_.getInt32Ty()) {}

Value* CudaReductions::LargestOfBlock(Value* v) {
  KernelInstr latest;
  latest.reduce = ReduceKind::kMax;
  return AcrossBlock(latest, DType::kInt64, {v, nullptr}).first;
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
  const DType t = Kept(in);
  Value* x = scalar_.Cast(values[in.operands[0]], Element(in), t);
  Value* next = Add(i, {x, IsArg(in.reduce) ? values[in.operands[1]] : nullptr});
  if (in.op == KernelOp::kScan) values[i] = IsArg(in.reduce) ? next : scalar_.Cast(next, t, in.type);
}

void CudaReductions::AccumulateAdjacent(int i, std::vector<std::vector<Value*>>& values) {
  const KernelInstr& in = s_.instrs[i];
  if (IsArg(in.reduce)) {
    for (std::vector<Value*>& each : values) Accumulate(i, each);
    return;
  }
  // A tree of few values, so that only one addition of them carries what it loses.
  std::vector<Value*> level;
  for (const std::vector<Value*>& each : values) level.push_back(each[in.operands[0]]);
  while (level.size() > 1) {
    std::vector<Value*> next;
    for (size_t k = 0; k < level.size(); k += 2) next.push_back(Combine(in.reduce, Kept(in), level[k], level[k + 1]));
    level = std::move(next);
  }
  Add(i, {level[0], nullptr});
}

Value* CudaReductions::Add(int i, const Candidate& x) {
  const KernelInstr& in = s_.instrs[i];
  const Accumulator& a = accumulators_[i];
  const DType t = Kept(in);
  Value* old = f_.Get(a.value);
  if (x.second != nullptr) {
    Value* old_index = f_.Get(a.index);
    Value* take = Better(in.reduce, t, {old, old_index}, x);
    b_.CreateStore(b_.CreateSelect(take, x.first, old), a.value);
    Value* index = b_.CreateSelect(take, x.second, old_index);
    b_.CreateStore(index, a.index);
    return index;
  }
  if (a.lost) {
    // Kahan's sum. If it is infinite nothing is carried: infinity less infinity would be NaN.
    Value* y = b_.CreateFSub(x.first, f_.Get(a.lost));
    Value* sum = b_.CreateFAdd(old, y);
    Value* lost = b_.CreateFSub(b_.CreateFSub(sum, old), y);
    Value* finite = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, lost),
                                     llvm::ConstantFP::getInfinity(lost->getType()));
    b_.CreateStore(b_.CreateSelect(finite, lost, llvm::Constant::getNullValue(lost->getType())), a.lost);
    b_.CreateStore(sum, a.value);
    return sum;
  }
  Value* next = Combine(in.reduce, t, old, x.first);
  b_.CreateStore(next, a.value);
  return next;
}

void CudaReductions::End(const KernelPhase& phase, Scope scope, std::vector<Value*>& values) {
  Combine(phase, scope);
  Finish(phase, values);
}

void CudaReductions::Combine(const KernelPhase& phase, Scope scope) {
  combined_.assign(s_.instrs.size(), {nullptr, nullptr});
  for (int i : phase.instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    const Accumulator& a = accumulators_[i];
    const DType t = Kept(in);
    Value* value = f_.Get(a.value);
    if (a.lost) value = b_.CreateFSub(value, f_.Get(a.lost));
    Candidate mine = {value, a.index ? f_.Get(a.index) : nullptr};
    switch (scope) {
      case Scope::kThread:
        break;
      case Scope::kWarp:
        mine = AcrossWarp(in, t, mine);
        mine = {OfFirst(mine.first), mine.second ? OfFirst(mine.second) : nullptr};
        break;
      case Scope::kColumn:
        mine = AcrossColumn(in, t, mine);
        break;
      case Scope::kBlock:
        mine = AcrossBlock(in, t, mine);
        break;
    }
    combined_[i] = mine;
  }
}

void CudaReductions::Finish(const KernelPhase& phase, std::vector<Value*>& values) {
  for (int i : phase.instrs) {
    if (s_.instrs[i].op != KernelOp::kReduce) continue;
    const auto [value, index] = combined_[i];
    values[i] = value;
    if (index == nullptr) continue;
    // With no elements the index is 0, as in the interpreter.
    Value* none = b_.CreateICmpEQ(index, b_.getInt64(std::numeric_limits<int64_t>::max()));
    values[i] = b_.CreateSelect(none, b_.getInt64(0), index);
  }
}

Value* CudaReductions::PartialAddress(const KernelPhase& phase, Value* number, int word) {
  Value* first = b_.CreateMul(number, b_.getInt64(PartialWords(s_, phase)));
  return b_.CreateGEP(i64_, f_.workspace(), {b_.CreateAdd(first, b_.getInt64(word))});
}

void CudaReductions::WritePartial(const KernelPhase& phase, Value* number) {
  int word = 0;
  for (int i : phase.instrs) {
    if (s_.instrs[i].op != KernelOp::kReduce) continue;
    const auto [value, index] = combined_[i];
    Value* const bits = ToWord(value);
    b_.CreateAlignedStore(bits, PartialAddress(phase, number, word++), llvm::Align(8));
    if (index) b_.CreateAlignedStore(index, PartialAddress(phase, number, word++), llvm::Align(8));
  }
}

void CudaReductions::AccumulatePartial(const KernelPhase& phase, Value* number) {
  int word = 0;
  for (int i : phase.instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    const auto read = [&] { return b_.CreateAlignedLoad(i64_, PartialAddress(phase, number, word++), llvm::Align(8)); };
    Value* value = FromWord(read(), scalar_.TypeOf(Kept(in)));
    Value* index = nullptr;
    if (IsArg(in.reduce)) index = read();
    Add(i, {value, index});
  }
}

CudaReductions::Candidate CudaReductions::Merge(const KernelInstr& in, DType t, const Candidate& a,
                                                const Candidate& z) {
  if (!a.second) return {Combine(in.reduce, t, a.first, z.first), nullptr};
  Value* take = Better(in.reduce, t, a, z);
  return {b_.CreateSelect(take, z.first, a.first), b_.CreateSelect(take, z.second, a.second)};
}

CudaReductions::Candidate CudaReductions::AcrossWarp(const KernelInstr& in, DType t, Candidate mine) {
  for (int distance = kCudaWarp / 2; distance > 0; distance /= 2) {
    Value* value = Down(mine.first, distance);
    mine = Merge(in, t, mine, {value, mine.second ? Down(mine.second, distance) : nullptr});
  }
  return mine;
}

CudaReductions::Candidate CudaReductions::AcrossBlock(const KernelInstr& in, DType t, const Candidate& mine) {
  constexpr int kWarps = kCudaBlock / kCudaWarp;
  if (of_warps_ == nullptr) of_warps_ = f_.Shared("_of_warps", 2 * kWarps);
  const Candidate of_warp = AcrossWarp(in, t, mine);
  const auto slot = [&](Value* w, int which) {
    return b_.CreateGEP(i64_, of_warps_, {b_.CreateAdd(w, b_.getInt64(which * kWarps))});
  };
  f_.Barrier();  // the slots may still be read
  f_.If(b_.CreateICmpEQ(b_.CreateURem(f_.thread(), b_.getInt64(kCudaWarp)), b_.getInt64(0)), [&] {
    Value* warp = b_.CreateUDiv(f_.thread(), b_.getInt64(kCudaWarp));
    Value* first = slot(warp, 0);
    b_.CreateAlignedStore(ToWord(of_warp.first), first, llvm::Align(8));
    if (of_warp.second) b_.CreateAlignedStore(of_warp.second, slot(warp, 1), llvm::Align(8));
  });
  f_.Barrier();
  return MergeSlots(in, t, mine, kWarps, slot);
}

CudaReductions::Candidate CudaReductions::AcrossColumn(const KernelInstr& in, DType t, const Candidate& mine) {
  if (of_threads_ == nullptr) of_threads_ = f_.Shared("_of_threads", 2 * kCudaBlock);
  Value* const lane = b_.CreateURem(f_.thread(), b_.getInt64(kCudaWarp));
  const auto at = [&](Value* thread, int which) {
    return b_.CreateGEP(i64_, of_threads_, {b_.CreateAdd(thread, b_.getInt64(which * kCudaBlock))});
  };
  f_.Barrier();  // the slots may still be read
  Value* first = at(f_.thread(), 0);
  b_.CreateAlignedStore(ToWord(mine.first), first, llvm::Align(8));
  if (mine.second) b_.CreateAlignedStore(mine.second, at(f_.thread(), 1), llvm::Align(8));
  f_.Barrier();
  return MergeSlots(in, t, mine, kCudaBlock / kCudaWarp, [&](Value* warp, int which) {
    return at(b_.CreateAdd(b_.CreateMul(warp, b_.getInt64(kCudaWarp)), lane), which);
  });
}

CudaReductions::Candidate CudaReductions::MergeSlots(const KernelInstr& in, DType t, const Candidate& like, int count,
                                                     const std::function<Value*(Value*, int)>& slot) {
  const auto read = [&](int number) -> Candidate {
    const auto word = [&](int which) {
      return b_.CreateAlignedLoad(i64_, slot(b_.getInt64(number), which), llvm::Align(8));
    };
    Value* value = FromWord(word(0), like.first->getType());
    return {value, like.second ? word(1) : nullptr};
  };
  Candidate all = read(0);
  for (int k = 1; k < count; ++k) all = Merge(in, t, all, read(k));
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
  return Shuffle(llvm::Intrinsic::nvvm_shfl_sync_down_i32, v, distance);
}

Value* CudaReductions::OfFirst(Value* v) { return Shuffle(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, v, 0); }

Value* CudaReductions::Shuffle(llvm::Intrinsic::ID id, Value* v, int lane) {
  auto shuffle = [&](Value* x) {
    return b_.CreateIntrinsic(id, {b_.getInt32(0xffffffff), x, b_.getInt32(lane), b_.getInt32(kCudaWarp - 1)});
  };
  Value* word = ToWord(v);
  Value* low = b_.CreateZExt(shuffle(b_.CreateTrunc(word, i32_)), i64_);
  if (v->getType()->getPrimitiveSizeInBits() <= 32) return FromWord(low, v->getType());
  Value* high = b_.CreateZExt(shuffle(b_.CreateTrunc(b_.CreateLShr(word, 32), i32_)), i64_);
  return FromWord(b_.CreateOr(b_.CreateShl(high, 32), low), v->getType());
}

}  // namespace smelt
