// Fourier transforms by definition: each element is a sum over the signal.
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

// Transforms x, dense elements of these sizes, along `dim`: the sum over k of x[k] exp(-+2 pi i j k / n).
std::vector<Cx> AlongDim(const std::vector<Cx>& x, const std::vector<int64_t>& sizes, int64_t dim, bool forward) {
  const int64_t n = sizes[dim];
  std::vector<Cx> roots(n);
  for (int64_t k = 0; k < n; ++k) {
    roots[k] = std::polar(1.0, (forward ? -2 : 2) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  }
  const int64_t step = Product(absl::MakeConstSpan(sizes).subspan(dim + 1));
  std::vector<Cx> out(x.size());
  for (size_t at = 0; at < x.size(); ++at) {
    const int64_t j = static_cast<int64_t>(at) / step % n;
    const size_t first = at - j * step;
    Cx sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += x[first + k * step] * roots[j * k % n];
    out[at] = sum;
  }
  return out;
}

// Completes half of a spectrum along `dim` with the conjugates.
std::vector<Cx> Completed(const std::vector<Cx>& half, const std::vector<int64_t>& sizes, int64_t dim, int64_t n) {
  const int64_t step = Product(absl::MakeConstSpan(sizes).subspan(dim + 1)), have = sizes[dim];
  const int64_t lines = have * step == 0 ? 0 : static_cast<int64_t>(half.size()) / (have * step);
  std::vector<Cx> out(lines * n * step);
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t i = 0; i < step; ++i) {
        const Cx v = half[(line * have + std::min(k, n - k)) * step + i];
        out[(line * n + k) * step + i] = k < have ? v : std::conj(v);
      }
    }
  }
  return out;
}

absl::StatusOr<Values> Fourier(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  std::vector<int64_t> dims = c.Ints("dim");
  for (int64_t& d : dims) {
    d += d < 0 ? self.rank() : 0;
    if (self.sizes()[d] == 0) return c.Error("invalid number of data points (0) specified");
  }
  const bool to_real = !IsComplex(out.dtype());
  const bool forward = c.name() == "aten::_fft_c2c" ? c.B("forward") : !to_real;
  std::vector<Cx> x = Read<Cx>(self);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  double count = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (to_real && k + 1 == dims.size()) {
      x = Completed(x, sizes, dims[k], out.sizes()[dims[k]]);
      sizes[dims[k]] = out.sizes()[dims[k]];
    }
    x = AlongDim(x, sizes, dims[k], forward);
    count *= static_cast<double>(sizes[dims[k]]);
  }
  if (!IsComplex(self.dtype()) && dims.size() == 1) {  // the ends of a real signal's spectrum are real, to the last bit
    const int64_t n = sizes[dims[0]], step = Product(absl::MakeConstSpan(sizes).subspan(dims[0] + 1));
    for (size_t at = 0; at < x.size(); ++at) {
      const int64_t k = static_cast<int64_t>(at) / step % n;
      if (k == 0 || 2 * k == n) x[at].imag(0);
    }
  }
  const int64_t by = c.I("normalization");
  const double divisor = by == 0 ? 1 : by == 1 ? std::sqrt(count) : count;
  for (Cx& v : x) v /= divisor;
  if (out.sizes() != absl::MakeConstSpan(sizes)) {  // half of the spectrum
    const int64_t d = dims.back(), step = Product(absl::MakeConstSpan(sizes).subspan(d + 1));
    std::vector<Cx> kept;
    for (size_t at = 0; at < x.size(); ++at) {
      if (static_cast<int64_t>(at) / step % sizes[d] < out.sizes()[d]) kept.push_back(x[at]);
    }
    x = std::move(kept);
  }
  if (to_real) {
    std::vector<double> real;
    real.reserve(x.size());
    for (const Cx& v : x) real.push_back(v.real());
    Write(out, real);
  } else {
    Write(out, x);
  }
  return Values{EvalValue(out)};
}

}  // namespace

void AddFourierKernels(KernelTable& t) { t["aten::_fft_c2c"] = t["aten::_fft_r2c"] = t["aten::_fft_c2r"] = Fourier; }

}  // namespace smelt::eval_internal
