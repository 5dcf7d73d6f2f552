#include "smelt/functionalize/erase_dead.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns the operators that are left, constants apart, in order.
std::vector<std::string> Left(const std::string& body, const char* results) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph("graph(%x : Float(4, strides=[1]), %i : Long(2, strides=[1]), %c : bool):\n" + body +
                          "  return (" + results + ")\n",
                      options);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return {};
  EraseDead(**g, (*g)->top(), {});
  std::vector<std::string> out;
  for (NodeId n : (*g)->AllNodes()) {
    if ((*g)->node(n).op.name() != "prim::Constant") out.push_back((*g)->node(n).op.name());
  }
  return out;
}

TEST(EraseDeadTest, AChainWithoutReadersGoes) {
  EXPECT_THAT(Left(R"(
  %a : Float(4, strides=[1]) = aten::relu(%x)
  %b : Float(4, strides=[1]) = aten::neg(%a)
)",
                   "%x"),
              IsEmpty());
}

TEST(EraseDeadTest, WhatAResultNeedsStays) {
  EXPECT_THAT(Left(R"(
  %a : Float(4, strides=[1]) = aten::relu(%x)
  %b : Float(4, strides=[1]) = aten::neg(%x)
)",
                   "%a"),
              ElementsAre("aten::relu"));
}

TEST(EraseDeadTest, ADrawOfRandomNumbersStays) {
  EXPECT_THAT(Left(R"(
  %n : NoneType = prim::Constant()
  %a : Float(4, strides=[1]) = aten::bernoulli(%x, %n)
)",
                   "%x"),
              ElementsAre("aten::bernoulli"));
}

TEST(EraseDeadTest, WhatPyTorchMayRefuseForItsDataIsComputedWithoutReaders) {
  EXPECT_THAT(Left(R"(
  %zero : int = prim::Constant[value=0]()
  %a : Float(2, strides=[1]) = aten::index_select(%x, %zero, %i)
)",
                   "%x"),
              ElementsAre("aten::index_select", "smelt::assert_computed"));
}

TEST(EraseDeadTest, WhatPyTorchMayRefuseForItsDataIsNotKeptTwiceIfItIsRead) {
  EXPECT_THAT(Left(R"(
  %zero : int = prim::Constant[value=0]()
  %a : Float(2, strides=[1]) = aten::index_select(%x, %zero, %i)
)",
                   "%a"),
              ElementsAre("aten::index_select"));
}

TEST(EraseDeadTest, AResultOfABranchThatNothingReadsGoesWithWhatComputedIt) {
  EXPECT_THAT(Left(R"(
  %a : Float(4, strides=[1]), %b : Float(4, strides=[1]) = prim::If(%c)
    block0():
      %p : Float(4, strides=[1]) = aten::relu(%x)
      %q : Float(4, strides=[1]) = aten::neg(%x)
      -> (%p, %q)
    block1():
      %r : Float(4, strides=[1]) = aten::exp(%x)
      -> (%x, %r)
)",
                   "%a"),
              ElementsAre("prim::If", "aten::relu"));
}

TEST(EraseDeadTest, ABranchThatComputesNothingThatIsReadGoes) {
  EXPECT_THAT(Left(R"(
  %a : Float(4, strides=[1]) = prim::If(%c)
    block0():
      %p : Float(4, strides=[1]) = aten::relu(%x)
      -> (%p)
    block1():
      -> (%x)
)",
                   "%x"),
              IsEmpty());
}

}  // namespace
}  // namespace smelt
