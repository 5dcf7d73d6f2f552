// Which values are made right where the caller will look for them, and which are rewritten in place.
//
//   SMELT_RETURN_IF_ERROR(destinations.Choose());     // before the first step
//   const PlanLocation l = destinations.Place(result);
//
// Invariants: a value is made in the place of others only if nothing needs their old contents by then. A destination
// is chosen before the node that makes the value is emitted, and never changed. A slot that is awaited holds the future
// result of a loop's body; no other value of the body may lie in it.
#ifndef SMELT_CODEGEN_PLAN_DESTINATIONS_H_
#define SMELT_CODEGEN_PLAN_DESTINATIONS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_copies.h"
#include "smelt/codegen/plan_lives.h"
#include "smelt/codegen/plan_lowering.h"
#include "smelt/codegen/plan_regions.h"
#include "smelt/codegen/plan_slots.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanDestinations {
 public:
  // The parts of the plan that it stands on. All must outlive it.
  struct Parts {
    const Lives& lives;
    const PlanRegions& regions;
    PlanSteps& steps;
    PlanSlots& slots;
    PlanCopies& copies;
    PlanLowering& lowering;
  };
  PlanDestinations(BundleTables& b, const Graph& g, const Convention& c, fb::PlanT& plan, const Parts& parts)
      : b_(b),
        g_(g),
        c_(c),
        plan_(plan),
        lives_(parts.lives),
        regions_(parts.regions),
        steps_(parts.steps),
        slots_(parts.slots),
        copies_(parts.copies),
        lowering_(parts.lowering) {}

  absl::Status Choose();

  bool Has(ValueId v) const { return destination_.contains(v); }
  void Set(ValueId v, const PlanLocation& l) { destination_[v] = l; }
  // Chooses the location of a node's output, except for partial rewrites.
  PlanLocation Place(ValueId o);
  // Chooses the location of a partial rewrite: that of its base, or a copy of it.
  absl::Status PlaceRegion(NodeId n, ValueId o, ValueId base);
  // Returns whether `result` may be written over the contents of the slot.
  bool Writable(int slot, ValueId result) const;
  // Lets the contents of the chain rewrite each other in their slot, whatever it is.
  void KeepInPlace(const std::vector<ValueId>& chain) { in_place_chain_.insert(chain.begin(), chain.end()); }
  // Returns whether node n, a copy of a region or the write of it back, does nothing because its result is already in
  // its place.
  absl::StatusOr<bool> IsInPlace(NodeId n);

  bool Await(int slot) { return awaited_.insert(slot).second; }
  void EndWait(int slot) { awaited_.erase(slot); }
  bool IsAwaited(int slot) const { return awaited_.contains(slot); }

  // ---- fresh results ----

  // Returns the key of the fresh storage that holds a graph output: the key of an earlier output that shows the same
  // memory, if there is one.
  int SharedKey(GraphOutputIndex contents) const;
  std::vector<int> FreshKeys() const;  // sorted
  int FreshSlot(int key) const { return fresh_slot_.at(key); }
  ValueId FreshContents(int key) const { return fresh_contents_.at(key); }

  // ---- written arguments and states ----

  bool WritesNothing() const { return written_args_.empty() && written_states_.empty(); }
  void ListWritten(fb::PlanT& plan);

 private:
  void PlaceMutation(const MutatedMemory& m);
  void PlaceFresh(int key, GraphOutputIndex contents);
  bool ShowsWholeState(ValueId v, ValueId initial) const;
  void FindRegionsInPlace();
  // Returns whether `contents`, the final contents of a memory, are made from `initial` by indexed writes through views
  // of all of it, and nothing needs the old contents. Then the writes happen in place.
  bool IsWrittenThroughViews(ValueId contents, ValueId initial, const PlanLocation& home);

  BundleTables& b_;
  const Graph& g_;
  const Convention& c_;
  fb::PlanT& plan_;
  const Lives& lives_;
  const PlanRegions& regions_;
  PlanSteps& steps_;
  PlanSlots& slots_;
  PlanCopies& copies_;
  PlanLowering& lowering_;
  absl::flat_hash_map<ValueId, PlanLocation> destination_;
  absl::flat_hash_set<ValueId> in_place_chain_;
  absl::flat_hash_map<ValueId, NodeId> region_of_copy_;  // for the copy of a region, the node that writes it back
  absl::flat_hash_set<NodeId> in_place_regions_;         // those of them that do nothing
  absl::flat_hash_set<ValueId> in_place_copies_;         // of all of a memory, by IsWrittenThroughViews
  absl::flat_hash_set<int> awaited_;
  absl::flat_hash_map<int, int> fresh_slot_;          // by key
  absl::flat_hash_map<int, ValueId> fresh_contents_;  // by key
  absl::flat_hash_set<int> written_args_, written_states_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_DESTINATIONS_H_
