#include "smelt/core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace smelt {
namespace {

TEST(DTypeTest, PromotionIsPyTorchs) {
  // torch.promote_types of PyTorch 2.13, rows and columns in DType's order. It promotes no float8.
  constexpr int kPromoted = 12;
  constexpr int kExpected[kPromoted][kPromoted] = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},           {1, 1, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11},
      {2, 3, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},           {3, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11},
      {4, 4, 4, 4, 4, 5, 6, 7, 8, 9, 10, 11},           {5, 5, 5, 5, 5, 5, 6, 7, 8, 9, 10, 11},
      {6, 6, 6, 6, 6, 6, 6, 8, 8, 9, 10, 11},           {7, 7, 7, 7, 7, 7, 8, 7, 8, 9, 10, 11},
      {8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 10, 11},           {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 11, 11},
      {10, 10, 10, 10, 10, 10, 10, 10, 10, 11, 10, 11}, {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11},
  };
  for (int a = 0; a < kPromoted; ++a) {
    for (int b = 0; b < kPromoted; ++b) {
      EXPECT_EQ(static_cast<int>(PromoteTypes(static_cast<DType>(a), static_cast<DType>(b))), kExpected[a][b])
          << a << " " << b;
    }
  }
  EXPECT_EQ(PromoteTypes(DType::kFloat8E5M2, DType::kFloat8E5M2), DType::kFloat8E5M2);
}

TEST(DTypeTest, NamesAndCodesRoundTrip) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(Name(t)), t);
    EXPECT_EQ(ParseDType(ScalarTypeName(t)), t);
    EXPECT_EQ(DTypeFromScalarType(ScalarTypeOf(t)), t);
  }
  EXPECT_EQ(ParseDType("float"), DType::kFloat32);
  EXPECT_EQ(ParseDType("long"), DType::kInt64);
  EXPECT_EQ(ParseDType("qint8"), std::nullopt);
  EXPECT_EQ(DTypeFromScalarType(12), std::nullopt);
  EXPECT_EQ(DTypeFromScalarType(-1), std::nullopt);
  EXPECT_EQ(ScalarTypeOf(DType::kBFloat16), 15);
  EXPECT_EQ(ItemSize(DType::kComplex128), 16);
  EXPECT_EQ(DTypeFromScalarType(24), DType::kFloat8E4M3FN);  // c10::ScalarType::Float8_e4m3fn
  EXPECT_EQ(DTypeFromScalarType(23), DType::kFloat8E5M2);
  EXPECT_EQ(ItemSize(DType::kFloat8E4M3FN), 1);
}

TEST(DTypeTest, Kinds) {
  EXPECT_TRUE(IsFloating(DType::kBFloat16));
  EXPECT_FALSE(IsFloating(DType::kComplex64));
  EXPECT_TRUE(IsFloating(DType::kFloat8E4M3FN));
  EXPECT_FALSE(IsComplex(DType::kFloat8E4M3FN));
  EXPECT_FALSE(IsHalf(DType::kFloat8E5M2));
  EXPECT_TRUE(IsFloat8(DType::kFloat8E5M2));
  EXPECT_FALSE(IsFloat8(DType::kUInt8));
  EXPECT_FALSE(IsIntegral(DType::kBool));
  EXPECT_TRUE(IsIntegral(DType::kUInt8));
  EXPECT_FALSE(IsSigned(DType::kUInt8));
  EXPECT_TRUE(IsSigned(DType::kInt8));
  EXPECT_EQ(RealOf(DType::kComplex128), DType::kFloat64);
  EXPECT_EQ(OpMathType(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(OpMathType(DType::kFloat8E5M2), DType::kFloat32);
  EXPECT_EQ(OpMathType(DType::kFloat64), DType::kFloat64);
}

TEST(GeometryTest, ContiguousCountsAnEmptyDimAsOne) {
  EXPECT_EQ(Geometry::Contiguous({2, 0, 3}).strides, (std::vector<int64_t>{3, 3, 1}));  // torch.empty(2, 0, 3).stride()
  EXPECT_EQ(Geometry::Contiguous({4, 8}, 5), (Geometry{{4, 8}, {8, 1}, 5}));
}

TEST(GeometryTest, ContiguityIgnoresDimsOfSizeOne) {
  EXPECT_TRUE((Geometry{{4, 1, 8}, {8, 77, 1}, 0}.IsContiguous()));
  EXPECT_TRUE((Geometry{{4, 0}, {1, 9}, 0}.IsContiguous()));
  EXPECT_TRUE((Geometry{{}, {}, 3}.IsContiguous()));
  EXPECT_FALSE((Geometry{{4, 8}, {1, 4}, 0}.IsContiguous()));
  EXPECT_FALSE((Geometry{{4, 8}, {9, 1}, 0}.IsContiguous()));
}

TEST(GeometryTest, SpanReachesBothWays) {
  EXPECT_EQ((Geometry{{4, 3}, {-2, 10}, 6}.Span()), (std::pair<int64_t, int64_t>{0, 27}));
  EXPECT_EQ((Geometry{{4, 0}, {2, 10}, 6}.Span()), (std::pair<int64_t, int64_t>{6, 6}));
}

TEST(StorageTest, ResizeKeepsWhatWasThere) {
  std::shared_ptr<Storage> s = Storage::Allocate(8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(s->data()) % 64, 0);
  std::iota(s->data(), s->data() + 8, 0);
  ASSERT_TRUE(s->Resize(1000).ok());
  EXPECT_EQ(s->bytes(), 1000);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(s->data()[i], i);
  EXPECT_FALSE(s->Resize(-1).ok());
  EXPECT_EQ(s->Resize(INT64_MAX).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(s->bytes(), 1000);
}

TEST(StorageTest, WhatGrowsIsZeroAndNothingShrinks) {
  std::shared_ptr<Storage> s = Storage::Allocate(8);
  std::iota(s->data(), s->data() + 8, 1);
  ASSERT_TRUE(s->Resize(4).ok());
  ASSERT_TRUE(s->GrowTo(6).ok());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(s->data()[i], i < 4 ? i + 1 : 0);
  EXPECT_TRUE(s->GrowTo(2).ok());
  EXPECT_EQ(s->bytes(), 6);
}

TEST(StorageTest, BorrowedMemoryNeverGrows) {
  char bytes[16];
  std::shared_ptr<Storage> s = Storage::Borrow(bytes, 16);
  EXPECT_TRUE(s->Resize(4).ok());
  EXPECT_TRUE(s->Resize(16).ok());
  EXPECT_EQ(s->Resize(17).message(), "a storage over memory of the caller has 16 bytes and cannot grow to 17");
  EXPECT_EQ(s->data(), bytes);
  EXPECT_TRUE(s->is_borrowed());
  EXPECT_FALSE(Storage::Allocate(16)->is_borrowed());
  EXPECT_FALSE(Storage::Adopt(bytes, 16, std::make_shared<int>(0))->is_borrowed());
}

TEST(StorageTest, AdoptedMemoryKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<char>>(16);
  std::weak_ptr<std::vector<char>> watch = owner;
  std::shared_ptr<Storage> s = Storage::Adopt(owner->data(), 16, owner);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  s.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(TensorTest, CopiesOfAHandleShareTheGeometryAndViewsDoNot) {
  Tensor x = Tensor::Empty(DType::kFloat32, {4, 8});
  Tensor same = x, view = x.View({{4}, {8}, 0});
  same.SetGeometry({{8, 4}, {1, 8}, 0});
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{8, 4}));
  EXPECT_TRUE(x.IsSame(same));
  EXPECT_FALSE(x.IsSame(view));
  EXPECT_EQ(x.storage(), view.storage());
  EXPECT_FALSE(Tensor().defined());
}

TEST(TensorTest, InBoundsSeesBothEnds) {
  Tensor x = Tensor::Empty(DType::kInt16, {10});
  EXPECT_TRUE(x.View({{3, 3}, {3, 1}, 1}).InBounds());
  EXPECT_FALSE(x.View({{3, 3}, {3, 1}, 2}).InBounds());
  EXPECT_FALSE(x.View({{2}, {-1}, 0}).InBounds());
  EXPECT_FALSE(x.View({{1}, {1}, -1}).InBounds());
  EXPECT_TRUE(x.View({{0, INT64_MAX}, {1, INT64_MAX}, 99}).InBounds());
  EXPECT_FALSE(x.View({{INT64_MAX, INT64_MAX}, {INT64_MAX, 1}, 0}).InBounds());
  EXPECT_FALSE(x.ViewAs(DType::kInt32, {{6}, {1}, 0}).InBounds());
}

template <typename T>
void CheckClone(DType dtype) {
  Tensor x = Tensor::Empty(dtype, {2, 3, 4});
  char* bytes = x.storage()->data();
  for (int64_t i = 0; i < x.storage()->bytes(); ++i) bytes[i] = static_cast<char>(i * 7);
  Tensor y = x.View({{4, 2, 2}, {1, 12, 4}, 4}).Clone();
  EXPECT_EQ(y.geometry(), Geometry::Contiguous({4, 2, 2}));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(std::string(y.data_as<char>() + (i * 4 + j * 2 + k) * sizeof(T), sizeof(T)),
                  std::string(x.data_as<char>() + (4 + i + j * 12 + k * 4) * sizeof(T), sizeof(T)));
      }
    }
  }
}

TEST(TensorTest, CloneIsDense) {
  CheckClone<char>(DType::kBool);
  CheckClone<int16_t>(DType::kBFloat16);
  CheckClone<float>(DType::kFloat32);
  CheckClone<double>(DType::kComplex64);
  CheckClone<double[2]>(DType::kComplex128);
  Tensor scalar = Tensor::Empty(DType::kFloat64, {});
  *scalar.data_as<double>() = 2.5;
  EXPECT_EQ(*scalar.Clone().data_as<double>(), 2.5);
  EXPECT_EQ(Tensor::Empty(DType::kFloat64, {3, 0}).Clone().NumElements(), 0);
}

}  // namespace
}  // namespace smelt
