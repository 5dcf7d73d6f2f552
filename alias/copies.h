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
  void Trim();  // gives back its memory
  int64_t bytes() const { return static_cast<int64_t>(marks_.capacity() * sizeof(MarkOfValue)); }

 private:
  // The number that the search gave to a value, if it is the search with that epoch.
  struct MarkOfValue {
    uint32_t epoch = 0, number = 0;
  };
  struct From {
    ValueId v;
    uint32_t loop = 0;  // by the back edge of this loop
  };
  // A value that the search has reached, by its number.
  struct Reached {
    ValueId v;
    uint32_t low = 0;
    uint32_t from = 0, from_end = 0;  // in from_: the values that it is a copy of
    bool open = false;
  };
  struct Frame {
    uint32_t number, next;  // of the next value that it is a copy of
  };

  bool Seen(ValueId v) const { return marks_[v.index].epoch == epoch_; }
  Reached& At(ValueId v) { return reached_[marks_[v.index].number]; }
  absl::Span<const From> CopiesOf(const Reached& r) const {
    return absl::MakeConstSpan(from_).subspan(r.from, r.from_end - r.from);
  }
  void AddCopiesOf(ValueId v);  // appends the values that v is a copy of, if it is one
  bool RunsOnce(NodeId loop);
  void Open(ValueId v);
  void Visit(ValueId root);
  SetId Coming(const From& from);
  void Close(absl::Span<const uint32_t> members);  // of a component, by number

  AliasDb::State& s_;
  std::vector<MarkOfValue> marks_;  // by value
  uint32_t epoch_ = 0;
  // The search in the loop at hand.
  NodeId loop_;
  std::vector<Reached> reached_;
  std::vector<From> from_;
  std::vector<uint32_t> stack_;
  std::vector<Frame> frames_;
  NodeId asked_;  // RunsOnce has been asked about this loop last, and has answered so
  bool runs_ = false;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_COPIES_H_
