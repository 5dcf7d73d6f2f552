#include "smelt/functionalize/region_nodes.h"

#include <memory>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

struct Program {
  std::unique_ptr<Graph> g = *ParseGraph(R"(graph(%x : Float(4, 8, strides=[8, 1]), %v : Float(8, strides=[1])):
  return (%x))");
  WalkPosition at;
  RegionNodes regions{*g, at};
  NodeId end = g->block(g->top()).return_node;
};

SymbolicGeometry Row(int64_t row) { return {DType::kFloat32, {8}, {1}, row * 8}; }

TEST(RegionNodesTest, AViewHasTheTypeOfItsGeometry) {
  Program p;
  const ValueId row = p.regions.View(p.end, p.g->inputs()[0], Row(2));
  EXPECT_EQ(p.g->value(row).type, Type::Tensor(DType::kFloat32, {8}, {1}));
  const Node& node = p.g->node(p.g->value(row).def);
  EXPECT_EQ(std::get<Expr>(*node.FindAttribute("offset")), Expr(16));
  EXPECT_EQ(node.FindAttribute("argument"), nullptr);
}

TEST(RegionNodesTest, AWriteHasTheTypeOfItsBase) {
  Program p;
  const ValueId all = p.regions.Write(p.end, p.g->inputs()[0], p.g->inputs()[1], Row(1));
  EXPECT_EQ(p.g->value(all).type, p.g->value(p.g->inputs()[0]).type);
}

TEST(RegionNodesTest, RegionsThatFollowEachOtherKeepTheirOwnOffsetsAndTypes) {
  Program p;
  const ValueId x = p.g->inputs()[0];
  const ValueId first = p.regions.View(p.end, x, Row(0)), second = p.regions.View(p.end, x, Row(3));
  const ValueId column = p.regions.View(p.end, x, {DType::kFloat32, {4}, {8}, 0});
  const ValueId again = p.regions.View(p.end, x, Row(0));
  const auto attribute = [&](ValueId v, const char* name) { return *p.g->node(p.g->value(v).def).FindAttribute(name); };
  EXPECT_EQ(std::get<Expr>(attribute(first, "offset")), Expr(0));
  EXPECT_EQ(std::get<Expr>(attribute(second, "offset")), Expr(24));
  EXPECT_EQ(std::get<std::vector<Expr>>(attribute(column, "strides")), std::vector<Expr>{8});
  EXPECT_EQ(std::get<std::vector<Expr>>(attribute(again, "strides")), std::vector<Expr>{1});
  EXPECT_EQ(p.g->value(column).type, Type::Tensor(DType::kFloat32, {4}, {8}));
  EXPECT_EQ(p.g->value(again).type, p.g->value(first).type);
}

TEST(RegionNodesTest, ARegionOfSharedMemoryNamesItsArgument) {
  Program p;
  const ValueId x = p.g->inputs()[0];
  const ValueId of_first = p.regions.View(p.end, x, Row(0), /*home=*/0);
  const ValueId of_second = p.regions.View(p.end, x, Row(0), /*home=*/1);
  const auto argument = [&](ValueId v) {
    return std::get<int64_t>(*p.g->node(p.g->value(v).def).FindAttribute("argument"));
  };
  EXPECT_EQ(argument(of_first), 0);
  EXPECT_EQ(argument(of_second), 1);
}

TEST(RegionNodesTest, WhatIsInsertedHasTheSourceOfTheWalk) {
  Program p;
  SourceLocation location;
  location.file = "model.py";
  location.line = 7;
  p.at.source = std::make_shared<SourceLocation>(location);
  const ValueId row = p.regions.View(p.end, p.g->inputs()[0], Row(0));
  ASSERT_NE(p.g->node(p.g->value(row).def).source, nullptr);
  EXPECT_EQ(p.g->node(p.g->value(row).def).source->ToString(), "model.py:7");
}

}  // namespace
}  // namespace smelt
