#include "smelt/codegen/emit_tiles.h"

#include "gtest/gtest.h"
#include "llvm/Analysis/ValueTracking.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(TileEmitterTest, ARowReadsTheTransposedOperandFromItsTile) {
  EmitterFixture e(kTestTransposed, kTestV2);
  int rows = 0;
  TileEmitter tiles(e.fn, e.plan, e.words);
  tiles.EmitTiles(
      e.ctx,
      [&](const LoopContext& row, llvm::Value* lo, llvm::Value* hi) {
        ++rows;
        const auto* place = llvm::cast<llvm::GetElementPtrInst>(row.addr[0]);
        EXPECT_TRUE(llvm::isa<llvm::AllocaInst>(place->getPointerOperand()));
        EXPECT_FALSE(llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(row.addr[1])));
        e.Use(lo);
        e.Use(hi);
      },
      [&](const LoopContext&, llvm::Value*, int) { ADD_FAILURE() << "there are no blocks"; });
  EXPECT_EQ(rows, 1);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.module.getFunction("square_4"), nullptr);
}

}  // namespace
}  // namespace smelt
