#include "smelt/codegen/compiler.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "smelt/codegen/emit_file.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/codegen/llvm_memory.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

struct TargetInfo {
  const char* features;
  CpuFeatures cpu;
};

// The levels of the x86-64 psABI, by their features. A CPU's name would bring tuning for that CPU.
#define SMELT_V2_FEATURES "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+crc32"
#define SMELT_V3_FEATURES SMELT_V2_FEATURES ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define SMELT_V4_FEATURES SMELT_V3_FEATURES ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+evex512"

// LLVM's version features ("v8.2a") would allow much besides that no machine is asked for.
#define SMELT_ARM_FEATURES "+neon,+fp-armv8"
#define SMELT_ARM_V8_2_FEATURES SMELT_ARM_FEATURES ",+crc,+dotprod,+fullfp16,+lse,+rdm"
#define SMELT_ARM_V8_6_FEATURES SMELT_ARM_V8_2_FEATURES ",+bf16,+i8mm"

TargetInfo InfoOf(Target t) {
  switch (t) {
    case Target::kX86_64_V2:
      return {SMELT_V2_FEATURES, {.vector_bits = 128, .non_temporal = true}};
    case Target::kX86_64_V3:
      return {SMELT_V3_FEATURES, {.vector_bits = 256, .fma = true, .f16c = true, .avx2 = true, .non_temporal = true}};
    case Target::kX86_64_V4:
      return {SMELT_V4_FEATURES,
              {.vector_bits = 512, .fma = true, .f16c = true, .avx2 = true, .avx512 = true, .non_temporal = true}};
    case Target::kArmV8_2:
      return {SMELT_ARM_V8_2_FEATURES, {.vector_bits = 128, .fma = true, .f16c = true, .fp16 = true, .neon = true}};
    case Target::kArmV8_6:
      return {SMELT_ARM_V8_6_FEATURES,
              {.vector_bits = 128, .fma = true, .f16c = true, .bf16 = true, .fp16 = true, .neon = true}};
    default:
      return {SMELT_ARM_FEATURES, {.vector_bits = 128, .fma = true, .f16c = true, .neon = true}};
  }
}

// A conversion of a number keeps the rest of its register, and waits for the instruction that wrote it. LLVM clears the
// register first unless it was written long before. In a loop it does not see that the last round wrote the register,
// and takes that for farther away than any distance but this one. The switch belongs to the process, and LLVM reads it
// as it compiles.
void AlwaysBreakFalseDependences() {
  constexpr unsigned kBeyondAnyDistance = 1u << 30;
  if (auto* clearance = FindSwitch<unsigned>("undef-reg-clearance")) clearance->setValue(kBeyondAnyDistance);
}

void InitializeLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    ThrowWhereLlvmHasNoMemory();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    AlwaysBreakFalseDependences();
  });
}

struct Machine {
  std::unique_ptr<llvm::TargetMachine> target;
  std::unique_ptr<FileEmitter> objects;  // null until asked for
};

// A target machine is expensive to make and cannot be shared by threads, so each thread keeps its own.
absl::StatusOr<Machine*> MachineFor(Target target) {
  thread_local std::map<Target, Machine> machines;
  Machine& machine = machines[target];
  if (machine.target) return &machine;
  InitializeLlvm();
  const TargetInfo info = InfoOf(target);
  const llvm::Triple triple(Triple(target));
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) return absl::UnimplementedError(absl::StrCat("LLVM has no target ", Triple(target), ": ", error));
  llvm::TargetOptions options;
  // Products and sums are contracted only where the IR says fma.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.FunctionSections = false;
  machine.target.reset(found->createTargetMachine(triple, "", info.features, options, llvm::Reloc::PIC_,
                                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  return &machine;
}

struct Lowered {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  Machine* machine = nullptr;
};

absl::StatusOr<Lowered> Lower(const KernelSpec& spec, Target target, const std::string& symbol) {
  SMELT_RETURN_IF_ERROR(VerifyKernelSpec(spec));
  Lowered out;
  SMELT_ASSIGN_OR_RETURN(out.machine, MachineFor(target));
  const TargetInfo info = InfoOf(target);
  out.context = std::make_unique<llvm::LLVMContext>();
  SMELT_ASSIGN_OR_RETURN(out.module, LowerKernel(*out.context, spec, info.cpu, symbol));
  out.module->setTargetTriple(out.machine->target->getTargetTriple());
  out.module->setDataLayout(out.machine->target->createDataLayout());
  for (llvm::Function& f : *out.module) {
    if (f.isDeclaration()) continue;
    f.addFnAttr(llvm::Attribute::NoUnwind);
    f.addFnAttr("no-builtins");
    f.addFnAttr("target-features", info.features);
    f.addFnAttr("prefer-vector-width", absl::StrCat(info.cpu.vector_bits));
    f.addFnAttr("min-legal-vector-width", absl::StrCat(info.cpu.vector_bits));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<FileEmitter>> NewEmitter(Machine& machine, llvm::CodeGenFileType type) {
  return FileEmitter::Create(*machine.target, type, LlvmPasses::kForKernels);
}

absl::StatusOr<std::string> EmitObject(Lowered& lowered) {
  std::unique_ptr<FileEmitter>& emitter = lowered.machine->objects;
  if (!emitter) {
    SMELT_ASSIGN_OR_RETURN(emitter, NewEmitter(*lowered.machine, llvm::CodeGenFileType::ObjectFile));
  }
  return emitter->Emit(*lowered.module);
}

absl::StatusOr<std::string> EmitAssembly(Lowered& lowered) {
  SMELT_ASSIGN_OR_RETURN(auto emitter, NewEmitter(*lowered.machine, llvm::CodeGenFileType::AssemblyFile));
  return emitter->Emit(*lowered.module);
}

}  // namespace

absl::StatusOr<KernelObject> CompileKernel(const KernelSpec& spec, Target target) {
  KernelObject object;
  object.target = target;
  object.key = ComputeKernelKey(spec.ToString(), target);
  object.symbol = absl::StrCat("k_", object.key);
  if (IsCuda(target)) {
    SMELT_ASSIGN_OR_RETURN(object.bytes, CompileToPtx(spec, target, object.symbol));
    return object;
  }
  SMELT_ASSIGN_OR_RETURN(Lowered lowered, Lower(spec, target, object.symbol));
  // This takes a hundredth of LLVM's time, and a broken module might compile to anything.
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(*lowered.module, &stream)) {
    return absl::InternalError(absl::StrCat("LLVM IR of this kernel is broken: ", broken, "\n", spec.ToString()));
  }
  SMELT_ASSIGN_OR_RETURN(object.bytes, EmitObject(lowered));
  return object;
}

absl::StatusOr<std::string> PrintKernel(const KernelSpec& spec, Target target, KernelText what) {
  if (IsCuda(target)) {
    return what == KernelText::kLlvmIr ? PrintCudaIr(spec, "kernel") : CompileToPtx(spec, target, "kernel");
  }
  SMELT_ASSIGN_OR_RETURN(Lowered lowered, Lower(spec, target, "kernel"));
  if (what == KernelText::kAssembly) return EmitAssembly(lowered);
  std::string text;
  llvm::raw_string_ostream stream(text);
  lowered.module->print(stream, nullptr);
  std::string broken;
  llvm::raw_string_ostream broken_stream(broken);
  if (llvm::verifyModule(*lowered.module, &broken_stream)) {
    return absl::InternalError(absl::StrCat("LLVM IR: ", broken, "\n", text));
  }
  return text;
}

}  // namespace smelt
