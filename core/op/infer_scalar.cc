// Types of results that are Python numbers.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/schema.h"

namespace smelt::op_internal {
namespace {

absl::StatusOr<Expr> NumElements(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
  return Product(*t.sizes);
}

// An int that is known if both operands are.
Rule IntBinary(std::function<std::optional<Expr>(const Expr&, const Expr&)> f) {
  return [f](Ctx& c) -> absl::Status {
    const OpArg &a = c.call.arg(0), &b = c.call.arg(1);
    InferredOutput o;
    o.type = Type::Int();
    if (a.known && b.known && a.kind == OpArg::Kind::kInt && b.kind == OpArg::Kind::kInt) {
      o.expr = f(a.expr, b.expr);
      if (o.expr && o.expr->IsPoison()) o.expr.reset();
    }
    c.out.push_back(o);
    return absl::OkStatus();
  };
}

absl::Status SizeRule(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
  const bool stride = absl::EndsWith(c.call.op().name(), "stride");
  const std::vector<Expr> values = stride ? GeoOf(c.decide, t).strides : *t.sizes;
  if (c.call.IndexOf("dim") < 0) {
    c.out.push_back({Type::List(Type::Int()), std::nullopt, {}});
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", t.rank()));
  if (t.rank() == 0) return c.call.Error("Dimension specified as 0 but tensor has no dimensions");
  c.AddInt(values[dim]);
  return absl::OkStatus();
}

}  // namespace

// The table of rules, some of which are so short that they stand in it.
void AddScalarRules(RuleTable& r) {
  AddRule(r, "size stride sym_size sym_stride", SizeRule);
  AddRule(r, "numel sym_numel", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(Expr n, NumElements(c));
    c.AddInt(n);
    return absl::OkStatus();
  });
  AddRule(r, "dim", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
    c.AddInt(t.rank());
    return absl::OkStatus();
  });
  r["aten::len.Tensor"] = [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
    if (t.rank() == 0) return c.call.Error("len() of a 0-d tensor");
    c.AddInt((*t.sizes)[0]);
    return absl::OkStatus();
  };
  r["aten::len.t"] = [](Ctx& c) -> absl::Status {
    InferredOutput o;
    o.type = Type::Int();
    const OpArg& a = c.call.arg(0);
    if (a.kind == OpArg::Kind::kIntList && a.known) {
      o.expr = Expr(static_cast<int64_t>(a.ints.size()));
    } else if (!a.element_values.empty()) {
      o.expr = Expr(static_cast<int64_t>(a.element_values.size()));
    }
    c.out.push_back(o);
    return absl::OkStatus();
  };
  auto some = [](Expr e) { return std::optional<Expr>(std::move(e)); };
  r["aten::add.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a + b); });
  r["aten::sub.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a - b); });
  r["aten::mul.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a * b); });
  r["aten::floordiv.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(FloorDiv(a, b)); });
  r["aten::__round_to_zero_floordiv.int"] = IntBinary([](const Expr& a, const Expr& b) -> std::optional<Expr> {
    const std::optional<int64_t> x = a.Constant(), y = b.Constant();
    if (!x || !y || *x < 0 || *y <= 0) return std::nullopt;
    return Expr(*x / *y);
  });
  r["aten::remainder.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Mod(a, b)); });
  r["prim::min.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Min(a, b)); });
  r["prim::max.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Max(a, b)); });
  const auto of_list = [](Expr (*choose)(const Expr&, const Expr&)) {
    return [choose](Ctx& c) -> absl::Status {
      const OpArg& a = c.call.arg(0);
      std::optional<Expr> best;
      if (a.kind == OpArg::Kind::kIntList && a.known) {
        for (const Expr& e : a.ints) best = best ? choose(*best, e) : e;
      }
      c.out.push_back({Type::Int(), best, {}});
      return absl::OkStatus();
    };
  };
  r["prim::min.self_int"] = of_list([](const Expr& a, const Expr& b) { return Min(a, b); });
  r["prim::max.self_int"] = of_list([](const Expr& a, const Expr& b) { return Max(a, b); });
  r["aten::neg.int"] = [](Ctx& c) -> absl::Status {
    const OpArg& a = c.call.arg(0);
    c.out.push_back({Type::Int(), a.known ? std::optional<Expr>(-a.expr) : std::nullopt, {}});
    return absl::OkStatus();
  };
  r["prim::layout"] = [](Ctx& c) -> absl::Status {
    c.AddInt(0);  // strided
    return absl::OkStatus();
  };
  r["prim::dtype"] = [](Ctx& c) -> absl::Status {
    const OpArg& a = c.call.arg(0);
    std::optional<Expr> code;
    if (a.IsTensor() && a.tensor.dtype) code = Expr(ScalarTypeOf(*a.tensor.dtype));
    c.out.push_back({Type::Int(), code, {}});
    return absl::OkStatus();
  };
  r["aten::__getitem__.t"] = [](Ctx& c) -> absl::Status {
    const OpArg &list = c.call.arg(0), &i = c.call.arg(1);
    InferredOutput o;
    const std::optional<int64_t> constant = i.known ? i.expr.Constant() : std::nullopt;
    auto at = [&](size_t n) -> int64_t {
      return !constant ? -1 : *constant < 0 ? *constant + static_cast<int64_t>(n) : *constant;
    };
    if (list.kind == OpArg::Kind::kIntList) {
      o.type = Type::Int();
      if (const int64_t k = at(list.ints.size()); list.known && k >= 0 && k < static_cast<int64_t>(list.ints.size()))
        o.expr = list.ints[k];
    } else if (list.kind == OpArg::Kind::kFloatList) {
      o.type = Type::Float();
    } else if (list.kind == OpArg::Kind::kBoolList) {
      o.type = Type::Bool();
    } else if (list.kind == OpArg::Kind::kTensorList) {
      o.type = Type::Tensor();
      if (const int64_t k = at(list.elements.size());
          k >= 0 && k < static_cast<int64_t>(list.elements.size()) && list.elements[k].IsTensor()) {
        o.type = Type::Tensor(list.elements[k].tensor);
      }
    }
    c.out.push_back(o);
    return absl::OkStatus();
  };
}

}  // namespace smelt::op_internal
