#include "smelt/codegen/emit_blocks.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

// p2 = p0 transposed + p1
constexpr char kAdd[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [unit,any] alias=-1
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = add float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)";

TEST(BlockEmitterTest, ABlocksBodyIsWholeVectorsOfOneRow) {
  EmitterFixture e(kAdd);
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
  EmitterFixture e(kAdd);
  SquareEmitter squares(e.fn, e.plan);
  BlockEmitter blocks(e.fn, e.plan, e.words, squares);
  llvm::Value* whole = blocks.WritesWholeLines();
  EXPECT_EQ(whole->getType(), e.b.getInt1Ty());
  EXPECT_FALSE(llvm::isa<llvm::Constant>(whole));
}

}  // namespace
}  // namespace smelt
