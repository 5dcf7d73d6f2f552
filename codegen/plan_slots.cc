#include "smelt/codegen/plan_slots.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

const int* PlanSlots::ScalarArg(ValueId v) const {
  const auto it = scalar_args_.find(v);
  return it == scalar_args_.end() ? nullptr : &it->second;
}

const PlanLocation* PlanSlots::Find(ValueId v) const {
  const auto it = locations_.find(v);
  return it == locations_.end() ? nullptr : &it->second;
}

void PlanSlots::FindDataSymbols() {
  for (const auto& [symbol, reader] : ReadersOfSymbols(g_)) data_symbols_.insert(symbol);
}

bool PlanSlots::IsLate(const Expr& e) const {
  if (data_symbols_.empty() || e.IsConstant()) return false;
  for (const std::string& s : e.Symbols()) {
    if (data_symbols_.contains(s)) return true;
  }
  return false;
}

bool PlanSlots::IsLate(const PlanLocation& l) const {
  const auto late = [&](const Expr& e) { return IsLate(e); };
  return late_slots_.contains(l.slot) || late(l.geometry.offset) ||
         std::any_of(l.geometry.sizes.begin(), l.geometry.sizes.end(), late) ||
         std::any_of(l.geometry.strides.begin(), l.geometry.strides.end(), late);
}

bool PlanSlots::IsRead(const Expr& e) const {
  if (data_symbols_.empty() || e.IsConstant()) return true;
  for (const std::string& s : e.Symbols()) {
    if (data_symbols_.contains(s) && !read_symbols_.contains(s)) return false;
  }
  return true;
}

void PlanSlots::AllocateLate(int slot) {
  if (plan_.slots[slot]->kind != fb::SlotKind::Fresh || !late_slots_.contains(slot) ||
      !allocated_.insert(slot).second) {
    return;
  }
  steps_.Allocate(slot);
}

void PlanSlots::BindInputs() {
  int distinct = 0;
  for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
    int members = 0;
    for (MemoryIndex i : c_.overlaps.memory_of) members += i.value() == m;
    grouped_ = grouped_ || members > 1;
  }
  // So is the memory of one argument of any strides: its type does not say which part of it there is.
  for (NodeId n : g_.AllNodes()) {
    for (ValueId o : g_.node(n).outputs) grouped_ = grouped_ || regions_.HomeOf(o).has_value();
  }
  caller_of_distinct_.assign(c_.duplicates.inner_of_outer.size(), -1);
  for (size_t i = 0; i < c_.duplicates.inner_of_outer.size(); ++i) {
    int& caller = caller_of_distinct_[c_.duplicates.inner_of_outer[i].value()];
    if (caller < 0) caller = static_cast<int>(i);
  }
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    const ValueId v = g_.inputs()[i];
    const InputInfo& info = g_.input_infos[i];
    const Value& value = g_.value(v);
    if (info.kind == InputInfo::Kind::kWeight) {
      const Weight& w = g_.weights[info.weight];
      PlanLocation l;
      l.slot = StateSlot(w.storage);
      l.geometry.dtype = w.dtype;
      l.geometry.sizes.assign(w.geometry.sizes.begin(), w.geometry.sizes.end());
      l.geometry.strides.assign(w.geometry.strides.begin(), w.geometry.strides.end());
      l.geometry.offset = w.geometry.offset;
      locations_[v] = std::move(l);
      continue;
    }
    const int d = distinct++;
    if (value.type.IsTensor()) {
      locations_[v] = {ArgSlot(d), DefaultLayout(g_, v)};
      argument_value_[d] = v;
    } else {
      scalar_args_[v] = caller_of_distinct_[d];
    }
  }
}

int PlanSlots::AddSlot(fb::SlotKind kind, int index) {
  auto s = std::make_unique<fb::SlotT>();
  s->kind = kind;
  s->index = index;
  plan_.slots.push_back(std::move(s));
  arena_buffer_.push_back(-1);
  return static_cast<int>(plan_.slots.size()) - 1;
}

int PlanSlots::ArgSlot(int distinct) {
  auto [it, fresh] = arg_slots_.try_emplace(distinct, -1);
  if (fresh) it->second = AddSlot(fb::SlotKind::ArgStorage, distinct);
  return it->second;
}

int PlanSlots::StateSlot(int storage) {
  auto [it, fresh] = state_slots_.try_emplace(storage, -1);
  if (fresh) it->second = AddSlot(fb::SlotKind::StateStorage, storage);
  return it->second;
}

int PlanSlots::NewArena(const SymbolicGeometry& geometry, int begin, int end) {
  const Expr bytes = BytesOf(geometry);
  if (IsLate(bytes)) {
    const int slot = AddSlot(fb::SlotKind::Heap, 0);
    plan_.slots[slot]->bytes = b_.exprs.Add(bytes);
    steps_.Allocate(slot);
    return slot;
  }
  const int slot = AddSlot(fb::SlotKind::Arena, 0);
  arena_buffer_[slot] = static_cast<int>(buffers_.size());
  buffers_.push_back({bytes, begin, std::max(begin, end)});
  return slot;
}

void PlanSlots::Extend(int slot, int end) {
  if (arena_buffer_[slot] >= 0) {
    ArenaBuffer& b = buffers_[arena_buffer_[slot]];
    b.end = std::max(b.end, end);
  }
}

void PlanSlots::Pack() {
  const ArenaLayout layout = PackArena(buffers_);
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (arena_buffer_[s] < 0) continue;
    plan_.slots[s]->offset = b_.exprs.Add(layout.offsets[arena_buffer_[s]]);
    plan_.slots[s]->bytes = b_.exprs.Add(buffers_[arena_buffer_[s]].bytes);
  }
  plan_.arena_bytes = b_.exprs.Add(layout.bytes);
}

SymbolicGeometry PlanSlots::LayoutOf(ValueId v) {
  if (const NodeId view = ViewNodeOf(g_, v); view.valid()) return RegionGeometry(g_.node(view));
  if (auto it = locations_.find(v); it != locations_.end()) return it->second.geometry;
  const ValueId base = regions_.BaseOf(v);
  if (g_.IsLive(base)) return LayoutOf(base);
  return DefaultLayout(g_, v);
}

absl::StatusOr<PlanLocation> PlanSlots::Locate(ValueId v) {
  if (auto it = locations_.find(v); it != locations_.end()) return it->second;
  const NodeId def = g_.value(v).def;
  if (ViewNodeOf(g_, v).valid()) {
    SMELT_ASSIGN_OR_RETURN(PlanLocation l, Locate(g_.node(def).inputs[0]));
    l.geometry = RegionGeometry(g_.node(def));
    if (const Attribute* home = g_.node(def).FindAttribute("argument")) {
      const int d = static_cast<int>(std::get<int64_t>(*home));
      l.slot = ArgSlot(d);
    }
    return l;
  }
  if (!g_.IsParam(def) && g_.node(def).op == op::kPrimConstant) {
    const auto* t = std::get_if<Tensor>(g_.node(def).FindAttribute("value"));
    if (t != nullptr) {
      PlanLocation l;
      Tensor dense = t->Clone();
      l.slot = StateSlot(b_.AddConstant(dense));
      l.geometry = DefaultLayout(g_, v);
      l.geometry.strides.clear();
      for (const Expr& s : ContiguousStrides(l.geometry.sizes)) l.geometry.strides.push_back(s);
      locations_[v] = l;
      return l;
    }
  }
  return absl::InternalError(absl::StrCat("%", g_.value(v).name, " has no place in the plan"));
}

int PlanSlots::AddView(const PlanLocation& l) {
  auto v = std::make_unique<fb::ViewT>();
  v->slot = l.slot;
  v->dtype = static_cast<uint8_t>(l.geometry.dtype);
  v->sizes = b_.exprs.AddAll(l.geometry.sizes);
  v->strides = b_.exprs.AddAll(l.geometry.strides);
  v->offset = b_.exprs.Add(l.geometry.offset);
  plan_.views.push_back(std::move(v));
  return static_cast<int>(plan_.views.size()) - 1;
}

absl::StatusOr<int> PlanSlots::ViewOf(ValueId v) {
  SMELT_ASSIGN_OR_RETURN(PlanLocation l, Locate(v));
  return AddView(l);
}

void PlanSlots::SetFreshBytes(int slot, ValueId v) {
  const Expr bytes = BytesOf(DefaultLayout(g_, v));
  plan_.slots[slot]->bytes = b_.exprs.Add(bytes);
  if (IsLate(bytes)) late_slots_.insert(slot);
}

bool PlanSlots::SharedStorage(int storage) const {
  int n = 0;
  for (const Weight& w : g_.weights) n += w.storage == storage;
  return n > 1;
}

ValueId PlanSlots::StateInitial(int storage) const {
  // The weight for the storage's contents is the one that the graph rewrites; any weight of the storage has its slot.
  ValueId widest;
  int64_t bytes = -1;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (g_.input_infos[i].kind != InputInfo::Kind::kWeight) continue;
    const Weight& w = g_.weights[g_.input_infos[i].weight];
    if (w.storage != storage) continue;
    const auto span = w.geometry.Span();
    if ((span.second - span.first) * ItemSize(w.dtype) > bytes) {
      bytes = (span.second - span.first) * ItemSize(w.dtype);
      widest = g_.inputs()[i];
    }
  }
  return widest;
}

ValueId PlanSlots::ArgumentOf(MemoryIndex m) const {
  for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
    if (c_.overlaps.memory_of[d] == m) return argument_value_.at(static_cast<int>(d));
  }
  SMELT_CHECK(false) << "an argument memory without arguments";
  return ValueId();
}

bool PlanSlots::MayShareMemory(int slot, int other) const {
  const fb::SlotT &a = *plan_.slots[slot], &b = *plan_.slots[other];
  return a.kind == fb::SlotKind::ArgStorage && b.kind == fb::SlotKind::ArgStorage &&
         c_.overlaps.memory_of[a.index] == c_.overlaps.memory_of[b.index];
}

PlanLocation PlanSlots::MemoryHome(MemoryIndex m) {
  if (!IsState(m)) return locations_.at(ArgumentOf(m));
  b_.MarkMutated(StorageOf(m));
  return {StateSlot(StorageOf(m)), {}};
}

}  // namespace smelt
