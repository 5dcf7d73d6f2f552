#include "smelt/tools/forked_workers.h"

#include <signal.h>
#include <unistd.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

// Returns the outcomes of items 0..n-1, run at most `jobs` at a time.
std::map<int, ForkedWorkers::Outcome> RunAll(ForkedWorkers& workers, int n, int jobs) {
  std::map<int, ForkedWorkers::Outcome> out;
  for (int next = 0; static_cast<int>(out.size()) < n;) {
    while (next < n && workers.busy() < jobs) EXPECT_TRUE(workers.Give(next++).ok());
    for (const auto& o : workers.Wait(1000, -1)) out[o.item] = o;
  }
  return out;
}

TEST(ForkedWorkersTest, EachItemGetsItsAnswerHoweverLong) {
  ForkedWorkers workers(
      [] { return [](int item) { return std::string(item * 100000, static_cast<char>('a' + item)); }; });
  auto out = RunAll(workers, 10, 3);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i].answer, std::string(i * 100000, static_cast<char>('a' + i)));
}

TEST(ForkedWorkersTest, AProcessThatCrashesTakesItsItemOnly) {
  ForkedWorkers workers([] {
    return [](int item) -> std::string {
      if (item == 3) raise(SIGSEGV);
      if (item == 5) _exit(7);
      return absl::StrCat("item ", item);
    };
  });
  auto out = RunAll(workers, 8, 2);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(out[i].ended, i == 3 || i == 5) << i;
    EXPECT_EQ(out[i].answer, out[i].ended ? "" : absl::StrCat("item ", i)) << i;
  }
  EXPECT_EQ(out[3].signal, SIGSEGV);
  EXPECT_EQ(out[5].signal, 0);
}

TEST(ForkedWorkersTest, ProcessesAreUsedAgain) {
  ForkedWorkers workers([] { return [](int) { return absl::StrCat(getpid()); }; });
  std::set<std::string> pids;
  for (const auto& [item, o] : RunAll(workers, 20, 2)) pids.insert(o.answer);
  EXPECT_LE(pids.size(), 2);
}

}  // namespace
}  // namespace smelt
