// Whether some node writes a value's bytes while the value is in scope, without looking at what cannot matter: other
// pieces of the storage, other parts of the text.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::IsOld;
using alias_internal::kAsync;
using alias_internal::kOfContainer;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::SetSummary;

namespace {

constexpr uint32_t kLongList = 16;

// How many of the sorted `size` are before something: near the last answer, else anywhere.
template <typename F>
size_t CountBefore(size_t size, size_t* last, const F& before) {
  constexpr size_t kSteps = 32;
  size_t low = 0, high = size;
  if (*last <= size) {
    if (*last >= kSteps && before(*last - kSteps)) low = *last - kSteps + 1;
    if (size - *last > kSteps && !before(*last + kSteps)) high = *last + kSteps;
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    before(middle) ? low = middle + 1 : high = middle;
  }
  return *last = low;
}

}  // namespace

size_t alias_internal::WriteSpans::SpansBefore(int64_t hi) const {
  return CountBefore(spans.size(), &last_span, [&](size_t i) { return spans[i].lo < hi; });
}

size_t alias_internal::WriteSpans::OthersBefore(uint32_t position) const {
  return CountBefore(others_at.size(), &last_other, [&](size_t i) { return others_at[i] < position; });
}

const alias_internal::WriteSpans& AliasDb::State::SpansOf(uint32_t list) {
  const uint32_t version = writes.Version(list);
  auto [it, inserted] = write_spans.try_emplace(list);
  if (!inserted && it->second.version == version) return it->second;
  alias_internal::WriteSpans out;
  out.version = version;
  for (uint32_t i = writes.Head(list); i != 0; i = writes.Next(i)) {
    const Access& w = writes.at(i);
    if (!(w.bits & kWrite)) continue;
    const Geom* geom = nullptr;
    if (!(w.bits & kOfContainer) && objects[ObjectOf(w.object)].tensor) geom = &GeomOf(ObjectOf(w.object));
    if (geom != nullptr && geom->space != 0 && geom->space_injective && !geom->fixed.empty()) {
      if (out.space == 0) {
        out.space = geom->space;
        out.key = geom->fixed[0].key;
      }
      bool found = false;
      if (geom->space == out.space) {
        for (const Geom::Fixed& f : geom->fixed) {
          if (f.key != out.key) continue;
          out.spans.push_back({f.lo, f.hi, i, 0});
          found = true;
          break;
        }
      }
      if (found) continue;
    }
    out.others.push_back(i);
    out.others_at.push_back(w.position);
  }
  if (std::find(out.others_at.begin(), out.others_at.end(), 0u) != out.others_at.end()) out.others_at.clear();
  std::stable_sort(out.spans.begin(), out.spans.end(),
                   [](const auto& x, const auto& y) { return x.lo != y.lo ? x.lo < y.lo : x.hi < y.hi; });
  for (size_t i = 0; i < out.spans.size(); ++i) {
    auto& s = out.spans[i];
    const bool same = i > 0 && out.spans[i - 1].lo == s.lo && out.spans[i - 1].hi == s.hi;
    s.group = same ? out.spans[i - 1].group : static_cast<uint32_t>(i);
    out.max_hi.push_back(i > 0 ? std::max(out.max_hi.back(), s.hi) : s.hi);
  }
  return write_spans[list] = std::move(out);
}

bool AliasDb::State::IsPlain(Ref r) const {
  const uint32_t i = ObjectOf(r);
  const Object& o = objects[i];
  return o.kind == Kind::kTensor && !o.container && !o.external && !o.escaped && o.group == 0 &&
         o.storage == SetPool::Single(MakeRef(i)) && (!IsOld(r) || o.loop != 0);
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
  s = {.epoch = summary_epoch, .plain = true, .first_write = UINT32_MAX, .last_write = 0};
  sets.ForEach(set, [&](Ref r) {
    s.plain = s.plain && IsPlain(r);
    if (!s.plain) return;
    const uint32_t list = ListOf(ObjectOf(r));
    const uint32_t tail = writes.Tail(list);
    if (tail == 0) return;
    const uint32_t head = writes.Size(list) == 1 ? tail : writes.Head(list);
    const bool known = writes.at(head).position != 0 && writes.at(tail).position != 0;
    s.first_write = std::min(s.first_write, known ? writes.at(head).position : 0);
    s.last_write = std::max(s.last_write, known ? writes.at(tail).position : UINT32_MAX);
  });
  return s;
}

bool AliasDb::State::Written(ValueId v, bool in_scope_only) {
  const SetId p = PointsTo(v);
  if (p == 0) return false;
  uint32_t last = 0;
  if (SetPool::IsSingle(p)) {
    // Most values: one tensor in one storage that nobody writes. Nothing of the graph is looked at.
    const Object& o = objects[ObjectOf(SetPool::SingleRef(p))];
    if (!o.container && SetPool::IsSingle(o.storage)) {
      last = writes.Tail(ListOf(ObjectOf(SetPool::SingleRef(o.storage))));
      if (last == 0) return false;
    }
  }
  const bool ordered = in_scope_only && !any_async;
  const ValueRecord record = values[v.index];
  const bool placed = record.from != 0;
  const uint32_t from = record.from, until = placed ? nodes[record.scope].position : 0;
  if (ordered && placed && !SetPool::IsSingle(p)) {
    const SetSummary& s = SummaryOfSet(p);
    if (s.plain && (s.first_write > s.last_write || s.last_write < from || s.first_write >= until)) return false;
  }
  // Before: in the text; so are all writes of the location that stand before that one.
  enum Scope { kIn, kBefore, kOutside };
  auto scope = [&](const Access& w) {
    if (!in_scope_only || (w.bits & kAsync)) return kIn;
    if (placed && w.position != 0) return w.position < from ? kBefore : w.position < until ? kIn : kOutside;
    const NodeId def = g.value(v).def;
    const Node& def_node = g.node(def);
    const NodeId x = AncestorIn(def_node.parent, w.node);
    if (!x.valid()) return kOutside;
    return x == def || g.IsParam(def) || g.node(x).order > def_node.order ? kIn : kBefore;
  };
  // Most of what is written is written by way of itself, or by the last of its storage's writers.
  auto written_by = [&](uint32_t i, Ref r) {
    const Access& w = writes.at(i);
    return (w.bits & kWrite) && scope(w) == kIn && AccessHitsValue(w, v, r, !in_scope_only);
  };
  bool found = false;
  sets.ForEach(p, [&](Ref r) {
    const uint32_t recent = objects[ObjectOf(r)].recent_write;
    found = found || (recent != 0 && writes.at(recent).object == r && written_by(recent, r));
  });
  if (found || (last != 0 && written_by(last, SetPool::SingleRef(p)))) return true;
  for (Ref r : sets.Refs(p)) {
    const Object& o = objects[ObjectOf(r)];
    const SetId storages = o.tensor ? Storages(r) : SetPool::Single(r);
    if (o.tensor && !o.container && IsEmpty(ObjectOf(r))) continue;
    absl::InlinedVector<uint32_t, 4> lists;
    auto add_list = [&](Ref s) {
      uint32_t list = ListOf(ObjectOf(s));
      if (std::find(lists.begin(), lists.end(), list) == lists.end()) lists.push_back(list);
    };
    sets.ForEach(storages, add_list);
    if (o.container) add_list(r);
    auto hits = [&](uint32_t i) {
      const Access& w = writes.at(i);
      return (w.bits & kWrite) && AccessHitsValue(w, v, r, !in_scope_only);
    };
    for (uint32_t list : lists) {
      if (writes.Tail(list) == 0) continue;
      if (writes.Size(list) > kLongList && o.tensor && !o.container) {
        // Of many writes to pieces only those near this one.
        const alias_internal::WriteSpans& s = SpansOf(list);
        const Geom::Fixed* mine = nullptr;
        if (!s.spans.empty()) {
          const Geom& geom = GeomOf(ObjectOf(r));
          for (const Geom::Fixed& f : geom.fixed) {
            if (f.key == s.key && geom.space == s.space) mine = &f;
          }
        }
        if (mine != nullptr && !s.spans.empty()) {
          for (size_t i = s.SpansBefore(mine->hi); i-- > 0 && s.max_hi[i] > mine->lo;) {
            if (s.spans[i].hi <= mine->lo) {
              i = s.spans[i].group;
              continue;
            }
            const Scope where = scope(writes.at(s.spans[i].record));
            if (where == kIn && hits(s.spans[i].record)) return true;
            if (where == kBefore && ordered) i = s.spans[i].group;
          }
        }
        const bool all_other = mine == nullptr && s.spans.empty();
        if ((mine != nullptr && !s.spans.empty()) || (all_other && ordered && placed && !s.others_at.empty())) {
          size_t i = s.others.size();
          if (ordered && placed && !s.others_at.empty()) i = s.OthersBefore(until);
          while (i-- > 0) {
            const Scope where = scope(writes.at(s.others[i]));
            if (where == kIn && hits(s.others[i])) return true;
            if (where == kBefore && ordered) break;
          }
          continue;
        }
      }
      // From the end: in program order the last writer is after most definitions.
      uint32_t i = writes.Tail(list);
      bool search = ordered && writes.Size(list) > kLongList && !(placed && record.scope == top_scope);
      if (search) {
        const BlockId block = g.node(g.value(v).def).parent;
        search = block != g.top();
        if (search) i = writes.LastBefore(list, g.block(block).return_node, until);
      }
      for (; i != 0; i = writes.Prev(i)) {
        const Scope where = scope(writes.at(i));
        if (where == kIn && hits(i)) return true;
        if (ordered && (where == kBefore || (where == kOutside && search))) break;
      }
    }
  }
  return false;
}

}  // namespace smelt
