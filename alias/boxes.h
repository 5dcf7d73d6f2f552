// The box of a handle: its indices along each dimension of the handle that it is a view of. Private to alias/.
#ifndef SMELT_ALIAS_BOXES_H_
#define SMELT_ALIAS_BOXES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/alias/geom.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// Pseudo-dimensions, apart from all real ones.
constexpr int64_t kNoKey = INT64_MIN;
constexpr int64_t kFromEnd = int64_t{1} << 20;   // + dimension: counted from the end
constexpr int64_t kDiagonal = int64_t{1} << 24;  // + kMaxRank * dim1 + dim2: column minus row
constexpr int64_t kPart = int64_t{1} << 30;      // real or imaginary part
constexpr int64_t kPieces = int64_t{1} << 40;    // + list object or node

// No tensor has more dimensions.
constexpr int64_t kMaxRank = 64;

Interval* FindKey(Geom* g, int64_t key);

// Returns the space's dimension for a dimension of the handle; kNoKey if it is not known.
int64_t KeyOf(const Geom& g, int64_t dim);
std::optional<Expr> SizeOf(const Geom& g, int64_t dim);

// Limits dimension `dim` to [lo, hi) in steps, all in the handle's own indices. With nullopt it is not limited there.
void Limit(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi, int64_t step);
void LimitFromEnd(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi);
void Point(Geom* g, int64_t key, int64_t at);

// Makes front[0..count) explicit.
void Materialize(Geom* g, int64_t count);
void RemoveDim(Geom* g, int64_t dim);
void Permute(Geom* g, const std::vector<int64_t>& dims);
// Makes all dimensions unknown.
void Lose(Geom* g);
// Takes the sizes and the dtype of a type.
void TakeSizes(const Type& type, Geom* out);

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_BOXES_H_
