#include "smelt/runtime/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>
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

TEST(ThreadPoolTest, WhatWorkThrowsComesToItsCallerAndThePoolWorksOn) {
  ThreadPool pool(4);
  for (int64_t bad : {0, 7, 99}) {
    EXPECT_THROW(pool.For(100, 4,
                          [&](int64_t i) {
                            if (i == bad) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    std::atomic<int64_t> sum = 0;
    pool.For(100, 4, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 4950);
  }
}

// Runs in a process that may not start more threads; for root the limit holds only for other users.
[[noreturn]] void RunWithoutThreads() {
  rlimit none = {};
  if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(2);
  ThreadPool pool(4);
  int64_t sum = 0;
  const std::thread::id caller = std::this_thread::get_id();
  pool.For(100, 4, [&](int64_t i) { sum += std::this_thread::get_id() == caller ? i : 0; });
  _exit(sum == 4950 ? 0 : 1);
}

TEST(ThreadPoolTest, WithoutThreadsTheCallerDoesTheWork) {
  EXPECT_EXIT(RunWithoutThreads(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace smelt
