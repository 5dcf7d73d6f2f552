#include "smelt/fuser/lower_reductions.h"

#include <optional>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"

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

absl::Status CheckSite(Lowering& l, NodeId n, const std::vector<Expr>& reduced, const Index& outer, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  if (guard >= 0 && builder.VariesInRow(guard))
    return group.Unsupported(n, "a reduction's result is used in a part of its own row");
  if (reduced != l.domain().reduced) return group.Unsupported(n, "a reduction over other dims than its group's");
  for (const Affine& a : outer) {
    if (builder.UsesReduction(a)) return group.Unsupported(n, "a reduction's result is used along the reduced dims");
  }
  return absl::OkStatus();
}

int Reduce(Lowering& l, ReduceKind kind, int value, int index, bool scan) {
  Builder& builder = l.builder();
  DType t = builder.TypeOf(value);
  const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
  const bool half = IsHalf(t);
  if (t == DType::kBool && !arg) {
    if (kind == ReduceKind::kMax || kind == ReduceKind::kSum) kind = ReduceKind::kOr;
    if (kind == ReduceKind::kMin || kind == ReduceKind::kProd) kind = ReduceKind::kAnd;
  }
  if (half) value = builder.Cast(value, DType::kFloat32);
  if (t == DType::kBool && arg) value = builder.Cast(value, DType::kUInt8);
  if (t != DType::kBool && (kind == ReduceKind::kAnd || kind == ReduceKind::kOr)) {
    value = builder.Cast(value, DType::kBool);
    t = DType::kBool;
  }
  int r = builder.Reduce(kind, value, index, scan);
  if (half && !arg) r = builder.Cast(r, t);
  return r;
}

// Emits the loop's instructions in their order: the element, the combination, what follows it. Scans, indices of
// maxima and plain sums differ at each of these places, not in one.
absl::StatusOr<std::vector<int>> LowerReduction(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, group.ReductionOf(n));
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(std::optional<Site> site, group.SiteOf(n));
  Index in;
  Index outer;
  if (m->is_scan) {
    for (size_t d = 0; d < index.size(); ++d) {
      if (site->where[d] >= 0) {
        outer.push_back(index[d]);
      } else if (group.Sizes(group.node(n).outputs[0])[d] != Expr(1) &&
                 !(index[d] == l.domain().reduced_index[-1 - site->where[d]])) {
        return group.Unsupported(n, "a scan that is used at another index");
      }
    }
    in = index;
    l.domain().ordered = true;
  } else {
    size_t o = 0;
    for (int w : site->where) {
      if (w >= 0) {
        in.push_back(index[o]);
        outer.push_back(index[o++]);
      } else {
        in.push_back(static_cast<size_t>(-1 - w) < l.domain().reduced_index.size() ? l.domain().reduced_index[-1 - w]
                                                                                   : builder.Zero());
        if (m->keepdim) ++o;
      }
    }
  }
  const bool one = !m->is_scan && site->reduced != l.domain().reduced && IsOneElement(site->reduced);
  if (one) {
    for (size_t d = 0; d < site->where.size(); ++d) {
      if (site->where[d] < 0) in[d] = builder.Zero();
    }
  } else {
    // All of the row is reduced, in whichever part of it the result is used.
    const std::vector<Expr>& sizes = group.Sizes(site->input);
    bool within = guard >= 0 && builder.VariesInRow(guard);
    for (size_t d = 0; d < in.size() && within; ++d) {
      if (site->where[d] < 0) continue;
      const Lowering::Within known = l.KnownWithin(in[d], sizes[d]);
      within = known.above && known.below;
    }
    if (within) guard = -1;
    SMELT_RETURN_IF_ERROR(CheckSite(l, n, site->reduced, outer, guard));
  }
  SMELT_ASSIGN_OR_RETURN(int x, l.Eval(site->input, in, guard));
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
    SMELT_ASSIGN_OR_RETURN(int v, l.ScalarArg(n, call->arg(m->scalars[k]), t));
    scalars.push_back(v);
  }
  for (int s : scalars) {
    if (pre_args.size() < m->pre.arg_types.size()) pre_args.push_back(s);
  }
  const std::vector<int> pre = builder.Inline(m->pre, pre_args);
  int flat = -1;
  std::vector<int> post_args;
  for (size_t k = 0; k < m->combine.size(); ++k) {
    const ReduceKind kind = KindOf(m->combine[k]);
    if (one) {
      const bool index = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
      const bool truth = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
      post_args.push_back(index   ? builder.ConstInt(DType::kInt64, 0)
                          : truth ? l.Convert(pre[k], DType::kBool)
                                  : pre[k]);
      continue;
    }
    if ((kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax) && flat < 0) {
      flat = builder.IndexValue(l.Flatten(l.domain().reduced_index, l.domain().reduced));
    }
    const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
    if (arg && m->is_scan) {
      // PyTorch's cummax keeps the last of equal elements, a kernel's accumulator the first: indices run backwards.
      const int back = builder.Op(ScalarOp::kNeg, DType::kInt64, flat);
      post_args.push_back(builder.Op(ScalarOp::kNeg, DType::kInt64, Reduce(l, kind, pre[k], back, true)));
    } else {
      post_args.push_back(Reduce(l, kind, pre[k], arg ? flat : -1, m->is_scan));
    }
  }
  for (size_t k = 0; k < post_args.size(); ++k) {
    if (k < m->post.arg_types.size()) post_args[k] = l.Convert(post_args[k], m->post.arg_types[k]);
  }
  if (post_args.size() < m->post.arg_types.size()) post_args.push_back(builder.ExprParam(Product(site->reduced)));
  for (int s : scalars) {
    if (post_args.size() < m->post.arg_types.size()) post_args.push_back(s);
  }
  return builder.Inline(m->post, post_args);
}

}  // namespace smelt::kernel
