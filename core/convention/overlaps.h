// Arguments that share bytes become views of one memory. On the way in each distinct argument is found in its memory.
// Writes happen there, so the way out is empty.
#ifndef SMELT_CORE_CONVENTION_OVERLAPS_H_
#define SMELT_CORE_CONVENTION_OVERLAPS_H_

#include <string>
#include <vector>

#include "smelt/core/convention/layer_index.h"

namespace smelt {

// The memory of each distinct argument.
struct OverlapsLayer {
  std::vector<MemoryIndex> memory_of;  // by DistinctIndex; non-tensors: -1
  int num_memories = 0;                // states' storages follow: memory num_argument_memories + storage index
  int num_argument_memories = 0;
  std::string ToString() const;
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_OVERLAPS_H_
