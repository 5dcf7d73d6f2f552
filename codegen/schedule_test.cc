#include "smelt/codegen/schedule.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/test_kernels.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

constexpr CpuFeatures kV2 = {.vector_bits = 128, .non_temporal = true};
constexpr CpuFeatures kV3 = {.vector_bits = 256, .fma = true, .f16c = true, .avx2 = true, .non_temporal = true};
constexpr CpuFeatures kV4 = {
    .vector_bits = 512, .fma = true, .f16c = true, .avx2 = true, .avx512 = true, .non_temporal = true};

// p1 = p0 + p0, of one type and one class of strides along the columns.
std::string Doubled(const std::string& type, const std::string& along) {
  return absl::StrReplaceAll(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param TYPE r [any,ALONG] alias=-1
param TYPE w [any,unit] alias=-1
%0 = load.p0 TYPE
%1 = add TYPE %0 %0
%2 = store.p1 TYPE %1
outer 0 1 2
)",
                             {{"TYPE", type}, {"ALONG", along}});
}

// p1 = p0, of one type and one class of strides along the columns.
std::string Copied(const std::string& type, const std::string& along) {
  return absl::StrReplaceAll(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param TYPE r [ALONG] alias=-1
param TYPE w [unit] alias=-1
%0 = load.p0 TYPE
%1 = store.p1 TYPE %0
outer 0 1
)",
                             {{"TYPE", type}, {"ALONG", along}});
}

// The sum of the squares of each column.
constexpr char kColumnSum[] = R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = mul float32 %0 %0
%2 = reduce.sum float32 %1
%3 = store.p1 float32 %2
inner 0 1 2
outer 3
)";

TEST(ScheduleTest, LanesFillAVectorOfTheComputedType) {
  const KernelSpec floats = ParseOrDie(Doubled("float32", "unit")), doubles = ParseOrDie(Doubled("float64", "unit"));
  EXPECT_EQ(Schedule::Of(floats, kV2).lanes, 4);
  EXPECT_EQ(Schedule::Of(floats, kV3).lanes, 8);
  EXPECT_EQ(Schedule::Of(floats, kV4).lanes, 16);
  EXPECT_EQ(Schedule::Of(doubles, kV4).lanes, 8);
}

TEST(ScheduleTest, ASequentialKernelTakesOneLane) {
  KernelSpec spec = ParseOrDie(Doubled("float32", "unit"));
  spec.sequential = true;
  EXPECT_EQ(Schedule::Of(spec, kV4).lanes, 1);
}

TEST(ScheduleTest, ManyElementsFarApartMakeVectorsShort) {
  std::string text = "kernel parallel=1 reduction=0 vector=0 sequential=0\n", program, phase = "outer";
  for (int k = 0; k < 40; ++k) {
    absl::StrAppend(&text, "param float32 w [any] alias=-1\n");
    absl::StrAppend(&program, "%", k + 1, " = store.p", k, " float32 %0\n");
    absl::StrAppend(&phase, " ", k + 1);
  }
  const KernelSpec spec = ParseOrDie(absl::StrCat(text, "param float32 r [unit] alias=-1\n%0 = load.p40 float32\n",
                                                  program, absl::StrReplaceAll(phase, {{"outer", "outer 0"}}), "\n"));
  // 40 stores of 16 lanes are more than 256 accesses, and so are those of 8.
  EXPECT_EQ(Schedule::Of(spec, kV4).lanes, 4);
}

TEST(ScheduleTest, OnlyValuesAlongTheLoopVary) {
  const Schedule plan = Schedule::Of(ParseOrDie(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,zero] alias=-1
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = exp float32 %0
%2 = load.p1 float32
%3 = mul float32 %1 %2
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)"),
                                     kV4);
  EXPECT_EQ(plan.varying, (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(plan.uses, (std::vector<int>{1, 1, 1, 1, 0}));
  std::vector<bool> done(5, false);
  EXPECT_FALSE(plan.CanHoist(0, done)) << "p2 may be the memory of p0";
  done[0] = true;
  EXPECT_TRUE(plan.CanHoist(1, done));
  EXPECT_FALSE(plan.CanHoist(3, done));
}

TEST(ScheduleTest, CheapLoopsProcessMoreVectorsAtATime) {
  const Schedule sum = Schedule::Of(ParseOrDie(kColumnSum), kV4);
  EXPECT_EQ(sum.Copies({0, 1, 2}, /*reduces=*/true), 8);
  const Schedule softmax = Schedule::Of(ParseOrDie(kTestSoftmax), kV4);
  EXPECT_LT(softmax.Copies(softmax.spec.phases[1].instrs, /*reduces=*/true), 8);
  const Schedule apart = Schedule::Of(ParseOrDie(Doubled("float32", "any")), kV2);
  EXPECT_TRUE(apart.TakesLanes({0, 1, 2}) || apart.tiles.some);
}

TEST(ScheduleTest, ASumOfProductsRoundsOnceWhereTheMachineCan) {
  EXPECT_TRUE(Schedule::Of(ParseOrDie(kColumnSum), kV3).SumsProducts(2));
  EXPECT_FALSE(Schedule::Of(ParseOrDie(kColumnSum), kV2).SumsProducts(2));
}

TEST(ScheduleTest, AReadOfEveryOtherElementAlongTheRowsIsTiledWithoutBlocks) {
  const KernelSpec spec = ParseOrDie(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [two,any] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)");
  const Schedule plan = Schedule::Of(spec, kV4);
  EXPECT_EQ(plan.tiles.is_tiled, (std::vector<bool>{true, false}));
  EXPECT_FALSE(plan.PlanBlocks().has_value());
}

TEST(ScheduleTest, AReadAlongTheRowsOfAResultIsTiled) {
  const KernelSpec spec = ParseOrDie(kTestAddTransposed);
  const Schedule plan = Schedule::Of(spec, kV4);
  EXPECT_TRUE(plan.tiles.some);
  EXPECT_EQ(plan.tiles.is_tiled, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(plan.LoopClass(0), StrideClass::kUnit);
  EXPECT_TRUE(plan.IsReadAsLoopRuns(1));
  // A tile's pieces are 1 KB, and a square's sides are lines of 16 floats.
  EXPECT_EQ(plan.tiles.rows, 256);
  ASSERT_TRUE(plan.PlanBlocks().has_value());
  EXPECT_EQ(plan.PlanBlocks()->square_rows, 16);
  EXPECT_FALSE(Schedule::Of(spec, kV2).PlanBlocks().has_value());
}

TEST(ScheduleTest, ManyRowsOfColumnsKeepWhatLaterPhasesUse) {
  const Schedule plan = Schedule::Of(ParseOrDie(kColumnSum), kV4);
  EXPECT_TRUE(plan.columns);
  EXPECT_TRUE(plan.streams.possible);
  EXPECT_EQ(plan.streams.is_kept, (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(plan.streams.columns % 64, 0);
  EXPECT_TRUE(plan.folds.possible);
  EXPECT_EQ(plan.folds.in_rows, (std::vector<bool>{true, true, true, false}));
}

TEST(ScheduleTest, ExponentialsOfASoftmaxWaitInABuffer) {
  const Schedule plan = Schedule::Of(ParseOrDie(kTestSoftmax), kV4);
  EXPECT_FALSE(plan.columns);
  EXPECT_EQ(plan.has_scratch, (std::vector<bool>{false, true}));
  EXPECT_FALSE(plan.IsLastStore(plan.spec.instrs[6]));
  EXPECT_TRUE(plan.IsLastStore(plan.spec.instrs[9]));
  EXPECT_TRUE(plan.may_pass_cache[1]);
  EXPECT_TRUE(plan.IgnoresNan(plan.spec.instrs[1]));
}

TEST(ScheduleTest, TheLastLoopOfASoftmaxRunsOneRowBehind) {
  const RowPlan rows = Schedule::Of(ParseOrDie(kTestSoftmax), kV4).PlanRows();
  EXPECT_TRUE(rows.in_turns);
  EXPECT_EQ(rows.last, 2);
  EXPECT_EQ(rows.prefetch_loop, 1);
  EXPECT_EQ(rows.bytes_read, 4);
}

TEST(ScheduleTest, MemoryThatIsReadIsNotStoredPastTheCache) {
  const std::string text = Doubled("float32", "unit");
  EXPECT_TRUE(Schedule::Of(ParseOrDie(text), kV4).may_pass_cache[1]);
  const std::string one_class = absl::StrReplaceAll(text, {{"alias=-1", "alias=0"}});
  EXPECT_FALSE(Schedule::Of(ParseOrDie(one_class), kV4).may_pass_cache[1]);
}

TEST(ScheduleTest, OnlyBfloat16InOrderIsTakenInPairs) {
  EXPECT_TRUE(Schedule::Of(ParseOrDie(Copied("bfloat16", "unit")), kV4).CanPair({0, 1}, 2));
  EXPECT_FALSE(Schedule::Of(ParseOrDie(Copied("bfloat16", "unit")), kV4).CanPair({0, 1}, 1));
  EXPECT_FALSE(Schedule::Of(ParseOrDie(Copied("bfloat16", "two")), kV4).CanPair({0, 1}, 2));
  EXPECT_FALSE(Schedule::Of(ParseOrDie(Copied("float32", "unit")), kV4).CanPair({0, 1}, 2));
}

TEST(ScheduleTest, StoresTwoApartAreStoredInPairs) {
  const Schedule plan = Schedule::Of(ParseOrDie(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [two] alias=-1
param float32 w [two] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
%2 = store.p2 float32 %0
outer 0 1 2
)"),
                                     kV4);
  EXPECT_EQ(plan.partner, (std::vector<int>{-1, 2, 1}));
  EXPECT_TRUE(plan.IsPairedIn(1, {0, 1, 2}));
  EXPECT_FALSE(plan.IsPairedIn(1, {0, 1}));
}

// A row shifted right by s0: zero before.
TEST(ScheduleTest, TheInteriorOfALoopHasTheSameDecisionsAndNoGuards) {
  const Schedule plan = Schedule::Of(ParseOrDie(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
scalar int64
%0 = index.d1 int64
%1 = scalar.s0 int64
%2 = ge bool %0 %1
%3 = load.p0 float32 %2 +guard
%4 = store.p1 float32 %3
outer 0 1 2 3 4
)"),
                                     kV4);
  ASSERT_TRUE(plan.interior.has_value());
  const Schedule inside = plan.OfInterior();
  EXPECT_TRUE(plan.spec.instrs[3].has_guard);
  EXPECT_FALSE(inside.spec.instrs[3].has_guard);
  EXPECT_FALSE(inside.interior.has_value());
  EXPECT_EQ(inside.lanes, plan.lanes);
  EXPECT_LT(inside.CostOf(inside.spec.phases[0].instrs).all, plan.CostOf(plan.spec.phases[0].instrs).all);
}

}  // namespace
}  // namespace smelt
