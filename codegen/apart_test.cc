// Elements with a distance of two, three and four, like the coordinates of points, colors or boxes; also flipped.
// Nothing after the last element is read, and nothing between elements is written: the memory begins and ends at
// protected pages.
#include <cstdint>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

constexpr char kCopied[] = R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param TYPE r [any,APART] alias=-1
param TYPE r [any,unit] alias=-1
param TYPE w [any,unit] alias=-1
param TYPE w [any,APART] alias=-1
%0 = load.p0 TYPE
%1 = load.p1 TYPE
%2 = store.p2 TYPE %0
%3 = store.p3 TYPE %1
outer 0 1 2 3
)";
// Reductions of columns whose elements have the same distance.
constexpr char kReduced[] = R"(
kernel parallel=1 reduction=1 vector=0 sequential=0
param TYPE r [APART,any] alias=-1
param TYPE w [APART,zero] alias=-1
%0 = load.p0 TYPE
%1 = reduce.max TYPE %0
%2 = store.p1 TYPE %1
inner 0 1
outer 2
)";

using Case = std::tuple<Target, const char*, const char*>;
class ApartTest : public testing::TestWithParam<Case> {};

TEST_P(ApartTest, OfAnyLengthEqualTheInterpreter) {
  const auto [target, type, apart] = GetParam();
  if (!RunsHere(target)) GTEST_SKIP() << "this machine is below " << Name(target);
  std::mt19937_64 rng(1);
  for (const char* text : {kCopied, kReduced}) {
    RandomCase c;
    // Half types and bool have no maxima.
    if (text == kReduced && (type == std::string("bool") || type == std::string("bfloat16"))) continue;
    c.spec = ParseOrDie(absl::StrReplaceAll(text, {{"TYPE", type}, {"APART", apart}}));
    const absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, target);
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t n = 1; n <= 70; ++n) {
      SCOPED_TRACE(n);
      c.launch =
          DenseLaunch(c.spec, text == kCopied ? std::vector<int64_t>{n % 3 + 2, n} : std::vector<int64_t>{n, 3}, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 2), "");
    }
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [target, type, apart] = info.param;
  return absl::StrReplaceAll(Name(target), {{"-", "_"}}) + "_" + type + "_" + apart;
}
INSTANTIATE_TEST_SUITE_P(Cases, ApartTest,
                         testing::Combine(testing::ValuesIn(kHostTargets),
                                          testing::Values("bool", "uint8", "int16", "bfloat16", "float32", "float64",
                                                          "int64"),
                                          testing::Values("two", "three", "four", "back")),
                         CaseName);

}  // namespace
}  // namespace smelt
