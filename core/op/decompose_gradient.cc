// Decomposes gradient: finite differences of second order inside, and of first or second order at the two ends.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

// The lines of a tensor along one dim.
struct Lines {
  Emit& e;
  ValueId values;
  int64_t dim;
  Expr size;

  // Returns elements [begin, end), each counted from the end if it is negative; an end of 0 means the size.
  ValueId operator()(int64_t begin, int64_t end) const {
    const auto at = [&](int64_t i) { return i < 0 ? size + i : Expr(i); };
    return e.Slice(values, dim, at(begin), end == 0 ? size : at(end));
  }
  // Returns the weighted sum of the three elements from `first` on; the weights are numbers or tensors.
  ValueId Three(int64_t first, ValueId a, ValueId b, ValueId c) const {
    const auto one = [&](int64_t i) { return (*this)(first + i, first + i + 1); };
    const ValueId product = e.Mul(c, one(2));
    const ValueId second = e.Mul(b, one(1));
    return e.Add(e.Add(e.Mul(a, one(0)), second), product);
  }
};

// Returns the gradient at points that are `step` apart.
ValueId Uniform(const Lines& x, double step, int64_t order) {
  Emit& e = x.e;
  const ValueId second = x(0, -2);
  const ValueId inside = e.DivN(e.DivN(e.Sub(x(2, 0), second), step), 2);
  ValueId first, last;
  if (order == 1) {
    const ValueId second2 = x(0, 1);
    first = e.Sub(x(1, 2), second2);
    const ValueId second3 = x(-2, -1);
    last = e.Sub(x(-1, 0), second3);
  } else {
    const auto three = [&](int64_t at, double a, double b, double c) {
      const auto one = [&](int64_t i, double f) { return e.MulN(x(at + i, at + i + 1), f); };
      const ValueId second2 = one(2, c);
      const ValueId second3 = one(1, b);
      return e.Add(e.Add(one(0, a), second3), second2);
    };
    first = three(0, -1.5, 2, -.5);
    last = three(-3, .5, -2, 1.5);
  }
  return e.Cat({e.DivN(first, step), inside, e.DivN(last, step)}, x.dim);
}

// The gradient at points with the given coordinates, one for each index along the dim.
ValueId AtCoordinates(const Lines& x, ValueId coordinates, int64_t order) {
  Emit& e = x.e;
  const Lines c{e, coordinates, 0, x.size};
  const ValueId second = c(0, -1);
  const ValueId steps = e.Sub(c(1, 0), second);
  const Lines step{e, steps, 0, x.size - 1};
  // Returns a vector along the dim, to be multiplied by lines.
  const auto along = [&](ValueId v) {
    std::vector<Expr> sizes(e.Rank(x.values), Expr(1));
    sizes[x.dim] = e.Sizes(v)[0];
    return e.Reshape(v, sizes);
  };
  const ValueId left = step(0, -1), right = step(1, 0), both = e.Add(left, right);
  const ValueId product = e.Mul(left, both);
  const ValueId a = along(e.Div(e.Neg(right), product));
  const ValueId second2 = e.Mul(left, right);
  const ValueId b = along(e.Div(e.Sub(right, left), second2));
  const ValueId d = along(e.Div(left, e.Mul(right, both)));
  const ValueId second3 = e.Mul(d, x(2, 0));
  const ValueId second4 = e.Mul(b, x(1, -1));
  const ValueId inside = e.Add(e.Add(e.Mul(a, x(0, -2)), second4), second3);
  if (order == 1) {
    const ValueId second5 = along(step(0, 1));
    const ValueId second6 = x(0, 1);
    const ValueId quotient = e.Div(e.Sub(x(1, 2), second6), second5);
    const ValueId second7 = along(step(-1, 0));
    const ValueId second8 = x(-2, -1);
    return e.Cat({quotient, inside, e.Div(e.Sub(x(-1, 0), second8), second7)}, x.dim);
  }
  // Takes the outermost step and the one next to it. The last end mirrors the first one.
  const auto end = [&](ValueId outer, ValueId inner, ValueId* near, ValueId* middle, ValueId* far) {
    const ValueId sum = e.Add(outer, inner);
    const ValueId second5 = e.Mul(outer, sum);
    *near = along(e.Div(e.Add(e.MulN(outer, 2), inner), second5));
    *middle = along(e.Div(sum, e.Mul(outer, inner)));
    *far = along(e.Div(outer, e.Mul(inner, sum)));
  };
  ValueId near, middle, far;
  const ValueId second5 = step(1, 2);
  end(step(0, 1), second5, &near, &middle, &far);
  const ValueId negative = e.Neg(far);
  const ValueId first = x.Three(0, e.Neg(near), middle, negative);
  const ValueId second6 = step(-2, -1);
  end(step(-1, 0), second6, &near, &middle, &far);
  return e.Cat({first, inside, x.Three(-3, far, e.Neg(middle), near)}, x.dim);
}

// gradient(self, spacing, dim, edge_order): a tensor for each dim.
absl::StatusOr<std::vector<ValueId>> Gradient(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  const int rank = e.Rank(self);
  if (rank == 0) return call.Error("torch.gradient expected each dimension size to be at least edge_order+1");
  SMELT_ASSIGN_OR_RETURN(int64_t order, call.GetIntOr("edge_order", 1));
  if (order != 1 && order != 2) return call.Error("torch.gradient only supports edge_order=1 and edge_order=2.");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsArg(call, "dim", rank));
  const OpArg* spacing = call.Find("spacing");
  std::vector<double> steps(dims.size(), 1);
  std::vector<ValueId> coordinates;
  if (spacing != nullptr && spacing->kind == OpArg::Kind::kTensorList && !spacing->elements.empty()) {
    for (const OpArg& a : spacing->elements) {
      if (!a.IsTensor() || e.Rank(a.value) != 1) return call.Unsupported("coordinates that are not tensors of one dim");
      coordinates.push_back(a.value);
    }
  } else if (spacing != nullptr && spacing->IsScalar()) {
    SMELT_ASSIGN_OR_RETURN(double step, call.GetDouble("spacing"));
    steps.assign(dims.size(), step);
  } else if (spacing != nullptr && !spacing->IsNone()) {
    if (!spacing->known) return call.Unsupported("a spacing known only at run time");
    steps = spacing->floats;
    for (const Expr& n : spacing->ints) {
      if (!n.IsConstant()) return call.Unsupported("a spacing known only at run time");
      steps.push_back(static_cast<double>(*n.Constant()));
    }
  }
  if ((coordinates.empty() ? steps.size() : coordinates.size()) != dims.size()) {
    return call.Error(absl::StrCat("torch.gradient expected spacing to be unspecified, a scalar, or it's spacing and ",
                                   "dim arguments to have the same length"));
  }
  std::vector<ValueId> results;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Lines lines{e, self, dims[i], e.Sizes(self)[dims[i]]};
    if (lines.size.IsConstant() && *lines.size.Constant() < order + 1) {
      return call.Error("torch.gradient expected each dimension size to be at least edge_order+1");
    }
    if (!coordinates.empty() && e.Sizes(coordinates[i])[0] != lines.size) {
      return call.Error("torch.gradient expected each element of spacing to have as many elements as its dim");
    }
    results.push_back(coordinates.empty() ? Uniform(lines, steps[i], order)
                                          : AtCoordinates(lines, coordinates[i], order));
  }
  return std::vector<ValueId>{e.List(results)};
}

}  // namespace

void AddGradientRules(DecompositionTable& t) { t["aten::gradient"] = Gradient; }

}  // namespace smelt
