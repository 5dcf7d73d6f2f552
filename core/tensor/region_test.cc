#include "smelt/core/tensor/region.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

Expr E(absl::string_view text) { return Expr::Parse(text).value(); }
std::vector<Expr> List(std::vector<const char*> texts) {
  std::vector<Expr> out;
  for (const char* t : texts) out.push_back(E(t));
  return out;
}
Region Make(const char* offset, std::vector<const char*> sizes, std::vector<const char*> strides, int item_bytes = 4) {
  return Region::Strided(E(offset), List(sizes), List(strides), item_bytes);
}

class RegionTest : public testing::Test {
 protected:
  RegionTest() {
    ranges_.Set("b", {2, SymbolRanges::kInfinity});
    ranges_.Set("n", {2, SymbolRanges::kInfinity});
    ranges_.Set("c", {4, 64});
  }
  Overlap Ask(const Region& a, const Region& b) {
    const Overlap one = Compare(a, b, ranges_), other = Compare(b, a, ranges_);
    EXPECT_EQ(Name(one), Name(other)) << a.ToString() << " " << b.ToString();
    return one;
  }
  SymbolRanges ranges_;
};

TEST_F(RegionTest, RowsOffByOneFullStrideShareAllButOneRow) {
  // TorchScript's overlap test calls these disjoint.
  EXPECT_EQ(OverlapsConcrete({{4, 4}, {9, 1}, 0}, 4, {{4, 4}, {9, 1}, 9}, 4), Overlap::kSome);
  EXPECT_EQ(Ask(Make("0", {"4", "4"}, {"9", "1"}), Make("9", {"4", "4"}, {"9", "1"})), Overlap::kSome);
}

TEST_F(RegionTest, HalvesOfRowsAreDisjointWhateverTheNumberOfRows) {
  EXPECT_EQ(Ask(Make("0", {"b", "4"}, {"8", "1"}), Make("4", {"b", "4"}, {"8", "1"})), Overlap::kDisjoint);
  EXPECT_EQ(Ask(Make("0", {"b", "5"}, {"8", "1"}), Make("4", {"b", "4"}, {"8", "1"})), Overlap::kSome);
  EXPECT_EQ(Ask(Make("0", {"b", "n"}, {"2*n", "1"}), Make("n", {"b", "n"}, {"2*n", "1"})), Overlap::kDisjoint);
}

TEST_F(RegionTest, EvenAndOddColumnsAreDisjoint) {
  EXPECT_EQ(Ask(Make("0", {"b", "n"}, {"2*n", "2"}), Make("1", {"b", "n"}, {"2*n", "2"})), Overlap::kDisjoint);
}

TEST_F(RegionTest, WhatWasAndWhatIsAppendedToACacheAreDisjoint) {
  EXPECT_EQ(Ask(Make("0", {"n", "64"}, {"64", "1"}), Make("64*n", {"1", "64"}, {"64", "1"})), Overlap::kDisjoint);
  EXPECT_EQ(Ask(Make("0", {"n", "64"}, {"64", "1"}), Make("64*n - 64", {"1", "64"}, {"64", "1"})), Overlap::kSome);
  // With heads outermost: [8, c, 64], rows [0, n) of each head against row n, for n < c.
  EXPECT_EQ(Ask(Make("0", {"8", "3", "64"}, {"64*c", "64", "1"}), Make("192", {"8", "1", "64"}, {"64*c", "64", "1"})),
            Overlap::kDisjoint);
}

TEST_F(RegionTest, ARowOfASymbolicMatrixMeetsItsColumn) {
  EXPECT_EQ(Ask(Make("0", {"n"}, {"1"}), Make("0", {"b"}, {"n"})), Overlap::kSome);
  EXPECT_EQ(Ask(Make("0", {"n"}, {"1"}), Make("n", {"b - 1"}, {"n"})), Overlap::kDisjoint);
}

TEST_F(RegionTest, SameUpToDimsOfSizeOne) {
  EXPECT_EQ(Ask(Make("3", {"b", "n"}, {"n", "1"}), Make("3", {"b", "1", "n"}, {"n", "7", "1"})), Overlap::kSame);
  EXPECT_EQ(OverlapsConcrete({{4}, {2}, 1}, 4, {{1, 4, 1}, {9, 2, 9}, 1}, 4), Overlap::kSame);
  EXPECT_EQ(OverlapsConcrete({{2, 3}, {3, 1}, 0}, 4, {{6}, {1}, 0}, 4), Overlap::kSome);  // not index by index
  EXPECT_EQ(OverlapsConcrete({{4}, {1}, 1}, 4, {{4}, {1}, 1}, 2), Overlap::kSome);
}

TEST_F(RegionTest, WhatDependsOnASymbolIsUnknown) {
  EXPECT_EQ(Ask(Make("0", {"n"}, {"1"}), Make("b", {"4"}, {"1"})), Overlap::kUnknown);
  EXPECT_EQ(Ask(Make("0", {"n"}, {"s"}), Make("1", {"4"}, {"1"})), Overlap::kUnknown);
  SymbolRanges maybe_empty;  // m may be 0
  EXPECT_EQ(Compare(Make("0", {"m"}, {"1"}), Make("0", {"4"}, {"1"}), maybe_empty), Overlap::kUnknown);
  EXPECT_EQ(Compare(Make("0", {"m"}, {"1"}), Make("m", {"4"}, {"1"}), maybe_empty), Overlap::kDisjoint);
  EXPECT_EQ(Compare(Make("poison", {"4"}, {"1"}), Make("poison", {"4"}, {"1"}), maybe_empty), Overlap::kUnknown);
}

TEST_F(RegionTest, EmptyRegionsShareNothing) {
  EXPECT_EQ(OverlapsConcrete({{0, 4}, {4, 1}, 0}, 4, {{0, 4}, {4, 1}, 0}, 4), Overlap::kDisjoint);
  EXPECT_EQ(Ask(Make("0", {"n", "0"}, {"4", "1"}), Make("0", {"n", "4"}, {"4", "1"})), Overlap::kDisjoint);
}

TEST_F(RegionTest, ItemsOfDifferentSizesAreComparedByBytes) {
  // Bytes 4..8 and the second complex64's real half.
  EXPECT_EQ(OverlapsConcrete({{1}, {1}, 1}, 4, {{1}, {1}, 1}, 8), Overlap::kDisjoint);
  EXPECT_EQ(OverlapsConcrete({{1}, {1}, 2}, 4, {{1}, {1}, 1}, 8), Overlap::kSome);
  EXPECT_EQ(OverlapsConcrete({{4}, {4}, 3}, 1, {{4}, {2}, 0}, 2), Overlap::kDisjoint);
  EXPECT_EQ(Ask(Make("2*n", {"4"}, {"1"}, 4), Make("n - 1", {"1"}, {"1"}, 8)), Overlap::kDisjoint);
}

TEST_F(RegionTest, SelfOverlap) {
  EXPECT_EQ(SelfOverlap({{4, 4}, {4, 1}, 0}), false);
  EXPECT_EQ(SelfOverlap({{4, 4}, {0, 1}, 0}), true);
  EXPECT_EQ(SelfOverlap({{4, 3}, {1, 1}, 0}), true);   // unfold(0, 3, 1)
  EXPECT_EQ(SelfOverlap({{3, 3}, {3, 5}, 0}), false);  // 3*i = 5*j has no solution that small
  EXPECT_EQ(SelfOverlap({{6, 4}, {3, 5}, 0}), true);
  EXPECT_EQ(Make("0", {"b", "n"}, {"n", "1"}).OverlapsItself(ranges_), false);
  EXPECT_EQ(Make("0", {"b", "n"}, {"0", "1"}).OverlapsItself(ranges_), true);
  EXPECT_EQ(Make("0", {"b", "n"}, {"1", "1"}).OverlapsItself(ranges_), true);
  EXPECT_EQ(Make("0", {"b", "n"}, {"n - 1", "1"}).OverlapsItself(ranges_), std::nullopt);
}

TEST_F(RegionTest, CoversWhatIsSlicedOutOfIt) {
  const Region whole = Make("0", {"b", "n", "8"}, {"8*n", "8", "1"});
  EXPECT_TRUE(Covers(whole, Make("8", {"b", "n - 1", "4"}, {"8*n", "8", "2"}), ranges_));
  EXPECT_TRUE(Covers(whole, Make("0", {"8", "b*n"}, {"1", "8"}), ranges_));
  EXPECT_TRUE(Covers(whole, Make("3", {"8*b*n"}, {"2"}, 2), ranges_) == false);  // reaches one item too far
  EXPECT_FALSE(Covers(whole, Make("8", {"b", "n", "8"}, {"8*n", "8", "1"}), ranges_));
  EXPECT_FALSE(Covers(Make("0", {"b", "4"}, {"8", "1"}), Make("0", {"b", "5"}, {"8", "1"}), ranges_));
  EXPECT_TRUE(Covers(Make("0", {"b", "5"}, {"8", "1"}), Make("1", {"b", "4"}, {"8", "1"}), ranges_));
  EXPECT_TRUE(CoversConcrete({{1000, 1000}, {1000, 1}, 0}, 4, {{1000, 500}, {1000, 2}, 1}, 4));
  EXPECT_TRUE(CoversConcrete({{1000, 900}, {1000, 1}, 0}, 4, {{500, 400}, {2000, 2}, 1}, 4));
  EXPECT_FALSE(CoversConcrete({{1000, 900}, {1000, 1}, 0}, 4, {{500, 400}, {2000, 2}, 105}, 4));
}

TEST_F(RegionTest, HugeNumbersAreUnknownNotWrong) {
  const int64_t big = int64_t{1} << 61;
  EXPECT_EQ(OverlapsConcrete({{4}, {big}, 0}, 8, {{4}, {1}, 9}, 8), Overlap::kUnknown);
  EXPECT_EQ(OverlapsConcrete({{2}, {INT64_MIN}, 0}, 4, {{4}, {1}, 9}, 4), Overlap::kUnknown);
  EXPECT_EQ(OverlapsConcrete({{9}, {1}, INT64_MAX}, 4, {{4}, {1}, INT64_MAX}, 4), Overlap::kUnknown);
  EXPECT_TRUE(OverlapsItselfConcrete({{INT64_MAX, INT64_MAX}, {3, 5}, 0}));
}

TEST_F(RegionTest, Prints) {
  EXPECT_EQ(Make("0", {"4", "4"}, {"9", "1"}).ToString(), "[0 : 4*9 x 4*1] f4");
  EXPECT_EQ(Make("n + 1", {"n - 1"}, {"2*n"}, 8).ToString(), "[n + 1 : (n - 1)*(2*n)] f8");
}

}  // namespace
}  // namespace smelt
