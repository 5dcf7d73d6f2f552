#include "smelt/codegen/plan_copies.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/codegen/plan_regions.h"

namespace smelt {

void PlanCopies::Copy(const PlanLocation& from, const PlanLocation& to, bool copy_back, NodeId source) {
  auto c = std::make_unique<fb::CopyT>();
  c->src = slots_.AddView(from);
  c->dst = slots_.AddView(to);
  c->copy_back = copy_back;
  steps_.Emit(std::move(c), source);
  ++steps_.stats.copies;
}

PlanLocation PlanCopies::Save(const PlanLocation& from) {
  PlanLocation saved;
  saved.geometry = {from.geometry.dtype, from.geometry.sizes, ContiguousStrides(from.geometry.sizes), 0};
  saved.slot = slots_.NewArena(saved.geometry, steps_.position(), steps_.position());
  Copy(from, saved);
  return saved;
}

void PlanCopies::CopyAtOnce(const std::vector<LocatedCopy>& copies, bool copy_back) {
  std::vector<LocatedCopy> left;
  absl::flat_hash_map<int, int> readers;                  // by slot: how many of those left read it
  absl::flat_hash_map<int, std::vector<size_t>> writers;  // by slot: which write it
  for (const auto& [from, to] : copies) {
    if (from.slot == to.slot && SameLayout(from.geometry, to.geometry) && from.geometry.offset == to.geometry.offset)
      continue;
    ++readers[from.slot];
    writers[to.slot].push_back(left.size());
    left.push_back({from, to});
  }
  std::vector<size_t> ready;
  const auto stop_reading = [&](int slot) {
    if (--readers[slot] > 0) return;
    if (auto it = writers.find(slot); it != writers.end())
      ready.insert(ready.end(), it->second.begin(), it->second.end());
  };
  for (size_t i = 0; i < left.size(); ++i) {
    if (!readers.contains(left[i].to.slot)) ready.push_back(i);
  }
  size_t emitted = 0;
  const auto emit_ready = [&] {
    for (; emitted < ready.size(); ++emitted) {
      const LocatedCopy& c = left[ready[emitted]];
      Copy(c.from, c.to, copy_back);
      stop_reading(c.from.slot);
    }
  };
  emit_ready();
  for (size_t i = 0; i < left.size() && ready.size() < left.size(); ++i) {
    // It was not ready: others read the memory that it writes, and they wait too.
    if (readers[left[i].to.slot] <= 0) continue;
    const int slot = left[i].from.slot;
    left[i].from = Save(left[i].from);
    readers[left[i].from.slot] = 1;
    stop_reading(slot);
    emit_ready();
  }
}

}  // namespace smelt
