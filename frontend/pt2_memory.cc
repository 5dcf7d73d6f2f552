#include "smelt/frontend/pt2_memory.h"

#include "smelt/core/op/effects.h"

namespace smelt {
namespace pt2_internal {

Memory MemoryOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (g.IsParam(def)) return {Memory::kOwn};
  const OpEffects effects = NodeEffects(g, def);
  if (effects.kind == EffectKind::kListUnpack)  // pieces of a tensor: split, chunk, unbind
    return {Memory::kOperands, g.node(def).inputs[0]};
  // PyTorch refuses to export a model whose results share memory with its inputs in this way.
  if (g.node(def).op.name() == "smelt::cond" || g.node(def).op.name() == "smelt::while_loop") return {Memory::kOwn};
  if (effects.kind != EffectKind::kGeneric || effects.geometry_from >= 0 || effects.storage_unknown) return {};
  const ResultEffects& r = effects.result(g.value(v).def_index);
  if (g.value(v).type.kind() == TypeKind::kList && !r.partition) return {};
  const uint64_t from = r.self | r.view | r.elements_view;
  if (r.unknown || (r.element | r.element_view) != 0 || (from & (from - 1)) != 0) return {};
  if (from == 0) return {Memory::kOwn};
  return {Memory::kOperands, g.node(def).inputs[__builtin_ctzll(from)]};
}

}  // namespace pt2_internal
}  // namespace smelt
