#include "smelt/core/tensor/written_places.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

// Eight elements of one storage, and a view of it.
struct Memory {
  Tensor whole = Tensor::Empty(DType::kFloat32, {8});
  Tensor View(int64_t offset, int64_t size, int64_t stride) const { return whole.View({{size}, {stride}, offset}); }
};

// Returns the result of an operator that writes element 1 of three: `combine` of the old value and the given one.
template <typename Combine>
auto WritesElementOne(Combine combine) {
  return [combine](int held, int given) -> absl::StatusOr<Tensor> {
    Tensor t = OneNumber(DType::kFloat32, {3}, held);
    t.data_as<float>()[1] = combine(static_cast<float>(held), static_cast<float>(given));
    return t;
  };
}

TEST(WrittenPlacesTest, SetsSumsProductsExtremesAndMeansAreSeen) {
  const Memory m;
  const Tensor written = m.View(0, 3, 2);  // elements 0, 2 and 4: element 2 is written
  const Tensor beside = m.View(3, 2, 1), at = m.View(1, 2, 1), unwritten = m.View(4, 4, 1);
  const auto check = [&](auto combine) {
    EXPECT_EQ(*WritesWhereItReads(written, {at}, WritesElementOne(combine)), true);
    EXPECT_EQ(*WritesWhereItReads(written, {unwritten, beside}, WritesElementOne(combine)), false);
  };
  check([](float, float given) { return given; });
  check([](float held, float given) { return held + given; });
  check([](float held, float given) { return held * given; });
  check([](float held, float given) { return std::min(held, given); });
  check([](float held, float given) { return std::max(held, given); });
  check([](float held, float given) { return (held + given) / 2; });
  check([](float, float) { return 2.0f; });
  check([](float, float) { return 3.0f; });
}

TEST(WrittenPlacesTest, WhatKeepsItsNumberIsNotWritten) {
  const Memory m;
  const Tensor written = m.View(0, 3, 2);
  EXPECT_EQ(*WritesWhereItReads(written, {m.View(0, 8, 1)}, WritesElementOne([](float held, float) { return held; })),
            false);
}

TEST(WrittenPlacesTest, OfIntegersNothingIsPromised) {
  const Tensor written = Tensor::Empty(DType::kInt64, {3});
  EXPECT_EQ(*WritesWhereItReads(written, {written}, [](int, int) { return absl::InternalError("not called"); }), true);
}

}  // namespace
}  // namespace smelt
