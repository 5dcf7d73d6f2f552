// LLVM's code generation: from a module to the text or the object file of it. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_EMIT_FILE_H_
#define SMELT_CODEGEN_EMIT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"

namespace smelt {

enum class StrengthReduction { kOff, kOn };

// `strength_reduction`: whether LLVM rewrites the addresses of loops. May be called by several threads, each with its
// own machine.
absl::StatusOr<std::string> EmitFile(llvm::TargetMachine& machine, llvm::Module& module, llvm::CodeGenFileType type,
                                     StrengthReduction strength_reduction);

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_FILE_H_
