// Short rows of elements of one and two bytes: a remainder that fills no vector is read and written in words on
// machines whose masks are for wider elements.
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

constexpr char kWidened[] = R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param NARROW r [any,unit] alias=-1
param WIDE w [any,unit] alias=-1
%0 = load.p0 NARROW
%1 = cast WIDE %0
%2 = store.p1 WIDE %1
outer 0 1 2
)";
constexpr char kNarrowed[] = R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param WIDE r [any,unit] alias=-1
param NARROW w [any,unit] alias=-1
%0 = load.p0 WIDE
%1 = cast NARROW %0
%2 = store.p1 NARROW %1
outer 0 1 2
)";
constexpr char kCopied[] = R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param NARROW r [any,unit] alias=-1
param WIDE r [any,unit] alias=-1
param NARROW w [any,unit] alias=-1
param WIDE w [any,unit] alias=-1
%0 = load.p0 NARROW
%1 = store.p2 NARROW %0
%2 = load.p1 WIDE
%3 = store.p3 WIDE %2
outer 0 1 2 3
)";

using Types = std::tuple<Target, const char*, const char*>;
class NarrowRowsTest : public testing::TestWithParam<Types> {};

TEST_P(NarrowRowsTest, OfAnyLengthEqualTheInterpreter) {
  const auto [target, narrow, wide] = GetParam();
  if (!RunsHere(target)) GTEST_SKIP() << "this machine is below " << Name(target);
  std::mt19937_64 rng(1);
  for (const char* text : {kWidened, kNarrowed, kCopied}) {
    RandomCase c;
    c.spec = ParseOrDie(absl::StrReplaceAll(text, {{"NARROW", narrow}, {"WIDE", wide}}));
    const absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, target);
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t n = 1; n <= 70; ++n) {
      SCOPED_TRACE(n);
      c.launch = DenseLaunch(c.spec, {n % 3 + 2, n}, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 2), "");
    }
  }
}

std::string TypesName(const testing::TestParamInfo<Types>& info) {
  const auto& [target, narrow, wide] = info.param;
  return absl::StrReplaceAll(Name(target), {{"-", "_"}}) + "_" + narrow + "_" + wide;
}
INSTANTIATE_TEST_SUITE_P(Types, NarrowRowsTest,
                         testing::Combine(testing::ValuesIn(kHostTargets),
                                          testing::Values("int8", "int16", "float16", "bfloat16"),
                                          testing::Values("float32", "float64")),
                         TypesName);

}  // namespace
}  // namespace smelt
