#include "smelt/frontend/size_guards.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

// Returns the numbers of x, whose sizes are s0, s1; of d.k, whose only size is s2; and of n, which is s3.
std::optional<Expr> Number(const GuardedNumber& at) {
  const std::string name = absl::StrJoin(at.path, "_");
  if (name == "x" && at.what == GuardedNumber::kSize) return Expr::Symbol(absl::StrCat("s", at.dim));
  if (name == "x" && at.what == GuardedNumber::kStride) return at.dim == 0 ? Expr::Symbol("s1") : Expr(1);
  if (name == "d_k_0" && at.what == GuardedNumber::kSize) return Expr::Symbol("s2");
  if (name == "n" && at.what == GuardedNumber::kInt) return Expr::Symbol("s3");
  return std::nullopt;
}

// With s0 to s3.
bool Holds(const std::string& text, int64_t s0, int64_t s1, int64_t s2 = 2, int64_t s3 = 3) {
  const absl::StatusOr<SizeGuardParts> e = ParseSizeGuard(text, Number);
  EXPECT_TRUE(e.ok()) << text << ": " << e.status();
  if (!e.ok()) return false;
  const absl::flat_hash_map<std::string, int64_t> values = {{"s0", s0}, {"s1", s1}, {"s2", s2}, {"s3", s3}};
  const auto v = e->holds.Evaluate(values);
  return v.ok() && *v != 0;
}

TEST(SizeGuards, ComparesSizesAsPythonDoes) {
  const std::string a = "L['x'].size()[0]", b = "L['x'].size()[1]";
  for (int64_t s0 : {1, 2, 5, 8}) {
    for (int64_t s1 : {1, 2, 5, 8}) {
      EXPECT_EQ(Holds(a + " > " + b, s0, s1), s0 > s1);
      EXPECT_EQ(Holds(a + " >= " + b, s0, s1), s0 >= s1);
      EXPECT_EQ(Holds(a + " < " + b, s0, s1), s0 < s1);
      EXPECT_EQ(Holds(a + " <= " + b, s0, s1), s0 <= s1);
      EXPECT_EQ(Holds(a + " == " + b, s0, s1), s0 == s1);
      EXPECT_EQ(Holds(a + " != " + b, s0, s1), s0 != s1);
      EXPECT_EQ(Holds("2 <= " + a + " < " + b + " and " + b + " < 8", s0, s1), 2 <= s0 && s0 < s1 && s1 < 8);
      EXPECT_EQ(Holds("not (" + a + " == 2) or " + b + " == 5", s0, s1), s0 != 2 || s1 == 5);
      EXPECT_EQ(Holds("max(" + a + ", 2*" + b + ") - min(" + a + ", " + b + ") > 3", s0, s1),
                std::max(s0, 2 * s1) - std::min(s0, s1) > 3);
    }
  }
}

TEST(SizeGuards, DividesAsPythonDoes) {
  const std::string a = "L['x'].size()[0]", b = "L['x'].size()[1]";
  for (int64_t s0 : {1, 3, 4, 9}) {
    for (int64_t s1 : {1, 3, 4, 9}) {
      EXPECT_EQ(Holds("(" + a + " % 2) == 0", s0, s1), s0 % 2 == 0);
      EXPECT_EQ(Holds("((" + a + "*" + b + ") // (2*" + b + ")) != 2", s0, s1), s0 * s1 / (2 * s1) != 2);
      EXPECT_EQ(Holds("(" + a + " / " + b + ") > 1.0", s0, s1), s0 > s1);
      EXPECT_EQ(Holds("(" + a + " / " + b + ") >= 0.75", s0, s1), 4 * s0 >= 3 * s1);
      EXPECT_EQ(Holds("math.trunc(1.5*float(" + a + ")) == " + b, s0, s1), s0 * 3 / 2 == s1);
      EXPECT_EQ(Holds(a + "**2 - " + b + " > 0", s0, s1), s0 * s0 > s1);
    }
  }
  EXPECT_FALSE(Holds("(" + a + " / " + b + ") > 1.0", 5, 0));  // Python raises
}

TEST(SizeGuards, FindsArgumentsInContainersStridesAndNumbers) {
  EXPECT_TRUE(Holds("L['d']['k'][0].size()[0] == 7", 1, 1, 7));
  EXPECT_TRUE(Holds("L['n'] > 4", 1, 1, 1, 5));
  EXPECT_FALSE(Holds("L['x'].stride()[0] == L['x'].stride()[1]", 4, 3));
}

TEST(SizeGuards, SaysWhatIsZeroWhereTwoIntegersAreEqual) {
  const Expr s0 = Expr::Symbol("s0"), s1 = Expr::Symbol("s1");
  const auto zero = [](const std::string& text) { return ParseSizeGuard(text, Number)->zero; };
  EXPECT_EQ(zero("8*(L['x'].size()[0] // 8) == L['x'].size()[1]"), FloorDiv(s0, 8) * 8 - s1);
  EXPECT_EQ(zero("(L['x'].size()[0] % 8) == 0"), Mod(s0, 8));
  for (const char* text :
       {"L['x'].size()[0] <= 8", "L['x'].size()[0] == 8 or L['x'].size()[1] == 8", "not L['x'].size()[0] == 8",
        "L['x'].size()[0] == L['x'].size()[1] == 8", "L['x'].size()[0] / 3 == 2"}) {
    EXPECT_EQ(zero(text), std::nullopt) << text;
  }
}

TEST(SizeGuards, SaysWhatItCannotRead) {
  for (const char* text : {"L['y'].size()[0] > 1", "math.sqrt(L['x'].size()[0]) > 2", "L['x'].size()[0]**0.5 > 2",
                           "L['x'].size()[0] > 0.1", "5.5 % L['x'].size()[0] == 0", "1 / (L['x'].size()[0] - 5) > 1"}) {
    EXPECT_EQ(ParseSizeGuard(text, Number).status().code(), absl::StatusCode::kUnimplemented) << text;
  }
  for (const char* text : {"", "L['x'].size()[0]", "L['x'].size()[0] >", "L['x' > 1", "L > 1", "(1 < 2", "1 < 2)",
                           "1 and 2", "99999999999999999999 > 1"}) {
    EXPECT_EQ(ParseSizeGuard(text, Number).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseSizeGuard(std::string(100000, '('), Number).ok());
  std::string nots;
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_FALSE(ParseSizeGuard(nots + "1 < 2", Number).ok());
  EXPECT_FALSE(ParseSizeGuard(std::string(100000, '-') + "1 < 2", Number).ok());
}

}  // namespace
}  // namespace smelt
