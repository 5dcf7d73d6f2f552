// The names of the functions of libdevice, NVIDIA's library of mathematical functions as LLVM bitcode.
//
// A module calls them by name (__nv_expf); llvm_cuda.cc links them. An operation without such a function is computed
// inline, as on a CPU.
#ifndef SMELT_CODEGEN_LIBDEVICE_H_
#define SMELT_CODEGEN_LIBDEVICE_H_

#include <string>

#include "smelt/core/op/scalar.h"

namespace smelt {

// Returns libdevice's name for a function of float or double; empty if it has none.
std::string LibdeviceName(ScalarOp op, bool is_double);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LIBDEVICE_H_
