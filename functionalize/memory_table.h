// All memories of a program, with what the blocks of a branch or a loop have changed.
//
//   MemoryTable memories;
//   const MemoryId m = memories.Add(state);
//   memories.Enter();                                    // a branch begins
//   memories.Edit(m).version = written;
//   const MemoryTable::Edits edits = memories.Leave();   // memories[m] is as it was before the branch
//   edits.Find(m)->version;                              // == written
//
// Entering a block costs nothing, and leaving it costs time in the memories that it edited. So a program with thousands
// of branches and memories takes time in its nodes.
#ifndef SMELT_FUNCTIONALIZE_MEMORY_TABLE_H_
#define SMELT_FUNCTIONALIZE_MEMORY_TABLE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

class MemoryTable {
 public:
  // The memories that a block edited, as the block left them, by rising id. `written` and `written_home` hold the
  // block's own writes only.
  class Edits {
   public:
    const MemoryState* Find(MemoryId m) const;  // null if the block left the memory alone
    const std::vector<std::pair<MemoryId, MemoryState>>& all() const { return states_; }

   private:
    friend class MemoryTable;
    std::vector<std::pair<MemoryId, MemoryState>> states_;
  };

  size_t size() const { return states_.size(); }
  const MemoryState& operator[](MemoryId m) const { return states_[m]; }

  MemoryId Add(MemoryState state);
  // Returns the memory for a change. `written` and `written_home` may only grow while a block is open. The reference
  // holds until the next call of Add.
  MemoryState& Edit(MemoryId m);

  // Blocks nest. Memories that are added in a block remain after it.
  void Enter();
  Edits Leave();

 private:
  // A memory before its first edit in a block, without its writes, and their numbers.
  struct Before {
    MemoryState state;
    size_t num_written = 0, num_written_home = 0;
  };
  struct OpenBlock {
    size_t num_memories = 0;  // when it began
    absl::flat_hash_map<MemoryId, Before> before;
  };

  std::vector<MemoryState> states_;
  std::vector<OpenBlock> blocks_;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_MEMORY_TABLE_H_
