#include "smelt/frontend/number_guards.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns those of `numbers` that an operator on a tensor accepts; %n is the number, %x is a tensor of `type`.
std::vector<int64_t> Taken(const std::string& type, const std::string& op, const std::vector<int64_t>& numbers) {
  auto g = ParseGraph(absl::StrCat("graph(%x : ", type, "(3, strides=[1]), %m : Bool(3, strides=[1]), %n : int(s0)):\n",
                                   "  %none : NoneType = prim::Constant()\n", "  %y : ", type,
                                   "(3, strides=[1]) = ", op, "\n  return (%y)\n"));
  EXPECT_TRUE(g.ok()) << g.status();
  (*g)->symbols.Set("s0", {INT64_MIN, INT64_MAX});
  AskForNumbersThatFit(**g);
  std::vector<int64_t> taken;
  absl::c_copy_if(numbers, std::back_inserter(taken), [&](int64_t n) {
    return absl::c_all_of((*g)->size_guards, [&](const Graph::SizeGuard& guard) {
      return guard.holds.Evaluate({{"s0", n}}).value() != 0;
    });
  });
  return taken;
}

// Expected are the numbers next to the limits of each dtype that eager PyTorch accepts.
TEST(NumberGuards, WhatFillsATensorFitsItsDType) {
  for (const char* op :
       {"aten::fill.Scalar(%x, %n)", "aten::fill_.Scalar(%x, %n)", "aten::masked_fill.Scalar(%x, %m, %n)",
        "aten::clamp(%x, %none, %n)", "aten::full_like(%x, %n, %none, %none, %none, %none, %none)"}) {
    EXPECT_THAT(Taken("Char", op, {-129, -128, 127, 128}), ElementsAre(-128, 127)) << op;
    EXPECT_THAT(Taken("Byte", op, {-256, -255, 255, 256}), ElementsAre(-255, 255)) << op;
    EXPECT_THAT(Taken("Short", op, {-32769, -32768, 32767, 32768}), ElementsAre(-32768, 32767)) << op;
    EXPECT_THAT(Taken("Int", op, {int64_t{1} << 31, INT32_MAX}), ElementsAre(INT32_MAX)) << op;
    EXPECT_THAT(Taken("Half", op, {-65505, -65504, 65504, 65505}), ElementsAre(-65504, 65504)) << op;
    EXPECT_THAT(Taken("BFloat16", op, {int64_t{1} << 62}), ElementsAre(int64_t{1} << 62)) << op;
  }
}

TEST(NumberGuards, ASumCastsItsNumberButNotItsFactor) {
  EXPECT_THAT(Taken("Char", "aten::add.Scalar(%x, %n, %n)", {127, 128}), ElementsAre(127));
  EXPECT_THAT(Taken("Char", "aten::mul.Scalar(%x, %n)", {127, 128}), ElementsAre(127, 128));
  EXPECT_THAT(Taken("Char", "aten::sub.Tensor(%x, %x, %n)", {-128, -127, 128, 129}), ElementsAre(-127, 128));
}

TEST(NumberGuards, IntegersAreRaisedToNoNegativePower) {
  EXPECT_THAT(Taken("Long", "aten::pow.Tensor_Scalar(%x, %n)", {-1, 0, 1000}), ElementsAre(0, 1000));
  EXPECT_THAT(Taken("Char", "aten::pow.Tensor_Scalar(%x, %n)", {-1, 0, 128}), ElementsAre(0));
  EXPECT_THAT(Taken("Float", "aten::pow.Tensor_Scalar(%x, %n)", {-1}), ElementsAre(-1));
}

TEST(NumberGuards, WhatDataHoldIsAssertedInFrontOfTheOperator) {
  auto g = ParseGraph(R"(graph(%x : Char(3, strides=[1]), %t : Long()):
  %n : int(u0) = aten::item(%t)
  %y : Char(3, strides=[1]) = aten::fill_.Scalar(%x, %n)
  return (%y)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  (*g)->symbols.Set("u0", {INT64_MIN, INT64_MAX});
  AskForNumbersThatFit(**g);
  EXPECT_THAT((*g)->size_guards, IsEmpty());
  std::vector<std::string> ops;
  for (NodeId n : (*g)->Nodes((*g)->top())) {
    const std::string& op = (*g)->node(n).op.name();
    if (op == "aten::_assert_scalar" || op == "aten::fill_") ops.push_back(op);
  }
  EXPECT_THAT(ops, ElementsAre("aten::_assert_scalar", "aten::_assert_scalar", "aten::fill_"));
}

}  // namespace
}  // namespace smelt
