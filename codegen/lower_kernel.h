// Lowers a KernelSpec to LLVM IR with explicit vectors. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_LOWER_KERNEL_H_
#define SMELT_CODEGEN_LOWER_KERNEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/cpu_features.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Returns a module with one function, `symbol`. The spec must be valid.
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernel(llvm::LLVMContext& context, const KernelSpec& spec,
                                                          const CpuFeatures& features, const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_KERNEL_H_
