// Finds the elements of a line for topk, kthvalue, median and mode. Among equal elements the result depends on how
// PyTorch's CPU kernels move them, so these functions repeat the same moves. Elements are named by their positions in
// [0, n); `less` compares two.
#ifndef SMELT_CORE_BASE_ORDER_STATISTICS_H_
#define SMELT_CORE_BASE_ORDER_STATISTICS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace smelt {

// topk: finds the first k, 0 <= k <= n, by `before`, in that order if `sorted`. For equal elements the algorithms of
// the C++ library decide which are chosen, and in which order, in PyTorch as here.
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

// Finds the k-th smallest element, 0 <= k < n. `less` has NaN above all numbers. A quickselect whose pivots are medians
// of three.
template <typename Less>
int64_t KthPlace(int64_t n, int64_t k, Less less) {
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  int64_t low = 0, high = n - 1;
  const auto order = [&](int64_t a, int64_t b) {  // so that the first of a is not above that of b
    if (less(at[b], at[a])) std::swap(at[a], at[b]);
  };
  while (low < high) {
    if (high == low + 1) {
      order(low, high);
      break;
    }
    std::swap(at[low + (high - low) / 2], at[low + 1]);
    order(low + 1, high);
    order(low, high);
    order(low + 1, low);
    const int64_t pivot = at[low];
    int64_t i = low + 1, j = high;
    while (true) {
      do ++i;
      while (less(at[i], pivot));
      do --j;
      while (less(pivot, at[j]));
      if (j < i) break;
      std::swap(at[i], at[j]);
    }
    std::swap(at[low], at[j]);
    if (j <= k) low = i;
    if (j >= k) high = j - 1;
  }
  return at[k];
}

// Finds the median, n > 0: the lower one of two in the middle, and among equal ones by the order of their positions.
// The first NaN is the median, or NaN are left out.
template <typename Less, typename IsNan>
int64_t MedianPlace(int64_t n, bool ignore_nan, Less less, IsNan is_nan) {
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  int64_t numbers = n;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_nan(i)) continue;
    if (!ignore_nan) return i;
    --numbers;
  }
  const auto middle = at.begin() + (numbers - 1) / 2;
  std::nth_element(at.begin(), middle, at.end(),
                   [&](int64_t a, int64_t b) { return less(a, b) || (a < b && !less(b, a) && !is_nan(a)); });
  return *middle;
}

// Finds the most frequent element, and the smallest of several such, n > 0. Undetermined if there are NaN among many
// elements, because PyTorch's comparison of these is not an order.
template <typename Less, typename IsNan>
std::optional<int64_t> ModePlace(int64_t n, Less less, IsNan is_nan) {
  constexpr int64_t kSortedByInsertion = 16;
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  const bool nan = std::any_of(at.begin(), at.end(), is_nan);
  if (nan && n > kSortedByInsertion) return std::nullopt;
  const auto below = [&](int64_t a, int64_t b) { return less(a, b) && !is_nan(b); };
  if (nan) {
    for (int64_t i = 1; i < n; ++i) {
      const auto to = below(at[i], at[0]) ? 0 : i;
      if (to == 0) {
        std::rotate(at.begin(), at.begin() + i, at.begin() + i + 1);
        continue;
      }
      for (int64_t k = i; below(at[k], at[k - 1]); --k) std::swap(at[k], at[k - 1]);
    }
  } else {
    std::sort(at.begin(), at.end(), below);
  }
  int64_t best = at[0], most = 0, count = 0;
  for (int64_t i = 0; i < n; ++i) {
    ++count;
    if (i + 1 < n && !below(at[i], at[i + 1]) && !below(at[i + 1], at[i]) && !is_nan(at[i]) && !is_nan(at[i + 1]))
      continue;
    if (count > most) {
      most = count;
      best = at[i];
    }
    count = 0;
  }
  return best;
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_ORDER_STATISTICS_H_
