#include "smelt/core/tensor/layout_rule_builder.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/layout_trace.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using Words = std::vector<int64_t>;

constexpr size_t kMaxValues = 4096, kMaxWords = 1 << 16;

// How questions are answered.
struct Answers {
  bool both_of_sizes = true;  // follow both answers to questions about sizes alone; otherwise the hints answer them
  // Follow both answers to questions about a layout as a whole; otherwise the comparisons that it consists of.
  bool both_of_layouts = true;
  // Where a layout is contiguous or channels-last, take its strides to be those.
  bool concludes_strides = false;
};

class Builder : public LayoutTrace {
 public:
  Builder(const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
          const absl::flat_hash_map<std::string, int64_t>& hints, const LayoutSteps& infer,
          const LayoutRuleOptions& options, const Answers& answers = {})
      : operands_(operands), ranges_(ranges), hints_(hints), infer_(infer), options_(options), answers_(answers) {
    last_runs_.resize(infer.count + 1);
    const auto define = [&](const Expr& e, LayoutValue op, size_t operand, size_t dim) {
      if (e.IsSymbol()) leaves_.try_emplace(e.SymbolName(), Leaf{op, operand, dim});
    };
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!operands[k].number.empty()) leaves_.try_emplace(operands[k].number, Leaf{LayoutValue::kNumber, k, 0});
      const ExprGeometry& g = operands[k].geometry;
      for (size_t d = 0; d < g.sizes.size(); ++d) define(g.sizes[d], LayoutValue::kSize, k, d);
      for (size_t d = 0; d < g.strides.size(); ++d) define(g.strides[d], LayoutValue::kStride, k, d);
    }
  }

  absl::StatusOr<Words> Run() {
    const int root = Explore({}, 0);
    if (!found_) return first_error_;
    if (!status_.ok()) return status_;
    return Encode(root);
  }

  // --- LayoutTrace ---
  bool Compare(const Assumption& asked) override {
    // a < b is the negation of b <= a.
    Assumption question = asked;
    if (!strides_.empty()) {
      question.a = asked.a.Substitute(strides_);
      question.b = asked.b.Substitute(strides_);
    }
    const bool turned = asked.relation == Assumption::Relation::kLess;
    if (turned) question = {question.b, Assumption::Relation::kLessOrEqual, question.a};
    const bool equal = question.relation == Assumption::Relation::kEqual;
    if (!strides_.empty()) {
      const auto known = equal ? ranges_.Equal(question.a, question.b) : ranges_.LessOrEqual(question.a, question.b);
      if (known) return *known != turned;
    }
    if (!answers_.both_of_sizes && !IsTraced(question.a) && !IsTraced(question.b)) {
      const absl::StatusOr<bool> usual = question.Holds(hints_);
      if (!usual.ok() && status_.ok()) status_ = usual.status();
      return (usual.ok() && *usual) != turned;
    }
    Asked compared{.question = question, .a = question.a.ToString(), .b = question.b.ToString()};
    return Answer(std::move(compared)) != turned;
  }
  std::optional<bool> Test(Predicate predicate, const ExprGeometry& asked) override {
    const ExprGeometry g = Concluded(asked);
    if (g.strides != asked.strides && !IsTraced(g)) return Decided(predicate, g);
    if (!answers_.both_of_layouts || !IsTraced(g)) return std::nullopt;
    Words words = {static_cast<int64_t>(LayoutStep::kTest), static_cast<int64_t>(predicate)};
    AddGeometry(g, words);
    std::string key = absl::StrCat("test ", absl::StrJoin(words, " "));
    if (auto it = known_.find(key); it != known_.end() && answers_.concludes_strides) return it->second;
    const bool answer = Answer({.a = std::move(key), .words = std::move(words)});
    if (answer && answers_.concludes_strides) Conclude(predicate, g);
    return answer;
  }
  std::optional<std::vector<Expr>> PreservedStrides(const ExprGeometry& asked) override {
    const ExprGeometry g = Concluded(asked);
    if (g.strides != asked.strides && !IsTraced(g)) {
      SymbolicDecide decide(&ranges_, hints_);
      return view_rules::PreservedStrides(decide, g);
    }
    if (!answers_.both_of_layouts || !IsTraced(g)) return std::nullopt;
    return Derive(LayoutDerivation::kPreserved, absl::MakeConstSpan(&g, 1), g.rank());
  }
  std::optional<std::vector<Expr>> PointwiseStrides(absl::Span<const ExprGeometry> asked) override {
    std::vector<ExprGeometry> operands;
    for (const ExprGeometry& g : asked) operands.push_back(Concluded(g));
    int rank = 0;
    bool traced = false;
    for (const ExprGeometry& g : operands) {
      rank = std::max(rank, g.rank());
      traced = traced || IsTraced(g);
    }
    if (!traced && !std::equal(operands.begin(), operands.end(), asked.begin())) {
      SymbolicDecide decide(&ranges_, hints_);
      const auto out = view_rules::PointwiseOutput<SymbolicDecide>(decide, operands);
      if (out.ok()) return out->strides;
    }
    if (answers_.concludes_strides && OrdersAllDims(operands[0], rank)) {
      SymbolicDecide decide(&ranges_, hints_);
      return view_rules::PreservedStrides(decide, operands[0]);
    }
    if (!answers_.both_of_layouts || !traced) return std::nullopt;
    return Derive(LayoutDerivation::kPointwise, operands, rank);
  }

 private:
  struct Leaf {
    LayoutValue op;
    size_t input, dim;
  };
  struct Event {
    Words words;
    size_t step;
    bool decides = false, answer = false;
  };
  // A question that a step asked.
  struct Asked {
    std::optional<Assumption> question = std::nullopt;  // a comparison of `a` and `b`
    std::string a, b = "";                              // without a comparison, `a` tells the question
    Words words = {};                                   // of other questions
    int64_t slot = -1;                                  // of a derivation, which has no answer
    bool answer = false;
  };
  // Facts that a run has learned since a step.
  struct Noted {
    size_t step;
    std::string known = "";
    int64_t slot = -1;
  };
  struct Step {
    Words words;
    std::vector<int> next;
    bool operator<(const Step& o) const { return std::tie(words, next) < std::tie(o.words, o.next); }
  };

  std::optional<bool> Known(const std::string& a, const char* relation, const std::string& b) const {
    const auto it = known_.find(absl::StrCat(a, relation, b));
    return it == known_.end() ? std::nullopt : std::optional<bool>(it->second);
  }
  bool Decide(Words words, bool usual) {
    const bool answer = decisions_ < forced_.size() ? forced_[decisions_] : usual;
    ++decisions_;
    events_.push_back({std::move(words), step_, true, answer});
    return answer;
  }
  bool Learn(std::string key, bool answer) {
    noted_.push_back({.step = step_, .known = key});
    return known_[std::move(key)] = answer;
  }
  bool Resolve(const Asked& asked) {
    if (!asked.question) {
      if (const auto it = known_.find(asked.a); it != known_.end()) return it->second;
      return Learn(asked.a, Decide(asked.words, false));
    }
    const bool equal = asked.question->relation == Assumption::Relation::kEqual;
    if (equal) {
      if (const auto known = Known(asked.a, "<=", asked.b); known == false) return false;
      if (const auto known = Known(asked.b, "<=", asked.a); known == false) return false;
    } else if (Known(asked.a, "==", asked.b) == true || Known(asked.b, "==", asked.a) == true) {
      return true;
    }
    const char* relation = equal ? "==" : "<=";
    if (const auto known = Known(asked.a, relation, asked.b)) return *known;
    const Words words = {static_cast<int64_t>(LayoutStep::kCompare), static_cast<int64_t>(asked.question->relation),
                         ValueOf(asked.question->a), ValueOf(asked.question->b)};
    const absl::StatusOr<bool> usual = asked.question->Holds(hints_);
    return Learn(absl::StrCat(asked.a, relation, asked.b), Decide(words, usual.ok() && *usual));
  }
  bool Answer(Asked asked) {
    const bool answer = asked.answer = Resolve(asked);
    if (step_ < infer_.count) last_runs_[step_].asked.push_back(std::move(asked));
    return answer;
  }
  void Derived(Asked asked) {
    if (derived_.insert(asked.slot).second) {
      noted_.push_back({.step = step_, .slot = asked.slot});
      events_.push_back({asked.words, step_});
    }
    if (step_ < infer_.count) last_runs_[step_].asked.push_back(std::move(asked));
  }
  std::vector<Expr> Derive(LayoutDerivation derivation, absl::Span<const ExprGeometry> operands, int rank) {
    // A new tensor with one dim of several elements has them side by side, whatever the operands' strides are.
    if (answers_.concludes_strides && rank == 1 && std::any_of(operands.begin(), operands.end(), [&](const auto& g) {
          return g.rank() == 1 && ranges_.Less(1, g.sizes[0]) == true;
        }))
      return {Expr(1)};
    Words content = {static_cast<int64_t>(derivation), static_cast<int64_t>(operands.size())};
    for (const ExprGeometry& g : operands) AddGeometry(g, content);
    const auto [slot, fresh] = slots_.try_emplace(content, static_cast<int64_t>(slots_.size()));
    std::vector<Expr> strides;
    for (int d = 0; d < rank; ++d) {
      const std::string name = absl::StrCat("derived", slot->second, ".", d);
      leaves_.try_emplace(name, Leaf{LayoutValue::kDerived, static_cast<size_t>(slot->second), static_cast<size_t>(d)});
      strides.push_back(Expr::Symbol(name));
    }
    Words words = {static_cast<int64_t>(LayoutStep::kDerive), content[0], slot->second};
    words.insert(words.end(), content.begin() + 1, content.end());
    Derived({.a = "", .words = std::move(words), .slot = slot->second});
    return strides;
  }

  // Returns whether the first operand of an iterator decides the order of all dims, so that the others do not matter: it
  // has several elements along each dim, at strides that differ.
  bool OrdersAllDims(const ExprGeometry& g, int rank) const {
    if (g.rank() != rank || IsTraced(g)) return false;
    for (int d = 0; d < rank; ++d) {
      if (ranges_.Less(1, g.sizes[d]) != true || ranges_.Equal(g.strides[d], 0) != false) return false;
      for (int e = 0; e < d; ++e) {
        if (ranges_.Equal(g.strides[d], g.strides[e]) != false) return false;
      }
    }
    return true;
  }

  // Takes strides that are symbols to be those of the layout, where dims have several elements.
  void Conclude(Predicate predicate, const ExprGeometry& g) {
    SymbolicDecide decide(&ranges_, hints_);
    if (predicate != Predicate::kIsContiguous && predicate != Predicate::kIsChannelsLast) return;
    const std::vector<Expr> strides = predicate == Predicate::kIsContiguous
                                          ? view_rules::ContiguousStrides(decide, g.sizes)
                                          : view_rules::ChannelsLastStrides(decide, g.sizes);
    for (size_t d = 0; d < strides.size(); ++d) {
      if (g.strides[d].IsSymbol() && ranges_.Less(1, g.sizes[d]) == true)
        strides_.insert({g.strides[d].SymbolName(), strides[d]});
    }
  }
  ExprGeometry Concluded(ExprGeometry g) const {
    for (size_t d = 0; d < g.strides.size() && !strides_.empty(); ++d) g.strides[d] = g.strides[d].Substitute(strides_);
    return g;
  }
  // Answers a question about a layout that is known.
  bool Decided(Predicate predicate, const ExprGeometry& g) const {
    SymbolicDecide decide(&ranges_, hints_);
    switch (predicate) {
      case Predicate::kIsContiguous:
        return view_rules::IsContiguous(decide, g);
      case Predicate::kIsChannelsLast:
        return view_rules::IsChannelsLast(decide, g);
      case Predicate::kIsDense:
        return view_rules::IsNonOverlappingAndDense(decide, g);
      case Predicate::kSuggestsChannelsLast:
        return SuggestsChannelsLast<SymbolicDecide>(decide, g.sizes, g.strides);
    }
    return false;
  }

  // Returns whether some stride is known only in the call.
  bool IsTraced(const ExprGeometry& g) const {
    return std::any_of(g.strides.begin(), g.strides.end(), [&](const Expr& e) { return IsTraced(e); });
  }
  bool IsTraced(const Expr& e) const {
    const auto symbols = e.Symbols();
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) {
      const auto it = leaves_.find(s);
      return it != leaves_.end() && (it->second.op == LayoutValue::kStride || it->second.op == LayoutValue::kDerived);
    });
  }

  // --- words ---
  int64_t Intern(std::array<int64_t, 3> value) {
    const auto [it, fresh] = value_numbers_.try_emplace(value, static_cast<int64_t>(values_.size()));
    if (fresh) values_.push_back(value);
    if (values_.size() > kMaxValues) status_ = absl::UnimplementedError("a layout rule of too many values");
    return it->second;
  }
  int64_t ValueOf(const Expr& e) {
    if (e.IsPoison()) {
      status_ = absl::UnimplementedError("a layout that depends on an unknown size");
      return 0;
    }
    const Expr::View v = e.Decompose();
    if (v.op == Expr::Op::kConstant) return Intern({static_cast<int64_t>(LayoutValue::kConstant), v.constant, 0});
    if (v.op == Expr::Op::kSymbol) {
      const auto it = leaves_.find(v.symbol);
      if (it == leaves_.end()) {
        status_ = absl::UnimplementedError(absl::StrCat("a layout that depends on ", v.symbol));
        return 0;
      }
      return Intern({static_cast<int64_t>(it->second.op), static_cast<int64_t>(it->second.input),
                     static_cast<int64_t>(it->second.dim)});
    }
    const LayoutValue op = v.op == Expr::Op::kAdd        ? LayoutValue::kAdd
                           : v.op == Expr::Op::kMul      ? LayoutValue::kMul
                           : v.op == Expr::Op::kFloorDiv ? LayoutValue::kFloorDiv
                           : v.op == Expr::Op::kMod      ? LayoutValue::kMod
                           : v.op == Expr::Op::kMin      ? LayoutValue::kMin
                                                         : LayoutValue::kMax;
    const int64_t a = ValueOf(v.operands[0]), b = ValueOf(v.operands[1]);
    return Intern({static_cast<int64_t>(op), a, b});
  }
  void AddGeometry(const ExprGeometry& g, Words& words) {
    for (size_t k = 0; k < operands_.size(); ++k) {
      const ExprGeometry& operand = operands_[k].geometry;
      if (g.rank() > 0 && operand.sizes == g.sizes && operand.strides == g.strides) {
        words.push_back(-1 - static_cast<int64_t>(k));
        return;
      }
    }
    words.push_back(g.rank());
    for (const Expr& e : g.sizes) words.push_back(ValueOf(e));
    for (const Expr& e : g.strides) words.push_back(ValueOf(e));
  }
  void AddResult(const InferredLayout& layout, Words& words) {
    const auto add = [&](LayoutResult kind, int64_t of) {
      words.push_back(static_cast<int64_t>(kind));
      words.push_back(of);
    };
    if (!layout) {
      words.push_back(static_cast<int64_t>(LayoutResult::kUnknown));
      return;
    }
    SymbolicDecide decide(&ranges_, hints_);
    const std::vector<Expr>& strides = layout->strides;
    if (strides == view_rules::ContiguousStrides(decide, layout->sizes)) {
      words.push_back(static_cast<int64_t>(LayoutResult::kContiguous));
      return;
    }
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (strides == operands_[k].geometry.strides) return add(LayoutResult::kInput, static_cast<int64_t>(k));
    }
    if (strides[0].IsSymbol()) {
      const auto first = leaves_.find(strides[0].SymbolName());
      bool whole = first != leaves_.end() && first->second.op == LayoutValue::kDerived;
      for (size_t d = 0; whole && d < strides.size(); ++d)
        whole = strides[d] == Expr::Symbol(absl::StrCat("derived", first->second.input, ".", d));
      const std::string more = whole ? absl::StrCat("derived", first->second.input, ".", strides.size()) : "";
      if (whole && !leaves_.contains(more))
        return add(LayoutResult::kDerived, static_cast<int64_t>(first->second.input));
    }
    add(LayoutResult::kStrides, static_cast<int64_t>(strides.size()));
    for (const Expr& e : strides) words.push_back(ValueOf(e));
  }

  int Place(Step step) {
    const auto [it, fresh] = step_numbers_.try_emplace(step, static_cast<int>(steps_.size()));
    if (fresh) steps_.push_back(std::move(step));
    return it->second;
  }
  int Refusal() { return Place({{static_cast<int64_t>(LayoutStep::kRefuse)}, {}}); }

  // Forgets what is known since a step.
  void Rewind(size_t step) {
    for (; !noted_.empty() && noted_.back().step >= step; noted_.pop_back()) {
      if (noted_.back().slot >= 0) {
        derived_.erase(noted_.back().slot);
      } else {
        known_.erase(noted_.back().known);
      }
    }
    strides_.clear();
    events_.clear();
    decisions_ = last_runs_[step].first_decision;
  }

  // Returns whether a step would read and be told what it was when it ran last, and so would come to the same.
  bool ComesToTheSame(size_t step) {
    if (!infer_.reads_the_same(step)) return false;
    std::vector<Asked> asked = std::move(last_runs_[step].asked);
    last_runs_[step].asked.clear();
    for (size_t k = 0; k < asked.size(); ++k) {
      const bool before = asked[k].answer;
      if (asked[k].slot >= 0) {
        Derived(std::move(asked[k]));
      } else if (Answer(std::move(asked[k])) != before) {
        return false;
      }
    }
    return true;
  }

  // Runs from a step on. All before it is as the last run left it.
  absl::StatusOr<std::vector<InferredLayout>> RunFrom(size_t first) {
    const LayoutTrace::Scope scope(this);
    for (step_ = first; step_ < infer_.count; ++step_) {
      last_runs_[step_].first_decision = decisions_;
      if (!ComesToTheSame(step_)) {
        last_runs_[step_].asked.clear();
        last_runs_[step_].status = infer_.run(step_);
      }
      SMELT_RETURN_IF_ERROR(last_runs_[step_].status);
    }
    last_runs_[step_].first_decision = decisions_;
    return infer_.results();
  }

  // Returns the step that follows the first decisions if these are their answers. The first answer that differs from
  // the last run's is given in the step `first` of the inference.
  int Explore(std::vector<bool> answers, size_t first) {
    if (!status_.ok()) return Refusal();
    if (++runs_ > options_.max_runs) {
      if (options_.whole) status_ = absl::UnimplementedError("a layout rule of too many cases");
      return Refusal();
    }
    forced_ = answers;
    Rewind(first);
    std::vector<bool> all(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(decisions_));
    const absl::StatusOr<std::vector<InferredLayout>> results = RunFrom(first);
    const std::vector<Event> events = std::move(events_);
    int step;
    if (results.ok()) {
      found_ = true;
      Words words = {static_cast<int64_t>(LayoutStep::kDone), static_cast<int64_t>(results->size())};
      for (const InferredLayout& layout : *results) AddResult(layout, words);
      step = Place({std::move(words), {}});
    } else {
      if (first_error_.ok()) first_error_ = results.status();
      step = Refusal();
    }
    const size_t given = answers.size();
    for (const Event& e : events) {
      if (e.decides) all.push_back(e.answer);
    }
    size_t at = all.size();  // decisions before the event that is looked at
    for (size_t k = events.size(); k-- > 0;) {
      const Event& e = events[k];
      if (!e.decides) {
        if (at < given) break;
        step = Place({e.words, {step}});
        continue;
      }
      if (--at < given) break;
      std::vector<bool> other(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at));
      other.push_back(!e.answer);
      const int otherwise = Explore(std::move(other), e.step);
      if (otherwise != step)
        step = Place({e.words, e.answer ? std::vector<int>{step, otherwise} : std::vector<int>{otherwise, step}});
    }
    return step;
  }

  absl::StatusOr<Words> Encode(int root) {
    // A step comes after its successors in steps_; the steps that are reached are written in the opposite order.
    std::vector<bool> reached(steps_.size(), false);
    reached[root] = true;
    Words out = {static_cast<int64_t>(operands_.size()), static_cast<int64_t>(values_.size())};
    for (const auto& value : values_) out.insert(out.end(), value.begin(), value.end());
    std::vector<int64_t> start(steps_.size(), 0);
    int64_t at = static_cast<int64_t>(out.size());
    for (int k = root; k >= 0; --k) {
      if (!reached[k]) continue;
      for (int next : steps_[k].next) reached[next] = true;
      start[k] = at;
      at += static_cast<int64_t>(steps_[k].words.size() + steps_[k].next.size());
    }
    for (int k = root; k >= 0; --k) {
      if (!reached[k]) continue;
      out.insert(out.end(), steps_[k].words.begin(), steps_[k].words.end());
      for (int next : steps_[k].next) out.push_back(start[next]);
    }
    if (out.size() > kMaxWords) return absl::UnimplementedError("a layout rule of too many steps");
    return out;
  }

  const std::vector<LayoutRuleOperand>& operands_;
  const SymbolRanges& ranges_;
  const absl::flat_hash_map<std::string, int64_t>& hints_;
  const LayoutSteps infer_;
  const LayoutRuleOptions& options_;
  const Answers answers_;

  absl::flat_hash_map<std::string, Leaf> leaves_;  // by symbol
  std::vector<std::array<int64_t, 3>> values_;
  std::map<std::array<int64_t, 3>, int64_t> value_numbers_;
  std::map<Words, int64_t> slots_;  // by what is derived
  std::vector<Step> steps_;
  std::map<Step, int> step_numbers_;
  absl::Status first_error_ = absl::OkStatus();  // of a run
  absl::Status status_ = absl::OkStatus();       // what cannot be written down
  bool found_ = false;
  int runs_ = 0;

  // A step of the inference when it ran last.
  struct LastRun {
    std::vector<Asked> asked;
    absl::Status status;
    size_t first_decision = 0;  // the number of decisions before it, in the current run
  };
  std::vector<LastRun> last_runs_;  // the last entry is that of the results

  // The state of the current run.
  size_t step_ = 0;
  std::vector<Noted> noted_;
  std::vector<bool> forced_;
  size_t decisions_ = 0;
  std::vector<Event> events_;
  absl::flat_hash_map<std::string, bool> known_;
  absl::flat_hash_map<std::string, Expr> strides_;  // that the answers so far determine
  std::set<int64_t> derived_;
};

absl::Status NoStep(size_t) { return absl::OkStatus(); }
bool NeverTheSame(size_t) { return false; }

LayoutSteps InOneStep(absl::FunctionRef<absl::StatusOr<std::vector<InferredLayout>>()> infer) {
  return {.count = 0, .run = NoStep, .reads_the_same = NeverTheSame, .results = infer};
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> BuildLayoutRule(
    const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
    const absl::flat_hash_map<std::string, int64_t>& hints,
    absl::FunctionRef<absl::StatusOr<std::vector<InferredLayout>>()> infer, const LayoutRuleOptions& options) {
  return BuildLayoutRule(operands, ranges, hints, InOneStep(infer), options);
}

absl::StatusOr<std::vector<int64_t>> BuildLayoutRule(const std::vector<LayoutRuleOperand>& operands,
                                                     const SymbolRanges& ranges,
                                                     const absl::flat_hash_map<std::string, int64_t>& hints,
                                                     const LayoutSteps& infer, const LayoutRuleOptions& options) {
  return Builder(operands, ranges, hints, infer, options).Run();
}

bool HoldsForAllLayouts(const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
                        const absl::flat_hash_map<std::string, int64_t>& hints, absl::FunctionRef<bool()> holds,
                        const LayoutCases& cases) {
  bool all = true;
  const auto check = [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
    all = all && holds();
    return std::vector<InferredLayout>();
  };
  const LayoutRuleOptions options = {.max_runs = cases.max_runs, .whole = true};
  const Answers answers = {
      .both_of_sizes = false, .both_of_layouts = !cases.compares_strides, .concludes_strides = true};
  const bool complete = Builder(operands, ranges, hints, InOneStep(check), options, answers).Run().ok();
  return all && complete;
}

}  // namespace smelt
