#include "smelt/runtime/thread_pool.h"

#include <algorithm>
#include <utility>

namespace smelt {
namespace {

// About 10 microseconds: longer than the gap between two launches, shorter than anyone's patience.
constexpr int kSpins = 400;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` does nothing on most processors. This drains the pipeline, which takes about as long as x86-64's pause.
  asm volatile("isb" : : : "memory");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    epoch_hint_.store(~uint64_t{0}, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

ThreadPool& ThreadPool::Shared() {
  // Never destroyed: a static Instance elsewhere may run until the very end.
  static ThreadPool* const kPool = new ThreadPool(static_cast<int>(std::thread::hardware_concurrency()));
  return *kPool;
}

void ThreadPool::Start() {
  started_ = true;
  // If the system gives no more threads, or no memory for them, the present threads do the work.
  try {
    for (int i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { Worker(i); });
  } catch (const std::exception&) {
  }
}

// The counter hands out numbers and orders nothing else, so it is relaxed. What a worker reads here was written before
// the work began, by a thread that held mutex_ and before this worker held it. What the work writes, the caller reads
// after it has held mutex_ and seen active_ at 0, which each worker lowers under mutex_ when it is done. epoch_hint_ and
// finished_ only end the spinning early or late: nothing is read on their word.
void ThreadPool::Drain() {
  int64_t done = 0;
  try {
    while (true) {
      const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count_) break;
      body_(context_, i);
      ++done;
    }
  } catch (...) {
    next_.store(count_, std::memory_order_relaxed);  // nothing begins another
    std::lock_guard<std::mutex> lock(mutex_);
    thrown_ = std::current_exception();
  }
  if (done > 0) finished_.fetch_add(done, std::memory_order_acq_rel);
}

void ThreadPool::Worker(int index) {
  uint64_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && epoch_hint_.load(std::memory_order_acquire) == seen; ++i) Pause();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || epoch_ != seen; });
      if (stop_) return;
      seen = epoch_;
      // The work may be over already, or want fewer threads.
      if (body_ == nullptr || index >= width_) continue;
      ++active_;
    }
    Drain();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      --active_;
    }
    done_.notify_one();
  }
}

void ThreadPool::Run(int64_t count, int width, Body body, void* context) {
  std::unique_lock<std::mutex> caller(caller_, std::try_to_lock);
  if (!caller.owns_lock()) {
    for (int64_t i = 0; i < count; ++i) body(context, i);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!started_) Start();
    body_ = body;
    context_ = context;
    count_ = count;
    width_ = width;
    next_.store(0, std::memory_order_relaxed);
    finished_.store(0, std::memory_order_relaxed);
    ++epoch_;
    epoch_hint_.store(epoch_, std::memory_order_release);
  }
  wake_.notify_all();
  Drain();
  // Workers may still run chunks that they took. A worker that joined late must have left before the data of the work
  // are destroyed.
  for (int i = 0; i < kSpins && finished_.load(std::memory_order_acquire) < count; ++i) Pause();
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [&] { return active_ == 0; });
  body_ = nullptr;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace smelt
