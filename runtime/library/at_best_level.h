// Runs a function compiled for three levels, of which the machine's highest is chosen:
//
//   AtBestLevel([&]() SMELT_ALWAYS_INLINE { Loop(x, n); });   // Loop is SMELT_INLINE
//
// or a function that gets the number of bytes of the level's vectors (gcc splits wider vectors through memory):
//
//   AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { Loop<bytes>(x, n); });
#ifndef SMELT_RUNTIME_LIBRARY_AT_BEST_LEVEL_H_
#define SMELT_RUNTIME_LIBRARY_AT_BEST_LEVEL_H_

#include <type_traits>

#include "smelt/runtime/library/cpu_targets.h"

#define SMELT_ALWAYS_INLINE __attribute__((always_inline))

namespace smelt {

template <int kBytes>
using VectorBytes = std::integral_constant<int, kBytes>;

// `kBytes` bytes of elements, in a register. `Unaligned` reads them from and writes them to any element's address.
template <typename T, int kBytes>
struct Vector {
  typedef T Type __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
};

#if defined(__x86_64__)
template <typename F>
SMELT_TARGET_V4 void CallAtV4(const F& f) {
  f(VectorBytes<64>());
}
template <typename F>
SMELT_TARGET_V3 void CallAtV3(const F& f) {
  f(VectorBytes<32>());
}
#endif
template <typename F>
void AtBestVectors(const F& f) {
#if defined(__x86_64__)
  if (LibraryLevel() == 4) return CallAtV4(f);
  if (LibraryLevel() == 3) return CallAtV3(f);
#endif
  f(VectorBytes<16>());
}
template <typename F>
void AtBestLevel(const F& f) {
  AtBestVectors([&](auto) SMELT_ALWAYS_INLINE { f(); });
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_AT_BEST_LEVEL_H_
