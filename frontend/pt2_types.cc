#include "smelt/frontend/pt2_types.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/frontend/pt2_codes.h"
#include "smelt/frontend/pt2_weights.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace pt2_internal {

absl::StatusOr<Expr> Pt2Types::ReadSize(const Json& j) {
  SMELT_ASSIGN_OR_RETURN(auto u, AsUnion(j));
  if (u.first == "as_int") {
    SMELT_ASSIGN_OR_RETURN(int64_t v, AsInt(*u.second));
    return Expr(v);
  }
  if (u.first != "as_expr") return Expected("as_int or as_expr");
  SMELT_ASSIGN_OR_RETURN(std::string text, GetString(*u.second, "expr_str"));
  SMELT_ASSIGN_OR_RETURN(Expr e, ParseSympyExpr(text));
  if (e.IsPoison()) return absl::InvalidArgumentError(absl::StrCat("\"", text.substr(0, 200), "\" overflows 64 bits"));
  const Json* hint = Find(*u.second, "hint");
  if (hint != nullptr && hint->is_object()) {
    if (const Json* v = Find(*hint, "as_int"); v != nullptr && v->is_number_integer()) NoteHint(e, v->get<int64_t>());
  }
  return computed_.empty() ? e : e.Substitute(computed_);
}

void Pt2Types::MeetSymbols(const Type& type, const std::optional<Expr>& expr) {
  const auto meet = [&](const Expr& e) {
    for (const std::string& symbol : e.Symbols()) symbols_met_.insert(symbol);
  };
  if (expr) meet(*expr);
  if (!type.IsTensor() || !type.tensor().sizes) return;
  for (const Expr& size : *type.tensor().sizes) meet(size);
}

bool Pt2Types::ComputeNewSizes(NodeId n, const Type& declared) {
  const ValueId v = g_.node(n).outputs[0];
  const std::vector<Expr>& sizes = *declared.tensor().sizes;
  const auto is_new = [&](const Expr& size) {
    return size.IsSymbol() && DependsOnData(size) && !symbols_met_.contains(size.SymbolName());
  };
  if (absl::c_none_of(sizes, is_new)) return false;
  g_.SetType(v, Type::Tensor());
  const absl::Status inferred = InferNode(g_, n);
  const Type type = g_.value(v).type;
  g_.SetType(v, declared);
  if (!inferred.ok() || !type.IsTensor() || type.tensor().rank() != declared.tensor().rank()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Expr& size = (*type.tensor().sizes)[d];
    if (is_new(sizes[d]) && !size.IsPoison()) computed_.try_emplace(sizes[d].SymbolName(), size);
  }
  return true;
}

void Pt2Types::NoteHint(const Expr& e, int64_t value) {
  const std::vector<std::string> symbols = e.Symbols();
  if (symbols.size() != 1 || g_.symbol_hints.contains(symbols[0])) return;
  auto at0 = e.Evaluate({{symbols[0], 0}}), at1 = e.Evaluate({{symbols[0], 1}});
  if (!at0.ok() || !at1.ok()) return;
  const __int128 slope = static_cast<__int128>(*at1) - *at0, rest = static_cast<__int128>(value) - *at0;
  if (slope == 0 || rest % slope != 0) return;
  const __int128 hint = rest / slope;
  if (hint < 0 || hint > INT64_MAX) return;
  auto check = e.Evaluate({{symbols[0], static_cast<int64_t>(hint)}});
  if (check.ok() && *check == value) g_.symbol_hints[symbols[0]] = static_cast<int64_t>(hint);
}

absl::StatusOr<std::vector<Expr>> Pt2Types::ReadSizes(const Json& list) {
  if (!list.is_array()) return Expected("a list");
  if (list.size() > kMaxRank)
    return absl::InvalidArgumentError(absl::StrCat("rank ", list.size(), ", at most ", kMaxRank, " expected"));
  std::vector<Expr> out;
  for (const Json& e : list) {
    SMELT_ASSIGN_OR_RETURN(Expr x, ReadSize(e));
    out.push_back(std::move(x));
  }
  return out;
}

absl::StatusOr<Type> Pt2Types::TensorTypeOf(const Scope& scope, const std::string& name) {
  const Json* values = Find(*scope.graph, "tensor_values");
  const Json* meta = values == nullptr ? nullptr : Find(*values, name.c_str());
  if (meta == nullptr) return absl::InvalidArgumentError(absl::StrCat("tensor_values has no entry \"", name, "\""));
  auto read = [&]() -> absl::StatusOr<Type> {
    SMELT_ASSIGN_OR_RETURN(const Json* dtype, Get(*meta, "dtype"));
    SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(*dtype));
    if (code == kUint16Code) {
      uint16_.Add(name);
      code = Uint16Values::kReadAs;
    }
    SMELT_ASSIGN_OR_RETURN(DType t, ToDType(code));
    SMELT_ASSIGN_OR_RETURN(const Json* sizes, Get(*meta, "sizes"));
    SMELT_ASSIGN_OR_RETURN(const Json* strides, Get(*meta, "strides"));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> s, ReadSizes(*sizes));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> st, ReadSizes(*strides));
    if (s.size() != st.size()) return absl::InvalidArgumentError("sizes and strides differ in number");
    bool concrete = true;
    Geometry geometry;
    for (size_t d = 0; d < s.size(); ++d) {
      concrete = concrete && s[d].IsConstant() && st[d].IsConstant();
      if (concrete) {
        geometry.sizes.push_back(*s[d].Constant());
        geometry.strides.push_back(*st[d].Constant());
      }
    }
    if (concrete) SMELT_RETURN_IF_ERROR(CheckGeometry(geometry, t));
    return Type::Tensor(t, std::move(s), std::move(st));
  };
  auto type = read();
  if (!type.ok()) return Annotate(type.status(), absl::StrCat("tensor_values \"", name, "\""));
  return type;
}

absl::StatusOr<std::optional<Expr>> Pt2Types::SymIntExpr(const Scope& scope, const std::string& name) {
  const Json* values = Find(*scope.graph, "sym_int_values");
  const Json* v = values == nullptr ? nullptr : Find(*values, name.c_str());
  if (v == nullptr) return std::optional<Expr>();
  auto e = ReadSize(*v);
  if (absl::IsUnimplemented(e.status())) return std::optional<Expr>();
  if (!e.ok()) return Annotate(e.status(), absl::StrCat("sym_int_values \"", name, "\""));
  return std::optional<Expr>(*e);
}

}  // namespace pt2_internal
}  // namespace smelt
