#include "smelt/codegen/emit_squares.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

Square SquareAt(EmitterFixture& e, llvm::Value* to) {
  return {e.words.base(0), e.words.stride(0, 1), to, e.Int(64), e.words.base(0), e.Int(64), e.Int(64)};
}

TEST(SquareEmitterTest, SquaresOfBlocksShareOneFunction) {
  EmitterFixture e(kTestTransposed);
  SquareEmitter squares(e.fn, e.plan);
  ASSERT_TRUE(squares.block().has_value());
  llvm::Value* tile = e.fn.Temporary(llvm::ArrayType::get(e.b.getFloatTy(), 256));
  squares.FillSquare(0, SquareAt(e, tile));
  squares.FillSquare(0, SquareAt(e, tile));
  EXPECT_TRUE(e.Finish());
  llvm::Function* shared = e.module.getFunction("square_4");
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->getNumUses(), 2u);
  EXPECT_NE(squares.Paced(e.Int(3)), e.Int(3));
}

TEST(SquareEmitterTest, WithoutBlocksRequestsDoNotWait) {
  EmitterFixture e(kTestTransposed, kTestV2);
  SquareEmitter squares(e.fn, e.plan);
  EXPECT_FALSE(squares.block().has_value());
  llvm::Value* tile = e.fn.Temporary(llvm::ArrayType::get(e.b.getFloatTy(), 16));
  squares.FillSquare(0, SquareAt(e, tile));
  EXPECT_EQ(squares.Paced(e.words.size(0)), e.words.size(0));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.module.getFunction("square_4"), nullptr);
  EXPECT_EQ(e.Count(llvm::Instruction::Store), 4) << "vectors of four floats";
}

TEST(SquareEmitterTest, ATileRowReplacesTheOperandsAddress) {
  EmitterFixture e(kTestTransposed);
  SquareEmitter squares(e.fn, e.plan);
  llvm::Value* tile = e.fn.Temporary(llvm::ArrayType::get(e.b.getFloatTy(), 256));
  LoopContext row = e.ctx;
  squares.GoToTileRow(row, {tile, nullptr}, e.words.size(0), 16, e.Int(0));
  EXPECT_EQ(llvm::cast<llvm::GetElementPtrInst>(row.addr[0])->getPointerOperand(), tile);
  EXPECT_EQ(row.addr[1], e.ctx.addr[1]);
}

}  // namespace
}  // namespace smelt
