// Sorting, and operators that depend on order.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/order_statistics.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

// NaN is greater than all numbers.
template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
  }
  return a < b;
}
template <typename T>
bool IsNan(T a) {
  return a != a;
}

// Calls f(a line along dim as positions in row-major order, the line's number) for each line.
template <typename F>
void ForEachLine(const std::vector<int64_t>& sizes, int dim, F f) {
  const std::vector<int64_t> strides = ContiguousStridesOf(sizes);
  std::vector<int64_t> outer = sizes;
  outer[dim] = 1;
  ForEachIndex(outer, [&](const Index& index, int64_t number) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    std::vector<int64_t> line;
    for (int64_t i = 0; i < sizes[dim]; ++i) line.push_back(at + i * strides[dim]);
    f(line, number);
  });
}
std::vector<int64_t> SizesOf(const Tensor& t) {
  std::vector<int64_t> s(t.sizes().begin(), t.sizes().end());
  if (s.empty()) s.push_back(1);
  return s;
}

// Returns the order of a line's elements.
template <typename T>
std::vector<int64_t> Order(const std::vector<T>& x, const std::vector<int64_t>& line, bool descending) {
  std::vector<int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? Less(x[line[b]], x[line[a]]) : Less(x[line[a]], x[line[b]]);
  });
  return order;
}

// Runs f on the numbers of a real tensor.
template <typename F>
absl::StatusOr<Values> WithReal(Call& c, const Tensor& t, F f) {
  if (IsComplex(t.dtype())) return c.Error("sorting complex numbers");
  if (IsFloating(t.dtype())) return f(double());
  return f(int64_t());
}

absl::StatusOr<Values> Sort(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, c.I("dim", c.name() == "aten::msort" ? 0 : -1), self.rank()));
  const bool indices_only = c.name() == "aten::argsort";
  return WithReal(c, self, [&](auto tag) -> absl::StatusOr<Values> {
    using T = decltype(tag);
    const std::vector<T> x = Read<T>(self);
    std::vector<T> values(x.size());
    std::vector<int64_t> where(x.size());
    ForEachLine(SizesOf(self), dim, [&](const std::vector<int64_t>& line, int64_t) {
      const std::vector<int64_t> order = Order(x, line, c.B("descending"));
      for (size_t i = 0; i < line.size(); ++i) {
        values[line[i]] = x[line[order[i]]];
        where[line[i]] = order[i];
      }
    });
    Values r;
    for (size_t i = 0; i < outs.size(); ++i) {
      if (indices_only || i == 1) {
        Write(outs[i], where);
      } else {
        Write(outs[i], values);
      }
      r.push_back(EvalValue(outs[i]));
    }
    return r;
  });
}

absl::StatusOr<Values> Topk(Call& c) {
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, c.I("dim", -1), self.rank()));
  const int64_t k = c.I("k");
  if (k < 0 || k > (self.rank() == 0 ? 1 : SizesOf(self)[dim])) return c.Error("selected index k out of range");
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  if (outs.size() != 2) return c.Unsupported("has another number of results");
  if (self.rank() == 0) {
    SMELT_RETURN_IF_ERROR(CopyInto(outs[0], self));
    Write(outs[1], std::vector<int64_t>{0});
    return Values{EvalValue(outs[0]), EvalValue(outs[1])};
  }
  return WithReal(c, self, [&](auto tag) -> absl::StatusOr<Values> {
    using T = decltype(tag);
    const std::vector<T> x = Read<T>(self);
    std::vector<int64_t> sizes = SizesOf(self);
    sizes[dim] = k;
    std::vector<T> values(Product(sizes));
    std::vector<int64_t> where(values.size());
    std::vector<std::vector<int64_t>> to;
    const bool largest = c.B("largest", true);
    ForEachLine(sizes, dim, [&](const std::vector<int64_t>& line, int64_t) { to.push_back(line); });
    ForEachLine(SizesOf(self), dim, [&](const std::vector<int64_t>& line, int64_t number) {
      const auto before = [&](int64_t a, int64_t b) {
        return largest ? Less(x[line[b]], x[line[a]]) : Less(x[line[a]], x[line[b]]);
      };
      const std::vector<int64_t> order = TopPlaces(static_cast<int64_t>(line.size()), k, c.B("sorted", true), before);
      for (int64_t i = 0; i < k; ++i) {
        values[to[number][i]] = x[line[order[i]]];
        where[to[number][i]] = order[i];
      }
    });
    Write(outs[0], values);
    Write(outs[1], where);
    return Values{EvalValue(outs[0]), EvalValue(outs[1])};
  });
}

// kthvalue, median, nanmedian, mode: one element of each line.
absl::StatusOr<Values> Pick(Call& c) {
  const std::string& n = c.name();
  const Tensor self = c.T("self");
  const bool whole = !c.Has("dim") && n != "aten::kthvalue" && n != "aten::mode";
  std::vector<int64_t> sizes = whole ? std::vector<int64_t>{self.NumElements()} : SizesOf(self);
  int dim = 0;
  if (!whole) {
    SMELT_ASSIGN_OR_RETURN(dim, Dim(c, c.I("dim", -1), self.rank()));
  }
  const int64_t k = c.I("k", 1);
  if (n == "aten::kthvalue" && (k < 1 || k > sizes[dim]))
    return c.Error("selected number k out of range for dimension");
  std::vector<Tensor> outs;
  if (whole) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, NewTensor(*c.state, self.dtype(), {}, {}));
    outs.push_back(t);
  } else {
    SMELT_ASSIGN_OR_RETURN(outs, OutputsOf(c));
    if (sizes[dim] == 0) return c.Error("Expected reduction dim to have non-zero size");
  }
  return WithReal(c, self, [&](auto tag) -> absl::StatusOr<Values> {
    using T = decltype(tag);
    const std::vector<T> x = Read<T>(self);
    std::vector<T> values;
    std::vector<int64_t> where;
    bool known = true;
    ForEachLine(sizes, dim, [&](const std::vector<int64_t>& line, int64_t) {
      if (line.empty()) {
        values.push_back(static_cast<T>(std::is_same_v<T, double> ? NAN : std::numeric_limits<int64_t>::min()));
        where.push_back(0);
        return;
      }
      const int64_t size = static_cast<int64_t>(line.size());
      const auto less = [&](int64_t i, int64_t j) { return Less(x[line[i]], x[line[j]]); };
      const auto is_nan = [&](int64_t i) { return IsNan(x[line[i]]); };
      const std::optional<int64_t> place = n == "aten::mode" ? ModePlace(size, less, is_nan)
                                           : n == "aten::kthvalue"
                                               ? KthPlace(size, k - 1, less)
                                               : MedianPlace(size, n == "aten::nanmedian", less, is_nan);
      known = known && place.has_value();
      const int64_t at = place.value_or(0);
      values.push_back(x[line[at]]);
      where.push_back(at);
    });
    if (!known) return c.Unsupported("NaN among many: which one PyTorch chooses is not known");
    if (whole && values.empty()) values.push_back(static_cast<T>(std::is_same_v<T, double> ? NAN : 0));
    Write(outs[0], values);
    Values r = {EvalValue(outs[0])};
    if (outs.size() > 1) {
      Write(outs[1], where);
      r.push_back(EvalValue(outs[1]));
    }
    return r;
  });
}

absl::StatusOr<Values> SearchSorted(Call& c) {
  const bool bucketize = c.name() == "aten::bucketize";
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor sorted = bucketize ? c.T("boundaries") : c.T("sorted_sequence");
  if (!sorted.defined() || sorted.rank() < 1 || (bucketize && sorted.rank() != 1))
    return c.Error("boundaries are expected");
  const std::string side = c.Arg("side").IsString() ? c.Arg("side").as_string() : "";
  const bool right = c.B("right") || side == "right";
  std::vector<double> b = Read<double>(sorted);
  const EvalValue& self = c.Arg("self");
  const std::vector<double> x = self.IsTensor() ? Read<double>(self.tensor()) : std::vector<double>{ToDouble(self)};
  const int64_t width = sorted.sizes()[sorted.rank() - 1];
  const int64_t rows = sorted.rank() == 1 ? 1 : width == 0 ? 0 : sorted.NumElements() / width;
  if (rows > 1 && static_cast<int64_t>(x.size()) % rows != 0)
    return c.Error("boundaries tensor should have the leading dimensions of the input");
  if (c.Has("sorter")) {
    const std::vector<int64_t> order = Read<int64_t>(c.T("sorter"));
    std::vector<double> permuted(b.size());
    for (size_t i = 0; i < b.size() && i < order.size(); ++i) {
      if (order[i] < 0 || order[i] >= width) return c.Error("sorter index out of range");
      permuted[i] = b[static_cast<int64_t>(i) / width * width + order[i]];
    }
    b = permuted;
  }
  std::vector<int64_t> r;
  const int64_t per_row = rows > 1 ? static_cast<int64_t>(x.size()) / rows : static_cast<int64_t>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t row = rows > 1 && per_row > 0 ? static_cast<int64_t>(i) / per_row : 0;
    // PyTorch's search: if a boundary is NaN, the result depends on which boundaries it compares.
    int64_t low = 0, high = width;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const double boundary = b[row * width + middle];
      if (right ? !(boundary > x[i]) : !(boundary >= x[i])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    r.push_back(low);
  }
  Write(out, r);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> LogCumSumExp(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, c.I("dim"), self.rank()));
  std::vector<double> x = Read<double>(self);
  ForEachLine(SizesOf(self), dim, [&](const std::vector<int64_t>& line, int64_t) {
    double so_far = -INFINITY;
    for (int64_t i : line) {
      const double m = std::max(so_far, x[i]);
      if (std::isnan(x[i]) || std::isnan(so_far)) {
        so_far = NAN;
      } else if (!std::isinf(m)) {
        so_far = m + std::log1p(std::exp(-std::abs(so_far - x[i])));
      } else {
        so_far = m;
      }
      x[i] = so_far;
    }
  });
  Write(out, x);
  return Values{EvalValue(out)};
}

}  // namespace

void AddSortingKernels(KernelTable& t) {
  t["aten::sort"] = t["aten::argsort"] = t["aten::msort"] = Sort;
  t["aten::topk"] = Topk;
  t["aten::kthvalue"] = t["aten::median"] = t["aten::nanmedian"] = t["aten::mode"] = Pick;
  t["aten::searchsorted"] = t["aten::bucketize"] = SearchSorted;
  t["aten::logcumsumexp"] = LogCumSumExp;
}

}  // namespace smelt::eval_internal
