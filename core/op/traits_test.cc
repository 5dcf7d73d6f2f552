#include "smelt/core/op/traits.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

OpTraits Of(const char* op) { return GetOpTraits(OpName::Get(op)); }

TEST(TraitsTest, EveryEntryIsOfAnOperatorOfPyTorchOrOfSmelt) {
  for (const std::string& name : OperatorsWithTraits()) {
    // Tensor.float has no schema: TorchScript's text names it.
    if (!absl::StartsWith(name, "aten::") || name == "aten::float") continue;
    const bool overload = absl::StrContains(name.substr(6), ".");
    EXPECT_TRUE(overload ? FindSchema(OpName::Get(name)) != nullptr : !FindOverloads(name).empty()) << name;
  }
}

TEST(TraitsTest, EntryOfAnOverloadTakesThePlaceOfThatOfTheName) {
  EXPECT_EQ(Of("aten::linspace").family, OpFamily::kLinspace);
  EXPECT_EQ(Of("aten::linspace.Tensor_Tensor").family, OpFamily::kOther);  // its numbers are in memory
  EXPECT_EQ(Of("aten::eq.int").relation, NumberRelation::kEq);
  EXPECT_EQ(Of("aten::eq.Tensor").relation, NumberRelation::kNone);
}

TEST(TraitsTest, OperatorInPlaceOfAnIndexedWriteHasItsIndices) {
  const OpTraits t = Of("smelt::inplace_index_fill.int_Scalar");
  EXPECT_EQ(t.family, OpFamily::kInPlaceWrite);
  EXPECT_EQ(t.indices, IndexRule::kAlongDimWrapped);
}

// torch: x.resize_as_(y) gives x the sizes of y.
TEST(TraitsTest, ResizeAsChangesSizesLikeResize) {
  for (const char* op : {"aten::resize_", "aten::resize_as_", "aten::set_.source_Tensor"}) {
    EXPECT_TRUE(Of(op).resizes) << op;
  }
}

// torch: x.stride() and its form on symbolic sizes return the strides.
TEST(TraitsTest, BothFormsOfStrideReadStrides) {
  for (const char* op : {"aten::stride.int", "aten::sym_stride.int", "aten::is_contiguous"}) {
    EXPECT_TRUE(Of(op).reads_strides) << op;
  }
}

// torch: the schema of every operator called X_like, of those that draw or fill, takes the tensor that it is like.
TEST(TraitsTest, EveryDescribedLikeOperatorFollowsItsOperand) {
  for (OpName op : DescribedOps()) {
    const OpKind kind = GetOpInfo(op).kind;
    if (!absl::EndsWith(op.name(), "_like") || (kind != OpKind::kFactory && kind != OpKind::kRandom)) continue;
    EXPECT_TRUE(GetOpTraits(op).like_operand) << op.full();
  }
}

TEST(TraitsTest, PureNameOfInPlaceOperators) {
  EXPECT_EQ(PureName("aten::add_"), "aten::add");
  EXPECT_EQ(PureName("aten::__iand__"), "aten::bitwise_and");
  EXPECT_EQ(PureName("aten::_index_put_impl_"), "aten::_index_put_impl");
  EXPECT_EQ(PureName("aten::__and__"), "");
  EXPECT_EQ(PureName("aten::add"), "");
}

// The number of spatial dims is in the name of each pooling and resampling operator of PyTorch.
TEST(TraitsTest, SpatialDimsAreThoseOfTheName) {
  for (const std::string& name : OperatorsWithTraits()) {
    const OpTraits t = Of(name.c_str());
    if (t.family == OpFamily::kIm2Col || t.family == OpFamily::kCol2Im) {
      EXPECT_EQ(t.spatial_dims, 2) << name;
    }
    for (char k : {'1', '2', '3'}) {
      if (t.spatial_dims == 0 || !absl::StrContains(name, std::string(1, k) + "d")) continue;
      EXPECT_EQ(t.spatial_dims, k - '0') << name;
    }
    const bool counts =
        IsWindowed(t.family) || t.family == OpFamily::kUpsampleNearest || t.family == OpFamily::kUpsampleLinear;
    EXPECT_EQ(counts && t.family != OpFamily::kMaskedScatter, t.spatial_dims > 0 && t.family != OpFamily::kIm2Col)
        << name;
  }
}

}  // namespace
}  // namespace smelt
