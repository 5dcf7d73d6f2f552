// The bytes of a storage that a strided view touches, and whether two views touch a common byte.
//
//   Region a = Region::Strided(/*offset=*/0, {4, 4}, {9, 1}, /*item_bytes=*/4);
//   Region b = Region::Strided(/*offset=*/9, {4, 4}, {9, 1}, /*item_bytes=*/4);
//   Compare(a, b, ranges).answer;   // Overlap::kSome: they share 12 elements
//
// Offsets and strides are in elements of `item_bytes`; both regions must be of one storage. Comparing costs O(rank),
// never O(elements), apart from a small bounded search. kUnknown is an answer too: then the caller must assume an
// overlap, or test at run time with OverlapsConcrete on the geometry it then has.
#ifndef SMELT_CORE_TENSOR_REGION_H_
#define SMELT_CORE_TENSOR_REGION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// kDisjoint: no common byte. kSame: the same elements at the same index (equal geometry up to dims of size 1; where the
// sizes are symbols, both may be empty). kSome: at least one common byte. kUnknown: none of these is proven.
enum class Overlap { kDisjoint, kSame, kSome, kUnknown };

class Region {
 public:
  Region() = default;
  static Region Strided(Expr offset, std::vector<Expr> sizes, std::vector<Expr> strides, int item_bytes);
  static Region Of(const Geometry& g, int item_bytes);

  const Expr& offset() const { return offset_; }
  absl::Span<const Expr> sizes() const { return sizes_; }
  absl::Span<const Expr> strides() const { return strides_; }
  int item_bytes() const { return item_bytes_; }

  // Returns nullopt if it cannot be decided.
  std::optional<bool> IsEmpty(const SymbolRanges& ranges) const;
  std::optional<bool> OverlapsItself(const SymbolRanges& ranges) const;  // two indices reach one byte: expand, unfold
  std::string ToString() const;                                          // "[0 : 4*9 x 4*1] f4"

 private:
  Expr offset_;
  std::vector<Expr> sizes_, strides_;
  int item_bytes_ = 1;
};

absl::string_view Name(Overlap o);  // "disjoint", "same", "some", "unknown"

// Compares for all values of the symbols within their ranges.
Overlap Compare(const Region& a, const Region& b, const SymbolRanges& ranges);
// Returns whether every byte of `inner` is a byte of `outer`; false also if it is not known.
bool Covers(const Region& outer, const Region& inner, const SymbolRanges& ranges);

// For concrete geometries, without allocating; offsets are absolute in one storage. Exact unless it returns kUnknown: a
// bounded search gave up, more than 8 dims matter, or numbers are near the end of int64. Takes some tens of nanoseconds
// for ranks up to 4, less if the spans are disjoint or the geometries equal.
Overlap OverlapsConcrete(const Geometry& a, int a_item_bytes, const Geometry& b, int b_item_bytes);
// Returns whether two indices reach the same element; nullopt if it gave up, as above.
std::optional<bool> SelfOverlap(const Geometry& g);
// Does the same, and returns true if it is not known.
bool OverlapsItselfConcrete(const Geometry& g);
// Returns whether every byte of `inner` is a byte of `outer`; false also if it is not known. The proof takes at most
// some thousand steps.
bool CoversConcrete(const Geometry& outer, int outer_item_bytes, const Geometry& inner, int inner_item_bytes);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_REGION_H_
