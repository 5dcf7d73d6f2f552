// Tests which graphs share a kernel: those that differ only in names, order, sizes or lifted constants; all other
// differences give another kernel.
#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

// Returns the spec of the one kernel that a graph is fused to.
std::string SpecOf(const std::string& text) {
  auto parsed = ParseGraph(text);
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.status() << "\n" << text;
    return "";
  }
  Graph& g = **parsed;
  auto report = FuseGraph(g);
  EXPECT_TRUE(report.ok()) << report.status();
  std::string spec;
  for (NodeId n : g.AllNodes()) {
    if (!IsKernelNode(g, n)) continue;
    EXPECT_EQ(spec, "") << "two kernels:\n" << PrintGraph(g);
    auto kernel = LowerGroup(g, n, [&](ValueId v) { return DefaultLayout(g, v); });
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    if (kernel.ok()) spec = kernel->spec.ToString();
  }
  EXPECT_NE(spec, "") << PrintGraph(g);
  return spec;
}

using Replacements = std::vector<std::pair<absl::string_view, absl::string_view>>;

// Two sums, a chain and a second result: enough to vary the order of nodes, operands and parameters.
constexpr char kGraph[] =
    R"(graph(%a : Float(4, 6, strides=[6, 1]), %b : Float(4, 6, strides=[6, 1]), %c : Float(6, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %k : float = prim::Constant[value=2.5]()
  %two : int = prim::Constant[value=2]()
  %s : Float(4, 6, strides=[6, 1]) = aten::tanh(%a)
  %t : Float(4, 6, strides=[6, 1]) = aten::sigmoid(%b)
  %u : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%s, %t)
  %v : Float(4, 6, strides=[6, 1]) = aten::add.Tensor(%u, %c, %one)
  %w : Float(4, 6, strides=[6, 1]) = aten::pow.Tensor_Scalar(%v, %two)
  %x : Float(4, 6, strides=[6, 1]) = aten::mul.Scalar(%w, %k)
  return (%x, %u)
)";
std::string Graph1(const Replacements& r = {}) { return absl::StrReplaceAll(kGraph, r); }

TEST(KernelIdentity, NamesDoNotMatter) {
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"%a", "%zz"}, {"%s", "%aa"}, {"%u", "%first"}, {"%x", "%b9"}})));
}

TEST(KernelIdentity, TheOrderOfIndependentNodesDoesNotMatter) {
  const char kTanh[] = "  %s : Float(4, 6, strides=[6, 1]) = aten::tanh(%a)\n";
  const char kSigmoid[] = "  %t : Float(4, 6, strides=[6, 1]) = aten::sigmoid(%b)\n";
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{absl::StrCat(kTanh, kSigmoid), absl::StrCat(kSigmoid, kTanh)}})));
}

TEST(KernelIdentity, TheOrderOfCommutativeOperandsDoesNotMatter) {
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"(%s, %t)", "(%t, %s)"}})));
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"(%u, %c, %one)", "(%c, %u, %one)"}})));
}

TEST(KernelIdentity, TheOrderOfParametersAndResultsDoesNotMatter) {
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"%a : Float(4, 6, strides=[6, 1]), %b : Float(4, 6, strides=[6, 1])",
                                              "%b : Float(4, 6, strides=[6, 1]), %a : Float(4, 6, strides=[6, 1])"},
                                             {"return (%x, %u)", "return (%u, %x)"}})));
}

TEST(KernelIdentity, SizesDoNotMatter) {
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"Float(4, 6, strides=[6, 1])", "Float(32, 70, strides=[70, 1])"},
                                             {"Float(6, strides=[1])", "Float(70, strides=[1])"}})));
}

TEST(KernelIdentity, ScalarConstantsDoNotMatter) {
  EXPECT_EQ(SpecOf(Graph1()), SpecOf(Graph1({{"value=2.5", "value=-0.125"}})));
}

TEST(KernelIdentity, OffsetsDoNotMatter) {
  auto slice = [](int at) {
    return absl::StrCat(
        "graph(%a : Float(4, 12, strides=[12, 1]), %b : Float(4, 6, strides=[6, 1])):\n"
        "  %v : Float(4, 6, strides=[12, 1]) = smelt::view[sizes=[4, 6], strides=[12, 1], offset=",
        at,
        ", dtype=6](%a)\n"
        "  %s : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%v, %b)\n"
        "  %t : Float(4, 6, strides=[6, 1]) = aten::neg(%s)\n  return (%t)\n");
  };
  EXPECT_EQ(SpecOf(slice(0)), SpecOf(slice(5)));
}

// A node of a random graph, by its operands: 0 to 2 are the inputs, 3 the first node's value.
struct RandomNode {
  const char* op;
  int a, b;  // b is -1: of one operand
};
bool Commutes(const RandomNode& n) {
  const absl::string_view op = n.op;
  return op == "mul.Tensor" || op == "maximum" || op == "minimum";
}
std::vector<RandomNode> RandomNodes(std::mt19937& random) {
  static const char* const kUnary[] = {"tanh", "exp", "neg", "abs", "relu", "sqrt"};
  static const char* const kBinary[] = {"mul.Tensor", "div.Tensor", "maximum", "minimum"};
  const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  std::vector<RandomNode> nodes;
  for (int count = 3 + below(7); count > 0; --count) {
    const int values = 3 + static_cast<int>(nodes.size());
    if (below(2) == 0) {
      nodes.push_back({kUnary[below(std::size(kUnary))], below(values), -1});
    } else {
      nodes.push_back({kBinary[below(std::size(kBinary))], below(values), below(values)});
    }
  }
  // Values without readers are added up at the end, so that there is one kernel.
  std::vector<bool> read(3 + nodes.size());
  for (const RandomNode& n : nodes) read[n.a] = read[n.b < 0 ? n.a : n.b] = true;
  int last = static_cast<int>(nodes.size()) + 2;
  for (int v = 0; v < static_cast<int>(read.size()) - 1; ++v) {
    if (read[v]) continue;
    nodes.push_back({"maximum", last, v});
    last = static_cast<int>(nodes.size()) + 2;
  }
  return nodes;
}
// Returns the text of the graph: `rewritten` with other names and sizes, its independent nodes and inputs in another
// order and commutative operands swapped, at `random`.
std::string TextOf(const std::vector<RandomNode>& nodes, bool rewritten, std::mt19937& random) {
  const int values = 3 + static_cast<int>(nodes.size());
  std::vector<std::string> names;
  for (int v = 0; v < values; ++v) names.push_back(absl::StrCat("%v", rewritten ? 1000 - 7 * v : v));
  const std::string type = rewritten ? "Float(9, 14, strides=[14, 1])" : "Float(4, 6, strides=[6, 1])";
  std::vector<int> inputs = {0, 1, 2};
  if (rewritten) std::shuffle(inputs.begin(), inputs.end(), random);
  std::string text = "graph(";
  for (int i : inputs) absl::StrAppend(&text, i == inputs[0] ? "" : ", ", names[i], " : ", type);
  absl::StrAppend(&text, "):\n");
  std::vector<bool> made(values);
  made[0] = made[1] = made[2] = true;
  for (size_t printed = 0; printed < nodes.size(); ++printed) {
    std::vector<int> ready;
    for (int v = 3; v < values; ++v) {
      const RandomNode& n = nodes[v - 3];
      if (!made[v] && made[n.a] && (n.b < 0 || made[n.b])) ready.push_back(v);
    }
    const int v = ready[rewritten ? random() % ready.size() : 0];
    const RandomNode& n = nodes[v - 3];
    const bool swap = rewritten && Commutes(n) && random() % 2 == 0;
    absl::StrAppend(&text, "  ", names[v], " : ", type, " = aten::", n.op, "(", names[swap ? n.b : n.a],
                    n.b < 0 ? "" : absl::StrCat(", ", names[swap ? n.a : n.b]), ")\n");
    made[v] = true;
  }
  return absl::StrCat(text, "  return (", names[values - 1], ")\n");
}

TEST(KernelIdentity, RandomGraphsAreOneKernelHoweverTheyAreWrittenAndAnotherWithAnotherOperator) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    std::vector<RandomNode> nodes = RandomNodes(random);
    const std::string text = TextOf(nodes, false, random), again = TextOf(nodes, true, random);
    const std::string spec = SpecOf(text);
    ASSERT_EQ(spec, SpecOf(again)) << text << again;
    nodes.push_back({"sigmoid", static_cast<int>(nodes.size()) + 2, -1});
    ASSERT_NE(spec, SpecOf(TextOf(nodes, false, random))) << text;
  }
}

// Changes of the computation, or of the traversal of memory.
TEST(KernelIdentity, EverythingElseMatters) {
  const std::string base = SpecOf(Graph1());
  const struct {
    const char* what;
    Replacements change;
  } kChanges[] = {
      {"an operation", {{"aten::tanh", "aten::exp"}}},
      {"which operand a function takes",
       {{"aten::tanh(%a)", "aten::tanh(%b)"}, {"aten::sigmoid(%b)", "aten::sigmoid(%b)"}}},
      {"a constant that changes the code",
       {{"%two : int = prim::Constant[value=2]", "%two : int = prim::Constant[value=3]"}}},
      {"a dtype", {{"Float(", "Double("}}},
      {"a dtype of one operand", {{"%c : Float(6, strides=[1])", "%c : Half(6, strides=[1])"}}},
      {"a broadcast", {{"%c : Float(6, strides=[1])", "%c : Float(4, 6, strides=[6, 1])"}}},
      {"contiguity", {{"%a : Float(4, 6, strides=[6, 1])", "%a : Float(4, 6, strides=[1, 4])"}}},
      {"a result more", {{"return (%x, %u)", "return (%x, %u, %v)"}}},
      {"a result less", {{"return (%x, %u)", "return (%x)"}}},
      {"the order of operands that do not commute", {{"aten::mul.Tensor(%s, %t)", "aten::div.Tensor(%s, %t)"}}},
  };
  std::vector<std::string> seen = {base};
  for (const auto& c : kChanges) {
    const std::string spec = SpecOf(Graph1(c.change));
    for (const std::string& other : seen) EXPECT_NE(spec, other) << c.what;
    seen.push_back(spec);
  }
  EXPECT_NE(SpecOf(Graph1({{"aten::mul.Tensor(%s, %t)", "aten::div.Tensor(%s, %t)"}})),
            SpecOf(Graph1({{"aten::mul.Tensor(%s, %t)", "aten::div.Tensor(%t, %s)"}})));
}

}  // namespace
}  // namespace smelt
