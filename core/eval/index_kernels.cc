#include "smelt/core/eval/kernels.h"
namespace smelt::eval_internal {
void AddIndexKernels(KernelTable&) {}
}  // namespace smelt::eval_internal
