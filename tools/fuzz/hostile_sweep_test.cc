// Files with false statements: every operator with every possible wrong statement about it. Each file is compiled or
// rejected; none ends the process, runs forever or triggers an internal error. Takes minutes, and is run by hand:
// ./bazelw test //tools/fuzz:hostile_sweep_test.
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/tools/fuzz/hostile.h"
#include "smelt/tools/fuzz/one_operator.h"

namespace smelt {
namespace {

// Under sanitizers a file takes tens of times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

HostileOptions Options() {
  HostileOptions options;
  const char* folder = std::getenv("TEST_TMPDIR");
  options.scratch = folder != nullptr ? folder : "/tmp";
  options.seconds = kSanitized ? 120 : 20;
  return options;
}

void ExpectNothingFound(const HostileReport& report) {
  std::printf("%s\n", report.ToString().c_str());
  EXPECT_THAT(report.failures, testing::IsEmpty());
  EXPECT_THAT(report.left_behind, testing::IsEmpty());
}

TEST(HostileSweepTest, EveryLieAboutEveryOperatorIsRefusedOrCompiled) {
  const std::vector<OneOperator> calls = OperatorCalls("testdata/op_answers.safetensors");
  ASSERT_GT(calls.size(), 2000u);
  constexpr int64_t kMost = 4000;
  int64_t at = -1;
  std::vector<OperatorLie> lies;
  HostileOptions options = Options();
  options.compile_each = kSanitized ? 50 : 4;
  const HostileReport report = TryFiles(
      0, static_cast<int64_t>(calls.size()) * kMost,
      [&](int64_t i) -> std::optional<HostileFile> {
        if (at != i / kMost) {
          at = i / kMost;
          lies = LiesAbout(calls[at]);
        }
        const size_t k = static_cast<size_t>(i % kMost);
        // A different part for each operator.
        if (k >= lies.size() || (kSanitized && (static_cast<size_t>(at) + k) % 10 != 0)) return std::nullopt;
        return HostileFile{absl::StrCat(calls[at].op.full(), ": ", lies[k].what), lies[k].extension, lies[k].bytes};
      },
      options);
  ExpectNothingFound(report);
  EXPECT_GT(report.files, kSanitized ? 3800 : 38000);
}

}  // namespace
}  // namespace smelt
