// The layouts of a weight of 4 bits [n, k] that smelt::int4_mm reads. Its groups of adjacent elements along k have scales
// and zeros [n, groups].
#ifndef SMELT_CORE_TENSOR_INT4_FORM_H_
#define SMELT_CORE_TENSOR_INT4_FORM_H_

#include <cstdint>

namespace smelt {

// The values are part of the bundle format (docs/bundle_format.md).
enum class Int4Form : int64_t {
  kBytes = 0,           // an int8 or uint8 per element: w = q * scale; the zeros are not read
  kBytesWithZeros = 1,  // the same, w = (q - zero) * scale
  // [n, k / 2] of uint8 as _convert_weight_to_int4pack_for_cpu writes it on a machine with AVX-512:
  // w = (q - 8) * scale + zero. Each 64 columns are k times 32 bytes, with columns j and j + 32 in a byte, the first in
  // its low half. Fewer columns at the end are k times half as many bytes, with neighbours in a byte.
  kBlocks = 2,
};

// Returns the element of the form kBlocks at a place.
inline int BlockedInt4(const uint8_t* packed, int64_t n, int64_t k, int64_t column, int64_t depth) {
  constexpr int64_t kBlock = 64;
  const int64_t first = column / kBlock * kBlock, j = column - first, count = n - first < kBlock ? n - first : kBlock;
  const bool full = count == kBlock;
  const uint8_t both = packed[first * (k / 2) + depth * (count / 2) + (full ? j % (kBlock / 2) : j / 2)];
  return (full ? j >= kBlock / 2 : j % 2 == 1) ? both >> 4 : both & 15;
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_INT4_FORM_H_
