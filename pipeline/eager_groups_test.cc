#include "smelt/pipeline/eager_groups.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

constexpr char kConstants[] = R"(
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %four : int = prim::Constant[value=4]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
)";

// Returns the top block's results in order, "[" and "]" around those of a group.
std::string Groups(absl::string_view inputs, absl::string_view nodes, absl::string_view results) {
  auto graph = ParseGraph(absl::StrCat("graph(", inputs, "):", kConstants, nodes, "  return (", results, ")\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "";
  Graph& g = **graph;
  const std::vector<EagerGroup> groups = FormEagerGroups(g).groups;
  std::string out;
  for (NodeId n : g.Nodes(g.top())) {
    if (g.node(n).op == "prim::Constant") continue;
    for (const EagerGroup& group : groups) {
      if (group.front() == n) absl::StrAppend(&out, "[ ");
    }
    absl::StrAppend(&out, g.value(g.node(n).outputs[0]).name, " ");
    for (const EagerGroup& group : groups) {
      if (group.back() == n) absl::StrAppend(&out, "] ");
    }
  }
  return out;
}

constexpr char kX[] = "%x : Float(4, strides=[1])";
constexpr char kXY[] = "%x : Float(4, strides=[1]), %y : Float(4, strides=[1])";

TEST(EagerGroupsTest, OperatorsThatFollowEachOtherAreOneGroup) {
  EXPECT_EQ(Groups(kX, R"(
  %a : Float(4, strides=[1]) = aten::mul.Scalar(%x, %two)
  %b : Float(4, strides=[1]) = aten::exp(%a)
)",
                   "%b"),
            "[ a b ] ");
}

TEST(EagerGroupsTest, AWriteOfAWholeTensorIsAMember) {
  EXPECT_EQ(Groups(kX, R"(
  %a : Float(4, strides=[1]) = aten::mul_.Scalar(%x, %two)
  %b : Float(4, strides=[1]) = aten::exp(%a)
)",
                   "%b"),
            "[ a b ] ");
}

TEST(EagerGroupsTest, AConversionToAnotherDTypeIsAMember) {
  EXPECT_EQ(Groups(kX, R"(
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %b : Long(4, strides=[1]) = aten::to.dtype(%a, %four, %no, %no, %none)
  %c : Long(4, strides=[1]) = aten::neg(%b)
)",
                   "%c"),
            "[ a b c ] ");
}

// 6 is the code of Float: the result is %x itself.
TEST(EagerGroupsTest, AConversionToTheSameDTypeIsNoMember) {
  EXPECT_EQ(Groups(kX, R"(
  %six : int = prim::Constant[value=6]()
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %b : Float(4, strides=[1]) = aten::to.dtype(%a, %six, %no, %no, %none)
  %c : Float(4, strides=[1]) = aten::neg(%b)
)",
                   "%c"),
            "a b c ");
}

TEST(EagerGroupsTest, AViewThatALaterMemberNeedsMovesAhead) {
  EXPECT_EQ(Groups("%x : Float(4, 4, strides=[4, 1])", R"(
  %a : Float(4, 4, strides=[4, 1]) = aten::exp(%x)
  %v : Float(4, 4, strides=[1, 4]) = aten::transpose.int(%x, %zero, %one)
  %b : Float(4, 4, strides=[4, 1]) = aten::mul.Tensor(%a, %v)
)",
                   "%b"),
            "v [ a b ] ");
}

TEST(EagerGroupsTest, AReaderOfPartOfWhatIsWrittenIsAMember) {
  EXPECT_EQ(Groups(kX, R"(
  %v : Float(2, strides=[1]) = aten::slice.Tensor(%x, %zero, %zero, %two, %one)
  %a : Float(4, strides=[1]) = aten::mul_.Scalar(%x, %two)
  %b : Float(2, strides=[1]) = aten::exp(%v)
  %c : Float(4, strides=[1]) = aten::exp(%a)
)",
                   "%b, %c"),
            "v [ a b c ] ");
}

TEST(EagerGroupsTest, AReaderOfFewElementsOfALargeTensorThatIsWrittenStaysOutside) {
  EXPECT_EQ(Groups("%x : Float(8192, strides=[1])", R"(
  %v : Float(2, strides=[1]) = aten::slice.Tensor(%x, %zero, %zero, %two, %one)
  %a : Float(8192, strides=[1]) = aten::mul_.Scalar(%x, %two)
  %b : Float(2, strides=[1]) = aten::exp(%v)
  %c : Float(8192, strides=[1]) = aten::exp(%a)
)",
                   "%b, %c"),
            "v [ a c ] b ");
}

TEST(EagerGroupsTest, AViewOfWhatAMemberMakesIsAMember) {
  EXPECT_EQ(Groups("%x : Float(4, 4, strides=[4, 1])", R"(
  %a : Float(4, 4, strides=[4, 1]) = aten::exp(%x)
  %v : Float(4, strides=[1]) = aten::select.int(%a, %zero, %one)
  %b : Float(4, strides=[1]) = aten::zero_(%v)
  %c : Float(4, 4, strides=[4, 1]) = aten::mul.Scalar(%a, %two)
)",
                   "%c"),
            "[ a v b c ] ");
}

TEST(EagerGroupsTest, AViewWhoseIndexOnlyTheCallKnowsIsNoMember) {
  EXPECT_EQ(Groups("%x : Float(4, 4, strides=[4, 1]), %i : int", R"(
  %a : Float(4, 4, strides=[4, 1]) = aten::exp(%x)
  %v : Float(4, strides=[1]) = aten::select.int(%a, %zero, %i)
  %b : Float(4, strides=[1]) = aten::neg(%v)
)",
                   "%b"),
            "a v b ");
}

TEST(EagerGroupsTest, WhatAMemberNeedsIsAMember) {
  EXPECT_EQ(Groups(kXY, R"(
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %s : Float(strides=[]) = aten::sum(%y, %none)
  %b : Float(4, strides=[1]) = aten::mul.Tensor(%a, %s)
)",
                   "%b"),
            "[ a s b ] ");
}

// The copy reads part of what it writes: PyTorch's order of elements decides.
TEST(EagerGroupsTest, NoOperatorMovesAcrossAWriteToWhatItReads) {
  EXPECT_EQ(Groups(kX, R"(
  %three : int = prim::Constant[value=3]()
  %v : Float(3, strides=[1]) = aten::slice.Tensor(%x, %zero, %zero, %three, %one)
  %u : Float(3, strides=[1]) = aten::slice.Tensor(%x, %zero, %one, %four, %one)
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %w : Float(3, strides=[1]) = aten::copy_(%v, %u, %no)
  %b : Float(4, strides=[1]) = aten::mul.Tensor(%a, %x)
)",
                   "%a, %b"),
            "v u a w b ");
}

// A tensor with gaps is copied, though the type is that of a view. The copy can be made before the group.
TEST(EagerGroupsTest, NoWriteMovesAcrossAnOperatorThatMayCopyWhatIsWritten) {
  EXPECT_EQ(Groups("%x : Float(1, 2, strides=[4, 2])", R"(
  %a : Float(1, 2, strides=[4, 2]) = aten::exp_(%x)
  %r : Float(2, strides=[2]) = aten::ravel(%x)
  %b : Float(1, 2, strides=[4, 2]) = aten::mul_.Scalar(%x, %two)
)",
                   "%a, %r"),
            "a r b ");
  EXPECT_EQ(Groups("%x : Float(1, 2, strides=[4, 2])", R"(
  %a : Float(1, 2, strides=[2, 1]) = aten::exp(%x)
  %r : Float(2, strides=[2]) = aten::ravel(%x)
  %b : Float(1, 2, strides=[4, 2]) = aten::mul_.Scalar(%x, %two)
)",
                   "%a, %r"),
            "r [ a b ] ");
}

TEST(EagerGroupsTest, OperatorsOverOneLoopNeedNoCommonTensor) {
  EXPECT_EQ(Groups(kXY, R"(
  %a : Float(4, strides=[1]) = aten::mul_.Scalar(%x, %two)
  %b : Float(4, strides=[1]) = aten::exp(%y)
)",
                   "%a, %b"),
            "[ a b ] ");
}

TEST(EagerGroupsTest, OperatorsOverOtherLoopsWithoutACommonTensorStayApart) {
  EXPECT_EQ(Groups("%x : Float(4, strides=[1]), %y : Float(5, strides=[1])", R"(
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %b : Float(5, strides=[1]) = aten::exp(%y)
)",
                   "%a, %b"),
            "a b ");
}

TEST(EagerGroupsTest, ADrawOfRandomNumbersIsNoMember) {
  EXPECT_EQ(Groups(kX, R"(
  %a : Float(4, strides=[1]) = aten::exp(%x)
  %b : Float(4, strides=[1]) = aten::bernoulli(%a, %none)
)",
                   "%b"),
            "a b ");
}

// The write stands between the two nodes that the last one needs. It must not begin a group that takes one of them.
TEST(EagerGroupsTest, WhatJoinsAGroupLeavesEarlierGroupsWhole) {
  EXPECT_EQ(Groups("%x : Float(2, 1, 4, strides=[4, 4, 1])", R"(
  %p : Float(1, 4, strides=[4, 1]) = aten::select(%x, %zero, %zero)
  %q : Float(1, 4, strides=[4, 1]) = aten::select(%x, %zero, %one)
  %a : Float(1, 4, strides=[4, 1]) = aten::neg(%q)
  %b : Float(1, 4, strides=[4, 1]) = aten::neg_(%p)
  %c : Float(1, 4, strides=[4, 1]) = aten::minimum(%a, %p)
  %three : int = prim::Constant[value=3]()
  %d : Float(1, 4, strides=[4, 1]) = aten::triu_(%c, %three)
  %e : Float(1, 4, strides=[4, 1]) = aten::add_.Tensor(%p, %c, %three)
)",
                   "%e"),
            "p q [ a b c d e ] ");
}

// A loop of torch.export that makes no trip returns copies of what it carries.
TEST(EagerGroupsTest, NoWriteMovesAcrossALoopThatMayCopy) {
  EXPECT_EQ(Groups(kX, R"(
  %no_dims : int[] = prim::Constant[value=[]]()
  %n : Byte() = aten::zeros(%no_dims, %zero, %none, %none, %none)
  %a : Float(4, strides=[1]) = aten::mul_.Scalar(%x, %two)
  %m : Byte(), %r : Float(4, strides=[1]) = smelt::while_loop(%n, %x)
    block0(%i : Byte(), %p : Float(4, strides=[1])):
      %more : Bool() = aten::lt.Scalar(%i, %zero)
      -> (%more)
    block1(%k : Byte(), %q : Float(4, strides=[1])):
      -> (%k, %q)
  %b : Float(4, strides=[1]) = aten::abs_(%a)
)",
                   "%r"),
            "n a m b ");
}

}  // namespace
}  // namespace smelt
