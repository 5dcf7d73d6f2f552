// Discrete Fourier transforms of several lines at once, in double.
//
//   FourierLines lines(n);
//   Planes out = lines.Run(x, spare, /*lanes=*/8);   // x and spare: lines.room() * 8 elements in each plane
//
// Element k of line l is at [k * lanes + l] of the planes, so that vectors hold the same element of many lines. An
// inverse transform is a forward one with its planes exchanged.
#ifndef SMELT_RUNTIME_LIBRARY_FOURIER_LINES_H_
#define SMELT_RUNTIME_LIBRARY_FOURIER_LINES_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace smelt {

constexpr int kFourierLanes = 8;  // of a vector: the fastest number of lines

// Real and imaginary parts.
struct Planes {
  double* re = nullptr;
  double* im = nullptr;
  Planes Exchanged() const { return {im, re}; }
};

class FourierLines {
 public:
  // Makes tables of about n roots of one; n is at least 1.
  explicit FourierLines(int64_t n);

  int64_t size() const { return n_; }
  // The number of elements of a line that Run needs: more than n if n has a large prime factor.
  int64_t room() const { return inner_ ? inner_->n_ : n_; }

  // Transforms forward, without dividing by n. `x` is overwritten; the result is in it or in `spare`.
  Planes Run(Planes x, Planes spare, int64_t lanes) const;

 private:
  struct Stage {
    int64_t radix, parts, step;  // n = radix * parts * step
    std::vector<double> roots;   // for each part: the powers 1 to radix - 1 of its root, as pairs
    std::vector<double> turns;   // cos and sin of the angles of the radix, as pairs
  };
  void PlanStages(int64_t n);
  void PlanChirp();
  Planes RunChirp(Planes x, Planes spare, int64_t lanes) const;

  int64_t n_;
  std::vector<Stage> stages_;
  // A convolution with a chirp, by transforms of a power of two (Bluestein), if n has a large prime factor.
  std::unique_ptr<FourierLines> inner_;
  std::vector<double> chirp_, filter_;  // pairs
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_FOURIER_LINES_H_
