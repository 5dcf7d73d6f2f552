#include "smelt/runtime/eager_layouts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/runtime/memory_limit.h"

namespace smelt {
namespace {

// Returns the layout of self[indices], which are values[0] and the others. A mask becomes an index for each of its
// dims, with as many elements as are true.
absl::StatusOr<Geometry> IndexedLayout(absl::Span<const int> operands, const EagerValues& values) {
  SMELT_ASSIGN_OR_RETURN(const Tensor self, values.TensorOf(operands[0]));
  std::vector<std::optional<Geometry>> indices;
  for (int v : operands.subspan(1)) {
    if (v < 0 || !values[v].IsTensor()) {
      indices.push_back(std::nullopt);
      continue;
    }
    const Tensor& t = values[v].tensor();
    if (ItemSize(t.dtype()) != 1 || t.dtype() == DType::kInt8) {
      indices.push_back(t.geometry());
      continue;
    }
    const Tensor mask = t.Clone();
    const auto* bytes = reinterpret_cast<const uint8_t*>(mask.data());
    const int64_t n = mask.NumElements(), found = n - std::count(bytes, bytes + n, 0);
    for (int d = 0; d < t.rank(); ++d) indices.push_back(Geometry{{found}, {t.rank()}, 0});
  }
  if (static_cast<int>(indices.size()) > self.rank())
    return absl::FailedPreconditionError("too many indices for tensor");
  ConcreteDecide decide;
  Geometry g = self.geometry();
  if (std::all_of(indices.begin(), indices.end(), [](const auto& i) { return !i.has_value(); })) {
    g.strides = view_rules::PreservedStrides(decide, self.geometry());
  } else {
    SMELT_ASSIGN_OR_RETURN(g, view_rules::IndexedOutput(decide, self.geometry(), absl::MakeConstSpan(indices)));
  }
  SMELT_RETURN_IF_ERROR(decide.status());
  g.offset = 0;
  return g;
}

absl::StatusOr<std::vector<EvaluatedLayout>> ByRule(const fb::EagerInstrT& i, const EagerValues& values) {
  std::vector<LayoutInput> inputs;
  for (int v : i.layout_inputs) {
    LayoutInput& input = inputs.emplace_back();
    if (v < 0) continue;
    const PythonValue& value = values[v];
    if (value.IsTensor()) {
      input.geometry = value.tensor().geometry();
    } else if (value.IsInt() || value.IsBool()) {
      SMELT_ASSIGN_OR_RETURN(input.number, value.AsInt());
    }
  }
  return EvaluateLayoutRule(i.layout_rule, inputs);
}

}  // namespace

absl::StatusOr<std::vector<EvaluatedLayout>> LayoutsOfResults(const fb::EagerInstrT& i, const EagerValues& values) {
  std::vector<EvaluatedLayout> layouts;
  if (i.layout == fb::EagerLayout::Rule) {
    SMELT_ASSIGN_OR_RETURN(layouts, ByRule(i, values));
    // One layout may be that of all.
    if (layouts.size() != i.outputs.size())
      layouts.resize(i.outputs.size(), layouts.empty() ? EvaluatedLayout() : EvaluatedLayout(layouts[0]));
    return layouts;
  }
  EvaluatedLayout layout;
  layout.kind = LayoutResult::kUnknown;
  if (i.layout == fb::EagerLayout::Indexed) {
    SMELT_ASSIGN_OR_RETURN(const Geometry g, IndexedLayout(i.layout_inputs, values));
    layout.kind = LayoutResult::kStrides;
    layout.strides = g.strides;
  }
  layouts.resize(i.outputs.size(), layout);
  return layouts;
}

absl::StatusOr<Tensor> LaidOut(const fb::EagerInstrT& i, const EagerValues& values, const EagerMemory& memory,
                               const Tensor& t, const EvaluatedLayout& layout) {
  if (layout.kind == LayoutResult::kUnknown) return t;
  Geometry g = t.geometry();
  g.offset = 0;
  g.strides = layout.kind == LayoutResult::kContiguous ? Geometry::Contiguous(g.sizes).strides : layout.strides;
  if (g.strides == t.strides()) return t;
  const int64_t reach = ReachOfLayout(g.sizes, g.strides);
  if (reach < 0)
    return absl::FailedPreconditionError("eager order: a result has other dims than its layout rule is for");
  SMELT_RETURN_IF_ERROR(CheckMemoryFor(reach, ItemSize(t.dtype())));
  if (OverlapsItselfConcrete(g)) return absl::UnimplementedError("a copy whose elements overlap each other");
  const int input = layout.input < 0 ? -1 : i.layout_inputs[layout.input];
  const PythonValue* of = input < 0 ? nullptr : &values[input];
  const bool whole =
      of != nullptr && of->IsTensor() && of->tensor().sizes() == g.sizes && of->tensor().dtype() == t.dtype();
  Tensor moved = whole ? of->tensor().CloneWithGaps() : Tensor::EmptyStrided(t.dtype(), g.sizes, g.strides);
  memory.CopyElements(moved, t);
  return moved;
}

}  // namespace smelt
