#include "smelt/codegen/emit_reductions.h"

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

// The reduction of each row.
std::string Reduced(const std::string& type, const std::string& kind) {
  return absl::StrReplaceAll(R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param TYPE r [any,unit] alias=-1
param TYPE w [unit,zero] alias=-1
%0 = load.p0 TYPE
%1 = reduce.KIND TYPE %0
%2 = store.p1 TYPE %1
inner 0 1
outer 2
)",
                             {{"TYPE", type}, {"KIND", kind}});
}

// Reduces `copies` vectors, once, and flushes sums.
void ReduceOnce(EmitterFixture& e, int copies) {
  const std::vector<int> instrs = {0, 1};
  llvm::Type* element = e.fn.scalar().TypeOf(e.plan.spec.instrs[0].type);
  e.parts.reductions.StartReductions(e.ctx, instrs, copies);
  e.values.Reset(copies, e.values.None());
  for (int u = 0; u < copies; ++u) {
    llvm::Value* loaded = e.b.CreateLoad(e.fn.Vec(element, e.plan.lanes), e.words.base(0));
    e.values.Set(0, u, loaded);
    e.parts.reductions.Accumulate(e.ctx, 1, u);
  }
  e.parts.reductions.FlushSums(e.ctx, instrs, copies);
  e.parts.reductions.FinishReductions(e.ctx, instrs, copies);
}

TEST(ReductionEmitterTest, ARowsResultIsOneScalarForAllCopies) {
  EmitterFixture e(Reduced("float32", "max"));
  ReduceOnce(e, 4);
  EXPECT_EQ(e.values.Get(1, 0)->getType(), e.b.getFloatTy());
  EXPECT_EQ(e.values.Get(1, 3), e.values.Get(1, 0));
  EXPECT_TRUE(e.Finish());
}

TEST(ReductionEmitterTest, OnlyFloatingPointSumsHaveASecondLevel) {
  EmitterFixture floats(Reduced("float32", "sum"));
  ReduceOnce(floats, 2);
  EXPECT_EQ(floats.parts.reductions.StateOf(1).wide.size(), 1u) << "one for all copies of a row";
  EXPECT_TRUE(floats.parts.reductions.StateOf(1).error.empty());
  EXPECT_TRUE(floats.Finish());
  EmitterFixture doubles(Reduced("float64", "sum"));
  ReduceOnce(doubles, 2);
  EXPECT_EQ(doubles.parts.reductions.StateOf(1).error.size(), 1u) << "float64 keeps the rounding errors";
  EXPECT_TRUE(doubles.Finish());
  EmitterFixture integers(Reduced("int64", "sum"));
  ReduceOnce(integers, 2);
  EXPECT_TRUE(integers.parts.reductions.StateOf(1).wide.empty());
  EXPECT_TRUE(integers.Finish());
}

TEST(ReductionEmitterTest, InactiveLanesChangeNothing) {
  EmitterFixture e(Reduced("float32", "max"));
  e.ctx.count = e.words.size(1);
  e.ctx.mask = e.fn.MaskOf(e.ctx.count, e.plan.lanes);
  const int before = e.Count(llvm::Instruction::Select);
  EmitterFixture whole(Reduced("float32", "max"));
  const int before_whole = whole.Count(llvm::Instruction::Select);
  ReduceOnce(e, 1);
  ReduceOnce(whole, 1);
  EXPECT_EQ(e.Count(llvm::Instruction::Select) - before, whole.Count(llvm::Instruction::Select) - before_whole + 1);
}

}  // namespace
}  // namespace smelt
