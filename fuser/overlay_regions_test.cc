#include "smelt/fuser/overlay_regions.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/run_kernels.h"

namespace smelt {
namespace {

using Groups = std::vector<std::string>;

// A program on %x and %y, 8 rows of 32, and %v, 8 of 4: %a is exp(x).
Fused OfExp(const std::string& nodes, const std::string& results = "%z") {
  return FuseText(absl::StrCat(R"(graph(%x : Float(8, 32, strides=[32, 1]), %y : Float(8, 32, strides=[32, 1]),
      %v : Float(8, 4, strides=[4, 1])):
  %one : int = prim::Constant[value=1]()
  %dim : int[] = prim::Constant[value=[1]]()
  %keep : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
)",
                               nodes, "  return (", results, ")\n"));
}

constexpr char kColumns[] =
    "  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 4], strides=[32, 1], offset=8, dtype=6](%a, "
    "%v)\n";
constexpr char kTimes[] = "  %z : Float(8, 32, strides=[32, 1]) = aten::mul.Tensor(%b, %y)\n";

TEST(OverlayRegions, ColumnsThatAreWrittenBetweenTwoOperatorsAreChosenInTheirKernel) {
  Fused f = OfExp(absl::StrCat(kColumns, kTimes));
  EXPECT_EQ(f.groups(), Groups{"exp_overlay_mul"}) << f.Edges();
}

TEST(OverlayRegions, WhatIsReturnedTooIsStoredByThatKernel) {
  Fused f = OfExp(absl::StrCat(kColumns, kTimes), "%b, %z");
  EXPECT_EQ(f.groups(), Groups{"exp_overlay_mul"}) << f.Edges();
}

TEST(OverlayRegions, ARowIsReducedWithWhatWasWrittenIntoIt) {
  Fused f = OfExp(
      absl::StrCat(kColumns, "  %z : Float(8, 1, strides=[1, 1]) = aten::sum.dim_IntList(%b, %dim, %keep, %none)\n"));
  EXPECT_EQ(f.groups(), Groups{"exp_overlay_sum"}) << f.Edges();
}

TEST(OverlayRegions, WhatIsWrittenMayBeMadeOfWhatItReplaces) {
  Fused f = OfExp(absl::StrCat(R"(
  %s : Float(8, 4, strides=[32, 1]) = smelt::view[sizes=[8, 4], strides=[32, 1], offset=8, dtype=6](%a)
  %t : Float(8, 4, strides=[4, 1]) = aten::mul.Tensor(%s, %s)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 4], strides=[32, 1], offset=8, dtype=6](%a, %t)
)",
                               kTimes));
  EXPECT_EQ(f.groups(), Groups{"exp_mul_overlay_mul"}) << f.Edges();
  // exp is computed once.
  ASSERT_EQ(f.specs.size(), 1u);
  EXPECT_EQ(f.specs[0].find("exp float32", f.specs[0].find("exp float32") + 1), std::string::npos) << f.specs[0];
}

TEST(OverlayRegions, OneColumnOneRowADiagonalAndEverySecondRowAreChosenToo) {
  struct Region {
    std::string sizes, strides;
    int offset;
    std::string strides_of_value;
  };
  const std::vector<Region> regions = {
      {"8", "32", 7, "4"}, {"32", "1", 96, "1"}, {"8", "33", 2, "4"}, {"4, 4", "64, 1", 40, "4, 1"}};
  for (const Region& r : regions) {
    Fused f = OfExp(absl::Substitute(R"(
  %s : Float($0, strides=[$3]) = smelt::view[sizes=[$0], strides=[$3], offset=0, dtype=6](%v)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[$0], strides=[$1], offset=$2, dtype=6](%a, %s)
$4)",
                                     r.sizes, r.strides, r.offset, r.strides_of_value, kTimes));
    EXPECT_EQ(f.groups(), Groups{"exp_overlay_mul"}) << r.strides << f.Edges();
  }
}

// Every second column of an argument.
TEST(OverlayRegions, ColumnsWithGapsAreChosenWhereFewLaunchesAreWanted) {
  const std::string text = R"(graph(%x : Float(8, 32, strides=[32, 1]), %v : Float(8, 16, strides=[16, 1])):
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 2], offset=1, dtype=6](%x, %v)
  %z : Float(8, 32, strides=[32, 1]) = aten::mul.Tensor(%b, %x)
  return (%b, %z)
)";
  EXPECT_EQ(FuseText(text).groups(), Groups{});
  EXPECT_EQ(FuseText(text, /*tolerance=*/0, /*few_launches=*/true).groups(), Groups{"overlay_mul"});
}

// Two halves of %e, [8, columns] of nothing, from %y, and their square.
std::string OfHalves(int columns) {
  return absl::Substitute(R"(
  %size : int[] = prim::Constant[value=[8, $0]]()
  %e : Float(8, $0, strides=[$0, 1]) = aten::empty.memory_format(%size, %none, %none, %none, %none, %none)
  %p : Float(8, $1, strides=[32, 1]) = smelt::view[sizes=[8, $1], strides=[32, 1], offset=0, dtype=6](%y)
  %q : Float(8, $1, strides=[$1, 1]) = aten::neg(%p)
  %h : Float(8, $0, strides=[$0, 1]) = smelt::write_region[sizes=[8, $1], strides=[$0, 1], offset=0, dtype=6](%e, %q)
  %b : Float(8, $0, strides=[$0, 1]) = smelt::write_region[sizes=[8, $1], strides=[$0, 1], offset=$1, dtype=6](%h, %p)
  %z : Float(8, $0, strides=[$0, 1]) = aten::mul.Tensor(%b, %b)
)",
                          columns, columns / 2);
}

TEST(OverlayRegions, PartsOfFreshMemoryAreChosenFromWhereOneKernelReadsThem) {
  Fused f = OfExp(OfHalves(32));
  EXPECT_EQ(f.groups(), Groups{"neg_full_overlay_overlay_mul"}) << f.Edges();
}

TEST(OverlayRegions, EverySecondColumnIsChosen) {
  Fused f = OfExp(absl::StrCat(R"(
  %s : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=3, dtype=6](%y)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 2], offset=1, dtype=6](%a, %s)
)",
                               kTimes));
  EXPECT_EQ(f.groups(), Groups{"exp_overlay_mul"}) << f.Edges();
}

TEST(OverlayRegions, SoAreColumnsOfRowsSoShortThatEachElementIsItsOwn) {
  Fused f = FuseText(R"(graph(%x : Float(64, 4, strides=[4, 1]), %v : Float(64, strides=[1])):
  %a : Float(64, 4, strides=[4, 1]) = aten::exp(%x)
  %b : Float(64, 4, strides=[4, 1]) = smelt::write_region[sizes=[64], strides=[4], offset=1, dtype=6](%a, %v)
  %z : Float(64, 4, strides=[4, 1]) = aten::mul.Tensor(%b, %x)
  return (%z)
)");
  EXPECT_EQ(f.groups(), Groups{"exp_overlay_mul"}) << f.Edges();
}

TEST(OverlayRegions, PartsOfShortRowsAreWritten) {
  Fused f = OfExp(OfHalves(8));
  EXPECT_EQ(f.groups(), Groups{"neg_write_region_write_region"}) << f.Edges();
}

TEST(OverlayRegions, MoreThanAFewRegionsAreWritten) {
  std::string nodes, base = "%a";
  for (int i = 0; i < 5; ++i) {
    absl::StrAppend(&nodes, "  %b", i, " : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 4], ",
                    "strides=[32, 1], offset=", 4 * i, ", dtype=6](", base, ", %v)\n");
    base = absl::StrCat("%b", i);
  }
  Fused f = OfExp(absl::StrCat(nodes, "  %z : Float(8, 32, strides=[32, 1]) = aten::mul.Tensor(%b4, %y)\n"));
  for (const std::string& group : f.groups()) EXPECT_EQ(group.find("overlay"), std::string::npos) << group;
}

TEST(OverlayRegions, WhatRunsAcrossRowsIsWritten) {
  Fused f = OfExp(absl::StrCat(R"(
  %s : Float(30, strides=[1]) = smelt::view[sizes=[30], strides=[1], offset=0, dtype=6](%v)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[30], strides=[1], offset=16, dtype=6](%a, %s)
)",
                               kTimes));
  EXPECT_EQ(f.groups(), Groups{}) << f.Edges();
}

// x.mul_(2), x[1:] = x[:-1]: in one kernel neither could be computed in x.
TEST(OverlayRegions, WhatIsMadeOfAnInputThatTheCallRewritesIsWritten) {
  const std::string text = R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %two : int = prim::Constant[value=2]()
  %a : Float(8, 32, strides=[32, 1]) = aten::mul.Scalar(%x, %two)
  %s : Float(7, 32, strides=[32, 1]) = smelt::view[sizes=[7, 32], strides=[32, 1], offset=0, dtype=6](%a)
  %v : Float(7, 32, strides=[32, 1]) = aten::neg(%s)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[7, 32], strides=[32, 1], offset=32, dtype=6](%a, %v)
  return (%b)
)";
  for (const bool rewritten : {false, true}) {
    std::unique_ptr<Graph> g = ParseOrFail(text);
    EXPECT_EQ(
        OverlayRegions(*g, rewritten ? absl::flat_hash_set<ValueId>{g->inputs()[0]} : absl::flat_hash_set<ValueId>{}),
        rewritten ? 0 : 1);
  }
}

// PyTorch exports for sizes of at least 2, and runs the program for 1 too.
TEST(OverlayRegions, InACallOfOneColumnTheOthersAreNotWritten) {
  std::unique_ptr<Graph> g = ParseOrFail(R"(graph(%x : Float(s0, s1, strides=[s1, 1]), %v : Float()):
  symbol s0 in [2, inf] hint 3
  symbol s1 in [2, inf] hint 8
  %a : Float(s0, s1, strides=[s1, 1]) = aten::neg(%x)
  %w : Float(s0, s1 - 1, strides=[0, 0]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(s0, s1 - 1), strides=exprs(0, 0)](%v)
  %b : Float(s0, s1, strides=[s1, 1]) = smelt::write_region[dtype=6, offset=expr(1), sizes=exprs(s0, s1 - 1), strides=exprs(s1, 1)](%a, %w)
  return (%b)
)");
  SymbolRanges::Range range = g->symbols.Get("s1");
  range.accepted_min = 1;
  g->symbols.Set("s1", range);
  ASSERT_TRUE(FuseGraph(*g).ok());
  for (int64_t columns : {1, 2, 5}) {
    Tensor x = Tensor::Empty(DType::kFloat32, {3, columns}), v = Tensor::Empty(DType::kFloat32, {});
    for (int64_t i = 0; i < 3 * columns; ++i) x.data_as<float>()[i] = static_cast<float>(i + 1);
    v.data_as<float>()[0] = 100;
    RunKernelsOptions run;
    run.symbols = {{"s0", 3}, {"s1", columns}};
    auto out = RunKernels(*g, {x, v}, run);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(out->specs.size(), 1u);
    const Tensor b = out->outputs[0].Clone();
    for (int64_t i = 0; i < 3 * columns; ++i) {
      EXPECT_EQ(b.data_as<float>()[i], i % columns == 0 ? -x.data_as<float>()[i] : 100) << columns << " " << i;
    }
  }
}

}  // namespace
}  // namespace smelt
