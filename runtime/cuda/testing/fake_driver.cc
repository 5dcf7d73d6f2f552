#include "smelt/runtime/cuda/testing/fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/cuda/functions/functions.h"

namespace smelt::fake_cuda {
namespace {

using cuda::Address;
using cuda::ConditionalHandle;
using cuda::Context;
using cuda::DeviceNumber;
using cuda::EdgeData;
using cuda::Event;
using cuda::Function;
using cuda::Graph;
using cuda::GraphExec;
using cuda::GraphNode;
using cuda::GraphNodeParameters;
using cuda::KernelNodeParameters;
using cuda::kMajor;
using cuda::kMemoryPools;
using cuda::kMinor;
using cuda::kMultiprocessors;
using cuda::kNotReady;
using cuda::kOutOfMemory;
using cuda::kSuccess;
using cuda::Module;
using cuda::Pool;
using cuda::PoolProperties;
using cuda::Result;
using cuda::Stream;

constexpr Result kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500;
constexpr size_t kMemory = size_t{1} << 33, kAlignment = 256;
// The first and the last bytes are not allocated: kernels take addresses that lie before or behind what they access.
constexpr size_t kMargin = size_t{1} << 30;
constexpr int kPattern = 0xa5;

// The device's memory, mapped twice: at `client` without any access, and at `device` for the streams.
class Memory {
 public:
  Memory() {
    const int file = memfd_create("fake_cuda", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(kMemory)) != 0) std::abort();
    client_ = static_cast<char*>(mmap(nullptr, kMemory, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0));
    device_ = static_cast<char*>(mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0));
    if (client_ == MAP_FAILED || device_ == MAP_FAILED) std::abort();
    close(file);
    free_[kMargin] = kMemory - 2 * kMargin;
  }
  // Returns 0 if there is no such memory.
  Address Allocate(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ + static_cast<int64_t>(size) > limit_) return 0;
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      const size_t at = it->first, left = it->second - size;
      free_.erase(it);
      if (left > 0) free_[at + size] = left;
      live_[at] = size;
      used_ += static_cast<int64_t>(size);
      return reinterpret_cast<uintptr_t>(client_ + at);
    }
    return 0;
  }
  // Returns the size of an allocation; 0 if there is none.
  size_t SizeOf(Address a) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = live_.find(Offset(a));
    return it == live_.end() ? 0 : it->second;
  }
  void Free(Address a) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = live_.find(Offset(a));
    if (it == live_.end()) std::abort();
    used_ -= static_cast<int64_t>(it->second);
    auto here = free_.emplace(it->first, it->second).first;
    live_.erase(it);
    const auto next = std::next(here);
    if (next != free_.end() && here->first + here->second == next->first) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here == free_.begin()) return;
    const auto previous = std::prev(here);
    if (previous->first + previous->second != here->first) return;
    previous->second += here->second;
    free_.erase(here);
  }
  // Returns whether all bytes lie in one allocation.
  bool Holds(Address a, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!IsHere(a)) return false;
    auto it = live_.upper_bound(Offset(a));
    if (it == live_.begin()) return false;
    --it;
    return Offset(a) + bytes <= it->first + it->second;
  }
  bool IsHere(Address a) const { return a - reinterpret_cast<uintptr_t>(client_) < kMemory; }
  // Returns the place at which the streams reach an address of the device.
  char* At(Address a) const { return device_ + Offset(a); }
  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t used() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_;
  }

 private:
  size_t Offset(Address a) const { return static_cast<size_t>(a - reinterpret_cast<uintptr_t>(client_)); }

  std::mutex mutex_;
  char *client_ = nullptr, *device_ = nullptr;
  std::map<size_t, size_t> free_, live_;  // sizes by offset
  int64_t used_ = 0;
  std::atomic<int64_t> limit_ = INT64_MAX;
};

std::atomic<uint64_t> seed = 1;

// A queue of work, and the thread that does it.
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) { thread_.detach(); }
  void Add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    wake_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }

 private:
  void Run() {
    std::mt19937_64 random;
    uint64_t used = 0;
    while (true) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      if (used != seed) random.seed(used = seed);
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      work();
      work = nullptr;
      const std::lock_guard<std::mutex> lock(mutex_);
      busy_ = false;
      wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  std::thread thread_;
};

// The last point of a stream at which it was recorded.
class Point {
 public:
  void Reach() {
    const std::lock_guard<std::mutex> lock(mutex_);
    reached_ = true;
    wake_.notify_all();
  }
  bool IsReached() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reached_;
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool reached_ = false;
};
struct RecordedEvent {
  std::shared_ptr<Point> point;  // null: not recorded
};

// A kernel with its parameters.
using Work = std::function<void()>;
// Kernels and conditional nodes, each with those that must have run before it.
struct KernelGraph {
  // A node as the client knows it: `index` is its number in the graph, and `place` says in which node of the graph around
  // it lies that graph, from the outermost on.
  struct Handle {
    std::vector<size_t> place;
    size_t index;
  };
  struct Node {
    Work work;  // empty: the node is conditional, or a graph of its own
    std::vector<size_t> before;
    ConditionalHandle condition = 0;  // 0: the body runs once
    bool repeats = false;
    std::shared_ptr<KernelGraph> body = nullptr;
  };
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<Handle>> handles;
  std::vector<size_t> place;
  Graph body = nullptr;  // of the last conditional node
};

// Copies a graph with all that is in it.
std::vector<KernelGraph::Node> CopyNodes(const KernelGraph& graph) {
  std::vector<KernelGraph::Node> nodes = graph.nodes;
  for (KernelGraph::Node& node : nodes) {
    if (node.body == nullptr) continue;
    auto body = std::make_shared<KernelGraph>();
    body->nodes = CopyNodes(*node.body);
    node.body = std::move(body);
  }
  return nodes;
}

// The values of conditional nodes' handles, which streams set and read.
std::mutex conditions_mutex;
std::map<ConditionalHandle, unsigned> conditions;

// Returns whether the handle's value is not 0. It has none until a kernel of this launch sets it, each time.
bool TakeCondition(ConditionalHandle handle) {
  const std::lock_guard<std::mutex> lock(conditions_mutex);
  const auto it = conditions.find(handle);
  if (it == conditions.end()) std::abort();
  const bool chosen = it->second != 0;
  conditions.erase(it);
  return chosen;
}

// Runs the nodes in an order that the dependencies allow, chosen by the seed.
void RunGraph(const std::vector<KernelGraph::Node>& nodes, std::mt19937_64& random) {
  std::vector<size_t> missing(nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].before.size();
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const size_t next = ready.back();
    ready.pop_back();
    if (nodes[next].body == nullptr) {
      nodes[next].work();
    } else {
      const KernelGraph::Node& node = nodes[next];
      if (node.condition == 0) RunGraph(node.body->nodes, random);
      while (node.condition != 0 && TakeCondition(node.condition)) {
        RunGraph(node.body->nodes, random);
        if (!node.repeats) break;
      }
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t b : nodes[i].before) {
        if (b == next && --missing[i] == 0) ready.push_back(i);
      }
    }
  }
}

std::atomic<int64_t> moved = 0;

void RunMove(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  moved += words[2];
  cuda::functions::Move(reinterpret_cast<const cuda::functions::Int*>(words), 0, 1);
}
void RunPutBack(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  const auto* const w = reinterpret_cast<const cuda::functions::Int*>(words);
  if (cuda::functions::IsReported(w + 3)) moved += words[2];
  cuda::functions::PutBack(w, 0, 1);
}
void RunPutBackItems(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  const auto* const w = reinterpret_cast<const cuda::functions::Int*>(words);
  if (cuda::functions::IsReported(w)) moved += words[3 + 2] * words[3 + 3];
  cuda::functions::PutBackItems(w, 0, 1);
}
// Runs a function of the runtime as the only thread of its grid.
template <void (*function)(const cuda::functions::Int*, cuda::functions::Int, cuda::functions::Int)>
void RunFunction(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  function(reinterpret_cast<const cuda::functions::Int*>(words), 0, 1);
}
void RunIndexCheck(void*, int, const int64_t* words, int64_t, int64_t, int64_t* status, void*) {
  cuda::functions::CheckIndices(reinterpret_cast<const cuda::functions::Int*>(words), 0, 1,
                                reinterpret_cast<cuda::functions::Int*>(status));
}

void RunChoose(void*, int, const int64_t* words, int64_t, int64_t, int64_t*, void*) {
  cuda::functions::Choose(reinterpret_cast<const cuda::functions::Int*>(words),
                          [](cuda::functions::Int handle, unsigned value) {
                            const std::lock_guard<std::mutex> lock(conditions_mutex);
                            conditions[static_cast<ConditionalHandle>(handle)] = value;
                          });
}

// All that the driver has. It lives as long as the process.
struct State {
  State() {
    kernels["smelt_move"] = {cuda::functions::kMoveWords, true, 256, RunMove, nullptr};
    kernels["smelt_zero"] = {cuda::functions::kZeroWords, true, 256, RunFunction<cuda::functions::Zero>, nullptr};
    kernels["smelt_copy"] = {cuda::functions::kCopyWords, true, 256, RunFunction<cuda::functions::Copy>, nullptr};
    kernels["smelt_put_back"] = {cuda::functions::kPutBackWords, true, 256, RunPutBack, nullptr};
    kernels["smelt_put_back_items"] = {cuda::functions::kPutBackItemsWords, true, 256, RunPutBackItems, nullptr};
    kernels["smelt_choose"] = {cuda::functions::kChooseWords, true, 256, RunChoose, nullptr};
    kernels["smelt_check_indices"] = {cuda::functions::kCheckIndexWords, true, 256, RunIndexCheck, nullptr};
  }

  std::mutex mutex;
  Memory memory;
  std::map<std::string, KernelInfo> kernels;
  std::set<Worker*> streams;
  std::map<char*, size_t> pinned;
  std::set<Module> modules;
  std::set<KernelGraph*> graphs, execs;
  std::map<Worker*, std::unique_ptr<KernelGraph>> captures;  // of streams that capture
  ConditionalHandle next_handle = 1;
  int64_t calls = 0, fail_at = -1, launches = 0, graph_launches = 0, graph_updates = 0, waits = 0;
  Result fail_with = kSuccess, lost = kSuccess;

  bool IsPinned(const void* p, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex);
    const char* at = static_cast<const char*>(p);
    for (const auto& [begin, size] : pinned) {
      if (at >= begin && at + bytes <= begin + size) return true;
    }
    return false;
  }
};

State& Get() {
  static auto* const state = new State();
  return *state;
}

thread_local std::vector<Context> contexts;

// Counts a call. Returns what it must fail with.
Result Begin(bool needs_context = true) {
  State& s = Get();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const int64_t call = s.calls++;
  if (s.lost != kSuccess) return s.lost;
  if (call == s.fail_at) {
    if (cuda::Driver::LosesTheDevice(s.fail_with)) s.lost = s.fail_with;
    return s.fail_with;
  }
  return needs_context && contexts.empty() ? kInvalidContext : kSuccess;
}

#define BEGIN(...)                           \
  do {                                       \
    const Result begun = Begin(__VA_ARGS__); \
    if (begun != kSuccess) return begun;     \
  } while (false)

Worker* WorkerOf(Stream stream) {
  auto* worker = reinterpret_cast<Worker*>(stream);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return Get().streams.count(worker) != 0 ? worker : nullptr;
}

void CountWait() {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  ++Get().waits;
}

Result Init(unsigned) {
  BEGIN(false);
  return kSuccess;
}
Result DriverGetVersion(int* version) {
  const char* const other = std::getenv("SMELT_FAKE_CUDA_VERSION");
  *version = other == nullptr ? 13000 : std::atoi(other);
  return kSuccess;
}
Result DeviceGetCount(int* count) {
  BEGIN(false);
  *count = 1;
  return kSuccess;
}
Result DeviceGet(DeviceNumber* device, int ordinal) {
  BEGIN(false);
  *device = ordinal;
  return kSuccess;
}
Result DeviceGetAttribute(int* value, int attribute, DeviceNumber) {
  BEGIN(false);
  switch (attribute) {
    case kMultiprocessors:
      *value = 2;
      return kSuccess;
    case kMajor:
      *value = 9;
      return kSuccess;
    case kMinor:
      *value = 0;
      return kSuccess;
    case kMemoryPools:
      *value = 1;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
Result DevicePrimaryCtxRetain(Context* context, DeviceNumber) {
  BEGIN(false);
  static char primary;
  *context = reinterpret_cast<Context>(&primary);
  return kSuccess;
}
Result CtxPushCurrent(Context context) {
  BEGIN(false);
  contexts.push_back(context);
  return kSuccess;
}
Result CtxPopCurrent(Context* context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
Result StreamCreate(Stream* stream, unsigned) {
  BEGIN();
  auto* worker = new Worker();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().streams.insert(worker);
  *stream = reinterpret_cast<Stream>(worker);
  return kSuccess;
}
Result StreamSynchronize(Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr) return kInvalidHandle;
  CountWait();
  worker->Wait();
  return kSuccess;
}
Result StreamWaitEvent(Stream stream, Event event, unsigned) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr) return kInvalidHandle;
  const std::shared_ptr<Point> point = reinterpret_cast<RecordedEvent*>(event)->point;
  if (point != nullptr) worker->Add([point] { point->Wait(); });
  return kSuccess;
}
Result EventCreate(Event* event, unsigned) {
  BEGIN();
  *event = reinterpret_cast<Event>(new RecordedEvent());
  return kSuccess;
}
Result EventRecord(Event event, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr) return kInvalidHandle;
  auto point = std::make_shared<Point>();
  reinterpret_cast<RecordedEvent*>(event)->point = point;
  worker->Add([point] { point->Reach(); });
  return kSuccess;
}
Result EventQuery(Event event) {
  BEGIN();
  const std::shared_ptr<Point>& point = reinterpret_cast<RecordedEvent*>(event)->point;
  return point == nullptr || point->IsReached() ? kSuccess : kNotReady;
}
Result EventSynchronize(Event event) {
  BEGIN();
  CountWait();
  const std::shared_ptr<Point> point = reinterpret_cast<RecordedEvent*>(event)->point;
  if (point != nullptr) point->Wait();
  return kSuccess;
}
Result MemPoolCreate(Pool* pool, const PoolProperties* properties) {
  BEGIN();
  if (properties->allocation_type != cuda::kPinned || properties->location_type != cuda::kOnDevice)
    return kInvalidValue;
  static char only;
  *pool = reinterpret_cast<Pool>(&only);
  return kSuccess;
}
Result MemPoolSetAttribute(Pool, int, void*) {
  BEGIN();
  return kSuccess;
}
Result MemAllocFromPoolAsync(Address* address, size_t bytes, Pool, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr || bytes == 0) return kInvalidValue;
  Memory& memory = Get().memory;
  Address made = memory.Allocate(bytes);
  if (made == 0) {
    // Memory that earlier work frees can be used.
    worker->Wait();
    made = memory.Allocate(bytes);
  }
  if (made == 0) return kOutOfMemory;
  worker->Add([&memory, made, bytes] { std::memset(memory.At(made), kPattern, bytes); });
  *address = made;
  return kSuccess;
}
Result MemFreeAsync(Address address, Stream stream) {
  // A driver that reports an error of earlier work here has freed the memory all the same.
  const Result begun = Begin();
  Worker* worker = WorkerOf(stream);
  Memory& memory = Get().memory;
  const size_t bytes = memory.SizeOf(address);
  if (worker == nullptr || bytes == 0) return kInvalidValue;
  worker->Add([&memory, address, bytes] {
    std::memset(memory.At(address), kPattern, bytes);
    memory.Free(address);
  });
  return begun;
}
Result MemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN();
  *memory = std::malloc(bytes);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().pinned[static_cast<char*>(*memory)] = bytes;
  return kSuccess;
}
Result MemcpyHtoDAsync(Address to, const void* from, size_t bytes, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  Memory& memory = Get().memory;
  if (worker == nullptr || !memory.Holds(to, bytes)) return kInvalidValue;
  if (Get().IsPinned(from, bytes)) {
    worker->Add([&memory, to, from, bytes] { std::memcpy(memory.At(to), from, bytes); });
  } else {
    const char* begin = static_cast<const char*>(from);
    auto copy = std::make_shared<std::vector<char>>(begin, begin + bytes);
    worker->Add([&memory, to, copy, bytes] { std::memcpy(memory.At(to), copy->data(), bytes); });
  }
  return kSuccess;
}
Result MemcpyDtoHAsync(void* to, Address from, size_t bytes, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  Memory& memory = Get().memory;
  if (worker == nullptr || !memory.Holds(from, bytes)) return kInvalidValue;
  worker->Add([&memory, to, from, bytes] { std::memcpy(to, memory.At(from), bytes); });
  if (!Get().IsPinned(to, bytes)) worker->Wait();
  return kSuccess;
}
Result MemcpyDtoDAsync(Address to, Address from, size_t bytes, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  Memory& memory = Get().memory;
  const bool apart = to + bytes <= from || from + bytes <= to;
  if (worker == nullptr || !memory.Holds(from, bytes) || !memory.Holds(to, bytes) || !apart) return kInvalidValue;
  worker->Add([&memory, to, from, bytes] { std::memcpy(memory.At(to), memory.At(from), bytes); });
  return kSuccess;
}
Result MemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  Memory& memory = Get().memory;
  if (worker == nullptr || !memory.Holds(to, bytes)) return kInvalidValue;
  worker->Add([&memory, to, value, bytes] { std::memset(memory.At(to), value, bytes); });
  return kSuccess;
}
Result ModuleLoadData(Module* module, const void* image) {
  BEGIN();
  if (image == nullptr) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(Get().mutex);
  *module = reinterpret_cast<Module>(new char());
  Get().modules.insert(*module);
  return kSuccess;
}
Result ModuleUnload(Module module) {
  const Result begun = Begin();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (Get().modules.erase(module) == 0) return kInvalidHandle;
  delete reinterpret_cast<char*>(module);
  return begun;
}
Result ModuleGetFunction(Function* function, Module module, const char* name) {
  BEGIN();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (Get().modules.count(module) == 0) return kInvalidHandle;
  const auto it = Get().kernels.find(name);
  if (it == Get().kernels.end()) return kNotFound;
  *function = reinterpret_cast<Function>(&it->second);
  return kSuccess;
}
Result FuncSetAttribute(Function, int, int) {
  BEGIN();
  return kSuccess;
}
Result OccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t) {
  BEGIN();
  *blocks = 2;
  return kSuccess;
}
// Returns the work of a kernel; its parameters are copied. Empty if they cannot be those of one.
Work WorkOf(const KernelNodeParameters& p) {
  const KernelInfo& kernel = *reinterpret_cast<const KernelInfo*>(p.function);
  if (p.grid_x == 0 || p.grid_y != 1 || p.grid_z != 1 || p.block_x != static_cast<unsigned>(kernel.threads) ||
      p.block_y != 1 || p.block_z != 1 || p.extra != nullptr)
    return nullptr;
  Memory& memory = Get().memory;
  std::vector<int64_t> words(static_cast<size_t>(kernel.num_words));
  Address words_at = 0;
  if (kernel.words_by_value) {
    std::memcpy(words.data(), p.parameters[0], words.size() * sizeof(int64_t));
  } else {
    std::memcpy(&words_at, p.parameters[0], sizeof words_at);
    if (!words.empty() && !memory.Holds(words_at, words.size() * sizeof(int64_t))) return nullptr;
  }
  int64_t begin, end;
  Address status, workspace;
  std::memcpy(&begin, p.parameters[1], sizeof begin);
  std::memcpy(&end, p.parameters[2], sizeof end);
  std::memcpy(&status, p.parameters[3], sizeof status);
  std::memcpy(&workspace, p.parameters[4], sizeof workspace);
  // The runtime's functions that report nothing have no status.
  if (status != 0 && !memory.Holds(status, sizeof(int64_t))) return nullptr;
  const auto grid = static_cast<int>(p.grid_x);
  return [&memory, kernel, grid, words, words_at, begin, end, status, workspace] {
    std::vector<int64_t> values = words;
    if (!kernel.words_by_value && !values.empty())
      std::memcpy(values.data(), memory.At(words_at), values.size() * sizeof(int64_t));
    // The streams reach the device's memory elsewhere than the client sees it.
    for (int64_t& word : values) {
      if (memory.IsHere(static_cast<Address>(word))) {
        word = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory.At(static_cast<Address>(word))));
      }
    }
    kernel.run(kernel.user, grid, values.data(), begin, end,
               status == 0 ? nullptr : reinterpret_cast<int64_t*>(memory.At(status)),
               workspace == 0 ? nullptr : memory.At(workspace));
  };
}

Result LaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned, Stream stream, void** parameters, void** extra) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr) return kInvalidHandle;
  Work work = WorkOf({function, grid_x, grid_y, grid_z, block_x, block_y, block_z, 0, parameters, extra});
  if (work == nullptr) return kInvalidValue;
  {
    const std::lock_guard<std::mutex> lock(Get().mutex);
    if (const auto capture = Get().captures.find(worker); capture != Get().captures.end()) {
      KernelGraph::Node node;
      node.work = std::move(work);
      std::vector<KernelGraph::Node>& nodes = capture->second->nodes;
      if (!nodes.empty()) node.before.push_back(nodes.size() - 1);
      nodes.push_back(std::move(node));
      return kSuccess;
    }
    ++Get().launches;
  }
  worker->Add(std::move(work));
  return kSuccess;
}
Result StreamBeginCapture(Stream stream, int) {
  BEGIN();
  Worker* worker = WorkerOf(stream);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (worker == nullptr || !Get().captures.emplace(worker, std::make_unique<KernelGraph>()).second)
    return kInvalidValue;
  return kSuccess;
}
// The capture ends, whatever is returned.
Result StreamEndCapture(Stream stream, Graph* graph) {
  const Result begun = Begin();
  Worker* worker = WorkerOf(stream);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  const auto capture = Get().captures.find(worker);
  if (capture == Get().captures.end()) return kInvalidValue;
  std::unique_ptr<KernelGraph> made = std::move(capture->second);
  Get().captures.erase(capture);
  *graph = nullptr;
  if (begun != kSuccess) return begun;
  Get().graphs.insert(made.get());
  *graph = reinterpret_cast<Graph>(made.release());
  return kSuccess;
}

bool IsLive(const std::set<KernelGraph*>& graphs, KernelGraph* graph) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return graphs.count(graph) != 0;
}

Result GraphCreate(Graph* graph, unsigned) {
  BEGIN();
  auto* made = new KernelGraph();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().graphs.insert(made);
  *graph = reinterpret_cast<Graph>(made);
  return kSuccess;
}
Result AddNode(GraphNode* node, KernelGraph* g, const GraphNode* before, size_t num_before, KernelGraph::Node made) {
  for (size_t i = 0; i < num_before; ++i) {
    const auto& other = *reinterpret_cast<const KernelGraph::Handle*>(before[i]);
    if (other.place != g->place) return kInvalidValue;
    made.before.push_back(other.index);
  }
  g->handles.push_back(std::make_unique<KernelGraph::Handle>(KernelGraph::Handle{g->place, g->nodes.size()}));
  g->nodes.push_back(std::move(made));
  *node = reinterpret_cast<GraphNode>(g->handles.back().get());
  return kSuccess;
}
Result GraphAddKernelNode(GraphNode* node, Graph graph, const GraphNode* before, size_t num_before,
                          const KernelNodeParameters* parameters) {
  BEGIN();
  auto* g = reinterpret_cast<KernelGraph*>(graph);
  if (!IsLive(Get().graphs, g)) return kInvalidHandle;
  KernelGraph::Node made;
  made.work = WorkOf(*parameters);
  if (made.work == nullptr) return kInvalidValue;
  return AddNode(node, g, before, num_before, std::move(made));
}
Result GraphAddChildGraphNode(GraphNode* node, Graph graph, const GraphNode* before, size_t num_before, Graph child) {
  BEGIN();
  auto* g = reinterpret_cast<KernelGraph*>(graph);
  auto* c = reinterpret_cast<KernelGraph*>(child);
  if (!IsLive(Get().graphs, g) || !IsLive(Get().graphs, c)) return kInvalidHandle;
  KernelGraph::Node made;
  made.body = std::make_shared<KernelGraph>();
  made.body->nodes = CopyNodes(*c);
  return AddNode(node, g, before, num_before, std::move(made));
}
Result GraphExecChildGraphNodeSetParams(GraphExec exec, GraphNode node, Graph child) {
  BEGIN();
  auto* e = reinterpret_cast<KernelGraph*>(exec);
  auto* c = reinterpret_cast<KernelGraph*>(child);
  if (!IsLive(Get().execs, e) || !IsLive(Get().graphs, c)) return kInvalidHandle;
  const auto& handle = *reinterpret_cast<const KernelGraph::Handle*>(node);
  for (const size_t around : handle.place) e = e->nodes[around].body.get();
  KernelGraph& body = *e->nodes[handle.index].body;
  if (body.nodes.size() != c->nodes.size()) return cuda::kGraphCannotChange;
  body.nodes = CopyNodes(*c);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  ++Get().graph_updates;
  return kSuccess;
}
Result GraphConditionalHandleCreate(ConditionalHandle* handle, Graph graph, Context context, unsigned, unsigned flags) {
  BEGIN();
  if (!IsLive(Get().graphs, reinterpret_cast<KernelGraph*>(graph)) || context != contexts.back() || flags != 0)
    return kInvalidValue;
  const std::lock_guard<std::mutex> lock(Get().mutex);
  *handle = Get().next_handle++;
  return kSuccess;
}
Result GraphAddNode(GraphNode* node, Graph graph, const GraphNode* before, const EdgeData* edges, size_t num_before,
                    GraphNodeParameters* p) {
  BEGIN();
  auto* g = reinterpret_cast<KernelGraph*>(graph);
  if (!IsLive(Get().graphs, g)) return kInvalidHandle;
  const bool repeats = p->condition == cuda::kConditionWhile;
  if (p->type != cuda::kConditionalNode || (p->condition != cuda::kConditionIf && !repeats) || p->num_graphs != 1 ||
      p->handle == 0 || p->context != contexts.back() || edges != nullptr)
    return kInvalidValue;
  KernelGraph::Node made;
  made.condition = p->handle;
  made.repeats = repeats;
  made.body = std::make_shared<KernelGraph>();
  made.body->place = g->place;
  made.body->place.push_back(g->nodes.size());
  g->body = reinterpret_cast<Graph>(made.body.get());
  p->graphs = &g->body;
  {
    const std::lock_guard<std::mutex> lock(Get().mutex);
    Get().graphs.insert(made.body.get());
  }
  return AddNode(node, g, before, num_before, std::move(made));
}
Result GraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  BEGIN();
  auto* g = reinterpret_cast<KernelGraph*>(graph);
  if (!IsLive(Get().graphs, g)) return kInvalidHandle;
  auto* made = new KernelGraph();
  made->nodes = CopyNodes(*g);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().execs.insert(made);
  *exec = reinterpret_cast<GraphExec>(made);
  return kSuccess;
}
Result GraphExecKernelNodeSetParams(GraphExec exec, GraphNode node, const KernelNodeParameters* parameters) {
  BEGIN();
  auto* e = reinterpret_cast<KernelGraph*>(exec);
  if (!IsLive(Get().execs, e)) return kInvalidHandle;
  Work work = WorkOf(*parameters);
  if (work == nullptr) return kInvalidValue;
  const auto& handle = *reinterpret_cast<const KernelGraph::Handle*>(node);
  for (const size_t around : handle.place) e = e->nodes[around].body.get();
  e->nodes[handle.index].work = std::move(work);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  ++Get().graph_updates;
  return kSuccess;
}
Result GraphLaunch(GraphExec exec, Stream stream) {
  BEGIN();
  auto* e = reinterpret_cast<KernelGraph*>(exec);
  Worker* worker = WorkerOf(stream);
  if (worker == nullptr || !IsLive(Get().execs, e)) return kInvalidHandle;
  {
    const std::lock_guard<std::mutex> lock(Get().mutex);
    ++Get().graph_launches;
  }
  // Later changes of the nodes are for later launches.
  worker->Add([nodes = CopyNodes(*e), order = seed + static_cast<uint64_t>(Get().graph_launches)] {
    std::mt19937_64 random(order);
    RunGraph(nodes, random);
  });
  return kSuccess;
}
// They are gone, whatever is returned.
Result DestroyGraph(std::set<KernelGraph*>* graphs, void* graph) {
  const Result begun = Begin();
  auto* g = static_cast<KernelGraph*>(graph);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (graphs->erase(g) == 0) return kInvalidHandle;
  for (const KernelGraph::Node& node : g->nodes) graphs->erase(node.body.get());
  delete g;
  return begun;
}
Result GraphExecDestroy(GraphExec exec) { return DestroyGraph(&Get().execs, exec); }
Result GraphDestroy(Graph graph) { return DestroyGraph(&Get().graphs, graph); }
Result GetErrorName(Result result, const char** text) {
  *text = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_TEST";
  return kSuccess;
}
Result GetErrorString(Result result, const char** text) {
  *text = result == kOutOfMemory ? "out of memory" : "an error that the test asked for";
  return kSuccess;
}

}  // namespace
}  // namespace smelt::fake_cuda

using namespace smelt::fake_cuda;  // NOLINT: the functions below have no namespace

extern "C" {

#define SMELT_EXPORT __attribute__((visibility("default")))

SMELT_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version, uint64_t) {
  static const std::map<std::string, void*> functions = {
#define SMELT_FAKE(name) {"cu" #name, reinterpret_cast<void*>(&name)}
      SMELT_FAKE(Init),
      SMELT_FAKE(DriverGetVersion),
      SMELT_FAKE(DeviceGetCount),
      SMELT_FAKE(DeviceGet),
      SMELT_FAKE(DeviceGetAttribute),
      SMELT_FAKE(DevicePrimaryCtxRetain),
      SMELT_FAKE(CtxPushCurrent),
      SMELT_FAKE(CtxPopCurrent),
      SMELT_FAKE(StreamCreate),
      SMELT_FAKE(StreamSynchronize),
      SMELT_FAKE(MemPoolCreate),
      SMELT_FAKE(MemPoolSetAttribute),
      SMELT_FAKE(MemAllocFromPoolAsync),
      SMELT_FAKE(MemFreeAsync),
      SMELT_FAKE(MemHostAlloc),
      SMELT_FAKE(MemcpyHtoDAsync),
      SMELT_FAKE(MemcpyDtoHAsync),
      SMELT_FAKE(MemcpyDtoDAsync),
      SMELT_FAKE(MemsetD8Async),
      SMELT_FAKE(ModuleLoadData),
      SMELT_FAKE(ModuleUnload),
      SMELT_FAKE(ModuleGetFunction),
      SMELT_FAKE(FuncSetAttribute),
      SMELT_FAKE(OccupancyMaxActiveBlocksPerMultiprocessor),
      SMELT_FAKE(LaunchKernel),
      SMELT_FAKE(StreamBeginCapture),
      SMELT_FAKE(StreamEndCapture),
      SMELT_FAKE(StreamWaitEvent),
      SMELT_FAKE(EventCreate),
      SMELT_FAKE(EventRecord),
      SMELT_FAKE(EventQuery),
      SMELT_FAKE(EventSynchronize),
      SMELT_FAKE(GraphCreate),
      SMELT_FAKE(GraphDestroy),
      SMELT_FAKE(GraphAddKernelNode),
      SMELT_FAKE(GraphAddChildGraphNode),
      SMELT_FAKE(GraphExecChildGraphNodeSetParams),
      SMELT_FAKE(GraphAddNode),
      SMELT_FAKE(GraphConditionalHandleCreate),
      SMELT_FAKE(GraphInstantiateWithFlags),
      SMELT_FAKE(GraphExecDestroy),
      SMELT_FAKE(GraphExecKernelNodeSetParams),
      SMELT_FAKE(GraphLaunch),
      SMELT_FAKE(GetErrorName),
      SMELT_FAKE(GetErrorString),
#undef SMELT_FAKE
  };
  const auto it = functions.find(symbol);
  *function = it == functions.end() ? nullptr : it->second;
  return it == functions.end() ? kNotFound : kSuccess;
}

SMELT_EXPORT void fake_cuda_register(const char* entry, const KernelInfo* kernel) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().kernels[entry] = *kernel;
}

SMELT_EXPORT void fake_cuda_fail(int64_t call, int result) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().fail_at = call < 0 ? -1 : Get().calls + call;
  Get().fail_with = result;
}

SMELT_EXPORT void fake_cuda_limit(int64_t bytes) { Get().memory.set_limit(bytes); }

SMELT_EXPORT void fake_cuda_seed(uint64_t value) { seed = value; }

SMELT_EXPORT uint64_t fake_cuda_stream() {
  auto* worker = new Worker();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Get().streams.insert(worker);
  return reinterpret_cast<uintptr_t>(worker);
}

SMELT_EXPORT void fake_cuda_hold(uint64_t stream, int hold) {
  static auto* const held = new std::map<uint64_t, std::shared_ptr<Point>>();
  std::shared_ptr<Point>& point = (*held)[stream];
  if (hold == 0) {
    if (point != nullptr) point->Reach();
    point = nullptr;
  } else if (point == nullptr) {
    point = std::make_shared<Point>();
    WorkerOf(reinterpret_cast<Stream>(static_cast<uintptr_t>(stream)))->Add([point = point] { point->Wait(); });
  }
}

SMELT_EXPORT void fake_cuda_copy_later(uint64_t stream, void* host, uint64_t address, int64_t bytes, bool to_device) {
  Worker* worker = WorkerOf(reinterpret_cast<Stream>(static_cast<uintptr_t>(stream)));
  Memory& memory = Get().memory;
  worker->Add([&memory, host, address, bytes, to_device] {
    // Late, so that whoever does not wait sees it.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    char* const there = memory.At(address);
    std::memcpy(to_device ? there : host, to_device ? host : there, static_cast<size_t>(bytes));
  });
}

SMELT_EXPORT Counts fake_cuda_counts() {
  std::set<Worker*> streams;
  {
    const std::lock_guard<std::mutex> lock(Get().mutex);
    streams = Get().streams;
  }
  for (Worker* w : streams) w->Wait();
  const int64_t bytes = Get().memory.used();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return {Get().calls,
          bytes,
          static_cast<int64_t>(Get().modules.size()),
          static_cast<int64_t>(Get().graphs.size() + Get().execs.size() + Get().captures.size()),
          Get().launches,
          Get().graph_launches,
          Get().graph_updates,
          Get().waits,
          moved};
}

}  // extern "C"
