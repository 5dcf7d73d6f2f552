#include "smelt/codegen/emit_blocks.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"
#include "smelt/codegen/test_kernels.h"

namespace smelt {
namespace {

TEST(BlockEmitterTest, ABlocksBodyIsWholeVectorsOfOneRow) {
  EmitterFixture e(kTestAddTransposed);
  SquareEmitter squares(e.fn, e.plan);
  ASSERT_TRUE(squares.block().has_value());
  BlockEmitter blocks(e.fn, e.plan, e.words, squares);
  llvm::Value* tile = e.fn.Temporary(llvm::ArrayType::get(e.b.getFloatTy(), 256));
  int bodies = 0;
  blocks.EmitBlocks(e.ctx, {tile, nullptr, nullptr}, {e.Int(0), e.Int(0), e.words.size(0), e.words.size(1), e.ctx.addr},
                    [&](const LoopContext& row, llvm::Value* column, int n) {
                      ++bodies;
                      EXPECT_EQ(n, squares.block()->square_columns / e.plan.lanes);
                      EXPECT_NE(row.idx[0], nullptr);
                      e.Use(column);
                    });
  EXPECT_EQ(bodies, 1);
  EXPECT_TRUE(e.Finish());
}

TEST(BlockEmitterTest, OnlyLaunchesOfWholeLinesAreInBlocks) {
  EmitterFixture e(kTestAddTransposed);
  SquareEmitter squares(e.fn, e.plan);
  BlockEmitter blocks(e.fn, e.plan, e.words, squares);
  llvm::Value* whole = blocks.WritesWholeLines();
  EXPECT_EQ(whole->getType(), e.b.getInt1Ty());
  EXPECT_FALSE(llvm::isa<llvm::Constant>(whole));
}

}  // namespace
}  // namespace smelt
