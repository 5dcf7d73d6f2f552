// Classifies the operators that kernels compute by index, besides pointwise operators and reductions, and those that
// write at indices from data.
#ifndef SMELT_FUSER_KERNEL_OPERATORS_H_
#define SMELT_FUSER_KERNEL_OPERATORS_H_

#include <optional>

#include "smelt/core/ir/graph.h"

namespace smelt::kernel {

// The effect on indices of an operator that is neither pointwise nor a plain reduction.
enum class Special {
  kView,
  kMaterialize,
  kOverlay,
  kFill,
  kArange,
  kLinspace,
  kEye,
  kTriangle,
  kConstantPad,
  kReflectionPad,
  kCircularPad,
  kReplicationPad,
  kFlip,
  kRoll,
  kRepeat,
  kRepeatInterleave,
  kGather,
  kIndexSelect,
  kEmbedding,
  kIndex,
  kTake,
  kOneHot,
  kCat,
  kStack,
  kMaxPool,
  kAvgPool,
  kAdaptiveMaxPool,
  kAdaptiveAvgPool,
  kUpsampleNearest,
  kUpsampleLinear,
  kIm2Col,
  kCol2Im,
  kMaskedScatter,
};

std::optional<Special> SpecialOf(const Node& n);
size_t SpatialRank(OpName op);  // of pooling and resampling, by the operator's name

// Returns whether it writes elements at indices from data into memory that already holds its first argument's contents.
// In the graph such an operator is pure: `smelt::inplace_X` is aten::X.
bool IsInplaceOp(const Node& n);

// Returns whether it reads or writes complex numbers.
bool HasComplex(const Graph& g, NodeId n);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_KERNEL_OPERATORS_H_
