#include "smelt/codegen/cuda_reductions.h"

#include <vector>

#include "gtest/gtest.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Verifier.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/test_kernels.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

int CountBarriers(const llvm::Function& f) {
  int n = 0;
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    n += call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all;
  }
  return n;
}

// Emits the sum of one element per thread, and returns the number of barriers.
int BarriersOfSum(CudaReductions::Scope scope) {
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  const KernelSpec spec = ParseOrDie(kTestRowSum);
  CudaFunction f(module, spec, "k");
  CudaReductions reductions(f, spec);
  std::vector<llvm::Value*> values(spec.instrs.size(), nullptr);
  reductions.Begin(spec.phases[0]);
  values[0] = llvm::ConstantFP::get(f.b().getFloatTy(), 2);
  reductions.Accumulate(1, values);
  EXPECT_EQ(values[1], nullptr) << "a reduction has a value at the end of its phase alone";
  reductions.End(spec.phases[0], scope, values);
  EXPECT_NE(values[1], nullptr);
  f.b().CreateRetVoid();
  EXPECT_FALSE(llvm::verifyModule(module, &llvm::errs()));
  return CountBarriers(*module.getFunction("k"));
}

TEST(CudaReductionsTest, AThreadOrAWarpReducesWithoutTheOthers) {
  EXPECT_EQ(BarriersOfSum(CudaReductions::Scope::kThread), 0);
  EXPECT_EQ(BarriersOfSum(CudaReductions::Scope::kWarp), 0);
}

// One before the shared memory is written, and one before it is read.
TEST(CudaReductionsTest, ABlockMeetsTwice) {
  EXPECT_EQ(BarriersOfSum(CudaReductions::Scope::kBlock), 2);
  EXPECT_EQ(BarriersOfSum(CudaReductions::Scope::kColumn), 2);
}

}  // namespace
}  // namespace smelt
