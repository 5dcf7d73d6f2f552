// Indices of elements, for kernels that move them. Private to core/eval.
#ifndef SMELT_CORE_EVAL_INDICES_H_
#define SMELT_CORE_EVAL_INDICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smelt/core/tensor/tensor.h"

namespace smelt::eval_internal {

using Index = std::vector<int64_t>;

// Returns the offset of an index, in elements.
inline int64_t Flat(const Index& index, const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return at;
}

// Returns the sizes; a tensor without dims counts as one with a dim of one element.
inline std::vector<int64_t> SizesOf(const Tensor& t) {
  std::vector<int64_t> s(t.sizes().begin(), t.sizes().end());
  if (s.empty()) s.push_back(1);
  return s;
}

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_INDICES_H_
