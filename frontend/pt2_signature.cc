#include "smelt/frontend/pt2_signature.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/storage_of.h"

namespace smelt {
namespace pt2_internal {

absl::StatusOr<std::string> InputName(const Json& input) {
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(input));
  if (u.first == "as_tensor") return GetString(*u.second, "name");
  if (u.first == "as_sym_int" || u.first == "as_sym_float" || u.first == "as_sym_bool") {
    const Json* n = Find(*u.second, "as_name");
    if (n != nullptr) return AsString(*n);
  }
  if (u.first == "as_custom_obj")
    return absl::UnimplementedError("custom objects (TorchBind classes) among the inputs");
  return std::string();  // a constant
}

absl::StatusOr<ValueId> DeclareInput(Graph& g, Pt2Types& types, const Json& input, const std::string& name,
                                     Scope& scope, absl::FunctionRef<ValueId(Type)> add) {
  if (scope.values.contains(name))
    return absl::InvalidArgumentError(absl::StrCat("two values are named \"", name, "\""));
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(input));
  ValueId v;
  if (u.first == "as_tensor") {
    SMELT_ASSIGN_OR_RETURN(Type t, types.TensorTypeOf(scope, name));
    v = add(std::move(t));
  } else if (u.first == "as_sym_int") {
    SMELT_ASSIGN_OR_RETURN(std::optional<Expr> e, types.SymIntExpr(scope, name));
    v = add(Type::Int());
    g.SetExpr(v, e);
  } else if (u.first == "as_sym_float") {
    v = add(Type::Float());
  } else if (u.first == "as_sym_bool") {
    v = add(Type::Bool());
  } else {
    return absl::UnimplementedError(absl::StrCat("a value of kind ", u.first));
  }
  scope.values[name] = v;
  types.MeetSymbols(g.value(v).type, g.value(v).expr);
  return v;
}

absl::Status Pt2Signature::ReadInputs(const Json& graph, const Json& signature, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(graph, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* specs, Get(signature, "input_specs"));
  if (!inputs->is_array() || !specs->is_array() || inputs->size() != specs->size()) {
    return absl::InvalidArgumentError("signature.input_specs and graph.inputs must be lists of one length");
  }
  for (size_t i = 0; i < inputs->size(); ++i) {
    if ((*specs)[i].contains("token")) continue;  // for the order of effects, which is the graph's
    absl::Status s = ReadInput((*inputs)[i], (*specs)[i], scope);
    if (!s.ok()) return Annotate(s, absl::StrCat("signature.input_specs[", i, "]"));
  }
  return absl::OkStatus();
}

absl::Status Pt2Signature::ReadInput(const Json& input, const Json& spec, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(std::string name, InputName(input));
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(spec));
  InputInfo info;
  Weight::Kind kind = Weight::Kind::kParameter;
  std::string weight;
  if (u.first == "parameter") {
    SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "parameter_name"));
  } else if (u.first == "buffer") {
    SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "buffer_name"));
    kind = Weight::Kind::kBuffer;
  } else if (u.first == "tensor_constant") {
    SMELT_ASSIGN_OR_RETURN(weight, GetString(*u.second, "tensor_constant_name"));
    kind = Weight::Kind::kConstant;
  } else if (u.first == "constant_input") {
    SMELT_ASSIGN_OR_RETURN(std::string constant_name, GetString(*u.second, "name"));
    SMELT_ASSIGN_OR_RETURN(const Json* value, Get(*u.second, "value"));
    SMELT_ASSIGN_OR_RETURN(auto c, AsUnion(*value));
    info.is_constant = true;
    Type type = Type::None();
    std::optional<Expr> expr;
    if (c.first == "as_int") {
      SMELT_ASSIGN_OR_RETURN(int64_t v, AsInt(*c.second));
      info.constant = v;
      expr = Expr(v);
      type = Type::Int();
    } else if (c.first == "as_float") {
      SMELT_ASSIGN_OR_RETURN(double v, AsDouble(*c.second));
      info.constant = v;
      type = Type::Float();
    } else if (c.first == "as_bool") {
      SMELT_ASSIGN_OR_RETURN(bool v, AsBool(*c.second));
      info.constant = v;
      type = Type::Bool();
    } else if (c.first == "as_string") {
      SMELT_ASSIGN_OR_RETURN(std::string v, AsString(*c.second));
      info.constant = v;
      type = Type::String();
    } else if (c.first != "as_none") {
      return absl::UnimplementedError(absl::StrCat("constant_input of kind ", c.first));
    }
    ValueId v = g_.AddInput(constant_name, type, std::move(info));
    if (expr) g_.SetExpr(v, expr);
    scope.values[constant_name] = v;
    return absl::OkStatus();
  } else if (u.first == "custom_obj") {
    return absl::UnimplementedError(absl::StrCat("input kind ", u.first));
  } else if (u.first != "user_input") {
    return absl::InvalidArgumentError(absl::StrCat("unknown input kind \"", u.first, "\""));
  }
  if (name.empty()) {
    // A user input that the archive gives no name: None or a constant written in place.
    SMELT_ASSIGN_OR_RETURN(auto c, AsUnion(input));
    info.is_constant = true;
    ValueId v = g_.AddInput(absl::StrCat("arg", g_.inputs().size()), Type::None(), std::move(info));
    (void)v;
    return absl::OkStatus();
  }
  if (!weight.empty()) {
    SMELT_ASSIGN_OR_RETURN(info.weight, weights_.Add(weight, kind, g_));
    info.kind = InputInfo::Kind::kWeight;
  }
  SMELT_ASSIGN_OR_RETURN(ValueId v, DeclareInput(g_, types_, input, name, scope,
                                                 [&](Type t) { return g_.AddInput(name, std::move(t), info); }));
  if (!weight.empty()) {
    const Weight& w = g_.weights[info.weight];
    std::vector<Expr> sizes(w.geometry.sizes.begin(), w.geometry.sizes.end());
    std::vector<Expr> strides(w.geometry.strides.begin(), w.geometry.strides.end());
    g_.SetType(v, Type::Tensor(w.dtype, std::move(sizes), std::move(strides)));
  }
  return absl::OkStatus();
}

absl::Status Pt2Signature::ReadOutputs(const Json& graph, const Json& signature, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(graph, "outputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* specs, Get(signature, "output_specs"));
  if (!outputs->is_array() || !specs->is_array() || outputs->size() != specs->size()) {
    return absl::InvalidArgumentError("signature.output_specs and graph.outputs must be lists of one length");
  }
  absl::flat_hash_map<ValueId, ValueId> written;
  for (size_t i = 0; i < specs->size(); ++i) {
    auto read = [&]() -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(auto u, AsUnion((*specs)[i]));
      if (u.first == "token") return absl::OkStatus();
      SMELT_ASSIGN_OR_RETURN(ValueId v,
                             arguments_.ReadValue((*outputs)[i], scope, g_.block(g_.top()).return_node, Type()));
      // A gradient is returned like any other.
      if (u.first == "user_output" || u.first == "loss_output" || absl::StartsWith(u.first, "gradient_to_")) {
        SMELT_ASSIGN_OR_RETURN(std::string name, InputName((*outputs)[i]));
        g_.AddOutput(v, name.empty() ? absl::StrCat("output", i) : name);
        return absl::OkStatus();
      }
      // Decomposed IR: the new contents of a buffer, parameter or input. It becomes the copy_ it stands for.
      const char* key = u.first == "buffer_mutation"       ? "buffer_name"
                        : u.first == "parameter_mutation"  ? "parameter_name"
                        : u.first == "user_input_mutation" ? "user_input_name"
                                                           : nullptr;
      if (key == nullptr) return absl::UnimplementedError(absl::StrCat("output kind ", u.first));
      SMELT_ASSIGN_OR_RETURN(std::string target, GetString(*u.second, key));
      ValueId destination;
      if (u.first == "user_input_mutation") {
        auto it = scope.values.find(target);
        if (it != scope.values.end()) destination = it->second;
      } else {
        for (size_t k = 0; k < g_.input_infos.size(); ++k) {
          const InputInfo& info = g_.input_infos[k];
          if (info.kind == InputInfo::Kind::kWeight && g_.weights[info.weight].name == target)
            destination = g_.inputs()[k];
        }
      }
      if (!g_.IsLive(destination))
        return absl::InvalidArgumentError(absl::StrCat(u.first, " names \"", target, "\", which is no input"));
      g_.written_at_the_end = true;
      NodeId anchor = g_.block(g_.top()).return_node;
      ValueId non_blocking = InsertConstant(g_, anchor, false);
      g_.InsertBefore(anchor, OpName::Get("aten::copy_"), {destination, v, non_blocking}, {g_.value(destination).type});
      written[v] = destination;
      return absl::OkStatus();
    };
    absl::Status s = read();
    if (!s.ok()) return Annotate(s, absl::StrCat("signature.output_specs[", i, "]"));
  }
  return ReturnWhatIsWritten(written);
}

absl::Status Pt2Signature::ReturnWhatIsWritten(const absl::flat_hash_map<ValueId, ValueId>& written) {
  const NodeId end = g_.block(g_.top()).return_node;
  absl::flat_hash_map<ValueId, ValueId> now;  // values and what is returned in their places
  for (uint32_t k = 0; k < g_.node(end).inputs.size(); ++k) {
    std::vector<ValueId> chain = {g_.node(end).inputs[k]};  // to the value written, if it is a view of one
    while (!written.contains(chain.back()) && !now.contains(chain.back())) {
      const StorageSource source = StorageStep(g_, chain.back());
      if (source.kind != StorageSource::kOperand) break;
      chain.push_back(source.operand);
    }
    if (auto it = written.find(chain.back()); it != written.end()) {
      // An input that is assigned to a buffer is still itself.
      if (!g_.IsParam(g_.value(it->first).def)) now[it->first] = it->second;
    }
    if (!now.contains(chain.back())) continue;
    for (size_t i = chain.size() - 1; i-- > 0;) {
      const NodeId def = g_.value(chain[i]).def;
      if (now.contains(chain[i])) continue;
      std::vector<ValueId> operands(g_.node(def).inputs.begin(), g_.node(def).inputs.end());
      std::replace(operands.begin(), operands.end(), chain[i + 1], now[chain[i + 1]]);
      std::vector<Type> types;
      for (ValueId v : g_.node(def).outputs) types.push_back(g_.value(v).type);
      // A call's strides may not allow the view: then it was a copy already (ravel, reshape).
      const OpName op = g_.node(def).op == "aten::view" ? OpName::Get("aten::reshape") : g_.node(def).op;
      const NodeId again = g_.InsertBefore(end, op, operands, types);
      g_.SetSource(again, g_.node(def).source);
      SMELT_RETURN_IF_ERROR(InferNode(g_, again));  // its strides follow from the input's
      for (size_t r = 0; r < types.size(); ++r) now[g_.node(def).outputs[r]] = g_.node(again).outputs[r];
    }
    g_.SetInput(end, k, now[chain[0]]);
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
