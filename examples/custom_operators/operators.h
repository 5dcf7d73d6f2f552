// mylib's operators in C++.
#ifndef SMELT_EXAMPLES_CUSTOM_OPERATORS_OPERATORS_H_
#define SMELT_EXAMPLES_CUSTOM_OPERATORS_OPERATORS_H_

#include <cmath>
#include <cstdint>

#include "smelt/runtime/smelt.hpp"

namespace mylib {

// push_(Tensor(a!) window, Tensor row) -> (): drops the oldest row of a window and appends one.
inline void Push(smelt::Array<float> window, smelt::Array<const float> row) {
  const std::int64_t rows = window.size(0), columns = window.size(1);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) window(i, j) = i + 1 < rows ? window(i + 1, j) : row(j);
  }
}

// soft_clip(Tensor x, float limit) -> Tensor
inline void SoftClip(smelt::Array<const float> x, double limit, smelt::Output<float> out) {
  float* y = out.Create(x.sizes()).data();
  x.ForEach([&](float v) { *y++ = v / (1 + std::fabs(v / static_cast<float>(limit))); });
}

}  // namespace mylib

#endif  // SMELT_EXAMPLES_CUSTOM_OPERATORS_OPERATORS_H_
