#include "smelt/core/eval/kernels.h"
namespace smelt::eval_internal {
void AddSortingKernels(KernelTable&) {}
}  // namespace smelt::eval_internal
