// Which graphs share a kernel: one where only names, order, sizes or lifted constants differ, another where anything
// else does.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

// The spec of the one kernel that a graph is fused to.
std::string SpecOf(const std::string& text) {
  auto parsed = ParseGraph(text);
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.status() << "\n" << text;
    return "";
  }
  Graph& g = **parsed;
  auto report = Fuse(g);
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

// Two sums, a chain and a second result: enough that the order of nodes, operands and parameters is free.
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

// What changes what is computed, or how memory is walked.
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
