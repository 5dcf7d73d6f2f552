// Two results whose elements alternate in memory, like the parts of complex numbers: in either order, or apart.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// (a, b) becomes (-b, a): a product with i.
std::string Spec(const std::string& type, const std::string& step) {
  return absl::Substitute(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param $0 r [any,$1] alias=0
param $0 r [any,$1] alias=0
param $0 w [any,$1] alias=0
param $0 w [any,$1] alias=0
%0 = load.p0 $0
%1 = load.p1 $0
%2 = neg $0 %1
%3 = store.p2 $0 %2
%4 = store.p3 $0 %0
outer 0 1 2 3 4
)",
                          type, step);
}

struct Place {
  int64_t offset, step;
};

class InterleavedTest : public testing::TestWithParam<Target> {
 protected:
  // Compares all of `memory`: elements that no store names must not change.
  template <typename T>
  void Check(const LoadedImage& image, bool has_steps, int64_t rows, int64_t columns, Place re, Place im, Place to_re,
             Place to_im) {
    const int64_t row = 4 * columns + 3;
    std::vector<T> memory(2 * rows * row + 1);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(static_cast<int>(i % 120) + 1);
    std::vector<T> want = memory;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        want[r * row + to_re.offset + c * to_re.step] = -memory[r * row + im.offset + c * im.step];
        want[r * row + to_im.offset + c * to_im.step] = memory[r * row + re.offset + c * re.step];
      }
    }
    std::vector<int64_t> words = {rows, columns};
    for (const Place& p : {re, im, to_re, to_im}) {
      words.push_back(reinterpret_cast<int64_t>(memory.data() + p.offset));
      words.push_back(row);
      if (has_steps) words.push_back(p.step);
    }
    int64_t status = 0;
    image.entry(0)(words.data(), 0, rows, &status);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(memory, want) << columns << " columns to " << to_re.offset << " and " << to_im.offset << " by "
                            << to_re.step;
  }

  template <typename T>
  void CheckType(const std::string& type) {
    for (const bool has_steps : {false, true}) {
      absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(Spec(type, has_steps ? "any" : "two")), GetParam());
      ASSERT_TRUE(image.ok()) << image.status();
      for (int64_t columns : {1, 2, 7, 16, 31, 64, 133}) {
        const int64_t rows = 3, other = rows * (4 * columns + 3);
        const Place re = {0, 2}, im = {1, 2};
        auto check = [&](Place to_re, Place to_im) {
          Check<T>(*image, has_steps, rows, columns, re, im, to_re, to_im);
        };
        check({other, 2}, {other + 1, 2});  // side by side
        check({other + 1, 2}, {other, 2});  // the other way around
        check(re, im);                      // in place
        check({other, 2}, {other + 2 * columns + 1, 2});
        if (!has_steps) continue;
        check({other, 4}, {other + 1, 4});        // with a gap
        check({other, 1}, {other + columns, 1});  // apart
      }
    }
  }
};

TEST_P(InterleavedTest, EveryElementIsWhereItsStoreSays) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  CheckType<float>("float32");
  CheckType<double>("float64");
  CheckType<int16_t>("int16");
  CheckType<int8_t>("int8");
}

INSTANTIATE_TEST_SUITE_P(Targets, InterleavedTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
