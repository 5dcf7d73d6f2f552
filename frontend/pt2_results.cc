#include "smelt/frontend/pt2_results.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace pt2_internal {

absl::StatusOr<OutputDecl> Pt2Results::ReadOutput(const Json& output, const Scope& scope) {
  OutputDecl d;
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(output));
  if (u.first == "as_tensor" || u.first == "as_optional_tensor") {
    if (u.first == "as_optional_tensor") return ReadOutput(*u.second, scope);
    SMELT_ASSIGN_OR_RETURN(d.name, GetString(*u.second, "name"));
    SMELT_ASSIGN_OR_RETURN(d.type, types_.TensorTypeOf(scope, d.name));
  } else if (u.first == "as_tensors" || u.first == "as_optional_tensors") {
    if (!u.second->is_array()) return Expected("a list of tensors");
    d.is_list = true;
    for (const Json& e : *u.second) {
      OutputDecl element;
      if (u.first == "as_tensors") {
        SMELT_ASSIGN_OR_RETURN(element.name, GetString(e, "name"));
        SMELT_ASSIGN_OR_RETURN(element.type, types_.TensorTypeOf(scope, element.name));
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
      SMELT_ASSIGN_OR_RETURN(d.expr, types_.SymIntExpr(scope, d.name));
    }
  } else if (u.first == "as_none") {
    d.type = Type::None();
  } else {
    return absl::UnimplementedError(absl::StrCat("an output of kind ", u.first));
  }
  return d;
}

absl::StatusOr<std::vector<OutputDecl>> Pt2Results::ReadOutputsSpread(const Json& outputs, const Scope& scope) {
  std::vector<OutputDecl> declared;
  for (const Json& o : outputs) {
    SMELT_ASSIGN_OR_RETURN(OutputDecl d, ReadOutput(o, scope));
    if (d.is_list) {
      for (OutputDecl& e : d.elements) declared.push_back(std::move(e));
    } else {
      declared.push_back(std::move(d));
    }
  }
  return declared;
}

absl::Status Pt2Results::Bind(const std::string& name, ValueId v, Scope& scope) {
  return name.empty() || scope.values.emplace(name, v).second
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("two values are named \"", name, "\""));
}

absl::Status Pt2Results::Define(const OutputDecl& d, ValueId v, Scope& scope) {
  if (d.name.empty()) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(Bind(d.name, v, scope));
  g_.SetName(v, d.name);
  if (d.expr) g_.SetExpr(v, d.expr);
  types_.MeetSymbols(g_.value(v).type, d.expr);
  return absl::OkStatus();
}

absl::Status Pt2Results::AddNode(OpName op, const std::vector<ValueId>& args, const Json& outputs, NodeId anchor,
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
  NodeId n = g_.InsertBefore(anchor, op, args, types);
  insert_.SetSource(n);
  if (op == "aten::slice.Tensor" && declared.size() == 1 && declared[0].type.IsTensor() &&
      types_.ComputeNewSizes(n, declared[0].type)) {
    SMELT_ASSIGN_OR_RETURN(declared[0], ReadOutput(outputs[0], scope));
    g_.SetType(g_.node(n).outputs[0], declared[0].type);
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const ValueId v = g_.node(n).outputs[i];
    if (!declared[i].is_list) {
      SMELT_RETURN_IF_ERROR(Define(declared[i], v, scope));
      continue;
    }
    std::vector<Type> elements;
    for (const OutputDecl& d : declared[i].elements) elements.push_back(d.type);
    NodeId unpack = g_.InsertBefore(anchor, OpName::Get("prim::ListUnpack"), {v}, elements);
    insert_.SetSource(unpack);
    for (size_t k = 0; k < elements.size(); ++k) {
      SMELT_RETURN_IF_ERROR(Define(declared[i].elements[k], g_.node(unpack).outputs[k], scope));
    }
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
