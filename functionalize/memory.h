// The abstract memory of a program while functionalization walks it: the storage of each tensor, the geometry through
// which it is seen, and the SSA value that represents the storage's present contents.
//
// A *memory* is a storage. A *tensor* is a handle on one: PyTorch's tensor object, whose geometry `t_` changes and
// which an in-place op returns. Contents are pure values: a write replaces a memory's version, nothing else.
#ifndef SMELT_FUNCTIONALIZE_MEMORY_H_
#define SMELT_FUNCTIONALIZE_MEMORY_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

// An attribute of an aten::clone where PyTorch, for some sizes, takes a view of the operand or the operand itself.
inline constexpr char kMayAlias[] = "may_alias";
// For a copy, or a sum: the symbols, separated by blanks, for which PyTorch returns the operand's memory if one is 1.
inline constexpr char kAliasesAtOne[] = "aliases_at_one";
// For a check that represents a part of a composite: the composite's operator.
inline constexpr char kOpened[] = "opened";

using MemoryId = int;
using TensorId = int;

// A memory that PyTorch shares with another if one of these symbols is 1. A graph is made for sizes of 2 and more, but
// a call may come with 1.
struct SharedAtOne {
  MemoryId other = -1;
  std::vector<std::string> symbols;
};

struct MemoryState {
  enum class Origin { kArgument, kState, kFresh };
  Origin origin = Origin::kFresh;
  int index = -1;            // MemoryIndex of arguments; weight storage of states
  ValueId version;           // the current contents
  ValueId initial;           // the contents when the program began
  int generation = 0;        // counts writes
  SymbolicGeometry nominal;  // the geometry of `version`'s type over this storage
  ValueId weight;            // of states: the weight that shows most of the storage
  SymbolicGeometry weight_geometry;
  std::vector<SymbolicGeometry> written;
  std::vector<SharedAtOne> shared_at_one;
  std::set<std::string> stale_at_one;  // symbols that, if 1 in a call, would have changed the contents
  std::vector<int> written_home;       // parallel to `written`, of shared memories
  bool resized = false;
  bool copies_storage = false;  // of an operand, including gaps, as slice_scatter does
  bool layout_open = false;     // in PyTorch the layout depends on the sizes of a call
  bool shared = false;          // by several arguments, at offsets known only at run time
};

struct TensorState {
  MemoryId memory = -1;
  // For a memory that several arguments share: the argument (DistinctIndex) that the geometry counts from.
  int home = -1;
  SymbolicGeometry geometry;
  // True if its elements are those of the memory, conjugated or negated, as with PyTorch's lazy conj() and its imag.
  bool conjugated = false, negated = false;
  bool changed = false;  // its geometry was changed in place: earlier names have types that no longer hold
};

bool SameGeometry(const SymbolicGeometry& a, const SymbolicGeometry& b);
// The geometry that a complete tensor type states, at offset 0.
SymbolicGeometry GeometryOf(const TensorType& type);
Type TypeOf(const SymbolicGeometry& g);
Expr NumElements(const SymbolicGeometry& g);
// Returns whether the geometry is a permutation of a contiguous one, so that it covers its span exactly once.
bool IsDense(const SymbolicGeometry& g, const SymbolRanges& ranges);

Region RegionOf(const SymbolicGeometry& g);
// Returns nullopt if a number of it is no constant.
std::optional<Geometry> ConcreteGeometry(const SymbolicGeometry& g);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_MEMORY_H_
