// Numbers that a model reads from its tensors, as bounds of slices and as indices. Expected are Python's slices of a
// list.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

constexpr int kRows = 6;

// The graph of `body`, whose %k, read from %n, is any number, as in an archive of a model that checks nothing.
std::unique_ptr<Instance> Reads(absl::string_view body, const std::string& name) {
  auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(6, 2, strides=[2, 1]), %n : Long()):
  symbol u0 in [-1000000, 1000000]
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %k : int(u0) = aten::item(%n)
)",
                                          body),
                             name);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

Tensor Counting() {
  Tensor t = Tensor::Empty(DType::kFloat32, {kRows, 2});
  for (int i = 0; i < 2 * kRows; ++i) t.data_as<float>()[i] = i;
  return t;
}

Tensor Number(int64_t k) {
  Tensor n = Tensor::Empty(DType::kInt64, {});
  n.data_as<int64_t>()[0] = k;
  return n;
}

// x[begin:end] of a list of kRows, with Python's counting.
struct Rows {
  int begin, end;
};
Rows Sliced(int64_t begin, int64_t end) {
  const auto at = [](int64_t k) { return static_cast<int>(std::clamp<int64_t>(k < 0 ? k + kRows : k, 0, kRows)); };
  return {at(begin), std::max(at(begin), at(end))};
}

const int64_t kNumbers[] = {2, 0, 1, 5, 6, 9, 1000000, -1, -3, -6, -7, -1000000};

TEST(DataNumbersTest, ASliceToANumberIsSummed) {
  const auto instance = Reads(R"(
  %s : Tensor = aten::slice.Tensor(%x, %zero, %none, %k, %one)
  %dims : int[] = prim::ListConstruct(%zero)
  %no : bool = prim::Constant[value=0]()
  %y : Tensor = aten::sum.dim_IntList(%s, %dims, %no, %none)
  return (%y)
)",
                              "slice_to");
  const Tensor x = Counting();
  for (int64_t k : kNumbers) {
    auto out = instance->Run({x, Number(k)});
    ASSERT_TRUE(out.ok()) << k << ": " << out.status();
    const int end = Sliced(0, k).end;
    for (int c = 0; c < 2; ++c)
      EXPECT_EQ((*out)[0].tensor().data_as<float>()[c], end * (end - 1) + c * end) << k << " column " << c;
  }
}

TEST(DataNumbersTest, ASliceFromANumberIsCopied) {
  const auto instance = Reads(R"(
  %s : Tensor = aten::slice.Tensor(%x, %zero, %k, %none, %two)
  %y : Tensor = aten::add.Scalar(%s, %one, %one)
  return (%y)
)",
                              "slice_from");
  const Tensor x = Counting();
  for (int64_t k : kNumbers) {
    auto out = instance->Run({x, Number(k)});
    ASSERT_TRUE(out.ok()) << k << ": " << out.status();
    const Rows rows = Sliced(k, kRows);
    const Tensor& y = (*out)[0].tensor();
    ASSERT_EQ(y.sizes()[0], (rows.end - rows.begin + 1) / 2) << k;
    for (int r = 0; r < y.sizes()[0]; ++r)
      EXPECT_EQ(y.data_as<float>()[2 * r], 2 * (rows.begin + 2 * r) + 1) << k << " row " << r;
  }
}

TEST(DataNumbersTest, ASliceBehindANumberIsReplacedInACopy) {
  const auto instance = Reads(R"(
  %s : Tensor = aten::slice.Tensor(%x, %zero, %k, %none, %one)
  %y : Tensor = aten::sub.Tensor(%s, %s, %one)
  %z : Tensor = aten::slice_scatter(%x, %y, %zero, %k, %none, %one)
  return (%z)
)",
                              "slice_scatter");
  const Tensor x = Counting();
  for (int64_t k : kNumbers) {
    auto out = instance->Run({x, Number(k)});
    ASSERT_TRUE(out.ok()) << k << ": " << out.status();
    for (int i = 0; i < 2 * kRows; ++i)
      EXPECT_EQ((*out)[0].tensor().data_as<float>()[i], i < 2 * Sliced(k, kRows).begin ? i : 0) << k << " at " << i;
  }
}

TEST(DataNumbersTest, ASliceToANumberIsWrittenInPlace) {
  const auto instance = Reads(R"(
  %s : Tensor = aten::slice.Tensor(%x, %zero, %none, %k, %one)
  %y : Tensor = aten::add_.Scalar(%s, %one, %one)
  return (%x)
)",
                              "slice_written");
  for (int64_t k : kNumbers) {
    const Tensor x = Counting();
    auto out = instance->Run({x, Number(k)});
    ASSERT_TRUE(out.ok()) << k << ": " << out.status();
    for (int i = 0; i < 2 * kRows; ++i)
      EXPECT_EQ(x.data_as<float>()[i], i + (i < 2 * Sliced(0, k).end)) << k << " at " << i;
  }
}

TEST(DataNumbersTest, ANegativeIndexCountsFromTheEnd) {
  const auto instance = Reads(R"(
  %r : Tensor = aten::select.int(%x, %zero, %k)
  %y : Tensor = aten::add.Scalar(%r, %one, %one)
  return (%y)
)",
                              "select");
  const Tensor x = Counting();
  for (int64_t k = -kRows; k < kRows; ++k) {
    auto out = instance->Run({x, Number(k)});
    ASSERT_TRUE(out.ok()) << k << ": " << out.status();
    EXPECT_EQ((*out)[0].tensor().data_as<float>()[0], 2 * (k < 0 ? k + kRows : k) + 1) << k;
  }
  for (int64_t k : {-kRows - 1, kRows}) EXPECT_FALSE(instance->Run({x, Number(k)}).ok()) << k;
}

}  // namespace
}  // namespace smelt
