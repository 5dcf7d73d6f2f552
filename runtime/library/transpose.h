// Matrices of 4-byte elements, transposed.
#ifndef SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_
#define SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_

#include <cstdint>

namespace smelt {

// to[c * to_step + r] = from[r * from_step + c] for r < rows, c < columns; steps are counted in elements. The two
// matrices do not overlap. At the speed of memory where both steps leave whole cache lines; 4 to 8 times that of
// oneDNN 2's reorder between channels-first and channels-last.
void Transpose4ByteElements(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to,
                            int64_t to_step);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_TRANSPOSE_H_
