#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/frontend/pt2_reader.h"
#include "smelt/frontend/sympy_expr.h"

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

absl::Status Pt2Reader::ReadNodes(const Json& graph, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* nodes, Get(graph, "nodes"));
  if (!nodes->is_array()) return Expected("a list of nodes");
  return ReadNodesBetween(*nodes, 0, nodes->size(), block, scope, depth);
}

absl::Status Pt2Reader::ReadNodesBetween(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope,
                                         int depth) {
  for (size_t i = first; i < end; ++i) {
    const Json& node = nodes[i];
    absl::Status s;
    if (BeginsVmap(node)) {
      SMELT_ASSIGN_OR_RETURN(const size_t last, EndOfVmap(nodes, i));
      s = ReadVmap(nodes, i, last, block, scope, depth);
      i = last;
    } else {
      s = ReadNode(node, block, scope, depth);
    }
    if (!s.ok()) {
      const Json* name = Find(node, "name");
      std::string where = name != nullptr && name->is_string() ? name->get<std::string>() : absl::StrCat("#", i);
      auto source = ReadSource(node);
      if (source)
        absl::StrAppend(&where, "\" (", source->ToString(), ")");
      else
        absl::StrAppend(&where, "\"");
      return Annotate(s, absl::StrCat("node \"", where));
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<const SourceLocation> Pt2Reader::ReadSource(const Json& node) {
  const Json* metadata = Find(node, "metadata");
  const Json* trace = metadata == nullptr ? nullptr : Find(*metadata, "stack_trace");
  if (trace == nullptr || !trace->is_string()) return nullptr;
  const std::string& text = trace->get_ref<const std::string&>();
  auto [it, fresh] = sources_.try_emplace(text);
  if (!fresh) return it->second;
  SourceLocation best;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (!absl::ConsumePrefix(&line, "File \"")) continue;
    const size_t quote = line.find('"');
    if (quote == absl::string_view::npos) continue;
    const absl::string_view file = line.substr(0, quote);
    absl::string_view rest = line.substr(quote + 1);
    if (!absl::ConsumePrefix(&rest, ", line ")) continue;
    int number;
    if (!absl::SimpleAtoi(rest.substr(0, rest.find(',')), &number)) continue;
    const bool library = absl::StrContains(file, "<") || absl::StrContains(file, "site-packages/");
    if (library && !best.file.empty()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(file, '/');
    best.file = std::string(absl::StrContains(file, "site-packages/") ? file.substr(file.rfind("site-packages/") + 14)
                                                                      : parts.back());
    best.line = number;
    best.text = i + 1 < lines.size() ? std::string(absl::StripAsciiWhitespace(lines[i + 1])) : "";
  }
  if (!best.file.empty()) it->second = std::make_shared<const SourceLocation>(std::move(best));
  return it->second;
}

absl::StatusOr<OpName> Pt2Reader::TargetName(const std::string& target, const Json& inputs) {
  if (absl::StrContains(target, '\n')) return absl::InvalidArgumentError("a target with a line end in its name");
  if (absl::StartsWith(target, "torch.ops.")) {
    const std::vector<std::string> parts = absl::StrSplit(target.substr(10), '.');
    const auto named = [&](const std::string& full) {
      const OpName* declared = options_.operators == nullptr ? nullptr : options_.operators->Find(full);
      return declared == nullptr ? OpName::Get(full) : *declared;
    };
    if (parts.size() == 2) return named(absl::StrCat(parts[0], "::", parts[1]));
    if (parts.size() == 3) {
      return named(parts[2] == "default" ? absl::StrCat(parts[0], "::", parts[1])
                                         : absl::StrCat(parts[0], "::", parts[1], ".", parts[2]));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("target \"", target, "\": torch.ops.NAMESPACE.NAME.OVERLOAD expected"));
  }
  // Arithmetic on symbolic numbers. Floats among the operands choose the float overload.
  bool is_float = false;
  for (const Json& input : inputs) {
    const Json* arg = Find(input, "arg");
    if (arg != nullptr && (arg->contains("as_float") || arg->contains("as_sym_float"))) is_float = true;
  }
  static const auto* const kNames = new std::map<std::string, std::string>{
      {"_operator.add", "aten::add"},        {"_operator.sub", "aten::sub"},
      {"_operator.mul", "aten::mul"},        {"_operator.floordiv", "aten::floordiv"},
      {"_operator.mod", "aten::remainder"},  {"_operator.neg", "aten::neg"},
      {"_operator.eq", "aten::eq"},          {"_operator.ne", "aten::ne"},
      {"_operator.lt", "aten::lt"},          {"_operator.le", "aten::le"},
      {"_operator.gt", "aten::gt"},          {"_operator.ge", "aten::ge"},
      {"_operator.truediv", "aten::div"},    {"torch.sym_max", "prim::max"},
      {"torch.sym_min", "prim::min"},        {"torch.sym_not", "aten::__not__"},
      {"_operator.and_", "aten::__and__"},   {"_operator.or_", "aten::__or__"},
      {"_operator.pow", "aten::pow"},        {"math.floor", "aten::floor"},
      {"math.ceil", "aten::ceil"},           {"torch.sym_float", "aten::Float.Scalar"},
      {"torch.sym_int", "aten::Int.Scalar"}, {"math.trunc", "aten::Int.Scalar"}};
  std::string key = target;
  if (absl::StartsWith(key, "operator.")) key = "_" + key;
  if (absl::StartsWith(key, "torch._sym_")) key = "torch.sym_" + key.substr(11);
  auto it = kNames->find(key);
  if (it == kNames->end()) return absl::UnimplementedError(absl::StrCat("target \"", target, "\""));
  const std::string& name = it->second;
  if (absl::StrContains(name, ".")) return OpName::Get(name);
  if (name == "aten::__not__") return OpName::Get(name);
  if (name == "aten::__and__" || name == "aten::__or__") return OpName::Get(name + ".bool");
  return OpName::Get(name + (is_float ? ".float" : ".int"));
}

absl::Status Pt2Reader::ReadNode(const Json& node, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(std::string target, GetString(node, "target"));
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
  if (!inputs->is_array() || !outputs->is_array()) return Expected("lists \"inputs\" and \"outputs\"");
  current_source_ = ReadSource(node);
  if (target == "torch.ops.higher_order.with_effects") return ReadEffect(*inputs, *outputs, node, block, scope, depth);
  return ReadCall(target, *inputs, *outputs, node, block, scope, depth);
}

ValueId Pt2Reader::NumberAsTensor(ValueId v, NodeId anchor) {
  const TypeKind kind = g_->value(v).type.kind();
  if (kind != TypeKind::kInt && kind != TypeKind::kFloat && kind != TypeKind::kBool) return v;
  const DType t = kind == TypeKind::kInt ? DType::kInt64 : kind == TypeKind::kBool ? DType::kBool : DType::kFloat64;
  const ValueId none = Constant(anchor, std::monostate(), Type::None());
  const NodeId n =
      g_->InsertBefore(anchor, OpName::Get("aten::scalar_tensor"),
                       {v, Constant(anchor, static_cast<int64_t>(ScalarTypeOf(t)), Type::Int()), none, none, none},
                       {Type::Tensor(t, std::vector<Expr>(), std::vector<Expr>())});
  g_->SetSource(n, current_source_);
  return g_->node(n).outputs[0];
}

absl::Status Pt2Reader::ReadCall(const std::string& target, const Json& inputs, const Json& outputs, const Json& node,
                                 BlockId block, Scope& scope, int depth) {
  if (absl::StartsWith(target, "torch.ops.higher_order.")) {
    return ReadHigherOrder(target.substr(23), inputs, outputs, block, scope, depth);
  }
  if (target == "torch._functorch.predispatch.lazy_load_decompositions") return absl::OkStatus();  // for what traces
  if (target == "torch.ops.prims.fma.default") return ReadFma(inputs, outputs, block, scope);
  if (target == "torch.sym_ite") return ReadSymIte(inputs, outputs, block, scope);
  SMELT_ASSIGN_OR_RETURN(OpName op, TargetName(target, inputs));
  // These state what the exporter has checked already, the metadata of the values at hand, or are for readers of the
  // output.
  if (op.name() == "aten::_assert_tensor_metadata" || op.name() == "aten::sym_constrain_range" ||
      op.name() == "aten::sym_constrain_range_for_size" || op.name() == "aten::_print") {
    return absl::OkStatus();
  }
  const NodeId anchor = g_->block(block).return_node;
  std::vector<ValueId> args;
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) {
    // An operator of a user's own library keeps its name, so that it can be listed as unsupported.
    for (const Json& input : inputs) {
      SMELT_ASSIGN_OR_RETURN(const Json* arg, Get(input, "arg"));
      SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(*arg, scope, anchor, Type()));
      args.push_back(v);
    }
  } else {
    SMELT_RETURN_IF_ERROR(ReadArguments(*schema, inputs, scope, anchor, args));
  }
  if (op.name() == "aten::copy_" && args.size() > 1) args[1] = NumberAsTensor(args[1], anchor);
  if (autocast_) Autocast(op, anchor, args);
  if (op == "aten::item" && outputs.size() == 1) {
    SMELT_ASSIGN_OR_RETURN(const OutputDecl stated, ReadOutput(outputs[0], scope));
    if (stated.expr && !DependsOnData(*stated.expr)) return ReadStatedItem(args[0], stated, anchor, scope);
  }
  SMELT_RETURN_IF_ERROR(AddNode(op, args, outputs, anchor, scope, schema));
  if (depth == 0 && IsAssignment(node, op, args)) assignments_.push_back(g_->block(block).last);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Pt2Reader::Compute(const char* op, std::vector<ValueId> args, Type type, NodeId anchor) {
  const NodeId n = g_->InsertBefore(anchor, OpName::Get(op), args, {std::move(type)});
  g_->SetSource(n, current_source_);
  SMELT_RETURN_IF_ERROR(InferNode(*g_, n));
  return g_->node(n).outputs[0];
}

absl::Status Pt2Reader::ReadFma(const Json& inputs, const Json& outputs, BlockId block, Scope& scope) {
  const NodeId anchor = g_->block(block).return_node;
  std::vector<ValueId> args;
  for (size_t i = 0; i < 3; ++i) {
    SMELT_ASSIGN_OR_RETURN(const Json* arg, Operand(inputs, i));
    SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(*arg, scope, anchor, Type()));
    args.push_back(v);
  }
  SMELT_ASSIGN_OR_RETURN(const ValueId product,
                         Compute("aten::mul.Tensor", {args[0], args[1]}, g_->value(args[0]).type, anchor));
  const OpName sum = OpName::Get("aten::add.Tensor");
  return AddNode(sum, {product, args[2], Constant(anchor, int64_t{1}, Type::Int())}, outputs, anchor, scope,
                 FindSchema(sum));
}

absl::Status Pt2Reader::ReadStatedItem(ValueId tensor, const OutputDecl& stated, NodeId anchor, Scope& scope) {
  const ValueId number = InsertSize(*g_, anchor, *stated.expr);
  SMELT_ASSIGN_OR_RETURN(const ValueId holds, Compute("aten::eq.Scalar", {tensor, number}, Type::Tensor(), anchor));
  const std::string message = absl::StrCat("the data give another number than ", stated.expr->ToString());
  const NodeId check = g_->InsertBefore(anchor, OpName::Get("aten::_assert_async.msg"),
                                        {holds, InsertConstant(*g_, anchor, message)}, {});
  g_->SetSource(check, current_source_);
  return Define(stated, number, scope);
}

absl::StatusOr<ValueId> Pt2Reader::OneIf(ValueId b, NodeId anchor) {
  if (const auto c = GetConstant(*g_, b); c && std::holds_alternative<bool>(*c))
    return Constant(anchor, static_cast<int64_t>(std::get<bool>(*c)), Type::Int());
  if (const std::optional<Expr> e = Indicator(*g_, b); e && !e->IsPoison()) return InsertSize(*g_, anchor, *e);
  const NodeId def = g_->value(b).def;
  if (g_->IsParam(def) || g_->node(def).op != "aten::item") return Compute("aten::Int.bool", {b}, Type(), anchor);
  // The number is read at the place of the bool: the tensor may be written later.
  anchor = g_->node(def).next;
  const ValueId none = Constant(anchor, std::monostate(), Type::None()), no = Constant(anchor, false, Type::Bool());
  SMELT_ASSIGN_OR_RETURN(const ValueId number,
                         Compute("aten::_to_copy",
                                 {g_->node(def).inputs[0], Constant(anchor, ScalarTypeOf(DType::kInt64), Type::Int()),
                                  none, none, none, no, none},
                                 Type(), anchor));
  SMELT_ASSIGN_OR_RETURN(const ValueId one_if, Compute("aten::item", {number}, Type(), anchor));
  g_->SetType(one_if, Type::Int());
  const std::string symbol = absl::StrCat("u_bool", num_bools_read_++);
  g_->symbols.Set(symbol, {.min = 0, .max = 1});
  g_->SetExpr(one_if, Expr::Symbol(symbol));
  return one_if;
}

absl::Status Pt2Reader::ReadSymIte(const Json& inputs, const Json& outputs, BlockId block, Scope& scope) {
  const NodeId anchor = g_->block(block).return_node;
  std::vector<ValueId> args;
  for (size_t i = 0; i < 3; ++i) {
    SMELT_ASSIGN_OR_RETURN(const Json* arg, Operand(inputs, i));
    SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(*arg, scope, anchor, Type()));
    if (g_->value(v).type.kind() != (i == 0 ? TypeKind::kBool : TypeKind::kInt))
      return absl::UnimplementedError("torch.sym_ite of other than a bool and two integers");
    args.push_back(v);
  }
  if (outputs.size() != 1) return absl::InvalidArgumentError("torch.sym_ite has one output");
  SMELT_ASSIGN_OR_RETURN(OutputDecl declared, ReadOutput(outputs[0], scope));
  if (declared.type.kind() != TypeKind::kInt) return absl::InvalidArgumentError("torch.sym_ite of integers is one");
  // The archive may state a value that assertions behind it are there to check.
  declared.expr.reset();
  SMELT_ASSIGN_OR_RETURN(ValueId v, OneIf(args[0], anchor));
  SMELT_ASSIGN_OR_RETURN(const ValueId gap, Compute("aten::sub.int", {args[1], args[2]}, Type::Int(), anchor));
  SMELT_ASSIGN_OR_RETURN(v, Compute("aten::mul.int", {v, gap}, Type::Int(), anchor));
  SMELT_ASSIGN_OR_RETURN(v, Compute("aten::add.int", {args[2], v}, Type::Int(), anchor));
  return Define(declared, v, scope);
}

absl::StatusOr<Pt2Reader::OutputDecl> Pt2Reader::ReadOutput(const Json& output, const Scope& scope) {
  OutputDecl d;
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(output));
  if (u.first == "as_tensor" || u.first == "as_optional_tensor") {
    if (u.first == "as_optional_tensor") return ReadOutput(*u.second, scope);
    SMELT_ASSIGN_OR_RETURN(d.name, GetString(*u.second, "name"));
    SMELT_ASSIGN_OR_RETURN(d.type, TensorTypeOf(scope, d.name));
  } else if (u.first == "as_tensors" || u.first == "as_optional_tensors") {
    if (!u.second->is_array()) return Expected("a list of tensors");
    d.is_list = true;
    for (const Json& e : *u.second) {
      OutputDecl element;
      if (u.first == "as_tensors") {
        SMELT_ASSIGN_OR_RETURN(element.name, GetString(e, "name"));
        SMELT_ASSIGN_OR_RETURN(element.type, TensorTypeOf(scope, element.name));
      } else {
        SMELT_ASSIGN_OR_RETURN(element, ReadOutput(e, scope));
      }
      d.elements.push_back(std::move(element));
    }
    d.type = Type::List(Type::Tensor());
  } else if (u.first == "as_sym_int" || u.first == "as_sym_float" || u.first == "as_sym_bool") {
    SMELT_ASSIGN_OR_RETURN(d.name, GetString(*u.second, "as_name"));
    d.type = u.first == "as_sym_int" ? Type::Int() : u.first == "as_sym_float" ? Type::Float() : Type::Bool();
    if (u.first == "as_sym_int") {
      SMELT_ASSIGN_OR_RETURN(d.expr, SymIntExpr(scope, d.name));
    }
  } else if (u.first == "as_none") {
    d.type = Type::None();
  } else {
    return absl::UnimplementedError(absl::StrCat("an output of kind ", u.first));
  }
  return d;
}

absl::Status Pt2Reader::Bind(const std::string& name, ValueId v, Scope& scope) {
  return name.empty() || scope.values.emplace(name, v).second
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("two values are named \"", name, "\""));
}

absl::Status Pt2Reader::Define(const OutputDecl& d, ValueId v, Scope& scope) {
  if (d.name.empty()) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(Bind(d.name, v, scope));
  g_->SetName(v, d.name);
  if (d.expr) g_->SetExpr(v, d.expr);
  MeetSymbols(g_->value(v).type, d.expr);
  return absl::OkStatus();
}

absl::Status Pt2Reader::AddNode(OpName op, const std::vector<ValueId>& args, const Json& outputs, NodeId anchor,
                                Scope& scope, const FunctionSchema* schema) {
  std::vector<OutputDecl> declared;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto d = ReadOutput(outputs[i], scope);
    if (!d.ok()) return Annotate(d.status(), absl::StrCat("outputs[", i, "]"));
    declared.push_back(*std::move(d));
  }
  // An operator that returns a tuple has as many declared outputs; one that returns nothing may still be listed as
  // as_none.
  if (schema != nullptr && schema->returns.empty()) declared.clear();
  if (schema != nullptr) {
    if (declared.size() > schema->returns.size() && schema->returns.size() == 1 &&
        schema->returns[0].type.kind() == TypeKind::kList) {
      OutputDecl list;
      list.is_list = true;
      list.type = Type::List(Type::Tensor());
      list.elements = std::move(declared);
      declared = {std::move(list)};
    }
    if (declared.size() > schema->returns.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(declared.size(), " outputs, but ", op.full(), " has ", schema->returns.size()));
    }
  }
  std::vector<Type> types;
  for (const OutputDecl& d : declared) types.push_back(d.type);
  if (schema != nullptr) {
    for (size_t k = declared.size(); k < schema->returns.size(); ++k) types.push_back(schema->returns[k].type);
  }
  NodeId n = g_->InsertBefore(anchor, op, args, types);
  g_->SetSource(n, current_source_);
  if (op == "aten::slice.Tensor" && declared.size() == 1 && declared[0].type.IsTensor() &&
      ComputeNewSizes(n, declared[0].type)) {
    SMELT_ASSIGN_OR_RETURN(declared[0], ReadOutput(outputs[0], scope));
    g_->SetType(g_->node(n).outputs[0], declared[0].type);
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const ValueId v = g_->node(n).outputs[i];
    if (!declared[i].is_list) {
      SMELT_RETURN_IF_ERROR(Define(declared[i], v, scope));
      continue;
    }
    std::vector<Type> elements;
    for (const OutputDecl& d : declared[i].elements) elements.push_back(d.type);
    NodeId unpack = g_->InsertBefore(anchor, OpName::Get("prim::ListUnpack"), {v}, elements);
    g_->SetSource(unpack, current_source_);
    for (size_t k = 0; k < elements.size(); ++k) {
      SMELT_RETURN_IF_ERROR(Define(declared[i].elements[k], g_->node(unpack).outputs[k], scope));
    }
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
