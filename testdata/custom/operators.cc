// The operators of make_models.py, as a library that `smelt run --op-library` loads.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/runtime/smelt.hpp"

namespace {

using smelt::Array;
using smelt::Output;

std::vector<float> Elements(const Array<const float>& x) {
  std::vector<float> out;
  x.ForEach([&](float v) { out.push_back(v); });
  return out;
}

void Clamp(const Array<float>& x, std::optional<double> low, std::optional<double> high) {
  x.ForEach([&](float& v) {
    if (low) v = std::max(v, static_cast<float>(*low));
    if (high) v = std::min(v, static_cast<float>(*high));
  });
}

// Sums of a matrix over one dim, or over both.
std::vector<double> Sums(const std::vector<double>& x, std::int64_t columns, const std::vector<std::int64_t>& dims) {
  const bool rows = std::count(dims.begin(), dims.end(), 0) > 0, across = std::count(dims.begin(), dims.end(), 1) > 0;
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / columns;
  std::vector<double> out(static_cast<std::size_t>((rows ? 1 : n) * (across ? 1 : columns)));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      out[static_cast<std::size_t>((rows ? 0 : i) * (across ? 1 : columns) + (across ? 0 : j))] +=
          x[static_cast<std::size_t>(i * columns + j)];
  }
  return out;
}

void Moments(const Array<const float>& x, const std::vector<std::int64_t>& dims,
             const std::optional<Array<const float>>& bias, const std::string& mode, Output<float> first,
             Output<float> second) {
  const std::int64_t columns = x.size(1);
  std::vector<double> values, squares;
  for (float v : Elements(x)) {
    const std::size_t column = values.size() % static_cast<std::size_t>(columns);
    values.push_back(bias ? v + (*bias)(column) : v);
    squares.push_back(values.back() * values.back());
  }
  std::vector<std::int64_t> sizes;
  for (int d = 0; d < 2; ++d) {
    if (std::count(dims.begin(), dims.end(), d) == 0) sizes.push_back(x.size(d));
  }
  const std::vector<double> sum = Sums(values, columns, dims), of_squares = Sums(squares, columns, dims);
  const double each = static_cast<double>(values.size()) / static_cast<double>(sum.size());
  const Array<float> a = first.Create(sizes), b = second.Create(sizes);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    a.data()[i] = static_cast<float>(mode == "sum" ? sum[i] : sum[i] / each);
    b.data()[i] = static_cast<float>(of_squares[i]);
  }
}

}  // namespace

SMELT_OPERATOR_LIBRARY(operators) {
  operators.Register("testops::head", [](Array<const float> x, std::int64_t n, Output<float> out) {
    std::vector<std::int64_t> sizes = x.sizes();
    sizes[0] = std::min(sizes[0], n);
    out.SetView(x, sizes, x.strides(), x.raw().offset);
  });
  operators.Register("testops::clamp_", Clamp);
  operators.Register("testops::cap_", [](Array<float> x, double high) { Clamp(x, std::nullopt, high); });
  operators.Register("testops::moments", Moments);
  operators.Register("testops::doubled", [](std::vector<Array<const float>> xs, smelt::OutputList<float> out) {
    std::vector<Output<float>> results = out.Create(xs.size());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      float* y = results[i].Create(xs[i].sizes()).data();
      for (float v : Elements(xs[i])) *y++ = v * 2;
    }
  });
  operators.Register("testops::add_all_", [](std::vector<Array<float>> xs, Array<const float> y) {
    for (const Array<float>& x : xs) {
      const std::vector<float> added = Elements(y);  // x may overlap y
      std::size_t i = 0;
      x.ForEach([&](float& v) { v += added[i++ % added.size()]; });
    }
  });
  operators.Register("testops::positive", [](Array<const float> x, Output<float> out) {
    std::vector<float> found = Elements(x);
    found.erase(std::remove_if(found.begin(), found.end(), [](float v) { return !(v > 0); }), found.end());
    std::copy(found.begin(), found.end(), out.Create({static_cast<std::int64_t>(found.size())}).data());
  });
  operators.Register("testops::fill.out", [](Array<const float>, std::int64_t value, Array<float> out) {
    out.ForEach([&](float& v) { v = static_cast<float>(value); });
  });
}
