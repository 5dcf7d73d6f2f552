#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/einsum.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/composite_opener.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

absl::Status CompositeOpener::Adjoint(NodeId n) {
  if (!IsComplex(*TypeOfValue(In(n, 0)).dtype)) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(
      auto t,
      Insert(n, op::kTransposeInt, {In(n, 0), InsertConstant(g_, n, int64_t{-2}), InsertConstant(g_, n, int64_t{-1})}));
  const NodeId conj = g_.InsertBefore(n, OpName::Get(op::kPrivateConj), {t[0]}, {g_.value(t[0]).type});
  g_.SetSource(conj, g_.node(n).source);
  ReplaceWith(n, g_.node(conj).outputs[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ReshapeLater(NodeId n) {
  const ValueId list = IntList(n, *TypeOfValue(g_.node(n).outputs[0]).sizes);
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kReshape, {In(n, 0), list}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::CartesianProduct(NodeId n) {
  std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
  if (!elements || elements->size() != 1) return absl::OkStatus();
  ReplaceWith(n, (*elements)[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::Einsum(NodeId n) {
  const std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 1));
  const auto constant = GetConstant(g_, In(n, 0));
  if (!elements || elements->size() != 1 || !constant || !std::holds_alternative<std::string>(*constant))
    return absl::OkStatus();
  ValueId v = (*elements)[0];
  if (!TypeOfValue(v).sizes) return absl::UnimplementedError("einsum of a tensor whose rank is not known");
  const int rank = TypeOfValue(v).rank();
  const auto parsed = ParseEinsum(std::get<std::string>(*constant), {rank});
  if (!parsed.ok()) return absl::OkStatus();  // refused later
  std::string labels = parsed->inputs[0];
  const std::string& results = parsed->output;
  for (char c : results) {
    if (!absl::StrContains(labels, c) || std::count(results.begin(), results.end(), c) != 1) return absl::OkStatus();
  }
  for (char c : labels) {
    if (!absl::StrContains(results, c)) return absl::OkStatus();  // a sum is a tensor of its own
  }
  while (const auto dims = TakeRepeatedLabel(&labels)) {
    SMELT_ASSIGN_OR_RETURN(auto d, Insert(n, op::kDiagonal,
                                          {v, InsertConstant(g_, n, int64_t{0}), InsertConstant(g_, n, dims->first),
                                           InsertConstant(g_, n, dims->second)}));
    v = d[0];
  }
  std::vector<int64_t> order;
  for (char c : results) order.push_back(static_cast<int64_t>(labels.find(c)));
  SMELT_ASSIGN_OR_RETURN(auto p, Insert(n, op::kPermute, {v, InsertConstant(g_, n, order)}));
  ReplaceWith(n, p[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::Meshgrid(NodeId n) {
  std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  bool swap = false;
  if (g_.node(n).inputs.size() > 1) {
    auto indexing = GetConstant(g_, In(n, 1));
    if (!indexing || !std::holds_alternative<std::string>(*indexing))
      return absl::UnimplementedError("an indexing that is known only at run time");
    swap = std::get<std::string>(*indexing) == "xy" && elements->size() >= 2;
  }
  const size_t rank = elements->size();
  std::vector<size_t> dim(rank);
  for (size_t k = 0; k < rank; ++k) dim[k] = k;
  if (swap) std::swap(dim[0], dim[1]);
  std::vector<Expr> sizes(rank, Expr(1));
  for (size_t k = 0; k < rank; ++k) {
    const std::vector<Expr>& s = *TypeOfValue((*elements)[k]).sizes;
    if (s.size() > 1) return absl::InvalidArgumentError("meshgrid takes tensors of rank 0 or 1");
    if (!s.empty()) sizes[dim[k]] = s[0];
  }
  std::vector<ValueId> results;
  for (size_t k = 0; k < rank; ++k) {
    std::vector<Expr> own(rank, Expr(1));
    own[dim[k]] = sizes[dim[k]];
    SMELT_ASSIGN_OR_RETURN(auto flat, Insert(n, op::kView, {(*elements)[k], IntList(n, own)}));
    SMELT_ASSIGN_OR_RETURN(auto e, Insert(n, op::kExpand, {flat[0], IntList(n, sizes), InsertConstant(g_, n, false)}));
    results.push_back(e[0]);
  }
  return ReplaceList(n, results);
}

absl::Status CompositeOpener::Reshape(NodeId n) {
  const ValueId self = In(n, 0);
  const TensorType from = TypeOfValue(self);
  const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
  if (!from.IsComplete() || !to.sizes) return absl::InvalidArgumentError("incomplete types");
  const std::string& name = g_.node(n).op.name();
  if (name == op::kFlatten && *from.sizes == *to.sizes) return Identity(n);  // PyTorch returns the tensor itself
  Decide(self);
  const ValueId list = IntList(n, *to.sizes);
  ValueId base = self;
  // view_as is a view or refused, never a copy.
  const bool ravel = name == op::kRavel;  // of what is contiguous a view, else a copy
  const std::optional<bool> contiguous = HasFormat(from, 0);
  const bool viewable = ravel ? contiguous == true : IsViewable(from, *to.sizes);
  if (name != op::kViewAs && !viewable) {
    const bool may_alias = ravel ? !contiguous.has_value() : MayBeViewable(from, *to.sizes);
    SMELT_ASSIGN_OR_RETURN(
        base, Clone(n, self, 0, may_alias, *to.sizes, [&](const TensorType& t, const std::vector<Expr>& sizes) {
          return ravel ? HasFormat(t, 0) != false : MayBeViewable(t, sizes);
        }));
    // PyTorch returns the copy's view; nothing else can see the copy.
  }
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kView, {base, list}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> CompositeOpener::Clone(NodeId n, ValueId v, int64_t format, bool may_alias,
                                               const std::vector<Expr>& to, Aliases aliases) {
  SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, op::kClone, {v, InsertConstant(g_, n, format)}));
  const NodeId clone = g_.value(copy[0]).def;
  if (may_alias) g_.SetAttribute(clone, kMayAlias, int64_t{1});
  const std::vector<std::string> symbols = AliasesAtOne(TypeOfValue(v), to, aliases);
  if (!symbols.empty()) g_.SetAttribute(clone, kAliasesAtOne, absl::StrJoin(symbols, " "));
  return copy[0];
}

std::vector<std::string> CompositeOpener::AliasesAtOne(const TensorType& from, const std::vector<Expr>& to,
                                                       Aliases aliases) const {
  absl::flat_hash_map<std::string, Expr> ones;
  for (const std::vector<Expr>* exprs : {&*from.sizes, &*from.strides}) {
    for (const Expr& e : *exprs) {
      for (const std::string& symbol : e.Symbols()) {
        const int64_t least = g_.symbols.Get(symbol).accepted_min;
        if (least == 0 || least == 1) ones.emplace(symbol, Expr(1));
      }
    }
  }
  const auto aliases_where = [&](const absl::flat_hash_map<std::string, Expr>& values) {
    const auto at = [&](std::vector<Expr> exprs) {
      for (Expr& e : exprs) e = e.Substitute(values);
      return exprs;
    };
    TensorType t = from;
    t.sizes = at(*from.sizes);
    t.strides = at(*from.strides);
    return aliases(t, at(to));
  };
  std::vector<std::string> found;
  for (const auto& [symbol, one] : ones) {
    if (aliases_where({{symbol, one}})) found.push_back(symbol);
  }
  if (found.empty() && ones.size() > 1 && aliases_where(ones)) {
    for (const auto& [symbol, one] : ones) found.push_back(symbol);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool CompositeOpener::MayBeViewable(const TensorType& from, const std::vector<Expr>& sizes) const {
  SymbolicDecide decide(&g_.symbols, g_.symbol_hints);
  auto result = view_rules::Reshape(decide, {*from.sizes, *from.strides, Expr(0)}, sizes);
  return !result.ok() || result->aliases || !decide.assumptions().empty();
}

bool CompositeOpener::IsViewable(const TensorType& from, const std::vector<Expr>& sizes) const {
  const std::vector<Expr>& old_sizes = *from.sizes;
  const std::vector<Expr>& old_strides = *from.strides;
  for (const Expr& s : old_sizes) {
    if (s == Expr(0)) return true;
  }
  int view_d = static_cast<int>(sizes.size()) - 1;
  if (old_sizes.empty()) return true;
  Expr chunk_base = old_strides.back(), tensor_numel = 1, view_numel = 1;
  for (int d = static_cast<int>(old_sizes.size()) - 1; d >= 0; --d) {
    tensor_numel = tensor_numel * old_sizes[d];
    const bool end = d == 0 || (old_sizes[d - 1] != Expr(1) && old_strides[d - 1] != tensor_numel * chunk_base);
    if (!end) continue;
    while (view_d >= 0 && (view_numel != tensor_numel) &&
           (Hint(view_numel) < Hint(tensor_numel) || sizes[view_d] == Expr(1))) {
      view_numel = view_numel * sizes[view_d];
      --view_d;
    }
    while (view_d >= 0 && sizes[view_d] == Expr(1)) --view_d;
    if (view_numel != tensor_numel) return false;
    if (d > 0) {
      chunk_base = old_strides[d - 1];
      tensor_numel = 1;
      view_numel = 1;
    }
  }
  return view_d == -1;
}

int64_t CompositeOpener::Hint(const Expr& e) const {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    auto it = g_.symbol_hints.find(s);
    values[s] = it == g_.symbol_hints.end() ? 4 : it->second;
  }
  auto v = e.Evaluate(values);
  return v.ok() ? *v : INT64_MAX;
}

absl::Status CompositeOpener::Rot90(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
  SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("k", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
  if (k % 2 == 0 || dims.size() != 2) return absl::OkStatus();
  const bool once = (k % 4 + 4) % 4 == 1;
  SMELT_ASSIGN_OR_RETURN(auto flipped, Insert(n, op::kFlip, {In(n, 0), IntList(n, {Expr(dims[once ? 1 : 0])})}));
  SMELT_ASSIGN_OR_RETURN(
      auto turned,
      Insert(n, op::kTransposeInt, {flipped[0], InsertConstant(g_, n, dims[0]), InsertConstant(g_, n, dims[1])}));
  ReplaceWith(n, turned[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ExpandAs(NodeId n) {
  const std::vector<Expr> sizes = *TypeOfValue(In(n, 1)).sizes;
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kExpand, {In(n, 0), IntList(n, sizes), InsertConstant(g_, n, false)}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

std::optional<bool> CompositeOpener::HasFormat(const TensorType& t, int64_t memory_format) const {
  const std::vector<Expr>& s = *t.sizes;
  if (std::find(s.begin(), s.end(), Expr(0)) != s.end()) return true;  // nothing is in every order
  std::vector<Expr> expected(s.size());
  if (memory_format == 0) {
    expected = ContiguousStrides(s);
  } else {
    // Channels last: NHWC, NDHWC.
    const int rank = static_cast<int>(s.size());
    if (rank < 4) return false;
    Expr stride = 1;
    expected[1] = stride;
    stride = stride * s[1];
    for (int d = rank - 1; d >= 2; --d) {
      expected[d] = stride;
      stride = stride * s[d];
    }
    expected[0] = stride;
  }
  bool surely = true;
  for (size_t d = 0; d < s.size(); ++d) {
    const Expr& stride = (*t.strides)[d];
    if (s[d] == Expr(1) || stride == expected[d]) continue;
    if (g_.symbols.Equal(s[d], 1) == false && g_.symbols.Equal(stride, expected[d]) == false) return false;
    surely = false;
  }
  return surely ? std::optional<bool>(true) : std::nullopt;
}

absl::Status CompositeOpener::Contiguous(NodeId n) {
  std::optional<Expr> format = GetIntExpr(g_, In(n, 1));
  const int64_t code = format && format->IsConstant() ? *format->Constant() : 0;
  if (code == 1) return absl::InvalidArgumentError("preserve memory format is unsupported by the contiguous operator");
  Decide(In(n, 0));
  const std::optional<bool> has = HasFormat(TypeOfValue(In(n, 0)), code);
  if (has == true) return Identity(n);
  const std::vector<Expr> sizes = *TypeOfValue(In(n, 0)).sizes;
  SMELT_ASSIGN_OR_RETURN(
      ValueId v, Clone(n, In(n, 0), code, !has.has_value(), sizes,
                       [&](const TensorType& t, const std::vector<Expr>&) { return HasFormat(t, code) != false; }));
  ReplaceWith(n, v);
  return absl::OkStatus();
}

namespace {

// Returns whether the strides suggest the format, or nullopt if that depends on sizes.
std::optional<bool> SuggestsFormat(const TensorType& t, int64_t memory_format, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  const bool last = SuggestsChannelsLast(decide, absl::MakeConstSpan(*t.sizes), absl::MakeConstSpan(*t.strides));
  if (!decide.status().ok() || !decide.assumptions().empty()) return std::nullopt;
  return last == (memory_format != 0);
}

}  // namespace

absl::Status CompositeOpener::To(NodeId n) {
  const TensorType from = TypeOfValue(In(n, 0));
  const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
  bool copy = false;
  int64_t format = 1;  // preserve
  if (auto i = ArgumentIndex(n, "copy"); i.ok()) {
    auto c = GetConstant(g_, In(n, *i));
    copy = c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
  }
  if (auto i = ArgumentIndex(n, "memory_format"); i.ok()) {
    auto c = GetConstant(g_, In(n, *i));
    if (c && std::holds_alternative<int64_t>(*c)) format = std::get<int64_t>(*c);
  }
  if (!copy && *from.dtype == *to.dtype) {
    const std::optional<bool> has = format == 1 ? true : SuggestsFormat(from, format, g_.symbols);
    if (!has) return absl::UnimplementedError("whether the result is the tensor itself hangs on its sizes");
    if (*has) return Identity(n);
  }
  ValueId none = None(n);
  NodeId fresh = g_.InsertBefore(n, OpName::Get(op::kPrivateToCopy),
                                 {In(n, 0), InsertConstant(g_, n, ScalarTypeOf(*to.dtype)), none, none, none,
                                  InsertConstant(g_, n, false), InsertConstant(g_, n, format)},
                                 {g_.value(g_.node(n).outputs[0]).type});
  g_.SetSource(fresh, g_.node(n).source);
  ReplaceWith(n, g_.node(fresh).outputs[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::BroadcastTensors(NodeId n) {
  std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  // The common shape is that of any result; it is found from the operands.
  size_t rank = 0;
  for (ValueId v : *elements) rank = std::max(rank, TypeOfValue(v).sizes->size());
  std::vector<Expr> sizes(rank, Expr(1));
  for (ValueId v : *elements) {
    const std::vector<Expr>& s = *TypeOfValue(v).sizes;
    for (size_t d = 0; d < s.size(); ++d) {
      Expr& out = sizes[rank - s.size() + d];
      if (out == Expr(1)) out = s[d];
    }
  }
  std::vector<ValueId> results;
  for (ValueId v : *elements) {
    if (*TypeOfValue(v).sizes == sizes) {  // PyTorch hands back the tensor itself
      results.push_back(v);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(auto e, Insert(n, op::kExpand, {v, IntList(n, sizes), InsertConstant(g_, n, false)}));
    results.push_back(e[0]);
  }
  return ReplaceList(n, results);
}

absl::Status CompositeOpener::SumToSize(NodeId n) {
  const TensorType from = TypeOfValue(In(n, 0));
  const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
  if (to.rank() == 0) {  // PyTorch sums, even over one element
    SMELT_ASSIGN_OR_RETURN(auto sum, Insert(n, op::kSum, {In(n, 0), None(n)}));
    ReplaceWith(n, sum[0]);
    return absl::OkStatus();
  }
  if (*from.sizes == *to.sizes) return Identity(n);
  const int lead = from.rank() - to.rank();
  std::vector<int64_t> dims;
  for (int d = 0; d < from.rank(); ++d) {
    if (d < lead || ((*to.sizes)[d - lead] == Expr(1) && (*from.sizes)[d] != Expr(1))) dims.push_back(d);
  }
  ValueId v = In(n, 0);
  SMELT_ASSIGN_OR_RETURN(
      auto sum, Insert(n, op::kSumDimIntList, {v, InsertConstant(g_, n, dims), InsertConstant(g_, n, true), None(n)}));
  v = sum[0];
  const std::vector<std::string> symbols = AliasesAtOne(
      from, *to.sizes, [](const TensorType& t, const std::vector<Expr>& sizes) { return *t.sizes == sizes; });
  if (!symbols.empty()) {
    if (at_run_time_) return absl::UnimplementedError("whether the result is the tensor itself hangs on its sizes");
    g_.SetAttribute(g_.value(v).def, kAliasesAtOne, absl::StrJoin(symbols, " "));
  }
  if (lead > 0) {
    SMELT_ASSIGN_OR_RETURN(auto view, Insert(n, op::kView, {v, IntList(n, *to.sizes)}));
    v = view[0];
  }
  ReplaceWith(n, v);
  return absl::OkStatus();
}

absl::Status CompositeOpener::FillDiagonal(NodeId n) {
  const TensorType t = TypeOfValue(In(n, 0));
  if (t.rank() < 2) return absl::InvalidArgumentError("dimensions must larger than 1");
  auto number = [&](int64_t v) { return InsertConstant(g_, n, v); };
  // Fills the diagonal of all dims at once.
  auto fill = [&](ValueId v) -> absl::Status {
    for (int k = 1; k < t.rank(); ++k) {
      SMELT_ASSIGN_OR_RETURN(auto d, Insert(n, op::kDiagonal, {v, number(0), number(0), number(1)}));
      v = d[0];
    }
    return Insert(n, op::kFillInPlaceScalar, {v, In(n, 1)}).status();
  };
  auto wrap = GetConstant(g_, In(n, 2));
  const bool wraps = t.rank() == 2 && wrap && std::holds_alternative<bool>(*wrap) && std::get<bool>(*wrap);
  const std::optional<int64_t> rows = (*t.sizes)[0].Constant();
  const std::optional<int64_t> columns = wraps ? (*t.sizes)[1].Constant() : std::nullopt;
  if (wraps && (!rows || !columns)) return absl::UnimplementedError("a wrapped fill_diagonal_ of symbolic sizes");
  constexpr int64_t kMostWraps = 4096;
  if (wraps && *rows / kMostWraps > *columns) return absl::UnimplementedError("a fill_diagonal_ that wraps so often");
  if (wraps && *rows > *columns + 1) {
    // The diagonal begins anew a row after it has ended.
    for (int64_t row = 0; row < *rows; row += *columns + 1) {
      SMELT_ASSIGN_OR_RETURN(auto part,
                             Insert(n, op::kSliceTensor, {In(n, 0), number(0), number(row), number(*rows), number(1)}));
      SMELT_RETURN_IF_ERROR(fill(part[0]));
    }
  } else {
    SMELT_RETURN_IF_ERROR(fill(In(n, 0)));
  }
  ReplaceWith(n, In(n, 0));
  return absl::OkStatus();
}

// As PyTorch, a view of a product: where the product's strides allow none, it is refused.
absl::Status CompositeOpener::Kron(NodeId n) {
  const std::vector<Expr> a = *TypeOfValue(In(n, 0)).sizes, b = *TypeOfValue(In(n, 1)).sizes;
  const size_t rank = std::max(a.size(), b.size());
  std::vector<Expr> wide_a(2 * rank, Expr(1)), wide_b(2 * rank, Expr(1)), out;
  for (size_t d = 0; d < a.size(); ++d) wide_a[2 * (rank - a.size() + d)] = a[d];
  for (size_t d = 0; d < b.size(); ++d) wide_b[2 * (rank - b.size() + d) + 1] = b[d];
  for (size_t d = 0; d < rank; ++d) out.push_back(wide_a[2 * d] * wide_b[2 * d + 1]);
  SMELT_ASSIGN_OR_RETURN(auto x, Insert(n, op::kView, {In(n, 0), IntList(n, wide_a)}));
  SMELT_ASSIGN_OR_RETURN(auto y, Insert(n, op::kView, {In(n, 1), IntList(n, wide_b)}));
  SMELT_ASSIGN_OR_RETURN(auto product, Insert(n, op::kMulTensor, {x[0], y[0]}));
  SMELT_ASSIGN_OR_RETURN(auto view, Insert(n, op::kView, {product[0], IntList(n, out)}));
  ReplaceWith(n, view[0]);
  return absl::OkStatus();
}

// Along a dim of no elements PyTorch takes no differences and returns the tensor itself.
absl::Status CompositeOpener::Diff(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(const OpCall call, OpCall::Of(g_, n));
  SMELT_ASSIGN_OR_RETURN(const int64_t order, call.GetIntOr("n", 1));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  const std::vector<Expr>& sizes = *TypeOfValue(In(n, 0)).sizes;
  dim = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  if (dim < 0 || dim >= static_cast<int64_t>(sizes.size())) return absl::OkStatus();  // refused where it is computed
  const bool joined = !call.IsNone("prepend") || !call.IsNone("append");
  return order == 0 || joined || sizes[dim] != Expr(0) ? absl::OkStatus() : Identity(n);
}

absl::Status CompositeOpener::AtLeast(NodeId n) {
  if (!g_.value(g_.node(n).outputs[0]).type.IsTensor()) return EachAtLeast(n);
  if (*TypeOfValue(In(n, 0)).sizes == *TypeOfValue(g_.node(n).outputs[0]).sizes) return Identity(n);
  return at_run_time_ ? ReshapeLater(n) : Reshape(n);
}

absl::Status CompositeOpener::EachAtLeast(NodeId n) {
  std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  const std::string& name = g_.node(n).op.name();
  const int want = name == op::kAtleast1d ? 1 : name == op::kAtleast2d ? 2 : 3;
  for (ValueId& v : *elements) {
    for (int rank = TypeOfValue(v).rank(); rank < want; ++rank) {
      // New dims come first, except the third.
      SMELT_ASSIGN_OR_RETURN(
          auto wider, Insert(n, op::kUnsqueeze, {v, InsertConstant(g_, n, static_cast<int64_t>(rank == 2 ? -1 : 0))}));
      v = wider[0];
    }
  }
  return ReplaceList(n, *elements);
}

}  // namespace smelt
