#include "smelt/codegen/emit_apart.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kParts[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [two] alias=-1
param float32 w [two] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";

TEST(ApartEmitterTest, ElementsTwoApartTakeTwoVectors) {
  EmitterFixture e(kParts);
  ApartEmitter apart(e.fn);
  llvm::Type* type = e.fn.Vec(e.b.getFloatTy(), 16);
  EXPECT_TRUE(apart.LoadsWholes(e.ctx, e.b.getFloatTy(), 2));
  e.Use(apart.LoadApart(e.ctx, type, e.words.base(0), 2));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(
      CountIn(e.module,
              [](const llvm::Instruction& i) { return llvm::isa<llvm::LoadInst>(i) && i.getType()->isVectorTy(); }),
      2);
}

TEST(ApartEmitterTest, TheMemoryBetweenTheElementsIsLeftAlone) {
  EmitterFixture e(kParts);
  ApartEmitter apart(e.fn);
  apart.StoreApart(e.ctx, llvm::Constant::getNullValue(e.fn.Vec(e.b.getFloatTy(), 16)), e.words.base(1),
                   e.b.getFloatTy(), 2);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::Store), 0);
  int lanes = 0;
  CountIn(e.module, [&](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    if (!call || call->getIntrinsicID() != llvm::Intrinsic::masked_store) return false;
    const auto* mask = llvm::cast<llvm::Constant>(call->getArgOperand(call->arg_size() - 1));
    for (unsigned k = 0; k < 16; ++k) lanes += mask->getAggregateElement(k)->isOneValue();
    return true;
  });
  EXPECT_EQ(lanes, 16);
}

TEST(ApartEmitterTest, MasksCountOverNeighbouringVectors) {
  EmitterFixture e(kParts);
  ApartEmitter apart(e.fn);
  EXPECT_EQ(apart.MasksOf(e.ctx, 3, e.words.size(0)).size(), 3u);
  EXPECT_TRUE(e.Finish());
}

}  // namespace
}  // namespace smelt
