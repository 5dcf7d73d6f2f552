#include "smelt/core/tensor/view_rules.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/layout_trace.h"

namespace smelt::view_rules {
namespace {

template <typename D>
using Index = typename D::Index;
template <typename D>
using GeometryOf = typename D::Geometry;
template <typename D>
using IndexVector = std::vector<typename D::Index>;

std::string Text(int64_t v) { return absl::StrCat(v); }
std::string Text(const Expr& e) { return e.ToString(); }

template <typename I>
std::string List(absl::Span<const I> values) {
  return absl::StrCat("[", absl::StrJoin(values, ", ", [](std::string* out, const I& v) { out->append(Text(v)); }),
                      "]");
}
template <typename I>
std::string List(const std::vector<I>& values) {
  return List(absl::Span<const I>(values));
}

std::optional<int64_t> Constant(int64_t v) { return v; }
std::optional<int64_t> Constant(const Expr& e) { return e.Constant(); }
// In every call.
template <typename I>
bool IsOne(const I& v) {
  return Constant(v) == 1;
}

template <typename... Parts>
absl::Status Error(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Returns the result of a rule, unless a decision or an operation has failed on the way.
template <typename D, typename T>
absl::StatusOr<T> Finish(const D& decide, T result) {
  if (!decide.status().ok()) return decide.status();
  return result;
}

template <typename D>
Index<D> Product(D& decide, Sizes<D> sizes) {
  // Checks for zero first: [0, 2^40, 2^40] is empty, not too large.
  for (const Index<D>& s : sizes) {
    if (Constant(s) == 0) return 0;
  }
  Index<D> n = 1;
  for (const Index<D>& s : sizes) n = decide.Mul(n, s);
  return n;
}

template <typename D>
bool IsEmpty(D& decide, Sizes<D> sizes) {
  for (const Index<D>& s : sizes) {
    if (decide.Equal(s, 0)) return true;
  }
  return false;
}

// Returns the strides with which `sizes` describe the same elements in the same order; nullopt if there are none. The
// numbers of elements are equal.
template <typename D>
std::optional<IndexVector<D>> ViewStrides(D& decide, const GeometryOf<D>& g, Sizes<D> sizes) {
  if (g.sizes.empty()) return IndexVector<D>(sizes.size(), 1);
  if (IsEmpty<D>(decide, g.sizes)) {
    bool same = g.sizes.size() == sizes.size();
    for (size_t d = 0; same && d < sizes.size(); ++d) same = decide.Equal(g.sizes[d], sizes[d]);
    if (same) return g.strides;
    return ContiguousStrides<D>(decide, sizes);
  }
  IndexVector<D> strides(sizes.size());
  int to = static_cast<int>(sizes.size()) - 1;
  // From the innermost dim outwards, the old dims form runs in which each stride is the product of the sizes and stride
  // inside; new dims must cover each run exactly.
  Index<D> run_stride = g.strides.back();
  Index<D> run_elements = 1, covered = 1;
  for (int from = g.rank() - 1; from >= 0; --from) {
    run_elements = decide.Mul(run_elements, g.sizes[from]);
    const bool run_ends = from == 0 || (!decide.Equal(g.sizes[from - 1], 1) &&
                                        !decide.Equal(g.strides[from - 1], decide.Mul(run_elements, run_stride)));
    if (!decide.status().ok()) return std::nullopt;
    if (!run_ends) continue;
    while (to >= 0 && (decide.Less(covered, run_elements) || decide.Equal(sizes[to], 1))) {
      strides[to] = decide.Mul(covered, run_stride);
      covered = decide.Mul(covered, sizes[to]);
      --to;
    }
    if (!decide.Equal(covered, run_elements)) return std::nullopt;
    if (from > 0) {
      run_stride = g.strides[from - 1];
      run_elements = covered = 1;
    }
  }
  if (to != -1) return std::nullopt;
  return strides;
}

// TensorIterator's order of dims, innermost first. `operands` have the full rank, with stride 0 for a broadcast dim.
template <typename D>
std::vector<int> FastestFirst(D& decide, Sizes<D> sizes, absl::Span<const IndexVector<D>> operands) {
  std::vector<int> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  // 1: the dims at a and b are in the wrong order; 0: no operand decides.
  auto compare = [&](int a, int b) {
    for (const IndexVector<D>& strides : operands) {
      if (decide.Equal(strides[a], 0) || decide.Equal(strides[b], 0)) continue;
      if (decide.Less(strides[a], strides[b])) return -1;
      if (!decide.Equal(strides[a], strides[b])) return 1;
      if (decide.Less(sizes[b], sizes[a])) return 1;
    }
    return 0;
  };
  for (int i = 1; i < static_cast<int>(order.size()); ++i) {
    int at = i;
    for (int before = i - 1; before >= 0; --before) {
      const int c = compare(order[before], order[at]);
      if (c > 0) {
        std::swap(order[before], order[at]);
        at = before;
      } else if (c < 0) {
        break;
      }
    }
  }
  return order;
}

template <typename D>
bool SameSizes(D& decide, Sizes<D> a, Sizes<D> b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (!decide.Equal(a[d], b[d])) return false;
  }
  return true;
}

template <typename T>
void Erase(std::vector<T>& v, int at) {
  v.erase(v.begin() + at);
}

}  // namespace

absl::StatusOr<int> WrapDim(int64_t dim, int rank) {
  const int64_t count = std::max(rank, 1);
  if (dim < -count || dim >= count) {
    return Error("Dimension out of range (expected to be in range of [", -count, ", ", count - 1, "], but got ", dim,
                 ")");
  }
  return static_cast<int>(dim < 0 ? dim + count : dim);
}

template <typename D>
IndexVector<D> ContiguousStrides(D& decide, Sizes<D> sizes) {
  IndexVector<D> strides(sizes.size());
  Index<D> stride = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    strides[d] = stride;
    if (d > 0) stride = decide.Mul(stride, decide.Max(sizes[d], 1));
  }
  return strides;
}

template <typename D>
IndexVector<D> ChannelsLastStrides(D& decide, Sizes<D> sizes) {
  SMELT_CHECK(sizes.size() == 4 || sizes.size() == 5) << sizes.size();
  IndexVector<D> strides(sizes.size());
  strides[1] = 1;
  Index<D> stride = sizes[1];
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 2; --d) {
    strides[d] = stride;
    stride = decide.Mul(stride, sizes[d]);
  }
  strides[0] = stride;
  return strides;
}

namespace {

// Returns whether the strides are those of a dense layout with the dims in this order, innermost first.
template <typename D>
bool IsDenseInOrder(D& decide, const GeometryOf<D>& g, absl::Span<const int> order) {
  Index<D> expected = 1;
  for (int d : order) {
    // If the stride is as expected, it does not matter whether the size is 1.
    if (g.strides[d] != expected) {
      if (decide.Equal(g.sizes[d], 1)) continue;
      if (!decide.Equal(g.strides[d], expected)) return false;
    }
    expected = decide.Mul(expected, g.sizes[d]);
  }
  return true;
}

}  // namespace

template <typename D>
bool IsContiguous(D& decide, const GeometryOf<D>& g) {
  if (const auto traced = TracedTest<D>(LayoutTrace::Predicate::kIsContiguous, g)) return *traced;
  if (IsEmpty<D>(decide, g.sizes)) return true;
  std::vector<int> order(g.rank());
  std::iota(order.rbegin(), order.rend(), 0);
  return IsDenseInOrder<D>(decide, g, order);
}

template <typename D>
bool IsChannelsLast(D& decide, const GeometryOf<D>& g) {
  if (g.rank() != 4 && g.rank() != 5) return false;
  if (const auto traced = TracedTest<D>(LayoutTrace::Predicate::kIsChannelsLast, g)) return *traced;
  if (g.rank() == 4) return IsDenseInOrder<D>(decide, g, {1, 3, 2, 0});
  if (g.rank() == 5) return IsDenseInOrder<D>(decide, g, {1, 4, 3, 2, 0});
  return false;
}

template <typename D>
bool IsNonOverlappingAndDense(D& decide, const GeometryOf<D>& g) {
  if (const auto traced = TracedTest<D>(LayoutTrace::Predicate::kIsDense, g)) return *traced;
  if (IsContiguous<D>(decide, g) || IsChannelsLast<D>(decide, g)) return true;
  // Removes the dim that continues the dense part; dims of size 1 do not matter.
  std::vector<int> left;
  for (int d = 0; d < g.rank(); ++d) {
    if (!decide.Equal(g.sizes[d], 1)) left.push_back(d);
  }
  Index<D> expected = 1;
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(), [&](int d) { return decide.Equal(g.strides[d], expected); });
    if (next == left.end()) return false;
    expected = decide.Mul(expected, g.sizes[*next]);
    left.erase(next);
  }
  return true;
}

template <typename D>
IndexVector<D> PreservedStrides(D& decide, const GeometryOf<D>& g) {
  if constexpr (std::is_same_v<D, SymbolicDecide>) {
    LayoutTrace* const trace = LayoutTrace::Current();
    if (auto traced = trace != nullptr ? trace->PreservedStrides(g) : std::nullopt) return *std::move(traced);
  }
  if (IsNonOverlappingAndDense<D>(decide, g)) return g.strides;
  const std::vector<int> order = FastestFirst<D>(decide, g.sizes, {g.strides});
  IndexVector<D> strides(g.rank());
  Index<D> stride = 1;
  for (int d : order) {
    strides[d] = stride;
    stride = decide.Mul(stride, decide.Max(g.sizes[d], 1));
  }
  return strides;
}

template <typename D>
absl::StatusOr<IndexVector<D>> BroadcastSizes(D& decide, absl::Span<const IndexVector<D>> shapes) {
  IndexVector<D> out;
  for (const IndexVector<D>& shape : shapes) {
    const int rank = static_cast<int>(std::max(out.size(), shape.size()));
    IndexVector<D> merged(rank);
    for (int i = 1; i <= rank; ++i) {  // from the end
      const int d = rank - i;
      if (i > static_cast<int>(out.size())) {
        merged[d] = shape[shape.size() - i];
        continue;
      }
      const Index<D>& a = out[out.size() - i];
      if (i > static_cast<int>(shape.size())) {
        merged[d] = a;
        continue;
      }
      const Index<D>& b = shape[shape.size() - i];
      // A size that is 1 in every call comes first. A size that is 1 only in the example decides nothing.
      if (IsOne(b)) {
        merged[d] = a;
      } else if (IsOne(a)) {
        merged[d] = b;
      } else if (decide.Equal(a, b)) {
        merged[d] = Constant(b).has_value() ? b : a;
      } else if (decide.Equal(a, 1)) {
        merged[d] = b;
      } else if (decide.Equal(b, 1)) {
        merged[d] = a;
      } else {
        if (!decide.status().ok()) return decide.status();
        return Error("The size of tensor a (", Text(a), ") must match the size of tensor b (", Text(b),
                     ") at non-singleton dimension ", d);
      }
    }
    out = std::move(merged);
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> PointwiseOutput(D& decide, absl::Span<const GeometryOf<D>> operands) {
  SMELT_CHECK(!operands.empty());
  std::vector<IndexVector<D>> shapes;
  for (const GeometryOf<D>& g : operands) shapes.push_back(g.sizes);
  GeometryOf<D> out;
  SMELT_ASSIGN_OR_RETURN(out.sizes, BroadcastSizes<D>(decide, shapes));
  if constexpr (std::is_same_v<D, SymbolicDecide>) {
    LayoutTrace* const trace = LayoutTrace::Current();
    if (auto traced = trace != nullptr ? trace->PointwiseStrides(operands) : std::nullopt) {
      out.strides = *std::move(traced);
      return Finish(decide, std::move(out));
    }
  }
  bool same = true;
  for (const IndexVector<D>& s : shapes) {
    same = same && s.size() == out.sizes.size() &&
           std::equal(s.begin(), s.end(), out.sizes.begin(),
                      [](const Index<D>& a, const Index<D>& b) { return IsOne(a) == IsOne(b); }) &&
           SameSizes<D>(decide, out.sizes, s);
  }
  // Literally contiguous strides, which sizes that only the data determines can have too. (Empty tensors of known sizes
  // follow the rules below.)
  IndexVector<D> contiguous = ContiguousStrides<D>(decide, out.sizes);
  if (!std::is_same_v<D, ConcreteDecide> && std::all_of(operands.begin(), operands.end(), [&](const GeometryOf<D>& g) {
        return g.rank() == 0 || (g.sizes == out.sizes && g.strides == contiguous);
      })) {
    out.strides = std::move(contiguous);
    return Finish(decide, std::move(out));
  }
  if (same) {
    // TensorIterator's fast setups, which compute no permutation.
    auto all = [&](auto predicate) {
      return std::all_of(operands.begin(), operands.end(),
                         [&](const GeometryOf<D>& g) { return predicate(decide, g); });
    };
    if (all(IsContiguous<D>)) {
      out.strides = ContiguousStrides<D>(decide, out.sizes);
      return Finish(decide, std::move(out));
    }
    if (out.rank() == 4 && all(IsChannelsLast<D>)) {
      out.strides = ChannelsLastStrides<D>(decide, out.sizes);
      return Finish(decide, std::move(out));
    }
    if (all(IsNonOverlappingAndDense<D>) &&
        all([&](D&, const GeometryOf<D>& g) { return SameSizes<D>(decide, g.strides, operands[0].strides); })) {
      out.strides = operands[0].strides;
      return Finish(decide, std::move(out));
    }
  }
  std::vector<IndexVector<D>> strides;
  for (const GeometryOf<D>& g : operands) {
    IndexVector<D> full(out.rank(), 0);
    const int shift = out.rank() - g.rank();
    for (int d = 0; d < g.rank(); ++d) {
      const Index<D>& size = out.sizes[d + shift];
      // If the size equals the result's, no decision is needed. A size from data could not be decided.
      const bool broadcast = IsOne(g.sizes[d])
                                 ? !IsOne(size)
                                 : !(g.sizes[d] == size) && decide.Equal(g.sizes[d], 1) && !decide.Equal(size, 1);
      if (!broadcast) full[d + shift] = g.strides[d];
    }
    strides.push_back(std::move(full));
  }
  const std::vector<int> order = FastestFirst<D>(decide, out.sizes, strides);
  bool row_major = true;
  for (int i = 0; i < out.rank(); ++i) row_major = row_major && order[i] == out.rank() - 1 - i;
  if (row_major) {
    out.strides = ContiguousStrides<D>(decide, out.sizes);
    return Finish(decide, std::move(out));
  }
  out.strides.resize(out.rank());
  Index<D> stride = 1;
  for (int d : order) {
    out.strides[d] = stride;
    stride = decide.Mul(stride, out.sizes[d]);
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> IndexedOutput(D& decide, const GeometryOf<D>& self,
                                            absl::Span<const std::optional<GeometryOf<D>>> indices) {
  std::vector<int> dims;  // the indexed ones
  std::vector<IndexVector<D>> shapes;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    dims.push_back(static_cast<int>(d));
    shapes.push_back(indices[d]->sizes);
  }
  SMELT_CHECK(!dims.empty() && static_cast<int>(indices.size()) <= self.rank());
  SMELT_ASSIGN_OR_RETURN(const IndexVector<D> shape, BroadcastSizes<D>(decide, shapes));
  const bool adjacent = dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
  const int at = adjacent ? dims.front() : 0;
  // The geometry for TensorIterator: the source has stride 0 along the indices' dims, and the indices along the others.
  GeometryOf<D> source;
  int before = 0;
  auto pick = [&](bool front) {
    for (int d = 0; d < self.rank(); ++d) {
      if ((d < at) != front || std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
      source.sizes.push_back(self.sizes[d]);
      source.strides.push_back(self.strides[d]);
    }
  };
  pick(true);
  before = source.rank();
  source.sizes.insert(source.sizes.end(), shape.begin(), shape.end());
  source.strides.insert(source.strides.end(), shape.size(), Index<D>(0));
  pick(false);
  const int after = source.rank() - before - static_cast<int>(shape.size());
  std::vector<GeometryOf<D>> operands = {std::move(source)};
  for (int d : dims) {
    SMELT_ASSIGN_OR_RETURN(const GeometryOf<D> expanded, Expand<D>(decide, *indices[d], shape));
    GeometryOf<D> index;
    index.sizes.assign(before, Index<D>(1));
    index.strides.assign(before, Index<D>(0));
    index.sizes.insert(index.sizes.end(), expanded.sizes.begin(), expanded.sizes.end());
    index.strides.insert(index.strides.end(), expanded.strides.begin(), expanded.strides.end());
    index.sizes.insert(index.sizes.end(), after, Index<D>(1));
    index.strides.insert(index.strides.end(), after, Index<D>(0));
    operands.push_back(std::move(index));
  }
  return PointwiseOutput<D>(decide, absl::MakeConstSpan(operands));
}

template <typename D>
absl::StatusOr<IndexVector<D>> InferSizes(D& decide, Sizes<D> old_sizes, Sizes<D> sizes) {
  const Index<D> elements = Product<D>(decide, old_sizes);
  IndexVector<D> out(sizes.begin(), sizes.end());
  std::optional<int> inferred;
  IndexVector<D> given;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (Constant(sizes[d]) == -1) {
      if (inferred.has_value()) return Error("only one dimension can be inferred");
      inferred = d;
    } else if (decide.Less(sizes[d], 0)) {
      return Error("invalid shape dimension ", Text(sizes[d]), " at index ", d, " of shape ", List(sizes));
    } else {
      given.push_back(sizes[d]);
    }
  }
  const Index<D> product = Product<D>(decide, given);
  if (!inferred.has_value()) {
    const bool fits = decide.Equal(elements, product);
    if (!decide.status().ok()) return decide.status();
    if (!fits) return Error("shape '", List(sizes), "' is invalid for input of size ", Text(elements));
    return out;
  }
  if (decide.Equal(product, 0)) {
    if (decide.Equal(elements, 0)) {
      return Error("cannot reshape tensor of 0 elements into shape ", List(sizes),
                   " because the unspecified dimension size -1 can be any value and is ambiguous");
    }
    return Error("shape '", List(sizes), "' is invalid for input of size ", Text(elements));
  }
  const bool divides = decide.Equal(decide.Mod(elements, product), 0);
  if (!decide.status().ok()) return decide.status();
  if (!divides) return Error("shape '", List(sizes), "' is invalid for input of size ", Text(elements));
  out[*inferred] = decide.FloorDiv(elements, product);
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<ReshapeResult<D>> Reshape(D& decide, const GeometryOf<D>& g, Sizes<D> sizes) {
  ReshapeResult<D> out;
  SMELT_ASSIGN_OR_RETURN(out.geometry.sizes, InferSizes<D>(decide, g.sizes, sizes));
  std::optional<IndexVector<D>> strides = ViewStrides<D>(decide, g, out.geometry.sizes);
  out.aliases = strides.has_value();
  out.geometry.offset = out.aliases ? g.offset : Index<D>(0);
  out.geometry.strides = out.aliases ? *std::move(strides) : ContiguousStrides<D>(decide, out.geometry.sizes);
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> View(D& decide, const GeometryOf<D>& g, Sizes<D> sizes) {
  SMELT_ASSIGN_OR_RETURN(ReshapeResult<D> out, Reshape<D>(decide, g, sizes));
  if (!out.aliases) {
    return Error(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  }
  return std::move(out.geometry);
}

template <typename D>
absl::StatusOr<IndexVector<D>> FlattenedSizes(D& decide, Sizes<D> sizes, int64_t start_dim, int64_t end_dim) {
  const int rank = static_cast<int>(sizes.size());
  SMELT_ASSIGN_OR_RETURN(int start, WrapDim(start_dim, rank));
  SMELT_ASSIGN_OR_RETURN(int end, WrapDim(end_dim, rank));
  if (start > end) return Error("flatten() has invalid args: start_dim cannot come after end_dim");
  if (rank == 0) return IndexVector<D>{1};
  IndexVector<D> out(sizes.begin(), sizes.begin() + start);
  out.push_back(Product<D>(decide, sizes.subspan(start, end - start + 1)));
  out.insert(out.end(), sizes.begin() + end + 1, sizes.end());
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Permute(D& decide, const GeometryOf<D>& g, absl::Span<const int64_t> dims) {
  if (static_cast<int>(dims.size()) != g.rank()) {
    return Error(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
        "ordering "
        "of dimensions i.e. input.dim() = ",
        g.rank(), " is not equal to len(dims) = ", dims.size());
  }
  GeometryOf<D> out;
  out.offset = g.offset;
  std::vector<bool> seen(g.rank(), false);
  for (int64_t dim : dims) {
    SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
    if (seen[d]) return Error("permute(): duplicate dims are not allowed.");
    seen[d] = true;
    out.sizes.push_back(g.sizes[d]);
    out.strides.push_back(g.strides[d]);
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Transpose(D& decide, const GeometryOf<D>& g, int64_t dim0, int64_t dim1) {
  SMELT_ASSIGN_OR_RETURN(int a, WrapDim(dim0, g.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, WrapDim(dim1, g.rank()));
  GeometryOf<D> out = g;
  if (g.rank() > 0) {
    std::swap(out.sizes[a], out.sizes[b]);
    std::swap(out.strides[a], out.strides[b]);
  }
  return Finish(decide, std::move(out));
}

namespace {

template <typename D>
absl::StatusOr<GeometryOf<D>> SqueezeWhere(D& decide, const GeometryOf<D>& g, const std::vector<bool>& wanted) {
  GeometryOf<D> out;
  out.offset = g.offset;
  for (int d = 0; d < g.rank(); ++d) {
    if (wanted[d] && decide.Equal(g.sizes[d], 1)) continue;
    out.sizes.push_back(g.sizes[d]);
    out.strides.push_back(g.strides[d]);
  }
  return Finish(decide, std::move(out));
}

}  // namespace

template <typename D>
absl::StatusOr<GeometryOf<D>> Squeeze(D& decide, const GeometryOf<D>& g) {
  return SqueezeWhere<D>(decide, g, std::vector<bool>(g.rank(), true));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Squeeze(D& decide, const GeometryOf<D>& g, int64_t dim) {
  return SqueezeDims<D>(decide, g, {dim});
}

template <typename D>
absl::StatusOr<GeometryOf<D>> SqueezeDims(D& decide, const GeometryOf<D>& g, absl::Span<const int64_t> dims) {
  std::vector<bool> wanted(std::max(g.rank(), 1), false);
  for (int64_t dim : dims) {
    SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
    if (wanted[d]) return Error("dim ", d, " appears multiple times in the list of dims");
    wanted[d] = true;
  }
  return SqueezeWhere<D>(decide, g, wanted);
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Unsqueeze(D& decide, const GeometryOf<D>& g, int64_t dim) {
  SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank() + 1));
  GeometryOf<D> out = g;
  const Index<D> stride = d < g.rank() ? decide.Mul(g.sizes[d], g.strides[d]) : Index<D>(1);
  out.sizes.insert(out.sizes.begin() + d, 1);
  out.strides.insert(out.strides.begin() + d, stride);
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Expand(D& decide, const GeometryOf<D>& g, Sizes<D> sizes) {
  const int rank = static_cast<int>(sizes.size()), shift = rank - g.rank();
  if (shift < 0) {
    return Error("expand(", List(g.sizes), ", size=", List(sizes), "): the number of sizes provided (", rank,
                 ") must be greater or equal to the number of dimensions in the tensor (", g.rank(), ")");
  }
  GeometryOf<D> out;
  out.offset = g.offset;
  out.sizes.resize(rank);
  out.strides.resize(rank);
  for (int i = rank - 1; i >= 0; --i) {
    const int d = i - shift;
    Index<D> size = d >= 0 ? g.sizes[d] : Index<D>(1);
    Index<D> stride =
        d >= 0 ? g.strides[d] : (i + 1 < rank ? decide.Mul(out.sizes[i + 1], out.strides[i + 1]) : Index<D>(1));
    if (g.rank() == 0) stride = 0;
    if (Constant(sizes[i]) == -1) {
      if (d < 0) {
        return Error("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension ", i);
      }
    } else if (g.rank() == 0) {
      // Its strides are 0 regardless of whether this size is 1, so that is not asked.
      if (decide.Less(sizes[i], 0)) {
        return Error("Trying to create tensor with negative dimension ", Text(sizes[i]), ": ", List(sizes));
      }
      size = sizes[i];
    } else if (!decide.Equal(size, sizes[i])) {
      const bool one = decide.Equal(size, 1);
      if (!decide.status().ok()) return decide.status();
      if (!one) {
        return Error("The expanded size of the tensor (", Text(sizes[i]), ") must match the existing size (",
                     Text(size), ") at non-singleton dimension ", i, ".  Target sizes: ", List(sizes),
                     ".  Tensor sizes: ", List(g.sizes));
      }
      if (decide.Less(sizes[i], 0)) {
        return Error("Trying to create tensor with negative dimension ", Text(sizes[i]), ": ", List(sizes));
      }
      size = sizes[i];
      stride = 0;
    } else if (Constant(sizes[i]).has_value()) {
      size = sizes[i];  // equal, and the better known of the two
    }
    out.sizes[i] = size;
    out.strides[i] = stride;
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Slice(D& decide, const GeometryOf<D>& g, int64_t dim,
                                    const std::optional<Index<D>>& start, const std::optional<Index<D>>& end,
                                    const Index<D>& step) {
  if (g.rank() == 0) return Error("slice() cannot be applied to a 0-dim tensor.");
  SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
  if (decide.LessOrEqual(step, 0)) return Error("slice step must be positive");
  const Index<D> size = g.sizes[d];
  auto resolve = [&](const Index<D>& bound) -> Index<D> {
    if (Constant(bound) == INT64_MAX) return size;
    if (decide.Less(bound, 0)) return decide.Max(decide.Add(bound, size), 0);
    return decide.Min(bound, size);
  };
  const Index<D> from = start.has_value() ? resolve(*start) : Index<D>(0);
  const Index<D> to = end.has_value() ? resolve(*end) : size;
  const Index<D> length = decide.Max(decide.Sub(to, from), 0);
  GeometryOf<D> out = g;
  out.sizes[d] = decide.FloorDiv(decide.Add(length, decide.Sub(step, 1)), step);
  out.strides[d] = decide.Mul(g.strides[d], step);
  out.offset = decide.Add(g.offset, decide.Mul(from, g.strides[d]));
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Select(D& decide, const GeometryOf<D>& g, int64_t dim, const Index<D>& index) {
  if (g.rank() == 0) return Error("select() cannot be applied to a 0-dim tensor.");
  SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
  const Index<D> size = g.sizes[d];
  // -1 - index, not -index: index may be the smallest int64.
  const bool outside = decide.LessOrEqual(size, decide.Sub(-1, index)) || decide.LessOrEqual(size, index);
  if (!decide.status().ok()) return decide.status();
  if (outside) {
    return Error("select(): index ", Text(index), " out of range for tensor of size ", List(g.sizes), " at dimension ",
                 d);
  }
  const Index<D> at = decide.Less(index, 0) ? decide.Add(index, size) : index;
  GeometryOf<D> out = g;
  out.offset = decide.Add(g.offset, decide.Mul(at, g.strides[d]));
  Erase(out.sizes, d);
  Erase(out.strides, d);
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Narrow(D& decide, const GeometryOf<D>& g, int64_t dim, const Index<D>& start,
                                     const Index<D>& length) {
  if (g.rank() == 0) return Error("narrow() cannot be applied to a 0-dim tensor.");
  if (decide.Less(length, 0)) return Error("narrow(): length must be non-negative.");
  SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
  const Index<D> size = g.sizes[d];
  const bool in_range = decide.LessOrEqual(decide.Sub(0, size), start) && decide.LessOrEqual(start, size);
  if (!decide.status().ok()) return decide.status();
  if (!in_range) {
    return Error("start out of range (expected to be in range of [", Text(decide.Sub(0, size)), ", ", Text(size),
                 "], but got ", Text(start), ")");
  }
  const Index<D> from = decide.Less(start, 0) ? decide.Add(start, size) : start;
  const bool fits = decide.LessOrEqual(from, decide.Sub(size, length));
  if (!decide.status().ok()) return decide.status();
  if (!fits) {
    return Error("start (", Text(from), ") + length (", Text(length), ") exceeds dimension size (", Text(size), ").");
  }
  GeometryOf<D> out = g;
  out.sizes[d] = length;
  out.offset = decide.Add(g.offset, decide.Mul(from, g.strides[d]));
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Diagonal(D& decide, const GeometryOf<D>& g, int64_t offset, int64_t dim1, int64_t dim2) {
  SMELT_ASSIGN_OR_RETURN(int a, WrapDim(dim1, g.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, WrapDim(dim2, g.rank()));
  if (a == b) return Error("diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  const Index<D> rows = offset >= 0 ? g.sizes[a] : decide.Add(g.sizes[a], offset);
  const Index<D> columns = offset >= 0 ? decide.Sub(g.sizes[b], offset) : g.sizes[b];
  const Index<D> size = decide.Max(decide.Min(rows, columns), 0);
  GeometryOf<D> out = g;
  // An empty diagonal keeps the offset: the computed one may be out of range.
  if (offset != 0 && !decide.Equal(size, 0)) {
    out.offset = offset >= 0 ? decide.Add(g.offset, decide.Mul(offset, g.strides[b]))
                             : decide.Sub(g.offset, decide.Mul(offset, g.strides[a]));
  }
  for (int d : {std::max(a, b), std::min(a, b)}) {
    Erase(out.sizes, d);
    Erase(out.strides, d);
  }
  out.sizes.push_back(size);
  out.strides.push_back(decide.Add(g.strides[a], g.strides[b]));
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> AsStrided(D& decide, const GeometryOf<D>& g, Sizes<D> sizes, Sizes<D> strides,
                                        const std::optional<Index<D>>& offset,
                                        const std::optional<Index<D>>& storage_items) {
  if (sizes.size() != strides.size()) return Error("mismatch in length of strides and shape");
  for (const Index<D>& s : strides) {
    if (decide.Less(s, 0)) {
      return Error("as_strided: Negative strides are not supported at the moment, got strides: ", List(strides));
    }
  }
  for (const Index<D>& s : sizes) {
    if (decide.Less(s, 0)) {
      return Error("Trying to create tensor with negative dimension ", Text(s), ": ", List(sizes));
    }
  }
  GeometryOf<D> out;
  out.sizes.assign(sizes.begin(), sizes.end());
  out.strides.assign(strides.begin(), strides.end());
  out.offset = offset.has_value() ? *offset : g.offset;
  if (decide.Less(out.offset, 0)) return Error("Tensor: invalid storage offset ", Text(out.offset));
  if (storage_items.has_value() && !IsEmpty<D>(decide, sizes)) {
    Index<D> last = out.offset;
    for (int d = 0; d < out.rank(); ++d) {
      last = decide.Add(last, decide.Mul(decide.Sub(out.sizes[d], 1), out.strides[d]));
    }
    const bool fits = decide.Less(last, *storage_items);
    if (!decide.status().ok()) return decide.status();
    if (!fits) {
      return Error("setStorage: sizes ", List(sizes), ", strides ", List(strides), ", storage offset ",
                   Text(out.offset), " require a storage of ", Text(decide.Add(last, 1)),
                   " items, out of bounds for a storage of ", Text(*storage_items));
    }
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> Unfold(D& decide, const GeometryOf<D>& g, int64_t dim, const Index<D>& size,
                                     const Index<D>& step) {
  SMELT_ASSIGN_OR_RETURN(int d, WrapDim(dim, g.rank()));
  const Index<D> available = g.rank() == 0 ? Index<D>(1) : g.sizes[d];
  if (decide.Less(size, 0)) return Error("size is ", Text(size), " but must be >= 0");
  const bool fits = decide.LessOrEqual(size, available);
  if (!decide.status().ok()) return decide.status();
  if (!fits) {
    return Error("maximum size for tensor at dimension ", d, " is ", Text(available), " but size is ", Text(size));
  }
  if (decide.LessOrEqual(step, 0)) return Error("step is ", Text(step), " but must be > 0");
  GeometryOf<D> out = g;
  out.sizes.push_back(size);
  out.strides.push_back(g.rank() == 0 ? Index<D>(1) : g.strides[d]);
  if (g.rank() > 0) {
    out.sizes[d] = decide.Add(decide.FloorDiv(decide.Sub(available, size), step), 1);
    out.strides[d] = decide.Mul(g.strides[d], step);
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> ViewDType(D& decide, const GeometryOf<D>& g, DType from, DType to) {
  const int old_bytes = ItemSize(from), new_bytes = ItemSize(to);
  GeometryOf<D> out = g;
  if (old_bytes == new_bytes) return Finish(decide, std::move(out));
  const std::string what =
      absl::StrCat("to view ", ScalarTypeName(from), " as ", ScalarTypeName(to), " (different element sizes)");
  if (g.rank() == 0) return Error("self.dim() cannot be 0 ", what);
  const int last = g.rank() - 1;
  const int64_t ratio = std::max(old_bytes, new_bytes) / std::min(old_bytes, new_bytes);
  if (old_bytes < new_bytes) {
    if (!decide.Equal(decide.Mod(g.sizes[last], ratio), 0)) {
      return Error("self.size(-1) must be divisible by ", ratio, " ", what, ", but got ", Text(g.sizes[last]));
    }
    if (!decide.Equal(decide.Mod(g.offset, ratio), 0)) {
      return Error("self.storage_offset() must be divisible by ", ratio, " ", what, ", but got ", Text(g.offset));
    }
  }
  const bool dense = decide.Equal(g.strides[last], 1);
  if (!decide.status().ok()) return decide.status();
  if (!dense) return Error("self.stride(-1) must be 1 ", what, ", but got ", Text(g.strides[last]));
  for (int d = 0; d < last; ++d) {
    if (old_bytes > new_bytes) {
      out.strides[d] = decide.Mul(g.strides[d], ratio);
      continue;
    }
    if (!decide.Equal(decide.Mod(g.strides[d], ratio), 0)) {
      return Error("self.stride(", d, ") must be divisible by ", ratio, " ", what, ", but got ", Text(g.strides[d]));
    }
    out.strides[d] = decide.FloorDiv(g.strides[d], ratio);
  }
  if (old_bytes > new_bytes) {
    out.sizes[last] = decide.Mul(g.sizes[last], ratio);
    out.offset = decide.Mul(g.offset, ratio);
  } else {
    out.sizes[last] = decide.FloorDiv(g.sizes[last], ratio);
    out.offset = decide.FloorDiv(g.offset, ratio);
  }
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> ViewAsReal(D& decide, const GeometryOf<D>& g, DType dtype) {
  if (!IsComplex(dtype)) return Error("view_as_real is only supported for complex tensors");
  GeometryOf<D> out = g;
  out.offset = decide.Mul(g.offset, 2);
  for (Index<D>& s : out.strides) s = decide.Mul(s, 2);
  out.sizes.push_back(2);
  out.strides.push_back(1);
  return Finish(decide, std::move(out));
}

template <typename D>
absl::StatusOr<GeometryOf<D>> ViewAsComplex(D& decide, const GeometryOf<D>& g, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64 && dtype != DType::kFloat16) {
    return Error(
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: ",
        ScalarTypeName(dtype));
  }
  if (g.rank() == 0) return Error("Input tensor must have one or more dimensions");
  const int last = g.rank() - 1;
  if (!decide.Equal(g.sizes[last], 2)) return Error("Tensor must have a last dimension of size 2");
  if (!decide.Equal(g.strides[last], 1)) return Error("Tensor must have a last dimension with stride 1");
  GeometryOf<D> out = g;
  for (int d = 0; d < last; ++d) {
    if (!decide.Equal(g.sizes[d], 1) && !decide.Equal(decide.Mod(g.strides[d], 2), 0)) {
      return Error("Tensor must have a stride divisible by 2 for all but last dimension");
    }
    out.strides[d] = decide.FloorDiv(g.strides[d], 2);
  }
  if (!decide.Equal(decide.Mod(g.offset, 2), 0)) return Error("Tensor must have a storage_offset divisible by 2");
  out.offset = decide.FloorDiv(g.offset, 2);
  out.sizes.pop_back();
  out.strides.pop_back();
  return Finish(decide, std::move(out));
}

#define SMELT_INSTANTIATE(D)                                                                                         \
  template IndexVector<D> ContiguousStrides<D>(D&, Sizes<D>);                                                        \
  template IndexVector<D> ChannelsLastStrides<D>(D&, Sizes<D>);                                                      \
  template bool IsContiguous<D>(D&, const D::Geometry&);                                                             \
  template bool IsChannelsLast<D>(D&, const D::Geometry&);                                                           \
  template bool IsNonOverlappingAndDense<D>(D&, const D::Geometry&);                                                 \
  template IndexVector<D> PreservedStrides<D>(D&, const D::Geometry&);                                               \
  template absl::StatusOr<IndexVector<D>> BroadcastSizes<D>(D&, absl::Span<const IndexVector<D>>);                   \
  template absl::StatusOr<D::Geometry> PointwiseOutput<D>(D&, absl::Span<const D::Geometry>);                        \
  template absl::StatusOr<D::Geometry> IndexedOutput<D>(D&, const D::Geometry&,                                      \
                                                        absl::Span<const std::optional<D::Geometry>>);               \
  template absl::StatusOr<D::Geometry> View<D>(D&, const D::Geometry&, Sizes<D>);                                    \
  template absl::StatusOr<ReshapeResult<D>> Reshape<D>(D&, const D::Geometry&, Sizes<D>);                            \
  template absl::StatusOr<IndexVector<D>> InferSizes<D>(D&, Sizes<D>, Sizes<D>);                                     \
  template absl::StatusOr<IndexVector<D>> FlattenedSizes<D>(D&, Sizes<D>, int64_t, int64_t);                         \
  template absl::StatusOr<D::Geometry> Permute<D>(D&, const D::Geometry&, absl::Span<const int64_t>);                \
  template absl::StatusOr<D::Geometry> Transpose<D>(D&, const D::Geometry&, int64_t, int64_t);                       \
  template absl::StatusOr<D::Geometry> Squeeze<D>(D&, const D::Geometry&);                                           \
  template absl::StatusOr<D::Geometry> Squeeze<D>(D&, const D::Geometry&, int64_t);                                  \
  template absl::StatusOr<D::Geometry> SqueezeDims<D>(D&, const D::Geometry&, absl::Span<const int64_t>);            \
  template absl::StatusOr<D::Geometry> Unsqueeze<D>(D&, const D::Geometry&, int64_t);                                \
  template absl::StatusOr<D::Geometry> Expand<D>(D&, const D::Geometry&, Sizes<D>);                                  \
  template absl::StatusOr<D::Geometry> Slice<D>(D&, const D::Geometry&, int64_t, const std::optional<D::Index>&,     \
                                                const std::optional<D::Index>&, const D::Index&);                    \
  template absl::StatusOr<D::Geometry> Select<D>(D&, const D::Geometry&, int64_t, const D::Index&);                  \
  template absl::StatusOr<D::Geometry> Narrow<D>(D&, const D::Geometry&, int64_t, const D::Index&, const D::Index&); \
  template absl::StatusOr<D::Geometry> Diagonal<D>(D&, const D::Geometry&, int64_t, int64_t, int64_t);               \
  template absl::StatusOr<D::Geometry> AsStrided<D>(D&, const D::Geometry&, Sizes<D>, Sizes<D>,                      \
                                                    const std::optional<D::Index>&, const std::optional<D::Index>&); \
  template absl::StatusOr<D::Geometry> Unfold<D>(D&, const D::Geometry&, int64_t, const D::Index&, const D::Index&); \
  template absl::StatusOr<D::Geometry> ViewDType<D>(D&, const D::Geometry&, DType, DType);                           \
  template absl::StatusOr<D::Geometry> ViewAsReal<D>(D&, const D::Geometry&, DType);                                 \
  template absl::StatusOr<D::Geometry> ViewAsComplex<D>(D&, const D::Geometry&, DType)

SMELT_INSTANTIATE(ConcreteDecide);
SMELT_INSTANTIATE(SymbolicDecide);

}  // namespace smelt::view_rules
