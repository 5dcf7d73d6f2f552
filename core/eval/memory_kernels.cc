// Operators on memory: copies, set_, resize_, and operators that may return their argument itself.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::eval_internal {
namespace {

constexpr int64_t kContiguousFormat = 0, kPreserveFormat = 1, kChannelsLast = 2, kChannelsLast3d = 3;

// Returns the strides that a memory_format argument requests; preserve_format if it is absent.
absl::StatusOr<std::vector<int64_t>> StridesFor(const Call& c, const Tensor& t, int64_t format) {
  ConcreteDecide decide;
  const std::vector<int64_t> sizes(t.sizes().begin(), t.sizes().end());
  if (format == kPreserveFormat) return view_rules::PreservedStrides(decide, t.geometry());
  if (format == kChannelsLast || format == kChannelsLast3d) {
    if (t.rank() != (format == kChannelsLast ? 4 : 5))
      return c.Error(
          absl::StrCat("required rank ", format == kChannelsLast ? 4 : 5, " tensor to use channels_last format"));
    return view_rules::ChannelsLastStrides<ConcreteDecide>(decide, sizes);
  }
  return view_rules::ContiguousStrides<ConcreteDecide>(decide, sizes);
}

bool HasFormat(const Tensor& t, int64_t format) {
  ConcreteDecide decide;
  if (format == kContiguousFormat) return view_rules::IsContiguous(decide, t.geometry());
  if (format == kChannelsLast || format == kChannelsLast3d) return view_rules::IsChannelsLast(decide, t.geometry());
  return true;
}

absl::StatusOr<Values> Copy_(Call& c) {
  if (!c.op.op().overload().empty()) return c.Unsupported("a copy of a number");
  const Tensor self = c.T("self"), src = c.T("src");
  // A tensor copied to itself, under any name, does not change.
  if (self.IsSame(src) ||
      (self.storage() == src.storage() && self.dtype() == src.dtype() && self.geometry() == src.geometry()))
    return Values{c.args[0]};
  SMELT_RETURN_IF_ERROR(CheckNotExpanded(c, self));
  absl::StatusOr<Geometry> g = Broadcasted(src.geometry(), self.sizes());
  if (src.rank() > self.rank() || !g.ok())
    return c.Error(g.ok() ? "the source has more dims than the destination" : g.status().message());
  SMELT_RETURN_IF_ERROR(CheckOperand(c, self, src, OperandSharing::kNotPartly));
  SMELT_ASSIGN_OR_RETURN(const bool done, CopyInOrder(c, self, src));
  if (!done) SMELT_RETURN_IF_ERROR(CopyInto(self, src));
  return Values{c.args[0]};
}

absl::StatusOr<Values> Fill_(Call& c) {
  const Tensor self = c.T("self");
  // A single value is written: PyTorch accepts that it is written twice to the same place.
  if (c.Has("value") && c.Arg("value").IsTensor()) SMELT_RETURN_IF_ERROR(CheckNotExpanded(c, self));
  if (c.name() == "aten::zero_") {
    SMELT_RETURN_IF_ERROR(CopyInto(self, ScalarTensor(self.dtype(), EvalValue(int64_t{0}))));
  } else if (c.Arg("value").IsTensor()) {
    if (c.T("value").rank() > 0) return c.Error("fill_ only supports 0-dimension value tensor");
    // The value may be part of the written memory.
    SMELT_RETURN_IF_ERROR(CopyInto(self, CopyWithStrides(c.T("value"), {})));
  } else {
    SMELT_RETURN_IF_ERROR(CopyInto(self, ScalarTensor(self.dtype(), c.Arg("value"))));
  }
  return Values{c.args[0]};
}

absl::StatusOr<Values> Clone(Call& c) {
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesFor(c, self, c.I("memory_format", kPreserveFormat)));
  return Values{EvalValue(CopyWithStrides(self, strides))};
}

absl::StatusOr<Values> ContiguousCopy(Call& c) {
  return Values{EvalValue(CopyWithStrides(c.T("self"), ContiguousStridesOf(c.T("self").sizes())))};
}

absl::StatusOr<Values> ToCopy(Call& c) {
  const Tensor self = c.T("self");
  const DType dtype = c.op.GetDType("dtype").value_or(self.dtype());
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesFor(c, self, c.I("memory_format", kPreserveFormat)));
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, dtype, self.sizes(), strides));
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  return Values{EvalValue(out)};
}

// Returns the argument itself if it already has the format.
absl::StatusOr<Values> Contiguous(Call& c) {
  const Tensor self = c.T("self");
  const int64_t format = c.I("memory_format", kContiguousFormat);
  if (HasFormat(self, format)) return Values{c.args[0]};
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesFor(c, self, format));
  return Values{EvalValue(CopyWithStrides(self, strides))};
}

int64_t SuggestedFormat(const Tensor& t) {
  ConcreteDecide decide;
  if (!SuggestsChannelsLast<ConcreteDecide>(decide, t.sizes(), t.strides())) return kContiguousFormat;
  return t.rank() == 4 ? kChannelsLast : kChannelsLast3d;
}

absl::StatusOr<Values> To(Call& c) {
  const Tensor self = c.T("self");
  DType dtype = self.dtype();
  if (c.Has("other")) {
    dtype = c.T("other").dtype();
  } else if (c.Has("dtype")) {
    const std::optional<DType> asked = DTypeFromScalarType(c.I("dtype"));
    if (!asked) return c.Unsupported("a dtype that smelt does not have");
    dtype = *asked;
  }
  const int64_t format = c.I("memory_format", kPreserveFormat);
  if (dtype == self.dtype() && !c.B("copy") && (format == kPreserveFormat || SuggestedFormat(self) == format))
    return Values{c.args[0]};
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesFor(c, self, format));
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, dtype, self.sizes(), strides));
  SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Itself(Call& c) { return Values{c.args[0]}; }
// A new tensor over the same memory.
absl::StatusOr<Values> Alias(Call& c) { return Values{EvalValue(c.T("self").View(c.T("self").geometry()))}; }

absl::StatusOr<Values> ReshapeTo(Call& c, const std::vector<int64_t>& sizes) {
  const Tensor self = c.T("self");
  ConcreteDecide decide;
  absl::StatusOr<view_rules::ReshapeResult<ConcreteDecide>> r =
      view_rules::Reshape<ConcreteDecide>(decide, self.geometry(), sizes);
  if (!r.ok()) return c.Error(r.status().message());
  if (r->aliases) return Values{EvalValue(self.View(r->geometry))};
  Tensor copy = CopyWithStrides(self, ContiguousStridesOf(self.sizes()));
  return Values{EvalValue(copy.View(r->geometry))};
}
absl::StatusOr<Values> Reshape(Call& c) { return ReshapeTo(c, c.Ints("shape")); }
absl::StatusOr<Values> ReshapeAs(Call& c) {
  const Tensor other = c.T("other");
  return ReshapeTo(c, {other.sizes().begin(), other.sizes().end()});
}
absl::StatusOr<Values> Flatten(Call& c) {
  const Tensor self = c.T("self");
  const int64_t start = c.name() == "aten::ravel" ? 0 : c.I("start_dim", 0);
  const int64_t end = c.name() == "aten::ravel" ? -1 : c.I("end_dim", -1);
  SMELT_ASSIGN_OR_RETURN(int a, Dim(c, start, self.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, Dim(c, end, self.rank()));
  if (c.name() == "aten::ravel") {
    ConcreteDecide decide;
    if (!view_rules::IsContiguous(decide, self.geometry())) {
      const Tensor copy = CopyWithStrides(self, ContiguousStridesOf(self.sizes()));
      return Values{EvalValue(copy.View(Geometry::Contiguous({self.NumElements()})))};
    }
  } else if (self.rank() > 0 && a == b) {
    return Values{c.args[0]};
  }
  ConcreteDecide decide;
  auto sizes = view_rules::FlattenedSizes<ConcreteDecide>(
      decide, std::vector<int64_t>(self.sizes().begin(), self.sizes().end()), start, end);
  if (!sizes.ok()) return c.Error(sizes.status().message());
  return ReshapeTo(c, *sizes);
}

absl::Status Resize(const Call& c, Tensor self, const std::vector<int64_t>& sizes, int64_t format) {
  for (int64_t s : sizes) {
    if (s < 0) return c.Error("a negative size");
  }
  if (IsTooLarge(c, self.dtype(), sizes)) return c.Error("the tensor is too large");
  if (absl::MakeSpan(sizes) == self.sizes() && format == kContiguousFormat) return absl::OkStatus();
  Geometry g;
  g.sizes = sizes;
  g.offset = self.offset();
  const Tensor shape(self.storage(), self.dtype(), Geometry::Contiguous(sizes));
  SMELT_ASSIGN_OR_RETURN(g.strides, StridesFor(c, shape, format == kPreserveFormat ? kContiguousFormat : format));
  const int64_t need = g.Span().second * ItemSize(self.dtype());
  if (g.NumElements() > 0 && need > c.state->options.max_tensor_bytes) return c.Error("the tensor is too large");
  if (g.NumElements() > 0) SMELT_RETURN_IF_ERROR(self.storage()->GrowTo(need));
  self.SetGeometry(std::move(g));
  return absl::OkStatus();
}

absl::StatusOr<Values> Resize_(Call& c) {
  const bool like = c.name() == "aten::resize_as_";
  std::vector<int64_t> sizes = c.Ints("size");
  if (like) sizes.assign(c.T("the_template").sizes().begin(), c.T("the_template").sizes().end());
  int64_t format = c.I("memory_format", kContiguousFormat);
  SMELT_RETURN_IF_ERROR(Resize(c, c.T("self"), sizes, format));
  return Values{c.args[0]};
}

absl::StatusOr<Values> Set_(Call& c) {
  Tensor self = c.T("self");
  const std::string& overload = c.op.op().overload();
  if (overload.empty()) {
    self.SetStorage(Storage::Allocate(0));
    self.SetGeometry(Geometry{{0}, {1}, 0});
    return Values{c.args[0]};
  }
  if (overload != "source_Tensor" && overload != "source_Tensor_storage_offset")
    return c.Unsupported("set_ from a storage");
  const Tensor source = c.T("source");
  if (source.dtype() != self.dtype()) return c.Error("could not set tensor of one type to a tensor of another type");
  Geometry g = source.geometry();
  if (overload == "source_Tensor_storage_offset") {
    g.sizes = c.Ints("size");
    g.strides = c.Ints("stride");
    if (!source.geometry().IsContiguous()) return c.Error("passed in tensor to be used as storage must be contiguous");
    if (__builtin_add_overflow(source.offset(), c.I("storage_offset"), &g.offset)) return c.Error("a huge offset");
    if (IsTooLarge(c, source.dtype(), g.sizes)) return c.Error("the tensor is too large");
    if (g.strides.empty()) g.strides = ContiguousStridesOf(g.sizes);
    if (g.strides.size() != g.sizes.size()) return c.Error("as many strides as sizes are needed");
    for (size_t d = 0; d < g.sizes.size(); ++d) {
      if (g.sizes[d] < 0 || g.strides[d] < 0) return c.Error("a negative size or stride");
    }
  }
  if (!Tensor(source.storage(), source.dtype(), g).InBounds()) {
    // PyTorch grows a storage that is too small.
    const int64_t need = g.Span().second * ItemSize(source.dtype());
    if (g.offset < 0 || need > c.state->options.max_tensor_bytes) return c.Error("out of bounds of the storage");
    SMELT_RETURN_IF_ERROR(source.storage()->GrowTo(need));
  }
  self.SetStorage(source.storage());
  self.SetGeometry(std::move(g));
  return Values{c.args[0]};
}

absl::StatusOr<Values> SetFunctional(Call& c) {
  const Tensor self = c.T("self");
  Tensor copy = self.View(self.geometry());
  Values args = c.args;
  args[0] = EvalValue(copy);
  return Run(*c.state,
             OpName::Get(absl::StrCat("aten::set_", c.op.op().overload().empty() ? "" : ".", c.op.op().overload())),
             args);
}

}  // namespace

void AddMemoryKernels(KernelTable& t) {
  t["aten::copy_"] = Copy_;
  t["aten::fill_.Scalar"] = t["aten::fill_.Tensor"] = t["aten::zero_"] = Fill_;
  t["aten::clone"] = Clone;
  t["aten::lift_fresh_copy"] = t["aten::detach_copy"] = t["aten::alias_copy"] = ContiguousCopy;
  t["aten::_to_copy"] = ToCopy;
  t["aten::contiguous"] = Contiguous;
  t["aten::to.device"] = t["aten::to.dtype"] = t["aten::to.dtype_layout"] = t["aten::to.other"] = t["aten::type_as"] =
      To;
  t["aten::reshape"] = Reshape;
  t["aten::reshape_as"] = ReshapeAs;
  t["aten::flatten.using_ints"] = t["aten::ravel"] = Flatten;
  t["aten::resize_"] = t["aten::resize_as_"] = Resize_;
  t["aten::set_"] = t["aten::set_.source_Tensor"] = t["aten::set_.source_Tensor_storage_offset"] = Set_;
  t["aten::set.source_Tensor"] = SetFunctional;
  t["aten::detach_"] = t["aten::requires_grad_"] = t["aten::lift_fresh"] = t["aten::lift"] = Itself;
  t["aten::resolve_conj"] = t["aten::resolve_neg"] = Itself;
  t["aten::detach"] = t["aten::alias"] = t["aten::data"] = Alias;
}

}  // namespace smelt::eval_internal
