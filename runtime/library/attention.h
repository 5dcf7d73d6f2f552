// "attention": softmax(scale * query key^T + mask) value, for queries, keys and values in float32, bfloat16 and float16.
#ifndef SMELT_RUNTIME_LIBRARY_ATTENTION_H_
#define SMELT_RUNTIME_LIBRARY_ATTENTION_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Needs memory for a block of each thread: some hundred rows of queries, keys and values.
MakeResult MakeAttention(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_ATTENTION_H_
