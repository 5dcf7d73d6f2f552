#include "smelt/core/op/storage_of.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

// A graph over floats %x and %y, with some constants.
class StorageOfTest : public testing::Test {
 protected:
  void Parse(const std::string& nodes) {
    ParseOptions options;
    options.resolve_overload = ResolveOverload;
    auto g = ParseGraph(
        "graph(%x : Float(4, 3, strides=[3, 1]), %y : Float(4, 3, strides=[3, 1])):\n"
        "  %none : NoneType = prim::Constant()\n"
        "  %0 : int = prim::Constant[value=0]()\n"
        "  %2 : int = prim::Constant[value=2]()\n"
        "  %true : bool = prim::Constant[value=1]()\n" +
            nodes + "  return (%x)\n",
        options);
    SMELT_CHECK_OK(g.status());
    graph_ = *std::move(g);
  }
  ValueId V(const char* name) const { return graph_->FindValue(name); }
  std::string Storage(const char* name) const { return graph_->value(StorageOf(*graph_, V(name))).name; }
  std::string Same(const char* name) const { return graph_->value(SameTensor(*graph_, V(name))).name; }
  // "own", "unknown", or the operand's name.
  std::string Step(const char* name) const {
    const StorageSource source = StorageStep(*graph_, V(name));
    if (source.kind == StorageSource::kOwn) return "own";
    return source.kind == StorageSource::kUnknown ? "unknown" : graph_->value(source.operand).name;
  }

  std::unique_ptr<Graph> graph_;
};

TEST_F(StorageOfTest, ViewsOfViewsShowTheFirstOnesBase) {
  Parse(
      "  %a : Float(4, 3, strides=[3, 1]) = aten::neg(%x)\n"
      "  %b : Float(12, strides=[1]) = smelt::view[sizes={12}, strides={1}, offset={0}, dtype=6](%a)\n"
      "  %c : Float(6, strides=[2]) = smelt::view[sizes={6}, strides={2}, offset={0}, dtype=6](%b)\n");
  EXPECT_EQ(Storage("c"), "a");
  EXPECT_EQ(Storage("b"), "a");
  EXPECT_EQ(Storage("a"), "a");
  EXPECT_EQ(Storage("x"), "x");
  EXPECT_EQ(ViewNodeOf(*graph_, V("b")), graph_->value(V("b")).def);
  EXPECT_FALSE(ViewNodeOf(*graph_, V("a")).valid());
  EXPECT_FALSE(ViewNodeOf(*graph_, V("x")).valid());
}

TEST_F(StorageOfTest, AWrittenRegionIsNewContents) {
  Parse(
      "  %r : Float(3, strides=[1]) = aten::select.int(%y, %0, %0)\n"
      "  %w : Float(4, 3, strides=[3, 1]) = smelt::write_region[sizes={3}, strides={1}, offset={0}, dtype=6](%x, %r)\n"
      "  %v : Float(12, strides=[1]) = smelt::view[sizes={12}, strides={1}, offset={0}, dtype=6](%w)\n");
  EXPECT_EQ(Storage("v"), "w");
}

// In PyTorch: x.add_(y) is x; x.select(0, 0).data_ptr() == x.data_ptr(); x.neg() has storage of its own.
TEST_F(StorageOfTest, AStepLeadsToTheOperandThatAResultIsOrIsAViewOf) {
  Parse(
      "  %n : Float(4, 3, strides=[3, 1]) = aten::neg(%x)\n"
      "  %s : Float(3, strides=[1]) = aten::select.int(%n, %0, %0)\n"
      "  %i : Float(4, 3, strides=[3, 1]) = aten::add_.Tensor(%n, %y, %2)\n"
      "  %o : Float(4, 3, strides=[3, 1]) = aten::add.out(%x, %y, %2, %n)\n");
  EXPECT_EQ(Step("x"), "own");
  EXPECT_EQ(Step("n"), "own");
  EXPECT_EQ(Step("s"), "n");
  EXPECT_EQ(Step("i"), "n");
  EXPECT_EQ(Step("o"), "n");
}

TEST_F(StorageOfTest, APieceOfATensorLeadsToItUnlessTheListOfPiecesMayHaveChanged) {
  Parse(
      "  %l : Tensor[] = aten::split.Tensor(%x, %2, %0)\n"
      "  %a : Tensor, %b : Tensor = prim::ListUnpack(%l)\n");
  EXPECT_EQ(Step("b"), "l");
  EXPECT_EQ(Step("l"), "x");
  Parse(
      "  %l : Tensor[] = aten::split.Tensor(%x, %2, %0)\n"
      "  %same : Tensor[] = aten::_set_item.t(%l, %0, %y)\n"
      "  %a : Tensor, %b : Tensor = prim::ListUnpack(%l)\n");
  EXPECT_EQ(Step("b"), "unknown");
}

// In PyTorch, set_ returns its first operand, which then has the storage of its second.
TEST_F(StorageOfTest, AStorageThatWasTakenIsUnknown) {
  Parse("  %s : Float(4, 3, strides=[3, 1]) = aten::set_.source_Tensor(%x, %y)\n");
  EXPECT_EQ(Step("s"), "unknown");
}

TEST_F(StorageOfTest, ResultsOfBlocksAreUnknown) {
  Parse(
      "  %r : Tensor = prim::If(%true)\n"
      "    block0():\n"
      "      -> (%x)\n"
      "    block1():\n"
      "      -> (%y)\n");
  EXPECT_EQ(Step("r"), "unknown");
}

TEST_F(StorageOfTest, InPlaceOperatorsReturnTheTensorThatTheyWrite) {
  Parse(
      "  %a : Float(4, 3, strides=[3, 1]) = aten::add_.Tensor(%x, %y, %2)\n"
      "  %b : Float(4, 3, strides=[3, 1]) = aten::relu_(%a)\n"
      "  %c : Float(3, strides=[1]) = aten::select.int(%b, %0, %0)\n"
      "  %d : Float(3, strides=[1]) = aten::relu_(%c)\n");
  EXPECT_EQ(Same("b"), "x");
  EXPECT_EQ(Same("d"), "c");
}

// In PyTorch, x.to(torch.float32) is x, and x.reshape(3, 4) of a transposed x is a copy, of others a view.
TEST_F(StorageOfTest, AResultThatMayBeACopyIsNotTheSameTensor) {
  Parse(
      "  %sizes : int[] = prim::ListConstruct(%2, %2)\n"
      "  %u : Tensor = aten::neg(%x)\n"
      "  %r : Tensor = aten::reshape(%u, %sizes)\n"
      "  %f : int = prim::Constant[value=6]()\n"
      "  %false : bool = prim::Constant[value=0]()\n"
      "  %t : Float(4, 3, strides=[3, 1]) = aten::to.dtype(%x, %f, %false, %false, %none)\n");
  EXPECT_EQ(Step("r"), "u");
  EXPECT_EQ(Same("r"), "r");
  EXPECT_EQ(Same("t"), "x");
}

TEST_F(StorageOfTest, ATypeCheckReturnsItsOperandsAndAFlag) {
  Parse("  %a : Tensor, %b : Tensor, %ok : bool = prim::TypeCheck(%x, %y)\n");
  EXPECT_EQ(Same("a"), "x");
  EXPECT_EQ(Same("b"), "y");
  EXPECT_EQ(Same("ok"), "ok");
}

}  // namespace
}  // namespace smelt
