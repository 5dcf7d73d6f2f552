#include "smelt/codegen/lower_kernel.h"

#include <vector>

#include "smelt/codegen/emit_columns.h"
#include "smelt/codegen/emit_row_tiles.h"
#include "smelt/codegen/emit_rows.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"
#include "smelt/fuser/row_tiles.h"

namespace smelt {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// Emits the kernel of a schedule. `gathers`: for a machine on which gathering a vector at indices from data is faster
// than loading it lane by lane. Returns whether the code for the other kind of machine would differ.
bool EmitKernel(llvm::Module& module, const Schedule& plan, bool gathers, const std::string& symbol) {
  KernelFunction fn(module, plan.features, gathers, symbol);
  const LaunchWords words(fn, plan);
  fn.EnterBody();
  if (Value* refuses = IndexesNothing(fn.b(), plan.spec, words.sizes(), words.scalars())) fn.RefuseIf(refuses);
  Values values(fn, plan.spec.instrs.size());
  if (plan.columns) {
    ColumnEmitter(fn, plan, words, values).Emit();
  } else {
    EmitRows(fn, plan, words, values);
  }
  fn.Finish();
  return fn.could_gather();
}

// A kernel that continues as `gathers` or as `apart`.
void EmitChoice(llvm::Function& apart, llvm::Function& gathers, const std::string& symbol) {
  auto* fn =
      llvm::Function::Create(apart.getFunctionType(), llvm::GlobalValue::ExternalLinkage, symbol, apart.getParent());
  fn->setDSOLocal(true);
  llvm::IRBuilder<> b(BasicBlock::Create(fn->getContext(), "entry", fn));
  Value* hints = b.CreateConstGEP1_64(b.getInt64Ty(), fn->getArg(3), kHintsWord);
  hints = b.CreateAlignedLoad(b.getInt64Ty(), hints, llvm::Align(8));
  BasicBlock* ways[] = {BasicBlock::Create(fn->getContext(), "gathers", fn),
                        BasicBlock::Create(fn->getContext(), "apart", fn)};
  b.CreateCondBr(b.CreateIsNotNull(b.CreateAnd(hints, kGathersWell)), ways[0], ways[1]);
  for (int k = 0; k < 2; ++k) {
    b.SetInsertPoint(ways[k]);
    std::vector<Value*> args;
    for (llvm::Argument& a : fn->args()) args.push_back(&a);
    b.CreateCall(k == 0 ? &gathers : &apart, args)->setTailCallKind(llvm::CallInst::TCK_MustTail);
    b.CreateRetVoid();
  }
}

// Emits the kernel of a schedule as `symbol`.
llvm::Function& EmitForAllMachines(llvm::Module& module, const Schedule& plan, const std::string& symbol) {
  if (EmitKernel(module, plan, /*gathers=*/false, symbol)) {
    // The kernel holds both forms, and the machine that runs it chooses. On Intel's processors gathers take half of the
    // time of moving places out of a vector and elements into one; on AMD's they take up to half as much again. A choice
    // at each load would keep LLVM from extracting the places once for all loads there.
    llvm::Function* apart = module.getFunction(symbol);
    apart->setName(symbol + "_apart");
    apart->setLinkage(llvm::GlobalValue::InternalLinkage);
    EmitKernel(module, plan, /*gathers=*/true, symbol + "_gathers");
    llvm::Function* gathers = module.getFunction(symbol + "_gathers");
    gathers->setLinkage(llvm::GlobalValue::InternalLinkage);
    EmitChoice(*apart, *gathers, symbol);
  }
  return *module.getFunction(symbol);
}

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernel(llvm::LLVMContext& context, const KernelSpec& spec,
                                                          const CpuFeatures& features, const std::string& symbol) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("atomic_add: kernels for a CPU have none");
  }
  auto module = std::make_unique<llvm::Module>("kernel", context);
  const Schedule plan = Schedule::Of(spec, features);
  const RowTiles tiles = RowTiles::Of(spec);
  if (tiles.item_bytes.empty()) {
    EmitForAllMachines(*module, plan, symbol);
    return module;
  }
  Schedule in_tiles = Schedule::Of(SpecOfTiledRows(spec, tiles), features);
  for (size_t p = 0; p < spec.params.size(); ++p) {
    const int param = static_cast<int>(p);
    if (!tiles.Takes(param)) continue;
    in_tiles.may_pass_cache[p] = false;  // a buffer is read again at once
    // (Only measured on a Zen 5.)
    in_tiles.fills_next[p] = features.avx512 && IsReadFirst(spec, param);
  }
  llvm::Function& rows = EmitForAllMachines(*module, in_tiles, symbol + "_rows");
  llvm::Function& across = EmitForAllMachines(*module, plan, symbol + "_across");
  for (llvm::Function* part : {&rows, &across}) part->setLinkage(llvm::GlobalValue::InternalLinkage);
  EmitRowTiles(plan, tiles, in_tiles.fills_next, rows, across, symbol);
  return module;
}

}  // namespace smelt
