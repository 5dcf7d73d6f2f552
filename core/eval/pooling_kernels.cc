#include "smelt/core/eval/kernels.h"
namespace smelt::eval_internal {
void AddPoolingKernels(KernelTable&) {}
}  // namespace smelt::eval_internal
