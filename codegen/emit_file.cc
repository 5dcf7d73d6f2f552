#include "smelt/codegen/emit_file.h"

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace smelt {
namespace {

ABSL_CONST_INIT absl::Mutex option_mutex(absl::kConstInit);

// LLVM's switch for it is one of the process, looked at when passes are chosen: it is set for that long only.
bool AddPasses(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& stream,
               llvm::CodeGenFileType type, StrengthReduction strength_reduction) {
  absl::MutexLock lock(&option_mutex);
  auto* disable = FindSwitch<bool>("disable-lsr");
  const bool before = disable && disable->getValue();
  if (disable) disable->setValue(strength_reduction == StrengthReduction::kOff);
  const bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  if (disable) disable->setValue(before);
  return !failed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileEmitter>> FileEmitter::Create(llvm::TargetMachine& machine,
                                                                 llvm::CodeGenFileType type,
                                                                 StrengthReduction strength_reduction) {
  auto emitter = absl::WrapUnique(new FileEmitter());
  if (!AddPasses(machine, emitter->passes_, emitter->stream_, type, strength_reduction)) {
    return absl::InternalError(
        absl::StrCat("LLVM cannot emit this kind of file for ", machine.getTargetTriple().str()));
  }
  return emitter;
}

std::string FileEmitter::Emit(llvm::Module& module) {
  bytes_.clear();
  passes_.run(module);
  return std::string(bytes_.data(), bytes_.size());
}

}  // namespace smelt
