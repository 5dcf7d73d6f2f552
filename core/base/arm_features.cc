#include "smelt/core/base/arm_features.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace smelt {

#if defined(__aarch64__)

namespace {

// The bits of Linux's AT_HWCAP and AT_HWCAP2 that mean that a feature is there. They are part of the system's interface;
// the C library's headers may be too old to name all of them.
struct Bits {
  const char* name;
  unsigned long hwcap, hwcap2;
};
constexpr Bits kBits[] = {
    {"fp-armv8", 1ul << 0, 0},
    {"neon", 1ul << 1, 0},
    {"crc", 1ul << 7, 0},
    {"lse", 1ul << 8, 0},
    {"fullfp16", 1ul << 9 | 1ul << 10, 0},  // of scalars and of vectors
    {"rdm", 1ul << 12, 0},
    {"dotprod", 1ul << 20, 0},
    {"sve", 1ul << 22, 0},
    {"sve2", 0, 1ul << 1},
    {"i8mm", 0, 1ul << 13},
    {"bf16", 0, 1ul << 14},
};

}  // namespace

bool ArmHas(absl::string_view feature) {
  static const unsigned long kHwcap = getauxval(AT_HWCAP), kHwcap2 = getauxval(AT_HWCAP2);
  for (const Bits& b : kBits) {
    if (feature == b.name) return (kHwcap & b.hwcap) == b.hwcap && (kHwcap2 & b.hwcap2) == b.hwcap2;
  }
  return false;
}

#else

bool ArmHas(absl::string_view) { return false; }

#endif

}  // namespace smelt
