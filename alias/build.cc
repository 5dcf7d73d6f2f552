// Evaluation of everything: in program order, then again where something changed.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::IsLoopKind;
using alias_internal::MakeRef;
using alias_internal::SetPool;

namespace {

constexpr int64_t kMovesPerBuild = 16;  // what building pays for questions about moves, in times its own steps

}  // namespace

// A node whose blocks are being walked.
struct AliasDb::State::Walking {
  NodeId n;
  uint32_t from, saved_loop;
  bool again, waits;  // it is evaluated after its blocks; until then nothing inside need ask for it
  size_t block;       // the next of its blocks
  int64_t steps;      // so many before it
  NodeId at;          // the next node of the one before
};

void AliasDb::State::Enter(NodeId n, std::vector<Walking>* stack) {
  if (building) SetPosition(n);
  Evaluate(n, true);
  const Node& node = g.node(n);
  Walking w = {n, last_position, walk_loop, false, false, 0, AllSteps(), NodeId()};
  if (!node.blocks.empty()) {
    const EffectKind kind = GetOpEffects(node.op).kind;
    if (IsLoopKind(kind)) walk_loop = loops.IndexOf(n);
    w.again = kind == EffectKind::kIf || kind == EffectKind::kCond || IsLoopKind(kind);
    w.waits = w.again && !(nodes[n.index].flags & NodeRecord::kQueued);
    if (w.waits) nodes[n.index].flags |= NodeRecord::kQueued;
    stack->push_back(w);
  } else {
    Leave(w);
  }
}

void AliasDb::State::Enter(BlockId b) {
  const Block& block = g.block(b);
  RecordOf(block.param_node).flags |= NodeRecord::kEvaluated;
  if (!building) return;
  SetPosition(block.param_node);
  for (ValueId v : g.params(b)) SetScope(v, last_position, last_position, block.return_node.index);
}

void AliasDb::State::Leave(const Walking& at) {
  const Node& node = g.node(at.n);
  if (at.waits) nodes[at.n.index].flags &= ~NodeRecord::kQueued;
  walk_loop = at.saved_loop;
  if (at.again) {
    const OpEffects& op = GetOpEffects(node.op);
    EvaluateKind(at.n, node, op, false, false);
    if (IsLoopKind(op.kind) && walk_loop == 0) {
      Propagate();
      loops[loops.IndexOf(at.n)].cost = AllSteps() - at.steps;
    }
  }
  if (!building) return;
  const uint32_t scope = g.block(node.parent).return_node.index;
  for (ValueId v : node.outputs) SetScope(v, at.from, last_position, scope);
}

void AliasDb::State::Walk(NodeId n) {
  std::vector<Walking> stack;
  Enter(n, &stack);
  while (!stack.empty()) {
    Walking& w = stack.back();
    if (w.at.valid()) {
      const NodeId m = w.at;
      w.at = g.node(m).next;
      Enter(m, &stack);
      continue;
    }
    const Node& node = g.node(w.n);
    if (building && w.block > 0) SetPosition(g.block(node.blocks[w.block - 1]).return_node);
    if (w.block < node.blocks.size()) {
      const BlockId b = node.blocks[w.block++];
      Enter(b);
      w.at = g.block(b).first;
      continue;
    }
    const Walking done = w;
    stack.pop_back();
    Leave(done);
  }
}

void AliasDb::State::WalkBlock(BlockId b) {
  Enter(b);
  for (NodeId n = g.block(b).first; n.valid(); n = g.node(n).next) Walk(n);
  if (building) SetPosition(g.block(b).return_node);
}

void AliasDb::State::Propagate() {
  const uint32_t saved = walk_loop;
  walk_loop = UINT32_MAX;
  FollowJoined();
  absl::flat_hash_map<uint32_t, uint8_t> solved;  // loops
  // While sets only grow, in the order of the text: then most of what a node takes has come to rest when its turn comes.
  using Turn = std::pair<uint32_t, uint32_t>;  // position, index in the queue
  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns;
  size_t taken = 0;
  for (;;) {
    NodeId n;
    if (monotone) {
      for (; taken < queue.size(); ++taken) {
        const NodeId next = queue[taken];
        turns.push({next.index < nodes.size() ? nodes[next.index].position : 0, static_cast<uint32_t>(taken)});
      }
      if (turns.empty()) break;
      n = queue[turns.top().second];
      turns.pop();
    } else {
      if (taken == queue.size()) break;
      n = queue[taken++];
    }
    if (!g.IsLive(n)) continue;
    NodeRecord& r = RecordOf(n);
    if (!(r.flags & NodeRecord::kQueued)) continue;
    r.flags &= ~NodeRecord::kQueued;
    constexpr uint8_t kManyTurns = 100;
    growing = r.turns >= kManyTurns;
    if (!growing) ++r.turns;
    // Values that circulate in a loop are solved at once. This happens a few times per loop, so that it costs no more
    // than everything else.
    if (monotone && (r.turns == 4 || r.turns == 16 || r.turns == 64)) {
      if (const NodeId loop = OutermostLoop(n); loop.valid() && solved[loop.index] < r.turns) {
        solved[loop.index] = r.turns;
        SolveCopies(loop);
      }
    }
    std::vector<uint32_t> changed;
    const bool wide = (r.flags & NodeRecord::kWide) != 0;
    if (wide) {
      if (const auto it = changed_parts.find(n.index); it != changed_parts.end()) {
        changed.swap(it->second);
        changed_parts.erase(it);
      }
      std::sort(changed.begin(), changed.end());
      changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    }
    const bool some = !changed.empty() && changed[0] != kAllParts;
    const int64_t cost = CostOf(n, some ? &changed : nullptr), before = AllSteps();
    Spend(cost);
    parts = some ? &changed : nullptr;
    // A set that grows round after round through containers and calls ends as a summary, sooner after many rounds.
    constexpr uint8_t kManyRoundsOfOne = 12;
    constexpr int kSmallSet = 8;
    const int max_set = options.max_set;
    if (monotone && r.turns >= kManyRoundsOfOne) options.max_set = std::min(max_set, kSmallSet);
    Evaluate(n, false);
    options.max_set = max_set;
    parts = nullptr;
    Spend(AllSteps() - before - cost);
    if (taken == queue.size() && turns.empty()) FollowJoined();
  }
  // While a loop is solved again, the nodes outside wait for its result, and so does what has changed among their
  // arguments.
  if (waiting.empty()) changed_parts.clear();
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
  loops.Clear();
  contents.Clear();
  elements.Clear();
  groups.clear();
  joined_containers.clear();
  coarse = false;
  moved_storage.clear();
  unmoved_storage.clear();
  weight_storages.clear();
  summaries.clear();
  external_readers.clear();
  external_distinct = 0;
  external_stores = false;
  external_attributes.clear();
  external_moved = false;
  stores_of_node.clear();
  geometry_changes.clear();
  geometry_writers = 0;
  summarised = 0;
  writes.Clear();
  reads.Clear();
  set_lists.clear();
  set_list_of.clear();
  list_of_storages.clear();
  all_storages.clear();
  queue.clear();
  waiting.clear();
  touched.clear();
  forced.clear();
  resolve_loops.clear();
  must_resolve.clear();
  changed_parts.clear();
  overdrawn = keeps_freed = false;
  dirty = geometry_changed = reach_changed = true;
  DropCaches();
  whole_bases.clear();  // objects get other numbers
  any_async = false;
  needs_rebuild = false;
}

void AliasDb::State::Build() {
  Reset();
  values.resize(g.value_index_bound());
  nodes.resize(g.node_index_bound());
  // About one for each node. Values that branches and loops hand on have none.
  objects.reserve(std::min<size_t>(g.value_index_bound(), g.node_index_bound()) + kFirstObject);
  objects.resize(kFirstObject);
  is_summary.assign(kFirstObject, false);
  objects[kUnknown].kind = Kind::kUnknown;
  objects[kUnknown].tensor = objects[kUnknown].container = objects[kUnknown].external = true;
  objects[kRandom].kind = Kind::kRandom;
  objects[kWorld].kind = Kind::kWorld;
  for (uint32_t o : {kUnknown, kRandom, kWorld}) objects[o].storage = SetPool::Single(MakeRef(o));
  const int64_t steps_before = AllSteps();
  monotone = building = deferring = true;
  walk_loop = 0;
  last_position = 0;
  top_scope = g.block(g.top()).return_node.index;
  EvaluateInputs();
  WalkBlock(g.top());
  Propagate();
  RecordUnrecorded();
  Propagate();
  if (sets.added() > values.size() / 4) CollectSets();
  std::vector<CopyMark>().swap(copy_marks);
  // Edits add little to what building has made.
  constexpr size_t kSpare = 8;
  if (objects.capacity() > objects.size() + objects.size() / kSpare) objects.shrink_to_fit();
  writes.Trim();
  monotone = building = false;
  walk_loop = UINT32_MAX;
  touched.clear();
  forced.clear();
  if (needs_rebuild) {
    // A geometry writer was found after types had been trusted. They are not trusted this time.
    const int64_t found = geometry_writers;
    if (found != 0 && !options_distrusted) {
      options_distrusted = true;
      Build();
      return;
    }
    needs_rebuild = false;
  }
  // Building pays for the first edits.
  if (rebuilds == 0 && alias_internal::solved_at_once >= 0) {
    const int64_t paid_for = AllSteps() - steps_before;
    credit = paid_for / 2;
    cache_credit = 2 * paid_for;
    move_credit = kMovesPerBuild * paid_for;
  }
  just_built = true;
  dirty = geometry_changed = reach_changed = true;
}

// Solves an outermost loop again from nothing: members that only its own back edges kept alive disappear.
void AliasDb::State::ResolveLoop(NodeId loop) {
  // Facts about objects inside are computed again.
  dirty = geometry_changed = reach_changed = true;
  std::vector<NodeId> todo = {loop};
  std::vector<std::pair<ValueId, SetId>> before;
  for (ValueId v : g.node(loop).outputs) before.push_back({v, PointsTo(v)});
  std::vector<uint32_t> holders;
  while (!todo.empty()) {
    NodeId n = todo.back();
    todo.pop_back();
    NodeRecord& r = RecordOf(n);
    // Escapes and moves cannot be undone one by one.
    stale |= (r.flags & (NodeRecord::kEscapes | NodeRecord::kMovesStorage)) != 0;
    if (auto it = stores_of_node.find(n.index); it != stores_of_node.end()) {
      for (const StoreAt& at : it->second) holders.push_back(at.holder);
    }
    ++steps;
    Forget(n, nodes[n.index], false);
    if (r.flags & NodeRecord::kGeometry) --geometry_writers;
    r.flags &= NodeRecord::kQueued;
    for (ValueId v : g.node(n).outputs) {
      ValueRecord& value = RecordOf(v);
      value.points_to = 0;
      alias_internal::Contents* c = value.own != 0 ? FindContents(value.own) : nullptr;
      if (c == nullptr) continue;
      holders.push_back(value.own);
      c->made_of = 0;
      c->of_call = c->base = 0;
      c->slots.clear();
      c->blurred = false;
      c->kept = 0;
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
  Walk(loop);
  Propagate();
  resolving = NodeId();
  queue.swap(waiting);
  monotone = saved_monotone;
  walk_loop = saved;
  for (const auto& [v, old] : before) {
    if (PointsTo(v) != old) {
      dirty = reach_changed = true;
      if (!sets.Includes(PointsTo(v), old)) ResolveUsers(v);
      PushUsers(v);
    }
  }
  // The nodes inside have been evaluated.
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  for (uint32_t o : holders) {
    alias_internal::Contents* c = FindContents(o);
    if (c == nullptr) continue;
    Spend(static_cast<int64_t>(c->readers.size()));
    if ((overdrawn || c->blurred) && !KeepMore(o)) continue;
    const std::vector<NodeId> readers = ContentsOf(o).readers;
    steps += static_cast<int64_t>(readers.size());
    for (NodeId n : readers) {
      if (g.IsLive(n) && OutermostLoop(n) != loop) Push(n);
    }
  }
}

// Rebuilds everything after an edit that took away something that is not undone one by one: an escape, or a move of a
// handle. Until then the database holds more than is true. A small graph is rebuilt at once, a large one after so many
// edits that they have paid for it.
void AliasDb::State::WantRebuild() {
  if (!stale || needs_rebuild) return;
  needs_rebuild = Affords(INT64_MAX) || paid >= g.num_nodes();
}

void AliasDb::State::Flush() {
  WantRebuild();
  if (queue.empty() && !needs_rebuild && resolve_loops.empty() && pending_free.empty() && joined_containers.empty()) {
    return;
  }
  walk_loop = UINT32_MAX;
  if (!needs_rebuild) Propagate();
  for (int round = 0; !needs_rebuild && !resolve_loops.empty(); ++round) {
    const uint32_t index = *resolve_loops.begin();
    resolve_loops.erase(resolve_loops.begin());
    const NodeId loop = loops.AtNode(index).node;
    const bool must = must_resolve.erase(index) != 0;
    if (loop.valid() && g.IsLive(loop)) {
      if (!must && !Affords(loops.AtNode(index).cost)) {
        stale = true;
        continue;
      }
      const int64_t before = AllSteps();
      ResolveLoop(loop);
      Spend(AllSteps() - before);
    }
    Propagate();
    // Loops that fill each other's containers: solving them once from the start is cheaper than in turns.
    constexpr int kManyRounds = 16;
    if (round == kManyRounds) {
      stale = true;
      resolve_loops.clear();
      needs_rebuild |= !must_resolve.empty();
    }
  }
  WantRebuild();
  if (needs_rebuild) {
    ++rebuilds;
    options_distrusted = stale = false;
    paid = 0;
    credit = 0;
    const bool had_reads = std::exchange(reads_active, false);
    Build();
    if (had_reads) ActivateReads();
  }
  touched.clear();
  forced.clear();
  overdrawn = false;
  if (!pending_free.empty()) {
    // Sets with these objects may come to stand for sets of others.
    ++storage_epoch;
    list_of_storages.clear();
  }
  for (uint32_t o : pending_free) {
    if (o >= objects.size()) continue;
    objects[o] = Object();
    for (uint32_t list : {2 * o, 2 * o + 1}) set_list_of.erase(list);
    // Another object must not be taken for one that is gone.
    if (!keeps_freed) free_objects.push_back(o);
  }
  pending_free.clear();
  if (dirty) DropCaches();
}

void AliasDb::State::DropCaches() {
  if (geometry_changed) {
    geoms.clear();
    ++geom_epoch;
    write_spans.clear();
    geoms_are_first = std::exchange(just_built, false);
  }
  if (reach_changed || geometry_changed) {
    reach_at_any_time.clear();
    outputs_known = false;
    output_refs.clear();
  }
  dirty = geometry_changed = reach_changed = false;
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
