// The expected answers are those of PyTorch 2.13 on tensors of these geometries.
#include "smelt/core/tensor/element_order.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace smelt {
namespace {

PlacedGeometry At(int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  return {{std::move(sizes), std::move(strides), offset}, nullptr, DType::kFloat32};
}

OrderEffect Effect(const PlacedGeometry& written, const PlacedGeometry& read) {
  return OrderOfElements(written, {read}).effect;
}

TEST(ElementOrderTest, WhatLiesApartOrIsTheSameIsReadFirst) {
  const PlacedGeometry left = At(0, {6, 4}, {8, 1});
  EXPECT_EQ(Effect(left, At(4, {6, 4}, {8, 1})), OrderEffect::kNone);
  EXPECT_EQ(Effect(left, left), OrderEffect::kNone);
}

TEST(ElementOrderTest, AnOperandAheadIsReadBeforeItIsWritten) {
  // x[:, :-1].copy_(x[:, 1:]), of any size
  EXPECT_EQ(Effect(At(0, {6, 7}, {8, 1}), At(1, {6, 7}, {8, 1})), OrderEffect::kNone);
  EXPECT_EQ(Effect(At(0, {600, 799}, {800, 1}), At(1, {600, 799}, {800, 1})), OrderEffect::kNone);
}

TEST(ElementOrderTest, AnOperandBehindIsReadAfterItIsWritten) {
  // x[:, 1:].copy_(x[:, :-1]): a short row is filled with its first element; the result for a long one depends on
  // vectorization.
  EXPECT_EQ(Effect(At(1, {6, 7}, {8, 1}), At(0, {6, 7}, {8, 1})), OrderEffect::kSequential);
  EXPECT_EQ(Effect(At(1, {6, 31}, {32, 1}), At(0, {6, 31}, {32, 1})), OrderEffect::kOpen);
}

TEST(ElementOrderTest, AnOperandBehindOfAnotherDTypeIsReadByWhateverLoopThereIs) {
  // x[:, 2:].copy_(x.view(torch.int32)[:, :-2]): PyTorch's compiler reads four at once, its add_ all.
  PlacedGeometry read = At(0, {4, 4}, {9, 1});
  EXPECT_EQ(Effect(At(2, {4, 4}, {9, 1}), read), OrderEffect::kSequential);
  read.dtype = DType::kInt32;
  EXPECT_EQ(Effect(At(2, {4, 4}, {9, 1}), read), OrderEffect::kOpen);
  EXPECT_EQ(Effect(At(0, {4, 4}, {9, 1}), read), OrderEffect::kNone);
}

TEST(ElementOrderTest, OneElementOfHalfPrecisionMayBeReadBeforeAll) {
  // x[::2].mul_(x[2]): for float32 the later elements are multiplied by its square; for float16 by itself.
  PlacedGeometry written = At(0, {9}, {2}), read = At(2, {9}, {0});
  EXPECT_EQ(Effect(written, read), OrderEffect::kSequential);
  written.dtype = read.dtype = DType::kFloat16;
  EXPECT_EQ(Effect(written, read), OrderEffect::kOpen);
}

TEST(ElementOrderTest, AColumnOfItsOwnMatrix) {
  // x[:2].add_(x[:2, :1]): the first column is written first.
  const ElementOrder order = OrderOfElements(At(0, {2, 8}, {8, 1}), {At(0, {2, 8}, {8, 0})});
  EXPECT_EQ(order.effect, OrderEffect::kSequential);
  EXPECT_EQ(order.dims, (std::vector<int>{1, 0}));
}

TEST(ElementOrderTest, TheWrittenStridesSayWhichDimIsInnermost) {
  // x.t().mul_(x)
  const ElementOrder order = OrderOfElements(At(0, {6, 6}, {1, 8}), {At(0, {6, 6}, {8, 1})});
  EXPECT_EQ(order.effect, OrderEffect::kSequential);
  EXPECT_EQ(order.dims, (std::vector<int>{0, 1}));
  // Among equal strides the smaller dim comes first: x.unfold(1, 3, 1) of [6, 8].
  const PlacedGeometry windows = At(0, {6, 6, 3}, {8, 1, 1});
  EXPECT_EQ(OrderOfElements(windows, {windows}).dims, (std::vector<int>{2, 1, 0}));
}

TEST(ElementOrderTest, WindowsThatOverlapAreWrittenInOrder) {
  const PlacedGeometry windows = At(0, {23, 4}, {2, 1});
  EXPECT_EQ(Effect(windows, windows), OrderEffect::kSequential);
}

TEST(ElementOrderTest, FollowingTheOrderGivesWhatPyTorchGives) {
  // x = arange(1, 21).view(4, 5); x[:, :4].mul_(x[:, :4].t())
  std::vector<float> x(20);
  for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i + 1);
  PlacedGeometry to = At(0, {4, 4}, {5, 1}), from = At(0, {4, 4}, {1, 5});
  to.origin = from.origin = reinterpret_cast<const char*>(x.data());
  const ElementOrder order = OrderOfElements(to, {from});
  ASSERT_EQ(order.effect, OrderEffect::kSequential);
  VisitInOrder(to.geometry.sizes, order.dims, [&](absl::Span<const int64_t> index) {
    x[OffsetOf(to.geometry, index)] *= x[OffsetOf(from.geometry, index)];
    return true;
  });
  EXPECT_EQ(x, (std::vector<float>{1,   12,   33,  64,  5,  72,   49,   96,   153, 10,
                                   363, 1152, 169, 252, 15, 1024, 2601, 4536, 361, 20}));
}

}  // namespace
}  // namespace smelt
