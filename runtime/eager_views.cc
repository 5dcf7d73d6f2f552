#include "smelt/runtime/eager_views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

using view_rules::ReshapeResult;

// No program means so many. Products of sizes stay far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr size_t kMaxParts = 1 << 24;
// PyTorch's codes of memory formats.
constexpr int64_t kContiguousFormat = 0, kPreserveFormat = 1;

struct Call {
  const std::string& op;
  absl::Span<const EagerValue> args;
  Tensor base;
  ConcreteDecide decide;

  const Geometry& g() const { return base.geometry(); }
  int rank() const { return base.rank(); }
  bool Given(size_t i) const { return i < args.size() && !args[i].IsNone(); }
  absl::StatusOr<int64_t> Int(size_t i) const {
    if (i >= args.size()) return absl::FailedPreconditionError(absl::StrCat("argument ", i, " is missing"));
    return args[i].AsInt();
  }
  absl::StatusOr<int64_t> IntOr(size_t i, int64_t d) const { return Given(i) ? Int(i) : d; }
  absl::StatusOr<std::vector<int64_t>> Ints(size_t i) const {
    if (i >= args.size()) return absl::FailedPreconditionError(absl::StrCat("argument ", i, " is missing"));
    return args[i].AsInts();
  }
  absl::StatusOr<std::optional<int64_t>> MaybeInt(size_t i) const {
    if (!Given(i)) return std::optional<int64_t>();
    SMELT_ASSIGN_OR_RETURN(int64_t v, Int(i));
    return std::optional<int64_t>(v);
  }
  absl::StatusOr<Tensor> Other(size_t i) const {
    if (i >= args.size()) return absl::FailedPreconditionError(absl::StrCat("argument ", i, " is missing"));
    return args[i].AsTensor();
  }

  absl::StatusOr<EagerValue> Over(absl::StatusOr<Geometry> made, std::optional<DType> dtype = std::nullopt) {
    SMELT_RETURN_IF_ERROR(made.status());
    SMELT_RETURN_IF_ERROR(decide.status());
    int64_t elements = 1;
    for (int64_t n : made->sizes) {
      if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > kMaxElements) {
        return absl::ResourceExhaustedError(absl::StrCat("a view of ", made->ToString(), " has too many elements"));
      }
    }
    Tensor t = base.ViewAs(dtype.value_or(base.dtype()), *std::move(made));
    if (!t.InBounds()) {
      return absl::FailedPreconditionError(absl::StrCat("setStorage: the view ", t.geometry().ToString(), " of ",
                                                        Name(t.dtype()), " is out of bounds for storage of size ",
                                                        base.storage()->bytes()));
    }
    return EagerValue(Datum(std::move(t)));
  }
};

using Rule = absl::StatusOr<EagerValue> (*)(Call&);

EagerValue Itself(const Call& c) { return c.args[0]; }
absl::StatusOr<Tensor> Copied(const Tensor& from, const std::vector<int64_t>& strides) {
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(from.NumElements(), ItemSize(from.dtype())));
  Tensor to = Tensor::EmptyStrided(from.dtype(), from.sizes(), strides);
  if (from.NumElements() > 0) {
    CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(from.data()), from.strides(),
                from.sizes(), ItemSize(from.dtype()));
  }
  return to;
}

absl::StatusOr<EagerValue> Alias(Call& c) { return c.Over(c.g()); }
absl::StatusOr<EagerValue> Self(Call& c) { return Itself(c); }
absl::StatusOr<EagerValue> View(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(1));
  return c.Over(view_rules::View(c.decide, c.g(), sizes));
}
absl::StatusOr<EagerValue> ReshapeTo(Call& c, const std::vector<int64_t>& sizes) {
  SMELT_ASSIGN_OR_RETURN(ReshapeResult<ConcreteDecide> r, view_rules::Reshape(c.decide, c.g(), sizes));
  SMELT_RETURN_IF_ERROR(c.decide.status());
  if (r.aliases) return c.Over(r.geometry);
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base, view_rules::ContiguousStrides(c.decide, c.base.sizes())));
  return EagerValue(Datum(copy.View(r.geometry)));
}
absl::StatusOr<EagerValue> Reshape(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(1));
  return ReshapeTo(c, sizes);
}
absl::StatusOr<EagerValue> ReshapeAs(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor other, c.Other(1));
  return ReshapeTo(c, other.geometry().sizes);
}
absl::StatusOr<EagerValue> ViewAs(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor other, c.Other(1));
  return c.Over(view_rules::View(c.decide, c.g(), other.sizes()));
}
absl::StatusOr<EagerValue> Flatten(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t start, c.IntOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t end, c.IntOr(2, -1));
  SMELT_ASSIGN_OR_RETURN(auto sizes, view_rules::FlattenedSizes(c.decide, c.base.sizes(), start, end));
  // PyTorch returns the tensor itself if there is nothing to flatten.
  if (c.op == "aten::flatten.using_ints" && sizes == c.g().sizes) return Itself(c);
  return ReshapeTo(c, sizes);
}
// contiguous().view(-1): a copy of what is not contiguous, even if it is a view of one stride.
absl::StatusOr<EagerValue> Ravel(Call& c) {
  if (view_rules::IsContiguous(c.decide, c.g())) return ReshapeTo(c, {c.base.NumElements()});
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base, view_rules::ContiguousStrides(c.decide, c.base.sizes())));
  return EagerValue(Datum(copy.View({{copy.NumElements()}, {1}, 0})));
}
absl::StatusOr<EagerValue> ReshapeAlias(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(1));
  SMELT_ASSIGN_OR_RETURN(auto strides, c.Ints(2));
  return c.Over(view_rules::AsStrided(c.decide, c.g(), sizes, strides, std::optional<int64_t>()));
}
absl::StatusOr<EagerValue> AsStrided(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(1));
  SMELT_ASSIGN_OR_RETURN(auto strides, c.Ints(2));
  SMELT_ASSIGN_OR_RETURN(auto offset, c.MaybeInt(3));
  return c.Over(view_rules::AsStrided(c.decide, c.g(), sizes, strides, offset));
}
absl::StatusOr<EagerValue> ViewDType(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t code, c.Int(1));
  const std::optional<DType> to = DTypeFromScalarType(code);
  if (!to) return absl::UnimplementedError(absl::StrCat("a view of scalar type ", code));
  return c.Over(view_rules::ViewDType(c.decide, c.g(), c.base.dtype(), *to), *to);
}
absl::StatusOr<EagerValue> ViewAsReal(Call& c) {
  return c.Over(view_rules::ViewAsReal(c.decide, c.g(), c.base.dtype()),
                c.base.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64);
}
absl::StatusOr<EagerValue> ViewAsComplex(Call& c) {
  return c.Over(view_rules::ViewAsComplex(c.decide, c.g(), c.base.dtype()),
                c.base.dtype() == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128);
}
absl::StatusOr<EagerValue> RealOrImag(Call& c) {
  const bool imag = c.op == "aten::imag";
  if (!IsComplex(c.base.dtype())) {
    if (imag) return absl::FailedPreconditionError("imag is not implemented for tensors with non-complex dtypes.");
    return c.op == "aten::real" ? Itself(c) : Alias(c);
  }
  SMELT_ASSIGN_OR_RETURN(Geometry parts, view_rules::ViewAsReal(c.decide, c.g(), c.base.dtype()));
  return c.Over(view_rules::Select(c.decide, parts, -1, imag ? 1 : 0),
                c.base.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64);
}
absl::StatusOr<EagerValue> RealOnly(Call& c) {
  if (IsComplex(c.base.dtype())) return absl::UnimplementedError("lazy conjugation of complex tensors");
  return c.op == "aten::_conj" ? Alias(c) : Itself(c);
}
absl::StatusOr<EagerValue> Permute(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto dims, c.Ints(1));
  return c.Over(view_rules::Permute(c.decide, c.g(), dims));
}
absl::StatusOr<EagerValue> Transpose(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t a, c.Int(1));
  SMELT_ASSIGN_OR_RETURN(int64_t b, c.Int(2));
  return c.Over(view_rules::Transpose(c.decide, c.g(), a, b));
}
absl::StatusOr<EagerValue> Matrix(Call& c) {
  if (c.op == "aten::t" && c.rank() > 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("t() expects a tensor with <= 2 dimensions, but self is ", c.rank(), "D"));
  }
  if (c.rank() < 2) {
    if (c.op == "aten::t") return Alias(c);
    return absl::FailedPreconditionError("a matrix is expected");
  }
  if (c.op != "aten::t" && c.op != "aten::mT" && IsComplex(c.base.dtype())) return RealOnly(c);
  return c.Over(view_rules::Transpose(c.decide, c.g(), -2, -1));
}
absl::StatusOr<EagerValue> ReverseDims(Call& c) {
  std::vector<int64_t> dims;
  for (int d = c.rank(); d-- > 0;) dims.push_back(d);
  return c.Over(view_rules::Permute(c.decide, c.g(), dims));
}
absl::StatusOr<EagerValue> MoveDim(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto from, c.Ints(1));
  SMELT_ASSIGN_OR_RETURN(auto to, c.Ints(2));
  if (from.size() != to.size()) return absl::FailedPreconditionError("movedim: as many sources as destinations");
  std::vector<int64_t> order(c.rank(), -1);
  std::vector<bool> used(c.rank(), false);
  for (size_t k = 0; k < from.size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(int a, view_rules::WrapDim(from[k], c.rank()));
    SMELT_ASSIGN_OR_RETURN(int b, view_rules::WrapDim(to[k], c.rank()));
    if (c.rank() == 0) continue;
    if (used[a] || order[b] >= 0) return absl::FailedPreconditionError("movedim: repeated dim");
    order[b] = a;
    used[a] = true;
  }
  int next = 0;
  for (int64_t& o : order) {
    if (o >= 0) continue;
    while (used[next]) ++next;
    o = next++;
  }
  return c.Over(view_rules::Permute(c.decide, c.g(), order));
}
absl::StatusOr<EagerValue> Squeeze(Call& c) {
  if (!c.Given(1)) return c.Over(view_rules::Squeeze(c.decide, c.g()));
  if (!c.args[1].IsList()) {
    SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
    return c.Over(view_rules::Squeeze(c.decide, c.g(), dim));
  }
  SMELT_ASSIGN_OR_RETURN(auto dims, c.Ints(1));
  return c.Over(view_rules::SqueezeDims(c.decide, c.g(), dims));
}
absl::StatusOr<EagerValue> Unsqueeze(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
  return c.Over(view_rules::Unsqueeze(c.decide, c.g(), dim));
}
absl::StatusOr<EagerValue> Expand(Call& c) {
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(1));
  return c.Over(view_rules::Expand(c.decide, c.g(), sizes));
}
absl::StatusOr<EagerValue> ExpandAs(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor other, c.Other(1));
  return c.Over(view_rules::Expand(c.decide, c.g(), other.sizes()));
}
absl::StatusOr<EagerValue> Slice(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.IntOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(auto start, c.MaybeInt(2));
  SMELT_ASSIGN_OR_RETURN(auto end, c.MaybeInt(3));
  SMELT_ASSIGN_OR_RETURN(int64_t step, c.IntOr(4, 1));
  return c.Over(view_rules::Slice(c.decide, c.g(), dim, start, end, step));
}
absl::StatusOr<EagerValue> Select(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
  SMELT_ASSIGN_OR_RETURN(int64_t index, c.Int(2));
  return c.Over(view_rules::Select(c.decide, c.g(), dim, index));
}
absl::StatusOr<EagerValue> Narrow(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
  SMELT_ASSIGN_OR_RETURN(int64_t start, c.Int(2));
  SMELT_ASSIGN_OR_RETURN(int64_t length, c.Int(3));
  return c.Over(view_rules::Narrow(c.decide, c.g(), dim, start, length));
}
absl::StatusOr<EagerValue> Diagonal(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t offset, c.IntOr(1, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t d1, c.IntOr(2, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t d2, c.IntOr(3, 1));
  return c.Over(view_rules::Diagonal(c.decide, c.g(), offset, d1, d2));
}
absl::StatusOr<EagerValue> Unfold(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
  SMELT_ASSIGN_OR_RETURN(int64_t size, c.Int(2));
  SMELT_ASSIGN_OR_RETURN(int64_t step, c.Int(3));
  return c.Over(view_rules::Unfold(c.decide, c.g(), dim, size, step));
}
absl::StatusOr<EagerValue> Unflatten(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.Int(1));
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(2));
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  if (c.rank() == 0) return absl::FailedPreconditionError("unflatten of a 0-dimensional tensor");
  const std::vector<int64_t>& old = c.g().sizes;
  SMELT_ASSIGN_OR_RETURN(auto part, view_rules::InferSizes(c.decide, std::vector<int64_t>{old[d]}, sizes));
  std::vector<int64_t> all(old.begin(), old.begin() + d);
  all.insert(all.end(), part.begin(), part.end());
  all.insert(all.end(), old.begin() + d + 1, old.end());
  return c.Over(view_rules::View(c.decide, c.g(), all));
}

// Parts along a dim: [start, start + length) each.
absl::StatusOr<EagerValue> Parts(Call& c, int64_t dim, const std::vector<int64_t>& lengths) {
  std::vector<EagerValue> parts;
  int64_t at = 0;
  if (lengths.size() > kMaxParts) return absl::ResourceExhaustedError("a view has too many parts");
  for (int64_t n : lengths) {
    SMELT_ASSIGN_OR_RETURN(EagerValue v, c.Over(view_rules::Narrow(c.decide, c.g(), dim, at, n)));
    parts.push_back(std::move(v));
    at += n;
  }
  return EagerValue::List(std::move(parts));
}
absl::StatusOr<EagerValue> Split(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.IntOr(2, 0));
  if (c.rank() == 0) return absl::FailedPreconditionError("split expects at least a 1-dimensional tensor");
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  const int64_t size = c.base.sizes()[d];
  std::vector<int64_t> lengths;
  const bool chunks = c.op == "aten::chunk" || c.op == "aten::unsafe_chunk";
  if (c.args.size() > 1 && c.args[1].IsList()) {
    SMELT_ASSIGN_OR_RETURN(lengths, c.Ints(1));
    int64_t sum = 0;
    for (int64_t n : lengths) {
      if (n < 0 || __builtin_add_overflow(sum, n, &sum))
        return absl::FailedPreconditionError("a part's size is negative");
    }
    if (sum != size) {
      return absl::FailedPreconditionError(
          absl::StrCat("split_with_sizes expects split_sizes to sum exactly to ", size, ", they sum to ", sum));
    }
    return Parts(c, d, lengths);
  }
  SMELT_ASSIGN_OR_RETURN(int64_t n, c.Int(1));
  if (n < 0 || (n == 0 && (chunks || size != 0)))
    return absl::FailedPreconditionError("a part's size must be positive");
  int64_t each = n;
  if (chunks) {
    each = size / n + (size % n != 0 ? 1 : 0);
    if (size == 0) return Parts(c, d, std::vector<int64_t>(std::min<int64_t>(n, 1 << 20), 0));
  }
  if (each == 0 || size == 0) return Parts(c, d, {0});
  if (size / each > static_cast<int64_t>(kMaxParts)) return absl::ResourceExhaustedError("a view has too many parts");
  for (int64_t at = 0; at < size; at += each) lengths.push_back(std::min(each, size - at));
  return Parts(c, d, lengths);
}
absl::StatusOr<EagerValue> TensorSplit(Call& c) {
  if (c.rank() == 0) return absl::FailedPreconditionError("expected at least a 1-dimensional tensor");
  int64_t dim = 0;
  if (c.op.rfind("aten::hsplit", 0) == 0) dim = c.rank() == 1 ? 0 : 1;
  if (c.op.rfind("aten::dsplit", 0) == 0) dim = 2;
  if (c.op.rfind("aten::tensor_split", 0) == 0) {
    SMELT_ASSIGN_OR_RETURN(dim, c.IntOr(2, 0));
  }
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  const int64_t size = c.base.sizes()[d];
  if (!c.args[1].IsList()) {
    SMELT_ASSIGN_OR_RETURN(int64_t n, c.Int(1));
    if (n <= 0 || n > 1 << 20) return absl::FailedPreconditionError("number of sections must be larger than 0");
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < n; ++i) lengths.push_back(size / n + (i < size % n ? 1 : 0));
    return Parts(c, d, lengths);
  }
  SMELT_ASSIGN_OR_RETURN(auto indices, c.Ints(1));
  std::vector<EagerValue> parts;
  int64_t start = 0;
  for (size_t i = 0; i <= indices.size(); ++i) {
    const int64_t end = i < indices.size() ? indices[i] : size;
    SMELT_ASSIGN_OR_RETURN(EagerValue v, c.Over(view_rules::Slice(c.decide, c.g(), d, std::optional<int64_t>(start),
                                                                  std::optional<int64_t>(end), int64_t{1})));
    parts.push_back(std::move(v));
    start = end;
  }
  return EagerValue::List(std::move(parts));
}
absl::StatusOr<EagerValue> Unbind(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.IntOr(1, 0));
  if (c.rank() == 0) {
    return absl::FailedPreconditionError("Dimension specified as 0 but tensor has no dimensions");
  }
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, c.rank()));
  std::vector<EagerValue> parts;
  if (c.base.sizes()[d] > static_cast<int64_t>(kMaxParts))
    return absl::ResourceExhaustedError("a view has too many parts");
  for (int64_t i = 0; i < c.base.sizes()[d]; ++i) {
    SMELT_ASSIGN_OR_RETURN(EagerValue v, c.Over(view_rules::Select(c.decide, c.g(), d, i)));
    parts.push_back(std::move(v));
  }
  return EagerValue::List(std::move(parts));
}

// contiguous(self, format): itself where it is; clone(self, format): never.
absl::StatusOr<std::vector<int64_t>> StridesOf(Call& c, int64_t format) {
  if (format == kPreserveFormat) return view_rules::PreservedStrides(c.decide, c.g());
  if (format == kContiguousFormat) return view_rules::ContiguousStrides(c.decide, c.base.sizes());
  if ((format == 2 && c.rank() == 4) || (format == 3 && c.rank() == 5)) {
    return view_rules::ChannelsLastStrides(c.decide, c.base.sizes());
  }
  return absl::FailedPreconditionError("required rank 4 tensor to use channels_last format");
}
absl::StatusOr<EagerValue> Contiguous(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t format, c.IntOr(1, kContiguousFormat));
  if (format == kPreserveFormat) {
    return absl::FailedPreconditionError("preserve memory format is unsupported by the contiguous operator");
  }
  const bool is = format == kContiguousFormat ? view_rules::IsContiguous(c.decide, c.g())
                                              : view_rules::IsChannelsLast(c.decide, c.g());
  if (is) return Itself(c);
  SMELT_ASSIGN_OR_RETURN(auto strides, StridesOf(c, format));
  SMELT_RETURN_IF_ERROR(c.decide.status());
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base, strides));
  return EagerValue(Datum(std::move(copy)));
}
// to(self, format), of the dtype that it has: itself where its strides suggest the format.
absl::StatusOr<EagerValue> To(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t format, c.IntOr(1, kPreserveFormat));
  const bool last = SuggestsChannelsLast<ConcreteDecide>(c.decide, c.base.sizes(), c.base.strides());
  if (format == kPreserveFormat || last == (format != kContiguousFormat)) return Itself(c);
  SMELT_ASSIGN_OR_RETURN(auto strides, StridesOf(c, format));
  SMELT_RETURN_IF_ERROR(c.decide.status());
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base, strides));
  return EagerValue(Datum(std::move(copy)));
}
absl::StatusOr<EagerValue> Clone(Call& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t format, c.IntOr(1, kPreserveFormat));
  SMELT_ASSIGN_OR_RETURN(auto strides, StridesOf(c, format));
  SMELT_RETURN_IF_ERROR(c.decide.status());
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base, strides));
  return EagerValue(Datum(std::move(copy)));
}

// as_strided_scatter(self, src, size, stride, offset): places count from the first element of self's storage, so the
// copy has one like it, up to the last element that self reaches.
absl::StatusOr<EagerValue> AsStridedScatter(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor src, c.Other(1));
  SMELT_ASSIGN_OR_RETURN(auto sizes, c.Ints(2));
  SMELT_ASSIGN_OR_RETURN(auto strides, c.Ints(3));
  SMELT_ASSIGN_OR_RETURN(auto offset, c.MaybeInt(4));
  if (src.sizes() != absl::MakeConstSpan(sizes)) {
    return absl::FailedPreconditionError("expected src to have a size equal to the slice of self");
  }
  if (src.dtype() != c.base.dtype()) return absl::UnimplementedError("as_strided_scatter of another dtype");
  int64_t reached = c.base.NumElements() > 0 ? c.g().offset + 1 : 0;
  for (int d = 0; d < c.rank(); ++d) {
    if (c.g().strides[d] == 0 && c.g().sizes[d] > 1) {
      return absl::UnimplementedError("a copy with a view of memory that several elements share");
    }
    if (reached > 0) reached += (c.g().sizes[d] - 1) * c.g().strides[d];
  }
  SMELT_ASSIGN_OR_RETURN(Tensor copy, Copied(c.base.View({{reached}, {1}, 0}), {1}));
  const Geometry laid_out = c.g();
  c.base = copy.View(laid_out);
  SMELT_ASSIGN_OR_RETURN(EagerValue part, c.Over(view_rules::AsStrided(c.decide, c.g(), sizes, strides, offset)));
  const Tensor& to = part.datum.tensor();
  if (to.NumElements() > 0) {
    CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(src.data()), src.strides(),
                src.sizes(), ItemSize(src.dtype()));
  }
  return EagerValue(Datum(c.base));
}

// cat(tensors, dim) and stack(tensors, dim) of a list that only the call knows.
absl::StatusOr<EagerValue> Join(const std::string& op, absl::Span<const EagerValue> args) {
  const bool stack = op == "aten::stack";
  const std::string name = stack ? "stack" : "torch.cat()";
  if (!args[0].IsList() || args[0].list->empty())
    return absl::FailedPreconditionError(absl::StrCat(name, ": expected a non-empty list of Tensors"));
  std::vector<Tensor> parts;
  for (const EagerValue& e : *args[0].list) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, e.AsTensor());
    if (!parts.empty() && t.dtype() != parts[0].dtype())
      return absl::UnimplementedError(
          absl::StrCat(name, ": a list of tensors of several dtypes, which only the call knows"));
    // cat ignores what is empty and of one dim.
    if (stack || t.rank() != 1 || t.NumElements() > 0) parts.push_back(std::move(t));
  }
  if (parts.empty()) return args[0].list->front();
  const std::vector<int64_t> first(parts[0].sizes().begin(), parts[0].sizes().end());
  const int rank = static_cast<int>(first.size()) + (stack ? 1 : 0);
  int64_t dim = 0;
  if (args.size() > 1 && !args[1].IsNone()) {
    SMELT_ASSIGN_OR_RETURN(dim, args[1].AsInt());
  }
  if (rank == 0) return absl::FailedPreconditionError("zero-dimensional tensor (at position 0) cannot be concatenated");
  SMELT_ASSIGN_OR_RETURN(const int at, view_rules::WrapDim(dim, rank));
  int64_t length = 0;
  for (Tensor& t : parts) {
    // A result with four dims may be channels-last.
    if (rank >= 4 && !t.geometry().IsContiguous())
      return absl::UnimplementedError(absl::StrCat(name, ": how a list that only the call knows is laid out"));
    std::vector<int64_t> sizes(t.sizes().begin(), t.sizes().end()), expected = first;
    if (!stack && sizes.size() == expected.size()) expected[at] = sizes[at];
    if (sizes != expected) {
      return absl::FailedPreconditionError(
          stack ? "stack expects each tensor to be equal size"
                : "Sizes of tensors must match except in the dimension that is concatenated");
    }
    length += stack ? 1 : sizes[at];
  }
  std::vector<int64_t> sizes = first;
  if (stack) sizes.insert(sizes.begin() + at, length);
  sizes[at] = length;
  const Geometry whole = Geometry::Contiguous(sizes);
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(whole.NumElements(), ItemSize(parts[0].dtype())));
  Tensor out = Tensor::EmptyStrided(parts[0].dtype(), whole.sizes, whole.strides);
  const int item = ItemSize(out.dtype());
  int64_t begin = 0;
  for (const Tensor& t : parts) {
    std::vector<int64_t> strides = whole.strides;
    if (stack) strides.erase(strides.begin() + at);
    if (t.NumElements() > 0) {
      CopyStrided(static_cast<char*>(out.data()) + begin * whole.strides[at] * item, strides,
                  static_cast<const char*>(t.data()), t.strides(), t.sizes(), item);
    }
    begin += stack ? 1 : t.sizes()[at];
  }
  return EagerValue(Datum(std::move(out)));
}

const absl::flat_hash_map<std::string, Rule>& Table() {
  static const auto* const kTable = new absl::flat_hash_map<std::string, Rule>{
      {"aten::alias", Alias},
      {"aten::detach", Alias},
      {"aten::lift_fresh", Alias},
      {"aten::lift", Self},
      {"aten::data", Alias},
      {"aten::positive", Alias},
      {"aten::conj", RealOnly},
      {"aten::_conj", RealOnly},
      {"aten::resolve_conj", Self},
      {"aten::resolve_neg", Self},
      {"aten::view", View},
      {"aten::view_as", ViewAs},
      {"aten::_reshape_alias", ReshapeAlias},
      {"aten::as_strided", AsStrided},
      {"aten::view.dtype", ViewDType},
      {"aten::view_as_real", ViewAsReal},
      {"aten::view_as_complex", ViewAsComplex},
      {"aten::real", RealOrImag},
      {"aten::imag", RealOrImag},
      {"aten::permute", Permute},
      {"aten::transpose.int", Transpose},
      {"aten::swapaxes", Transpose},
      {"aten::swapdims", Transpose},
      {"aten::t", Matrix},
      {"aten::mT", Matrix},
      {"aten::mH", Matrix},
      {"aten::matrix_H", Matrix},
      {"aten::adjoint", Matrix},
      {"aten::numpy_T", ReverseDims},
      {"aten::movedim.int", MoveDim},
      {"aten::moveaxis.int", MoveDim},
      {"aten::movedim.intlist", MoveDim},
      {"aten::moveaxis.intlist", MoveDim},
      {"aten::unsqueeze", Unsqueeze},
      {"aten::squeeze", Squeeze},
      {"aten::squeeze.dim", Squeeze},
      {"aten::squeeze.dims", Squeeze},
      {"aten::expand", Expand},
      {"aten::broadcast_to", Expand},
      {"aten::expand_as", ExpandAs},
      {"aten::slice.Tensor", Slice},
      {"aten::select.int", Select},
      {"aten::narrow", Narrow},
      {"aten::split.Tensor", Split},
      {"aten::split.sizes", Split},
      {"aten::split", Split},
      {"aten::split_with_sizes", Split},
      {"aten::unsafe_split.Tensor", Split},
      {"aten::unsafe_split_with_sizes", Split},
      {"aten::chunk", Split},
      {"aten::unsafe_chunk", Split},
      {"aten::tensor_split.sections", TensorSplit},
      {"aten::tensor_split.indices", TensorSplit},
      {"aten::hsplit.int", TensorSplit},
      {"aten::hsplit.array", TensorSplit},
      {"aten::vsplit.int", TensorSplit},
      {"aten::vsplit.array", TensorSplit},
      {"aten::dsplit.int", TensorSplit},
      {"aten::dsplit.array", TensorSplit},
      {"aten::unbind.int", Unbind},
      {"aten::diagonal", Diagonal},
      {"aten::linalg_diagonal", Diagonal},
      {"aten::unfold", Unfold},
      {"aten::unflatten.int", Unflatten},
      // These copy where they must.
      {"aten::reshape", Reshape},
      {"aten::_unsafe_view", Reshape},
      {"aten::reshape_as", ReshapeAs},
      {"aten::flatten.using_ints", Flatten},
      {"aten::ravel", Ravel},
      {"aten::contiguous", Contiguous},
      {"aten::to", To},
      {"aten::clone", Clone},
      {"aten::as_strided_scatter", AsStridedScatter},
  };
  return *kTable;
}

}  // namespace

absl::StatusOr<EagerValue> EagerView(const std::string& op, absl::Span<const EagerValue> args) {
  if ((op == "aten::cat" || op == "aten::stack") && !args.empty()) return Join(op, args);
  auto it = Table().find(op);
  if (it == Table().end()) return absl::UnimplementedError(absl::StrCat(op, " is no view operator of this runtime"));
  if (args.empty()) return absl::FailedPreconditionError("a view of nothing");
  SMELT_ASSIGN_OR_RETURN(Tensor base, args[0].AsTensor());
  Call call{op, args, base, {}};
  return it->second(call);
}

}  // namespace smelt
