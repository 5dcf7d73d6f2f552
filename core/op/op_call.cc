#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"

namespace smelt {

// Declared in core/base/recover.h, which is not included here so that changing it does not recompile everything that
// uses operators.
void WorksOnNode(absl::string_view op, absl::string_view source);

namespace {

OpArg FromConstant(const ConstantValue& v) {
  struct Visitor {
    OpArg operator()(std::monostate) const { return OpArg(); }
    OpArg operator()(int64_t i) const { return OpArg::Int(i); }
    OpArg operator()(double d) const { return OpArg::Float(d); }
    OpArg operator()(bool b) const { return OpArg::Bool(b); }
    OpArg operator()(const std::string& s) const { return OpArg::String(s); }
    OpArg operator()(const std::vector<int64_t>& v) const { return OpArg::Ints(std::vector<Expr>(v.begin(), v.end())); }
    OpArg operator()(const std::vector<double>& v) const {
      OpArg a;
      a.kind = OpArg::Kind::kFloatList;
      a.known = true;
      a.floats = v;
      return a;
    }
    OpArg operator()(const std::vector<bool>& v) const {
      OpArg a;
      a.kind = OpArg::Kind::kBoolList;
      a.known = true;
      a.bools = v;
      return a;
    }
    OpArg operator()(const Tensor& t) const {
      TensorType type;
      type.dtype = t.dtype();
      type.sizes = std::vector<Expr>(t.sizes().begin(), t.sizes().end());
      type.strides = std::vector<Expr>(t.strides().begin(), t.strides().end());
      return OpArg::Of(type);
    }
    OpArg operator()(std::complex<double> c) const { return OpArg::Complex(c); }
  };
  return std::visit(Visitor(), v);
}

OpArg FromType(const Type& t) {
  OpArg a;
  switch (t.kind()) {
    case TypeKind::kTensor:
      return OpArg::Of(t.tensor());
    case TypeKind::kInt:
      a.kind = OpArg::Kind::kInt;
      break;
    case TypeKind::kFloat:
    case TypeKind::kNumber:
      a.kind = OpArg::Kind::kFloat;
      break;
    case TypeKind::kBool:
      a.kind = OpArg::Kind::kBool;
      break;
    case TypeKind::kComplex:
      a.kind = OpArg::Kind::kComplex;
      break;
    case TypeKind::kString:
      a.kind = OpArg::Kind::kString;
      break;
    case TypeKind::kNone:
      break;
    case TypeKind::kOptional:
      return FromType(t.element());
    case TypeKind::kList: {
      const TypeKind e = t.element().kind();
      a.kind = e == TypeKind::kInt                                  ? OpArg::Kind::kIntList
               : e == TypeKind::kFloat                              ? OpArg::Kind::kFloatList
               : e == TypeKind::kBool                               ? OpArg::Kind::kBoolList
               : e == TypeKind::kTensor || e == TypeKind::kOptional ? OpArg::Kind::kTensorList
                                                                    : OpArg::Kind::kOther;
      break;
    }
    default:
      a.kind = OpArg::Kind::kOther;
  }
  return a;
}

OpArg FromValue(const Graph& g, ValueId v) {
  const Type& type = g.value(v).type;
  std::optional<ConstantValue> c = GetConstant(g, v);
  OpArg a = c ? FromConstant(*c) : FromType(type);
  if (c) {
    if (type.IsTensor() && a.IsTensor()) a.tensor = type.tensor().IsComplete() ? type.tensor() : a.tensor;
    // An empty list of constants may have any element type.
    if (a.kind == OpArg::Kind::kIntList && a.ints.empty() && type.kind() == TypeKind::kList &&
        (type.element().kind() == TypeKind::kTensor || type.element().kind() == TypeKind::kOptional)) {
      a.kind = OpArg::Kind::kTensorList;
    }
  } else if (std::optional<std::vector<ValueId>> elements = GetListElements(g, v)) {
    a.element_values = *elements;
    if (a.kind == OpArg::Kind::kTensorList) a.known = true;
    for (ValueId e : *elements) a.elements.push_back(FromValue(g, e));
    auto all = [&](OpArg::Kind k) {
      return std::all_of(a.elements.begin(), a.elements.end(), [k](const OpArg& e) { return e.kind == k && e.known; });
    };
    if (a.kind == OpArg::Kind::kTensorList && !a.elements.empty() && all(OpArg::Kind::kInt))
      a.kind = OpArg::Kind::kIntList;
    if (a.kind == OpArg::Kind::kIntList && all(OpArg::Kind::kInt)) {
      a.known = true;
      for (const OpArg& e : a.elements) a.ints.push_back(e.expr);
    } else if (a.kind == OpArg::Kind::kFloatList &&
               std::all_of(a.elements.begin(), a.elements.end(),
                           [](const OpArg& e) { return e.IsScalar() && e.known; })) {
      a.known = true;
      for (const OpArg& e : a.elements) a.floats.push_back(e.number);
    } else if (a.kind == OpArg::Kind::kBoolList && all(OpArg::Kind::kBool)) {
      a.known = true;
      for (const OpArg& e : a.elements) a.bools.push_back(e.number != 0);
    }
  } else {
    if (a.kind == OpArg::Kind::kInt) {
      if (std::optional<Expr> e = GetIntExpr(g, v)) a = OpArg::Int(*e);
    } else if (a.kind == OpArg::Kind::kIntList) {
      if (std::optional<std::vector<Expr>> e = GetIntListExpr(g, v)) a = OpArg::Ints(*e);
    }
  }
  a.value = v;
  return a;
}

}  // namespace

OpArg OpArg::Int(Expr e) {
  OpArg a;
  a.kind = Kind::kInt;
  a.known = true;
  if (e.IsConstant()) a.number = static_cast<double>(*e.Constant());
  a.expr = std::move(e);
  return a;
}
OpArg OpArg::Float(double v) {
  OpArg a;
  a.kind = Kind::kFloat;
  a.known = true;
  a.number = v;
  return a;
}
OpArg OpArg::Bool(bool v) {
  OpArg a;
  a.kind = Kind::kBool;
  a.known = true;
  a.number = v;
  a.expr = Expr(v);
  return a;
}
OpArg OpArg::Complex(std::complex<double> v) {
  OpArg a;
  a.kind = Kind::kComplex;
  a.known = true;
  a.complex = v;
  return a;
}
OpArg OpArg::String(std::string v) {
  OpArg a;
  a.kind = Kind::kString;
  a.known = true;
  a.string = std::move(v);
  return a;
}
OpArg OpArg::Ints(std::vector<Expr> v) {
  OpArg a;
  a.kind = Kind::kIntList;
  a.known = true;
  a.ints = std::move(v);
  return a;
}
OpArg OpArg::Of(TensorType t, ValueId v) {
  OpArg a;
  a.kind = Kind::kTensor;
  a.tensor = std::move(t);
  a.value = v;
  return a;
}
OpArg OpArg::List(std::vector<OpArg> elements) {
  OpArg a;
  a.kind = Kind::kTensorList;
  a.elements = std::move(elements);
  return a;
}

OpCall::OpCall(OpName op, std::vector<OpArg> args) : op_(op), args_(std::move(args)) {
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) return;
  for (size_t i = args_.size(); i < schema->arguments.size(); ++i) {
    const Argument& formal = schema->arguments[i];
    args_.push_back(formal.default_value ? FromConstant(*formal.default_value) : OpArg());
  }
  for (size_t i = 0; i < args_.size() && i < schema->arguments.size(); ++i) {
    const Argument& formal = schema->arguments[i];
    const Type& type = formal.type.kind() == TypeKind::kOptional ? formal.type.element() : formal.type;
    OpArg& a = args_[i];
    if (type.kind() == TypeKind::kFloat && a.known && (a.kind == OpArg::Kind::kInt || a.kind == OpArg::Kind::kBool)) {
      if (a.expr.IsConstant()) {
        const ValueId v = a.value;
        a = OpArg::Float(a.number);
        a.value = v;
      }
    }
    if (type.kind() == TypeKind::kList) {
      const TypeKind e = type.element().kind();
      if (e == TypeKind::kTensor || e == TypeKind::kOptional) {
        if (a.kind == OpArg::Kind::kIntList && a.ints.empty()) a.kind = OpArg::Kind::kTensorList;
        if (a.kind == OpArg::Kind::kTensor) {  // a list of one
          OpArg list = OpArg::List({a});
          list.value = a.value;
          a = list;
        }
      } else if (e == TypeKind::kInt && a.kind == OpArg::Kind::kInt && a.known) {
        const ValueId v = a.value;
        a = OpArg::Ints({a.expr});
        a.value = v;
      } else if ((e == TypeKind::kFloat || e == TypeKind::kNumber) && a.kind == OpArg::Kind::kIntList && a.known &&
                 e == TypeKind::kFloat) {
        a.kind = OpArg::Kind::kFloatList;
        for (const Expr& x : a.ints) a.floats.push_back(x.IsConstant() ? static_cast<double>(*x.Constant()) : 0);
      }
    }
  }
}

absl::StatusOr<OpCall> OpCall::Of(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  std::vector<OpArg> args;
  args.reserve(node.inputs.size());
  for (ValueId v : node.inputs) args.push_back(FromValue(g, v));
  const FunctionSchema* schema = FindSchema(node.op);
  std::string source = node.source != nullptr ? node.source->ToString() : "";
  WorksOnNode(node.op.full(), source);
  if (schema != nullptr && !schema->is_vararg && node.inputs.size() > schema->arguments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.op.full(), source.empty() ? "" : absl::StrCat(" (", source, ")"), ": ", node.inputs.size(),
                     " arguments, the schema has ", schema->arguments.size()));
  }
  if (schema != nullptr && static_cast<int>(node.inputs.size()) < schema->NumRequired()) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.op.full(), source.empty() ? "" : absl::StrCat(" (", source, ")"), ": ", node.inputs.size(),
                     " arguments, the schema needs ", schema->NumRequired()));
  }
  OpCall call(node.op, std::move(args));
  call.source_ = std::move(source);
  return call;
}

const OpArg& OpCall::arg(int i) const {
  static const OpArg* const kNone = new OpArg();
  return i >= 0 && i < static_cast<int>(args_.size()) ? args_[i] : *kNone;
}

int OpCall::IndexOf(absl::string_view name) const {
  const FunctionSchema* schema = FindSchema(op_);
  return schema == nullptr ? -1 : schema->FindArgument(name);
}

const OpArg* OpCall::Find(absl::string_view name) const {
  const int i = IndexOf(name);
  return i >= 0 && i < static_cast<int>(args_.size()) ? &args_[i] : nullptr;
}

bool OpCall::IsNone(absl::string_view name) const {
  const OpArg* a = Find(name);
  return a == nullptr || a->IsNone();
}

absl::Status OpCall::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(op_.full(), source_.empty() ? "" : absl::StrCat(" (", source_, ")"), ": ", message));
}

absl::Status OpCall::Unsupported(absl::string_view message) const {
  return absl::UnimplementedError(
      absl::StrCat(op_.full(), source_.empty() ? "" : absl::StrCat(" (", source_, ")"), ": ", message));
}

absl::StatusOr<TensorType> OpCall::GetTensor(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a == nullptr || !a->IsTensor()) return Error(absl::StrCat("argument \"", name, "\" is not a tensor"));
  if (!a->tensor.dtype || !a->tensor.sizes)
    return Error(absl::StrCat("argument \"", name, "\": its dtype or sizes are not known"));
  return a->tensor;
}

absl::StatusOr<Expr> OpCall::GetExpr(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a == nullptr || !a->known || (a->kind != OpArg::Kind::kInt && a->kind != OpArg::Kind::kBool)) {
    return Error(absl::StrCat("argument \"", name, "\" is not an integer known from sizes"));
  }
  return a->expr;
}

absl::StatusOr<int64_t> OpCall::GetInt(absl::string_view name) const {
  SMELT_ASSIGN_OR_RETURN(Expr e, GetExpr(name));
  if (!e.IsConstant())
    return Unsupported(absl::StrCat("argument \"", name, "\" is ", e.ToString(), ", not a constant"));
  return *e.Constant();
}

absl::StatusOr<int64_t> OpCall::GetIntOr(absl::string_view name, int64_t d) const {
  return IsNone(name) ? d : GetInt(name);
}

absl::StatusOr<double> OpCall::GetDouble(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a == nullptr || !a->known || !a->IsScalar() || a->kind == OpArg::Kind::kComplex ||
      (a->kind == OpArg::Kind::kInt && !a->expr.IsConstant())) {
    return Unsupported(absl::StrCat("argument \"", name, "\" is not a constant number"));
  }
  return a->number;
}

absl::StatusOr<double> OpCall::GetDoubleOr(absl::string_view name, double d) const {
  return IsNone(name) ? d : GetDouble(name);
}

absl::StatusOr<bool> OpCall::GetBool(absl::string_view name) const {
  SMELT_ASSIGN_OR_RETURN(double v, GetDouble(name));
  return v != 0;
}

absl::StatusOr<bool> OpCall::GetBoolOr(absl::string_view name, bool d) const {
  return IsNone(name) ? d : GetBool(name);
}

absl::StatusOr<std::vector<Expr>> OpCall::GetExprs(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a != nullptr && a->known && a->kind == OpArg::Kind::kIntList) return a->ints;
  if (a != nullptr && a->known && a->kind == OpArg::Kind::kInt) return std::vector<Expr>{a->expr};
  return Error(absl::StrCat("argument \"", name, "\" is not a list of integers known from sizes"));
}

absl::StatusOr<std::vector<int64_t>> OpCall::GetInts(absl::string_view name) const {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> e, GetExprs(name));
  std::vector<int64_t> r;
  for (const Expr& x : e) {
    if (!x.IsConstant())
      return Unsupported(absl::StrCat("argument \"", name, "\" holds ", x.ToString(), ", not a constant"));
    r.push_back(*x.Constant());
  }
  return r;
}

std::optional<DType> OpCall::GetDType(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a == nullptr || a->kind != OpArg::Kind::kInt || !a->known || !a->expr.IsConstant()) return std::nullopt;
  return DTypeFromScalarType(*a->expr.Constant());
}

absl::StatusOr<std::string> OpCall::GetString(absl::string_view name) const {
  const OpArg* a = Find(name);
  if (a == nullptr || a->kind != OpArg::Kind::kString)
    return Error(absl::StrCat("argument \"", name, "\" is not a string"));
  return a->string;
}

}  // namespace smelt
