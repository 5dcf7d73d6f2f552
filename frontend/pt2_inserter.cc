#include "smelt/frontend/pt2_inserter.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/core/op/infer.h"

namespace smelt {
namespace pt2_internal {

ValueId NodeInserter::Constant(NodeId anchor, const ConstantValue& c, const Type& type) {
  return InsertArgument(g_, anchor, c, type);
}

absl::StatusOr<ValueId> NodeInserter::Compute(const char* op, std::vector<ValueId> args, Type type, NodeId anchor) {
  const NodeId n = g_.InsertBefore(anchor, OpName::Get(op), args, {std::move(type)});
  SetSource(n);
  SMELT_RETURN_IF_ERROR(InferNode(g_, n));
  return g_.node(n).outputs[0];
}

ValueId NodeInserter::NumberAsTensor(ValueId v, NodeId anchor) {
  const TypeKind kind = g_.value(v).type.kind();
  if (kind != TypeKind::kInt && kind != TypeKind::kFloat && kind != TypeKind::kBool) return v;
  const DType t = kind == TypeKind::kInt ? DType::kInt64 : kind == TypeKind::kBool ? DType::kBool : DType::kFloat64;
  const ValueId none = Constant(anchor, std::monostate(), Type::None());
  const NodeId n =
      g_.InsertBefore(anchor, OpName::Get("aten::scalar_tensor"),
                      {v, Constant(anchor, static_cast<int64_t>(ScalarTypeOf(t)), Type::Int()), none, none, none},
                      {Type::Tensor(t, std::vector<Expr>(), std::vector<Expr>())});
  SetSource(n);
  return g_.node(n).outputs[0];
}

}  // namespace pt2_internal
}  // namespace smelt
