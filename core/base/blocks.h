// Works on the blocks of large data, on all cores.
//
//   std::vector<uint32_t> sums(n);
//   ForEachBlock(n, [&](int64_t i) { sums[i] = Sum(Block(i)); });
#ifndef SMELT_CORE_BASE_BLOCKS_H_
#define SMELT_CORE_BASE_BLOCKS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace smelt {

// Adds a thread that runs `work`. Returns false if the system gives no thread, or no memory for one: the caller then
// works with the threads that it has. `work` must not throw.
template <typename F>
bool StartThread(std::vector<std::thread>& threads, F work) {
  try {
    threads.emplace_back(std::move(work));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Calls f(i) for each i of [0, n), on at most one thread per core, in any order; a single call on the caller's thread.
// `f` must not throw.
template <typename F>
void ForEachBlock(int64_t n, const F& f) {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i; (i = next++) < n;) f(i);
  };
  std::vector<std::thread> helpers;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (int64_t t = 1; t < std::min(cores, n) && StartThread(helpers, work); ++t) {
  }
  work();
  for (std::thread& t : helpers) t.join();
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_BLOCKS_H_
