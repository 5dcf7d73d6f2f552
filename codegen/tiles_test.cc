// Tiles of several dims: values that do not vary along the last dim are computed before the loop over it.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// Indices of each dim, an operand that varies along two of them, and one along the last.
constexpr char kNumbered[] = R"(kernel parallel=4 reduction=0 vector=3 sequential=0
param float32 r [any,any,any,unit] alias=-1
param float32 r [any,any,zero,zero] alias=-1
param float32 r [any,zero,zero,unit] alias=0
param float32 w [any,any,any,unit] alias=-1
%0 = index.d0 int64
%1 = index.d1 int64
%2 = index.d2 int64
%3 = const int64 7
%4 = mul int64 %0 %3
%5 = add int64 %1 %4
%6 = cast float32 %5
%7 = load.p1 float32
%8 = mul float32 %6 %7
%9 = cast float32 %2
%10 = add float32 %8 %9
%11 = load.p0 float32
%12 = load.p2 float32
%13 = mul float32 %10 %11
%14 = add float32 %12 %13
%15 = store.p3 float32 %14
outer 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
)";

class TilesTest : public testing::TestWithParam<Target> {};

TEST_P(TilesTest, InAnyRangeEqualTheInterpreter) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  RandomCase c;
  c.spec = ParseOrDie(kNumbered);
  absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{2, 3, 5, 20}, {1, 1, 7, 16}, {5, 3, 1, 3}, {1, 4, 2, 1}, {3, 1, 4, 40}}) {
    c.launch = DenseLaunch(c.spec, sizes, rng);
    for (int parts : {1, 2, 3, 4, 7}) {
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, parts), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TilesTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

TEST(TilesTest, ShortRowsFarFromEachOtherAreAskedForAhead) {
  const auto asks = [](const std::string& strides) {
    const auto text =
        PrintKernel(ParseOrDie(absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam float32 r [",
                                            strides, "] alias=-1\nparam float32 w [any,unit] alias=-1\n",
                                            "%0 = load.p0 float32\n%1 = store.p1 float32 %0\nouter 0 1\n")),
                    Target::kX86_64_V3, KernelText::kLlvmIr);
    EXPECT_TRUE(text.ok()) << text.status();
    const std::vector<std::string> parts = absl::StrSplit(text.value_or(""), "call void @llvm.prefetch");
    return parts.size() - 1;
  };
  // A row's first and last byte; results that bypass the cache ask for both twice.
  EXPECT_EQ(asks("any,unit"), 4);
  EXPECT_EQ(asks("zero,unit"), 0);
}

// An instruction that converts a number depends on the previous writer of its register, which is in the tile before if
// nothing prevents that.
TEST(TilesTest, NumbersWaitForThoseOfNoOtherTile) {
  for (Target target : {Target::kX86_64_V3, Target::kX86_64_V4}) {
    const auto text = PrintKernel(ParseOrDie(kNumbered), target, KernelText::kAssembly);
    ASSERT_TRUE(text.ok()) << text.status();
    int conversions = 0;
    std::string before;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      if (absl::StrContains(line, "vcvtsi2ss")) {
        ++conversions;
        EXPECT_TRUE(absl::StrContains(before, "vxorps")) << before << "\n" << line;
      }
      before = std::string(line);
    }
    EXPECT_EQ(conversions, 2) << *text;
  }
}

}  // namespace
}  // namespace smelt
