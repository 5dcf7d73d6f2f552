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
#include "smelt/functionalize/view_or_copy.h"

namespace smelt {
namespace {

// The conjugate of the transpose.
absl::Status Adjoint(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  if (!IsComplex(*o.TypeOfValue(o.In(n, 0)).dtype)) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(auto t,
                         o.Insert(n, op::kTransposeInt,
                                  {o.In(n, 0), InsertConstant(g, n, int64_t{-2}), InsertConstant(g, n, int64_t{-1})}));
  const NodeId conj = g.InsertBefore(n, OpName::Get(op::kPrivateConj), {t[0]}, {g.value(t[0]).type});
  g.SetSource(conj, g.node(n).source);
  o.ReplaceWith(n, g.node(conj).outputs[0]);
  return absl::OkStatus();
}

absl::Status CartesianProduct(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::optional<std::vector<ValueId>> elements = GetListElements(g, o.In(n, 0));
  if (!elements || elements->size() != 1) return absl::OkStatus();
  o.ReplaceWith(n, (*elements)[0]);
  return absl::OkStatus();
}

// einsum(equation, tensors) of one tensor whose dims all stay: its diagonals, and dims in another order, are a view.
absl::Status Einsum(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const std::optional<std::vector<ValueId>> elements = GetListElements(g, o.In(n, 1));
  const auto constant = GetConstant(g, o.In(n, 0));
  if (!elements || elements->size() != 1 || !constant || !std::holds_alternative<std::string>(*constant))
    return absl::OkStatus();
  ValueId v = (*elements)[0];
  if (!o.TypeOfValue(v).sizes) return absl::UnimplementedError("einsum of a tensor whose rank is not known");
  const int rank = o.TypeOfValue(v).rank();
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
    SMELT_ASSIGN_OR_RETURN(auto d, o.Insert(n, op::kDiagonal,
                                            {v, InsertConstant(g, n, int64_t{0}), InsertConstant(g, n, dims->first),
                                             InsertConstant(g, n, dims->second)}));
    v = d[0];
  }
  std::vector<int64_t> order;
  for (char c : results) order.push_back(static_cast<int64_t>(labels.find(c)));
  SMELT_ASSIGN_OR_RETURN(auto p, o.Insert(n, op::kPermute, {v, InsertConstant(g, n, order)}));
  o.ReplaceWith(n, p[0]);
  return absl::OkStatus();
}

// meshgrid(tensors, indexing): each, of rank 0 or 1, expanded along its own dim. "xy" swaps the first two.
absl::Status Meshgrid(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::optional<std::vector<ValueId>> elements = GetListElements(g, o.In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  bool swap = false;
  if (g.node(n).inputs.size() > 1) {
    auto indexing = GetConstant(g, o.In(n, 1));
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
    const std::vector<Expr>& s = *o.TypeOfValue((*elements)[k]).sizes;
    if (s.size() > 1) return absl::InvalidArgumentError("meshgrid takes tensors of rank 0 or 1");
    if (!s.empty()) sizes[dim[k]] = s[0];
  }
  std::vector<ValueId> results;
  for (size_t k = 0; k < rank; ++k) {
    std::vector<Expr> own(rank, Expr(1));
    own[dim[k]] = sizes[dim[k]];
    SMELT_ASSIGN_OR_RETURN(auto flat, o.Insert(n, op::kView, {(*elements)[k], o.IntList(n, own)}));
    SMELT_ASSIGN_OR_RETURN(auto e,
                           o.Insert(n, op::kExpand, {flat[0], o.IntList(n, sizes), InsertConstant(g, n, false)}));
    results.push_back(e[0]);
  }
  return o.ReplaceList(n, results);
}

// Makes a copy. For some sizes of the call PyTorch may take a view instead, which then makes no difference or is
// refused.
absl::StatusOr<ValueId> Clone(CompositeOpener& o, NodeId n, ValueId v, int64_t format, bool may_alias,
                              const std::vector<Expr>& to, Aliases aliases) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(auto copy, o.Insert(n, op::kClone, {v, InsertConstant(g, n, format)}));
  const NodeId clone = g.value(copy[0]).def;
  if (may_alias) g.SetAttribute(clone, kMayAlias, int64_t{1});
  const std::vector<std::string> symbols = AliasesAtOne(g, o.TypeOfValue(v), to, aliases);
  if (!symbols.empty()) g.SetAttribute(clone, kAliasesAtOne, absl::StrJoin(symbols, " "));
  return copy[0];
}

// reshape, flatten, ...: the output's sizes are known from its type. The only choice is between an alias and a copy.
absl::Status Reshape(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const ValueId self = o.In(n, 0);
  const TensorType from = o.TypeOfValue(self);
  const TensorType to = o.TypeOfValue(g.node(n).outputs[0]);
  if (!from.IsComplete() || !to.sizes) return absl::InvalidArgumentError("incomplete types");
  const std::string& name = g.node(n).op.name();
  if (name == op::kFlatten && *from.sizes == *to.sizes) return o.Identity(n);  // PyTorch returns the tensor itself
  o.Decide(self);
  const ValueId list = o.IntList(n, *to.sizes);
  ValueId base = self;
  // view_as is a view or refused, never a copy.
  const bool ravel = name == op::kRavel;  // of what is contiguous a view, else a copy
  const std::optional<bool> contiguous = HasFormat(g, from, 0);
  const bool viewable = ravel ? contiguous == true : IsViewable(g, from, *to.sizes);
  if (name != op::kViewAs && !viewable) {
    const bool may_alias = ravel ? !contiguous.has_value() : MayBeViewable(g, from, *to.sizes);
    SMELT_ASSIGN_OR_RETURN(
        base, Clone(o, n, self, 0, may_alias, *to.sizes, [&](const TensorType& t, const std::vector<Expr>& sizes) {
          return ravel ? HasFormat(g, t, 0) != false : MayBeViewable(g, t, sizes);
        }));
    // PyTorch returns the copy's view; nothing else can see the copy.
  }
  SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kView, {base, list}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

// A reshape to the sizes of the output's type, decided when it runs.
absl::Status ReshapeLater(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const ValueId list = o.IntList(n, *o.TypeOfValue(g.node(n).outputs[0]).sizes);
  SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kReshape, {o.In(n, 0), list}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

// A quarter turn is the transpose of a flip, in its memory.
absl::Status Rot90(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("k", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
  if (k % 2 == 0 || dims.size() != 2) return absl::OkStatus();
  const bool once = (k % 4 + 4) % 4 == 1;
  SMELT_ASSIGN_OR_RETURN(auto flipped, o.Insert(n, op::kFlip, {o.In(n, 0), o.IntList(n, {Expr(dims[once ? 1 : 0])})}));
  SMELT_ASSIGN_OR_RETURN(
      auto turned,
      o.Insert(n, op::kTransposeInt, {flipped[0], InsertConstant(g, n, dims[0]), InsertConstant(g, n, dims[1])}));
  o.ReplaceWith(n, turned[0]);
  return absl::OkStatus();
}

absl::Status ExpandAs(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const std::vector<Expr> sizes = *o.TypeOfValue(o.In(n, 1)).sizes;
  SMELT_ASSIGN_OR_RETURN(auto v,
                         o.Insert(n, op::kExpand, {o.In(n, 0), o.IntList(n, sizes), InsertConstant(g, n, false)}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::Status Contiguous(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::optional<Expr> format = GetIntExpr(g, o.In(n, 1));
  const int64_t code = format && format->IsConstant() ? *format->Constant() : 0;
  if (code == 1) return absl::InvalidArgumentError("preserve memory format is unsupported by the contiguous operator");
  o.Decide(o.In(n, 0));
  const std::optional<bool> has = HasFormat(g, o.TypeOfValue(o.In(n, 0)), code);
  if (has == true) return o.Identity(n);
  const std::vector<Expr> sizes = *o.TypeOfValue(o.In(n, 0)).sizes;
  SMELT_ASSIGN_OR_RETURN(
      ValueId v, Clone(o, n, o.In(n, 0), code, !has.has_value(), sizes,
                       [&](const TensorType& t, const std::vector<Expr>&) { return HasFormat(g, t, code) != false; }));
  o.ReplaceWith(n, v);
  return absl::OkStatus();
}

// Returns whether the strides suggest the format, or nullopt if that depends on sizes.
std::optional<bool> SuggestsFormat(const TensorType& t, int64_t memory_format, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  const bool last = SuggestsChannelsLast(decide, absl::MakeConstSpan(*t.sizes), absl::MakeConstSpan(*t.strides));
  if (!decide.status().ok() || !decide.assumptions().empty()) return std::nullopt;
  return last == (memory_format != 0);
}

// to.dtype, to.device, to.dtype_layout, to.other, type_as: return the tensor itself if there is nothing to do, else
// _to_copy.
absl::Status To(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const TensorType from = o.TypeOfValue(o.In(n, 0));
  const TensorType to = o.TypeOfValue(g.node(n).outputs[0]);
  bool copy = false;
  int64_t format = 1;  // preserve
  if (auto i = o.ArgumentIndex(n, "copy"); i.ok()) {
    auto c = GetConstant(g, o.In(n, *i));
    copy = c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
  }
  if (auto i = o.ArgumentIndex(n, "memory_format"); i.ok()) {
    auto c = GetConstant(g, o.In(n, *i));
    if (c && std::holds_alternative<int64_t>(*c)) format = std::get<int64_t>(*c);
  }
  if (!copy && *from.dtype == *to.dtype) {
    const std::optional<bool> has = format == 1 ? true : SuggestsFormat(from, format, g.symbols);
    if (!has) return absl::UnimplementedError("whether the result is the tensor itself hangs on its sizes");
    if (*has) return o.Identity(n);
  }
  ValueId none = o.None(n);
  NodeId fresh = g.InsertBefore(n, OpName::Get(op::kPrivateToCopy),
                                {o.In(n, 0), InsertConstant(g, n, ScalarTypeOf(*to.dtype)), none, none, none,
                                 InsertConstant(g, n, false), InsertConstant(g, n, format)},
                                {g.value(g.node(n).outputs[0]).type});
  g.SetSource(fresh, g.node(n).source);
  o.ReplaceWith(n, g.node(fresh).outputs[0]);
  return absl::OkStatus();
}

absl::Status BroadcastTensors(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::optional<std::vector<ValueId>> elements = GetListElements(g, o.In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  // The common shape is that of any result; it is found from the operands.
  size_t rank = 0;
  for (ValueId v : *elements) rank = std::max(rank, o.TypeOfValue(v).sizes->size());
  std::vector<Expr> sizes(rank, Expr(1));
  for (ValueId v : *elements) {
    const std::vector<Expr>& s = *o.TypeOfValue(v).sizes;
    for (size_t d = 0; d < s.size(); ++d) {
      Expr& out = sizes[rank - s.size() + d];
      if (out == Expr(1)) out = s[d];
    }
  }
  std::vector<ValueId> results;
  for (ValueId v : *elements) {
    if (*o.TypeOfValue(v).sizes == sizes) {  // PyTorch hands back the tensor itself
      results.push_back(v);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(auto e, o.Insert(n, op::kExpand, {v, o.IntList(n, sizes), InsertConstant(g, n, false)}));
    results.push_back(e[0]);
  }
  return o.ReplaceList(n, results);
}

absl::Status SumToSize(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const TensorType from = o.TypeOfValue(o.In(n, 0));
  const TensorType to = o.TypeOfValue(g.node(n).outputs[0]);
  if (to.rank() == 0) {  // PyTorch sums, even over one element
    SMELT_ASSIGN_OR_RETURN(auto sum, o.Insert(n, op::kSum, {o.In(n, 0), o.None(n)}));
    o.ReplaceWith(n, sum[0]);
    return absl::OkStatus();
  }
  if (*from.sizes == *to.sizes) return o.Identity(n);
  const int lead = from.rank() - to.rank();
  std::vector<int64_t> dims;
  for (int d = 0; d < from.rank(); ++d) {
    if (d < lead || ((*to.sizes)[d - lead] == Expr(1) && (*from.sizes)[d] != Expr(1))) dims.push_back(d);
  }
  ValueId v = o.In(n, 0);
  SMELT_ASSIGN_OR_RETURN(auto sum, o.Insert(n, op::kSumDimIntList,
                                            {v, InsertConstant(g, n, dims), InsertConstant(g, n, true), o.None(n)}));
  v = sum[0];
  const std::vector<std::string> symbols = AliasesAtOne(
      g, from, *to.sizes, [](const TensorType& t, const std::vector<Expr>& sizes) { return *t.sizes == sizes; });
  if (!symbols.empty()) {
    if (o.at_run_time()) return absl::UnimplementedError("whether the result is the tensor itself hangs on its sizes");
    g.SetAttribute(g.value(v).def, kAliasesAtOne, absl::StrJoin(symbols, " "));
  }
  if (lead > 0) {
    SMELT_ASSIGN_OR_RETURN(auto view, o.Insert(n, op::kView, {v, o.IntList(n, *to.sizes)}));
    v = view[0];
  }
  o.ReplaceWith(n, v);
  return absl::OkStatus();
}

absl::Status FillDiagonal(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const TensorType t = o.TypeOfValue(o.In(n, 0));
  if (t.rank() < 2) return absl::InvalidArgumentError("dimensions must larger than 1");
  auto number = [&](int64_t v) { return InsertConstant(g, n, v); };
  // Fills the diagonal of all dims at once.
  auto fill = [&](ValueId v) -> absl::Status {
    for (int k = 1; k < t.rank(); ++k) {
      SMELT_ASSIGN_OR_RETURN(auto d, o.Insert(n, op::kDiagonal, {v, number(0), number(0), number(1)}));
      v = d[0];
    }
    return o.Insert(n, op::kFillInPlaceScalar, {v, o.In(n, 1)}).status();
  };
  auto wrap = GetConstant(g, o.In(n, 2));
  const bool wraps = t.rank() == 2 && wrap && std::holds_alternative<bool>(*wrap) && std::get<bool>(*wrap);
  const std::optional<int64_t> rows = (*t.sizes)[0].Constant();
  const std::optional<int64_t> columns = wraps ? (*t.sizes)[1].Constant() : std::nullopt;
  if (wraps && (!rows || !columns)) return absl::UnimplementedError("a wrapped fill_diagonal_ of symbolic sizes");
  constexpr int64_t kMostWraps = 4096;
  if (wraps && *rows / kMostWraps > *columns) return absl::UnimplementedError("a fill_diagonal_ that wraps so often");
  if (wraps && *rows > *columns + 1) {
    // The diagonal begins anew a row after it has ended.
    for (int64_t row = 0; row < *rows; row += *columns + 1) {
      SMELT_ASSIGN_OR_RETURN(
          auto part, o.Insert(n, op::kSliceTensor, {o.In(n, 0), number(0), number(row), number(*rows), number(1)}));
      SMELT_RETURN_IF_ERROR(fill(part[0]));
    }
  } else {
    SMELT_RETURN_IF_ERROR(fill(o.In(n, 0)));
  }
  o.ReplaceWith(n, o.In(n, 0));
  return absl::OkStatus();
}

// As PyTorch, a view of a product: where the product's strides allow none, it is refused.
absl::Status Kron(CompositeOpener& o, NodeId n) {
  const std::vector<Expr> a = *o.TypeOfValue(o.In(n, 0)).sizes, b = *o.TypeOfValue(o.In(n, 1)).sizes;
  const size_t rank = std::max(a.size(), b.size());
  std::vector<Expr> wide_a(2 * rank, Expr(1)), wide_b(2 * rank, Expr(1)), out;
  for (size_t d = 0; d < a.size(); ++d) wide_a[2 * (rank - a.size() + d)] = a[d];
  for (size_t d = 0; d < b.size(); ++d) wide_b[2 * (rank - b.size() + d) + 1] = b[d];
  for (size_t d = 0; d < rank; ++d) out.push_back(wide_a[2 * d] * wide_b[2 * d + 1]);
  SMELT_ASSIGN_OR_RETURN(auto x, o.Insert(n, op::kView, {o.In(n, 0), o.IntList(n, wide_a)}));
  SMELT_ASSIGN_OR_RETURN(auto y, o.Insert(n, op::kView, {o.In(n, 1), o.IntList(n, wide_b)}));
  SMELT_ASSIGN_OR_RETURN(auto product, o.Insert(n, op::kMulTensor, {x[0], y[0]}));
  SMELT_ASSIGN_OR_RETURN(auto view, o.Insert(n, op::kView, {product[0], o.IntList(n, out)}));
  o.ReplaceWith(n, view[0]);
  return absl::OkStatus();
}

// Along a dim of no elements PyTorch takes no differences and returns the tensor itself.
absl::Status Diff(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(const OpCall call, OpCall::Of(g, n));
  SMELT_ASSIGN_OR_RETURN(const int64_t order, call.GetIntOr("n", 1));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  const std::vector<Expr>& sizes = *o.TypeOfValue(o.In(n, 0)).sizes;
  dim = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  if (dim < 0 || dim >= static_cast<int64_t>(sizes.size())) return absl::OkStatus();  // refused where it is computed
  const bool joined = !call.IsNone("prepend") || !call.IsNone("append");
  return order == 0 || joined || sizes[dim] != Expr(0) ? absl::OkStatus() : o.Identity(n);
}

absl::Status EachAtLeast(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::optional<std::vector<ValueId>> elements = GetListElements(g, o.In(n, 0));
  if (!elements) return absl::UnimplementedError("a list that is not made in place");
  const std::string& name = g.node(n).op.name();
  const int want = name == op::kAtleast1d ? 1 : name == op::kAtleast2d ? 2 : 3;
  for (ValueId& v : *elements) {
    for (int rank = o.TypeOfValue(v).rank(); rank < want; ++rank) {
      // New dims come first, except the third.
      SMELT_ASSIGN_OR_RETURN(
          auto wider, o.Insert(n, op::kUnsqueeze, {v, InsertConstant(g, n, static_cast<int64_t>(rank == 2 ? -1 : 0))}));
      v = wider[0];
    }
  }
  return o.ReplaceList(n, *elements);
}

absl::Status AtLeast(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  if (!g.value(g.node(n).outputs[0]).type.IsTensor()) return EachAtLeast(o, n);
  if (*o.TypeOfValue(o.In(n, 0)).sizes == *o.TypeOfValue(g.node(n).outputs[0]).sizes) return o.Identity(n);
  return o.at_run_time() ? ReshapeLater(o, n) : Reshape(o, n);
}

}  // namespace

void AddViewOpenings(OpeningTable& table) {
  table[Opening::kAdjoint] = Adjoint;
  table[Opening::kCartesianProduct] = CartesianProduct;
  table[Opening::kEinsum] = Einsum;
  table[Opening::kMeshgrid] = Meshgrid;
  table[Opening::kReshape] = Reshape;
  table[Opening::kRot90] = Rot90;
  table[Opening::kExpandAs] = ExpandAs;
  table[Opening::kContiguous] = Contiguous;
  table[Opening::kConvert] = To;
  table[Opening::kBroadcastTensors] = BroadcastTensors;
  table[Opening::kSumToSize] = SumToSize;
  table[Opening::kFillDiagonal] = FillDiagonal;
  table[Opening::kKron] = Kron;
  table[Opening::kDiff] = Diff;
  table[Opening::kAtLeast] = AtLeast;
}

}  // namespace smelt
