// The runtime's threads. The caller divides work into chunks, which must not depend on the number of threads, so that
// results do not either.
//
//   ThreadPool pool(4);                             // the caller's thread is one of them
//   pool.For(chunks, 4, [&](int64_t chunk) { ... });
#ifndef SMELT_RUNTIME_THREAD_POOL_H_
#define SMELT_RUNTIME_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace smelt {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  // Returns the process's pool, with one thread per core; its threads start with the first parallel work.
  static ThreadPool& Shared();

  int threads() const { return threads_; }

  // Runs f(0) ... f(count - 1), each once, in any order, by at most `width` threads; returns when all are done. While
  // another caller uses the pool, all of it runs on the caller's thread. Allocates nothing except the threads at the
  // first work; it works without threads that the system refuses. If a call of f throws, calls that have not begun are
  // left out, and the exception reaches the caller when the others are done.
  template <typename F>
  void For(int64_t count, int width, F&& f) {
    if (count <= 1 || width <= 1 || threads_ <= 1) {
      for (int64_t i = 0; i < count; ++i) f(i);
      return;
    }
    using Function = std::remove_reference_t<F>;
    Run(
        count, width, [](void* context, int64_t i) { (*static_cast<Function*>(context))(i); },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

 private:
  using Body = void (*)(void*, int64_t);
  void Run(int64_t count, int width, Body body, void* context);
  void Start();
  void Worker(int index);
  void Drain();

  const int threads_;
  std::mutex caller_;  // held by the caller whose work runs
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  bool started_ = false, stop_ = false;

  // The current work. Written under mutex_ before the epoch is raised.
  uint64_t epoch_ = 0;
  std::atomic<uint64_t> epoch_hint_ = 0;  // read by spinning workers
  int width_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_ = 0;
  int active_ = 0;                     // workers that joined and have not finished; under mutex_
  std::atomic<int64_t> finished_ = 0;  // chunks
  std::exception_ptr thrown_;          // by one of them; under mutex_
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_THREAD_POOL_H_
