// The database must have predicted every effect of running random programs, and an allowed move must not change the
// results. SMELT_ALIAS_PROGRAMS in the environment sets the number of programs (a million takes some hours).
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/random_program.h"
#include "smelt/alias/run_program.h"
#include "smelt/alias/scenario.h"
#include "smelt/alias/state.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace {

struct Share {
  int64_t said = 0, happened = 0;
};

constexpr int64_t kPrograms = 1500;

// The number of answers about the usual programs that never came true must not increase.
void ExpectAtMost(int64_t aliases_never_seen, int64_t writers_never_seen, const Share& alias, const Share& writers) {
  if (FirstSeed() == 1 && NumPrograms(kPrograms) == kPrograms) {
    EXPECT_LE(alias.said - alias.happened, aliases_never_seen);
    EXPECT_LE(writers.said - writers.happened, writers_never_seen);
  }
  std::printf(
      "pairs that may alias: %lld, of which did: %lld; values with writers: %lld, of which were written: %lld\n",
      static_cast<long long>(alias.said), static_cast<long long>(alias.happened), static_cast<long long>(writers.said),
      static_cast<long long>(writers.happened));
}

// Adds to *alias and *writers.
void ExpectPredicted(int64_t programs, RandomProgramOptions o, Share* alias, Share* writers) {
  // With SMELT_ALIAS_DUMP=DIR each program is written to DIR/SEED.ir, and its queries, answers and observations to
  // DIR/SEED.txt: bench/alias/precision.py compares TorchScript's answers.
  const char* dump = std::getenv("SMELT_ALIAS_DUMP");
  int64_t failures = 0;
  const int64_t first = FirstSeed();
  for (int64_t seed = first; seed < first + programs && failures < 5; ++seed) {
    o.nodes = seed % 50 == 0 ? 150 : 3 + static_cast<int>(seed % 25);
    o.typed_inputs = seed % 3 == 0;
    o.geometry_changes = seed % 4 == 0;
    const std::string text = RandomProgram(static_cast<uint64_t>(seed), o);
    std::unique_ptr<Graph> g = ParseForTest(text);
    ASSERT_NE(g, nullptr);
    Observed seen;
    const RunOptions runs = {.watch = true, .any_shape = o.any_shape};
    for (int run = 0; run < 12; ++run) RunProgram(*g, static_cast<uint64_t>(seed * 100 + run), runs, &seen);
    std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    bool failed = false;
    std::string asked;
    auto fail = [&](const std::string& what) {
      if (!failed) ADD_FAILURE() << "seed " << seed << ": " << what << "\n" << text << db->ToString();
      failed = true;
    };
    const std::vector<ValueId> values = alias_internal::AllValues(*g);
    auto name = [&](ValueId v) { return absl::StrCat("%", g->value(v).name); };
    for (ValueId a : values) {
      if (!IsAliasingType(g->value(a).type)) continue;
      for (ValueId b : values) {
        if (!IsAliasingType(g->value(b).type)) continue;
        const bool happened = seen.pairs.Has(SeenPairs::kAlias, a, b);
        const bool may = db->MayAlias(a, b);
        if (happened && !may) fail(absl::StrCat(name(a), " and ", name(b), " shared memory, but may not"));
        if (seen.pairs.Has(SeenPairs::kTogether, a, b) && may && a != b) {
          ++alias->said;
          alias->happened += happened;
        }
        if (dump != nullptr && a < b && seen.pairs.Has(SeenPairs::kTogether, a, b)) {
          absl::StrAppend(&asked, "may_contain_alias ", name(a), " ", name(b), " ", db->MayContainAlias(a, b), " ",
                          seen.pairs.Has(SeenPairs::kContain, a, b), "\n");
        }
        if (seen.pairs.Has(SeenPairs::kContain, a, b) && !db->MayContainAlias(a, b)) {
          fail(absl::StrCat(name(a), " and ", name(b), " contained shared memory, but may not"));
        }
        const bool tuple = g->value(a).type.kind() == TypeKind::kTuple || g->value(b).type.kind() == TypeKind::kTuple;
        if (!tuple && seen.pairs.Has(SeenPairs::kNotSame, a, b) && db->MustAlias(a, b)) {
          fail(absl::StrCat(name(a), " and ", name(b), " must be the same, but were not"));
        }
      }
      const bool written = seen.written.contains(a), may = db->HasWriters(a);
      if (written && !may) fail(absl::StrCat(name(a), " was written, but has no writers"));
      if (may && seen.pairs.Has(SeenPairs::kTogether, a, a)) {
        ++writers->said;
        writers->happened += written;
      }
      if (dump != nullptr && seen.pairs.Has(SeenPairs::kTogether, a, a)) {
        absl::StrAppend(&asked, "has_writers ", name(a), " - ", may, " ", written, "\n");
      }
    }
    for (const auto& [n, v] : seen.writes) {
      if (!db->WritesTo(n, v)) fail(absl::StrCat(PrintNode(*g, n), " wrote ", name(v), ", but does not"));
    }
    failures += failed;
    if (dump != nullptr) {
      std::ofstream(absl::StrCat(dump, "/", seed, ".ir")) << text;
      std::ofstream(absl::StrCat(dump, "/", seed, ".txt")) << asked;
    }
  }
}

TEST(AliasSoundnessTest, WhatHappensWasPredicted) {
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms), {}, &alias, &writers);
  ExpectAtMost(32202, 3080, alias, writers);
}

TEST(AliasSoundnessTest, WhatCallsDoWasPredicted) {
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms) / 3, {.calls = true}, &alias, &writers);
}

TEST(AliasSoundnessTest, WhatViewsThatOverlapThemselvesDoWasPredicted) {
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms) / 3, {.self_overlaps = true}, &alias, &writers);
}

// Any access to more than one storage is recorded as one to many, which only large sets need. Two questions then reach
// their limit.
TEST(AliasSoundnessTest, WhatHappensWasPredictedByAccessesToMany) {
  const size_t usual = std::exchange(alias_internal::few_pairs, 1);
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms), {}, &alias, &writers);
  ExpectAtMost(32202, 3082, alias, writers);
  ExpectPredicted(NumPrograms(kPrograms) / 3, {.calls = true}, &alias, &writers);
  alias_internal::few_pairs = usual;
}

TEST(AliasSoundnessTest, WhatViewsOfAnyShapeDoWasPredicted) {
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms), {.any_shape = true}, &alias, &writers);
  ExpectAtMost(18380, 2847, alias, writers);
}

TEST(AliasSoundnessTest, WhatBlocksWithOperandsDoWasPredicted) {
  Share alias, writers;
  ExpectPredicted(NumPrograms(kPrograms), {.closed_blocks = true}, &alias, &writers);
}

// Asks about every pair of values.
TEST(AliasSoundnessTest, ConstantsOfAnySizeAreNoCrash) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kExtremes[] = {kLeast, kLeast + 1,       kMost,   kMost - 1,        -65, -64, 63, 64,
                                   65,     int64_t{1} << 20, 1 << 24, int64_t{1} << 40, 4,   5,   -3};
  const int64_t programs = NumPrograms(kPrograms) / 3;
  int64_t answers = 0;
  for (int64_t seed = FirstSeed(); seed < FirstSeed() + programs; ++seed) {
    std::mt19937_64 rng(static_cast<uint64_t>(seed));
    const RandomProgramOptions o = {
        .nodes = 3 + static_cast<int>(seed % 25), .typed_inputs = seed % 2 == 0, .any_shape = true};
    std::string text;
    for (absl::string_view line : absl::StrSplit(RandomProgram(static_cast<uint64_t>(seed), o), '\n')) {
      constexpr absl::string_view kInt = " : int = prim::Constant[value=";
      const size_t at = line.find(kInt);
      const bool changed = at != absl::string_view::npos && rng() % 3 == 0;
      if (changed) {
        absl::StrAppend(&text, line.substr(0, at), kInt, kExtremes[rng() % std::size(kExtremes)], "]()\n");
      } else {
        absl::StrAppend(&text, line, "\n");
      }
    }
    std::unique_ptr<Graph> g = ParseForTest(text);
    ASSERT_NE(g, nullptr);
    std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    const std::vector<ValueId> values = alias_internal::AllValues(*g);
    for (ValueId a : values) {
      db->HasWriters(a);
      for (ValueId b : values) answers += db->MayAlias(a, b) + db->MustAlias(a, b);
    }
  }
  EXPECT_GT(answers, programs);
}

TEST(AliasSoundnessTest, StoresInALoopThatReadEachOtherSettle) {
  // Seed 4008324: each of two stores found the other one's contents new, in an endless loop.
  std::unique_ptr<Graph> g = ParseForTest(RandomProgram(4008324, {.nodes = 3 + 4008324 % 25, .typed_inputs = true}));
  ASSERT_NE(g, nullptr);
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  EXPECT_TRUE(db->Verify().ok());
}

void ExpectMovesToChangeNothing(int64_t programs) {
  int64_t failures = 0, moves = 0;
  for (int64_t seed = FirstSeed(); seed < FirstSeed() + programs && failures < 5; ++seed) {
    RandomProgramOptions o;
    o.calls = seed % 4 == 3;
    o.self_overlaps = seed % 5 == 4;
    o.any_shape = seed % 7 > 3;
    o.closed_blocks = seed % 6 > 2;
    o.nodes = 3 + static_cast<int>(seed % 14);
    o.geometry_changes = seed % 3 == 0;
    o.typed_inputs = seed % 2 == 0;
    const std::string text = RandomProgram(static_cast<uint64_t>(seed) + (1u << 30), o);
    std::unique_ptr<Graph> original = ParseForTest(text);
    ASSERT_NE(original, nullptr);
    std::mt19937_64 rng(static_cast<uint64_t>(seed));
    std::vector<NodeId> nodes = original->AllNodes();
    std::vector<NodeId> movable, with_blocks;
    for (NodeId n : nodes) {
      if (original->node(n).op.name() != "prim::Constant") movable.push_back(n);
      if (!original->node(n).blocks.empty()) with_blocks.push_back(n);
    }
    if (movable.size() < 2) continue;
    for (int attempt = 0; attempt < 8; ++attempt) {
      // Branches and loops read and write more than their arguments.
      const std::vector<NodeId>& some = !with_blocks.empty() && attempt % 2 == 0 ? with_blocks : movable;
      const NodeId m = some[rng() % some.size()];
      std::vector<NodeId> beside;
      for (NodeId n : movable) {
        if (n != m && original->node(n).parent == original->node(m).parent) beside.push_back(n);
      }
      if (beside.empty()) continue;
      const NodeId n = beside[rng() % beside.size()];
      std::unique_ptr<Graph> g = original->Clone();
      std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
      const bool before = rng() % 2 == 0;
      const bool can = before ? db->CanMoveBefore(n, m) : db->CanMoveAfter(n, m);
      absl::Status moved = before ? db->MoveBefore(n, m) : db->MoveAfter(n, m);
      ASSERT_EQ(can, moved.ok());
      if (!can) continue;
      ++moves;
      bool bad = false;
      ASSERT_TRUE(before ? g->node(n).next == m : g->node(m).next == n) << text;
      absl::Status valid = VerifyGraph(*g);
      if (!valid.ok()) {
        ADD_FAILURE() << "seed " << seed << ": " << valid << "\n" << text << "after\n" << PrintGraph(*g);
        ++failures;
        break;
      }
      absl::Status verified = db->Verify();
      if (!verified.ok()) {
        ADD_FAILURE() << "seed " << seed << ": " << verified << "\n" << text << "after\n" << PrintGraph(*g);
        ++failures;
        break;
      }
      for (int run = 0; run < 6 && !bad; ++run) {
        Observed was, is;
        RunProgram(*original, static_cast<uint64_t>(seed * 100 + run), {.any_shape = o.any_shape}, &was);
        RunProgram(*g, static_cast<uint64_t>(seed * 100 + run), {.any_shape = o.any_shape}, &is);
        if (was.complete != is.complete || (was.complete && was.result != is.result)) {
          ADD_FAILURE() << "seed " << seed << ": moving " << PrintNode(*original, n)
                        << (before ? " before " : " after ") << PrintNode(*original, m) << "\n"
                        << text << "after\n"
                        << PrintGraph(*g) << db->ToString();
          bad = true;
        }
      }
      if (bad) {
        ++failures;
        break;
      }
    }
  }
  std::printf("%lld moves\n", static_cast<long long>(moves));
}

TEST(AliasSoundnessTest, AMoveThatIsAllowedChangesNoResult) { ExpectMovesToChangeNothing(NumPrograms(kPrograms) / 3); }

TEST(AliasSoundnessTest, AMoveThatIsAllowedByAccessesToManyChangesNoResult) {
  const size_t usual = std::exchange(alias_internal::few_pairs, 1);
  ExpectMovesToChangeNothing(NumPrograms(kPrograms) / 3);
  alias_internal::few_pairs = usual;
}

}  // namespace
}  // namespace smelt
