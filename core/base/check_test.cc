#include "smelt/core/base/check.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

enum class Colour { kRed = 3, kBlue = 4 };

TEST(CheckDeathTest, AFailedCheckSaysWhereAndWhatAndAborts) {
  int size = 2;
  EXPECT_DEATH(SMELT_CHECK(size == 3) << "asked for " << 7,
               "check_test.cc:[0-9]+: check failed: size == 3 asked for 7");
}

TEST(CheckDeathTest, AFailedComparisonShowsBothValues) {
  std::vector<int> v = {1, 2};
  EXPECT_DEATH(SMELT_CHECK_EQ(v.size(), 3u) << "in v", R"(check failed: v.size\(\) == 3u \(2 and 3\) in v)");
  EXPECT_DEATH(SMELT_CHECK_EQ(Colour::kRed, Colour::kBlue), R"(\(3 and 4\))");
  EXPECT_DEATH(SMELT_CHECK_NE(v, v), R"(\(\? and \?\))");
}

TEST(CheckDeathTest, CheckOkShowsTheStatus) {
  EXPECT_DEATH(SMELT_CHECK_OK(absl::NotFoundError("no such file")), "NOT_FOUND: no such file");
  EXPECT_DEATH(SMELT_CHECK_OK(absl::StatusOr<int>(absl::NotFoundError("no such int"))), "NOT_FOUND: no such int");
}

TEST(CheckTest, HoldsSilentlyAndEvaluatesOnce) {
  int calls = 0;
  auto next = [&] { return ++calls; };
  SMELT_CHECK(next() == 1);
  SMELT_CHECK_EQ(next(), 2);
  SMELT_CHECK_LT(next(), 4) << "not reached " << next();
  SMELT_CHECK_OK(absl::OkStatus());
  EXPECT_EQ(calls, 3);
}

TEST(CheckTest, StandsAloneInAnIfElse) {
  bool reached = false;
  if (testing::UnitTest::GetInstance() == nullptr)
    SMELT_CHECK_EQ(1, 1);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(CheckTest, DcheckEvaluatesNothingInAnOptimizedBuild) {
  int calls = 0;
  auto next = [&] { return ++calls; };
  SMELT_DCHECK(next() > 0);
  SMELT_DCHECK_GE(next(), 1);
#ifdef NDEBUG
  EXPECT_EQ(calls, 0);
#else
  EXPECT_EQ(calls, 2);
#endif
}

int SignOf(Colour colour) {
  switch (colour) {
    case Colour::kRed:
      return -1;
    case Colour::kBlue:
      return 1;
  }
  SMELT_UNREACHABLE() << "colour " << static_cast<int>(colour);
}

TEST(CheckDeathTest, UnreachableEndsAFunctionWithoutAReturn) {
  EXPECT_EQ(SignOf(Colour::kRed), -1);
  EXPECT_DEATH(SignOf(static_cast<Colour>(9)), "unreachable colour 9");
}

}  // namespace
}  // namespace smelt
