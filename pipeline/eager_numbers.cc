#include "smelt/pipeline/eager_numbers.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "smelt/core/op/ops.h"

namespace smelt {

absl::Status EagerNumbers::EmitConstant(NodeId n) {
  const ValueId out = g().node(n).outputs[0];
  auto c = GetConstant(g(), out);
  if (!c) {
    // A device's string, or a type: nothing computes with it.
    fb::EagerInstrT& i = w_.Emit(fb::EagerKind::None, n);
    i.outputs = {w_.Number(out)};
    return absl::OkStatus();
  }
  if (const auto* t = std::get_if<Tensor>(&*c)) {
    auto tensor = std::make_unique<fb::EagerTensorT>();
    const Tensor dense = t->Clone();
    tensor->value = w_.Number(out);
    tensor->storage = w_.bundle().AddConstantStorage(dense);
    tensor->dtype = static_cast<uint8_t>(dense.dtype());
    tensor->sizes.assign(dense.sizes().begin(), dense.sizes().end());
    w_.program().tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::None, n);
  i.outputs = {w_.Number(out)};
  if (const auto* v = std::get_if<int64_t>(&*c)) i.kind = fb::EagerKind::Int, i.ints = {*v};
  if (const auto* v = std::get_if<double>(&*c)) i.kind = fb::EagerKind::Float, i.floats = {*v};
  if (const auto* v = std::get_if<bool>(&*c)) i.kind = fb::EagerKind::Bool, i.ints = {*v};
  if (const auto* v = std::get_if<std::string>(&*c)) i.kind = fb::EagerKind::String, i.text = *v;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&*c)) i.kind = fb::EagerKind::IntList, i.ints = *v;
  if (const auto* v = std::get_if<std::vector<double>>(&*c)) i.kind = fb::EagerKind::FloatList, i.floats = *v;
  if (const auto* v = std::get_if<std::vector<bool>>(&*c)) {
    i.kind = fb::EagerKind::BoolList;
    i.ints.assign(v->begin(), v->end());
  }
  return absl::OkStatus();
}

absl::Status EagerNumbers::EmitSize(NodeId n) {
  for (ValueId v : std::vector<ValueId>(g().node(n).outputs.begin(), g().node(n).outputs.end())) {
    std::optional<Expr> e = g().value(v).expr;
    if (const Attribute* a = g().node(n).FindAttribute("value"); !e && a != nullptr) {
      if (const Expr* x = std::get_if<Expr>(a)) e = *x;
    }
    if (!e) return absl::UnimplementedError("a size that is not known");
    fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Size, n);
    i.expr = w_.bundle().AddExpr(*e);
    i.outputs = {w_.Number(v)};
  }
  return absl::OkStatus();
}

absl::Status EagerNumbers::EmitNumber(NodeId n, std::string op) {
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Number, n);
  i.op = op.empty() ? g().node(n).op.name() : std::move(op);
  w_.Inputs(i, n);
  w_.Outputs(i, n);
  // Other sizes are expressions of a size that data decide.
  if (g().node(n).outputs.empty()) return absl::OkStatus();
  const std::optional<Expr>& e = g().value(g().node(n).outputs[0]).expr;
  const bool item = i.op == op::kItem || i.op == op::kPrivateLocalScalarDense;
  if (item && e && e->IsSymbol()) i.symbol = w_.bundle().AddDataSymbol(e->SymbolName());
  return absl::OkStatus();
}

absl::Status EagerNumbers::EmitTypeCheck(NodeId n) {
  std::vector<int> inputs = {w_.Number(g().node(n).inputs[0])};
  for (const char* attribute : {"dtype", "rank"}) {
    fb::EagerInstrT& code = w_.Emit(fb::EagerKind::Int, n);
    code.ints = {std::get<int64_t>(*g().node(n).FindAttribute(attribute))};
    code.outputs = {w_.Fresh()};
    inputs.push_back(code.outputs[0]);
  }
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Number, n);
  i.op = g().node(n).op.name();
  i.inputs = std::move(inputs);
  return absl::OkStatus();
}

}  // namespace smelt
