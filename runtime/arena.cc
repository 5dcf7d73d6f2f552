#include "smelt/runtime/arena.h"

#include "smelt/core/base/status_macros.h"

namespace smelt {

absl::Status Arena::Reserve(const fb::PlanT& plan, absl::Span<const int64_t> slot_bytes, int64_t bytes) {
  if (guard_ != GuardPages::kNone) {
    slots_.assign(plan.slots.size(), nullptr);
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (plan.slots[s]->kind != fb::SlotKind::Arena) continue;
      SMELT_ASSIGN_OR_RETURN(slots_[s], GuardedStorage(slot_bytes[s], guard_));
    }
    ++generation_;
    return absl::OkStatus();
  }
  if (all_ != nullptr && all_->bytes() >= bytes) return absl::OkStatus();
  all_.reset();
  // Vectors that end beyond the last element do not leave the arena.
  SMELT_ASSIGN_OR_RETURN(all_, device_->NewStorage(bytes + 64));
  ++generation_;
  return absl::OkStatus();
}

}  // namespace smelt
