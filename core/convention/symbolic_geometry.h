// A view of a memory with symbolic sizes, strides and offset.
#ifndef SMELT_CORE_CONVENTION_SYMBOLIC_GEOMETRY_H_
#define SMELT_CORE_CONVENTION_SYMBOLIC_GEOMETRY_H_

#include <string>
#include <vector>

#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// The geometry over a memory, in elements of dtype. The offset is relative to the argument's own data (memories of one
// argument) or absolute (states).
struct SymbolicGeometry {
  DType dtype = DType::kFloat32;
  std::vector<Expr> sizes, strides;
  Expr offset;
};

// "f32[4, s0] strides [s0, 1] offset 0"
std::string ToString(const SymbolicGeometry& g);

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_SYMBOLIC_GEOMETRY_H_
