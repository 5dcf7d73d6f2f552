#include "smelt/core/ir/node_text.h"

#include <memory>

#include "gtest/gtest.h"

namespace smelt {
namespace {

TEST(NodeTextTest, ANodeIsNamedByItsOperatorAndItsLine) {
  Node node;
  node.op = OpName::Get("aten::add.Tensor");
  SourceLocation line;
  line.file = "model.py";
  line.line = 41;
  node.source = std::make_shared<const SourceLocation>(line);
  EXPECT_EQ(OperatorAndSource(node), "aten::add.Tensor (model.py:41)");
}

TEST(NodeTextTest, AnUnknownLineIsLeftOut) {
  Node node;
  node.op = OpName::Get("aten::add.Tensor");
  EXPECT_EQ(OperatorAndSource(node), "aten::add.Tensor");
  node.source = std::make_shared<const SourceLocation>();
  EXPECT_EQ(OperatorAndSource(node), "aten::add.Tensor");
}

}  // namespace
}  // namespace smelt
