#include "smelt/frontend/pt2_subgraphs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2_functionalized.h"
#include "smelt/frontend/pt2_nodes.h"
#include "smelt/frontend/pt2_signature.h"

namespace smelt {
namespace pt2_internal {

// A branch for each higher-order operator. The archive writes each of them in its own way.
absl::Status Pt2Subgraphs::ReadOperator(const std::string& name, const Json& inputs, const Json& outputs, BlockId block,
                                        Scope& scope, int depth) {
  const NodeId anchor = p_.g.block(block).return_node;
  const auto source = p_.insert.source();
  auto define_outputs = [&](NodeId n) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, p_.results.ReadOutputsSpread(outputs, scope));
    for (const OutputDecl& d : declared) {
      ValueId v = p_.g.AddNodeOutput(n, d.type);
      SMELT_RETURN_IF_ERROR(p_.results.Define(d, v, scope));
    }
    return absl::OkStatus();
  };
  if (name == "cond") {
    SMELT_ASSIGN_OR_RETURN(const Json* predicate, Operand(inputs, 0));
    SMELT_ASSIGN_OR_RETURN(const Json* on_true, Operand(inputs, 1));
    SMELT_ASSIGN_OR_RETURN(const Json* on_false, Operand(inputs, 2));
    std::vector<ValueId> args;
    SMELT_ASSIGN_OR_RETURN(ValueId p, p_.arguments.ReadValue(*predicate, scope, anchor, Type::Bool()));
    args.push_back(p);
    if (inputs.size() > 3) {
      SMELT_ASSIGN_OR_RETURN(const Json* operands, Operand(inputs, 3));
      SMELT_RETURN_IF_ERROR(p_.arguments.ReadOperands(*operands, scope, anchor, args));
    }
    NodeId n = p_.g.InsertBefore(anchor, OpName::Get("smelt::cond"), args, {});
    p_.insert.SetSource(n);
    for (const Json* branch : {on_true, on_false}) {
      BlockId b = p_.g.AddBlock(n);
      SMELT_RETURN_IF_ERROR(ReadSubgraph(*branch, b, depth));
      if (p_.g.params(b).size() + 1 != args.size())
        return absl::InvalidArgumentError("cond: a branch takes another number of operands than are given");
    }
    if (p_.g.results(p_.g.node(n).blocks[0]).size() != p_.g.results(p_.g.node(n).blocks[1]).size()) {
      return absl::InvalidArgumentError("cond: the branches return different numbers of values");
    }
    SMELT_RETURN_IF_ERROR(define_outputs(n));
    return CheckResults(n, p_.g.node(n).outputs.size());
  }
  if (name == "while_loop") {
    SMELT_ASSIGN_OR_RETURN(const Json* cond, Operand(inputs, 0));
    SMELT_ASSIGN_OR_RETURN(const Json* body, Operand(inputs, 1));
    SMELT_ASSIGN_OR_RETURN(const Json* carried, Operand(inputs, 2));
    std::vector<ValueId> args;
    SMELT_RETURN_IF_ERROR(p_.arguments.ReadOperands(*carried, scope, anchor, args));
    const int64_t num_carried = static_cast<int64_t>(args.size());
    if (inputs.size() > 3) {
      SMELT_ASSIGN_OR_RETURN(const Json* additional, Operand(inputs, 3));
      SMELT_RETURN_IF_ERROR(p_.arguments.ReadOperands(*additional, scope, anchor, args));
    }
    NodeId n = p_.g.InsertBefore(anchor, OpName::Get("smelt::while_loop"), args, {});
    p_.insert.SetSource(n);
    p_.g.SetAttribute(n, "num_carried", num_carried);
    for (const Json* graph : {cond, body}) {
      BlockId b = p_.g.AddBlock(n);
      SMELT_RETURN_IF_ERROR(ReadSubgraph(*graph, b, depth));
      if (p_.g.params(b).size() != args.size())
        return absl::InvalidArgumentError("while_loop: a subgraph takes another number of operands than are given");
    }
    if (p_.g.results(p_.g.node(n).blocks[0]).size() != 1)
      return absl::InvalidArgumentError("while_loop: its condition must return one value");
    if (static_cast<int64_t>(p_.g.results(p_.g.node(n).blocks[1]).size()) != num_carried) {
      return absl::InvalidArgumentError("while_loop: its body must return what is carried");
    }
    SMELT_RETURN_IF_ERROR(define_outputs(n));
    return static_cast<int64_t>(p_.g.node(n).outputs.size()) == num_carried
               ? absl::OkStatus()
               : absl::InvalidArgumentError("while_loop: it must have as many outputs as carried values");
  }
  if (name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast" || name == "wrap") {
    // Gradients do not concern smelt: the body is inlined. Autocast's casts are not in the body.
    const std::optional<DType> outer = p_.autocast.lower();
    if (name == "wrap_with_autocast") SMELT_RETURN_IF_ERROR(p_.autocast.Begin(inputs));
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
      SMELT_RETURN_IF_ERROR(p_.arguments.ReadOperands(*a, scope, anchor, args));
    }
    absl::Status inlined = InlineSubgraph(*graph_arg, args, outputs, block, scope, depth);
    p_.autocast.set_lower(outer);
    return inlined;
  }
  if (name == "auto_functionalized" || name == "auto_functionalized_v2")
    return ReadAutoFunctionalized(p_, inputs, outputs, p_.g.block(block).return_node, scope);
  if (name == "scan" || name == "map_impl") return ReadTrips(name == "scan", inputs, outputs, block, scope, depth);
  return absl::UnimplementedError(absl::StrCat("higher-order operator ", name));
}

absl::Status Pt2Subgraphs::ReadEffect(const Json& inputs, const Json& outputs, const Json& node, BlockId block,
                                      Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* called, Operand(inputs, 1));
  SMELT_ASSIGN_OR_RETURN(std::string target, GetString(*called, "as_operator"));
  if (outputs.empty()) return absl::InvalidArgumentError("with_effects: its token is missing among the outputs");
  const Json arguments(inputs.begin() + 2, inputs.end()), results(outputs.begin() + 1, outputs.end());
  return nodes_.ReadCall(target, arguments, results, node, block, scope, depth);
}

absl::Status Pt2Subgraphs::ReadTrips(bool carries, const Json& inputs, const Json& outputs, BlockId block, Scope& scope,
                                     int depth) {
  constexpr int64_t kMostTrips = 1024;
  const NodeId anchor = p_.g.block(block).return_node;
  const auto source = p_.insert.source();
  SMELT_ASSIGN_OR_RETURN(const Json* body, Operand(inputs, 0));
  std::vector<ValueId> carried, elements, additional;
  size_t at = 1;
  for (std::vector<ValueId>* list : {&carried, &elements, &additional}) {
    if (list == &carried && !carries) continue;
    SMELT_ASSIGN_OR_RETURN(const Json* operands, Operand(inputs, at++));
    SMELT_RETURN_IF_ERROR(p_.arguments.ReadOperands(*operands, scope, anchor, *list));
  }
  std::optional<Expr> count;
  for (ValueId v : elements) {
    const Type& t = p_.g.value(v).type;
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
      args.push_back(Row(v, p_.insert.Constant(anchor, i, Type::Int()), anchor));
    }
    args.insert(args.end(), additional.begin(), additional.end());
    SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results, ReadInlined(*body, args, block, depth));
    if (results.size() < carried.size())
      return absl::InvalidArgumentError("scan: its body must return what is carried");
    rows.resize(results.size() - carried.size());
    for (size_t k = 0; k < rows.size(); ++k) {
      ValueId row = results[carried.size() + k];
      // A scan keeps the present contents of the row, whatever later trips write.
      if (carries && p_.g.value(row).type.IsTensor()) {
        const NodeId kept = p_.g.InsertBefore(anchor, OpName::Get("aten::clone"),
                                              {row, p_.insert.Constant(anchor, std::monostate(), Type::None())},
                                              {p_.g.value(row).type});
        p_.g.SetSource(kept, source);
        row = p_.g.node(kept).outputs[0];
      }
      rows[k].push_back(row);
    }
    std::copy(results.begin(), results.begin() + static_cast<int64_t>(carried.size()), carried.begin());
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, p_.results.ReadOutputsSpread(outputs, scope));
  if (declared.size() != carried.size() + rows.size())
    return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
  for (size_t k = 0; k < declared.size(); ++k) {
    ValueId v;
    if (k < carried.size()) {
      v = carried[k];
    } else {
      const NodeId list = p_.g.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), rows[k - carried.size()],
                                            {Type::List(Type::Tensor())});
      const NodeId n = p_.g.InsertBefore(
          anchor, OpName::Get("aten::stack"),
          {p_.g.node(list).outputs[0], p_.insert.Constant(anchor, int64_t{0}, Type::Int())}, {declared[k].type});
      p_.g.SetSource(n, source);
      v = p_.g.node(n).outputs[0];
    }
    SMELT_RETURN_IF_ERROR(p_.results.Bind(declared[k].name, v, scope));
  }
  return absl::OkStatus();
}

ValueId Pt2Subgraphs::Row(ValueId of, ValueId index, NodeId anchor) {
  const TensorType t = p_.g.value(of).type.tensor();
  const Type row = Type::Tensor(*t.dtype, std::vector<Expr>(t.sizes->begin() + 1, t.sizes->end()),
                                std::vector<Expr>(t.strides->begin() + 1, t.strides->end()));
  const NodeId n = p_.g.InsertBefore(anchor, OpName::Get("aten::select.int"),
                                     {of, p_.insert.Constant(anchor, int64_t{0}, Type::Int()), index}, {row});
  p_.insert.SetSource(n);
  return p_.g.node(n).outputs[0];
}

// Reads the trips as a while_loop that also carries the trip's number and the results' rows so far. It builds the two
// blocks of the loop in the order of their nodes, which is why it is long.
absl::Status Pt2Subgraphs::ReadTripsAsLoop(const Trips& trips, const Json& outputs, BlockId block, Scope& scope,
                                           int depth) {
  const NodeId anchor = p_.g.block(block).return_node;
  const auto op = [&](NodeId before, absl::string_view name, std::vector<ValueId> args, Type type) {
    const NodeId n = p_.g.InsertBefore(before, OpName::Get(name), args, {std::move(type)});
    p_.insert.SetSource(n);
    return p_.g.node(n).outputs[0];
  };
  const auto size = [&](const Expr& e) {
    const ValueId v = InsertSize(p_.g, anchor, e);
    p_.insert.SetSource(p_.g.value(v).def);
    return v;
  };
  const auto sizes = [&](const TensorType& t) {
    std::vector<ValueId> list;
    for (const Expr& e : *t.sizes) list.push_back(size(e));
    return op(anchor, "prim::ListConstruct", list, Type::List(Type::Int()));
  };
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, p_.results.ReadOutputsSpread(outputs, scope));
  const size_t num_carried = trips.carried.size();
  if (declared.size() < num_carried)
    return absl::InvalidArgumentError("scan: it must have an output for each value that is carried");
  const ValueId none = p_.insert.Constant(anchor, std::monostate(), Type::None());
  const ValueId zero = p_.insert.Constant(anchor, int64_t{0}, Type::Int()),
                one = p_.insert.Constant(anchor, int64_t{1}, Type::Int());
  const auto dtype = [&](DType t) { return p_.insert.Constant(anchor, int64_t{ScalarTypeOf(t)}, Type::Int()); };
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
  for (ValueId v : carried) types.push_back(p_.g.value(v).type);
  const NodeId loop = p_.g.InsertBefore(anchor, OpName::Get("smelt::while_loop"), carried, types);
  p_.insert.SetSource(loop);
  p_.g.SetAttribute(loop, "num_carried", static_cast<int64_t>(carried.size()));
  const BlockId condition = p_.g.AddBlock(loop), body = p_.g.AddBlock(loop);
  std::vector<ValueId> params;
  for (BlockId b : {condition, body}) {
    params.clear();
    for (size_t k = 0; k < carried.size(); ++k)
      params.push_back(p_.g.AddParam(b, types[k], k == 0 ? "trip" : "carried"));
    if (b == body) break;
    p_.g.AddResult(
        b, op(p_.g.block(b).return_node, "aten::lt.Scalar", {params[0], count}, Type::Tensor(DType::kBool, {}, {})));
  }
  const NodeId end = p_.g.block(body).return_node;
  const ValueId trip = op(end, "aten::unsqueeze", {params[0], zero}, numbers);
  std::vector<ValueId> args(params.begin() + 1, params.begin() + 1 + static_cast<int64_t>(num_carried));
  for (ValueId v : trips.elements) {
    const TensorType t = p_.g.value(v).type.tensor();
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
  p_.g.AddResult(body, op(end, "aten::add.Scalar", {params[0], one, one}, number));
  for (size_t k = 0; k < results.size(); ++k) {
    ValueId v = results[k];
    if (k >= num_carried) {
      const TensorType t = p_.g.value(v).type.tensor();
      std::vector<Expr> row = *t.sizes, strides = *t.strides;
      row.insert(row.begin(), Expr(1));
      strides.insert(strides.begin(), Product(*t.sizes));
      const ValueId rows = op(end, "aten::unsqueeze", {v, zero}, Type::Tensor(*t.dtype, row, strides));
      v = op(end, "aten::index_copy", {params[k + 1], zero, trip, rows}, types[k + 1]);
    }
    p_.g.AddResult(body, v);
  }
  for (size_t k = 0; k < declared.size(); ++k) {
    SMELT_RETURN_IF_ERROR(p_.results.Bind(declared[k].name, p_.g.node(loop).outputs[k + 1], scope));
  }
  return absl::OkStatus();
}

absl::Status Pt2Subgraphs::ReadSubgraph(const Json& arg, BlockId block, int depth) {
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
    SMELT_RETURN_IF_ERROR(DeclareInput(p_.g, p_.types, input, name, scope, [&](Type t) {
                            return p_.g.AddParam(block, std::move(t), name);
                          }).status());
  }
  SMELT_RETURN_IF_ERROR(nodes_.ReadNodes(*graph, block, scope, depth + 1));
  for (const Json& output : *outputs) {
    SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(output, scope, p_.g.block(block).return_node, Type()));
    p_.g.AddResult(block, v);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> Pt2Subgraphs::ReadInlined(const Json& arg, const std::vector<ValueId>& args,
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
  SMELT_RETURN_IF_ERROR(nodes_.ReadNodes(*graph, block, scope, depth + 1));
  std::vector<ValueId> out;
  for (const Json& result : *results) {
    SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(result, scope, p_.g.block(block).return_node, Type()));
    out.push_back(v);
  }
  return out;
}

absl::Status Pt2Subgraphs::InlineSubgraph(const Json& arg, const std::vector<ValueId>& args, const Json& outputs,
                                          BlockId block, Scope& outer, int depth) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results, ReadInlined(arg, args, block, depth));
  SMELT_ASSIGN_OR_RETURN(const std::vector<OutputDecl> declared, p_.results.ReadOutputsSpread(outputs, outer));
  if (declared.size() != results.size())
    return absl::InvalidArgumentError("a subgraph returns another number of values than the node has outputs");
  for (size_t i = 0; i < declared.size(); ++i) {
    SMELT_RETURN_IF_ERROR(p_.results.Bind(declared[i].name, results[i], outer));
  }
  return absl::OkStatus();
}

absl::Status Pt2Subgraphs::CheckResults(NodeId n, size_t expected) {
  for (BlockId b : p_.g.node(n).blocks) {
    if (p_.g.results(b).size() != expected)
      return absl::InvalidArgumentError("a branch returns another number of values than the node has outputs");
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
