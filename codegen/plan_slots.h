// The slots of a plan, and where each value lies: a slot is a memory (of an argument, a state, a fresh result, or of the
// arena), a location is a geometry over one.
//
//   slots.BindInputs();
//   SMELT_ASSIGN_OR_RETURN(PlanLocation l, slots.Locate(v));   // of a value that has been placed, or of a view of one
//   const int view = slots.AddView(l);
//
// Invariants: a slot keeps its number and its kind. A buffer of the arena is live from the position at which it was
// made to the last one that Extend named; Pack lays out the arena once, at the end. What depends on a number that a
// step reads is "late": it is allocated by a step, when the number is known.
#ifndef SMELT_CODEGEN_PLAN_SLOTS_H_
#define SMELT_CODEGEN_PLAN_SLOTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/arena.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_regions.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

// The place of a value's contents.
struct PlanLocation {
  int slot = -1;
  SymbolicGeometry geometry;  // over the slot; for an argument it counts from the argument's own first element
};

class PlanSlots {
 public:
  // All must outlive it.
  PlanSlots(BundleTables& b, const Graph& g, const Convention& c, fb::PlanT& plan, const PlanRegions& regions,
            PlanSteps& steps)
      : b_(b), g_(g), c_(c), plan_(plan), regions_(regions), steps_(steps) {}

  // ---- sizes that the data decides ----

  // Finds the symbols that a step reads from a tensor.
  void FindDataSymbols();
  bool HasDataSymbols() const { return !data_symbols_.empty(); }
  void SetRead(const std::string& symbol) { read_symbols_.insert(symbol); }
  bool IsLate(const Expr& e) const;
  bool IsLate(const PlanLocation& l) const;
  // Returns whether the numbers that `e` depends on have already been read.
  bool IsRead(const Expr& e) const;
  // Emits the allocation of a fresh slot whose size has become known.
  void AllocateLate(int slot);

  // ---- inputs ----

  void BindInputs();
  // Returns whether arguments share a memory, or have any strides: each region of it counts from an argument, and is
  // rewritten in place.
  bool grouped() const { return grouped_; }
  ValueId ArgumentValue(int distinct) const { return argument_value_.at(distinct); }
  // Returns the caller's argument that is this number, or null.
  const int* ScalarArg(ValueId v) const;
  bool IsState(MemoryIndex m) const { return m.value() >= c_.overlaps.num_argument_memories; }
  int StorageOf(MemoryIndex m) const { return m.value() - c_.overlaps.num_argument_memories; }
  bool SharedStorage(int storage) const;
  // Returns the weight that stands for the storage's contents.
  ValueId StateInitial(int storage) const;
  // Returns the argument that locates an argument memory's contents: its first one.
  ValueId ArgumentOf(MemoryIndex m) const;
  PlanLocation MemoryHome(MemoryIndex m);
  // Returns whether two slots belong to arguments that share a memory in some call.
  bool MayShareMemory(int slot, int other) const;

  // ---- slots ----

  int AddSlot(fb::SlotKind kind, int index);
  int ArgSlot(int distinct);
  int StateSlot(int storage);
  int NewArena(const SymbolicGeometry& geometry, int begin, int end);
  void SetFreshBytes(int slot, ValueId v);
  void Extend(int slot, int end);
  void Pack();

  // ---- locations ----

  SymbolicGeometry LayoutOf(ValueId v);
  absl::StatusOr<PlanLocation> Locate(ValueId v);
  // Returns the location of a value that has been placed itself, or null.
  const PlanLocation* Find(ValueId v) const;
  const PlanLocation& LocationOf(ValueId v) const { return locations_.at(v); }
  void SetLocation(ValueId v, PlanLocation l) { locations_[v] = std::move(l); }
  int AddView(const PlanLocation& l);
  absl::StatusOr<int> ViewOf(ValueId v);

 private:
  BundleTables& b_;
  const Graph& g_;
  const Convention& c_;
  fb::PlanT& plan_;
  const PlanRegions& regions_;
  PlanSteps& steps_;
  bool grouped_ = false;
  std::vector<int> caller_of_distinct_;               // the first of the caller's arguments for each distinct one
  absl::flat_hash_map<int, ValueId> argument_value_;  // by distinct argument
  absl::flat_hash_map<ValueId, int> scalar_args_;
  absl::flat_hash_map<int, int> arg_slots_, state_slots_;
  std::vector<int> arena_buffer_;  // by slot
  std::vector<ArenaBuffer> buffers_;
  absl::flat_hash_set<std::string> data_symbols_, read_symbols_;
  absl::flat_hash_set<int> late_slots_, allocated_;  // fresh ones
  absl::flat_hash_map<ValueId, PlanLocation> locations_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_SLOTS_H_
