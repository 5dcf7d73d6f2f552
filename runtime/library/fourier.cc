// "fourier": discrete Fourier transforms along dims of a tensor, by Eigen's FFT in double, rounded once at the end.
#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/scratch.h"
#include "unsupported/Eigen/FFT"

namespace smelt::library_internal {
namespace {

using Complex = std::complex<double>;

// Roots and filters of a longer signal would take gigabytes, for sizes that a file claims.
constexpr int64_t kLongest = int64_t{1} << 26;

int64_t LargestFactor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) largest = p, n /= p;
  }
  return std::max(largest, n);
}

// The transform of n elements. Eigen takes n times the largest prime factor of n: where that is large the transform is
// a convolution of a length that is a power of two (Bluestein).
class Line {
 public:
  explicit Line(int64_t n) : n_(n) {
    if (LargestFactor(n) <= kLargestFactor) return;
    padded_ = 1;
    while (padded_ < 2 * n - 1) padded_ *= 2;
    // exp(-i pi k^2 / n); k^2 modulo 2 n, so that the angle stays exact.
    chirp_.resize(n);
    std::vector<Complex> filter(padded_);
    int64_t square = 0;  // of k, modulo 2 n
    for (int64_t k = 0; k < n; ++k) {
      chirp_[k] = std::polar(1.0, -std::numbers::pi * static_cast<double>(square) / static_cast<double>(n));
      filter[k] = filter[(padded_ - k) % padded_] = std::conj(chirp_[k]);
      square = (square + 2 * k + 1) % (2 * n);
    }
    filter_.resize(padded_);
    Engine().fwd(filter_.data(), filter.data(), padded_);
  }

  // `in` and `out` are apart; `in` is overwritten. The inverse one is not divided by n.
  void Run(Complex* in, Complex* out, bool forward) const {
    if (n_ == 1) {
      out[0] = in[0];
    } else if (padded_ != 0) {
      // An inverse transform is the conjugate of that of the conjugate.
      if (!forward) Conjugate(in);
      Convolve(in, out);
      if (!forward) Conjugate(out);
    } else if (forward) {
      Engine().fwd(out, in, n_);
    } else {
      Engine().inv(out, in, n_);
    }
  }

  // Of a real signal the first n / 2 + 1 elements of its spectrum, and the signal of those, not divided by n: half of
  // the work. Where HalvesWork().
  bool HalvesWork() const { return n_ > 1 && padded_ == 0; }
  void RunReal(const double* in, Complex* out) const { Engine().impl().fwd(out, in, static_cast<int>(n_)); }
  void RunToReal(const Complex* in, double* out) const { Engine().impl().inv(out, in, static_cast<int>(n_)); }

 private:
  static constexpr int64_t kLargestFactor = 64;

  // It keeps the roots of the lengths that it has seen, and is not to be shared by threads.
  static Eigen::FFT<double>& Engine() {
    thread_local Eigen::FFT<double> engine(Eigen::FFT<double>::impl_type(), Eigen::FFT<double>::Unscaled);
    return engine;
  }

  void Conjugate(Complex* x) const {
    for (int64_t k = 0; k < n_; ++k) x[k] = std::conj(x[k]);
  }

  void Convolve(const Complex* in, Complex* out) const {
    Complex* a = reinterpret_cast<Complex*>(Scratch::Get(ScratchUse::kWeights, 2 * padded_ * sizeof(Complex)));
    Complex* b = a + padded_;
    for (int64_t k = 0; k < n_; ++k) a[k] = in[k] * chirp_[k];
    std::fill(a + n_, a + padded_, Complex(0));
    Engine().fwd(b, a, padded_);
    for (int64_t k = 0; k < padded_; ++k) b[k] *= filter_[k];
    Engine().inv(a, b, padded_);
    for (int64_t k = 0; k < n_; ++k) out[k] = a[k] * chirp_[k] / static_cast<double>(padded_);
  }

  int64_t n_, padded_ = 0;
  std::vector<Complex> chirp_, filter_;
};

Complex LoadPair(const char* p, DType t) {
  switch (t) {
    case DType::kComplex64:
      return reinterpret_cast<const std::complex<float>*>(p)[0];
    case DType::kComplex128:
      return reinterpret_cast<const std::complex<double>*>(p)[0];
    case DType::kFloat32:
      return reinterpret_cast<const float*>(p)[0];
    default:
      return reinterpret_cast<const double*>(p)[0];
  }
}
void StorePair(char* p, DType t, Complex v) {
  switch (t) {
    case DType::kComplex64:
      reinterpret_cast<std::complex<float>*>(p)[0] = std::complex<float>(v);
      break;
    case DType::kComplex128:
      reinterpret_cast<std::complex<double>*>(p)[0] = v;
      break;
    case DType::kFloat32:
      reinterpret_cast<float*>(p)[0] = static_cast<float>(v.real());
      break;
    default:
      reinterpret_cast<double*>(p)[0] = v.real();
  }
}

bool IsTransformed(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kComplex64 || t == DType::kComplex128;
}

// Along one dim after the other: a real signal's last dim comes first, as half of its spectrum is enough for the
// others, and a real result's last.
class FourierOp : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r) {
    SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, -1));
    const OperandShape &in = r.inputs[0], &out = r.outputs[0];
    const auto invalid = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": ", what));
    };
    if (r.ints.size() < 3 || r.floats.size() > 0) return invalid("normalization, direction and dims are expected");
    if (!IsTransformed(in.dtype) || !IsTransformed(out.dtype) || (!IsComplex(in.dtype) && !IsComplex(out.dtype))) {
      return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(in.dtype), " to ", Name(out.dtype)));
    }
    if (IsComplex(in.dtype) ? !IsComplex(out.dtype) && r.ints[1] != 0 : r.ints[1] == 0) {
      return invalid("a real signal is transformed forward, to a real one back");
    }
    if (in.rank() != out.rank()) return invalid("operand and result are of different rank");
    auto op = std::unique_ptr<FourierOp>(new FourierOp());
    op->in_ = in;
    op->out_ = out;
    op->to_real_ = !IsComplex(out.dtype);
    op->forward_ = r.ints[1] != 0;
    std::vector<int64_t> dims(r.ints.begin() + 2, r.ints.end());
    // Sizes of the signal: a half spectrum is of a signal that the other side shows whole.
    const bool halved = !IsComplex(in.dtype) && in.sizes != out.sizes;
    double count = 1;
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t d = dims[k];
      if (d < 0 || d >= in.rank() || std::count(dims.begin(), dims.end(), d) > 1) return invalid("a dim is wrong");
      const bool last = k + 1 == dims.size();
      const int64_t n = op->to_real_ ? out.sizes[d] : in.sizes[d];
      const int64_t half = n / 2 + 1;
      if (n < 1 || n > kLongest)
        return invalid(absl::StrCat("a signal of ", n, " elements; 1 to ", kLongest, " expected"));
      if (in.sizes[d] != (last && op->to_real_ ? half : n) || out.sizes[d] != (last && halved ? half : n)) {
        return invalid("sizes of operand and result do not fit");
      }
      count *= static_cast<double>(n);
      op->steps_.push_back({d, std::make_shared<Line>(n)});
    }
    for (int d = 0; d < in.rank(); ++d) {
      if (std::count(dims.begin(), dims.end(), d) == 0 && in.sizes[d] != out.sizes[d]) {
        return invalid("sizes of operand and result do not fit");
      }
    }
    if (!IsComplex(in.dtype)) std::reverse(op->steps_.begin(), op->steps_.end());
    op->scale_ = r.ints[0] == 0 ? 1 : r.ints[0] == 1 ? 1 / std::sqrt(count) : 1 / count;
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (in_.NumElements() == 0) return absl::OkStatus();
    Side from = {inputs[0], in_.dtype, in_.sizes, in_.strides};
    const Side to = {outputs[0], out_.dtype, out_.sizes, out_.strides};
    Side between;
    if (steps_.size() > 1) {
      between.dtype = DType::kComplex128;
      between.sizes = to_real_ ? in_.sizes : out_.sizes;
      int64_t elements = 1;
      between.strides.resize(between.sizes.size());
      for (size_t d = between.sizes.size(); d-- > 0;) {
        between.strides[d] = elements;
        elements *= between.sizes[d];
      }
      between.data = Scratch::Get(ScratchUse::kLibrary, elements * static_cast<int64_t>(sizeof(Complex)));
    }
    for (size_t k = 0; k < steps_.size(); ++k) {
      const bool last = k + 1 == steps_.size();
      Transform(context, steps_[k], from, last ? to : between, last ? scale_ : 1);
      from = between;
    }
    return absl::OkStatus();
  }

 private:
  struct Step {
    int64_t dim;
    std::shared_ptr<const Line> line;
  };
  struct Side {
    char* data = nullptr;
    DType dtype = DType::kComplex128;
    std::vector<int64_t> sizes, strides;
  };

  void Transform(const LibraryContext& context, const Step& step, const Side& from, const Side& to,
                 double scale) const {
    const int rank = static_cast<int>(from.sizes.size());
    const int64_t have = from.sizes[step.dim], give = to.sizes[step.dim];
    const int64_t n = std::max(have, give);
    int64_t lines = 1;
    for (int d = 0; d < rank; ++d) lines *= d == step.dim ? 1 : from.sizes[d];
    const int64_t chunk = std::max<int64_t>(1, 4096 / n);
    const int from_item = ItemSize(from.dtype), to_item = ItemSize(to.dtype);
    context.For((lines + chunk - 1) / chunk, [&](int64_t c) {
      Complex* in =
          reinterpret_cast<Complex*>(Scratch::Get(ScratchUse::kA, 2 * n * static_cast<int64_t>(sizeof(Complex))));
      Complex* out = in + n;
      for (int64_t i = c * chunk; i < std::min(lines, (c + 1) * chunk); ++i) {
        const char* source = from.data;
        char* destination = to.data;
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; --d) {
          if (d == step.dim) continue;
          source += rest % from.sizes[d] * from.strides[d] * from_item;
          destination += rest % from.sizes[d] * to.strides[d] * to_item;
          rest /= from.sizes[d];
        }
        const int64_t from_step = from.strides[step.dim] * from_item, to_step = to.strides[step.dim] * to_item;
        if (!IsComplex(from.dtype) && step.line->HalvesWork()) {
          double* signal = reinterpret_cast<double*>(in);
          for (int64_t k = 0; k < n; ++k) signal[k] = LoadPair(source + k * from_step, from.dtype).real();
          step.line->RunReal(signal, out);
          for (int64_t k = n / 2 + 1; k < give; ++k) out[k] = std::conj(out[n - k]);
        } else {
          for (int64_t k = 0; k < have; ++k) in[k] = LoadPair(source + k * from_step, from.dtype);
          if (!IsComplex(to.dtype) && step.line->HalvesWork()) {
            double* signal = reinterpret_cast<double*>(out);
            step.line->RunToReal(in, signal);
            for (int64_t k = n; k-- > 0;) out[k] = signal[k];  // from the end: they lie in the same memory
          } else {
            // Half of a spectrum is made whole by the conjugates.
            for (int64_t k = have; k < n; ++k) in[k] = std::conj(in[n - k]);
            step.line->Run(in, out, forward_);
          }
        }
        for (int64_t k = 0; k < give; ++k) StorePair(destination + k * to_step, to.dtype, out[k] * scale);
      }
    });
  }

  OperandShape in_, out_;
  std::vector<Step> steps_;
  double scale_ = 1;
  bool forward_ = true, to_real_ = false;
};

}  // namespace

MakeResult MakeFourier(const LibraryRequest& r, int64_t*) { return FourierOp::Make(r); }

}  // namespace smelt::library_internal
