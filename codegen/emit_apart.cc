// Elements two, three or four apart along a loop: the parts of complex numbers, points, colors. The vectors between the
// first and the last element are read and written in order, and the memory between the elements is left alone.
#include <algorithm>

#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

// Returns for each of `vectors` neighbouring vectors a mask of the lanes that are among the first `count` of all.
std::vector<Value*> KernelEmitter::MasksOf(int vectors, Value* count) {
  std::vector<Value*> masks;
  Value* all = b_.getInt64(active_lanes_);
  for (int v = 0; v < vectors; ++v) {
    if (v == 0) {
      masks.push_back(MaskOf(Min(count, all), active_lanes_));
      continue;
    }
    Value* left = b_.CreateSub(count, b_.getInt64(static_cast<int64_t>(v) * active_lanes_));
    Value* is_beyond = b_.CreateICmpSGT(left, b_.getInt64(0));
    Value* lanes = b_.CreateSelect(is_beyond, Min(left, all), b_.getInt64(1));
    Value* none = llvm::Constant::getNullValue(masks[0]->getType());
    masks.push_back(b_.CreateSelect(is_beyond, MaskOf(lanes, active_lanes_), none));
  }
  return masks;
}

bool KernelEmitter::LoadsWholes(Type* element, int64_t apart) const {
  if (mask_) return count_ && MasksNatively(element);
  return active_lanes_ >= (apart == 2 ? 4 : 8);
}

// No byte behind the last element is read: the last vector ends with it, or is masked. Vectors whose elements have
// distinct places are blended, which most units of a machine can do, and permuted once.
Value* KernelEmitter::LoadApart(Type* type, Value* a, int64_t apart) {
  const int lanes = active_lanes_, vectors = static_cast<int>(apart);
  Type* element = type->getScalarType();
  const llvm::Align align = AlignOf(element);
  Value* none = llvm::Constant::getNullValue(type);
  std::vector<Value*> wanted;
  if (mask_)
    wanted = MasksOf(
        vectors, b_.CreateAdd(b_.CreateMul(b_.CreateSub(count_, b_.getInt64(1)), b_.getInt64(apart)), b_.getInt64(1)));
  std::vector<int> starts;
  for (int v = 0; v < vectors; ++v) starts.push_back(v * lanes - (!mask_ && apart % 2 == 0 ? v : 0));
  const int last = vectors * (lanes - 1);  // where the last element lies
  const bool masks_end = !mask_ && starts.back() + lanes > last + 1 && MasksNatively(element);
  if (!mask_ && !masks_end) starts.back() = last + 1 - lanes;
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
    if (mask_) {
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

void KernelEmitter::PairStores() {
  partner_.assign(s_.instrs.size(), -1);
  if (lanes_ == 1 || loop_dim_ < 0) return;
  for (const KernelPhase& phase : s_.phases) {
    int open = -1;
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kStore || in.has_offset || in.has_guard || has_scratch_[in.param]) continue;
      if (LoopClass(in.param) != StrideClass::kTwo) continue;
      if (open < 0 || s_.instrs[open].type != in.type) {
        open = i;
        continue;
      }
      partner_[i] = open;
      partner_[open] = i;
      open = -1;
    }
  }
}

bool KernelEmitter::IsPairedIn(int i, const std::vector<int>& instrs) const {
  return partner_[i] >= 0 && std::find(instrs.begin(), instrs.end(), partner_[i]) != instrs.end();
}

// The first store waits for the second load: no load between them may see the stored value, as each element is read
// before the same iteration writes it.
void KernelEmitter::EmitInterleaved(const KernelInstr& first, const KernelInstr& second, int copies) {
  auto apart = [&]() -> Value* {
    EmitStores(first, copies);
    EmitStores(second, copies);
    return nullptr;
  };
  Type* element = MemType(first.type);
  const llvm::Align align(ItemSize(first.type));
  if (active_lanes_ == 1 || row_copies_ > 0 || !chunk_ || (mask_ && (!count_ || !MasksNatively(element)))) {
    apart();
    return;
  }
  const int item = ItemSize(first.type);
  Value* address = b_.CreatePtrToInt(addr_[first.param], i64_);
  Value* distance = b_.CreateSub(b_.CreatePtrToInt(addr_[second.param], i64_), address);
  Value* is_swapped = b_.CreateICmpEQ(distance, b_.getInt64(-item));
  Value* is_near = b_.CreateOr(is_swapped, b_.CreateICmpEQ(distance, b_.getInt64(item)));
  auto together = [&]() -> Value* {
    std::vector<int> low(active_lanes_), high(active_lanes_);
    for (int k = 0; k < active_lanes_; ++k) {
      low[k] = k / 2 + k % 2 * active_lanes_;
      high[k] = low[k] + active_lanes_ / 2;
    }
    for (int u = 0; u < copies; ++u) {
      Value* a = Splat(ToMemory(first.type, Get(first.operands[0], u)));
      Value* z = Splat(ToMemory(second.type, Get(second.operands[0], u)));
      Value* even = b_.CreateSelect(is_swapped, z, a);
      Value* odd = b_.CreateSelect(is_swapped, a, z);
      Value* third = Address(first.param, u);
      Value* at = b_.CreateSelect(is_swapped, Address(second.param, u), third);
      Value* beyond = b_.CreateConstGEP1_64(element, at, active_lanes_);
      Value* front = b_.CreateShuffleVector(even, odd, low);
      Value* back = b_.CreateShuffleVector(even, odd, high);
      if (mask_) {
        const std::vector<Value*> masks = MasksOf(2, b_.CreateShl(count_, 1));
        b_.CreateMaskedStore(front, at, align, masks[0]);
        b_.CreateMaskedStore(back, beyond, align, masks[1]);
      } else {
        b_.CreateAlignedStore(front, at, align);
        b_.CreateAlignedStore(back, beyond, align);
      }
    }
    return nullptr;
  };
  IfElse(is_near, together, apart);
}

void KernelEmitter::StoreApart(Value* value, Value* a, Type* element, int64_t apart) {
  const llvm::Align align = AlignOf(element);
  const int vectors = static_cast<int>(apart);
  std::vector<Value*> wanted;
  if (mask_) wanted = MasksOf(vectors, b_.CreateMul(count_, b_.getInt64(apart)));
  for (int v = 0; v < vectors; ++v) {
    std::vector<int> order;
    std::vector<llvm::Constant*> bits;
    for (int k = v * active_lanes_; k < (v + 1) * active_lanes_; ++k) {
      order.push_back(k / vectors);
      bits.push_back(b_.getInt1(k % vectors == 0));
    }
    Value* mask = llvm::ConstantVector::get(bits);
    if (mask_) mask = b_.CreateAnd(mask, wanted[v]);
    Value* place = b_.CreateConstGEP1_64(element, a, int64_t{v} * active_lanes_);
    b_.CreateMaskedStore(b_.CreateShuffleVector(value, order), place, align, mask);
  }
}

}  // namespace smelt
