#include "smelt/codegen/emit_rows.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

// Returns the bytes of the row buffers of a kernel.
int64_t BufferBytes(EmitterFixture& e) {
  int64_t bytes = 0;
  CountIn(e.module, [&](const llvm::Instruction& i) {
    const auto* a = llvm::dyn_cast<llvm::AllocaInst>(&i);
    if (a && a->getAllocatedType()->isArrayTy()) bytes += a->getAllocatedType()->getArrayNumElements() * 4;
    return a != nullptr;
  });
  return bytes;
}

TEST(EmitRowsTest, RowsInTurnsHaveABufferEach) {
  EmitterFixture e(kTestSoftmax);
  EmitRows(e.fn, e.plan, e.words, e.values);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(BufferBytes(e), 2 * kScratchElements * 4);
}

TEST(EmitRowsTest, OneLoopNeedsNoBuffer) {
  EmitterFixture e(kTestRowMax);
  EmitRows(e.fn, e.plan, e.words, e.values);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(BufferBytes(e), 0);
}

}  // namespace
}  // namespace smelt
