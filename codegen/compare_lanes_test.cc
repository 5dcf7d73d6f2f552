// The index of a loop compared with a number: the lanes are numbered correctly for every number.
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

class CompareLanesTest : public testing::TestWithParam<Target> {};

TEST_P(CompareLanesTest, EqualsTheInterpreterForAnyLimit) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const std::string type : {"float32", "uint8", "float64"}) {
    for (const std::string comparison : {"lt", "le", "gt", "ge", "eq"}) {
      for (const std::string operands : {"%0 %1", "%1 %0"}) {
        SCOPED_TRACE(absl::StrCat(type, " ", comparison, " ", operands));
        RandomCase c;
        c.spec = ParseOrDie(absl::StrCat(
            "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam ", type, " r [unit] alias=-1\nparam ", type,
            " r [unit] alias=-1\nparam ", type, " w [unit] alias=-1\nscalar int64\n%0 = index.d0 int64\n",
            "%1 = scalar.s0 int64\n%2 = ", comparison, " bool ", operands, "\n%3 = load.p0 ", type, "\n%4 = load.p1 ",
            type, "\n%5 = select ", type, " %2 %3 %4\n%6 = store.p2 ", type, " %5\nouter 0 1 2 3 4 5 6\n"));
        absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
        ASSERT_TRUE(image.ok()) << image.status();
        constexpr int64_t kLength = 1000;
        for (const int64_t limit :
             {std::numeric_limits<int64_t>::min(), int64_t{-2000}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{15},
              int64_t{16}, int64_t{500}, kLength - 1, kLength, int64_t{1} << 32, std::numeric_limits<int64_t>::max()}) {
          c.launch = DenseLaunch(c.spec, {kLength}, rng);
          c.launch.scalars = {limit};
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 3), "") << limit;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, CompareLanesTest, testing::ValuesIn(kHostTargets),
                         [](const auto& level) { return absl::StrCat("V", static_cast<int>(level.param)); });

}  // namespace
}  // namespace smelt
