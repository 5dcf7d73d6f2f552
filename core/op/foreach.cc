// Decomposes aten::_foreach_*, which apply an operator to every element of a list.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

// Returns the operator for one element; `scalar` says that the other operand is a number.
absl::StatusOr<std::string> ElementOp(const OpCall& call, const std::string& base, bool inplace, bool scalar) {
  const std::string dash = inplace ? "_" : "";
  if (base == "add" || base == "sub" || base == "mul" || base == "div")
    return absl::StrCat("aten::", base, dash, scalar ? ".Scalar" : ".Tensor");
  if (base == "clamp_min" || base == "clamp_max") return absl::StrCat("aten::", base, dash, scalar ? "" : ".Tensor");
  if (base == "maximum" || base == "minimum") {
    // There is no maximum_, and no maximum with a number: clamp_min is the same.
    const char* clamp = base == "maximum" ? "clamp_min" : "clamp_max";
    if (!scalar && !inplace) return absl::StrCat("aten::", base);
    return absl::StrCat("aten::", clamp, dash, scalar ? "" : ".Tensor");
  }
  if (base == "pow") {
    if (call.op().overload() == "ScalarAndTensor") return std::string("aten::pow.Scalar");
    if (inplace) return std::string(scalar ? "aten::pow_.Scalar" : "aten::pow_.Tensor");
    return std::string(scalar ? "aten::pow.Tensor_Scalar" : "aten::pow.Tensor_Tensor");
  }
  if (base == "lerp") return absl::StrCat("aten::lerp", dash, scalar ? ".Scalar" : ".Tensor");
  if (base == "norm") return std::string("aten::linalg_vector_norm");
  return absl::StrCat("aten::", base, dash);
}

// Returns argument `a` for element i.
absl::StatusOr<OpArg> Element(const OpCall& call, const OpArg& a, size_t i, size_t n) {
  auto checked = [&](size_t size) -> absl::Status {
    return size == n ? absl::OkStatus() : call.Error(absl::StrCat("lists of ", n, " and ", size, " elements"));
  };
  switch (a.kind) {
    case OpArg::Kind::kTensorList:
      SMELT_RETURN_IF_ERROR(checked(a.elements.size()));
      return a.elements[i];
    case OpArg::Kind::kFloatList:
      if (!a.known) break;
      SMELT_RETURN_IF_ERROR(checked(a.floats.size()));
      return OpArg::Float(a.floats[i]);
    case OpArg::Kind::kIntList:
      if (!a.known) break;
      SMELT_RETURN_IF_ERROR(checked(a.ints.size()));
      return OpArg::Int(a.ints[i]);
    case OpArg::Kind::kBoolList:
      if (!a.known) break;
      SMELT_RETURN_IF_ERROR(checked(a.bools.size()));
      return OpArg::Bool(a.bools[i]);
    default:
      return a;
  }
  return call.Unsupported("a list whose elements are not known");
}

absl::StatusOr<std::vector<ValueId>> Foreach(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<OpCall> calls, ForeachCalls(call));
  std::vector<ValueId> results;
  for (const OpCall& c : calls) {
    std::vector<ValueId> args;
    for (const OpArg& a : c.args()) args.push_back(ValueOf(e, a));
    results.push_back(e.Op(c.op().full(), std::move(args)));
  }
  SMELT_RETURN_IF_ERROR(e.status());
  const FunctionSchema* schema = FindSchema(call.op());
  // The in-place forms return nothing, but the result of a rule must not be empty.
  if (schema->returns.empty()) return std::vector<ValueId>{ValueId()};
  return std::vector<ValueId>{e.List(results)};
}

}  // namespace

absl::StatusOr<std::vector<OpCall>> ForeachCalls(const OpCall& call) {
  std::string base = call.op().name();
  if (!absl::StartsWith(base, "aten::_foreach_")) return call.Unsupported("is not a _foreach_ operator");
  base = base.substr(15);
  const bool inplace = base.back() == '_';
  if (inplace) base.pop_back();
  if (call.op().overload() == "Tensor" && (base == "addcmul" || base == "addcdiv"))
    return call.Unsupported("scalars in a tensor");

  size_t n = 0;
  bool scalar = false;
  for (const OpArg& a : call.args()) {
    if (a.kind == OpArg::Kind::kTensorList) n = std::max(n, a.elements.size());
  }
  const std::string& o = call.op().overload();
  scalar = o == "Scalar" || o == "ScalarList";
  SMELT_ASSIGN_OR_RETURN(std::string name, ElementOp(call, base, inplace, scalar));
  const OpName op = OpName::Get(name);
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) return call.Unsupported(absl::StrCat("there is no ", name));

  std::vector<OpCall> calls;
  for (size_t i = 0; i < n; ++i) {
    std::vector<OpArg> args;
    for (const OpArg& a : call.args()) {
      SMELT_ASSIGN_OR_RETURN(OpArg x, Element(call, a, i, n));
      if (args.size() < schema->arguments.size()) args.push_back(std::move(x));
    }
    if (base == "norm") {  // (self, ord, dtype): dim and keepdim between
      const OpArg dtype = args.size() > 2 ? args[2] : OpArg();
      args.resize(2);
      args.push_back(OpArg::None());
      args.push_back(OpArg::Bool(false));
      args.push_back(dtype);
    }
    calls.emplace_back(op, std::move(args));
  }
  return calls;
}

ValueId ValueOf(Emit& e, const OpArg& a) {
  if (a.value != ValueId()) return a.value;
  switch (a.kind) {
    case OpArg::Kind::kInt:
      return e.Size(a.expr);
    case OpArg::Kind::kFloat:
      return e.Const(a.number);
    case OpArg::Kind::kBool:
      return e.Const(a.number != 0);
    case OpArg::Kind::kComplex:
      return e.Const(a.complex);
    case OpArg::Kind::kString:
      return e.Const(a.string);
    case OpArg::Kind::kIntList:
      return e.Ints(a.ints);
    case OpArg::Kind::kFloatList:
      return e.Const(a.floats);
    case OpArg::Kind::kBoolList:
      return e.Const(a.bools);
    case OpArg::Kind::kTensorList: {
      std::vector<ValueId> elements;
      for (const OpArg& x : a.elements) elements.push_back(ValueOf(e, x));
      return e.List(elements);
    }
    default:
      return e.None();
  }
}

void AddForeachRules(DecompositionTable& table) {
  for (absl::string_view name : AllSchemaNames()) {
    if (absl::StartsWith(name, "aten::_foreach_") && !absl::StrContains(name, "out"))
      table[std::string(name)] = Foreach;
  }
}

}  // namespace smelt
