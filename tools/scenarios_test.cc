// The small programs about memory in testdata/scenarios. Those that do not hold yet are listed in scenarios_pending.txt
// with the reason; the test fails too if one of them holds, so that the list can only shrink.
//
// With SMELT_PRINT_SCENARIOS=1 it prints the list as it would be now.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// Name -> reason. Lines "NAME: REASON"; "#" begins a comment.
std::map<std::string, std::string> Pending() {
  std::map<std::string, std::string> out;
  auto text = ReadFile("tools/scenarios_pending.txt");
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return out;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    EXPECT_FALSE(entry.second.empty()) << "no reason for " << entry.first;
    out.insert(entry);
  }
  return out;
}

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, TheCallerSeesWhatPyTorchShows) {
  static const auto* const pending = new std::map<std::string, std::string>(Pending());
  CompileOptions options;
  options.targets = {Target::kX86_64_V3};
  const std::string different = CompileAndRunCase("testdata/scenarios", GetParam(), options);
  if (std::getenv("SMELT_PRINT_SCENARIOS") != nullptr && !different.empty()) {
    std::printf("PENDING %s: %s\n", GetParam().c_str(),
                absl::StrReplaceAll(different.substr(0, 300), {{"\n", " "}}).c_str());
  }
  if (pending->count(GetParam()) != 0) {
    EXPECT_NE(different, "") << GetParam() << " holds now: take it out of tools/scenarios_pending.txt";
    return;
  }
  EXPECT_EQ(different, "");
  EXPECT_EQ(CompileAndRunGuardedCase("testdata/scenarios", GetParam(), options), "");
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, ::testing::ValuesIn(ModelNames("testdata/scenarios")),
                         [](const auto& info) { return info.param; });

TEST(PendingTest, OnlyNamesScenarios) {
  const std::vector<std::string> names = ModelNames("testdata/scenarios");
  for (const auto& [name, reason] : Pending()) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

}  // namespace
}  // namespace smelt
