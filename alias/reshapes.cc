#include "smelt/alias/reshapes.h"

#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Reshapes::Clear() {
  geometry_changes.clear();
  geometry_writers = 0;
}

bool Reshapes::IsChanged(uint32_t object) const {
  return geometry_changes.contains(s_.objects.HandleKey(object)) ||
         ((s_.objects[object].external || s_.objects[object].escaped) && geometry_changes.contains(kUnknown));
}

int64_t Reshapes::bytes() const {
  int64_t out = static_cast<int64_t>(geometry_changes.capacity() * (sizeof(*geometry_changes.begin()) + 1));
  for (const auto& [key, by] : geometry_changes) out += by.bytes();
  return out;
}

// Recorded once per node, whichever arguments and paths reach the handle: its accesses are all forgotten together.
void Reshapes::AddGeometryChange(uint32_t object, NodeId n) {
  s_.changes.dirty = s_.changes.geometry = true;
  geometry_changes[s_.objects.HandleKey(object)].Insert(n);
  if (s_.objects[object].external) geometry_changes[kUnknown].Insert(n);
}

void Reshapes::AddGeometryChanges(SetId handles, NodeId n) {
  for (Ref r : s_.sets.Refs(handles)) AddGeometryChange(ObjectOf(r), n);
}

void Reshapes::DropGeometryChange(uint32_t key, NodeId n) {
  const auto it = geometry_changes.find(key);
  if (it == geometry_changes.end()) return;
  s_.changes.dirty = s_.changes.geometry = true;
  it->second.Erase(n);
  if (it->second.empty()) geometry_changes.erase(it);
}

void Reshapes::CountGeometryWriter(NodeId n, uint16_t had) {
  NodeRecord& record = s_.records.nodes[n.index];
  for (uint32_t i = record.first_write; i != 0; i = s_.accesses.writes.at(i).node_next) {
    if (s_.accesses.writes.at(i).bits & kGeometryWrite) record.flags |= NodeRecord::kGeometry;
  }
  const int64_t change = ((record.flags & NodeRecord::kGeometry) ? 1 : 0) - ((had & NodeRecord::kGeometry) ? 1 : 0);
  if (change == 0) return;
  const bool before = geometry_writers == 0;
  geometry_writers += change;
  if (before == (geometry_writers == 0)) return;
  // Trusting the types later than necessary only makes the answers less precise.
  if (geometry_writers == 0 && !s_.solver.building) {
    s_.budget.stale = true;
  } else if (s_.solver.building || !s_.effects.options_distrusted) {
    s_.solver.needs_rebuild = true;
  }
}

// A view may lie elsewhere in the same storage, and what says where (a list of sizes) may be, or no longer be, for
// certain: both without any other change.
void Reshapes::NoteGeometry(NodeId n) {
  if (GetOpEffects(s_.g.node(n).op).pure) return;
  s_.changes.dirty = true;
  s_.changes.geometry |= ChangesGeometry(n);
}

// Returns whether the geometry of other handles may depend on n, because n changes a geometry or a list that gives
// sizes.
bool Reshapes::ChangesGeometry(NodeId n) const {
  const OpEffects& op = GetOpEffects(s_.g.node(n).op);
  switch (op.kind) {
    case EffectKind::kGeneric:
      return op.by != OpEffects::By::kNothing || AnyArgument(op, kWritesGeometry | kReshapesElements) ||
             ChangesNumbers(n);
    case EffectKind::kSetAttr:
    case EffectKind::kFork:
    case EffectKind::kWait:
    case EffectKind::kSubgraph:
    case EffectKind::kCall:
    case EffectKind::kUnknown:
      return true;
    default:
      return false;
  }
}

// Returns whether it changes a list that may hold sizes, not tensors.
bool Reshapes::ChangesNumbers(NodeId n) const {
  const Node& node = s_.g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!(op.arg(i) & kWritesContainer)) continue;
    const Type& t = UnwrapOptional(s_.g.value(node.inputs[i]).type);
    if (t.kind() != TypeKind::kDict && (t.kind() != TypeKind::kList || !IsAliasingType(t.element()))) return true;
  }
  return false;
}

bool Reshapes::DecidesGeometry(NodeId n) const {
  const OpEffects& op = GetOpEffects(s_.g.node(n).op);
  if (op.pure) return op.sizes_arg >= 0;
  if (op.kind != EffectKind::kGeneric || op.by != OpEffects::By::kNothing) return true;
  for (size_t k = 0; k < s_.g.node(n).outputs.size(); ++k) {
    const ResultEffects& r = op.result(k);
    if (r.view != 0 || r.element_view != 0 || r.fresh || r.elements_view != 0 || r.elements_element_view != 0)
      return true;
  }
  return AnyArgument(op, kWritesGeometry | kReshapesElements) || ChangesNumbers(n);
}

}  // namespace smelt::alias_internal
