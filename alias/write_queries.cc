#include "smelt/alias/write_queries.h"

#include <algorithm>
#include <optional>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

constexpr uint32_t kLongList = 16;

}  // namespace

const WriteSpans* WriteQueries::SpansOf(uint32_t list) {
  auto it = spans_.find(list);
  const bool known = it != spans_.end() && it->second.version == s_.accesses.writes.Version(list);
  // Sorting a write and placing its handle take some steps.
  constexpr int64_t kStepsOfWrite = 8;
  if (!known && !(it == spans_.end() && s_.geometries.are_first())) {
    const int64_t cost = kStepsOfWrite * s_.accesses.writes.Size(list);
    if (!s_.budget.AffordsCache(cost)) return nullptr;
    s_.budget.TakeForCache(cost);
  }
  if (it == spans_.end()) it = spans_.try_emplace(list).first;
  WriteSpans& out = it->second;
  // Returns the interval that the write covers, if it is of one dimension; the first such write decides which.
  const auto span_of = [&](uint32_t record) -> std::optional<WriteSpans::Span> {
    const Access& w = s_.accesses.writes.at(record);
    const uint32_t handle = ObjectOf(w.object());
    if ((w.bits & kOfContainer) || !s_.objects[handle].tensor) return std::nullopt;
    const Geom& geom = s_.geometries.GeomOf(handle);
    if (geom.space == 0 || !geom.space_injective || geom.space_varies || geom.fixed.empty()) return std::nullopt;
    if (out.space == 0) {
      out.space = geom.space;
      out.key = geom.fixed[0].key;
    }
    if (geom.space != out.space) return std::nullopt;
    for (const Geom::Fixed& f : geom.fixed) {
      if (f.key == out.key) return WriteSpans::Span{f.lo, f.hi};
    }
    return std::nullopt;
  };
  const auto is_before = [&](uint32_t a, uint32_t b) {
    return s_.tree.IsBefore(s_.accesses.writes.at(a).node, s_.accesses.writes.at(b).node);
  };
  const auto position_of = [&](uint32_t record) { return s_.accesses.writes.at(record).position; };
  const WriteSpans::Source source = {span_of, is_before, position_of};
  const int64_t before = out.steps();
  if (!known) {
    out = WriteSpans();
    out.version = s_.accesses.writes.Version(list);
    std::vector<uint32_t> all;
    for (uint32_t i = s_.accesses.writes.Head(list); i != 0; i = s_.accesses.writes.Next(i)) {
      if (s_.accesses.writes.at(i).bits & kWrite) all.push_back(i);
    }
    out.Fill(std::move(all), source);
    s_.steps += out.steps();
  } else {
    out.Settle(source);
    s_.steps += out.steps() - before;
  }
  return &out;
}

bool WriteQueries::IsPlain(Ref r) const {
  const uint32_t i = ObjectOf(r);
  const Object& o = s_.objects[i];
  return o.kind == ObjectKind::kTensor && !o.container && !o.external && !o.escaped && o.group == 0 &&
         o.storage == SetPool::Single(MakeRef(i)) && (!IsOld(r) || o.loop != 0);
}

SetId WriteQueries::PrivateStorages(SetId set) {
  if (set == 0) return 0;
  if (!SetPool::IsSingle(set)) return SummaryOfSet(set).private_storages;
  const Object& o = s_.objects[ObjectOf(SetPool::SingleRef(set))];
  if (!o.tensor || o.container) return 0;
  const SetId storages = s_.memory.Storages(SetPool::SingleRef(set));
  bool all = true;
  s_.sets.ForEach(storages, [&](Ref s) {
    const Object& storage = s_.objects[ObjectOf(s)];
    all = all && !storage.external && !storage.escaped && storage.group == 0 && storage.kind == ObjectKind::kTensor &&
          !storage.container;
  });
  return all ? storages : 0;
}

const SetSummary& WriteQueries::SummaryOfSet(SetId set) {
  if (summary_changes_ != s_.accesses.writes.changes() || summary_geom_epoch_ != s_.geometries.epoch()) {
    summary_changes_ = s_.accesses.writes.changes();
    summary_geom_epoch_ = s_.geometries.epoch();
    ++summary_epoch_;
  }
  if (set / 2 >= set_summaries_.size()) set_summaries_.resize(s_.sets.size() + 1);
  SetSummary& s = set_summaries_[set / 2];
  if (s.epoch == summary_epoch_) return s;
  s = {.epoch = summary_epoch_, .plain = true, .private_storages = 0, .first_write = UINT32_MAX, .last_write = 0};
  constexpr size_t kManyStorages = 64;
  bool is_private = true;
  s_.sets.ForEach(set, [&](Ref r) {
    const SetId in = is_private ? PrivateStorages(SetPool::Single(r)) : 0;
    is_private = in != 0 && s_.sets.Size(s.private_storages) <= kManyStorages;
    if (is_private) s.private_storages = s_.sets.Union(s.private_storages, in);
  });
  if (!is_private) s.private_storages = 0;
  s_.sets.ForEach(set, [&](Ref r) {
    s.plain = s.plain && IsPlain(r);
    if (!s.plain) return;
    absl::InlinedVector<uint32_t, 2> lists;
    s_.accesses.AddListsOf(ObjectOf(r), &lists);
    for (uint32_t list : lists) {
      const uint32_t tail = s_.accesses.writes.Tail(list);
      if (tail == 0) continue;
      const uint32_t head = s_.accesses.writes.Size(list) == 1 ? tail : s_.accesses.writes.Head(list);
      const bool known = s_.accesses.writes.at(head).position != 0 && s_.accesses.writes.at(tail).position != 0;
      s.first_write = std::min(s.first_write, known ? s_.accesses.writes.at(head).position : 0);
      s.last_write = std::max(s.last_write, known ? s_.accesses.writes.at(tail).position : UINT32_MAX);
    }
  });
  return s;
}

namespace {

// Answers whether v is written: while it is in scope if in_scope_only, else at any time. One rule decides (IsHit);
// everything else avoids applying it to writes that cannot matter.
class WriteSearch {
 public:
  WriteSearch(AliasDb::State& s, ValueId v, SetId points_to, bool in_scope_only)
      : s_(s),
        v_(v),
        points_to_(points_to),
        in_scope_only_(in_scope_only),
        ordered_(in_scope_only && !s.accesses.any_async),
        scope_(s.records.values[v.index].scope),
        from_(s.records.values[v.index].from),
        placed_(from_ != 0),
        until_(placed_ ? s.records.nodes[scope_].position : 0) {}

  bool Find() {
    if (IsOutOfReach()) return false;
    if (FindRecent()) return true;
    for (Ref r : s_.sets.Refs(points_to_)) {
      if (FindOf(r)) return true;
    }
    return false;
  }

 private:
  // Before v in the text: so are all writes of the location that stand before that one.
  enum class Place { kIn, kBefore, kOutside };

  Place PlaceOf(const Access& w) const {
    if (!in_scope_only_ || (w.bits & kAsync)) return Place::kIn;
    if (placed_ && w.position != 0) {
      return w.position < from_ ? Place::kBefore : w.position < until_ ? Place::kIn : Place::kOutside;
    }
    const NodeId def = s_.g.value(v_).def;
    const Node& def_node = s_.g.node(def);
    const NodeId x = s_.tree.AncestorIn(def_node.parent, w.node);
    if (!x.valid()) return Place::kOutside;
    return x == def || s_.g.IsParam(def) || s_.g.node(x).order > def_node.order ? Place::kIn : Place::kBefore;
  }

  // Returns whether the write touches v's bytes where v is r.
  bool IsHit(uint32_t write, Ref r) {
    const Access& w = s_.accesses.writes.at(write);
    return (w.bits & kWrite) && s_.queries.overlaps.AccessHitsValue(w, v_, r, !in_scope_only_);
  }
  // Returns whether so many writes were looked at in vain that the answer is "may".
  bool Tired(uint32_t write) {
    ++s_.steps;
    const Access& w = s_.accesses.writes.at(write);
    tired_ = tired_ || looks_.Tired(w.node, s_.sets.Size(w.handles));
    return tired_;
  }
  bool IsHitInScope(uint32_t write, Ref r) {
    return PlaceOf(s_.accesses.writes.at(write)) == Place::kIn && IsHit(write, r);
  }

  // Returns whether everything that v can be is written elsewhere in the text, if at all.
  bool IsOutOfReach() {
    if (!ordered_ || !placed_ || SetPool::IsSingle(points_to_)) return false;
    const SetSummary& all = s_.queries.written.SummaryOfSet(points_to_);
    if (!all.plain) return false;
    return all.first_write > all.last_write || all.last_write < from_ || all.first_write >= until_;
  }

  // Most written values are written through themselves, or by the last of their storage's writers.
  bool FindRecent() {
    bool found = false;
    s_.sets.ForEach(points_to_, [&](Ref r) {
      const uint32_t recent = s_.objects[ObjectOf(r)].recent_write;
      found = found ||
              (recent != 0 && s_.sets.Contains(s_.accesses.writes.at(recent).handles, r) && IsHitInScope(recent, r));
    });
    if (found || !SetPool::IsSingle(points_to_)) return found;
    const Ref r = SetPool::SingleRef(points_to_);
    const Object& o = s_.objects[ObjectOf(r)];
    if (o.container || !SetPool::IsSingle(o.storage)) return false;
    const uint32_t last = s_.accesses.writes.Tail(s_.accesses.ListOf(ObjectOf(SetPool::SingleRef(o.storage))));
    return last != 0 && IsHitInScope(last, r);
  }

  bool FindOf(Ref r) {
    const Object& o = s_.objects[ObjectOf(r)];
    if (o.tensor && !o.container && s_.geometries.IsEmpty(ObjectOf(r))) return false;
    const bool only_tensor = o.tensor && !o.container;
    absl::InlinedVector<uint32_t, 4> lists;
    const auto add_list = [&](Ref storage) { s_.accesses.AddListsOf(ObjectOf(storage), &lists); };
    s_.sets.ForEach(o.tensor ? s_.memory.Storages(r) : SetPool::Single(r), add_list);
    if (o.container) add_list(r);
    for (uint32_t list : lists) {
      if (s_.accesses.writes.Tail(list) == 0) continue;
      std::optional<bool> found;
      if (only_tensor && !(list & kSetList) && s_.accesses.writes.Size(list) > kLongList) {
        // The pieces are sorted once a walk from the end has not decided the answer, and from then on.
        const WriteSpans* const known = s_.queries.written.KnownSpansOf(list);
        if (known == nullptr || known->version != s_.accesses.writes.Version(list)) {
          found = FindFromTheEnd(list, r);
        }
        if (!found.has_value() || tired_) {
          looks_ = Looks();
          tired_ = false;
          const WriteSpans* const spans = s_.queries.written.SpansOf(list);
          if (spans == nullptr) return true;
          found = FindNear(*spans, r);
        }
      }
      if (found.has_value() ? *found : FindFromTheEnd(list, r)) return true;
    }
    return false;
  }

  // Looks only at the writes near this piece, if there are many writes to pieces. Returns nothing if the pieces do not
  // decide the answer.
  std::optional<bool> FindNear(const WriteSpans& spans, Ref r) {
    const int64_t before = spans.steps();
    const auto visit = [&](uint32_t record) {
      if (!(s_.accesses.writes.at(record).bits & kWrite)) return WriteSpans::Next::kGoOn;
      const Place place = PlaceOf(s_.accesses.writes.at(record));
      if ((place == Place::kIn && IsHit(record, r)) || Tired(record)) return WriteSpans::Next::kStop;
      return place == Place::kBefore && ordered_ ? WriteSpans::Next::kPassGroup : WriteSpans::Next::kGoOn;
    };
    const uint32_t until = ordered_ && placed_ ? until_ : 0;
    const Geom::Fixed* mine = nullptr;
    if (spans.has_spans()) {
      const Geom& geom = s_.geometries.GeomOf(ObjectOf(r));
      for (const Geom::Fixed& f : geom.fixed) {
        if (f.key == spans.key && geom.space == spans.space) mine = &f;
      }
    }
    std::optional<bool> found;
    if (mine != nullptr) {
      found = spans.VisitSpans({mine->lo, mine->hi}, visit) || spans.VisitOthers(until, visit);
    } else if (!spans.has_spans() && until != 0) {
      found = spans.VisitOthers(until, visit);
    }
    s_.steps += spans.steps() - before;
    return found;
  }

  // In program order the last writer is after most definitions.
  bool FindFromTheEnd(uint32_t list, Ref r) {
    uint32_t i = s_.accesses.writes.Tail(list);
    // In a block inside, the nodes behind the block are skipped.
    const bool long_way =
        ordered_ && s_.accesses.writes.Size(list) > kLongList && !(placed_ && scope_ == s_.records.top_scope);
    const BlockId block = long_way ? s_.g.node(s_.g.value(v_).def).parent : s_.g.top();
    const bool skip = block != s_.g.top();
    if (skip) i = s_.accesses.writes.LastBefore(list, s_.g.block(block).return_node, until_);
    for (; i != 0; i = s_.accesses.writes.Prev(i)) {
      const Place place = PlaceOf(s_.accesses.writes.at(i));
      if (place == Place::kIn && IsHit(i, r)) return true;
      if (ordered_ && (place == Place::kBefore || (place == Place::kOutside && skip))) return false;
      if (Tired(i)) return true;
    }
    return false;
  }

  AliasDb::State& s_;
  const ValueId v_;
  const SetId points_to_;
  const bool in_scope_only_;
  const bool ordered_;  // a list's writes are met in the text's order
  const uint32_t scope_, from_;
  const bool placed_;  // v's place in the text is known: from_ to until_
  const uint32_t until_;
  Looks looks_;
  bool tired_ = false;
};

}  // namespace

void WriteQueries::Added(uint32_t list, uint32_t record, bool to_data) {
  const auto it = spans_.find(list);
  if (it == spans_.end()) return;
  to_data ? it->second.Add(record) : it->second.Skip();
}

void WriteQueries::Removed(uint32_t list, uint32_t record) {
  if (const auto it = spans_.find(list); it != spans_.end()) it->second.Remove(record);
}

bool WriteQueries::Written(ValueId v, bool in_scope_only) {
  ++s_.steps;
  const SetId p = s_.records.PointsTo(v);
  if (p == 0) return false;
  // Tuples never change, and a future is set once, by the node that made it.
  if (s_.records.TypeOf(v) & kMayBeContainer) {
    const TypeKind kind = UnwrapOptional(s_.g.value(v).type).kind();
    if (kind == TypeKind::kTuple || kind == TypeKind::kFuture) return false;
  }
  if (SetPool::IsSingle(p)) {
    // Most values are one tensor in one storage that nothing writes. Then the graph need not be read.
    const Object& o = s_.objects[ObjectOf(SetPool::SingleRef(p))];
    if (!o.container && SetPool::IsSingle(o.storage)) {
      const uint32_t list = s_.accesses.ListOf(ObjectOf(SetPool::SingleRef(o.storage)));
      if (s_.accesses.writes.Tail(list) == 0 && s_.accesses.SetListOf(list) == 0) return false;
    }
  }
  return WriteSearch(s_, v, p, in_scope_only).Find();
}

// Returns whether n, or a node inside it, writes v. The writes inside to v's locations come right after n's own.
bool WriteQueries::WritesTo(NodeId n, ValueId v) {
  const absl::InlinedVector<Ref, 8> refs = s_.sets.Refs(s_.records.PointsTo(v));
  Looks looks;
  const auto hits = [&](const Access& w) {
    ++s_.steps;
    if (!(w.bits & kWrite)) return false;
    if (looks.Tired(w.node, s_.sets.Size(w.handles))) return true;
    const Access copy = w;
    return std::any_of(refs.begin(), refs.end(),
                       [&](Ref r) { return s_.queries.overlaps.AccessHitsValue(copy, v, r, true); });
  };
  if (refs.empty()) return false;
  for (uint32_t i = s_.records.RecordOf(n).first_write; i != 0; i = s_.accesses.writes.at(i).node_next) {
    if (hits(s_.accesses.writes.at(i))) return true;
  }
  const Node& node = s_.g.node(n);
  if (node.blocks.empty()) return false;
  absl::InlinedVector<uint32_t, 4> lists;
  for (Ref r : refs) {
    const Object& o = s_.objects[ObjectOf(r)];
    if (o.tensor) s_.sets.ForEach(s_.memory.Storages(r), [&](Ref s) { s_.accesses.AddListsOf(ObjectOf(s), &lists); });
    if (o.container) s_.accesses.AddListsOf(ObjectOf(r), &lists);
  }
  for (uint32_t list : lists) {
    for (uint32_t i = s_.accesses.writes.FirstAfter(list, n); i != 0; i = s_.accesses.writes.Next(i)) {
      if (s_.tree.AncestorIn(node.parent, s_.accesses.writes.at(i).node) != n) break;
      if (hits(s_.accesses.writes.at(i))) return true;
    }
  }
  return false;
}

}  // namespace smelt::alias_internal
