// Facts about operators that passes and code generators need beyond the schema and OpInfo. Each operator is registered
// once, in traits.cc, with everything that is known of it here.
//
//   GetOpTraits(OpName::Get("aten::zeros_like")).family;            // OpFamily::kFill
//   GetOpTraits(OpName::Get("aten::mm")).library;                   // LibraryCall::kMatmul
//   GetOpTraits(OpName::Get("smelt::inplace_scatter")).family;      // OpFamily::kInPlaceWrite
//
// An operator without an entry has the default traits: it is in no family, no library computes it, and it has no other
// property that is listed here.
#ifndef SMELT_CORE_OP_TRAITS_H_
#define SMELT_CORE_OP_TRAITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "smelt/core/ir/op_name.h"

namespace smelt {

// Operators that make their results in one way.
enum class OpFamily : uint8_t {
  kOther,
  // Results without operands' elements.
  kAllocation,  // memory without contents: empty
  kFill,        // one number everywhere: zeros, full, scalar_tensor
  kArange,
  kLinspace,
  kEye,
  // The elements of the first operand.
  kRegionView,   // smelt::view
  kCopy,         // in memory of their own: clone, contiguous
  kMaterialize,  // smelt::materialize: in given strides
  kConversion,   // of another dtype: to, _to_copy
  // Results by index arithmetic.
  kOverlay,  // smelt::overlay
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
  kUpsampleNearest,
  kUpsampleLinear,
  kIm2Col,
  // Each element of the result combines a window of elements.
  kMaxPool,
  kAvgPool,
  kAdaptiveMaxPool,
  kAdaptiveAvgPool,
  kCol2Im,
  kMaskedScatter,
  // Copies of the first operand with some elements replaced.
  kIndexedWrite,  // at indices from data: scatter, index_put
  kInPlaceWrite,  // smelt::inplace_X: the same, in memory that already holds the first operand's contents
  kViewScatter,   // where a view shows them: slice_scatter
};

// The library function, or the loop of the runtime, that computes an operator.
enum class LibraryCall : uint8_t {
  kNone,
  // The runtime's function of the operator's name, on its tensors and its numbers in the order of the schema. A new
  // library operator needs no rule of its own in the code generator.
  kPlain,
  kMatmul,
  kMatmulWithBias,
  kConvolution,
  kConvolutionBackward,
  kFourier,
  kSolve,
  kSolveTriangular,
  kCholesky,
  kQr,
  kSvd,
  kEigh,
  kDeterminant,
  kSort,
  kTopK,
  kPick,  // one element of each row: kthvalue, median, mode
  kSearchSorted,
  kNonzero,
  kUnique,
  kUniqueCount,
  kBincount,
};

// The distribution that a random operator draws from.
enum class Distribution : uint8_t {
  kNone,
  kUniform,  // over [from, to), by default [0, 1)
  kNormal,   // of mean and std, by default 0 and 1
  kBernoulli,
  kExponential,
  kRandint,
  kPermutation,
};

// The way in which functionalization opens an operator before aliasing is decided (functionalize/open_composites.h).
enum class Opening : uint8_t {
  kNone,
  kReshape,  // a view, or a copy and a view
  kView,     // a view, whose geometry depends on the operand's strides
  kExpandAs,
  kContiguous,
  kRot90,
  kConvert,  // the operand itself, or a copy of another dtype or layout
  kDropout,
  kNativeDropout,
  kComplexSilu,
  kIdentity,
  kAdjoint,
  kNumberTensor,
  kConjugate,
  kBatchNorm,
  kInstanceNorm,
  kBroadcastTensors,
  kMaximumOfTwo,
  kUnsafeSplit,
  kSumToSize,
  kKron,
  kDiff,
  kFillDiagonal,
  kAtLeast,
  kRrelu,
  kEmbeddingRenorm,
  kCheckErrors,
  kCartesianProduct,
  kEinsum,
  kMeshgrid,
  kDataSizes,  // results whose sizes the data determine
};

// The operands that hold indices, whose values must be in range.
enum class IndexRule : uint8_t {
  kNone,
  kAlongDim,         // (self, dim, index): 0 to the size of dim
  kAlongDimWrapped,  // the same; a negative index counts from the end
  kFlat,             // (self, index): one of all elements; negative ones count from the end
  kRows,             // (self, index): a row of self
  kList,             // (self, indices): a list with an entry per dim; negative ones count from the end
};

// The data of operands for which an operator raises an error.
enum class DataRefusal : uint8_t {
  kNone,
  kIndex,          // indices or classes out of range
  kFactorization,  // singular matrices, numbers out of range
  kDivision,       // the integer 0 as divisor
};

// The dtype that torch.autocast gives the operands.
enum class AutocastClass : uint8_t {
  kNone,  // their own
  kLowerPrecision,
  kFullPrecision,
};

// A comparison of integers, or a combination of booleans, on Python's numbers.
enum class NumberRelation : uint8_t { kNone, kEq, kNe, kLt, kLe, kGt, kGe, kAnd, kOr, kNot };

struct OpTraits {
  OpFamily family = OpFamily::kOther;
  int8_t spatial_dims = 0;  // of windows and of resampling: 2 for max_pool2d
  LibraryCall library = LibraryCall::kNone;
  Distribution distribution = Distribution::kNone;
  Opening opening = Opening::kNone;
  IndexRule indices = IndexRule::kNone;
  DataRefusal refusal = DataRefusal::kNone;
  AutocastClass autocast = AutocastClass::kNone;
  NumberRelation relation = NumberRelation::kNone;
  // Draws or fills one element for each element of the first operand, in its layout.
  bool like_operand = false;
  // PyTorch wraps a number among the operands into a tensor without dims, which takes part in choosing strides.
  bool wraps_numbers = false;
  // The kernel itself reads lazily conjugated operands.
  bool reads_conjugates = false;
  // Marks a complex operand as lazily conjugated instead of computing anything.
  bool conjugates_lazily = false;
  // Returns its operand, or a view of it, for some layouts and dtypes of the operand, else a copy.
  bool may_alias = false;
  // Computes the lazily conjugated or negated tensor that the operand stands for.
  bool resolves = false;
  // The result depends on the strides of the operand beyond which elements they show.
  bool reads_strides = false;
  // The result depends on the operand's place in its storage, or shows elements that the operand does not.
  bool reaches_storage = false;
  // Changes the sizes of its first operand: set_, resize_.
  bool resizes = false;
  // The caller gives strides, which may have been read from a tensor.
  bool takes_strides = false;
  // The result is a range of numbers with one dim.
  bool is_range = false;
};

// Returns the traits of an operator: of its overload if that has an entry, else of its name. Thread-safe; the reference
// lives as long as the process.
const OpTraits& GetOpTraits(OpName op);

// Returns the names of all entries, sorted.
std::vector<std::string> OperatorsWithTraits();

// Returns whether the contents of the result are known without memory, so that each reader can make them itself.
bool IsLeafFamily(OpFamily family);
// Returns whether the family reduces windows.
bool IsWindowed(OpFamily family);
// Returns whether the call refuses some data, which it sees only when it runs.
bool RefusesData(LibraryCall call);

// Returns the name of the operator that computes what the in-place operator `name` writes: the name without the
// underscore at its end, or another one where PyTorch's names differ. Empty if `name` is not in-place.
absl::string_view PureName(absl::string_view in_place_name);

}  // namespace smelt

#endif  // SMELT_CORE_OP_TRAITS_H_
