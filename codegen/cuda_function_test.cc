#include "smelt/codegen/cuda_function.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

// p1 may share no memory with a param that is written; p2 may be any memory.
constexpr char kSpec[] = R"(
kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 w [any,unit] alias=0
param float32 r [zero,unit] alias=1
param float32 r [any,unit] alias=-1
%0 = load.p1 float32
%1 = load.p2 float32
%2 = add float32 %0 %1
%3 = store.p0 float32 %2
outer 0 1 2 3
)";

TEST(CudaFunctionTest, ControlFlowIsValid) {
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  const KernelSpec spec = ParseOrDie(kSpec);
  CudaFunction f(module, spec, "k");
  std::vector<llvm::Value*> index(2);
  f.For(f.thread(), f.Product(0, 2), f.b().getInt64(256), [&](llvm::Value* i) {
    f.Decompose(i, 0, 2, index);
    f.If(f.b().CreateICmpSLT(index[1], f.Size(1)), [&] { f.Barrier(); });
  });
  f.b().CreateRetVoid();
  EXPECT_FALSE(llvm::verifyModule(module, &llvm::errs()));
}

TEST(CudaFunctionTest, TheEntryHoldsNoBranchesOfTheBody) {
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  const KernelSpec spec = ParseOrDie(kSpec);
  CudaFunction f(module, spec, "k");
  f.Variable(f.b().getInt64Ty());
  f.b().CreateRetVoid();
  const llvm::BasicBlock& entry = module.getFunction("k")->getEntryBlock();
  EXPECT_TRUE(llvm::isa<llvm::AllocaInst>(entry.front()));
  EXPECT_EQ(entry.getTerminator()->getNumSuccessors(), 1);
}

TEST(CudaFunctionTest, OnlyALoadThatNoLaunchMayWriteIsInvariant) {
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  const KernelSpec spec = ParseOrDie(kSpec);
  CudaFunction f(module, spec, "k");
  std::vector<llvm::Value*> index(2, f.b().getInt64(0));
  for (int param : {1, 2}) {
    llvm::Value* address = f.Address(param, index, nullptr);
    llvm::LoadInst* load = f.b().CreateAlignedLoad(f.b().getFloatTy(), address, llvm::Align(4));
    f.MarkConstant(load, param);
    EXPECT_EQ(load->hasMetadata(llvm::LLVMContext::MD_invariant_load), param == 1);
  }
}

}  // namespace
}  // namespace smelt
