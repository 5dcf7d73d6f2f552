// Helpers for using oneDNN: one thread per call, our own scratch memory, errors as values.
#ifndef SMELT_RUNTIME_LIBRARY_DNNL_UTIL_H_
#define SMELT_RUNTIME_LIBRARY_DNNL_UTIL_H_

#include <sys/mman.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "oneapi/dnnl/dnnl.hpp"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/library/onednn.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt {

// oneDNN is built with OpenMP and reads this thread's setting when a primitive is created and when it runs.
class OneOmpThread {
 public:
  OneOmpThread() : before_(OpenMpThreads()) {
    if (before_ != 1) SetOpenMpThreads(1);
  }
  ~OneOmpThread() {
    if (before_ != 1) SetOpenMpThreads(before_);
  }
  OneOmpThread(const OneOmpThread&) = delete;

 private:
  int before_;
};

inline dnnl::engine& CpuEngine() {
  static dnnl::engine* const kEngine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *kEngine;
}
inline dnnl::stream& ThreadStream() {
  thread_local dnnl::stream stream(CpuEngine());
  return stream;
}

inline dnnl::memory::data_type DnnlType(DType t) {
  switch (t) {
    case DType::kFloat32:
      return dnnl::memory::data_type::f32;
    case DType::kBFloat16:
      return dnnl::memory::data_type::bf16;
    case DType::kInt8:
      return dnnl::memory::data_type::s8;
    case DType::kUInt8:
      return dnnl::memory::data_type::u8;
    case DType::kInt32:
      return dnnl::memory::data_type::s32;
    default:
      return dnnl::memory::data_type::undef;
  }
}

// oneDNN's own C++ interface throws when it does not support something; this returns nullopt instead. Throws
// std::bad_alloc if memory is short.
template <typename F>
auto TryDnnl(F f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_out_of_memory) return std::nullopt;
  } catch (const std::exception&) {
    // The standard library threw for lack of memory. The unfinished primitive stays in oneDNN's cache, and the next
    // request for it would get an exception, so the cache is cleared.
    int capacity = 0;
    if (dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success) {
      dnnl_set_primitive_cache_capacity(0);
      dnnl_set_primitive_cache_capacity(capacity);
    }
  }
  throw std::bad_alloc();
}

// The same for what makes primitives. oneDNN does not look whether there was memory for the code that it generates, and
// crashes; so this throws if there is not more than it takes.
template <typename F>
auto TryMakeDnnl(F f) -> std::optional<decltype(f())> {
  constexpr size_t kRoom = size_t{16} << 20;
  void* room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw OutOfMemory(kRoom);
  munmap(room, kRoom);
  return TryDnnl(std::move(f));
}

// Returns a text that is the same for equal layouts only.
std::string LayoutName(const dnnl::memory::desc& layout);

inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Memory objects of one execution, made on the stack of the call. oneDNN's handles are small but heap allocated, so
// each thread keeps them and only their pointers change.
struct AlignedFree {
  void operator()(char* p) const { std::free(p); }
};
using AlignedBuffer = std::unique_ptr<char, AlignedFree>;
inline AlignedBuffer AllocateAligned(int64_t bytes) {
  char* made = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64 + 64)));
  if (made == nullptr) throw OutOfMemory(bytes);
  return AlignedBuffer(made);
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_DNNL_UTIL_H_
