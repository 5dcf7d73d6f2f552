#include "smelt/codegen/interior.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// A row shifted right by s0; where s0 <= i < s0 + s1 does not hold, the row's first element.
std::string Shift(const std::string& type) {
  return absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", type,
                      " r [any,unit] alias=-1\nparam ", type,
                      " w [any,unit] alias=-1\nscalar int64\nscalar int64\n%0 = index.d1 int64\n"
                      "%1 = scalar.s0 int64\n%2 = sub int64 %0 %1\n%3 = const int64 0\n%4 = ge bool %2 %3\n"
                      "%5 = scalar.s1 int64\n%6 = lt bool %2 %5\n%7 = and bool %4 %6\n%8 = not bool %7\n"
                      "%9 = sub int64 %3 %1\n%10 = load.p0 ",
                      type, " %9 %7 +offset +guard\n%11 = sub int64 %3 %0\n%12 = load.p0 ", type,
                      " %11 %8 +offset +guard\n%13 = select ", type, " %7 %10 %12\n%14 = store.p1 ", type,
                      " %13\nouter 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14\n");
}

// A row of which another row's first s1 elements overwrite those from s0 on.
std::string Overwritten(const std::string& type) {
  return absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", type,
                      " r [any,unit] alias=-1\nparam ", type, " r [any,unit] alias=-1\nparam ", type,
                      " w [any,unit] alias=-1\nscalar int64\nscalar int64\n%0 = index.d1 int64\n"
                      "%1 = scalar.s0 int64\n%2 = sub int64 %0 %1\n%3 = const int64 0\n%4 = ge bool %2 %3\n"
                      "%5 = scalar.s1 int64\n%6 = lt bool %2 %5\n%7 = and bool %4 %6\n%8 = sub int64 %3 %1\n"
                      "%9 = load.p0 ",
                      type, " %8 %7 +offset +guard\n%10 = load.p1 ", type, "\n%11 = select ", type,
                      " %7 %9 %10\n%12 = store.p2 ", type, " %11\nouter 0 1 2 3 4 5 6 7 8 9 10 11 12\n");
}

// Returns for each instruction whether it varies along the rows.
std::vector<bool> VaryingIn(const KernelSpec& spec) {
  std::vector<bool> varying;
  for (const KernelInstr& in : spec.instrs) {
    bool v = (in.op == KernelOp::kIndex && in.dim == 1) || in.op == KernelOp::kLoad;
    for (int o : in.operands) v = v || varying[o];
    varying.push_back(v);
  }
  return varying;
}

TEST(InteriorTest, GuardsThatHoldAreGoneAndSoIsWhatOnlyTheEdgesNeed) {
  const KernelSpec spec = ParseOrDie(Shift("float32"));
  const std::optional<Interior> interior = FindInterior(spec, VaryingIn(spec));
  ASSERT_TRUE(interior.has_value());
  ASSERT_EQ(interior->bounds.size(), 2u);
  EXPECT_TRUE(interior->bounds[0].is_lower);
  EXPECT_FALSE(interior->bounds[1].is_lower);
  int loads = 0;
  for (int i : interior->spec.phases[0].instrs) {
    const KernelInstr& in = interior->spec.instrs[i];
    EXPECT_FALSE(in.has_guard);
    loads += in.op == KernelOp::kLoad;
  }
  EXPECT_EQ(loads, 1);
}

TEST(InteriorTest, OutsideOfItOnlyOtherElementsAreRead) {
  const KernelSpec spec = ParseOrDie(Overwritten("float32"));
  const std::optional<Interior> interior = FindInterior(spec, VaryingIn(spec));
  ASSERT_TRUE(interior.has_value());
  ASSERT_TRUE(interior->outside.has_value());
  EXPECT_EQ(interior->outside->phases[0].instrs, (std::vector<int>{10, 12}));
  // Outside of a padding there is nothing to read, and a shift has two guards.
  const KernelSpec shift = ParseOrDie(Shift("float32"));
  EXPECT_FALSE(FindInterior(shift, VaryingIn(shift))->outside.has_value());
  const KernelSpec padding = ParseOrDie(R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
scalar int64
%0 = index.d1 int64
%1 = scalar.s0 int64
%2 = lt bool %0 %1
%3 = load.p0 float32 %2 +guard
%4 = store.p1 float32 %3
outer 0 1 2 3 4
)");
  EXPECT_FALSE(FindInterior(padding, VaryingIn(padding))->outside.has_value());
}

TEST(InteriorTest, RowsPutTogetherFromPartsHaveNone) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
scalar int64
%0 = index.d1 int64
%1 = scalar.s0 int64
%2 = lt bool %0 %1
%3 = load.p0 float32 %2 +guard
%4 = ge bool %0 %1
%5 = load.p1 float32 %4 +guard
%6 = select float32 %4 %5 %3
%7 = store.p2 float32 %6
outer 0 1 2 3 4 5 6 7
)");
  EXPECT_FALSE(FindInterior(spec, VaryingIn(spec)).has_value());
}

TEST(InteriorTest, WhatMaySetTheStatusStays) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param int64 r [any,unit] alias=-1
param int64 w [any,unit] alias=-1
scalar int64
%0 = index.d1 int64
%1 = scalar.s0 int64
%2 = lt bool %0 %1
%3 = load.p0 int64 %2 +guard
%4 = div_floor int64 %1 %0
%5 = select int64 %2 %3 %4
%6 = store.p1 int64 %5
outer 0 1 2 3 4 5 6
)");
  const std::optional<Interior> interior = FindInterior(spec, VaryingIn(spec));
  ASSERT_TRUE(interior.has_value());
  const std::vector<int>& left = interior->spec.phases[0].instrs;
  EXPECT_NE(std::find(left.begin(), left.end(), 4), left.end());
}

class InteriorLoopTest : public testing::TestWithParam<Target> {};

TEST_P(InteriorLoopTest, EqualsTheInterpreterWhereverTheInteriorLies) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float32", "float64", "bfloat16", "uint8"}) {
    RandomCase c;
    c.spec = ParseOrDie(Shift(type));
    absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    // The row's length, and the begin and size of the interior: all but a few elements at the ends, few, all, none.
    for (auto [length, begin, size] : std::vector<std::array<int64_t, 3>>{{70, 3, 64},
                                                                          {70, 0, 70},
                                                                          {70, -2, 68},
                                                                          {70, 40, 10},
                                                                          {1, 0, 1},
                                                                          {5, 1, 3},
                                                                          {17, 1, 15},
                                                                          {300, 1, 297},
                                                                          {300, 5, 0},
                                                                          {300, 290, 10},
                                                                          {1000, 7, 990}}) {
      SCOPED_TRACE(absl::StrCat(type, ": ", size, " of ", length, " from ", begin));
      c.launch = DenseLaunch(c.spec, {5, length}, rng);
      c.launch.scalars = {begin, size};
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
    }
  }
}

TEST_P(InteriorLoopTest, RowsThatAreOverwrittenInPartEqualTheInterpreter) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float32", "float64", "bfloat16", "uint8"}) {
    RandomCase c;
    c.spec = ParseOrDie(Overwritten(type));
    absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    // The row's length, and the begin and size of the part: few elements, many, all, none, outside of the row.
    for (auto [length, begin, size] : std::vector<std::array<int64_t, 3>>{{1000, 0, 1},
                                                                          {1000, 500, 20},
                                                                          {1000, 990, 10},
                                                                          {1000, 300, 0},
                                                                          {1000, 400, -5},
                                                                          {1000, 1000, 5},
                                                                          {1000, 200, 500},
                                                                          {300, 10, 280},
                                                                          {300, -2, 10},
                                                                          {70, 0, 70},
                                                                          {1, 0, 1}}) {
      SCOPED_TRACE(absl::StrCat(type, ": ", size, " of ", length, " from ", begin));
      c.launch = DenseLaunch(c.spec, {5, length}, rng);
      c.launch.scalars = {begin, size};
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, InteriorLoopTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
