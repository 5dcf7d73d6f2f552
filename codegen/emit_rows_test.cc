#include "smelt/codegen/emit_rows.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kSoftmax[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 rw [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = exp float32 %3
%5 = reduce.sum float32 %4
%6 = store.p1 float32 %4
%7 = load.p1 float32
%8 = div float32 %7 %5
%9 = store.p1 float32 %8
inner 0 1
inner 2 3 4 5 6
inner 7 8 9
)";

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
  EmitterFixture e(kSoftmax);
  EmitRows(e.fn, e.plan, e.words, e.values);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(BufferBytes(e), 2 * kScratchElements * 4);
}

TEST(EmitRowsTest, OneLoopNeedsNoBuffer) {
  EmitterFixture e(R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)");
  EmitRows(e.fn, e.plan, e.words, e.values);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(BufferBytes(e), 0);
}

}  // namespace
}  // namespace smelt
