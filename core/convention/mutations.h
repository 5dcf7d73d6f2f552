// The changes that the program makes to arguments and states: contents of memories, region by region, then geometry and
// storages of tensors. On entry, storages are enlarged if needed. On exit, contents that were computed elsewhere are
// copied back, then handles get their final geometry.
#ifndef SMELT_CORE_CONVENTION_MUTATIONS_H_
#define SMELT_CORE_CONVENTION_MUTATIONS_H_

#include <string>
#include <vector>

#include "smelt/core/convention/layer_index.h"
#include "smelt/core/convention/symbolic_geometry.h"

namespace smelt {

// The changes to an argument (or a state) when the call returns. Geometry first, then data.
struct MutatedInput {
  bool is_state = false;
  DistinctIndex arg;      // if not is_state
  int state = -1;         // index into Graph::weights, if is_state
  bool geometry = false;  // t_, squeeze_, resize_…: final_geometry holds afterwards
  bool storage = false;   // set_: afterwards its storage is `final_source`
  SymbolicGeometry final_geometry;
  // For storage: the memory that is then its storage.
  enum class Source { kOwn, kMemory, kGraphOutput } final_source = Source::kOwn;
  MemoryIndex final_memory;
  DistinctIndex final_from;       // of a memory with several arguments: the one that final_geometry counts from
  GraphOutputIndex final_output;  // contents computed by the graph: a fresh storage
};
// A memory whose contents changed: graph output `contents` is its final version; only `written` regions differ.
struct MutatedMemory {
  MemoryIndex memory;
  GraphOutputIndex contents;
  std::vector<SymbolicGeometry> written;
  std::vector<DistinctIndex> written_from;  // of a memory with several arguments: the argument each region counts from
  bool resized = false;
  Expr final_bytes;
};
struct MutationsLayer {
  std::vector<MutatedMemory> memories;
  std::vector<MutatedInput> inputs;
  std::string ToString() const;
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_MUTATIONS_H_
