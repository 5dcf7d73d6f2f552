#include "smelt/alias/node_effects.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

bool AnyArgument(const OpEffects& op, uint16_t bits) {
  return (op.more_args & bits) != 0 ||
         std::any_of(op.args.begin(), op.args.end(), [&](uint16_t b) { return b & bits; });
}

OpEffects Effects::EffectsOf(const Node& node) {
  const OpEffects& op = GetOpEffects(node.op);
  if (op.kind == EffectKind::kSubgraph || op.kind == EffectKind::kFork) {
    const Attribute* a = node.FindAttribute("Subgraph");
    const std::shared_ptr<Graph>* sub = a != nullptr ? std::get_if<std::shared_ptr<Graph>>(a) : nullptr;
    if (sub != nullptr && *sub != nullptr) {
      OpEffects e = SummaryOf(**sub);
      e.side_effect |= op.kind == EffectKind::kFork;
      if (op.kind == EffectKind::kFork && e.kind != EffectKind::kUnknown && e.kind != EffectKind::kCall) {
        // The results are the future's.
        ResultEffects future;
        future.fresh = true;
        for (const ResultEffects& r : e.results) {
          future.elements_self |= r.self | r.elements_self;
          future.elements_view |= r.view | r.elements_view;
          future.elements_element |= r.element | r.elements_element;
          future.elements_element_view |= r.element_view | r.elements_element_view;
          future.elements_fresh |= r.fresh || r.elements_fresh;
          future.elements_unknown |= r.unknown || r.elements_unknown;
        }
        e.results = {future};
        e.kind = EffectKind::kFork;
      }
      return e;
    }
    if (op.kind == EffectKind::kFork) return GetOpEffects(OpName::Get(op::kPrimPythonOp));
    return op;
  }
  return NodeEffects(s_.g, node, op, !options_distrusted);
}

const OpEffects& Effects::EffectsOf(const Node& node, OpEffects* made) {
  const OpEffects& op = GetOpEffects(node.op);
  const bool varies =
      op.by != OpEffects::By::kNothing || op.kind == EffectKind::kSubgraph || op.kind == EffectKind::kFork;
  return varies ? *made = EffectsOf(node) : op;
}

const OpEffects& Effects::SummaryOf(Graph& sub) {
  auto it = summaries.find(&sub);
  if (it != summaries.end()) return *it->second;
  // Most groups only compute: their results are new.
  bool computes = true;
  for (NodeId n = sub.block(sub.top()).first; n.valid() && computes; n = sub.node(n).next) {
    computes = GetOpEffects(sub.node(n).op).pure && sub.node(n).blocks.empty();
  }
  for (ValueId v : sub.outputs())
    computes = computes && IsTensorType(sub.value(v).type) && !sub.IsParam(sub.value(v).def);
  if (computes) {
    auto made = std::make_unique<OpEffects>();
    made->more_args = kReadsData | kReadsGeometry | kReadsElements | kReadsContainer;
    made->pure = true;
    for (size_t i = 0; i < sub.outputs().size(); ++i) {
      ResultEffects r;
      r.fresh = true;
      // The same value twice is the same tensor.
      for (size_t j = 0; j < i; ++j) {
        if (sub.outputs()[j] == sub.outputs()[i]) r.overlaps_results |= 1u << std::min<size_t>(j, 31);
      }
      made->results.push_back(r);
    }
    return *(summaries[&sub] = std::move(made));
  }
  auto result = std::make_unique<OpEffects>();
  OpEffects& e = *result;
  if (!summarising_.insert(&sub).second) {
    e = GetOpEffects(OpName::Get(op::kPrimPythonOp));
    return *(summaries[&sub] = std::move(result));
  }
  AliasDb::State inner(sub, AliasDb::Options());
  inner.effects.summarising_ = summarising_;
  inner.solver.Build();
  const size_t num_params = sub.inputs().size();
  auto param_of = [&](uint32_t object, bool* inside) -> int {
    *inside = false;
    while (inner.objects[object].kind == ObjectKind::kElement) {
      *inside = true;
      object = inner.objects[object].parent;
    }
    if (inner.objects[object].kind != ObjectKind::kInput) return -1;
    return static_cast<int>(sub.value(inner.objects[object].def).def_index);
  };
  bool opaque = num_params > 64, anything = false;
  // If results hold new containers in containers, or what the arguments reach is stored, no result can be distinguished
  // from another, nor from the contents of the arguments.
  bool deep = false;
  e.args.assign(num_params, kReadsData | kReadsGeometry | kReadsElements | kReadsContainer);
  for (ValueId out : sub.outputs()) {
    ResultEffects r;
    bool tensor = IsTensorType(sub.value(out).type);
    SetId points_to = inner.records.PointsTo(out);
    auto describe = [&](Ref ref, bool nested) {
      const Object& o = inner.objects[ObjectOf(ref)];
      bool inside;
      if (o.kind == ObjectKind::kSummary || o.kind == ObjectKind::kWeight) {
        opaque = true;
        return;
      }
      if (ObjectOf(ref) == kUnknown) {  // of what the arguments reach, or was put there
        deep = true;
        return;
      }
      if (int p = param_of(ObjectOf(ref), &inside); p >= 0) {
        uint64_t bit = uint64_t{1} << p;
        (nested ? (inside ? r.elements_element : r.elements_self) : (inside ? r.element : r.self)) |= bit;
        return;
      }
      deep |= nested && o.container;
      (nested ? r.elements_fresh : r.fresh) = true;
      inner.sets.ForEach(o.storage, [&](Ref s) {
        if (int p = param_of(ObjectOf(s), &inside); p >= 0) {
          uint64_t bit = uint64_t{1} << p;
          (nested ? (inside ? r.elements_element_view : r.elements_view) : (inside ? r.element_view : r.view)) |= bit;
        } else if (ObjectOf(s) == kUnknown) {
          deep = true;
        }
      });
    };
    inner.sets.ForEach(points_to, [&](Ref ref) { describe(ref, false); });
    if (!tensor) {
      SetId reach = inner.containers.Reach(points_to);
      inner.sets.ForEach(reach, [&](Ref ref) {
        if (!inner.sets.Contains(points_to, ref)) describe(ref, true);
      });
      // (y, y) or (y, y.t()).
      r.elements_overlap = r.elements_fresh;
    }
    e.results.push_back(r);
  }
  // The new memory that two results have in common.
  const auto is_new = [&](Ref r) {
    bool inside;
    return param_of(ObjectOf(r), &inside) < 0;
  };
  std::vector<absl::InlinedVector<Ref, 8>> made;
  for (ValueId out : sub.outputs()) {
    absl::InlinedVector<Ref, 8> of_this;
    for (Ref r : inner.sets.Refs(inner.containers.Reach(inner.records.PointsTo(out)))) {
      const Object& o = inner.objects[ObjectOf(r)];
      if (o.container && is_new(r)) of_this.push_back(r);
      inner.sets.ForEach(o.storage, [&](Ref s) {
        if (is_new(s)) of_this.push_back(s);
      });
    }
    const size_t k = made.size();
    for (size_t j = 0; j < k; ++j) {
      const bool common = absl::c_any_of(of_this, [&](Ref r) {
        return absl::c_any_of(made[j], [&](Ref s) { return inner.queries.overlaps.StoragesMayOverlap(r, s, true); });
      });
      if (!common) continue;
      const bool tensors = IsTensorType(sub.value(out).type) && IsTensorType(sub.value(sub.outputs()[j]).type);
      if (tensors) e.results[k].overlaps_results |= 1u << std::min<size_t>(j, 31);
      deep |= !tensors || j > 31;
    }
    made.push_back(std::move(of_this));
  }
  for (NodeId n : sub.AllNodes()) {
    // A handle that moves to other memory is followed in one graph only.
    opaque |= (inner.records.RecordOf(n).flags & NodeRecord::kMovesStorage) != 0;
    EffectKind kind = GetOpEffects(sub.node(n).op).kind;
    if (kind == EffectKind::kCall) kind = inner.effects.EffectsOf(sub.node(n)).kind;
    if (kind == EffectKind::kCall || kind == EffectKind::kUnknown) opaque = true;
    if (kind == EffectKind::kUnknown) anything = true;
    if (kind == EffectKind::kSubgraph || kind == EffectKind::kFork) {
      const EffectKind inside = inner.effects.EffectsOf(sub.node(n)).kind;
      if (inside == EffectKind::kCall || inside == EffectKind::kUnknown) opaque = true;
      if (inside == EffectKind::kUnknown) anything = true;
    }
    for (uint32_t i = inner.records.RecordOf(n).first_write; i != 0; i = inner.accesses.writes.at(i).node_next) {
      const Access w = inner.accesses.writes.at(i);
      inner.sets.ForEach(w.storages, [&](Ref storage) {
        const uint32_t s = ObjectOf(storage);
        e.random |= s == kRandom;
        e.side_effect |= s == kWorld;
        if (s == kRandom || s == kWorld) return;
        if (s == kUnknown) opaque = true;
        bool inside;
        int p = param_of(s, &inside);
        if (p < 0) return;
        e.writes = true;
        const bool container = (w.bits & kOfContainer) != 0;
        if (w.bits & kGeometryWrite) e.args[p] |= inside ? kReshapesElements : kWritesGeometry;
        if (w.bits & kWrite) {
          e.args[p] |= container ? kWritesContainer | kShufflesContainer : inside ? kWritesElements : kWritesData;
          deep |= container;
        }
      });
    }
  }
  summarising_.erase(&sub);
  if (deep) {
    e.kind = EffectKind::kCall;
    e.results.clear();
    for (uint16_t& a : e.args) a |= kEscapes;
    e.writes = true;
  }
  e.pure = !deep && !opaque && !e.writes;
  for (size_t k = 0; k < e.results.size(); ++k) {
    const ResultEffects& r = e.results[k];
    e.pure = e.pure && (r.self | r.view | r.element | r.element_view) == 0 && !r.unknown &&
             sub.value(sub.outputs()[k]).type.IsTensor();
  }
  // Unknown code reaches what the arguments reach, unless it is Python's.
  if (opaque) e = GetOpEffects(OpName::Get(anything ? op::kPrimPythonOp : op::kPrimCallFunction));
  return *(summaries[&sub] = std::move(result));
}

int32_t Effects::AttributeSlot(const Node& node) {
  const Attribute* a = node.FindAttribute("name");
  const std::string* name = a != nullptr ? std::get_if<std::string>(a) : nullptr;
  if (name == nullptr) return kAnySlot;
  return attribute_slots.try_emplace(*name, static_cast<int32_t>(attribute_slots.size())).first->second;
}

bool Effects::OnlyComputes(NodeId n) {
  const Node& node = s_.g.node(n);
  if (GetOpEffects(node.op).kind != EffectKind::kSubgraph) return false;
  const Attribute* a = node.FindAttribute("Subgraph");
  const std::shared_ptr<Graph>* sub = a != nullptr ? std::get_if<std::shared_ptr<Graph>>(a) : nullptr;
  return sub != nullptr && *sub != nullptr && SummaryOf(**sub).pure;
}

}  // namespace smelt::alias_internal
