#include "smelt/fuser/lowered_groups.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

// %z and %y are results of the group; 1 is added to %x.
constexpr char kGraph[] = R"(graph(%x : Float(4, 6, strides=[6, 1]), %w : Float(4, 6, strides=[6, 1])):
  %z : Float(4, 6, strides=[6, 1]), %y : Float(4, 6, strides=[6, 1]) = smelt::FusionGroup_0(%x)
  %v : Float(4, 6, strides=[6, 1]) = aten::relu(%y)
  return (%z, %v)
with smelt::FusionGroup_0 = graph(%0 : Float(4, 6, strides=[6, 1])):
  %one : int = prim::Constant[value=1]()
  %1 : Float(4, 6, strides=[6, 1]) = aten::add.Scalar(%0, %one, %one)
  %2 : Float(4, 6, strides=[6, 1]) = aten::tanh(%1)
  return (%1, %2)
)";

class LoweredGroupsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto g = ParseGraph(kGraph);
    ASSERT_TRUE(g.ok()) << g.status();
    g_ = *std::move(g);
    n_ = g_->Nodes(g_->top())[0];
    layout_ = [this](ValueId v) { return DefaultLayout(*g_, v); };
    Lower();
    EXPECT_EQ(lowered_.reused(), 0);
  }

  // Returns the memo's result, which must equal the current result of LowerGroup.
  LoweredKernel Lower() {
    auto kept = lowered_.Lower(*g_, n_, layout_);
    auto fresh = LowerGroup(*g_, n_, layout_);
    EXPECT_TRUE(kept.ok()) << kept.status();
    EXPECT_TRUE(fresh.ok()) << fresh.status();
    if (!kept.ok() || !fresh.ok()) return LoweredKernel();
    EXPECT_EQ(kept->spec.ToString(), fresh->spec.ToString());
    EXPECT_EQ(kept->sizes, fresh->sizes);
    EXPECT_EQ(kept->bytes, fresh->bytes);
    EXPECT_EQ(kept->params.size(), fresh->params.size());
    for (size_t i = 0; i < fresh->params.size(); ++i) {
      EXPECT_EQ(kept->params[i].value, fresh->params[i].value);
      EXPECT_EQ(kept->params[i].output, fresh->params[i].output);
      EXPECT_EQ(kept->params[i].offset, fresh->params[i].offset);
      EXPECT_EQ(kept->params[i].strides, fresh->params[i].strides);
    }
    EXPECT_EQ(kept->scalars.size(), fresh->scalars.size());
    return *std::move(kept);
  }
  Graph& Subgraph() { return *std::get<std::shared_ptr<Graph>>(*g_->node(n_).FindAttribute("Subgraph")); }

  std::unique_ptr<Graph> g_;
  NodeId n_;
  LayoutFn layout_;
  LoweredGroups lowered_;
};

TEST_F(LoweredGroupsTest, AGroupIsLoweredOnce) {
  Lower();
  EXPECT_EQ(lowered_.reused(), 1);
  Lower();
  EXPECT_EQ(lowered_.reused(), 2);
}

TEST_F(LoweredGroupsTest, EditsElsewhereDoNotMatter) {
  g_->MoveBefore(g_->Append(g_->top(), OpName::Get("aten::relu"), {g_->inputs()[1]}, {g_->value(g_->inputs()[1]).type}),
                 n_);
  Lower();
  EXPECT_EQ(lowered_.reused(), 1);
}

TEST_F(LoweredGroupsTest, AnOperandThatLiesOtherwiseIsAddressedAnew) {
  layout_ = [this](ValueId v) {
    SymbolicGeometry at = DefaultLayout(*g_, v);
    if (v == g_->inputs()[0]) at.strides = {Expr(1), Expr(4)};
    return at;
  };
  Lower();
  EXPECT_EQ(lowered_.reused(), 0);
  Lower();  // the later one is kept
  EXPECT_EQ(lowered_.reused(), 1);
}

TEST_F(LoweredGroupsTest, AResultAtAnOffsetIsAddressedAnew) {
  layout_ = [this](ValueId v) {
    SymbolicGeometry at = DefaultLayout(*g_, v);
    if (v == g_->node(n_).outputs[1]) at.offset = 24;
    return at;
  };
  Lower();
  EXPECT_EQ(lowered_.reused(), 0);
}

TEST_F(LoweredGroupsTest, AnotherOperandIsReadInstead) {
  g_->SetInput(n_, 0, g_->inputs()[1]);
  const LoweredKernel k = Lower();
  EXPECT_EQ(lowered_.reused(), 0);
  EXPECT_EQ(k.params[0].is_output ? k.params.back().value : k.params[0].value, g_->inputs()[1]);
}

TEST_F(LoweredGroupsTest, AResultThatNobodyReadsAnyMoreIsNotStored) {
  EXPECT_EQ(Lower().params.size(), 3u);
  EXPECT_EQ(lowered_.reused(), 1);
  g_->SetInput(g_->Nodes(g_->top())[1], 0, g_->inputs()[1]);
  EXPECT_EQ(Lower().params.size(), 2u);
  EXPECT_EQ(lowered_.reused(), 1);
}

TEST_F(LoweredGroupsTest, AnEditedSubgraphIsLoweredAnew) {
  Graph& sub = Subgraph();
  const std::string before = Lower().spec.ToString();
  EXPECT_EQ(lowered_.reused(), 1);
  sub.SetOp(sub.value(sub.outputs()[1]).def, OpName::Get("aten::relu"));
  EXPECT_NE(Lower().spec.ToString(), before);
  EXPECT_EQ(lowered_.reused(), 1);
}

TEST_F(LoweredGroupsTest, AnotherSubgraphIsLoweredAnew) {
  std::shared_ptr<Graph> other = Subgraph().Clone();
  other->SetOp(other->value(other->outputs()[1]).def, OpName::Get("aten::relu"));
  g_->SetAttribute(n_, "Subgraph", other);
  Lower();
  EXPECT_EQ(lowered_.reused(), 0);
}

TEST_F(LoweredGroupsTest, TheGraphMayGoFirst) {
  layout_ = nullptr;
  g_.reset();
}

}  // namespace
}  // namespace smelt
