#include "smelt/functionalize/open_composites.h"

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

}  // namespace
}  // namespace smelt
