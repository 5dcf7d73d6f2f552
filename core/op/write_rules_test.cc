// PyTorch 2.13's behaviour if an operand is the given result, or the written tensor.
#include "smelt/core/op/write_rules.h"

#include "gtest/gtest.h"
#include "smelt/core/op/op_info.h"

namespace smelt {
namespace {

OperandSharing Rule(const char* writes, const char* argument) {
  const OpName op = OpName::Get(writes);
  return OperandSharingOf(op, GetOpInfo(op).functional, argument);
}

TEST(WriteRulesTest, ElementwiseOperatorsTakeTheSameElements) {
  EXPECT_EQ(Rule("aten::add_.Tensor", "other"), OperandSharing::kNotPartly);
  EXPECT_EQ(Rule("aten::mul.out", "other"), OperandSharing::kNotPartly);
  EXPECT_EQ(Rule("aten::copy_", "src"), OperandSharing::kNotPartly);
}

TEST(WriteRulesTest, RunningSumsAndSortingTakeTheirResultAsOperand) {
  // torch.cumsum(x, 0, out=x), torch.sort(x, out=(x, i))
  EXPECT_EQ(Rule("aten::cumsum.out", "self"), OperandSharing::kWholeOrNone);
  EXPECT_EQ(Rule("aten::sort.values", "self"), OperandSharing::kWholeOrNone);
}

TEST(WriteRulesTest, SumsAndProductsBeginInTheirResult) {
  // torch.sum(x, 0, keepdim=True, out=x) of one row is 0; the result of torch.mm(x, y, out=x) depends on the blocks of
  // the product.
  EXPECT_EQ(Rule("aten::sum.IntList_out", "self"), OperandSharing::kApart);
  EXPECT_EQ(Rule("aten::mm.out", "self"), OperandSharing::kApart);
  EXPECT_EQ(Rule("aten::addmm.out", "mat1"), OperandSharing::kApart);
  EXPECT_EQ(Rule("aten::masked_scatter_", "source"), OperandSharing::kApart);
  // The tensor that is added to is copied first.
  EXPECT_EQ(Rule("aten::addmm.out", "self"), OperandSharing::kWholeOrNone);
}

TEST(WriteRulesTest, IndexedWritesAreRefusedByPyTorch) {
  EXPECT_EQ(Rule("aten::index_add_", "source"), OperandSharing::kNone);
  EXPECT_EQ(Rule("aten::index_put_", "values"), OperandSharing::kNone);
  EXPECT_EQ(Rule("aten::gather.out", "self"), OperandSharing::kNone);
  EXPECT_EQ(Rule("aten::index_add.out", "self"), OperandSharing::kWholeOrNone);
}

TEST(WriteRulesTest, WhatIsComputedFirstMayLieAnywhere) {
  EXPECT_EQ(Rule("aten::roll.out", "self"), OperandSharing::kAny);
  EXPECT_EQ(Rule("aten::fill_.Tensor", "value"), OperandSharing::kAny);
  EXPECT_EQ(Rule("aten::masked_fill_.Tensor", "value"), OperandSharing::kAny);
  EXPECT_EQ(Rule("aten::masked_fill_.Tensor", "mask"), OperandSharing::kNotPartly);
}

TEST(WriteRulesTest, ResultsGoIntoTensorsOfTheirKindOrAHigherOne) {
  const OpName add = OpName::Get("aten::add.Tensor"), copy = OpName::Get("aten::copy");
  EXPECT_EQ(RefusedCast(add, DType::kFloat32, DType::kInt64),
            "result type Float can't be cast to the desired output type Long");
  EXPECT_NE(RefusedCast(add, DType::kComplex64, DType::kFloat64), "");
  EXPECT_NE(RefusedCast(add, DType::kInt64, DType::kBool), "");
  EXPECT_EQ(RefusedCast(add, DType::kFloat64, DType::kFloat16), "");
  EXPECT_EQ(RefusedCast(add, DType::kInt64, DType::kUInt8), "");
  EXPECT_EQ(RefusedCast(add, DType::kFloat32, DType::kComplex64), "");
  EXPECT_EQ(RefusedCast(copy, DType::kFloat32, DType::kInt64), "");
}

TEST(WriteRulesTest, WhatPyTorchDoesNotFillByItsStridesIsNamed) {
  // torch.ops.aten.gelu.out(x, out=y[::2]) does not change y.
  for (const char* op : {"aten::gelu.out", "aten::avg_pool3d.out", "aten::narrow_copy.out"}) {
    EXPECT_TRUE(NeedsContiguousOut(OpName::Get(op))) << op;
  }
  EXPECT_FALSE(NeedsContiguousOut(OpName::Get("aten::relu.out")));
  EXPECT_FALSE(NeedsContiguousOut(OpName::Get("aten::gelu")));
}

}  // namespace
}  // namespace smelt
