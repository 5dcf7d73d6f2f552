#include "smelt/fuser/split_reductions.h"

#include <memory>
#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/fuse_testing.h"

namespace smelt {
namespace {

// The difference of each group of %x from its mean. %x is [2, 8 groups, $0 channels, 64 pixels] with the strides $1.
std::string Centered(int channels, const std::string& strides) {
  return absl::Substitute(R"(graph(%m : Float($2, strides=[1])):
  %dims : int[] = prim::Constant[value=[2, 3]]()
  %keep : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %x : Float(2, 8, $0, 64, strides=[$1]) = smelt::view[sizes=[2, 8, $0, 64], strides=[$1], offset=0, dtype=6](%m)
  %mean : Float(2, 8, 1, 1, strides=[8, 1, 1, 1]) = aten::mean.dim(%x, %dims, %keep, %none)
  %c : Float(2, 8, $0, 64, strides=[$3, $4, 64, 1]) = aten::sub.Tensor(%x, %mean, %one)
  %z : Float(2, 8, $0, 64, strides=[$3, $4, 64, 1]) = aten::mul.Tensor(%c, %c)
  return (%z)
)",
                          channels, strides, 2 * 8 * channels * 64, 8 * channels * 64, channels * 64);
}

int Splits(const std::string& text) { return SplitReductions(*ParseOrFail(text)); }

TEST(SplitReductions, AMeanOverShortRowsInMemoryIsOneOfMeans) {
  const std::string text = Centered(4, "2048, 4, 1, 32");
  EXPECT_EQ(Splits(text), 1);
  // The numbers are the same, and each group's number is stored once per channel.
  Fused f = FuseText(text, 1e-5f);
  int stored = 0;
  for (NodeId n : f.graph->AllNodes()) stored += f.graph->node(n).op == "aten::repeat";
  EXPECT_EQ(stored, 1);
}

// A value of a branch does not exist after the branch.
TEST(SplitReductions, WhatABranchReadsRepeatedIsRepeatedInIt) {
  const std::string text = absl::StrReplaceAll(Centered(4, "2048, 4, 1, 32"), {{"graph(", "graph(%p : bool, "},
                                                                               {"  %c : ", R"(
  %b : Float(2, 8, 4, 64, strides=[2048, 256, 64, 1]) = prim::If(%p)
    block0():
      %t : Float(2, 8, 4, 64, strides=[2048, 256, 64, 1]) = aten::mul.Tensor(%x, %mean)
      -> (%t)
    block1():
      %e : Float(2, 8, 4, 64, strides=[2048, 256, 64, 1]) = aten::add.Tensor(%x, %mean, %one)
      -> (%e)
  %c : )"},
                                                                               {"return (%z)", "return (%z, %b)"}});
  std::unique_ptr<Graph> g = ParseOrFail(text);
  EXPECT_EQ(SplitReductions(*g), 1);
  EXPECT_EQ(VerifyGraph(*g), absl::OkStatus()) << PrintGraph(*g);
}

TEST(SplitReductions, OfTwoGroupsToo) {
  EXPECT_EQ(Splits(absl::StrReplaceAll(Centered(4, "512, 4, 1, 8"), {{"Float(2, 8, ", "Float(2, 2, "}})), 1);
}

TEST(SplitReductions, AMeanOverLongRowsStays) { EXPECT_EQ(Splits(Centered(32, "16384, 32, 1, 256")), 0); }

TEST(SplitReductions, SoDoesOneWhoseRowsLieInOnePiece) { EXPECT_EQ(Splits(Centered(4, "2048, 256, 64, 1")), 0); }

}  // namespace
}  // namespace smelt
