#include <optional>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {
namespace {

ReduceKind KindOf(Combine c) {
  switch (c) {
    case Combine::kSum:
      return ReduceKind::kSum;
    case Combine::kProd:
      return ReduceKind::kProd;
    case Combine::kMin:
      return ReduceKind::kMin;
    case Combine::kMax:
      return ReduceKind::kMax;
    case Combine::kArgMin:
      return ReduceKind::kArgMin;
    case Combine::kArgMax:
      return ReduceKind::kArgMax;
    case Combine::kAnd:
      return ReduceKind::kAnd;
    case Combine::kOr:
      return ReduceKind::kOr;
  }
  return ReduceKind::kSum;
}

}  // namespace

absl::Status Lowering::CheckSite(NodeId n, const std::vector<Expr>& reduced, const Index& outer, int guard) {
  if (guard >= 0 && b_->VariesInRow(guard))
    return g_.Unsupported(n, "a reduction's result is used in a part of its own row");
  if (reduced != domain_.reduced) return g_.Unsupported(n, "a reduction over other dims than its group's");
  for (const Affine& a : outer) {
    if (b_->UsesReduction(a)) return g_.Unsupported(n, "a reduction's result is used along the reduced dims");
  }
  return absl::OkStatus();
}

int Lowering::Reduce(ReduceKind kind, int value, int index, bool scan) {
  DType t = b_->TypeOf(value);
  const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
  const bool half = IsHalf(t);
  if (t == DType::kBool && !arg) {
    if (kind == ReduceKind::kMax || kind == ReduceKind::kSum) kind = ReduceKind::kOr;
    if (kind == ReduceKind::kMin || kind == ReduceKind::kProd) kind = ReduceKind::kAnd;
  }
  if (half) value = b_->Cast(value, DType::kFloat32);
  if (t == DType::kBool && arg) value = b_->Cast(value, DType::kUInt8);
  if (t != DType::kBool && (kind == ReduceKind::kAnd || kind == ReduceKind::kOr)) {
    value = b_->Cast(value, DType::kBool);
    t = DType::kBool;
  }
  int r = b_->Reduce(kind, value, index, scan);
  if (half && !arg) r = b_->Cast(r, t);
  return r;
}

Lowering::Values Lowering::EvalReduction(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, g_.ReductionOf(n));
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(std::optional<Site> site, g_.SiteOf(n));
  Index in;
  Index outer;
  if (m->is_scan) {
    for (size_t d = 0; d < index.size(); ++d) {
      if (site->where[d] >= 0) {
        outer.push_back(index[d]);
      } else if (g_.Sizes(g_.node(n).outputs[0])[d] != Expr(1) &&
                 !(index[d] == domain_.reduced_index[-1 - site->where[d]])) {
        return g_.Unsupported(n, "a scan that is used at another index");
      }
    }
    in = index;
    domain_.ordered = true;
  } else {
    size_t o = 0;
    for (int w : site->where) {
      if (w >= 0) {
        in.push_back(index[o]);
        outer.push_back(index[o++]);
      } else {
        in.push_back(static_cast<size_t>(-1 - w) < domain_.reduced_index.size() ? domain_.reduced_index[-1 - w]
                                                                                : b_->Zero());
        if (m->keepdim) ++o;
      }
    }
  }
  const bool one = !m->is_scan && site->reduced != domain_.reduced && IsOneElement(site->reduced);
  if (one) {
    for (size_t d = 0; d < site->where.size(); ++d) {
      if (site->where[d] < 0) in[d] = b_->Zero();
    }
  } else {
    // All of the row is reduced, in whichever part of it the result is used.
    const std::vector<Expr>& sizes = g_.Sizes(site->input);
    bool within = guard >= 0 && b_->VariesInRow(guard);
    for (size_t d = 0; d < in.size() && within; ++d) {
      if (site->where[d] < 0) continue;
      const Within known = KnownWithin(in[d], sizes[d]);
      within = known.above && known.below;
    }
    if (within) guard = -1;
    SMELT_RETURN_IF_ERROR(CheckSite(n, site->reduced, outer, guard));
  }
  SMELT_ASSIGN_OR_RETURN(int x, Eval(site->input, in, guard));
  std::vector<int> pre_args = {x};
  std::vector<int> scalars;
  for (size_t k = 0; k < m->scalars.size(); ++k) {
    // The functions take scalars after their own arguments, and have the functions' types.
    DType t = DType::kFloat64;
    if (1 + k < m->pre.arg_types.size()) {
      t = m->pre.arg_types[1 + k];
    } else if (m->combine.size() + 1 + k < m->post.arg_types.size()) {
      t = m->post.arg_types[m->combine.size() + 1 + k];
    }
    SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, call->arg(m->scalars[k]), t));
    scalars.push_back(v);
  }
  for (int s : scalars) {
    if (pre_args.size() < m->pre.arg_types.size()) pre_args.push_back(s);
  }
  const std::vector<int> pre = b_->Inline(m->pre, pre_args);
  int flat = -1;
  std::vector<int> post_args;
  for (size_t k = 0; k < m->combine.size(); ++k) {
    const ReduceKind kind = KindOf(m->combine[k]);
    if (one) {
      const bool index = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
      const bool truth = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
      post_args.push_back(index ? b_->ConstInt(DType::kInt64, 0) : truth ? Convert(pre[k], DType::kBool) : pre[k]);
      continue;
    }
    if ((kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax) && flat < 0) {
      flat = b_->IndexValue(Flatten(domain_.reduced_index, domain_.reduced));
    }
    const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
    if (arg && m->is_scan) {
      // PyTorch's cummax keeps the last of equal elements, a kernel's accumulator the first: indices run backwards.
      const int back = b_->Op(ScalarOp::kNeg, DType::kInt64, flat);
      post_args.push_back(b_->Op(ScalarOp::kNeg, DType::kInt64, Reduce(kind, pre[k], back, true)));
    } else {
      post_args.push_back(Reduce(kind, pre[k], arg ? flat : -1, m->is_scan));
    }
  }
  for (size_t k = 0; k < post_args.size(); ++k) {
    if (k < m->post.arg_types.size()) post_args[k] = Convert(post_args[k], m->post.arg_types[k]);
  }
  if (post_args.size() < m->post.arg_types.size()) post_args.push_back(b_->ExprParam(Product(site->reduced)));
  for (int s : scalars) {
    if (post_args.size() < m->post.arg_types.size()) post_args.push_back(s);
  }
  return b_->Inline(m->post, post_args);
}

}  // namespace smelt::kernel
