#include "smelt/alias/access_recorder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

void AccessRecorder::AddAccess(NodeId n, Ref object, Ref storage, uint8_t bits, size_t arg) {
  Access a;
  a.node = n;
  a.handles = SetPool::Single(object);
  a.storages = SetPool::Single(storage);
  a.bits = bits;
  a.arg = static_cast<uint16_t>(std::min<size_t>(arg, UINT16_MAX));
  const uint32_t list = s_.accesses.ListOf(ObjectOf(storage));
  const uint32_t record = s_.accesses.RecordAccess(list, a);
  if (!(bits & (kWrite | kGeometryWrite))) return;
  s_.objects[ObjectOf(object)].recent_write = record;
  s_.queries.written.Added(list, record, (bits & kWrite) != 0);
}

SetId AccessRecorder::TensorsOf(SetId s) {
  return s_.sets.Filter(s, [&](Ref r) { return s_.objects[ObjectOf(r)].tensor; });
}

SetId AccessRecorder::ContainersOf(SetId s) {
  return s_.sets.Filter(s, [&](Ref r) { return s_.objects[ObjectOf(r)].container; });
}

void AccessRecorder::AddAccessesTo(NodeId n, SetId handles, uint8_t bits, size_t arg) {
  if (handles == 0) return;
  const bool of_container = (bits & kOfContainer) != 0;
  const auto storages_of = [&](Ref r) { return of_container ? SetPool::Single(r) : s_.memory.Storages(r); };
  if (SetPool::IsSingle(handles)) {
    const Ref r = SetPool::SingleRef(handles);
    const SetId storages = storages_of(r);
    if (s_.sets.Size(storages) <= few_pairs) {
      for (Ref s : s_.sets.Refs(storages)) AddAccess(n, r, s, bits, arg);
      return;
    }
  } else if (s_.sets.Size(handles) <= few_pairs) {
    absl::InlinedVector<std::pair<Ref, Ref>, 8> pairs;
    size_t count = 0;
    s_.sets.ForEach(handles, [&](Ref r) {
      if (count > few_pairs) return;
      const SetId storages = storages_of(r);
      count += s_.sets.Size(storages);
      if (count > few_pairs) return;
      s_.sets.ForEach(storages, [&](Ref s) { pairs.push_back({r, s}); });
    });
    if (count <= few_pairs) {
      for (const auto& [r, s] : pairs) AddAccess(n, r, s, bits, arg);
      return;
    }
  }
  Access a;
  a.node = n;
  a.handles = handles;
  a.storages = of_container ? handles : s_.accesses.AllStorages(handles);
  a.bits = bits;
  a.arg = static_cast<uint16_t>(std::min<size_t>(arg, UINT16_MAX));
  const uint32_t record = s_.accesses.RecordAccess(s_.accesses.SetListFor(a.storages), a);
  if (!(bits & (kWrite | kGeometryWrite))) return;
  s_.sets.ForEach(handles, [&](Ref r) { s_.objects[ObjectOf(r)].recent_write = record; });
}

void AccessRecorder::AddAccesses(NodeId n, absl::Span<const ValueId> inputs, const OpEffects& e, uint8_t extra) {
  if (defers_accesses) {
    uint16_t& flags = s_.records.nodes[n.index].flags;
    if ((flags & NodeRecord::kUnrecorded) == 0) unrecorded_.push_back(n);
    flags |= NodeRecord::kUnrecorded;
    return;
  }
  // Arguments that are the same tensors, and are accessed in the same way, need one record. A few are remembered.
  constexpr size_t kRemembered = 8;
  absl::InlinedVector<std::pair<SetId, uint16_t>, kRemembered> done;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (b == 0) continue;
    const SetId p = s_.records.PointsTo(inputs[i]);
    if (p == 0) continue;
    const bool writes_elements = b & (kWritesElements | kReshapesElements);
    const bool writes_something = writes_elements || (b & (kWritesData | kWritesGeometry | kWritesContainer));
    if (!writes_something && !s_.accesses.reads_active) continue;
    const bool is_known = std::find(done.begin(), done.end(), std::pair(p, b)) != done.end();
    if (is_known && !s_.records.CanBeContainer(inputs[i])) continue;
    if (!is_known && done.size() < kRemembered) done.push_back({p, b});
    const bool reads_something = s_.accesses.reads_active && (b & (kReadsData | kReadsGeometry)) != 0;
    if ((b & (kWritesData | kWritesGeometry)) != 0 || reads_something) {
      const SetId tensors = TensorsOf(p);
      const uint8_t w = (b & kWritesData ? kWrite : 0) | (b & kWritesGeometry ? kGeometryWrite : 0);
      const uint8_t rd = (b & kReadsData ? kRead : 0) | (b & kReadsGeometry ? kGeometryRead : 0);
      if (w != 0) AddAccessesTo(n, tensors, w | extra, i);
      if ((b & kWritesGeometry) && !e.keeps_geometry) s_.reshapes.AddGeometryChanges(tensors, n);
      if (reads_something) AddAccessesTo(n, tensors, rd | extra, i);
    }
    // Only containers have elements.
    const uint16_t of_containers = kWritesContainer | kWritesElements | kReshapesElements |
                                   (s_.accesses.reads_active ? kReadsContainer | kReadsElements : 0);
    if ((b & of_containers) == 0 || !s_.records.CanBeContainer(inputs[i])) continue;
    if ((b & kWritesContainer) || (s_.accesses.reads_active && (b & kReadsContainer))) {
      const SetId containers = ContainersOf(p);
      if (b & kWritesContainer) AddAccessesTo(n, containers, kWrite | kOfContainer | extra, i);
      if (s_.accesses.reads_active && (b & kReadsContainer))
        AddAccessesTo(n, containers, kRead | kOfContainer | extra, i);
    }
    const bool deep = (b & kWritesContainer) && (b & kEscapes);  // code that we do not see
    if (!writes_elements && !deep && !(s_.accesses.reads_active && (b & kReadsElements))) continue;
    SetId inside = 0;
    for (Ref r : s_.sets.Refs(p)) {
      if (s_.objects[ObjectOf(r)].container) inside = s_.memory.Join(inside, s_.containers.ContentOf(r, kAnySlot, n));
    }
    inside = s_.containers.Reach(inside, n);
    const SetId tensors = TensorsOf(inside), containers = ContainersOf(inside);
    if (deep) AddAccessesTo(n, containers, kWrite | kOfContainer | extra, i);
    if (s_.accesses.reads_active) AddAccessesTo(n, containers, kRead | kOfContainer | extra, i);
    if (b & kReshapesElements) s_.reshapes.AddGeometryChanges(tensors, n);
    const uint8_t w = (b & kWritesElements ? kWrite : 0) | (b & kReshapesElements ? kGeometryWrite : 0);
    if (w != 0) AddAccessesTo(n, tensors, w | extra, i);
    if (s_.accesses.reads_active && (b & kReadsElements)) AddAccessesTo(n, tensors, kRead | kGeometryRead | extra, i);
  }
  const Ref unknown = MakeRef(kUnknown);
  if (e.kind == EffectKind::kUnknown) {
    s_.reshapes.AddGeometryChange(kUnknown, n);
    AddAccess(n, unknown, unknown, kWrite | kGeometryWrite | extra, UINT16_MAX);
    AddAccess(n, unknown, unknown, kWrite | kOfContainer | extra, UINT16_MAX);
    if (s_.accesses.reads_active) {
      AddAccess(n, unknown, unknown, kRead | kGeometryRead | extra, UINT16_MAX);
      AddAccess(n, unknown, unknown, kRead | kOfContainer | extra, UINT16_MAX);
    }
  }
  if (e.random) AddAccess(n, MakeRef(kRandom), MakeRef(kRandom), kWrite, UINT16_MAX);
  if (e.side_effect) AddAccess(n, MakeRef(kWorld), MakeRef(kWorld), kWrite, UINT16_MAX);
  if (s_.accesses.reads_active && e.side_effect && s_.g.node(n).op.name() == op::kPrimRaiseException) {
    AddAccess(n, unknown, unknown, kRead, UINT16_MAX);
  }
}

// Records what n accesses, which has been evaluated and is not pure.
void AccessRecorder::RecordAccessesOf(NodeId n) {
  const Node& node = s_.g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  if (op.kind == EffectKind::kWait) return AddAccessesOfWait(n, node, op);
  OpEffects made;
  const OpEffects& e = s_.effects.EffectsOf(node, &made);
  AddAccesses(n, node.inputs, e, 0);
  if (op.kind == EffectKind::kFork && e.writes) AddAccesses(n, node.inputs, e, kAsync);
}

void AccessRecorder::RecordUnrecorded() {
  deferring = defers_accesses = s_.evaluator.making_first = false;
  s_.solver.walk_loop = UINT32_MAX;
  const auto before = [&](NodeId a, NodeId b) {
    return s_.records.nodes[a.index].position < s_.records.nodes[b.index].position;
  };
  if (!std::is_sorted(unrecorded_.begin(), unrecorded_.end(), before)) {
    std::sort(unrecorded_.begin(), unrecorded_.end(), before);
  }
  s_.steps += static_cast<int64_t>(unrecorded_.size());
  for (NodeId n : unrecorded_) {
    s_.records.nodes[n.index].flags &= ~NodeRecord::kUnrecorded;
    const uint16_t had = s_.records.nodes[n.index].flags;
    RecordAccessesOf(n);
    s_.reshapes.CountGeometryWriter(n, had);
  }
  std::vector<NodeId>().swap(unrecorded_);
}

void AccessRecorder::ForgetAccesses(NodeRecord& r) {
  if (r.first_write != 0) {
    if (r.flags & NodeRecord::kGeometry) {
      // Several paths may have reached a handle, and recorded it once per storage.
      absl::InlinedVector<uint32_t, 8> keys;
      NodeId by;
      const auto note = [&](uint32_t key) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      };
      for (uint32_t i = r.first_write; i != 0; i = s_.accesses.writes.at(i).node_next) {
        const Access& w = s_.accesses.writes.at(i);
        if (!(w.bits & kGeometryWrite)) continue;
        by = w.node;
        s_.sets.ForEach(w.handles, [&](Ref r) {
          note(s_.objects.HandleKey(ObjectOf(r)));
          if (s_.objects[ObjectOf(r)].external) note(kUnknown);
        });
      }
      for (uint32_t key : keys) s_.reshapes.DropGeometryChange(key, by);
    }
    for (uint32_t i = r.first_write; i != 0; i = s_.accesses.writes.at(i).node_next) {
      s_.queries.written.Removed(s_.accesses.writes.at(i).list, i);
    }
    s_.accesses.writes.RemoveNode(&r.first_write);
  }
  if (r.first_read != 0) s_.accesses.reads.RemoveNode(&r.first_read);
}

void AccessRecorder::ActivateReads() {
  if (s_.accesses.reads_active) return;
  s_.accesses.reads_active = true;
  const bool saved = s_.solver.monotone;
  const uint32_t saved_loop = s_.solver.walk_loop;
  s_.solver.monotone = true;
  s_.solver.walk_loop = UINT32_MAX;
  for (NodeId n : s_.g.AllNodes()) {
    if (!(s_.records.RecordOf(n).flags & NodeRecord::kEvaluated)) continue;
    const Node& node = s_.g.node(n);
    const OpEffects& op = GetOpEffects(node.op);
    if (op.pure) {
      AddAccesses(n, node.inputs, op.by == OpEffects::By::kNothing ? op : s_.effects.EffectsOf(node), 0);
    } else {
      // Only the reads are new: evaluation adds both, so the node's writes are taken out first.
      s_.solver.Evaluate(n, false);
    }
  }
  s_.solver.walk_loop = saved_loop;
  s_.solver.Propagate();
  s_.solver.monotone = saved;
}

void AccessRecorder::AddAccessesOfWait(NodeId n, const Node& node, const OpEffects& op) {
  AddAccesses(n, node.inputs, op, 0);
  if (node.inputs.empty()) return;
  // The effects of the forked graph may happen here.
  for (Ref r : s_.sets.Refs(s_.records.PointsTo(node.inputs[0]))) {
    const Object& future = s_.objects[ObjectOf(r)];
    if (future.def.valid() && s_.g.IsLive(future.def) &&
        GetOpEffects(s_.g.node(s_.g.value(future.def).def).op).kind == EffectKind::kFork) {
      const Node& fork = s_.g.node(s_.g.value(future.def).def);
      OpEffects e = s_.effects.EffectsOf(fork);
      e.side_effect = e.random = false;
      AddAccesses(n, fork.inputs, e, 0);
    } else {
      OpEffects e = GetOpEffects(OpName::Get(op::kPrimPythonOp));
      e.side_effect = e.random = false;
      AddAccesses(n, {}, e, 0);
    }
  }
}

void AccessRecorder::AddReadsOfControl(NodeId n, const Node& node, EffectKind kind) {
  if (!s_.accesses.reads_active) return;
  ForgetAccesses(s_.records.nodes[n.index]);  // while it is entered and left it is evaluated twice
  const auto reads = [&](ValueId v, size_t arg) {
    AddAccessesTo(n, TensorsOf(s_.records.PointsTo(v)), kRead | kGeometryRead, arg);
  };
  // The results of a block that decide: no arguments of the node.
  const auto reads_result = [&](BlockId b) {
    if (!s_.g.results(b).empty()) reads(s_.g.results(b)[0], UINT16_MAX);
  };
  const size_t decide = kind == EffectKind::kWhile ? 0 : kind == EffectKind::kLoop ? 2 : 1;
  for (size_t i = 0; i < decide && i < node.inputs.size(); ++i) reads(node.inputs[i], i);
  if (IsLoopKind(kind) && !node.blocks.empty()) reads_result(node.blocks[0]);
  if (kind != EffectKind::kWhile) return;
  const size_t carried = std::min(node.inputs.size(), node.outputs.size());
  s_.steps += static_cast<int64_t>(carried);
  for (size_t i = 0; i < carried; ++i) reads(node.inputs[i], i);
}

}  // namespace smelt::alias_internal
