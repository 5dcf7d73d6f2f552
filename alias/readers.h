// The nodes whose evaluation looked into a container. Private to alias/.
//
//   Readers readers(state);
//   readers.Note(list, n);  // n has looked
//   readers.Push(list);     // the list has changed: n is evaluated again
//
// Invariant: a node that has looked into a container is one of its readers until it is erased. A node that looks often
// stands there at most about twice as often as once, so that a push costs what the readers' own evaluations do.
#ifndef SMELT_ALIAS_READERS_H_
#define SMELT_ALIAS_READERS_H_

#include <cstdint>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Readers {
 public:
  explicit Readers(AliasDb::State& s) : s_(s) {}

  void Clear();
  void Note(uint32_t container, NodeId reader);
  // changed: the container may hold less than before. Members of a summary are followed there, too.
  void Push(uint32_t container, bool changed = true);
  void PushExternal();  // those of all containers of the caller's
  int64_t bytes() const { return static_cast<int64_t>(marks_.capacity() * sizeof(uint32_t)); }

 private:
  template <typename List>
  void Add(NodeId reader, List* readers, uint32_t* distinct);

  AliasDb::State& s_;
  std::vector<NodeId> external_;
  uint32_t external_distinct_ = 0;  // as Contents::distinct
  std::vector<uint32_t> marks_;     // by node: the last Add that has met it
  uint32_t mark_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_READERS_H_
