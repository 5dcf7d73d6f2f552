#include "smelt/runtime/output_allocator.h"

#include <algorithm>
#include <atomic>

namespace smelt {

absl::StatusOr<std::shared_ptr<Storage>> OutputAllocator::Allocate(int64_t bytes) {
  if (!device_->is_host()) return device_->NewStorage(bytes);
  constexpr size_t kMaxKnown = 256;
  for (auto& s : known_) {
    if (s.use_count() != 1 || s->bytes() != bytes) continue;
    // The last owner may have been another thread. (ThreadSanitizer does not know fences.)
#if !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return s;
  }
  if (guard_ != GuardPages::kNone) return GuardedStorage(bytes, guard_);
  // A model that is called with ever other sizes leaves a storage of each.
  constexpr int64_t kMostUnused = int64_t{32} << 20;
  int64_t unused = 0;
  for (const auto& s : known_) unused += s.use_count() == 1 ? s->bytes() : 0;
  if (unused > std::max(kMostUnused, bytes)) {
    known_.erase(std::remove_if(known_.begin(), known_.end(), [](const auto& s) { return s.use_count() == 1; }),
                 known_.end());
  }
  std::shared_ptr<Storage> made = Storage::Allocate(bytes);
  if (known_.size() >= kMaxKnown) {
    // Unused ones are dropped first. If all are used, the oldest is forgotten.
    auto end = std::remove_if(known_.begin(), known_.end(), [](const auto& s) { return s.use_count() == 1; });
    if (end == known_.end()) --end, std::rotate(known_.begin(), known_.begin() + 1, known_.end());
    known_.erase(end, known_.end());
  }
  known_.push_back(made);
  return made;
}

}  // namespace smelt
