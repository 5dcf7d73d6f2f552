#include "smelt/fuser/fuse.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/move_reshapes.h"
#include "smelt/fuser/run_kernels.h"
#include "smelt/fuser/verify_fusion_plan.h"

namespace smelt {
namespace {

TEST(Fuse, AResultThatIsReducedThroughATransposedViewIsStoredByTheSameKernel) {
  // The kernel has the view's loops; the result, which is transposed relative to them, is also an output.
  Fused f = FuseText(R"(graph(%x : Float(6, 4, strides=[1, 6])):
  %r : Float(6, 4, strides=[1, 6]) = aten::relu(%x)
  %t : Float(4, 6, strides=[6, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 6), strides=exprs(6, 1)](%r)
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %s : Float(4, strides=[1]) = aten::sum.dim_IntList(%t, %d, %k, %n)
  return (%r, %s)
)");
  EXPECT_EQ(f.groups(), std::vector<std::string>{"relu_sum"});
}

TEST(Fuse, AChainOfPointwiseNodesIsOneKernel) {
  Fused f =
      FuseText(R"(graph(%a : Float(4, 6, strides=[6, 1]), %b : Float(6, strides=[1]), %c : Float(4, 6, strides=[6, 1])):
  %one : int = prim::Constant[value=1]()
  %p : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%a, %b)
  %s : Float(4, 6, strides=[6, 1]) = aten::add.Tensor(%p, %c, %one)
  %t : Float(4, 6, strides=[6, 1]) = aten::tanh(%s)
  %g : Float(4, 6, strides=[6, 1]) = aten::sigmoid(%a)
  %z : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%t, %g)
  return (%z)
)");
  EXPECT_EQ(f.groups(), (std::vector<std::string>{"mul_add_tanh_sigmoid_mul"})) << f.Edges();
  EXPECT_EQ(f.specs.size(), 1);
}

TEST(Fuse, AChainThatReadsEachStepAtTwoIndicesIsNotComputedAnewForEach) {
  // A scan by doubling, as written in programs. In one kernel, 5 steps would compute the first step 32 times.
  std::string text = "graph(%x0 : Float(4, 64, strides=[64, 1])):\n  %one : int = prim::Constant[value=1]()\n";
  for (int k = 0, shift = 1; k < 5; ++k, shift *= 2) {
    const std::string from = absl::StrCat("%x", k), n = absl::StrCat(k), rest = absl::StrCat(64 - shift);
    absl::StrAppend(&text, "  %f", n, " : Float(4, ", shift, ", strides=[64, 1]) = smelt::view[dtype=6, ",
                    "offset=expr(0), sizes=exprs(4, ", shift, "), strides=exprs(64, 1)](", from, ")\n");
    absl::StrAppend(&text, "  %s", n, " : Float(4, ", rest, ", strides=[64, 1]) = smelt::view[dtype=6, ",
                    "offset=expr(0), sizes=exprs(4, ", rest, "), strides=exprs(64, 1)](", from, ")\n");
    absl::StrAppend(&text, "  %l", n, " : Tensor[] = prim::ListConstruct(%f", n, ", %s", n, ")\n");
    absl::StrAppend(&text, "  %c", n, " : Float(4, 64, strides=[64, 1]) = aten::cat(%l", n, ", %one)\n");
    absl::StrAppend(&text, "  %h", n, " : Float(4, 64, strides=[64, 1]) = aten::hypot(%c", n, ", ", from, ")\n");
    absl::StrAppend(&text, "  %x", k + 1, " : Float(4, 64, strides=[64, 1]) = aten::tanh(%h", n, ")\n");
  }
  Fused f = FuseText(text + "  return (%x5)\n");
  EXPECT_GE(f.specs.size(), 3) << f.Edges();
  EXPECT_NE(f.Edges().find("computed again for each"), std::string::npos) << f.Edges();
}

TEST(Fuse, StepsThatReadOneOperandAreNoSiblingsWhereTheyReadEachOtherElsewhere) {
  // Each step multiplies by the same factor and adds the previous step with its halves exchanged. In one kernel, 8
  // steps would need 3 to the power of 8 copies of the first step's code.
  std::string text = R"(graph(%x0 : Float(4, 8, strides=[8, 1]), %w : Float(4, 8, strides=[8, 1])):
  %one : int = prim::Constant[value=1]()
)";
  for (int k = 0; k < 8; ++k) {
    absl::StrAppend(&text, absl::Substitute(R"(
  %a$0 : Float(4, 4, strides=[8, 1]) = smelt::view[dtype=6, offset=expr(4), sizes=exprs(4, 4), strides=exprs(8, 1)](%x$0)
  %b$0 : Float(4, 4, strides=[8, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 4), strides=exprs(8, 1)](%x$0)
  %l$0 : Tensor[] = prim::ListConstruct(%a$0, %b$0)
  %m$0 : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%x$0, %w)
  %c$0 : Float(4, 8, strides=[8, 1]) = aten::cat(%l$0, %one)
  %x$1 : Float(4, 8, strides=[8, 1]) = aten::add.Tensor(%m$0, %c$0, %one)
)",
                                            k, k + 1));
  }
  Fused f = FuseText(text + "  return (%x8)\n");
  EXPECT_GE(f.specs.size(), 2) << f.Edges();
  for (const std::string& spec : f.specs) EXPECT_LT(std::count(spec.begin(), spec.end(), '\n'), 1000);
}

TEST(Fuse, HalfPrecisionRoundsWhereEachKernelDid) {
  Fused f = FuseText(R"(graph(%a : BFloat16(64, strides=[1]), %b : BFloat16(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %s : BFloat16(64, strides=[1]) = aten::add.Tensor(%a, %b, %one)
  %z : BFloat16(64, strides=[1]) = aten::mul.Tensor(%s, %b)
  return (%z)
)");
  EXPECT_EQ(f.specs.size(), 1);
}

TEST(Fuse, WhatARowTakesManyRoundingsToComputeIsKeptForItsNextPass) {
  Fused f = FuseText(R"(graph(%x : BFloat16(4, 64, strides=[64, 1]), %a : BFloat16(4, 64, strides=[64, 1])):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %p : BFloat16(4, 64, strides=[64, 1]) = aten::mul.Tensor(%x, %a)
  %q : BFloat16(4, 64, strides=[64, 1]) = aten::add.Tensor(%p, %a, %one)
  %r : BFloat16(4, 64, strides=[64, 1]) = aten::mul.Tensor(%q, %x)
  %m : BFloat16(4, 1, strides=[1, 1]) = aten::amax(%r, %d, %k)
  %z : BFloat16(4, 64, strides=[64, 1]) = aten::sub.Tensor(%r, %m, %one)
  return (%z)
)");
  ASSERT_EQ(f.specs.size(), 1) << f.Edges();
  // The factors are loaded only for the first pass; the second reads the values that it stored in the result's row.
  const std::string& spec = f.specs[0];
  const size_t first = spec.find("store.p");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(spec.find("store.p", first + 1), std::string::npos) << spec;
  size_t products = 0;
  for (size_t at = spec.find("= mul "); at != std::string::npos; at = spec.find("= mul ", at + 1)) ++products;
  EXPECT_EQ(products, 2) << spec;
}

// The decomposition of softmax.
TEST(Fuse, SoftmaxIsOneKernelARow) {
  Fused f = FuseText(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %m : Float(4, 1, strides=[1, 1]) = aten::amax(%x, %d, %k)
  %c : Float(4, 16, strides=[16, 1]) = aten::sub.Tensor(%x, %m, %one)
  %e : Float(4, 16, strides=[16, 1]) = aten::exp(%c)
  %s : Float(4, 1, strides=[1, 1]) = aten::sum.dim_IntList(%e, %d, %k, %n)
  %z : Float(4, 16, strides=[16, 1]) = aten::div.Tensor(%e, %s)
  return (%z)
)");
  ASSERT_EQ(f.specs.size(), 1) << f.Edges();
  // The exponentials are computed once, stored in the result's row, and read again for the division.
  const std::string& spec = f.specs[0];
  const size_t once = spec.find(" = exp ");
  EXPECT_NE(once, std::string::npos) << spec;
  EXPECT_EQ(spec.find(" = exp ", once + 1), std::string::npos) << spec;
}

TEST(Fuse, LayerNormWithResidualIsOneKernelARow) {
  Fused f = FuseText(
      R"(graph(%x : Float(4, 16, strides=[16, 1]), %r : Float(4, 16, strides=[16, 1]), %w : Float(16, strides=[1]), %b : Float(16, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %eps : float = prim::Constant[value=1e-05]()
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %h : Float(4, 16, strides=[16, 1]) = aten::add.Tensor(%x, %r, %one)
  %m : Float(4, 1, strides=[1, 1]) = aten::mean.dim(%h, %d, %k, %n)
  %c : Float(4, 16, strides=[16, 1]) = aten::sub.Tensor(%h, %m, %one)
  %q : Float(4, 16, strides=[16, 1]) = aten::mul.Tensor(%c, %c)
  %v : Float(4, 1, strides=[1, 1]) = aten::mean.dim(%q, %d, %k, %n)
  %ve : Float(4, 1, strides=[1, 1]) = aten::add.Scalar(%v, %eps, %one)
  %i : Float(4, 1, strides=[1, 1]) = aten::rsqrt(%ve)
  %y : Float(4, 16, strides=[16, 1]) = aten::mul.Tensor(%c, %i)
  %yw : Float(4, 16, strides=[16, 1]) = aten::mul.Tensor(%y, %w)
  %z : Float(4, 16, strides=[16, 1]) = aten::add.Tensor(%yw, %b, %one)
  return (%z, %h)
)");
  EXPECT_EQ(f.specs.size(), 1) << f.Edges();
}

TEST(Fuse, AReductionWithoutKeepdimIsUnsqueezedInsideTheKernel) {
  Fused f = FuseText(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %m : Float(4, strides=[1]) = aten::amax(%x, %d, %k)
  %u : Float(4, 1, strides=[1, 1]) = smelt::view[sizes=[4, 1], strides=[1, 1], offset=0, dtype=6](%m)
  %z : Float(4, 16, strides=[16, 1]) = aten::div.Tensor(%x, %u)
  return (%z, %m)
)");
  EXPECT_EQ(f.specs.size(), 1) << f.Edges();
}

TEST(Fuse, ReductionsOverDifferentDimsAreTwoKernels) {
  Fused f = FuseText(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d0 : int[] = prim::Constant[value=[0]]()
  %d1 : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %e : Float(4, 16, strides=[16, 1]) = aten::exp(%x)
  %a : Float(1, 16, strides=[16, 1]) = aten::sum.dim_IntList(%e, %d0, %k, %n)
  %b : Float(4, 1, strides=[1, 1]) = aten::sum.dim_IntList(%e, %d1, %k, %n)
  return (%a, %b)
)");
  EXPECT_EQ(f.specs.size(), 2) << f.Edges();
}

TEST(Fuse, ALibraryCallEndsAKernel) {
  Fused f = FuseText(R"(graph(%x : Float(4, 4, strides=[4, 1]), %w : Float(4, 4, strides=[4, 1])):
  %a : Float(4, 4, strides=[4, 1]) = aten::tanh(%x)
  %b : Float(4, 4, strides=[4, 1]) = aten::neg(%a)
  %m : Float(4, 4, strides=[4, 1]) = aten::mm(%b, %w)
  %c : Float(4, 4, strides=[4, 1]) = aten::mul.Tensor(%m, %a)
  %d : Float(4, 4, strides=[4, 1]) = aten::neg(%c)
  return (%d)
)");
  EXPECT_EQ(f.groups(), (std::vector<std::string>{"tanh_neg", "mul_neg"})) << f.Edges();
}

TEST(Fuse, SiblingsThatReadOneOperandAreOneKernelWithSeveralResults) {
  Fused f = FuseText(R"(graph(%x : Float(4, 6, strides=[6, 1]), %b : Float(6, strides=[1])):
  %p : Float(4, 6, strides=[6, 1]) = aten::relu(%x)
  %q : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%x, %b)
  %r : Float(4, 6, strides=[6, 1]) = aten::neg(%q)
  %s : Float(6, strides=[1]) = aten::neg(%b)
  return (%p, %r, %s)
)");
  // %s has another loop.
  EXPECT_EQ(f.groups(), std::vector<std::string>{"relu_mul_neg"}) << f.Edges();
  EXPECT_EQ(f.specs.size(), 2) << f.Edges();
}

TEST(Fuse, EqualLoopsWithoutACommonOperandAreOneKernelWhereFewLaunchesAreWanted) {
  const std::string text = R"(graph(%x : Float(4, 6, strides=[6, 1]), %y : Float(4, 6, strides=[6, 1])):
  %p : Float(4, 6, strides=[6, 1]) = aten::relu(%x)
  %q : Float(4, 6, strides=[6, 1]) = aten::neg(%y)
  return (%p, %q)
)";
  EXPECT_EQ(FuseText(text).specs.size(), 2);
  EXPECT_EQ(FuseText(text, /*tolerance=*/0, /*few_launches=*/true).specs.size(), 1);
}

TEST(Fuse, WhatCostsLessThanALaunchIsComputedAgainWhereFewLaunchesAreWanted) {
  const std::string text = R"(graph(%x : Float(6, strides=[1]), %y : Float(4, 6, strides=[6, 1])):
  %a : Float(6, strides=[1]) = aten::tanh(%x)
  %b : Float(6, strides=[1]) = aten::sigmoid(%a)
  %c : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%y, %b)
  return (%c)
)";
  EXPECT_EQ(FuseText(text).specs.size(), 2);
  EXPECT_EQ(FuseText(text, /*tolerance=*/0, /*few_launches=*/true).specs.size(), 1);
}

TEST(Fuse, ReductionsOfOneOperandAreOneKernelWithSeveralResults) {
  Fused f = FuseText(R"(graph(%x : Float(4, 6, strides=[6, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %f : bool = prim::Constant[value=False]()
  %n : NoneType = prim::Constant()
  %s : Float(4, strides=[1]) = aten::sum.dim_IntList(%x, %d, %f, %n)
  %m : Float(4, strides=[1]) = aten::amax(%x, %d, %f)
  %q : Float(4, 6, strides=[6, 1]) = aten::mul.Tensor(%x, %x)
  %v : Float(4, strides=[1]) = aten::mean.dim(%q, %d, %f, %n)
  return (%s, %m, %v)
)");
  EXPECT_EQ(f.specs.size(), 1) << f.Edges();
}

TEST(Fuse, AReductionAndWhatIsComputedOfEachElementAreOneKernelUnlessFewRowsAreAllThereIs) {
  auto text = [](int rows, int columns) {
    return absl::StrReplaceAll(R"(graph(%x : Float(ROWS, COLUMNS, strides=[COLUMNS, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %f : bool = prim::Constant[value=False]()
  %n : NoneType = prim::Constant()
  %p : Float(ROWS, COLUMNS, strides=[COLUMNS, 1]) = aten::relu(%x)
  %s : Float(ROWS, strides=[1]) = aten::sum.dim_IntList(%x, %d, %f, %n)
  return (%p, %s)
)",
                               {{"ROWS", absl::StrCat(rows)}, {"COLUMNS", absl::StrCat(columns)}});
  };
  EXPECT_EQ(FuseText(text(64, 100000)).specs.size(), 1);
  EXPECT_EQ(FuseText(text(2, 100)).specs.size(), 1);
  EXPECT_GT(FuseText(text(2, 100000)).specs.size(), 1);
}

TEST(Fuse, ReductionsOfOneOperandAlongOtherDimsAreTwoKernels) {
  Fused f = FuseText(R"(graph(%x : Float(5, 5, strides=[5, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %e : int[] = prim::Constant[value=[0]]()
  %f : bool = prim::Constant[value=False]()
  %s : Float(5, strides=[1]) = aten::amin(%x, %d, %f)
  %m : Float(5, strides=[1]) = aten::amax(%x, %e, %f)
  return (%s, %m)
)");
  EXPECT_EQ(f.specs.size(), 2) << f.Edges();
}

TEST(Fuse, SiblingsMeetWhateverReadsTheirOperandBetweenThem) {
  const char kGraph[] = R"(graph(%x : Float(4, 6, strides=[6, 1]), %y : Float(4, 6, strides=[6, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %f : bool = prim::Constant[value=False]()
  $0  $1  $2  %m : Float(4, strides=[1]) = aten::amax(%q, %d, %f)
  return (%p, %m, %r)
)";
  const std::string p = "%p : Float(4, 6, strides=[6, 1]) = aten::relu(%x)\n",
                    q = "%q : Float(4, 6, strides=[6, 1]) = aten::div.Tensor(%y, %x)\n",
                    r = "%r : Float(4, 6, strides=[6, 1]) = aten::neg(%x)\n";
  for (const std::string& text : {absl::Substitute(kGraph, p, q, r), absl::Substitute(kGraph, q, r, p),
                                  absl::Substitute(kGraph, r, p, q), absl::Substitute(kGraph, r, q, p)}) {
    Fused f = FuseText(text);
    EXPECT_EQ(f.specs.size(), 1) << text << f.Edges();
  }
}

TEST(Fuse, SiblingsBetweenWhichALibraryCallStandsAreTwoKernels) {
  Fused f = FuseText(R"(graph(%x : Float(4, 4, strides=[4, 1])):
  %p : Float(4, 4, strides=[4, 1]) = aten::relu(%x)
  %m : Float(4, 4, strides=[4, 1]) = aten::mm(%p, %p)
  %q : Float(4, 4, strides=[4, 1]) = aten::mul.Tensor(%m, %x)
  return (%q)
)");
  EXPECT_EQ(f.specs.size(), 2) << f.Edges();
}

TEST(Fuse, WhyAPartOfAListWasFusedOrNotIsSaidOfThatPart) {
  Fused f = FuseText(R"(graph(%x : Float(4, 3, strides=[3, 1]), %y : Float(4, 3, strides=[3, 1])):
  %dim : int = prim::Constant[value=1]()
  %p : Float(4, 3, strides=[3, 1]) = aten::tanh(%x)
  %q : Float(4, 3, strides=[3, 1]) = aten::neg(%y)
  %l : Tensor[] = prim::ListConstruct(%p, %q)
  %c : Float(4, 6, strides=[6, 1]) = aten::cat(%l, %dim)
  %z : Float(4, 6, strides=[6, 1]) = aten::relu(%c)
  return (%z)
)");
  EXPECT_NE(f.Edges().find("%p -> aten::cat %c: not fused, it would be computed again"), std::string::npos)
      << f.Edges();
  EXPECT_NE(f.Edges().find("%q -> aten::cat %c: fused, computed where it is read"), std::string::npos) << f.Edges();
}

TEST(Fuse, ChunksOfASumAreComputedWhereTheyAreRead) {
  Fused f = FuseText(R"(graph(%x : Float(3, 8, strides=[8, 1]), %y : Float(3, 8, strides=[8, 1])):
  %one : int = prim::Constant[value=1]()
  %s : Float(3, 8, strides=[8, 1]) = aten::add.Tensor(%x, %y, %one)
  %a : Float(3, 4, strides=[8, 1]) = smelt::view[sizes=[3, 4], strides=[8, 1], offset=0, dtype=6](%s)
  %b : Float(3, 4, strides=[8, 1]) = smelt::view[sizes=[3, 4], strides=[8, 1], offset=4, dtype=6](%s)
  %t : Float(3, 4, strides=[4, 1]) = aten::sigmoid(%a)
  %u : Float(3, 4, strides=[4, 1]) = aten::tanh(%b)
  %z : Float(3, 4, strides=[4, 1]) = aten::mul.Tensor(%t, %u)
  return (%z)
)");
  EXPECT_EQ(f.specs.size(), 1) << f.Edges();
}

TEST(Fuse, ARowThatIsCheapIsComputedInsideTheBroadcastLoop) {
  Fused f = FuseText(R"(graph(%x : Float(3, 8, strides=[8, 1]), %w : Float(8, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %v : Float(8, strides=[1]) = aten::add.Scalar(%w, %one, %one)
  %z : Float(3, 8, strides=[8, 1]) = aten::mul.Tensor(%x, %v)
  return (%z)
)");
  EXPECT_EQ(f.specs.size(), 1) << f.Edges();
}

TEST(Fuse, ARowThatIsCostlyIsNotComputedAgainForEachRow) {
  Fused f = FuseText(R"(graph(%x : Float(3, 8, strides=[8, 1]), %w : Float(8, strides=[1])):
  %v : Float(8, strides=[1]) = aten::exp(%w)
  %z : Float(3, 8, strides=[8, 1]) = aten::mul.Tensor(%x, %v)
  return (%z)
)");
  EXPECT_EQ(f.specs.size(), 2) << f.Edges();
}

TEST(Fuse, AColumnThatIsCostlyIsNotComputedAgainForEachRowOfAReduction) {
  const std::string text = R"(graph(%x : Float(4, 8, strides=[8, 1]), %v : Float(8, strides=[1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %e : Float(8, strides=[1]) = aten::exp(%v)
  %c : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%x, %e)
  %s : Float(4, 1, strides=[1, 1]) = aten::sum.dim_IntList(%c, %d, %k, %n)
  %z : Float(4, 8, strides=[8, 1]) = aten::div.Tensor(%c, %s)
  return (%z)
)";
  EXPECT_EQ(FuseText(text).specs.size(), 2) << FuseText(text).Edges();
}

// x[8] of a few additions beside y[4, 8]: its kernel would store it for each row to read.
TEST(Fuse, CheapFunctionOfABroadcastOperandIsComputedForEachUse) {
  for (const char* call :
       {"aten::relu(%v)", "aten::square(%v)", "aten::floor(%v)", "aten::ceil(%v)", "aten::trunc(%v)", "aten::sign(%v)",
        "aten::relu6(%v)", "aten::hardtanh(%v, %low, %high)", "aten::leaky_relu(%v, %low)", "aten::fmax(%v, %u)"}) {
    const std::string text = absl::StrCat(R"(graph(%x : Float(4, 8, strides=[8, 1]), %v : Float(8, strides=[1]),
      %u : Float(8, strides=[1])):
  %low : float = prim::Constant[value=-0.5]()
  %high : float = prim::Constant[value=0.5]()
  %a : Float(8, strides=[1]) = )",
                                          call, R"(
  %y : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%x, %a)
  return (%y)
)");
    EXPECT_EQ(FuseText(text).specs.size(), 1) << call << "\n" << FuseText(text).Edges();
  }
}

// The message of each edge appears once, regardless of which steps of the pass considered it.
TEST(Fuse, EveryEdgeIsExplained) {
  Fused f =
      FuseText(R"(graph(%x : Float(4, 8, strides=[8, 1]), %w : Float(8, 8, strides=[8, 1]), %v : Float(8, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %a : Float(4, 8, strides=[8, 1]) = aten::tanh(%x)
  %m : Float(4, 8, strides=[8, 1]) = aten::mm(%a, %w)
  %b : Float(4, 8, strides=[8, 1]) = aten::add.Tensor(%m, %a, %one)
  %e : Float(8, strides=[1]) = aten::exp(%v)
  %c : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%b, %e)
  %s : Float(4, 1, strides=[1, 1]) = aten::sum.dim_IntList(%c, %d, %k, %n)
  %z : Float(4, 8, strides=[8, 1]) = aten::div.Tensor(%c, %s)
  return (%z)
)");
  EXPECT_EQ(
      f.Edges(),
      "aten::tanh %a -> aten::mm %m: not fused, a library call, a random draw or control flow reads it too, so it "
      "is stored anyway\n"
      "aten::mm %m -> aten::add.Tensor %b: not fused, the producer is a library call; where the two go by the same "
      "elements, the kernel is its epilogue\n"
      "aten::tanh %a -> aten::add.Tensor %b: not fused, aten::mm %m, between the two, needs the one and is needed "
      "by the other\n"
      "aten::add.Tensor %b -> aten::mul.Tensor %c: fused, the same loop\n"
      "aten::exp %e -> aten::mul.Tensor %c: not fused, it would be computed again for each use, which costs more "
      "than reading it\n"
      "aten::mul.Tensor %c -> aten::sum.dim_IntList %s: fused, the same loop\n"
      "aten::mul.Tensor %c -> aten::div.Tensor %z: fused, one kernel a row\n"
      "aten::sum.dim_IntList %s -> aten::div.Tensor %z: fused, already in one kernel by another edge\n");
}

TEST(Fuse, ARegionWriteIsTheStoreOfTheKernelThatMakesItsValue) {
  Fused f = FuseText(R"(graph(%x : Float(4, 5, strides=[5, 1]), %y : Float(4, strides=[1])):
  %three : int = prim::Constant[value=3]()
  %one : int = prim::Constant[value=1]()
  %a : Float(4, 5, strides=[5, 1]) = aten::add.Scalar(%x, %three, %one)
  %v : Float(4, strides=[1]) = aten::neg(%y)
  %w : Float(4, 5, strides=[5, 1]) = smelt::write_region[sizes=[4], strides=[5], offset=0, dtype=6](%a, %v)
  return (%w)
)");
  EXPECT_EQ(f.groups(), (std::vector<std::string>{"neg_write_region"})) << f.Edges();
}

TEST(Fuse, PartsOfAListAreOneKernelWhoseSizesAreReadBetweenThem) {
  Fused f = FuseText(R"(graph(%x : Float(4, 3, strides=[3, 1])):
  %r : Float(4, 3, strides=[3, 1]) = aten::relu(%x)
  %a : Float(4, 3, strides=[3, 1]) = aten::abs(%x)
  %z : NoneType = prim::Constant()
  %n : int(8) = smelt::size[value=expr(8)]()
  %c : int = prim::Constant[value=3]()
  %one : int = prim::Constant[value=1]()
  %l : int[] = prim::ListConstruct(%n, %c)
  %t : int[] = prim::ListConstruct(%c, %one)
  %d : int = prim::Constant[value=6]()
  %p : bool = prim::Constant[value=0]()
  %e : Float(8, 3, strides=[3, 1]) = aten::empty_strided(%l, %t, %d, %z, %z, %p)
  %u : Float(8, 3, strides=[3, 1]) = smelt::write_region[dtype=6, offset=expr(0), sizes=exprs(4, 3), strides=exprs(3, 1)](%e, %r)
  %w : Float(8, 3, strides=[3, 1]) = smelt::write_region[dtype=6, offset=expr(12), sizes=exprs(4, 3), strides=exprs(3, 1)](%u, %a)
  return (%w)
)");
  EXPECT_EQ(f.groups().size(), 1) << f.Edges();
}

TEST(Fuse, WhatAKernelReadsIsHeldAgainstWhatItWritesOfThatMemory) {
  // y = cat([a, b * s]), a[:] = s + b with a, b = x.unbind(1), s = a + 1: the second half of y is no part of x.
  Fused f = FuseText(R"(graph(%x : Float(4, 2, strides=[2, 1]), %to : Float(8, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %a : Float(4, strides=[2]) = smelt::view[sizes=[4], strides=[2], offset=0, dtype=6](%x)
  %b : Float(4, strides=[2]) = smelt::view[sizes=[4], strides=[2], offset=1, dtype=6](%x)
  %s : Float(4, strides=[1]) = aten::add.Scalar(%a, %one, %one)
  %p : Float(4, strides=[1]) = aten::mul.Tensor(%a, %a)
  %q : Float(4, strides=[1]) = aten::mul.Tensor(%b, %s)
  %h : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=0, dtype=6](%to, %p)
  %y : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=4, dtype=6](%h, %q)
  %v : Float(4, strides=[1]) = aten::add.Tensor(%s, %b, %one)
  %w : Float(4, 2, strides=[2, 1]) = smelt::write_region[sizes=[4], strides=[2], offset=0, dtype=6](%x, %v)
  return (%w, %y)
)");
  EXPECT_EQ(f.report.groups, 1) << f.Edges();
}

TEST(Fuse, AKernelDoesNotWriteWhatItReadsAtOtherIndices) {
  // x[1:] = -x[:-1]
  Fused f = FuseText(R"(graph(%x : Float(8, strides=[1])):
  %r : Float(7, strides=[1]) = smelt::view[sizes=[7], strides=[1], offset=0, dtype=6](%x)
  %v : Float(7, strides=[1]) = aten::neg(%r)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[7], strides=[1], offset=1, dtype=6](%x, %v)
  return (%w)
)");
  EXPECT_EQ(f.report.groups, 0) << f.Edges();
}

TEST(Fuse, AKernelMayRewriteTheElementsItReads) {
  Fused f = FuseText(R"(graph(%x : Float(8, strides=[1])):
  %r : Float(7, strides=[1]) = smelt::view[sizes=[7], strides=[1], offset=1, dtype=6](%x)
  %v : Float(7, strides=[1]) = aten::neg(%r)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[7], strides=[1], offset=1, dtype=6](%x, %v)
  return (%w)
)");
  EXPECT_EQ(f.report.groups, 1) << f.Edges();
}

TEST(Fuse, AReaderOfOldContentsStaysBeforeTheWriteThatReplacesThem) {
  Fused f = FuseText(R"(graph(%x : Float(8, strides=[1]), %y : Float(4, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=0, dtype=6](%x, %y)
  %b : Float(8, strides=[1]) = aten::mul.Tensor(%a, %w)
  return (%b, %w)
)");
  // neg reads x; fused with mul it would come after the write.
  EXPECT_EQ(f.report.groups, 0) << f.Edges();
}

std::string Lstm(int steps, bool swapped) {
  std::string t =
      "graph(%h0 : Float(4, 8, strides=[8, 1]), %c0 : Float(4, 8, strides=[8, 1]), %w : Float(8, 32, strides=[32, 1])";
  for (int i = 0; i < steps; ++i) absl::StrAppend(&t, ", %x", i, " : Float(4, 32, strides=[32, 1])");
  t += "):\n  %one : int = prim::Constant[value=1]()\n  %false : bool = prim::Constant[value=0]()\n  %none : NoneType "
       "= prim::Constant()\n";
  absl::StrAppend(&t, "  %size : int[] = prim::Constant[value=[", steps,
                  ", 4, 8]]()\n  %stride : int[] = prim::Constant[value=[32, 8, 1]]()\n");
  t += "  %dt : int = prim::Constant[value=6]()\n";
  std::string hs = "Float(4, 8, strides=[8, 1])";
  for (int i = 0; i < steps; ++i) {
    absl::StrAppend(&t, "  %m", i, " : Float(4, 32, strides=[32, 1]) = aten::mm(%h", i, ", %w)\n");
    absl::StrAppend(&t, "  %s", i, " : Float(4, 32, strides=[32, 1]) = aten::add.Tensor(",
                    swapped && i % 2 ? absl::StrCat("%m", i, ", %x", i) : absl::StrCat("%x", i, ", %m", i),
                    ", %one)\n");
    const char* names[] = {"i", "f", "g", "o"};
    for (int k = 0; k < 4; ++k) {
      absl::StrAppend(&t, "  %", names[k], "v", i,
                      " : Float(4, 8, strides=[32, 1]) = smelt::view[sizes=[4, 8], strides=[32, 1], offset=", 8 * k,
                      ", dtype=6](%s", i, ")\n");
    }
    absl::StrAppend(&t, "  %f", i, " : ", hs, " = aten::sigmoid(%fv", i, ")\n  %fc", i, " : ", hs,
                    " = aten::mul.Tensor(%f", i, ", %c", i, ")\n");
    absl::StrAppend(&t, "  %i", i, " : ", hs, " = aten::sigmoid(%iv", i, ")\n  %g", i, " : ", hs, " = aten::tanh(%gv",
                    i, ")\n");
    absl::StrAppend(&t, "  %ig", i, " : ", hs, " = aten::mul.Tensor(%i", i, ", %g", i, ")\n");
    absl::StrAppend(&t, "  %c", i + 1, " : ", hs, " = aten::add.Tensor(%fc", i, ", %ig", i, ", %one)\n");
    absl::StrAppend(&t, "  %o", i, " : ", hs, " = aten::sigmoid(%ov", i, ")\n  %tc", i, " : ", hs, " = aten::tanh(%c",
                    i + 1, ")\n");
    absl::StrAppend(&t, "  %h", i + 1, " : ", hs, " = aten::mul.Tensor(%o", i, ", %tc", i, ")\n");
  }
  absl::StrAppend(&t, "  %e : Float(", steps,
                  ", 4, 8, strides=[32, 8, 1]) = aten::empty_strided(%size, %stride, %dt, %none, %none, %false)\n");
  std::string base = "%e";
  for (int i = 0; i < steps; ++i) {
    absl::StrAppend(&t, "  %y", i, " : Float(", steps,
                    ", 4, 8, strides=[32, 8, 1]) = smelt::write_region[sizes=[4, 8], strides=[8, 1], offset=", 32 * i,
                    ", dtype=6](", base, ", %h", i + 1, ")\n");
    base = absl::StrCat("%y", i);
  }
  absl::StrAppend(&t, "  return (", base, ", %h", steps, ", %c", steps, ")\n");
  return t;
}

TEST(Fuse, AnLstmsCellIsOneKernelForAllSteps) {
  Fused f = FuseText(Lstm(5, false));
  EXPECT_EQ(f.report.groups, 5) << f.Edges();
  // One kernel per step, and one for the fresh memory.
  EXPECT_EQ(f.specs.size(), 6);
  EXPECT_EQ(f.distinct().size(), 2);
}

TEST(Fuse, AnLstmsCellIsOneKernelWithOperandsSwapped) {
  Fused f = FuseText(Lstm(4, true));
  EXPECT_EQ(f.distinct().size(), 2);
}

TEST(Fuse, MatmulsOfRowsThatFollowEachOtherAreOne) {
  Fused f = FuseText(R"(graph(%x : Float(3, 2, 4, strides=[8, 4, 1]), %w : Float(4, 5, strides=[5, 1])):
  %a : Float(2, 4, strides=[4, 1]) = smelt::view[sizes=[2, 4], strides=[4, 1], offset=0, dtype=6](%x)
  %p : Float(2, 5, strides=[5, 1]) = aten::mm(%a, %w)
  %s : Float(2, 5, strides=[5, 1]) = aten::tanh(%p)
  %b : Float(2, 4, strides=[4, 1]) = smelt::view[sizes=[2, 4], strides=[4, 1], offset=8, dtype=6](%x)
  %q : Float(2, 5, strides=[5, 1]) = aten::mm(%b, %w)
  %t : Float(2, 5, strides=[5, 1]) = aten::mul.Tensor(%q, %s)
  %c : Float(2, 4, strides=[4, 1]) = smelt::view[sizes=[2, 4], strides=[4, 1], offset=16, dtype=6](%x)
  %r : Float(2, 5, strides=[5, 1]) = aten::mm(%c, %w)
  %l : Float(2, 3, strides=[5, 1]) = smelt::view[sizes=[2, 3], strides=[5, 1], offset=2, dtype=6](%r)
  %u : Float(2, 3, strides=[3, 1]) = aten::neg(%l)
  return (%t, %u)
)");
  EXPECT_EQ(f.merged_matmuls, 2);
}

TEST(Fuse, JoinedMatmulsAreSeenAsOtherElementsWhereTheyAre) {
  auto text = [](const char* type, const char* code, int count, int columns) {
    return absl::Substitute(R"(graph(%x : Float(4, 4, strides=[4, 1]), %w : Float(4, $3, strides=[$3, 1])):
  %a : Float(2, 4, strides=[4, 1]) = smelt::view[sizes=[2, 4], strides=[4, 1], offset=0, dtype=6](%x)
  %p : Float(2, $3, strides=[$3, 1]) = aten::mm(%a, %w)
  %s : $0($2, strides=[1]) = smelt::view[sizes=[$2], strides=[1], offset=0, dtype=$1](%p)
  %t : $0($2, strides=[1]) = aten::neg(%s)
  %b : Float(2, 4, strides=[4, 1]) = smelt::view[sizes=[2, 4], strides=[4, 1], offset=8, dtype=6](%x)
  %q : Float(2, $3, strides=[$3, 1]) = aten::mm(%b, %w)
  %u : $0($2, strides=[1]) = smelt::view[sizes=[$2], strides=[1], offset=0, dtype=$1](%q)
  %v : $0($2, strides=[1]) = aten::abs(%u)
  return (%t, %v)
)",
                            type, code, count, columns);
  };
  EXPECT_EQ(FuseText(text("Short", "2", 20, 5)).merged_matmuls, 1);
  EXPECT_EQ(FuseText(text("Long", "4", 5, 5)).merged_matmuls, 1);
  // Three elements by one float: the second result would begin in the middle of an element.
  std::string odd = R"(graph(%x : Float(6, 4, strides=[4, 1]), %w : Float(4, 1, strides=[1, 1])):
  %a : Float(3, 4, strides=[4, 1]) = smelt::view[sizes=[3, 4], strides=[4, 1], offset=0, dtype=6](%x)
  %p : Float(3, 1, strides=[1, 1]) = aten::mm(%a, %w)
  %s : Long(1, strides=[1]) = smelt::view[sizes=[1], strides=[1], offset=0, dtype=4](%p)
  %t : Long(1, strides=[1]) = aten::neg(%s)
  %b : Float(3, 4, strides=[4, 1]) = smelt::view[sizes=[3, 4], strides=[4, 1], offset=12, dtype=6](%x)
  %q : Float(3, 1, strides=[1, 1]) = aten::mm(%b, %w)
  %u : Long(1, strides=[1]) = smelt::view[sizes=[1], strides=[1], offset=0, dtype=4](%q)
  %v : Long(1, strides=[1]) = aten::abs(%u)
  return (%t, %v)
)";
  EXPECT_EQ(FuseText(odd).merged_matmuls, 0);
}

TEST(Fuse, MatmulsAreJoinedUntil128RowsAreTogether) {
  // Five steps of 40 rows: three of them are 120 rows, a fourth would be 160.
  std::string text = "graph(%x : Float(200, 4, strides=[4, 1]), %w : Float(4, 5, strides=[5, 1])):\n";
  std::string returned;
  for (int k = 0; k < 5; ++k) {
    absl::StrAppend(&text, "  %a", k,
                    " : Float(40, 4, strides=[4, 1]) = smelt::view[sizes=[40, 4], strides=[4, 1], offset=", k * 160,
                    ", dtype=6](%x)\n  %p", k, " : Float(40, 5, strides=[5, 1]) = aten::mm(%a", k, ", %w)\n  %t", k,
                    " : Float(40, 5, strides=[5, 1]) = aten::tanh(%p", k, ")\n");
    absl::StrAppend(&returned, k == 0 ? "" : ", ", "%t", k);
  }
  EXPECT_EQ(FuseText(absl::StrCat(text, "  return (", returned, ")\n")).merged_matmuls, 3);
}

// --- reshapes and places between loops ---

TEST(Fuse, WhatFollowsTheRowsOfAReshapedNormIsInTheirKernel) {
  // silu(group_norm(x, 2, weight)) + x, whose rows are [N, G] over [C/G, H * W].
  Fused f = FuseText(R"(graph(%x : Float(2, 6, 2, 4, strides=[48, 8, 4, 1]), %w : Float(6, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[2, 3]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %r : Float(2, 2, 3, 8, strides=[48, 24, 8, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(2, 2, 3, 8), strides=exprs(48, 24, 8, 1)](%x)
  %m : Float(2, 2, 1, 1, strides=[2, 1, 1, 1]) = aten::mean.dim(%r, %d, %k, %n)
  %c : Float(2, 2, 3, 8, strides=[48, 24, 8, 1]) = aten::sub.Tensor(%r, %m, %one)
  %y : Float(2, 6, 2, 4, strides=[48, 8, 4, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(2, 6, 2, 4), strides=exprs(48, 8, 4, 1)](%c)
  %v : Float(6, 1, 1, strides=[1, 1, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(6, 1, 1), strides=exprs(1, 1, 1)](%w)
  %s : Float(2, 6, 2, 4, strides=[48, 8, 4, 1]) = aten::mul.Tensor(%y, %v)
  %u : Float(2, 6, 2, 4, strides=[48, 8, 4, 1]) = aten::silu(%s)
  %z : Float(2, 6, 2, 4, strides=[48, 8, 4, 1]) = aten::add.Tensor(%u, %x, %one)
  return (%z)
)",
                     1e-5f);
  EXPECT_EQ(f.groups(), std::vector<std::string>{"mean_sub_mul_silu_add"}) << f.Edges();
}

TEST(Fuse, WhatFeedsTheRowsOfItsReshapeIsInTheirKernel) {
  // p = sigmoid(x).flatten(1): its sums are in one kernel with it, and a returned value in its own shape shows that.
  for (const std::string returned : {"%s, %q", "%s, %q, %p"}) {
    Fused f = FuseText(absl::StrCat(R"(graph(%x : Float(3, 4, 5, strides=[20, 5, 1]), %b : Float(4, 1, strides=[1, 1])):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %a : Float(3, 4, 5, strides=[20, 5, 1]) = aten::add.Tensor(%x, %b, %one)
  %p : Float(3, 4, 5, strides=[20, 5, 1]) = aten::sigmoid(%a)
  %r : Float(3, 20, strides=[20, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(3, 20), strides=exprs(20, 1)](%p)
  %s : Float(3, strides=[1]) = aten::sum.dim_IntList(%r, %d, %k, %n)
  %m : Float(3, 20, strides=[20, 1]) = aten::mul.Tensor(%r, %r)
  %q : Float(3, strides=[1]) = aten::sum.dim_IntList(%m, %d, %k, %n)
  return ()",
                                    returned, ")\n"),
                       1e-5f);
    // The bias has no view of sizes [3, 20]: that sum keeps its shape, and is computed where it is read.
    EXPECT_EQ(f.groups(), std::vector<std::string>{"add_sigmoid_sum_mul_sum"}) << f.Edges();
  }
}

TEST(Fuse, ReshapesByDimsOfOneMoveNothing) {
  auto g = ParseOrFail(R"(graph(%x : Float(3, 1, 5, strides=[5, 5, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %p : Float(3, 1, 5, strides=[5, 5, 1]) = aten::sigmoid(%x)
  %r : Float(3, 5, strides=[5, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(3, 5), strides=exprs(5, 1)](%p)
  %s : Float(3, strides=[1]) = aten::sum.dim_IntList(%r, %d, %k, %n)
  return (%s)
)");
  EXPECT_EQ(MoveReshapes(*g), 0);
}

TEST(Fuse, RowsOfAValueMadeFromTheOperandAloneAreStoredTransposedByTheirKernel) {
  // rms_norm(x).transpose(0, 1).contiguous(): the reduction is over the squares, not over x.
  Fused f = FuseText(R"(graph(%x : Float(3, 4, 8, strides=[32, 8, 1])):
  %d : int[] = prim::Constant[value=[2]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %q : Float(3, 4, 8, strides=[32, 8, 1]) = aten::mul.Tensor(%x, %x)
  %m : Float(3, 4, 1, strides=[4, 1, 1]) = aten::mean.dim(%q, %d, %k, %n)
  %r : Float(3, 4, 1, strides=[4, 1, 1]) = aten::rsqrt(%m)
  %y : Float(3, 4, 8, strides=[32, 8, 1]) = aten::mul.Tensor(%x, %r)
  %t : Float(4, 3, 8, strides=[8, 32, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 3, 8), strides=exprs(8, 32, 1)](%y)
  %z : Float(4, 3, 8, strides=[24, 8, 1]) = smelt::materialize[strides=exprs(24, 8, 1)](%t)
  return (%z)
)",
                     1e-5f);
  EXPECT_EQ(f.groups(), std::vector<std::string>{"mul_mean_rsqrt_mul_materialize"}) << f.Edges();
}

TEST(Fuse, RowsGatheredFromTheMemoryThatIsWrittenAreStoredFirst) {
  // x[i] += 1: otherwise all of x would be copied, so that a kernel can read it while it writes it.
  Fused f = FuseText(R"(graph(%x : Float(9, 4, strides=[4, 1]), %i : Long(3, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%i)
  %r : Float(3, 4, strides=[4, 1]) = aten::index.Tensor(%x, %l)
  %a : Float(3, 4, strides=[4, 1]) = aten::add.Tensor(%r, %one, %one)
  %z : Float(9, 4, strides=[4, 1]) = smelt::inplace_index_put(%x, %l, %a, %no)
  return (%z)
)");
  EXPECT_EQ(f.groups(), std::vector<std::string>{"index_add"}) << f.Edges();
}

TEST(Fuse, WhatARowReducesToIsUsedInAPartOfItAlone) {
  // The parts of %c differ along a dim that the kernel's rows also have: the reduction is still over the whole row.
  Fused f = FuseText(R"(graph(%x : Float(2, 4, strides=[4, 1])):
  %d : int[] = prim::Constant[value=[0]]()
  %k : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %a : Float(2, 4, strides=[4, 1]) = aten::abs(%x)
  %m : Float(1, 4, strides=[4, 1]) = aten::amax(%a, %d, %k)
  %v : Float(4, 1, strides=[1, 1]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 1), strides=exprs(1, 1)](%m)
  %r : Float(4, 1, strides=[1, 1]) = aten::relu(%v)
  %n : Float(4, 1, strides=[1, 1]) = aten::neg(%r)
  %l : Tensor[] = prim::ListConstruct(%r, %n)
  %c : Float(4, 2, strides=[2, 1]) = aten::cat(%l, %one)
  %z : Float(4, 2, strides=[2, 1]) = aten::sub.Tensor(%c, %r, %one)
  return (%a, %r, %z)
)");
  EXPECT_EQ(f.groups(), std::vector<std::string>{"abs_amax_relu_neg_cat_sub"}) << f.Edges();
}

TEST(Fuse, AGroupWaitsForAnotherToTakeItsNodesOutOfTheWay) {
  // %v4 reads from one group and is between its members, until its own group, which comes after them, includes it.
  Fused f = FuseText(R"(graph(%x0 : Float(40, strides=[1]), %x1 : Float(1, strides=[1]), %x2 : Float(1, strides=[1])):
  %v2 : Float(1, strides=[1]) = aten::minimum(%x2, %x1)
  %v3 : Float(1, strides=[1]) = aten::neg(%v2)
  %v4 : Float(40, strides=[1]) = aten::maximum(%x0, %v2)
  %v0 : Float(1, strides=[1]) = aten::minimum(%x2, %x2)
  %v5 : Float(1, strides=[1]) = aten::abs(%v3)
  %v7 : Float(40, strides=[1]) = aten::mul.Tensor(%v4, %x0)
  return (%v0, %v7, %v3, %v5)
)");
  EXPECT_EQ(f.groups(), (std::vector<std::string>{"minimum_neg_minimum_abs", "maximum_mul"})) << f.Edges();
}

TEST(Fuse, AGroupWithoutAKernelIsCutWhereTheLeastIsStored) {
  // The maxima of rows are used along columns; in a square the loops' sizes do not show that.
  Fused f = FuseText(R"(graph(%x : Float(3, 3, strides=[3, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=0]()
  %a : Float(3, 3, strides=[3, 1]) = aten::relu(%x)
  %m : Float(3, strides=[1]) = aten::amax(%a, %d, %k)
  %r : Float(3, strides=[1]) = aten::exp(%m)
  %y : Float(3, 3, strides=[3, 1]) = aten::mul.Tensor(%x, %r)
  %z : Float(3, 3, strides=[3, 1]) = aten::neg(%y)
  return (%z)
)");
  EXPECT_EQ(f.groups(), (std::vector<std::string>{"relu_amax_exp", "mul_neg"})) << f.Edges();
  EXPECT_TRUE(absl::StrContains(f.Edges(), "aten::mul.Tensor %y -> aten::neg %z: fused")) << f.Edges();
  EXPECT_TRUE(absl::StrContains(f.Edges(), "aten::exp %r -> aten::mul.Tensor %y: not fused, the group has no kernel"))
      << f.Edges();
}

TEST(ExpandComposites, TheLastColumnOfACopyInAnotherOrderIsReadWhereItLies) {
  std::unique_ptr<Graph> g = ParseOrFail(R"(graph(%x : Float(s0, s1, s2, strides=[s1*s2, s2, 1])):
  symbol s0 in [2, inf] hint 2
  symbol s1 in [2, inf] hint 3
  symbol s2 in [2, inf] hint 4
  %a : Float(s2, s1, s0, strides=[1, s2, s1*s2]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(s2, s1, s0), strides=exprs(1, s2, s1*s2)](%x)
  %b : Float(s2, s1, s0, strides=[s0*s1, s0, 1]) = smelt::materialize[strides=exprs(s0*s1, s0, 1)](%a)
  %c : Float(s2, strides=[s0*s1]) = smelt::view[dtype=6, offset=expr(s0*s1 - 1), sizes=exprs(s2), strides=exprs(s0*s1)](%b)
  %d : Float(s2, strides=[1]) = aten::neg(%c)
  return (%d)
)");
  ASSERT_EQ(ExpandComposites(*g), absl::OkStatus());
  Tensor x = Tensor::Empty(DType::kFloat32, {2, 3, 4});
  for (int i = 0; i < 24; ++i) x.data_as<float>()[i] = static_cast<float>(i);
  RunKernelsOptions run;
  run.symbols = {{"s0", 2}, {"s1", 3}, {"s2", 4}};
  auto out = RunKernels(*g, {x}, run);
  ASSERT_TRUE(out.ok()) << out.status() << PrintGraph(*g);
  const Tensor d = out->outputs[0].Clone();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(d.data_as<float>()[i], -(20 + i)) << i;
}

// For each row the distance to row 0, then to the row that is farthest from it.
constexpr char kFarthest[] = R"(graph(%x : Float(8, 3, strides=[3, 1])):
  symbol u0 in [0, 7]
  %one : int = prim::Constant[value=1]()
  %last : int[] = prim::Constant[value=[1]]()
  %keep : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Float(3, strides=[1]) = smelt::view[dtype=6, offset=0, sizes=[3], strides=[1]](%x)
  %b : Float(8, 3, strides=[3, 1]) = aten::sub.Tensor(%x, %a, %one)
  %c : Float(8, strides=[1]) = aten::sum.dim_IntList(%b, %last, %keep, %none)
  %d : Long() = aten::argmax(%c, %none, %keep)
  %e : int(u0) = aten::item(%d)
  %f : Float(3, strides=[1]) = smelt::view[dtype=6, offset=expr(3*u0), sizes=exprs(3), strides=exprs(1)](%x)
  %g : Float(8, 3, strides=[3, 1]) = aten::sub.Tensor(%x, %f, %one)
  %h : Float(8, strides=[1]) = aten::sum.dim_IntList(%g, %last, %keep, %none)
  return (%h)
)";

TEST(Fuse, WhatLiesWhereTheDataSayWaitsForThem) {
  std::unique_ptr<Graph> g = ParseOrFail(kFarthest);
  ASSERT_TRUE(FuseGraph(*g).ok());
  EXPECT_EQ(VerifyFusionPlan(*g), absl::OkStatus()) << PrintGraph(*g);
}

TEST(VerifyFusionPlan, ASizeThatArgumentsTellIsKnownBeforeANodeThatTakesItAsANumber) {
  std::unique_ptr<Graph> g = ParseOrFail(R"(graph(%x : Float(2*s0, strides=[1])):
  symbol s0 in [2, inf] hint 4
  %0 : int = prim::Constant[value=0]()
  %v : Float(s0, strides=[2]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(s0), strides=exprs(2)](%x)
  %none : NoneType = prim::Constant()
  %y : Float() = aten::sum(%v, %none)
  %n : int = aten::sym_size.int(%v, %0)
  return (%y, %n)
)");
  g->SetExpr(g->FindValue("n"), Expr::Symbol("s0"));
  EXPECT_EQ(VerifyFusionPlan(*g), absl::OkStatus());
}

TEST(VerifyFusionPlan, FindsAKernelThatReadsWhereTheDataSayBeforeTheyDo) {
  std::unique_ptr<Graph> g = ParseOrFail(kFarthest);
  ASSERT_EQ(VerifyFusionPlan(*g), absl::OkStatus());
  NodeId argmax, late;
  for (NodeId n : g->AllNodes()) {
    if (g->node(n).op == "aten::argmax") argmax = n;
    if (g->node(n).op == "aten::sub.Tensor") late = n;
  }
  for (ValueId v : g->node(late).inputs) {
    if (const NodeId def = g->value(v).def; !g->IsParam(def)) g->MoveBefore(def, argmax);
  }
  g->MoveBefore(late, argmax);
  const absl::Status status = VerifyFusionPlan(*g);
  EXPECT_EQ(status.message(), "fusion: aten::sub.Tensor needs u0 of smelt::view before it is read");
}

TEST(Fuse, AReductionOverOneElementIsPartOfAnyRow) {
  Fused f = FuseText(R"(graph(%x : Float(4, 1, 4, strides=[1, 4, 4])):
  %one : int[] = prim::Constant[value=[1]]()
  %rows : int[] = prim::Constant[value=[0]]()
  %k : bool = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %b : Float(4, 1, 4, strides=[1, 4, 4]) = aten::neg(%x)
  %c : Float(4, 1, 4, strides=[1, 4, 4]) = aten::abs(%b)
  %m : Float(4, 1, 4, strides=[4, 4, 1]) = aten::amax(%c, %one, %k)
  %e : Float(4, 1, 4, strides=[4, 4, 1]) = aten::neg(%m)
  %s : Float(1, 1, 4, strides=[4, 4, 1]) = aten::sum.dim_IntList(%e, %rows, %k, %n)
  return (%b, %s)
)");
  EXPECT_EQ(f.groups(), std::vector<std::string>{"neg_abs_amax_neg_sum"}) << f.Edges();
}

}  // namespace
}  // namespace smelt
