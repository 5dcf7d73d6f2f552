// Tests the messages of commands that take a while.
#include "smelt/tools/progress.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/tools/plain_text.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(ProgressTest, SizesTimesAndNamesAreReadable) {
  EXPECT_EQ(BytesText(9999), "9999 B");
  EXPECT_EQ(BytesText(10000), "10.0 kB");
  EXPECT_EQ(BytesText(1'340'000), "1.3 MB");
  EXPECT_EQ(BytesText(INT64_MAX), "9223372 TB");
  EXPECT_EQ(SecondsText(0.0512), "0.05 s");
  EXPECT_EQ(SecondsText(2.44), "2.4 s");
  EXPECT_EQ(SecondsText(61.6), "62 s");
  EXPECT_EQ(SecondsText(187), "3:07 min");
  EXPECT_EQ(Count(1, "model"), "1 model");
  EXPECT_EQ(Count(0, "model"), "0 models");
  EXPECT_EQ(Shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(Shortened("abcdefg", 6), "abc…");
  EXPECT_EQ(Shortened("ab\xc3\xa4xyz", 6), "ab…");
  EXPECT_EQ(WidthOf("gr\xc3\xb6\xc3\x9f"
                    "e"),
            5u);
  EXPECT_EQ(Printable("a\x1b[2J"), "a\\x1b[2J");
}

TEST(ProgressTest, WorkOfOverASecondIsShownLineByLineOutsideOfATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("smelt test", /*quiet=*/false, Progress::Drawing::kWhenToldSo);
    progress.Doing("too early", 1, 9);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    progress.Doing("kernels", 3, 9);
    progress.Doing("soon after", 4, 9);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex("smelt test: kernels 3 of 9 \\([0-9.]+ s\\)\n"));
}

TEST(ProgressTest, WatchedWorkIsShownWithHowMuchOfItIsDone) {
  testing::internal::CaptureStderr();
  {
    std::promise<void> asked;
    bool first = true;
    const auto done = [&] {
      if (first) asked.set_value();
      first = false;
      return int64_t{5};
    };
    Progress progress("smelt test", /*quiet=*/false);
    progress.Watch("kernels", done, 12);
    asked.get_future().wait();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex("smelt test: kernels 5 of 12 \\([0-9.]+ s\\)\n"));
}

TEST(ProgressTest, TheSummaryHasSizesAndAQuietCommandHasNone) {
  const std::string path = absl::StrCat(testing::TempDir(), "/written");
  std::ofstream(path) << "12345";
  testing::internal::CaptureStderr();
  Progress("smelt test", false).Wrote({path, ""}, "2 kernels compiled");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(absl::StrCat("smelt test: wrote ", path, " (5 B) in ")));
  EXPECT_THAT(said, HasSubstr(" s: 2 kernels compiled\n"));
  testing::internal::CaptureStderr();
  Progress("smelt test", true).Wrote({path});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace smelt
