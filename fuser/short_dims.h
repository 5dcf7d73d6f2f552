// How many elements fill a vector. Internal to kernel_builder.h.
#ifndef SMELT_FUSER_SHORT_DIMS_H_
#define SMELT_FUSER_SHORT_DIMS_H_

#include <cstdint>

namespace smelt::kernel {

// If a dim has at least this many elements, it is worth filling a vector with them.
inline constexpr int64_t kFewLanes = 8;

// Float32 elements of the widest vector.
inline constexpr int64_t kFullVector = 16;

// The assumed value of a size that differs from call to call: most calls have many elements, and with few elements
// little is lost.
inline constexpr int64_t kManyElements = INT64_MAX;

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_SHORT_DIMS_H_
