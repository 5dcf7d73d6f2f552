#include "smelt/alias/absence.h"

#include <algorithm>
#include <vector>

#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

// A long chain is not followed to its start.
ValueId Absence::Unrefined(ValueId v) {
  constexpr int kLongChain = 64;
  for (int k = 0; k < kLongChain; ++k) {
    const Node& n = s_.g.node(s_.g.value(v).def);
    const std::string& name = n.op.name();
    if (name != op::kPrimUncheckedCast && name != op::kPrimUncheckedUnwrapOptional &&
        name != op::kPrivateUnwrapOptional) {
      return v;
    }
    ++s_.steps;
    v = n.inputs[0];
  }
  return v;
}

bool Absence::MayBeNothing(ValueId v) {
  if (v.index >= known_.size()) known_.resize(std::max<size_t>(v.index + 1, s_.records.values.size()));
  Known& known = known_[v.index];
  if (known.edits != s_.changes.edits || known.generation != v.generation)
    known = {s_.changes.edits, v.generation, FindNothing(v)};
  return known.may_be;
}

// Follows branches, loops and refinements back from v.
bool Absence::FindNothing(ValueId v) {
  constexpr size_t kMany = 64;
  absl::InlinedVector<ValueId, 8> todo = {v};
  absl::flat_hash_set<uint32_t> seen = {v.index};
  for (size_t at = 0; at < todo.size(); ++at) {
    ++s_.steps;
    if (at == kMany) return true;
    const auto comes_from = [&](ValueId x) {
      x = Unrefined(x);
      if (seen.insert(x.index).second) todo.push_back(x);
      return s_.records.PointsTo(x) != 0;
    };
    const ValueId x = todo[at];
    const Value& value = s_.g.value(x);
    const NodeId owner = s_.g.IsParam(value.def) ? s_.g.block(s_.g.node(value.def).parent).owner : value.def;
    if (!owner.valid()) continue;  // the caller's: nothing is what it is then
    const Node& n = s_.g.node(owner);
    const EffectKind kind = GetOpEffects(n.op).kind;
    if (kind == EffectKind::kIf || kind == EffectKind::kCond) {
      if (owner != value.def) return true;
      for (BlockId b : n.blocks) {
        if (value.def_index >= s_.g.results(b).size() || !comes_from(s_.g.results(b)[value.def_index])) return true;
      }
    } else if (IsLoopKind(kind)) {
      if (kind == EffectKind::kWhile || n.blocks.empty()) return true;
      const size_t k = value.def_index - (owner != value.def ? 1 : 0);
      const absl::Span<const ValueId> results = s_.g.results(n.blocks[0]);
      if (k + 2 >= n.inputs.size() || k + 1 >= results.size()) return true;
      if (!comes_from(n.inputs[k + 2]) || !comes_from(results[k + 1])) return true;
    } else {
      // A container that holds more than what was put there may have no such element.
      const auto is_blurred = [&](Ref r) {
        const Contents* const c = s_.containers.FindContents(s_.objects.Find(ObjectOf(r)));
        return c != nullptr && c->blurred;
      };
      for (ValueId from : n.inputs) {
        if (!MayBeContainer(s_.g.value(from).type)) continue;
        const absl::InlinedVector<Ref, 8> holders = s_.sets.Refs(s_.records.PointsTo(from));
        if (std::any_of(holders.begin(), holders.end(), is_blurred)) return true;
      }
      const SetId p = s_.records.PointsTo(x);
      const TypeKind type = value.type.kind();
      const bool open = type == TypeKind::kOptional || type == TypeKind::kAny || type == TypeKind::kUnion;
      const uint32_t own = x.index < s_.records.values.size() ? s_.records.values[x.index].own : 0;
      if (open && !(own != 0 && p == SetPool::Single(MakeRef(own)))) return true;
    }
  }
  return false;
}

}  // namespace smelt::alias_internal
