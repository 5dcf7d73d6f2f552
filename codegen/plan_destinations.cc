#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

absl::Status PlanBuilder::ChooseDestinations() {
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

void PlanBuilder::PlaceMutation(const MutatedMemory& m) {
  const bool is_state = IsState(m.memory);
  Location home;
  ValueId initial;
  if (is_state) {
    const int storage = StorageOf(m.memory);
    written_states_.insert(storage);
    b_.MarkMutated(storage);
    home.slot = StateSlot(storage);
    initial = StateInitial(storage);
  } else {
    initial = ArgumentOf(m.memory);
    home = locations_.at(initial);
    for (size_t k = 0; k < c_.overlaps.memory_of.size(); ++k) {
      if (c_.overlaps.memory_of[k] == m.memory) written_args_.insert(static_cast<int>(k));
    }
  }
  if (m.resized) return;  // the epilogue replaces the storage's contents
  if (g_.IsLive(initial)) home = locations_.at(initial);
  const std::vector<ValueId> chain = RegionChain(g_.outputs()[m.contents.value()]);
  const ValueId root = chain.back();
  if (root == initial || (is_state && ShowsWholeState(root, initial))) {
    in_place_chain_.insert(chain.begin(), chain.end());
    return;
  }
  // A whole new value, or one in another shape, is computed into the argument if nothing needs the old contents by
  // then.
  const ValueId owner = Root(root);
  if (!(is_state && SharedStorage(StorageOf(m.memory))) && IsWrittenThroughViews(root, initial, home)) {
    in_place_chain_.insert(chain.begin(), chain.end());
    return;
  }
  if (g_.IsParam(g_.value(owner).def) || g_.node(g_.value(owner).def).parent != g_.top() ||
      !g_.node(g_.value(owner).def).blocks.empty() || !CanPlace(owner) || destination_.contains(owner)) {
    return;
  }
  SymbolicGeometry whole = DefaultLayout(g_, owner);
  const SymbolicGeometry shown = owner == root ? whole : RegionGeometry(g_.node(g_.value(root).def));
  if (ShowsAPart(root, owner) || shown.dtype != whole.dtype || !SameLayout(shown, home.geometry)) return;
  whole.offset = home.geometry.offset;
  const int made = lives_.Begin(g_.value(owner).def);
  if (!g_.IsLive(initial) || LastUse(initial) > made) return;
  if (LastUse(initial) == made && !ReadsSameIndexOnly(g_.value(owner).def, initial, owner)) return;
  if (is_state && SharedStorage(StorageOf(m.memory))) return;
  destination_[owner] = {home.slot, whole};
  in_place_chain_.insert(chain.begin(), chain.end());
}

void PlanBuilder::PlaceFresh(int key, GraphOutputIndex contents) {
  if (fresh_slot_.contains(key)) return;
  const ValueId f = g_.outputs()[contents.value()];
  // Complex numbers are the view of their parts, so a node that writes the parts writes the result.
  ValueId whole = f;
  while (!g_.IsParam(g_.value(whole).def) && g_.node(g_.value(whole).def).op == op::kSmeltView) {
    const ValueId base = g_.node(g_.value(whole).def).inputs[0];
    if (ShowsAPart(whole, base)) break;
    whole = base;
  }
  std::vector<ValueId> chain = RegionChain(whole);
  ValueId owner = Root(chain.back());
  bool copied = false;
  // A write whose base is read later, or is an argument that keeps its contents, is made on a copy, which lies in the
  // result from then on.
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const NodeId write = g_.value(chain[i]).def;
    if (g_.node(write).parent != g_.top()) break;
    const ValueId base = Root(chain[i + 1]);
    const bool is_argument = g_.IsParam(g_.value(base).def);
    if (is_argument ? in_place_chain_.contains(chain[i]) : LastUse(base) <= lives_.Begin(write)) continue;
    owner = chain[i];
    chain.resize(i + 1);
    copied = !in_place_chain_.contains(owner);
    break;
  }
  const int slot = AddSlot(fb::SlotKind::Fresh, 0);
  fresh_slot_[key] = slot;
  fresh_contents_[key] = f;
  const NodeId def = g_.value(owner).def;
  if (g_.IsParam(def) || g_.node(def).parent != g_.top() || !CanPlace(owner) || destination_.contains(owner) ||
      ShowsAPart(chain.back(), owner) || OutlivesRewrite(chain)) {
    SetFreshBytes(slot, f);
    return;  // copied at the end
  }
  destination_[owner] = {slot, DefaultLayout(g_, owner)};
  SetFreshBytes(slot, owner);
  in_place_chain_.insert(chain.begin(), chain.end());
  if (copied) in_place_chain_.erase(owner);
}

// A state that shows a part of its storage is rewritten through a view of all of it.
bool PlanBuilder::ShowsWholeState(ValueId v, ValueId initial) const {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView || g_.node(def).inputs[0] != initial) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(def));
  const Weight& w = g_.weights[g_.input_infos[g_.value(initial).def_index].weight];
  return shown.dtype == w.dtype && shown.offset == Expr(0) && shown.sizes.size() == 1 && shown.strides[0] == Expr(1) &&
         shown.sizes[0] == Expr(g_.weight_storages[w.storage]->bytes() / ItemSize(w.dtype));
}

ValueId PlanBuilder::RegionBase(ValueId v) const { return RegionWritesOf(g_, v).base; }

std::vector<ValueId> PlanBuilder::RegionChain(ValueId v) const {
  std::vector<ValueId> chain = {v};
  for (ValueId base = RegionBase(v); g_.IsLive(base); base = RegionBase(base)) chain.push_back(base);
  return chain;
}

bool PlanBuilder::OutlivesRewrite(const std::vector<ValueId>& chain) const {
  for (size_t i = 1; i < chain.size(); ++i) {
    if (LastUse(Root(chain[i])) > lives_.Begin(g_.value(chain[i - 1]).def)) return true;
  }
  return false;
}

std::optional<int> PlanBuilder::HomeOf(ValueId v) const {
  const Graph* g = &g_;
  NodeId def = g_.value(v).def;
  if (g_.IsParam(def)) return std::nullopt;
  if (g_.node(def).op == op::kSmeltFusionGroup) {
    const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(g_.node(def).FindAttribute("Subgraph"));
    if (subgraph == nullptr) return std::nullopt;
    const ValueId inner = (*subgraph)->outputs()[g_.value(v).def_index];
    g = subgraph->get();
    def = g->value(inner).def;
    if (g->IsParam(def)) return std::nullopt;
  }
  const Attribute* home = g->node(def).FindAttribute("argument");
  if (home == nullptr) return std::nullopt;
  return static_cast<int>(std::get<int64_t>(*home));
}

bool PlanBuilder::ShowsAPart(ValueId v, ValueId owner) const {
  if (v == owner) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(g_.value(v).def));
  return shown.offset != Expr(0) || BytesOf(shown) != BytesOf(DefaultLayout(g_, owner));
}

int PlanBuilder::SharedKey(GraphOutputIndex contents) const {
  for (const OutputInfo& o : c_.outputs.outputs) {
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate && o.contents == contents) return o.memory.value();
  }
  return 1000000 + contents.value();
}

void PlanBuilder::SetFreshBytes(int slot, ValueId v) {
  const Expr bytes = BytesOf(DefaultLayout(g_, v));
  plan_->slots[slot]->bytes = b_.exprs.Add(bytes);
  if (IsLate(bytes)) late_slots_.insert(slot);
}

bool PlanBuilder::SharedStorage(int storage) const {
  int n = 0;
  for (const Weight& w : g_.weights) n += w.storage == storage;
  return n > 1;
}

ValueId PlanBuilder::StateInitial(int storage) const {
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

ValueId PlanBuilder::ArgumentOf(MemoryIndex m) const {
  for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
    if (c_.overlaps.memory_of[d] == m) return argument_value_.at(static_cast<int>(d));
  }
  SMELT_CHECK(false) << "an argument memory without arguments";
  return ValueId();
}

bool PlanBuilder::CanPlace(ValueId v) const {
  const Node& node = g_.node(g_.value(v).def);
  return !absl::StartsWith(node.op.name(), op::kPrimNamespace) && node.op != op::kSmeltView;
}

bool PlanBuilder::ReadsSameIndexOnly(NodeId n, ValueId source, ValueId target) {
  if (!IsKernelNode(g_, n)) return false;
  // A place written at one index must not be read at another.
  const SymbolicGeometry written = DefaultLayout(g_, target);
  if (Region::Strided(0, written.sizes, written.strides, ItemSize(written.dtype)).OverlapsItself(g_.symbols) != false)
    return false;
  auto lowered = Lower(n);
  if (!lowered.ok()) return false;
  const std::vector<bool> irregular = IrregularParams(lowered->spec);
  for (size_t i = 0; i < lowered->params.size(); ++i) {
    const LoweredKernel::Param& read = lowered->params[i];
    if (read.is_output || Root(read.value) != source) continue;
    for (size_t j = 0; j < lowered->params.size(); ++j) {
      const LoweredKernel::Param& write = lowered->params[j];
      if (!write.is_output || write.value != target) continue;
      if (irregular[i] || irregular[j] || !ReadsSameIndex(*lowered, i, j) || !ReadsFirst(lowered->spec, i, j))
        return false;
    }
  }
  return true;
}

}  // namespace smelt
