// The memory format that strides suggest: Tensor::suggest_memory_format().
//
//   SuggestsChannelsLast(decide, g.sizes, g.strides);   // of a cropped NHWC image too, though it is not dense
#ifndef SMELT_CORE_TENSOR_MEMORY_FORMAT_H_
#define SMELT_CORE_TENSOR_MEMORY_FORMAT_H_

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/tensor/layout_trace.h"

namespace smelt {

// Returns whether strides suggest channels-last, for tensors of 4 or 5 dims; never for others. Density does not matter:
// from the channels outwards, no stride may be smaller than the inner ones, dims of size 1 included. If contiguous
// strides are the same (with one channel, say), they count as contiguous. `D`: ConcreteDecide or SymbolicDecide.
template <typename D>
bool SuggestsChannelsLast(D& decide, absl::Span<const typename D::Index> sizes,
                          absl::Span<const typename D::Index> strides) {
  using Index = typename D::Index;
  const int rank = static_cast<int>(sizes.size());
  if (rank != 4 && rank != 5) return false;
  using Vector = std::vector<Index>;
  if (const auto traced =
          TracedTest<D>(LayoutTrace::Predicate::kSuggestsChannelsLast,
                        {Vector(sizes.begin(), sizes.end()), Vector(strides.begin(), strides.end()), 0}))
    return *traced;
  std::vector<int> order = {1};
  for (int d = rank - 1; d >= 2; --d) order.push_back(d);
  order.push_back(0);
  if (decide.Equal(strides[1], Index(0))) return false;
  Index least = 0;
  for (int d : order) {
    if (decide.Equal(sizes[d], Index(0)) || decide.Less(strides[d], least)) return false;
    if (d == 0 && decide.Equal(least, strides[1])) return false;
    least = decide.Less(Index(1), sizes[d]) ? decide.Mul(strides[d], sizes[d]) : strides[d];
  }
  return true;
}

// Does the same for [N, C, L] as images of one row, [N, C, 1, L]: PyTorch computes tensors with one spatial dim in this
// way.
template <typename D>
bool SuggestsChannelsLastAsRow(D& decide, absl::Span<const typename D::Index> sizes,
                               absl::Span<const typename D::Index> strides) {
  using Index = typename D::Index;
  if (sizes.size() != 3) return false;
  const std::vector<Index> image = {sizes[0], sizes[1], Index(1), sizes[2]};
  const std::vector<Index> steps = {strides[0], strides[1], decide.Mul(sizes[2], strides[2]), strides[2]};
  return SuggestsChannelsLast<D>(decide, image, steps);
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_MEMORY_FORMAT_H_
