#include "smelt/core/eval/kernels.h"
namespace smelt::eval_internal {
void AddCompositeKernels(KernelTable&) {}
}  // namespace smelt::eval_internal
