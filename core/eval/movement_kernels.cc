#include "smelt/core/eval/kernels.h"
namespace smelt::eval_internal {
void AddMovementKernels(KernelTable&) {}
}  // namespace smelt::eval_internal
