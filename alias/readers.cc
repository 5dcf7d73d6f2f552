#include "smelt/alias/readers.h"

#include <utility>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Readers::Clear() {
  external_.clear();
  external_distinct_ = 0;
}

// Appends a reader. When there are twice as many as were different, each is kept once, in the order of their last
// looks.
template <typename List>
void Readers::Add(NodeId reader, List* readers, uint32_t* distinct) {
  if (readers->empty() || readers->back() != reader) readers->push_back(reader);
  if (readers->size() <= 2 * *distinct + 8) return;
  s_.steps += static_cast<int64_t>(readers->size());
  if (marks_.size() < s_.records.nodes.size()) marks_.resize(s_.records.nodes.size());
  ++mark_;
  size_t kept = readers->size();
  for (size_t i = readers->size(); i-- > 0;) {
    const NodeId n = (*readers)[i];
    // While all is built, no node has been erased.
    if (!s_.solver.building && !s_.g.IsLive(n)) continue;
    if (std::exchange(marks_[n.index], mark_) != mark_) (*readers)[--kept] = n;
  }
  readers->erase(readers->begin(), readers->begin() + static_cast<int64_t>(kept));
  *distinct = static_cast<uint32_t>(readers->size());
}

void Readers::Note(uint32_t container, NodeId reader) {
  Contents& c = s_.containers.ContentsOf(container);
  Add(reader, &c.readers, &c.distinct);
  if (s_.objects[container].external) Add(reader, &external_, &external_distinct_);
}

void Readers::Push(uint32_t container, bool changed) {
  Contents* c = s_.containers.FindContents(container);
  if (c == nullptr) return;
  if (s_.objects[container].group != 0 && s_.objects[container].container) {
    s_.containers.joined_containers.push_back(MakeRef(container));
    if (s_.objects[container].loop != 0) s_.containers.joined_containers.push_back(MakeRef(container, true));
  }
  s_.solver.Spend(static_cast<int64_t>(c->readers.size()));
  if (s_.budget.overdrawn || c->blurred) {
    if (!s_.containers.KeepMore(container)) return;
    c = s_.containers.FindContents(container);
  }
  s_.steps += static_cast<int64_t>(c->readers.size());
  for (NodeId n : c->readers) {
    // While all is built, no node has been erased.
    if (!s_.solver.building && !s_.g.IsLive(n)) continue;
    if (changed && !s_.solver.monotone) s_.work.ResolveAround(n);
    s_.work.Push(n);
  }
}

void Readers::PushExternal() {
  for (NodeId reader : external_) {
    if (s_.g.IsLive(reader)) s_.work.Push(reader);
  }
}

}  // namespace smelt::alias_internal
