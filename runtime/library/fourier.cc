#include "smelt/runtime/library/fourier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/fourier_lines.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matrices.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

// Roots and filters of a longer signal would take gigabytes, for sizes that a file claims.
constexpr int64_t kLongest = int64_t{1} << 26;
// Lines of at most this many elements are transformed several at a time.
constexpr int64_t kShort = 1 << 15;

// Lines in memory: their first elements, the steps from an element to the next and between the parts of one, in
// numbers. There are no imaginary parts if `im` is 0.
struct LinesAt {
  char* first[kFourierLanes];
  int64_t step, im;
};

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef double FourDoubles __attribute__((vector_size(32)));
typedef double EightDoubles __attribute__((vector_size(64)));

template <typename T>
using FourOf = std::conditional_t<sizeof(T) == 4, Four, FourDoubles>;

// kBytes is the size of a vector of the machine.
template <int kBytes>
SMELT_INLINE void StoreDoubles(double* to, const Eight& v) {
  if constexpr (kBytes == 64) {
    const EightDoubles d = __builtin_convertvector(v, EightDoubles);
    std::memcpy(to, &d, sizeof(d));
  } else {
    const Four low = __builtin_shufflevector(v, v, 0, 1, 2, 3), high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
    const FourDoubles d = __builtin_convertvector(low, FourDoubles), e = __builtin_convertvector(high, FourDoubles);
    std::memcpy(to, &d, sizeof(d));
    std::memcpy(to + 4, &e, sizeof(e));
  }
}
template <int kBytes>
SMELT_INLINE void LoadScaled(const double* from, double scale, Eight& v) {
  if constexpr (kBytes == 64) {
    EightDoubles d;
    std::memcpy(&d, from, sizeof(d));
    v = __builtin_convertvector(d * scale, Eight);
  } else {
    FourDoubles d, e;
    std::memcpy(&d, from, sizeof(d));
    std::memcpy(&e, from + 4, sizeof(e));
    const Four low = __builtin_convertvector(d * scale, Four), high = __builtin_convertvector(e * scale, Four);
    v = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }
}

// Rows become columns in three rounds: single elements are exchanged, then pairs, then halves.
SMELT_INLINE void TransposeEight(Eight* a) {
  Eight b[8];
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  Eight c[8];
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      c[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      c[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    a[i] = __builtin_shufflevector(c[i], c[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    a[i + 4] = __builtin_shufflevector(c[i], c[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

template <typename T>
constexpr bool IsDense(const LinesAt& lines, int64_t lanes) {
  return sizeof(T) == 4 && lanes == kFourierLanes && lines.step == 2 && lines.im == 1;
}

// Returns whether element k of every line is complex and beside that of the line before.
template <typename T>
SMELT_INLINE bool AreAdjacent(const LinesAt& lines, int64_t lanes) {
  bool adjacent = lanes == kFourierLanes && lines.im == 1;
  for (int l = 1; adjacent && l < kFourierLanes; ++l) {
    adjacent = lines.first[l] == lines.first[0] + l * 2 * static_cast<int64_t>(sizeof(T));
  }
  return adjacent;
}

// Loads elements [0, n) of `lanes` lines.
template <typename T, int kBytes>
SMELT_INLINE void LoadLines(const LinesAt& from, int64_t n, int64_t lanes, Planes to) {
  int64_t k = 0;
  if (IsDense<T>(from, lanes)) {
    for (; k + 4 <= n; k += 4) {
      Eight rows[8];
      for (int l = 0; l < 8; ++l) std::memcpy(&rows[l], from.first[l] + 2 * k * sizeof(T), sizeof(Eight));
      TransposeEight(rows);
      for (int i = 0; i < 4; ++i) {
        StoreDoubles<kBytes>(to.re + (k + i) * 8, rows[2 * i]);
        StoreDoubles<kBytes>(to.im + (k + i) * 8, rows[2 * i + 1]);
      }
    }
  }
  if (AreAdjacent<T>(from, lanes)) {
    for (; k < n; ++k) {
      const char* p = from.first[0] + k * from.step * static_cast<int64_t>(sizeof(T));
      for (int half = 0; half < 2; ++half, p += 2 * sizeof(FourOf<T>)) {
        FourOf<T> a, b;
        std::memcpy(&a, p, sizeof(a));
        std::memcpy(&b, p + sizeof(a), sizeof(b));
        const FourOf<T> even = __builtin_shufflevector(a, b, 0, 2, 4, 6),
                        odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
        const FourDoubles re = __builtin_convertvector(even, FourDoubles),
                          im = __builtin_convertvector(odd, FourDoubles);
        std::memcpy(to.re + k * 8 + half * 4, &re, sizeof(re));
        std::memcpy(to.im + k * 8 + half * 4, &im, sizeof(im));
      }
    }
  }
  for (; k < n; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      const T* p = reinterpret_cast<const T*>(from.first[l]) + k * from.step;
      to.re[k * lanes + l] = p[0];
      to.im[k * lanes + l] = from.im != 0 ? p[from.im] : 0;
    }
  }
}

template <typename T, int kBytes>
SMELT_INLINE void StoreLines(Planes from, double scale, int64_t n, int64_t lanes, const LinesAt& to) {
  int64_t k = 0;
  if (IsDense<T>(to, lanes)) {
    for (; k + 4 <= n; k += 4) {
      Eight rows[8];
      for (int i = 0; i < 4; ++i) {
        LoadScaled<kBytes>(from.re + (k + i) * 8, scale, rows[2 * i]);
        LoadScaled<kBytes>(from.im + (k + i) * 8, scale, rows[2 * i + 1]);
      }
      TransposeEight(rows);
      for (int l = 0; l < 8; ++l) std::memcpy(to.first[l] + 2 * k * sizeof(T), &rows[l], sizeof(Eight));
    }
  }
  if (AreAdjacent<T>(to, lanes)) {
    for (; k < n; ++k) {
      char* p = to.first[0] + k * to.step * static_cast<int64_t>(sizeof(T));
      for (int half = 0; half < 2; ++half, p += 2 * sizeof(FourOf<T>)) {
        FourDoubles re, im;
        std::memcpy(&re, from.re + k * 8 + half * 4, sizeof(re));
        std::memcpy(&im, from.im + k * 8 + half * 4, sizeof(im));
        const FourOf<T> even = __builtin_convertvector(re * scale, FourOf<T>);
        const FourOf<T> odd = __builtin_convertvector(im * scale, FourOf<T>);
        const FourOf<T> a = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
        const FourOf<T> b = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
        std::memcpy(p, &a, sizeof(a));
        std::memcpy(p + sizeof(a), &b, sizeof(b));
      }
    }
  }
  for (; k < n; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      T* p = reinterpret_cast<T*>(to.first[l]) + k * to.step;
      p[0] = static_cast<T>(from.re[k * lanes + l] * scale);
      if (to.im != 0) p[to.im] = static_cast<T>(from.im[k * lanes + l] * scale);
    }
  }
}

// A real signal of 2 m elements is transformed as m complex ones, z: of a spectrum x of m + 1 elements,
//   x[k] = (z[k] + conj z[m - k]) / 2 - i/2 w^k (z[k] - conj z[m - k]),   w = exp(-2 pi i / (2 m)), z[m] = z[0]
SMELT_INLINE void SpectrumOfHalves(Planes z, const double* roots, int64_t m, int64_t lanes, Planes x) {
  for (int64_t k = 0; k <= m; ++k) {
    const double c = roots[2 * k] / 2, s = roots[2 * k + 1] / 2;
    const int64_t a = (k == m ? 0 : k) * lanes, b = (k == 0 ? 0 : m - k) * lanes;
    for (int64_t l = 0; l < lanes; ++l) {
      const double sum_re = z.re[a + l] + z.re[b + l], sum_im = z.im[a + l] - z.im[b + l];
      const double dif_re = z.re[a + l] - z.re[b + l], dif_im = z.im[a + l] + z.im[b + l];
      x.re[k * lanes + l] = sum_re / 2 + (dif_im * c + dif_re * s);
      x.im[k * lanes + l] = sum_im / 2 - (dif_re * c - dif_im * s);
    }
  }
}

// And back: z[k] = (x[k] + conj x[m - k]) + i conj(w^k) (x[k] - conj x[m - k]), whose inverse transform is the signal.
SMELT_INLINE void HalvesOfSpectrum(Planes x, const double* roots, int64_t m, int64_t lanes, Planes z) {
  for (int64_t k = 0; k < m; ++k) {
    const double c = roots[2 * k], s = roots[2 * k + 1];
    const int64_t a = k * lanes, b = (m - k) * lanes;
    const bool ends = k == 0;  // whose imaginary parts do not count
    for (int64_t l = 0; l < lanes; ++l) {
      const double a_im = ends ? 0 : x.im[a + l], b_im = ends ? 0 : x.im[b + l];
      const double sum_re = x.re[a + l] + x.re[b + l], sum_im = a_im - b_im;
      const double dif_re = x.re[a + l] - x.re[b + l], dif_im = a_im + b_im;
      z.re[k * lanes + l] = sum_re - (dif_im * c - dif_re * s);
      z.im[k * lanes + l] = sum_im + (dif_re * c + dif_im * s);
    }
  }
}

// The transforms along a dim: of complex numbers, or of a real side's 2 m as m complex ones.
class Line {
 public:
  Line(int64_t n, bool has_real_side) : n_(n), halves_(has_real_side && n % 2 == 0), lines_(halves_ ? n / 2 : n) {
    for (int64_t k = 0; halves_ && k <= n / 2; ++k) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      roots_.push_back(std::cos(angle));
      roots_.push_back(std::sin(angle));
    }
  }
  int64_t size() const { return n_; }
  // The elements per line of a plane: those of the transform, and of a spectrum that is being completed.
  int64_t room() const { return std::max(lines_.room(), n_) + 1; }
  int64_t lanes() const { return lines_.room() <= kShort ? kFourierLanes : 1; }

  // Loads `have` elements of `lanes` lines, and stores `give`. The types are those of a part of a number, in and out.
  template <typename From, typename To>
  void Run(LinesAt from, int64_t have, LinesAt to, int64_t give, int64_t lanes, bool forward, double scale) const {
    const int64_t plane = room() * lanes;
    auto* memory =
        reinterpret_cast<double*>(Scratch::Get(ScratchUse::kA, 4 * plane * static_cast<int64_t>(sizeof(double))));
    Planes x = {memory, memory + plane}, spare = {memory + 2 * plane, memory + 3 * plane};
    const bool from_real = from.im == 0, to_real = to.im == 0;
    if (from_real && halves_) {
      from.im = from.step, from.step *= 2;
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { LoadLines<From, bytes>(from, n_ / 2, lanes, x); });
    } else {
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { LoadLines<From, bytes>(from, have, lanes, x); });
    }
    if (to_real && halves_) {
      AtBestLevel([&]() SMELT_ALWAYS_INLINE { HalvesOfSpectrum(x, roots_.data(), n_ / 2, lanes, spare); });
      std::swap(x, spare);
    } else if (to_real) {
      Complete(x, have, lanes);
    }
    Planes y = forward ? lines_.Run(x, spare, lanes) : lines_.Run(x.Exchanged(), spare.Exchanged(), lanes).Exchanged();
    if (from_real && halves_) {
      spare = y.re == x.re ? spare : x;
      AtBestLevel([&]() SMELT_ALWAYS_INLINE { SpectrumOfHalves(y, roots_.data(), n_ / 2, lanes, spare); });
      y = spare;
      for (int64_t l = 0; l < lanes; ++l) y.im[l] = y.im[n_ / 2 * lanes + l] = 0;  // as PyTorch says: of a real signal
      if (give > n_ / 2 + 1) Complete(y, n_ / 2 + 1, lanes);
    }
    if (to_real && halves_) {
      to.im = to.step, to.step *= 2;
      give = n_ / 2;
    }
    AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { StoreLines<To, bytes>(y, scale, give, lanes, to); });
  }

 private:
  // Completes half of a spectrum by the conjugates.
  void Complete(Planes x, int64_t have, int64_t lanes) const {
    for (int64_t k = have; k < n_; ++k) {
      for (int64_t l = 0; l < lanes; ++l) {
        x.re[k * lanes + l] = x.re[(n_ - k) * lanes + l];
        x.im[k * lanes + l] = -x.im[(n_ - k) * lanes + l];
      }
    }
  }

  int64_t n_;
  bool halves_;
  FourierLines lines_;
  std::vector<double> roots_;
};

bool IsDouble(DType t) { return t == DType::kFloat64 || t == DType::kComplex128; }

// Transforms one dim after the other. A real signal's last dim comes first, as half of its spectrum is enough for the
// others, and a real result's last dim comes last.
class FourierOp : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r) {
    SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, -1));
    const OperandShape &in = r.inputs[0], &out = r.outputs[0];
    const auto invalid = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": ", what));
    };
    if (r.ints.size() < 3 || r.floats.size() > 0) return invalid("normalization, direction and dims are expected");
    if (!IsSingleOrDouble(in.dtype) || !IsSingleOrDouble(out.dtype) ||
        (!IsComplex(in.dtype) && !IsComplex(out.dtype))) {
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
    // The sizes of the signal: a half spectrum belongs to a signal that the other side holds whole.
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
      const bool has_real_side = last && (op->to_real_ || !IsComplex(in.dtype));
      op->steps_.push_back({d, std::make_shared<Line>(n, has_real_side)});
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
      between.data = Scratch::Get(ScratchUse::kLibrary, elements * 16);
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
    int64_t lines = 1;
    for (int d = 0; d < rank; ++d) lines *= d == step.dim ? 1 : from.sizes[d];
    const int64_t lanes = step.line->lanes();
    context.For((lines + lanes - 1) / lanes, [&](int64_t c) {
      LinesAt in = At(from, step.dim), out = At(to, step.dim);
      const int64_t count = std::min(lanes, lines - c * lanes);
      for (int64_t l = 0; l < count; ++l) {
        in.first[l] = from.data;
        out.first[l] = to.data;
        int64_t rest = c * lanes + l;
        for (int d = rank - 1; d >= 0; --d) {
          if (d == step.dim) continue;
          in.first[l] += rest % from.sizes[d] * from.strides[d] * ItemSize(from.dtype);
          out.first[l] += rest % from.sizes[d] * to.strides[d] * ItemSize(to.dtype);
          rest /= from.sizes[d];
        }
      }
      const Line& line = *step.line;
      const auto run = IsDouble(from.dtype)
                           ? IsDouble(to.dtype) ? &Line::Run<double, double> : &Line::Run<double, float>
                       : IsDouble(to.dtype) ? &Line::Run<float, double>
                                            : &Line::Run<float, float>;
      (line.*run)(in, have, out, give, count, forward_, scale);
    });
  }

  static LinesAt At(const Side& side, int64_t dim) {
    LinesAt lines = {};
    const int parts = IsComplex(side.dtype) ? 2 : 1;
    lines.step = side.strides[dim] * parts;
    lines.im = parts - 1;
    return lines;
  }

  OperandShape in_, out_;
  std::vector<Step> steps_;
  double scale_ = 1;
  bool forward_ = true, to_real_ = false;
};

}  // namespace

MakeResult MakeFourier(const LibraryRequest& r, PackedWeights*) { return FourierOp::Make(r); }

}  // namespace smelt::library_internal
