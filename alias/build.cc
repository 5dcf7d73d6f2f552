// Evaluation of everything: in program order, then again where something changed.
#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::IsLoopKind;
using alias_internal::MakeRef;
using alias_internal::SetPool;

void AliasDb::State::WalkNode(NodeId n) {
  if (building) SetPosition(n);
  const uint32_t from = last_position;
  Evaluate(n, true);
  const Node& node = g.node(n);
  if (!node.blocks.empty()) {
    const OpEffects& op = GetOpEffects(node.op);
    const EffectKind kind = op.kind;
    const uint32_t saved = walk_loop;
    if (IsLoopKind(kind)) walk_loop = LoopIndex(n);
    // It is evaluated when its blocks have been: nothing inside need ask for it.
    const bool again = kind == EffectKind::kIf || kind == EffectKind::kCond || IsLoopKind(kind);
    const bool waits = again && !(nodes[n.index].flags & NodeRecord::kQueued);
    if (waits) nodes[n.index].flags |= NodeRecord::kQueued;
    for (BlockId b : node.blocks) WalkBlock(b);
    if (waits) nodes[n.index].flags &= ~NodeRecord::kQueued;
    walk_loop = saved;
    if (again) {
      EvaluateKind(n, node, op, false, false);
      if (IsLoopKind(kind) && walk_loop == 0) Propagate();
    }
  }
  if (building) {
    const uint32_t scope = g.block(node.parent).return_node.index;
    for (ValueId v : node.outputs) SetScope(v, from, last_position, scope);
  }
}

void AliasDb::State::WalkBlock(BlockId b) {
  const Block& block = g.block(b);
  RecordOf(block.param_node).flags |= NodeRecord::kEvaluated;
  if (building) {
    SetPosition(block.param_node);
    for (ValueId v : g.params(b)) SetScope(v, last_position, last_position, block.return_node.index);
  }
  for (NodeId n = block.first; n.valid(); n = g.node(n).next) WalkNode(n);
  if (building) SetPosition(block.return_node);
}

void AliasDb::State::Propagate() {
  const uint32_t saved = walk_loop;
  walk_loop = UINT32_MAX;
  for (size_t i = 0; i < queue.size(); ++i) {
    NodeId n = queue[i];
    if (!g.IsLive(n)) continue;
    NodeRecord& r = RecordOf(n);
    if (!(r.flags & NodeRecord::kQueued)) continue;
    r.flags &= ~NodeRecord::kQueued;
    constexpr uint8_t kManyTurns = 100;
    growing = r.turns >= kManyTurns;
    if (!growing) ++r.turns;
    Evaluate(n, false);
  }
  growing = false;
  for (NodeId n : queue) {
    if (g.IsLive(n)) RecordOf(n).turns = 0;
  }
  queue.clear();
  walk_loop = saved;
}

void AliasDb::State::Reset() {
  values.clear();
  objects.clear();
  free_objects.clear();
  pending_free.clear();
  nodes.clear();
  loops.clear();
  loop_of_node.clear();
  contents.clear();
  elements.clear();
  elements_of.clear();
  members.clear();
  moved_storage.clear();
  unmoved_storage.clear();
  weight_storages.clear();
  summaries.clear();
  external_readers.clear();
  external_stores = false;
  external_attributes.clear();
  external_moved = false;
  stores_of_node.clear();
  geometry_changes.clear();
  geometry_writers = 0;
  summarised = 0;
  writes.Clear();
  reads.Clear();
  queue.clear();
  waiting.clear();
  touched.clear();
  forced.clear();
  resolve_loops.clear();
  DropCaches();
  any_async = false;
  needs_rebuild = false;
}

void AliasDb::State::Build() {
  Reset();
  values.resize(g.value_index_bound());
  nodes.resize(g.node_index_bound());
  objects.reserve(g.value_index_bound() + kFirstObject);
  objects.resize(kFirstObject);
  loops.push_back({NodeId(), 0, 0, {}});
  objects[kUnknown].kind = Kind::kUnknown;
  objects[kUnknown].tensor = objects[kUnknown].container = objects[kUnknown].external = true;
  objects[kRandom].kind = Kind::kRandom;
  objects[kWorld].kind = Kind::kWorld;
  for (uint32_t o : {kUnknown, kRandom, kWorld}) objects[o].storage = SetPool::Single(MakeRef(o));
  monotone = building = true;
  walk_loop = 0;
  last_position = 0;
  top_scope = g.block(g.top()).return_node.index;
  EvaluateInputs();
  WalkBlock(g.top());
  Propagate();
  monotone = building = false;
  walk_loop = UINT32_MAX;
  touched.clear();
  forced.clear();
  if (needs_rebuild) {
    // A change of geometry was found after types had been trusted: they are not, this time.
    const int64_t found = geometry_writers;
    if (found != 0 && !options_distrusted) {
      options_distrusted = true;
      Build();
      return;
    }
    needs_rebuild = false;
  }
  dirty = true;
}

// Solves an outermost loop again from nothing: what only its own back edges kept alive goes.
void AliasDb::State::ResolveLoop(NodeId loop) {
  ++content_changes;
  std::vector<NodeId> todo = {loop};
  std::vector<std::pair<ValueId, SetId>> before;
  for (ValueId v : g.node(loop).outputs) before.push_back({v, PointsTo(v)});
  std::vector<uint32_t> holders;
  while (!todo.empty()) {
    NodeId n = todo.back();
    todo.pop_back();
    NodeRecord& r = RecordOf(n);
    // What was let out, or moved, cannot be taken back piecemeal.
    needs_rebuild |= (r.flags & (NodeRecord::kEscapes | NodeRecord::kMovesStorage)) != 0;
    if (auto it = stores_of_node.find(n.index); it != stores_of_node.end()) {
      holders.insert(holders.end(), it->second.begin(), it->second.end());
    }
    Forget(n, nodes[n.index], false);
    if (r.flags & NodeRecord::kGeometry) --geometry_writers;
    r.flags &= NodeRecord::kQueued;
    for (ValueId v : g.node(n).outputs) {
      ValueRecord& value = RecordOf(v);
      value.points_to = 0;
      if (auto it = contents.find(value.own); value.own != 0 && it != contents.end()) {
        it->second.made_of = 0;
        it->second.of_call = 0;
        it->second.summed = 0;
        it->second.sum = 0;
      }
    }
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.params(b)) RecordOf(v).points_to = 0;
      for (NodeId m = g.block(b).first; m.valid(); m = g.node(m).next) todo.push_back(m);
    }
  }
  if (needs_rebuild) return;
  const uint32_t saved = walk_loop;
  const bool saved_monotone = monotone;
  monotone = true;
  walk_loop = 0;
  resolving = loop;
  ++content_changes;
  WalkNode(loop);
  Propagate();
  resolving = NodeId();
  queue.swap(waiting);
  monotone = saved_monotone;
  walk_loop = saved;
  for (const auto& [v, old] : before) {
    if (PointsTo(v) != old) {
      dirty = true;
      PushUsers(v);
    }
  }
  // What is inside has been evaluated.
  for (uint32_t o : holders) {
    auto it = contents.find(o);
    if (it == contents.end()) continue;
    const std::vector<NodeId> readers = it->second.readers;
    for (NodeId n : readers) {
      if (g.IsLive(n) && OutermostLoop(n) != loop) Push(n);
    }
  }
}

void AliasDb::State::Flush() {
  if (queue.empty() && !needs_rebuild && resolve_loops.empty() && pending_free.empty()) return;
  ++content_changes;
  walk_loop = UINT32_MAX;
  if (!needs_rebuild) Propagate();
  for (int round = 0; !needs_rebuild && !resolve_loops.empty(); ++round) {
    uint32_t index = *resolve_loops.begin();
    resolve_loops.erase(resolve_loops.begin());
    NodeId loop;
    for (const alias_internal::Loop& l : loops) {
      if (l.node.valid() && l.node.index == index && g.IsLive(l.node)) loop = l.node;
    }
    if (loop.valid()) ResolveLoop(loop);
    Propagate();
    // Loops that fill each other's containers: from the start once is cheaper than in turns.
    if (round == 16) needs_rebuild = true;
  }
  if (needs_rebuild) {
    ++rebuilds;
    options_distrusted = false;
    Build();
    if (reads_active) {
      reads_active = false;
      ActivateReads();
    }
  }
  touched.clear();
  forced.clear();
  for (uint32_t o : pending_free) {
    if (o < objects.size()) {
      objects[o] = Object();
      free_objects.push_back(o);
    }
  }
  pending_free.clear();
  if (dirty) DropCaches();
}

void AliasDb::State::DropCaches() {
  ++content_changes;
  geoms.clear();
  ++geom_epoch;
  write_spans.clear();
  reach_at_any_time.clear();
  outputs_known = false;
  output_refs.clear();
  dirty = false;
}

void AliasDb::State::ActivateReads() {
  if (reads_active) return;
  reads_active = true;
  const bool saved = monotone;
  const uint32_t saved_loop = walk_loop;
  monotone = true;
  walk_loop = UINT32_MAX;
  for (NodeId n : g.AllNodes()) {
    if (!(RecordOf(n).flags & NodeRecord::kEvaluated)) continue;
    const Node& node = g.node(n);
    const OpEffects& op = GetOpEffects(node.op);
    if (op.pure) {
      AddAccesses(n, node.inputs, op.by == OpEffects::By::kNothing ? op : EffectsOf(node), 0);
    } else {
      // Only the reads are new: evaluation adds both, so the node's writes are taken out first.
      Evaluate(n, false);
    }
  }
  walk_loop = saved_loop;
  Propagate();
  monotone = saved;
}

}  // namespace smelt
