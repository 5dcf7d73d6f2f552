#include "smelt/exec/write_protocol.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

// Returns whether each element of [first, last] is reached once: a permutation of a contiguous layout.
bool CoversItsSpan(const Geometry& g) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int d = 0; d < g.rank(); ++d) {
    if (g.sizes[d] != 1) dims.push_back({g.strides[d], g.sizes[d]});
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

std::optional<Geometry> Broadcast(const Tensor& t, absl::Span<const int64_t> sizes) {
  ConcreteDecide decide;
  absl::StatusOr<Geometry> g = view_rules::Expand(decide, t.geometry(), sizes);
  if (!g.ok() || !decide.status().ok()) return std::nullopt;
  return *std::move(g);
}

}  // namespace

Shared WhatIsShared(const PlacedGeometry& a, const PlacedGeometry& b) {
  const auto [a_low, a_high] = a.geometry.Span();
  const auto [b_low, b_high] = b.geometry.Span();
  if (a_low == a_high || b_low == b_high || !CoversItsSpan(a.geometry) || !CoversItsSpan(b.geometry))
    return Shared::kNothing;
  const char *a_begin = a.origin + a_low * a.item(), *a_end = a.origin + a_high * a.item();
  const char *b_begin = b.origin + b_low * b.item(), *b_end = b.origin + b_high * b.item();
  if (a_end <= b_begin || b_end <= a_begin) return Shared::kNothing;
  return a_begin == b_begin && a_end == b_end && a.geometry.strides == b.geometry.strides ? Shared::kWhole
                                                                                          : Shared::kPart;
}

Shared WhatIsShared(const Tensor& a, const Tensor& b) { return WhatIsShared(Placed(a), Placed(b)); }

PlacedGeometry Placed(const Tensor& t) { return {t.geometry(), t.storage()->data(), t.dtype()}; }

bool IsExpanded(const Geometry& g) {
  for (int d = 0; d < g.rank(); ++d) {
    if (g.sizes[d] > 1 && g.strides[d] == 0) return true;
  }
  return false;
}

absl::Status CheckNotExpanded(const Tensor& written) {
  return written.NumElements() != 0 && IsExpanded(written.geometry())
             ? absl::FailedPreconditionError(kInternalOverlapMessage)
             : absl::OkStatus();
}

absl::Status DependsOnOrderError() {
  return WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
}

absl::Status CheckOperand(const Tensor& written, const Tensor& read, OperandSharing rule) {
  // PyTorch does not look at the elements if the operand is the written tensor itself.
  if (rule == OperandSharing::kNone && written.IsSame(read))
    return absl::FailedPreconditionError(kPartialOverlapMessage);
  if (rule == OperandSharing::kAny || written.NumElements() == 0 || read.NumElements() == 0) return absl::OkStatus();
  if (rule == OperandSharing::kNotPartly || rule == OperandSharing::kNone) {
    const Shared shared = WhatIsShared(written, read);
    const bool refused = shared == Shared::kPart || (shared == Shared::kWhole && rule == OperandSharing::kNone);
    return refused ? absl::FailedPreconditionError(kPartialOverlapMessage) : absl::OkStatus();
  }
  const PlacedGeometry a = Placed(written), b = Placed(read);
  const bool same = rule == OperandSharing::kWholeOrNone && a.dtype == b.dtype && AreSameElements(a, b) &&
                    !OverlapsItselfConcrete(a.geometry);
  return AreDisjoint(a, b) || same ? absl::OkStatus() : DependsOnOrderError();
}

bool IsReadWhileWritten(const Tensor& written, const Tensor& read) {
  return written.NumElements() > 0 && read.NumElements() > 0 && !AreDisjoint(Placed(written), Placed(read));
}

absl::StatusOr<ElementOrder> OrderOfWrite(const Tensor& written, absl::Span<const PythonValue> read) {
  std::vector<PlacedGeometry> operands;
  for (const PythonValue& v : read) {
    if (!v.IsTensor()) continue;  // those that lie elsewhere have a say in the order of the dims, too
    std::optional<Geometry> g = Broadcast(v.tensor(), written.sizes());
    if (!g) return ElementOrder();
    operands.push_back({*std::move(g), v.tensor().storage()->data(), v.tensor().dtype()});
  }
  ElementOrder order = OrderOfElements(Placed(written), operands);
  if (order.effect == OrderEffect::kOpen) return DependsOnOrderError();
  return order;
}

absl::StatusOr<bool> WriteInOrder(
    const Tensor& written, absl::Span<const PythonValue> read,
    absl::FunctionRef<absl::Status(const Tensor& element, absl::Span<const PythonValue> elements)> write) {
  SMELT_ASSIGN_OR_RETURN(const ElementOrder order, OrderOfWrite(written, read));
  if (order.effect == OrderEffect::kNone) return false;
  std::vector<std::optional<Geometry>> broadcast(read.size());
  for (size_t k = 0; k < read.size(); ++k) {
    if (read[k].IsTensor() && read[k].tensor().rank() > 0) broadcast[k] = Broadcast(read[k].tensor(), written.sizes());
  }
  const std::vector<int64_t> one = {1};
  absl::Status status;
  VisitInOrder(written.sizes(), order.dims, [&](absl::Span<const int64_t> index) {
    std::vector<PythonValue> elements(read.begin(), read.end());
    for (size_t k = 0; k < read.size(); ++k) {
      if (broadcast[k]) elements[k] = PythonValue(read[k].tensor().View({one, one, OffsetOf(*broadcast[k], index)}));
    }
    status = write(written.View({one, one, OffsetOf(written.geometry(), index)}), elements);
    return status.ok();
  });
  if (!status.ok()) return status;
  return true;
}

}  // namespace smelt
