// Types of the results of factories.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/schema.h"

namespace smelt::op_internal {
namespace {

absl::Status FactorySizes(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  for (const Expr& e : sizes) {
    if (e.IsConstant() && *e.Constant() < 0) {
      return c.call.Error(absl::StrCat("Trying to create tensor with negative dimension ", *e.Constant()));
    }
  }
  DType t = DTypeOr(c, DType::kFloat32);
  const OpArg* self = c.call.Find("self");
  if (self != nullptr && self->IsTensor() && self->tensor.dtype) t = DTypeOr(c, *self->tensor.dtype);
  if (c.call.op().name() == "aten::full" && !c.call.GetDType("dtype")) {
    t = NumberDType(c.call.Find("fill_value")->kind);
    if (t == DType::kFloat64) t = DType::kFloat32;
    if (t == DType::kComplex128) t = DType::kComplex64;
  }
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kContiguous));
  c.Add(t, sizes, f);
  return absl::OkStatus();
}

absl::Status FactoryLike(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  c.Add(DTypeOr(c, *self.dtype), *self.sizes);
  return absl::OkStatus();
}

absl::Status EmptyStrided(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> strides, c.call.GetExprs("stride"));
  const OpArg* self = c.call.Find("self");
  const DType d = self != nullptr && self->IsTensor() ? *self->tensor.dtype : DType::kFloat32;
  if (sizes.size() != strides.size()) return c.call.Error("size and stride have different lengths");
  c.AddStrided(DTypeOr(c, d), sizes, strides);
  return absl::OkStatus();
}

absl::Status ScalarTensor(Ctx& c) {
  c.Add(DTypeOr(c, DType::kFloat32), {});
  return absl::OkStatus();
}

// The tensor has the number's own dtype; a float has the default dtype.
absl::Status NumberTensor(Ctx& c) {
  const OpArg* dtype = c.call.Find("dtype");
  DType t = NumberDType(c.call.arg(0).kind);
  if (t == DType::kFloat64) t = DType::kFloat32;
  if (t == DType::kComplex128) t = DType::kComplex64;
  if (dtype != nullptr && dtype->kind != OpArg::Kind::kNone) {
    if (!c.call.GetDType("dtype")) {
      c.AddUnknown(TensorType());
      return absl::OkStatus();
    }
    t = *c.call.GetDType("dtype");
  }
  c.Add(t, {});
  return absl::OkStatus();
}

// A tensor of a list of numbers.
absl::Status ListTensor(Ctx& c) {
  const OpArg& list = c.call.arg(0);
  const bool ints = list.kind == OpArg::Kind::kIntList, bools = list.kind == OpArg::Kind::kBoolList;
  const size_t known = ints ? list.ints.size() : bools ? list.bools.size() : list.floats.size();
  if (!ints && !bools && list.kind != OpArg::Kind::kFloatList)
    return c.call.Unsupported("a list of other than numbers");
  if (!list.known && list.element_values.empty()) return c.call.Unsupported("a list whose length is not known");
  const DType t = ints ? DType::kInt64 : bools ? DType::kBool : DType::kFloat32;
  const size_t size = list.known ? known : list.element_values.size();
  c.Add(DTypeOr(c, t), {Expr(static_cast<int64_t>(size))});
  return absl::OkStatus();
}

absl::Status Arange(Ctx& c) {
  bool real = false;
  std::vector<const OpArg*> numbers;
  for (const char* n : {"start", "end", "step"}) {
    const OpArg* a = c.call.Find(n);
    numbers.push_back(a);
    if (a != nullptr && a->kind == OpArg::Kind::kFloat) real = true;
  }
  const DType t = DTypeOr(c, real ? DType::kFloat32 : DType::kInt64);
  const auto is_float = [](const OpArg* a) { return a != nullptr && a->kind == OpArg::Kind::kFloat; };
  auto expr = [&](const OpArg* a, int64_t d) {
    return a == nullptr ? Expr(d) : is_float(a) ? Expr(static_cast<int64_t>(a->number)) : a->expr;
  };
  for (const OpArg* a : numbers) {
    if (a != nullptr && !a->known) {
      TensorType unknown;
      // A trace has a tensor there, whose number is an integer after all.
      if (!real || !c.call.IsNone("dtype")) unknown.dtype = t;
      c.AddUnknown(unknown);
      return absl::OkStatus();
    }
  }
  // Numbers such as 1.0 count as integers beside a size that varies.
  const auto is_size = [&](const OpArg* a) { return a != nullptr && !is_float(a) && !a->expr.IsConstant(); };
  const auto is_whole = [&](const OpArg* a) {
    return !is_float(a) || (std::trunc(a->number) == a->number && std::abs(a->number) < 1e15);
  };
  const bool varies = std::any_of(numbers.begin(), numbers.end(), is_size);
  if (varies && !std::all_of(numbers.begin(), numbers.end(), is_whole)) {
    TensorType unknown;
    unknown.dtype = t;
    c.AddUnknown(unknown);
    return absl::OkStatus();
  }
  if (!real || varies) {
    const Expr start = expr(numbers[0], 0), end = expr(numbers[1], 0), step = expr(numbers[2], 1);
    if (step == Expr(0)) return c.call.Error("step must be nonzero");
    Expr n = FloorDiv(end - start + step - Expr(step.IsConstant() && *step.Constant() < 0 ? -1 : 1), step);
    if (n.IsConstant() && *n.Constant() < 0)
      return c.call.Error("upper bound and lower bound inconsistent with step sign");
    c.Add(t, {n});
    return absl::OkStatus();
  }
  auto number = [&](const OpArg* a, double d) { return a == nullptr ? d : a->number; };
  const double n = std::ceil((number(numbers[1], 0) - number(numbers[0], 0)) / number(numbers[2], 1));
  if (!(n >= 0) || n > 1e15) return c.call.Error("upper bound and lower bound inconsistent with step sign");
  c.Add(t, {Expr(static_cast<int64_t>(n))});
  return absl::OkStatus();
}

}  // namespace

void AddFactoryRules(RuleTable& r) {
  AddRule(r, "zeros ones full empty new_zeros new_ones new_full new_empty", FactorySizes);
  AddRule(r, "zeros_like ones_like full_like empty_like rand_like randn_like randint_like", FactoryLike);
  AddRule(r, "empty_strided new_empty_strided", EmptyStrided);
  AddRule(r, "empty_permuted", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> order, c.call.GetInts("physical_layout"));
    std::vector<Expr> strides(sizes.size());
    Expr s(1);
    for (int i = static_cast<int>(order.size()) - 1; i >= 0; --i) {
      if (order[i] < 0 || order[i] >= static_cast<int64_t>(sizes.size()))
        return c.call.Error("physical_layout is not a permutation");
      strides[order[i]] = s;
      s = s * sizes[order[i]];
    }
    c.AddStrided(DTypeOr(c, DType::kFloat32), sizes, strides);
    return absl::OkStatus();
  });
  AddRule(r, "scalar_tensor", ScalarTensor);
  AddRule(r, "tensor.float tensor.int tensor.bool tensor.complex", NumberTensor);
  AddRule(r, "tensor", ListTensor);
  AddRule(r, "arange", Arange);
}

}  // namespace smelt::op_internal
