// Operations on strided memory: copies between geometries, and walks over elements.
#ifndef SMELT_RUNTIME_STRIDED_H_
#define SMELT_RUNTIME_STRIDED_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/elements.h"

namespace smelt {

class ThreadPool;

// An operator's view of memory. Strides are in elements.
struct StridedSpan {
  char* data = nullptr;
  DType dtype = DType::kFloat32;
  absl::Span<const int64_t> sizes, strides;

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t NumElements() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
};

// One dim of two strided memories: its size, and the distance of its elements in each, in bytes.
struct StridedDim {
  int64_t size, dst, src;
};
// Makes one dim of neighbours that continue each other in both memories. Returns how many are left, at the front.
int MergeDims(absl::Span<StridedDim> dims);
// Returns the merged dims of elements of `item_bytes`, without those of size 1.
std::vector<StridedDim> MergedDims(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dst_strides,
                                   absl::Span<const int64_t> src_strides, int64_t item_bytes);

// Copies element by element, with equal sizes and `item_bytes` each. Source and destination may be the same memory with
// the same strides, but must not overlap otherwise. Large copies are divided among the pool's threads (not if it is
// null). The rank is at most 64. Allocates nothing up to rank 8.
void CopyStrided(char* dst, absl::Span<const int64_t> dst_strides, const char* src,
                 absl::Span<const int64_t> src_strides, absl::Span<const int64_t> sizes, int item_bytes,
                 ThreadPool* pool = nullptr, int width = 1);

// Calls f(address) for every element in row-major index order.
template <typename F>
void ForEachElement(const StridedSpan& s, F f) {
  const int rank = s.rank();
  const int64_t n = s.NumElements();
  if (n == 0) return;
  const int item = ItemSize(s.dtype);
  int64_t index[64] = {};
  char* p = s.data;
  for (int64_t i = 0; i < n; ++i) {
    f(p);
    for (int d = rank - 1; d >= 0; --d) {
      p += s.strides[d] * item;
      if (++index[d] < s.sizes[d]) break;
      p -= s.sizes[d] * s.strides[d] * item;
      index[d] = 0;
    }
  }
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_STRIDED_H_
