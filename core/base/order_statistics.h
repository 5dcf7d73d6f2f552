// Which of a line's elements kthvalue, median and mode name: where several are equal it hangs on how PyTorch's CPU
// kernels move them, which these functions follow move by move. Elements are named by their places in [0, n); `less`
// compares two.
#ifndef SMELT_CORE_BASE_ORDER_STATISTICS_H_
#define SMELT_CORE_BASE_ORDER_STATISTICS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace smelt {

// The first k, 0 <= k <= n, by `before`, in its order if `sorted`: topk. Which of equal ones these are, and in which
// order, the algorithms of C++'s library decide in PyTorch, as they do here.
template <typename Before>
std::vector<int64_t> TopPlaces(int64_t n, int64_t k, bool sorted, Before before) {
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  if (k * 64 <= n) {
    std::partial_sort(at.begin(), at.begin() + k, at.end(), before);
  } else {
    std::nth_element(at.begin(), at.begin() + k - 1, at.end(), before);
    if (sorted) std::sort(at.begin(), at.begin() + k - 1, before);
  }
  at.resize(static_cast<size_t>(k));
  return at;
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_ORDER_STATISTICS_H_
