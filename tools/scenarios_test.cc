// Runs the small programs about memory in testdata/scenarios. Those that do not pass yet are listed in
// scenarios_pending.txt with the reason; the test also fails if one of them passes, so that the list can only shrink.
//
// scenarios_plans.txt lists for each scenario the plan of each call and the number of bytes copied back: a scenario
// that falls back to a slower plan, or moves more bytes, fails.
//
// With SMELT_PRINT_SCENARIOS=1 the test prints the current contents of both lists.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// Reads lines "NAME: TEXT"; "#" begins a comment.
std::map<std::string, std::string> ReadList(const std::string& path) {
  std::map<std::string, std::string> out;
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return out;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(": ", 1));
    EXPECT_FALSE(entry.second.empty()) << "nothing about " << entry.first;
    out.insert(entry);
  }
  return out;
}

// Maps names to reasons.
std::map<std::string, std::string> Pending() { return ReadList("tools/scenarios_pending.txt"); }
// Maps names to "PLAN PLAN..., N bytes": one plan per call ("refused" if there was none), and the bytes of all calls.
std::map<std::string, std::string> Plans() { return ReadList("tools/scenarios_plans.txt"); }

std::string PlansOf(const CaseReport& report) {
  std::vector<std::string> names;
  for (const std::string& v : report.alias_variants) names.push_back(v.empty() ? "refused" : v);
  return absl::StrCat(absl::StrJoin(names, " "), ", ", report.bytes_copied_back, " bytes");
}

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, TheCallerSeesWhatPyTorchShows) {
  static const auto* const pending = new std::map<std::string, std::string>(Pending());
  CompileOptions options;
  options.verify = true;
  options.targets = {kHostTarget};
  CaseReport report;
  const std::string different = CompileAndRunCase("testdata/scenarios", GetParam(), options, nullptr, &report);
  if (std::getenv("SMELT_PRINT_SCENARIOS") != nullptr && !different.empty()) {
    std::printf("PENDING %s: %s\n", GetParam().c_str(),
                absl::StrReplaceAll(different.substr(0, 300), {{"\n", " "}}).c_str());
  }
  if (pending->count(GetParam()) != 0) {
    EXPECT_NE(different, "") << GetParam() << " holds now: take it out of tools/scenarios_pending.txt";
    return;
  }
  EXPECT_EQ(different, "");
  EXPECT_EQ(RunGuardedCase("testdata/scenarios", GetParam()), "");
  static const auto* const plans = new std::map<std::string, std::string>(Plans());
  const std::string ran = PlansOf(report);
  if (std::getenv("SMELT_PRINT_SCENARIOS") != nullptr) std::printf("PLANS %s: %s\n", GetParam().c_str(), ran.c_str());
  auto it = plans->find(GetParam());
  EXPECT_EQ(ran, it == plans->end() ? "nothing in tools/scenarios_plans.txt" : it->second);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ScenarioTest, ::testing::ValuesIn(ModelNames("testdata/scenarios")),
                         [](const auto& info) { return info.param; });

TEST(PlansTest, FewCallsNeedTheEagerOrderPlan) {
  int calls = 0, eager = 0;
  for (const auto& [name, plans] : Plans()) {
    // TorchScript's programs are for what has no pure form.
    if (absl::StartsWith(name, "script_")) continue;
    for (absl::string_view plan : absl::StrSplit(plans.substr(0, plans.find(',')), ' ')) {
      ++calls;
      eager += plan == "eager-order";
    }
  }
  EXPECT_GT(calls, 300);
  EXPECT_LT(eager * 100, calls * 10);
}

TEST(PendingTest, OnlyNamesScenarios) {
  const std::vector<std::string> names = ModelNames("testdata/scenarios");
  for (const auto& [name, reason] : Pending()) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

}  // namespace
}  // namespace smelt
