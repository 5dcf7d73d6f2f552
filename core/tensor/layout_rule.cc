#include "smelt/core/tensor/layout_rule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/layout_trace.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

constexpr int64_t kMaxValues = 4096, kMaxSlots = 1024, kMaxRank = 64, kMaxGeometries = 256;
constexpr size_t kMaxWords = 1 << 16;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a layout rule is malformed: ", what));
}

bool IsOperation(int64_t op) {
  return op >= static_cast<int64_t>(LayoutValue::kAdd) && op <= static_cast<int64_t>(LayoutValue::kMax);
}

// Reads words one after the other; reading past the end gives 0 and is remembered.
class Reader {
 public:
  Reader(absl::Span<const int64_t> words, size_t at) : words_(words), at_(at) {}
  int64_t Next() {
    if (at_ >= words_.size()) {
      failed_ = true;
      return 0;
    }
    return words_[at_++];
  }
  size_t at() const { return at_; }
  bool failed() const { return failed_; }

 private:
  absl::Span<const int64_t> words_;
  size_t at_;
  bool failed_ = false;
};

class Verifier {
 public:
  Verifier(absl::Span<const int64_t> rule, size_t inputs) : rule_(rule), inputs_(static_cast<int64_t>(inputs)) {}

  absl::Status Run() {
    if (rule_.size() > kMaxWords) return Malformed("it is too long");
    Reader r(rule_, 0);
    if (r.Next() != inputs_) return Malformed("it is for another number of operands");
    num_values_ = r.Next();
    if (num_values_ < 0 || num_values_ > kMaxValues) return Malformed("it has too many values");
    for (int64_t k = 0; k < num_values_; ++k) {
      const int64_t op = r.Next(), a = r.Next(), b = r.Next();
      if (op < 0 || op > static_cast<int64_t>(LayoutValue::kMax)) return Malformed("an unknown value");
      if (IsOperation(op)) {
        if (a < 0 || a >= k || b < 0 || b >= k) return Malformed("a value of values behind it");
      } else if (op == static_cast<int64_t>(LayoutValue::kDerived)) {
        if (a < 0 || a >= kMaxSlots) return Malformed("a slot out of range");
      } else if (op != static_cast<int64_t>(LayoutValue::kConstant)) {
        if (a < 0 || a >= inputs_) return Malformed("an operand out of range");
      }
      if (b < 0 || b > kMaxValues) return Malformed("a dim out of range");
    }
    if (r.failed()) return Malformed("it ends too early");
    std::vector<size_t> starts;
    std::vector<int64_t> targets;  // (from, to) pairs
    while (r.at() < rule_.size()) {
      starts.push_back(r.at());
      const size_t first = next_.size();
      SMELT_RETURN_IF_ERROR(Step(r));
      if (r.failed()) return Malformed("it ends too early");
      for (size_t k = first; k < next_.size(); ++k) {
        if (next_[k] <= static_cast<int64_t>(starts.back())) return Malformed("a step that leads backwards");
      }
    }
    if (starts.empty()) return Malformed("it has no step");
    for (int64_t to : next_) {
      if (!std::binary_search(starts.begin(), starts.end(), static_cast<size_t>(to)))
        return Malformed("a step that leads nowhere");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Value(Reader& r) {
    const int64_t v = r.Next();
    return v >= 0 && v < num_values_ ? absl::OkStatus() : Malformed("a value out of range");
  }
  absl::Status Geometry(Reader& r) {
    const int64_t rank = r.Next();
    if (rank < 0) return rank >= -inputs_ ? absl::OkStatus() : Malformed("an operand out of range");
    if (rank > kMaxRank) return Malformed("a rank out of range");
    for (int64_t d = 0; d < 2 * rank; ++d) SMELT_RETURN_IF_ERROR(Value(r));
    return absl::OkStatus();
  }
  absl::Status Step(Reader& r) {
    switch (static_cast<LayoutStep>(r.Next())) {
      case LayoutStep::kCompare: {
        const int64_t relation = r.Next();
        if (relation < 0 || relation > static_cast<int64_t>(Assumption::Relation::kLessOrEqual))
          return Malformed("an unknown relation");
        SMELT_RETURN_IF_ERROR(Value(r));
        SMELT_RETURN_IF_ERROR(Value(r));
        next_.push_back(r.Next());
        next_.push_back(r.Next());
        return absl::OkStatus();
      }
      case LayoutStep::kTest: {
        const int64_t predicate = r.Next();
        if (predicate < 0 || predicate > static_cast<int64_t>(LayoutTrace::Predicate::kSuggestsChannelsLast))
          return Malformed("an unknown question");
        SMELT_RETURN_IF_ERROR(Geometry(r));
        next_.push_back(r.Next());
        next_.push_back(r.Next());
        return absl::OkStatus();
      }
      case LayoutStep::kDerive: {
        const int64_t derivation = r.Next(), slot = r.Next(), n = r.Next();
        if (derivation < 0 || derivation > static_cast<int64_t>(LayoutDerivation::kPointwise))
          return Malformed("an unknown derivation");
        if (slot < 0 || slot >= kMaxSlots) return Malformed("a slot out of range");
        if (n < 1 || n > kMaxGeometries) return Malformed("a number of operands out of range");
        for (int64_t k = 0; k < n; ++k) SMELT_RETURN_IF_ERROR(Geometry(r));
        next_.push_back(r.Next());
        return absl::OkStatus();
      }
      case LayoutStep::kDone: {
        const int64_t n = r.Next();
        if (n < 0 || n > kMaxValues) return Malformed("a number of results out of range");
        for (int64_t k = 0; k < n; ++k) SMELT_RETURN_IF_ERROR(Result(r));
        return absl::OkStatus();
      }
      case LayoutStep::kRefuse:
        return absl::OkStatus();
    }
    return Malformed("an unknown step");
  }
  absl::Status Result(Reader& r) {
    switch (static_cast<LayoutResult>(r.Next())) {
      case LayoutResult::kContiguous:
      case LayoutResult::kUnknown:
        return absl::OkStatus();
      case LayoutResult::kDerived: {
        const int64_t slot = r.Next();
        return slot >= 0 && slot < kMaxSlots ? absl::OkStatus() : Malformed("a slot out of range");
      }
      case LayoutResult::kInput: {
        const int64_t input = r.Next();
        return input >= 0 && input < inputs_ ? absl::OkStatus() : Malformed("an operand out of range");
      }
      case LayoutResult::kStrides: {
        const int64_t rank = r.Next();
        if (rank < 0 || rank > kMaxRank) return Malformed("a rank out of range");
        for (int64_t d = 0; d < rank; ++d) SMELT_RETURN_IF_ERROR(Value(r));
        return absl::OkStatus();
      }
    }
    return Malformed("an unknown result");
  }

  absl::Span<const int64_t> rule_;
  const int64_t inputs_;
  int64_t num_values_ = 0;
  std::vector<int64_t> next_;
};

// Runs a rule that has been verified.
class Evaluation {
 public:
  Evaluation(absl::Span<const int64_t> rule, absl::Span<const LayoutInput> inputs)
      : rule_(rule), inputs_(inputs), values_(rule[1]) {}

  absl::StatusOr<std::vector<EvaluatedLayout>> Run() {
    Reader r(rule_, 2 + 3 * values_.size());
    while (true) {
      const auto kind = static_cast<LayoutStep>(r.Next());
      if (kind == LayoutStep::kRefuse) return absl::FailedPreconditionError("no rule covers these operands");
      if (kind == LayoutStep::kDone) return Done(r);
      if (kind == LayoutStep::kDerive) {
        SMELT_RETURN_IF_ERROR(Derive(r));
        r = Reader(rule_, static_cast<size_t>(r.Next()));
        continue;
      }
      bool holds = false;
      if (kind == LayoutStep::kCompare) {
        const auto relation = static_cast<Assumption::Relation>(r.Next());
        SMELT_ASSIGN_OR_RETURN(const int64_t a, Value(r.Next()));
        SMELT_ASSIGN_OR_RETURN(const int64_t b, Value(r.Next()));
        holds = relation == Assumption::Relation::kEqual      ? a == b
                : relation == Assumption::Relation::kNotEqual ? a != b
                : relation == Assumption::Relation::kLess     ? a < b
                                                              : a <= b;
      } else {
        const auto predicate = static_cast<LayoutTrace::Predicate>(r.Next());
        SMELT_ASSIGN_OR_RETURN(const Geometry g, GeometryAt(r));
        holds = Test(predicate, g);
      }
      const int64_t yes = r.Next(), no = r.Next();
      r = Reader(rule_, static_cast<size_t>(holds ? yes : no));
    }
  }

 private:
  static bool Test(LayoutTrace::Predicate predicate, const Geometry& g) {
    ConcreteDecide decide;
    switch (predicate) {
      case LayoutTrace::Predicate::kIsContiguous:
        return view_rules::IsContiguous(decide, g);
      case LayoutTrace::Predicate::kIsChannelsLast:
        return view_rules::IsChannelsLast(decide, g);
      case LayoutTrace::Predicate::kIsDense:
        return view_rules::IsNonOverlappingAndDense(decide, g);
      case LayoutTrace::Predicate::kSuggestsChannelsLast:
        return SuggestsChannelsLast<ConcreteDecide>(decide, g.sizes, g.strides);
    }
    return false;
  }

  absl::StatusOr<int64_t> Value(int64_t index) {
    if (values_[index]) return *values_[index];
    const int64_t op = rule_[2 + 3 * index], a = rule_[3 + 3 * index], b = rule_[4 + 3 * index];
    int64_t out = 0;
    if (IsOperation(op)) {
      SMELT_ASSIGN_OR_RETURN(const int64_t x, Value(a));
      SMELT_ASSIGN_OR_RETURN(const int64_t y, Value(b));
      ConcreteDecide decide;
      switch (static_cast<LayoutValue>(op)) {
        case LayoutValue::kAdd:
          out = decide.Add(x, y);
          break;
        case LayoutValue::kMul:
          out = decide.Mul(x, y);
          break;
        case LayoutValue::kFloorDiv:
          out = decide.FloorDiv(x, y);
          break;
        case LayoutValue::kMod:
          out = decide.Mod(x, y);
          break;
        case LayoutValue::kMin:
          out = decide.Min(x, y);
          break;
        default:
          out = decide.Max(x, y);
      }
      SMELT_RETURN_IF_ERROR(decide.status());
    } else {
      SMELT_ASSIGN_OR_RETURN(out, Leaf(static_cast<LayoutValue>(op), a, b));
    }
    values_[index] = out;
    return out;
  }
  absl::StatusOr<int64_t> Leaf(LayoutValue op, int64_t a, int64_t b) const {
    if (op == LayoutValue::kConstant) return a;
    if (op == LayoutValue::kNumber) return inputs_[a].number;
    static const std::vector<int64_t> kNone;
    const bool derived = op == LayoutValue::kDerived;
    const std::vector<int64_t>& from =
        !derived ? (op == LayoutValue::kSize ? inputs_[a].geometry.sizes : inputs_[a].geometry.strides)
        : static_cast<size_t>(a) < slots_.size() ? slots_[a]
                                                 : kNone;
    if (static_cast<size_t>(b) >= from.size()) return Malformed("an operand has other dims than the rule is for");
    return from[b];
  }

  absl::StatusOr<Geometry> GeometryAt(Reader& r) {
    const int64_t rank = r.Next();
    if (rank < 0) return inputs_[-1 - rank].geometry;
    Geometry g;
    for (int64_t d = 0; d < rank; ++d) {
      SMELT_ASSIGN_OR_RETURN(const int64_t size, Value(r.Next()));
      g.sizes.push_back(size);
    }
    for (int64_t d = 0; d < rank; ++d) {
      SMELT_ASSIGN_OR_RETURN(const int64_t stride, Value(r.Next()));
      g.strides.push_back(stride);
    }
    return g;
  }

  absl::Status Derive(Reader& r) {
    const auto derivation = static_cast<LayoutDerivation>(r.Next());
    const size_t slot = static_cast<size_t>(r.Next());
    const int64_t n = r.Next();
    std::vector<Geometry> operands;
    for (int64_t k = 0; k < n; ++k) {
      SMELT_ASSIGN_OR_RETURN(Geometry g, GeometryAt(r));
      operands.push_back(std::move(g));
    }
    ConcreteDecide decide;
    std::vector<int64_t> strides;
    if (derivation == LayoutDerivation::kPreserved) {
      strides = view_rules::PreservedStrides(decide, operands[0]);
    } else {
      auto out = view_rules::PointwiseOutput<ConcreteDecide>(decide, operands);
      if (!out.ok()) return absl::FailedPreconditionError(out.status().message());
      strides = std::move(out->strides);
    }
    SMELT_RETURN_IF_ERROR(decide.status());
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    slots_[slot] = std::move(strides);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<EvaluatedLayout>> Done(Reader& r) {
    std::vector<EvaluatedLayout> out(static_cast<size_t>(r.Next()));
    for (EvaluatedLayout& layout : out) {
      layout.kind = static_cast<LayoutResult>(r.Next());
      if (layout.kind == LayoutResult::kDerived) {
        const size_t slot = static_cast<size_t>(r.Next());
        if (slot >= slots_.size()) return Malformed("a slot that nothing has filled");
        layout.strides = slots_[slot];
      } else if (layout.kind == LayoutResult::kInput) {
        layout.input = static_cast<int>(r.Next());
        layout.strides = inputs_[layout.input].geometry.strides;
      } else if (layout.kind == LayoutResult::kStrides) {
        const int64_t rank = r.Next();
        for (int64_t d = 0; d < rank; ++d) {
          SMELT_ASSIGN_OR_RETURN(const int64_t stride, Value(r.Next()));
          layout.strides.push_back(stride);
        }
      }
    }
    return out;
  }

  absl::Span<const int64_t> rule_;
  absl::Span<const LayoutInput> inputs_;
  std::vector<std::optional<int64_t>> values_;
  std::vector<std::vector<int64_t>> slots_;
};

}  // namespace

absl::Status VerifyLayoutRule(absl::Span<const int64_t> rule, size_t inputs) { return Verifier(rule, inputs).Run(); }

absl::StatusOr<std::vector<EvaluatedLayout>> EvaluateLayoutRule(absl::Span<const int64_t> rule,
                                                                absl::Span<const LayoutInput> inputs) {
  if (rule.size() < 2 || rule[0] != static_cast<int64_t>(inputs.size()))
    return Malformed("it is for another number of operands");
  return Evaluation(rule, inputs).Run();
}

int64_t ReachOfLayout(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  constexpr int64_t kMost = int64_t{1} << 44;
  if (sizes.size() != strides.size()) return -1;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t reach = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t further;
    if (strides[d] < 0 || sizes[d] < 0 || __builtin_mul_overflow(sizes[d] - 1, strides[d], &further) ||
        __builtin_add_overflow(reach, further, &reach) || reach > kMost)
      return -1;
  }
  return reach;
}

}  // namespace smelt
