// The meaning of view operators: applies core/tensor's descriptions of them to the arguments of a call.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/recent.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/view_op.h"

namespace smelt {
namespace {

// The arguments of a call, by their positions.
class CallArguments : public ViewArguments<SymbolicDecide> {
 public:
  explicit CallArguments(const OpCall& call) : call_(call), schema_(FindSchema(call.op())) {}

  // Returns whether a getter failed: its error names the operator.
  bool has_failed() const { return has_failed_; }

  bool IsNone(size_t i) const override { return call_.IsNone(Name(i)); }
  bool IsList(size_t i) const override { return call_.arg(static_cast<int>(i)).kind == OpArg::Kind::kIntList; }
  absl::StatusOr<Expr> Int(size_t i) const override { return Noted(call_.GetExpr(Name(i))); }
  absl::StatusOr<std::vector<Expr>> Ints(size_t i) const override { return Noted(call_.GetExprs(Name(i))); }
  absl::StatusOr<int64_t> Number(size_t i) const override { return Noted(call_.GetInt(Name(i))); }
  absl::StatusOr<std::vector<int64_t>> Numbers(size_t i) const override { return Noted(call_.GetInts(Name(i))); }
  absl::StatusOr<std::vector<Expr>> SizesOfTensor(size_t i) const override {
    SMELT_ASSIGN_OR_RETURN(TensorType t, Noted(call_.GetTensor(Name(i))));
    return *std::move(t.sizes);
  }
  absl::StatusOr<DType> AsDType(size_t i) const override {
    const std::optional<DType> t = call_.GetDType(Name(i));
    if (t) return *t;
    return Noted(
        absl::StatusOr<DType>(call_.Error(absl::StrCat("argument \"", Name(i), "\" is not a dtype that smelt has"))));
  }

 private:
  absl::string_view Name(size_t i) const {
    return schema_ != nullptr && i < schema_->arguments.size() ? absl::string_view(schema_->arguments[i].name) : "";
  }
  template <typename T>
  absl::StatusOr<T> Noted(absl::StatusOr<T> value) const {
    has_failed_ = has_failed_ || !value.ok();
    return value;
  }

  const OpCall& call_;
  const FunctionSchema* const schema_;
  mutable bool has_failed_ = false;
};

// Returns the error with the operator's name.
absl::Status Named(const OpCall& call, const absl::Status& error) {
  return WithCause(absl::Status(error.code(), call.Error(error.message()).message()), CauseOf(error));
}

// Returns null if the operator is not a view for every layout of its operand.
const ViewOp* FindPureView(OpName op) {
  const ViewOp* view = FindViewOp(op.full());
  return view != nullptr && view->symbolic != nullptr ? view : nullptr;
}

}  // namespace

namespace op_internal {
bool HasView(OpName op) { return FindPureView(op) != nullptr; }
}  // namespace op_internal

absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, SymbolicDecide& decide) {
  const ViewOp* view = op_internal::Recent<ViewOp>(call.op(), FindPureView);
  if (view == nullptr) return call.Unsupported("is not a view operator");
  const CallArguments arguments(call);
  absl::StatusOr<ViewResult<SymbolicDecide>> made =
      ApplyView(*view, arguments, ExprGeometry{base.sizes, base.strides, base.offset}, base.dtype, decide);
  if (!made.ok()) return arguments.has_failed() ? made.status() : Named(call, made.status());
  ViewMeaning out;
  out.is_list = made->is_list;
  for (auto& part : made->parts) {
    SymbolicGeometry g;
    g.dtype = part.dtype;
    g.sizes = std::move(part.geometry.sizes);
    g.strides = std::move(part.geometry.strides);
    g.offset = std::move(part.geometry.offset);
    out.outputs.push_back(std::move(g));
  }
  return out;
}

absl::StatusOr<ViewMeaning> BuildView(const OpCall& call, const SymbolicGeometry& base, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return BuildView(call, base, decide);
}

absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               SymbolicDecide& decide) {
  static const auto* const kViews =
      new absl::flat_hash_map<std::string, OpName>{{"aten::select_scatter", OpName::Get("aten::select.int")},
                                                   {"aten::slice_scatter", OpName::Get("aten::slice.Tensor")},
                                                   {"aten::diagonal_scatter", OpName::Get("aten::diagonal")},
                                                   {"aten::as_strided_scatter", OpName::Get("aten::as_strided")}};
  const auto of = kViews->find(call.op().name());
  if (of == kViews->end()) return call.Unsupported("replaces no view");
  SMELT_ASSIGN_OR_RETURN(TensorType src, call.GetTensor("src"));
  std::vector<OpArg> args = call.args();
  args.erase(args.begin() + 1);
  absl::StatusOr<ViewMeaning> view = BuildView(OpCall(of->second, std::move(args)), base, decide);
  if (!view.ok()) return Named(call, view.status());
  const std::vector<Expr>& want = view->outputs[0].sizes;
  bool fits = !src.sizes || src.sizes->size() == want.size();
  for (size_t d = 0; src.sizes && fits && d < want.size(); ++d) {
    const Expr& have = (*src.sizes)[d];
    fits = decide.Known(have, want[d]).value_or(true) && decide.Known(want[d], have).value_or(true);
  }
  if (!fits) return call.Error("expected src to have a size equal to the slice of self");
  return view;
}

absl::StatusOr<ViewMeaning> BuildScatteredView(const OpCall& call, const SymbolicGeometry& base,
                                               const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return BuildScatteredView(call, base, decide);
}

}  // namespace smelt
