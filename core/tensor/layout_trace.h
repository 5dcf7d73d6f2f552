// Observes the questions that a layout rule asks about symbolic strides, so that the rule can be written down as data
// (layout_rule_builder.h). While a trace is installed on a thread, SymbolicDecide and the rules of view_rules.h ask it
// instead of the example's hints.
#ifndef SMELT_CORE_TENSOR_LAYOUT_TRACE_H_
#define SMELT_CORE_TENSOR_LAYOUT_TRACE_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
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

  // Installs a trace for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(LayoutTrace* trace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Hooks;
    Hooks* hooks_;
  };
};

// The questions of the rules while a trace is installed; null otherwise. The rules are below this library and name a
// question by the function of view_rules.h (or memory_format.h).
namespace layout_hooks {
using Compare = std::function<bool(const Assumption& asked)>;
using Test = std::function<std::optional<bool>(absl::string_view function, const ExprGeometry& g)>;
using Strides = std::function<std::optional<std::vector<Expr>>(absl::string_view function,
                                                               absl::Span<const ExprGeometry> operands)>;
extern thread_local const Compare* compare;  // in decide.cc
extern thread_local const Test* test;        // in view_rules.cc
extern thread_local const Strides* strides;  // in view_rules.cc
}  // namespace layout_hooks

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_LAYOUT_TRACE_H_
