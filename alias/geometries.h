// The geometries of handles: which bytes of its storage each covers, and whether two of them have bytes in common.
// Private to alias/.
//
//   Geometries geometries(state);
//   geometries.GeomOf(object).exact;
//   geometries.CompareObjects(a, b, /*same_time=*/true) == Overlap::kDisjoint;
//
// A geometry is made once, from that of what the handle is a view of, and kept until an edit may change some geometry
// (Drop). Building pays for the first ones and edits for later ones: a handle for which nobody has paid may lie anywhere
// in its storage. Comparing costs O(1).
#ifndef SMELT_ALIAS_GEOMETRIES_H_
#define SMELT_ALIAS_GEOMETRIES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/geom.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/region.h"

namespace smelt {
namespace alias_internal {

struct Object;

// Spaces are objects, or from here on values that may be one of several.
constexpr uint32_t kFirstJoinedSpace = uint32_t{1} << 30;

class Geometries {
 public:
  explicit Geometries(AliasDb::State& s) : s_(s) {}

  const Geom& GeomOf(uint32_t object);
  bool HasGeom(uint32_t object) const { return object < slots_.size() && slots_[object].epoch == epoch_; }
  // Compares two objects. With same_time both are in one iteration of each loop. The contents of a view that a loop
  // makes anew are compared only then.
  Overlap CompareObjects(uint32_t a, uint32_t b, bool same_time);
  bool IsEmpty(uint32_t object);  // its type says that it has no elements
  // Returns the position of a handle's dimension `key` that an index or bound means: counted from the end if it is
  // negative, and kept within the dimension. `is_from_begin` says whether it is at least 0, if that is known. `base` is
  // the handle, of `object`; node n looks at it. An undecided position is a symbol that only another use of the same
  // bound at a dimension of the same size has: x[:i] and x[i:] meet in it.
  std::optional<Expr> PositionOf(const Expr& bound, std::optional<bool> is_from_begin, int64_t key, const Geom& base,
                                 uint32_t object, NodeId n);

  void Drop();                    // all of them, as an edit may change some
  void Forget(uint32_t object) {  // its number stands for another object from now on
    if (object < slots_.size()) slots_[object] = Slot();
  }
  void Built() { just_built_ = true; }
  bool are_first() const { return are_first_; }  // none has been dropped since all was built
  uint32_t epoch() const { return epoch_; }      // changes with each Drop
  int64_t bytes() const {
    return static_cast<int64_t>(slots_.capacity() * sizeof(Slot) + compared_.capacity() * sizeof(Compared) +
                                geoms_.size() * sizeof(Geom));
  }

 private:
  // The part of an object's geometry that suffices for nearly all comparisons.
  struct Slot {
    uint32_t epoch = 0, index = 0;
    uint32_t space = 0;
    uint8_t frame = 0;  // Geom::Frame
    bool has_box = false, space_injective = false, space_varies = false;
    bool open = false;         // the geometries of what it is a view of are being made
    bool is_interval = false;  // the box is one interval of constants, in a space whose indices are different bytes
    int32_t key = 0, lo = 0, hi = 0;  // that interval
    Slot() = default;
    Slot(uint32_t epoch, uint32_t index, const Geom& geom);
  };
  // Comparisons that took some work: the questions about a value, one after the other, repeat them.
  struct Compared {
    uint64_t edits = 0;
    uint32_t a = 0, b = 0, epoch = 0;
    bool same_time = false;
    Overlap overlap = Overlap::kUnknown;
  };
  Geom MakeGeom(uint32_t object, bool as_made = false);
  Geom GeomOfJoined(ValueId v);
  uint32_t DistinctStorage(SetId storages) const;
  bool IsInjective(SetId handles);
  bool GeometryMayChangeBefore(uint32_t object, NodeId n);
  void TakeAskedSizes(const Object& o, Geom* out);
  Overlap CompareGeometries(uint32_t a, uint32_t b, bool same_time, bool both_exact);  // looking at their expressions

  AliasDb::State& s_;
  std::vector<Slot> slots_;  // by object; valid if of this epoch
  std::deque<Geom> geoms_;
  uint32_t epoch_ = 1;
  bool just_built_ = false, are_first_ = false;
  std::vector<Compared> compared_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_GEOMETRIES_H_
