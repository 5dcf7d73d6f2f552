// Solves at once the values that loops carry around unchanged. Private to alias/.
//
//   Copies copies(state);
//   copies.Solve(loop);  // an outermost loop, while sets only grow
//
// A value that is a copy of others, by a loop's back edge, a branch or an operator that returns its argument, holds what
// they hold. Passing a set around a cycle of such copies one round after the other would take as many rounds as the cycle
// is long. All members of a cycle hold the same, apart from what the current round allocates.
//
// Solve finds the strongly connected components of the copies in one outermost loop (Tarjan's algorithm, without
// recursion), each after those that it copies from, and gives their members everything that certainly reaches them. The
// rest of the solution is found as always: this adds nothing that would not be found otherwise.
#ifndef SMELT_ALIAS_COPIES_H_
#define SMELT_ALIAS_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Copies {
 public:
  explicit Copies(AliasDb::State& s) : s_(s) {}

  void Solve(NodeId loop);
  void Trim() { std::vector<MarkOfValue>().swap(marks_); }  // gives back its memory
  int64_t bytes() const { return static_cast<int64_t>(marks_.capacity() * sizeof(MarkOfValue)); }

 private:
  struct MarkOfValue {
    uint32_t epoch = 0, order = 0, low = 0;
    bool open = false;
  };
  struct From {
    ValueId v;
    uint32_t loop = 0;  // by the back edge of this loop
  };
  struct Frame {
    ValueId v;
    std::vector<From> from;
    size_t next = 0;
  };

  MarkOfValue& Mark(ValueId v) { return marks_[v.index]; }
  bool Seen(ValueId v) { return Mark(v).epoch == epoch_; }
  std::vector<From> CopiesOf(ValueId v);  // the values that v is a copy of, if it is one
  void Open(ValueId v);
  void Visit(ValueId root);
  SetId Coming(const From& from);
  void Close(absl::Span<const ValueId> members);  // of a component

  AliasDb::State& s_;
  std::vector<MarkOfValue> marks_;  // by value
  uint32_t epoch_ = 0;
  // The search in the loop at hand.
  NodeId loop_;
  uint32_t count_ = 0;
  std::vector<ValueId> stack_;
  std::vector<Frame> frames_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_COPIES_H_
