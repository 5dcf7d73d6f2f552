// Loops that are compiled for three levels, of which the machine's highest runs. (The binary itself is for baseline
// x86-64.)
#ifndef SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_
#define SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_

#if defined(__x86_64__)
#define SMELT_TARGET_V4 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define SMELT_TARGET_V3 __attribute__((target("avx2,fma,f16c")))
#else
#define SMELT_TARGET_V4
#define SMELT_TARGET_V3
#endif
#define SMELT_INLINE inline __attribute__((always_inline))

#endif  // SMELT_RUNTIME_LIBRARY_CPU_TARGETS_H_
