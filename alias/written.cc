// Decides whether some node writes a value's bytes while the value is in scope, without looking at writes that cannot
// matter: those to other pieces of the storage, and those in other parts of the text.
#include <algorithm>
#include <optional>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Access;
using alias_internal::Geom;
using alias_internal::IsOld;
using alias_internal::kAsync;
using alias_internal::kOfContainer;
using alias_internal::kSetList;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::Object;
using alias_internal::ObjectOf;
using alias_internal::Ref;
using alias_internal::SetId;
using alias_internal::SetPool;
using alias_internal::SetSummary;
using alias_internal::UnwrapOptional;
using alias_internal::WriteSpans;

namespace {

constexpr uint32_t kLongList = 16;

}  // namespace

const alias_internal::WriteSpans* AliasDb::State::SpansOf(uint32_t list) {
  auto it = write_spans.find(list);
  const bool known = it != write_spans.end() && it->second.version == writes.Version(list);
  // Sorting a write and placing its handle take some steps.
  constexpr int64_t kStepsOfWrite = 8;
  if (!known && !(it == write_spans.end() && geoms_are_first)) {
    const int64_t cost = kStepsOfWrite * writes.Size(list);
    if (!AffordsCache(cost)) return nullptr;
    cache_credit = std::max<int64_t>(0, cache_credit - cost);
  }
  if (it == write_spans.end()) it = write_spans.try_emplace(list).first;
  WriteSpans& out = it->second;
  // Returns the interval that the write covers, if it is of one dimension; the first such write decides which.
  const auto span_of = [&](uint32_t record) -> std::optional<WriteSpans::Span> {
    const Access& w = writes.at(record);
    const uint32_t handle = ObjectOf(w.object());
    if ((w.bits & kOfContainer) || !objects[handle].tensor) return std::nullopt;
    const Geom& geom = GeomOf(handle);
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
  const auto is_before = [&](uint32_t a, uint32_t b) { return tree.IsBefore(writes.at(a).node, writes.at(b).node); };
  const auto position_of = [&](uint32_t record) { return writes.at(record).position; };
  const WriteSpans::Source source = {span_of, is_before, position_of};
  const int64_t before = out.steps();
  if (!known) {
    out = WriteSpans();
    out.version = writes.Version(list);
    std::vector<uint32_t> all;
    for (uint32_t i = writes.Head(list); i != 0; i = writes.Next(i)) {
      if (writes.at(i).bits & kWrite) all.push_back(i);
    }
    out.Fill(std::move(all), source);
    steps += out.steps();
  } else {
    out.Settle(source);
    steps += out.steps() - before;
  }
  return &out;
}

bool AliasDb::State::IsPlain(Ref r) const {
  const uint32_t i = ObjectOf(r);
  const Object& o = objects[i];
  return o.kind == Kind::kTensor && !o.container && !o.external && !o.escaped && o.group == 0 &&
         o.storage == SetPool::Single(MakeRef(i)) && (!IsOld(r) || o.loop != 0);
}

AliasDb::State::SetId AliasDb::State::PrivateStorages(SetId set) {
  if (set == 0) return 0;
  if (!SetPool::IsSingle(set)) return SummaryOfSet(set).private_storages;
  const Object& o = objects[ObjectOf(SetPool::SingleRef(set))];
  if (!o.tensor || o.container) return 0;
  const SetId storages = Storages(SetPool::SingleRef(set));
  bool all = true;
  sets.ForEach(storages, [&](Ref s) {
    const Object& storage = objects[ObjectOf(s)];
    all = all && !storage.external && !storage.escaped && storage.group == 0 && storage.kind == Kind::kTensor &&
          !storage.container;
  });
  return all ? storages : 0;
}

const SetSummary& AliasDb::State::SummaryOfSet(SetId set) {
  if (summary_changes != writes.changes() || summary_geom_epoch != geom_epoch) {
    summary_changes = writes.changes();
    summary_geom_epoch = geom_epoch;
    ++summary_epoch;
  }
  if (set / 2 >= set_summaries.size()) set_summaries.resize(sets.size() + 1);
  SetSummary& s = set_summaries[set / 2];
  if (s.epoch == summary_epoch) return s;
  s = {.epoch = summary_epoch, .plain = true, .private_storages = 0, .first_write = UINT32_MAX, .last_write = 0};
  constexpr size_t kManyStorages = 64;
  bool is_private = true;
  sets.ForEach(set, [&](Ref r) {
    const SetId in = is_private ? PrivateStorages(SetPool::Single(r)) : 0;
    is_private = in != 0 && sets.Size(s.private_storages) <= kManyStorages;
    if (is_private) s.private_storages = sets.Union(s.private_storages, in);
  });
  if (!is_private) s.private_storages = 0;
  sets.ForEach(set, [&](Ref r) {
    s.plain = s.plain && IsPlain(r);
    if (!s.plain) return;
    absl::InlinedVector<uint32_t, 2> lists;
    AddListsOf(ObjectOf(r), &lists);
    for (uint32_t list : lists) {
      const uint32_t tail = writes.Tail(list);
      if (tail == 0) continue;
      const uint32_t head = writes.Size(list) == 1 ? tail : writes.Head(list);
      const bool known = writes.at(head).position != 0 && writes.at(tail).position != 0;
      s.first_write = std::min(s.first_write, known ? writes.at(head).position : 0);
      s.last_write = std::max(s.last_write, known ? writes.at(tail).position : UINT32_MAX);
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
        ordered_(in_scope_only && !s.any_async),
        scope_(s.values[v.index].scope),
        from_(s.values[v.index].from),
        placed_(from_ != 0),
        until_(placed_ ? s.nodes[scope_].position : 0) {}

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
    const NodeId x = s_.AncestorIn(def_node.parent, w.node);
    if (!x.valid()) return Place::kOutside;
    return x == def || s_.g.IsParam(def) || s_.g.node(x).order > def_node.order ? Place::kIn : Place::kBefore;
  }

  // Returns whether the write touches v's bytes where v is r.
  bool IsHit(uint32_t write, Ref r) {
    const Access& w = s_.writes.at(write);
    return (w.bits & kWrite) && s_.AccessHitsValue(w, v_, r, !in_scope_only_);
  }
  // Returns whether so many writes were looked at in vain that the answer is "may".
  bool Tired(uint32_t write) {
    ++s_.steps;
    const Access& w = s_.writes.at(write);
    tired_ = tired_ || looks_.Tired(w.node, s_.sets.Size(w.handles));
    return tired_;
  }
  bool IsHitInScope(uint32_t write, Ref r) { return PlaceOf(s_.writes.at(write)) == Place::kIn && IsHit(write, r); }

  // Returns whether everything that v can be is written elsewhere in the text, if at all.
  bool IsOutOfReach() {
    if (!ordered_ || !placed_ || SetPool::IsSingle(points_to_)) return false;
    const SetSummary& all = s_.SummaryOfSet(points_to_);
    if (!all.plain) return false;
    return all.first_write > all.last_write || all.last_write < from_ || all.first_write >= until_;
  }

  // Most written values are written through themselves, or by the last of their storage's writers.
  bool FindRecent() {
    bool found = false;
    s_.sets.ForEach(points_to_, [&](Ref r) {
      const uint32_t recent = s_.objects[ObjectOf(r)].recent_write;
      found = found || (recent != 0 && s_.sets.Contains(s_.writes.at(recent).handles, r) && IsHitInScope(recent, r));
    });
    if (found || !SetPool::IsSingle(points_to_)) return found;
    const Ref r = SetPool::SingleRef(points_to_);
    const Object& o = s_.objects[ObjectOf(r)];
    if (o.container || !SetPool::IsSingle(o.storage)) return false;
    const uint32_t last = s_.writes.Tail(s_.ListOf(ObjectOf(SetPool::SingleRef(o.storage))));
    return last != 0 && IsHitInScope(last, r);
  }

  bool FindOf(Ref r) {
    const Object& o = s_.objects[ObjectOf(r)];
    if (o.tensor && !o.container && s_.IsEmpty(ObjectOf(r))) return false;
    const bool only_tensor = o.tensor && !o.container;
    absl::InlinedVector<uint32_t, 4> lists;
    const auto add_list = [&](Ref storage) { s_.AddListsOf(ObjectOf(storage), &lists); };
    s_.sets.ForEach(o.tensor ? s_.Storages(r) : SetPool::Single(r), add_list);
    if (o.container) add_list(r);
    for (uint32_t list : lists) {
      if (s_.writes.Tail(list) == 0) continue;
      std::optional<bool> found;
      if (only_tensor && !(list & kSetList) && s_.writes.Size(list) > kLongList) {
        // The pieces are sorted once a walk from the end has not decided the answer, and from then on.
        const auto known = s_.write_spans.find(list);
        if (known == s_.write_spans.end() || known->second.version != s_.writes.Version(list)) {
          found = FindFromTheEnd(list, r);
        }
        if (!found.has_value() || tired_) {
          looks_ = alias_internal::Looks();
          tired_ = false;
          const WriteSpans* const spans = s_.SpansOf(list);
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
      if (!(s_.writes.at(record).bits & kWrite)) return WriteSpans::Next::kGoOn;
      const Place place = PlaceOf(s_.writes.at(record));
      if ((place == Place::kIn && IsHit(record, r)) || Tired(record)) return WriteSpans::Next::kStop;
      return place == Place::kBefore && ordered_ ? WriteSpans::Next::kPassGroup : WriteSpans::Next::kGoOn;
    };
    const uint32_t until = ordered_ && placed_ ? until_ : 0;
    const Geom::Fixed* mine = nullptr;
    if (spans.has_spans()) {
      const Geom& geom = s_.GeomOf(ObjectOf(r));
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
    uint32_t i = s_.writes.Tail(list);
    // In a block inside, the nodes behind the block are skipped.
    const bool long_way = ordered_ && s_.writes.Size(list) > kLongList && !(placed_ && scope_ == s_.top_scope);
    const BlockId block = long_way ? s_.g.node(s_.g.value(v_).def).parent : s_.g.top();
    const bool skip = block != s_.g.top();
    if (skip) i = s_.writes.LastBefore(list, s_.g.block(block).return_node, until_);
    for (; i != 0; i = s_.writes.Prev(i)) {
      const Place place = PlaceOf(s_.writes.at(i));
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
  alias_internal::Looks looks_;
  bool tired_ = false;
};

}  // namespace

bool AliasDb::State::Written(ValueId v, bool in_scope_only) {
  ++steps;
  const SetId p = PointsTo(v);
  if (p == 0) return false;
  // Tuples never change, and a future is set once, by the node that made it.
  if (TypeOf(v) & kMayBeContainer) {
    const TypeKind kind = UnwrapOptional(g.value(v).type).kind();
    if (kind == TypeKind::kTuple || kind == TypeKind::kFuture) return false;
  }
  if (SetPool::IsSingle(p)) {
    // Most values are one tensor in one storage that nothing writes. Then the graph need not be read.
    const Object& o = objects[ObjectOf(SetPool::SingleRef(p))];
    if (!o.container && SetPool::IsSingle(o.storage)) {
      const uint32_t list = ListOf(ObjectOf(SetPool::SingleRef(o.storage)));
      if (writes.Tail(list) == 0 && SetListOf(list) == 0) return false;
    }
  }
  return WriteSearch(*this, v, p, in_scope_only).Find();
}

}  // namespace smelt
