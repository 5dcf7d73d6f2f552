#include "smelt/frontend/pt2_autocast.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/traits.h"
#include "smelt/frontend/pt2_arguments.h"
#include "smelt/frontend/pt2_codes.h"

namespace smelt {
namespace pt2_internal {

absl::Status Pt2Autocast::Begin(const Json& inputs) {
  SMELT_ASSIGN_OR_RETURN(const Json* dtype_arg, Operand(inputs, 1));
  SMELT_ASSIGN_OR_RETURN(const Json* enabled_arg, Operand(inputs, 2));
  SMELT_ASSIGN_OR_RETURN(const Json* enabled_json, Get(*enabled_arg, "as_bool"));
  SMELT_ASSIGN_OR_RETURN(bool enabled, AsBool(*enabled_json));
  DType target = DType::kBFloat16;  // the CPU's default
  if (const Json* code = Find(*dtype_arg, "as_scalar_type"); code != nullptr) {
    SMELT_ASSIGN_OR_RETURN(int64_t number, AsInt(*code));
    SMELT_ASSIGN_OR_RETURN(target, ToDType(number));
  }
  lower_ = enabled ? std::optional<DType>(target) : std::nullopt;
  seen_ = seen_ || enabled;
  return absl::OkStatus();
}

void Pt2Autocast::Convert(OpName op, NodeId anchor, std::vector<ValueId>& args) {
  const AutocastClass autocast = GetOpTraits(op).autocast;
  if (autocast == AutocastClass::kNone) return;
  const DType target = autocast == AutocastClass::kLowerPrecision ? *lower_ : DType::kFloat32;
  for (ValueId& v : args) {
    const Type& type = g_.value(v).type;
    if (!type.IsTensor() || !type.tensor().dtype) continue;
    const DType t = *type.tensor().dtype;
    if (!IsFloating(t) || t == DType::kFloat64 || t == target) continue;
    TensorType cast = type.tensor();
    cast.dtype = target;
    const ValueId no = insert_.Constant(anchor, false, Type::Bool()),
                  none = insert_.Constant(anchor, std::monostate(), Type::None());
    const ValueId code = insert_.Constant(anchor, ScalarTypeOf(target), Type::Int());
    NodeId n = g_.InsertBefore(anchor, OpName::Get("aten::_to_copy"), {v, code, none, none, none, no, none},
                               {Type::Tensor(*cast.dtype, *cast.sizes, *cast.strides)});
    insert_.SetSource(n);
    v = g_.node(n).outputs[0];
  }
}

}  // namespace pt2_internal
}  // namespace smelt
