// Positions in the numberings of the calling convention's layers.
//
//   caller's arguments  --duplicates-->  distinct tensors  --overlaps-->  memories
//                       --mutations, outputs-->  graph outputs
#ifndef SMELT_CORE_CONVENTION_LAYER_INDEX_H_
#define SMELT_CORE_CONVENTION_LAYER_INDEX_H_

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
using CallerIndex = LayerIndex<struct CallerTag>;      // a user argument, as the caller counts
using DistinctIndex = LayerIndex<struct DistinctTag>;  // after duplicates are dropped
using MemoryIndex = LayerIndex<struct MemoryTag>;      // a storage: of one or several distinct arguments, or of states
using GraphOutputIndex = LayerIndex<struct GraphOutputTag>;

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_LAYER_INDEX_H_
