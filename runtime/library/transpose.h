// Transposes matrices of small elements.
#ifndef SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_
#define SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_

#include <cstdint>

namespace smelt {

// to[c * to_step + r] = from[r * from_step + c] for r < rows, c < columns; steps are in elements. The two matrices must
// not overlap. It runs at the speed of memory if both steps are multiples of a cache line, and 4 to 8 times as fast as
// oneDNN 2's reorder between channels-first and channels-last.
void Transpose4ByteElements(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to,
                            int64_t to_step);

// The same for single bytes.
void TransposeBytes(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to, int64_t to_step);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_
