// The canonical form of a kernel: its dims in an order, and its instructions in colors, that do not depend on how the
// graph was written. Internal to kernel_builder.h.
#ifndef SMELT_FUSER_CANONICAL_FORM_H_
#define SMELT_FUSER_CANONICAL_FORM_H_

#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {

void PutInCanonicalForm(Builder& builder, bool ordered);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_CANONICAL_FORM_H_
