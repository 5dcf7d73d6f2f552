#include "smelt/functionalize/open_composites.h"

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// PyTorch's strides; an archive states {24, 12, 4, 1}.
TEST(OpenComposites, WhatATransposedIndexPicksLiesAsTheIndexDoes) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 3, 4, strides=[12, 4, 1]), %i : Long(2, 2, strides=[2, 1])):
  %j : Long(2, 2, strides=[1, 2]) = aten::t(%i)
  %l : Tensor[] = prim::ListConstruct(%j)
  %r : Float(2, 2, 3, 4, strides=[24, 12, 4, 1]) = aten::index.Tensor(%x, %l)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  EXPECT_EQ((*g)->value((*g)->FindValue("r")).type.ToString(), "Float(2, 2, 3, 4, strides=[12, 24, 4, 1])");
}

// As in PyTorch: the result shares the tensor's memory, unless it is a sum.
TEST(OpenComposites, AnEinsumOfOneTensorIsAViewUnlessItSums) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 3, 3, strides=[9, 3, 1])):
  %diagonals : str = prim::Constant[value="...ii->i..."]()
  %sums : str = prim::Constant[value="bij->ji"]()
  %none : NoneType = prim::Constant()
  %l : Tensor[] = prim::ListConstruct(%x)
  %d : Float(3, 2, strides=[2, 1]) = aten::einsum(%diagonals, %l, %none)
  %s : Float(3, 3, strides=[3, 1]) = aten::einsum(%sums, %l, %none)
  return (%d, %s)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  const Value& d = (*g)->value((*g)->outputs()[0]);
  EXPECT_EQ(d.type.ToString(), "Float(3, 2, strides=[4, 9])");
  EXPECT_EQ((*g)->node(d.def).op.full(), "aten::permute");
  EXPECT_EQ((*g)->node((*g)->value((*g)->outputs()[1]).def).op.full(), "aten::einsum");
}

// The form that run_decompositions() gives to linalg.inv.
TEST(OpenComposites, ErrorsThatAreCheckedAreAnAssertion) {
  auto g = ParseGraph(R"(
graph(%x : Float(3, 3, strides=[3, 1])):
  %name : str = prim::Constant[value="linalg.inv"]()
  %yes : bool = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %i : Float(3, 3, strides=[1, 3]), %info : Int() = aten::linalg_inv_ex(%x, %no)
   = aten::_linalg_check_errors(%info, %name, %yes)
  return (%i)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  int assertions = 0;
  for (NodeId n : (*g)->AllNodes()) {
    EXPECT_NE((*g)->node(n).op.name(), "aten::_linalg_check_errors");
    assertions += (*g)->node(n).op.name() == "aten::_assert_async";
  }
  EXPECT_EQ(assertions, 1);
}

// The form that run_decompositions() gives to repeat_interleave of a tensor: it selects rows by index.
TEST(OpenComposites, NumbersOfRepeatedRowsAreSearchedFor) {
  auto g = ParseGraph(R"(
graph(%repeats : Int(3, strides=[1])):
  %six : int = prim::Constant[value=6]()
  %r : Int(6, strides=[1]) = aten::repeat_interleave.Tensor(%repeats, %six)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  const Value& r = (*g)->value((*g)->outputs()[0]);
  EXPECT_EQ(r.type.ToString(), "Int(6, strides=[1])");
  EXPECT_EQ((*g)->node(r.def).op.full(), "aten::searchsorted.Tensor");
}

int Count(const Graph& g, absl::string_view op) {
  int count = 0;
  for (NodeId n : g.AllNodes()) count += g.node(n).op.name() == op;
  return count;
}

// Types after a corrected one are inferred again; no rule gives the number of elements that a mask selects.
TEST(OpenComposites, ASizeThatTheDataDecideKeepsItsNameBehindALayoutThatIsCorrected) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 5, strides=[1, 2]), %m : Bool(5, strides=[1])):
  symbol u0 in [0, 5]
  %none : NoneType = prim::Constant()
  %y : Float(2, 5, strides=[5, 1]) = aten::neg(%x)
  %l : Tensor?[] = prim::ListConstruct(%none, %m)
  %r : Float(2, u0, strides=[u0, 1]) = aten::index.Tensor(%y, %l)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const auto opened = OpenComposites(**g);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*g)->value((*g)->FindValue("y")).type.ToString(), "Float(2, 5, strides=[1, 2])");
  EXPECT_EQ((*(*g)->value((*g)->FindValue("r")).type.tensor().sizes)[1].ToString(), "u0");
  EXPECT_EQ(Count(**g, "aten::_local_scalar_dense"), 1);
}

// The number of selected elements is unknown. The result has the layout of several rows.
TEST(OpenComposites, WhatAMaskChoosesAmongWhatAMaskChoseLiesAsInferenceSays) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 5, strides=[1, 2]), %m : Bool(5, strides=[1])):
  symbol u0 in [0, 5]
  symbol u1 in [0, 5]
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %y : Float(2, 5, strides=[5, 1]) = aten::neg(%x)
  %l : Tensor?[] = prim::ListConstruct(%none, %m)
  %r : Float(2, u0, strides=[u0, 1]) = aten::index.Tensor(%y, %l)
  %row : Float(u0, strides=[1]) = aten::select.int(%r, %zero, %zero)
  %positive : Bool(u0, strides=[1]) = aten::gt.Scalar(%row, %zero)
  %k : Tensor?[] = prim::ListConstruct(%none, %positive)
  %s : Float(2, u1, strides=[u1, 1]) = aten::index.Tensor(%r, %k)
  return (%s)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const auto opened = OpenComposites(**g);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(Count(**g, "aten::_local_scalar_dense"), 2);
  EXPECT_FALSE((*g)->symbol_hints.contains("u0"));
}

TEST(OpenComposites, ASizeThatTheDataDecideAndTheModelSaysIsChecked) {
  auto g = ParseGraph(R"(
graph(%x : Float(4, strides=[1]), %m : Bool(4, strides=[1])):
  %l : Tensor?[] = prim::ListConstruct(%m)
  %r : Float(3, strides=[1]) = aten::index.Tensor(%x, %l)
  %z : Long(2, 1, strides=[1, 2]) = aten::nonzero(%x)
  return (%r, %z)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  EXPECT_EQ(Count(**g, "aten::_assert_async"), 2);
  EXPECT_EQ(Count(**g, "aten::_local_scalar_dense"), 0);
}

TEST(OpenComposites, ASizeThatTheDataDecideIsCheckedWhereAnArgumentHasItToo) {
  auto g = ParseGraph(R"(
graph(%x : Float(s0, strides=[1]), %i : Long(6, strides=[1])):
  symbol s0 in [2, 9]
  %none : NoneType = prim::Constant()
  %least : int = prim::Constant[value=1]()
  %r : Long(s0, strides=[1]) = aten::bincount(%i, %none, %least)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  EXPECT_EQ(Count(**g, "aten::_assert_async"), 1);
  EXPECT_EQ(Count(**g, "aten::_local_scalar_dense"), 0);
}

std::string FusedSgd(const std::string& parameter, const std::string& gradient) {
  return absl::StrCat("graph(%p : ", parameter, ", %g : ", gradient, R"():
  %no : bool = prim::Constant[value=0]()
  %zero : float = prim::Constant[value=0]()
  %rate : float = prim::Constant[value=0.1]()
  %none : NoneType = prim::Constant()
  %ps : Tensor[] = prim::ListConstruct(%p)
  %gs : Tensor[] = prim::ListConstruct(%g)
  %ms : Tensor[] = prim::ListConstruct()
   = aten::_fused_sgd_(%ps, %gs, %ms, %zero, %zero, %rate, %zero, %no, %no, %no, %none, %none)
  return (%p)
)");
}

TEST(OpenComposites, AnOptimizerOverListsIsElementwiseOperatorsAndCopies) {
  auto g = ParseGraph(FusedSgd("Float(2, 3, strides=[3, 1])", "Float(2, 3, strides=[3, 1])"));
  ASSERT_TRUE(g.ok()) << g.status();
  auto opened = OpenComposites(**g);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->strides_decide);
  EXPECT_EQ(Count(**g, "aten::_fused_sgd_"), 0);
  EXPECT_EQ(Count(**g, "aten::copy_"), 1);
}

TEST(OpenComposites, AnOptimizerThatPairsElementsByTheirPlaceIsRefused) {
  for (const auto& [parameter, gradient, why] :
       {std::tuple("Float(2, 3, strides=[1, 2])", "Float(2, 3, strides=[1, 2])", "not contiguous"),
        std::tuple("Float(2, 3, strides=[3, 1])", "Float(2, 3, strides=[1, 2])", "not contiguous"),
        std::tuple("BFloat16(2, 3, strides=[3, 1])", "BFloat16(2, 3, strides=[3, 1])", "half types"),
        std::tuple("Float(2, 3, strides=[3, 1])", "Double(2, 3, strides=[3, 1])", "beside")}) {
    auto g = ParseGraph(FusedSgd(parameter, gradient));
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_THAT(OpenComposites(**g).status().message(), testing::HasSubstr(why));
  }
}

TEST(OpenComposites, ListsOfGivenResultsAreRefused) {
  auto g = ParseGraph(R"(
graph(%x : Float(3, strides=[1]), %y : Float(3, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %a : Tensor[] = prim::ListConstruct(%x, %y)
  %b : Tensor[] = prim::ListConstruct(%y, %x)
   = aten::_foreach_add.List_out(%a, %b, %one, %a)
  return (%x)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(OpenComposites(**g).status().message(), testing::HasSubstr("given lists"));
}

TEST(OpenComposites, OfTwoResultsOfOneSizeThatTheDataDecideTheSecondIsChecked) {
  auto g = ParseGraph(R"(
graph(%a : Bool(4, strides=[1]), %b : Bool(5, strides=[1])):
  symbol u0 in [0, 4]
  %i : Long(u0, 1, strides=[1, u0]) = aten::nonzero(%a)
  %j : Long(u0, 1, strides=[1, u0]) = aten::nonzero(%b)
  return (%i, %j)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  EXPECT_EQ(Count(**g, "aten::_assert_async"), 1);
  EXPECT_EQ(Count(**g, "aten::_local_scalar_dense"), 1);
}

// The keys and values of a cache, whose lengths are equal in the example; types are inferred again after %r's layout.
TEST(OpenComposites, LengthsThatAreEqualInTheExampleAreTakenToBeEqual) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 3, 4, strides=[12, 4, 1]), %i : Long(2, 2, strides=[2, 1]),
      %q : Float(1, 2, 3, 8, strides=[48, 24, 8, 1]), %k : Float(1, 2, s0, 8, strides=[16*s0, 8*s0, 8, 1]),
      %v : Float(1, 2, s1, 8, strides=[16*s1, 8*s1, 8, 1])):
  symbol s0 in [2, 9] hint 5
  symbol s1 in [2, 9] hint 5
  %j : Long(2, 2, strides=[1, 2]) = aten::t(%i)
  %l : Tensor[] = prim::ListConstruct(%j)
  %r : Float(2, 2, 3, 4, strides=[24, 12, 4, 1]) = aten::index.Tensor(%x, %l)
  %n : NoneType = prim::Constant()
  %z : float = prim::Constant[value=0.]()
  %f : bool = prim::Constant[value=0]()
  %a : Float(1, 2, 3, 8, strides=[48, 24, 8, 1]) = aten::scaled_dot_product_attention(%q, %k, %v, %n, %z, %f, %n, %f)
  return (%r, %a)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const auto opened = OpenComposites(**g);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*g)->symbols.Get("s0").hint, -1);
}

// TorchScript's `if self.training` before anybody says which it is.
TEST(OpenComposites, AModeThatIsKnownAtRunTimeIsABranch) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 3, 4, 4, strides=[48, 16, 4, 1]), %mean : Float(3, strides=[1]), %var : Float(3, strides=[1]), %training : bool):
  %none : NoneType = prim::Constant()
  %momentum : float = prim::Constant[value=0.1]()
  %eps : float = prim::Constant[value=1e-05]()
  %yes : bool = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
  %n : Float(2, 3, 4, 4, strides=[48, 16, 4, 1]) = aten::batch_norm(%x, %none, %none, %mean, %var, %training, %momentum, %eps, %yes)
  %d : Float(2, 3, 4, 4, strides=[48, 16, 4, 1]) = aten::dropout(%n, %half, %training)
  %w : Float(2, 3, 4, 4, strides=[48, 16, 4, 1]) = aten::dropout_(%d, %half, %training)
  return (%w)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const absl::Status opened = OpenComposites(**g).status();
  ASSERT_TRUE(opened.ok()) << opened;
  ASSERT_TRUE(VerifyGraph(**g).ok());
  int branches = 0, writes = 0;
  for (NodeId n : (*g)->AllNodes()) {
    const Node& node = (*g)->node(n);
    branches += node.op.name() == "prim::If" && (*g)->value(node.inputs[0]).name == "training";
    writes += node.op.name() == "aten::copy_";
    EXPECT_NE(node.op.name(), "aten::dropout");
    EXPECT_NE(node.op.name(), "aten::dropout_");
  }
  EXPECT_EQ(branches, 3);
  EXPECT_EQ(writes, 2);  // of the statistics, where it trains
}

// PyTorch hands the product itself on where it does not train; nobody can tell, as nobody else has it.
TEST(OpenComposites, ABranchDoesNotShareWhatOnlyItHas) {
  auto g = ParseGraph(R"(
graph(%x : Float(2, 3, strides=[3, 1]), %training : bool):
  %half : float = prim::Constant[value=0.5]()
  %m : Float(2, 3, strides=[3, 1]) = aten::mul(%x, %x)
  %d : Float(2, 3, strides=[3, 1]) = aten::dropout(%m, %half, %training)
  %e : Float(2, 3, strides=[3, 1]) = aten::dropout(%x, %half, %training)
  return (%d, %e)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(OpenComposites(**g).ok());
  std::string handed_on;
  for (NodeId n : (*g)->AllNodes()) {
    if ((*g)->node(n).op.name() != "prim::If") continue;
    const ValueId eval = (*g)->results((*g)->node(n).blocks[1])[0];
    const NodeId def = (*g)->value(eval).def;
    handed_on += (*g)->IsParam(def) ? "x" : (*g)->node(def).op.name() + " ";
  }
  EXPECT_EQ(handed_on, "aten::clone x");
}

}  // namespace
}  // namespace smelt
