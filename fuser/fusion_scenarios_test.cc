// Graphs as text and the groups that fusion must make of them. (fuse_test checks the results of groups, op_kernels_test
// each operator.)
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/fuse_testing.h"
#include "smelt/fuser/verify_fusion_plan.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Returns the names of the groups, in order: the first six operators of each.
std::vector<std::string> GroupsOf(const std::string& text) {
  auto parsed = ParseGraph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  Graph& g = **parsed;
  EXPECT_EQ(ExpandComposites(g), absl::OkStatus());
  const int late_reads = CountLateReads(g);
  const std::unique_ptr<AliasDb> alias = AliasDb::Build(g);
  FuseOptions options;
  options.alias_db = alias.get();
  auto report = FuseGraph(g, options);
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(VerifyFusionPlan(g, late_reads), absl::OkStatus());
  EXPECT_EQ(alias->Verify(), absl::OkStatus());
  std::vector<std::string> out;
  for (NodeId n : g.AllNodes()) {
    const Attribute* name = g.node(n).FindAttribute("name");
    if (g.node(n).op == "smelt::FusionGroup" && name != nullptr) out.push_back(std::get<std::string>(*name));
  }
  return out;
}

TEST(FusionScenario, APointwiseLoopEndsInAnArgmax) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int = prim::Constant[value=1]()
  %k : bool = prim::Constant[value=0]()
  %a : Float(4, 16, strides=[16, 1]) = aten::relu(%x)
  %z : Long(4, strides=[1]) = aten::argmax(%a, %d, %k)
  return (%z)
)"),
              ElementsAre("relu_argmax"));
}

TEST(FusionScenario, AScanHasItsProducerAndItsConsumerInOneKernel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %a : Float(4, 16, strides=[16, 1]) = aten::exp(%x)
  %c : Float(4, 16, strides=[16, 1]) = aten::cumsum(%a, %d, %n)
  %z : Float(4, 16, strides=[16, 1]) = aten::neg(%c)
  return (%z)
)"),
              ElementsAre("exp_cumsum_neg"));
}

TEST(FusionScenario, AnEmbeddingIsReadWhereItIsAdded) {
  EXPECT_THAT(
      GroupsOf(R"(graph(%w : Float(10, 8, strides=[8, 1]), %i : Long(4, strides=[1]), %y : Float(4, 8, strides=[8, 1])):
  %m1 : int = prim::Constant[value=-1]()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %e : Float(4, 8, strides=[8, 1]) = aten::embedding(%w, %i, %m1, %f, %f)
  %s : Float(4, 8, strides=[8, 1]) = aten::add.Tensor(%e, %y, %one)
  %z : Float(4, 8, strides=[8, 1]) = aten::relu(%s)
  return (%z)
)"),
      ElementsAre("embedding_add_relu"));
}

TEST(FusionScenario, ACatIsChosenFromWhereItIsUsed) {
  EXPECT_THAT(
      GroupsOf(
          R"(graph(%a : Float(4, 8, strides=[8, 1]), %b : Float(4, 3, strides=[3, 1]), %y : Float(4, 11, strides=[11, 1])):
  %d : int = prim::Constant[value=1]()
  %k : bool = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Float(4, 11, strides=[11, 1]) = aten::cat(%l, %d)
  %z : Float(4, 11, strides=[11, 1]) = aten::mul.Tensor(%c, %y)
  %m : Long(4, strides=[1]) = aten::argmax(%z, %d, %k)
  return (%m)
)"),
      ElementsAre("cat_mul_argmax"));
}

// As in rotary position embeddings.
TEST(FusionScenario, HalvesThatChangePlacesAreReadInOneKernel) {
  EXPECT_THAT(
      GroupsOf(
          R"(graph(%x : Float(4, 8, strides=[8, 1]), %cos : Float(4, 8, strides=[8, 1]), %sin : Float(4, 8, strides=[8, 1])):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %four : int = prim::Constant[value=4]()
  %eight : int = prim::Constant[value=8]()
  %x1 : Float(4, 4, strides=[8, 1]) = aten::slice.Tensor(%x, %one, %zero, %four, %one)
  %x2 : Float(4, 4, strides=[8, 1]) = aten::slice.Tensor(%x, %one, %four, %eight, %one)
  %n : Float(4, 4, strides=[4, 1]) = aten::neg(%x2)
  %l : Tensor[] = prim::ListConstruct(%n, %x1)
  %r : Float(4, 8, strides=[8, 1]) = aten::cat(%l, %one)
  %p : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%x, %cos)
  %q : Float(4, 8, strides=[8, 1]) = aten::mul.Tensor(%r, %sin)
  %z : Float(4, 8, strides=[8, 1]) = aten::add.Tensor(%p, %q, %one)
  return (%z)
)"),
      ElementsAre("neg_cat_mul_mul_add"));
}

// Its own kernels write the parts into memory that the caller sees.
TEST(FusionScenario, ACatThatIsAResultIsWrittenPartByPart) {
  EXPECT_THAT(GroupsOf(R"(graph(%a : Float(4, 8, strides=[8, 1]), %b : Float(4, 3, strides=[3, 1])):
  %d : int = prim::Constant[value=1]()
  %ra : Float(4, 8, strides=[8, 1]) = aten::relu(%a)
  %tb : Float(4, 3, strides=[3, 1]) = aten::tanh(%b)
  %l : Tensor[] = prim::ListConstruct(%ra, %tb)
  %c : Float(4, 11, strides=[11, 1]) = aten::cat(%l, %d)
  return (%c)
)"),
              ElementsAre("relu_write_region", "tanh_write_region"));
}

// A kernel may not read values at other positions than it writes them, nor in a list.
TEST(FusionScenario, ACatOfTheMemoryThatItIsCopiedToIsMadeFirst) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, strides=[1]), %y : Float(1, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %v : Float(3, strides=[1]) = smelt::view[dtype=6, offset=expr(1), sizes=exprs(3), strides=exprs(1)](%x)
  %l : Tensor[] = prim::ListConstruct(%v, %y)
  %c : Float(4, strides=[1]) = aten::cat(%l, %zero)
  %z : Float(4, strides=[1]) = smelt::write_region[dtype=6, offset=expr(0), sizes=exprs(4), strides=exprs(1)](%x, %c)
  return (%z)
)"),
              ElementsAre());
}

// Values that cost more than a read are computed once, not for each element that may be selected.
TEST(FusionScenario, ACostlyPartOfACatIsAKernelOfItsOwn) {
  EXPECT_THAT(GroupsOf(R"(graph(%a : Float(4, 8, strides=[8, 1]), %b : Float(4, 3, strides=[3, 1])):
  %d : int = prim::Constant[value=1]()
  %ea : Float(4, 8, strides=[8, 1]) = aten::exp(%a)
  %ta : Float(4, 8, strides=[8, 1]) = aten::tanh(%ea)
  %l : Tensor[] = prim::ListConstruct(%ta, %b)
  %c : Float(4, 11, strides=[11, 1]) = aten::cat(%l, %d)
  %z : Float(4, 11, strides=[11, 1]) = aten::relu(%c)
  return (%z)
)"),
              ElementsAre("exp_tanh", "cat_relu"));
}

TEST(FusionScenario, LayerNormWithTheResidualBeforeItIsOneKernelWithTwoResults) {
  EXPECT_THAT(
      GroupsOf(
          R"(graph(%x : Float(4, 16, strides=[16, 1]), %r : Float(4, 16, strides=[16, 1]), %w : Float(16, strides=[1]), %b : Float(16, strides=[1])):
  %s : int[] = prim::Constant[value=[16]]()
  %one : int = prim::Constant[value=1]()
  %eps : float = prim::Constant[value=1e-05]()
  %t : bool = prim::Constant[value=1]()
  %h : Float(4, 16, strides=[16, 1]) = aten::add.Tensor(%x, %r, %one)
  %z : Float(4, 16, strides=[16, 1]) = aten::layer_norm(%h, %s, %w, %b, %eps, %t)
  return (%z, %h)
)"),
      ElementsAre("add_mean_sub_mean_sub_mul"));
}

TEST(FusionScenario, LogSoftmaxIsOneKernel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %z : Float(4, 16, strides=[16, 1]) = aten::log_softmax.int(%x, %d, %n)
  return (%z)
)"),
              ElementsAre("amax_sub_exp_sum_log_sub"));
}

TEST(FusionScenario, LogSumExpIsOneKernel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %k : bool = prim::Constant[value=False]()
  %z : Float(4, strides=[1]) = aten::logsumexp(%x, %d, %k)
  return (%z)
)"),
              SizeIs(1));
}

// The second adds up the rows' losses.
TEST(FusionScenario, CrossEntropyIsAKernelOfRowsThatStoresNoLogarithms) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1]), %t : Long(4, strides=[1])):
  %n : NoneType = prim::Constant()
  %mean : int = prim::Constant[value=1]()
  %ignored : int = prim::Constant[value=-100]()
  %smooth : float = prim::Constant[value=0.]()
  %z : Float() = aten::cross_entropy_loss(%x, %t, %n, %mean, %ignored, %smooth)
  return (%z)
)"),
              ElementsAre(HasSubstr("amax_sub_exp"), Not(HasSubstr("amax"))));
}

TEST(FusionScenario, VarianceAndMeanAreOneKernel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %c : float = prim::Constant[value=1]()
  %k : bool = prim::Constant[value=1]()
  %v : Float(4, 1, strides=[1, 1]), %m : Float(4, 1, strides=[1, 1]) = aten::var_mean.correction(%x, %d, %c, %k)
  return (%v, %m)
)"),
              ElementsAre("_to_copy_mean_sub_mul_sum_div"));
}

TEST(FusionScenario, AVarianceOverEverythingIsOneKernel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(2048, 2048, strides=[2048, 1])):
  %n : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %v : Float() = aten::var.correction(%x, %n, %n, %f)
  return (%v)
)"),
              ElementsAre("_to_copy_mean_sub_mul_sum_div"));
}

TEST(FusionScenario, ASoftmaxOfEverythingEndsInAKernelThatRunsInParallel) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4194304, strides=[1])):
  %d : int = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %y : Float(4194304, strides=[1]) = aten::softmax.int(%x, %d, %n)
  return (%y)
)"),
              ElementsAre("sub_exp_sum_reciprocal"));  // beside the kernels of one operator
}

TEST(FusionScenario, ATransposedOperandIsAnIndexMap) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(4, 16, strides=[16, 1]), %y : Float(16, 4, strides=[4, 1])):
  %one : int = prim::Constant[value=1]()
  %a : Float(4, 16, strides=[16, 1]) = aten::relu(%x)
  %t : Float(16, 4, strides=[1, 16]) = smelt::view[sizes=[16, 4], strides=[1, 16], offset=0, dtype=6](%a)
  %z : Float(16, 4, strides=[4, 1]) = aten::add.Tensor(%t, %y, %one)
  return (%z)
)"),
              ElementsAre("relu_add"));
}

TEST(FusionScenario, PaddingIsAnIndexMapAndWhatIsCostlyIsNotComputedForThePadding) {
  EXPECT_THAT(GroupsOf(R"(graph(%x : Float(3, 4, strides=[4, 1])):
  %p : int[] = prim::Constant[value=[1, 1]]()
  %v : float = prim::Constant[value=0.]()
  %a : Float(3, 4, strides=[4, 1]) = aten::tanh(%x)
  %b : Float(3, 6, strides=[6, 1]) = aten::constant_pad_nd(%a, %p, %v)
  %z : Float(3, 6, strides=[6, 1]) = aten::neg(%b)
  return (%z)
)"),
              ElementsAre("constant_pad_nd_neg"));
}

TEST(FusionScenario, AColumnTimesARowIsMultipliedWhereItIsUsed) {
  EXPECT_THAT(GroupsOf(R"(graph(%a : Float(5, 1, strides=[1, 1]), %b : Float(1, 4, strides=[4, 1])):
  %m : Float(5, 4, strides=[4, 1]) = aten::mm(%a, %b)
  %t : Float(5, 4, strides=[4, 1]) = aten::tanh(%m)
  return (%t)
)"),
              ElementsAre("mul_add_tanh"));
}

TEST(FusionScenario, ManyRowsTimesAColumnEachAreSummedWhereTheyAreUsed) {
  const std::string text = R"(graph(%a : Float($0, 1, 6, strides=[6, 6, 1]), %b : Float($0, 6, 1, strides=[6, 1, 1])):
  %m : Float($0, 1, 1, strides=[1, 1, 1]) = aten::bmm(%a, %b)
  %t : Float($0, 1, 1, strides=[1, 1, 1]) = aten::tanh(%m)
  return (%t)
)";
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 6)), ElementsAre("mul_sum_tanh"));
  // A single one remains a call of the library.
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 1)), testing::IsEmpty());
}

TEST(FusionScenario, ManySmallMatricesTimesAColumnEachAreSummedWhereTheyAreUsed) {
  const std::string text =
      R"(graph(%a : Float(50, 3, $0, strides=[$1, $0, 1]), %b : Float(50, $0, 1, strides=[$0, 1, 1])):
  %m : Float(50, 3, 1, strides=[3, 1, 1]) = aten::bmm(%a, %b)
  %t : Float(50, 3, 1, strides=[3, 1, 1]) = aten::tanh(%m)
  return (%t)
)";
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 6, 18)), ElementsAre("mul_sum_tanh"));
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 64, 192)), testing::IsEmpty());
}

TEST(FusionScenario, AColumnOfAFewNumbersIsASumOfProductsNotARowToReduce) {
  const std::string matrices =
      R"(graph(%a : Float(50, 3, 3, strides=[9, 3, 1]), %b : Float(50, 3, 1, strides=[3, 1, 1])):
  %m : Float(50, 3, 1, strides=[3, 1, 1]) = aten::bmm(%a, %b)
  %t : Float(50, 3, 1, strides=[3, 1, 1]) = aten::tanh(%m)
  return (%t)
)";
  const std::string points = R"(graph(%p : Float(1000, 3, strides=[3, 1]), %v : Float(3, 1, strides=[1, 1])):
  %d : Float(1000, 1, strides=[1, 1]) = aten::mm(%p, %v)
  %t : Float(1000, 1, strides=[1, 1]) = aten::tanh(%d)
  return (%t)
)";
  for (const std::string& text : {matrices, points}) {
    const std::vector<std::string> groups = GroupsOf(text);
    ASSERT_THAT(groups, testing::SizeIs(1));
    EXPECT_THAT(groups[0], testing::StartsWith("mul_add"));
    EXPECT_THAT(groups[0], testing::Not(testing::HasSubstr("sum")));
  }
}

TEST(FusionScenario, PointsTimesASmallMatrixAreMultipliedWhereTheyAreUsed) {
  const std::string text =
      R"(graph(%p : Float(1000, $0, strides=[$0, 1]), %m : Float($0, $0, strides=[$0, 1]), %b : Float($0, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %q : Float(1000, $0, strides=[$0, 1]) = aten::mm(%p, %m)
  %t : Float(1000, $0, strides=[$0, 1]) = aten::add.Tensor(%q, %b, %one)
  return (%t)
)";
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 3)), testing::SizeIs(1));
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 3))[0], testing::StartsWith("mul_add"));
  // Products of larger matrices remain calls of the library, which adds the bias.
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 5)), testing::IsEmpty());
}

// einsum("bij,bnj->bni", rotations, points) + moves
TEST(FusionScenario, ASmallMatrixTimesPointsIsMultipliedWhereTheyAreUsed) {
  const std::string text =
      R"(graph(%r : Float(4, 3, 3, strides=[9, 3, 1]), %p : Float(4, 500, 3, strides=[1500, 3, 1]), %m : Float(4, 1, 3, strides=[3, 3, 1])):
  %one : int = prim::Constant[value=1]()
  %t : Float(4, 3, 500, strides=[1500, 1, 3]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 3, 500), strides=exprs(1500, 1, 3)](%p)
  %q : Float(4, 3, 500, strides=[1500, 500, 1]) = aten::bmm(%r, %t)
  %s : Float(4, 500, 3, strides=[1500, 1, 500]) = smelt::view[dtype=6, offset=expr(0), sizes=exprs(4, 500, 3), strides=exprs(1500, 1, 500)](%q)
  %z : Float(4, 500, 3, strides=[1500, 3, 1]) = aten::add.Tensor(%s, %m, %one)
  return (%z)
)";
  EXPECT_THAT(GroupsOf(text), testing::SizeIs(1));
  EXPECT_THAT(GroupsOf(text)[0], testing::StartsWith("mul_add"));
}

TEST(FusionScenario, WhatIsReadAcrossItsRowsIsStoredFirst) {
  // Transformer-XL's relative shift: rows of 9 as rows of 8, from the ninth element on. (One operator alone is no
  // group.)
  const std::string text = R"(graph(%x : Float(8, 8, strides=[8, 1])):
  %p : int[] = prim::Constant[value=[1, 0]]()
  %v : float = prim::Constant[value=0.]()
  %a : Float(8, 9, strides=[9, 1]) = aten::constant_pad_nd(%x, %p, %v)
  %s : int[] = prim::Constant[value=[8, 8]]()
  %t : int[] = prim::Constant[value=[$0, 1]]()
  %o : int = prim::Constant[value=$1]()
  %w : Float(8, 8, strides=[$0, 1]) = aten::as_strided(%a, %s, %t, %o)
  %z : Float(8, 8, strides=[8, 1]) = aten::neg(%w)
  return (%z)
)";
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 8, 8)), testing::IsEmpty());
  EXPECT_THAT(GroupsOf(absl::Substitute(text, 9, 1)), ElementsAre("constant_pad_nd_neg"));
}

}  // namespace
}  // namespace smelt
