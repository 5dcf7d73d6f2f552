#include "smelt/core/op/declared_types.h"

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

// Returns the error in a graph, or "" if it is correct.
std::string Wrong(absl::string_view text) {
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return "";
  const auto check = [&]() -> absl::Status {
    SMELT_RETURN_IF_ERROR(FillArguments(**g));
    SMELT_RETURN_IF_ERROR(CheckArgumentKinds(**g));
    const std::string before = PrintGraph(**g);
    const absl::Status s = CheckDeclaredTypes(**g);
    EXPECT_EQ(PrintGraph(**g), before);
    return s;
  };
  const absl::Status s = check();
  EXPECT_TRUE(s.ok() || absl::IsInvalidArgument(s)) << s;
  return std::string(s.message());
}

TEST(DeclaredTypesTest, ArgumentsLeftOutAtTheEndTakeTheirDefaults) {
  auto g = ParseGraph(R"(graph(%x : Float(4)):
  %t : int = prim::Constant[value=7]()
  %y : Double(4) = aten::to.dtype(%x, %t)
  return (%y))");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(FillArguments(**g).ok());
  const Node& to = (*g)->node((*g)->value((*g)->outputs()[0]).def);
  ASSERT_EQ(to.inputs.size(), 5u);  // self, dtype, non_blocking, copy, memory_format
  EXPECT_EQ(std::get<bool>(*GetConstant(**g, to.inputs[2])), false);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*GetConstant(**g, to.inputs[4])));
}

TEST(DeclaredTypesTest, AnArgumentWithoutADefaultMustBeThere) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %y : Float(4) = aten::add.Tensor(%x)
  return (%y))"),
              HasSubstr("%y = aten::add.Tensor: expected 3 inputs, found 1, and \"other\" has no default"));
}

TEST(DeclaredTypesTest, NothingButATensorIsATensor) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : NoneType = prim::Constant()
  %y : Float(4) = aten::relu(%n)
  return (%y))"),
              HasSubstr("aten::relu: argument \"self\" is None, expected a tensor"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : int = prim::Constant[value=1]()
  %y : Float(4) = aten::expand_as(%x, %n)
  return (%y))"),
              HasSubstr("argument \"other\" is of type int, expected a tensor"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4), %z : Tensor?):
  %n : int = prim::Constant[value=1]()
  %y : Float(4) = aten::add.out(%x, %x, %n, %z)
  return (%y))"),
              HasSubstr("argument \"out\" is of type Tensor?, expected a tensor"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : int = prim::Constant[value=1]()
  %d : int = prim::Constant[value=0]()
  %l : int[] = prim::ListConstruct(%n, %n)
  %y : Float(4) = aten::cat(%l, %d)
  return (%y))"),
              HasSubstr("argument \"tensors\" has an element 0 of type int, expected a tensor"));
}

TEST(DeclaredTypesTest, ANumberBesideATensorIsOneForAnElementwiseOperatorThatDoesNotWriteIt) {
  EXPECT_EQ(Wrong(R"(graph(%x : Float(4)):
  %n : int = prim::Constant[value=1]()
  %y : Float(4) = aten::add.Tensor(%x, %n, %n)
  return (%y))"),
            "");
  EXPECT_THAT(Wrong(R"(graph(%x : Long(4)):
  %n : bool = prim::Constant[value=1]()
  %y : Long(4) = aten::__iand__.Tensor(%n, %x)
  return (%y))"),
              HasSubstr("argument \"self\" is of type bool"));
}

TEST(DeclaredTypesTest, ConstantsAreOfTheirType) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : Tensor = prim::Constant[value=1]()
  %y : Float(4) = aten::relu(%n)
  return (%y))"),
              HasSubstr("its value is not of its type, Tensor"));
}

TEST(DeclaredTypesTest, AResultOfAnotherTypeNamesTheFieldAndBothTypes) {
  EXPECT_THAT(
      Wrong(R"(graph(%x : Float(4, strides=[1])):
  %n : float = prim::Constant[value=0.5]()
  %y : Float(4, strides=[1]) = aten::le.Scalar(%x, %n)
  return (%y))"),
      HasSubstr("%y = aten::le.Scalar: the dtype of %y is declared otherwise than it follows from the operands: "
                "declared Float(4, strides=[1]), inferred Bool(4, strides=[1])"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4, 8)):
  %n : NoneType = prim::Constant()
  %y : Float(4, 8) = aten::sum(%x, %n)
  return (%y))"),
              HasSubstr("the number of dims of %y"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4, 8)):
  %y : Float(4, 9) = aten::relu(%x)
  return (%y))"),
              HasSubstr("the size of dim 1 of %y"));
}

TEST(DeclaredTypesTest, SizesThatContradictTheExampleAreFound) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(s0, 8)):
  symbol s0 in [2, inf] hint 4
  %y : Float(7, 8) = aten::relu(%x)
  return (%y))"),
              HasSubstr("the size of dim 0 of %y"));
  EXPECT_EQ(Wrong(R"(graph(%x : Float(s0, 8)):
  symbol s0 in [2, inf] hint 4
  %y : Float(s0, 8) = aten::relu(%x)
  return (%y))"),
            "");
}

TEST(DeclaredTypesTest, AViewHasItsOperandsStridesAndFreshMemoryIsDenseInAnyOrder) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %y : Float(8, 4, strides=[4, 1]) = aten::t(%x)
  return (%y))"),
              HasSubstr("the stride of dim 0 of %y"));
  EXPECT_EQ(Wrong(R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %y : Float(4, 8, strides=[1, 4]) = aten::relu(%x)
  return (%y))"),
            "");
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %y : Float(4, 8, strides=[0, 0]) = aten::relu(%x)
  return (%y))"),
              HasSubstr("the stride of dim 0 of %y"));
}

TEST(DeclaredTypesTest, RanksThatAnOperatorIsNotForAreFound) {
  EXPECT_NE(Wrong(R"(graph(%x : Float(4)):
  %d : int = prim::Constant[value=0]()
  %y : Float(4) = aten::triu(%x, %d)
  return (%y))"),
            "");
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %s : int[] = prim::Constant[value=[2, 2, 2]]()
  %n : NoneType = prim::Constant()
  %y : Float(4) = aten::_upsample_nearest_exact3d(%x, %s, %n, %n, %n)
  return (%y))"),
              HasSubstr("expected self to have 5 dimensions, got 1"));
}

TEST(DeclaredTypesTest, MemoryThatCannotBeIsRefused) {
  EXPECT_THAT(Wrong("graph(%x : Float(4611686018427387904, 4, strides=[4, 1])):\n  return (%x)"),
              HasSubstr("do not lie within 2^63 bytes"));
  EXPECT_THAT(Wrong("graph(%x : Float(-3, strides=[1])):\n  return (%x)"), HasSubstr("negative"));
}

TEST(DeclaredTypesTest, WhatIsWrittenInPlaceHasTheSizesOfTheResult) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4), %z : Float(2, 4)):
  %y : Float(4) = aten::mul_.Tensor(%x, %z)
  return (%y))"),
              HasSubstr("%y = aten::mul_.Tensor: argument \"self\" is Float(4), but the result to be written to it is "
                        "Float(2, 4"));
  EXPECT_NE(Wrong(R"(graph(%x : Float(4), %z : Float(3)):
  %y : Float(4) = aten::mul_.Tensor(%x, %z)
  return (%y))"),
            "");
  EXPECT_EQ(Wrong(R"(graph(%x : Float(2, 4), %z : Float(4)):
  %y : Float(2, 4) = aten::mul_.Tensor(%x, %z)
  return (%y))"),
            "");
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %d : int = prim::Constant[value=1]()
  %y : Float(4) = aten::triu_(%x, %d)
  return (%y))"),
              HasSubstr("triu"));
}

TEST(DeclaredTypesTest, ANumberIsNoSourceOfACopy) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : int = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %y : Float(4) = aten::copy_(%x, %n, %f)
  return (%y))"),
              HasSubstr("argument \"src\" is of type int, expected a tensor"));
}

TEST(DeclaredTypesTest, AnInputHasTheTypeOfItsWeight) {
  EXPECT_THAT(
      Wrong(R"(graph(%w : Float(5, strides=[1]) = weight 0):
  storage 0 bytes 16
  weight 0 "w" buffer storage 0 Float(4, strides=[1])
  return (%w))"),
      HasSubstr("%w: its size of dim 0 is declared otherwise than that of weight \"w\": Float(5, strides=[1]) and "
                "Float(4, strides=[1])"));
}

TEST(DeclaredTypesTest, NumbersAreThoseThatTheyAreDeclaredToBe) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %n : int(2) = prim::Constant[value=1]()
  return (%n))"),
              HasSubstr("its value is not the number that it is declared to be, 2"));
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4)):
  %d : int = prim::Constant[value=0]()
  %n : int(5) = aten::size.int(%x, %d)
  return (%n))"),
              HasSubstr("%n is declared to be 5, another number than follows from the operands"));
}

TEST(DeclaredTypesTest, AResizedOutThatOnlyInferenceLaysOutIsNotSupported) {
  constexpr char kTake[] = R"(graph(%%x : Float(3, 4, strides=[4, 1]), %%i : Long(2, 3, strides=[%s]), %%o : Float(%s)):
  %%y : Float(2, 3) = aten::take.out(%%x, %%i, %%o)
  return (%%y))";
  const auto status = [&](const char* index_strides, const char* out) {
    auto g = ParseGraph(absl::StrFormat(kTake, index_strides, out));
    EXPECT_TRUE(g.ok()) << g.status();
    return CheckModel(**g);
  };
  EXPECT_TRUE(status("3, 1", "0, strides=[1]").ok());
  EXPECT_TRUE(status("1, 2", "2, 3, strides=[3, 1]").ok());
  const absl::Status s = status("1, 2", "0, strides=[1]");
  EXPECT_TRUE(absl::IsUnimplemented(s)) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("%y = aten::take.out: an out= that takes other sizes"));
}

TEST(DeclaredTypesTest, ATensorIsNoNumber) {
  auto g = ParseGraph("graph(%x : Float(4, strides=[1])):\n  return (%x)");
  ASSERT_TRUE(g.ok()) << g.status();
  (*g)->SetExpr((*g)->inputs()[0], Expr(2));
  EXPECT_THAT(std::string(CheckModel(**g).message()),
              HasSubstr("%x: declared Float(4, strides=[1]), but to be the number 2"));
}

TEST(DeclaredTypesTest, BranchesResultInWhatTheNodeIsDeclaredTo) {
  EXPECT_THAT(Wrong(R"(graph(%x : Float(4), %c : bool):
  %y : Long(4) = prim::If(%c)
    block0():
      -> (%x)
    block1():
      -> (%x)
  return (%y))"),
              HasSubstr("the dtype of %y"));
}

}  // namespace
}  // namespace smelt
