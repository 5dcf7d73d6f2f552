#include "smelt/runtime/library/fourier_lines.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <utility>

#include "smelt/runtime/library/at_best_level.h"

namespace smelt {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLargestRadix = 64;

template <typename V>
SMELT_INLINE void Load(const double* p, V& v) {
  std::memcpy(&v, p, sizeof(V));
}
template <typename V>
SMELT_INLINE void Store(double* p, const V& v) {
  std::memcpy(p, &v, sizeof(V));
}

// exp(-2 pi i k / n)
Complex Root(int64_t k, int64_t n) {
  return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n));
}

// The places that a butterfly reads and writes: `radix` elements, `in_step` apart, to as many, `out_step` apart.
struct Place {
  Planes in, out;
  int64_t in_step, out_step;
  const double *roots, *turns;
};

template <typename V>
SMELT_INLINE void StoreTurned(const Place& p, int64_t at, int64_t k, const V& re, const V& im) {
  const double c = p.roots[2 * k - 2], s = p.roots[2 * k - 1];
  Store<V>(p.out.re + at + k * p.out_step, re * c - im * s);
  Store<V>(p.out.im + at + k * p.out_step, re * s + im * c);
}

template <typename V>
SMELT_INLINE void Radix2(const Place& p, int64_t at) {
  V a, b, c, d;
  Load(p.in.re + at, a), Load(p.in.im + at, b);
  Load(p.in.re + at + p.in_step, c), Load(p.in.im + at + p.in_step, d);
  Store<V>(p.out.re + at, a + c);
  Store<V>(p.out.im + at, b + d);
  StoreTurned<V>(p, at, 1, a - c, b - d);
}

template <typename V>
SMELT_INLINE void Radix4(const Place& p, int64_t at) {
  V re[4], im[4];
  for (int j = 0; j < 4; ++j) {
    Load(p.in.re + at + j * p.in_step, re[j]);
    Load(p.in.im + at + j * p.in_step, im[j]);
  }
  const V even_re = re[0] + re[2], even_im = im[0] + im[2], odd_re = re[1] + re[3], odd_im = im[1] + im[3];
  const V a_re = re[0] - re[2], a_im = im[0] - im[2], b_re = re[1] - re[3], b_im = im[1] - im[3];
  Store<V>(p.out.re + at, even_re + odd_re);
  Store<V>(p.out.im + at, even_im + odd_im);
  StoreTurned<V>(p, at, 1, a_re + b_im, a_im - b_re);
  StoreTurned<V>(p, at, 2, even_re - odd_re, even_im - odd_im);
  StoreTurned<V>(p, at, 3, a_re - b_im, a_im + b_re);
}

// Elements j and radix - j have conjugate roots: their sums are multiplied by the cosines, their differences by the
// sines. kRadix 0 is any odd radix.
template <typename V, int kRadix>
SMELT_INLINE void OddRadix(const Place& p, int64_t at, int64_t any) {
  constexpr int kHalf = kRadix == 0 ? kLargestRadix / 2 : kRadix / 2;
  const int64_t radix = kRadix == 0 ? any : kRadix, half = radix / 2;
  V first_re, first_im, sum_re[kHalf], sum_im[kHalf], dif_re[kHalf], dif_im[kHalf];
  Load(p.in.re + at, first_re), Load(p.in.im + at, first_im);
  V all_re = first_re, all_im = first_im;
  for (int64_t j = 1; j <= half; ++j) {
    V a, b, c, d;
    Load(p.in.re + at + j * p.in_step, a), Load(p.in.im + at + j * p.in_step, b);
    Load(p.in.re + at + (radix - j) * p.in_step, c), Load(p.in.im + at + (radix - j) * p.in_step, d);
    sum_re[j - 1] = a + c, sum_im[j - 1] = b + d;
    dif_re[j - 1] = a - c, dif_im[j - 1] = b - d;
    all_re += sum_re[j - 1], all_im += sum_im[j - 1];
  }
  Store<V>(p.out.re + at, all_re);
  Store<V>(p.out.im + at, all_im);
  for (int64_t k = 1; k <= half; ++k) {
    V re = first_re, im = first_im, turned_re = {}, turned_im = {};
    int64_t turn = 0;
    for (int64_t j = 1; j <= half; ++j) {
      turn += k;
      turn -= turn >= radix ? radix : 0;
      const double c = p.turns[2 * turn], s = p.turns[2 * turn + 1];
      re += sum_re[j - 1] * c, im += sum_im[j - 1] * c;
      turned_re -= dif_im[j - 1] * s, turned_im += dif_re[j - 1] * s;
    }
    StoreTurned<V>(p, at, k, re + turned_re, im + turned_im);
    StoreTurned<V>(p, at, radix - k, re - turned_re, im - turned_im);
  }
}

template <typename V>
SMELT_INLINE void Butterfly(int64_t radix, const Place& p, int64_t at) {
  if (radix == 4) return Radix4<V>(p, at);
  if (radix == 2) return Radix2<V>(p, at);
  if (radix == 3) return OddRadix<V, 3>(p, at, 3);
  if (radix == 5) return OddRadix<V, 5>(p, at, 5);
  OddRadix<V, 0>(p, at, radix);
}

// Stockham's algorithm: each stage also sorts. `run` adjacent elements have the same roots.
template <int kBytes>
SMELT_INLINE void RunStage(int64_t radix, int64_t parts, int64_t run, const double* roots, const double* turns,
                           Planes x, Planes y) {
  using Vec = typename Vector<double, kBytes>::Type;
  constexpr int kLanes = Vector<double, kBytes>::kLanes;
  Place p;
  p.in_step = parts * run;
  p.out_step = run;
  p.turns = turns;
  for (int64_t part = 0; part < parts; ++part) {
    p.roots = roots + part * 2 * (radix - 1);
    p.in = {x.re + part * run, x.im + part * run};
    p.out = {y.re + part * radix * run, y.im + part * radix * run};
    int64_t at = 0;
    if (radix == 4) {
      for (; at + kLanes <= run; at += kLanes) Radix4<Vec>(p, at);
    } else {
      for (; at + kLanes <= run; at += kLanes) Butterfly<Vec>(radix, p, at);
    }
    for (; at < run; ++at) Butterfly<double>(radix, p, at);
  }
}

// x *= pair k of `factors` for its element k.
SMELT_INLINE void Turn(Planes x, const double* factors, int64_t n, int64_t lanes) {
  for (int64_t k = 0; k < n; ++k) {
    const double c = factors[2 * k], s = factors[2 * k + 1];
    for (int64_t at = k * lanes; at < (k + 1) * lanes; ++at) {
      const double re = x.re[at], im = x.im[at];
      x.re[at] = re * c - im * s;
      x.im[at] = re * s + im * c;
    }
  }
}

}  // namespace

FourierLines::FourierLines(int64_t n) : n_(n) {
  int64_t largest = 1, rest = n;
  for (int64_t p = 2; p * p <= rest; ++p) {
    while (rest % p == 0) largest = p, rest /= p;
  }
  if (std::max(largest, rest) <= kLargestRadix) {
    PlanStages(n);
  } else {
    PlanChirp();
  }
}

void FourierLines::PlanStages(int64_t n) {
  for (int64_t step = 1; n > 1;) {
    int64_t radix = n % 4 == 0 ? 4 : 2;
    while (n % radix != 0) ++radix;
    Stage stage{radix, n / radix, step, {}, {}};
    for (int64_t part = 0; part < stage.parts; ++part) {
      for (int64_t k = 1; k < radix; ++k) {
        const Complex root = Root(part * k, n);
        stage.roots.push_back(root.real());
        stage.roots.push_back(root.imag());
      }
    }
    for (int64_t k = 0; k < radix; ++k) {
      stage.turns.push_back(Root(k, radix).real());
      stage.turns.push_back(Root(k, radix).imag());
    }
    stages_.push_back(std::move(stage));
    step *= radix;
    n /= radix;
  }
}

void FourierLines::PlanChirp() {
  int64_t padded = 1;
  while (padded < 2 * n_ - 1) padded *= 2;
  inner_ = std::make_unique<FourierLines>(padded);
  // exp(-i pi k^2 / n); k^2 modulo 2 n, so that the angle stays exact.
  std::vector<double> planes(4 * padded);
  Planes filter = {planes.data(), planes.data() + padded};
  const Planes spare = {filter.im + padded, filter.im + 2 * padded};
  int64_t square = 0;
  for (int64_t k = 0; k < n_; ++k) {
    const Complex chirp = Root(square, 2 * n_);
    chirp_.push_back(chirp.real());
    chirp_.push_back(chirp.imag());
    filter.re[k] = filter.re[(padded - k) % padded] = chirp.real();
    filter.im[k] = filter.im[(padded - k) % padded] = -chirp.imag();
    square = (square + 2 * k + 1) % (2 * n_);
  }
  filter = inner_->Run(filter, spare, 1);
  const double scale = 1 / static_cast<double>(padded);  // of the way back: a power of two
  for (int64_t k = 0; k < padded; ++k) {
    filter_.push_back(filter.re[k] * scale);
    filter_.push_back(filter.im[k] * scale);
  }
}

Planes FourierLines::RunChirp(Planes x, Planes spare, int64_t lanes) const {
  const int64_t padded = inner_->n_;
  AtBestLevel([&]() SMELT_ALWAYS_INLINE { Turn(x, chirp_.data(), n_, lanes); });
  std::fill(x.re + n_ * lanes, x.re + padded * lanes, 0.0);
  std::fill(x.im + n_ * lanes, x.im + padded * lanes, 0.0);
  const Planes there = inner_->Run(x, spare, lanes);
  AtBestLevel([&]() SMELT_ALWAYS_INLINE { Turn(there, filter_.data(), padded, lanes); });
  const Planes back = inner_->Run(there.Exchanged(), (there.re == x.re ? spare : x).Exchanged(), lanes).Exchanged();
  AtBestLevel([&]() SMELT_ALWAYS_INLINE { Turn(back, chirp_.data(), n_, lanes); });
  return back;
}

Planes FourierLines::Run(Planes x, Planes spare, int64_t lanes) const {
  if (inner_) return RunChirp(x, spare, lanes);
  for (const Stage& s : stages_) {
    AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
      RunStage<bytes>(s.radix, s.parts, s.step * lanes, s.roots.data(), s.turns.data(), x, spare);
    });
    std::swap(x, spare);
  }
  return x;
}

}  // namespace smelt
