// The effect of PyTorch's view operators on sizes, strides and offset, and the strides of its operators' outputs: pure
// functions on geometry, over numbers or expressions (decide.h says how an expression is decided).
//
//   ConcreteDecide decide;
//   absl::StatusOr<Geometry> t = view_rules::Transpose(decide, {{4, 8}, {8, 1}, 0}, 0, 1);   // [8, 4] strides [1, 8]
//   absl::StatusOr<Geometry> v = view_rules::View(decide, *t, {32});   // an error, as in PyTorch: not one subspace
//
// The results are PyTorch 2.13's, stride by stride, also where they do not matter (dims of size 1, empty tensors). The
// errors have PyTorch's words, without Python's argument checking and the tensor's type in expand()'s message. Dims may
// be negative, as in PyTorch. Nothing here knows of storages except AsStrided's bound.
//
// A policy that has failed makes every later call fail: use a fresh one per operator if a failure is not the end.
#ifndef SMELT_CORE_TENSOR_VIEW_RULES_H_
#define SMELT_CORE_TENSOR_VIEW_RULES_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt::view_rules {

// All are instantiated for ConcreteDecide and SymbolicDecide in view_rules.cc. Spans of Indexes are non-deduced, so
// that {Expr(-1), Expr(4)} and vectors convert.
template <typename D>
using Sizes = absl::Span<const typename D::Index>;

// --- layouts ---

// Row-major; a size of 0 counts as 1.
template <typename D>
std::vector<typename D::Index> ContiguousStrides(D& decide, Sizes<D> sizes);
// NHWC strides for 4 sizes in NCHW order, NDHWC for 5; CHECKs the rank.
template <typename D>
std::vector<typename D::Index> ChannelsLastStrides(D& decide, Sizes<D> sizes);

template <typename D>
bool IsContiguous(D& decide, const typename D::Geometry& g);
// False for other ranks than 4 (channels_last) and 5 (channels_last_3d).
template <typename D>
bool IsChannelsLast(D& decide, const typename D::Geometry& g);
// Returns whether some permutation of the dims is contiguous, so that a dense copy can keep the strides.
template <typename D>
bool IsNonOverlappingAndDense(D& decide, const typename D::Geometry& g);

// The strides of empty_like, clone and to(dtype) with memory_format=preserve_format: the source's own where it is
// non-overlapping and dense, else dense ones in the source's order of dims.
template <typename D>
std::vector<typename D::Index> PreservedStrides(D& decide, const typename D::Geometry& g);

// Returns the common shape of operands. Error: "The size of tensor a (3) must match the size of tensor b (4) at
// non-singleton dimension 1" (a: the shape of the previous operands).
template <typename D>
absl::StatusOr<std::vector<typename D::Index>> BroadcastSizes(D& decide,
                                                              absl::Span<const std::vector<typename D::Index>> shapes);

// The geometry (offset 0) of a new output of a pointwise operator: TensorIterator's. The operands are the tensor
// operands in the operator's order; a number that PyTorch wraps into a tensor (add(x, 2), but not pow(x, 2)) takes part
// as Geometry{}. Give at least one operand.
template <typename D>
absl::StatusOr<typename D::Geometry> PointwiseOutput(D& decide, absl::Span<const typename D::Geometry> operands);
// Returns the geometry (offset 0) of x[a, :, b], with one entry per dim, at least one of them an index: the indexed
// dims are replaced by the broadcast shape of the indices, at their place if they are next to each other, else in
// front.
template <typename D>
absl::StatusOr<typename D::Geometry> IndexedOutput(D& decide, const typename D::Geometry& self,
                                                   absl::Span<const std::optional<typename D::Geometry>> indices);

// --- views: the result shares the operand's storage ---

// PyTorch's view(). sizes may hold one -1. Returns an error if the sizes do not fit or no strides express them.
template <typename D>
absl::StatusOr<typename D::Geometry> View(D& decide, const typename D::Geometry& g, Sizes<D> sizes);

// reshape(): a view if there are strides that express it, else a contiguous copy of the (inferred) sizes.
template <typename D>
struct ReshapeResult {
  bool aliases;
  typename D::Geometry geometry;  // offset 0 if it is a copy
};
template <typename D>
absl::StatusOr<ReshapeResult<D>> Reshape(D& decide, const typename D::Geometry& g, Sizes<D> sizes);
// Returns sizes with its -1 replaced, checked against the number of elements.
template <typename D>
absl::StatusOr<std::vector<typename D::Index>> InferSizes(D& decide, Sizes<D> old_sizes, Sizes<D> sizes);
// Returns the sizes of flatten(start, end), for Reshape.
template <typename D>
absl::StatusOr<std::vector<typename D::Index>> FlattenedSizes(D& decide, Sizes<D> sizes, int64_t start_dim,
                                                              int64_t end_dim);

template <typename D>
absl::StatusOr<typename D::Geometry> Permute(D& decide, const typename D::Geometry& g, absl::Span<const int64_t> dims);
template <typename D>
absl::StatusOr<typename D::Geometry> Transpose(D& decide, const typename D::Geometry& g, int64_t dim0, int64_t dim1);
// Removes all dims of size 1; the one dim; those of the dims that have size 1.
template <typename D>
absl::StatusOr<typename D::Geometry> Squeeze(D& decide, const typename D::Geometry& g);
template <typename D>
absl::StatusOr<typename D::Geometry> Squeeze(D& decide, const typename D::Geometry& g, int64_t dim);
template <typename D>
absl::StatusOr<typename D::Geometry> SqueezeDims(D& decide, const typename D::Geometry& g,
                                                 absl::Span<const int64_t> dims);
template <typename D>
absl::StatusOr<typename D::Geometry> Unsqueeze(D& decide, const typename D::Geometry& g, int64_t dim);
// -1 keeps a size.
template <typename D>
absl::StatusOr<typename D::Geometry> Expand(D& decide, const typename D::Geometry& g, Sizes<D> sizes);
// Absent bounds: 0 and the size. Bounds are clamped; with expressions by min and max, without an assumption if the
// signs of the bounds are known. An end of INT64_MAX is the size.
template <typename D>
absl::StatusOr<typename D::Geometry> Slice(D& decide, const typename D::Geometry& g, int64_t dim,
                                           const std::optional<typename D::Index>& start,
                                           const std::optional<typename D::Index>& end, const typename D::Index& step);
template <typename D>
absl::StatusOr<typename D::Geometry> Select(D& decide, const typename D::Geometry& g, int64_t dim,
                                            const typename D::Index& index);
template <typename D>
absl::StatusOr<typename D::Geometry> Narrow(D& decide, const typename D::Geometry& g, int64_t dim,
                                            const typename D::Index& start, const typename D::Index& length);
template <typename D>
absl::StatusOr<typename D::Geometry> Diagonal(D& decide, const typename D::Geometry& g, int64_t offset, int64_t dim1,
                                              int64_t dim2);
// An absent offset keeps g's. storage_items: the number of items in the storage; absent: not checked.
template <typename D>
absl::StatusOr<typename D::Geometry> AsStrided(D& decide, const typename D::Geometry& g, Sizes<D> sizes,
                                               Sizes<D> strides, const std::optional<typename D::Index>& offset,
                                               const std::optional<typename D::Index>& storage_items = std::nullopt);
template <typename D>
absl::StatusOr<typename D::Geometry> Unfold(D& decide, const typename D::Geometry& g, int64_t dim,
                                            const typename D::Index& size, const typename D::Index& step);
template <typename D>
absl::StatusOr<typename D::Geometry> ViewDType(D& decide, const typename D::Geometry& g, DType from, DType to);
// complex [..] -> real [.., 2] and back; offset and strides count items of the respective type.
template <typename D>
absl::StatusOr<typename D::Geometry> ViewAsReal(D& decide, const typename D::Geometry& g, DType dtype);
template <typename D>
absl::StatusOr<typename D::Geometry> ViewAsComplex(D& decide, const typename D::Geometry& g, DType dtype);

// Returns dim in [0, rank), or PyTorch's "Dimension out of range (expected to be in range of [-2, 1], but got 5)". A
// rank of 0 counts as 1.
absl::StatusOr<int> WrapDim(int64_t dim, int rank);

}  // namespace smelt::view_rules

#endif  // SMELT_CORE_TENSOR_VIEW_RULES_H_
