// Products of any dtype, some rows of the result at a time: those that no other code has (float64, complex, integers),
// and those of few elements.
#ifndef SMELT_RUNTIME_LIBRARY_DIRECT_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_DIRECT_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul_problem.h"

namespace smelt::library_internal {

// Computes rows of the result one by one, for any dtype but bool. An element's sum has the same bits wherever it is in
// the result. Packs nothing.
MakeResult MakeDirectMatmul(MatmulProblem p);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_DIRECT_MATMUL_H_
