// The memories that may be one storage in PyTorch although functionalization keeps their contents apart: the copy that
// stands for a branch's result may be the tensor of either branch, and an element at an unknown index any element of
// its list. A write to one of them would be visible through the others, so it is refused.
//
//   PossibleSharing sharing;
//   const PossibleSharing::Mark mark = sharing.Now(num_memories);
//   sharing.Enter();                                                  // a branch begins
//   ...
//   const PossibleSharing::Set taken = sharing.SetOf(result);
//   sharing.Leave();
//   sharing.Join({{copy, {taken, other_branch}}}, mark);
//   sharing.IsAlone(argument);                                        // false if the branch's result may be it
//
// The relation is transitive. What a block joins is apart again when the block ends; its sets remain valid, so that
// results of the block can be joined afterwards. A call takes logarithmic time in the memories, Leave and Join
// in what the block joined.
#ifndef SMELT_FUNCTIONALIZE_POSSIBLE_SHARING_H_
#define SMELT_FUNCTIONALIZE_POSSIBLE_SHARING_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

class PossibleSharing {
 public:
  // The memories that shared, or might have shared, with one memory at some point of the walk.
  using Set = int;
  // A point before some blocks: what they join has later numbers.
  struct Mark {
    size_t num_joined = 0, num_memories = 0;
  };
  // A new memory that may be any of the memories in some sets.
  struct Copy {
    MemoryId memory = -1;
    std::vector<Set> of;
  };

  Mark Now(size_t num_memories) const { return {joined_.size(), num_memories}; }
  bool IsAlone(MemoryId m) const { return Find(m).size == 1; }
  bool MayBeOne(MemoryId a, MemoryId b) const { return Find(a).memory == Find(b).memory; }
  Set SetOf(MemoryId m) const { return Find(m).set; }
  // Returns the set of all memories in two sets.
  Set EitherOf(Set a, Set b);

  // `before` is the point before the blocks that the sets come from. Memories that those blocks allocated join nothing
  // themselves, since nothing refers to them afterwards; two copies that may be the same such memory join each other.
  void Join(const std::vector<Copy>& copies, Mark before);

  // Blocks nest.
  void Enter() { blocks_.push_back(links_.size()); }
  void Leave();

  // Finds whether the caller may see one storage under two names. Both are called for memories that it sees.
  class Shown {
   public:
    Shown(const PossibleSharing& sharing, absl::FunctionRef<bool(MemoryId)> is_shown)
        : sharing_(sharing), is_shown_(is_shown) {}
    // Returns whether the copy may be a memory that is shown, or one that an earlier argument of this function may be.
    // All calls together take time in the joins.
    bool MayBeAnother(MemoryId copy);

   private:
    const PossibleSharing& sharing_;
    const absl::FunctionRef<bool(MemoryId)> is_shown_;
    absl::flat_hash_map<Set, MemoryId> visitor_;
  };

 private:
  // Sets of one memory are negative, those of several are numbers of joined_.
  static Set Single(MemoryId m) { return -1 - m; }
  static MemoryId MemoryOf(Set single) { return -1 - single; }
  struct Joined {
    Set a, b;
    MemoryId member;
  };
  // A tree of memories that may be one: `memory` is its root.
  struct Tree {
    MemoryId memory = -1;
    int size = 1;
    Set set = 0;
  };
  Tree Find(MemoryId m) const;
  void JoinTrees(MemoryId a, MemoryId b);
  // Calls f with a member of each part of the set that was there at `before`.
  void ForParts(Set set, Mark before, absl::FunctionRef<void(MemoryId)> f) const;

  // The parent of each memory that is no root, and the trees of the roots that have children. No path is compressed, so
  // that joins can be undone in order.
  absl::flat_hash_map<MemoryId, MemoryId> parent_;
  absl::flat_hash_map<MemoryId, Tree> trees_;
  std::vector<std::pair<MemoryId, Tree>> links_;  // a root that became a child, and its parent's tree before
  std::vector<size_t> blocks_;                    // the number of links when each began
  std::vector<Joined> joined_;
  absl::flat_hash_map<MemoryId, Set> copies_;  // what each may be
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_POSSIBLE_SHARING_H_
