// What a caller of a functionalized graph sees beyond plain results, as a stack of layers. Each layer hides one problem
// from all below it and has its own index type, so that an argument position of one layer cannot be used in another by
// mistake.
//
//   caller's arguments   --duplicates-->  distinct tensors  --overlaps-->  memories  --mutations, outputs-->  the pure
//   graph
//
// The pure graph's outputs are: first the mutated memories' final contents, then what the outputs layer refers to, each
// once. This is data: functionalize/ writes it, schema/ stores it, the evaluator and the runtime run it.
#ifndef SMELT_CORE_CONVENTION_CONVENTION_H_
#define SMELT_CORE_CONVENTION_CONVENTION_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// A position in one layer's numbering. No conversion between layers: a test shows that mixing them does not compile.
template <typename Tag>
class LayerIndex {
 public:
  LayerIndex() = default;
  explicit LayerIndex(int i) : i_(i) {}
  int value() const { return i_; }
  bool operator==(LayerIndex o) const { return i_ == o.i_; }
  bool operator!=(LayerIndex o) const { return i_ != o.i_; }
  bool operator<(LayerIndex o) const { return i_ < o.i_; }

 private:
  int i_ = -1;
};
using CallerIndex = LayerIndex<struct CallerTag>;      // a user argument, as the caller counts them
using DistinctIndex = LayerIndex<struct DistinctTag>;  // after duplicates are dropped
using MemoryIndex = LayerIndex<struct MemoryTag>;      // a storage: of one or several distinct arguments, or of states
using GraphOutputIndex = LayerIndex<struct GraphOutputTag>;

// Geometry over a memory, in elements of dtype; the offset is relative to the argument's own data (memories of one
// argument) or absolute (states).
struct SymbolicGeometry {
  DType dtype = DType::kFloat32;
  std::vector<Expr> sizes, strides;
  Expr offset;
};

// Layer 1. Which caller arguments are the same tensor. Identity where none are.
struct DuplicatesLayer {
  std::vector<DistinctIndex> inner_of_outer;  // by CallerIndex
};

// Layer 2. Which memory each distinct argument lives in.
struct OverlapsLayer {
  std::vector<MemoryIndex> memory_of;  // by DistinctIndex; non-tensors: -1
  int num_memories = 0;                // states' storages follow: memory num_argument_memories + storage index
  int num_argument_memories = 0;
};

// Layer 3. What has happened to arguments (and states) when the call returns. Geometry first, then data.
struct MutatedInput {
  bool is_state = false;
  DistinctIndex arg;      // if not is_state
  int state = -1;         // index into Graph::weights, if is_state
  bool geometry = false;  // t_, squeeze_, resize_…: final_geometry holds afterwards
  bool storage = false;   // set_: it lives in `final_source` afterwards
  SymbolicGeometry final_geometry;
  // For storage: where it now lives.
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
};

// Layer 4. Where each of the caller's outputs lives.
struct OutputInfo {
  enum class Kind {
    kIsArgument,           // the caller's own tensor
    kIsState,              // the very parameter or buffer
    kAliasOfMemory,        // a view of an argument's or a state's memory
    kAliasOfIntermediate,  // a view of a storage the graph made, shared with other outputs: graph output `contents`
    kFresh,                // the whole of graph output `contents`
    kScalar,               // graph output `contents`, an int, float or bool value
    kConstant,             // an expression known from the sizes
    kNone,
  } kind = Kind::kFresh;
  CallerIndex argument;
  int state = -1;
  MemoryIndex memory;
  GraphOutputIndex contents;
  SymbolicGeometry geometry;  // of aliases
  Expr constant;
};
struct OutputsLayer {
  std::vector<OutputInfo> outputs;
};

struct Convention {
  DuplicatesLayer duplicates;
  OverlapsLayer overlaps;
  MutationsLayer mutations;
  OutputsLayer outputs;
  std::string ToString() const;  // stable, for inspect and tests
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_CONVENTION_H_
