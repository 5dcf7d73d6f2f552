// Compares the overlap engine with explicit sets of addresses.
//
// Every pair of small geometries up to rank 2 and a sample of larger ones by default; with SMELT_EXHAUSTIVE=1 in the
// environment (bazel test --test_env=SMELT_EXHAUSTIVE=1) all pairs, with rank 3 as well: 137 million, in
// a minute or two.
#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

bool Exhaustive() { return std::getenv("SMELT_EXHAUSTIVE") != nullptr; }

// Returns the addresses of all elements in row-major order, in elements.
std::vector<int64_t> Addresses(const Geometry& g) {
  std::vector<int64_t> out = {g.offset};
  for (int d = 0; d < g.rank(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : out) {
      for (int64_t i = 0; i < g.sizes[d]; ++i) next.push_back(base + i * g.strides[d]);
    }
    out = std::move(next);
  }
  return out;
}

constexpr int kBits = 1024;
constexpr int kZero = 256;  // where address 0 is
using Bytes = std::bitset<kBits>;

Bytes BytesOf(const Geometry& g, int item_bytes) {
  Bytes out;
  for (int64_t a : Addresses(g)) {
    for (int b = 0; b < item_bytes; ++b) out.set(kZero + a * item_bytes + b);
  }
  return out;
}

struct Counts {
  int64_t pairs = 0, unknown = 0, overlapping = 0, covered = 0, cover_proven = 0;

  // Returns false at the first wrong answer, which it reports.
  bool Check(const Geometry& a, int a_bytes, const Bytes& a_set, const Geometry& b, int b_bytes, const Bytes& b_set) {
    ++pairs;
    const bool meet = (a_set & b_set).any();
    overlapping += meet;
    const Overlap answer = OverlapsConcrete(a, a_bytes, b, b_bytes);
    bool right = true;
    switch (answer) {
      case Overlap::kUnknown:
        ++unknown;
        break;
      case Overlap::kDisjoint:
        right = !meet;
        break;
      case Overlap::kSome:
        right = meet;
        break;
      case Overlap::kSame:
        right = meet && a_bytes == b_bytes && Addresses(a) == Addresses(b);
        break;
    }
    const bool covers = CoversConcrete(a, a_bytes, b, b_bytes);
    const bool contained = (b_set & ~a_set).none();
    covered += contained;
    cover_proven += covers;
    if (right && (!covers || contained)) return true;
    ADD_FAILURE() << a.ToString() << " of " << a_bytes << " bytes, " << b.ToString() << " of " << b_bytes << ": "
                  << Name(answer) << ", covers " << covers << "; by addresses: meet " << meet << ", covered "
                  << contained;
    return false;
  }

  void Report(const char* what) const {
    printf("%s: %lld pairs, %lld overlap, %lld unknown, %lld of %lld coverings proven\n", what,
           static_cast<long long>(pairs), static_cast<long long>(overlapping), static_cast<long long>(unknown),
           static_cast<long long>(cover_proven), static_cast<long long>(covered));
    testing::Test::RecordProperty("pairs", absl::StrCat(pairs));
    testing::Test::RecordProperty("unknown", absl::StrCat(unknown));
    testing::Test::RecordProperty("coverings", absl::StrCat(covered));
    testing::Test::RecordProperty("coverings_proven", absl::StrCat(cover_proven));
  }
};

std::vector<Geometry> AllGeometries(int rank, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<Geometry> out = {Geometry{}};
  for (int d = 0; d < rank; ++d) {
    std::vector<Geometry> next;
    for (const Geometry& g : out) {
      for (int64_t size : sizes) {
        for (int64_t stride : strides) {
          if (size < 2 && stride != strides[0]) continue;  // says nothing new
          next.push_back(g);
          next.back().sizes.push_back(size);
          next.back().strides.push_back(stride);
        }
      }
    }
    out = std::move(next);
  }
  return out;
}

TEST(RegionExhaustiveTest, EveryPairUpToRankTwo) {
  std::vector<Geometry> all;
  for (int rank = 0; rank <= 2; ++rank) {
    for (Geometry& g : AllGeometries(rank, {0, 1, 2, 3, 5}, {0, 1, 2, 3, 4, 5, 7, -1, -3})) all.push_back(std::move(g));
  }
  Counts counts;
  for (auto [a_bytes, b_bytes] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {4, 2}}) {
    std::vector<Bytes> a_sets, b_sets;
    for (const Geometry& g : all) {
      a_sets.push_back(BytesOf(g, a_bytes));
      b_sets.push_back(BytesOf(g, b_bytes));
    }
    // Without the flag it tests part of the geometries, a different part for each pair of item sizes.
    const size_t step = Exhaustive() ? 1 : 3;
    for (size_t i = a_bytes % step; i < all.size(); i += step) {
      for (size_t j = 0; j < all.size(); ++j) {
        for (int64_t offset : {0, 1, 2, 3, 5, 6, 8, 11, 13}) {
          Geometry b = all[j];
          b.offset = offset;
          if (!counts.Check(all[i], a_bytes, a_sets[i], b, b_bytes, b_sets[j] << (offset * b_bytes))) return;
        }
      }
    }
  }
  counts.Report("rank 2");
  EXPECT_EQ(counts.unknown, 0);
}

TEST(RegionExhaustiveTest, PairsOfRankThree) {
  const std::vector<Geometry> all = AllGeometries(3, {1, 2, 3}, {0, 1, 2, 3, 5, 8});
  std::vector<Bytes> sets;
  for (const Geometry& g : all) sets.push_back(BytesOf(g, 2));
  std::mt19937 rng(11);
  Counts counts;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      if (!Exhaustive() && rng() % 4 != 0) continue;
      Geometry b = all[j];
      b.offset = Exhaustive() ? 0 : static_cast<int64_t>(rng() % 20);
      for (; b.offset < 20; b.offset += Exhaustive() ? 1 : 20) {
        if (!counts.Check(all[i], 2, sets[i], b, 2, sets[j] << (b.offset * 2))) return;
      }
    }
  }
  counts.Report("rank 3");
  EXPECT_EQ(counts.unknown, 0);
}

Geometry RandomGeometry(std::mt19937& rng, int max_rank, int64_t max_stride) {
  auto pick = [&](int64_t lo, int64_t hi) { return lo + static_cast<int64_t>(rng() % (hi - lo + 1)); };
  Geometry g;
  const int64_t rank = pick(0, max_rank);
  for (int64_t d = 0; d < rank; ++d) {
    g.sizes.push_back(pick(1, rank > 4 ? 2 : rank > 2 ? 3 : 6));
    g.strides.push_back(pick(0, max_stride));
  }
  if (rng() % 2 == 0) {  // a slice of something dense
    int64_t stride = pick(1, 2);
    for (int64_t d = rank; d-- > 0;) {
      g.strides[d] = stride;
      stride *= g.sizes[d] + pick(0, 1);
    }
    std::vector<int> order(rank);
    for (int64_t d = 0; d < rank; ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), rng);
    Geometry permuted = g;
    for (int64_t d = 0; d < rank; ++d) {
      permuted.sizes[d] = g.sizes[order[d]];
      permuted.strides[d] = g.strides[order[d]];
    }
    g = permuted;
  }
  g.offset = pick(0, 30);
  return g;
}

TEST(RegionExhaustiveTest, RandomPairsUpToRankSixOfAllItemSizes) {
  std::mt19937 rng(12);
  Counts counts;
  const int64_t pairs = Exhaustive() ? 20000000 : 400000;
  const int item_bytes[] = {1, 2, 4, 8, 16};
  for (int64_t i = 0; i < pairs; ++i) {
    // So that everything stays within the bits.
    const int a_bytes = item_bytes[rng() % 5], b_bytes = item_bytes[rng() % 5];
    auto make = [&](int bytes) {
      for (;;) {
        Geometry g = RandomGeometry(rng, 6, bytes >= 8 ? 6 : 20);
        if (g.Span().second * bytes < kBits - kZero) return g;
        g.offset = 0;
        if (g.Span().second * bytes < kBits - kZero) return g;
      }
    };
    const Geometry a = make(a_bytes), b = make(b_bytes);
    if (!counts.Check(a, a_bytes, BytesOf(a, a_bytes), b, b_bytes, BytesOf(b, b_bytes))) return;
  }
  counts.Report("random");
  EXPECT_LT(counts.unknown, counts.pairs / 1000);
}

TEST(RegionExhaustiveTest, SelfOverlapIsExact) {
  std::vector<Geometry> all = AllGeometries(3, {0, 1, 2, 3, 4, 6}, {0, 1, 2, 3, 4, 5, 7, 10, -2});
  std::mt19937 rng(13);
  for (int i = 0; i < 100000; ++i) all.push_back(RandomGeometry(rng, 6, 40));
  int64_t unknown = 0;
  for (const Geometry& g : all) {
    std::vector<int64_t> addresses = Addresses(g);
    std::sort(addresses.begin(), addresses.end());
    const bool twice = std::adjacent_find(addresses.begin(), addresses.end()) != addresses.end();
    const std::optional<bool> answer = SelfOverlap(g);
    unknown += !answer.has_value();
    ASSERT_EQ(answer.value_or(twice), twice) << g.ToString();
  }
  printf("self overlap: %zu geometries, %lld unknown\n", all.size(), static_cast<long long>(unknown));
  RecordProperty("unknown", absl::StrCat(unknown));
  EXPECT_EQ(unknown, 0);
}

// A view of a base of symbolic sizes, made by a few view operators.
ExprGeometry RandomView(std::mt19937& rng, SymbolicDecide& decide, ExprGeometry g, const std::vector<Expr>& small) {
  using view_rules::Narrow;
  using view_rules::Select;
  using view_rules::Slice;
  const int steps = static_cast<int>(rng() % 4);
  for (int i = 0; i < steps && g.rank() > 0; ++i) {
    const int d = static_cast<int>(rng() % g.rank());
    absl::StatusOr<ExprGeometry> next = g;
    const Expr a = small[rng() % small.size()], b = small[rng() % small.size()];
    switch (rng() % 5) {
      case 0:
        next = Select(decide, g, d, a);
        break;
      case 1:
        next = Slice(decide, g, d, std::optional<Expr>(a), std::nullopt, Expr(1 + static_cast<int64_t>(rng() % 2)));
        break;
      case 2:
        next = Slice(decide, g, d, std::nullopt, std::optional<Expr>(b), Expr(1));
        break;
      case 3:
        next = view_rules::Transpose(decide, g, d, static_cast<int64_t>(rng() % g.rank()));
        break;
      default:
        next = Slice(decide, g, d, std::optional<Expr>(a), std::optional<Expr>(a + b), Expr(1));
        break;
    }
    if (next.ok()) g = *next;
  }
  return g;
}

TEST(RegionExhaustiveTest, SymbolicAnswersHoldForAllValues) {
  std::mt19937 rng(14);
  int64_t pairs = 0, unknown = 0, mixed = 0, covers_proven = 0, covers_always = 0, self_unknown = 0;
  const Expr n = Expr::Symbol("n"), m = Expr::Symbol("m"), p = Expr::Symbol("p");
  for (int i = 0; i < (Exhaustive() ? 20000 : 1500); ++i) {
    SymbolRanges ranges;
    const int64_t n_min = rng() % 3, m_min = 1 + rng() % 3, p_min = rng() % 2;
    ranges.Set("n", {n_min, SymbolRanges::kInfinity});
    ranges.Set("m", {m_min, SymbolRanges::kInfinity});
    ranges.Set("p", {p_min, p_min + 3});
    const std::vector<Expr> sizes = {2, 3, n, m, n + 1, 2 * m, m + p + 1};
    const std::vector<Expr> small = {0, 1, 2, p, -1, n, m, m - 1, p + 1};
    SymbolicDecide decide(&ranges, {{"n", n_min + 2}, {"m", m_min + 3}, {"p", p_min + 1}});
    ExprGeometry base;
    const int rank = 1 + static_cast<int>(rng() % 3);
    for (int d = 0; d < rank; ++d) base.sizes.push_back(sizes[rng() % sizes.size()]);
    base.strides = view_rules::ContiguousStrides(decide, base.sizes);
    const ExprGeometry a = RandomView(rng, decide, base, small), b = RandomView(rng, decide, base, small);
    const int a_bytes = rng() % 4 == 0 ? 8 : 4;
    const Region x = Region::Strided(a.offset, a.sizes, a.strides, a_bytes),
                 y = Region::Strided(b.offset, b.sizes, b.strides, 4);
    const Overlap answer = Compare(x, y, ranges);
    const bool covers = Covers(x, y, ranges);
    const std::optional<bool> self = x.OverlapsItself(ranges), empty = x.IsEmpty(ranges);
    bool ever_meet = false, ever_apart = false, always_covered = true;
    for (int64_t nv = n_min; nv < n_min + 4; ++nv) {
      for (int64_t mv = m_min; mv < m_min + 4; ++mv) {
        for (int64_t pv = p_min; pv <= p_min + 3; ++pv) {
          const absl::flat_hash_map<std::string, int64_t> at = {{"n", nv}, {"m", mv}, {"p", pv}};
          bool valid = true;
          for (const Assumption& s : decide.assumptions()) valid = valid && s.Holds(at).value_or(false);
          auto concrete = [&](const ExprGeometry& g) {
            Geometry out;
            for (const Expr& e : g.sizes) out.sizes.push_back(e.Evaluate(at).value());
            for (const Expr& e : g.strides) out.strides.push_back(e.Evaluate(at).value());
            out.offset = g.offset.Evaluate(at).value();
            for (int64_t s : out.sizes) valid = valid && s >= 0;
            return out;
          };
          const Geometry ga = concrete(a), gb = concrete(b);
          if (!valid) continue;  // the view itself assumed otherwise
          const Overlap truth = OverlapsConcrete(ga, a_bytes, gb, 4);
          ASSERT_NE(truth, Overlap::kUnknown);
          const bool meet = truth != Overlap::kDisjoint;
          (meet ? ever_meet : ever_apart) = true;
          const std::string where =
              absl::StrCat(x.ToString(), " ", y.ToString(), " at n=", nv, " m=", mv, " p=", pv, ": ", Name(answer));
          if (answer == Overlap::kDisjoint) {
            ASSERT_FALSE(meet) << where;
          }
          if (answer == Overlap::kSome) {
            ASSERT_TRUE(meet) << where;
          }
          if (answer == Overlap::kSame && meet) {
            ASSERT_EQ(truth, Overlap::kSame) << where;
          }
          const bool covered = CoversConcrete(ga, a_bytes, gb, 4);
          always_covered = always_covered && covered;
          if (covers) {
            ASSERT_TRUE(covered) << where;
          }
          if (self.has_value()) {
            ASSERT_EQ(*self, SelfOverlap(ga)) << where;
          }
          if (empty.has_value()) {
            ASSERT_EQ(*empty, ga.NumElements() == 0) << where;
          }
        }
      }
    }
    ++pairs;
    if (answer == Overlap::kUnknown) {
      ++unknown;
      mixed += ever_meet && ever_apart;
    }
    covers_proven += covers;
    covers_always += always_covered;
    self_unknown += !self.has_value();
  }
  printf(
      "symbolic: %lld pairs, %lld unknown, of which %lld do depend on the values; %lld of %lld coverings proven; self "
      "overlap unknown %lld\n",
      static_cast<long long>(pairs), static_cast<long long>(unknown), static_cast<long long>(mixed),
      static_cast<long long>(covers_proven), static_cast<long long>(covers_always),
      static_cast<long long>(self_unknown));
  RecordProperty("unknown", absl::StrCat(unknown));
  RecordProperty("unknown_that_depends", absl::StrCat(mixed));
  EXPECT_LT(unknown - mixed, pairs / 5);
}

TEST(RegionExhaustiveTest, ComparingCostsNanoseconds) {
  struct Case {
    const char* name;
    Geometry a, b;
  };
  const Case cases[] = {
      {"apart", {{8, 16, 64}, {1024, 64, 1}, 0}, {{8, 16, 64}, {1024, 64, 1}, 8192}},
      {"same", {{8, 16, 64}, {1024, 64, 1}, 0}, {{8, 16, 64}, {1024, 64, 1}, 0}},
      {"rows", {{8, 16, 32}, {1024, 64, 1}, 0}, {{8, 16, 32}, {1024, 64, 1}, 32}},
      {"rank 4", {{4, 8, 16, 32}, {8192, 1024, 64, 1}, 0}, {{4, 8, 16, 32}, {8192, 1024, 64, 1}, 48}},
      {"transposed", {{64, 16}, {1, 64}, 0}, {{16, 64}, {64, 1}, 64}},
  };
  for (const Case& c : cases) {
    const int repeats = 200000;
    int sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) sum += static_cast<int>(OverlapsConcrete(c.a, 4, c.b, 4));
    const double ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / repeats;
    printf("%s: %.1f ns, %s\n", c.name, ns, std::string(Name(static_cast<Overlap>(sum / repeats))).c_str());
    EXPECT_LT(ns, 20000) << c.name;  // not a benchmark: only that it is no search
  }
}

}  // namespace
}  // namespace smelt
