// For tests of the parts of the emitter: a kernel's function that stands in its body, with all parts over it.
//
//   EmitterFixture e(kText);                          // AVX-512, unless features are given
//   e.parts.instrs.EmitInstrs(e.ctx, {0, 1}, 1);
//   EXPECT_TRUE(e.Finish());
//   EXPECT_EQ(e.Count(llvm::Instruction::FAdd), 1);
#ifndef SMELT_CODEGEN_EMITTER_TESTING_H_
#define SMELT_CODEGEN_EMITTER_TESTING_H_

#include <functional>
#include <utility>

#include "absl/strings/string_view.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Verifier.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/test_kernels.h"
#include "smelt/codegen/values.h"

namespace smelt {

inline constexpr CpuFeatures kTestV2 = {.vector_bits = 128, .non_temporal = true};
inline constexpr CpuFeatures kTestV3 = {
    .vector_bits = 256, .fma = true, .f16c = true, .avx2 = true, .non_temporal = true};
inline constexpr CpuFeatures kTestV4 = {
    .vector_bits = 512, .fma = true, .f16c = true, .avx2 = true, .avx512 = true, .non_temporal = true};

// Returns how many instructions of the module satisfy `matches`.
inline int CountIn(llvm::Module& module, const std::function<bool(const llvm::Instruction&)>& matches) {
  int n = 0;
  for (llvm::Function& f : module) {
    for (const llvm::Instruction& i : llvm::instructions(f)) n += matches(i);
  }
  return n;
}

inline int CountIntrinsicIn(llvm::Module& module, llvm::Intrinsic::ID id) {
  return CountIn(module, [&](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    return call && call->getIntrinsicID() == id;
  });
}

struct EmitterFixture {
  explicit EmitterFixture(absl::string_view text, const CpuFeatures& features = kTestV4)
      : EmitterFixture(Schedule::Of(ParseOrDie(text), features)) {}
  explicit EmitterFixture(Schedule of)
      : module("kernel", context),
        plan(std::move(of)),
        fn(module, plan.features, /*gathers=*/false, "k"),
        words(fn, plan),
        values(fn, plan.spec.instrs.size()),
        parts(fn, plan, words, values),
        b(fn.b()),
        ctx(words.Outermost()) {
    fn.EnterBody();
    ctx.lanes = plan.lanes;
  }

  // Ends the function. Returns whether it is valid.
  bool Finish() {
    fn.Finish();
    return !llvm::verifyModule(module, &llvm::errs());
  }
  int Count(unsigned opcode) {
    return CountIn(module, [&](const llvm::Instruction& i) { return i.getOpcode() == opcode; });
  }
  int CountIntrinsic(llvm::Intrinsic::ID id) { return CountIntrinsicIn(module, id); }
  llvm::Value* Int(int64_t n) { return b.getInt64(n); }
  // Keeps a value in the code, which removes what is not used.
  void Use(llvm::Value* v) { b.CreateStore(v, fn.status(), /*isVolatile=*/true); }

  llvm::LLVMContext context;
  llvm::Module module;
  const Schedule plan;
  KernelFunction fn;
  const LaunchWords words;
  Values values;
  LoopParts parts;
  llvm::IRBuilder<>& b;
  LoopContext ctx;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMITTER_TESTING_H_
