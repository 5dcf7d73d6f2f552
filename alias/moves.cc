#include "smelt/alias/moves.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "smelt/alias/state.h"

namespace smelt {
namespace alias_internal {

namespace {

// The kind of an access's storage. Accesses to several are to memory.
ObjectKind KindOf(const AliasDb::State& s, const Access& a) {
  return a.IsOfOne() ? s.objects[ObjectOf(a.storage())].kind : ObjectKind::kTensor;
}

}  // namespace

void Moves::Step(Search* search, int64_t count) {
  s_.steps += count;
  search->left -= count;
}

int64_t Moves::BeginSearch(Search* search) {
  constexpr int64_t kFewSteps = 256;
  search->left = s_.g.num_nodes() <= solved_at_once ? INT64_MAX : std::max(kFewSteps, credit_);
  return search->left;
}

void Moves::EndSearch(const Search& search, int64_t of) {
  constexpr int64_t kPaidByQuestion = 64;
  if (of != INT64_MAX) credit_ = std::max<int64_t>(0, credit_ + kPaidByQuestion - (of - search.left));
}

// n and the nodes inside it, and their accesses.
void Moves::AccessesOf(NodeId n, Search* search, absl::InlinedVector<NodeId, 8>* inside,
                       absl::InlinedVector<Access, 8>* out) {
  *inside = {n};
  for (size_t i = 0; i < inside->size() && !search->IsExhausted(); ++i) {
    for (BlockId b : s_.g.node((*inside)[i]).blocks) {
      for (NodeId m = s_.g.block(b).first; m.valid() && !search->IsExhausted(); m = s_.g.node(m).next) {
        Step(search);
        inside->push_back(m);
      }
    }
  }
  for (NodeId x : *inside) {
    for (uint32_t i = s_.records.RecordOf(x).first_write; i != 0; i = s_.accesses.writes.at(i).node_next)
      out->push_back(s_.accesses.writes.at(i));
    for (uint32_t i = s_.records.RecordOf(x).first_read; i != 0; i = s_.accesses.reads.at(i).node_next) {
      out->push_back(s_.accesses.reads.at(i));
      out->back().list = s_.accesses.ListOfReads(out->back().list);
    }
  }
  Step(search, static_cast<int64_t>(out->size()));
}

// An access to one of few may conflict with those to many, and the other way round: appends each to all lists where the
// others are.
void Moves::AddListsToLookAt(Search* search, absl::InlinedVector<Access, 8>* accesses) {
  if (!s_.accesses.HasSetLists()) return;
  const size_t count = accesses->size();
  for (size_t i = 0; i < count; ++i) {
    Access a = (*accesses)[i];
    if (a.IsOfOne()) {
      const uint32_t of_sets = s_.accesses.SetListOf(a.list);
      if (of_sets == 0) continue;
      a.list = of_sets;
      accesses->push_back(a);
      continue;
    }
    absl::InlinedVector<uint32_t, 40> lists;
    s_.sets.ForEach(a.storages, [&](Ref s) { lists.push_back(s_.accesses.ListOf(ObjectOf(s))); });
    std::sort(lists.begin(), lists.end());
    lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
    for (uint32_t list : lists) {
      a.list = list;
      accesses->push_back(a);
    }
  }
  Step(search, static_cast<int64_t>(accesses->size() - count));
}

// Returns whether `w` touches some handle of `a`, in its storages.
bool Moves::AnyHits(const Access& w, const Access& a, bool as_container, bool ignore_age) {
  if (SetPool::IsSingle(a.handles))
    return s_.queries.overlaps.AccessHits(w, a.object(), a.storages, as_container, ignore_age);
  if (!s_.queries.overlaps.AnyStoragesMayOverlap(w.storages, a.storages, ignore_age)) return false;
  if (s_.sets.Size(w.handles) * s_.sets.Size(a.handles) > kManyPairs) return true;
  for (Ref r : s_.sets.Refs(a.handles)) {
    if (s_.queries.overlaps.AccessHits(w, r, as_container ? SetPool::Single(r) : s_.memory.Storages(r), as_container,
                                       ignore_age))
      return true;
  }
  return false;
}

// Nodes of n's block that depend on n (forward) or that n depends on, strictly beyond n and up to `limit` inclusive:
// those that the search has not seen, though a use is listed in any case. Not all of them, if one is enough or the
// search is exhausted.
void Moves::Neighbours(NodeId n, NodeId limit, bool forward, bool want_why, Search* search, std::vector<Edge>* out) {
  const BlockId block = s_.g.node(n).parent;
  const uint64_t mine = s_.g.node(n).order, end = s_.g.node(limit).order;
  auto within = [&](NodeId m) {
    if (!m.valid() || m == n) return false;
    const uint64_t o = s_.g.node(m).order;
    return forward ? o > mine && o <= end : o < mine && o >= end;
  };
  bool any_other = false;  // than `to`
  auto add = [&](NodeId m, auto&& why) {
    any_other |= m != search->to;
    out->push_back({m, want_why ? why() : std::string()});
  };
  const auto enough = [&] { return search->IsExhausted() || (search->only_first && any_other); };
  // Values.
  if (forward) {
    for (ValueId v : s_.g.node(n).outputs) {
      for (const Use& u : s_.g.value(v).uses) {
        Step(search);
        if (enough()) return;
        NodeId m = s_.tree.AncestorIn(block, u.user);
        if (within(m)) add(m, [&] { return absl::StrCat(s_.words.DescribeNode(m), " uses %", s_.g.value(v).name); });
      }
    }
  }
  absl::InlinedVector<NodeId, 8> inside;
  absl::InlinedVector<Access, 8> own;
  AccessesOf(n, search, &inside, &own);
  AddListsToLookAt(search, &own);
  if (!forward) {
    for (NodeId x : inside) {
      for (BlockId b : s_.g.node(x).blocks) {
        for (ValueId v : s_.g.results(b)) {
          Step(search);
          if (enough()) return;
          NodeId m = s_.tree.AncestorIn(block, s_.g.value(v).def);
          if (within(m)) add(m, [&] { return absl::StrCat(s_.words.DescribeNode(n), " uses %", s_.g.value(v).name); });
        }
      }
    }
  }
  if (!forward) {
    for (NodeId x : inside) {
      for (ValueId v : s_.g.node(x).inputs) {
        Step(search);
        if (enough()) return;
        NodeId m = s_.tree.AncestorIn(block, s_.g.value(v).def);
        if (within(m)) add(m, [&] { return absl::StrCat(s_.words.DescribeNode(n), " uses %", s_.g.value(v).name); });
      }
    }
  }
  // Memory: each list is walked once for all accesses of n to it, and a node that is known to depend is not compared
  // again.
  if (own.size() > 1) {
    std::stable_sort(own.begin(), own.end(), [](const Access& a, const Access& b) { return a.list < b.list; });
  }
  absl::flat_hash_set<uint32_t> found;
  bool any_found = false;  // `found` has been filled
  const auto known = [&](NodeId m) {
    if (!any_found) {
      for (const Edge& e : *out) found.insert(e.to.index);
    }
    any_found = true;
    return found.contains(m.index);
  };
  const auto conflict = [&](const Access& a, const Access& b, NodeId m) {
    const bool data = ((a.bits & kWrite) && (b.bits & (kRead | kWrite))) || ((a.bits & kRead) && (b.bits & kWrite));
    const bool geometry = (a.bits & kGeometryWrite) || (b.bits & kGeometryWrite);
    const ObjectKind kind = KindOf(s_, a);
    if (kind == ObjectKind::kRandom || kind == ObjectKind::kWorld)
      return (data || geometry) && a.storages == b.storages;
    const bool ignore_age = a.node != n || b.node != m;
    const bool as_container = (a.bits & kOfContainer) != 0;
    // Both directions are compared: the type of one access may rule out the other's object, and each access knows a
    // type of its own.
    return (data && AnyHits(b, a, as_container, ignore_age) && AnyHits(a, b, as_container, ignore_age)) ||
           (geometry && s_.queries.overlaps.AnyMayBeSame(a.handles, b.handles, ignore_age));
  };
  const auto why_not = [&](const Access& a, const Access& b, NodeId m) {
    const ObjectKind kind = KindOf(s_, a);
    if (kind == ObjectKind::kRandom) {
      return absl::StrCat(s_.words.DescribeNode(n), " and ", s_.words.DescribeNode(m), " both draw random numbers");
    }
    if (kind == ObjectKind::kWorld)
      return absl::StrCat(s_.words.DescribeNode(n), " and ", s_.words.DescribeNode(m), " both have side effects");
    auto through = [&](const Access& y) -> std::string {
      const Node& node = s_.g.node(y.node);
      return y.arg < node.inputs.size() ? absl::StrCat("%", s_.g.value(node.inputs[y.arg]).name) : "unknown memory";
    };
    const bool b_writes = b.bits & (kWrite | kGeometryWrite);
    const Access &writer = b_writes ? b : a, &other = b_writes ? a : b;
    const char* verb = writer.bits & kWrite ? "written" : "given another geometry";
    std::string what = through(other), by = through(writer);
    return absl::StrCat(what, " is ", verb, " by ", s_.words.DescribeNode(writer.node),
                        what == by ? "" : ", through its alias ", what == by ? "" : by);
  };
  for (size_t first = 0, last = 0; first < own.size() && !enough(); first = last) {
    const uint32_t list = own[first].list;
    uint8_t does = 0;
    for (; last < own.size() && own[last].list == list; ++last) {
      does |= own[last].bits;
    }
    const auto conflicts = [&](const Access& b, NodeId m) {
      for (size_t k = first; k < last; ++k) {
        Step(search);
        if (!conflict(own[k], b, m)) continue;
        found.insert(m.index);
        add(m, [&] { return why_not(own[k], b, m); });
        return true;
      }
      return false;
    };
    if (!search->to_listed) {
      search->to_listed = true;
      absl::InlinedVector<NodeId, 8> to_inside;
      absl::InlinedVector<Access, 8> of_to;
      AccessesOf(search->to, search, &to_inside, &of_to);
      for (const Access& a : of_to) search->of_to[a.list].push_back(a);
    }
    if (within(search->to) && !known(search->to)) {
      if (auto it = search->of_to.find(list); it != search->of_to.end()) {
        for (const Access& b : it->second) {
          if (conflicts(b, search->to)) break;
        }
      }
    }
    const auto against = [&](AccessIndex& index, uint32_t list, uint64_t key) {
      auto seen_from = search->all_seen.find(key);
      if (seen_from != search->all_seen.end() && (forward ? mine >= seen_from->second : mine <= seen_from->second)) {
        return;
      }
      bool all_seen = true;
      // Only accesses between the two nodes are looked at.
      for (uint32_t i = forward ? index.FirstAfter(list, n) : index.LastBefore(list, n); i != 0;
           i = forward ? index.Next(i) : index.Prev(i)) {
        const Access& b = index.at(i);
        const NodeId m = s_.tree.AncestorIn(block, b.node);
        if (!m.valid()) break;
        if (forward ? s_.g.node(m).order > end : s_.g.node(m).order < end) break;
        Step(search);
        if (enough()) return;
        if (!within(m) || m == search->to || search->seen.contains(m.index) || known(m)) continue;
        const Access copy = b;
        all_seen &= conflicts(copy, m);
      }
      if (all_seen) search->all_seen[key] = mine;
    };
    // A node that only looks at geometry conflicts with nothing if no node changes a geometry.
    if (does != kGeometryRead || s_.reshapes.geometry_writers != 0)
      against(s_.accesses.writes, list, uint64_t{list} * 3);
    if (does & (kWrite | kGeometryWrite))
      against(s_.accesses.reads, s_.accesses.ReadList(list, false), uint64_t{list} * 3 + 1);
    if (does & kGeometryWrite) against(s_.accesses.reads, s_.accesses.ReadList(list, true), uint64_t{list} * 3 + 2);
  }
}

// Returns whether `to` depends on `from` (forward: it stands behind it), or the reverse; with skip_direct, by way of
// another node. The search begins at `from`, the node that moves, because everything may need the other one.
bool Moves::Path(NodeId from, NodeId to, bool forward, bool skip_direct, std::string* why) {
  Search search;
  search.to = to;
  search.seen.insert(from.index);
  const int64_t may_take = BeginSearch(&search);
  const auto found = [&] {
    EndSearch(search, may_take);
    return true;
  };
  std::vector<NodeId> todo = {from};
  absl::flat_hash_map<uint32_t, std::string> reasons;
  std::vector<Edge> edges;
  while (!todo.empty()) {
    NodeId n = todo.back();
    todo.pop_back();
    edges.clear();
    Neighbours(n, to, forward, why != nullptr, &search, &edges);
    for (Edge& e : edges) {
      // In program order.
      const auto joined = [&] {
        return n == from ? e.why
               : forward ? absl::StrCat(reasons[n.index], "; ", e.why)
                         : absl::StrCat(e.why, "; ", reasons[n.index]);
      };
      if (e.to == to) {
        if (n == from && skip_direct) continue;
        if (why != nullptr) *why = joined();
        return found();
      }
      if (!search.seen.insert(e.to.index).second) continue;
      if (why != nullptr) reasons[e.to.index] = joined();
      todo.push_back(e.to);
    }
    if (search.IsExhausted()) {
      if (why != nullptr) *why = "more nodes and writes lie between the two than are looked at";
      return found();
    }
  }
  EndSearch(search, may_take);
  return false;
}

// The nodes strictly between n and limit that n's move takes along, in program order.
std::vector<NodeId> Moves::Moving(NodeId n, NodeId limit, bool forward) {
  std::vector<Edge> edges;
  Search search;
  search.to = limit;
  search.to_listed = true;  // as doing nothing: that it depends is no matter
  Neighbours(n, limit, forward, false, &search, &edges);
  // Nearly always no other node moves.
  if (std::all_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == limit; })) return {};
  search.seen.insert(n.index);
  std::vector<NodeId> todo, out;
  for (;;) {
    for (const Edge& e : edges) {
      if (e.to == limit || !search.seen.insert(e.to.index).second) continue;
      out.push_back(e.to);
      todo.push_back(e.to);
    }
    if (todo.empty()) break;
    NodeId x = todo.back();
    todo.pop_back();
    edges.clear();
    Neighbours(x, limit, forward, false, &search, &edges);
  }
  std::sort(out.begin(), out.end(), [&](NodeId a, NodeId b) { return s_.g.node(a).order < s_.g.node(b).order; });
  return out;
}

bool Moves::MovesAlone(NodeId n, NodeId limit, bool forward) {
  std::vector<Edge> edges;
  Search search;
  search.to = limit;
  search.to_listed = true;
  search.only_first = true;
  const int64_t may_take = BeginSearch(&search);
  Neighbours(n, limit, forward, false, &search, &edges);
  EndSearch(search, may_take);
  return !search.IsExhausted() && std::all_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == limit; });
}

}  // namespace alias_internal

namespace {

bool Check(AliasDb::State& s, NodeId n, NodeId m, bool before, std::string* why) {
  const Graph& g = s.g;
  if (n == m) {
    if (why != nullptr) *why = "a node cannot move beside itself";
    return false;
  }
  if (g.node(n).parent != g.node(m).parent) {
    if (why != nullptr) *why = "the nodes are in different blocks";
    return false;
  }
  if (g.IsParam(n) || g.IsReturn(n) || g.IsParam(m) || g.IsReturn(m)) {
    if (why != nullptr) *why = "a block's parameters and results do not move";
    return false;
  }
  s.recorder.ActivateReads();
  if (g.IsBefore(n, m)) return !s.queries.moves.Path(n, m, /*forward=*/true, before, why);
  return !s.queries.moves.Path(n, m, /*forward=*/false, !before, why);
}

}  // namespace

bool AliasDb::CanMoveBefore(NodeId n, NodeId m, std::string* why) const { return Check(Flushed(), n, m, true, why); }
bool AliasDb::CanMoveAfter(NodeId n, NodeId m, std::string* why) const { return Check(Flushed(), n, m, false, why); }

std::vector<NodeId> AliasDb::MovesAlong(NodeId n, NodeId m) const {
  State& s = Flushed();
  s.recorder.ActivateReads();
  return s.queries.moves.Moving(n, m, s.g.IsBefore(n, m));
}

bool AliasDb::MovesAlone(NodeId n, NodeId m) const {
  State& s = Flushed();
  s.recorder.ActivateReads();
  return s.queries.moves.MovesAlone(n, m, s.g.IsBefore(n, m));
}

absl::Status AliasDb::MoveBefore(NodeId n, NodeId m) {
  // Writing the explanation costs more than finding the answer.
  if (std::string why; !CanMoveBefore(n, m)) {
    CanMoveBefore(n, m, &why);
    return absl::FailedPreconditionError(why);
  }
  State& s = *state_;
  const bool forward = s.g.IsBefore(n, m);
  std::vector<NodeId> along = s.queries.moves.Moving(n, m, forward);
  if (forward) {
    NodeId at = m;
    for (NodeId x : along) {
      s.g.MoveAfter(x, at);
      at = x;
    }
    s.g.MoveBefore(n, m);
  } else {
    for (NodeId x : along) s.g.MoveBefore(x, m);
    s.g.MoveBefore(n, m);
  }
  return absl::OkStatus();
}

absl::Status AliasDb::MoveAfter(NodeId n, NodeId m) {
  // Writing the explanation costs more than finding the answer.
  if (std::string why; !CanMoveAfter(n, m)) {
    CanMoveAfter(n, m, &why);
    return absl::FailedPreconditionError(why);
  }
  State& s = *state_;
  const bool forward = s.g.IsBefore(n, m);
  std::vector<NodeId> along = s.queries.moves.Moving(n, m, forward);
  if (forward) {
    s.g.MoveAfter(n, m);
    NodeId at = n;
    for (NodeId x : along) {
      s.g.MoveAfter(x, at);
      at = x;
    }
  } else {
    for (NodeId x : along) s.g.MoveBefore(x, m);
    s.g.MoveAfter(n, m);
  }
  return absl::OkStatus();
}

}  // namespace smelt
