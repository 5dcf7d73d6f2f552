// Operators that place elements by indices from data: index, gather, scatter, embedding, masks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::eval_internal {
namespace {

// A 0-dim tensor counts as a tensor with one dim of one element.
std::vector<int64_t> SizesOf(const Tensor& t) {
  std::vector<int64_t> s(t.sizes().begin(), t.sizes().end());
  if (s.empty()) s.push_back(1);
  return s;
}

absl::Status CheckIndex(const Call& c, int64_t i, int64_t n, int dim, bool negative) {
  if (i < (negative ? -n : 0) || i >= n)
    return c.Error(absl::StrCat("index ", i, " is out of bounds for dimension ", dim, " with size ", n));
  return absl::OkStatus();
}

// How several values for one place are combined.
enum class Meet { kSet, kAdd, kMul, kMin, kMax };
template <typename T>
T Combined(Meet m, T a, T b) {
  if constexpr (std::is_same_v<T, Cx>) {
    return m == Meet::kAdd ? a + b : m == Meet::kMul ? a * b : b;
  } else {
    switch (m) {
      case Meet::kSet:
        return b;
      case Meet::kAdd:
        return WrappingAdd(a, b);
      case Meet::kMul:
        return WrappingMul(a, b);
      case Meet::kMin:
        return a != a || b != b ? (a != a ? a : b) : std::min(a, b);
      case Meet::kMax:
        return a != a || b != b ? (a != a ? a : b) : std::max(a, b);
    }
    return b;
  }
}

// Divides each sum by the number of values in it, for a mean; whole numbers are rounded down. Places to which nothing was
// added stay.
template <typename T>
void DivideByCounts(std::vector<T>& x, const std::vector<int64_t>& count, bool with_self) {
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t k = count[i] + (with_self ? 1 : 0);
    if (count[i] == 0 || k == 0) continue;
    if constexpr (std::is_same_v<T, int64_t>) {
      x[i] = x[i] / k - (x[i] % k != 0 && x[i] < 0 ? 1 : 0);
    } else {
      x[i] /= static_cast<double>(k);
    }
  }
}

// --- index, index_put ---

// Masks become the indices of their true elements; None stays None.
absl::StatusOr<Values> LongIndices(Call& c, const Tensor& self, const std::vector<EvalValue>& given) {
  Values out;
  int dim = 0;
  for (const EvalValue& v : given) {
    if (!v.IsTensor()) {
      out.push_back(EvalValue());
      ++dim;
      continue;
    }
    const Tensor& t = v.tensor();
    if (t.dtype() != DType::kBool && t.dtype() != DType::kUInt8) {
      if (t.dtype() != DType::kInt64 && t.dtype() != DType::kInt32)
        return c.Error("tensors used as indices must be long, int, byte or bool tensors");
      out.push_back(EvalValue(Converted(t, DType::kInt64)));
      ++dim;
      continue;
    }
    for (int d = 0; d < t.rank(); ++d) {
      if (dim + d >= self.rank() || t.sizes()[d] != self.sizes()[dim + d])
        return c.Error("The shape of the mask at an index does not match the shape of the indexed tensor");
    }
    std::vector<std::vector<int64_t>> found(t.rank());
    const std::vector<int64_t> mask = Read<int64_t>(t);
    ForEachIndex(t.sizes(), [&](const Index& index, int64_t at) {
      if (mask[at] == 0) return;
      for (int d = 0; d < t.rank(); ++d) found[d].push_back(index[d]);
    });
    if (t.rank() == 0) return c.Unsupported("a 0-dim mask as an index");
    for (int d = 0; d < t.rank(); ++d) {
      Tensor i = Tensor::Empty(DType::kInt64, {static_cast<int64_t>(found[d].size())});
      Write(i, found[d]);
      out.push_back(EvalValue(i));
    }
    dim += t.rank();
  }
  if (static_cast<int>(out.size()) > self.rank())
    return c.Error(absl::StrCat("too many indices for tensor of dimension ", self.rank()));
  return out;
}

// The elements of self that indices select, as flat positions in the order of the result, and the result's sizes.
struct Picked {
  std::vector<int64_t> sizes;
  std::vector<int64_t> positions;
};
absl::StatusOr<Picked> PickByIndices(const Call& c, const Tensor& self, const Values& indices) {
  const std::vector<int64_t> strides = ContiguousStridesOf(self.sizes());
  std::vector<int64_t> common;
  std::vector<int> indexed;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].IsTensor()) continue;
    indexed.push_back(static_cast<int>(d));
    const absl::Span<const int64_t> s = indices[d].tensor().sizes();
    while (common.size() < s.size()) common.insert(common.begin(), 1);
    for (size_t k = 0; k < s.size(); ++k) {
      int64_t& n = common[common.size() - s.size() + k];
      if (n != s[k] && n != 1 && s[k] != 1)
        return c.Error("shape mismatch: indexing tensors could not be broadcast together");
      if (n == 1) n = s[k];
    }
  }
  if (indexed.empty()) return c.Error("at least one index must be given");
  // If the indexed dims are adjacent, the new dims take their place in the result; otherwise they come first.
  const bool together = indexed.back() - indexed.front() + 1 == static_cast<int>(indexed.size());
  const int first = together ? indexed.front() : 0;
  std::vector<int> others;
  for (int d = 0; d < self.rank(); ++d) {
    if (d >= static_cast<int>(indices.size()) || !indices[d].IsTensor()) others.push_back(d);
  }
  Picked out;
  for (int d : others) {
    if (static_cast<int>(out.sizes.size()) == first && (together ? d > indexed.front() : true)) break;
    out.sizes.push_back(self.sizes()[d]);
  }
  const size_t before = out.sizes.size();
  out.sizes.insert(out.sizes.end(), common.begin(), common.end());
  for (size_t k = before; k < others.size(); ++k) out.sizes.push_back(self.sizes()[others[k]]);

  std::vector<std::vector<int64_t>> values;
  for (int d : indexed) {
    SMELT_ASSIGN_OR_RETURN(Geometry g, Broadcasted(indices[d].tensor().geometry(), common));
    values.push_back(Read<int64_t>(indices[d].tensor().View(g)));
    if (Product(out.sizes) == 0) continue;
    for (int64_t& i : values.back()) {
      SMELT_RETURN_IF_ERROR(CheckIndex(c, i, self.sizes()[d], d, true));
      if (i < 0) i += self.sizes()[d];
    }
  }
  const std::vector<int64_t> common_strides = ContiguousStridesOf(common);
  ForEachIndex(out.sizes, [&](const Index& index, int64_t) {
    int64_t k = 0, at = 0;
    for (size_t d = 0; d < common.size(); ++d) k += index[before + d] * common_strides[d];
    for (size_t i = 0; i < indexed.size(); ++i) at += values[i][k] * strides[indexed[i]];
    for (size_t i = 0; i < others.size(); ++i) at += index[i < before ? i : i + common.size()] * strides[others[i]];
    out.positions.push_back(at);
  });
  return out;
}

// Copies the bytes of the elements at positions.
void Take(const Tensor& out, const Tensor& self, const std::vector<int64_t>& positions) {
  const int item = ItemSize(out.dtype());
  const std::vector<char> from = ReadBytes(self);
  std::vector<char> to(positions.size() * item);
  for (size_t i = 0; i < positions.size(); ++i)
    std::memcpy(to.data() + i * item, from.data() + positions[i] * item, item);
  WriteBytes(out, to);
}

absl::StatusOr<Values> IndexTensor(Call& c) {
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(Values indices, LongIndices(c, self, c.Arg("indices").elements()));
  SMELT_ASSIGN_OR_RETURN(Picked picked, PickByIndices(c, self, indices));
  // Inference knows the layout but not which elements a mask selects, so it is called with the masks' indices.
  SMELT_ASSIGN_OR_RETURN(Call plain, MakeCall(*c.state, c.op.op(), {c.args[0], EvalValue::List(indices)}));
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(plain));
  if (absl::MakeSpan(picked.sizes) != out.sizes())
    return absl::InternalError("aten::index: inference gives other sizes");
  Take(out, self, picked.positions);
  return Values{EvalValue(out)};
}

absl::Status PutAt(const Call& c, const Tensor& self, const std::vector<int64_t>& positions, const Tensor& values,
                   absl::Span<const int64_t> sizes, Meet meet) {
  absl::StatusOr<Geometry> g = Broadcasted(values.geometry(), sizes);
  if (!g.ok()) return c.Error(absl::StrCat("shape mismatch: ", g.status().message()));
  WithNumber(self.dtype(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> x = Read<T>(self);
    const std::vector<T> v = Read<T>(values.View(*g));
    for (size_t i = 0; i < positions.size(); ++i)
      x[positions[i]] = Rounded(self.dtype(), Combined(meet, x[positions[i]], v[i]));
    Write(self, x);
    return 0;
  });
  return absl::OkStatus();
}

absl::StatusOr<Values> IndexPut(Call& c) {
  const Tensor self = c.T("self");
  Tensor values = c.T("values");
  // A single value for the elements that a mask selects is filled in, which converts it.
  int masks = 0, others = 0;
  for (const EvalValue& index : c.Arg("indices").elements()) {
    if (index.IsTensor()) ++(index.tensor().dtype() == DType::kBool ? masks : others);
  }
  if (masks == 1 && others == 0 && values.NumElements() == 1 && !c.B("accumulate"))
    values = Converted(values, self.dtype());
  if (self.dtype() != values.dtype())
    return c.Error(absl::StrCat("Index put requires the source and destination dtypes match, got ", Name(self.dtype()),
                                " for the destination and ", Name(values.dtype()), " for the source."));
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  SMELT_ASSIGN_OR_RETURN(Values indices, LongIndices(c, self, c.Arg("indices").elements()));
  SMELT_ASSIGN_OR_RETURN(Picked picked, PickByIndices(c, self, indices));
  SMELT_RETURN_IF_ERROR(
      PutAt(c, out, picked.positions, values, picked.sizes, c.B("accumulate") ? Meet::kAdd : Meet::kSet));
  return Values{EvalValue(out)};
}

// --- along one dim ---

absl::StatusOr<Values> IndexSelect(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  const std::vector<int64_t> index = Read<int64_t>(c.T("index")), sizes = SizesOf(self);
  SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim"), self.rank()));
  if (c.T("index").rank() > 1) return c.Error("index_select(): Index is supposed to be a vector");
  for (int64_t i : index) SMELT_RETURN_IF_ERROR(CheckIndex(c, i, sizes[d], d, false));
  const std::vector<int64_t> strides = ContiguousStridesOf(sizes);
  std::vector<int64_t> to = sizes, positions;
  to[d] = static_cast<int64_t>(index.size());
  ForEachIndex(
      to, [&](const Index& i, int64_t) { positions.push_back(Flat(i, strides) + (index[i[d]] - i[d]) * strides[d]); });
  if (static_cast<int64_t>(positions.size()) != out.NumElements()) return c.Error("the index does not fit");
  Take(out, self, positions);
  return Values{EvalValue(out)};
}

// The position in self for each element of index: where gather reads, and where scatter writes.
absl::StatusOr<std::vector<int64_t>> GatherPositions(const Call& c, const Tensor& self, const Tensor& index,
                                                     int64_t dim) {
  const std::vector<int64_t> sizes = SizesOf(self), strides = ContiguousStridesOf(sizes), is = SizesOf(index);
  SMELT_ASSIGN_OR_RETURN(int d, Dim(c, dim, self.rank()));
  if (index.dtype() != DType::kInt64 && index.dtype() != DType::kInt32)
    return c.Error("Expected dtype int32/int64 for index");
  std::vector<int64_t> positions;
  if (index.NumElements() == 0) return positions;
  if (is.size() != sizes.size()) return c.Error("Index tensor must have the same number of dimensions as input tensor");
  for (size_t k = 0; k < is.size(); ++k) {
    if (static_cast<int>(k) != d && is[k] > sizes[k])
      return c.Error(
          absl::StrCat("Size does not match at dimension ", k, ": expected index to be no larger than self"));
  }
  const std::vector<int64_t> v = Read<int64_t>(index);
  absl::Status status;
  ForEachIndex(is, [&](const Index& i, int64_t at) {
    const absl::Status s = CheckIndex(c, v[at], sizes[d], d, false);
    if (!s.ok() && status.ok()) status = s;
    positions.push_back(Flat(i, strides) + (v[at] - i[d]) * strides[d]);
  });
  SMELT_RETURN_IF_ERROR(status);
  return positions;
}

absl::StatusOr<Values> Gather(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> positions, GatherPositions(c, c.T("self"), c.T("index"), c.I("dim")));
  Take(out, c.T("self"), positions);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> TakeAlongDim(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  Tensor self = c.T("self"), index = c.T("indices");
  if (!c.Has("dim")) {
    SMELT_ASSIGN_OR_RETURN(self, Run1(*c.state, "aten::ravel", {EvalValue(self)}));
    SMELT_ASSIGN_OR_RETURN(index, Run1(*c.state, "aten::ravel", {EvalValue(index)}));
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim"), self.rank()));
    std::vector<int64_t> wide(out.sizes().begin(), out.sizes().end());
    SMELT_ASSIGN_OR_RETURN(Geometry ig, Broadcasted(index.geometry(), wide));
    wide[d] = self.sizes()[d];
    SMELT_ASSIGN_OR_RETURN(Geometry sg, Broadcasted(self.geometry(), wide));
    index = index.View(ig);
    self = self.View(sg);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> positions, GatherPositions(c, self, index, c.I("dim", 0)));
  Take(out, self, positions);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> ScatterInto(Call& c) {
  const std::string& n = c.name();
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self"), index = c.T("index");
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> positions, GatherPositions(c, self, index, c.I("dim")));
  std::string reduce = c.Arg("reduce").IsString() ? c.Arg("reduce").as_string() : "";
  if (n == "aten::scatter_add") reduce = "add";
  Meet meet = Meet::kSet;
  if (reduce == "add" || reduce == "sum" || reduce == "mean") meet = Meet::kAdd;
  if (reduce == "multiply" || reduce == "prod") meet = Meet::kMul;
  if (reduce == "amin") meet = Meet::kMin;
  if (reduce == "amax") meet = Meet::kMax;
  Tensor src = c.T("src");
  if (src.defined()) {
    if (src.dtype() != self.dtype()) return c.Error("scatter(): Expected self.dtype to be equal to src.dtype");
    // The part of src that has index's sizes.
    Geometry g = src.geometry();
    if (g.rank() != index.rank() && index.NumElements() > 0)
      return c.Error("Index tensor must have the same number of dimensions as src tensor");
    for (int d = 0; d < g.rank() && index.NumElements() > 0; ++d) {
      if (index.sizes()[d] > g.sizes[d]) return c.Error("Expected index to be no larger than src");
      g.sizes[d] = index.sizes()[d];
    }
    src = src.View(g);
  } else {
    src = ScalarTensor(self.dtype(), c.Arg("value"));
  }
  if (positions.empty()) return Values{EvalValue(out)};
  const bool mean = reduce == "mean", with_self = c.B("include_self", true);
  SMELT_ASSIGN_OR_RETURN(Geometry sg, Broadcasted(src.geometry(), index.sizes()));
  WithNumber(self.dtype(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> x = Read<T>(out);
    const std::vector<T> v = Read<T>(src.View(sg));
    std::vector<int64_t> count(x.size(), 0);
    for (size_t i = 0; i < positions.size(); ++i) {
      T& to = x[positions[i]];
      to = count[positions[i]]++ == 0 && !with_self ? v[i] : Combined(meet, to, v[i]);
    }
    if (mean) DivideByCounts(x, count, with_self);
    Write(out, x);
    return 0;
  });
  return Values{EvalValue(out)};
}

// index_add, index_copy, index_fill, index_reduce: operate on slices of self along dim.
absl::StatusOr<Values> IndexSlices(Call& c) {
  const std::string& n = c.name();
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  const std::vector<int64_t> index = Read<int64_t>(c.T("index")), sizes = SizesOf(self);
  const std::vector<int64_t> strides = ContiguousStridesOf(sizes);
  SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim"), self.rank()));
  const bool fill = n == "aten::index_fill";
  std::vector<int64_t> places = index;
  for (int64_t& i : places) {
    SMELT_RETURN_IF_ERROR(CheckIndex(c, i, sizes[d], d, fill));
    if (i < 0) i += sizes[d];
  }
  std::vector<int64_t> wide = sizes;
  wide[d] = static_cast<int64_t>(index.size());
  Tensor source = c.T("source");
  if (fill) source = c.T("value").defined() ? c.T("value") : ScalarTensor(self.dtype(), c.Arg("value"));
  if (source.rank() == 0 && self.rank() <= 1) source = source.View(Geometry{{1}, {1}, source.offset()});
  absl::StatusOr<Geometry> g = Broadcasted(source.geometry(), wide);
  if (!g.ok()) return c.Error(g.status().message());
  if (!fill && absl::MakeSpan(wide) != source.sizes()) return c.Error("source does not have the sizes of the slices");
  const std::string reduce = c.Arg("reduce").IsString() ? c.Arg("reduce").as_string() : "";
  const Meet meet = n == "aten::index_add" || reduce == "mean" ? Meet::kAdd
                    : reduce == "prod"                         ? Meet::kMul
                    : reduce == "amin"                         ? Meet::kMin
                    : reduce == "amax"                         ? Meet::kMax
                                                               : Meet::kSet;
  if (meet == Meet::kSet) {  // exactly the same bits, also of a NaN
    Geometry from = *g, to = self.rank() > 0 ? out.geometry() : Geometry{{1}, {1}, out.offset()};
    from.sizes[d] = to.sizes[d] = 1;
    for (size_t k = 0; k < places.size(); ++k) {
      Geometry slice = to, part = from;
      slice.offset += places[k] * to.strides[d];
      part.offset += static_cast<int64_t>(k) * from.strides[d];
      SMELT_RETURN_IF_ERROR(CopyInto(out.View(slice), source.View(part)));
    }
    return Values{EvalValue(out)};
  }
  const bool with_self = c.B("include_self", true);
  // index_add along the outermost or innermost dim is a scatter, which rounds once.
  const bool once = n != "aten::index_add" || (self.rank() > 1 && (d == 0 || d == self.rank() - 1) &&
                                               c.T("index").dtype() == DType::kInt64 && c.D("alpha", 1) == 1);
  WithNumber(self.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T alpha(1);
    if (c.Has("alpha")) {
      if constexpr (std::is_same_v<T, Cx>) {
        alpha = ToComplex(c.Arg("alpha"));
      } else {
        alpha = Rounded(self.dtype(), static_cast<T>(ToDouble(c.Arg("alpha"))));
      }
    }
    std::vector<T> x = Read<T>(out);
    const std::vector<T> v = Read<T>(source.View(*g));
    std::vector<int64_t> count(x.size(), 0);
    ForEachIndex(wide, [&](const Index& i, int64_t at) {
      const int64_t p = Flat(i, strides) + (places[i[d]] - i[d]) * strides[d];
      x[p] = count[p]++ == 0 && !with_self ? v[at] : Combined(meet, x[p], alpha * v[at]);
      if (!once) x[p] = Rounded(self.dtype(), x[p]);
    });
    if (reduce == "mean") DivideByCounts(x, count, with_self);
    Write(out, x);
    return 0;
  });
  return Values{EvalValue(out)};
}

// take and put: treat self as flat.
absl::StatusOr<Values> TakeOrPut(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  std::vector<int64_t> positions = Read<int64_t>(c.T("index"));
  const int64_t n = self.NumElements();
  for (int64_t& i : positions) {
    if (i < -n || i >= n)
      return c.Error(absl::StrCat("out of range: tried to access index ", i, " on a tensor of ", n, " elements."));
    if (i < 0) i += n;
  }
  if (c.name() == "aten::take") {
    Take(out, self, positions);
    return Values{EvalValue(out)};
  }
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  const Tensor source = c.T("source");
  if (source.NumElements() != static_cast<int64_t>(positions.size()))
    return c.Error("put_(): Expected source and index to have the same number of elements");
  const Tensor flat =
      CopyWithStrides(source, ContiguousStridesOf(source.sizes())).View(Geometry::Contiguous({source.NumElements()}));
  SMELT_RETURN_IF_ERROR(PutAt(c, out, positions, flat, {static_cast<int64_t>(positions.size())},
                              c.B("accumulate") ? Meet::kAdd : Meet::kSet));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Embedding(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor weight = c.T("weight");
  if (weight.rank() != 2) return c.Error("'weight' must be 2-D");
  const int64_t rows = weight.sizes()[0], width = weight.sizes()[1];
  std::vector<int64_t> positions;
  for (int64_t i : Read<int64_t>(c.T("indices"))) {
    if (i < 0 || i >= rows) return c.Error("index out of range in self");
    for (int64_t k = 0; k < width; ++k) positions.push_back(i * width + k);
  }
  Take(out, weight, positions);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> EmbeddingBackward(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor grad = c.T("grad_output");
  const int64_t rows = c.I("num_weights"), padding = c.I("padding_idx", -1);
  const int64_t width = grad.rank() > 0 ? grad.sizes()[grad.rank() - 1] : 0;
  const std::vector<int64_t> index = Read<int64_t>(c.T("indices"));
  const std::vector<double> g = Read<double>(grad);
  if (static_cast<int64_t>(index.size()) * width != grad.NumElements())
    return c.Error("the gradient does not fit the indices");
  std::vector<double> sum(rows * width);
  std::vector<int64_t> count(rows, 0);
  for (int64_t i : index) {
    if (i < 0 || i >= rows) return c.Error("index out of range in self");
    ++count[i];
  }
  for (size_t k = 0; k < index.size(); ++k) {
    if (index[k] == padding) continue;
    const double scale = c.B("scale_grad_by_freq") ? 1.0 / static_cast<double>(count[index[k]]) : 1;
    for (int64_t j = 0; j < width; ++j) sum[index[k] * width + j] += scale * g[k * width + j];
  }
  Write(out, sum);
  return Values{EvalValue(out)};
}

// --- masks and what depends on data ---

absl::StatusOr<Values> MaskedSelect(Call& c) {
  const Tensor self = c.T("self"), mask = c.T("mask");
  SMELT_ASSIGN_OR_RETURN(Tensor both, Run1(*c.state, "aten::expand_as", {EvalValue(mask), EvalValue(self)}).ok()
                                          ? absl::StatusOr<Tensor>(self)
                                          : Run1(*c.state, "aten::expand_as", {EvalValue(self), EvalValue(mask)}));
  SMELT_ASSIGN_OR_RETURN(Geometry mg, Broadcasted(mask.geometry(), both.sizes()));
  const std::vector<int64_t> m = Read<int64_t>(mask.View(mg));
  std::vector<int64_t> positions;
  for (size_t i = 0; i < m.size(); ++i) {
    if (m[i] != 0) positions.push_back(static_cast<int64_t>(i));
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, self.dtype(), {static_cast<int64_t>(positions.size())}, {1}));
  Take(out, both, positions);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> MaskedScatter(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self"), mask = c.T("mask"), source = c.T("source");
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  SMELT_ASSIGN_OR_RETURN(Geometry mg, Broadcasted(mask.geometry(), out.sizes()));
  if (source.dtype() != self.dtype()) return c.Error("masked_scatter_: expected self and source to have same dtypes");
  const std::vector<int64_t> m = Read<int64_t>(mask.View(mg));
  const int item = ItemSize(out.dtype());
  std::vector<char> to = ReadBytes(out);
  const std::vector<char> from = ReadBytes(source);
  size_t next = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    if (m[i] == 0) continue;
    if ((next + 1) * item > from.size()) return c.Error("Number of elements of source < number of ones in mask");
    std::memcpy(to.data() + i * item, from.data() + next++ * item, item);
  }
  WriteBytes(out, to);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Nonzero(Call& c) {
  const Tensor self = c.T("self").defined() ? c.T("self") : c.args[0].tensor();
  const std::vector<Cx> v = Read<Cx>(self);
  std::vector<std::vector<int64_t>> found(self.rank());
  int64_t n = 0;
  ForEachIndex(self.sizes(), [&](const Index& index, int64_t at) {
    if (v[at] == Cx(0)) return;
    ++n;
    for (int d = 0; d < self.rank(); ++d) found[d].push_back(index[d]);
  });
  // In column-major order, like PyTorch's result.
  SMELT_ASSIGN_OR_RETURN(Tensor out,
                         NewTensor(*c.state, DType::kInt64, {n, self.rank()}, {1, std::max<int64_t>(n, 1)}));
  for (int d = 0; d < self.rank(); ++d) Write(out.View(Geometry{{n}, {1}, d * std::max<int64_t>(n, 1)}), found[d]);
  if (c.name() == "aten::where" || c.name() == "aten::nonzero_numpy") {
    Values columns;
    Tensor one = out;
    if (self.rank() == 0) {
      Tensor t = Tensor::Empty(DType::kInt64, {n});
      Write(t, std::vector<int64_t>(n, 0));
      return Values{EvalValue::List({EvalValue(t)})};
    }
    for (int d = 0; d < self.rank(); ++d)
      columns.push_back(EvalValue(out.View(Geometry{{n}, {1}, d * std::max<int64_t>(n, 1)})));
    return Values{EvalValue::List(std::move(columns))};
  }
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> RepeatInterleave(Call& c) {
  // self_Tensor(self, repeats, dim, output_size)
  Tensor self = c.T("self"), repeats = c.T("repeats");
  int dim = 0;
  if (!c.Has("dim")) {
    SMELT_ASSIGN_OR_RETURN(self, Run1(*c.state, "aten::ravel", {EvalValue(self)}));
  } else {
    SMELT_ASSIGN_OR_RETURN(dim, Dim(c, c.I("dim"), self.rank()));
  }
  std::vector<int64_t> counts = Read<int64_t>(repeats), index;
  const int64_t n = self.rank() == 0 ? 1 : self.sizes()[dim];
  if (counts.size() == 1) counts.assign(n, counts[0]);
  if (static_cast<int64_t>(counts.size()) != n) return c.Error("repeats must have the same size as input along dim");
  for (int64_t i = 0; i < n; ++i) {
    if (counts[i] < 0) return c.Error("repeats can not be negative");
    if (counts[i] > c.state->options.max_tensor_bytes / 8 - static_cast<int64_t>(index.size()))
      return c.Error("the repeated tensor is too large");
    index.insert(index.end(), counts[i], i);
  }
  if (c.Has("output_size") && c.I("output_size") != static_cast<int64_t>(index.size()))
    return c.Error("allocated size does not match required size");
  Tensor at = Tensor::Empty(DType::kInt64, {static_cast<int64_t>(index.size())});
  Write(at, index);
  SMELT_ASSIGN_OR_RETURN(Tensor out, Run1(*c.state, "aten::index_select", {EvalValue(self), Val(dim), EvalValue(at)}));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Bincount(Call& c) {
  const std::vector<int64_t> v = Read<int64_t>(c.T("self"));
  int64_t n = c.I("minlength");
  if (n < 0) return c.Error("minlength should be >= 0");
  for (int64_t i : v) {
    if (i == std::numeric_limits<int64_t>::max()) return c.Error("an element is the largest int64");
    if (i < 0) return c.Error("bincount only supports 1-d non-negative integral inputs.");
    n = std::max(n, i + 1);
  }
  if (n > (int64_t{1} << 32)) return c.Error("too many bins");
  const Tensor weights = c.T("weights");
  const DType t = !weights.defined()                   ? DType::kInt64
                  : weights.dtype() == DType::kFloat32 ? DType::kFloat32
                                                       : DType::kFloat64;
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, t, {n}, {1}));
  std::vector<double> sum(n);
  const std::vector<double> w = weights.defined() ? Read<double>(weights) : std::vector<double>(v.size(), 1);
  if (w.size() != v.size()) return c.Error("weights should have the same length as input");
  for (size_t i = 0; i < v.size(); ++i) sum[v[i]] += w[i];
  Write(out, sum);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> IsIn(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  auto values = [](const EvalValue& v) {
    return v.IsTensor() ? Read<double>(v.tensor()) : std::vector<double>{ToDouble(v)};
  };
  const std::vector<double> x = values(c.args[0]), y = values(c.args[1]);
  std::vector<int64_t> r;
  for (double v : x) r.push_back((std::find(y.begin(), y.end(), v) != y.end()) != c.B("invert"));
  Write(out, r);
  return Values{EvalValue(out)};
}

// unique_dim, and unique_consecutive with a dim. PyTorch moves the slices to the front, and the result's dim back.
absl::StatusOr<Values> UniqueSlices(Call& c, bool consecutive) {
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(const int dim, view_rules::WrapDim(c.I("dim"), self.rank()));
  if (self.rank() == 0) return c.Unsupported("unique of a number along a dim");
  Geometry front = self.geometry();
  std::rotate(front.sizes.begin(), front.sizes.begin() + dim, front.sizes.begin() + dim + 1);
  std::rotate(front.strides.begin(), front.strides.begin() + dim, front.strides.begin() + dim + 1);
  const int64_t n = front.sizes[0];
  if (n == 0) return c.Unsupported("unique of no slices");
  return WithNumber(self.dtype(), [&](auto tag) -> absl::StatusOr<Values> {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, Cx>) {
      return c.Unsupported("unique complex numbers");
    } else {
      const std::vector<T> x = Read<T>(self.View(front));
      const int64_t width = static_cast<int64_t>(x.size()) / n;
      std::vector<std::vector<T>> slices, values;
      for (int64_t i = 0; i < n; ++i) slices.emplace_back(x.begin() + i * width, x.begin() + (i + 1) * width);
      for (const auto& s : slices) {
        if (!consecutive || values.empty() || values.back() != s) values.push_back(s);
      }
      if (!consecutive) {
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
      }
      const int64_t count = static_cast<int64_t>(values.size());
      std::vector<int64_t> inverse, counts(count);
      for (size_t i = 0, at = 0; i < slices.size(); ++i) {
        if (!consecutive) {
          at = std::lower_bound(values.begin(), values.end(), slices[i]) - values.begin();
        } else if (values[at] != slices[i]) {
          ++at;
        }
        inverse.push_back(static_cast<int64_t>(at));
        ++counts[at];
      }
      front.sizes[0] = count;
      ConcreteDecide decide;
      front.strides = view_rules::ContiguousStrides(decide, front.sizes);
      Geometry g = front;
      std::rotate(g.sizes.begin(), g.sizes.begin() + 1, g.sizes.begin() + dim + 1);
      std::rotate(g.strides.begin(), g.strides.begin() + 1, g.strides.begin() + dim + 1);
      SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, self.dtype(), g.sizes, g.strides));
      front.offset = out.geometry().offset;
      std::vector<T> flat;
      for (const auto& s : values) flat.insert(flat.end(), s.begin(), s.end());
      Write(out.View(front), flat);
      Tensor i = Tensor::Empty(DType::kInt64, {n}), k = Tensor::Empty(DType::kInt64, {count});
      Write(i, inverse);
      Write(k, counts);
      return Values{EvalValue(out), EvalValue(i), EvalValue(k)};
    }
  });
}

absl::StatusOr<Values> Unique(Call& c) {
  const Tensor self = c.T("self");
  const bool consecutive = c.name() == "aten::unique_consecutive";
  if (c.name() == "aten::unique_dim" || c.Has("dim")) return UniqueSlices(c, consecutive);
  return WithNumber(self.dtype(), [&](auto tag) -> absl::StatusOr<Values> {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, Cx>) {
      return c.Unsupported("unique complex numbers");
    } else {
      const std::vector<T> x = Read<T>(self);
      std::vector<T> values;
      std::vector<int64_t> inverse, counts;
      if (consecutive) {
        for (const T& v : x) {
          if (values.empty() || values.back() != v) {
            values.push_back(v);
            counts.push_back(0);
          }
          ++counts.back();
          inverse.push_back(static_cast<int64_t>(values.size()) - 1);
        }
      } else {
        std::map<T, int64_t> seen;
        for (const T& v : x) ++seen[v];
        for (auto& [v, n] : seen) {
          values.push_back(v);
          counts.push_back(n);
          n = static_cast<int64_t>(values.size()) - 1;
        }
        for (const T& v : x) inverse.push_back(seen[v]);
      }
      const int64_t n = static_cast<int64_t>(values.size());
      SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, self.dtype(), {n}, {1}));
      Write(out, values);
      // They are empty unless requested.
      const bool want_inverse = c.B("return_inverse"), want_counts = c.B("return_counts");
      Tensor i = Tensor::Empty(DType::kInt64, want_inverse ? self.sizes() : absl::Span<const int64_t>({0}));
      Tensor k = Tensor::Empty(DType::kInt64, {want_counts ? n : 0});
      if (want_inverse) Write(i, inverse);
      if (want_counts) Write(k, counts);
      return Values{EvalValue(out), EvalValue(i), EvalValue(k)};
    }
  });
}

}  // namespace

void AddIndexKernels(KernelTable& t) {
  t["aten::index.Tensor"] = t["aten::_unsafe_index.Tensor"] = IndexTensor;
  t["aten::index_put"] = t["aten::_unsafe_index_put"] = t["aten::_index_put_impl"] = IndexPut;
  t["aten::index_select"] = IndexSelect;
  t["aten::gather"] = Gather;
  t["aten::take_along_dim"] = TakeAlongDim;
  t["aten::scatter"] = t["aten::scatter_add"] = t["aten::scatter_reduce"] = ScatterInto;
  t["aten::index_add"] = t["aten::index_copy"] = t["aten::index_fill"] = t["aten::index_reduce"] = IndexSlices;
  t["aten::take"] = t["aten::put"] = TakeOrPut;
  t["aten::embedding"] = Embedding;
  t["aten::embedding_dense_backward"] = EmbeddingBackward;
  t["aten::masked_select"] = MaskedSelect;
  t["aten::masked_scatter"] = MaskedScatter;
  t["aten::nonzero"] = t["aten::argwhere"] = t["aten::nonzero_numpy"] = Nonzero;
  t["aten::repeat_interleave.self_Tensor"] = RepeatInterleave;
  t["aten::bincount"] = Bincount;
  t["aten::isin"] = IsIn;
  t["aten::_unique2"] = t["aten::unique_dim"] = t["aten::unique_consecutive"] = Unique;
}

}  // namespace smelt::eval_internal
