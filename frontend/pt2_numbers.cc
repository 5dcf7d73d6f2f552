#include "smelt/frontend/pt2_numbers.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"

namespace smelt {
namespace pt2_internal {

namespace {

// Returns 1 where a condition on known integers holds, else 0.
std::optional<Expr> Indicator(const Graph& g, ValueId condition) {
  const NodeId def = g.value(condition).def;
  if (g.IsParam(def)) return std::nullopt;
  const std::string& op = g.node(def).op.full();
  const auto& in = g.node(def).inputs;
  const auto less = [](const Expr& a, const Expr& b) { return Max(0, Min(1, b - a)); };
  if (op == "aten::__not__" || op == "aten::__and__.bool" || op == "aten::__or__.bool") {
    const std::optional<Expr> a = Indicator(g, in.front()), b = Indicator(g, in.back());
    if (!a || !b) return std::nullopt;
    return op == "aten::__not__" ? 1 - *a : op == "aten::__and__.bool" ? Min(*a, *b) : Max(*a, *b);
  }
  if (!absl::EndsWith(op, ".int") || in.size() != 2) return std::nullopt;
  const std::optional<Expr> a = GetIntExpr(g, in[0]), b = GetIntExpr(g, in[1]);
  if (!a || !b) return std::nullopt;
  if (op == "aten::lt.int") return less(*a, *b);
  if (op == "aten::gt.int") return less(*b, *a);
  if (op == "aten::le.int") return 1 - less(*b, *a);
  if (op == "aten::ge.int") return 1 - less(*a, *b);
  const Expr differ = Max(less(*a, *b), less(*b, *a));
  if (op == "aten::ne.int") return differ;
  return op == "aten::eq.int" ? std::optional<Expr>(1 - differ) : std::nullopt;
}

}  // namespace

absl::Status Pt2Numbers::ReadStatedItem(ValueId tensor, const OutputDecl& stated, NodeId anchor, Scope& scope) {
  const ValueId number = InsertSize(p_.g, anchor, *stated.expr);
  SMELT_ASSIGN_OR_RETURN(const ValueId holds,
                         p_.insert.Compute("aten::eq.Scalar", {tensor, number}, Type::Tensor(), anchor));
  const std::string message = absl::StrCat("the data give another number than ", stated.expr->ToString());
  const NodeId check = p_.g.InsertBefore(anchor, OpName::Get("aten::_assert_async.msg"),
                                         {holds, InsertConstant(p_.g, anchor, message)}, {});
  p_.insert.SetSource(check);
  return p_.results.Define(stated, number, scope);
}

absl::StatusOr<ValueId> Pt2Numbers::OneIf(ValueId b, NodeId anchor) {
  if (const auto c = GetConstant(p_.g, b); c && std::holds_alternative<bool>(*c))
    return p_.insert.Constant(anchor, static_cast<int64_t>(std::get<bool>(*c)), Type::Int());
  if (const std::optional<Expr> e = Indicator(p_.g, b); e && !e->IsPoison()) return InsertSize(p_.g, anchor, *e);
  const NodeId def = p_.g.value(b).def;
  if (p_.g.IsParam(def) || p_.g.node(def).op != "aten::item")
    return p_.insert.Compute("aten::Int.bool", {b}, Type(), anchor);
  // The number is read at the place of the bool: the tensor may be written later.
  anchor = p_.g.node(def).next;
  const ValueId none = p_.insert.Constant(anchor, std::monostate(), Type::None()),
                no = p_.insert.Constant(anchor, false, Type::Bool());
  SMELT_ASSIGN_OR_RETURN(
      const ValueId number,
      p_.insert.Compute("aten::_to_copy",
                        {p_.g.node(def).inputs[0], p_.insert.Constant(anchor, ScalarTypeOf(DType::kInt64), Type::Int()),
                         none, none, none, no, none},
                        Type(), anchor));
  SMELT_ASSIGN_OR_RETURN(const ValueId one_if, p_.insert.Compute("aten::item", {number}, Type(), anchor));
  p_.g.SetType(one_if, Type::Int());
  const std::string symbol = absl::StrCat("u_bool", num_bools_read_++);
  p_.g.symbols.Set(symbol, {.min = 0, .max = 1});
  p_.g.SetExpr(one_if, Expr::Symbol(symbol));
  return one_if;
}

absl::Status Pt2Numbers::ReadSymIte(const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope) {
  std::vector<ValueId> args;
  for (size_t i = 0; i < 3; ++i) {
    SMELT_ASSIGN_OR_RETURN(const Json* arg, Operand(inputs, i));
    SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(*arg, scope, anchor, Type()));
    if (p_.g.value(v).type.kind() != (i == 0 ? TypeKind::kBool : TypeKind::kInt))
      return absl::UnimplementedError("torch.sym_ite of other than a bool and two integers");
    args.push_back(v);
  }
  if (outputs.size() != 1) return absl::InvalidArgumentError("torch.sym_ite has one output");
  SMELT_ASSIGN_OR_RETURN(OutputDecl declared, p_.results.ReadOutput(outputs[0], scope));
  if (declared.type.kind() != TypeKind::kInt) return absl::InvalidArgumentError("torch.sym_ite of integers is one");
  // The archive may state a value that assertions behind it are there to check.
  declared.expr.reset();
  SMELT_ASSIGN_OR_RETURN(ValueId v, OneIf(args[0], anchor));
  SMELT_ASSIGN_OR_RETURN(const ValueId gap,
                         p_.insert.Compute("aten::sub.int", {args[1], args[2]}, Type::Int(), anchor));
  SMELT_ASSIGN_OR_RETURN(v, p_.insert.Compute("aten::mul.int", {v, gap}, Type::Int(), anchor));
  SMELT_ASSIGN_OR_RETURN(v, p_.insert.Compute("aten::add.int", {args[2], v}, Type::Int(), anchor));
  return p_.results.Define(declared, v, scope);
}

}  // namespace pt2_internal
}  // namespace smelt
