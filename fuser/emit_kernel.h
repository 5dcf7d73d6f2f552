// The last step of a kernel's canonical form: the dim that fills vectors, the phase and the order of each instruction,
// and the values that a row keeps for its next pass. Internal to kernel_builder.h.
#ifndef SMELT_FUSER_EMIT_KERNEL_H_
#define SMELT_FUSER_EMIT_KERNEL_H_

#include "smelt/fuser/kernel_builder.h"
#include "smelt/fuser/lower_group.h"

namespace smelt::kernel {

// Emits a kernel whose draft is in canonical form. If `ordered`, the reduction dims run in order.
LoweredKernel EmitKernel(Builder& builder, bool ordered);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_EMIT_KERNEL_H_
