// Pooling and its gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

// The window of one output position along one dim: its input positions, and the divisor of an average.
struct Window {
  std::vector<int64_t> positions;
  int64_t padded = 0;  // positions with padding counted in
};

struct Pool {
  int dims = 0;
  bool batched = false;
  int64_t planes = 1;
  std::vector<int64_t> in, out;              // the last `dims` sizes
  std::vector<std::vector<Window>> windows;  // by dim and output position
};

int DimsOf(const std::string& name) {
  return absl::StrContains(name, "3d") ? 3 : absl::StrContains(name, "1d") ? 1 : 2;
}

absl::StatusOr<Pool> PoolOf(const Call& c, const Tensor& input, absl::Span<const int64_t> output) {
  Pool p;
  p.dims = DimsOf(c.name());
  if (input.rank() < p.dims + 1 || input.rank() > p.dims + 2 || static_cast<int>(output.size()) != input.rank())
    return c.Error(absl::StrCat("expected an input of rank ", p.dims + 1, " or ", p.dims + 2));
  const int lead = input.rank() - p.dims;
  for (int d = 0; d < lead; ++d) p.planes *= input.sizes()[d];
  p.in.assign(input.sizes().begin() + lead, input.sizes().end());
  p.out.assign(output.begin() + lead, output.end());
  const bool adaptive = absl::StrContains(c.name(), "adaptive");
  const std::vector<int64_t> kernel = c.PerDim("kernel_size", p.dims, 1);
  std::vector<int64_t> stride = c.Ints("stride").empty() ? kernel : c.PerDim("stride", p.dims, 1);
  const std::vector<int64_t> padding = c.PerDim("padding", p.dims, 0), dilation = c.PerDim("dilation", p.dims, 1);
  for (int d = 0; d < p.dims; ++d) {
    std::vector<Window> windows;
    if (!adaptive && (stride[d] < 1 || kernel[d] < 1))
      return c.Error("stride and kernel_size should be greater than zero");
    if (!adaptive && (dilation[d] < 1 || std::max({kernel[d], stride[d], dilation[d], padding[d]}) > (1 << 30)))
      return c.Error("dilation should be greater than zero, and no window is so large");
    for (int64_t o = 0; o < p.out[d]; ++o) {
      Window w;
      if (adaptive) {
        const int64_t begin = o * p.in[d] / p.out[d], end = ((o + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
        for (int64_t i = begin; i < end; ++i) w.positions.push_back(i);
        w.padded = end - begin;
      } else {
        const int64_t begin = o * stride[d] - padding[d];
        for (int64_t k = 0; k < kernel[d]; ++k) {
          const int64_t i = begin + k * dilation[d];
          if (i >= p.in[d]) break;
          if (i >= 0 && i < p.in[d]) w.positions.push_back(i);
        }
        w.padded = std::min(begin + kernel[d], p.in[d] + padding[d]) - begin;
      }
      windows.push_back(std::move(w));
    }
    p.windows.push_back(std::move(windows));
  }
  return p;
}

// Calls f(output position in its plane, the window's positions in the input plane, size with padding).
template <typename F>
void ForEachWindow(const Pool& p, F f) {
  const std::vector<int64_t> strides = ContiguousStridesOf(p.in);
  ForEachIndex(p.out, [&](const Index& o, int64_t at) {
    std::vector<int64_t> counts;
    int64_t padded = 1;
    for (int d = 0; d < p.dims; ++d) {
      counts.push_back(static_cast<int64_t>(p.windows[d][o[d]].positions.size()));
      padded *= p.windows[d][o[d]].padded;
    }
    std::vector<int64_t> positions;
    ForEachIndex(counts, [&](const Index& k, int64_t) {
      int64_t i = 0;
      for (int d = 0; d < p.dims; ++d) i += p.windows[d][o[d]].positions[k[d]] * strides[d];
      positions.push_back(i);
    });
    f(at, positions, padded);
  });
}

absl::StatusOr<Values> MaxPool(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const Tensor input = c.T("self");
  SMELT_ASSIGN_OR_RETURN(Pool p, PoolOf(c, input, outs[0].sizes()));
  const int64_t in_area = Product(p.in), out_area = Product(p.out);
  WithNumber(input.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (!std::is_same_v<T, Cx>) {
      const std::vector<T> x = Read<T>(input);
      std::vector<T> y(p.planes * out_area);
      std::vector<int64_t> where(y.size());
      ForEachWindow(p, [&](int64_t at, const std::vector<int64_t>& positions, int64_t) {
        for (int64_t n = 0; n < p.planes; ++n) {
          bool any = false;
          T best = std::is_same_v<T, double> ? static_cast<T>(-std::numeric_limits<double>::infinity())
                                             : std::numeric_limits<T>::lowest();
          int64_t index = positions.empty() ? 0 : positions[0];
          for (int64_t i : positions) {
            const T v = x[n * in_area + i];
            if (!any || v > best || v != v) {
              // The first of equal values; the last NaN.
              best = v;
              index = i;
              any = true;
            }
          }
          y[n * out_area + at] = best;
          where[n * out_area + at] = index;
        }
      });
      Write(outs[0], y);
      if (outs.size() > 1) Write(outs[1], where);
    }
    return 0;
  });
  Values r;
  for (const Tensor& t : outs) r.push_back(EvalValue(t));
  return r;
}

absl::StatusOr<Values> MaxPoolBackward(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor grad = c.T("grad_output");
  const std::vector<double> g = Read<double>(grad);
  const std::vector<int64_t> index = Read<int64_t>(c.T("indices"));
  if (index.size() != g.size()) return c.Error("the indices do not fit the gradient");
  const int dims = DimsOf(c.name());
  int64_t in_area = 1, out_area = 1;
  for (int d = 0; d < dims && d < out.rank() && d < grad.rank(); ++d) {
    in_area *= out.sizes()[out.rank() - 1 - d];
    out_area *= grad.sizes()[grad.rank() - 1 - d];
  }
  std::vector<double> sum(out.NumElements());
  for (size_t k = 0; k < g.size(); ++k) {
    const int64_t at = static_cast<int64_t>(k) / out_area * in_area + index[k];
    if (index[k] < 0 || index[k] >= in_area || at >= static_cast<int64_t>(sum.size()))
      return c.Error("an index is out of range");
    sum[at] += g[k];
  }
  Write(out, sum);
  return Values{EvalValue(out)};
}

absl::StatusOr<Tensor> AdaptiveOutput(Call& c) {
  const Tensor self = c.T("self");
  const int dims = DimsOf(c.name());
  const std::vector<int64_t> wanted = c.PerDim("output_size", dims, 1);
  if (self.rank() < dims + 1) return c.Error("the input has too few dims");
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  for (int d = 0; d < dims; ++d) {
    if (wanted[d] < 0 || wanted[d] > (1 << 20)) return c.Error(absl::StrCat("output_size cannot be ", wanted[d]));
    sizes[sizes.size() - dims + d] = wanted[d];
  }
  return NewTensor(*c.state, self.dtype(), sizes, ContiguousStridesOf(sizes));
}

absl::StatusOr<Values> AvgPool(Call& c) {
  Tensor out;
  absl::StatusOr<Tensor> inferred = OutputOf(c);
  if (inferred.ok()) {
    out = *inferred;
  } else if (absl::StrContains(c.name(), "adaptive")) {
    SMELT_ASSIGN_OR_RETURN(out, AdaptiveOutput(c));
  } else {
    return inferred.status();
  }
  const Tensor input = c.T("self");
  SMELT_ASSIGN_OR_RETURN(Pool p, PoolOf(c, input, out.sizes()));
  const int64_t in_area = Product(p.in), out_area = Product(p.out);
  const bool include = c.B("count_include_pad", true);
  const int64_t divisor = c.I("divisor_override", 0);
  const std::vector<double> x = Read<double>(input);
  std::vector<double> y(p.planes * out_area);
  ForEachWindow(p, [&](int64_t at, const std::vector<int64_t>& positions, int64_t padded) {
    const int64_t count = divisor != 0 ? divisor : include ? padded : static_cast<int64_t>(positions.size());
    for (int64_t n = 0; n < p.planes; ++n) {
      double sum = 0;
      for (int64_t i : positions) sum += x[n * in_area + i];
      y[n * out_area + at] = sum / static_cast<double>(count);
    }
  });
  Write(out, y);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> AvgPoolBackward(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor grad = c.T("grad_output");
  SMELT_ASSIGN_OR_RETURN(Pool p, PoolOf(c, c.T("self"), grad.sizes()));
  const int64_t in_area = Product(p.in), out_area = Product(p.out);
  const bool include = c.B("count_include_pad", true);
  const int64_t divisor = c.I("divisor_override", 0);
  const bool adaptive = absl::StrContains(c.name(), "adaptive");
  const std::vector<double> g = Read<double>(grad);
  std::vector<double> sum(out.NumElements());
  if (static_cast<int64_t>(g.size()) != p.planes * out_area || static_cast<int64_t>(sum.size()) != p.planes * in_area)
    return c.Error("the gradient does not fit the input");
  // Quotients and sums are rounded to the dtype in memory; an adaptive window has one quotient per dim.
  const auto rounded = [&](double v) { return Rounded(out.dtype(), v); };
  ForEachWindow(p, [&](int64_t at, const std::vector<int64_t>& positions, int64_t padded) {
    std::vector<int64_t> divisors = {divisor != 0 ? divisor
                                     : include    ? padded
                                                  : static_cast<int64_t>(positions.size())};
    if (adaptive) {
      divisors.clear();
      for (int64_t d = p.dims, rest = at; d-- > 0; rest /= p.out[d]) {
        divisors.insert(divisors.begin(), static_cast<int64_t>(p.windows[d][rest % p.out[d]].positions.size()));
      }
    }
    for (int64_t n = 0; n < p.planes; ++n) {
      double part = g[n * out_area + at];
      for (int64_t by : divisors) part = rounded(part / rounded(static_cast<double>(by)));
      for (int64_t i : positions) sum[n * in_area + i] = rounded(sum[n * in_area + i] + part);
    }
  });
  Write(out, sum);
  return Values{EvalValue(out)};
}

}  // namespace

void AddPoolingKernels(KernelTable& t) {
  t["aten::max_pool2d_with_indices"] = t["aten::max_pool3d_with_indices"] = t["aten::adaptive_max_pool2d"] = MaxPool;
  t["aten::max_pool2d_with_indices_backward"] = t["aten::adaptive_max_pool2d_backward"] = MaxPoolBackward;
  for (const char* n : {"avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
                        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}) {
    t[absl::StrCat("aten::", n)] = AvgPool;
  }
  t["aten::avg_pool2d_backward"] = t["aten::_adaptive_avg_pool2d_backward"] = AvgPoolBackward;
}

}  // namespace smelt::eval_internal
