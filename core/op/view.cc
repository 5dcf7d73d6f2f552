// The meaning of view operators: applies core/tensor's view rules to the arguments of a call.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/recent.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using Geo = ExprGeometry;

// One view call: the base, and the values that the rules need.
struct ViewCtx {
  const OpCall& call;
  Geo base;
  DType dtype;
  SymbolicDecide& decide;
  ViewMeaning out;

  int rank() const { return base.rank(); }
  void Add(Geo g, std::optional<DType> t = std::nullopt) {
    SymbolicGeometry s;
    s.dtype = t.value_or(dtype);
    s.sizes = std::move(g.sizes);
    s.strides = std::move(g.strides);
    s.offset = std::move(g.offset);
    out.outputs.push_back(std::move(s));
  }
  absl::Status Take(absl::StatusOr<Geo> g, std::optional<DType> t = std::nullopt) {
    SMELT_RETURN_IF_ERROR(g.status());
    Add(*std::move(g), t);
    return absl::OkStatus();
  }
};

using Rule = absl::Status (*)(ViewCtx&);

absl::Status Alias(ViewCtx& c) {
  c.Add(c.base);
  return absl::OkStatus();
}

absl::Status RealAlias(ViewCtx& c) {
  // Lazily conjugated tensors do not exist here.
  if (IsComplex(c.dtype)) return c.call.Unsupported("lazy conjugation of complex tensors");
  return Alias(c);
}

absl::Status NegViewRule(ViewCtx& c) { return c.call.Unsupported("lazily negated tensors"); }

absl::Status ViewRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  return c.Take(view_rules::View(c.decide, c.base, sizes));
}

absl::Status ViewAsRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType other, c.call.GetTensor("other"));
  return c.Take(view_rules::View(c.decide, c.base, *other.sizes));
}

absl::Status ReshapeAliasRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> strides, c.call.GetExprs("stride"));
  return c.Take(view_rules::AsStrided(c.decide, c.base, sizes, strides, std::optional<Expr>()));
}

absl::Status AsStridedRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> strides, c.call.GetExprs("stride"));
  std::optional<Expr> offset;
  if (!c.call.IsNone("storage_offset")) {
    SMELT_ASSIGN_OR_RETURN(offset, c.call.GetExpr("storage_offset"));
  }
  return c.Take(view_rules::AsStrided(c.decide, c.base, sizes, strides, offset));
}

absl::Status ViewDTypeRule(ViewCtx& c) {
  std::optional<DType> t = c.call.GetDType("dtype");
  if (!t) return c.call.Error("argument \"dtype\" is not a dtype that smelt has");
  return c.Take(view_rules::ViewDType(c.decide, c.base, c.dtype, *t), *t);
}

absl::Status ViewAsRealRule(ViewCtx& c) {
  return c.Take(view_rules::ViewAsReal(c.decide, c.base, c.dtype), RealOf(c.dtype));
}

absl::Status ViewAsComplexRule(ViewCtx& c) {
  return c.Take(view_rules::ViewAsComplex(c.decide, c.base, c.dtype),
                c.dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64);
}

// The real or the imaginary part of a complex tensor.
absl::Status PartRule(ViewCtx& c, int64_t part) {
  if (!IsComplex(c.dtype))
    return part == 0 ? Alias(c) : c.call.Error("imag is not implemented for tensors with non-complex dtypes");
  SMELT_ASSIGN_OR_RETURN(Geo both, view_rules::ViewAsReal(c.decide, c.base, c.dtype));
  return c.Take(view_rules::Select(c.decide, both, -1, Expr(part)), RealOf(c.dtype));
}
absl::Status RealRule(ViewCtx& c) { return PartRule(c, 0); }
absl::Status ImagRule(ViewCtx& c) { return PartRule(c, 1); }

absl::Status PermuteRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, c.call.GetInts("dims"));
  return c.Take(view_rules::Permute(c.decide, c.base, dims));
}

absl::Status TransposeRule(ViewCtx& c) {
  const char* a = c.call.IndexOf("dim0") >= 0 ? "dim0" : "axis0";
  const char* b = c.call.IndexOf("dim1") >= 0 ? "dim1" : "axis1";
  SMELT_ASSIGN_OR_RETURN(int64_t d0, c.call.GetInt(a));
  SMELT_ASSIGN_OR_RETURN(int64_t d1, c.call.GetInt(b));
  return c.Take(view_rules::Transpose(c.decide, c.base, d0, d1));
}

absl::Status TRule(ViewCtx& c) {
  if (c.rank() > 2)
    return c.call.Error(absl::StrCat("t() expects a tensor with <= 2 dimensions, but self is ", c.rank(), "D"));
  if (c.rank() < 2) return Alias(c);
  return c.Take(view_rules::Transpose(c.decide, c.base, 0, 1));
}

absl::Status MatrixTRule(ViewCtx& c) {
  if (IsComplex(c.dtype) && c.call.op().name() != "aten::mT")
    return c.call.Unsupported("the adjoint of complex tensors");
  if (c.rank() < 2)
    return c.call.Error(
        absl::StrCat("tensor.mT is only supported on matrices or batches of matrices. Got ", c.rank(), "-D tensor."));
  return c.Take(view_rules::Transpose(c.decide, c.base, -2, -1));
}

absl::Status ReverseDimsRule(ViewCtx& c) {
  std::vector<int64_t> dims(c.rank());
  for (int i = 0; i < c.rank(); ++i) dims[i] = c.rank() - 1 - i;
  return c.Take(view_rules::Permute(c.decide, c.base, dims));
}

absl::Status MovedimRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> source, c.call.GetInts("source"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> destination, c.call.GetInts("destination"));
  if (source.size() != destination.size()) {
    return c.call.Error("movedim: Invalid source or destination dims: they have different numbers of elements");
  }
  const int rank = c.rank();
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> used(rank, false);
  for (size_t i = 0; i < source.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(int s, view_rules::WrapDim(source[i], rank));
    SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(destination[i], rank));
    if (rank == 0) continue;
    if (order[d] >= 0 || used[s]) return c.call.Error("movedim: repeated dim in source or destination");
    order[d] = s;
    used[s] = true;
  }
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    if (order[d] >= 0) continue;
    while (used[next]) ++next;
    order[d] = next++;
  }
  return c.Take(view_rules::Permute(c.decide, c.base, order));
}

absl::Status UnsqueezeRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dim"));
  return c.Take(view_rules::Unsqueeze(c.decide, c.base, dim));
}

absl::Status SqueezeRule(ViewCtx& c) {
  if (c.call.IsNone("dim")) return c.Take(view_rules::Squeeze(c.decide, c.base));
  if (c.call.op().overload() == "dim") {
    SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dim"));
    return c.Take(view_rules::Squeeze(c.decide, c.base, dim));
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, c.call.GetInts("dim"));
  return c.Take(view_rules::SqueezeDims(c.decide, c.base, dims));
}

absl::Status ExpandRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  return c.Take(view_rules::Expand(c.decide, c.base, sizes));
}

absl::Status ExpandAsRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType other, c.call.GetTensor("other"));
  return c.Take(view_rules::Expand(c.decide, c.base, *other.sizes));
}

absl::StatusOr<std::optional<Expr>> OptionalExpr(ViewCtx& c, absl::string_view name) {
  if (c.call.IsNone(name)) return std::optional<Expr>();
  SMELT_ASSIGN_OR_RETURN(Expr e, c.call.GetExpr(name));
  return std::optional<Expr>(e);
}

// Returns 1 if `index` counts from the end, else 0; an expression for numbers that only the data determines.
Expr CountsFromTheEnd(const ViewCtx& c, const Expr& index) {
  return c.decide.Known(0, index) == true ? Expr(0) : Min(1, Max(0, Expr(0) - index));
}

// Rewrites a bound that only the data determines so that it counts from the beginning.
void CountFromTheBeginning(const ViewCtx& c, const Expr& size, std::optional<Expr>& bound) {
  if (!bound || c.decide.IsDecidable(*bound) || c.decide.Known(0, *bound) == true) return;
  bound = Max(0, *bound + CountsFromTheEnd(c, *bound) * size);
}

absl::Status SliceRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr("dim", 0));
  SMELT_ASSIGN_OR_RETURN(std::optional<Expr> start, OptionalExpr(c, "start"));
  SMELT_ASSIGN_OR_RETURN(std::optional<Expr> end, OptionalExpr(c, "end"));
  if (const absl::StatusOr<int> d = view_rules::WrapDim(dim, c.base.rank()); d.ok() && c.base.rank() > 0) {
    CountFromTheBeginning(c, c.base.sizes[*d], start);
    CountFromTheBeginning(c, c.base.sizes[*d], end);
  }
  Expr step(1);
  if (!c.call.IsNone("step")) {
    SMELT_ASSIGN_OR_RETURN(step, c.call.GetExpr("step"));
  }
  return c.Take(view_rules::Slice(c.decide, c.base, dim, start, end, step));
}

absl::Status SelectRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(Expr index, c.call.GetExpr("index"));
  if (c.base.rank() > 0 && !c.decide.IsDecidable(index)) {
    // Only the data determines the index: the run checks its range and whether it counts from the end.
    absl::StatusOr<int> d = view_rules::WrapDim(dim, c.base.rank());
    if (!d.ok()) return c.call.Error(d.status().message());
    index = index + CountsFromTheEnd(c, index) * c.base.sizes[*d];
    ExprGeometry out = c.base;
    out.offset = out.offset + index * out.strides[*d];
    out.sizes.erase(out.sizes.begin() + *d);
    out.strides.erase(out.strides.begin() + *d);
    return c.Take(std::move(out));
  }
  return c.Take(view_rules::Select(c.decide, c.base, dim, index));
}

absl::Status NarrowRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(Expr start, c.call.GetExpr("start"));
  SMELT_ASSIGN_OR_RETURN(Expr length, c.call.GetExpr("length"));
  return c.Take(view_rules::Narrow(c.decide, c.base, dim, start, length));
}

// A constant of a malformed model must not exhaust the memory.
absl::Status CheckPieces(const ViewCtx& c, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 16;
  if (count <= kMost) return absl::OkStatus();
  return c.call.Unsupported(absl::StrCat("it would make ", count, " tensors, more than ", kMost));
}

absl::Status Parts(ViewCtx& c, int64_t dim, const std::vector<Expr>& starts, const std::vector<Expr>& lengths) {
  c.out.is_list = true;
  for (size_t i = 0; i < starts.size(); ++i) {
    SMELT_RETURN_IF_ERROR(c.Take(view_rules::Narrow(c.decide, c.base, dim, starts[i], lengths[i])));
  }
  return absl::OkStatus();
}

absl::Status SplitSizes(ViewCtx& c, int64_t dim, const std::vector<Expr>& lengths) {
  std::vector<Expr> starts;
  Expr at(0);
  for (const Expr& l : lengths) {
    starts.push_back(at);
    at = at + l;
  }
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.call.Error("split expects at least a 1-dimensional tensor");
  if (!c.decide.Equal(at, c.base.sizes[d])) {
    SMELT_RETURN_IF_ERROR(c.decide.status());
    return c.call.Error(absl::StrCat("split_with_sizes expects split_sizes to sum exactly to ",
                                     c.base.sizes[d].ToString(), " (input tensor's size at dimension ", d,
                                     "), but got ", at.ToString()));
  }
  return Parts(c, dim, starts, lengths);
}

absl::Status SplitEvery(ViewCtx& c, int64_t dim, const Expr& every) {
  if (c.rank() == 0) return c.call.Error("split expects at least a 1-dimensional tensor");
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  const Expr size = c.base.sizes[d];
  if (size.IsConstant() && every.IsConstant()) {
    const int64_t n = *size.Constant(), k = *every.Constant();
    if (k < 0 || (k == 0 && n != 0))
      return c.call.Error(absl::StrCat("split expects split_size be non-negative, but got split_size=", k));
    const int64_t count = n == 0 ? 1 : n / k + (n % k != 0 ? 1 : 0);
    SMELT_RETURN_IF_ERROR(CheckPieces(c, count));
    std::vector<Expr> starts, lengths;
    for (int64_t i = 0; i < count; ++i) {
      starts.push_back(i * k);
      lengths.push_back(std::min(k, n - i * k));
    }
    return Parts(c, dim, starts, lengths);
  }
  // The number of parts must be a number, either directly or by the ranges of the sizes.
  Expr parts = FloorDiv(size + every - 1, every);
  for (int64_t n = 1; !parts.IsConstant() && n <= 64; ++n) {
    if (c.decide.Known(parts, n) == true && c.decide.Known(n, parts) == true) parts = n;
  }
  // Takes the number of the example: a graph that names each part is correct for no other number.
  if (const std::optional<int64_t> n = c.decide.Example(parts); !parts.IsConstant() && n && *n >= 1) {
    if (c.decide.Equal(parts, *n)) parts = *n;
  }
  if (!parts.IsConstant() || *parts.Constant() > 4096) {
    return c.call.Unsupported(absl::StrCat("how many parts there are (", parts.ToString(), ") depends on sizes"));
  }
  std::vector<Expr> starts, lengths;
  for (int64_t i = 0; i < *parts.Constant(); ++i) {
    starts.push_back(Expr(i) * every);
    lengths.push_back(i + 1 < *parts.Constant() ? every : size - Expr(i) * every);
  }
  return Parts(c, dim, starts, lengths);
}

absl::Status SplitRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr("dim", 0));
  const std::string& o = c.call.op().overload();
  if (o == "Tensor") {
    SMELT_ASSIGN_OR_RETURN(Expr every, c.call.GetExpr("split_size"));
    return SplitEvery(c, dim, every);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> lengths,
                         c.call.GetExprs(c.call.IndexOf("split_size") >= 0 ? "split_size" : "split_sizes"));
  return SplitSizes(c, dim, lengths);
}

absl::Status ChunkRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr("dim", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t chunks, c.call.GetInt("chunks"));
  if (c.rank() == 0) return c.call.Error("chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0) return c.call.Error(absl::StrCat("chunk expects `chunks` to be greater than 0, got: ", chunks));
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  const Expr& size = c.base.sizes[d];
  if (size == Expr(0)) {
    SMELT_RETURN_IF_ERROR(CheckPieces(c, chunks));
    return SplitSizes(c, dim, std::vector<Expr>(chunks, Expr(0)));
  }
  if (size.IsConstant()) return SplitEvery(c, dim, Expr((*size.Constant() - 1) / chunks + 1));
  SMELT_RETURN_IF_ERROR(CheckPieces(c, chunks));
  return SplitEvery(c, dim, FloorDiv(size + (chunks - 1), Expr(chunks)));
}

absl::Status TensorSplitAt(ViewCtx& c, int64_t dim, const std::vector<Expr>& indices) {
  c.out.is_list = true;
  Expr start(0);
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  for (size_t i = 0; i <= indices.size(); ++i) {
    const Expr end = i < indices.size() ? indices[i] : c.base.sizes[d];
    SMELT_RETURN_IF_ERROR(c.Take(
        view_rules::Slice(c.decide, c.base, dim, std::optional<Expr>(start), std::optional<Expr>(end), Expr(1))));
    start = end;
  }
  return absl::OkStatus();
}

absl::Status TensorSplitSections(ViewCtx& c, int64_t dim, int64_t sections) {
  if (sections <= 0) return c.call.Error(absl::StrCat("number of sections must be larger than 0, got ", sections));
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  const Expr size = c.base.sizes[d];
  if (!size.IsConstant()) return c.call.Unsupported("the sizes of the parts depend on symbols");
  SMELT_RETURN_IF_ERROR(CheckPieces(c, sections));
  std::vector<Expr> starts, lengths;
  int64_t at = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t n = *size.Constant() / sections + (i < *size.Constant() % sections ? 1 : 0);
    starts.push_back(at);
    lengths.push_back(n);
    at += n;
  }
  return Parts(c, dim, starts, lengths);
}

absl::Status TensorSplitRule(ViewCtx& c) {
  int64_t dim = 0;
  const std::string& name = c.call.op().name();
  if (name == "aten::hsplit") dim = c.rank() == 1 ? 0 : 1;
  if (name == "aten::dsplit") dim = 2;
  if (name == "aten::tensor_split") {
    SMELT_ASSIGN_OR_RETURN(dim, c.call.GetIntOr("dim", 0));
  }
  if (c.rank() == 0) return c.call.Error("expected at least a 1-dimensional tensor");
  if (c.call.IndexOf("sections") >= 0) {
    SMELT_ASSIGN_OR_RETURN(int64_t sections, c.call.GetInt("sections"));
    return TensorSplitSections(c, dim, sections);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> indices, c.call.GetExprs("indices"));
  return TensorSplitAt(c, dim, indices);
}

absl::Status UnbindRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr("dim", 0));
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.call.Error("Dimension specified as 0 but tensor has no dimensions");
  if (!c.base.sizes[d].IsConstant()) return c.call.Unsupported("how many parts there are depends on sizes");
  SMELT_RETURN_IF_ERROR(CheckPieces(c, *c.base.sizes[d].Constant()));
  c.out.is_list = true;
  for (int64_t i = 0; i < *c.base.sizes[d].Constant(); ++i) {
    SMELT_RETURN_IF_ERROR(c.Take(view_rules::Select(c.decide, c.base, d, Expr(i))));
  }
  return absl::OkStatus();
}

absl::Status DiagonalRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t offset, c.call.GetIntOr("offset", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t d1, c.call.GetIntOr("dim1", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t d2, c.call.GetIntOr("dim2", 1));
  return c.Take(view_rules::Diagonal(c.decide, c.base, offset, d1, d2));
}

absl::Status UnfoldRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dimension"));
  SMELT_ASSIGN_OR_RETURN(Expr size, c.call.GetExpr("size"));
  SMELT_ASSIGN_OR_RETURN(Expr step, c.call.GetExpr("step"));
  return c.Take(view_rules::Unfold(c.decide, c.base, dim, size, step));
}

absl::Status UnflattenRule(ViewCtx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("sizes"));
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.call.Error("unflatten of a 0-dimensional tensor");
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> part,
                         view_rules::InferSizes(c.decide, std::vector<Expr>{c.base.sizes[d]}, sizes));
  std::vector<Expr> all(c.base.sizes.begin(), c.base.sizes.begin() + d);
  all.insert(all.end(), part.begin(), part.end());
  all.insert(all.end(), c.base.sizes.begin() + d + 1, c.base.sizes.end());
  return c.Take(view_rules::View(c.decide, c.base, all));
}

const absl::flat_hash_map<std::string, Rule>& Table() {
  static const auto* const kTable = new absl::flat_hash_map<std::string, Rule>{
      {"aten::alias", Alias},
      {"aten::detach", Alias},
      {"aten::lift_fresh", Alias},
      {"aten::lift", Alias},
      {"aten::data", Alias},
      {"aten::positive", Alias},
      {"aten::conj", RealAlias},
      {"aten::_conj", RealAlias},
      {"aten::_neg_view", NegViewRule},
      {"aten::resolve_conj", Alias},
      {"aten::resolve_neg", Alias},
      {"aten::view", ViewRule},
      {"aten::_unsafe_view", ViewRule},
      {"aten::view_as", ViewAsRule},
      {"aten::_reshape_alias", ReshapeAliasRule},
      {"aten::as_strided", AsStridedRule},
      {"aten::view.dtype", ViewDTypeRule},
      {"aten::view_as_real", ViewAsRealRule},
      {"aten::view_as_complex", ViewAsComplexRule},
      {"aten::real", RealRule},
      {"aten::imag", ImagRule},
      {"aten::permute", PermuteRule},
      {"aten::transpose.int", TransposeRule},
      {"aten::swapaxes", TransposeRule},
      {"aten::swapdims", TransposeRule},
      {"aten::t", TRule},
      {"aten::mT", MatrixTRule},
      {"aten::mH", MatrixTRule},
      {"aten::matrix_H", MatrixTRule},
      {"aten::adjoint", MatrixTRule},
      {"aten::numpy_T", ReverseDimsRule},
      {"aten::movedim.int", MovedimRule},
      {"aten::moveaxis.int", MovedimRule},
      {"aten::movedim.intlist", MovedimRule},
      {"aten::moveaxis.intlist", MovedimRule},
      {"aten::unsqueeze", UnsqueezeRule},
      {"aten::squeeze", SqueezeRule},
      {"aten::squeeze.dim", SqueezeRule},
      {"aten::squeeze.dims", SqueezeRule},
      {"aten::expand", ExpandRule},
      {"aten::broadcast_to", ExpandRule},
      {"aten::expand_as", ExpandAsRule},
      {"aten::slice.Tensor", SliceRule},
      {"aten::select.int", SelectRule},
      {"aten::narrow", NarrowRule},
      {"aten::split.Tensor", SplitRule},
      {"aten::split.sizes", SplitRule},
      {"aten::split", SplitRule},
      {"aten::split_with_sizes", SplitRule},
      {"aten::unsafe_split.Tensor", SplitRule},
      {"aten::unsafe_split_with_sizes", SplitRule},
      {"aten::chunk", ChunkRule},
      {"aten::unsafe_chunk", ChunkRule},
      {"aten::tensor_split.sections", TensorSplitRule},
      {"aten::tensor_split.indices", TensorSplitRule},
      {"aten::hsplit.int", TensorSplitRule},
      {"aten::hsplit.array", TensorSplitRule},
      {"aten::vsplit.int", TensorSplitRule},
      {"aten::vsplit.array", TensorSplitRule},
      {"aten::dsplit.int", TensorSplitRule},
      {"aten::dsplit.array", TensorSplitRule},
      {"aten::unbind.int", UnbindRule},
      {"aten::diagonal", DiagonalRule},
      {"aten::linalg_diagonal", DiagonalRule},
      {"aten::unfold", UnfoldRule},
      {"aten::unflatten.int", UnflattenRule},
  };
  return *kTable;
}

}  // namespace

namespace op_internal {
bool HasView(OpName op) { return Table().contains(op.full()); }
}  // namespace op_internal

absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, SymbolicDecide& decide) {
  const Rule* rule = op_internal::Recent<Rule>(call.op(), [](OpName op) -> const Rule* {
    auto it = Table().find(op.full());
    return it == Table().end() ? nullptr : &it->second;
  });
  if (rule == nullptr) return call.Unsupported("is not a view operator");
  ViewCtx c{call, {base.sizes, base.strides, base.offset}, base.dtype, decide, {}};
  if (absl::Status s = (*rule)(c); !s.ok()) {
    // The rules do not know the operator; OpCall's errors already name it.
    if (s.message().substr(0, call.op().full().size()) == call.op().full()) return s;
    return absl::Status(s.code(), call.Error(s.message()).message());
  }
  SMELT_RETURN_IF_ERROR(decide.status());
  return std::move(c.out);
}

absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return BuildView(call, base, decide);
}

absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               SymbolicDecide& decide) {
  static const auto* const kViews =
      new absl::flat_hash_map<std::string, OpName>{{"aten::select_scatter", OpName::Get("aten::select.int")},
                                                   {"aten::slice_scatter", OpName::Get("aten::slice.Tensor")},
                                                   {"aten::diagonal_scatter", OpName::Get("aten::diagonal")},
                                                   {"aten::as_strided_scatter", OpName::Get("aten::as_strided")}};
  const auto of = kViews->find(call.op().name());
  if (of == kViews->end()) return call.Unsupported("replaces no view");
  SMELT_ASSIGN_OR_RETURN(TensorType src, call.GetTensor("src"));
  std::vector<OpArg> args = call.args();
  args.erase(args.begin() + 1);
  absl::StatusOr<ViewMeaning> view = BuildView(OpCall(of->second, std::move(args)), base, decide);
  if (!view.ok()) return absl::Status(view.status().code(), call.Error(view.status().message()).message());
  const std::vector<Expr>& want = view->outputs[0].sizes;
  bool fits = !src.sizes || src.sizes->size() == want.size();
  for (size_t d = 0; src.sizes && fits && d < want.size(); ++d) {
    const Expr& have = (*src.sizes)[d];
    fits = decide.Known(have, want[d]).value_or(true) && decide.Known(want[d], have).value_or(true);
  }
  if (!fits) return call.Error("expected src to have a size equal to the slice of self");
  return view;
}

absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return BuildScatteredView(call, base, decide);
}

}  // namespace smelt
