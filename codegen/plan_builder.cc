#include "smelt/codegen/plan_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

absl::StatusOr<PlanStats> PlanBuilder::Build() {
  plan_->variant = options_.variant;
  plan_->needs_exported_strides = options_.exported_strides;
  plan_->other_strides = options_.other_strides;
  plan_->result_rule = options_.result_rule;
  for (const auto& guard : options_.guards) b_.AddGuard(*plan_, guard.a, guard.op, guard.b, guard.message);
  b_.AddSizeGuards(*plan_);
  FindDataSymbols();
  BindInputs();
  SMELT_RETURN_IF_ERROR(ChooseDestinations());
  plan_->blocks.push_back(std::make_unique<fb::BlockT>());
  block_ = 0;
  SMELT_RETURN_IF_ERROR(EmitNumbersOfSizes());
  SMELT_RETURN_IF_ERROR(EmitBlock(g_.top()));
  position_ = Lives::kForever;
  SMELT_RETURN_IF_ERROR(EmitEpilogue());
  SMELT_RETURN_IF_ERROR(CheckIndicesFirst());
  PackSlots();
  plan_->num_registers = num_registers_;
  absl::flat_hash_set<int> distinct(used_kernels_.begin(), used_kernels_.end());
  stats_.distinct_kernels = static_cast<int>(distinct.size());
  b_.plans.push_back(std::move(plan_));
  return stats_;
}

void PlanBuilder::FindDataSymbols() {
  for (const auto& [symbol, reader] : ReadersOfSymbols(g_)) data_symbols_.insert(symbol);
}

bool PlanBuilder::IsLate(const Expr& e) const {
  if (data_symbols_.empty() || e.IsConstant()) return false;
  for (const std::string& s : e.Symbols()) {
    if (data_symbols_.contains(s)) return true;
  }
  return false;
}

bool PlanBuilder::IsLate(const Location& l) const {
  const auto late = [&](const Expr& e) { return IsLate(e); };
  return late_slots_.contains(l.slot) || late(l.geometry.offset) ||
         std::any_of(l.geometry.sizes.begin(), l.geometry.sizes.end(), late) ||
         std::any_of(l.geometry.strides.begin(), l.geometry.strides.end(), late);
}

bool PlanBuilder::IsRead(const Expr& e) const {
  if (data_symbols_.empty() || e.IsConstant()) return true;
  for (const std::string& s : e.Symbols()) {
    if (data_symbols_.contains(s) && !read_symbols_.contains(s)) return false;
  }
  return true;
}

void PlanBuilder::AllocateLate(int slot) {
  if (plan_->slots[slot]->kind != fb::SlotKind::Fresh || !late_slots_.contains(slot) ||
      !allocated_.insert(slot).second) {
    return;
  }
  EmitAlloc(slot);
}

void PlanBuilder::EmitAlloc(int slot) {
  auto step = std::make_unique<fb::AllocT>();
  step->slot = slot;
  Emit(std::move(step));
}

void PlanBuilder::BindInputs() {
  int distinct = 0;
  for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
    int members = 0;
    for (MemoryIndex i : c_.overlaps.memory_of) members += i.value() == m;
    grouped_ = grouped_ || members > 1;
  }
  // So is the memory of one argument of any strides: its type does not say which part of it there is.
  for (NodeId n : g_.AllNodes()) {
    for (ValueId o : g_.node(n).outputs) grouped_ = grouped_ || HomeOf(o).has_value();
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
      Location l;
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

int PlanBuilder::AddSlot(fb::SlotKind kind, int index) {
  auto s = std::make_unique<fb::SlotT>();
  s->kind = kind;
  s->index = index;
  plan_->slots.push_back(std::move(s));
  arena_buffer_.push_back(-1);
  return static_cast<int>(plan_->slots.size()) - 1;
}

int PlanBuilder::ArgSlot(int distinct) {
  auto [it, fresh] = arg_slots_.try_emplace(distinct, -1);
  if (fresh) it->second = AddSlot(fb::SlotKind::ArgStorage, distinct);
  return it->second;
}

int PlanBuilder::StateSlot(int storage) {
  auto [it, fresh] = state_slots_.try_emplace(storage, -1);
  if (fresh) it->second = AddSlot(fb::SlotKind::StateStorage, storage);
  return it->second;
}

int PlanBuilder::NewArena(const SymbolicGeometry& geometry, int begin, int end) {
  const Expr bytes = BytesOf(geometry);
  if (IsLate(bytes)) {
    const int slot = AddSlot(fb::SlotKind::Heap, 0);
    plan_->slots[slot]->bytes = b_.exprs.Add(bytes);
    EmitAlloc(slot);
    return slot;
  }
  const int slot = AddSlot(fb::SlotKind::Arena, 0);
  arena_buffer_[slot] = static_cast<int>(buffers_.size());
  buffers_.push_back({bytes, begin, std::max(begin, end)});
  return slot;
}

void PlanBuilder::Extend(int slot, int end) {
  if (arena_buffer_[slot] >= 0) {
    ArenaBuffer& b = buffers_[arena_buffer_[slot]];
    b.end = std::max(b.end, end);
  }
}

void PlanBuilder::PackSlots() {
  const ArenaLayout layout = PackArena(buffers_);
  for (size_t s = 0; s < plan_->slots.size(); ++s) {
    if (arena_buffer_[s] < 0) continue;
    plan_->slots[s]->offset = b_.exprs.Add(layout.offsets[arena_buffer_[s]]);
    plan_->slots[s]->bytes = b_.exprs.Add(buffers_[arena_buffer_[s]].bytes);
  }
  plan_->arena_bytes = b_.exprs.Add(layout.bytes);
}

SymbolicGeometry PlanBuilder::LayoutOf(ValueId v) {
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def) && g_.node(def).op == op::kSmeltView) return RegionGeometry(g_.node(def));
  if (auto it = locations_.find(v); it != locations_.end()) return it->second.geometry;
  const ValueId base = RegionBase(v);
  if (g_.IsLive(base)) return LayoutOf(base);
  return DefaultLayout(g_, v);
}

absl::StatusOr<PlanBuilder::Location> PlanBuilder::Locate(ValueId v) {
  if (auto it = locations_.find(v); it != locations_.end()) return it->second;
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def) && g_.node(def).op == op::kSmeltView) {
    SMELT_ASSIGN_OR_RETURN(Location l, Locate(g_.node(def).inputs[0]));
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
      Location l;
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

PlanBuilder::Location PlanBuilder::Place(ValueId o) {
  Location l;
  if (auto it = destination_.find(o); it != destination_.end()) {
    l = it->second;
    AllocateLate(l.slot);
  } else {
    l.geometry = DefaultLayout(g_, o);
    l.slot = NewArena(l.geometry, position_, LastUse(o));
  }
  locations_[o] = l;
  return l;
}

int PlanBuilder::AddView(const Location& l) {
  auto v = std::make_unique<fb::ViewT>();
  v->slot = l.slot;
  v->dtype = static_cast<uint8_t>(l.geometry.dtype);
  v->sizes = b_.exprs.AddAll(l.geometry.sizes);
  v->strides = b_.exprs.AddAll(l.geometry.strides);
  v->offset = b_.exprs.Add(l.geometry.offset);
  plan_->views.push_back(std::move(v));
  return static_cast<int>(plan_->views.size()) - 1;
}

absl::StatusOr<int> PlanBuilder::ViewOf(ValueId v) {
  SMELT_ASSIGN_OR_RETURN(Location l, Locate(v));
  return AddView(l);
}

Expr PlanBuilder::BytesOf(const SymbolicGeometry& g) {
  Expr last = 0, n = 1;
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    last = last + (g.sizes[d] - 1) * g.strides[d];
    n = n * g.sizes[d];
  }
  // The span of a dense tensor is its number of elements. Written like this, an empty tensor has no bytes.
  std::vector<Expr> contiguous = ContiguousStrides(g.sizes);
  const Expr elements = (contiguous == g.strides || last + 1 == n) ? n : Max(last + 1 + g.offset, Expr(0));
  return elements * ItemSize(g.dtype);
}

bool PlanBuilder::SameLayout(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.strides[d] != b.strides[d] && a.sizes[d] != Expr(1)) return false;
  }
  return true;
}

void PlanBuilder::EmitCopy(const Location& from, const Location& to, bool copy_back, NodeId source) {
  auto c = std::make_unique<fb::CopyT>();
  c->src = AddView(from);
  c->dst = AddView(to);
  c->copy_back = copy_back;
  Emit(std::move(c), source);
  ++stats_.copies;
}

PlanBuilder::Location PlanBuilder::Saved(const Location& from) {
  Location saved;
  saved.geometry = {from.geometry.dtype, from.geometry.sizes, ContiguousStrides(from.geometry.sizes), 0};
  saved.slot = NewArena(saved.geometry, position_, position_);
  EmitCopy(from, saved);
  return saved;
}

void PlanBuilder::ParallelCopies(const std::vector<LocatedCopy>& copies, bool copy_back) {
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
      EmitCopy(c.from, c.to, copy_back);
      stop_reading(c.from.slot);
    }
  };
  emit_ready();
  for (size_t i = 0; i < left.size() && ready.size() < left.size(); ++i) {
    // It was not ready: others read the memory that it writes, and they wait too.
    if (readers[left[i].to.slot] <= 0) continue;
    const int slot = left[i].from.slot;
    left[i].from = Saved(left[i].from);
    readers[left[i].from.slot] = 1;
    stop_reading(slot);
    emit_ready();
  }
}

}  // namespace smelt
