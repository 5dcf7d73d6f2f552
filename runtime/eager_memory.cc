#include "smelt/runtime/eager_memory.h"

#include <algorithm>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/exec/write_protocol.h"
#include "smelt/runtime/memory_limit.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

// Returns the bytes that a tensor reaches: equal ends if none.
std::pair<const char*, const char*> Reach(const Tensor& t) {
  const auto [low, high] = t.geometry().Span();
  const char* data = t.storage()->data();
  const int item = ItemSize(t.dtype());
  return {data + low * item, data + high * item};
}

bool MayShare(const Tensor& a, const Tensor& b) {
  const auto [a_low, a_high] = Reach(a);
  const auto [b_low, b_high] = Reach(b);
  return a_low < b_high && b_low < a_high;
}

bool HaveSameElements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && AreSameElements(Placed(a), Placed(b));
}

}  // namespace

EagerMemory::EagerMemory(EagerStorages states, ThreadPool* pool, int width)
    : states_(states), pool_(pool), width_(width) {}

void EagerMemory::Remember(const std::shared_ptr<Storage>& storage) {
  for (const Contents& c : contents_) {
    if (c.storage == storage) return;
  }
  if (std::find(visible_.begin(), visible_.end(), storage) == visible_.end()) return;
  contents_.push_back({storage, std::string(storage->data(), static_cast<size_t>(storage->bytes()))});
}

// Handles that the program made itself do no harm here.
void EagerMemory::Remember(const Tensor& handle) { handles_.push_back({handle, handle.storage(), handle.geometry()}); }

void EagerMemory::Undo() {
  for (auto it = handles_.rbegin(); it != handles_.rend(); ++it) {
    it->handle.SetStorage(std::move(it->storage));
    it->handle.SetGeometry(std::move(it->geometry));
  }
  for (const Contents& c : contents_) {
    // The storage may have grown. Shrinking it to its old size cannot fail.
    if (c.storage->bytes() != static_cast<int64_t>(c.bytes.size())) {
      c.storage->Resize(static_cast<int64_t>(c.bytes.size())).IgnoreError();
      ++*states_.generation;
    }
    std::copy(c.bytes.begin(), c.bytes.end(), c.storage->data());
  }
}

void EagerMemory::CopyElements(const Tensor& to, const Tensor& from) const {
  if (to.NumElements() == 0 || HaveSameElements(to, from)) return;
  const Tensor source = MayShare(to, from) ? from.Clone() : from;
  CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(source.data()), source.strides(),
              to.sizes(), ItemSize(to.dtype()), pool_, width_);
}

absl::Status EagerMemory::CheckWritable(const Tensor& t, bool uniform) const {
  if (!uniform) SMELT_RETURN_IF_ERROR(CheckNotExpanded(t));
  for (size_t s = 0; s < states_.storages->size(); ++s) {
    if ((*states_.storages)[s] == t.storage() && !states_.bundle->storages[s]->is_mutated)
      return absl::FailedPreconditionError("the model writes to memory of a state that it does not write itself");
  }
  return absl::OkStatus();
}

absl::Status EagerMemory::Write(const Tensor& to, const Tensor& value, bool uniform) {
  SMELT_RETURN_IF_ERROR(CheckWritable(to, uniform));
  if (value.dtype() != to.dtype()) return absl::InternalError("a value of another dtype than what it is written to");
  ConcreteDecide decide;
  SMELT_ASSIGN_OR_RETURN(Geometry g, view_rules::Expand(decide, value.geometry(), to.sizes()));
  SMELT_RETURN_IF_ERROR(decide.status());
  if (to.NumElements() > 0) Remember(to.storage());
  CopyElements(to, value.View(std::move(g)));
  return absl::OkStatus();
}

absl::Status EagerMemory::WriteWhatChanged(const Tensor& to, const Tensor& value) {
  if (value.dtype() != to.dtype() || value.sizes() != to.sizes())
    return absl::InternalError("a value of another type than what it is written to");
  if (to.NumElements() == 0) return absl::OkStatus();
  Remember(to.storage());
  CopyWhatChanged(to, value);
  return absl::OkStatus();
}

absl::Status EagerMemory::Resize(Tensor t, Geometry g) {
  if (t.geometry().sizes == g.sizes) return absl::OkStatus();
  g.offset = t.offset();
  int64_t end = ItemSize(t.dtype());
  for (int64_t n : g.sizes) {
    if (n < 0 || __builtin_mul_overflow(end, n, &end) || end > int64_t{1} << 46)
      return absl::FailedPreconditionError("resize_: a size is out of range");
  }
  if (end > 0) end += t.offset() * ItemSize(t.dtype());
  Remember(t);
  Remember(t.storage());
  if (end > t.storage()->bytes()) {
    SMELT_RETURN_IF_ERROR(CheckMemoryFor(end, 1));
    SMELT_RETURN_IF_ERROR(t.storage()->GrowTo(end));
    ++*states_.generation;
  }
  t.SetGeometry(std::move(g));
  return absl::OkStatus();
}

}  // namespace smelt
