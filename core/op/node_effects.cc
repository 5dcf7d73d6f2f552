// Determines the effects of an operator at one node, as far as its constant flags and its arguments' types decide them.
#include <string>

#include "absl/strings/match.h"
#include "smelt/core/op/effect_tables.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {

using effects_internal::Bit;
using effects_internal::Unwrap;

namespace {

std::optional<bool> ConstantBool(const Graph& g, ValueId v) {
  std::optional<ConstantValue> c = GetConstant(g, v);
  if (!c) return std::nullopt;
  if (const bool* b = std::get_if<bool>(&*c)) return *b;
  if (const int64_t* i = std::get_if<int64_t>(&*c)) return *i != 0;
  return std::nullopt;
}

std::optional<bool> IsZero(const Graph& g, ValueId v) {
  const std::optional<ConstantValue> c = GetConstant(g, v);
  if (!c) return std::nullopt;
  if (const double* d = std::get_if<double>(&*c)) return *d == 0;
  if (const int64_t* i = std::get_if<int64_t>(&*c)) return *i == 0;
  return std::nullopt;
}

void ReadNoData(OpEffects* e) {
  if (!e->args.empty()) e->args[0] &= ~static_cast<uint16_t>(kReadsData);
}
void ViewOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0].fresh = false;
  e->results[0].self = 0;
}
void SelfOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0] = ResultEffects();
  e->results[0].self = 1;
}
void FreshOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0] = ResultEffects();
  e->results[0].fresh = true;
}

}  // namespace

// Operators that return their argument or a copy (to, contiguous, reshape) count as readers of its data even where
// the types say that they do not copy: a write that moved across a copy would change it. It is long because it has a
// case for each kind of node whose arguments decide its effects.
OpEffects NodeEffects(const Graph& g, const Node& n, const OpEffects& effects, bool trust_types) {
  OpEffects e = effects;
  auto has = [&](int i) { return i >= 0 && i < static_cast<int>(n.inputs.size()); };
  switch (e.by) {
    case OpEffects::By::kNothing:
      return e;
    case OpEffects::By::kTraining: {
      std::optional<bool> training = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      e.writes = false;
      for (size_t i = 0; i < e.args.size(); ++i) {
        if ((e.args[i] & kWritesData) == 0) continue;
        // save_mean and save_var of the _legit forms are out arguments, and these stay.
        bool is_stat = static_cast<int>(i) < e.by_arg;
        if (is_stat && training == false) e.args[i] &= ~static_cast<uint16_t>(kWritesData);
        e.writes |= (e.args[i] & kWritesData) != 0;
      }
      break;
    }
    case OpEffects::By::kLazy:
      // A tensor that an operator has just computed is not lazy.
      if (!n.inputs.empty() && !GetOpEffects(g.node(g.value(n.inputs[0]).def).op).pure) {
        e.results[0].lazy_copy = true;
        e.args[0] |= kReadsData;
      }
      break;
    case OpEffects::By::kSparse:
      if (has(e.by_arg) && ConstantBool(g, n.inputs[e.by_arg]) == false) FreshOnly(&e);
      break;
    case OpEffects::By::kOfOne: {
      if (!has(e.by_arg)) break;
      const Node& list = g.node(g.value(n.inputs[e.by_arg]).def);
      if (list.op.name() == "prim::ListConstruct" && list.inputs.size() >= 2 &&
          g.value(n.inputs[e.by_arg]).uses.size() == 1) {
        FreshOnly(&e);
      }
      break;
    }
    case OpEffects::By::kDraws: {
      const bool off = has(e.by_arg) && ConstantBool(g, n.inputs[e.by_arg]) == false;
      if (off || (has(e.by_arg2) && IsZero(g, n.inputs[e.by_arg2]) == true)) e.random = false;
      break;
    }
    case OpEffects::By::kDropout: {
      std::optional<bool> train = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      const std::optional<bool> is_zero = has(e.by_arg2) ? IsZero(g, n.inputs[e.by_arg2]) : std::nullopt;
      const bool zero = is_zero == true, nonzero = is_zero == false;
      if (n.op.name() == "aten::native_dropout") {
        if (train == false) e.random = false;  // of p = 0 it draws, and uses nothing of it
      } else if (train == true && nonzero && trust_types && !effects.writes) {
        // Without elements the result is the argument itself, which only a change of geometry could reveal.
        FreshOnly(&e);
      } else if (train == false || zero) {
        if (!effects.writes) {
          SelfOnly(&e);
          ReadNoData(&e);
        }
        e.random = false;
        for (uint16_t& a : e.args) a &= ~static_cast<uint16_t>(kWritesData);
        e.writes = false;
      }
      break;
    }
    case OpEffects::By::kTo: {
      std::optional<bool> copy = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      if (copy == true) {
        FreshOnly(&e);
      } else if (has(e.by_arg2) && IsTensorType(g.value(n.inputs[0]).type)) {
        const Type& type = Unwrap(g.value(n.inputs[0]).type);
        std::optional<Expr> code = GetIntExpr(g, n.inputs[e.by_arg2]);
        if (type.tensor().dtype && code && code->IsConstant()) {
          std::optional<DType> to = DTypeFromScalarType(*code->Constant());
          bool same = to && *to == *type.tensor().dtype;
          if (!same) {
            FreshOnly(&e);
          } else if (copy == false) {
            // A memory format may still ask for a copy.
            bool no_format = n.inputs.size() <= 5 || g.value(n.inputs[5]).type.kind() == TypeKind::kNone;
            if (no_format) SelfOnly(&e);
          }
        }
      }
      break;
    }
    case OpEffects::By::kWith: {
      // PyTorch's own (no_grad, record_function) touch no memory.
      if (n.inputs.empty()) break;
      const Type& type = Unwrap(g.value(n.inputs[0]).type);
      if (type.kind() != TypeKind::kClass || !absl::StartsWith(type.class_name(), "__torch__.torch.")) break;
      e = OpEffects();
      e.side_effect = true;
      break;
    }
    case OpEffects::By::kItself: {
      // Returning the argument's own handle makes a difference only if some node changes a geometry.
      if (!trust_types || n.inputs.empty() || !IsTensorType(g.value(n.inputs[0]).type)) break;
      const TensorType& t = Unwrap(g.value(n.inputs[0]).type).tensor();
      const bool real = t.dtype && !IsComplex(*t.dtype), scalar = t.sizes && t.sizes->empty();
      const std::string& name = n.op.name();
      bool itself = real && scalar;
      if (name == "aten::lift_fresh") itself = true;
      if (name == "aten::mT") itself = scalar;
      if (name == "aten::real" || name == "aten::conj") itself = real;
      itself ? SelfOnly(&e) : ViewOnly(&e);
      ReadNoData(&e);
      break;
    }
    case OpEffects::By::kTypeAs: {
      if (n.inputs.size() == 2 && IsTensorType(g.value(n.inputs[0]).type) && IsTensorType(g.value(n.inputs[1]).type)) {
        const TensorType &a = Unwrap(g.value(n.inputs[0]).type).tensor(),
                         &b = Unwrap(g.value(n.inputs[1]).type).tensor();
        if (a.dtype && b.dtype) {
          if (*a.dtype == *b.dtype) {
            SelfOnly(&e);
          } else {
            FreshOnly(&e);
          }
        }
      }
      break;
    }
    case OpEffects::By::kSumTo: {
      if (!trust_types || !has(e.by_arg) || !IsTensorType(g.value(n.inputs[0]).type)) break;
      const TensorType& t = Unwrap(g.value(n.inputs[0]).type).tensor();
      std::optional<std::vector<Expr>> wanted = GetIntListExpr(g, n.inputs[e.by_arg]);
      if (!t.sizes || !wanted) break;
      bool same = t.sizes->size() == wanted->size() && !wanted->empty(), other = !same;
      for (size_t i = 0; i < wanted->size() && !other; ++i) {
        const Expr &have = (*t.sizes)[i], &want = (*wanted)[i];
        same = same && have == want;
        other = have.IsConstant() && want.IsConstant() && *have.Constant() != *want.Constant();
      }
      if (other) {
        FreshOnly(&e);
      } else if (same) {
        SelfOnly(&e);
        ReadNoData(&e);
      }
      break;
    }
    case OpEffects::By::kContiguous:
    case OpEffects::By::kReshape: {
      if (!trust_types || n.inputs.empty() || !IsTensorType(g.value(n.inputs[0]).type)) break;
      const TensorType& t = Unwrap(g.value(n.inputs[0]).type).tensor();
      if (!t.sizes || !t.strides) break;
      ExprGeometry geometry;
      geometry.sizes = *t.sizes;
      geometry.strides = *t.strides;
      geometry.offset = Expr(0);
      SymbolicDecide decide(&g.symbols);
      if (e.by == OpEffects::By::kContiguous) {
        if (has(e.by_arg)) {
          std::optional<Expr> format = GetIntExpr(g, n.inputs[e.by_arg]);
          if (!format || format->Constant() != 0) break;
        }
        bool contiguous = view_rules::IsContiguous(decide, geometry);
        if (!decide.status().ok() || !decide.assumptions().empty()) break;
        if (contiguous) {
          SelfOnly(&e);
        } else {
          FreshOnly(&e);
        }
        break;
      }
      if (n.op.name() == "aten::ravel" && !view_rules::IsContiguous(decide, geometry)) {
        // It copies whatever is not contiguous, though some of that could be viewed.
        if (decide.status().ok() && decide.assumptions().empty()) FreshOnly(&e);
        break;
      }
      std::vector<Expr> sizes;
      if (has(e.by_arg)) {
        std::optional<std::vector<Expr>> wanted = GetIntListExpr(g, n.inputs[e.by_arg]);
        if (!wanted) break;
        sizes = *wanted;
      } else if (e.by_arg2 >= 0) {
        std::optional<Expr> start = has(1) ? GetIntExpr(g, n.inputs[1]) : std::nullopt;
        std::optional<Expr> end = has(2) ? GetIntExpr(g, n.inputs[2]) : std::nullopt;
        if (!start || !end || !start->IsConstant() || !end->IsConstant()) break;
        absl::StatusOr<std::vector<Expr>> flat = view_rules::FlattenedSizes(decide, absl::MakeConstSpan(geometry.sizes),
                                                                            *start->Constant(), *end->Constant());
        if (!flat.ok()) break;
        sizes = *flat;
        if (sizes.size() == geometry.sizes.size() && !sizes.empty()) {
          SelfOnly(&e);  // nothing to flatten
          break;
        }
      } else {
        sizes = {Expr(-1)};
      }
      auto reshaped = view_rules::Reshape(decide, geometry, absl::MakeConstSpan(sizes));
      if (!reshaped.ok() || !decide.status().ok() || !decide.assumptions().empty()) break;
      if (reshaped->aliases) {
        // ravel of a flat tensor may return the argument itself.
        uint64_t self = n.op.name() == "aten::ravel" ? e.results[0].self : 0;
        ViewOnly(&e);
        e.results[0].self = self;
      } else {
        FreshOnly(&e);
      }
      break;
    }
    case OpEffects::By::kOut: {
      // A result whose size equals that of out changes no geometry.
      if (!trust_types) break;
      for (size_t i = 0; i < e.args.size() && i < n.inputs.size(); ++i) {
        if ((e.args[i] & kWritesGeometry) == 0 || !IsTensorType(g.value(n.inputs[i]).type)) continue;
        const TensorType& t = Unwrap(g.value(n.inputs[i]).type).tensor();
        for (size_t k = 0; k < n.outputs.size() && k < e.results.size(); ++k) {
          if ((e.results[k].self & Bit(i)) == 0 || !IsTensorType(g.value(n.outputs[k]).type)) continue;
          const TensorType& r = Unwrap(g.value(n.outputs[k]).type).tensor();
          if (t.sizes && r.sizes && *t.sizes == *r.sizes) e.args[i] &= ~static_cast<uint16_t>(kWritesGeometry);
        }
      }
      break;
    }
  }
  return e;
}

}  // namespace smelt
