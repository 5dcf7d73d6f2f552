// The limits of one thread of this machine: bytes moved and operations computed per second.
#ifndef SMELT_BENCH_ROOFLINE_H_
#define SMELT_BENCH_ROOFLINE_H_

#include <cstdint>
#include <functional>
#include <utility>

namespace smelt::bench {

// Returns the seconds per call of f: the minimum over batches of at least 0.2 ms, with `budget` seconds in all.
double MinSeconds(const std::function<void()>& f, double budget);
// The same of each of two functions that are called in turns, so that both find the machine in the same state.
std::pair<double, double> MinSecondsInTurns(const std::function<void()>& f, const std::function<void()>& g,
                                            double budget);

// Measures the calling thread's processor time from here on, which does not count while others have the core.
void UseCpuTime();

class Roofline {
 public:
  // Returns the seconds for reading and writing at least this many bytes, with ordinary or non-temporal stores,
  // whichever is faster; measured once for each size.
  double MoveSeconds(double read_bytes, double written_bytes);
  double FlopsPerSecond();  // float32 multiply-adds, counted as two
};

}  // namespace smelt::bench

#endif  // SMELT_BENCH_ROOFLINE_H_
