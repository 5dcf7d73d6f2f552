#include "smelt/core/op/infer.h"

#include <string>

#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

std::unique_ptr<Graph> Infer(absl::string_view text) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph(text, options);
  SMELT_CHECK_OK(g.status());
  SMELT_CHECK_OK(InferTypes(**g));
  return *std::move(g);
}

std::string TypeOf(const Graph& g, absl::string_view name) { return g.value(g.FindValue(name)).type.ToString(); }

TEST(InferTest, APointwiseResultPromotesAndBroadcastsAsPyTorchDoes) {
  auto g = Infer(R"(graph(%x : Half(4, 1, strides=[1, 1]), %y : Float(3, strides=[1])):
    %1 : int = prim::Constant[value=1]()
    %z : Tensor = aten::add(%x, %y, %1)
    %b : Tensor = aten::lt(%z, %1)
    return (%b))");
  EXPECT_EQ(TypeOf(*g, "z"), "Float(4, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(*g, "b"), "Bool(4, 3, strides=[3, 1])");
}

TEST(InferTest, SizesAreCarriedAsExpressions) {
  auto g = Infer(R"(graph(%x : Float(s0, 8, strides=[8, 1])):
    %0 : int = prim::Constant[value=0]()
    %2 : int = prim::Constant[value=2]()
    %none : NoneType = prim::Constant()
    %n : int = aten::size(%x, %0)
    %m : int = aten::floordiv(%n, %2)
    %s : Tensor = aten::slice(%x, %0, %none, %m, %2)
    %sizes : int[] = prim::ListConstruct(%n, %2, %m)
    %z : Tensor = aten::zeros(%sizes, %none, %none, %none, %none)
    return (%s, %z))");
  EXPECT_EQ(g->value(g->FindValue("m")).expr->ToString(), "floordiv(s0, 2)");
  EXPECT_EQ(TypeOf(*g, "z"),
            "Float(s0, 2, floordiv(s0, 2), strides=[2*max(floordiv(s0, 2), 1), max(floordiv(s0, 2), 1), 1])");
}

TEST(InferTest, ARangeWithABoundThatVariesHasASizeIfItsOtherNumbersAreWhole) {
  auto g = Infer(R"(graph(%x : Float(s0, 8, strides=[8, 1])):
    symbol s0 in [2, 64]
    %0 : int = prim::Constant[value=0]()
    %down : float = prim::Constant[value=-1.]()
    %half : float = prim::Constant[value=0.5]()
    %none : NoneType = prim::Constant()
    %n : int = aten::size(%x, %0)
    %m : int = aten::neg(%n)
    %whole : Tensor = aten::arange(%n, %m, %down, %none, %none, %none, %none)
    %halves : Tensor = aten::arange(%0, %n, %half, %none, %none, %none, %none)
    return (%whole, %halves))");
  EXPECT_EQ(TypeOf(*g, "whole"), "Float(2*s0, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "halves"), "FloatTensor");
}

TEST(InferTest, ACompositeHasTheTypesOfWhatItDecomposesInto) {
  auto g = Infer(R"(graph(%x : BFloat16(2, 8, strides=[8, 1]), %w : BFloat16(3, 8, strides=[8, 1])):
    %none : NoneType = prim::Constant()
    %1 : int = prim::Constant[value=-1]()
    %y : Tensor = aten::linear(%x, %w, %none)
    %z : Tensor = aten::softmax(%y, %1, %none)
    return (%z))");
  EXPECT_EQ(TypeOf(*g, "y"), "BFloat16(2, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(*g, "z"), "BFloat16(2, 3, strides=[3, 1])");
}

TEST(InferTest, CallsThatDifferInOneArgumentKeepTheirOwnTypes) {
  // Calls of constants are inferred once: each of these differs from an earlier one in one thing that decides its type.
  auto g = Infer(R"(graph(%x : Float(2, 3, strides=[3, 1]), %t : Float(2, 3, strides=[1, 2]),
                          %h : Half(2, 3, strides=[3, 1]), %l : Float(2, 4, strides=[4, 1])):
    %none : NoneType = prim::Constant()
    %0 : int[] = prim::Constant[value=[0]]()
    %1 : int[] = prim::Constant[value=[1]]()
    %no : bool = prim::Constant[value=0]()
    %yes : bool = prim::Constant[value=1]()
    %double : int = prim::Constant[value=7]()
    %a : Tensor = aten::sum(%x, %1, %no, %none)
    %b : Tensor = aten::sum(%x, %0, %no, %none)
    %c : Tensor = aten::sum(%x, %1, %yes, %none)
    %d : Tensor = aten::sum(%x, %1, %no, %double)
    %e : Tensor = aten::sum(%h, %1, %no, %none)
    %f : Tensor = aten::sum(%l, %0, %no, %none)
    %p : Tensor = aten::relu(%x)
    %q : Tensor = aten::relu(%t)
    return (%a, %b, %c, %d, %e, %f, %p, %q))");
  EXPECT_EQ(TypeOf(*g, "a"), "Float(2, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "b"), "Float(3, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "c"), "Float(2, 1, strides=[1, 1])");
  EXPECT_EQ(TypeOf(*g, "d"), "Double(2, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "e"), "Half(2, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "f"), "Float(4, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "p"), "Float(2, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(*g, "q"), "Float(2, 3, strides=[1, 2])");
}

std::string ErrorOf(absl::string_view text) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph(text, options);
  SMELT_CHECK_OK(g.status());
  return std::string(InferTypes(**g).message());
}

TEST(InferTest, InterpolationOfIntegersOtherThanBytesIsRefusedByName) {
  EXPECT_THAT(ErrorOf(R"(graph(%x : Char(1, 3, 4, 4, strides=[48, 16, 4, 1])):
    %size : int[] = prim::Constant[value=[6, 6]]()
    %align : bool = prim::Constant[value=0]()
    %none : NoneType = prim::Constant()
    %y : Tensor = aten::upsample_bilinear2d(%x, %size, %align, %none, %none)
    return (%y))"),
              ::testing::HasSubstr("interpolation of integers"));
}

// torch.pow(2., x.t()).stride() and torch.linalg.cross(x.t(), x.t()).stride() are (3, 1); of pow(x.t(), 2.) they are
// (1, 3).
TEST(InferTest, PowersOfANumberAndCrossProductsAreContiguousHoweverTheirOperandsLie) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = ParseGraph(R"(graph(%x : Float(3, 3, strides=[1, 3]), %n : Long(3, 3, strides=[1, 3])):
    %two : float = prim::Constant[value=2.]()
    %dim : int = prim::Constant[value=1]()
    %p : Tensor = aten::pow.Scalar(%two, %x)
    %f : Tensor = aten::float_power.Scalar(%two, %x)
    %q : Tensor = aten::pow.Tensor_Scalar(%x, %two)
    %c : Tensor = aten::linalg_cross(%x, %x, %dim)
    %i : Tensor = aten::linalg_cross(%n, %n, %dim)
    return (%p, %f, %q, %c, %i))",
                      options);
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(InferTypes(**g).ok());
  EXPECT_EQ(TypeOf(**g, "p"), "Float(3, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(**g, "f"), "Double(3, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(**g, "q"), "Float(3, 3, strides=[1, 3])");
  EXPECT_EQ(TypeOf(**g, "c"), "Float(3, 3, strides=[3, 1])");
  EXPECT_EQ(TypeOf(**g, "i"), "Long(3, 3, strides=[3, 1])");
}

// Kernels would read outside the tensor.
TEST(InferTest, APaddingThatNeedsMoreElementsThanThereAreIsRefused) {
  auto error = [](const char* op, int pad, int size) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float(2, $2)):
    %p : int[] = prim::Constant[value=[$1, 0]]()
    %y : Tensor = aten::$0(%x, %p)
    return (%y))",
                                    op, pad, size));
  };
  EXPECT_EQ(error("reflection_pad1d", 3, 4), "");
  EXPECT_THAT(error("reflection_pad1d", 4, 4), ::testing::HasSubstr("less than the corresponding input dimension"));
  EXPECT_EQ(error("_pad_circular", 4, 4), "");
  EXPECT_THAT(error("_pad_circular", 5, 4), ::testing::HasSubstr("wrapping around more than once"));
  EXPECT_EQ(error("replication_pad1d", 9, 1), "");
  EXPECT_THAT(error("replication_pad1d", 1, 0), ::testing::HasSubstr("nothing to pad"));
}

TEST(InferTest, ACompositeWrittenForRealNumbersDoesNotLoseImaginaryParts) {
  EXPECT_THAT(ErrorOf(R"(graph(%x : ComplexFloat(3, 4, strides=[4, 1])):
    %dims : int[] = prim::Constant[value=[1]]()
    %keep : bool = prim::Constant[value=0]()
    %y : Tensor = aten::logsumexp(%x, %dims, %keep)
    return (%y))"),
              ::testing::HasSubstr("complex numbers"));
}

TEST(InferTest, WhatPyTorchDoesNotSubtractOrNegateIsRefused) {
  const auto error_of = [](const std::string& inputs, const std::string& call) {
    return ErrorOf("graph(" + inputs + R"():
    %1 : int = prim::Constant[value=1]()
    %half : float = prim::Constant[value=0.5]()
    %true : bool = prim::Constant[value=1]()
    %z : Tensor = )" +
                   call + "\n    return (%z)");
  };
  const std::string mask = "%x : Bool(3, strides=[1]), %y : Bool(3, strides=[1])";
  const std::string mixed = "%x : Float(3, strides=[1]), %y : Bool(3, strides=[1])";
  const std::string complex = "%x : ComplexFloat(3, strides=[1]), %y : Bool(3, strides=[1])";
  const std::string whole = "%x : Long(3, strides=[1]), %y : Long(3, strides=[1])";
  EXPECT_THAT(error_of(mask, "aten::sub(%x, %y, %1)"), ::testing::HasSubstr("with two bool tensors"));
  EXPECT_THAT(error_of(mixed, "aten::sub(%x, %y, %1)"), ::testing::HasSubstr("with a bool tensor"));
  EXPECT_THAT(error_of(mixed, "aten::rsub(%x, %y, %1)"), ::testing::HasSubstr("with a bool tensor"));
  EXPECT_THAT(error_of(mixed, "aten::sub(%x, %true, %1)"), ::testing::HasSubstr("with a bool tensor"));
  EXPECT_THAT(error_of(mixed, "aten::sub_(%x, %y, %1)"), ::testing::HasSubstr("with a bool tensor"));
  EXPECT_THAT(error_of(complex, "aten::sub(%x, %y, %1)"), ::testing::HasSubstr("with a bool tensor"));
  EXPECT_THAT(error_of(whole, "aten::add(%x, %y, %half)"), ::testing::HasSubstr("argument alpha"));
  EXPECT_THAT(error_of(mask, "aten::neg(%x)"), ::testing::HasSubstr("not implemented for 'Bool'"));
  EXPECT_THAT(error_of(mask, "aten::remainder(%x, %y)"), ::testing::HasSubstr("not implemented for 'Bool'"));
}

TEST(InferTest, TheElementsOfASplitHaveTheirOwnTypes) {
  auto g = Infer(R"(graph(%x : Float(7, 2, strides=[2, 1])):
    %3 : int = prim::Constant[value=3]()
    %0 : int = prim::Constant[value=0]()
    %l : Tensor[] = aten::split(%x, %3, %0)
    %a : Tensor, %b : Tensor, %c : Tensor = prim::ListUnpack(%l)
    return (%c))");
  EXPECT_EQ(TypeOf(*g, "a"), "Float(3, 2, strides=[2, 1])");
  EXPECT_EQ(TypeOf(*g, "c"), "Float(1, 2, strides=[2, 1])");
}

TEST(InferTest, ALoopForgetsWhatChangesFromRoundToRound) {
  auto g = Infer(R"(graph(%x : Float(2, 3, strides=[3, 1]), %n : int):
    %true : bool = prim::Constant[value=1]()
    %0 : int = prim::Constant[value=0]()
    %y : Tensor, %s : Tensor = prim::Loop(%n, %true, %x, %x)
      block0(%i : int, %a : Tensor, %b : Tensor):
        %l : Tensor[] = prim::ListConstruct(%a, %a)
        %c : Tensor = aten::cat(%l, %0)
        %d : Tensor = aten::relu(%b)
        -> (%true, %c, %d)
    return (%y, %s))");
  EXPECT_EQ(TypeOf(*g, "s"), "Float(2, 3, strides=[3, 1])");
  EXPECT_EQ(g->value(g->FindValue("y")).type.tensor().dtype, DType::kFloat32);
  EXPECT_FALSE(g->value(g->FindValue("y")).type.tensor().IsComplete());
}

TEST(InferTest, AComplexNumberWithoutDimsTakesThePrecisionOfWhatItMeets) {
  auto g = Infer(R"(graph(%x : Float(2), %y : Double(2), %z : ComplexDouble(), %w : ComplexFloat()):
    %a : Tensor = aten::mul(%x, %z)
    %b : Tensor = aten::mul(%w, %y)
    return (%a, %b))");
  EXPECT_EQ(TypeOf(*g, "a"), "ComplexFloat(2, strides=[1])");
  EXPECT_EQ(TypeOf(*g, "b"), "ComplexDouble(2, strides=[1])");
}

TEST(InferTest, AConstantWhoseElementsTheTextDoesNotSayIsRefusedByName) {
  for (const char* value : {"<Tensor>", " 0  2  3 [ CPUComplexFloatType{3} ]"}) {
    EXPECT_EQ(ErrorOf(absl::Substitute(R"(graph(%x : ComplexFloat(3)):
    %1 : ComplexFloat(3, strides=[1]) = prim::Constant[value=$0]() # model.py:7:0
    %y : Tensor = aten::mul(%x, %1)
    return (%y))",
                                       value)),
              "prim::Constant (model.py:7): the text does not say the elements of %1");
  }
}

TEST(InferTest, ANativeGroupNormTakesRowsAndChannelsLastAsPyTorchDoes) {
  const auto error_of = [](absl::string_view strides) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float(2, 4, 3, 5, strides=[$0])):
    %n : NoneType = prim::Constant()
    %2 : int = prim::Constant[value=2]()
    %4 : int = prim::Constant[value=4]()
    %15 : int = prim::Constant[value=15]()
    %eps : float = prim::Constant[value=1e-05]()
    %y : Tensor, %m : Tensor, %r : Tensor = aten::native_group_norm(%x, %n, %n, %2, %4, %15, %2, %eps)
    return (%y, %m, %r))",
                                    strides));
  };
  EXPECT_EQ(error_of("60, 15, 5, 1"), "");
  EXPECT_EQ(error_of("60, 1, 20, 4"), "");
  EXPECT_THAT(error_of("60, 15, 1, 3"), testing::HasSubstr("Expected X.is_contiguous(memory_format) to be true"));
}

// The layouts of PyTorch's kernels for operands whose channels are innermost.
TEST(InferTest, ChannelsInnermostStaySoWhereThereIsOneSpatialDim) {
  auto g = Infer(R"(graph(%x : Float(2, 5, 8, strides=[40, 1, 5]), %w : Float(3, 5, 3, strides=[15, 1, 5]),
      %dense : Float(3, 5, 3, strides=[15, 3, 1])):
    %none : NoneType = prim::Constant()
    %one : int[] = prim::Constant[value=[1]]()
    %two : int[] = prim::Constant[value=[2]]()
    %three : int[] = prim::Constant[value=[3]]()
    %zero : int[] = prim::Constant[value=[0]]()
    %no : bool = prim::Constant[value=0]()
    %yes : bool = prim::Constant[value=1]()
    %groups : int = prim::Constant[value=1]()
    %a : Tensor = aten::avg_pool1d(%x, %two, %two, %zero, %no, %yes)
    %b : Tensor = aten::adaptive_avg_pool1d(%x, %three)
    %c : Tensor = aten::conv1d(%x, %w, %none, %one, %zero, %one, %groups)
    %d : Tensor = aten::conv1d(%x, %dense, %none, %one, %zero, %one, %groups)
    %e : Tensor = aten::max_pool1d(%x, %two, %two, %zero, %one, %no)
    %f : Tensor, %i : Tensor = aten::max_pool1d_with_indices(%x, %two, %two, %zero, %one, %no)
    return (%a, %b, %c, %d, %e, %f, %i))");
  EXPECT_EQ(TypeOf(*g, "f"), "Float(2, 5, 4, strides=[20, 1, 5])");
  EXPECT_EQ(TypeOf(*g, "i"), "Long(2, 5, 4, strides=[20, 1, 5])");
  EXPECT_EQ(TypeOf(*g, "e"), "Float(2, 5, 4, strides=[20, 4, 1])");  // a kernel of its own
  EXPECT_EQ(TypeOf(*g, "a"), "Float(2, 5, 4, strides=[20, 1, 5])");
  EXPECT_EQ(TypeOf(*g, "b"), "Float(2, 5, 3, strides=[15, 1, 5])");
  EXPECT_EQ(TypeOf(*g, "c"), "Float(2, 3, 6, strides=[18, 1, 3])");  // the weight's
  EXPECT_EQ(TypeOf(*g, "d"), "Float(2, 3, 6, strides=[18, 6, 1])");
}

// This holds for any operand, because it is copied first.
TEST(InferTest, AnInstanceNormIsContiguous) {
  auto g = Infer(R"(graph(%x : Float(2, 3, 8, 8, strides=[192, 1, 24, 3])):
    %none : NoneType = prim::Constant()
    %yes : bool = prim::Constant[value=1]()
    %share : float = prim::Constant[value=0.1]()
    %y : Tensor = aten::instance_norm(%x, %none, %none, %none, %none, %yes, %share, %share, %yes)
    return (%y))");
  EXPECT_EQ(TypeOf(*g, "y"), "Float(2, 3, 8, 8, strides=[192, 64, 8, 1])");
}

TEST(InferTest, TheAdaptiveMeanOfVolumesIsContiguous) {
  auto g = Infer(R"(graph(%x : Float(1, 3, 4, 6, 6, strides=[432, 1, 108, 18, 3])):
    %two : int[] = prim::Constant[value=[2, 2, 2]]()
    %y : Tensor = aten::adaptive_avg_pool3d(%x, %two)
    return (%y))");
  EXPECT_EQ(TypeOf(*g, "y"), "Float(1, 3, 2, 2, 2, strides=[24, 8, 4, 2, 1])");
}

// It joins two parts; PyTorch's cat has their format if both have one, and a part without elements has none.
TEST(InferTest, ARolledImageHasTheFormatOfItsParts) {
  auto g = Infer(R"(graph(%x : Float(2, 3, 6, 8, strides=[144, 1, 24, 3])):
    %one : int[] = prim::Constant[value=[1]]()
    %six : int[] = prim::Constant[value=[6]]()
    %dim : int[] = prim::Constant[value=[2]]()
    %none : int[] = prim::Constant[value=[]]()
    %a : Tensor = aten::roll(%x, %one, %dim)
    %b : Tensor = aten::roll(%x, %six, %dim)
    %c : Tensor = aten::roll(%x, %one, %none)
    return (%a, %b, %c))");
  EXPECT_EQ(TypeOf(*g, "a"), "Float(2, 3, 6, 8, strides=[144, 1, 24, 3])");
  EXPECT_EQ(TypeOf(*g, "b"), "Float(2, 3, 6, 8, strides=[144, 48, 8, 1])");
  EXPECT_EQ(TypeOf(*g, "c"), "Float(2, 3, 6, 8, strides=[144, 48, 8, 1])");
}

TEST(InferTest, PowersOfANumberAreContiguous) {
  auto g = Infer(R"(graph(%x : Float(5, 10, strides=[1, 5]), %y : Float(5, 1, 10, strides=[1, 50, 5])):
    %two : float = prim::Constant[value=2.]()
    %a : Tensor = aten::pow.Scalar(%two, %x)
    %b : Tensor = aten::float_power.Scalar(%two, %x)
    %c : Tensor = aten::ldexp.Tensor(%y, %x)
    return (%a, %b, %c))");
  EXPECT_EQ(TypeOf(*g, "a"), "Float(5, 10, strides=[10, 1])");
  EXPECT_EQ(TypeOf(*g, "b"), "Double(5, 10, strides=[10, 1])");
  EXPECT_EQ(TypeOf(*g, "c"), "Float(5, 5, 10, strides=[1, 5, 25])");
}

TEST(InferTest, QuantilesKeepTheOrderOfTheOtherDims) {
  auto g = Infer(R"(graph(%x : Float(3, 4, 5, strides=[1, 3, 12]), %q : Float(2, strides=[1])):
    %half : float = prim::Constant[value=0.5]()
    %zero : int = prim::Constant[value=0]()
    %no : bool = prim::Constant[value=0]()
    %yes : bool = prim::Constant[value=1]()
    %linear : str = prim::Constant[value="linear"]()
    %a : Tensor = aten::quantile.scalar(%x, %half, %zero, %no, %linear)
    %b : Tensor = aten::quantile(%x, %q, %zero, %yes, %linear)
    return (%a, %b))");
  EXPECT_EQ(TypeOf(*g, "a"), "Float(4, 5, strides=[5, 1])");
  EXPECT_EQ(TypeOf(*g, "b"), "Float(2, 1, 4, 5, strides=[1, 40, 10, 2])");
}

// PyTorch's copy has the operand's strides, so that of two elements at one address the last written one remains.
TEST(InferTest, ACopyOfWindowsThatOverlapIsRefusedByName) {
  const auto error_of = [](absl::string_view strides) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float(2, 3, 3, strides=[$0]), %s : Float(2, 3, 3, strides=[9, 3, 1])):
    %zero : int = prim::Constant[value=0]()
    %three : int = prim::Constant[value=3]()
    %one : int = prim::Constant[value=1]()
    %y : Tensor = aten::slice_scatter(%x, %s, %zero, %zero, %three, %one)
    return (%y))",
                                    strides));
  };
  EXPECT_THAT(error_of("1, 3, 1"), testing::HasSubstr("a copy whose elements overlap each other"));
  EXPECT_EQ(error_of("9, 3, 1"), "");
  EXPECT_EQ(error_of("0, 3, 1"), "");  // expanded: copied densely
}

TEST(InferTest, WhatAProductIsAddedToExpandsToItsSizes) {
  const auto error_of = [](absl::string_view op, absl::string_view self) {
    return ErrorOf(absl::Substitute(R"(graph(%s : Float($1), %m : Float(2, 2), %v : Float(2), %b : Float(3, 2, 2)):
    %one : int = prim::Constant[value=1]()
    %y : Tensor = aten::$0, %one, %one)
    return (%y))",
                                    op, self));
  };
  for (absl::string_view fits : {"2", "1", "2, 2", "1, 2"}) EXPECT_EQ(error_of("addmm(%s, %m, %m", fits), "") << fits;
  for (absl::string_view not_so : {"1, 1, 1", "3, 2", "1, 2, 2"}) {
    EXPECT_THAT(error_of("addmm(%s, %m, %m", not_so), testing::HasSubstr("cannot be expanded to the product's"));
    EXPECT_THAT(error_of("addbmm(%s, %b, %b", not_so), testing::HasSubstr("cannot be expanded to the product's"));
  }
  EXPECT_EQ(error_of("baddbmm(%s, %b, %b", "1, 1, 1"), "");
  EXPECT_THAT(error_of("baddbmm(%s, %b, %b", "3, 2"), testing::HasSubstr("cannot be expanded to the product's"));
  EXPECT_EQ(error_of("addmv(%s, %m, %v", "1"), "");
  EXPECT_THAT(error_of("addmv(%s, %m, %v", "2, 2"), testing::HasSubstr("cannot be expanded to the product's"));
}

TEST(InferTest, VectorsOfAProductHaveAsManyElementsEach) {
  const auto error_of = [](absl::string_view op, int n, int m) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float($1, strides=[1]), %w : Float($2, strides=[1])):
    %none : NoneType = prim::Constant()
    %y : Tensor = aten::$0
    return (%y))",
                                    op, n, m));
  };
  for (absl::string_view op : {"linear(%x, %w, %none)", "matmul(%x, %w)"}) {
    EXPECT_EQ(error_of(op, 3, 3), "");
    EXPECT_THAT(error_of(op, 3, 1), testing::HasSubstr("1D tensors expected to have the same size, got 3 and 1"));
  }
}

TEST(InferTest, OnlyABatchOfWhatIsPaddedMayBeEmpty) {
  const auto error_of = [](absl::string_view op, absl::string_view sizes, absl::string_view strides,
                           absl::string_view padding) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float($1, strides=[$2])):
    %p : int[] = prim::Constant[value=[$3]]()
    %y : Tensor = aten::$0(%x, %p)
    return (%y))",
                                    op, sizes, strides, padding));
  };
  EXPECT_EQ(error_of("replication_pad1d", "0, 2, 3", "6, 3, 1", "1, 1"), "");
  EXPECT_THAT(error_of("replication_pad1d", "0, 2", "2, 1", "1, 1"), testing::HasSubstr("dim 0 is 0"));
  EXPECT_EQ(error_of("reflection_pad2d", "0, 1, 3, 3", "9, 9, 3, 1", "1, 1, 1, 1"), "");
  EXPECT_THAT(error_of("reflection_pad2d", "1, 0, 3, 3", "9, 9, 3, 1", "1, 1, 1, 1"), testing::HasSubstr("dim 1 is 0"));
}

TEST(InferTest, AFlipIsAlongDimsThatThereAreEachOnce) {
  const auto error_of = [](absl::string_view dims) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float(2, 3, strides=[3, 1])):
    %dims : int[] = prim::Constant[value=[$0]]()
    %y : Tensor = aten::flip(%x, %dims)
    return (%y))",
                                    dims));
  };
  EXPECT_EQ(error_of("0, -1"), "");
  EXPECT_THAT(error_of("2"),
              testing::HasSubstr("Dimension out of range (expected to be in range of [-2, 1], but got 2)"));
  EXPECT_THAT(error_of("1, -1"), testing::HasSubstr("dim 1 appears multiple times in the list of dims"));
}

TEST(InferTest, WhatGoesIntoATensorHasItsDType) {
  const auto error_of = [](absl::string_view dtype) {
    return ErrorOf(absl::Substitute(
        R"(graph(%x : Float(3, 4, strides=[4, 1]), %i : Long(1, strides=[1]), %v : $0(1, 4, strides=[4, 1])):
    %l : Tensor[] = prim::ListConstruct(%i)
    %no : bool = prim::Constant[value=0]()
    %y : Tensor = aten::index_put(%x, %l, %v, %no)
    return (%y))",
        dtype));
  };
  EXPECT_EQ(error_of("Float"), "");
  EXPECT_THAT(error_of("Double"), testing::HasSubstr("same dtype, but got Float and Double"));
  EXPECT_THAT(error_of("Long"), testing::HasSubstr("same dtype, but got Float and Long"));
}

TEST(InferTest, WhatIsAddedToSlicesHasTheirTensorsRank) {
  const auto error_of = [](absl::string_view x, absl::string_view source) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float($0), %i : Long(1, strides=[1]), %s : Float($1)):
    %dim : int = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %y : Tensor = aten::index_add(%x, %dim, %i, %s, %one)
    return (%y))",
                                    x, source));
  };
  EXPECT_EQ(error_of("", ""), "");
  EXPECT_EQ(error_of("1, strides=[1]", "1, strides=[1]"), "");
  EXPECT_THAT(error_of("", "1, strides=[1]"), testing::HasSubstr("source tensor shape must match self tensor shape"));
}

TEST(InferTest, Float8IsMovedAndConvertedButNotComputedWith) {
  const auto error_of = [](absl::string_view other, absl::string_view line) {
    return ErrorOf(absl::Substitute(R"(graph(%x : Float8_e4m3fn(2, 2, strides=[2, 1]), %y : $0(2, 2, strides=[2, 1])):
    %one : int = prim::Constant[value=1]()
    %float : int = prim::Constant[value=6]()
    %no : bool = prim::Constant[value=0]()
    %none : NoneType = prim::Constant()
    %both : Tensor[] = prim::ListConstruct(%x, %y)
    %z : Tensor = aten::$1
    return (%z))",
                                    other, line));
  };
  const char* const own = "Float8_e4m3fn";
  EXPECT_EQ(error_of(own, "cat(%both, %one)"), "");
  EXPECT_EQ(error_of(own, "t(%x)"), "");
  EXPECT_EQ(error_of(own, "to(%x, %float, %no, %no, %none)"), "");
  EXPECT_THAT(error_of(own, "add(%x, %y, %one)"), testing::HasSubstr("aten::add.Tensor: does not take float8_e4m3fn"));
  EXPECT_THAT(error_of(own, "mm(%x, %y)"), testing::HasSubstr("does not take float8_e4m3fn"));
  EXPECT_THAT(error_of("Float", "mul(%x, %y)"), testing::HasSubstr("does not take float8_e4m3fn"));
  EXPECT_THAT(error_of("Float", "cat(%both, %one)"),
              testing::HasSubstr("Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn"));
}

TEST(InferTest, AnErrorNamesTheOperatorAndWhatDoesNotFit) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  auto g = *ParseGraph(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(4, 5, strides=[5, 1])):
    %z : Tensor = aten::mm(%x, %y) # model.py:7:0
    return (%z))",
                       options);
  absl::Status s = InferTypes(*g);
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr("aten::mm"));
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr("model.py:7"));
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr("3 and 4"));
}

}  // namespace
}  // namespace smelt
