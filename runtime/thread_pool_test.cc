#include "smelt/runtime/thread_pool.h"

#include <vector>

#include "gtest/gtest.h"

namespace smelt {
namespace {

TEST(ThreadPoolTest, EveryChunkRunsOnce) {
  ThreadPool pool(4);
  for (int width : {1, 2, 4, 9}) {
    for (int64_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      pool.For(count, width, [&](int64_t i) { runs[static_cast<size_t>(i)]++; });
      for (const auto& r : runs) EXPECT_EQ(r, 1);
    }
  }
}

TEST(ThreadPoolTest, ManySmallPiecesOfWorkInARow) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 3000; ++round) {
    pool.For(4, 3, [&](int64_t i) { sum += i; });
  }
  EXPECT_EQ(sum, 3000 * 6);
}

TEST(ThreadPoolTest, SeveralCallersAtOnceAreAllServed) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) pool.For(5, 3, [&](int64_t i) { sum += i; });
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 3 * 300 * 10);
}

}  // namespace
}  // namespace smelt
