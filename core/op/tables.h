// The tables behind OpInfo. Private to core/op.
#ifndef SMELT_CORE_OP_TABLES_H_
#define SMELT_CORE_OP_TABLES_H_

#include "smelt/core/ir/op_name.h"
#include "smelt/core/op/op_info.h"

namespace smelt::op_internal {

bool HasPointwise(OpName op);
bool HasReduction(OpName op);
bool HasView(OpName op);
bool HasTypeRule(OpName op);

// Returns the dtype that PyTorch gives a number: kBool, kInt64, kFloat64 or kComplex128.
DType NumberDType(OpArg::Kind kind);
// Returns the argument's role in torch.result_type.
PromotionOperand PromotionOf(const OpArg& arg);

}  // namespace smelt::op_internal

#endif  // SMELT_CORE_OP_TABLES_H_
