#include "smelt/core/tensor/layout_trace.h"

#include <utility>

namespace smelt {
namespace {

std::optional<LayoutTrace::Predicate> PredicateOf(absl::string_view function) {
  if (function == "IsContiguous") return LayoutTrace::Predicate::kIsContiguous;
  if (function == "IsChannelsLast") return LayoutTrace::Predicate::kIsChannelsLast;
  if (function == "IsNonOverlappingAndDense") return LayoutTrace::Predicate::kIsDense;
  if (function == "SuggestsChannelsLast") return LayoutTrace::Predicate::kSuggestsChannelsLast;
  return std::nullopt;
}

}  // namespace

struct LayoutTrace::Scope::Hooks {
  layout_hooks::Compare compare;
  layout_hooks::Test test;
  layout_hooks::Strides strides;
  const layout_hooks::Compare* compare_before;
  const layout_hooks::Test* test_before;
  const layout_hooks::Strides* strides_before;
};

LayoutTrace::Scope::Scope(LayoutTrace* trace) : hooks_(new Hooks) {
  hooks_->compare = [trace](const Assumption& asked) { return trace->Compare(asked); };
  hooks_->test = [trace](absl::string_view function, const ExprGeometry& g) -> std::optional<bool> {
    const std::optional<Predicate> predicate = PredicateOf(function);
    return predicate ? trace->Test(*predicate, g) : std::nullopt;
  };
  hooks_->strides = [trace](absl::string_view function, absl::Span<const ExprGeometry> operands) {
    return function == "PreservedStrides" ? trace->PreservedStrides(operands[0]) : trace->PointwiseStrides(operands);
  };
  hooks_->compare_before = std::exchange(layout_hooks::compare, &hooks_->compare);
  hooks_->test_before = std::exchange(layout_hooks::test, &hooks_->test);
  hooks_->strides_before = std::exchange(layout_hooks::strides, &hooks_->strides);
}

LayoutTrace::Scope::~Scope() {
  layout_hooks::compare = hooks_->compare_before;
  layout_hooks::test = hooks_->test_before;
  layout_hooks::strides = hooks_->strides_before;
  delete hooks_;
}

}  // namespace smelt
