// The database is linear on every family of graphs of bench/alias: its steps are counted, not timed, at two sizes.
// In the environment, SMELT_ALIAS_TILES says how many random tiles are tried and SMELT_ALIAS_SEEDS how many random
// programs.
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/alias/live_passes.h"
#include "smelt/bench/alias/families.h"

namespace smelt {
namespace {

// Some 50 loops deep, three values each: there the sets fill only in larger graphs.
int64_t NodesOf(const Family& family) {
  if (absl::StartsWith(family.name, "random_") && family.name != "random_numbers") return 1500;
  return family.name == "nested_loops_50_3" ? 24000 : 3000;
}

int64_t HowMany(const char* variable, int64_t usual) {
  if (const char* said = std::getenv(variable); said != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(said, &usual));
  }
  return usual;
}

std::vector<Family> Families() {
  std::vector<Family> out = NamedFamilies();
  const int64_t tiles = HowMany("SMELT_ALIAS_TILES", 15), seeds = HowMany("SMELT_ALIAS_SEEDS", 30);
  for (int64_t seed = 1; seed <= tiles; ++seed) out.push_back(TiledFamily(static_cast<uint64_t>(seed)));
  for (int64_t seed = 1; seed <= seeds; ++seed) out.push_back(RandomFamily(static_cast<uint64_t>(seed)));
  return out;
}

// Returns the steps that `work` takes per node or edge of a graph of this size. `work` gets a graph and its database.
template <typename F>
double StepsForEach(const Family& family, int64_t nodes, const F& work) {
  std::unique_ptr<Graph> g = family.make(nodes);
  const double size = static_cast<double>(NodesAndEdges(*g));
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  const int64_t before = db->GetStats().steps;
  work(*g, *db);
  return static_cast<double>(db->GetStats().steps - before) / size;
}

// Twice the size takes at most twice the steps, apart from a logarithm and from limits that small graphs do not reach:
// only larger graphs fill the sets or read containers as a whole.
void ExpectLinear(const Family& family, const std::string& what, double at_n, double at_2n, double most) {
  EXPECT_LE(at_2n, 1.3 * at_n + 10) << family.name << ": " << what << " takes " << at_n
                                    << " steps for a node or edge at " << NodesOf(family) << " nodes, " << at_2n
                                    << " at twice as many";
  EXPECT_LE(at_2n, most) << family.name << ": " << what;
}

// An edit may cost what edits have paid for, and building the first ones, before sets only grow: a small graph does not
// come that far.
void ExpectEditsAreLinear(const Family& family, const std::string& what, double at_n, double at_2n) {
  constexpr double kPaid = 400;
  if (at_2n > kPaid) ExpectLinear(family, what, at_n, at_2n, 700);
}

TEST(LinearTest, BuildingTakesStepsInProportion) {
  for (const Family& family : Families()) {
    const auto steps = [&](int64_t nodes) {
      std::unique_ptr<Graph> g = family.make(nodes);
      return static_cast<double>(AliasDb::Build(*g)->GetStats().steps) / static_cast<double>(NodesAndEdges(*g));
    };
    ExpectLinear(family, "building", steps(NodesOf(family)), steps(2 * NodesOf(family)), 700);
  }
}

TEST(LinearTest, AllQuestionsOfAPassTakeStepsInProportion) {
  for (const Family& family : Families()) {
    const auto ask = [](Graph& g, const AliasDb& db) { AskAll(g, db); };
    const auto ask_at_random = [](Graph& g, const AliasDb& db) {
      std::mt19937_64 rng(1);
      AskAtRandom(g, db, rng);
    };
    ExpectLinear(family, "asking", StepsForEach(family, NodesOf(family), ask),
                 StepsForEach(family, 2 * NodesOf(family), ask), 700);
    ExpectLinear(family, "asking at random", StepsForEach(family, NodesOf(family), ask_at_random),
                 StepsForEach(family, 2 * NodesOf(family), ask_at_random), 700);
  }
}

TEST(LinearTest, RemovingEveryMutationAndFusingEveryGroupTakeStepsInProportion) {
  for (const Family& family : Families()) {
    const auto remove = [](Graph& g, AliasDb& db) {
      Editor edit(g);
      RemoveMutations(g, db, edit);
    };
    const auto fuse = [](Graph& g, AliasDb& db) {
      Editor edit(g);
      GroupPointwise(g, db, edit);
    };
    ExpectEditsAreLinear(family, "removing mutations", StepsForEach(family, NodesOf(family), remove),
                         StepsForEach(family, 2 * NodesOf(family), remove));
    ExpectEditsAreLinear(family, "fusing", StepsForEach(family, NodesOf(family), fuse),
                         StepsForEach(family, 2 * NodesOf(family), fuse));
  }
}

TEST(LinearTest, InsertingAndErasingTakesStepsInProportion) {
  for (const Family& family : Families()) {
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      const auto edit = [order](Graph& g, const AliasDb& db) {
        std::mt19937_64 rng(1);
        InsertAndErase(g, db, g.num_nodes() / 4, order, rng);
      };
      ExpectEditsAreLinear(family, absl::StrCat("inserting and erasing, order ", static_cast<int>(order)),
                           StepsForEach(family, NodesOf(family), edit),
                           StepsForEach(family, 2 * NodesOf(family), edit));
    }
  }
}

// As a pass would that knows nothing of the database: at the front of long chains, inside loops, one after the other.
TEST(LinearTest, MakingEveryOperatorPureTakesStepsInProportion) {
  for (const Family& family : Families()) {
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      const auto edit = [order](Graph& g, const AliasDb& db) { MakeAllPure(g, db, g.num_nodes(), order); };
      ExpectEditsAreLinear(family, absl::StrCat("making all pure, order ", static_cast<int>(order)),
                           StepsForEach(family, NodesOf(family), edit),
                           StepsForEach(family, 2 * NodesOf(family), edit));
    }
  }
}

// Among others, what a loop hands back becomes what it got.
TEST(LinearTest, GivingNodesOtherArgumentsTakesStepsInProportion) {
  for (const Family& family : Families()) {
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      const auto edit = [order](Graph& g, const AliasDb& db) { Rewire(g, db, g.num_nodes() / 2, order); };
      ExpectEditsAreLinear(family, absl::StrCat("rewiring, order ", static_cast<int>(order)),
                           StepsForEach(family, NodesOf(family), edit),
                           StepsForEach(family, 2 * NodesOf(family), edit));
    }
  }
}

// Removes every node through which memory escapes, one after the other, with a query after each.
TEST(LinearTest, RemovingEveryEscapeTakesStepsInProportion) {
  for (const Family& family : NamedFamilies()) {
    if (family.name != "escapes_late" && family.name != "escapes_together" && family.name != "unknown_everywhere") {
      continue;
    }
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      const auto edit = [order](Graph& g, const AliasDb& db) { RemoveEscapes(g, db, g.num_nodes() / 4, order); };
      ExpectEditsAreLinear(family, absl::StrCat("removing escapes, order ", static_cast<int>(order)),
                           StepsForEach(family, NodesOf(family), edit),
                           StepsForEach(family, 2 * NodesOf(family), edit));
    }
  }
}

}  // namespace
}  // namespace smelt
