// Decomposes sampling grids, unpooling, and distances between rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// affine_grid_generator(theta [N, 2, 3], size, align_corners): theta times (x, y, 1) at each position of the image.
Values AffineGrid(Emit& e, const OpCall& call) {
  const ValueId theta = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> size, call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  if (size.size() != 4) return call.Unsupported("volumes");
  const DType t = e.DTypeOf(theta);
  auto line = [&](const Expr& n, bool last) -> ValueId {
    if (!n.IsConstant()) {
      e.Fail(call.Unsupported("symbolic sizes"));
      return ValueId();
    }
    const double count = static_cast<double>(*n.Constant());
    ValueId v = Range(e, n, t);
    if (align) {
      v = count > 1 ? e.AddN(e.MulN(v, 2 / (count - 1)), -1) : e.MulN(v, 0);
    } else {
      v = e.AddN(e.MulN(v, 2 / count), 1 / count - 1);
    }
    return e.Expand(e.View(v, last ? std::vector<Expr>{Expr(1), n} : std::vector<Expr>{n, Expr(1)}),
                    {size[2], size[3]});
  };
  const ValueId x = line(size[3], true), y = line(size[2], false);
  if (!e.ok()) return e.status();
  const ValueId matrix = ToCompute(e, theta);
  const auto place = [&](int row) {
    const auto number = [&](int k) {  // [N, 1, 1]
      return e.Unsqueeze(e.Unsqueeze(e.Select(e.Select(matrix, 1, row), 1, k), 1), 1);
    };
    const ValueId second = number(1);
    const ValueId product = e.Mul(ToCompute(e, y), second);
    const ValueId second2 = number(0);
    const ValueId sum = e.Add(e.Mul(ToCompute(e, x), second2), product);
    return e.Unsqueeze(e.Cast(e.Add(sum, number(2)), t), 3);
  };
  return std::vector<ValueId>{e.Cat({place(0), place(1)}, 3)};
}

// max_unpool2d(self, indices, output_size), max_unpool3d(self, indices, output_size, stride, padding): an index counts
// within the last dims.
Values MaxUnpool(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value, indices = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, call.GetExprs("output_size"));
  const std::vector<Expr> in = e.Sizes(self);
  const size_t dims = call.op().name() == "aten::max_unpool3d" ? 3 : 2;
  if (out.size() != dims || in.size() <= dims) return call.Unsupported("these sizes");
  std::vector<Expr> lead(in.begin(), in.end() - static_cast<int64_t>(dims));
  auto flat = [&](const Expr& n) {
    std::vector<Expr> s = lead;
    s.push_back(n);
    return s;
  };
  Expr elements = 1, places = 1;
  for (size_t d = 0; d < dims; ++d) {
    elements = elements * in[lead.size() + d];
    places = places * out[d];
  }
  const ValueId zeros = e.Full(e.DTypeOf(self), flat(places), 0);
  const ValueId filled =
      e.Op("aten::scatter.src", {zeros, e.Const(static_cast<int64_t>(lead.size())), e.Reshape(indices, flat(elements)),
                                 e.Reshape(self, flat(elements))});
  std::vector<Expr> sizes = lead;
  sizes.insert(sizes.end(), out.begin(), out.end());
  return std::vector<ValueId>{e.View(e.Contiguous(filled), sizes)};
}

// cdist(x1, x2, p, compute_mode), _cdist_forward likewise: norms of differences.
Values Cdist(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("p", 2));
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.DTypeOf(a) != e.DTypeOf(b)) return call.Unsupported("operands of different dtypes");
  const ValueId unsqueezed = e.Unsqueeze(b, -3);
  const ValueId d = e.Abs(e.Sub(e.Unsqueeze(a, -2), unsqueezed));
  const std::vector<int64_t> last = {e.ok() ? e.Rank(d) - 1 : 0};
  ValueId out;
  if (p == 2) {
    out = e.Sqrt(e.Sum(e.Square(d), last, false));
  } else if (p == 1) {
    out = e.Sum(d, last, false);
  } else if (p == 0) {
    out = e.Sum(e.Cast(e.NeInt(d, 0), e.DTypeOf(a)), last, false);
  } else if (std::isinf(p)) {
    out = e.Amax(d, last, false);
  } else {
    out = e.PowN(e.Sum(e.PowN(d, p), last, false), 1 / p);
  }
  return std::vector<ValueId>{out};
}

// pdist(self, p): the distances of each row from the rows after it.
Values PairwiseDistances(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  if (e.Rank(x) != 2) return call.Error(absl::StrCat("pdist only supports 2D tensors, got: ", e.Rank(x), "D"));
  const ValueId rows = e.Size(e.Sizes(x)[0]), none = e.None();
  const ValueId pairs = e.Op("aten::triu_indices",
                             {rows, rows, e.Const(int64_t{1}), e.Const(ScalarTypeOf(DType::kInt64)), none, none, none});
  const auto row = [&](int64_t which) {
    return e.Op("aten::index_select", {x, e.Const(int64_t{0}), e.Select(pairs, 0, which)});
  };
  const ValueId second = row(1);
  return std::vector<ValueId>{e.Op(
      "aten::linalg_vector_norm", {e.Sub(row(0), second), ValueOf(e, call.arg(1)), e.Dims({1}), e.Const(false), none})};
}

// isin(elements, test_elements, assume_unique, invert)
Values IsIn(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool invert, call.GetBoolOr("invert", false));
  const ValueId elements = call.arg(0).value, test = call.arg(1).value;
  const ValueId flat = e.Reshape(test, {Product(e.Sizes(test))});
  const ValueId equal = e.Op("aten::eq.Tensor", {e.Unsqueeze(elements, -1), flat});
  if (!e.ok()) return e.status();
  ValueId any = e.Op("aten::any.dim", {equal, e.Const(static_cast<int64_t>(e.Rank(equal) - 1)), e.Const(false)});
  return std::vector<ValueId>{invert ? e.Op("aten::logical_not", {any}) : any};
}

}  // namespace

std::vector<ValueId> CubicWeights(Emit& e, ValueId t) {
  constexpr double kA = -0.75;
  auto near = [&](ValueId x) {  // |x| <= 1
    return e.AddN(e.Mul(e.Mul(e.AddN(e.MulN(x, kA + 2), -(kA + 3)), x), x), 1);
  };
  auto far = [&](ValueId x) {  // 1 < |x| < 2
    return e.AddN(e.Mul(e.AddN(e.Mul(e.AddN(e.MulN(x, kA), -5 * kA), x), 8 * kA), x), -4 * kA);
  };
  const ValueId rest = e.Op("aten::rsub.Scalar", {t, e.Const(1.0), e.Const(1.0)});
  return {far(e.AddN(t, 1)), near(t), near(rest), far(e.AddN(rest, 1))};
}

void AddSamplingRules(DecompositionTable& t) {
  t["aten::affine_grid_generator"] = AffineGrid;
  t["aten::max_unpool2d"] = t["aten::max_unpool3d"] = MaxUnpool;
  t["aten::pdist"] = PairwiseDistances;
  t["aten::cdist"] = t["aten::_cdist_forward"] = Cdist;
  t["aten::isin.Tensor_Tensor"] = IsIn;
}

}  // namespace smelt
