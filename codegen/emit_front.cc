#include "smelt/codegen/emit_front.h"

#include "llvm/IR/Intrinsics.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

bool FrontEmitter::InWords(const LoopContext& ctx, DType type, Value* guard) const {
  const int item = ItemSize(type), bytes = ctx.lanes * item;
  return !guard && ctx.count && (item <= 2 || fn_.features().neon) && (bytes == 4 || bytes == 8 || bytes == 16);
}

// The parts may overlap.
Value* FrontEmitter::LoadBytes(Value* a, Value* bytes, int item) {
  auto part = [&](int bits, Value* at) -> Value* {
    Value* v = b_.CreateAlignedLoad(b_.getIntNTy(bits), b_.CreateGEP(b_.getInt8Ty(), a, at), llvm::Align(item));
    Value* shifted = b_.CreateShl(at, 3);
    return b_.CreateShl(b_.CreateZExt(v, b_.getInt64Ty()), shifted);
  };
  Value* first = b_.getInt64(0);
  if (item == 8) return b_.CreateAlignedLoad(b_.getInt64Ty(), a, llvm::Align(item));
  if (item == 4) {
    Value* second = part(32, b_.CreateSub(bytes, b_.getInt64(4)));
    return b_.CreateOr(part(32, first), second);
  }
  return fn_.IfElse(
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

void FrontEmitter::StoreBytes(Value* word, Value* a, Value* bytes, int item) {
  auto part = [&](int bits, Value* at) {
    Value* v = b_.CreateTrunc(b_.CreateLShr(word, b_.CreateShl(at, 3)), b_.getIntNTy(bits));
    b_.CreateAlignedStore(v, b_.CreateGEP(b_.getInt8Ty(), a, at), llvm::Align(item));
  };
  Value* first = b_.getInt64(0);
  if (item == 8) {
    b_.CreateAlignedStore(word, a, llvm::Align(item));
    return;
  }
  if (item == 4) {
    part(32, first);
    part(32, b_.CreateSub(bytes, b_.getInt64(4)));
    return;
  }
  fn_.IfElse(
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
Value* FrontEmitter::LoadFront(const LoopContext& ctx, Type* type, Value* a, int item) {
  Value* bytes = b_.CreateMul(ctx.count, b_.getInt64(item));
  const int size = ctx.lanes * item;
  if (size <= 8) return b_.CreateBitCast(b_.CreateTrunc(LoadBytes(a, bytes, item), b_.getIntNTy(8 * size)), type);
  Type* words = fn_.Vec(b_.getInt64Ty(), 2);
  Value* both = fn_.IfElse(
      b_.CreateICmpSGT(bytes, b_.getInt64(8)),
      [&]() -> Value* {
        Value* low = b_.CreateAlignedLoad(b_.getInt64Ty(), a, llvm::Align(item));
        Value* end = b_.CreateGEP(b_.getInt8Ty(), a, b_.CreateSub(bytes, b_.getInt64(8)));
        Value* beyond = b_.CreateShl(b_.CreateSub(b_.getInt64(16), bytes), 3);
        Value* high = b_.CreateLShr(b_.CreateAlignedLoad(b_.getInt64Ty(), end, llvm::Align(item)), beyond);
        Value* v = b_.CreateInsertElement(llvm::PoisonValue::get(words), low, b_.getInt64(0));
        return b_.CreateInsertElement(v, high, b_.getInt64(1));
      },
      [&]() -> Value* {
        return b_.CreateInsertElement(llvm::Constant::getNullValue(words), LoadBytes(a, bytes, item), b_.getInt64(0));
      });
  return b_.CreateBitCast(both, type);
}

void FrontEmitter::StoreFront(const LoopContext& ctx, Value* v, Value* a, int item) {
  Value* bytes = b_.CreateMul(ctx.count, b_.getInt64(item));
  const int size = ctx.lanes * item;
  if (size <= 8) {
    return StoreBytes(b_.CreateZExt(b_.CreateBitCast(v, b_.getIntNTy(8 * size)), b_.getInt64Ty()), a, bytes, item);
  }
  Value* words = b_.CreateBitCast(v, fn_.Vec(b_.getInt64Ty(), 2));
  Value* low = b_.CreateExtractElement(words, b_.getInt64(0));
  fn_.IfElse(
      b_.CreateICmpSGT(bytes, b_.getInt64(8)),
      [&]() -> Value* {
        // The last 8 of them, of both words.
        Value* high = b_.CreateExtractElement(words, b_.getInt64(1));
        Value* from = b_.CreateShl(b_.CreateSub(bytes, b_.getInt64(8)), 3);
        Value* end = b_.CreateIntrinsic(llvm::Intrinsic::fshr, {b_.getInt64Ty()}, {high, low, from});
        end = b_.CreateSelect(b_.CreateICmpEQ(bytes, b_.getInt64(16)), high, end);
        b_.CreateAlignedStore(low, a, llvm::Align(item));
        b_.CreateAlignedStore(end, b_.CreateGEP(b_.getInt8Ty(), a, b_.CreateSub(bytes, b_.getInt64(8))),
                              llvm::Align(item));
        return nullptr;
      },
      [&]() -> Value* {
        StoreBytes(low, a, bytes, item);
        return nullptr;
      });
}

}  // namespace smelt
