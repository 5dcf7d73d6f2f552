#include "smelt/runtime/typed.h"

#include <type_traits>

#include "gtest/gtest.h"

namespace smelt {
namespace {

// The types that smelt_cc_library generates.
struct Inputs {
  TensorOf<float, kAnySize, 8> x;
  TensorOf<int64_t, 3> indices;
  double scale;
};

template <typename T>
concept CanBeX = requires(T t) { Inputs{.x = t, .indices = TensorOf<int64_t, 3>::Empty(), .scale = 1}; };
template <typename T>
concept CanBeScale = requires(TensorOf<float, kAnySize, 8> x, T t) {
  Inputs{.x = x, .indices = TensorOf<int64_t, 3>::Empty(), .scale = t};
};

// Wrong arguments do not compile: dtype, rank, a size, a tensor without a type, none at all.
static_assert(CanBeX<TensorOf<float, kAnySize, 8>>);
static_assert(!CanBeX<TensorOf<double, kAnySize, 8>>);
static_assert(!CanBeX<TensorOf<float, 8>>);
static_assert(!CanBeX<TensorOf<float, kAnySize, 8, 1>>);
static_assert(!CanBeX<TensorOf<float, kAnySize, 7>>);
static_assert(!CanBeX<TensorOf<float, 4, 8>>);
static_assert(!CanBeX<TensorOf<int64_t, 3>>);
static_assert(!CanBeX<Tensor>);
static_assert(!CanBeX<float*>);
static_assert(CanBeScale<double>);
static_assert(!CanBeScale<Tensor>);
static_assert(!std::is_default_constructible_v<TensorOf<float, 2>>);
static_assert(!std::is_default_constructible_v<Inputs>);

// Sizes that vary must be given, and only those.
template <typename T, typename... N>
concept HasEmpty = requires(N... n) { T::Empty(n...); };
static_assert(HasEmpty<TensorOf<float, kAnySize, 8>, int>);
static_assert(!HasEmpty<TensorOf<float, kAnySize, 8>>);
static_assert(!HasEmpty<TensorOf<float, kAnySize, 8>, int, int>);
static_assert(HasEmpty<TensorOf<float, 2, 8>>);
static_assert(!HasEmpty<TensorOf<float, 2, 8>, int>);

TEST(TypedTest, VaryingSizesAreFilledInInOrder) {
  auto t = TensorOf<int32_t, kAnySize, 3, kAnySize>::Empty(2, 5);
  EXPECT_EQ(t.tensor().sizes(), absl::MakeConstSpan({int64_t{2}, int64_t{3}, int64_t{5}}));
  EXPECT_EQ(t.NumElements(), 30);
  EXPECT_EQ(t.tensor().dtype(), DType::kInt32);
}

TEST(TypedTest, ElementsAreFoundByTheTensorsStrides) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  auto t = TensorOf<float, 2, 3>::Borrow(data);
  EXPECT_EQ(t.at(1, 0), 3);
  auto transposed = TensorOf<float, 3, 2>::From(t.tensor().View({{3, 2}, {1, 3}, 0}));
  ASSERT_TRUE(transposed.ok());
  EXPECT_EQ(transposed->at(2, 1), 5);
  EXPECT_EQ(transposed->at(0, 1), 3);
  transposed->at(2, 0) = 9;
  EXPECT_EQ(data[2], 9);
}

TEST(TypedTest, ATensorOfAnotherTypeIsRefused) {
  Tensor t = Tensor::Empty(DType::kFloat32, {4, 8});
  EXPECT_TRUE((TensorOf<float, 4, 8>::From(t).ok()));
  EXPECT_TRUE((TensorOf<float, kAnySize, 8>::From(t).ok()));
  const absl::Status wrong = TensorOf<double, 4, kAnySize>::From(t).status();
  EXPECT_EQ(wrong.message(), "float32 [4, 8], expected float64 [4, any]");
  EXPECT_FALSE((TensorOf<float, 4>::From(t).ok()));
  EXPECT_FALSE((TensorOf<float, 4, 7>::From(t).ok()));
  EXPECT_FALSE((TensorOf<float, 4>::From(Tensor()).ok()));
}

TEST(TypedTest, HalvesConvertAsPyTorchDoes) {
  EXPECT_EQ(Float16(0.1f).bits, 0x2e66);   // torch.tensor(0.1).half().view(torch.int16)
  EXPECT_EQ(BFloat16(0.1f).bits, 0x3dcd);  // likewise
  EXPECT_EQ(static_cast<float>(BFloat16(1.5f)), 1.5f);
}

}  // namespace
}  // namespace smelt
