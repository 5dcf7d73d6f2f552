// Quotients and remainders of int64: vectors of them are divided as doubles where that is exact, and lane by lane
// elsewhere.
#include <algorithm>
#include <cstdint>
#include <limits>
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

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

// By definition: truncated or floored; the remainder has the sign of the dividend or of the divisor.
int64_t Expected(const std::string& op, int64_t a, int64_t z) {
  if (a == kMin && z == -1) return op.starts_with("rem") ? 0 : kMin;
  const int64_t q = a / z, r = a % z;
  const bool other_sign = r != 0 && (r < 0) != (z < 0);
  if (op == "div_trunc") return q;
  if (op == "rem_trunc") return r;
  if (op == "div_floor") return q - other_sign;
  return other_sign ? r + z : r;
}

std::vector<std::pair<int64_t, int64_t>> Pairs(bool small) {
  std::vector<int64_t> edges = {0, 1, -1, 2, -2, 3, -3, 7, 10, -10, 97, 1 << 20, (1 << 30) - 1, -(1 << 30) - 1};
  const int64_t limit = int64_t{1} << 50;
  for (int64_t d : {-2, -1, 0, 1}) edges.insert(edges.end(), {limit + d - 2, -limit - d + 1});
  if (!small) {
    for (int64_t d : {-1, 0, 1}) {
      edges.insert(edges.end(), {limit + 2 + d, -limit - 2 + d, 2 * limit + d, 8 * limit + d, -8 * limit + d});
    }
    edges.insert(edges.end(), {kMin, kMin + 1, kMax, kMax - 1});
  }
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t a : edges) {
    for (int64_t z : edges) {
      if (z == 0) continue;
      pairs.emplace_back(a, z);
      // Next to a multiple, where a rounded quotient is nearest to the next integer.
      if (small && a > 0 && z > 1) pairs.emplace_back(a / z * z - 1, z);
    }
  }
  std::mt19937_64 rng(1);
  for (int k = 0; k < 5000; ++k) {
    auto draw = [&] { return static_cast<int64_t>(rng()) >> (small ? 14 + rng() % 49 : rng() % 63); };
    const int64_t a = draw(), z = draw();
    if (z != 0) pairs.emplace_back(a, z);
  }
  return pairs;
}

class DivisionTest : public testing::TestWithParam<Target> {};

// Small numbers alone, so that every vector takes the fast path, and small and large numbers in one vector.
TEST_P(DivisionTest, OfInt64IsExactForSmallAndLargeOperands) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  for (const std::string op : {"div_trunc", "div_floor", "rem_trunc", "rem_floor"}) {
    const KernelSpec spec =
        ParseOrDie(absl::StrCat("kernel parallel=1 reduction=0 vector=0 sequential=0\nparam int64 r [unit] alias=-1\n"
                                "param int64 r [unit] alias=-1\nparam int64 w [unit] alias=-1\n%0 = load.p0 int64\n"
                                "%1 = load.p1 int64\n%2 = ",
                                op, " int64 %0 %1\n%3 = store.p2 int64 %2\nouter 0 1 2 3\n"));
    absl::StatusOr<LoadedImage> image = CompileAndLoad(spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    for (bool small : {true, false}) {
      std::vector<std::pair<int64_t, int64_t>> pairs = Pairs(small);
      if (!small) std::shuffle(pairs.begin(), pairs.end(), std::mt19937_64(2));
      std::vector<int64_t> a, z, r(pairs.size());
      for (auto [x, y] : pairs) a.push_back(x), z.push_back(y);
      auto word = [](std::vector<int64_t>& v) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(v.data())); };
      const int64_t count = static_cast<int64_t>(pairs.size());
      const std::vector<int64_t> words = {count, word(a), word(z), word(r)};
      int64_t status = 0;
      image->entry(0)(words.data(), 0, count, &status);
      EXPECT_EQ(status, 0);
      for (size_t k = 0; k < pairs.size(); ++k) {
        ASSERT_EQ(r[k], Expected(op, a[k], z[k])) << op << " of " << a[k] << " and " << z[k];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DivisionTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
