#include "smelt/core/tensor/view_op.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {

template <typename D>
struct ViewCall {
  using Index = typename D::Index;
  using Geometry = typename D::Geometry;
  static constexpr bool kIsSymbolic = std::is_same_v<D, SymbolicDecide>;

  const ViewArguments<D>& arguments;
  const Geometry& base;
  DType dtype;
  D& decide;
  ViewResult<D> out;

  int rank() const { return static_cast<int>(base.sizes.size()); }

  absl::StatusOr<int64_t> NumberOr(size_t i, int64_t d) const {
    return arguments.IsNone(i) ? absl::StatusOr<int64_t>(d) : arguments.Number(i);
  }
  absl::StatusOr<std::optional<Index>> MaybeInt(size_t i) const {
    if (arguments.IsNone(i)) return std::optional<Index>();
    SMELT_ASSIGN_OR_RETURN(Index v, arguments.Int(i));
    return std::optional<Index>(std::move(v));
  }

  // PyTorch refuses the call.
  absl::Status Refuse(absl::string_view message) const {
    return kIsSymbolic ? absl::InvalidArgumentError(message) : absl::FailedPreconditionError(message);
  }
  // A malformed model must not exhaust the memory.
  absl::Status CheckParts(int64_t count) const {
    constexpr int64_t kMost = int64_t{1} << (kIsSymbolic ? 16 : 24);
    if (count <= kMost) return absl::OkStatus();
    const std::string message = absl::StrCat("it would make ", count, " tensors, more than ", kMost);
    return kIsSymbolic ? absl::UnimplementedError(message) : absl::ResourceExhaustedError(message);
  }

  absl::Status Take(absl::StatusOr<Geometry> g, std::optional<DType> t = std::nullopt) {
    SMELT_RETURN_IF_ERROR(g.status());
    out.parts.push_back({*std::move(g), t.value_or(dtype)});
    return absl::OkStatus();
  }
  absl::Status TakeOperand() {
    out.is_operand = true;
    return Take(base);
  }
  absl::Status TakeCopy(std::vector<Index> strides) {
    out.parts.push_back({{base.sizes, strides, Index(0)}, dtype});
    out.copy_strides = std::move(strides);
    return absl::OkStatus();
  }
};

namespace {

template <typename D>
using Call = ViewCall<D>;
template <typename D>
using IndexVector = std::vector<typename D::Index>;

std::optional<int64_t> Constant(int64_t v) { return v; }
std::optional<int64_t> Constant(const Expr& e) { return e.Constant(); }
std::string Text(int64_t v) { return absl::StrCat(v); }
std::string Text(const Expr& e) { return e.ToString(); }

// --- the same elements ---

template <typename D>
absl::Status Alias(Call<D>& c) {
  return c.Take(c.base);
}

template <typename D>
absl::Status Itself(Call<D>& c) {
  return c.TakeOperand();
}

absl::Status RefuseLazyConjugation() { return absl::UnimplementedError("lazy conjugation of complex tensors"); }

template <typename D>
absl::Status Conj(Call<D>& c) {
  return IsComplex(c.dtype) ? RefuseLazyConjugation() : c.TakeOperand();
}

template <typename D>
absl::Status ConjView(Call<D>& c) {
  return IsComplex(c.dtype) ? RefuseLazyConjugation() : Alias(c);
}

absl::Status NegView(Call<SymbolicDecide>&) { return absl::UnimplementedError("lazily negated tensors"); }

// --- other sizes ---

// Argument 1 gives the sizes, either as a list or as those of a tensor (view_as).
enum class SizesOf : uint8_t { kList, kTensor };

template <SizesOf from, typename D>
absl::StatusOr<IndexVector<D>> GivenSizes(const Call<D>& c) {
  return from == SizesOf::kList ? c.arguments.Ints(1) : c.arguments.SizesOfTensor(1);
}

template <SizesOf from, typename D>
absl::Status View(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, GivenSizes<from>(c));
  return c.Take(view_rules::View(c.decide, c.base, sizes));
}

template <typename D>
absl::Status ReshapeTo(Call<D>& c, const IndexVector<D>& sizes) {
  SMELT_ASSIGN_OR_RETURN(view_rules::ReshapeResult<D> r, view_rules::Reshape(c.decide, c.base, sizes));
  if (!r.aliases) c.out.copy_strides = view_rules::ContiguousStrides(c.decide, c.base.sizes);
  return c.Take(std::move(r.geometry));
}

template <SizesOf from, typename D>
absl::Status Reshape(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, GivenSizes<from>(c));
  return ReshapeTo(c, sizes);
}

template <typename D>
absl::Status Flatten(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t start, c.NumberOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(const int64_t end, c.NumberOr(2, -1));
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, view_rules::FlattenedSizes(c.decide, c.base.sizes, start, end));
  return sizes == c.base.sizes ? c.TakeOperand() : ReshapeTo(c, sizes);
}

// contiguous().view(-1): a copy of what is not contiguous, even if it is a view of one stride.
template <typename D>
absl::Status Ravel(Call<D>& c) {
  typename D::Geometry whole = c.base;
  if (!view_rules::IsContiguous(c.decide, c.base)) {
    c.out.copy_strides = view_rules::ContiguousStrides(c.decide, c.base.sizes);
    whole.strides = *c.out.copy_strides;
    whole.offset = 0;
  }
  typename D::Index elements(1);
  for (const typename D::Index& size : c.base.sizes) elements = c.decide.Mul(elements, size);
  return c.Take(view_rules::View(c.decide, whole, {elements}));
}

template <typename D>
absl::Status Unflatten(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, c.arguments.Ints(2));
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.Refuse("unflatten of a 0-dimensional tensor");
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> part,
                         view_rules::InferSizes(c.decide, IndexVector<D>{c.base.sizes[d]}, sizes));
  IndexVector<D> all(c.base.sizes.begin(), c.base.sizes.begin() + d);
  all.insert(all.end(), part.begin(), part.end());
  all.insert(all.end(), c.base.sizes.begin() + d + 1, c.base.sizes.end());
  return c.Take(view_rules::View(c.decide, c.base, all));
}

template <SizesOf from, typename D>
absl::Status Expand(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, GivenSizes<from>(c));
  return c.Take(view_rules::Expand(c.decide, c.base, sizes));
}

template <typename D>
absl::Status ReshapeAlias(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, c.arguments.Ints(1));
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> strides, c.arguments.Ints(2));
  return c.Take(view_rules::AsStrided(c.decide, c.base, sizes, strides, std::optional<typename D::Index>()));
}

template <typename D>
absl::Status AsStrided(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> sizes, c.arguments.Ints(1));
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> strides, c.arguments.Ints(2));
  SMELT_ASSIGN_OR_RETURN(const std::optional<typename D::Index> offset, c.MaybeInt(3));
  return c.Take(view_rules::AsStrided(c.decide, c.base, sizes, strides, offset));
}

template <typename D>
absl::Status Unsqueeze(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  return c.Take(view_rules::Unsqueeze(c.decide, c.base, dim));
}

template <typename D>
absl::Status Squeeze(Call<D>& c) {
  if (c.arguments.IsNone(1)) return c.Take(view_rules::Squeeze(c.decide, c.base));
  if (c.arguments.IsList(1)) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, c.arguments.Numbers(1));
    return c.Take(view_rules::SqueezeDims(c.decide, c.base, dims));
  }
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  return c.Take(view_rules::Squeeze(c.decide, c.base, dim));
}

// --- other dtypes ---

template <typename D>
absl::Status ViewDType(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const DType to, c.arguments.AsDType(1));
  return c.Take(view_rules::ViewDType(c.decide, c.base, c.dtype, to), to);
}

template <typename D>
absl::Status ViewAsReal(Call<D>& c) {
  return c.Take(view_rules::ViewAsReal(c.decide, c.base, c.dtype), RealOf(c.dtype));
}

template <typename D>
absl::Status ViewAsComplex(Call<D>& c) {
  return c.Take(view_rules::ViewAsComplex(c.decide, c.base, c.dtype),
                c.dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64);
}

template <typename D>
absl::Status Component(Call<D>& c, int64_t which) {
  SMELT_ASSIGN_OR_RETURN(const typename D::Geometry both, view_rules::ViewAsReal(c.decide, c.base, c.dtype));
  return c.Take(view_rules::Select(c.decide, both, -1, typename D::Index(which)), RealOf(c.dtype));
}

template <typename D>
absl::Status Real(Call<D>& c) {
  return IsComplex(c.dtype) ? Component(c, 0) : c.TakeOperand();
}

template <typename D>
absl::Status Imag(Call<D>& c) {
  if (!IsComplex(c.dtype)) return c.Refuse("imag is not implemented for tensors with non-complex dtypes.");
  return Component(c, 1);
}

// --- dims in another order ---

template <typename D>
absl::Status Permute(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, c.arguments.Numbers(1));
  return c.Take(view_rules::Permute(c.decide, c.base, dims));
}

template <typename D>
absl::Status Transpose(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t a, c.arguments.Number(1));
  SMELT_ASSIGN_OR_RETURN(const int64_t b, c.arguments.Number(2));
  return c.Take(view_rules::Transpose(c.decide, c.base, a, b));
}

template <typename D>
absl::Status T(Call<D>& c) {
  if (c.rank() > 2)
    return c.Refuse(absl::StrCat("t() expects a tensor with <= 2 dimensions, but self is ", c.rank(), "D"));
  return c.rank() < 2 ? Alias(c) : c.Take(view_rules::Transpose(c.decide, c.base, 0, 1));
}

template <typename D>
absl::Status MatrixT(Call<D>& c) {
  if (c.rank() < 2)
    return c.Refuse(
        absl::StrCat("tensor.mT is only supported on matrices or batches of matrices. Got ", c.rank(), "-D tensor."));
  return c.Take(view_rules::Transpose(c.decide, c.base, -2, -1));
}

template <typename D>
absl::Status Adjoint(Call<D>& c) {
  if (IsComplex(c.dtype)) return absl::UnimplementedError("the adjoint of complex tensors");
  return MatrixT(c);
}

template <typename D>
absl::Status ReverseDims(Call<D>& c) {
  std::vector<int64_t> dims;
  for (int d = c.rank(); d-- > 0;) dims.push_back(d);
  return c.Take(view_rules::Permute(c.decide, c.base, dims));
}

template <typename D>
absl::Status MoveDim(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> source, c.arguments.Numbers(1));
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> destination, c.arguments.Numbers(2));
  if (source.size() != destination.size())
    return c.Refuse("movedim: Invalid source or destination dims: they have different numbers of elements");
  const int rank = c.rank();
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> used(rank, false);
  for (size_t i = 0; i < source.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(const int from, view_rules::WrapDim(source[i], rank));
    SMELT_ASSIGN_OR_RETURN(const int to, view_rules::WrapDim(destination[i], rank));
    if (rank == 0) continue;
    if (order[to] >= 0 || used[from]) return c.Refuse("movedim: repeated dim in source or destination");
    order[to] = from;
    used[from] = true;
  }
  int next = 0;
  for (int64_t& o : order) {
    if (o >= 0) continue;
    while (used[next]) ++next;
    o = next++;
  }
  return c.Take(view_rules::Permute(c.decide, c.base, order));
}

// --- parts ---

// Returns 1 if `index` counts from the end, else 0; an expression for numbers that only the data determines.
Expr CountsFromTheEnd(const SymbolicDecide& decide, const Expr& index) {
  return decide.Known(0, index) == true ? Expr(0) : Min(1, Max(0, Expr(0) - index));
}

// Rewrites a bound that only the data determines so that it counts from the beginning.
void CountFromTheBeginning(const SymbolicDecide& decide, const Expr& size, std::optional<Expr>& bound) {
  if (!bound || decide.IsDecidable(*bound) || decide.Known(0, *bound) == true) return;
  bound = Max(0, *bound + CountsFromTheEnd(decide, *bound) * size);
}

template <typename D>
absl::Status Slice(Call<D>& c) {
  using Index = typename D::Index;
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.NumberOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(std::optional<Index> start, c.MaybeInt(2));
  SMELT_ASSIGN_OR_RETURN(std::optional<Index> end, c.MaybeInt(3));
  if constexpr (Call<D>::kIsSymbolic) {
    if (const absl::StatusOr<int> d = view_rules::WrapDim(dim, c.rank()); d.ok() && c.rank() > 0) {
      CountFromTheBeginning(c.decide, c.base.sizes[*d], start);
      CountFromTheBeginning(c.decide, c.base.sizes[*d], end);
    }
  }
  SMELT_ASSIGN_OR_RETURN(const std::optional<Index> step, c.MaybeInt(4));
  return c.Take(view_rules::Slice(c.decide, c.base, dim, start, end, step.value_or(Index(1))));
}

template <typename D>
absl::Status Select(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  SMELT_ASSIGN_OR_RETURN(typename D::Index index, c.arguments.Int(2));
  if constexpr (Call<D>::kIsSymbolic) {
    if (c.rank() > 0 && !c.decide.IsDecidable(index)) {
      // Only the data determines the index: the run checks its range and whether it counts from the end.
      SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
      index = index + CountsFromTheEnd(c.decide, index) * c.base.sizes[d];
      ExprGeometry out = c.base;
      out.offset = out.offset + index * out.strides[d];
      out.sizes.erase(out.sizes.begin() + d);
      out.strides.erase(out.strides.begin() + d);
      return c.Take(std::move(out));
    }
  }
  return c.Take(view_rules::Select(c.decide, c.base, dim, index));
}

template <typename D>
absl::Status Narrow(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  SMELT_ASSIGN_OR_RETURN(const typename D::Index start, c.arguments.Int(2));
  SMELT_ASSIGN_OR_RETURN(const typename D::Index length, c.arguments.Int(3));
  return c.Take(view_rules::Narrow(c.decide, c.base, dim, start, length));
}

template <typename D>
absl::Status Diagonal(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t offset, c.NumberOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(const int64_t a, c.NumberOr(2, 0));
  SMELT_ASSIGN_OR_RETURN(const int64_t b, c.NumberOr(3, 1));
  return c.Take(view_rules::Diagonal(c.decide, c.base, offset, a, b));
}

template <typename D>
absl::Status Unfold(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.arguments.Number(1));
  SMELT_ASSIGN_OR_RETURN(const typename D::Index size, c.arguments.Int(2));
  SMELT_ASSIGN_OR_RETURN(const typename D::Index step, c.arguments.Int(3));
  return c.Take(view_rules::Unfold(c.decide, c.base, dim, size, step));
}

// --- lists of parts ---

template <typename D>
absl::Status Parts(Call<D>& c, int64_t dim, const IndexVector<D>& starts, const IndexVector<D>& lengths) {
  c.out.is_list = true;
  for (size_t i = 0; i < starts.size(); ++i) {
    SMELT_RETURN_IF_ERROR(c.Take(view_rules::Narrow(c.decide, c.base, dim, starts[i], lengths[i])));
  }
  return absl::OkStatus();
}

template <typename D>
absl::Status PartsOfSizes(Call<D>& c, int64_t dim, const IndexVector<D>& lengths) {
  using Index = typename D::Index;
  SMELT_RETURN_IF_ERROR(c.CheckParts(static_cast<int64_t>(lengths.size())));
  IndexVector<D> starts;
  Index at(0);
  for (const Index& l : lengths) {
    starts.push_back(at);
    at = c.decide.Add(at, l);
  }
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.Refuse("split expects at least a 1-dimensional tensor");
  const bool fits = c.decide.Equal(at, c.base.sizes[d]);
  SMELT_RETURN_IF_ERROR(c.decide.status());
  if (!fits) {
    return c.Refuse(absl::StrCat("split_with_sizes expects split_sizes to sum exactly to ", Text(c.base.sizes[d]),
                                 " (input tensor's size at dimension ", d, "), but got ", Text(at)));
  }
  return Parts(c, dim, starts, lengths);
}

// Returns the number of parts of `every` elements where it depends on symbols.
absl::StatusOr<int64_t> NumberOfParts(Call<SymbolicDecide>& c, const Expr& size, const Expr& every) {
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
    return absl::UnimplementedError(absl::StrCat("how many parts there are (", parts.ToString(), ") depends on sizes"));
  }
  return *parts.Constant();
}

template <typename D>
absl::Status PartsOfEach(Call<D>& c, int64_t dim, const typename D::Index& every) {
  using Index = typename D::Index;
  if (c.rank() == 0) return c.Refuse("split expects at least a 1-dimensional tensor");
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  const Index size = c.base.sizes[d];
  IndexVector<D> starts, lengths;
  if (Constant(size) && Constant(every)) {
    const int64_t n = *Constant(size), k = *Constant(every);
    if (k < 0 || (k == 0 && n != 0))
      return c.Refuse(absl::StrCat("split expects split_size be non-negative, but got split_size=", k));
    const int64_t count = n == 0 ? 1 : n / k + (n % k != 0 ? 1 : 0);
    SMELT_RETURN_IF_ERROR(c.CheckParts(count));
    for (int64_t i = 0; i < count; ++i) {
      starts.push_back(i * k);
      lengths.push_back(std::min(k, n - i * k));
    }
    return Parts(c, dim, starts, lengths);
  }
  if constexpr (Call<D>::kIsSymbolic) {
    SMELT_ASSIGN_OR_RETURN(const int64_t count, NumberOfParts(c, size, every));
    for (int64_t i = 0; i < count; ++i) {
      starts.push_back(Expr(i) * every);
      lengths.push_back(i + 1 < count ? every : size - Expr(i) * every);
    }
  }
  return Parts(c, dim, starts, lengths);
}

template <typename D>
absl::Status Split(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.NumberOr(2, 0));
  if (c.arguments.IsList(1)) {
    SMELT_ASSIGN_OR_RETURN(const IndexVector<D> lengths, c.arguments.Ints(1));
    return PartsOfSizes(c, dim, lengths);
  }
  SMELT_ASSIGN_OR_RETURN(const typename D::Index every, c.arguments.Int(1));
  return PartsOfEach(c, dim, every);
}

template <typename D>
absl::Status Chunk(Call<D>& c) {
  using Index = typename D::Index;
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.NumberOr(2, 0));
  SMELT_ASSIGN_OR_RETURN(const int64_t chunks, c.arguments.Number(1));
  if (c.rank() == 0) return c.Refuse("chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0) return c.Refuse(absl::StrCat("chunk expects `chunks` to be greater than 0, got: ", chunks));
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  const Index& size = c.base.sizes[d];
  if (size == Index(0)) {
    SMELT_RETURN_IF_ERROR(c.CheckParts(chunks));
    return PartsOfSizes(c, dim, IndexVector<D>(chunks, Index(0)));
  }
  if (Constant(size)) return PartsOfEach(c, dim, Index((*Constant(size) - 1) / chunks + 1));
  SMELT_RETURN_IF_ERROR(c.CheckParts(chunks));
  if constexpr (Call<D>::kIsSymbolic) return PartsOfEach(c, dim, FloorDiv(size + (chunks - 1), Expr(chunks)));
  return absl::OkStatus();
}

template <typename D>
absl::Status SplitAt(Call<D>& c, int64_t dim, const IndexVector<D>& indices) {
  using Index = typename D::Index;
  c.out.is_list = true;
  Index start(0);
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  for (size_t i = 0; i <= indices.size(); ++i) {
    const Index end = i < indices.size() ? indices[i] : c.base.sizes[d];
    SMELT_RETURN_IF_ERROR(c.Take(
        view_rules::Slice(c.decide, c.base, dim, std::optional<Index>(start), std::optional<Index>(end), Index(1))));
    start = end;
  }
  return absl::OkStatus();
}

template <typename D>
absl::Status Sections(Call<D>& c, int64_t dim, int64_t sections) {
  if (sections <= 0) return c.Refuse(absl::StrCat("number of sections must be larger than 0, got ", sections));
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  const std::optional<int64_t> size = Constant(c.base.sizes[d]);
  if (!size) return absl::UnimplementedError("the sizes of the parts depend on symbols");
  SMELT_RETURN_IF_ERROR(c.CheckParts(sections));
  IndexVector<D> starts, lengths;
  int64_t at = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t n = *size / sections + (i < *size % sections ? 1 : 0);
    starts.push_back(at);
    lengths.push_back(n);
    at += n;
  }
  return Parts(c, dim, starts, lengths);
}

template <typename D>
absl::Status SplitAlong(Call<D>& c, int64_t dim) {
  if (c.rank() == 0) return c.Refuse("expected at least a 1-dimensional tensor");
  if (c.arguments.IsList(1)) {
    SMELT_ASSIGN_OR_RETURN(const IndexVector<D> indices, c.arguments.Ints(1));
    return SplitAt(c, dim, indices);
  }
  SMELT_ASSIGN_OR_RETURN(const int64_t sections, c.arguments.Number(1));
  return Sections(c, dim, sections);
}

template <typename D>
absl::Status TensorSplit(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.NumberOr(2, 0));
  return SplitAlong(c, dim);
}
template <typename D>
absl::Status HSplit(Call<D>& c) {
  return SplitAlong(c, c.rank() == 1 ? 0 : 1);
}
template <typename D>
absl::Status VSplit(Call<D>& c) {
  return SplitAlong(c, 0);
}
template <typename D>
absl::Status DSplit(Call<D>& c) {
  return SplitAlong(c, 2);
}

template <typename D>
absl::Status Unbind(Call<D>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, c.NumberOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(const int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return c.Refuse("Dimension specified as 0 but tensor has no dimensions");
  const std::optional<int64_t> size = Constant(c.base.sizes[d]);
  if (!size) return absl::UnimplementedError("how many parts there are depends on sizes");
  SMELT_RETURN_IF_ERROR(c.CheckParts(*size));
  c.out.is_list = true;
  for (int64_t i = 0; i < *size; ++i) {
    SMELT_RETURN_IF_ERROR(c.Take(view_rules::Select(c.decide, c.base, d, typename D::Index(i))));
  }
  return absl::OkStatus();
}

// --- copies in another layout; the runtime passes the operand and the memory format ---

// PyTorch's codes of memory formats.
constexpr int64_t kContiguousFormat = 0, kPreserveFormat = 1;

absl::StatusOr<std::vector<int64_t>> StridesOfFormat(Call<ConcreteDecide>& c, int64_t format) {
  if (format == kPreserveFormat) return view_rules::PreservedStrides(c.decide, c.base);
  if (format == kContiguousFormat) return view_rules::ContiguousStrides(c.decide, c.base.sizes);
  if ((format == 2 && c.rank() == 4) || (format == 3 && c.rank() == 5))
    return view_rules::ChannelsLastStrides(c.decide, c.base.sizes);
  return c.Refuse("required rank 4 tensor to use channels_last format");
}

absl::Status CopyInFormat(Call<ConcreteDecide>& c, int64_t format) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesOfFormat(c, format));
  return c.TakeCopy(std::move(strides));
}

absl::Status Contiguous(Call<ConcreteDecide>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t format, c.NumberOr(1, kContiguousFormat));
  if (format == kPreserveFormat) return c.Refuse("preserve memory format is unsupported by the contiguous operator");
  const bool is_so = format == kContiguousFormat ? view_rules::IsContiguous(c.decide, c.base)
                                                 : view_rules::IsChannelsLast(c.decide, c.base);
  return is_so ? c.TakeOperand() : CopyInFormat(c, format);
}

// to(self, format), of the dtype that it has: itself where its strides suggest the format.
absl::Status To(Call<ConcreteDecide>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t format, c.NumberOr(1, kPreserveFormat));
  const bool last = SuggestsChannelsLast<ConcreteDecide>(c.decide, c.base.sizes, c.base.strides);
  const bool is_so = format == kPreserveFormat || last == (format != kContiguousFormat);
  return is_so ? c.TakeOperand() : CopyInFormat(c, format);
}

absl::Status Clone(Call<ConcreteDecide>& c) {
  SMELT_ASSIGN_OR_RETURN(const int64_t format, c.NumberOr(1, kPreserveFormat));
  return CopyInFormat(c, format);
}

// --- the table ---

using S = ViewShape;
constexpr SizesOf kList = SizesOf::kList, kTensor = SizesOf::kTensor;
constexpr ViewOp kViewOps[] = {
    {"alias detach lift_fresh data", S::kWhole, Alias, Alias},
    {"lift resolve_conj resolve_neg", S::kUnknown, Itself, Itself},
    {"positive", S::kWhole, Itself, Itself},
    {"conj", S::kWhole, Conj, Conj},
    {"_conj", S::kWhole, ConjView, ConjView},
    {"_neg_view", S::kWhole, nullptr, NegView},
    {"prim::data", S::kWhole, nullptr, nullptr},
    {"real", S::kComponent, Real, Real, /*changes_dtype=*/true},
    {"imag", S::kComponent, Imag, Imag, /*changes_dtype=*/true},
    {"view", S::kNewSpace, View<kList>, View<kList>},
    {"view_as", S::kNewSpace, View<kTensor>, View<kTensor>},
    {"view.dtype", S::kNewSpace, ViewDType, ViewDType, /*changes_dtype=*/true},
    {"view_as_real", S::kNewSpace, ViewAsReal, ViewAsReal, /*changes_dtype=*/true},
    {"view_as_complex", S::kNewSpace, ViewAsComplex, ViewAsComplex, /*changes_dtype=*/true},
    {"_unsafe_view", S::kNewSpace, Reshape<kList>, View<kList>},
    {"unflatten.int", S::kNewSpace, Unflatten, Unflatten},
    {"reshape", S::kNewSpace, Reshape<kList>, nullptr},
    {"reshape_as", S::kNewSpace, Reshape<kTensor>, nullptr},
    {"flatten.using_ints", S::kNewSpace, Flatten, nullptr},
    {"ravel", S::kNewSpace, Ravel, nullptr},
    {"as_strided", S::kAnywhere, AsStrided, AsStrided},
    {"_reshape_alias", S::kAnywhere, ReshapeAlias, ReshapeAlias},
    {"_nested_view_from_buffer", S::kAnywhere, nullptr, nullptr},
    {"expand broadcast_to", S::kRepeats, Expand<kList>, Expand<kList>},
    {"expand_as", S::kRepeats, Expand<kTensor>, Expand<kTensor>},
    {"broadcast_tensors meshgrid", S::kRepeats, nullptr, nullptr},
    {"unfold", S::kRepeats, Unfold, Unfold},
    {"permute", S::kPermute, Permute, Permute},
    {"transpose.int swapaxes swapdims", S::kTranspose, Transpose, Transpose},
    {"t", S::kReverse, T, T},
    {"numpy_T", S::kReverse, ReverseDims, ReverseDims},
    {"mT", S::kUnknown, MatrixT, MatrixT},
    {"mH matrix_H adjoint", S::kUnknown, Adjoint, Adjoint},
    {"movedim.int movedim.intlist moveaxis.int moveaxis.intlist", S::kUnknown, MoveDim, MoveDim},
    {"unsqueeze", S::kUnsqueeze, Unsqueeze, Unsqueeze},
    {"squeeze squeeze.dim squeeze.dims", S::kSqueeze, Squeeze, Squeeze},
    {"slice.Tensor", S::kSlice, Slice, Slice},
    {"select.int", S::kSelect, Select, Select},
    {"narrow", S::kNarrow, Narrow, Narrow},
    {"split.Tensor split.sizes split split_with_sizes unsafe_split.Tensor unsafe_split_with_sizes", S::kSplit, Split,
     Split},
    {"chunk unsafe_chunk", S::kPieces, Chunk, Chunk},
    {"tensor_split.sections tensor_split.indices", S::kPieces, TensorSplit, TensorSplit},
    {"hsplit.int hsplit.array", S::kPieces, HSplit, HSplit},
    {"vsplit.int vsplit.array", S::kPieces, VSplit, VSplit},
    {"dsplit.int dsplit.array", S::kPieces, DSplit, DSplit},
    {"unbind.int", S::kUnbind, Unbind, Unbind},
    {"diagonal linalg_diagonal", S::kDiagonal, Diagonal, Diagonal},
    {"contiguous", S::kUnknown, Contiguous, nullptr},
    {"to", S::kUnknown, To, nullptr, /*changes_dtype=*/true},
    {"clone", S::kUnknown, Clone, nullptr},
};

struct Tables {
  absl::flat_hash_map<std::string, const ViewOp*> by_full_name, by_name;

  Tables() {
    for (const ViewOp& op : kViewOps) {
      for (absl::string_view name : absl::StrSplit(op.names, ' ')) {
        const std::string full = absl::StrContains(name, "::") ? std::string(name) : absl::StrCat("aten::", name);
        by_full_name[full] = &op;
        by_name.emplace(full.substr(0, full.find('.')), &op);
      }
    }
  }
  static const Tables& Get() {
    static const auto* const kTables = new Tables();
    return *kTables;
  }
};

template <typename D>
ViewOp::Rule<D> RuleOf(const ViewOp& op) {
  if constexpr (Call<D>::kIsSymbolic) {
    return op.symbolic;
  } else {
    return op.concrete;
  }
}

}  // namespace

const ViewOp* FindViewOp(absl::string_view full_name) {
  const auto& table = Tables::Get().by_full_name;
  const auto it = table.find(full_name);
  return it == table.end() ? nullptr : it->second;
}

const ViewOp* FindViewOpByName(absl::string_view name) {
  const auto& table = Tables::Get().by_name;
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

template <typename D>
absl::StatusOr<ViewResult<D>> ApplyView(const ViewOp& op, const ViewArguments<D>& arguments,
                                        const typename D::Geometry& base, DType dtype, D& decide) {
  Call<D> call{arguments, base, dtype, decide, {}};
  const ViewOp::Rule<D> rule = RuleOf<D>(op);
  if (rule == nullptr) return absl::UnimplementedError("is not a view operator");
  SMELT_RETURN_IF_ERROR(rule(call));
  SMELT_RETURN_IF_ERROR(decide.status());
  return std::move(call.out);
}

template absl::StatusOr<ViewResult<ConcreteDecide>> ApplyView(const ViewOp&, const ViewArguments<ConcreteDecide>&,
                                                              const Geometry&, DType, ConcreteDecide&);
template absl::StatusOr<ViewResult<SymbolicDecide>> ApplyView(const ViewOp&, const ViewArguments<SymbolicDecide>&,
                                                              const ExprGeometry&, DType, SymbolicDecide&);

}  // namespace smelt
