// Types of the results of Fourier transforms.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"

namespace smelt::op_internal {
namespace {

absl::StatusOr<std::vector<int64_t>> DimsOf(Ctx& c, int rank) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, c.call.GetInts("dim"));
  for (int64_t& d : dims) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank) return c.call.Error("a dim is out of range");
    if (std::count(dims.begin(), dims.end(), d) > 1) return c.call.Error("FFT dims must be unique");
  }
  return dims;
}

// Returns the strides that PyTorch's transforms by MKL give: the transformed dims are innermost, and the other dims
// follow in the order of the operand's strides. With `keep_last` the last of `dims` stays innermost; otherwise all of
// them are ordered.
std::vector<Expr> FourierStrides(Ctx& c, const std::vector<Expr>& strides, const std::vector<Expr>& sizes,
                                 std::vector<int64_t> dims, bool keep_last) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  // Follows PyTorch's std::partition: its order is visible where strides are equal.
  order.erase(std::partition(order.begin(), order.end(),
                             [&](int64_t d) { return std::count(dims.begin(), dims.end(), d) == 0; }),
              order.end());
  // Insertion sort, because the comparison of symbolic strides need not be a strict order.
  const auto sort = [&](std::vector<int64_t>& v, size_t end) {
    for (size_t i = 1; i < end; ++i) {
      for (size_t k = i; k > 0 && c.decide.Less(strides[v[k - 1]], strides[v[k]]); --k) std::swap(v[k - 1], v[k]);
    }
  };
  sort(order, order.size());
  sort(dims, dims.size() - (keep_last ? 1 : 0));
  order.insert(order.end(), dims.begin(), dims.end());
  std::vector<Expr> out(sizes.size());
  Expr next = 1;
  for (size_t k = order.size(); k-- > 0;) {
    out[order[k]] = next;
    next = next * sizes[order[k]];
  }
  return out;
}

absl::Status ComplexToComplex(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (!IsComplex(*self.dtype)) return c.call.Error("expects a complex tensor");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOf(c, self.rank()));
  const Geo g = GeoOf(c.decide, self);
  c.AddStrided(*self.dtype, g.sizes, dims.empty() ? g.strides : FourierStrides(c, g.strides, g.sizes, dims, false));
  return absl::OkStatus();
}

absl::Status RealToComplex(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (*self.dtype != DType::kFloat32 && *self.dtype != DType::kFloat64) {
    return c.call.Error("expects a float32 or float64 tensor");
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOf(c, self.rank()));
  if (dims.empty()) return c.call.Error("must transform at least one dim");
  SMELT_ASSIGN_OR_RETURN(bool onesided, c.call.GetBool("onesided"));
  const Geo g = GeoOf(c.decide, self);
  std::vector<Expr> sizes = g.sizes;
  if (onesided) sizes[dims.back()] = FloorDiv(sizes[dims.back()], Expr(2)) + 1;
  std::vector<Expr> strides = FourierStrides(c, g.strides, sizes, dims, true);
  c.AddStrided(*self.dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64, sizes, std::move(strides));
  return absl::OkStatus();
}

// Transforms all dims but the last as complex numbers, then the last.
absl::Status ComplexToReal(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (!IsComplex(*self.dtype)) return c.call.Error("expects a complex tensor");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOf(c, self.rank()));
  if (dims.empty()) return c.call.Error("must transform at least one dim");
  SMELT_ASSIGN_OR_RETURN(Expr last, c.call.GetExpr("last_dim_size"));
  Geo g = GeoOf(c.decide, self);
  const Expr half = FloorDiv(last, Expr(2)) + 1;
  if (!c.decide.Equal(g.sizes[dims.back()], half)) {
    return c.call.Error(absl::StrCat("the last transformed dim has size ", g.sizes[dims.back()].ToString(), ", ",
                                     half.ToString(), " expected"));
  }
  const std::vector<int64_t> others(dims.begin(), dims.end() - 1);
  if (!others.empty()) g.strides = FourierStrides(c, g.strides, g.sizes, others, false);
  g.sizes[dims.back()] = last;
  std::vector<Expr> strides = FourierStrides(c, g.strides, g.sizes, {dims.back()}, true);
  c.AddStrided(*self.dtype == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32, g.sizes, std::move(strides));
  return absl::OkStatus();
}

}  // namespace

void AddFourierTypeRules(RuleTable& r) {
  AddRule(r, "_fft_c2c", ComplexToComplex);
  AddRule(r, "_fft_r2c", RealToComplex);
  AddRule(r, "_fft_c2r", ComplexToReal);
}

}  // namespace smelt::op_internal
