#include "smelt/codegen/emit_file.h"

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace smelt {
namespace {

ABSL_CONST_INIT absl::Mutex option_mutex(absl::kConstInit);

// By their names. Kernels have no exceptions, garbage collection, threads' variables, calls with arguments on the
// stack, variables that end or of which a debugger knows, profiles, or hardening.
constexpr llvm::StringLiteral kLeftOut[] = {
    "Expand Atomic instructions",
    "Lower AMX intrinsics",
    "Lower AMX type for load/store",
    "Merge contiguous icmps into a memcmp",
    "Expand memcmp() to load/stores",
    "Lower Garbage Collection Instructions",
    "Shadow Stack GC Lowering",
    "Constant Hoisting",
    "Replace intrinsics with calls to vector library",
    "Partially inline calls to library functions",
    "Instrument function entry/exit with calls to e.g. mcount() (post inlining)",
    "Expand indirectbr instructions",
    "Exception handling preparation",
    "ObjC ARC contraction",
    "Prepare callbr",
    "Safe Stack instrumentation pass",
    "Local Dynamic TLS Access Clean-up",
    "X86 PIC Global Base Reg Initialization",
    "Argument Stack Rebase",
    "Merge disjoint stack slots",
    "X86 Optimize Call Frame",
    "X86 Suppress APX features for relocation",
    "X86 speculative load hardening",
    "X86 DynAlloca Expander",
    "Tile Register Pre-configure",
    "Tile Register Configure",
    "X86 Lower Tile Copy",
    "X86 FP Stackifier",
    "X86 Load Value Injection (LVI) Load Hardening",
    "Remove Redundant DEBUG_VALUE analysis",
    "Fixup Statepoint Caller Saved",
    "Insert KCFI indirect call checks",
    "Post RA top-down list latency scheduler",
    "Analyze Machine Code For Garbage Collection",
    "Insert fentry calls",
    "Insert XRay ops",
    "Implement the 'patchable-function' attribute",
    "X86 Indirect Branch Tracking",
    "X86 Atom pad short functions",
    "X86 insert wait instruction",
    "Contiguously Lay Out Funclets",
    "Remove Loads Into Fake Uses",
    "StackMap Liveness Analysis",
    "Live DEBUG_VALUE analysis",
    "Machine Sanitizer Binary Metadata",
    "Stack Frame Layout Analysis",
    "X86 Speculative Execution Side Effect Suppression",
    "X86 Indirect Thunks",
    "X86 Return Thunks",
    "Check CFA info and insert CFI instructions if needed",
    "X86 Load Value Injection (LVI) Ret-Hardening",
    "Pseudo Probe Inserter",
    "Unpack machine instruction bundles",
    "Register Allocation Pass Scoring",
    // ShareRepeated has found everything that this pass would find.
    "Machine Common Subexpression Elimination",
};

// Loop strength reduction took LLVM half of a kernel's time, and kernels became no faster for it: addresses are sums
// that the machine forms as it loads. LLVM's switch for it is one of the process, looked at when passes are chosen: it
// is set for that long only.
bool AddPasses(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& stream,
               llvm::CodeGenFileType type, LlvmPasses which) {
  absl::MutexLock lock(&option_mutex);
  auto* disable = FindSwitch<bool>("disable-lsr");
  const bool before = disable && disable->getValue();
  if (disable) disable->setValue(which == LlvmPasses::kForKernels);
  const bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  if (disable) disable->setValue(before);
  return !failed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileEmitter>> FileEmitter::Create(llvm::TargetMachine& machine,
                                                                 llvm::CodeGenFileType type, LlvmPasses passes) {
  auto emitter = absl::WrapUnique(new FileEmitter(passes));
  if (!AddPasses(machine, emitter->passes_, emitter->stream_, type, passes)) {
    return absl::InternalError(
        absl::StrCat("LLVM cannot emit this kind of file for ", machine.getTargetTriple().str()));
  }
  return emitter;
}

void FileEmitter::Passes::add(llvm::Pass* pass) {
  const bool leaves_out = which_ == LlvmPasses::kForKernels && llvm::is_contained(kLeftOut, pass->getPassName());
  if (leaves_out) {
    delete pass;
  } else {
    PassManager::add(pass);
  }
}

std::string FileEmitter::Emit(llvm::Module& module) {
  bytes_.clear();
  passes_.run(module);
  return std::string(bytes_.data(), bytes_.size());
}

}  // namespace smelt
