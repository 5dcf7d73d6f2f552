#include "smelt/alias/records.h"

#include <algorithm>

#include "smelt/alias/types.h"

namespace smelt::alias_internal {

void Records::Reset() {
  values.clear();
  nodes.clear();
  values.resize(g_.value_index_bound());
  nodes.resize(g_.node_index_bound());
  last_position = 0;
  top_scope = g_.block(g_.top()).return_node.index;
}

ValueRecord& Records::RecordOf(ValueId v) {
  if (v.index >= values.size()) values.resize(std::max<size_t>(v.index + 1, g_.value_index_bound()));
  ValueRecord& r = values[v.index];
  if (r.generation != v.generation) {
    r = ValueRecord();
    r.generation = v.generation;
  }
  return r;
}

NodeRecord& Records::RecordOf(NodeId n) {
  if (n.index >= nodes.size()) nodes.resize(std::max<size_t>(n.index + 1, g_.node_index_bound()));
  NodeRecord& r = nodes[n.index];
  if (r.generation != n.generation) {
    r = NodeRecord();
    r.generation = n.generation;
  }
  return r;
}

void Records::SetPosition(NodeId n) { RecordOf(n).position = ++last_position; }

void Records::SetScope(ValueId v, uint32_t from, uint32_t after, uint32_t scope) {
  ValueRecord& r = RecordOf(v);
  r.from = from;
  r.after = after;
  r.scope = scope;
}

void Records::ForgetPosition(NodeId n) {
  RecordOf(n).position = 0;
  const Node& node = g_.node(n);
  for (ValueId v : node.outputs) RecordOf(v).from = 0;
  for (BlockId b : node.blocks) {
    for (ValueId v : g_.params(b)) RecordOf(v).from = 0;
  }
}

uint32_t Records::AskType(ValueId v) {
  const Type& type = g_.value(v).type;
  const uint32_t bits = (MayBeTensor(type) ? kMayBeTensor : 0) | (MayBeContainer(type) ? kMayBeContainer : 0);
  return RecordOf(v).type = bits != 0 ? bits : kNeither;
}

bool Records::InScopeTogether(ValueId a, ValueId b) const {
  if (a == b) return true;
  if (a.index < values.size() && b.index < values.size()) {
    const ValueRecord &x = values[a.index], &y = values[b.index];
    if (x.from != 0 && y.from != 0 && x.generation == a.generation && y.generation == b.generation) {
      if (x.scope == y.scope) return true;
      return (y.from > x.after && y.from < nodes[x.scope].position) ||
             (x.from > y.after && x.from < nodes[y.scope].position);
    }
  }
  const NodeId da = g_.value(a).def, db = g_.value(b).def;
  const Node &na = g_.node(da), &nb = g_.node(db);
  if (na.parent == nb.parent) return true;
  // The outer one must be there before the inner one's block begins.
  if (NodeId x = tree_.AncestorIn(na.parent, db); x.valid()) return x != da && na.order < g_.node(x).order;
  if (NodeId x = tree_.AncestorIn(nb.parent, da); x.valid()) return x != db && nb.order < g_.node(x).order;
  return false;
}

}  // namespace smelt::alias_internal
