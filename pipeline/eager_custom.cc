#include "smelt/pipeline/eager_custom.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/declare.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"

namespace smelt {

void EagerCustom::NoteSymbols(ValueId v) {
  const Value& value = g().value(v);
  if (value.expr) Note(*value.expr);
  if (!g().value(v).type.IsTensor() || !value.type.tensor().sizes) return;
  for (const Expr& e : *value.type.tensor().sizes) Note(e);
}

void EagerCustom::Note(const Expr& e) {
  if (e.IsPoison()) return;
  for (const std::string& symbol : e.Symbols()) known_symbols_.insert(symbol);
}

bool EagerCustom::IsNew(const Expr& e) const {
  const std::vector<std::string> symbols = e.Symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return !known_symbols_.contains(s); });
}

absl::StatusOr<std::unique_ptr<fb::StatedTensorT>> EagerCustom::Stated(const Type& type) {
  if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes)
    return absl::UnimplementedError("the dtype and the sizes of a result are not known");
  auto out = std::make_unique<fb::StatedTensorT>();
  out->dtype = static_cast<uint8_t>(*type.tensor().dtype);
  for (const Expr& e : *type.tensor().sizes)
    out->sizes.push_back(e.IsPoison() || IsNew(e) ? -1 : w_.bundle().AddExpr(e));
  return out;
}

std::vector<ValueId> EagerCustom::UnpackedInto(ValueId list) const {
  const auto& uses = g().value(list).uses;
  if (uses.size() != 1) return {};
  const Node& user = g().node(uses.begin()->user);
  if (user.op != op::kPrimListUnpack) return {};
  return std::vector<ValueId>(user.outputs.begin(), user.outputs.end());
}

absl::Status EagerCustom::EmitCustom(NodeId n) {
  const FunctionSchema& schema = *FindSchema(g().node(n).op);
  const std::vector<ValueId> outputs(g().node(n).outputs.begin(), g().node(n).outputs.end());
  auto i = w_.New(fb::EagerKind::Custom, n);
  i->custom = w_.bundle().AddCustomOperator(g().node(n).op);
  w_.Inputs(*i, n);
  for (size_t k = 0; k < outputs.size(); ++k) {
    auto stated = std::make_unique<fb::StatedResultT>();
    const TypeKind kind = schema.returns[k].type.kind();
    if (kind == TypeKind::kTensor) {
      SMELT_ASSIGN_OR_RETURN(auto tensor, Stated(g().value(outputs[k]).type));
      stated->tensors.push_back(std::move(tensor));
    } else if (kind == TypeKind::kList) {
      for (ValueId v : UnpackedInto(outputs[k])) {
        SMELT_ASSIGN_OR_RETURN(auto tensor, Stated(g().value(v).type));
        if (absl::c_linear_search(tensor->sizes, -1))
          return absl::UnimplementedError("a list of tensors whose sizes the data decide");
        stated->tensors.push_back(std::move(tensor));
      }
    }
    i->stated.push_back(std::move(stated));
    const ResultMemory memory = MemoryOfResult(schema, k);
    if (memory.is_argument) w_.Share(outputs[k], w_.Number(g().node(n).inputs[memory.arguments[0]]));
    i->outputs.push_back(memory.is_argument ? -1 : w_.Number(outputs[k]));
  }
  w_.Add(std::move(i));
  for (ValueId v : outputs) SMELT_RETURN_IF_ERROR(DefineSymbols(n, v));
  return absl::OkStatus();
}

absl::Status EagerCustom::DefineSymbols(NodeId n, ValueId v) {
  const auto define = [&](const Expr& e, absl::string_view op, std::vector<int> inputs) -> absl::Status {
    if (e.IsPoison() || !IsNew(e)) return absl::OkStatus();
    if (!e.IsSymbol())
      return absl::UnimplementedError(absl::StrCat("a number that only the data decide, ", e.ToString()));
    fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Number, n);
    i.op = std::string(op);
    i.inputs = std::move(inputs);
    i.outputs = {w_.Fresh()};
    i.symbol = w_.bundle().AddDataSymbol(e.SymbolName());
    Note(e);
    return absl::OkStatus();
  };
  if (const std::optional<Expr>& e = g().value(v).expr) return define(*e, op::kInt, {w_.Number(v)});
  if (!g().value(v).type.IsTensor()) return absl::OkStatus();
  const std::vector<Expr> sizes = *g().value(v).type.tensor().sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].IsPoison() || !IsNew(sizes[d])) continue;
    const int dim = w_.Fresh();
    fb::EagerInstrT& number = w_.Emit(fb::EagerKind::Int, n);
    number.ints = {static_cast<int64_t>(d)};
    number.outputs = {dim};
    SMELT_RETURN_IF_ERROR(define(sizes[d], op::kSymSize, {w_.Number(v), dim}));
  }
  return absl::OkStatus();
}

}  // namespace smelt
