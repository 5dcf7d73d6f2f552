#include "smelt/codegen/emit_front.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kBytes[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param uint8 r [unit] alias=-1
param uint8 w [unit] alias=-1
%0 = load.p0 uint8
%1 = store.p1 uint8 %0
outer 0 1
)";

TEST(FrontEmitterTest, OnlyShortVectorsOfNarrowElementsAreInWords) {
  EmitterFixture e(kBytes, kTestV2);
  FrontEmitter front(e.fn);
  EXPECT_FALSE(front.InWords(e.ctx, DType::kUInt8, nullptr)) << "all lanes are active";
  e.ctx.count = e.words.size(0);
  e.ctx.lanes = 16;
  EXPECT_TRUE(front.InWords(e.ctx, DType::kUInt8, nullptr));
  EXPECT_FALSE(front.InWords(e.ctx, DType::kFloat32, nullptr));
  EXPECT_FALSE(front.InWords(e.ctx, DType::kUInt8, e.b.getTrue()));
  e.ctx.lanes = 32;
  EXPECT_FALSE(front.InWords(e.ctx, DType::kUInt8, nullptr));
}

TEST(FrontEmitterTest, NoAccessIsWiderThanAWord) {
  EmitterFixture e(kBytes, kTestV2);
  FrontEmitter front(e.fn);
  e.ctx.count = e.words.size(0);
  e.ctx.lanes = 16;
  llvm::Value* v = front.LoadFront(e.ctx, e.fn.Vec(e.b.getInt8Ty(), 16), e.words.base(0), 1);
  EXPECT_EQ(v->getType(), e.fn.Vec(e.b.getInt8Ty(), 16));
  front.StoreFront(e.ctx, v, e.words.base(1), 1);
  EXPECT_TRUE(e.Finish());
  const int wide = CountIn(e.module, [](const llvm::Instruction& i) {
    const llvm::Type* t = llvm::isa<llvm::StoreInst>(i)  ? i.getOperand(0)->getType()
                          : llvm::isa<llvm::LoadInst>(i) ? i.getType()
                                                         : nullptr;
    return t && t->getPrimitiveSizeInBits() > 64;
  });
  EXPECT_EQ(wide, 0);
}

}  // namespace
}  // namespace smelt
