// Operands that lie transposed, large enough for whole tiles, cut off at either edge, against the interpreter.
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// min(a.t(), b), or with two transposed operands of different types: min(a.t(), c.t()).
std::string Spec(const std::string& a, const std::string& c, bool both) {
  return absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", a,
                      " r [unit,any] alias=-1\nparam ", c, " r [", both ? "unit,any" : "any,unit",
                      "] alias=-1\nparam float64 w [any,unit] alias=-1\n%0 = load.p0 ", a,
                      "\n%1 = cast float64 %0\n%2 = load.p1 ", c,
                      "\n%3 = cast float64 %2\n%4 = min float64 %1 %3\n%5 = store.p2 float64 %4\nouter 0 1 2 3 4 5\n");
}

class TransposedTest : public testing::TestWithParam<Target> {};

TEST_P(TransposedTest, EqualsTheInterpreter) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float64", "float32", "bfloat16", "uint8"}) {
    for (const char* other : {type, "float32"}) {
      for (bool both : {false, true}) {
        RandomCase c;
        absl::StatusOr<KernelSpec> spec = ParseKernelSpec(Spec(type, other, both));
        ASSERT_TRUE(spec.ok()) << spec.status();
        c.spec = *spec;
        c.zeros_may_differ = true;
        SCOPED_TRACE(c.spec.ToString());
        absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
        ASSERT_TRUE(image.ok()) << image.status();
        // Rows, columns: whole tiles, of any element type and machine; less; more, and not whole; less than a block.
        for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{256, 64},
                                                                             {256, 128},
                                                                             {60, 130},
                                                                             {1037, 70},
                                                                             {31, 300},
                                                                             {7, 40},
                                                                             {40, 7},
                                                                             {1, 70},
                                                                             {70, 1},
                                                                             {3, 5},
                                                                             {14, 14},
                                                                             {17, 33}}) {
          SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
          c.launch = DenseLaunch(c.spec, {rows, columns}, rng);
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TransposedTest, testing::ValuesIn(kX86Targets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
