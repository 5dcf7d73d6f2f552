// Interprets a kernel spec in the simplest way: the reference for the code generators.
//
//   SMELT_RETURN_IF_ERROR(InterpretKernel(spec, words, 0, NumTiles(spec, words), &status));
#ifndef SMELT_FUSER_KERNEL_INTERPRETER_H_
#define SMELT_FUSER_KERNEL_INTERPRETER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Same ABI as a compiled kernel (addresses in `words`).
absl::Status InterpretKernel(const KernelSpec& spec, const int64_t* words, int64_t begin, int64_t end, int64_t* status);

}  // namespace smelt

#endif  // SMELT_FUSER_KERNEL_INTERPRETER_H_
