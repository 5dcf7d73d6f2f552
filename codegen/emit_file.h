// LLVM's code generation: turns a module into text or an object file. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_EMIT_FILE_H_
#define SMELT_CODEGEN_EMIT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace smelt {

// Returns an option of LLVM, which is global to the process; null if this LLVM has no option of that name.
template <typename T>
llvm::cl::opt<T>* FindSwitch(llvm::StringRef name) {
  auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find(name);
  return found == options.end() ? nullptr : static_cast<llvm::cl::opt<T>*>(found->second);
}

// kForKernels omits the passes that change nothing in CPU kernels, or cost more time than they save.
enum class LlvmPasses { kAll, kForKernels };

// LLVM's passes for one machine, for any number of modules one after the other (each in any LLVMContext): choosing and
// ordering some hundred passes takes as long as compiling a small kernel. Threads must not share it, and the machine
// must outlive it.
class FileEmitter {
 public:
  static absl::StatusOr<std::unique_ptr<FileEmitter>> Create(llvm::TargetMachine& machine, llvm::CodeGenFileType type,
                                                             LlvmPasses passes);
  FileEmitter(const FileEmitter&) = delete;
  FileEmitter& operator=(const FileEmitter&) = delete;

  std::string Emit(llvm::Module& module);

 private:
  // The passes that LLVM chooses, without the omitted ones.
  class Passes : public llvm::legacy::PassManager {
   public:
    explicit Passes(LlvmPasses which) : which_(which) {}
    void add(llvm::Pass* pass) override;

   private:
    LlvmPasses which_;
  };

  explicit FileEmitter(LlvmPasses passes) : stream_(bytes_), passes_(passes) {}

  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_;
  Passes passes_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_FILE_H_
