// Kernels in which each row is one tile: its reductions run along the vectorized dim, one phase after the other.
#ifndef SMELT_CODEGEN_EMIT_ROWS_H_
#define SMELT_CODEGEN_EMIT_ROWS_H_

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

// Emits the body of a kernel whose schedule is not by columns; `fn` stands in it.
void EmitRows(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values);

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_ROWS_H_
