// Observes the questions that a layout rule asks about symbolic strides, so that the rule can be written down as data
// (layout_rule_builder.h). While a trace is installed on a thread, SymbolicDecide and the rules of view_rules.h ask it
// instead of the example's hints.
#ifndef SMELT_CORE_TENSOR_LAYOUT_TRACE_H_
#define SMELT_CORE_TENSOR_LAYOUT_TRACE_H_

#include <optional>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/tensor/decide.h"

namespace smelt {

class LayoutTrace {
 public:
  // The values are those of the encoded rule (layout_rule.h).
  enum class Predicate { kIsContiguous = 0, kIsChannelsLast = 1, kIsDense = 2, kSuggestsChannelsLast = 3 };

  virtual ~LayoutTrace() = default;

  // `asked` is kEqual, kLess or kLessOrEqual, of expressions whose ranges leave the answer open.
  virtual bool Compare(const Assumption& asked) = 0;
  // Each returns nullopt if nothing about the operands is traced: the rule then decides by itself.
  virtual std::optional<bool> Test(Predicate predicate, const ExprGeometry& g) = 0;
  virtual std::optional<std::vector<Expr>> PreservedStrides(const ExprGeometry& g) = 0;
  virtual std::optional<std::vector<Expr>> PointwiseStrides(absl::Span<const ExprGeometry> operands) = 0;

  // Returns the innermost trace that is installed on this thread, or null.
  static LayoutTrace* Current();

  // Installs a trace for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(LayoutTrace* trace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    LayoutTrace* const before_;
  };
};

// Returns a trace's answer to the question about the geometry, if there is a trace that has one.
template <typename D>
std::optional<bool> TracedTest(LayoutTrace::Predicate predicate, const typename D::Geometry& g) {
  if constexpr (std::is_same_v<D, SymbolicDecide>) {
    if (LayoutTrace* trace = LayoutTrace::Current(); trace != nullptr) return trace->Test(predicate, g);
  }
  return std::nullopt;
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_LAYOUT_TRACE_H_
