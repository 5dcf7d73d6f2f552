// Archives and texts of real models with changes. Each is compiled or rejected; none ends the process, runs forever or
// triggers an internal error. hostile_sweep_test does the same with archives of every operator, smelt-hostile with
// millions of files.
#include "smelt/tools/fuzz/hostile.h"

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/frontend/pt2_testing.h"
#include "smelt/tools/fuzz/mutate_files.h"

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

TEST(HostileTest, ChangedArchivesAreRefusedOrCompiled) {
  const ArchiveMutator mutator(TestArchive::AllPaths());
  HostileOptions options = Options();
  options.compile_each = kSanitized ? 20 : 5;
  const HostileReport report =
      TryFiles(1, 20001, [&](int64_t i) { return mutator.Make(static_cast<uint64_t>(i)); }, options);
  ExpectNothingFound(report);
  EXPECT_GE(report.files, 20000);
}

TEST(HostileTest, ChangedTextsAreRefusedOrCompiled) {
  const TextMutator mutator(GraphTexts("testdata"));
  HostileOptions options = Options();
  options.compile_each = kSanitized ? 20 : 5;
  const HostileReport report =
      TryFiles(1, 20001, [&](int64_t i) { return mutator.Make(static_cast<uint64_t>(i)); }, options);
  ExpectNothingFound(report);
  EXPECT_GE(report.files, 20000);
}

}  // namespace
}  // namespace smelt
