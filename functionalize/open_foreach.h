// Operators on lists of tensors. Internal to open_composites.h.
#ifndef SMELT_FUNCTIONALIZE_OPEN_FOREACH_H_
#define SMELT_FUNCTIONALIZE_OPEN_FOREACH_H_

#include "absl/status/status.h"
#include "smelt/functionalize/composite_opener.h"

namespace smelt {

// _foreach_OP(_).OVERLOAD: one OP per tensor. Lists among the arguments are walked together; other arguments go to each.
absl::Status OpenForeach(CompositeOpener& o, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_OPEN_FOREACH_H_
