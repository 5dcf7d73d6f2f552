#include "smelt/core/op/storage_of.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "smelt/core/op/effects.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

bool IsSingle(uint64_t mask) { return mask != 0 && (mask & (mask - 1)) == 0; }

// Returns whether no reader of a list can change which elements it has, or give it another name.
bool KeepsElements(const Graph& g, ValueId list) {
  const auto& uses = g.value(list).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (g.IsReturn(use.user)) return false;
    const OpEffects& effects = GetOpEffects(g.node(use.user).op);
    if (effects.kind == EffectKind::kListUnpack) return true;
    if (effects.kind != EffectKind::kGeneric || use.index >= 64) return false;
    if ((effects.arg(use.index) & (kWritesContainer | kStored | kEscapes)) != 0) return false;
    return std::none_of(effects.results.begin(), effects.results.end(),
                        [&](const ResultEffects& r) { return ((r.self | r.elements_self) >> use.index & 1) != 0; });
  });
}

}  // namespace

NodeId ViewNodeOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  return g.IsParam(def) || g.node(def).op != op::kSmeltView ? NodeId() : def;
}

ValueId StorageOf(const Graph& g, ValueId v) {
  while (true) {
    const NodeId view = ViewNodeOf(g, v);
    if (!view.valid()) return v;
    v = g.node(view).inputs[0];
  }
}

StorageSource StorageStep(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (g.IsParam(def)) return {StorageSource::kOwn};
  const OpEffects effects = NodeEffects(g, def);
  if (effects.kind == EffectKind::kConstant) return {StorageSource::kOwn};
  if (effects.kind == EffectKind::kListUnpack) {
    const ValueId list = g.node(def).inputs[0];
    return KeepsElements(g, list) ? StorageSource{StorageSource::kOperand, list} : StorageSource{};
  }
  if (effects.kind != EffectKind::kGeneric || effects.geometry_from >= 0 || effects.storage_unknown) return {};
  const ResultEffects& r = effects.result(g.value(v).def_index);
  if (g.value(v).type.kind() == TypeKind::kList && !r.partition) return {};
  if (r.unknown || (r.element | r.element_view) != 0) return {};
  const uint64_t from = r.self | r.view | r.elements_view;
  if (from == 0) return {StorageSource::kOwn};
  const auto& inputs = g.node(def).inputs;
  // The flag that a type check returns after the values has no operand of its own.
  const size_t operand = IsSingle(from) ? static_cast<size_t>(__builtin_ctzll(from)) : inputs.size();
  if (operand >= inputs.size()) return {};
  return {StorageSource::kOperand, inputs[operand], from == r.self && !r.fresh && r.view == 0};
}

ValueId SameTensor(const Graph& g, ValueId v) {
  while (true) {
    const StorageSource source = StorageStep(g, v);
    if (!source.same_tensor) return v;
    v = source.operand;
  }
}

}  // namespace smelt
