// Arguments that share bytes become views of one memory. On entry each distinct argument is located in its memory.
// Writes happen there, so there is nothing to do on exit.
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
