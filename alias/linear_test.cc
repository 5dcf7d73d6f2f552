// The database is linear on every family of graphs of bench/alias: its steps are counted, not timed, at two sizes.
// In the environment, SMELT_ALIAS_TILES says how many random tiles are tried and SMELT_ALIAS_SEEDS how many random
// programs; half as many have variables of random types.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/alias/live_passes.h"
#include "smelt/bench/alias/builder.h"
#include "smelt/bench/alias/families.h"

namespace smelt {
namespace {

// Some 50 loops deep, three values each: there the sets fill only in larger graphs.
int64_t NodesOf(const Family& family) {
  const bool drawn = absl::StartsWith(family.name, "random_") || absl::StartsWith(family.name, "typed_");
  if (drawn && family.name != "random_numbers") return 1500;
  static const auto* const kCombined = new std::vector<Family>(CombinedFamilies());
  const auto is_this = [&](const Family& f) { return f.name == family.name; };
  if (std::any_of(kCombined->begin(), kCombined->end(), is_this)) return 1500;
  return family.name == "nested_loops_50_3" ? 12000 : 3000;
}

// An edit may cost what edits have paid for, and building the first ones, before sets only grow. Where the text repeats
// itself only after many nodes, larger graphs are needed to use that up.
int64_t NodesOfEdited(const Family& family) {
  if (family.name == "nested_ifs_1000" || family.name == "nested_loops_1000_1") return 16000;
  if (family.name == "writes_of_views_of_joins") return 4000;
  return std::min<int64_t>(NodesOf(family), 6000);
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
  for (int64_t seed = 1; seed <= seeds / 2; ++seed) out.push_back(TypedFamily(static_cast<uint64_t>(seed)));
  // There many writes that touch nothing of a node lie between it and its group.
  for (uint64_t seed : {1026, 1028}) out.push_back(RandomFamily(seed));
  // There a set that has become a summary meets ever more members, through the stores of calls in loops.
  out.push_back(RandomFamily(2120));
  return out;
}

// A graph of a family with its database, and the steps that each piece of work takes per node or edge.
class Counted {
 public:
  Counted(const Family& family, int64_t nodes)
      : g_(family.make(nodes)), size_(static_cast<double>(NodesAndEdges(*g_))), db_(AliasDb::Build(*g_)) {}

  double building() const { return static_cast<double>(db_->GetStats().steps) / size_; }
  double bytes() const { return static_cast<double>(db_->GetStats().bytes) / size_; }
  // `work` gets the graph and its database.
  template <typename F>
  double StepsOf(const F& work) {
    const int64_t before = db_->GetStats().steps;
    work(*g_, *db_);
    return static_cast<double>(db_->GetStats().steps - before) / size_;
  }

 private:
  const std::unique_ptr<Graph> g_;
  const double size_;
  const std::unique_ptr<AliasDb> db_;
};

// Twice the size takes at most twice the steps, apart from a logarithm and from limits that small graphs do not reach:
// only larger graphs fill the sets or read containers as a whole.
void ExpectLinear(const Family& family, const std::string& what, double at_n, double at_2n, double most) {
  EXPECT_LE(at_2n, 1.3 * at_n + 10) << family.name << ": " << what << " takes " << at_n << " steps for a node or edge, "
                                    << at_2n << " at twice as many nodes";
  EXPECT_LE(at_2n, most) << family.name << ": " << what;
}

struct Edit {
  std::string what;
  std::function<void(Graph&, AliasDb&)> make;
};

// Makes the edits one after the other in one graph. Twice the size takes at most 2.3 times the steps, apart from a few
// for each node or edge.
void ExpectEditsAreLinear(const Family& family, const std::vector<Edit>& edits) {
  constexpr double kFew = 10, kMost = 400;
  const auto steps_at = [&](int64_t nodes) {
    Counted counted(family, nodes);
    std::vector<double> out;
    for (const Edit& e : edits) out.push_back(counted.StepsOf(e.make));
    return out;
  };
  const std::vector<double> at_2n = steps_at(2 * NodesOfEdited(family));
  if (*std::max_element(at_2n.begin(), at_2n.end()) <= kFew) return;
  const std::vector<double> at_n = steps_at(NodesOfEdited(family));
  for (size_t i = 0; i < edits.size(); ++i) {
    EXPECT_LE(at_2n[i], 1.15 * at_n[i] + kFew)
        << family.name << ": " << edits[i].what << " takes " << at_n[i] << " steps for a node or edge, " << at_2n[i]
        << " at twice as many nodes";
    EXPECT_LE(at_2n[i], kMost) << family.name << ": " << edits[i].what;
  }
}

TEST(LinearTest, BuildingAndAllQuestionsOfAPassTakeStepsAndMemoryInProportion) {
  for (const Family& family : Families()) {
    Counted n(family, NodesOf(family)), n2(family, 2 * NodesOf(family));
    ExpectLinear(family, "building", n.building(), n2.building(), 700);
    const auto ask = [](Graph& g, const AliasDb& db) { AskAll(g, db); };
    const auto ask_at_random = [](Graph& g, const AliasDb& db) {
      std::mt19937_64 rng(1);
      AskAtRandom(g, db, rng);
    };
    ExpectLinear(family, "asking", n.StepsOf(ask), n2.StepsOf(ask), 700);
    ExpectLinear(family, "asking at random", n.StepsOf(ask_at_random), n2.StepsOf(ask_at_random), 700);
    EXPECT_LE(n2.bytes(), 500) << family.name;
  }
}

TEST(LinearTest, RemovingEveryMutationAndFusingEveryGroupTakeStepsInProportion) {
  for (const Family& family : Families()) {
    ExpectEditsAreLinear(family, {{"removing mutations",
                                   [](Graph& g, AliasDb& db) {
                                     Editor edit(g);
                                     RemoveMutations(g, db, edit);
                                   }},
                                  {"fusing", [](Graph& g, AliasDb& db) {
                                     Editor edit(g);
                                     GroupPointwise(g, db, edit);
                                   }}});
  }
}

// Inserted nodes are erased again, so each order finds the same graph.
TEST(LinearTest, InsertingAndErasingTakesStepsInProportion) {
  for (const Family& family : Families()) {
    std::vector<Edit> edits;
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      edits.push_back({absl::StrCat("inserting and erasing, order ", static_cast<int>(order)),
                       [order](Graph& g, const AliasDb& db) {
                         std::mt19937_64 rng(1);
                         InsertAndErase(g, db, g.num_nodes() / 4, order, rng);
                       }});
    }
    ExpectEditsAreLinear(family, edits);
  }
}

// As a pass would that knows nothing of the database: at the front of long chains, inside loops, one after the other.
TEST(LinearTest, MakingEveryOperatorPureTakesStepsInProportion) {
  for (const Family& family : Families()) {
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      ExpectEditsAreLinear(family,
                           {{absl::StrCat("making all pure, order ", static_cast<int>(order)),
                             [order](Graph& g, const AliasDb& db) { MakeAllPure(g, db, g.num_nodes(), order); }}});
    }
  }
}

// Among others, what a loop hands back becomes what it got.
TEST(LinearTest, GivingNodesOtherArgumentsTakesStepsInProportion) {
  for (const Family& family : Families()) {
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      ExpectEditsAreLinear(family,
                           {{absl::StrCat("rewiring, order ", static_cast<int>(order)),
                             [order](Graph& g, const AliasDb& db) { Rewire(g, db, g.num_nodes() / 2, order); }}});
    }
  }
}

// Makes the edit for each k, with a question after each, and returns the steps.
int64_t StepsOfEach(AliasDb& db, int64_t count, ValueId asked, const std::function<void(int64_t)>& edit) {
  db.HasWriters(asked);
  const int64_t before = db.GetStats().steps;
  for (int64_t k = 0; k < count; ++k) {
    edit(k);
    db.HasWriters(asked);
  }
  return db.GetStats().steps - before;
}

// One list takes the results of all loops. An edit in one of them changes at most one of its elements.
TEST(LinearTest, AnEditInALoopDoesNotLookAtEveryElementOfAListThatTakesItsResult) {
  const auto steps_at = [](int64_t loops) {
    Builder b;
    b.WithLoops();
    std::vector<ValueId> all;
    std::vector<NodeId> writes;
    for (int64_t i = 0; i < loops; ++i) {
      all.push_back(b.Loop({b.Relu(b.x)}, [&](absl::Span<const ValueId> p) {
        const ValueId written = b.AddInPlace(p[0], b.y);
        writes.push_back(b.g->value(written).def);
        return std::vector<ValueId>{written};
      })[0]);
    }
    const ValueId x = b.x;
    const std::unique_ptr<Graph> g = b.Return(b.List(all));
    const std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    return StepsOfEach(*db, loops, x, [&](int64_t k) { g->SetOp(writes[k], OpName::Get("aten::add.Tensor")); });
  };
  const int64_t few = steps_at(1000), many = steps_at(2000);
  EXPECT_LE(many, 2.3 * static_cast<double>(few)) << few << " steps for 1000 loops";
}

TEST(LinearTest, MovingNodesWithBlocksOutOfLoopsTakesStepsInProportion) {
  const auto steps_at = [](int64_t loops) {
    Builder b;
    b.WithLoops();
    ValueId v = b.Relu(b.x);
    std::vector<NodeId> branches;
    for (int64_t i = 0; i < loops; ++i) {
      const ValueId before = v;
      v = b.Loop({before}, [&](absl::Span<const ValueId> p) {
        const ValueId joined = b.If([&](int k) { return k == 0 ? b.Relu(before) : b.Mul(b.x, b.y); });
        branches.push_back(b.g->value(joined).def);
        return std::vector<ValueId>{b.AddInPlace(joined, p[0])};
      })[0];
    }
    const ValueId x = b.x;
    const std::unique_ptr<Graph> g = b.Return(v);
    const std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    const int64_t steps = StepsOfEach(
        *db, loops, x, [&](int64_t k) { g->MoveBefore(branches[k], g->block(g->node(branches[k]).parent).owner); });
    EXPECT_EQ(db->GetStats().rebuilds, 0);
    EXPECT_TRUE(db->Verify().ok()) << db->Verify();
    return steps;
  };
  const int64_t few = steps_at(500), many = steps_at(1000);
  EXPECT_LE(many, 2.3 * static_cast<double>(few)) << few << " steps for 500 loops";
}

// An edit pays 64 steps. What the outputs reach is looked at again when enough edits have paid for it.
TEST(LinearTest, AQuestionAboutTheCallerDoesNotLookAtEveryOutputAfterEachEdit) {
  const auto steps_of_edit = [](int64_t outputs) {
    Builder b;
    const ValueId inside = b.Relu(b.x);
    std::vector<ValueId> all = {b.Relu(b.x)};
    for (int64_t i = 0; i < outputs; ++i) all.push_back(b.Op("aten::t", {b.Mul(b.x, all.back())}));
    for (ValueId v : all) b.g->AddOutput(v);
    const std::unique_ptr<AliasDb> db = AliasDb::Build(*b.g);
    EXPECT_TRUE(db->SafeToChangeAliasing(b.x, inside));
    const int64_t before = db->GetStats().steps;
    for (int64_t i = 1; i <= outputs; ++i) {
      b.g->SetInput(b.g->value(all[i]).def, 0, all[i - 1]);
      db->SafeToChangeAliasing(all[i], b.x);
    }
    return static_cast<double>(db->GetStats().steps - before) / static_cast<double>(outputs);
  };
  const double few = steps_of_edit(1000), many = steps_of_edit(4000);
  EXPECT_LE(few, 150);
  EXPECT_LE(many, 150);
}

TEST(LinearTest, NeighboursInAChainOfViewsAreFoundToBeTheSameInAFewSteps) {
  Builder b;
  std::vector<ValueId> all = {b.Relu(b.x)};
  for (int i = 0; i < 200; ++i) all.push_back(b.Op("aten::detach", {all.back()}));
  const std::unique_ptr<AliasDb> db = AliasDb::Build(*b.g);
  for (ValueId v : all) db->MayAlias(v, all[0]);
  const int64_t before = db->GetStats().steps;
  for (size_t i = 150; i < 200; ++i) {
    EXPECT_TRUE(db->MustAlias(all[i], all[i - 3]));
    EXPECT_TRUE(db->MustAlias(all[i - 3], all[i]));
  }
  EXPECT_LE(db->GetStats().steps - before, 100 * 90);
}

// Removes every node through which memory escapes, or that calls code that is not seen, one after the other, with a
// query after each.
TEST(LinearTest, RemovingEveryEscapeTakesStepsInProportion) {
  for (const Family& family : NamedFamilies()) {
    static const auto* const kEscaping = new absl::flat_hash_set<std::string>{"calls", "calls_in_loops", "escapes_late",
                                                                              "escapes_together", "unknown_everywhere"};
    if (!kEscaping->contains(family.name)) continue;
    for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
      ExpectEditsAreLinear(
          family, {{absl::StrCat("removing escapes, order ", static_cast<int>(order)),
                    [order](Graph& g, const AliasDb& db) { RemoveEscapes(g, db, g.num_nodes() / 4, order); }}});
    }
  }
}

}  // namespace
}  // namespace smelt
