// Integer arithmetic modulo 2^n, as in PyTorch's kernels: overflow wraps around in two's complement, where C++'s signed
// operators are undefined. Other number types are computed as usual.
#ifndef SMELT_CORE_BASE_WRAPPING_H_
#define SMELT_CORE_BASE_WRAPPING_H_

#include <cstdint>
#include <type_traits>

namespace smelt {

template <typename T>
constexpr T WrappingAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  return a + b;
}

template <typename T>
constexpr T WrappingSub(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  return a - b;
}

template <typename T>
constexpr T WrappingMul(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  return a * b;
}

/// |v|; the least value, which has no positive counterpart, stays itself.
constexpr int64_t WrappingAbs(int64_t v) { return v < 0 ? WrappingSub(int64_t{0}, v) : v; }

}  // namespace smelt

#endif  // SMELT_CORE_BASE_WRAPPING_H_
