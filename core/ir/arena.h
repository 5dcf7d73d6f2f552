// Storage for the objects that ids name. It is chunked, so that references stay valid while others are added and
// nothing is copied when it grows. Freed slots are reused, last freed first, with the next generation, so that an id of
// a freed object is detected. Private to core/ir.
#ifndef SMELT_CORE_IR_ARENA_H_
#define SMELT_CORE_IR_ARENA_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "smelt/core/base/check.h"

namespace smelt {

template <typename T, typename Id>
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Id Allocate() {
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      SMELT_CHECK(size_ < UINT32_MAX - kFirst) << "more than 2^32 objects in one graph";
      index = size_++;
      if (PlaceOf(index).at == 0) chunks_.push_back(std::make_unique<Slot[]>(ChunkSize(chunks_.size())));
    }
    Slot& slot = SlotAt(index);
    slot.is_live = true;
    ++live_;
    return Id(index, slot.generation);
  }

  // The object is replaced by a new one at once, so that its memory is released.
  void Free(Id id) {
    Slot& slot = SlotAt(id.index);
    std::destroy_at(&slot.object);
    std::construct_at(&slot.object);
    slot.is_live = false;
    --live_;
    // A slot whose generations are used up is never reused: about 16 bytes are lost in 2^32 reuses.
    if (++slot.generation != 0) free_.push_back(id.index);
  }

  bool IsLive(Id id) const {
    return id.index < size_ && SlotAt(id.index).generation == id.generation && SlotAt(id.index).is_live;
  }
  T& Get(Id id) { return const_cast<T&>(std::as_const(*this).Get(id)); }
  const T& Get(Id id) const {
    if (ABSL_PREDICT_FALSE(id.index >= size_)) Stale(id);
    const Slot& slot = SlotAt(id.index);
    if (ABSL_PREDICT_FALSE(slot.generation != id.generation || !slot.is_live)) Stale(id);
    return slot.object;
  }
  T& At(uint32_t index) { return SlotAt(index).object; }
  const T& At(uint32_t index) const { return SlotAt(index).object; }
  Id IdAt(uint32_t index) const { return Id(index, SlotAt(index).generation); }
  bool IsLiveAt(uint32_t index) const { return SlotAt(index).is_live; }

  uint32_t size() const { return size_; }  // slots, free ones included
  uint32_t live() const { return live_; }

  void CopyFrom(const Arena& o) {
    chunks_.clear();
    for (size_t c = 0; c < o.chunks_.size(); ++c) {
      chunks_.push_back(std::make_unique<Slot[]>(ChunkSize(c)));
      for (uint32_t i = 0; i < ChunkSize(c); ++i) chunks_[c][i] = o.chunks_[c][i];
    }
    free_ = o.free_;
    size_ = o.size_;
    live_ = o.live_;
  }

 private:
  // A separate function, so that Get is small enough to be inlined.
  ABSL_ATTRIBUTE_NOINLINE ABSL_ATTRIBUTE_COLD static void Stale(Id id) {
    SMELT_CHECK(false) << "stale or invalid id " << id;
  }
  // Fusion makes a graph of a few nodes for every group, which should not use more memory. A walk over a large graph is
  // faster if neighbours are close together. So chunks double in size, up to a limit.
  static constexpr uint32_t kFirst = 16, kLast = 4096;
  static constexpr uint32_t kDoublings = std::countr_zero(kLast / kFirst);
  static uint32_t ChunkSize(size_t chunk) { return chunk < kDoublings ? kFirst << chunk : kLast; }
  struct Place {
    uint32_t chunk, at;
  };
  static Place PlaceOf(uint32_t index) {
    const uint32_t i = index + kFirst;  // chunk c that doubles holds those of bit width c + 5
    if (i >= 2 * kLast) return {i / kLast + kDoublings - 1, i % kLast};
    const uint32_t chunk = static_cast<uint32_t>(std::bit_width(i / kFirst)) - 1;
    return {chunk, i - (kFirst << chunk)};
  }
  // The data that detects a stale id is next to the most used fields of an object, so that both are in one cache line.
  struct Slot {
    uint32_t generation = 1;
    bool is_live = false;
    T object;
  };
  Slot& SlotAt(uint32_t index) {
    const Place p = PlaceOf(index);
    return chunks_[p.chunk][p.at];
  }
  const Slot& SlotAt(uint32_t index) const {
    const Place p = PlaceOf(index);
    return chunks_[p.chunk][p.at];
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<uint32_t> free_;
  uint32_t size_ = 0;
  uint32_t live_ = 0;
};

}  // namespace smelt

#endif  // SMELT_CORE_IR_ARENA_H_
