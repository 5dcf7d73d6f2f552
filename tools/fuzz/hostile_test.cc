// Archives, texts and graphs of real models with changes, and models of one operator that lie. Each is compiled or
// rejected; none ends the process, runs forever or triggers an internal error. smelt-hostile does the same with
// millions of files, and with every lie about every operator; hostile_read_test reads more of them under sanitizers.
#include "smelt/tools/fuzz/hostile.h"

#include <cstdio>
#include <optional>

#include "gtest/gtest.h"
#include "smelt/frontend/pt2_testing.h"
#include "smelt/tools/fuzz/mutate_files.h"
#include "smelt/tools/fuzz/mutate_graphs.h"
#include "smelt/tools/fuzz/one_operator.h"

namespace smelt {
namespace {

void ExpectNothingFound(const HostileReport& report) {
  std::printf("%s\n", report.ToString().c_str());
  EXPECT_EQ(report.Found(), "");
}

template <typename Mutator>
void TryMutants(const Mutator& mutator, int64_t compile_each) {
  constexpr int64_t kFiles = 4000;
  HostileOptions options = OptionsOfTests();
  options.compile_each = compile_each;
  const HostileReport report =
      TryFiles(1, 1 + kFiles, [&](int64_t i) { return mutator.Make(static_cast<uint64_t>(i)); }, options);
  ExpectNothingFound(report);
  EXPECT_GE(report.files, kFiles);
}

TEST(HostileTest, ChangedArchivesAreRefusedOrCompiled) { TryMutants(ArchiveMutator(TestArchive::AllPaths()), 3); }

TEST(HostileTest, ChangedTextsAreRefusedOrCompiled) { TryMutants(TextMutator(GraphTexts("testdata")), 3); }

TEST(HostileTest, ChangedGraphsAreRefusedOrCompiled) { TryMutants(GraphMutator(GraphTexts("testdata")), 8); }

TEST(HostileTest, LiesAboutEveryOperatorAreRefusedOrCompiled) {
  NumberedLies lies(OperatorCalls("testdata/op_answers.safetensors"));
  constexpr int64_t kEach = 25;  // another part of each operator's lies
  HostileOptions options = OptionsOfTests();
  options.compile_each = 4;
  const HostileReport report = TryFiles(
      0, lies.end(),
      [&](int64_t i) -> std::optional<HostileFile> {
        if ((i / NumberedLies::kMost + i % NumberedLies::kMost) % kEach != 0) return std::nullopt;
        return lies.Make(i);
      },
      options);
  ExpectNothingFound(report);
  EXPECT_GT(report.files, 8000);
}

}  // namespace
}  // namespace smelt
