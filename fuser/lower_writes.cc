#include "smelt/fuser/lower_writes.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_indexing.h"

namespace smelt::kernel {
namespace {

// One element of the memory that is written to, and what becomes of it.
struct Write {
  enum Mode { kSet, kAdd, kMul, kMin, kMax } mode = kSet;
  Index at;
  int value = -1;
};

// Returns the index of the k-th loop that runs in order.
Affine Ordered(Lowering& l, size_t k) {
  const Index& reduced = l.domain().reduced_index;
  return reduced.empty() ? l.builder().Zero() : reduced[k];
}

absl::StatusOr<Write::Mode> ScatterMode(Lowering& l, NodeId n) {
  Group& group = l.group();
  const Node& node = group.node(n);
  if (node.inputs.size() <= 4) return ActionName(node) == "scatter_add" ? Write::kAdd : Write::kSet;
  const auto c = GetConstant(group.graph(), node.inputs[4]);
  const auto* reduce = c ? std::get_if<std::string>(&*c) : nullptr;
  if (reduce == nullptr) return group.Unsupported(n, "a reduction that is not a constant");
  if (node.inputs.size() > 5) {
    SMELT_ASSIGN_OR_RETURN(bool include, group.BoolInput(n, 5));
    if (!include) return group.Unsupported(n, "include_self=False");
  }
  if (*reduce == "add" || *reduce == "sum") return Write::kAdd;
  if (*reduce == "multiply" || *reduce == "prod") return Write::kMul;
  if (*reduce == "amin") return Write::kMin;
  if (*reduce == "amax") return Write::kMax;
  return group.Unsupported(n, absl::StrCat("the reduction ", *reduce));
}

// self, dim, index, src or value, and for scatter_reduce: reduce, include_self.
absl::StatusOr<Write> ScatterWrite(Lowering& l, NodeId n, DType t) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const Node& node = group.node(n);
  const std::vector<Expr>& self = group.Sizes(node.inputs[0]);
  const std::vector<Expr>& sizes = group.Sizes(node.inputs[2]);
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.mode, ScatterMode(l, n));
  if (!sizes.empty() && !self.empty() && sizes.size() != self.size()) {
    // Without indices, which may be of any rank, nothing is written.
    w.at.assign(self.size(), builder.Zero());
    w.value = builder.Const(t, 0);
    return w;
  }
  SMELT_ASSIGN_OR_RETURN(int dim, group.ActionDim(n, static_cast<int>(sizes.size())));
  Index index;
  size_t p = 0;
  for (int k = 0; k < static_cast<int>(sizes.size()); ++k) {
    index.push_back(k == dim ? Ordered(l, 0) : l.domain().parallel_index[p++]);
  }
  SMELT_ASSIGN_OR_RETURN(int i, l.Eval(node.inputs[2], index, -1));
  if (sizes.empty() && !self.empty()) {
    w.at = {builder.Dynamic(CheckedIndex(l, i, self[0], false, -1))};
  } else if (!self.empty()) {
    w.at = index;
    w.at[dim] = builder.Dynamic(CheckedIndex(l, i, self[dim], false, -1));
  }
  if (group.value(node.inputs[3]).type.IsTensor()) {
    Index from = index;
    from.resize(group.Sizes(node.inputs[3]).size(), builder.Zero());
    SMELT_ASSIGN_OR_RETURN(w.value, l.Eval(node.inputs[3], from, -1));
  } else {
    SMELT_ASSIGN_OR_RETURN(w.value, l.ScalarInput(n, node.inputs[3], t));
  }
  if (self.empty()) w.value = CheckedAlongScalar(l, i, false, -1, w.value);
  return w;
}

// self, indices, values, accumulate.
absl::StatusOr<Write> IndexPutWrite(Lowering& l, NodeId n) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const Node& node = group.node(n);
  const std::vector<Expr>& self = group.Sizes(node.inputs[0]);
  SMELT_ASSIGN_OR_RETURN(IndexList indices, group.IndicesOf(n, node.inputs[0]));
  // The index into the values: the indices' dims in their place, and whole dims around them.
  Index index;
  std::vector<Expr> sizes;
  for (size_t d = 0; d < self.size(); ++d) {
    if (indices.at[d].valid()) continue;
    index.push_back(l.domain().parallel_index[sizes.size()]);
    sizes.push_back(self[d]);
  }
  Index which;
  for (size_t k = 0; k < indices.sizes.size(); ++k) which.push_back(Ordered(l, k));
  index.insert(index.begin() + indices.first, which.begin(), which.end());
  sizes.insert(sizes.begin() + indices.first, indices.sizes.begin(), indices.sizes.end());
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.at, IndexedAt(l, indices, self, index, -1));
  const std::vector<Expr>& s = group.Sizes(node.inputs[2]);
  if (s.size() > sizes.size()) return group.Unsupported(n, "values of higher rank than what they are put into");
  SMELT_ASSIGN_OR_RETURN(w.value, l.Eval(node.inputs[2], BroadcastIndex(builder, index, sizes, s), -1));
  SMELT_ASSIGN_OR_RETURN(bool accumulate, group.BoolInput(n, 3));
  if (accumulate) w.mode = Write::kAdd;
  return w;
}

// self, index, source, accumulate.
absl::StatusOr<Write> PutWrite(Lowering& l, NodeId n) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const Node& node = group.node(n);
  const std::vector<Expr>& self = group.Sizes(node.inputs[0]);
  const std::vector<Expr>& sizes = group.Sizes(node.inputs[1]);
  Index index;
  for (size_t k = 0; k < sizes.size(); ++k) index.push_back(Ordered(l, k));
  SMELT_ASSIGN_OR_RETURN(int i, l.Eval(node.inputs[1], index, -1));
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.at, l.Unflatten(builder.Dynamic(CheckedIndex(l, i, Product(self), true, -1)), self));
  // The source has as many elements, in any shape.
  const std::vector<Expr>& source = group.Sizes(node.inputs[2]);
  if (source != sizes) {
    SMELT_ASSIGN_OR_RETURN(index, l.Unflatten(l.Flatten(index, sizes), source));
  }
  SMELT_ASSIGN_OR_RETURN(w.value, l.Eval(node.inputs[2], index, -1));
  if (self.empty()) w.value = CheckedAlongScalar(l, i, true, -1, w.value);
  SMELT_ASSIGN_OR_RETURN(bool accumulate, group.BoolInput(n, 3));
  if (accumulate) w.mode = Write::kAdd;
  return w;
}

// self, dim, index, source or value, and for index_add: alpha.
absl::StatusOr<Write> AlongDimWrite(Lowering& l, NodeId n, DType t) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const Node& node = group.node(n);
  const std::string name = ActionName(node);
  const bool fill = name == "index_fill";
  const std::vector<Expr>& self = group.Sizes(node.inputs[0]);
  SMELT_ASSIGN_OR_RETURN(int dim, group.ActionDim(n, static_cast<int>(self.size())));
  Index where;
  if (!group.Sizes(node.inputs[2]).empty()) where.push_back(Ordered(l, 0));
  SMELT_ASSIGN_OR_RETURN(int i, l.Eval(node.inputs[2], where, -1));
  Write w;
  Index from;
  size_t p = 0;
  for (int k = 0; k < static_cast<int>(self.size()); ++k) {
    w.at.push_back(k == dim ? builder.Dynamic(CheckedIndex(l, i, self[k], fill, -1)) : l.domain().parallel_index[p++]);
    from.push_back(k == dim ? Ordered(l, 0) : w.at.back());
  }
  if (!group.value(node.inputs[3]).type.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(w.value, l.ScalarInput(n, node.inputs[3], t));
  } else if (fill) {
    SMELT_ASSIGN_OR_RETURN(w.value,
                           l.Eval(node.inputs[3], Index(group.Sizes(node.inputs[3]).size(), builder.Zero()), -1));
  } else {
    from.resize(group.Sizes(node.inputs[3]).size(), builder.Zero());
    SMELT_ASSIGN_OR_RETURN(w.value, l.Eval(node.inputs[3], from, -1));
  }
  if (self.empty()) w.value = CheckedAlongScalar(l, i, fill, -1, w.value);
  if (name != "index_add") return w;
  w.mode = Write::kAdd;
  const auto alpha = node.inputs.size() > 4 ? GetConstant(group.graph(), node.inputs[4]) : std::nullopt;
  const auto* one = alpha ? std::get_if<int64_t>(&*alpha) : nullptr;
  if (node.inputs.size() > 4 && (one == nullptr || *one != 1)) {
    // PyTorch rounds alpha to the dtype first.
    const DType c = OpMathType(t);
    SMELT_ASSIGN_OR_RETURN(int a, l.ScalarInput(n, node.inputs[4], t));
    const int converted = l.Convert(a, c);
    w.value = builder.Op(ScalarOp::kMul, c, l.Convert(w.value, c), converted);
  }
  return w;
}

absl::StatusOr<Write> WriteOf(Lowering& l, NodeId n, DType t) {
  Group& group = l.group();
  const std::string name = ActionName(group.node(n));
  if (absl::StartsWith(name, "scatter")) return ScatterWrite(l, n, t);
  if (absl::StrContains(name, "index_put")) return IndexPutWrite(l, n);
  if (name == "put") return PutWrite(l, n);
  return AlongDimWrite(l, n, t);
}

}  // namespace

absl::Status EmitIndexedWrite(Lowering& l, const Root& r) {
  Builder& builder = l.builder();
  const DType t = r.target.dtype;
  // No element is written, and no index wrong, if there are no indices.
  builder.SetEach(true);
  SMELT_ASSIGN_OR_RETURN(Write w, WriteOf(l, r.action, t));
  if (w.mode != Write::kSet) {
    const DType c = t == DType::kBool ? DType::kBool : OpMathType(t);
    const int old = l.Convert(l.LoadFrom(r, w.at), c);
    w.value = l.Convert(w.value, c);
    ScalarOp op = ScalarOp::kAdd;
    switch (w.mode) {
      case Write::kSet:
      case Write::kAdd:
        op = t == DType::kBool ? ScalarOp::kOr : ScalarOp::kAdd;
        break;
      case Write::kMul:
        op = t == DType::kBool ? ScalarOp::kAnd : ScalarOp::kMul;
        break;
      case Write::kMin:
        op = ScalarOp::kMin;
        break;
      case Write::kMax:
        op = ScalarOp::kMax;
        break;
    }
    w.value = builder.Op(op, c, old, w.value);
  }
  l.StoreTo(r, w.at, l.Convert(w.value, t));
  builder.SetEach(false);
  return absl::OkStatus();
}

}  // namespace smelt::kernel
