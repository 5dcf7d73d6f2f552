// Loads and stores: the place of an access, as a vector, lane by lane, masked, guarded, past the cache. Elements a few
// apart are in emit_apart.cc.
#include <algorithm>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// A vector of at most this many lanes is loaded without a loop even if some lanes are not needed.
constexpr int kFewLanes = 16;

bool IsZero(Value* v) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(v);
  return constant && constant->isZero();
}

}  // namespace

void KernelEmitter::AddIndex(int dim, Value* index) {
  idx_[dim] = index;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (!stride_[p][dim]) continue;
    if (s_.params[p].strides[dim] == StrideClass::kUnit) {
      addr_[p] = b_.CreateGEP(MemType(s_.params[p].dtype), addr_[p], index);
    } else {
      addr_[p] = b_.CreateGEP(i8_, addr_[p], b_.CreateMul(index, stride_[p][dim]));
    }
  }
}

Value* KernelEmitter::Address(int param, int u, bool past_scratch) {
  Value* a = has_scratch_[param] && !past_scratch ? scratch_[param] : addr_[param];
  if (row_copies_ > 0) {
    Value* row = stride_[param][s_.rank() - 1];
    if (const int q = u / row_vectors_; q && row) a = b_.CreateGEP(i8_, a, b_.CreateMul(row, b_.getInt64(q)));
    u %= row_vectors_;
  }
  if (!chunk_ || !stride_[param][loop_dim_]) return a;
  if (LoopClass(param) == StrideClass::kUnit) {
    Type* t = MemType(s_.params[param].dtype);
    a = b_.CreateGEP(t, a, chunk_);
    return u ? b_.CreateConstGEP1_64(t, a, static_cast<int64_t>(u) * active_lanes_) : a;
  }
  Value* stride = stride_[param][loop_dim_];
  a = b_.CreateGEP(i8_, a, b_.CreateMul(chunk_, stride));
  return u ? b_.CreateGEP(i8_, a, b_.CreateMul(stride, b_.getInt64(static_cast<int64_t>(u) * active_lanes_))) : a;
}

Value* KernelEmitter::StrideAlongLoop(int param) {
  Value* s = chunk_ && loop_dim_ >= 0 ? stride_[param][loop_dim_] : nullptr;
  return s ? s : b_.getInt64(0);
}

bool KernelEmitter::UnitAlongLoop(int param) const {
  return chunk_ && loop_dim_ >= 0 && LoopClass(param) == StrideClass::kUnit;
}

Value* KernelEmitter::FromMemory(DType t, Value* v) {
  return t == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}

Value* KernelEmitter::ToMemory(DType t, Value* v) {
  return t == DType::kBool ? b_.CreateZExt(v, v->getType()->getWithNewType(i8_)) : v;
}

Value* KernelEmitter::PlusOffset(Value* address, DType t, Value* offset) {
  return b_.CreateGEP(MemType(t), address, offset);
}

void KernelEmitter::PastCache(llvm::StoreInst* store) {
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(c_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

// Prefetches into the nearest cache, or only into the one behind it.
void KernelEmitter::Prefetch(Value* at, bool nearest) {
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ptr_},
                     {at, b_.getInt32(0), b_.getInt32(nearest ? 3 : 2), b_.getInt32(1)});
}

bool KernelEmitter::IsReadInLines(int param) const {
  return !written_[param] && (LoopClass(param) == StrideClass::kUnit || LinesApart(param) > 1);
}

int64_t KernelEmitter::LinesApart(int param) const {
  const int64_t apart = ElementsApart(LoopClass(param));
  return !f_.IsAvx2Only() && apart >= 2 ? apart : 1;
}

void KernelEmitter::PrefetchLines(int param, Value* at, int copies, bool nearest) {
  const int64_t bytes = copies * active_lanes_ * ItemSize(s_.params[param].dtype) * LinesApart(param);
  for (int64_t byte = 0; byte < bytes; byte += 64) Prefetch(b_.CreateConstGEP1_64(i8_, at, byte), nearest);
}

Value* KernelEmitter::EmitLoad(const KernelInstr& in, int u) {
  Value* offset = in.has_offset ? Get(in.operands[0], u) : nullptr;
  Value* guard = in.has_guard ? Get(in.operands.back(), u) : nullptr;
  Type* element = MemType(in.type);
  const llvm::Align align(ItemSize(in.type));
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  const bool vector_guard = guard && guard->getType()->isVectorTy();
  const bool moves = chunk_ && stride_[in.param][loop_dim_];
  if (active_lanes_ == 1 || (!moves && !vector_offset && !vector_guard)) {
    auto load = [&]() -> Value* {
      Value* a = Address(in.param, u);
      if (offset) a = PlusOffset(a, in.type, offset);
      return b_.CreateAlignedLoad(element, a, align);
    };
    Value* v = guard ? IfElse(guard, load, [&] { return llvm::Constant::getNullValue(element); }) : load();
    return FromMemory(in.type, v);
  }
  if (!guard || vector_guard) return FromMemory(in.type, LoadVector(in, u, offset, guard));
  // Loads all lanes or none. A masked load of no lanes may lie outside of memory, which costs a machine hundreds of
  // cycles.
  return FromMemory(in.type, IfElse(
                                 guard, [&] { return LoadVector(in, u, offset, nullptr); },
                                 [&] { return llvm::Constant::getNullValue(Vec(element, active_lanes_)); }));
}

// Loads a vector in the order of memory. Each lane has its own guard, if there is one.
Value* KernelEmitter::LoadVector(const KernelInstr& in, int u, Value* offset, Value* guard) {
  if (whole_) return WholeOrPart([&] { return LoadVector(in, u, offset, guard); });
  Type* element = MemType(in.type);
  const llvm::Align align(ItemSize(in.type));
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  const bool moves = chunk_ && stride_[in.param][loop_dim_];
  Type* type = Vec(element, active_lanes_);
  if (UnitAlongLoop(in.param) && !vector_offset) {
    Value* a = Address(in.param, u);
    if (offset) a = PlusOffset(a, in.type, offset);
    if (!guard && !mask_) return b_.CreateAlignedLoad(type, a, align);
    Value* m = CombinedMask(guard);
    auto masked = [&]() -> Value* {
      if (!MasksNatively(element)) {
        const int item = ItemSize(in.type);
        if (InWords(in.type, guard)) return LoadFront(type, a, item);
        return LoadLanes(in, type, a, b_.getInt64(item), nullptr, guard);
      }
      return b_.CreateMaskedLoad(type, a, align, m, llvm::Constant::getNullValue(type));
    };
    if (mask_) return masked();
    // This helps machines with masks, too: behind masked loads no machine prefetches.
    return IfElse(All(m), [&]() -> Value* { return b_.CreateAlignedLoad(type, a, align); }, masked);
  }
  Value* a = Address(in.param, u);
  if (offset && !vector_offset) a = PlusOffset(a, in.type, offset);
  Value* stride = StrideAlongLoop(in.param);
  Value* offsets = vector_offset ? offset : nullptr;
  // A term that all lanes add is added once, so that loads at the same places of several rows (those of interpolation)
  // share it. Of another phase only the sum is available.
  const int phase = phase_of_[&in - s_.instrs.data()];
  for (int o = offsets ? in.operands[0] : -1; offsets && s_.instrs[o].op == KernelOp::kScalar &&
                                              s_.instrs[o].type == DType::kInt64 &&
                                              s_.instrs[o].scalar == ScalarOp::kAdd && phase_of_[o] == phase;) {
    const auto& terms = s_.instrs[o].operands;
    Value* values[] = {Get(terms[0], u), Get(terms[1], u)};
    const int common = values[0]->getType()->isVectorTy() ? 1 : 0;
    if (values[common]->getType()->isVectorTy() || !values[1 - common]->getType()->isVectorTy()) break;
    a = PlusOffset(a, in.type, values[common]);
    offsets = values[1 - common];
    o = terms[1 - common];
  }
  if (guard) {
    // Most vectors need all or no lanes: a window's inside, and the elements beyond its edges.
    guard = Splat(guard);
    auto some = [&]() -> Value* {
      return IfElse(
          Any(guard), [&] { return LoadLanes(in, type, a, stride, offsets, guard); },
          [&] { return llvm::Constant::getNullValue(type); });
    };
    return mask_ ? some() : IfElse(All(guard), [&] { return LoadVector(in, u, offset, nullptr); }, some);
  }
  const int64_t apart = moves && !offsets ? ElementsApart(LoopClass(in.param)) : kAnyApart;
  if (apart >= 2 && LoadsWholes(element, apart)) return LoadApart(type, a, apart);
  if (apart == -1 && (!mask_ || MasksNatively(element))) {
    a = b_.CreateConstGEP1_64(element, a, 1 - active_lanes_);
    Value* v = mask_ ? static_cast<Value*>(b_.CreateMaskedLoad(type, a, align, b_.CreateVectorReverse(mask_),
                                                               llvm::Constant::getNullValue(type)))
                     : b_.CreateAlignedLoad(type, a, align);
    return b_.CreateVectorReverse(v);
  }
  if (mask_ && (!offsets || moves || active_lanes_ > kFewLanes)) {
    return LoadLanes(in, type, a, stride, offsets, nullptr);
  }
  // For places that data choose, lanes without an element of their own read the first lane's element: a whole vector
  // takes no longer than a loop over a few lanes.
  if (mask_) {
    Value* first = b_.CreateExtractElement(offsets, b_.getInt64(0));
    offsets = b_.CreateSelect(mask_, offsets, b_.CreateVectorSplat(active_lanes_, first));
  }
  if (offsets && f_.avx512 && active_lanes_ >= 8 && ItemSize(in.type) >= 4) {
    could_gather_ = true;
    if (gathers_) {
      Value* every = llvm::Constant::getAllOnesValue(Vec(b_.getInt1Ty(), active_lanes_));
      return b_.CreateMaskedGather(type, LaneVector(in, a, stride, offsets), align, every);
    }
  }
  const std::vector<Value*> places = LaneAddresses(in, a, stride, offsets);
  Value* v = llvm::PoisonValue::get(type);
  for (int k = 0; k < active_lanes_; ++k) {
    v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(element, places[k], align), k);
  }
  return v;
}

// Without offsets from data, groups of four lanes are addressed from one place each: the machine multiplies by 1, 2 and
// 4 as it loads.
std::vector<Value*> KernelEmitter::LaneAddresses(const KernelInstr& in, Value* a, Value* stride, Value* offsets) {
  std::vector<Value*> places;
  if (offsets) {
    for (int k = 0; k < active_lanes_; ++k) {
      Value* from_first = b_.CreateMul(stride, b_.getInt64(k));
      Value* at = IsZero(from_first) ? a : b_.CreateGEP(i8_, a, from_first);
      places.push_back(PlusOffset(at, in.type, b_.CreateExtractElement(offsets, k)));
    }
    return places;
  }
  Value* from_group[] = {nullptr, stride, b_.CreateShl(stride, 1), b_.CreateMul(stride, b_.getInt64(3))};
  Value* next_group = b_.CreateShl(stride, 2);
  Value* group = a;
  for (int k = 0; k < active_lanes_; ++k) {
    if (k && k % 4 == 0) group = b_.CreateGEP(i8_, group, next_group);
    places.push_back(k % 4 ? b_.CreateGEP(i8_, group, from_group[k % 4]) : group);
  }
  return places;
}

// Returns the same as a vector of pointers.
Value* KernelEmitter::LaneVector(const KernelInstr& in, Value* a, Value* stride, Value* offsets) {
  if (offsets && IsZero(stride)) return b_.CreateGEP(MemType(in.type), a, offsets);
  Value* places = b_.CreateMul(Iota(i64_, active_lanes_), b_.CreateVectorSplat(active_lanes_, stride));
  if (offsets) {
    Value* size = llvm::ConstantInt::get(offsets->getType(), ItemSize(in.type));
    places = b_.CreateAdd(places, b_.CreateMul(offsets, size));
  }
  return b_.CreateGEP(i8_, a, places);
}

Value* KernelEmitter::CombinedMask(Value* guard) {
  if (!guard) return mask_;
  guard = Splat(guard);
  return mask_ ? b_.CreateAnd(guard, mask_) : guard;
}

void KernelEmitter::ForLanes(const KernelInstr& in, Value* a, Value* stride, Value* offsets, Value* guard,
                             const std::function<void(Value*, Value*)>& body) {
  AllocaInst* offset_memory = nullptr;
  AllocaInst* guard_memory = nullptr;
  if (offsets) {
    offset_memory = Temporary(offsets->getType());
    b_.CreateStore(offsets, offset_memory);
  }
  if (guard) {
    guard_memory = Temporary(Vec(i8_, active_lanes_));
    b_.CreateStore(b_.CreateZExt(Splat(guard), Vec(i8_, active_lanes_)), guard_memory);
  }
  For(b_.getInt64(0), count_ ? count_ : b_.getInt64(active_lanes_), b_.getInt64(1), [&](Value* k) {
    auto access = [&] {
      Value* at = b_.CreateGEP(i8_, a, b_.CreateMul(stride, k));
      if (offsets) at = PlusOffset(at, in.type, b_.CreateLoad(i64_, b_.CreateGEP(i64_, offset_memory, k)));
      body(k, at);
    };
    if (!guard) return access();
    If(b_.CreateICmpNE(b_.CreateLoad(i8_, b_.CreateGEP(i8_, guard_memory, k)), b_.getInt8(0)), access);
  });
}

Value* KernelEmitter::LoadLanes(const KernelInstr& in, Type* type, Value* a, Value* stride, Value* offsets,
                                Value* guard) {
  Type* element = MemType(in.type);
  // The end of a row has few lanes: one after the other is faster than the machine's gather.
  if (guard && f_.avx512 && ItemSize(in.type) >= 4) {
    Value* combined_mask = CombinedMask(guard);
    return b_.CreateMaskedGather(type, LaneVector(in, a, stride, offsets), llvm::Align(ItemSize(in.type)),
                                 combined_mask, llvm::Constant::getNullValue(type));
  }
  AllocaInst* memory = Temporary(type);
  b_.CreateStore(llvm::Constant::getNullValue(type), memory);
  ForLanes(in, a, stride, offsets, guard, [&](Value* k, Value* at) {
    Value* place = b_.CreateGEP(element, memory, k);
    b_.CreateStore(b_.CreateAlignedLoad(element, at, llvm::Align(ItemSize(in.type))), place);
  });
  return b_.CreateLoad(type, memory);
}

bool KernelEmitter::InWords(DType type, Value* guard) const {
  const int item = ItemSize(type), bytes = active_lanes_ * item;
  return !guard && count_ && item <= 2 && (bytes == 4 || bytes == 8 || bytes == 16);
}

// The parts may overlap.
Value* KernelEmitter::LoadBytes(Value* a, Value* bytes, int item) {
  auto part = [&](int bits, Value* at) -> Value* {
    Value* v = b_.CreateAlignedLoad(b_.getIntNTy(bits), b_.CreateGEP(i8_, a, at), llvm::Align(item));
    Value* shifted = b_.CreateShl(at, 3);
    return b_.CreateShl(b_.CreateZExt(v, i64_), shifted);
  };
  Value* first = b_.getInt64(0);
  return IfElse(
      b_.CreateICmpSGE(bytes, b_.getInt64(4)),
      [&] {
        Value* second = part(32, b_.CreateSub(bytes, b_.getInt64(4)));
        return b_.CreateOr(part(32, first), second);
      },
      [&]() -> Value* {
        if (item == 2) return part(16, first);
        Value* second = part(8, b_.CreateSub(bytes, b_.getInt64(1)));
        Value* ends = b_.CreateOr(part(8, first), second);
        return b_.CreateOr(ends, part(8, b_.CreateLShr(bytes, 1)));
      });
}

void KernelEmitter::StoreBytes(Value* word, Value* a, Value* bytes, int item) {
  auto part = [&](int bits, Value* at) {
    Value* v = b_.CreateTrunc(b_.CreateLShr(word, b_.CreateShl(at, 3)), b_.getIntNTy(bits));
    b_.CreateAlignedStore(v, b_.CreateGEP(i8_, a, at), llvm::Align(item));
  };
  Value* first = b_.getInt64(0);
  IfElse(
      b_.CreateICmpSGE(bytes, b_.getInt64(4)),
      [&]() -> Value* {
        part(32, first);
        part(32, b_.CreateSub(bytes, b_.getInt64(4)));
        return nullptr;
      },
      [&]() -> Value* {
        if (item == 2) {
          part(16, first);
          return nullptr;
        }
        part(8, first);
        part(8, b_.CreateLShr(bytes, 1));
        part(8, b_.CreateSub(bytes, b_.getInt64(1)));
        return nullptr;
      });
}

// This does not go through memory: a value stored in pieces cannot be loaded as a whole until all pieces have arrived.
Value* KernelEmitter::LoadFront(Type* type, Value* a, int item) {
  Value* bytes = b_.CreateMul(count_, b_.getInt64(item));
  const int size = active_lanes_ * item;
  if (size <= 8) return b_.CreateBitCast(b_.CreateTrunc(LoadBytes(a, bytes, item), b_.getIntNTy(8 * size)), type);
  Type* words = Vec(i64_, 2);
  Value* both = IfElse(
      b_.CreateICmpSGT(bytes, b_.getInt64(8)),
      [&]() -> Value* {
        Value* low = b_.CreateAlignedLoad(i64_, a, llvm::Align(item));
        Value* end = b_.CreateGEP(i8_, a, b_.CreateSub(bytes, b_.getInt64(8)));
        Value* beyond = b_.CreateShl(b_.CreateSub(b_.getInt64(16), bytes), 3);
        Value* high = b_.CreateLShr(b_.CreateAlignedLoad(i64_, end, llvm::Align(item)), beyond);
        Value* v = b_.CreateInsertElement(llvm::PoisonValue::get(words), low, b_.getInt64(0));
        return b_.CreateInsertElement(v, high, b_.getInt64(1));
      },
      [&]() -> Value* {
        return b_.CreateInsertElement(llvm::Constant::getNullValue(words), LoadBytes(a, bytes, item), b_.getInt64(0));
      });
  return b_.CreateBitCast(both, type);
}

void KernelEmitter::StoreFront(Value* v, Value* a, int item) {
  Value* bytes = b_.CreateMul(count_, b_.getInt64(item));
  const int size = active_lanes_ * item;
  if (size <= 8) {
    return StoreBytes(b_.CreateZExt(b_.CreateBitCast(v, b_.getIntNTy(8 * size)), i64_), a, bytes, item);
  }
  Value* words = b_.CreateBitCast(v, Vec(i64_, 2));
  Value* low = b_.CreateExtractElement(words, b_.getInt64(0));
  IfElse(
      b_.CreateICmpSGT(bytes, b_.getInt64(8)),
      [&]() -> Value* {
        // The last 8 of them, of both words.
        Value* high = b_.CreateExtractElement(words, b_.getInt64(1));
        Value* from = b_.CreateShl(b_.CreateSub(bytes, b_.getInt64(8)), 3);
        Value* end = b_.CreateIntrinsic(llvm::Intrinsic::fshr, {i64_}, {high, low, from});
        end = b_.CreateSelect(b_.CreateICmpEQ(bytes, b_.getInt64(16)), high, end);
        b_.CreateAlignedStore(low, a, llvm::Align(item));
        b_.CreateAlignedStore(end, b_.CreateGEP(i8_, a, b_.CreateSub(bytes, b_.getInt64(8))), llvm::Align(item));
        return nullptr;
      },
      [&]() -> Value* {
        StoreBytes(low, a, bytes, item);
        return nullptr;
      });
}

// Stores two copies of half a cache line: LLVM turns a narrowing conversion and a store of half a line into one
// instruction, which does not store past the cache.
void KernelEmitter::StorePair(const KernelInstr& in, int u) {
  std::vector<int> both(2 * active_lanes_);
  for (size_t k = 0; k < both.size(); ++k) both[k] = static_cast<int>(k);
  Value* low = Splat(ToMemory(in.type, Get(in.operands[0], u)));
  Value* high = Splat(ToMemory(in.type, Get(in.operands[0], u + 1)));
  Value* address = Address(in.param, u, /*past_scratch=*/true);
  llvm::StoreInst* s = b_.CreateAlignedStore(b_.CreateShuffleVector(low, high, both), address, llvm::Align(64));
  PastCache(s);
}

bool KernelEmitter::CanPair(const std::vector<int>& instrs, int copies) const {
  if (copies % 2 != 0 || active_lanes_ == 1 || row_copies_ > 0 || folds_) return false;
  bool some = false;
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    // Instructions that number elements or need their order.
    if (in.op == KernelOp::kScan || (in.op == KernelOp::kIndex && in.dim == loop_dim_)) return false;
    if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
    if (in.op == KernelOp::kLoad && !varying_[i]) continue;
    if (in.has_offset || in.has_guard || LoopClass(in.param) != StrideClass::kUnit) return false;
    if (s_.params[in.param].dtype != DType::kBFloat16) return false;
    some = true;
  }
  return some;
}

bool KernelEmitter::HasStrides(const std::vector<int>& instrs) const {
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
    if (IsApart(LoopClass(in.param))) return true;
  }
  return false;
}

void KernelEmitter::LoadEvenOdd(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  Type* half = Vec(MemType(in.type), active_lanes_);
  Value* both = b_.CreateAlignedLoad(Vec(b_.getInt32Ty(), active_lanes_), Address(in.param, u), llvm::Align(2));
  Set(i, u, b_.CreateTrunc(both, half));
  Set(i, u + 1, b_.CreateTrunc(b_.CreateLShr(both, 16), half));
}

Value* KernelEmitter::EvenOddWords(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  if (f_.avx512 && active_lanes_ == 16 && uses_[i] == 1 && in.op == KernelOp::kScalar && in.scalar == ScalarOp::kCast &&
      varying_[i] && s_.instrs[in.operands[0]].type == DType::kFloat32) {
    // The pair is rounded here, both at once; nothing reads the result of EmitScalar.
    Value* operand = GetVector(in.operands[0], u + 1);
    return scalar_.ToBFloat16Pairs(GetVector(in.operands[0], u), operand, short_nans_[in.operands[0]]);
  }
  Type* word = Vec(b_.getInt32Ty(), active_lanes_);
  Value* even = b_.CreateZExt(GetVector(i, u), word);
  Value* odd = b_.CreateShl(b_.CreateZExt(GetVector(i, u + 1), word), 16);
  return b_.CreateOr(even, odd);
}

void KernelEmitter::StoreEvenOdd(const KernelInstr& in, int u) {
  Value* words = EvenOddWords(in.operands[0], u);
  Value* a = Address(in.param, u, IsLastStore(in));
  llvm::StoreInst* s = b_.CreateAlignedStore(words, a, llvm::Align(non_temporal_ ? 4 * active_lanes_ : 2));
  if (non_temporal_) PastCache(s);
}

void KernelEmitter::EmitStore(const KernelInstr& in, int u) {
  Value* value = ToMemory(in.type, Get(in.operands[0], u));
  Value* offset = in.has_offset ? Get(in.operands[1], u) : nullptr;
  Value* guard = in.has_guard ? Get(in.operands.back(), u) : nullptr;
  Type* element = MemType(in.type);
  const llvm::Align align(ItemSize(in.type));
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  if (active_lanes_ == 1) {
    auto store = [&] {
      Value* a = Address(in.param, u, IsLastStore(in));
      if (offset) a = PlusOffset(a, in.type, offset);
      b_.CreateAlignedStore(value, a, align);
    };
    if (guard) {
      If(guard, store);
    } else {
      store();
    }
    return;
  }
  value = Splat(value);
  Value* a = Address(in.param, u, IsLastStore(in));
  if (offset && !vector_offset) a = PlusOffset(a, in.type, offset);
  auto slow = [&](Value* stride, Value* offsets) {
    AllocaInst* memory = Temporary(value->getType());
    b_.CreateStore(value, memory);
    ForLanes(in, a, stride, offsets, guard, [&](Value* k, Value* at) {
      b_.CreateAlignedStore(b_.CreateLoad(element, b_.CreateGEP(element, memory, k)), at, align);
    });
  };
  if (UnitAlongLoop(in.param) && !vector_offset) {
    if (!guard && !mask_) {
      if (non_temporal_) {
        const unsigned bytes = std::min(64, active_lanes_ * ItemSize(in.type));
        llvm::StoreInst* s = b_.CreateAlignedStore(value, a, llvm::Align(bytes));
        PastCache(s);
      } else {
        b_.CreateAlignedStore(value, a, align);
      }
      return;
    }
    Value* m = CombinedMask(guard);
    if (MasksNatively(element)) {
      b_.CreateMaskedStore(value, a, align, m);
      return;
    }
    if (InWords(in.type, guard)) return StoreFront(value, a, ItemSize(in.type));
    Value* step = b_.getInt64(ItemSize(in.type));
    if (mask_) return slow(step, nullptr);
    IfElse(
        All(m),
        [&]() -> Value* {
          b_.CreateAlignedStore(value, a, align);
          return nullptr;
        },
        [&]() -> Value* {
          slow(step, nullptr);
          return nullptr;
        });
    return;
  }
  Value* stride = StrideAlongLoop(in.param);
  Value* offsets = vector_offset ? offset : nullptr;
  const int64_t apart = offsets || guard ? kAnyApart : ElementsApart(LoopClass(in.param));
  if (f_.avx512 && apart >= 2 && (!mask_ || count_)) return StoreApart(value, a, element, apart);
  if (mask_ || guard) return slow(stride, offsets);
  const std::vector<Value*> places = LaneAddresses(in, a, stride, offsets);
  for (int k = 0; k < active_lanes_; ++k) {
    b_.CreateAlignedStore(b_.CreateExtractElement(value, k), places[k], align);
  }
}

}  // namespace smelt
