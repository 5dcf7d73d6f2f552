#include "smelt/alias/solver.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Solver::Spend(int64_t steps) {
  if (!monotone) s_.budget.Spend(steps);
}

void Solver::Forget(NodeId n, NodeRecord& r, bool push) {
  s_.recorder.ForgetAccesses(r);
  s_.stores.ForgetStores(n, r, push);
}

void Solver::Enter(NodeId n, std::vector<Walking>* stack) {
  if (building) s_.records.SetPosition(n);
  Evaluate(n, true);
  const Node& node = s_.g.node(n);
  Walking w = {n, s_.records.last_position, walk_loop, false, false, 0, s_.AllSteps(), NodeId()};
  if (!node.blocks.empty()) {
    const EffectKind kind = GetOpEffects(node.op).kind;
    if (IsLoopKind(kind)) walk_loop = s_.loops.IndexOf(n);
    w.again = kind == EffectKind::kIf || kind == EffectKind::kCond || IsLoopKind(kind);
    w.waits = w.again && !(s_.records.nodes[n.index].flags & NodeRecord::kQueued);
    if (w.waits) s_.records.nodes[n.index].flags |= NodeRecord::kQueued;
    stack->push_back(w);
  } else {
    Leave(w);
  }
}

void Solver::Enter(BlockId b) {
  const Block& block = s_.g.block(b);
  s_.records.RecordOf(block.param_node).flags |= NodeRecord::kEvaluated;
  if (!building) return;
  s_.records.RecordOf(block.return_node).flags |= NodeRecord::kReturn;
  s_.records.SetPosition(block.param_node);
  for (ValueId v : s_.g.params(b))
    s_.records.SetScope(v, s_.records.last_position, s_.records.last_position, block.return_node.index);
}

void Solver::Leave(const Walking& at) {
  const Node& node = s_.g.node(at.n);
  if (at.waits) s_.records.nodes[at.n.index].flags &= ~NodeRecord::kQueued;
  walk_loop = at.saved_loop;
  if (at.again) {
    const OpEffects& op = GetOpEffects(node.op);
    s_.evaluator.EvaluateKind(at.n, node, op, false, false);
    if (IsLoopKind(op.kind) && walk_loop == 0) {
      Propagate();
      s_.loops[s_.loops.IndexOf(at.n)].cost = s_.AllSteps() - at.steps;
    }
  }
  if (!building) return;
  const uint32_t scope = s_.g.block(node.parent).return_node.index;
  for (ValueId v : node.outputs) s_.records.SetScope(v, at.from, s_.records.last_position, scope);
}

void Solver::Walk(NodeId n) {
  std::vector<Walking> stack;
  Enter(n, &stack);
  while (!stack.empty()) {
    Walking& w = stack.back();
    if (w.at.valid()) {
      const NodeId m = w.at;
      w.at = s_.g.node(m).next;
      Enter(m, &stack);
      continue;
    }
    const Node& node = s_.g.node(w.n);
    if (building && w.block > 0) s_.records.SetPosition(s_.g.block(node.blocks[w.block - 1]).return_node);
    if (w.block < node.blocks.size()) {
      const BlockId b = node.blocks[w.block++];
      Enter(b);
      w.at = s_.g.block(b).first;
      continue;
    }
    const Walking done = w;
    stack.pop_back();
    Leave(done);
  }
}

void Solver::WalkBlock(BlockId b) {
  Enter(b);
  for (NodeId n = s_.g.block(b).first; n.valid(); n = s_.g.node(n).next) Walk(n);
  if (building) s_.records.SetPosition(s_.g.block(b).return_node);
}

void Solver::Propagate() {
  const uint32_t saved = walk_loop;
  walk_loop = UINT32_MAX;
  s_.containers.FollowJoined();
  absl::flat_hash_map<uint32_t, uint8_t> solved;  // loops
  // While sets only grow, in the order of the text: then most of what a node takes has come to rest when its turn comes.
  using Turn = std::pair<uint32_t, uint32_t>;  // position, index in the queue
  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns;
  size_t taken = 0;
  for (;;) {
    NodeId n;
    if (monotone) {
      for (; taken < s_.work.queue.size(); ++taken) {
        const NodeId next = s_.work.queue[taken];
        turns.push({next.index < s_.records.nodes.size() ? s_.records.nodes[next.index].position : 0,
                    static_cast<uint32_t>(taken)});
      }
      if (turns.empty()) break;
      n = s_.work.queue[turns.top().second];
      turns.pop();
    } else {
      if (taken == s_.work.queue.size()) break;
      n = s_.work.queue[taken++];
    }
    // While all is built, no node has been erased.
    if (!building && !s_.g.IsLive(n)) continue;
    NodeRecord& r = s_.records.RecordOf(n);
    if (!(r.flags & NodeRecord::kQueued)) continue;
    r.flags &= ~NodeRecord::kQueued;
    constexpr uint8_t kManyTurns = 100;
    s_.work.growing = r.turns >= kManyTurns;
    if (!s_.work.growing) ++r.turns;
    // Values that circulate in a loop are solved at once. This happens a few times per loop, so that it costs no more
    // than everything else.
    if (monotone && (r.turns == 4 || r.turns == 16 || r.turns == 64)) {
      if (const NodeId loop = s_.work.OutermostLoop(n); loop.valid() && solved[loop.index] < r.turns) {
        solved[loop.index] = r.turns;
        copies.Solve(loop);
      }
    }
    std::vector<uint32_t> changed;
    const bool wide = (r.flags & NodeRecord::kWide) != 0;
    if (wide) {
      s_.work.TakeChangedParts(n, &changed);
    }
    const bool some = !changed.empty() && changed[0] != kAllParts;
    const int64_t cost = s_.work.CostOf(n, some ? &changed : nullptr), before = s_.AllSteps();
    Spend(cost);
    s_.evaluator.parts = some ? &changed : nullptr;
    // A set that grows round after round through containers and calls ends as a summary, sooner after many rounds.
    constexpr uint8_t kManyRoundsOfOne = 12;
    constexpr int kSmallSet = 8;
    const int max_set = s_.options.max_set;
    if (monotone && r.turns >= kManyRoundsOfOne) s_.options.max_set = std::min(max_set, kSmallSet);
    Evaluate(n, false);
    s_.options.max_set = max_set;
    s_.evaluator.parts = nullptr;
    Spend(s_.AllSteps() - before - cost);
    if (taken == s_.work.queue.size() && turns.empty()) s_.containers.FollowJoined();
  }
  // While a loop is solved again, the nodes outside wait for its result, and so does what has changed among their
  // arguments.
  if (s_.work.waiting.empty()) s_.work.changed_parts.clear();
  s_.work.growing = false;
  for (NodeId n : s_.work.queue) {
    if (building || s_.g.IsLive(n)) s_.records.RecordOf(n).turns = 0;
  }
  s_.work.queue.clear();
  walk_loop = saved;
}

// Makes everything empty. What has been made before stays valid for nothing.
void Solver::Reset() {
  s_.records.Reset();
  // About one object for each node. Values that branches and loops hand on have none.
  s_.objects.Reset(std::min<size_t>(s_.g.value_index_bound(), s_.g.node_index_bound()));
  s_.loops.Clear();
  s_.containers.Clear();
  s_.stores.Clear();
  s_.memory.Clear();
  s_.effects.summaries.clear();
  s_.reshapes.Clear();
  s_.accesses.Clear();
  s_.work.Clear();
  s_.budget.overdrawn = s_.budget.keeps_freed = false;
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
  s_.DropCaches();
  s_.same.ObjectsGetOtherNumbers();
  needs_rebuild = false;
}

void Solver::Build() {
  Reset();
  const int64_t steps_before = s_.AllSteps();
  monotone = building = s_.recorder.deferring = true;
  walk_loop = 0;
  s_.evaluator.EvaluateInputs();
  walking = true;
  WalkBlock(s_.g.top());
  walking = false;
  Propagate();
  s_.recorder.RecordUnrecorded();
  Propagate();
  if (s_.sets.added() > s_.records.values.size() / 4) s_.CollectSets();
  s_.sets.Trim();
  copies.Trim();
  // Edits add little to what building has made.
  s_.objects.Trim();
  s_.accesses.writes.Trim();
  monotone = building = false;
  walk_loop = UINT32_MAX;
  s_.memory.SettleChanges();
  if (needs_rebuild) {
    // A geometry writer was found after types had been trusted. They are not trusted this time.
    const int64_t found = s_.reshapes.geometry_writers;
    if (found != 0 && !s_.effects.options_distrusted) {
      s_.effects.options_distrusted = true;
      Build();
      return;
    }
    needs_rebuild = false;
  }
  // Building pays for the first edits.
  if (rebuilds == 0 && solved_at_once >= 0) {
    const int64_t paid_for = s_.AllSteps() - steps_before;
    s_.budget.PaidByBuilding(paid_for);
    s_.queries.moves.PaidByBuilding(paid_for);
  }
  s_.geometries.Built();
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
}

void Solver::ResolveLoop(NodeId loop) {
  // Facts about objects inside are computed again.
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
  std::vector<NodeId> todo = {loop};
  std::vector<std::pair<ValueId, SetId>> before;
  for (ValueId v : s_.g.node(loop).outputs) before.push_back({v, s_.records.PointsTo(v)});
  std::vector<uint32_t> holders;
  while (!todo.empty()) {
    NodeId n = todo.back();
    todo.pop_back();
    NodeRecord& r = s_.records.RecordOf(n);
    // Escapes and moves cannot be undone one by one.
    s_.budget.stale |= (r.flags & (NodeRecord::kEscapes | NodeRecord::kMovesStorage)) != 0;
    if (auto it = s_.stores.stores_of_node.find(n.index); it != s_.stores.stores_of_node.end()) {
      for (const Stores::StoreAt& at : it->second) holders.push_back(at.holder);
    }
    ++s_.steps;
    Forget(n, s_.records.nodes[n.index], false);
    if (r.flags & NodeRecord::kGeometry) --s_.reshapes.geometry_writers;
    r.flags &= NodeRecord::kQueued;
    for (ValueId v : s_.g.node(n).outputs) {
      ValueRecord& value = s_.records.RecordOf(v);
      value.points_to = 0;
      Contents* c = value.own != 0 ? s_.containers.FindContents(value.own) : nullptr;
      if (c == nullptr) continue;
      holders.push_back(value.own);
      c->made_of = 0;
      c->of_call = c->base = 0;
      c->slots.clear();
      c->blurred = false;
      c->kept = 0;
    }
    for (BlockId b : s_.g.node(n).blocks) {
      for (ValueId v : s_.g.params(b)) s_.records.RecordOf(v).points_to = 0;
      for (NodeId m = s_.g.block(b).first; m.valid(); m = s_.g.node(m).next) todo.push_back(m);
    }
  }
  if (needs_rebuild) return;
  const uint32_t saved = walk_loop;
  const bool saved_monotone = monotone;
  monotone = true;
  walk_loop = 0;
  s_.work.resolving = loop;
  Walk(loop);
  Propagate();
  s_.work.resolving = NodeId();
  s_.work.queue.swap(s_.work.waiting);
  monotone = saved_monotone;
  walk_loop = saved;
  for (const auto& [v, old] : before) {
    if (s_.records.PointsTo(v) != old) {
      s_.changes.dirty = s_.changes.reach = true;
      if (!s_.sets.Includes(s_.records.PointsTo(v), old)) s_.work.ResolveUsers(v);
      s_.work.PushUsers(v);
    }
  }
  // The nodes inside have been evaluated.
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  for (uint32_t o : holders) {
    Contents* c = s_.containers.FindContents(o);
    if (c == nullptr) continue;
    Spend(static_cast<int64_t>(c->readers.size()));
    if ((s_.budget.overdrawn || c->blurred) && !s_.containers.KeepMore(o)) continue;
    const Contents::Readers readers = s_.containers.ContentsOf(o).readers;
    s_.steps += static_cast<int64_t>(readers.size());
    for (NodeId n : readers) {
      if (s_.g.IsLive(n) && s_.work.OutermostLoop(n) != loop) s_.work.Push(n);
    }
  }
}

// Rebuilds everything after an edit that took away something that is not undone one by one: an escape, or a move of a
// handle. Until then the database holds more than is true. A small graph is rebuilt at once, a large one after so many
// edits that they have paid for it.
void Solver::WantRebuild() {
  if (!s_.budget.stale || needs_rebuild) return;
  needs_rebuild = s_.budget.Affords(INT64_MAX) || s_.budget.paid() >= s_.g.num_nodes();
}

void Solver::Flush() {
  WantRebuild();
  if (s_.work.queue.empty() && !needs_rebuild && s_.work.resolve_loops.empty() && s_.memory.pending_free.empty() &&
      s_.containers.joined_containers.empty()) {
    return;
  }
  walk_loop = UINT32_MAX;
  if (!needs_rebuild) Propagate();
  for (int round = 0; !needs_rebuild && !s_.work.resolve_loops.empty(); ++round) {
    const uint32_t index = *s_.work.resolve_loops.begin();
    s_.work.resolve_loops.erase(s_.work.resolve_loops.begin());
    const NodeId loop = s_.loops.AtNode(index).node;
    const bool must = s_.work.must_resolve.erase(index) != 0;
    if (loop.valid() && s_.g.IsLive(loop)) {
      if (!must && !s_.budget.Affords(s_.loops.AtNode(index).cost)) {
        s_.budget.stale = true;
        continue;
      }
      const int64_t before = s_.AllSteps();
      ResolveLoop(loop);
      Spend(s_.AllSteps() - before);
    }
    Propagate();
    // Loops that fill each other's containers: solving them once from the start is cheaper than in turns.
    constexpr int kManyRounds = 16;
    if (round == kManyRounds) {
      s_.budget.stale = true;
      s_.work.resolve_loops.clear();
      needs_rebuild |= !s_.work.must_resolve.empty();
    }
  }
  WantRebuild();
  if (needs_rebuild) {
    ++rebuilds;
    s_.effects.options_distrusted = s_.budget.stale = false;
    s_.budget.PaidByNothing();
    const bool had_reads = std::exchange(s_.accesses.reads_active, false);
    Build();
    if (had_reads) s_.recorder.ActivateReads();
  }
  s_.memory.SettleChanges();
  s_.budget.overdrawn = false;
  if (!s_.memory.pending_free.empty()) s_.accesses.ObjectsReleased();
  for (uint32_t o : s_.memory.pending_free) {
    if (o >= s_.objects.size()) continue;
    s_.accesses.Release(o);
    s_.geometries.Forget(o);
    // Another object must not be taken for one that is gone.
    s_.objects.Release(o, !s_.budget.keeps_freed);
  }
  s_.memory.pending_free.clear();
  if (s_.changes.dirty) s_.DropCaches();
}

void Solver::Evaluate(NodeId n, bool first) {
  if (!s_.containers.joined_containers.empty()) s_.containers.FollowJoined();
  // So often that the sets which nothing holds take at most three times as much as the others and the values, and so
  // seldom that it costs less than making them.
  constexpr size_t kFewRefs = 4096;
  if (s_.sets.added() > 3 * std::max(s_.sets.kept(), s_.records.values.size() + kFewRefs) && !s_.work.resolving.valid())
    s_.CollectSets();
  const Node& node = s_.g.node(n);
  NodeRecord& record = s_.records.RecordOf(n);
  ++s_.evaluator.evaluations;
  s_.steps += s_.work.CostOf(n, s_.evaluator.parts);
  if (node.inputs.size() + node.outputs.size() > (solved_at_once < 0 ? 0 : NodeRecord::kMany)) {
    record.flags |= NodeRecord::kWide;
  }
  s_.evaluator.making_first = building && first;
  // While sets also shrink, a reader may have been evaluated when its inputs were something else for a moment.
  const bool inputs_changed = !monotone && (record.flags & NodeRecord::kInputsChanged) != 0;
  record.flags &= ~NodeRecord::kInputsChanged;
  const OpEffects& op = GetOpEffects(node.op);
  // Calls are evaluated again when any later one reaches what they reach.
  s_.recorder.defers_accesses = s_.recorder.deferring && !(first && walk_loop == 0 && op.kind == EffectKind::kGeneric);
  const uint16_t had = record.flags;
  Stores::OfNode had_stores;
  if (had & NodeRecord::kStores) had_stores = s_.stores.StoresOf(n);
  if (!first || had != 0) s_.recorder.ForgetAccesses(record);
  s_.stores.new_stores.clear();
  record.flags = (record.flags | NodeRecord::kEvaluated) &
                 ~(NodeRecord::kEscapes | NodeRecord::kMovesStorage | NodeRecord::kGeometry);
  s_.evaluator.EvaluateKind(n, node, op, first, inputs_changed);
  if (!had_stores.empty() || !s_.stores.new_stores.empty()) {
    const bool changed = s_.stores.CommitStores(n, absl::MakeSpan(had_stores));
    // Straight-line code that is walked for the first time has no reader that a store could reach.
    if ((changed || inputs_changed) && !(first && walk_loop == 0)) {
      s_.changes.dirty |= changed;
      s_.changes.reach |= changed;
      uint32_t last = 0;
      for (const auto& [o, store] : had_stores) {
        if (std::exchange(last, o) != o) s_.stores.StoresChanged(o, changed);
      }
      for (const auto& [o, store] : s_.stores.new_stores) {
        if (std::exchange(last, o) != o) s_.stores.StoresChanged(o, changed);
      }
    }
  }
  s_.reshapes.CountGeometryWriter(n, had);
  // Escapes and moves cannot be undone one by one.
  const uint8_t sticky = NodeRecord::kEscapes | NodeRecord::kMovesStorage;
  if (!monotone && (had & sticky) != 0) s_.budget.stale = true;
}

}  // namespace smelt::alias_internal
