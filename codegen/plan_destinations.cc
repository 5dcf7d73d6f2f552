#include "smelt/codegen/plan_destinations.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

std::vector<int> PlanDestinations::FreshKeys() const {
  std::vector<int> keys;
  for (const auto& [key, slot] : fresh_slot_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

PlanLocation PlanDestinations::Place(ValueId o) {
  PlanLocation l;
  if (auto it = destination_.find(o); it != destination_.end()) {
    l = it->second;
    slots_.AllocateLate(l.slot);
  } else {
    l.geometry = DefaultLayout(g_, o);
    l.slot = slots_.NewArena(l.geometry, steps_.position(), lives_.LastUse(o));
  }
  slots_.SetLocation(o, l);
  return l;
}

absl::Status PlanDestinations::Choose() {
  for (const MutatedMemory& m : c_.mutations.memories) PlaceMutation(m);
  for (size_t k = 0; k < c_.outputs.outputs.size(); ++k) {
    const OutputInfo& o = c_.outputs.outputs[k];
    if (o.kind == OutputInfo::Kind::kFresh) PlaceFresh(-1 - static_cast<int>(k), o.contents);
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate) PlaceFresh(o.memory.value(), o.contents);
  }
  for (const MutatedInput& in : c_.mutations.inputs) {
    if (in.storage && in.final_source == MutatedInput::Source::kGraphOutput)
      PlaceFresh(SharedKey(in.final_output), in.final_output);
  }
  FindRegionsInPlace();
  return absl::OkStatus();
}

void PlanDestinations::PlaceMutation(const MutatedMemory& m) {
  const bool is_state = slots_.IsState(m.memory);
  PlanLocation home;
  ValueId initial;
  if (is_state) {
    const int storage = slots_.StorageOf(m.memory);
    written_states_.insert(storage);
    b_.MarkMutated(storage);
    home.slot = slots_.StateSlot(storage);
    initial = slots_.StateInitial(storage);
  } else {
    initial = slots_.ArgumentOf(m.memory);
    home = slots_.LocationOf(initial);
    for (size_t k = 0; k < c_.overlaps.memory_of.size(); ++k) {
      if (c_.overlaps.memory_of[k] == m.memory) written_args_.insert(static_cast<int>(k));
    }
  }
  if (m.resized) return;  // the epilogue replaces the storage's contents
  if (g_.IsLive(initial)) home = slots_.LocationOf(initial);
  const std::vector<ValueId> chain = regions_.ChainOf(g_.outputs()[m.contents.value()]);
  const ValueId root = chain.back();
  if (root == initial || (is_state && ShowsWholeState(root, initial))) {
    in_place_chain_.insert(chain.begin(), chain.end());
    return;
  }
  // A whole new value, or one in another shape, is computed into the argument if nothing needs the old contents by
  // then.
  const ValueId owner = StorageOf(g_, root);
  if (!(is_state && slots_.SharedStorage(slots_.StorageOf(m.memory))) && IsWrittenThroughViews(root, initial, home)) {
    in_place_chain_.insert(chain.begin(), chain.end());
    return;
  }
  if (g_.IsParam(g_.value(owner).def) || g_.node(g_.value(owner).def).parent != g_.top() ||
      !g_.node(g_.value(owner).def).blocks.empty() || !regions_.CanPlace(owner) || destination_.contains(owner)) {
    return;
  }
  SymbolicGeometry whole = DefaultLayout(g_, owner);
  const SymbolicGeometry shown = owner == root ? whole : RegionGeometry(g_.node(g_.value(root).def));
  if (regions_.ShowsAPart(root, owner) || shown.dtype != whole.dtype || !SameLayout(shown, home.geometry)) return;
  whole.offset = home.geometry.offset;
  const int made = lives_.Begin(g_.value(owner).def);
  if (!g_.IsLive(initial) || lives_.LastUse(initial) > made) return;
  if (lives_.LastUse(initial) == made && !lowering_.ReadsSameIndexOnly(g_.value(owner).def, initial, owner)) return;
  if (is_state && slots_.SharedStorage(slots_.StorageOf(m.memory))) return;
  destination_[owner] = {home.slot, whole};
  in_place_chain_.insert(chain.begin(), chain.end());
}

void PlanDestinations::PlaceFresh(int key, GraphOutputIndex contents) {
  if (fresh_slot_.contains(key)) return;
  const ValueId f = g_.outputs()[contents.value()];
  // Complex numbers are the view of their parts, so a node that writes the parts writes the result.
  ValueId whole = f;
  for (NodeId view = ViewNodeOf(g_, whole); view.valid(); view = ViewNodeOf(g_, whole)) {
    const ValueId base = g_.node(view).inputs[0];
    if (regions_.ShowsAPart(whole, base)) break;
    whole = base;
  }
  std::vector<ValueId> chain = regions_.ChainOf(whole);
  ValueId owner = StorageOf(g_, chain.back());
  bool copied = false;
  // A write whose base is read later, or is an argument that keeps its contents, is made on a copy, which lies in the
  // result from then on.
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const NodeId write = g_.value(chain[i]).def;
    if (g_.node(write).parent != g_.top()) break;
    const ValueId base = StorageOf(g_, chain[i + 1]);
    const bool is_argument = g_.IsParam(g_.value(base).def);
    if (is_argument ? in_place_chain_.contains(chain[i]) : lives_.LastUse(base) <= lives_.Begin(write)) continue;
    owner = chain[i];
    chain.resize(i + 1);
    copied = !in_place_chain_.contains(owner);
    break;
  }
  const int slot = slots_.AddSlot(fb::SlotKind::Fresh, 0);
  fresh_slot_[key] = slot;
  fresh_contents_[key] = f;
  const NodeId def = g_.value(owner).def;
  if (g_.IsParam(def) || g_.node(def).parent != g_.top() || !regions_.CanPlace(owner) || destination_.contains(owner) ||
      regions_.ShowsAPart(chain.back(), owner) || regions_.OutlivesRewrite(chain)) {
    slots_.SetFreshBytes(slot, f);
    return;  // copied at the end
  }
  destination_[owner] = {slot, DefaultLayout(g_, owner)};
  slots_.SetFreshBytes(slot, owner);
  in_place_chain_.insert(chain.begin(), chain.end());
  if (copied) in_place_chain_.erase(owner);
}

// A state that shows a part of its storage is rewritten through a view of all of it.
bool PlanDestinations::ShowsWholeState(ValueId v, ValueId initial) const {
  const NodeId view = ViewNodeOf(g_, v);
  if (!view.valid() || g_.node(view).inputs[0] != initial) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(view));
  const Weight& w = g_.weights[g_.input_infos[g_.value(initial).def_index].weight];
  return shown.dtype == w.dtype && shown.offset == Expr(0) && shown.sizes.size() == 1 && shown.strides[0] == Expr(1) &&
         shown.sizes[0] == Expr(g_.weight_storages[w.storage]->bytes() / ItemSize(w.dtype));
}

int PlanDestinations::SharedKey(GraphOutputIndex contents) const {
  for (const OutputInfo& o : c_.outputs.outputs) {
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate && o.contents == contents) return o.memory.value();
  }
  return 1000000 + contents.value();
}

void PlanDestinations::FindRegionsInPlace() {
  // (Regions of memory that arguments share count from one of these.)
  if (slots_.grouped()) return;
  for (NodeId n : g_.Nodes(g_.top())) {
    const Node& write = g_.node(n);
    if (write.op != op::kSmeltWriteRegion || destination_.contains(write.outputs[0])) continue;
    const ValueId base = write.inputs[0];
    const std::vector<ValueId> chain = regions_.ChainOf(write.inputs[1]);
    const ValueId view = regions_.ViewThatIsCopied(chain.back());
    if (chain.size() < 2 || !g_.IsLive(view) || g_.node(g_.value(view).def).inputs[0] != base) continue;
    const SymbolicGeometry region = RegionGeometry(write), shown = RegionGeometry(g_.node(g_.value(view).def));
    if (!SameLayout(region, shown) || region.offset != shown.offset) continue;
    if (Region::Strided(0, region.sizes, region.strides, ItemSize(region.dtype)).OverlapsItself(g_.symbols) != false) {
      continue;
    }
    // (A region written into the copy counts from the memory's first element.)
    if (!std::all_of(chain.begin(), chain.end() - 1, [&](ValueId v) { return regions_.IsIndexedWrite(v); })) continue;
    const bool only_here =
        std::all_of(chain.begin(), chain.end(), [&](ValueId v) { return g_.value(v).uses.size() == 1; });
    const int copied = lives_.Begin(g_.value(chain.back()).def), written = lives_.Begin(n);
    if (only_here && lives_.LastUse(StorageOf(g_, base)) <= written && !regions_.IsReadBetween(base, copied, written)) {
      region_of_copy_[chain.back()] = n;
    }
  }
}

bool PlanDestinations::IsWrittenThroughViews(ValueId contents, ValueId initial, const PlanLocation& home) {
  const NodeId shows = ViewNodeOf(g_, contents);
  if (slots_.grouped() || !g_.IsLive(initial) || !shows.valid()) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(shows));
  if (!SameLayout(shown, home.geometry) || shown.offset != Expr(0) || home.geometry.offset != Expr(0)) return false;
  std::vector<ValueId> copies, written;
  for (ValueId at = StorageOf(g_, contents); at != initial;) {
    const std::vector<ValueId> chain = regions_.ChainOf(at);
    const ValueId copy = chain.back(), view = regions_.ViewThatIsCopied(copy);
    if (chain.size() < 2 || !g_.IsLive(view)) return false;
    // Element by element where the memory has them.
    const SymbolicGeometry from = RegionGeometry(g_.node(g_.value(view).def));
    if (!SameLayout(from, DefaultLayout(g_, copy)) || from.offset != Expr(0)) return false;
    at = g_.node(g_.value(view).def).inputs[0];
    if (lives_.LastUse(StorageOf(g_, at)) > lives_.Begin(g_.value(copy).def)) return false;
    copies.push_back(copy);
    written.insert(written.end(), chain.begin(), chain.end());
  }
  in_place_copies_.insert(copies.begin(), copies.end());
  in_place_chain_.insert(written.begin(), written.end());
  return true;
}

absl::StatusOr<bool> PlanDestinations::IsInPlace(NodeId n) {
  const Node& node = g_.node(n);
  if (in_place_regions_.contains(n)) {
    SMELT_RETURN_IF_ERROR(PlaceRegion(n, node.outputs[0], node.inputs[0]));
    return true;
  }
  if (!node.outputs.empty() && in_place_copies_.contains(node.outputs[0])) {
    SMELT_ASSIGN_OR_RETURN(const PlanLocation here, slots_.Locate(node.inputs[0]));
    slots_.SetLocation(node.outputs[0], here);
    slots_.Extend(here.slot, lives_.LastUse(node.outputs[0]));
    return true;
  }
  const auto found = node.outputs.empty() ? region_of_copy_.end() : region_of_copy_.find(node.outputs[0]);
  if (found == region_of_copy_.end()) return false;
  const Node& write = g_.node(found->second);
  SMELT_ASSIGN_OR_RETURN(const PlanLocation base, slots_.Locate(write.inputs[0]));
  if (!Writable(base.slot, write.outputs[0])) return false;
  SMELT_ASSIGN_OR_RETURN(const PlanLocation here, slots_.Locate(node.inputs[0]));
  slots_.SetLocation(node.outputs[0], here);
  slots_.Extend(here.slot, lives_.LastUse(node.outputs[0]));
  const std::vector<ValueId> chain = regions_.ChainOf(write.inputs[1]);
  in_place_chain_.insert(chain.begin(), chain.end());
  in_place_regions_.insert(found->second);
  return true;
}

absl::Status PlanDestinations::PlaceRegion(NodeId n, ValueId o, ValueId base) {
  SMELT_ASSIGN_OR_RETURN(PlanLocation from, slots_.Locate(base));
  const ValueId root = StorageOf(g_, base);
  // Memory that arguments share is rewritten in place: it has no other place.
  const bool grouped = slots_.grouped() && plan_.slots[from.slot]->kind == fb::SlotKind::ArgStorage;
  if (grouped || (lives_.LastUse(root) <= steps_.position() && Writable(from.slot, o))) {
    slots_.SetLocation(o, from);
    slots_.Extend(from.slot, lives_.LastUse(o));
    return absl::OkStatus();
  }
  copies_.Copy(from, Place(o), false, n);
  return absl::OkStatus();
}

bool PlanDestinations::Writable(int slot, ValueId result) const {
  const fb::SlotKind kind = plan_.slots[slot]->kind;
  if ((kind == fb::SlotKind::Arena || kind == fb::SlotKind::Heap) && !awaited_.contains(slot)) return true;
  return in_place_chain_.contains(result);
}

void PlanDestinations::ListWritten(fb::PlanT& plan) {
  for (const MutatedInput& m : c_.mutations.inputs) {
    if (!m.is_state) written_args_.insert(m.arg.value());
  }
  for (size_t i = 0; i < c_.duplicates.inner_of_outer.size(); ++i) {
    if (written_args_.contains(c_.duplicates.inner_of_outer[i].value()))
      plan.written_args.push_back(static_cast<int>(i));
  }
  for (int s : written_states_) plan.written_states.push_back(s);
  std::sort(plan.written_args.begin(), plan.written_args.end());
  std::sort(plan.written_states.begin(), plan.written_states.end());
}

}  // namespace smelt
