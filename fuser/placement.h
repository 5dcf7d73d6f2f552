// How a part of a value's memory is placed along the value's dims.
//
//   of 8 rows of 4:   sizes [3, 4], strides [8, 1], offset 4   ->  dim 0 from 1 on, every second one; dim 1, all of it
//
// A diagonal's dim runs along two. A region that crosses the end of a row runs along no dim. If it is a contiguous run
// of whole rows, the dim is among `across`.
#ifndef SMELT_FUSER_PLACEMENT_H_
#define SMELT_FUSER_PLACEMENT_H_

#include <optional>
#include <vector>

#include "smelt/core/convention/symbolic_geometry.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt::kernel {

struct Placement {
  struct Run {
    int dim;    // of the region
    Expr step;  // the distance along the value's dim per index
  };
  struct Dim {
    Expr start = 0;         // the region's first index
    Expr last = 0;          // its last one
    std::vector<Run> runs;  // the region's dims that run along this one; those of one element run along none
  };
  std::vector<Dim> dims;    // the value's
  std::vector<int> order;   // DimsByStride
  std::vector<int> across;  // the region's dims that run along several of the value's
};

// Returns the dims of sizes other than 1, from the widest stride to the narrowest.
std::vector<int> DimsByStride(const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                              const SymbolRanges& ranges);

// Returns `a` in whole steps of `step`, if it is a multiple.
std::optional<Expr> StepsOf(const Expr& a, const Expr& step);

// nullopt if it reaches beyond a dim's end, or may do so in a call with other sizes.
std::optional<Placement> PlaceRegion(const SymbolicGeometry& region, const std::vector<Expr>& sizes,
                                     const std::vector<Expr>& strides, const SymbolRanges& ranges);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_PLACEMENT_H_
