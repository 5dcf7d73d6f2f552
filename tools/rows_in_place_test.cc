// Rows that overwrite their operands have the same values as rows that are written elsewhere.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

Tensor Waves(int64_t rows, int64_t columns) {
  Tensor t = Tensor::Empty(DType::kFloat32, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) t.data_as<float>()[i] = std::sin(static_cast<float>(i));
  return t;
}

// `nodes` compute %y from %x, of the same sizes.
void ExpectTheSameInPlace(const std::string& nodes, const std::string& name) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{7, 1000}, {1000, 7}, {64, 64}, {1, 3}}) {
    SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
    const std::string head = absl::Substitute(R"(
graph(%x : Float($0, $1, strides=[$1, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %row : int[] = prim::Constant[value=[$1]]()
  %eps : float = prim::Constant[value=0.001]()
$2)",
                                              rows, columns, nodes);
    const std::string file = absl::StrCat(name, rows);
    auto apart = InstanceOf(absl::StrCat(head, "  return (%y)\n"), file);
    ASSERT_TRUE(apart.ok()) << apart.status();
    auto in_place = InstanceOf(absl::StrCat(head, "  %z : Tensor = aten::copy_(%x, %y, %no)\n  return ()\n"),
                               absl::StrCat(file, "_in_place"));
    ASSERT_TRUE(in_place.ok()) << in_place.status();
    const Tensor x = Waves(rows, columns);
    auto out = (*apart)->Run({x});
    ASSERT_TRUE(out.ok()) << out.status();
    const Tensor y = (*out)[0].tensor().Clone();
    ASSERT_TRUE((*in_place)->Run({x}).ok());
    EXPECT_EQ(std::memcmp(x.data(), y.data(), rows * columns * sizeof(float)), 0);
  }
}

TEST(RowsInPlaceTest, Softmax) { ExpectTheSameInPlace("  %y : Tensor = aten::softmax.int(%x, %one, %n)\n", "softmax"); }

TEST(RowsInPlaceTest, SoftmaxOfColumns) {
  ExpectTheSameInPlace("  %y : Tensor = aten::softmax.int(%x, %zero, %n)\n", "softmax_0");
}

TEST(RowsInPlaceTest, SumsSoFar) {
  ExpectTheSameInPlace("  %y : Tensor = aten::cumsum(%x, %one, %n)\n", "cumsum");
  ExpectTheSameInPlace("  %y : Tensor = aten::cumsum(%x, %zero, %n)\n", "cumsum_0");
}

TEST(RowsInPlaceTest, LayerNorm) {
  ExpectTheSameInPlace("  %y : Tensor = aten::layer_norm(%x, %row, %n, %n, %eps, %no)\n", "layer_norm");
}

// The result's memory holds exponentials before the row is read for the last time, so it is written elsewhere.
TEST(RowsInPlaceTest, SoftmaxTimesWhatItIsOf) {
  ExpectTheSameInPlace(R"(
  %s : Tensor = aten::softmax.int(%x, %one, %n)
  %y : Tensor = aten::mul.Tensor(%s, %x)
)",
                       "softmax_times");
}

// The row is read again after its first use.
TEST(RowsInPlaceTest, WhatIsAddedToItsOwnMaximum) {
  ExpectTheSameInPlace(R"(
  %d : int[] = prim::Constant[value=[1]]()
  %yes : bool = prim::Constant[value=1]()
  %m : Tensor = aten::amax(%x, %d, %yes)
  %e : Tensor = aten::exp(%x)
  %s : Tensor = aten::add.Tensor(%e, %m, %one)
  %t : Tensor = aten::sum.dim_IntList(%s, %d, %yes, %n)
  %p : Tensor = aten::mul.Tensor(%s, %x)
  %y : Tensor = aten::div.Tensor(%p, %t)
)",
                       "maximum");
}

}  // namespace
}  // namespace smelt
