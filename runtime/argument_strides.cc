#include "smelt/runtime/argument_strides.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/memory_limit.h"

namespace smelt {

ArgumentStrides::Layouts& ArgumentStrides::LayoutsOf(absl::Span<const Datum> args, const Signature& call) {
  // Layouts of earlier calls that are remembered. Beyond it the least recently used ones are dropped.
  constexpr size_t kMost = 16;
  // The symbols determine the sizes, and the strides of the export.
  key_.clear();
  for (size_t k = 0; k < call.symbols().size(); ++k) key_.push_back(call.symbol_known()[k] ? call.symbols()[k] : 0);
  for (const Datum& arg : args) {
    if (arg.IsTensor()) key_.insert(key_.end(), arg.tensor().strides().begin(), arg.tensor().strides().end());
    if (arg.IsInt()) key_.push_back(arg.as_int());
  }
  const auto it = std::find_if(known_.begin(), known_.end(), [&](const auto& known) { return known->key == key_; });
  if (it != known_.end()) {
    std::rotate(known_.begin(), it, it + 1);
    return *known_.front();
  }
  if (known_.size() >= kMost) known_.pop_back();
  auto made = std::make_unique<Layouts>();
  made->key = key_;
  made->fits.resize(program_.plans().size());
  return **known_.insert(known_.begin(), std::move(made));
}

bool ArgumentStrides::HasExportedStrides(int arg, const Tensor& t, const Signature& call) const {
  const fb::ArgDefT& def = *bundle_.args[arg];
  if (call.extents()[arg].low == call.extents()[arg].high) return true;  // empty: strides mean nothing
  for (size_t d = 0; d < def.strides.size(); ++d) {
    if (t.sizes()[d] == 1 && !def.strides_of_ones) continue;
    if (!call.exprs().known[def.strides[d]] || call.exprs().value[def.strides[d]] != t.strides()[d]) return false;
  }
  return true;
}

bool CopyIsAsGood(const Tensor& t, absl::Span<const int64_t> exported, bool in_order) {
  int previous = -1;  // the dim of several elements with the next larger exported stride
  absl::InlinedVector<int, 8> dims;
  for (size_t d = 0; d < exported.size(); ++d) {
    if (t.sizes()[d] != 1) dims.push_back(static_cast<int>(d));
  }
  std::sort(dims.begin(), dims.end(), [&](int a, int b) { return exported[a] > exported[b]; });
  // Memory that overlaps itself (an expanded example) holds no copy of other elements.
  int64_t reach = 0;
  for (size_t k = dims.size(); k-- > 0;) {
    const int64_t stride = exported[dims[k]];
    int64_t further;
    if (stride <= reach || __builtin_mul_overflow(t.sizes()[dims[k]] - 1, stride, &further) ||
        __builtin_add_overflow(reach, further, &reach))
      return false;
  }
  if (!in_order) return true;
  for (int d : dims) {
    // Among equal strides PyTorch uses more than their order.
    if (previous >= 0 && (exported[previous] == exported[d] || t.strides()[previous] <= t.strides()[d])) return false;
    previous = d;
  }
  return dims.size() < 2 || t.strides()[dims.back()] > 0;
}

bool ArgumentStrides::MayBeCopied(int arg, const Tensor& t, const Signature& call, const ExecutablePlan& plan) const {
  const bool by_rule = !plan.plan->result_rule.empty();
  if (!plan.may_be_copied[arg] || (bundle_.args[arg]->strides_of_ones && !by_rule)) return false;
  absl::InlinedVector<int64_t, 8> exported;
  for (int e : bundle_.args[arg]->strides) {
    if (!call.exprs().known[e]) return false;
    exported.push_back(call.exprs().value[e]);
  }
  const bool in_order =
      plan.plan->other_strides != fb::OtherStrides::Copied && !bundle_.args[arg]->any_strides && !by_rule;
  return CopyIsAsGood(t, exported, in_order);
}

absl::Status ArgumentStrides::Check(absl::Span<const Datum> args, const Signature& call, int plan) {
  if (call_ == nullptr) call_ = &LayoutsOf(args, call);
  Fit& fit = call_->fits[plan];
  if (!fit.is_known) {
    Fit found;
    found.status = Find(args, call, program_.plans()[plan], &found);
    found.is_known = true;
    fit = std::move(found);
  }
  fit_ = &fit;
  return fit.status;
}

absl::Status ArgumentStrides::Find(absl::Span<const Datum> args, const Signature& call, const ExecutablePlan& plan,
                                   Fit* fit) const {
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    const fb::ArgDefT& def = *bundle_.args[i];
    const std::string& name = program_.args()[i].path;
    if (def.kind != fb::ArgKind::Tensor) continue;
    const Tensor& t = args[i].tensor();
    if (HasExportedStrides(static_cast<int>(i), t, call)) continue;
    if (!plan.plan->needs_exported_strides) return LayOutResults(args, plan, fit);
    if (MayBeCopied(static_cast<int>(i), t, call, plan)) {
      fit->to_copy.push_back(static_cast<int>(i));
      continue;
    }
    std::vector<std::string> want;
    for (int e : def.strides) want.push_back(call.exprs().known[e] ? absl::StrCat(call.exprs().value[e]) : "?");
    return WithCause(absl::InvalidArgumentError(
                         absl::StrCat("argument \"", name, "\" has strides [", absl::StrJoin(t.strides(), ", "),
                                      "], expected those of the export: [", absl::StrJoin(want, ", "),
                                      "] (a bundle compiled with --alias-variants=all takes any)")),
                     Cause::kOtherStrides);
  }
  if (!plan.plan->needs_exported_strides) {
    return WithCause(
        absl::InvalidArgumentError("the arguments have the strides of the export, for which there is a plan"),
        Cause::kOtherStrides);
  }
  const bool same = fit->to_copy.empty() || plan.plan->result_rule.empty();
  return same ? absl::OkStatus() : LayOutResults(args, plan, fit);
}

absl::Status ArgumentStrides::LayOutResults(absl::Span<const Datum> args, const ExecutablePlan& plan, Fit* fit) const {
  std::vector<LayoutInput> inputs;
  for (const Datum& arg : args) {
    LayoutInput& input = inputs.emplace_back();
    if (arg.IsTensor()) input.geometry = arg.tensor().geometry();
    if (arg.IsInt()) input.number = arg.as_int();
  }
  absl::StatusOr<std::vector<EvaluatedLayout>> layouts = EvaluateLayoutRule(plan.plan->result_rule, inputs);
  if (layouts.ok() && layouts->size() == bundle_.outputs.size()) {
    fit->result_layouts = *std::move(layouts);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("arguments have other strides than at export, and how PyTorch lays out the results is not known: ",
                   layouts.ok() ? "the rule is for other results" : layouts.status().message()));
}

absl::Status ArgumentStrides::MoveToLayout(const EvaluatedLayout& layout, Datum* out) const {
  if (layout.kind == LayoutResult::kUnknown || !out->IsTensor() || !out->tensor().defined()) return absl::OkStatus();
  const Tensor& t = out->tensor();
  const std::vector<int64_t> strides =
      layout.kind == LayoutResult::kContiguous ? Geometry::Contiguous(t.geometry().sizes).strides : layout.strides;
  if (strides == t.geometry().strides || t.NumElements() == 0) return absl::OkStatus();
  const int64_t reach = ReachOfLayout(t.sizes(), strides);
  if (reach < 0) return absl::InternalError("a result has other dims than its layout rule is for");
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(reach, ItemSize(t.dtype())));
  SMELT_ASSIGN_OR_RETURN(Tensor moved, device_->NewTensor(t.dtype(), t.sizes(), strides));
  SMELT_RETURN_IF_ERROR(device_->CopyElements(moved, t));
  *out = Datum(std::move(moved));
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const Datum>> ArgumentStrides::InExportedStrides(absl::Span<const Datum> args,
                                                                           const Signature& call) {
  if (fit_ == nullptr || fit_->to_copy.empty()) return args;
  copied_args_.assign(args.begin(), args.end());
  copies_.resize(args.size());
  for (int i : fit_->to_copy) {
    const Tensor& t = args[i].tensor();
    std::vector<int64_t> strides;
    for (int e : bundle_.args[i]->strides) strides.push_back(call.exprs().value[e]);
    Tensor& copy = copies_[i];
    if (!copy.defined() || copy.sizes() != t.sizes() || copy.strides() != absl::MakeConstSpan(strides)) {
      SMELT_ASSIGN_OR_RETURN(copy, device_->NewTensor(t.dtype(), t.sizes(), strides));
    }
    SMELT_RETURN_IF_ERROR(device_->CopyElements(copy, t));
    copied_args_[i] = copy;
  }
  return absl::MakeConstSpan(copied_args_);
}

}  // namespace smelt
