#include "smelt/codegen/emit_memory.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// A vector of at most this many lanes is loaded without a loop even if some lanes are not needed.
constexpr int kFewLanes = 16;

}  // namespace

Value* MemoryEmitter::WholeOrPart(const LoopContext& ctx, const std::function<Value*(const LoopContext&)>& access) {
  if (!ctx.whole) return access(ctx);
  return WholesOrParts(ctx, [&](const LoopContext& one) { return std::vector<Value*>{access(one)}; })[0];
}

std::vector<Value*> MemoryEmitter::WholesOrParts(
    const LoopContext& ctx, const std::function<std::vector<Value*>(const LoopContext&)>& accesses) {
  LoopContext part = ctx;
  part.whole = nullptr;
  LoopContext whole = part;
  whole.mask = whole.count = nullptr;
  return fn_.IfElseOfSome(ctx.whole, [&] { return accesses(whole); }, [&] { return accesses(part); });
}

Value* MemoryEmitter::EmitLoad(const LoopContext& ctx, const KernelInstr& in, int u) {
  Value* offset = in.has_offset ? values_.Get(in.operands[0], u) : nullptr;
  Value* guard = in.has_guard ? values_.Get(in.operands.back(), u) : nullptr;
  Type* element = fn_.MemType(in.type);
  const llvm::Align align(ItemSize(in.type));
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  const bool vector_guard = guard && guard->getType()->isVectorTy();
  const bool moves = words_.MovesAlongLoop(ctx, in.param);
  if (ctx.lanes == 1 || (!moves && !vector_offset && !vector_guard)) {
    auto load = [&]() -> Value* {
      Value* a = words_.Address(ctx, in.param, u);
      if (offset) a = fn_.PlusOffset(a, in.type, offset);
      return b_.CreateAlignedLoad(element, a, align);
    };
    Value* v = guard ? fn_.IfElse(guard, load, [&] { return llvm::Constant::getNullValue(element); }) : load();
    return fn_.FromMemory(in.type, v);
  }
  if (!guard || vector_guard) return fn_.FromMemory(in.type, LoadVector(ctx, in, u, offset, guard));
  // Loads all lanes or none. A masked load of no lanes may lie outside of memory, which costs a machine hundreds of
  // cycles.
  return fn_.FromMemory(in.type, fn_.IfElse(
                                     guard, [&] { return LoadVector(ctx, in, u, offset, nullptr); },
                                     [&] { return llvm::Constant::getNullValue(fn_.Vec(element, ctx.lanes)); }));
}

Value* MemoryEmitter::LoadAdjacent(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* guard) {
  Type* element = fn_.MemType(in.type);
  Type* type = fn_.Vec(element, ctx.lanes);
  const llvm::Align align(ItemSize(in.type));
  if (!guard && !ctx.mask) return b_.CreateAlignedLoad(type, a, align);
  Value* m = lane_.CombinedMask(ctx, guard);
  auto masked = [&]() -> Value* {
    if (!fn_.MasksNatively(element)) {
      const int item = ItemSize(in.type);
      if (front_.InWords(ctx, in.type, guard)) return front_.LoadFront(ctx, type, a, item);
      return lane_.LoadLanes(ctx, in, type, a, b_.getInt64(item), nullptr, guard);
    }
    return b_.CreateMaskedLoad(type, a, align, m, llvm::Constant::getNullValue(type));
  };
  if (ctx.mask) return masked();
  // This helps machines with masks, too: behind masked loads no machine prefetches.
  return fn_.IfElse(fn_.All(m), [&]() -> Value* { return b_.CreateAlignedLoad(type, a, align); }, masked);
}

// A term that all lanes add is added once, so that loads at the same places of several rows (those of interpolation)
// share it. Of another phase only the sum is available.
void MemoryEmitter::AddCommonTerms(const KernelInstr& in, int u, Value*& a, Value*& offsets) {
  const int phase = plan_.phase_of[plan_.NumberOf(in)];
  for (int o = in.operands[0]; s_.instrs[o].op == KernelOp::kScalar && s_.instrs[o].type == DType::kInt64 &&
                               s_.instrs[o].scalar == ScalarOp::kAdd && plan_.phase_of[o] == phase;) {
    const auto& terms = s_.instrs[o].operands;
    Value* values[] = {values_.Get(terms[0], u), values_.Get(terms[1], u)};
    const int common = values[0]->getType()->isVectorTy() ? 1 : 0;
    if (values[common]->getType()->isVectorTy() || !values[1 - common]->getType()->isVectorTy()) break;
    a = fn_.PlusOffset(a, in.type, values[common]);
    offsets = values[1 - common];
    o = terms[1 - common];
  }
}

Value* MemoryEmitter::LoadVector(const LoopContext& ctx, const KernelInstr& in, int u, Value* offset, Value* guard) {
  if (ctx.whole) {
    return WholeOrPart(ctx, [&](const LoopContext& one) { return LoadVector(one, in, u, offset, guard); });
  }
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  Value* a = words_.Address(ctx, in.param, u);
  if (offset && !vector_offset) a = fn_.PlusOffset(a, in.type, offset);
  if (words_.UnitAlongLoop(ctx, in.param) && !vector_offset) return LoadAdjacent(ctx, in, a, guard);
  Type* element = fn_.MemType(in.type);
  Type* type = fn_.Vec(element, ctx.lanes);
  const llvm::Align align(ItemSize(in.type));
  const bool moves = words_.MovesAlongLoop(ctx, in.param);
  Value* stride = words_.StrideAlongLoop(ctx, in.param);
  Value* offsets = vector_offset ? offset : nullptr;
  if (offsets) AddCommonTerms(in, u, a, offsets);
  if (guard) {
    // Most vectors need all or no lanes: a window's inside, and the elements beyond its edges.
    guard = fn_.Splat(ctx.lanes, guard);
    auto some = [&]() -> Value* {
      return fn_.IfElse(
          fn_.Any(guard), [&] { return lane_.LoadLanes(ctx, in, type, a, stride, offsets, guard); },
          [&] { return llvm::Constant::getNullValue(type); });
    };
    return ctx.mask ? some()
                    : fn_.IfElse(fn_.All(guard), [&] { return LoadVector(ctx, in, u, offset, nullptr); }, some);
  }
  const int64_t apart = moves && !offsets ? ElementsApart(plan_.LoopClass(in.param)) : kAnyApart;
  if (apart >= 2 && apart_.LoadsWholes(ctx, element, apart)) return apart_.LoadApart(ctx, type, a, apart);
  if (apart == -1 && (!ctx.mask || fn_.MasksNatively(element))) {
    a = b_.CreateConstGEP1_64(element, a, 1 - ctx.lanes);
    Value* v = ctx.mask ? static_cast<Value*>(b_.CreateMaskedLoad(type, a, align, b_.CreateVectorReverse(ctx.mask),
                                                                  llvm::Constant::getNullValue(type)))
                        : b_.CreateAlignedLoad(type, a, align);
    return b_.CreateVectorReverse(v);
  }
  if (ctx.mask && (!offsets || moves || ctx.lanes > kFewLanes)) {
    return lane_.LoadLanes(ctx, in, type, a, stride, offsets, nullptr);
  }
  // For places that data choose, lanes without an element of their own read the first lane's element: a whole vector
  // takes no longer than a loop over a few lanes.
  if (ctx.mask) {
    Value* first = b_.CreateExtractElement(offsets, b_.getInt64(0));
    offsets = b_.CreateSelect(ctx.mask, offsets, b_.CreateVectorSplat(ctx.lanes, first));
  }
  if (offsets && plan_.features.avx512 && ctx.lanes >= 8 && ItemSize(in.type) >= 4) {
    fn_.NoteGather();
    if (fn_.gathers()) {
      Value* every = llvm::Constant::getAllOnesValue(fn_.Vec(b_.getInt1Ty(), ctx.lanes));
      return b_.CreateMaskedGather(type, lane_.LaneVector(ctx, in, a, stride, offsets), align, every);
    }
  }
  const std::vector<Value*> places = lane_.LaneAddresses(ctx, in, a, stride, offsets);
  Value* v = llvm::PoisonValue::get(type);
  for (int k = 0; k < ctx.lanes; ++k) {
    v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(element, places[k], align), k);
  }
  return v;
}

void MemoryEmitter::EmitStores(const LoopContext& ctx, const KernelInstr& in, int copies) {
  if (ctx.whole) {
    WholeOrPart(ctx, [&](const LoopContext& one) -> Value* {
      EmitStores(one, in, copies);
      return nullptr;
    });
    return;
  }
  auto stores = [&](const LoopContext& one) -> Value* {
    const bool together = copies % 2 == 0 && !one.mask && one.row_copies == 0;
    if (together && one.pairs) {
      for (int u = 0; u < copies; u += 2) StoreEvenOdd(one, in, u);
    } else if (together && one.non_temporal && one.lanes * ItemSize(in.type) == 32) {
      for (int u = 0; u < copies; u += 2) StorePair(one, in, u);
    } else {
      for (int u = 0; u < copies; ++u) EmitStore(one, in, u);
    }
    return nullptr;
  };
  if (!ctx.past_cache || ctx.mask || !words_.passes_cache(in.param) || !plan_.IsLastStore(in)) {
    stores(ctx);
    return;
  }
  LoopContext past_cache = ctx;
  past_cache.non_temporal = true;
  if (llvm::isa<llvm::ConstantInt>(ctx.past_cache)) {
    stores(past_cache);
  } else {
    fn_.IfElse(ctx.past_cache, [&] { return stores(past_cache); }, [&] { return stores(ctx); });
  }
}

// Stores two copies of half a cache line: LLVM turns a narrowing conversion and a store of half a line into one
// instruction, which does not store past the cache.
void MemoryEmitter::StorePair(const LoopContext& ctx, const KernelInstr& in, int u) {
  std::vector<int> both(2 * ctx.lanes);
  for (size_t k = 0; k < both.size(); ++k) both[k] = static_cast<int>(k);
  Value* low = fn_.Splat(ctx.lanes, fn_.ToMemory(in.type, values_.Get(in.operands[0], u)));
  Value* high = fn_.Splat(ctx.lanes, fn_.ToMemory(in.type, values_.Get(in.operands[0], u + 1)));
  Value* address = words_.Address(ctx, in.param, u, /*past_scratch=*/true);
  llvm::StoreInst* s = b_.CreateAlignedStore(b_.CreateShuffleVector(low, high, both), address, llvm::Align(64));
  fn_.PastCache(s);
}

void MemoryEmitter::LoadEvenOdd(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  Type* half = fn_.Vec(fn_.MemType(in.type), ctx.lanes);
  Value* both =
      b_.CreateAlignedLoad(fn_.Vec(b_.getInt32Ty(), ctx.lanes), words_.Address(ctx, in.param, u), llvm::Align(2));
  values_.Set(i, u, b_.CreateTrunc(both, half));
  values_.Set(i, u + 1, b_.CreateTrunc(b_.CreateLShr(both, 16), half));
}

Value* MemoryEmitter::EvenOddWords(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  if (plan_.features.avx512 && ctx.lanes == 16 && plan_.uses[i] == 1 && in.op == KernelOp::kScalar &&
      in.scalar == ScalarOp::kCast && plan_.varying[i] && s_.instrs[in.operands[0]].type == DType::kFloat32) {
    // The pair is rounded here, both at once; nothing reads the result of EmitScalar.
    Value* operand = values_.GetVector(ctx, in.operands[0], u + 1);
    return fn_.scalar().ToBFloat16Pairs(values_.GetVector(ctx, in.operands[0], u), operand,
                                        plan_.short_nans[in.operands[0]]);
  }
  Type* word = fn_.Vec(b_.getInt32Ty(), ctx.lanes);
  if (plan_.features.neon && plan_.features.bf16) {
    std::vector<int> both;
    for (int k = 0; k < ctx.lanes; ++k) both.insert(both.end(), {k, ctx.lanes + k});
    Value* odd = values_.GetVector(ctx, i, u + 1);
    return b_.CreateBitCast(b_.CreateShuffleVector(values_.GetVector(ctx, i, u), odd, both), word);
  }
  Value* even = b_.CreateZExt(values_.GetVector(ctx, i, u), word);
  Value* odd = b_.CreateShl(b_.CreateZExt(values_.GetVector(ctx, i, u + 1), word), 16);
  return b_.CreateOr(even, odd);
}

void MemoryEmitter::StoreEvenOdd(const LoopContext& ctx, const KernelInstr& in, int u) {
  Value* words = EvenOddWords(ctx, in.operands[0], u);
  Value* a = words_.Address(ctx, in.param, u, plan_.IsLastStore(in));
  llvm::StoreInst* s = b_.CreateAlignedStore(words, a, llvm::Align(ctx.non_temporal ? 4 * ctx.lanes : 2));
  if (ctx.non_temporal) fn_.PastCache(s);
}

void MemoryEmitter::EmitStore(const LoopContext& ctx, const KernelInstr& in, int u) {
  Value* value = fn_.ToMemory(in.type, values_.Get(in.operands[0], u));
  Value* offset = in.has_offset ? values_.Get(in.operands[1], u) : nullptr;
  Value* guard = in.has_guard ? values_.Get(in.operands.back(), u) : nullptr;
  Type* element = fn_.MemType(in.type);
  const llvm::Align align(ItemSize(in.type));
  const bool vector_offset = offset && offset->getType()->isVectorTy();
  if (ctx.lanes == 1) {
    auto store = [&] {
      Value* a = words_.Address(ctx, in.param, u, plan_.IsLastStore(in));
      if (offset) a = fn_.PlusOffset(a, in.type, offset);
      b_.CreateAlignedStore(value, a, align);
    };
    if (guard) {
      fn_.If(guard, store);
    } else {
      store();
    }
    return;
  }
  value = fn_.Splat(ctx.lanes, value);
  Value* a = words_.Address(ctx, in.param, u, plan_.IsLastStore(in));
  if (offset && !vector_offset) a = fn_.PlusOffset(a, in.type, offset);
  auto slow = [&](Value* stride, Value* offsets) {
    AllocaInst* memory = fn_.Temporary(value->getType());
    b_.CreateStore(value, memory);
    lane_.ForLanes(ctx, in, a, stride, offsets, guard, [&](Value* k, Value* at) {
      b_.CreateAlignedStore(b_.CreateLoad(element, b_.CreateGEP(element, memory, k)), at, align);
    });
  };
  if (words_.UnitAlongLoop(ctx, in.param) && !vector_offset) {
    if (!guard && !ctx.mask) {
      if (ctx.non_temporal) {
        const unsigned bytes = std::min(64, ctx.lanes * ItemSize(in.type));
        llvm::StoreInst* s = b_.CreateAlignedStore(value, a, llvm::Align(bytes));
        fn_.PastCache(s);
      } else {
        b_.CreateAlignedStore(value, a, align);
      }
      return;
    }
    Value* m = lane_.CombinedMask(ctx, guard);
    if (fn_.MasksNatively(element)) {
      b_.CreateMaskedStore(value, a, align, m);
      return;
    }
    if (front_.InWords(ctx, in.type, guard)) return front_.StoreFront(ctx, value, a, ItemSize(in.type));
    Value* step = b_.getInt64(ItemSize(in.type));
    if (ctx.mask) return slow(step, nullptr);
    fn_.IfElse(
        fn_.All(m),
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
  Value* stride = words_.StrideAlongLoop(ctx, in.param);
  Value* offsets = vector_offset ? offset : nullptr;
  const int64_t apart = offsets || guard ? kAnyApart : ElementsApart(plan_.LoopClass(in.param));
  if (plan_.features.avx512 && apart >= 2 && (!ctx.mask || ctx.count)) {
    return apart_.StoreApart(ctx, value, a, element, apart);
  }
  if (ctx.mask || guard) return slow(stride, offsets);
  const std::vector<Value*> places = lane_.LaneAddresses(ctx, in, a, stride, offsets);
  for (int k = 0; k < ctx.lanes; ++k) {
    b_.CreateAlignedStore(b_.CreateExtractElement(value, k), places[k], align);
  }
}

// The first store waits for the second load: no load between them may see the stored value, as each element is read
// before the same iteration writes it.
void MemoryEmitter::EmitInterleaved(const LoopContext& ctx, const KernelInstr& first, const KernelInstr& second,
                                    int copies) {
  auto apart = [&]() -> Value* {
    EmitStores(ctx, first, copies);
    EmitStores(ctx, second, copies);
    return nullptr;
  };
  Type* element = fn_.MemType(first.type);
  const llvm::Align align(ItemSize(first.type));
  if (ctx.lanes == 1 || ctx.row_copies > 0 || !ctx.chunk || (ctx.mask && (!ctx.count || !fn_.MasksNatively(element)))) {
    apart();
    return;
  }
  const int item = ItemSize(first.type);
  Value* address = b_.CreatePtrToInt(ctx.addr[first.param], b_.getInt64Ty());
  Value* distance = b_.CreateSub(b_.CreatePtrToInt(ctx.addr[second.param], b_.getInt64Ty()), address);
  Value* is_swapped = b_.CreateICmpEQ(distance, b_.getInt64(-item));
  Value* is_near = b_.CreateOr(is_swapped, b_.CreateICmpEQ(distance, b_.getInt64(item)));
  auto together = [&]() -> Value* {
    std::vector<int> low(ctx.lanes), high(ctx.lanes);
    for (int k = 0; k < ctx.lanes; ++k) {
      low[k] = k / 2 + k % 2 * ctx.lanes;
      high[k] = low[k] + ctx.lanes / 2;
    }
    for (int u = 0; u < copies; ++u) {
      Value* a = fn_.Splat(ctx.lanes, fn_.ToMemory(first.type, values_.Get(first.operands[0], u)));
      Value* z = fn_.Splat(ctx.lanes, fn_.ToMemory(second.type, values_.Get(second.operands[0], u)));
      Value* even = b_.CreateSelect(is_swapped, z, a);
      Value* odd = b_.CreateSelect(is_swapped, a, z);
      Value* third = words_.Address(ctx, first.param, u);
      Value* at = b_.CreateSelect(is_swapped, words_.Address(ctx, second.param, u), third);
      Value* beyond = b_.CreateConstGEP1_64(element, at, ctx.lanes);
      Value* front = b_.CreateShuffleVector(even, odd, low);
      Value* back = b_.CreateShuffleVector(even, odd, high);
      if (ctx.mask) {
        const std::vector<Value*> masks = apart_.MasksOf(ctx, 2, b_.CreateShl(ctx.count, 1));
        b_.CreateMaskedStore(front, at, align, masks[0]);
        b_.CreateMaskedStore(back, beyond, align, masks[1]);
      } else {
        b_.CreateAlignedStore(front, at, align);
        b_.CreateAlignedStore(back, beyond, align);
      }
    }
    return nullptr;
  };
  fn_.IfElse(is_near, together, apart);
}

}  // namespace smelt
