// Loops that are compiled for three levels of x86-64, of which the machine's highest runs. (The binary itself is for
// baseline x86-64.) On another architecture there is one level, and the code of the others is not compiled.
#ifndef SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_
#define SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_

#include "smelt/runtime/cpu.h"

#if defined(__x86_64__)
#define SMELT_TARGET_V4 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define SMELT_TARGET_V3 __attribute__((target("avx2,fma,f16c")))
#else
#define SMELT_TARGET_V4
#define SMELT_TARGET_V3
#endif
#define SMELT_INLINE inline __attribute__((always_inline))

namespace smelt {

// Returns 4 (SMELT_TARGET_V4), 3 (SMELT_TARGET_V3) or 1: the level that this machine runs.
#if defined(__x86_64__)
inline int LibraryLevel() {
  static const int kLevel = CpuLevel() == "x86-64-v4" ? 4 : CpuLevel() == "x86-64-v3" ? 3 : 1;
  return kLevel;
}
#else
constexpr int LibraryLevel() { return 1; }
#endif

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_
