// The features of an AArch64 processor, as the system reports them.
#ifndef SMELT_CORE_BASE_ARM_FEATURES_H_
#define SMELT_CORE_BASE_ARM_FEATURES_H_

#include "absl/strings/string_view.h"

namespace smelt {

// Returns whether this machine has a feature of AArch64, by LLVM's name ("dotprod"). False for unknown names, and on
// another architecture.
bool ArmHas(absl::string_view feature);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_ARM_FEATURES_H_
