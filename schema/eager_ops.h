// The operators that a runtime executes by name in an eager-order program (bundle.fbs). The compiler asks before it
// writes a program; a runtime refuses others.
#ifndef SMELT_SCHEMA_EAGER_OPS_H_
#define SMELT_SCHEMA_EAGER_OPS_H_

#include <string>

namespace smelt {

// Operators that make views, or return the tensor itself or a copy of its elements where PyTorch does. The name
// includes the overload.
bool IsEagerViewOp(const std::string& full_name);
// Operators on numbers, lists and tensors' sizes. The name is without the overload.
bool IsEagerNumberOp(const std::string& name);

}  // namespace smelt

#endif  // SMELT_SCHEMA_EAGER_OPS_H_
