// "int4_mm": rows times a weight of 4 bits, whose groups of elements along the depth have a scale each. A constant
// weight is packed once; it is read once by each call, and its elements become floats in registers, where up to eight
// rows are multiplied by them. For many rows some columns at a time become a matrix of the rows' dtype, which is multiplied
// as other matrices are.
//
// The packed form consists of blocks of 64 columns, with vectors of 16 columns. A block has for each group its scales,
// its offsets, and its elements: 8 along the depth and 16 columns are 16 words of 32 bits. In a word the elements with
// even numbers precede those with odd ones, so that its halves are pairs for a product of pairs of bfloat16.
#ifndef SMELT_RUNTIME_LIBRARY_INT4_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_INT4_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// The packed form of a constant weight comes from `packed`; any other weight is read as it is. Returns kInvalidArgument for
// operands that do not fit each other, and kUnimplemented for dtypes that have no code.
MakeResult MakeInt4Matmul(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_INT4_MATMUL_H_
