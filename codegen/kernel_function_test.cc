#include "smelt/codegen/kernel_function.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(KernelFunctionTest, ALaunchWithoutTilesLeavesAtOnce) {
  EmitterFixture e(kTestCopy);
  EXPECT_TRUE(e.Finish());
  const llvm::BasicBlock& entry = e.module.getFunction("k")->getEntryBlock();
  ASSERT_EQ(entry.getTerminator()->getNumSuccessors(), 2u);
  EXPECT_EQ(entry.getTerminator()->getSuccessor(1)->getName(), "exit");
}

TEST(KernelFunctionTest, VariablesBecomeRegisters) {
  EmitterFixture e(kTestCopy);
  llvm::AllocaInst* sum = e.fn.Variable(e.b.getInt64Ty());
  e.b.CreateStore(e.Int(0), sum);
  e.fn.For(e.Int(0), e.words.size(0), e.Int(1),
           [&](llvm::Value* i) { e.b.CreateStore(e.b.CreateAdd(e.fn.Load(sum), i), sum); });
  e.Use(e.fn.Load(sum));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::Alloca), 0);
  // The index and the sum in the loop, and the sum behind it.
  EXPECT_EQ(e.Count(llvm::Instruction::PHI), 3);
}

TEST(KernelFunctionTest, ABranchThatYieldsNothingYieldsNull) {
  EmitterFixture e(kTestCopy);
  llvm::Value* condition = e.b.CreateICmpSGT(e.words.size(0), e.Int(3));
  auto nothing = []() -> llvm::Value* { return nullptr; };
  EXPECT_EQ(e.fn.IfElse(condition, nothing, nothing), nullptr);
  llvm::Value* some = e.fn.IfElse(condition, [&] { return e.Int(1); }, [&] { return e.Int(2); });
  EXPECT_TRUE(llvm::isa<llvm::PHINode>(some));
  EXPECT_TRUE(e.Finish());
}

TEST(KernelFunctionTest, OnlyAvx512MakesMasksOfBits) {
  for (const CpuFeatures& features : {kTestV3, kTestV4}) {
    EmitterFixture e(kTestCopy, features);
    e.Use(e.fn.MaskOf(e.words.size(0), e.plan.lanes));
    EXPECT_TRUE(e.Finish());
    int calls = 0;
    for (const llvm::Function& f : e.module) calls += f.getName().contains("bzhi");
    EXPECT_EQ(calls, features.avx512 ? 1 : 0);
    EXPECT_EQ(e.fn.MasksNatively(e.b.getInt8Ty()), features.avx512);
    EXPECT_TRUE(e.fn.MasksNatively(e.b.getFloatTy()));
  }
}

TEST(KernelFunctionTest, AStatusIsSetOnlyByActiveLanes) {
  EmitterFixture e(kTestCopy);
  llvm::Value* mask = e.fn.MaskOf(e.words.size(0), 4);
  llvm::Value* bad = e.b.CreateICmpEQ(e.b.CreateVectorSplat(4, e.words.size(0)), e.fn.Iota(e.b.getInt64Ty(), 4));
  e.fn.SetStatus(1, bad, mask);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::And), 1);
  EXPECT_EQ(e.Count(llvm::Instruction::Store), 1);
}

TEST(KernelFunctionTest, BooleansAreBytesInMemory) {
  EmitterFixture e(kTestCopy);
  EXPECT_EQ(e.fn.MemType(DType::kBool), e.b.getInt8Ty());
  llvm::Value* v = e.b.CreateICmpEQ(e.words.size(0), e.Int(3));
  llvm::Value* stored = e.fn.ToMemory(DType::kBool, v);
  EXPECT_EQ(stored->getType(), e.b.getInt8Ty());
  EXPECT_EQ(e.fn.FromMemory(DType::kBool, stored)->getType(), e.b.getInt1Ty());
  EXPECT_EQ(e.fn.ToMemory(DType::kInt64, e.Int(3)), e.Int(3));
}

}  // namespace
}  // namespace smelt
