#include "smelt/frontend/pt2_arguments.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/frontend/pt2_codes.h"
#include "smelt/frontend/pt2_counts.h"

namespace smelt {
namespace pt2_internal {

namespace {

// The archive keeps `x + 1` as add.Tensor(x, 1): a number stands for the tensor that eager PyTorch makes of it.
Type AsArgument(const Type& type, const Type& formal) {
  const Type& base = formal.kind() == TypeKind::kOptional ? formal.element() : formal;
  const bool number = type.kind() == TypeKind::kInt || type.kind() == TypeKind::kFloat ||
                      type.kind() == TypeKind::kBool || type.kind() == TypeKind::kComplex;
  return number && base.IsTensor() ? Type::Tensor() : type;
}

absl::StatusOr<ValueId> Lookup(const Scope& scope, const std::string& name) {
  auto it = scope.values.find(name);
  if (it == scope.values.end())
    return absl::InvalidArgumentError(absl::StrCat("value \"", name, "\" is not defined before its use"));
  return it->second;
}

}  // namespace

absl::Status Pt2Arguments::ReadArguments(const FunctionSchema& schema, const Json& inputs, const Scope& scope,
                                         NodeId anchor, std::vector<ValueId>& args) {
  const size_t n = schema.arguments.size();
  std::vector<const Json*> given(n, nullptr);
  size_t position = 0;
  for (const Json& input : inputs) {
    SMELT_ASSIGN_OR_RETURN(const Json* arg, Get(input, "arg"));
    const Json* name = Find(input, "name");
    const Json* kind = Find(input, "kind");
    const bool keyword = kind != nullptr && kind->is_number_integer() && kind->get<int64_t>() == 2;
    size_t slot = n;
    if (name != nullptr && name->is_string()) {
      for (size_t k = 0; k < n; ++k) {
        if (schema.arguments[k].name == name->get_ref<const std::string&>()) slot = k;
      }
    }
    if (slot == n && !keyword) slot = position;
    if (slot >= n) {
      return absl::InvalidArgumentError(absl::StrCat(
          "argument ", name != nullptr ? name->dump() : std::to_string(position), " is not one of ", schema.op.full()));
    }
    if (given[slot] != nullptr)
      return absl::InvalidArgumentError(absl::StrCat("argument \"", schema.arguments[slot].name, "\" is given twice"));
    given[slot] = arg;
    ++position;
  }
  for (size_t k = 0; k < n; ++k) {
    const Argument& a = schema.arguments[k];
    if (given[k] == nullptr) {
      if (!a.default_value)
        return absl::InvalidArgumentError(
            absl::StrCat("argument \"", a.name, "\" of ", schema.op.full(), " is missing"));
      args.push_back(insert_.Constant(anchor, *a.default_value, a.type));
      continue;
    }
    auto v = ReadValue(*given[k], scope, anchor, a.type);
    if (!v.ok()) return Annotate(v.status(), absl::StrCat("argument \"", a.name, "\""));
    args.push_back(*v);
  }
  std::vector<Type> types;
  for (size_t k = 0; k < n; ++k) types.push_back(AsArgument(g_.value(args[k]).type, schema.arguments[k].type));
  if (!TakesTypes(schema, types)) {
    std::string found;
    for (ValueId v : args) absl::StrAppend(&found, found.empty() ? "" : ", ", g_.value(v).type.ToString());
    return absl::InvalidArgumentError(absl::StrCat("arguments of types (", found, ") do not fit ", schema.ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Pt2Arguments::ReadValue(const Json& arg, const Scope& scope, NodeId anchor, const Type& type) {
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(arg));
  const std::string& kind = u.first;
  const Json& v = *u.second;
  if (kind == "as_none") return insert_.Constant(anchor, std::monostate(), type);
  if (kind == "as_tensor") {
    SMELT_ASSIGN_OR_RETURN(std::string name, GetString(v, "name"));
    return Lookup(scope, name);
  }
  if (kind == "as_int") {
    SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(v));
    return insert_.Constant(anchor, i, type);
  }
  if (kind == "as_float") {
    SMELT_ASSIGN_OR_RETURN(double d, AsDouble(v));
    return insert_.Constant(anchor, d, type);
  }
  if (kind == "as_bool") {
    SMELT_ASSIGN_OR_RETURN(bool b, AsBool(v));
    return insert_.Constant(anchor, b, type);
  }
  if (kind == "as_string") {
    SMELT_ASSIGN_OR_RETURN(std::string s, AsString(v));
    return insert_.Constant(anchor, s, type);
  }
  if (kind == "as_complex") {
    SMELT_ASSIGN_OR_RETURN(const Json* re, Get(v, "real"));
    SMELT_ASSIGN_OR_RETURN(const Json* im, Get(v, "imag"));
    SMELT_ASSIGN_OR_RETURN(double r, AsDouble(*re));
    SMELT_ASSIGN_OR_RETURN(double i, AsDouble(*im));
    return insert_.Constant(anchor, std::complex<double>(r, i), type);
  }
  if (kind == "as_scalar_type") {
    SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
    // The result is examined when everything has been read.
    SMELT_ASSIGN_OR_RETURN(int64_t c10, C10ScalarType(code == kUint16Code ? Uint16Values::kReadAs : code));
    return insert_.Constant(anchor, c10, Type::Int());
  }
  if (kind == "as_memory_format") {
    SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
    SMELT_ASSIGN_OR_RETURN(int64_t c10, C10MemoryFormat(code));
    return insert_.Constant(anchor, c10, Type::Int());
  }
  if (kind == "as_layout") {
    SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(v));
    if (code != 7) return absl::UnimplementedError("a layout other than strided");
    return insert_.Constant(anchor, int64_t{0}, Type::Int());
  }
  if (kind == "as_device") {
    SMELT_ASSIGN_OR_RETURN(std::string device, GetString(v, "type"));
    return insert_.Constant(anchor, device, Type::Device());
  }
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
    if (const Json* name = Find(v, "as_name")) {
      SMELT_ASSIGN_OR_RETURN(std::string s, AsString(*name));
      return Lookup(scope, s);
    }
    return ReadValue(v, scope, anchor, type);  // {"as_int": 3}
  }
  if (kind == "as_optional_tensor") return ReadValue(v, scope, anchor, type);
  if (kind == "as_operator") return absl::UnimplementedError("an operator as an argument");
  if (kind == "as_custom_obj") return absl::UnimplementedError("a custom object as an argument");
  return ReadList(kind, v, scope, anchor, type);
}

absl::StatusOr<ValueId> Pt2Arguments::ReadList(const std::string& kind, const Json& v, const Scope& scope,
                                               NodeId anchor, const Type& type) {
  if (!v.is_array()) return Expected(absl::StrCat("a list in \"", kind, "\""));
  const Type& base = type.kind() == TypeKind::kOptional ? type.element() : type;
  const bool floats = base.kind() == TypeKind::kList && base.element().kind() == TypeKind::kFloat;
  if (kind == "as_ints" && !floats) {
    std::vector<int64_t> out;
    for (const Json& e : v) {
      SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(e));
      out.push_back(i);
    }
    return insert_.Constant(anchor, out, type);
  }
  if (kind == "as_floats" || kind == "as_ints") {
    std::vector<double> out;
    for (const Json& e : v) {
      SMELT_ASSIGN_OR_RETURN(double d, AsDouble(e));
      out.push_back(d);
    }
    return insert_.Constant(anchor, out, type);
  }
  if (kind == "as_bools") {
    std::vector<bool> out;
    for (const Json& e : v) {
      SMELT_ASSIGN_OR_RETURN(bool b, AsBool(e));
      out.push_back(b);
    }
    return insert_.Constant(anchor, out, type);
  }
  std::vector<ValueId> elements;
  Type element;
  if (kind == "as_tensors") {
    element = Type::Tensor();
    for (const Json& e : v) {
      SMELT_ASSIGN_OR_RETURN(std::string name, GetString(e, "name"));
      SMELT_ASSIGN_OR_RETURN(ValueId id, Lookup(scope, name));
      elements.push_back(id);
    }
  } else if (kind == "as_optional_tensors") {
    element = Type::Optional(Type::Tensor());
    for (const Json& e : v) {
      SMELT_ASSIGN_OR_RETURN(ValueId id, ReadValue(e, scope, anchor, element));
      elements.push_back(id);
    }
  } else if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
    element = kind == "as_sym_ints" ? Type::Int() : kind == "as_sym_floats" ? Type::Float() : Type::Bool();
    for (const Json& e : v) {
      if (const Json* name = Find(e, "as_name")) {
        SMELT_ASSIGN_OR_RETURN(std::string s, AsString(*name));
        SMELT_ASSIGN_OR_RETURN(ValueId id, Lookup(scope, s));
        elements.push_back(id);
      } else {
        SMELT_ASSIGN_OR_RETURN(ValueId id, ReadValue(e, scope, anchor, element));
        elements.push_back(id);
      }
    }
  } else {
    return absl::UnimplementedError(absl::StrCat("an argument of kind ", kind));
  }
  NodeId list = g_.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {Type::List(element)});
  insert_.SetSource(list);
  return g_.node(list).outputs[0];
}

absl::Status Pt2Arguments::ReadOperands(const Json& arg, const Scope& scope, NodeId anchor, std::vector<ValueId>& out) {
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(arg));
  if (u.first == "as_tensors") {
    if (!u.second->is_array()) return Expected("a list of tensors");
    for (const Json& e : *u.second) {
      SMELT_ASSIGN_OR_RETURN(std::string name, GetString(e, "name"));
      SMELT_ASSIGN_OR_RETURN(ValueId v, Lookup(scope, name));
      out.push_back(v);
    }
    return absl::OkStatus();
  }
  if ((u.first == "as_ints" || u.first == "as_sym_ints") && u.second->is_array()) {
    for (const Json& e : *u.second) {
      if (e.is_number_integer()) {
        SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(e));
        out.push_back(insert_.Constant(anchor, i, Type::Int()));
      } else {
        SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(Json{{"as_sym_int", e}}, scope, anchor, Type::Int()));
        out.push_back(v);
      }
    }
    return absl::OkStatus();
  }
  if ((u.first == "as_args" || u.first == "as_list") && u.second->is_array()) {
    for (const Json& e : *u.second) {
      SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(e, scope, anchor, Type()));
      out.push_back(v);
    }
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(arg, scope, anchor, Type()));
  out.push_back(v);
  return absl::OkStatus();
}

absl::StatusOr<const Json*> Operand(const Json& inputs, size_t i) {
  if (i >= inputs.size()) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  return Get(inputs[i], "arg");
}

}  // namespace pt2_internal
}  // namespace smelt
