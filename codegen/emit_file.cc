#include "smelt/codegen/emit_file.h"

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace smelt {
namespace {

ABSL_CONST_INIT absl::Mutex option_mutex(absl::kConstInit);

// LLVM's switch for it is one of the process, looked at when passes are chosen: it is set for that long only.
bool AddPasses(llvm::TargetMachine& machine, llvm::legacy::PassManager& passes, llvm::raw_pwrite_stream& stream,
               llvm::CodeGenFileType type, StrengthReduction strength_reduction) {
  absl::MutexLock lock(&option_mutex);
  auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("disable-lsr");
  auto* disable = found == options.end() ? nullptr : static_cast<llvm::cl::opt<bool>*>(found->second);
  const bool before = disable && disable->getValue();
  if (disable) disable->setValue(strength_reduction == StrengthReduction::kOff);
  const bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  if (disable) disable->setValue(before);
  return !failed;
}

}  // namespace

absl::StatusOr<std::string> EmitFile(llvm::TargetMachine& machine, llvm::Module& module, llvm::CodeGenFileType type,
                                     StrengthReduction strength_reduction) {
  llvm::SmallVector<char, 0> out;
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  if (!AddPasses(machine, passes, stream, type, strength_reduction)) {
    return absl::InternalError(
        absl::StrCat("LLVM cannot emit this kind of file for ", machine.getTargetTriple().str()));
  }
  passes.run(module);
  return std::string(out.data(), out.size());
}

}  // namespace smelt
