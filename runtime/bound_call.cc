#include "smelt/runtime/bound_call.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/bind.h"
#include "smelt/runtime/kernel_reports.h"

namespace smelt {

Register Register::Float(double v) {
  Register r;
  r.d = v;
  r.i = v >= -9.2233720368547758e18 && v < 9.2233720368547758e18 ? static_cast<int64_t>(v) : INT64_MIN;
  r.is_float = true;
  return r;
}

StridedSpan BoundCall::SpanOf(int v) const {
  const BoundView& view = bound->views[v];
  return {Address(v), static_cast<DType>(plan->plan->views[v]->dtype), absl::Span<const int64_t>(view.sizes, view.rank),
          absl::Span<const int64_t>(view.strides, view.rank)};
}

Geometry BoundCall::GeometryOf(int v) const {
  const BoundView& view = bound->views[v];
  const fb::ViewT& def = *plan->plan->views[v];
  Geometry g;
  g.sizes.assign(view.sizes, view.sizes + view.rank);
  g.strides.assign(view.strides, view.strides + view.rank);
  g.offset = view.offset + slots.origin[def.slot] / ItemSize(static_cast<DType>(def.dtype));
  return g;
}

PlacedGeometry BoundCall::PlacedView(int view) const {
  const fb::ViewT& v = *plan->plan->views[view];
  PlacedGeometry p{GeometryOf(view), slots.base[v.slot], static_cast<DType>(v.dtype)};
  p.geometry.offset = bound->views[view].offset;
  return p;
}

absl::StatusOr<int64_t> BoundCall::ExprValue(int e) const {
  if (bound->values.known[e]) return bound->values.value[e];
  return absl::FailedPreconditionError("a size cannot be computed for these arguments (overflow or division by zero)");
}

absl::Status BoundCall::SetSymbolFromData(int symbol, int64_t value) {
  const fb::SymbolDefT& s = *program.bundle().symbols[symbol];
  if (value < s.min || value > s.max) {
    return absl::FailedPreconditionError(
        absl::StrCat("a size computed from data is ", value, ", expected ",
                     s.max == INT64_MAX ? absl::StrCat("at least ", s.min) : absl::StrCat(s.min, " to ", s.max)));
  }
  signature.SetSymbol(symbol, value);
  EvaluateExprs(program.bundle().exprs, plan->late_exprs, signature.symbols(), signature.symbol_known(),
                &bound->values);
  return absl::OkStatus();
}

std::string BoundCall::SlotName(int slot) const {
  const fb::SlotT& s = *plan->plan->slots[slot];
  if (s.kind == fb::SlotKind::ArgStorage)
    return absl::StrCat("argument \"", program.args()[plan->outer_of_inner[s.index]].path, "\"");
  return absl::StrCat("slot ", slot);
}

std::shared_ptr<Storage> BoundCall::StorageOf(int slot) const {
  const fb::SlotT& s = *plan->plan->slots[slot];
  if (s.kind == fb::SlotKind::StateStorage) return memory.states.storages()[s.index];
  return slots.storage[slot];
}

absl::Status BoundCall::UseView(int v) {
  const fb::ViewT& def = *plan->plan->views[v];
  BoundView& view = bound->views[v];
  if (plan->memory.view_late[v]) {
    PlanBinder::BindView(*plan, v, bound);
  } else if (view.state == BoundView::kGood) {
    return absl::OkStatus();
  }
  if (slots.base[def.slot] == nullptr && view.elements != 0) {
    return absl::InternalError(absl::StrCat("view ", v, " lies in ", SlotName(def.slot), ", which is not allocated"));
  }
  const int64_t bytes = bound->slot_bytes[def.slot];
  if (view.state == BoundView::kGood && view.elements != 0) {
    const int64_t end = bytes >= 0 ? bytes : StorageOf(def.slot)->bytes() - slots.origin[def.slot];
    const int64_t begin = bytes >= 0 ? 0 : -slots.origin[def.slot];
    if (view.low < begin || view.high > end) view.state = BoundView::kBad;
  }
  if (view.state == BoundView::kGood) return absl::OkStatus();
  std::vector<std::string> sizes;
  for (int e : def.sizes) sizes.push_back(bound->values.known[e] ? absl::StrCat(bound->values.value[e]) : "?");
  return absl::FailedPreconditionError(
      absl::StrCat("a view of [", absl::StrJoin(sizes, ", "), "] at ",
                   bound->values.known[def.offset] ? absl::StrCat(bound->values.value[def.offset]) : "?",
                   " does not lie in ", SlotName(def.slot)));
}

absl::Status BoundCall::UseScalar(int v) {
  SMELT_RETURN_IF_ERROR(UseView(v));
  return bound->views[v].elements < 1 ? absl::InternalError("a scalar is read from an empty view") : absl::OkStatus();
}

absl::StatusOr<Tensor> BoundCall::TensorOf(int v) {
  SMELT_RETURN_IF_ERROR(UseView(v));
  const fb::ViewT& view = *plan->plan->views[v];
  Geometry g = GeometryOf(v);
  const int64_t item = ItemSize(static_cast<DType>(view.dtype));
  if (slots.origin[view.slot] % item != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(SlotName(view.slot), " is not aligned for ", Name(static_cast<DType>(view.dtype))));
  }
  return Tensor(StorageOf(view.slot), static_cast<DType>(view.dtype), std::move(g));
}

absl::Status BoundCall::Allocate(int slot) {
  const fb::SlotT& s = *plan->plan->slots[slot];
  SMELT_ASSIGN_OR_RETURN(const int64_t bytes, ExprValue(s.bytes));
  if (bytes < 0) return absl::InternalError(absl::StrCat("slot ", slot, " has ", bytes, " bytes"));
  slots.storage[slot].reset();  // of an earlier trip through a loop
  SMELT_ASSIGN_OR_RETURN(slots.storage[slot], memory.allocator.Allocate(bytes));
  slots.base[slot] = slots.storage[slot]->address();
  slots.origin[slot] = 0;
  bound->slot_bytes[slot] = bytes;
  return absl::OkStatus();
}

absl::StatusOr<StridedSpan> BoundCall::ReadOnHost(int view, std::vector<char>* bytes) {
  StridedSpan span = SpanOf(view);
  const BoundView& v = bound->views[view];
  if (memory.on_host || v.elements == 0) return span;
  // The data of a call that is refused mean nothing.
  SMELT_RETURN_IF_ERROR(CheckStatusWords());
  bytes->resize(static_cast<size_t>(v.high - v.low));
  const char* const base = slots.base[plan->plan->views[view]->slot];
  SMELT_RETURN_IF_ERROR(memory.device->ToHost(bytes->data(), base + v.low, v.high - v.low));
  span.data = bytes->data() + (v.offset * ItemSize(span.dtype) - v.low);
  return span;
}

absl::Status BoundCall::WriteBack(int view, std::vector<char>* bytes) {
  const BoundView& v = bound->views[view];
  if (v.elements == 0) return absl::OkStatus();
  char* const base = slots.base[plan->plan->views[view]->slot];
  const StridedSpan span = SpanOf(view);
  const int item = ItemSize(span.dtype);
  if (v.high - v.low != v.elements * item) {
    // The bytes between the elements may have changed since they were read.
    std::vector<char> now(bytes->size());
    SMELT_RETURN_IF_ERROR(memory.device->ToHost(now.data(), base + v.low, v.high - v.low));
    const int64_t first = v.offset * item - v.low;
    CopyStrided(now.data() + first, span.strides, bytes->data() + first, span.strides, span.sizes, item);
    bytes->swap(now);
  }
  return memory.device->FromHost(base + v.low, bytes->data(), v.high - v.low);
}

int64_t BoundCall::NumStatusWords() const {
  return (plan->steps.count + static_cast<int64_t>(plan->plan->prologue_checks.size())) * kStatusWords;
}

ExecutionDevice::Reports BoundCall::Reports() const {
  return {StatusWords(0), NumStatusWords() / kStatusWords, kStatusWords};
}

ExecutionDevice::Reports BoundCall::CheckReports() const {
  return {StatusWords(plan->steps.count), static_cast<int64_t>(plan->plan->prologue_checks.size()), kStatusWords};
}

absl::Status BoundCall::ClearStatusWords() {
  const int64_t bytes = std::max<int64_t>(NumStatusWords(), 1) * static_cast<int64_t>(sizeof(int64_t));
  if (device.words == nullptr || device.words->bytes() < bytes) {
    SMELT_ASSIGN_OR_RETURN(device.words, memory.device->NewStorage(bytes));
  }
  return memory.device->Zero(device.words->address(), bytes);
}

int64_t* BoundCall::StatusWords(int step) const {
  return reinterpret_cast<int64_t*>(device.words->address()) + step * kStatusWords;
}

absl::Status BoundCall::CheckStatusWords() {
  if (!std::exchange(device.is_open, false)) return absl::OkStatus();
  std::vector<int64_t> words(static_cast<size_t>(NumStatusWords()));
  SMELT_RETURN_IF_ERROR(memory.device->ToHost(reinterpret_cast<char*>(words.data()), device.words->address(),
                                              static_cast<int64_t>(words.size() * sizeof(int64_t))));
  device.is_checked = HasFailedCheck(*plan, words.data());
  return ReportedError(*plan, words.data());
}

}  // namespace smelt
