#include "smelt/alias/state.h"

#include <vector>

#include "absl/functional/function_ref.h"

namespace smelt {

using alias_internal::AccessIndex;
using alias_internal::Contents;
using alias_internal::Store;
using alias_internal::ValueRecord;

void AliasDb::State::CollectSets() {
  sets.Collect(
      [&](absl::FunctionRef<void(SetId)> keep) {
        for (const ValueRecord& v : records.values) keep(v.points_to);
        for (const Object& o : objects) keep(o.storage);
        for (SetId s : loops.all_carried()) keep(s);
        containers.contents.ForEach([&](const Contents& c) {
          for (const Store& s : c.stores) keep(s.set);
          for (SetId s : c.slots) keep(s);
          if (c.sums != nullptr) {
            for (const std::vector<SetId>& sums : *c.sums) {
              for (SetId s : sums) keep(s);
            }
          }
          for (SetId s : {c.base, c.of_call, c.kept}) keep(s);
        });
        for (const auto& [o, s] : memory.moved_storage) keep(s);
        for (const auto& [o, s] : memory.unmoved_storage) keep(s);
        for (const auto& [o, s] : stores.new_stores) keep(s.set);
        if (!accesses.HasSetLists()) return;
        for (const AccessIndex* index : {&accesses.writes, &accesses.reads}) {
          index->ForEach([&](const Access& a) {
            if (a.IsOfOne()) return;
            keep(a.handles);
            keep(a.storages);
          });
        }
      },
      solver.building);
  accesses.DropSets();
  queries.reachability.DropSets();
  queries.written.DropSets();
}

int64_t AliasDb::State::Bytes() const {
  return records.bytes() + objects.bytes() + sets.bytes() + tree.bytes() + loops.bytes() + accesses.bytes() +
         containers.bytes() + stores.bytes() + memory.bytes() + reshapes.bytes() + solver.copies.bytes() +
         geometries.bytes() + same.bytes() + queries.written.bytes() + queries.absence.bytes() +
         queries.reachability.bytes();
}

void AliasDb::State::DropCaches() {
  if (changes.geometry) {
    geometries.Drop();
    queries.written.DropSpans();
  }
  if (changes.reach || changes.geometry) queries.reachability.Drop();
  changes.dirty = changes.geometry = changes.reach = false;
}

void AliasDb::State::PaidByEdit() {
  ++changes.edits;
  budget.Edit();
}

}  // namespace smelt
