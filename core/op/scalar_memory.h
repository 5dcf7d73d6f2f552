// Elements of tensors as scalar values.
//
//   StoreScalar(t, LoadScalar(t, from), to);
#ifndef SMELT_CORE_OP_SCALAR_MEMORY_H_
#define SMELT_CORE_OP_SCALAR_MEMORY_H_

#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// No complex dtype. Addresses need not be aligned; a value that `t` cannot hold is rounded or cut to its bits.
ScalarValue LoadScalar(DType t, const void* at);
void StoreScalar(DType t, ScalarValue v, void* at);

}  // namespace smelt

#endif  // SMELT_CORE_OP_SCALAR_MEMORY_H_
