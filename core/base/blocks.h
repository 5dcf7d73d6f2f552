// Work on the blocks of something large, on all cores.
//
//   std::vector<uint32_t> sums(n);
//   ForEachBlock(n, [&](int64_t i) { sums[i] = Sum(Block(i)); });
#ifndef SMELT_CORE_BASE_BLOCKS_H_
#define SMELT_CORE_BASE_BLOCKS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace smelt {

// Calls f(i) for each i of [0, n), on at most one thread a core, in any order; a single call on the caller's thread.
template <typename F>
void ForEachBlock(int64_t n, const F& f) {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i; (i = next++) < n;) f(i);
  };
  std::vector<std::thread> helpers;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (int64_t t = 1; t < std::min(cores, n); ++t) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_BLOCKS_H_
