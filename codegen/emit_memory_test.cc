#include "smelt/codegen/emit_memory.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

struct Memory : EmitterFixture {
  explicit Memory(const CpuFeatures& features = kTestV4)
      : EmitterFixture(kTestCopy, features), memory(fn, plan, words, values) {
    ctx = parts.loops.AtIndex(ctx, fn.begin());
  }
  const KernelInstr& load() { return plan.spec.instrs[0]; }
  const KernelInstr& store() { return plan.spec.instrs[1]; }
  int MaskedAccesses() {
    return CountIntrinsic(llvm::Intrinsic::masked_load) + CountIntrinsic(llvm::Intrinsic::masked_store);
  }

  MemoryEmitter memory;
};

TEST(MemoryEmitterTest, AWholeVectorIsReadAndWrittenAtOnce) {
  Memory m;
  m.values.Set(0, 0, m.memory.EmitLoad(m.ctx, m.load(), 0));
  m.memory.EmitStores(m.ctx, m.store(), 1);
  EXPECT_TRUE(m.Finish());
  EXPECT_EQ(m.MaskedAccesses(), 0);
  EXPECT_EQ(m.Count(llvm::Instruction::Store), 1);
}

TEST(MemoryEmitterTest, APartIsReadAndWrittenUnderItsMask) {
  Memory m;
  m.ctx.count = m.words.size(0);
  m.ctx.mask = m.fn.MaskOf(m.ctx.count, m.plan.lanes);
  m.values.Set(0, 0, m.memory.EmitLoad(m.ctx, m.load(), 0));
  m.memory.EmitStores(m.ctx, m.store(), 1);
  EXPECT_TRUE(m.Finish());
  EXPECT_EQ(m.MaskedAccesses(), 2);
  EXPECT_EQ(m.Count(llvm::Instruction::Store), 0);
}

TEST(MemoryEmitterTest, ABodyForBothAccessesMemoryInTwoWays) {
  Memory m;
  m.ctx.count = m.words.size(0);
  m.ctx.mask = m.fn.MaskOf(m.ctx.count, m.plan.lanes);
  m.ctx.whole = m.b.CreateICmpEQ(m.ctx.count, m.Int(16));
  m.values.Set(0, 0, m.memory.EmitLoad(m.ctx, m.load(), 0));
  m.memory.EmitStores(m.ctx, m.store(), 1);
  EXPECT_TRUE(m.Finish());
  EXPECT_EQ(m.MaskedAccesses(), 2);
  EXPECT_EQ(m.Count(llvm::Instruction::Store), 1);
}

TEST(MemoryEmitterTest, StoresOfAMainLoopMayPassTheCache) {
  Memory m;
  m.ctx.past_cache = m.b.getTrue();
  m.values.Set(0, 0, m.memory.EmitLoad(m.ctx, m.load(), 0));
  m.memory.EmitStores(m.ctx, m.store(), 1);
  EXPECT_TRUE(m.Finish());
  EXPECT_EQ(CountIn(m.module, [](const llvm::Instruction& i) { return i.hasMetadata("nontemporal"); }), 1);
}

TEST(MemoryEmitterTest, ALaunchChoosesBetweenBothKindsOfStores) {
  Memory m;
  m.ctx.past_cache = m.words.passes_cache(1);
  m.values.Set(0, 0, m.memory.EmitLoad(m.ctx, m.load(), 0));
  m.memory.EmitStores(m.ctx, m.store(), 1);
  EXPECT_TRUE(m.Finish());
  EXPECT_EQ(m.Count(llvm::Instruction::Store), 2);
  EXPECT_EQ(CountIn(m.module, [](const llvm::Instruction& i) { return i.hasMetadata("nontemporal"); }), 1);
}

}  // namespace
}  // namespace smelt
