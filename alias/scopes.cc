// The scopes of values. Positions are counted once, when everything is evaluated, and are only ever forgotten: a query
// about a node without one walks up the blocks.
#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::MayBeContainer;
using alias_internal::MayBeTensor;

void AliasDb::State::SetPosition(NodeId n) { RecordOf(n).position = ++last_position; }

void AliasDb::State::SetScope(ValueId v, uint32_t from, uint32_t after, uint32_t scope) {
  ValueRecord& r = RecordOf(v);
  r.from = from;
  r.after = after;
  r.scope = scope;
}

void AliasDb::State::ForgetPosition(NodeId n) {
  RecordOf(n).position = 0;
  const Node& node = g.node(n);
  for (ValueId v : node.outputs) RecordOf(v).from = 0;
  for (BlockId b : node.blocks) {
    for (ValueId v : g.params(b)) RecordOf(v).from = 0;
  }
}

uint32_t AliasDb::State::AskType(ValueId v) {
  const Type& type = g.value(v).type;
  const uint32_t bits = (MayBeTensor(type) ? kMayBeTensor : 0) | (MayBeContainer(type) ? kMayBeContainer : 0);
  return RecordOf(v).type = bits != 0 ? bits : kNeither;
}

bool AliasDb::State::InScopeTogether(ValueId a, ValueId b) const {
  if (a == b) return true;
  if (a.index < values.size() && b.index < values.size()) {
    const ValueRecord &x = values[a.index], &y = values[b.index];
    if (x.from != 0 && y.from != 0 && x.generation == a.generation && y.generation == b.generation) {
      if (x.scope == y.scope) return true;
      return (y.from > x.after && y.from < nodes[x.scope].position) ||
             (x.from > y.after && x.from < nodes[y.scope].position);
    }
  }
  const NodeId da = g.value(a).def, db = g.value(b).def;
  const Node &na = g.node(da), &nb = g.node(db);
  if (na.parent == nb.parent) return true;
  // The outer one must be there before the inner one's block begins.
  if (NodeId x = AncestorIn(na.parent, db); x.valid()) return x != da && na.order < g.node(x).order;
  if (NodeId x = AncestorIn(nb.parent, da); x.valid()) return x != db && nb.order < g.node(x).order;
  return false;
}

}  // namespace smelt
