#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/schema/bundle.h"

namespace smelt {

absl::Status PlanBuilder::EmitBlock(BlockId b) {
  for (NodeId n : g_.Nodes(b)) {
    position_ = lives_.Begin(n);
    absl::Status s = EmitNode(n);
    if (!s.ok()) {
      const Node& node = g_.node(n);
      return Annotate(s,
                      node.source ? absl::StrCat(node.op.full(), " (", node.source->ToString(), ")") : node.op.full());
    }
  }
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitNode(NodeId n) {
  const Node& node = g_.node(n);
  const std::string& name = node.op.name();
  for (ValueId v : node.outputs) {
    const Type& t = g_.value(v).type;
    if (name == op::kSmeltView || !t.IsTensor() || !t.tensor().sizes) continue;
    for (const Expr& e : *t.tensor().sizes) {
      if (!IsRead(e)) return absl::UnimplementedError(absl::StrCat("a size ", e.ToString(), " that is not known yet"));
    }
  }
  if (name == op::kPrimConstant || name == op::kPrimListConstruct || name == op::kPrimTupleConstruct ||
      name == op::kSmeltView || name == op::kSmeltSize) {
    return absl::OkStatus();
  }
  if (name == op::kPrimIf || name == op::kSmeltCond) return EmitIf(n);
  if (name == op::kSmeltWhileLoop || name == op::kPrimLoop) return EmitLoop(n);
  if (ReadsNumber(g_, n)) return EmitReadScalar(n);
  if (IsCondition(n)) return absl::OkStatus();  // made where it is used
  if (name == op::kPrivateAssertAsync || name == op::kPrivateAssertScalar) return EmitAssert(n);
  if (name == op::kSmeltAssertComputed) return absl::OkStatus();  // by the steps before
  if (absl::StartsWith(name, op::kSmeltAssertPrefix)) return AddAssertion(n);
  if (GetOpTraits(node.op).family == OpFamily::kAllocation) {
    Place(node.outputs[0]);  // contents nothing has written yet
    return absl::OkStatus();
  }
  bool all_known = !node.outputs.empty();
  for (ValueId v : node.outputs) all_known = all_known && g_.value(v).expr.has_value();
  if (all_known) return absl::OkStatus();
  if (const std::optional<fb::NumberFunction> function = NumberFunctionOf(n)) {
    if (registers_.contains(node.outputs[0])) return absl::OkStatus();
    if (MayRefuse(n, *function)) plan_->may_refuse_late = true;
    return EmitNumber(n, *function);
  }
  if (IsKernelNode(g_, n)) return EmitKernel(n);
  SMELT_ASSIGN_OR_RETURN(std::optional<RandomCall> random, LowerRandom(g_, n));
  if (random) return EmitRandom(n, *random);
  SMELT_ASSIGN_OR_RETURN(std::optional<LibraryNode> library, LowerLibrary(g_, n));
  if (library) return EmitLibrary(n, *library);
  return absl::UnimplementedError("no kernel and no library call does this");
}

absl::Status PlanBuilder::EmitLibrary(NodeId n, const LibraryNode& call) {
  auto step = std::make_unique<fb::LibraryCallT>();
  step->op = call.op;
  last_call_ = {};
  const OpTraits& traits = GetOpTraits(g_.node(n).op);
  const bool plain_refuses = traits.library == LibraryCall::kPlain && traits.refusal != DataRefusal::kNone;
  if (plain_refuses || RefusesData(traits.library)) plan_->may_refuse_late = true;
  for (ValueId v : call.inputs) {
    if (!g_.IsLive(v)) {
      step->inputs.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(int view, ViewOf(v));
    step->inputs.push_back(view);
    last_call_.reads.push_back(plan_->views[view]->slot);
  }
  for (ValueId o : call.outputs) {
    if (!g_.IsLive(o)) {
      step->outputs.push_back(-1);
      continue;
    }
    const Location l = Place(o);
    step->outputs.push_back(AddView(l));
  }
  for (const Expr& e : call.ints) step->ints.push_back(b_.exprs.Add(e));
  step->floats = call.floats;
  Emit(std::move(step), n);
  if (g_.IsLive(call.outputs[0])) {
    last_call_.block = block_;
    last_call_.step = plan_->blocks[block_]->steps.size() - 1;
    last_call_.result = locations_.at(call.outputs[0]);
  }
  ++stats_.library_calls;
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitRandom(NodeId n, const RandomCall& call) {
  const Location l = Place(g_.node(n).outputs[0]);
  auto step = std::make_unique<fb::RandomT>();
  step->kind = call.kind;
  step->out = AddView(l);
  step->p0 = call.p0;
  step->p1 = call.p1;
  if (g_.IsLive(call.probabilities)) {
    plan_->may_refuse_late = true;
    SMELT_ASSIGN_OR_RETURN(step->probabilities, ViewOf(call.probabilities));
  }
  Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitReadScalar(NodeId n) {
  auto step = std::make_unique<fb::ReadScalarT>();
  SMELT_ASSIGN_OR_RETURN(step->view, ViewOf(g_.node(n).inputs[0]));
  const ValueId out = g_.node(n).outputs[0];
  registers_[out] = step->register_ = num_registers_++;
  const std::optional<Expr>& e = g_.value(out).expr;
  if (e && e->IsSymbol()) {
    step->symbol = b_.AddDataSymbol(e->SymbolName());
    read_symbols_.insert(e->SymbolName());
  }
  Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitNumber(NodeId n, fb::NumberFunction function) {
  auto step = std::make_unique<fb::ComputeNumberT>();
  step->function = function;
  for (ValueId v : g_.node(n).inputs) {
    SMELT_ASSIGN_OR_RETURN(step->inputs.emplace_back(), RegisterOf(v));
  }
  registers_[g_.node(n).outputs[0]] = step->register_ = num_registers_++;
  Emit(std::move(step), n);
  return absl::OkStatus();
}

bool PlanBuilder::MayRefuse(NodeId n, fb::NumberFunction function) const {
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

absl::Status PlanBuilder::EmitNumbersOfSizes() {
  for (NodeId n : g_.Nodes(g_.top())) {
    const std::optional<fb::NumberFunction> function = NumberFunctionOf(n);
    if (!function) continue;
    const auto& inputs = g_.node(n).inputs;
    const bool is_known = std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) {
      if (registers_.contains(v) || scalar_args_.contains(v) || GetConstant(g_, v)) return true;
      const std::optional<Expr> e = GetIntExpr(g_, v);
      return e && !IsLate(*e);
    });
    if (is_known) SMELT_RETURN_IF_ERROR(EmitNumber(n, *function));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanBuilder::RegisterOf(ValueId number) {
  if (auto it = registers_.find(number); it != registers_.end()) return it->second;
  auto set = std::make_unique<fb::SetRegisterT>();
  const std::optional<ConstantValue> c = GetConstant(g_, number);
  if (c && std::holds_alternative<double>(*c)) {
    set->is_float = true;
    set->constant = std::get<double>(*c);
  } else if (c && std::holds_alternative<bool>(*c)) {
    set->constant = std::get<bool>(*c);
  } else if (auto arg = scalar_args_.find(number); arg != scalar_args_.end()) {
    set->arg = arg->second;
  } else if (const std::optional<Expr> e = GetIntExpr(g_, number); e && IsRead(*e)) {
    set->expr = b_.exprs.Add(*e);
  } else {
    return absl::UnimplementedError(absl::StrCat("the number %", g_.value(number).name, " is computed at run time"));
  }
  const int r = set->register_ = num_registers_++;
  Emit(std::move(set));
  return r;
}

std::optional<fb::NumberFunction> PlanBuilder::NumberFunctionOf(NodeId n) const {
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

absl::Status PlanBuilder::EmitAssert(NodeId n) {
  const ValueId v = g_.node(n).inputs[0];
  // The signature's ranges guarantee conditions on sizes. Conditions that the data decide are checked.
  if (!g_.value(v).type.IsTensor() && !registers_.contains(v) && !DependsOnData(v)) return absl::OkStatus();
  auto step = std::make_unique<fb::CheckT>();
  step->kind = fb::CheckKind::DataTrue;
  plan_->may_refuse_late = true;
  SMELT_ASSIGN_OR_RETURN(step->a, Predicate(v, n));
  step->message = "Assertion failed";
  for (ValueId a : g_.node(n).inputs) {
    auto c = GetConstant(g_, a);
    if (c && std::holds_alternative<std::string>(*c)) step->message = std::get<std::string>(*c);
  }
  if (g_.node(n).source) step->source = g_.node(n).source->ToString();
  Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanBuilder::AddAssertion(NodeId n) {
  const Node& node = g_.node(n);
  const std::string& name = node.op.name();
  auto check = std::make_unique<fb::CheckT>();
  bool late = false;
  auto view_of = [&](ValueId v) -> absl::StatusOr<int> {
    SMELT_ASSIGN_OR_RETURN(const Location l, Locate(v));
    late = late || IsLate(l);
    return AddView(l);
  };
  if (name == op::kSmeltAssertSize && node.FindAttribute(kElseInOrder) != nullptr) {
    b_.AddGuard(*plan_, Expr(0), fb::ExprOp::Lt, std::get<Expr>(*node.FindAttribute("value")),
                std::get<std::string>(*node.FindAttribute("message")));
    return absl::OkStatus();
  }
  if (name == op::kSmeltAssertSize) {
    check->kind = fb::CheckKind::NotZero;
    const Expr& value = std::get<Expr>(*node.FindAttribute("value"));
    late = IsLate(value);
    check->a = b_.exprs.Add(value);
    check->message = std::get<std::string>(*node.FindAttribute("message"));
  } else if (name == op::kSmeltAssertNoInternalOverlap) {
    const bool in_order = node.FindAttribute("in_order") != nullptr;
    check->kind = in_order ? fb::CheckKind::NoSharedPlaces : fb::CheckKind::NoInternalOverlap;
    check->message =
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.";
    SMELT_ASSIGN_OR_RETURN(check->a, view_of(node.inputs[0]));
  } else if (name == op::kSmeltAssertNoPartialOverlap || name == op::kSmeltAssertNoOverlap) {
    check->kind = fb::CheckKind::NoPartialOverlap;
    if (name == op::kSmeltAssertNoOverlap) {
      const auto rule = static_cast<OperandSharing>(std::get<int64_t>(*node.FindAttribute("rule")));
      check->kind = rule == OperandSharing::kNone          ? fb::CheckKind::NoOverlap
                    : rule == OperandSharing::kWholeOrNone ? fb::CheckKind::WholeOrApart
                                                           : fb::CheckKind::Apart;
    }
    SMELT_ASSIGN_OR_RETURN(check->a, view_of(node.inputs[0]));
    SMELT_ASSIGN_OR_RETURN(check->b, view_of(node.inputs[1]));
  } else {
    return absl::UnimplementedError("no kernel and no library call does this");
  }
  if (node.source) check->source = node.source->ToString();
  // In a branch it concerns only the calls that take it.
  if (late || block_ != 0) {
    plan_->may_refuse_late = true;
    Emit(std::move(check), n);
  } else {
    plan_->prologue_checks.push_back(std::move(check));
  }
  return absl::OkStatus();
}

}  // namespace smelt
