// Philox 4x32-10, a counter-based generator: draw number i of a stream is a function of (seed, i), so that draws can be
// made in any order and by any number of threads.
#ifndef SMELT_RUNTIME_PHILOX_H_
#define SMELT_RUNTIME_PHILOX_H_

#include <array>
#include <cstdint>

namespace smelt {

inline std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t counter) {
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c[0], c[1], c[2], c[3]};
}

// A state like a buffer: the next draw depends only on it.
struct Generator {
  uint64_t seed = 0;
  uint64_t next = 0;  // of 64-bit draws

  // Returns draw number `i` from the current position; advance with `next += n`.
  uint64_t At(uint64_t i) const {
    const uint64_t n = next + i;
    const std::array<uint32_t, 4> block = PhiloxBlock(seed, n / 2);
    const int half = static_cast<int>(n % 2) * 2;
    return uint64_t{block[half]} | uint64_t{block[half + 1]} << 32;
  }
};

// [0, 1) with 53 bits.
inline double UnitDouble(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace smelt

#endif  // SMELT_RUNTIME_PHILOX_H_
