#include "smelt/codegen/emit_chunks.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(ChunkEmitterTest, EachCopyOfAColumnHasItsOwnResult) {
  EmitterFixture e(kTestColumnMax);
  ChunkEmitter chunks(e.plan, e.parts);
  e.values.Reset(2, e.values.None());
  chunks.EmitChunk(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), 2);
  EXPECT_NE(e.values.Get(1, 0), e.values.Get(1, 1));
  EXPECT_EQ(e.values.Get(1, 0)->getType(), e.fn.Vec(e.b.getFloatTy(), 16));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 2);
  EXPECT_EQ(e.Count(llvm::Instruction::Alloca), 0) << "accumulators are registers";
}

}  // namespace
}  // namespace smelt
