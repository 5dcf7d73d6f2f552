// Shared by the mutators: random choices, and numbers that programs are not made for.
#ifndef SMELT_TOOLS_FUZZ_MUTATION_H_
#define SMELT_TOOLS_FUZZ_MUTATION_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>

namespace smelt {

// 0 where there is nothing to choose from.
inline size_t Below(std::mt19937_64& random, size_t n) { return n == 0 ? 0 : random() % n; }

template <typename T>
auto& AnyOf(std::mt19937_64& random, T& list) {
  return list[Below(random, std::size(list))];
}

inline int64_t SomeNumber(std::mt19937_64& random) {
  static constexpr int64_t kNumbers[] = {
      0,  1,         2,         3,         4,         5, 7,  8,  16,        31, -1,        -2,        -9, 1000, 64,
      65, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 6, 10, 12, 1LL << 40, 15, 1LL << 33, 1LL << 62, -4, 100,  9};
  return AnyOf(random, kNumbers);
}

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_MUTATION_H_
