// The working memory of an instance's plans. Internal.
#ifndef SMELT_RUNTIME_ARENA_H_
#define SMELT_RUNTIME_ARENA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/device/device.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class Arena {
 public:
  // With guard pages, each slot has memory of its own, so that an access outside it is found.
  Arena(GuardPages guard, const ExecutionDevice* device) : guard_(guard), device_(device) {}

  // Makes place for the arena slots of a plan. `slot_bytes` are by slot, `bytes` is what all take together.
  absl::Status Reserve(const fb::PlanT& plan, absl::Span<const int64_t> slot_bytes, int64_t bytes);
  // Returns the address of an arena slot, which begins at `offset`.
  char* AddressOf(int slot, int64_t offset) const {
    return guard_ == GuardPages::kNone ? all_->address() + offset : slots_[slot]->data();
  }
  // Increases when addresses change.
  uint64_t generation() const { return generation_; }

 private:
  GuardPages guard_;
  const ExecutionDevice* device_;
  std::shared_ptr<Storage> all_;
  std::vector<std::shared_ptr<Storage>> slots_;  // with guard pages
  uint64_t generation_ = 1;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_ARENA_H_
