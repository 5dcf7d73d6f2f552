#include "smelt/codegen/plan_numbers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/schema/bundle.h"

namespace smelt {

const int* PlanNumbers::Find(ValueId v) const {
  const auto it = registers_.find(v);
  return it == registers_.end() ? nullptr : &it->second;
}

absl::Status PlanNumbers::Read(NodeId n) {
  auto step = std::make_unique<fb::ReadScalarT>();
  SMELT_ASSIGN_OR_RETURN(step->view, slots_.ViewOf(g_.node(n).inputs[0]));
  const ValueId out = g_.node(n).outputs[0];
  registers_[out] = step->register_ = steps_.NewRegister();
  const std::optional<Expr>& e = g_.value(out).expr;
  if (e && e->IsSymbol()) {
    step->symbol = b_.AddDataSymbol(e->SymbolName());
    slots_.SetRead(e->SymbolName());
  }
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanNumbers::Compute(NodeId n, fb::NumberFunction function) {
  auto step = std::make_unique<fb::ComputeNumberT>();
  step->function = function;
  for (ValueId v : g_.node(n).inputs) {
    SMELT_ASSIGN_OR_RETURN(step->inputs.emplace_back(), RegisterOf(v));
  }
  registers_[g_.node(n).outputs[0]] = step->register_ = steps_.NewRegister();
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

bool PlanNumbers::MayRefuse(NodeId n, fb::NumberFunction function) const {
  using F = fb::NumberFunction;
  switch (function) {
    case F::Float:
    case F::add:
    case F::sub:
    case F::mul:
    case F::min:
    case F::max:
    case F::neg:
    case F::abs:
    case F::round:
      return false;
    case F::div:
    case F::floordiv:
    case F::remainder: {
      const std::optional<ConstantValue> by = GetConstant(g_, g_.node(n).inputs[1]);
      const auto* i = by ? std::get_if<int64_t>(&*by) : nullptr;
      const auto* d = by ? std::get_if<double>(&*by) : nullptr;
      return !(i != nullptr && *i != 0) && !(d != nullptr && *d != 0);
    }
    default:
      return true;  // as Python's math does where a result is no number or too large
  }
}

absl::Status PlanNumbers::ComputeThoseOfSizes() {
  for (NodeId n : g_.Nodes(g_.top())) {
    const std::optional<fb::NumberFunction> function = FunctionOf(n);
    if (!function) continue;
    const auto& inputs = g_.node(n).inputs;
    const bool is_known = std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) {
      if (registers_.contains(v) || slots_.ScalarArg(v) != nullptr || GetConstant(g_, v)) return true;
      const std::optional<Expr> e = GetIntExpr(g_, v);
      return e && !slots_.IsLate(*e);
    });
    if (is_known) SMELT_RETURN_IF_ERROR(Compute(n, *function));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanNumbers::RegisterOf(ValueId number) {
  if (auto it = registers_.find(number); it != registers_.end()) return it->second;
  auto set = std::make_unique<fb::SetRegisterT>();
  const std::optional<ConstantValue> c = GetConstant(g_, number);
  if (c && std::holds_alternative<double>(*c)) {
    set->is_float = true;
    set->constant = std::get<double>(*c);
  } else if (c && std::holds_alternative<bool>(*c)) {
    set->constant = std::get<bool>(*c);
  } else if (const int* arg = slots_.ScalarArg(number)) {
    set->arg = *arg;
  } else if (const std::optional<Expr> e = GetIntExpr(g_, number); e && slots_.IsRead(*e)) {
    set->expr = b_.exprs.Add(*e);
  } else {
    return absl::UnimplementedError(absl::StrCat("the number %", g_.value(number).name, " is computed at run time"));
  }
  const int r = set->register_ = steps_.NewRegister();
  steps_.Emit(std::move(set));
  return r;
}

std::optional<fb::NumberFunction> PlanNumbers::FunctionOf(NodeId n) const {
  const Node& node = g_.node(n);
  if (node.outputs.size() != 1 || g_.value(node.outputs[0]).type.kind() != TypeKind::kFloat) return std::nullopt;
  for (ValueId v : node.inputs) {
    const TypeKind kind = g_.value(v).type.kind();
    if (kind != TypeKind::kInt && kind != TypeKind::kFloat && kind != TypeKind::kBool) return std::nullopt;
  }
  const absl::string_view name = node.op.name();
  for (fb::NumberFunction f : fb::EnumValuesNumberFunction()) {
    const absl::string_view function = fb::EnumNameNumberFunction(f);
    if (name != absl::StrCat(op::kAtenNamespace, function) && name != absl::StrCat(op::kPrimNamespace, function))
      continue;
    return node.inputs.size() == OperandsOf(f) ? std::optional(f) : std::nullopt;
  }
  return std::nullopt;
}

absl::StatusOr<int> PlanNumbers::Predicate(ValueId v, NodeId source) {
  if (auto it = registers_.find(v); it != registers_.end()) return it->second;
  const Type& t = g_.value(v).type;
  if (t.IsTensor()) {
    auto step = std::make_unique<fb::ReadScalarT>();
    SMELT_ASSIGN_OR_RETURN(step->view, slots_.ViewOf(v));
    const int r = steps_.NewRegister();
    step->register_ = r;
    steps_.Emit(std::move(step), source);
    return r;
  }
  auto set = std::make_unique<fb::SetRegisterT>();
  const int r = steps_.NewRegister();
  set->register_ = r;
  if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) {
    set->constant = std::get<bool>(*c);
  } else if (g_.value(v).expr) {
    set->expr = b_.exprs.Add(*g_.value(v).expr);
  } else {
    SMELT_ASSIGN_OR_RETURN(set->expr, ConditionExpr(v));
  }
  steps_.Emit(std::move(set), source);
  return r;
}

bool PlanNumbers::IsCondition(NodeId n) const { return GetOpTraits(g_.node(n).op).relation != NumberRelation::kNone; }

absl::StatusOr<int> PlanNumbers::ConditionExpr(ValueId v) {
  if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) return b_.exprs.Add(std::get<bool>(*c));
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def) && IsCondition(def)) {
    using Relation = NumberRelation;
    const Relation relation = GetOpTraits(g_.node(def).op).relation;
    const auto& inputs = g_.node(def).inputs;
    if (relation == Relation::kNot || relation == Relation::kAnd || relation == Relation::kOr) {
      SMELT_ASSIGN_OR_RETURN(int a, ConditionExpr(inputs[0]));
      if (relation == Relation::kNot) return b_.exprs.AddLogic(fb::ExprOp::Not, a, -1);
      SMELT_ASSIGN_OR_RETURN(int b, ConditionExpr(inputs[1]));
      return b_.exprs.AddLogic(relation == Relation::kAnd ? fb::ExprOp::And : fb::ExprOp::Or, a, b);
    }
    const std::optional<Expr> a = GetIntExpr(g_, inputs[0]), b = GetIntExpr(g_, inputs[1]);
    if (a && b && slots_.IsRead(*a) && slots_.IsRead(*b)) {
      const bool swap = relation == Relation::kGt || relation == Relation::kGe;
      const fb::ExprOp compare = relation == Relation::kLt || relation == Relation::kGt   ? fb::ExprOp::Lt
                                 : relation == Relation::kLe || relation == Relation::kGe ? fb::ExprOp::Le
                                                                                          : fb::ExprOp::Eq;
      const int e = b_.exprs.AddCompare(compare, swap ? *b : *a, swap ? *a : *b);
      return relation == Relation::kNe ? b_.exprs.AddLogic(fb::ExprOp::Not, e, -1) : e;
    }
  }
  return absl::UnimplementedError("a condition that is computed from sizes or numbers at run time");
}

bool PlanNumbers::DependsOnData(ValueId v) const {
  if (auto e = g_.value(v).type.kind() == TypeKind::kInt ? GetIntExpr(g_, v) : std::nullopt)
    return slots_.IsLate(*e) && slots_.IsRead(*e);
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || !IsCondition(def)) return false;
  for (ValueId x : g_.node(def).inputs) {
    if (DependsOnData(x)) return true;
  }
  return false;
}

}  // namespace smelt
