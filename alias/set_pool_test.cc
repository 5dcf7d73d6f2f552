#include "smelt/alias/set_pool.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace smelt::alias_internal {
namespace {

std::set<Ref> Members(const SetPool& pool, SetId s) {
  std::set<Ref> out;
  pool.ForEach(s, [&](Ref r) { EXPECT_TRUE(out.insert(r).second) << "a member is there twice"; });
  return out;
}

TEST(SetPoolTest, RandomUnionsHoldWhatStdSetHolds) {
  std::mt19937_64 rng(1);
  SetPool pool;
  std::vector<SetId> ids = {0};
  std::vector<std::set<Ref>> expected = {{}};
  for (int i = 0; i < 3000; ++i) {
    const size_t a = rng() % ids.size(), b = rng() % ids.size();
    std::set<Ref> both = expected[a];
    both.insert(expected[b].begin(), expected[b].end());
    SetId id = pool.Union(ids[a], ids[b]);
    if (both.size() > 20 || i % 3 == 0) {
      const Ref r = static_cast<Ref>(rng() % 100);
      both = {r};
      id = SetPool::Single(r);
    }
    ASSERT_EQ(Members(pool, id), both);
    EXPECT_EQ(pool.Size(id), both.size());
    EXPECT_EQ(pool.Contains(id, 17), both.contains(17));
    EXPECT_EQ(pool.Includes(id, ids[a]),
              std::includes(both.begin(), both.end(), expected[a].begin(), expected[a].end()));
    ids.push_back(id);
    expected.push_back(std::move(both));
  }
}

TEST(SetPoolTest, EqualSetsHaveEqualIdsInWhateverOrderTheyAreMade) {
  SetPool pool;
  Ref ascending[] = {3, 5, 9}, descending[] = {9, 5, 3, 5};
  const SetId a = pool.Make(absl::MakeSpan(ascending));
  EXPECT_EQ(pool.Make(absl::MakeSpan(descending)), a);
  EXPECT_EQ(pool.Union(pool.Union(SetPool::Single(9), SetPool::Single(3)), SetPool::Single(5)), a);
}

TEST(SetPoolTest, ACollectionKeepsTheIdsOfTheSetsThatAreHeld) {
  SetPool pool;
  std::vector<SetId> ids;
  for (Ref r = 0; r < 500; ++r) ids.push_back(pool.Union(SetPool::Single(r), SetPool::Single(r + 1)));
  const SetId held = ids[300];
  pool.Collect([&](absl::FunctionRef<void(SetId)> keep) { keep(held); });
  EXPECT_EQ(Members(pool, held), (std::set<Ref>{300, 301}));
  EXPECT_EQ(pool.kept(), 2);
  EXPECT_EQ(pool.Union(SetPool::Single(301), SetPool::Single(300)), held);
}

TEST(SetPoolTest, ACommonMemberIsFoundOnlyIfItPassesTheTest) {
  SetPool pool;
  Ref x[] = {1, 4, 6}, y[] = {2, 4, 6, 7};
  const SetId a = pool.Make(absl::MakeSpan(x)), b = pool.Make(absl::MakeSpan(y));
  EXPECT_TRUE(pool.AnyCommon(a, b, [](Ref r) { return r == 6; }));
  EXPECT_FALSE(pool.AnyCommon(a, b, [](Ref r) { return r == 1 || r == 2; }));
}

}  // namespace
}  // namespace smelt::alias_internal
