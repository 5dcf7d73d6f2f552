// The place of a handle's bytes in its storage. Private to alias/.
#ifndef SMELT_ALIAS_GEOM_H_
#define SMELT_ALIAS_GEOM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "smelt/core/convention/convention.h"

namespace smelt {
namespace alias_internal {

// The place of a handle's bytes: exactly, as a geometry over its one storage, and as a box in the index space of some
// object, for which no sizes are needed. Both hold at once; either may be missing.
struct Interval {
  int64_t key = 0;  // a dimension of the space, or a pseudo-dimension (which piece of a split)
  std::optional<Expr> lo, hi;
  int64_t step = 1;
};
struct Geom {
  // The fields that most comparisons read come first.
  uint32_t storage = 0;       // its only storage; 0: it may live in several, or anywhere in them
  uint32_t space = 0;         // the object whose index space the box is in; 0: nothing is known
  uint32_t space_parent = 0;  // the object that the space's object is a view of; 0: it is the root
  bool space_injective = false;
  bool injective = false;  // different indices of the handle are different bytes
  bool exact = false;      // `geometry` says where it is
  bool absolute = false;   // its offset counts from the storage's begin, not from the caller's tensor's first element
  bool item_known = true;  // false: geometry.dtype is not known, but is that of the storage's own tensor
  bool own_dtype = false;  // elements are of the dtype of the storage's own tensor, whatever that is
  bool space_varies = false;  // the space is that of a view in a loop: another one in each iteration
  // The intervals of the box that are constants with step 1, and whether these are all of them. Most boxes are such,
  // and are compared without expressions.
  struct Fixed {
    int64_t key, lo, hi;
  };
  bool all_fixed = true;
  absl::InlinedVector<Fixed, 1> fixed;
  std::vector<Interval> box;
  SymbolicGeometry geometry;
  // This handle's dimensions, as keys of the space. Beyond `front` the key is dimension + rest. With `lost` none is
  // known.
  int rank = -1;
  bool lost = false;
  bool negative_ok = true;  // rank unknown: dimension -k is the space's -k
  std::vector<int64_t> front;
  int64_t rest = 0;
  std::vector<Expr> sizes;  // if rank >= 0 and they are known
  bool has_sizes = false;
  std::optional<DType> dtype;
  uint32_t expressions = 0;  // of the views that lead here: how many added one
  // Geometries of one frame state their places in the same terms. 0 if nothing is known exactly.
  uint8_t Frame() const { return exact ? 1 + (absolute ? 1 : 0) + (item_known ? 2 : 0) : 0; }
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_GEOM_H_
