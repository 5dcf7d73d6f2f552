#include "smelt/fuser/lay_rows.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/run_kernels.h"

namespace smelt {
namespace {

// Returns the number of operands and results that other kernels transpose; the graph's results stay the same, bit for
// bit.
int Laid(const std::string& text, const LayRowsOptions& options = {}) {
  std::unique_ptr<Graph> g = ParseOrFail(text);
  const std::vector<Tensor> inputs = InputsOf(*g);
  EXPECT_TRUE(FuseGraph(*g).ok());
  const auto before = RunKernels(*g, inputs);
  const auto laid = LayRows(*g, options, nullptr);
  EXPECT_TRUE(laid.ok()) << laid.status();
  EXPECT_EQ(VerifyGraph(*g), absl::OkStatus());
  const auto after = RunKernels(*g, inputs);
  EXPECT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  if (!laid.ok() || !before.ok() || !after.ok()) return -1;
  for (size_t i = 0; i < before->outputs.size(); ++i) {
    const Tensor a = before->outputs[i].Clone(), b = after->outputs[i].Clone();
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.NumElements() * sizeof(float)), 0) << "output " << i;
  }
  return *laid;
}

// Each row minus its maximum.
std::string Shifted(const std::string& x, const std::string& then) {
  return "graph(" + x + R"():
  %one : int = prim::Constant[value=1]()
  %dim : int[] = prim::Constant[value=[1]]()
  %keep : bool = prim::Constant[value=1]()
)" + then;
}
constexpr char kRows[] = R"(
  %m : Float(64, 1, strides=[1, 1]) = aten::amax(%r, %dim, %keep)
  %s : Float(64, 48, strides=[48, 1]) = aten::sub.Tensor(%r, %m, %one)
)";

TEST(LayRows, AnOperandThatLiesAcrossTheRowsIsTransposedFirst) {
  EXPECT_EQ(Laid(Shifted("%x : Float(48, 64, strides=[64, 1])", std::string(R"(
  %r : Float(64, 48, strides=[1, 64]) = smelt::view[sizes=[64, 48], strides=[1, 64], offset=0, dtype=6](%x)
)") + kRows + "  return (%s)\n")),
            1);
}

TEST(LayRows, AResultThatLiesAcrossTheRowsIsTransposedAfterwards) {
  EXPECT_EQ(Laid(Shifted("%r : Float(64, 48, strides=[48, 1])", std::string(kRows) + R"(
  %t : Float(64, 48, strides=[1, 64]) = smelt::materialize[strides=[1, 64]](%s)
  return (%t)
)")),
            1);
}

// Rows of `size` elements, of an operand or of the result.
std::string AcrossRows(int size, bool result) {
  const std::string rows = absl::StrCat("Float(64, ", size, ", strides=[", size, ", 1])");
  const std::string across = absl::StrCat("Float(64, ", size, ", strides=[1, 64])");
  return Shifted(
      result ? "%r : " + rows : absl::StrCat("%x : Float(", size, ", 64, strides=[64, 1])"),
      absl::StrCat(result ? ""
                          : absl::StrCat("  %r : ", across, " = smelt::view[sizes=[64, ", size,
                                         "], strides=[1, 64], offset=0, dtype=6](%x)\n"),
                   "  %m : Float(64, 1, strides=[1, 1]) = aten::amax(%r, %dim, %keep)\n  %s : ", rows,
                   " = aten::sub.Tensor(%r, %m, %one)\n",
                   result ? absl::StrCat("  %t : ", across, " = smelt::materialize[strides=[1, 64]](%s)\n") : "",
                   "  return (%", result ? "t" : "s", ")\n"));
}

TEST(LayRows, AKernelForACpuTransposesRowsItself) {
  for (const bool result : {false, true}) {
    EXPECT_EQ(Laid(AcrossRows(48, result), {.in_kernels = true}), 0);
    EXPECT_EQ(Laid(AcrossRows(48, result)), 1);
  }
}

TEST(LayRows, ButNoLongOnes) {
  for (const bool result : {false, true}) EXPECT_EQ(Laid(AcrossRows(6000, result), {.in_kernels = true}), 1);
}

TEST(LayRows, WhereAllLiesAcrossTheRowsNothingIsTransposed) {
  EXPECT_EQ(Laid(Shifted("%x : Float(48, 64, strides=[64, 1])", R"(
  %r : Float(64, 48, strides=[1, 64]) = smelt::view[sizes=[64, 48], strides=[1, 64], offset=0, dtype=6](%x)
  %m : Float(64, 1, strides=[1, 1]) = aten::amax(%r, %dim, %keep)
  %s : Float(64, 48, strides=[1, 64]) = aten::sub.Tensor(%r, %m, %one)
  return (%s)
)")),
            0);
}

TEST(LayRows, NorIsWhatLiesAlongThem) {
  EXPECT_EQ(Laid(Shifted("%r : Float(64, 48, strides=[48, 1])", std::string(kRows) + "  return (%s)\n")), 0);
}

TEST(LayRows, NorAreFewElements) {
  EXPECT_EQ(Laid(Shifted("%x : Float(16, 16, strides=[16, 1])", R"(
  %r : Float(16, 16, strides=[1, 16]) = smelt::view[sizes=[16, 16], strides=[1, 16], offset=0, dtype=6](%x)
  %m : Float(16, 1, strides=[1, 1]) = aten::amax(%r, %dim, %keep)
  %s : Float(16, 16, strides=[16, 1]) = aten::sub.Tensor(%r, %m, %one)
  return (%s)
)")),
            0);
}

// Sums along a dim of channels-last tensors, at indices that a kernel computes.
std::string SumsOfChannelsLast(const std::string& result) {
  return R"(graph(%x : Float(2, 6, 12, 16, strides=[1152, 192, 16, 1])):
  %dim : int[] = prim::Constant[value=[2]]()
  %keep : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %v : Float(2, 16, 6, 12, strides=[1152, 1, 192, 16]) = smelt::view[sizes=[2, 16, 6, 12], strides=[1152, 1, 192, 16], offset=0, dtype=6](%x)
  %s : Float(2, 16, 12, strides=[192, 12, 1]) = smelt::FusionGroup_0(%v)
  %t : )" +
         result + R"(
  return (%t)
with smelt::FusionGroup_0 = graph(%0 : Float(2, 16, 6, 12, strides=[1152, 1, 192, 16])):
  %1 : int = prim::Constant[value=2]()
  %2 : int = prim::Constant[value=6]()
  %3 : int = prim::Constant[value=4]()
  %4 : NoneType = prim::Constant()
  %5 : Long(6, strides=[1]) = aten::arange(%2, %3, %4, %4, %4)
  %6 : int = prim::Constant[value=1]()
  %7 : Long(6, strides=[1]) = aten::bitwise_xor.Scalar(%5, %6)
  %8 : Float(2, 16, 6, 12, strides=[1152, 72, 12, 1]) = aten::index_select(%0, %1, %7)
  %9 : int[] = prim::Constant[value=[2]]()
  %10 : bool = prim::Constant[value=0]()
  %11 : Float(2, 16, 12, strides=[192, 12, 1]) = aten::sum.dim_IntList(%8, %9, %10, %4)
  return (%11)
)";
}

TEST(LayRows, AResultThatKernelsAloneReadLiesAsWhatItIsMadeOf) {
  EXPECT_EQ(Laid(SumsOfChannelsLast("Float(2, 16, strides=[16, 1]) = aten::sum.dim_IntList(%s, %dim, %keep, %none)")),
            1);
}

TEST(LayRows, OneThatAViewShowsDoesNot) {
  EXPECT_EQ(Laid(SumsOfChannelsLast("Float(2, 192, strides=[192, 1]) = smelt::view[sizes=[2, 192], "
                                    "strides=[192, 1], offset=0, dtype=6](%s)")),
            0);
}

TEST(LayRows, OfAllPairsOfRowsOneOperandIsTransposed) {
  EXPECT_EQ(Laid(R"(graph(%x : Float(20, 24, strides=[24, 1]), %y : Float(30, 24, strides=[24, 1])):
  %one : int = prim::Constant[value=1]()
  %dim : int[] = prim::Constant[value=[2]]()
  %keep : bool = prim::Constant[value=0]()
  %p : Float(20, 1, 24, strides=[24, 24, 1]) = smelt::view[sizes=[20, 1, 24], strides=[24, 24, 1], offset=0, dtype=6](%x)
  %d : Float(20, 30, 24, strides=[720, 24, 1]) = aten::sub.Tensor(%p, %y, %one)
  %a : Float(20, 30, 24, strides=[720, 24, 1]) = aten::abs(%d)
  %m : Float(20, 30, strides=[30, 1]) = aten::amax(%a, %dim, %keep)
  return (%m)
)"),
            1);
}

}  // namespace
}  // namespace smelt
