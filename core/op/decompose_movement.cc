// Decomposes operators that move elements into cat, views, index arithmetic and writes of regions.
#include <algorithm>
#include <limits>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/infer.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

std::vector<ValueId> ListArg(const OpCall& call, int i = 0) {
  std::vector<ValueId> out;
  for (const OpArg& a : call.arg(i).elements) out.push_back(a.value);
  return out;
}

Values Stack(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  if (parts.empty()) return call.Error("an empty list");
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", 0));
  dim = WrapDim(dim, e.Rank(parts[0]) + 1);
  for (ValueId& p : parts) p = e.Unsqueeze(p, dim);
  return std::vector<ValueId>{e.Cat(parts, dim)};
}
Values Concat(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", 0));
  return std::vector<ValueId>{e.Cat(ListArg(call), dim)};
}
ValueId AtLeast(Emit& e, ValueId v, int rank) {
  if (e.Rank(v) == 0) v = e.View(v, {1});
  if (rank >= 2 && e.Rank(v) == 1) v = e.Unsqueeze(v, 0);
  if (rank >= 3 && e.Rank(v) == 2) v = e.Unsqueeze(v, 2);
  return v;
}
Values Hstack(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  if (parts.empty()) return call.Error("expected a non-empty list of tensors");
  for (ValueId& p : parts) p = AtLeast(e, p, 1);
  return std::vector<ValueId>{e.Cat(parts, e.Rank(parts[0]) == 1 ? 0 : 1)};
}
Values Vstack(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  for (ValueId& p : parts) p = AtLeast(e, p, 2);
  return std::vector<ValueId>{e.Cat(parts, 0)};
}
Values Dstack(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  for (ValueId& p : parts) p = AtLeast(e, p, 3);
  return std::vector<ValueId>{e.Cat(parts, 2)};
}
Values ColumnStack(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  for (ValueId& p : parts) {
    if (e.Rank(p) <= 1) p = e.Reshape(p, {e.Rank(p) == 0 ? Expr(1) : e.Sizes(p)[0], 1});
  }
  return std::vector<ValueId>{e.Cat(parts, 1)};
}

// Pads circularly: the end of each dim is repeated before its beginning. Negative padding first removes elements.
Values Circular(Emit& e, const OpCall& call, ValueId x, const std::vector<Expr>& pad) {
  const int rank = e.Rank(x);
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size() / 2) > rank)
    return call.Error("the padding does not fit the input's rank");
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int dim = rank - 1 - static_cast<int>(i);
    const Expr &left = pad[2 * i], &right = pad[2 * i + 1];
    const auto known_left = left.Constant(), known_right = right.Constant();
    if (known_left.value_or(0) < 0 || known_right.value_or(0) < 0) {
      const Expr begin = known_left.value_or(0) < 0 ? Expr(-*known_left) : Expr(0);
      const Expr end = e.Sizes(x)[dim] + (known_right.value_or(0) < 0 ? *known_right : 0);
      x = e.Slice(x, dim, begin, end);
    }
  }
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int dim = rank - 1 - static_cast<int>(i);
    const Expr &left = pad[2 * i], &right = pad[2 * i + 1], n = e.Sizes(x)[dim];
    std::vector<ValueId> parts;
    if (left != Expr(0) && left.Constant().value_or(1) > 0) parts.push_back(e.Slice(x, dim, n - left, n));
    parts.push_back(x);
    if (right != Expr(0) && right.Constant().value_or(1) > 0) parts.push_back(e.Slice(x, dim, 0, right));
    if (parts.size() > 1) x = e.Cat(parts, dim);
  }
  return std::vector<ValueId>{x};
}

// aten::pad(self, pad, mode, value)
Values Pad(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::string mode, call.GetString("mode"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call.GetExprs("pad"));
  ValueId self = call.arg(0).value;
  ValueId list = e.Ints(pad);
  if (mode == "constant") {
    SMELT_ASSIGN_OR_RETURN(double value, call.GetDoubleOr("value", 0));
    ValueId v = value == static_cast<int64_t>(value) ? e.Const(static_cast<int64_t>(value)) : e.Const(value);
    return std::vector<ValueId>{e.Op("aten::constant_pad_nd", {self, list, v})};
  }
  const std::string kind = mode == "reflect" ? "reflection" : mode == "replicate" ? "replication" : "";
  if (!kind.empty())
    return std::vector<ValueId>{e.Op(absl::StrCat("aten::", kind, "_pad", pad.size() / 2, "d"), {self, list})};
  if (mode != "circular") return call.Error(absl::StrCat("mode \"", mode, "\""));
  // Padding that removes nothing stays an operator of its own, which has a kernel.
  const bool pads = std::all_of(pad.begin(), pad.end(), [](const Expr& p) { return p.Constant().value_or(-1) >= 0; });
  if (pads) return std::vector<ValueId>{e.Op("aten::_pad_circular", {self, list})};
  return Circular(e, call, self, pad);
}
Values PadCircular(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call.GetExprs("pad"));
  return Circular(e, call, call.arg(0).value, pad);
}

Values RepeatInterleave(Emit& e, const OpCall& call) {
  ValueId self = call.arg(0).value;
  if (!call.arg(1).IsScalar()) return call.Unsupported("repeats given by a tensor");
  SMELT_ASSIGN_OR_RETURN(Expr n, call.GetExpr("repeats"));
  int64_t dim = 0;
  if (call.IsNone("dim")) {
    self = e.Flatten(self);
  } else {
    SMELT_ASSIGN_OR_RETURN(dim, call.GetInt("dim"));
    if (e.Rank(self) == 0) return call.Error("a dim of a tensor that has none");
    dim = WrapDim(dim, e.Rank(self));
  }
  std::vector<Expr> s = e.Sizes(self), wide = s;
  wide.insert(wide.begin() + dim + 1, n);
  s[dim] = s[dim] * n;
  return std::vector<ValueId>{e.Reshape(e.Expand(e.Unsqueeze(self, dim + 1), wide), s)};
}

Values Tile(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dims, call.GetExprs("dims"));
  while (static_cast<int>(dims.size()) < e.Rank(call.arg(0).value)) dims.insert(dims.begin(), Expr(1));
  return std::vector<ValueId>{e.Op("aten::repeat", {call.arg(0).value, e.Ints(dims)})};
}

Values OneHot(Emit& e, const OpCall& call) {
  ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(Expr classes, call.GetExpr("num_classes"));
  if (classes == Expr(-1)) return call.Unsupported("a number of classes that the data decides");
  ValueId none = e.None();
  ValueId range = e.Op("aten::arange", {e.Size(classes), e.Const(ScalarTypeOf(DType::kInt64)), none, none, none});
  return std::vector<ValueId>{e.Cast(e.Op("aten::eq.Tensor", {e.Unsqueeze(self, e.Rank(self)), range}), DType::kInt64)};
}

// nonzero_static(self, size, fill_value): the positions of the first `size` nonzero elements, then fill_value. Each
// element's number is written to its position among these; all others are written where nothing reads them.
Values NonzeroStatic(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(const Expr size, call.GetExpr("size"));
  SMELT_ASSIGN_OR_RETURN(const int64_t fill, call.GetIntOr("fill_value", -1));
  const std::vector<Expr> sizes = e.Sizes(self);
  if (sizes.empty()) return std::vector<ValueId>{e.Full(DType::kInt64, {size, Expr(0)}, 0)};
  const ValueId dim = e.Const(int64_t{0}), one = e.Const(int64_t{1});
  const ValueId is_wanted = e.NeInt(e.Flatten(self), 0);
  const ValueId before = e.Op("aten::sub.Scalar", {e.Op("aten::cumsum", {is_wanted, dim, e.None()}), one, one});
  const ValueId slot = e.Op("aten::clamp_max", {e.WhereN(is_wanted, before, 1LL << 62), e.Size(size)});
  const ValueId numbers = Range(e, Product(sizes));
  ValueId rest = e.Op("aten::scatter.src", {e.Full(DType::kInt64, {size + 1}, -1), dim, slot, numbers});
  rest = e.Slice(rest, 0, 0, size);
  const ValueId is_place = e.Op("aten::ge.Scalar", {rest, e.Const(int64_t{0})});
  std::vector<ValueId> columns(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    const ValueId of = e.Size(Max(sizes[d], Expr(1)));  // of no elements there are no places
    const ValueId filled = e.Fill(rest, static_cast<double>(fill));
    columns[d] = e.Where(is_place, e.Op("aten::remainder.Scalar", {rest, of}), filled);
    rest = e.Op("aten::div.Scalar_mode", {rest, of, e.Const(std::string("floor"))});
  }
  return std::vector<ValueId>{e.Op("aten::stack", {e.List(columns), one})};
}

Values Trace(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  if (e.Rank(self) != 2) {
    return call.Error(absl::StrCat("trace: expected a matrix, but got tensor with dim ", e.Rank(self)));
  }
  return std::vector<ValueId>{
      e.Sum(e.Op("aten::diagonal", {self, e.Const(int64_t{0}), e.Const(int64_t{0}), e.Const(int64_t{1})}), {0}, false)};
}

Values Glu(Emit& e, const OpCall& call) {
  ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  dim = WrapDim(dim, e.Rank(self));
  const Expr n = e.Sizes(self)[dim], half = FloorDiv(n, Expr(2));
  if (n.IsConstant() && *n.Constant() % 2 != 0)
    return call.Error(absl::StrCat("Halving dimension must be even, but dimension ", dim, " is size ", *n.Constant()));
  const auto part = [&](const Expr& from, const Expr& to) { return ToCompute(e, e.Slice(self, dim, from, to)); };
  const ValueId sigmoid = e.Sigmoid(part(half, n));
  return std::vector<ValueId>{e.Cast(e.Mul(part(0, half), sigmoid), e.DTypeOf(self))};
}

Values Diff(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t order, call.GetIntOr("n", 1));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  ValueId x = call.arg(0).value;
  dim = WrapDim(dim, e.Rank(x));
  if (order == 0) return std::vector<ValueId>{e.Op("aten::clone", {x, e.None()})};  // nothing is prepended either
  const ValueId before = TensorArg(call, "prepend"), after = TensorArg(call, "append");
  if (before.valid() || after.valid()) {
    std::vector<ValueId> parts = {x};
    if (before.valid()) parts.insert(parts.begin(), before);
    if (after.valid()) parts.push_back(after);
    x = e.Cat(parts, dim);
  }
  if (const std::optional<int64_t> n = e.Sizes(x)[dim].Constant()) order = std::min(order, *n);
  if (order == 0) return std::vector<ValueId>{e.Op("aten::clone", {x, e.None()})};
  constexpr int64_t kMostDifferences = 1024;
  if (order > kMostDifferences) return call.Unsupported("differences of so high an order");
  for (int64_t i = 0; i < order && e.ok(); ++i) {
    const Expr n = e.Sizes(x)[dim];
    const ValueId last = e.Slice(x, dim, 1, n), first = e.Slice(x, dim, 0, n - 1);
    x = e.DTypeOf(x) == DType::kBool ? e.Op("aten::logical_xor", {last, first}) : e.Sub(last, first);
  }
  return std::vector<ValueId>{x};
}

// VIEW_copy: a copy of the view.
Values ViewCopy(Emit& e, const OpCall& call) {
  const std::string name(absl::StripSuffix(call.op().name(), "_copy"));
  const std::string full = call.op().overload().empty() ? name : absl::StrCat(name, ".", call.op().overload());
  if (full == "aten::view") {  // of any strides
    const SymbolRanges ranges;
    SMELT_ASSIGN_OR_RETURN(std::vector<InferredOutput> out, InferCall(call, ranges));
    ValueId v = e.Reshape(call.arg(0).value, *out[0].type.tensor().sizes);
    return std::vector<ValueId>{e.Op("aten::clone", {v, e.Const(int64_t{0})})};
  }
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) {
    switch (a.kind) {
      case OpArg::Kind::kTensor:
        args.push_back(a.value);
        break;
      case OpArg::Kind::kInt:
        args.push_back(e.Size(a.expr));
        break;
      case OpArg::Kind::kIntList:
        args.push_back(e.Ints(a.ints));
        break;
      case OpArg::Kind::kBool:
        args.push_back(e.Const(a.number != 0));
        break;
      case OpArg::Kind::kNone:
        args.push_back(e.None());
        break;
      default:
        return call.Unsupported("an argument of this kind");
    }
  }
  return std::vector<ValueId>{e.Op("aten::clone", {e.Op(full, args), e.None()})};
}

// select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter: a copy of self with one view of it replaced.
Values ViewScatter(Emit& e, const OpCall& call) {
  const ValueId base = e.Op("aten::clone", {call.arg(0).value, e.Const(int64_t{0})});
  if (!e.ok()) return e.status();
  const SymbolicGeometry g{e.DTypeOf(base), e.Sizes(base), *e.TypeOf(base).strides, 0};
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildScatteredView(call, g, e.graph().symbols));
  return std::vector<ValueId>{
      e.WriteRegion(base, e.Expand(e.Cast(call.arg(1).value, g.dtype), m.outputs[0].sizes), m.outputs[0])};
}

Values DiagEmbed(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t offset, call.GetIntOr("offset", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t d1, call.GetIntOr("dim1", -2));
  SMELT_ASSIGN_OR_RETURN(int64_t d2, call.GetIntOr("dim2", -1));
  const int rank = e.Rank(self) + 1;
  d1 = WrapDim(d1, rank);
  d2 = WrapDim(d2, rank);
  if (d1 == d2) return call.Error("diagonal dimensions cannot be identical");
  std::vector<Expr> sizes = e.Sizes(self);
  const Expr n = sizes.back() + (offset < 0 ? -Expr(offset) : Expr(offset));
  sizes.pop_back();
  sizes.insert(sizes.begin() + std::min(d1, d2), n);
  sizes.insert(sizes.begin() + std::max(d1, d2), n);
  ValueId base = e.Full(e.DTypeOf(self), sizes, 0);
  SymbolicGeometry g{e.DTypeOf(self), sizes, ContiguousStrides(sizes), 0};
  OpCall view(OpName::Get("aten::diagonal"),
              {OpArg::Of(TensorType{g.dtype, g.sizes, g.strides}), OpArg::Int(offset), OpArg::Int(d1), OpArg::Int(d2)});
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(view, g, SymbolRanges()));
  return std::vector<ValueId>{e.WriteRegion(base, self, m.outputs[0])};
}

// block_diag(tensors): each has its own columns, and its rows follow those of the previous tensor.
Values BlockDiag(Emit& e, const OpCall& call) {
  std::vector<ValueId> parts = ListArg(call);
  Expr width = 0, left = 0;
  for (ValueId& p : parts) {
    if (e.Rank(p) > 2) return call.Error("input tensors must have two or fewer dimensions");
    p = AtLeast(e, p, 2);
    width = width + e.Sizes(p)[1];
  }
  for (ValueId& p : parts) {
    const Expr own = e.Sizes(p)[1];
    p = e.Op("aten::constant_pad_nd", {p, e.Ints({left, width - left - own}), e.Const(int64_t{0})});
    left = left + own;
  }
  return std::vector<ValueId>{e.Cat(parts, 0)};
}

// take_along_dim(self, indices, dim): gather with the other dims broadcast; negative indices count from the end.
Values TakeAlongDim(Emit& e, const OpCall& call) {
  ValueId self = call.arg(0).value, indices = call.arg(1).value;
  int64_t dim = 0;
  if (call.IsNone("dim")) {
    self = e.Flatten(self);
    indices = e.Flatten(indices);
  } else {
    SMELT_ASSIGN_OR_RETURN(dim, call.GetInt("dim"));
    const int rank = e.Rank(self);
    if (rank != e.Rank(indices)) return call.Error("input and indices should have the same number of dimensions");
    dim = WrapDim(dim, rank);
    std::vector<Expr> a = e.Sizes(self), b = e.Sizes(indices);
    for (int d = 0; d < rank; ++d) {
      if (d != dim) a[d] = b[d] = a[d] == Expr(1) ? b[d] : a[d];
    }
    self = e.Expand(self, a);
    indices = e.Expand(indices, b);
  }
  const ValueId from_end = e.Op("aten::add.Scalar", {indices, e.Size(e.Sizes(self)[dim]), e.Const(int64_t{1})});
  indices = e.Where(e.Op("aten::lt.Scalar", {indices, e.Const(int64_t{0})}), from_end, indices);
  return std::vector<ValueId>{e.Op("aten::gather", {self, e.Const(dim), indices, e.Const(false)})};
}

// tril_indices(row, col, offset), triu_indices: a constant of rows, then columns.
Values TriangleIndices(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t rows, call.GetInt("row"));
  SMELT_ASSIGN_OR_RETURN(int64_t columns, call.GetInt("col"));
  SMELT_ASSIGN_OR_RETURN(int64_t offset, call.GetIntOr("offset", 0));
  const bool lower = call.op().name() == "aten::tril_indices";
  constexpr int64_t kMost = 1 << 24;
  if (rows < 0 || columns < 0) return call.Error("row and col must not be negative");
  if (rows > kMost || (rows != 0 && columns > kMost / rows))
    return call.Unsupported("more than 16M elements in a constant");
  std::vector<int64_t> places[2];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (lower ? c - r > offset : c - r < offset) continue;
      places[0].push_back(r);
      places[1].push_back(c);
    }
  }
  const int64_t n = static_cast<int64_t>(places[0].size());
  Tensor both = Tensor::Empty(DType::kInt64, {2, n});
  for (int i = 0; i < 2; ++i) std::copy(places[i].begin(), places[i].end(), both.data_as<int64_t>() + i * n);
  return std::vector<ValueId>{e.Const(both)};
}

// The initial value of a reduction that excludes self: it does not change the result.
ConstantValue NeutralElement(const std::string& reduce) {
  if (reduce == "amax") return -std::numeric_limits<double>::infinity();
  if (reduce == "amin") return std::numeric_limits<double>::infinity();
  return int64_t{reduce == "prod" ? 1 : 0};
}

// scatter_reduce(self, dim, index, src, reduce, include_self), except for reductions that a scatter supports directly.
// If self does not count, the written positions begin with the neutral element; a mean is a sum divided by the number
// of values.
Values ScatterReduce(Emit& e, const OpCall& call, ValueId self, int64_t dim, ValueId index, ValueId source,
                     const std::string& reduce, bool include_self) {
  const DType t = e.DTypeOf(self);
  const bool mean = reduce == "mean";
  if (!include_self && (reduce == "amax" || reduce == "amin") && !IsFloating(t))
    return call.Unsupported("an extreme of integers that leaves self out");
  const ValueId d = e.Const(dim);
  ValueId start = self;
  if (!include_self) start = e.Op("aten::scatter.value", {self, d, index, e.Const(NeutralElement(reduce))});
  const ValueId sum = e.Op("aten::scatter_reduce.two",
                           {start, d, index, source, e.Const(std::string(mean ? "sum" : reduce)), e.Const(true)});
  if (!mean) return std::vector<ValueId>{sum};
  const ValueId ones = e.Full(t, e.Sizes(index), 1);
  const ValueId count = e.Op("aten::scatter_add", {e.Full(t, e.Sizes(self), include_self ? 1 : 0), d, index, ones});
  const ValueId at_least_one = e.Op("aten::clamp_min", {count, e.Const(int64_t{1})});
  if (IsFloating(t)) return std::vector<ValueId>{e.Div(sum, at_least_one)};
  return std::vector<ValueId>{e.Op("aten::div.Tensor_mode", {sum, at_least_one, e.Const(std::string("floor"))})};
}

// Sums and products of half types are kept in float32 and rounded once, as in PyTorch's scatters: a sum in bfloat16
// itself stops growing at 256.
Values ScatterAdd(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  if (!IsHalf(e.DTypeOf(self))) return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  const ValueId sum = e.Op("aten::scatter_add", {e.Cast(self, DType::kFloat32), e.Const(dim), call.arg(2).value,
                                                 e.Cast(call.arg(3).value, DType::kFloat32)});
  return std::vector<ValueId>{e.Cast(sum, e.DTypeOf(self))};
}
// scatter(self, dim, index, src or value, reduce)
Values ScatterWithReduce(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  if (!IsHalf(e.DTypeOf(self))) return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(std::string reduce, call.GetString("reduce"));
  const bool tensor = call.op().full() == "aten::scatter.reduce";
  const ValueId source = tensor ? e.Cast(call.arg(3).value, DType::kFloat32) : e.Const(call.arg(3).number);
  const ValueId out =
      e.Op(call.op().full(), {e.Cast(self, DType::kFloat32), e.Const(dim), call.arg(2).value, source, e.Const(reduce)});
  return std::vector<ValueId>{e.Cast(out, e.DTypeOf(self))};
}
// index_add(self, dim, index, source, alpha). PyTorch uses a scatter for the outermost and innermost dims only; for
// others its kernel adds slice by slice and rounds each time.
Values IndexAdd(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value, index = call.arg(2).value;
  const int rank = e.Rank(self);
  if (!IsHalf(e.DTypeOf(self)) || rank < 2 || e.DTypeOf(index) != DType::kInt64) return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(double alpha, call.GetDoubleOr("alpha", 1));
  dim = WrapDim(dim, rank);
  if (alpha != 1 || (dim != 0 && dim != rank - 1)) return std::vector<ValueId>();
  const ValueId sum = e.Op("aten::index_add", {e.Cast(self, DType::kFloat32), e.Const(dim), index,
                                               e.Cast(call.arg(3).value, DType::kFloat32), e.Const(int64_t{1})});
  return std::vector<ValueId>{e.Cast(sum, e.DTypeOf(self))};
}
Values ScatterReduceTwo(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::string reduce, call.GetString("reduce"));
  SMELT_ASSIGN_OR_RETURN(bool include_self, call.GetBoolOr("include_self", true));
  if (include_self && (reduce == "sum" || reduce == "prod") && IsHalf(e.DTypeOf(call.arg(0).value))) {
    const ValueId self = call.arg(0).value;
    SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
    const ValueId out =
        e.Op("aten::scatter_reduce.two", {e.Cast(self, DType::kFloat32), e.Const(dim), call.arg(2).value,
                                          e.Cast(call.arg(3).value, DType::kFloat32), e.Const(reduce), e.Const(true)});
    return std::vector<ValueId>{e.Cast(out, e.DTypeOf(self))};
  }
  if (include_self && reduce != "mean") return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  return ScatterReduce(e, call, call.arg(0).value, dim, call.arg(2).value, call.arg(3).value, reduce, include_self);
}
// index_reduce(self, dim, index, source, reduce, include_self): one index per slice.
Values IndexReduce(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::string reduce, call.GetString("reduce"));
  SMELT_ASSIGN_OR_RETURN(bool include_self, call.GetBoolOr("include_self", true));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  const ValueId self = call.arg(0).value, source = call.arg(3).value;
  const int rank = e.Rank(source);
  if (rank == 0) {
    // One element, of a vector of one as well.
    const ValueId reshaped = e.Reshape(source, {Expr(1)});
    const ValueId fifth = e.Reshape(call.arg(2).value, {Expr(1)});
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> out, ScatterReduce(e, call, e.Reshape(self, {Expr(1)}), 0, fifth,
                                                                   reshaped, reduce, include_self));
    return std::vector<ValueId>{e.Reshape(out[0], e.Sizes(self))};
  }
  if (e.Rank(call.arg(2).value) > 1) return call.Unsupported("an index that is no vector");
  dim = WrapDim(dim, rank);
  std::vector<Expr> column(rank, Expr(1));
  column[dim] = e.Sizes(source)[dim];
  const ValueId index = e.Expand(e.Reshape(call.arg(2).value, column), e.Sizes(source));
  return ScatterReduce(e, call, self, dim, index, source, reduce, include_self);
}

// Returns the argument of a pool over one dim, as that of a pool over two of which the first has size 1: `fill` there.
absl::StatusOr<ValueId> SpatialPair(Emit& e, const OpCall& call, const char* key, int64_t fill) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> v, call.GetInts(key));
  if (v.empty()) return e.Const(std::vector<int64_t>{});
  return e.Const(std::vector<int64_t>{fill, v[0]});
}

Values MaxPool(Emit& e, const OpCall& call) {
  // The operator without indices is the first result of the operator that returns both.
  const std::string with = absl::StrCat(call.op().name(), "_with_indices");
  std::vector<ValueId> args = {call.arg(0).value};
  for (size_t i = 1; i < call.args().size(); ++i) {
    const OpArg& a = call.args()[i];
    if (a.kind == OpArg::Kind::kIntList) {
      args.push_back(e.Ints(a.ints));
    } else if (a.kind == OpArg::Kind::kInt) {
      args.push_back(e.Ints({a.expr}));
    } else {
      args.push_back(e.Const(a.number != 0));
    }
  }
  if (call.op().name() == "aten::max_pool1d") {
    // Adds a dim of size 1.
    SMELT_ASSIGN_OR_RETURN(ValueId kernel, SpatialPair(e, call, "kernel_size", 1));
    SMELT_ASSIGN_OR_RETURN(ValueId stride, SpatialPair(e, call, "stride", 1));
    SMELT_ASSIGN_OR_RETURN(ValueId padding, SpatialPair(e, call, "padding", 0));
    SMELT_ASSIGN_OR_RETURN(ValueId dilation, SpatialPair(e, call, "dilation", 1));
    ValueId wide = e.Unsqueeze(call.arg(0).value, e.Rank(call.arg(0).value) - 1);
    ValueId out =
        e.Multi("aten::max_pool2d_with_indices", {wide, kernel, stride, padding, dilation, args.back()}, 2)[0];
    return std::vector<ValueId>{e.Squeeze(out, -2)};
  }
  return std::vector<ValueId>{e.Multi(with, args, 2)[0]};
}

// Windows along a dim: their begins and ends, as int64 tensors, and the size of the longest.
struct WindowsAlong {
  ValueId begin, end;
  int64_t taps;
};
// Returns the sum of each window of v along `dim`, which becomes the dim of windows.
ValueId SumAlongWindows(Emit& e, ValueId v, int dim, const WindowsAlong& windows) {
  if (!e.ok()) return ValueId();
  std::vector<Expr> sizes = e.Sizes(v);
  const Expr last = sizes[dim] - 1, out = e.Sizes(windows.begin)[0], taps = windows.taps;
  const ValueId at = e.Add(windows.begin, e.Unsqueeze(Range(e, taps), 1));  // [taps, out], as what follows
  ValueId inside = e.Op("aten::lt.Tensor", {at, windows.end});
  const ValueId read = e.Reshape(e.Op("aten::clamp", {at, e.None(), e.Size(last)}), {taps * out});
  sizes[dim] = out;
  sizes.insert(sizes.begin() + dim, taps);
  const ValueId parts = e.View(e.Op("aten::index_select", {v, e.Const(int64_t{dim}), read}), sizes);
  for (size_t d = dim + 2; d < sizes.size(); ++d) inside = e.Unsqueeze(inside, -1);
  return e.Sum(e.WhereN(inside, parts, 0), {dim}, false);
}

// Divides n elements into the requested number of windows, dim by dim, as a sum of sums.
ValueId MeanOfSharedWindows(Emit& e, ValueId self, const std::vector<Expr>& out) {
  ValueId v = ToCompute(e, self), count;
  const int first = e.Rank(self) - static_cast<int>(out.size());
  for (size_t d = 0; d < out.size() && e.ok(); ++d) {
    const int dim = first + static_cast<int>(d);
    const int64_t in = *e.Sizes(v)[dim].Constant(), windows = *out[d].Constant();
    const auto floor = [&](ValueId a) {
      return e.Op("aten::div.Scalar_mode", {a, e.Const(windows), e.Const(std::string("floor"))});
    };
    const auto plus = [&](ValueId a, int64_t n) {
      return e.Op("aten::add.Scalar", {a, e.Const(n), e.Const(int64_t{1})});
    };
    ValueId length;
    if (in % windows == 0) {
      std::vector<Expr> sizes = e.Sizes(v);
      sizes[dim] = in / windows;
      sizes.insert(sizes.begin() + dim, windows);
      v = e.Sum(e.Reshape(v, sizes), {dim + 1}, false);
      length = e.Full(e.DTypeOf(v), {out[d]}, static_cast<double>(in / windows));
    } else {
      const ValueId begin = e.Op("aten::mul.Scalar", {Range(e, windows), e.Const(in)});
      const WindowsAlong along{floor(begin), floor(plus(begin, in + windows - 1)), (in + windows - 1) / windows + 1};
      v = SumAlongWindows(e, v, dim, along);
      length = e.Cast(e.Sub(along.end, along.begin), e.DTypeOf(v));
    }
    count = count.valid() ? e.Mul(e.Unsqueeze(count, -1), length) : length;
  }
  return e.Cast(e.Div(v, count), e.DTypeOf(self));
}

// adaptive_avg_pool: a mean over all elements, or a plain pooling where the sizes divide evenly.
Values AdaptiveAvgPool(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, call.GetExprs("output_size"));
  const int rank = e.Rank(self), spatial = static_cast<int>(out.size());
  std::vector<int64_t> dims, kernel;
  bool to_one = true, divides = true;
  for (int d = 0; d < spatial; ++d) {
    dims.push_back(rank - spatial + d);
    const Expr n = e.Sizes(self)[dims.back()];
    to_one = to_one && out[d] == Expr(1);
    if (n.IsConstant() && out[d].IsConstant() && *out[d].Constant() > 0 && *n.Constant() % *out[d].Constant() == 0) {
      kernel.push_back(*n.Constant() / *out[d].Constant());
    } else {
      divides = false;
    }
  }
  if (to_one) return std::vector<ValueId>{e.Mean(self, dims, true)};
  if (!divides) {
    const bool known = absl::c_all_of(dims, [&](int64_t d) { return e.Sizes(self)[d].IsConstant(); }) &&
                       absl::c_all_of(out, [](const Expr& size) { return size.IsConstant() && *size.Constant() > 0; });
    if (spatial == 1 || !known) return std::vector<ValueId>();
    return std::vector<ValueId>{MeanOfSharedWindows(e, self, out)};
  }
  ValueId k = e.Const(kernel), zero = e.Const(std::vector<int64_t>(spatial, 0));
  if (spatial == 1) {
    ValueId wide = e.Unsqueeze(self, rank - 1);
    ValueId k2 = e.Const(std::vector<int64_t>{1, kernel[0]}), z2 = e.Const(std::vector<int64_t>{0, 0});
    return std::vector<ValueId>{
        e.Squeeze(e.Op("aten::avg_pool2d", {wide, k2, k2, z2, e.Const(false), e.Const(true), e.None()}), -2)};
  }
  return std::vector<ValueId>{
      e.Op(absl::StrCat("aten::avg_pool", spatial, "d"), {self, k, k, zero, e.Const(false), e.Const(true), e.None()})};
}

Values AvgPool1d(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(ValueId kernel, SpatialPair(e, call, "kernel_size", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId stride, SpatialPair(e, call, "stride", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId padding, SpatialPair(e, call, "padding", 0));
  SMELT_ASSIGN_OR_RETURN(bool ceil_mode, call.GetBoolOr("ceil_mode", false));
  SMELT_ASSIGN_OR_RETURN(bool include, call.GetBoolOr("count_include_pad", true));
  ValueId out = e.Op("aten::avg_pool2d", {e.Unsqueeze(self, e.Rank(self) - 1), kernel, stride, padding,
                                          e.Const(ceil_mode), e.Const(include), e.None()});
  return std::vector<ValueId>{e.Squeeze(out, -2)};
}

Values Cross(Emit& e, const OpCall& call) {
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  int64_t dim = -1;
  if (!call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(dim, call.GetInt("dim"));
  } else {  // the first of size 3
    const std::vector<Expr> sizes = e.Sizes(a);
    dim = std::find(sizes.begin(), sizes.end(), Expr(3)) - sizes.begin();
    if (dim == static_cast<int64_t>(sizes.size())) return call.Error("no dimension of size 3 in input");
  }
  dim = WrapDim(dim, e.Rank(a));
  auto at = [&](ValueId v, int i) { return e.Slice(v, dim, i, i + 1); };
  auto part = [&](int i, int j) {
    const ValueId second = at(b, i);
    const ValueId product = e.Mul(at(a, j), second);
    const ValueId second2 = at(b, j);
    return e.Sub(e.Mul(at(a, i), second2), product);
  };
  return std::vector<ValueId>{e.Cat({part(1, 2), part(2, 0), part(0, 1)}, dim)};
}

// Returns a permutation of the dims after the first `lead`.
std::vector<int64_t> AfterLead(int lead, std::vector<int64_t> order) {
  for (int64_t& d : order) d += lead;
  for (int d = lead; d-- > 0;) order.insert(order.begin(), d);
  return order;
}
// Returns the first `lead` of `sizes`, followed by `image`.
std::vector<Expr> WithLead(const std::vector<Expr>& sizes, int lead, std::vector<Expr> image) {
  image.insert(image.begin(), sizes.begin(), sizes.begin() + lead);
  return image;
}
// Images of any number of batch dims: [*, C, H, W].
Values PixelShuffle(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t r, call.GetInt("upscale_factor"));
  const std::vector<Expr> s = e.Sizes(self);
  const int lead = static_cast<int>(s.size()) - 3;
  if (lead < 0) return call.Error("expects an input with at least 3 dims");
  const Expr c = FloorDiv(s[lead], Expr(r) * r), h = s[lead + 1], w = s[lead + 2];
  const ValueId v = e.Permute(e.Reshape(self, WithLead(s, lead, {c, r, r, h, w})), AfterLead(lead, {0, 3, 1, 4, 2}));
  return std::vector<ValueId>{e.Reshape(v, WithLead(s, lead, {c, h * r, w * r}))};
}
Values PixelUnshuffle(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t r, call.GetInt("downscale_factor"));
  const std::vector<Expr> s = e.Sizes(self);
  const int lead = static_cast<int>(s.size()) - 3;
  if (lead < 0) return call.Error("expects an input with at least 3 dims");
  const Expr c = s[lead], h = FloorDiv(s[lead + 1], Expr(r)), w = FloorDiv(s[lead + 2], Expr(r));
  const ValueId v = e.Permute(e.Reshape(self, WithLead(s, lead, {c, h, r, w, r})), AfterLead(lead, {0, 2, 4, 1, 3}));
  return std::vector<ValueId>{e.Reshape(v, WithLead(s, lead, {c * r * r, h, w}))};
}
Values ChannelShuffle(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t groups, call.GetInt("groups"));
  std::vector<Expr> s = e.Sizes(self), split = s;
  split[1] = groups;
  split.insert(split.begin() + 2, FloorDiv(s[1], Expr(groups)));
  std::vector<int64_t> perm;
  for (size_t d = 0; d < split.size(); ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[1], perm[2]);
  return std::vector<ValueId>{e.Reshape(e.Permute(e.Reshape(self, split), perm), s)};
}

// pad_sequence(sequences, batch_first, padding_value, padding_side): fills each up to the longest, then stacks them.
Values PadSequence(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool batch_first, call.GetBoolOr("batch_first", false));
  SMELT_ASSIGN_OR_RETURN(double padding, call.GetDoubleOr("padding_value", 0));
  SMELT_ASSIGN_OR_RETURN(const std::string side, call.GetString("padding_side"));
  int64_t longest = 0;
  for (const OpArg& a : call.arg(0).elements) {
    if (e.Rank(a.value) < 1) return call.Error("a sequence has at least one dim");
    const std::optional<int64_t> length = e.Sizes(a.value)[0].Constant();
    if (!length) return call.Unsupported("lengths known only at run time");
    longest = std::max(longest, *length);
  }
  std::vector<ValueId> parts;
  for (const OpArg& a : call.arg(0).elements) {
    const int64_t missing = longest - *e.Sizes(a.value)[0].Constant();
    std::vector<Expr> pad(2 * e.Rank(a.value), Expr(0));
    pad[pad.size() - (side == "left" ? 2 : 1)] = missing;
    parts.push_back(missing == 0 ? a.value : e.Op("aten::constant_pad_nd", {a.value, e.Ints(pad), e.Const(padding)}));
  }
  return std::vector<ValueId>{e.Op("aten::stack", {e.List(parts), e.Const(int64_t{batch_first ? 0 : 1})})};
}

}  // namespace

void AddMovementRules(DecompositionTable& t) {
  t["aten::pad_sequence"] = PadSequence;
  t["aten::stack"] = Stack;
  t["aten::concat"] = t["aten::concatenate"] = Concat;
  t["aten::hstack"] = Hstack;
  t["aten::vstack"] = t["aten::row_stack"] = Vstack;
  t["aten::dstack"] = Dstack;
  t["aten::column_stack"] = ColumnStack;
  t["aten::pad"] = Pad;
  t["aten::repeat_interleave.self_int"] = RepeatInterleave;
  t["aten::tile"] = Tile;
  t["aten::one_hot"] = OneHot;
  t["aten::nonzero_static"] = NonzeroStatic;
  t["aten::trace"] = Trace;
  t["aten::glu"] = Glu;
  t["aten::diff"] = Diff;
  for (const char* view : {"view", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "select", "slice",
                           "diagonal", "as_strided", "unfold", "_reshape_alias"}) {
    t[absl::StrCat("aten::", view, "_copy")] = ViewCopy;
  }
  t["aten::select_scatter"] = t["aten::slice_scatter"] = t["aten::diagonal_scatter"] = t["aten::as_strided_scatter"] =
      ViewScatter;
  t["aten::diag_embed"] = DiagEmbed;
  t["aten::_pad_circular"] = PadCircular;
  t["aten::block_diag"] = BlockDiag;
  t["aten::take_along_dim"] = TakeAlongDim;
  t["aten::tril_indices"] = t["aten::triu_indices"] = TriangleIndices;
  t["aten::scatter_add"] = ScatterAdd;
  t["aten::scatter.reduce"] = t["aten::scatter.value_reduce"] = ScatterWithReduce;
  t["aten::index_add"] = IndexAdd;
  t["aten::scatter_reduce.two"] = ScatterReduceTwo;
  t["aten::index_reduce"] = IndexReduce;
  t["aten::max_pool1d"] = t["aten::max_pool2d"] = t["aten::max_pool3d"] = MaxPool;
  t["aten::adaptive_avg_pool1d"] = t["aten::adaptive_avg_pool2d"] = t["aten::adaptive_avg_pool3d"] = AdaptiveAvgPool;
  t["aten::_adaptive_avg_pool2d"] = t["aten::_adaptive_avg_pool3d"] = AdaptiveAvgPool;
  t["aten::avg_pool1d"] = AvgPool1d;
  t["aten::linalg_cross"] = t["aten::cross"] = Cross;
  t["aten::pixel_shuffle"] = PixelShuffle;
  t["aten::pixel_unshuffle"] = PixelUnshuffle;
  t["aten::channel_shuffle"] = ChannelShuffle;
}

}  // namespace smelt
