#include "smelt/core/op/op_info.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/operators_doc.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

using testing::HasSubstr;

const OpInfo& Info(absl::string_view name) { return GetOpInfo(OpName::Get(name)); }

TEST(OpInfoTest, AnInPlaceOperatorNamesItsFunctionalCounterpartWhateverItsOverloadIsCalled) {
  const std::map<std::string, std::string> want = {
      {"aten::add_.Tensor", "aten::add.Tensor"},
      {"aten::pow_.Scalar", "aten::pow.Tensor_Scalar"},
      {"aten::__iand__.Tensor", "aten::bitwise_and.Tensor"},
      {"aten::index_put_", "aten::index_put"},
      {"aten::copy_", "aten::copy"},
      {"aten::zero_", "aten::zero"},
      {"aten::masked_fill_.Scalar", "aten::masked_fill.Scalar"},
      {"aten::scatter_.src", "aten::scatter.src"},
      {"aten::clamp_", "aten::clamp"},
  };
  for (const auto& [inplace, functional] : want) {
    EXPECT_EQ(Info(inplace).kind, OpKind::kInplace) << inplace;
    EXPECT_TRUE(Info(inplace).functional == functional) << inplace;
  }
}

TEST(OpInfoTest, AnOutVariantNamesTheOverloadWithTheSameArguments) {
  EXPECT_TRUE(Info("aten::add.out").functional == "aten::add.Tensor");
  EXPECT_TRUE(Info("aten::max.dim_max").functional == "aten::max.dim");
  EXPECT_TRUE(Info("aten::sum.IntList_out").functional == "aten::sum.dim_IntList");
  EXPECT_EQ(Info("aten::mm.out").kind, OpKind::kOut);
}

TEST(OpInfoTest, InPlaceViewsNameTheView) {
  EXPECT_TRUE(Info("aten::t_").functional == "aten::t");
  EXPECT_TRUE(Info("aten::transpose_").functional == "aten::transpose.int");
  EXPECT_TRUE(Info("aten::squeeze_.dim").functional == "aten::squeeze.dim");
}

TEST(OpInfoTest, WhatIsNotDescribedIsUnknown) {
  EXPECT_EQ(Info("aten::no_such_operator").kind, OpKind::kUnknown);
  EXPECT_EQ(Info("custom::op").kind, OpKind::kUnknown);
  EXPECT_EQ(Info("aten::_cudnn_rnn").kind, OpKind::kUnknown);
}

OpArg Floats(std::vector<Expr> sizes, DType t = DType::kFloat32) {
  return OpArg::Of({t, sizes, ContiguousStrides(sizes)});
}

TEST(OpInfoTest, ANumberIsAnOperandUnlessItChangesTheCode) {
  PointwiseMeaning scaled = *BuildPointwise(OpCall(OpName::Get("aten::mul.Scalar"), {Floats({4}), OpArg::Float(0.1)}));
  EXPECT_EQ(scaled.operands.size(), 2u);
  EXPECT_TRUE(scaled.operands[1].is_scalar);
  EXPECT_EQ(scaled.fn.ToString(), "(a0: f32, a1: f64) -> { v0 = cast(a1): f32; v1 = mul(a0, v0); return v1; }");
  PointwiseMeaning square =
      *BuildPointwise(OpCall(OpName::Get("aten::pow.Tensor_Scalar"), {Floats({4}), OpArg::Int(2)}));
  EXPECT_EQ(square.fn.ToString(), "(a0: f32) -> { v0 = mul(a0, a0); return v0; }");
  EXPECT_EQ(square.operands.size(), 1u);
}

TEST(OpInfoTest, ASumOfIntegersTakesNoFactorThatIsAFloat) {
  OpArg alpha;  // x.shape[0] / 2
  alpha.kind = OpArg::Kind::kFloat;
  const auto sum = [&](DType t) {
    return BuildPointwise(OpCall(OpName::Get("aten::add.Tensor"), {Floats({4}, t), Floats({4}, t), alpha})).status();
  };
  EXPECT_TRUE(sum(DType::kFloat32).ok());
  EXPECT_EQ(sum(DType::kInt64).message(),
            "aten::add.Tensor: For integral input tensors, argument alpha must not be a floating point number.");
}

TEST(OpInfoTest, HalfTypesComputeInFloat32AndRoundOnce) {
  PointwiseMeaning m = *BuildPointwise(OpCall(OpName::Get("aten::silu"), {Floats({4}, DType::kBFloat16)}));
  EXPECT_EQ(m.fn.ToString(),
            "(a0: bf16) -> { v0 = cast(a0): f32; v1 = neg(v0); v2 = exp(v1); v3 = add(1.0:f32, v2); v4 = div(v0, v3); "
            "v5 = cast(v4): bf16; return v5; }");
}

TEST(OpInfoTest, PromotionRanksDimensionedTensorsAboveZeroDimOnesAboveNumbers) {
  using C = PromotionOperand::Category;
  EXPECT_EQ(ResultType({{DType::kBFloat16, C::kDimensioned}, {DType::kFloat64, C::kZeroDim}}), DType::kBFloat16);
  EXPECT_EQ(ResultType({{DType::kInt32, C::kDimensioned}, {DType::kFloat64, C::kNumber}}), DType::kFloat32);
  EXPECT_EQ(ResultType({{DType::kInt8, C::kDimensioned}, {DType::kInt64, C::kNumber}}), DType::kInt8);
  EXPECT_EQ(ResultType({{DType::kBool, C::kDimensioned}, {DType::kUInt8, C::kZeroDim}}), DType::kUInt8);
  EXPECT_EQ(ResultType({{DType::kFloat16, C::kDimensioned}, {DType::kBFloat16, C::kDimensioned}}), DType::kFloat32);
}

TEST(OpInfoTest, AMeanOfBfloat16AccumulatesInFloat32) {
  ReductionMeaning m =
      *BuildReduction(OpCall(OpName::Get("aten::mean.dim"), {Floats({2, 3}, DType::kBFloat16), OpArg::Ints({Expr(-1)}),
                                                             OpArg::Bool(true), OpArg::None()}));
  EXPECT_EQ(m.dims, std::vector<int>{1});
  EXPECT_TRUE(m.keepdim);
  EXPECT_EQ(m.accumulator[0], DType::kFloat32);
  EXPECT_EQ(m.results[0], DType::kBFloat16);
}

TEST(OpInfoTest, AViewComposesWithItsBaseAndItsSymbols) {
  SymbolRanges ranges;
  ranges.Set("s0", {2, 100});
  SymbolicGeometry base;
  base.sizes = {Expr::Symbol("s0"), 8};
  base.strides = {8, 1};
  base.offset = 16;
  ViewMeaning v = *BuildView(
      OpCall(OpName::Get("aten::select.int"), {Floats({Expr::Symbol("s0"), 8}), OpArg::Int(0), OpArg::Int(-1)}), base,
      ranges);
  EXPECT_EQ(v.outputs[0].offset, Expr(16) + (Expr::Symbol("s0") - 1) * 8);
  EXPECT_EQ(v.outputs[0].sizes, std::vector<Expr>{Expr(8)});
}

TEST(OpInfoTest, ForeachIsTheOperatorOnEveryElement) {
  std::vector<OpCall> calls = *ForeachCalls(
      OpCall(OpName::Get("aten::_foreach_add_.Scalar"), {OpArg::List({Floats({2}), Floats({3})}), OpArg::Float(0.5)}));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_TRUE(calls[1].op() == "aten::add_.Scalar");
  EXPECT_EQ(calls[1].arg(1).number, 0.5);
}

TEST(OpInfoTest, DocsOperatorsMdIsUpToDate) {
  auto text = ReadFile("docs/operators.md");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(*text == OperatorsMarkdown()) << "bazel run //core/op:print_operators > docs/operators.md";
}

}  // namespace
}  // namespace smelt
