#include "smelt/fuser/lower_indexing.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_reductions.h"

namespace smelt::kernel {

int CheckedIndex(Lowering& l, int index, const Expr& size, bool wrap, int guard) {
  Builder& builder = l.builder();
  index = l.Convert(index, DType::kInt64);
  const int n = l.Size(size);
  if (!wrap) {
    const int negative = builder.Op(ScalarOp::kLt, DType::kBool, index, builder.ConstInt(DType::kInt64, 0));
    index = builder.Op(ScalarOp::kSelect, DType::kInt64, negative, n, index);
  }
  if (guard >= 0)
    index = builder.Op(ScalarOp::kSelect, DType::kInt64, guard, index, builder.ConstInt(DType::kInt64, 0));
  return builder.CheckIndex(index, n);
}

int CheckedAlongScalar(Lowering& l, int index, bool wrap, int guard, int value) {
  Builder& builder = l.builder();
  const int at = CheckedIndex(l, index, Expr(1), wrap, guard);
  const int holds = builder.Op(ScalarOp::kEq, DType::kBool, at, builder.ConstInt(DType::kInt64, 0));
  return l.Select(holds, value, builder.Const(builder.TypeOf(value), 0));
}

absl::StatusOr<Index> IndexedAt(Lowering& l, const IndexList& list, const std::vector<Expr>& self, const Index& index,
                                int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  Index which(index.begin() + list.first, index.begin() + list.first + list.sizes.size());
  Index rest(index.begin(), index.begin() + list.first);
  rest.insert(rest.end(), index.begin() + list.first + list.sizes.size(), index.end());
  Index at;
  size_t r = 0;
  for (size_t d = 0; d < self.size(); ++d) {
    if (!list.at[d].valid()) {
      at.push_back(rest[r++]);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(
        int v, l.Eval(list.at[d], BroadcastIndex(builder, which, list.sizes, group.Sizes(list.at[d])), guard));
    at.push_back(builder.Dynamic(CheckedIndex(l, v, self[d], true, guard)));
  }
  return at;
}

absl::StatusOr<int> LowerGather(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, group.TensorArg(n, "index"));
  const size_t rank = group.Sizes(self).size();
  // An index without elements may be of any rank.
  if (rank > 0 && !index.empty() && index.size() != rank) return builder.Const(group.Dt(self), 0);
  SMELT_ASSIGN_OR_RETURN(int i, l.Eval(where, index, guard));
  Index at = index;
  if (rank == 0) {
    SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, {}, guard));
    return CheckedAlongScalar(l, i, false, guard, v);
  }
  if (index.empty()) {
    at = {builder.Dynamic(CheckedIndex(l, i, group.Sizes(self)[0], false, guard))};
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, group.DimArg(n, "dim", static_cast<int>(index.size())));
    at[d] = builder.Dynamic(CheckedIndex(l, i, group.Sizes(self)[d], false, guard));
  }
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerIndexSelect(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, group.TensorArg(n, "index"));
  if (group.Sizes(self).empty()) {
    SMELT_ASSIGN_OR_RETURN(int at, l.Eval(where, Index(group.Sizes(where).size(), builder.Zero()), guard));
    SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, {}, guard));
    return CheckedAlongScalar(l, at, false, guard, v);
  }
  SMELT_ASSIGN_OR_RETURN(int d, group.DimArg(n, "dim", static_cast<int>(index.size())));
  Index i;
  if (!group.Sizes(where).empty()) i.push_back(index[d]);
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(where, i, guard));
  Index at = index;
  at[d] = builder.Dynamic(CheckedIndex(l, v, group.Sizes(self)[d], false, guard));
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerEmbedding(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId weight, group.TensorArg(n, "weight"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, group.TensorArg(n, "indices"));
  Index i(index.begin(), index.end() - 1);
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(where, i, guard));
  return l.Eval(weight, {builder.Dynamic(CheckedIndex(l, v, group.Sizes(weight)[0], false, guard)), index.back()},
                guard);
}

absl::StatusOr<int> LowerIndex(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(IndexList list, group.IndicesOf(n, self));
  SMELT_ASSIGN_OR_RETURN(Index at, IndexedAt(l, list, group.Sizes(self), index, guard));
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerTake(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, group.TensorArg(n, "index"));
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(where, index, guard));
  if (group.Sizes(self).empty()) {
    SMELT_ASSIGN_OR_RETURN(int taken, l.Eval(self, {}, guard));
    return CheckedAlongScalar(l, v, true, guard, taken);
  }
  const int flat = CheckedIndex(l, v, Product(group.Sizes(self)), true, guard);
  SMELT_ASSIGN_OR_RETURN(Index at, l.Unflatten(builder.Dynamic(flat), group.Sizes(self)));
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerOneHot(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  Index i(index.begin(), index.end() - 1);
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, i, guard));
  v = CheckedIndex(l, v, group.Sizes(group.Out(n)).back(), false, guard);
  const int equal = builder.Op(ScalarOp::kEq, DType::kBool, v, builder.IndexValue(index.back()));
  return builder.Cast(equal, group.Dt(group.Out(n)));
}

absl::StatusOr<int> LowerMaskedScatter(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId mask, group.TensorArg(n, "mask"));
  SMELT_ASSIGN_OR_RETURN(ValueId source, group.TensorArg(n, "source"));
  SMELT_RETURN_IF_ERROR(CheckSite(l, n, group.Sizes(group.Out(n)), {}, guard));
  for (size_t d = 0; d < index.size(); ++d) {
    if (group.Sizes(group.Out(n))[d] == Expr(1) && index[d] == builder.Zero()) continue;
    if (!(index[d] == l.domain().reduced_index[d])) return group.Unsupported(n, "masked_scatter used at another index");
  }
  l.domain().ordered = true;
  SMELT_ASSIGN_OR_RETURN(
      int keep, l.Eval(self, BroadcastIndex(builder, index, group.Sizes(group.Out(n)), group.Sizes(self)), guard));
  SMELT_ASSIGN_OR_RETURN(
      int m, l.Eval(mask, BroadcastIndex(builder, index, group.Sizes(group.Out(n)), group.Sizes(mask)), guard));
  m = l.Convert(m, DType::kBool);
  const int seen = builder.Reduce(ReduceKind::kSum, builder.Cast(m, DType::kInt64), -1, true);
  int at = l.I64(ScalarOp::kSub, seen, builder.ConstInt(DType::kInt64, 1));
  const int taken = builder.Op(ScalarOp::kSelect, DType::kInt64, m, at, builder.ConstInt(DType::kInt64, 0));
  at = builder.CheckIndex(taken, l.Size(Max(Product(group.Sizes(source)), Expr(1))));
  SMELT_ASSIGN_OR_RETURN(Index from, l.Unflatten(builder.Dynamic(at), group.Sizes(source)));
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(source, from, l.And(guard, m)));
  return l.Select(m, v, keep);
}

}  // namespace smelt::kernel
