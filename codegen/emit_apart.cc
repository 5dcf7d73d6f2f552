#include "smelt/codegen/emit_apart.h"

#include <algorithm>

namespace smelt {

using llvm::Type;
using llvm::Value;

std::vector<Value*> ApartEmitter::MasksOf(const LoopContext& ctx, int vectors, Value* count) {
  std::vector<Value*> masks;
  Value* all = b_.getInt64(ctx.lanes);
  for (int v = 0; v < vectors; ++v) {
    if (v == 0) {
      masks.push_back(fn_.MaskOf(fn_.Min(count, all), ctx.lanes));
      continue;
    }
    Value* left = b_.CreateSub(count, b_.getInt64(static_cast<int64_t>(v) * ctx.lanes));
    Value* is_beyond = b_.CreateICmpSGT(left, b_.getInt64(0));
    Value* lanes = b_.CreateSelect(is_beyond, fn_.Min(left, all), b_.getInt64(1));
    Value* none = llvm::Constant::getNullValue(masks[0]->getType());
    masks.push_back(b_.CreateSelect(is_beyond, fn_.MaskOf(lanes, ctx.lanes), none));
  }
  return masks;
}

bool ApartEmitter::LoadsWholes(const LoopContext& ctx, Type* element, int64_t apart) const {
  if (ctx.mask) return ctx.count && fn_.MasksNatively(element);
  return ctx.lanes >= (apart == 2 ? 4 : 8);
}

// No byte behind the last element is read: the last vector ends with it, or is masked. Vectors whose elements have
// distinct places are blended, which most units of a machine can do, and permuted once.
Value* ApartEmitter::LoadApart(const LoopContext& ctx, Type* type, Value* a, int64_t apart) {
  const int lanes = ctx.lanes, vectors = static_cast<int>(apart);
  Type* element = type->getScalarType();
  const llvm::Align align = AlignOf(element);
  Value* none = llvm::Constant::getNullValue(type);
  std::vector<Value*> wanted;
  if (ctx.mask) {
    Value* before_last = b_.CreateMul(b_.CreateSub(ctx.count, b_.getInt64(1)), b_.getInt64(apart));
    wanted = MasksOf(ctx, vectors, b_.CreateAdd(before_last, b_.getInt64(1)));
  }
  std::vector<int> starts;
  for (int v = 0; v < vectors; ++v) starts.push_back(v * lanes - (!ctx.mask && apart % 2 == 0 ? v : 0));
  const int last = vectors * (lanes - 1);  // where the last element lies
  const bool masks_end = !ctx.mask && starts.back() + lanes > last + 1 && fn_.MasksNatively(element);
  if (!ctx.mask && !masks_end) starts.back() = last + 1 - lanes;
  // Which vector has an element, and where.
  std::vector<int> from, place;
  for (int k = 0; k < lanes; ++k) {
    int v = 0;
    while (vectors * k >= starts[v] + lanes) ++v;
    from.push_back(v);
    place.push_back(vectors * k - starts[v]);
  }
  std::vector<int> sorted = place;
  std::sort(sorted.begin(), sorted.end());
  const bool have_own_places = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  Value* all = nullptr;
  for (int v = 0; v < vectors; ++v) {
    Value* at = b_.CreateConstGEP1_64(element, a, starts[v]);
    std::vector<llvm::Constant*> bits;
    for (int k = 0; k < lanes; ++k) bits.push_back(b_.getInt1(starts[v] + k <= last));
    Value* part = nullptr;
    if (ctx.mask) {
      part = b_.CreateMaskedLoad(type, at, align, wanted[v], none);
    } else if (masks_end && v + 1 == vectors) {
      part = b_.CreateMaskedLoad(type, at, align, llvm::ConstantVector::get(bits), none);
    } else {
      part = b_.CreateAlignedLoad(type, at, align);
    }
    if (!all) {
      all = part;
      continue;
    }
    std::vector<int> take;
    for (int k = 0; k < lanes; ++k) take.push_back(have_own_places || v > 1 ? k : place[k]);
    for (int k = 0; k < lanes; ++k) {
      if (from[k] != v) continue;
      take[have_own_places ? place[k] : k] = lanes + place[k];
    }
    all = b_.CreateShuffleVector(all, part, take);
  }
  return have_own_places ? b_.CreateShuffleVector(all, all, place) : all;
}

void ApartEmitter::StoreApart(const LoopContext& ctx, Value* value, Value* a, Type* element, int64_t apart) {
  const llvm::Align align = AlignOf(element);
  const int vectors = static_cast<int>(apart);
  std::vector<Value*> wanted;
  if (ctx.mask) wanted = MasksOf(ctx, vectors, b_.CreateMul(ctx.count, b_.getInt64(apart)));
  for (int v = 0; v < vectors; ++v) {
    std::vector<int> order;
    std::vector<llvm::Constant*> bits;
    for (int k = v * ctx.lanes; k < (v + 1) * ctx.lanes; ++k) {
      order.push_back(k / vectors);
      bits.push_back(b_.getInt1(k % vectors == 0));
    }
    Value* mask = llvm::ConstantVector::get(bits);
    if (ctx.mask) mask = b_.CreateAnd(mask, wanted[v]);
    Value* place = b_.CreateConstGEP1_64(element, a, int64_t{v} * ctx.lanes);
    b_.CreateMaskedStore(b_.CreateShuffleVector(value, order), place, align, mask);
  }
}

}  // namespace smelt
