#include "smelt/frontend/pt2_functionalized.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/pt2_targets.h"

namespace smelt {
namespace pt2_internal {

namespace {

// The call's arguments by name, and what is made for them.
class Arguments {
 public:
  static absl::StatusOr<Arguments> Of(const Json& inputs) {
    Arguments out;
    for (size_t i = 1; i < inputs.size(); ++i) {
      const Json *name = Find(inputs[i], "name"), *arg = Find(inputs[i], "arg");
      if (name == nullptr || !name->is_string() || arg == nullptr)
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " of auto_functionalized has no name"));
      out.by_name_.emplace(name->get<std::string>(), arg);
    }
    return out;
  }
  // Other names than the schema's begin with an underscore: they describe the written arguments.
  absl::Status CheckNames(const FunctionSchema& schema) const {
    for (const auto& [name, arg] : by_name_) {
      if (schema.FindArgument(name) < 0 && !absl::StartsWith(name, "_"))
        return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" is not one of ", schema.op.full()));
    }
    return absl::OkStatus();
  }
  // Null if there is none, or it is None.
  const Json* Get(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() || Find(*it->second, "as_none") != nullptr ? nullptr : it->second;
  }

 private:
  absl::flat_hash_map<std::string, const Json*> by_name_;
};

}  // namespace

// Reads the call, its bases and the views of them, then writes the operator and the copies back. All of it follows
// the layout of one node of the archive, field by field.
absl::Status ReadAutoFunctionalized(Pt2Parts& p, const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* called, Operand(inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const std::string target, GetString(*called, "as_operator"));
  SMELT_ASSIGN_OR_RETURN(const OpName op, TargetName(target, inputs, p.options.operators));
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(op.full(), ": no such operator is known; one of your own is declared with --op-schema"));
  }
  SMELT_ASSIGN_OR_RETURN(const Arguments given, Arguments::Of(inputs));
  SMELT_RETURN_IF_ERROR(given.CheckNames(*schema));
  const auto clone = [&](ValueId v) {
    return p.insert.Compute("aten::clone", {v, p.insert.Constant(anchor, std::monostate(), Type::None())},
                            p.g.value(v).type, anchor);
  };
  const auto number = [&](const std::string& name, const Type& type) -> absl::StatusOr<ValueId> {
    const Json* arg = given.Get(name);
    if (arg == nullptr) return absl::InvalidArgumentError(absl::StrCat("argument \"", name, "\" is missing"));
    return p.arguments.ReadValue(*arg, scope, anchor, type);
  };

  // The copies that the call writes, in the order of the results.
  std::vector<ValueId> copies;
  const bool of_bases = given.Get("_all_bases") != nullptr;
  if (of_bases) {
    SMELT_RETURN_IF_ERROR(p.arguments.ReadOperands(*given.Get("_all_bases"), scope, anchor, copies));
    for (ValueId& v : copies) {
      SMELT_ASSIGN_OR_RETURN(v, clone(v));
    }
  }
  // Returns the written argument that is described under `prefix`: None, a base or a view of it.
  const auto view = [&](const std::string& prefix) -> absl::StatusOr<ValueId> {
    const Json* at = given.Get(prefix + "_base_index");
    if (at == nullptr) return p.insert.Constant(anchor, std::monostate(), Type::None());
    SMELT_ASSIGN_OR_RETURN(const Json* as_int, Get(*at, "as_int"));
    SMELT_ASSIGN_OR_RETURN(const int64_t index, AsInt(*as_int));
    if (index < 0 || index >= static_cast<int64_t>(copies.size()))
      return absl::InvalidArgumentError(absl::StrCat(prefix, "_base_index is ", index, ", of ", copies.size()));
    const ValueId base = copies[index];
    if (given.Get(prefix + "_alias") != nullptr)
      return p.insert.Compute("aten::alias", {base}, p.g.value(base).type, anchor);
    if (given.Get(prefix + "_slice_dim") != nullptr) {
      std::vector<ValueId> args = {base};
      for (const char* name : {"_slice_dim", "_slice_start", "_slice_end"}) {
        SMELT_ASSIGN_OR_RETURN(const ValueId v, number(prefix + name, Type::Int()));
        args.push_back(v);
      }
      args.push_back(p.insert.Constant(anchor, int64_t{1}, Type::Int()));
      return p.insert.Compute("aten::slice.Tensor", std::move(args), Type::Tensor(), anchor);
    }
    if (given.Get(prefix + "_storage_offset") == nullptr) return base;
    std::vector<ValueId> args = {base};
    for (const char* name : {"_size", "_stride"}) {
      SMELT_ASSIGN_OR_RETURN(const ValueId v, number(prefix + name, Type::List(Type::Int())));
      args.push_back(v);
    }
    SMELT_ASSIGN_OR_RETURN(const ValueId offset, number(prefix + "_storage_offset", Type::Int()));
    args.push_back(offset);
    return p.insert.Compute("aten::as_strided", std::move(args), Type::Tensor(), anchor);
  };
  const auto list_of = [&](const std::vector<ValueId>& elements, const Type& type) {
    const NodeId n = p.g.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {type});
    p.insert.SetSource(n);
    return p.g.node(n).outputs[0];
  };

  std::vector<ValueId> args;
  for (const Argument& a : schema->arguments) {
    const Json* arg = given.Get(a.name);
    const Type& type = a.type.kind() == TypeKind::kOptional ? a.type.element() : a.type;
    const bool list = type.kind() == TypeKind::kList;
    if (!IsWritten(a)) {
      if (arg == nullptr && !a.default_value && a.type.kind() != TypeKind::kOptional)
        return absl::InvalidArgumentError(absl::StrCat("argument \"", a.name, "\" of ", op.full(), " is missing"));
      const bool defaults = arg == nullptr && a.default_value;
      SMELT_ASSIGN_OR_RETURN(const ValueId v,
                             arg != nullptr ? p.arguments.ReadValue(*arg, scope, anchor, a.type)
                                            : absl::StatusOr<ValueId>(p.insert.Constant(
                                                  anchor, defaults ? *a.default_value : std::monostate(), a.type)));
      args.push_back(v);
      continue;
    }
    if (of_bases && list) {
      const Json* length = given.Get(absl::StrCat("_", a.name, "_length"));
      if (length == nullptr) {
        args.push_back(p.insert.Constant(anchor, std::monostate(), Type::None()));
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(const Json* as_int, Get(*length, "as_int"));
      SMELT_ASSIGN_OR_RETURN(const int64_t count, AsInt(*as_int));
      if (count < 0 || count > static_cast<int64_t>(inputs.size()))
        return absl::InvalidArgumentError(absl::StrCat("_", a.name, "_length is ", count));
      std::vector<ValueId> elements;
      for (int64_t i = 0; i < count; ++i) {
        SMELT_ASSIGN_OR_RETURN(const ValueId v, view(absl::StrCat("_", a.name, "_", i)));
        elements.push_back(v);
      }
      args.push_back(list_of(elements, type));
    } else if (of_bases) {
      SMELT_ASSIGN_OR_RETURN(const ValueId v, view(absl::StrCat("_", a.name)));
      args.push_back(v);
    } else if (arg == nullptr) {
      return absl::UnimplementedError(absl::StrCat("a written argument \"", a.name, "\" that is not given"));
    } else if (list) {
      std::vector<ValueId> elements;
      SMELT_RETURN_IF_ERROR(p.arguments.ReadOperands(*arg, scope, anchor, elements));
      for (ValueId& v : elements) {
        SMELT_ASSIGN_OR_RETURN(v, clone(v));
        copies.push_back(v);
      }
      args.push_back(list_of(elements, type));
    } else {
      SMELT_ASSIGN_OR_RETURN(const ValueId v, p.arguments.ReadValue(*arg, scope, anchor, a.type));
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, clone(v));
      copies.push_back(copy);
      args.push_back(copy);
    }
  }

  // The operator's own results come first; None stands for none.
  const size_t own = std::max<size_t>(schema->returns.size(), 1);
  if (outputs.size() < own) return absl::InvalidArgumentError(absl::StrCat(outputs.size(), " outputs"));
  const Json results(outputs.begin(), outputs.begin() + static_cast<int64_t>(own));
  SMELT_RETURN_IF_ERROR(
      p.results.AddNode(op, args, schema->returns.empty() ? Json::array() : results, anchor, scope, schema));
  SMELT_ASSIGN_OR_RETURN(
      const std::vector<OutputDecl> written,
      p.results.ReadOutputsSpread(Json(outputs.begin() + static_cast<int64_t>(own), outputs.end()), scope));
  if (written.size() > copies.size())
    return absl::InvalidArgumentError(
        absl::StrCat(written.size(), " written tensors are results, ", copies.size(), " are written"));
  for (size_t i = 0; i < written.size(); ++i) SMELT_RETURN_IF_ERROR(p.results.Bind(written[i].name, copies[i], scope));
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
