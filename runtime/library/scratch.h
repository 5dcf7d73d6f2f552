// Memory for the duration of an operator's run on this thread. It is kept between runs, so that running at known sizes
// allocates nothing.
#ifndef SMELT_RUNTIME_LIBRARY_SCRATCH_H_
#define SMELT_RUNTIME_LIBRARY_SCRATCH_H_

#include <cstdint>
#include <cstdlib>

#include "smelt/core/base/out_of_memory.h"

namespace smelt {

// A few buffers per thread, by purpose, so that nested users do not collide.
enum class ScratchUse { kA, kB, kC, kBias, kLibrary, kSource, kDestination, kWeights, kOther, kCount };

class Scratch {
 public:
  // At least `bytes`, 64-byte aligned; valid until the next Get of the same use on this thread. Throws OutOfMemory.
  static char* Get(ScratchUse use, int64_t bytes) {
    thread_local Scratch buffers[static_cast<int>(ScratchUse::kCount)];
    Scratch& s = buffers[static_cast<int>(use)];
    if (bytes > s.bytes_) {
      std::free(s.data_);
      s.bytes_ = 0;
      const int64_t want = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      s.data_ = static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(want)));
      if (s.data_ == nullptr) throw OutOfMemory(want);
      s.bytes_ = want;
    }
    return s.data_;
  }
  ~Scratch() { std::free(data_); }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_SCRATCH_H_
