// The kernels of operators that core/op does not define by a scalar function, a view or a decomposition: the files
// *_kernels.cc, by subject. Private to core/eval.
#ifndef SMELT_CORE_EVAL_KERNELS_H_
#define SMELT_CORE_EVAL_KERNELS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/core/eval/elements.h"
#include "smelt/core/eval/run.h"

namespace smelt::eval_internal {

using Kernel = absl::StatusOr<Values> (*)(Call&);
using KernelTable = absl::flat_hash_map<std::string, Kernel>;

// Kernels are added by full name, or by name for every overload that writes nothing.
void AddMemoryKernels(KernelTable& t);
void AddCompositeKernels(KernelTable& t);
void AddFactoryKernels(KernelTable& t);
void AddMovementKernels(KernelTable& t);
void AddIndexKernels(KernelTable& t);
void AddLinearAlgebraKernels(KernelTable& t);
void AddPoolingKernels(KernelTable& t);
void AddSortingKernels(KernelTable& t);
void AddFourierKernels(KernelTable& t);
void AddFactorizationKernels(KernelTable& t);
void AddScalarKernels(KernelTable& t);
void AddContainerKernels(KernelTable& t);
void AddDetectionKernels(KernelTable& t);
void AddWeightProductKernels(KernelTable& t);
absl::StatusOr<Values> Python(Call& c);  // operators on Python's values

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_KERNELS_H_
