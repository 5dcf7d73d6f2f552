// Memory for the duration of an operator's run on this thread. It is kept between runs, so that running at known sizes
// allocates nothing.
#ifndef SMELT_RUNTIME_LIBRARY_SCRATCH_H_
#define SMELT_RUNTIME_LIBRARY_SCRATCH_H_

#include <pthread.h>

#include <cstdint>
#include <cstdlib>

#include "smelt/core/base/out_of_memory.h"

namespace smelt {

// A few buffers per thread, by purpose, so that nested users do not collide.
enum class ScratchUse { kA, kB, kC, kBias, kLibrary, kSource, kDestination, kWeights, kOther, kCount };

struct ScratchBuffer {
  char* data = nullptr;
  int64_t bytes = 0;
};

class Scratch {
 public:
  // At least `bytes`, 64-byte aligned; valid until the next Get of the same use on this thread. Throws OutOfMemory.
  static char* Get(ScratchUse use, int64_t bytes) {
    ScratchBuffer& b = buffers_[static_cast<int>(use)];
    if (bytes > b.bytes) {
      FreeAtTheThreadsEnd();
      std::free(b.data);
      b = {};
      const int64_t want = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      b.data = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(want)));
      if (b.data == nullptr) throw OutOfMemory(want);
      b.bytes = want;
    }
    return b.data;
  }

 private:
  // A thread_local with a destructor would end the process if there is no memory to register it.
  static void FreeAtTheThreadsEnd() {
    static const pthread_key_t key = [] {
      pthread_key_t made;
      if (pthread_key_create(&made, &Free) != 0) throw OutOfMemory(0);
      return made;
    }();
    if (pthread_setspecific(key, buffers_) != 0) throw OutOfMemory(0);
  }
  static void Free(void* buffers) {
    for (int i = 0; i < static_cast<int>(ScratchUse::kCount); ++i) {
      ScratchBuffer& b = static_cast<ScratchBuffer*>(buffers)[i];
      std::free(b.data);
      b = {};
    }
  }

  static inline thread_local constinit ScratchBuffer buffers_[static_cast<int>(ScratchUse::kCount)] = {};
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_SCRATCH_H_
