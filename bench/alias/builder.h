// Appends nodes to a block, with TorchScript's plain types. For the graphs of bench/alias.
#ifndef SMELT_BENCH_ALIAS_BUILDER_H_
#define SMELT_BENCH_ALIAS_BUILDER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class Builder {
 public:
  Builder() : g(std::make_unique<Graph>()) {
    x = g->AddInput("x", Type::Tensor());
    y = g->AddInput("y", Type::Tensor());
    c = g->AddInput("c", Type::Bool());
    block = g->top();
    zero = Constant(0);
    one = Constant(1);
  }

  ValueId Constant(const ConstantValue& v) { return InsertConstant(*g, g->block(block).return_node, v); }
  ValueId Op(const char* op, absl::Span<const ValueId> inputs, Type type = Type::Tensor()) {
    return g->node(g->Append(block, OpName::Get(op), inputs, {std::move(type)})).outputs[0];
  }
  void Do(const char* op, absl::Span<const ValueId> inputs) { g->Append(block, OpName::Get(op), inputs, {}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("aten::mul.Tensor", {a, b}); }
  ValueId Relu(ValueId a) { return Op("aten::relu", {a}); }
  ValueId AddInPlace(ValueId a, ValueId b) { return Op("aten::add_.Tensor", {a, b, one}); }
  ValueId Select(ValueId a) { return Op("aten::select.int", {a, zero, one}); }
  ValueId Cat(ValueId list) { return Op("aten::cat", {list, zero}); }
  ValueId List(absl::Span<const ValueId> elements) {
    return Op("prim::ListConstruct", elements, Type::List(Type::Tensor()));
  }
  ValueId ListAppend(ValueId list, ValueId v) { return Op("aten::append.t", {list, v}, g->value(list).type); }
  ValueId GetItem(ValueId list, ValueId at) {
    const Type element = g->value(list).type.element();
    return Op("aten::__getitem__.t", {list, at}, element);
  }

  // Makes a node with blocks: make_block(k) fills the k-th and returns its results.
  template <typename F>
  std::vector<ValueId> If(absl::Span<const Type> types, const F& make_block) {
    NodeId n = g->Append(block, OpName::Get("prim::If"), {c}, types);
    const BlockId outer = block;
    for (int k = 0; k < 2; ++k) {
      block = g->AddBlock(n);
      for (ValueId v : make_block(k)) g->AddResult(block, v);
    }
    block = outer;
    absl::Span<const ValueId> outputs = g->node(n).outputs;
    return std::vector<ValueId>(outputs.begin(), outputs.end());
  }
  template <typename F>
  ValueId If(const F& make_block) {
    return If({Type::Tensor()}, [&](int k) { return std::vector<ValueId>{make_block(k)}; })[0];
  }
  // body(params) returns the carried values.
  template <typename F>
  std::vector<ValueId> Loop(absl::Span<const ValueId> initial, const F& body) {
    if (!trips.valid()) WithLoops();
    std::vector<ValueId> inputs = {trips, true_value};
    inputs.insert(inputs.end(), initial.begin(), initial.end());
    std::vector<Type> types;
    for (ValueId v : initial) types.push_back(g->value(v).type);
    NodeId n = g->Append(block, OpName::Get("prim::Loop"), inputs, types);
    const BlockId outer = block;
    block = g->AddBlock(n);
    g->AddParam(block, Type::Int());
    std::vector<ValueId> params;
    for (size_t i = 0; i < initial.size(); ++i) params.push_back(g->AddParam(block, types[i]));
    g->AddResult(block, true_value);
    for (ValueId v : body(params)) g->AddResult(block, v);
    block = outer;
    absl::Span<const ValueId> outputs = g->node(n).outputs;
    return std::vector<ValueId>(outputs.begin(), outputs.end());
  }
  void WithLoops() {
    trips = g->AddInput("n", Type::Int());
    const BlockId inside = std::exchange(block, g->top());
    const NodeId first = g->block(block).first;
    true_value = InsertConstant(*g, first.valid() ? first : g->block(block).return_node, true);
    block = inside;
  }
  std::unique_ptr<Graph> Return(ValueId v) {
    g->AddOutput(v);
    return std::move(g);
  }

  std::unique_ptr<Graph> g;
  BlockId block;
  ValueId x, y, c, zero, one, trips, true_value;
};

}  // namespace smelt

#endif  // SMELT_BENCH_ALIAS_BUILDER_H_
