#include "smelt/runtime/device/relocation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "smelt/core/base/status_macros.h"

namespace smelt {

void Relocation::Add(std::shared_ptr<Storage> storage, bool writable) {
  for (Moved& m : storages_) {
    if (m.storage != storage) continue;
    m.writable |= writable;
    return;
  }
  Moved m;
  m.storage = std::move(storage);
  m.writable = writable;
  storages_.push_back(std::move(m));
}

void Relocation::AddConstant(std::shared_ptr<Storage> storage, const char* bytes) {
  const size_t had = storages_.size();
  Add(std::move(storage), /*writable=*/false);
  if (storages_.size() > had) storages_.back().constant = bytes;
}

absl::Status Relocation::MakeGroups() {
  std::vector<Moved*> by_address;
  for (Moved& m : storages_) {
    if (m.constant == nullptr) by_address.push_back(&m);
  }
  std::sort(by_address.begin(), by_address.end(), [](const Moved* a, const Moved* b) {
    return reinterpret_cast<uintptr_t>(a->storage->address()) < reinterpret_cast<uintptr_t>(b->storage->address());
  });
  for (Moved* m : by_address) {
    char* const low = m->storage->address();
    char* const high = low + m->storage->bytes();
    if (groups_.empty() || low >= groups_.back().high || low == high) {
      groups_.push_back({low, high, m->writable, nullptr});
    } else {
      Group& g = groups_.back();
      g.high = std::max(g.high, high);
      g.writable |= m->writable;
    }
    m->group = static_cast<int>(groups_.size()) - 1;
  }
  for (Group& g : groups_) {
    const int64_t bytes = g.high - g.low;
    // Memory of its own even if it is empty, so that its address is no other's.
    if (to_host()) {
      g.there = Storage::Allocate(std::max<int64_t>(bytes, 1));
      SMELT_RETURN_IF_ERROR(device_.ToHost(g.there->address(), g.low, bytes));
    } else {
      SMELT_ASSIGN_OR_RETURN(g.there, device_.NewStorage(std::max<int64_t>(bytes, 1)));
      SMELT_RETURN_IF_ERROR(device_.FromHost(g.there->address(), g.low, bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status Relocation::Move() {
  SMELT_RETURN_IF_ERROR(MakeGroups());
  for (Moved& m : storages_) {
    Storage::Memory there;
    there.capacity = m.storage->bytes();
    if (m.constant != nullptr) {
      there.data = const_cast<char*>(m.constant);
    } else {
      const Group& g = groups_[m.group];
      there.data = g.there->address() + (m.storage->address() - g.low);
      there.owner = g.there;
    }
    if (!to_host()) {
      there.device = device_.device();
      there.access = &device_;
    }
    m.there = there.data;
    m.home = m.storage->Exchange(std::move(there));
  }
  moved_ = true;
  return absl::OkStatus();
}

absl::Status Relocation::MoveBack() {
  if (!std::exchange(moved_, false)) return absl::OkStatus();
  absl::Status status;
  for (const Group& g : groups_) {
    const int64_t bytes = g.high - g.low;
    if (!g.writable || bytes == 0) continue;
    status.Update(to_host() ? device_.FromHost(g.low, g.there->address(), bytes)
                            : device_.ToHost(g.low, g.there->address(), bytes));
  }
  for (Moved& m : storages_) {
    const bool grown = m.storage->address() != m.there;
    const int64_t capacity = m.home.capacity;
    // A storage that has grown takes new memory at home.
    std::shared_ptr<Storage> fresh;
    if (grown) {
      const int64_t bytes = m.storage->bytes();
      absl::StatusOr<std::shared_ptr<Storage>> made =
          to_host() ? device_.NewStorage(bytes) : absl::StatusOr<std::shared_ptr<Storage>>(Storage::Allocate(bytes));
      status.Update(made.status());
      if (made.ok()) {
        fresh = *std::move(made);
        status.Update(to_host() ? device_.FromHost(fresh->address(), m.storage->address(), bytes)
                                : device_.ToHost(fresh->address(), m.storage->address(), bytes));
      }
    }
    m.storage->Exchange(fresh != nullptr ? fresh->Exchange({}) : std::move(m.home));
    if (grown && fresh == nullptr) m.storage->Resize(std::min(m.storage->bytes(), capacity)).IgnoreError();
  }
  storages_.clear();
  groups_.clear();
  return status;
}

}  // namespace smelt
