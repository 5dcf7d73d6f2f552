// Layouts of the results of every operator with a rule: testdata/layout_rules.txt has PyTorch's layouts.
#include "smelt/core/op/layout_rule.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/recorded_layouts.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

using Sizes = std::vector<int64_t>;

bool IsOut(const Argument& a) {
  return a.kw_only && (a.alias.is_write || (!a.alias.contained.empty() && a.alias.contained[0].is_write));
}

std::vector<OpArg> WithoutOuts(OpName op, std::vector<OpArg> args) {
  const FunctionSchema* schema = FindSchema(op);
  size_t n = 0;
  while (n < args.size() && !IsOut(schema->arguments[n])) ++n;
  args.resize(n);
  return args;
}

// Returns where the layout of tensors of these types differs from the table's; "" if it does not. nullopt: sizes or
// strides are unknown.
std::optional<std::string> Difference(const std::vector<Type>& have, const RecordedLayout& c) {
  std::vector<const TensorType*> tensors;
  for (const Type& t : have) {
    if (t.IsTensor()) tensors.push_back(&t.tensor());
  }
  if (tensors.size() < c.sizes.size()) return std::nullopt;
  for (size_t k = 0; k < c.sizes.size(); ++k) {
    const TensorType& t = *tensors[k];
    if (!t.IsComplete()) return std::nullopt;
    const Sizes sizes = Numbers(*t.sizes), strides = Numbers(*t.strides);
    if (sizes != c.sizes[k])
      return absl::StrCat("sizes [", absl::StrJoin(sizes, ", "), "] instead of [", absl::StrJoin(c.sizes[k], ", "),
                          "]");
    const std::optional<Sizes> want = ExpectedStrides(c.strides[k], sizes);
    for (size_t d = 0; want && d < sizes.size(); ++d) {
      if (sizes[d] != 1 && strides[d] != (*want)[d])
        return absl::StrCat("strides [", absl::StrJoin(strides, ", "), "] instead of [", absl::StrJoin(*want, ", "),
                            "]", c.sizes.size() > 1 ? absl::StrCat(" of result ", k) : "");
    }
  }
  return "";
}

// Collects differences by operator, so that one wrong rule does not hide others.
class Tally {
 public:
  void Add(const RecordedLayout& c, absl::string_view args, const std::optional<std::string>& difference) {
    ++calls_;
    if (!difference) {
      unknown_[c.op.full()].push_back(absl::StrCat(args, " in ", c.layout));
    } else if (!difference->empty()) {
      differs_[c.op.full()].push_back(absl::StrCat(args, " in ", c.layout, ": ", *difference));
    }
  }
  void Refuse(const RecordedLayout& c, absl::string_view args, absl::string_view why) {
    ++calls_;
    refused_[c.op.full()].push_back(absl::StrCat(args, " in ", c.layout, ": ", why));
  }
  ~Tally() {
    std::printf("%d calls; of %zu operators some differ, of %zu inference refuses some, of %zu some are not known\n",
                calls_, differs_.size(), refused_.size(), unknown_.size());
    const bool all = std::getenv("SMELT_ALL") != nullptr;
    for (const auto& [what, map] :
         {std::pair("DIFFERS", &differs_), std::pair("REFUSED", &refused_), std::pair("UNKNOWN", &unknown_)}) {
      for (const auto& [op, lines] : *map) {
        std::printf("%s %s: %zu\n", what, op.c_str(), lines.size());
        for (size_t k = 0; k < (all ? lines.size() : 3) && k < lines.size(); ++k)
          std::printf("    %s\n", lines[k].c_str());
      }
    }
  }
  size_t differs() const { return differs_.size(); }
  const std::map<std::string, std::vector<std::string>>& refused() const { return refused_; }
  const std::map<std::string, std::vector<std::string>>& unknown() const { return unknown_; }
  int calls() const { return calls_; }

 private:
  std::map<std::string, std::vector<std::string>> differs_, refused_, unknown_;
  int calls_ = 0;
};

TEST(LayoutRulesTest, InferredStridesArePyTorchs) {
  Tally tally;
  const SymbolRanges ranges;
  ForEachRecordedLayout([&](const RecordedLayout& c) {
    const OpName op = c.op;
    const std::string& args = c.arguments;
    const auto out = InferCall(OpCall(op, c.args), ranges);
    if (!out.ok()) return tally.Refuse(c, args, out.status().message());
    if (const OpInfo& info = GetOpInfo(op); info.kind == OpKind::kOut) {  // which says what else was given
      const std::vector<OpArg> given = WithoutOuts(op, c.args);
      const auto functional = InferCall(OpCall(info.functional, given), ranges);
      if (!functional.ok()) return tally.Refuse(c, args, functional.status().message());
    }
    std::vector<Type> types;
    for (const InferredOutput& o : *out) {
      types.push_back(o.type);
      types.insert(types.end(), o.elements.begin(), o.elements.end());
    }
    tally.Add(c, args, Difference(types, c));
  });
  EXPECT_GT(tally.calls(), 100000);
  EXPECT_EQ(tally.differs(), 0u);
  // Calls that smelt refuses for reasons other than layouts, and calls whose sizes only the data determines.
  EXPECT_LE(tally.refused().size(), 50u);
  EXPECT_LE(tally.unknown().size(), 22u);
}

// A rule serves numbers as well as expressions.
TEST(LayoutRulesTest, RulesGivePyTorchsStridesOfNumbers) {
  int calls = 0;
  ForEachRecordedLayout([&](const RecordedLayout& c) {
    const OpKind kind = GetOpInfo(c.op).kind;
    const OpCall call(c.op, c.args);
    if (kind == OpKind::kOut || kind == OpKind::kInplace || c.sizes.empty()) return;
    if (!InferCall(call, SymbolRanges()).ok()) return;
    const std::optional<LayoutRule> rule = FindLayoutRule(call, 0);
    if (!rule) return;
    std::vector<Geometry> operands;
    std::set<DType> dtypes;
    for (int i : rule->operands) {
      const OpArg& a = call.arg(i);
      operands.push_back(a.IsTensor() ? Geometry{Numbers(*a.tensor.sizes), Numbers(*a.tensor.strides), 0} : Geometry());
      if (a.IsTensor()) dtypes.insert(*a.tensor.dtype);
    }
    if (dtypes.size() > 1) return;  // PyTorch copies some of the operands first
    ConcreteDecide decide;
    const absl::StatusOr<Geometry> g = ApplyLayoutRule<ConcreteDecide>(decide, *rule, operands, c.sizes[0]);
    if (absl::IsUnimplemented(g.status())) return;
    ASSERT_TRUE(g.ok()) << c.op.full() << " " << c.arguments << " in " << c.layout << ": " << g.status();
    const std::optional<Sizes> want = ExpectedStrides(c.strides[0], c.sizes[0]);
    if (g->sizes != c.sizes[0] || !want) return;
    ++calls;
    for (size_t d = 0; d < g->sizes.size(); ++d) {
      if (g->sizes[d] == 1) continue;
      EXPECT_EQ(g->strides[d], (*want)[d]) << c.op.full() << " " << c.arguments << " in " << c.layout;
    }
  });
  EXPECT_GT(calls, 10000);
}

// The decomposition of an operator must give results with the operator's layout. Here only the rules state it.
TEST(LayoutRulesTest, DecompositionsGiveThoseStrides) {
  Tally tally;
  ForEachRecordedLayout([&](const RecordedLayout& c) {
    const OpName op = c.op;
    const std::string& args = c.arguments;
    const OpInfo& info = GetOpInfo(op);
    if (!info.decomposes || info.kind == OpKind::kOut || info.kind == OpKind::kInplace) return;
    Graph g;
    const NodeId n = AddCall(g, c);
    const absl::StatusOr<bool> changed = Decompose(g, n);
    if (!changed.ok()) return tally.Refuse(c, args, changed.status().message());
    if (!*changed) return;
    std::vector<Type> have;
    for (ValueId v : g.outputs()) {
      const auto elements = GetListElements(g, v);
      if (!elements) have.push_back(g.value(v).type);
      for (ValueId e : elements.value_or(std::vector<ValueId>())) have.push_back(g.value(e).type);
    }
    tally.Add(c, args, Difference(have, c));
  });
  EXPECT_GT(tally.calls(), 20000);
  EXPECT_EQ(tally.differs(), 0u);
}

// Returns the operators of the table, or those that its head lists as having no call.
std::set<std::string> Listed(bool without_calls) {
  const absl::StatusOr<std::string> text = ReadFile("testdata/layout_rules.txt");
  SMELT_CHECK_OK(text.status());
  std::set<std::string> names;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const size_t begins = line.find("no call was found of");
    if (absl::StartsWith(line, "#") != without_calls || (without_calls && begins == absl::string_view::npos)) continue;
    const absl::string_view list = line.substr(without_calls ? line.find(": ") + 2 : line.rfind('\t') + 1);
    for (absl::string_view name : absl::StrSplit(list, ' '))
      names.insert(absl::StrContains(name, "::") ? std::string(name) : absl::StrCat("aten::", name));
  }
  return names;
}

TEST(LayoutRulesTest, TheTableHasNearlyEveryDescribedOperator) {
  const std::set<std::string> with = Listed(false), without = Listed(true);
  for (OpName op : DescribedOps()) {
    const OpKind kind = GetOpInfo(op).kind;
    const FunctionSchema* schema = FindSchema(op);
    const bool is_aten = absl::StartsWith(op.name(), "aten::");
    if (!is_aten || kind == OpKind::kScalar || kind == OpKind::kContainer) continue;
    if (kind == OpKind::kComposite && !GetOpInfo(op).decomposes) continue;  // that cannot be decomposed
    const bool gives_tensors = std::any_of(schema->returns.begin(), schema->returns.end(),
                                           [](const Argument& r) { return absl::StrContains(r.type_text, "Tensor"); });
    EXPECT_TRUE(!gives_tensors || with.contains(op.full()) || without.contains(op.full())) << op.full();
  }
  EXPECT_LT(without.size() * 20, with.size());
}

}  // namespace
}  // namespace smelt
