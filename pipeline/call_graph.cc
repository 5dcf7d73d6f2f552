#include "smelt/pipeline/call_graph.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"

namespace smelt {

absl::StatusOr<ValueId> CallGraph::Operand(ValueId v) {
  if (const auto it = bound_.find(v); it != bound_.end()) return it->second;
  const NodeId end = g_->block(g_->top()).return_node;
  const Value& value = outer_.value(v);
  if (auto c = GetConstant(outer_, v); c && !std::holds_alternative<Tensor>(*c)) return InsertConstant(*g_, end, *c);
  if (value.type.IsTensor()) return TensorOperand(v);
  if (auto elements = GetListElements(outer_, v)) {
    std::vector<ValueId> list;
    for (ValueId e : *elements) {
      SMELT_ASSIGN_OR_RETURN(ValueId x, Operand(e));
      list.push_back(x);
    }
    return g_->node(g_->InsertBefore(end, OpName::Get(op::kPrimListConstruct), list, {value.type})).outputs[0];
  }
  switch (value.type.kind()) {
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool: {
      const std::string name = absl::StrCat("n", operands_.size());
      const ValueId x = g_->AddInput(name, value.type);
      // The value is a size or an index; a pointwise operator takes it as a number.
      if (value.type.kind() == TypeKind::kInt && !flat_) {
        g_->SetExpr(x, Expr::Symbol(name));
        g_->symbols.Set(name, {.min = INT64_MIN, .hint = 4});
        g_->symbol_hints[name] = 4;
      }
      operands_.push_back(v);
      return x;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("%", value.name, ", of type ", value.type.ToString(), ", which only the call knows"));
  }
}

absl::StatusOr<std::vector<ValueId>> CallGraph::Apply(OpName op, const std::vector<ValueId>& args, size_t results,
                                                      std::shared_ptr<const SourceLocation> source,
                                                      Graph::Attributes attributes) {
  const NodeId n = g_->Append(g_->top(), op, args, std::vector<Type>(results, Type::Tensor()), std::move(attributes));
  g_->SetSource(n, std::move(source));
  SMELT_RETURN_IF_ERROR(InferNode(*g_, n));
  return std::vector<ValueId>(g_->node(n).outputs.begin(), g_->node(n).outputs.end());
}

absl::StatusOr<ValueId> CallGraph::Cast(ValueId v, DType to) {
  const TensorType t = g_->value(v).type.tensor();
  if (!t.dtype || !t.sizes) return absl::UnimplementedError("a result of unknown type");
  if (*t.dtype == to) return v;
  const ValueId code = Constant(ScalarTypeOf(to)), none = Constant(std::monostate());
  const NodeId n =
      g_->Append(g_->top(), OpName::Get(op::kPrivateToCopy), {v, code, none, none, none, Constant(false), none},
                 {Type::Tensor(to, *t.sizes, t.strides ? *t.strides : ContiguousStrides(*t.sizes))});
  return g_->node(n).outputs[0];
}

absl::StatusOr<ValueId> CallGraph::TensorOperand(ValueId v) {
  const TensorType& t = outer_.value(v).type.tensor();
  if (!t.dtype) return absl::UnimplementedError(absl::StrCat("the dtype of %", outer_.value(v).name, " is not known"));
  std::vector<Expr> sizes;
  if (flat_) {
    if (!t.sizes || t.rank() > 0) sizes.push_back(Symbol("n", 1024));
  } else {
    if (!t.sizes && rank_of_unknown_ < 0) {
      return absl::UnimplementedError(absl::StrCat("the sizes of %", outer_.value(v).name, " are not known"));
    }
    for (int d = 0; !t.sizes && d < rank_of_unknown_; ++d) sizes.push_back(Symbol(absl::StrCat("u", d), 4));
    has_unknown_rank_ = has_unknown_rank_ || !t.sizes;
    if (t.sizes) {
      for (const Expr& e : *t.sizes) sizes.push_back(Size(e));
    }
  }
  operands_.push_back(v);
  const std::vector<Expr> strides = strides_of_ ? strides_of_(num_tensors_++, sizes) : ContiguousStrides(sizes);
  return g_->AddInput(absl::StrCat("a", operands_.size() - 1), Type::Tensor(*t.dtype, sizes, strides));
}

Expr CallGraph::Symbol(const std::string& name, int64_t hint, SymbolRanges::Range range) {
  range.hint = hint;
  g_->symbols.Set(name, range);
  g_->symbol_hints[name] = hint;
  return Expr::Symbol(name);
}

// A size that is not constant is a symbol of the call; equal expressions are one symbol.
Expr CallGraph::Size(const Expr& e) {
  if (e.IsConstant()) return e;
  const std::string text = e.IsPoison() ? absl::StrCat("?", sizes_.size()) : e.ToString();
  auto it = sizes_.find(text);
  if (it != sizes_.end()) return it->second;
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    auto hint = outer_.symbol_hints.find(s);
    values[s] = hint == outer_.symbol_hints.end() ? 4 : hint->second;
  }
  auto hint = e.Evaluate(values);
  const SymbolRanges::Range range = e.IsSymbol() ? outer_.symbols.Get(e.SymbolName()) : SymbolRanges::Range();
  const Expr made = Symbol(absl::StrCat("d", sizes_.size()), hint.ok() ? *hint : 4, range);
  sizes_.insert({text, made});
  return made;
}

}  // namespace smelt
