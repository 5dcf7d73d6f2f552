#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2_reader.h"

namespace smelt {
namespace pt2_internal {

absl::Status Pt2Reader::ReadHigherOrder(const std::string& name, const Json& inputs, const Json& outputs, BlockId block,
                                        Scope& scope, int depth) {
  const NodeId anchor = g_->block(block).return_node;
  auto source = current_source_;
  auto define_outputs = [&](NodeId n) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, ReadOutputsSpread(outputs, scope));
    for (const OutputDecl& d : declared) {
      ValueId v = g_->AddNodeOutput(n, d.type);
      SMELT_RETURN_IF_ERROR(Define(d, v, scope));
    }
    return absl::OkStatus();
  };
  if (name == "cond") {
    SMELT_ASSIGN_OR_RETURN(const Json* predicate, Operand(inputs, 0));
    SMELT_ASSIGN_OR_RETURN(const Json* on_true, Operand(inputs, 1));
    SMELT_ASSIGN_OR_RETURN(const Json* on_false, Operand(inputs, 2));
    std::vector<ValueId> args;
    SMELT_ASSIGN_OR_RETURN(ValueId p, ReadValue(*predicate, scope, anchor, Type::Bool()));
    args.push_back(p);
    if (inputs.size() > 3) {
      SMELT_ASSIGN_OR_RETURN(const Json* operands, Operand(inputs, 3));
      SMELT_RETURN_IF_ERROR(ReadOperands(*operands, scope, anchor, args));
    }
    NodeId n = g_->InsertBefore(anchor, OpName::Get("smelt::cond"), args, {});
    g_->SetSource(n, source);
    for (const Json* branch : {on_true, on_false}) {
      BlockId b = g_->AddBlock(n);
      SMELT_RETURN_IF_ERROR(ReadSubgraph(*branch, b, depth));
      if (g_->params(b).size() + 1 != args.size())
        return absl::InvalidArgumentError("cond: a branch takes another number of operands than are given");
    }
    if (g_->results(g_->node(n).blocks[0]).size() != g_->results(g_->node(n).blocks[1]).size()) {
      return absl::InvalidArgumentError("cond: the branches return different numbers of values");
    }
    SMELT_RETURN_IF_ERROR(define_outputs(n));
    return CheckResults(n, g_->node(n).outputs.size());
  }
  if (name == "while_loop") {
    SMELT_ASSIGN_OR_RETURN(const Json* cond, Operand(inputs, 0));
    SMELT_ASSIGN_OR_RETURN(const Json* body, Operand(inputs, 1));
    SMELT_ASSIGN_OR_RETURN(const Json* carried, Operand(inputs, 2));
    std::vector<ValueId> args;
    SMELT_RETURN_IF_ERROR(ReadOperands(*carried, scope, anchor, args));
    const int64_t num_carried = static_cast<int64_t>(args.size());
    if (inputs.size() > 3) {
      SMELT_ASSIGN_OR_RETURN(const Json* additional, Operand(inputs, 3));
      SMELT_RETURN_IF_ERROR(ReadOperands(*additional, scope, anchor, args));
    }
    NodeId n = g_->InsertBefore(anchor, OpName::Get("smelt::while_loop"), args, {});
    g_->SetSource(n, source);
    g_->SetAttribute(n, "num_carried", num_carried);
    for (const Json* graph : {cond, body}) {
      BlockId b = g_->AddBlock(n);
      SMELT_RETURN_IF_ERROR(ReadSubgraph(*graph, b, depth));
      if (g_->params(b).size() != args.size())
        return absl::InvalidArgumentError("while_loop: a subgraph takes another number of operands than are given");
    }
    if (g_->results(g_->node(n).blocks[0]).size() != 1)
      return absl::InvalidArgumentError("while_loop: its condition must return one value");
    if (static_cast<int64_t>(g_->results(g_->node(n).blocks[1]).size()) != num_carried) {
      return absl::InvalidArgumentError("while_loop: its body must return what is carried");
    }
    SMELT_RETURN_IF_ERROR(define_outputs(n));
    return static_cast<int64_t>(g_->node(n).outputs.size()) == num_carried
               ? absl::OkStatus()
               : absl::InvalidArgumentError("while_loop: it must have as many outputs as carried values");
  }
  if (name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast" || name == "wrap") {
    // Gradients do not concern smelt: the body is inlined. Autocast's casts are not in the body.
    const std::optional<DType> outer_autocast = autocast_;
    if (name == "wrap_with_autocast") SMELT_RETURN_IF_ERROR(BeginAutocast(inputs));
    size_t at = 0;
    auto is_graph = [](const Json& input) {
      const Json* arg = Find(input, "arg");
      return arg != nullptr && Find(*arg, "as_graph") != nullptr;
    };
    while (at < inputs.size() && !is_graph(inputs[at])) ++at;
    SMELT_ASSIGN_OR_RETURN(const Json* graph_arg, Operand(inputs, at));
    std::vector<ValueId> args;
    for (size_t i = at + 1; i < inputs.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(const Json* a, Operand(inputs, i));
      SMELT_RETURN_IF_ERROR(ReadOperands(*a, scope, anchor, args));
    }
    absl::Status inlined = InlineSubgraph(*graph_arg, args, outputs, block, scope, depth);
    autocast_ = outer_autocast;
    return inlined;
  }
  if (name == "auto_functionalized" || name == "auto_functionalized_v2")
    return ReadAutoFunctionalized(inputs, outputs, block, scope);
  if (name == "scan" || name == "map_impl") return ReadTrips(name == "scan", inputs, outputs, block, scope, depth);
  return absl::UnimplementedError(absl::StrCat("higher-order operator ", name));
}

absl::Status Pt2Reader::ReadEffect(const Json& inputs, const Json& outputs, const Json& node, BlockId block,
                                   Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* called, Operand(inputs, 1));
  SMELT_ASSIGN_OR_RETURN(std::string target, GetString(*called, "as_operator"));
  if (outputs.empty()) return absl::InvalidArgumentError("with_effects: its token is missing among the outputs");
  const Json arguments(inputs.begin() + 2, inputs.end()), results(outputs.begin() + 1, outputs.end());
  return ReadCall(target, arguments, results, node, block, scope, depth);
}

absl::Status Pt2Reader::ReadTrips(bool carries, const Json& inputs, const Json& outputs, BlockId block, Scope& scope,
                                  int depth) {
  constexpr int64_t kMostTrips = 1024;
  const NodeId anchor = g_->block(block).return_node;
  const auto source = current_source_;
  SMELT_ASSIGN_OR_RETURN(const Json* body, Operand(inputs, 0));
  std::vector<ValueId> carried, elements, additional;
  size_t at = 1;
  for (std::vector<ValueId>* list : {&carried, &elements, &additional}) {
    if (list == &carried && !carries) continue;
    SMELT_ASSIGN_OR_RETURN(const Json* operands, Operand(inputs, at++));
    SMELT_RETURN_IF_ERROR(ReadOperands(*operands, scope, anchor, *list));
  }
  std::optional<Expr> count;
  for (ValueId v : elements) {
    const Type& t = g_->value(v).type;
    if (!t.IsTensor() || !t.tensor().IsComplete() || t.tensor().rank() == 0)
      return absl::InvalidArgumentError("a tensor of rows is expected");
    count = (*t.tensor().sizes)[0];
  }
  if (!count || *count == Expr(0)) return absl::UnimplementedError("a scan or map over no rows");
  const std::optional<int64_t> trips = count->Constant();
  if (!trips || *trips > kMostTrips) {
    return ReadTripsAsLoop(Trips{*body, carried, elements, additional, *count}, outputs, block, scope, depth);
  }
  std::vector<std::vector<ValueId>> rows;  // by result, those of each trip
  for (int64_t i = 0; i < *trips; ++i) {
    std::vector<ValueId> args = carried;
    for (ValueId v : elements) {
      args.push_back(Row(v, Constant(anchor, i, Type::Int()), anchor));
    }
    args.insert(args.end(), additional.begin(), additional.end());
    SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results, ReadInlined(*body, args, block, depth));
    if (results.size() < carried.size())
      return absl::InvalidArgumentError("scan: its body must return what is carried");
    rows.resize(results.size() - carried.size());
    for (size_t k = 0; k < rows.size(); ++k) {
      ValueId row = results[carried.size() + k];
      // A scan keeps the present contents of the row, whatever later trips write.
      if (carries && g_->value(row).type.IsTensor()) {
        const NodeId kept =
            g_->InsertBefore(anchor, OpName::Get("aten::clone"),
                             {row, Constant(anchor, std::monostate(), Type::None())}, {g_->value(row).type});
        g_->SetSource(kept, source);
        row = g_->node(kept).outputs[0];
      }
      rows[k].push_back(row);
    }
    std::copy(results.begin(), results.begin() + static_cast<int64_t>(carried.size()), carried.begin());
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, ReadOutputsSpread(outputs, scope));
  if (declared.size() != carried.size() + rows.size())
    return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
  for (size_t k = 0; k < declared.size(); ++k) {
    ValueId v;
    if (k < carried.size()) {
      v = carried[k];
    } else {
      const NodeId list = g_->InsertBefore(anchor, OpName::Get("prim::ListConstruct"), rows[k - carried.size()],
                                           {Type::List(Type::Tensor())});
      const NodeId n =
          g_->InsertBefore(anchor, OpName::Get("aten::stack"),
                           {g_->node(list).outputs[0], Constant(anchor, int64_t{0}, Type::Int())}, {declared[k].type});
      g_->SetSource(n, source);
      v = g_->node(n).outputs[0];
    }
    SMELT_RETURN_IF_ERROR(Bind(declared[k].name, v, scope));
  }
  return absl::OkStatus();
}

ValueId Pt2Reader::Row(ValueId of, ValueId index, NodeId anchor) {
  const TensorType t = g_->value(of).type.tensor();
  const Type row = Type::Tensor(*t.dtype, std::vector<Expr>(t.sizes->begin() + 1, t.sizes->end()),
                                std::vector<Expr>(t.strides->begin() + 1, t.strides->end()));
  const NodeId n = g_->InsertBefore(anchor, OpName::Get("aten::select.int"),
                                    {of, Constant(anchor, int64_t{0}, Type::Int()), index}, {row});
  g_->SetSource(n, current_source_);
  return g_->node(n).outputs[0];
}

// Reads the trips as a while_loop that also carries the trip's number and the results' rows so far.
absl::Status Pt2Reader::ReadTripsAsLoop(const Trips& trips, const Json& outputs, BlockId block, Scope& scope,
                                        int depth) {
  const NodeId anchor = g_->block(block).return_node;
  const auto op = [&](NodeId before, absl::string_view name, std::vector<ValueId> args, Type type) {
    const NodeId n = g_->InsertBefore(before, OpName::Get(name), args, {std::move(type)});
    g_->SetSource(n, current_source_);
    return g_->node(n).outputs[0];
  };
  const auto size = [&](const Expr& e) {
    const ValueId v = InsertSize(*g_, anchor, e);
    g_->SetSource(g_->value(v).def, current_source_);
    return v;
  };
  const auto sizes = [&](const TensorType& t) {
    std::vector<ValueId> list;
    for (const Expr& e : *t.sizes) list.push_back(size(e));
    return op(anchor, "prim::ListConstruct", list, Type::List(Type::Int()));
  };
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, ReadOutputsSpread(outputs, scope));
  const size_t num_carried = trips.carried.size();
  if (declared.size() < num_carried)
    return absl::InvalidArgumentError("scan: it must have an output for each value that is carried");
  const ValueId none = Constant(anchor, std::monostate(), Type::None());
  const ValueId zero = Constant(anchor, int64_t{0}, Type::Int()), one = Constant(anchor, int64_t{1}, Type::Int());
  const auto dtype = [&](DType t) { return Constant(anchor, int64_t{ScalarTypeOf(t)}, Type::Int()); };
  const Type number = Type::Tensor(DType::kInt64, {}, {}), numbers = Type::Tensor(DType::kInt64, {Expr(1)}, {Expr(1)});

  std::vector<ValueId> carried = {
      op(anchor, "aten::full",
         {op(anchor, "prim::ListConstruct", {}, Type::List(Type::Int())), zero, dtype(DType::kInt64), none, none, none},
         number)};
  carried.insert(carried.end(), trips.carried.begin(), trips.carried.end());
  for (size_t k = num_carried; k < declared.size(); ++k) {
    const Type& type = declared[k].type;
    if (!type.IsTensor() || !type.tensor().IsComplete() || type.tensor().rank() == 0)
      return absl::InvalidArgumentError("a tensor of as many rows as are gone over is expected");
    const TensorType& t = type.tensor();
    carried.push_back(op(anchor, "aten::empty.memory_format", {sizes(t), dtype(*t.dtype), none, none, none, none},
                         Type::Tensor(*t.dtype, *t.sizes, ContiguousStrides(*t.sizes))));
  }
  const ValueId count = size(trips.count);
  std::vector<Type> types;
  for (ValueId v : carried) types.push_back(g_->value(v).type);
  const NodeId loop = g_->InsertBefore(anchor, OpName::Get("smelt::while_loop"), carried, types);
  g_->SetSource(loop, current_source_);
  g_->SetAttribute(loop, "num_carried", static_cast<int64_t>(carried.size()));
  const BlockId condition = g_->AddBlock(loop), body = g_->AddBlock(loop);
  std::vector<ValueId> params;
  for (BlockId b : {condition, body}) {
    params.clear();
    for (size_t k = 0; k < carried.size(); ++k)
      params.push_back(g_->AddParam(b, types[k], k == 0 ? "trip" : "carried"));
    if (b == body) break;
    g_->AddResult(
        b, op(g_->block(b).return_node, "aten::lt.Scalar", {params[0], count}, Type::Tensor(DType::kBool, {}, {})));
  }
  const NodeId end = g_->block(body).return_node;
  const ValueId trip = op(end, "aten::unsqueeze", {params[0], zero}, numbers);
  std::vector<ValueId> args(params.begin() + 1, params.begin() + 1 + static_cast<int64_t>(num_carried));
  for (ValueId v : trips.elements) {
    const TensorType t = g_->value(v).type.tensor();
    std::vector<Expr> one_row = *t.sizes;
    one_row[0] = 1;
    const ValueId chosen =
        op(end, "aten::index_select", {v, zero, trip}, Type::Tensor(*t.dtype, one_row, ContiguousStrides(one_row)));
    args.push_back(Row(chosen, zero, end));
  }
  args.insert(args.end(), trips.additional.begin(), trips.additional.end());
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results, ReadInlined(trips.body, args, body, depth));
  if (results.size() != declared.size())
    return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
  g_->AddResult(body, op(end, "aten::add.Scalar", {params[0], one, one}, number));
  for (size_t k = 0; k < results.size(); ++k) {
    ValueId v = results[k];
    if (k >= num_carried) {
      const TensorType t = g_->value(v).type.tensor();
      std::vector<Expr> row = *t.sizes, strides = *t.strides;
      row.insert(row.begin(), Expr(1));
      strides.insert(strides.begin(), Product(*t.sizes));
      const ValueId rows = op(end, "aten::unsqueeze", {v, zero}, Type::Tensor(*t.dtype, row, strides));
      v = op(end, "aten::index_copy", {params[k + 1], zero, trip, rows}, types[k + 1]);
    }
    g_->AddResult(body, v);
  }
  for (size_t k = 0; k < declared.size(); ++k) {
    SMELT_RETURN_IF_ERROR(Bind(declared[k].name, g_->node(loop).outputs[k + 1], scope));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Pt2Reader::OutputDecl>> Pt2Reader::ReadOutputsSpread(const Json& outputs,
                                                                                const Scope& scope) {
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

absl::Status Pt2Reader::ReadSubgraph(const Json& arg, BlockId block, int depth) {
  if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
  SMELT_ASSIGN_OR_RETURN(const Json* as_graph, Get(arg, "as_graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*as_graph, "graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(*graph, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(*graph, "outputs"));
  if (!inputs->is_array() || !outputs->is_array()) return Expected("lists of inputs and outputs");
  Scope scope;
  scope.graph = graph;
  for (const Json& input : *inputs) {
    SMELT_ASSIGN_OR_RETURN(std::string name, InputName(input));
    if (name.empty()) return absl::UnimplementedError("a subgraph's input that is a constant");
    SMELT_RETURN_IF_ERROR(
        DeclareInput(input, name, scope, [&](Type t) { return g_->AddParam(block, std::move(t), name); }).status());
  }
  SMELT_RETURN_IF_ERROR(ReadNodes(*graph, block, scope, depth + 1));
  for (const Json& output : *outputs) {
    SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(output, scope, g_->block(block).return_node, Type()));
    g_->AddResult(block, v);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> Pt2Reader::ReadInlined(const Json& arg, const std::vector<ValueId>& args,
                                                            BlockId block, int depth) {
  if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
  SMELT_ASSIGN_OR_RETURN(const Json* as_graph, Get(arg, "as_graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* graph, Get(*as_graph, "graph"));
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(*graph, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* results, Get(*graph, "outputs"));
  if (!inputs->is_array() || !results->is_array() || inputs->size() != args.size()) {
    return absl::InvalidArgumentError("a subgraph takes another number of operands than are given");
  }
  Scope scope;
  scope.graph = graph;
  for (size_t i = 0; i < args.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(std::string name, InputName((*inputs)[i]));
    if (!name.empty()) scope.values[name] = args[i];
  }
  SMELT_RETURN_IF_ERROR(ReadNodes(*graph, block, scope, depth + 1));
  std::vector<ValueId> out;
  for (const Json& result : *results) {
    SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(result, scope, g_->block(block).return_node, Type()));
    out.push_back(v);
  }
  return out;
}

absl::Status Pt2Reader::InlineSubgraph(const Json& arg, const std::vector<ValueId>& args, const Json& outputs,
                                       BlockId block, Scope& outer, int depth) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results, ReadInlined(arg, args, block, depth));
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, ReadOutputsSpread(outputs, outer));
  if (declared.size() != results.size())
    return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
  for (size_t i = 0; i < declared.size(); ++i) {
    SMELT_RETURN_IF_ERROR(Bind(declared[i].name, results[i], outer));
  }
  return absl::OkStatus();
}

absl::Status Pt2Reader::ReadOperands(const Json& arg, const Scope& scope, NodeId anchor, std::vector<ValueId>& out) {
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
        out.push_back(Constant(anchor, i, Type::Int()));
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

absl::StatusOr<const Json*> Pt2Reader::Operand(const Json& inputs, size_t i) {
  if (i >= inputs.size()) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
  return Get(inputs[i], "arg");
}

absl::Status Pt2Reader::CheckResults(NodeId n, size_t expected) {
  for (BlockId b : g_->node(n).blocks) {
    if (g_->results(b).size() != expected)
      return absl::InvalidArgumentError("a branch returns another number of values than the node has outputs");
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
