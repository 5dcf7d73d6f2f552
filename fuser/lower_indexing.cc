#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

int Lowering::Checked(int index, const Expr& size, bool wrap, int guard) {
  index = Convert(index, DType::kInt64);
  const int n = Size(size);
  if (!wrap) {
    const int negative = b_->Op(ScalarOp::kLt, DType::kBool, index, b_->ConstInt(DType::kInt64, 0));
    index = b_->Op(ScalarOp::kSelect, DType::kInt64, negative, n, index);
  }
  if (guard >= 0) index = b_->Op(ScalarOp::kSelect, DType::kInt64, guard, index, b_->ConstInt(DType::kInt64, 0));
  return b_->CheckIndex(index, n);
}

int Lowering::CheckedAlongScalar(int index, bool wrap, int guard, int value) {
  const int at = Checked(index, Expr(1), wrap, guard);
  const int holds = b_->Op(ScalarOp::kEq, DType::kBool, at, b_->ConstInt(DType::kInt64, 0));
  return Select(holds, value, b_->Const(b_->TypeOf(value), 0));
}

absl::StatusOr<Index> Lowering::IndexedAt(const IndexList& list, const std::vector<Expr>& self, const Index& index,
                                          int guard) {
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
    SMELT_ASSIGN_OR_RETURN(int v,
                           Eval(list.at[d], BroadcastIndex(*b_, which, list.sizes, g_.Sizes(list.at[d])), guard));
    at.push_back(b_->Dynamic(Checked(v, self[d], true, guard)));
  }
  return at;
}

absl::StatusOr<int> Lowering::EvalGather(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, g_.TensorArg(n, "index"));
  const size_t rank = g_.Sizes(self).size();
  // An index without elements may be of any rank.
  if (rank > 0 && !index.empty() && index.size() != rank) return b_->Const(g_.Dt(self), 0);
  SMELT_ASSIGN_OR_RETURN(int i, Eval(where, index, guard));
  Index at = index;
  if (rank == 0) {
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, {}, guard));
    return CheckedAlongScalar(i, false, guard, v);
  }
  if (index.empty()) {
    at = {b_->Dynamic(Checked(i, g_.Sizes(self)[0], false, guard))};
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, g_.DimArg(n, "dim", static_cast<int>(index.size())));
    at[d] = b_->Dynamic(Checked(i, g_.Sizes(self)[d], false, guard));
  }
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalIndexSelect(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, g_.TensorArg(n, "index"));
  if (g_.Sizes(self).empty()) {
    SMELT_ASSIGN_OR_RETURN(int at, Eval(where, Index(g_.Sizes(where).size(), b_->Zero()), guard));
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, {}, guard));
    return CheckedAlongScalar(at, false, guard, v);
  }
  SMELT_ASSIGN_OR_RETURN(int d, g_.DimArg(n, "dim", static_cast<int>(index.size())));
  Index i;
  if (!g_.Sizes(where).empty()) i.push_back(index[d]);
  SMELT_ASSIGN_OR_RETURN(int v, Eval(where, i, guard));
  Index at = index;
  at[d] = b_->Dynamic(Checked(v, g_.Sizes(self)[d], false, guard));
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalEmbedding(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId weight, g_.TensorArg(n, "weight"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, g_.TensorArg(n, "indices"));
  Index i(index.begin(), index.end() - 1);
  SMELT_ASSIGN_OR_RETURN(int v, Eval(where, i, guard));
  return Eval(weight, {b_->Dynamic(Checked(v, g_.Sizes(weight)[0], false, guard)), index.back()}, guard);
}

absl::StatusOr<int> Lowering::EvalIndex(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(IndexList list, g_.IndicesOf(n, self));
  SMELT_ASSIGN_OR_RETURN(Index at, IndexedAt(list, g_.Sizes(self), index, guard));
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalTake(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId where, g_.TensorArg(n, "index"));
  SMELT_ASSIGN_OR_RETURN(int v, Eval(where, index, guard));
  if (g_.Sizes(self).empty()) {
    SMELT_ASSIGN_OR_RETURN(int taken, Eval(self, {}, guard));
    return CheckedAlongScalar(v, true, guard, taken);
  }
  const int flat = Checked(v, Product(g_.Sizes(self)), true, guard);
  SMELT_ASSIGN_OR_RETURN(Index at, Unflatten(b_->Dynamic(flat), g_.Sizes(self)));
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalOneHot(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  Index i(index.begin(), index.end() - 1);
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, i, guard));
  v = Checked(v, g_.Sizes(g_.Out(n)).back(), false, guard);
  const int equal = b_->Op(ScalarOp::kEq, DType::kBool, v, b_->IndexValue(index.back()));
  return b_->Cast(equal, g_.Dt(g_.Out(n)));
}

absl::StatusOr<int> Lowering::EvalMaskedScatter(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(ValueId mask, g_.TensorArg(n, "mask"));
  SMELT_ASSIGN_OR_RETURN(ValueId source, g_.TensorArg(n, "source"));
  SMELT_RETURN_IF_ERROR(CheckSite(n, g_.Sizes(g_.Out(n)), {}, guard));
  for (size_t d = 0; d < index.size(); ++d) {
    if (g_.Sizes(g_.Out(n))[d] == Expr(1) && index[d] == b_->Zero()) continue;
    if (!(index[d] == domain_.reduced_index[d])) return g_.Unsupported(n, "masked_scatter used at another index");
  }
  domain_.ordered = true;
  SMELT_ASSIGN_OR_RETURN(int keep, Eval(self, BroadcastIndex(*b_, index, g_.Sizes(g_.Out(n)), g_.Sizes(self)), guard));
  SMELT_ASSIGN_OR_RETURN(int m, Eval(mask, BroadcastIndex(*b_, index, g_.Sizes(g_.Out(n)), g_.Sizes(mask)), guard));
  m = Convert(m, DType::kBool);
  const int seen = b_->Reduce(ReduceKind::kSum, b_->Cast(m, DType::kInt64), -1, true);
  int at = I64(ScalarOp::kSub, seen, b_->ConstInt(DType::kInt64, 1));
  const int taken = b_->Op(ScalarOp::kSelect, DType::kInt64, m, at, b_->ConstInt(DType::kInt64, 0));
  at = b_->CheckIndex(taken, Size(Max(Product(g_.Sizes(source)), Expr(1))));
  SMELT_ASSIGN_OR_RETURN(Index from, Unflatten(b_->Dynamic(at), g_.Sizes(source)));
  SMELT_ASSIGN_OR_RETURN(int v, Eval(source, from, And(guard, m)));
  return Select(m, v, keep);
}

}  // namespace smelt::kernel
