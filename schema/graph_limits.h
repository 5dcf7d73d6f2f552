// Limits that encoder and decoder of graphs share. Private to schema.
#ifndef SMELT_SCHEMA_GRAPH_LIMITS_H_
#define SMELT_SCHEMA_GRAPH_LIMITS_H_

#include <cstdint>

namespace smelt {

inline constexpr uint32_t kGraphFormat = 1;
inline constexpr uint32_t kNumberedName = 0x80000000u;  // Value.name: the rest is the number that is the name
inline constexpr int64_t kStorageAlignment = 64;
inline constexpr int kWeightsSegment = 1;  // the encoder's; a reader uses the number in the file
// A FlatBuffer holds 2 GiB.
inline constexpr int64_t kMaxNodes = 10'000'000;
inline constexpr int64_t kMaxConstantBytes = int64_t{1} << 30;
inline constexpr int kMaxGraphDepth = 200;  // blocks in blocks, graphs in graphs

}  // namespace smelt

#endif  // SMELT_SCHEMA_GRAPH_LIMITS_H_
