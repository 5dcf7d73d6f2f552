#include "smelt/codegen/emit_lanes.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

bool IsZero(Value* v) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(v);
  return constant && constant->isZero();
}

}  // namespace

// Without offsets from data, groups of four lanes are addressed from one place each: the machine multiplies by 1, 2 and
// 4 as it loads.
std::vector<Value*> LaneEmitter::LaneAddresses(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride,
                                               Value* offsets) {
  std::vector<Value*> places;
  if (offsets) {
    for (int k = 0; k < ctx.lanes; ++k) {
      Value* from_first = b_.CreateMul(stride, b_.getInt64(k));
      Value* at = IsZero(from_first) ? a : b_.CreateGEP(b_.getInt8Ty(), a, from_first);
      places.push_back(fn_.PlusOffset(at, in.type, b_.CreateExtractElement(offsets, k)));
    }
    return places;
  }
  Value* from_group[] = {nullptr, stride, b_.CreateShl(stride, 1), b_.CreateMul(stride, b_.getInt64(3))};
  Value* next_group = b_.CreateShl(stride, 2);
  Value* group = a;
  for (int k = 0; k < ctx.lanes; ++k) {
    if (k && k % 4 == 0) group = b_.CreateGEP(b_.getInt8Ty(), group, next_group);
    places.push_back(k % 4 ? b_.CreateGEP(b_.getInt8Ty(), group, from_group[k % 4]) : group);
  }
  return places;
}

Value* LaneEmitter::LaneVector(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride, Value* offsets) {
  if (offsets && IsZero(stride)) return b_.CreateGEP(fn_.MemType(in.type), a, offsets);
  Value* places = b_.CreateMul(fn_.Iota(b_.getInt64Ty(), ctx.lanes), b_.CreateVectorSplat(ctx.lanes, stride));
  if (offsets) {
    Value* size = llvm::ConstantInt::get(offsets->getType(), ItemSize(in.type));
    places = b_.CreateAdd(places, b_.CreateMul(offsets, size));
  }
  return b_.CreateGEP(b_.getInt8Ty(), a, places);
}

Value* LaneEmitter::CombinedMask(const LoopContext& ctx, Value* guard) {
  if (!guard) return ctx.mask;
  guard = fn_.Splat(ctx.lanes, guard);
  return ctx.mask ? b_.CreateAnd(guard, ctx.mask) : guard;
}

void LaneEmitter::ForLanes(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride, Value* offsets,
                           Value* guard, const std::function<void(Value*, Value*)>& body) {
  AllocaInst* offset_memory = nullptr;
  AllocaInst* guard_memory = nullptr;
  if (offsets) {
    offset_memory = fn_.Temporary(offsets->getType());
    b_.CreateStore(offsets, offset_memory);
  }
  if (guard) {
    guard_memory = fn_.Temporary(fn_.Vec(b_.getInt8Ty(), ctx.lanes));
    b_.CreateStore(b_.CreateZExt(fn_.Splat(ctx.lanes, guard), fn_.Vec(b_.getInt8Ty(), ctx.lanes)), guard_memory);
  }
  fn_.For(b_.getInt64(0), ctx.count ? ctx.count : b_.getInt64(ctx.lanes), b_.getInt64(1), [&](Value* k) {
    auto access = [&] {
      Value* at = b_.CreateGEP(b_.getInt8Ty(), a, b_.CreateMul(stride, k));
      if (offsets) {
        Value* offset = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), offset_memory, k));
        at = fn_.PlusOffset(at, in.type, offset);
      }
      body(k, at);
    };
    if (!guard) return access();
    fn_.If(b_.CreateICmpNE(b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), guard_memory, k)), b_.getInt8(0)),
           access);
  });
}

Value* LaneEmitter::LoadLanes(const LoopContext& ctx, const KernelInstr& in, Type* type, Value* a, Value* stride,
                              Value* offsets, Value* guard) {
  Type* element = fn_.MemType(in.type);
  // The end of a row has few lanes: one after the other is faster than the machine's gather.
  if (guard && plan_.features.avx512 && ItemSize(in.type) >= 4) {
    Value* combined_mask = CombinedMask(ctx, guard);
    return b_.CreateMaskedGather(type, LaneVector(ctx, in, a, stride, offsets), llvm::Align(ItemSize(in.type)),
                                 combined_mask, llvm::Constant::getNullValue(type));
  }
  AllocaInst* memory = fn_.Temporary(type);
  b_.CreateStore(llvm::Constant::getNullValue(type), memory);
  ForLanes(ctx, in, a, stride, offsets, guard, [&](Value* k, Value* at) {
    Value* place = b_.CreateGEP(element, memory, k);
    b_.CreateStore(b_.CreateAlignedLoad(element, at, llvm::Align(ItemSize(in.type))), place);
  });
  return b_.CreateLoad(type, memory);
}

}  // namespace smelt
