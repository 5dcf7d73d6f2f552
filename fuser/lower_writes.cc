#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

absl::Status Lowering::EmitAction(const Root& r) {
  const DType t = r.target.dtype;
  // No element is written, and no index wrong, if there are no indices.
  b_->SetEach(true);
  SMELT_ASSIGN_OR_RETURN(Write w, WriteOf(r.action, t));
  if (w.mode != Write::kSet) {
    const DType c = t == DType::kBool ? DType::kBool : OpMathType(t);
    const int old = Convert(LoadFrom(r, w.at), c);
    w.value = Convert(w.value, c);
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
    w.value = b_->Op(op, c, old, w.value);
  }
  StoreTo(r, w.at, Convert(w.value, t));
  b_->SetEach(false);
  return absl::OkStatus();
}

absl::StatusOr<Lowering::Write> Lowering::WriteOf(NodeId n, DType t) {
  const std::string name = ActionName(g_.node(n));
  if (absl::StartsWith(name, "scatter")) return ScatterWrite(n, t);
  if (absl::StrContains(name, "index_put")) return IndexPutWrite(n);
  if (name == "put") return PutWrite(n);
  return AlongDimWrite(n, t);
}

// self, dim, index, src or value, and for scatter_reduce: reduce, include_self.
absl::StatusOr<Lowering::Write> Lowering::ScatterWrite(NodeId n, DType t) {
  const Node& node = g_.node(n);
  const std::vector<Expr>& self = g_.Sizes(node.inputs[0]);
  const std::vector<Expr>& sizes = g_.Sizes(node.inputs[2]);
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.mode, ScatterMode(n));
  if (!sizes.empty() && !self.empty() && sizes.size() != self.size()) {
    // Without indices, which may be of any rank, nothing is written.
    w.at.assign(self.size(), b_->Zero());
    w.value = b_->Const(t, 0);
    return w;
  }
  SMELT_ASSIGN_OR_RETURN(int dim, g_.ActionDim(n, static_cast<int>(sizes.size())));
  Index index;
  size_t p = 0;
  for (int k = 0; k < static_cast<int>(sizes.size()); ++k) {
    index.push_back(k == dim ? Ordered(0) : domain_.parallel_index[p++]);
  }
  SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[2], index, -1));
  if (sizes.empty() && !self.empty()) {
    w.at = {b_->Dynamic(Checked(i, self[0], false, -1))};
  } else if (!self.empty()) {
    w.at = index;
    w.at[dim] = b_->Dynamic(Checked(i, self[dim], false, -1));
  }
  if (g_.value(node.inputs[3]).type.IsTensor()) {
    Index from = index;
    from.resize(g_.Sizes(node.inputs[3]).size(), b_->Zero());
    SMELT_ASSIGN_OR_RETURN(w.value, Eval(node.inputs[3], from, -1));
  } else {
    SMELT_ASSIGN_OR_RETURN(w.value, ScalarInput(n, node.inputs[3], t));
  }
  if (self.empty()) w.value = CheckedAlongScalar(i, false, -1, w.value);
  return w;
}

absl::StatusOr<Lowering::Write::Mode> Lowering::ScatterMode(NodeId n) const {
  const Node& node = g_.node(n);
  if (node.inputs.size() <= 4) return ActionName(node) == "scatter_add" ? Write::kAdd : Write::kSet;
  const auto c = GetConstant(g_.graph(), node.inputs[4]);
  const auto* reduce = c ? std::get_if<std::string>(&*c) : nullptr;
  if (reduce == nullptr) return g_.Unsupported(n, "a reduction that is not a constant");
  if (node.inputs.size() > 5) {
    SMELT_ASSIGN_OR_RETURN(bool include, g_.BoolInput(n, 5));
    if (!include) return g_.Unsupported(n, "include_self=False");
  }
  if (*reduce == "add" || *reduce == "sum") return Write::kAdd;
  if (*reduce == "multiply" || *reduce == "prod") return Write::kMul;
  if (*reduce == "amin") return Write::kMin;
  if (*reduce == "amax") return Write::kMax;
  return g_.Unsupported(n, absl::StrCat("the reduction ", *reduce));
}

// self, indices, values, accumulate.
absl::StatusOr<Lowering::Write> Lowering::IndexPutWrite(NodeId n) {
  const Node& node = g_.node(n);
  const std::vector<Expr>& self = g_.Sizes(node.inputs[0]);
  SMELT_ASSIGN_OR_RETURN(IndexList indices, g_.IndicesOf(n, node.inputs[0]));
  // The index into the values: the indices' dims in their place, and whole dims around them.
  Index index;
  std::vector<Expr> sizes;
  for (size_t d = 0; d < self.size(); ++d) {
    if (indices.at[d].valid()) continue;
    index.push_back(domain_.parallel_index[sizes.size()]);
    sizes.push_back(self[d]);
  }
  Index which;
  for (size_t k = 0; k < indices.sizes.size(); ++k) which.push_back(Ordered(k));
  index.insert(index.begin() + indices.first, which.begin(), which.end());
  sizes.insert(sizes.begin() + indices.first, indices.sizes.begin(), indices.sizes.end());
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.at, IndexedAt(indices, self, index, -1));
  const std::vector<Expr>& s = g_.Sizes(node.inputs[2]);
  if (s.size() > sizes.size()) return g_.Unsupported(n, "values of higher rank than what they are put into");
  SMELT_ASSIGN_OR_RETURN(w.value, Eval(node.inputs[2], BroadcastIndex(*b_, index, sizes, s), -1));
  SMELT_ASSIGN_OR_RETURN(bool accumulate, g_.BoolInput(n, 3));
  if (accumulate) w.mode = Write::kAdd;
  return w;
}

// self, index, source, accumulate.
absl::StatusOr<Lowering::Write> Lowering::PutWrite(NodeId n) {
  const Node& node = g_.node(n);
  const std::vector<Expr>& self = g_.Sizes(node.inputs[0]);
  const std::vector<Expr>& sizes = g_.Sizes(node.inputs[1]);
  Index index;
  for (size_t k = 0; k < sizes.size(); ++k) index.push_back(Ordered(k));
  SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[1], index, -1));
  Write w;
  SMELT_ASSIGN_OR_RETURN(w.at, Unflatten(b_->Dynamic(Checked(i, Product(self), true, -1)), self));
  // The source has as many elements, in any shape.
  const std::vector<Expr>& source = g_.Sizes(node.inputs[2]);
  if (source != sizes) {
    SMELT_ASSIGN_OR_RETURN(index, Unflatten(Flatten(index, sizes), source));
  }
  SMELT_ASSIGN_OR_RETURN(w.value, Eval(node.inputs[2], index, -1));
  if (self.empty()) w.value = CheckedAlongScalar(i, true, -1, w.value);
  SMELT_ASSIGN_OR_RETURN(bool accumulate, g_.BoolInput(n, 3));
  if (accumulate) w.mode = Write::kAdd;
  return w;
}

// self, dim, index, source or value, and for index_add: alpha.
absl::StatusOr<Lowering::Write> Lowering::AlongDimWrite(NodeId n, DType t) {
  const Node& node = g_.node(n);
  const std::string name = ActionName(node);
  const bool fill = name == "index_fill";
  const std::vector<Expr>& self = g_.Sizes(node.inputs[0]);
  SMELT_ASSIGN_OR_RETURN(int dim, g_.ActionDim(n, static_cast<int>(self.size())));
  Index where;
  if (!g_.Sizes(node.inputs[2]).empty()) where.push_back(Ordered(0));
  SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[2], where, -1));
  Write w;
  Index from;
  size_t p = 0;
  for (int k = 0; k < static_cast<int>(self.size()); ++k) {
    w.at.push_back(k == dim ? b_->Dynamic(Checked(i, self[k], fill, -1)) : domain_.parallel_index[p++]);
    from.push_back(k == dim ? Ordered(0) : w.at.back());
  }
  if (!g_.value(node.inputs[3]).type.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(w.value, ScalarInput(n, node.inputs[3], t));
  } else if (fill) {
    SMELT_ASSIGN_OR_RETURN(w.value, Eval(node.inputs[3], Index(g_.Sizes(node.inputs[3]).size(), b_->Zero()), -1));
  } else {
    from.resize(g_.Sizes(node.inputs[3]).size(), b_->Zero());
    SMELT_ASSIGN_OR_RETURN(w.value, Eval(node.inputs[3], from, -1));
  }
  if (self.empty()) w.value = CheckedAlongScalar(i, fill, -1, w.value);
  if (name != "index_add") return w;
  w.mode = Write::kAdd;
  const auto alpha = node.inputs.size() > 4 ? GetConstant(g_.graph(), node.inputs[4]) : std::nullopt;
  const auto* one = alpha ? std::get_if<int64_t>(&*alpha) : nullptr;
  if (node.inputs.size() > 4 && (one == nullptr || *one != 1)) {
    // PyTorch rounds alpha to the dtype first.
    const DType c = OpMathType(t);
    SMELT_ASSIGN_OR_RETURN(int a, ScalarInput(n, node.inputs[4], t));
    const int converted = Convert(a, c);
    w.value = b_->Op(ScalarOp::kMul, c, Convert(w.value, c), converted);
  }
  return w;
}

}  // namespace smelt::kernel
