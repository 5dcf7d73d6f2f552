// Lowers a KernelSpec to LLVM IR with explicit vectors. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_LOWER_KERNEL_H_
#define SMELT_CODEGEN_LOWER_KERNEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The features of an instruction set that change the IR.
struct CpuFeatures {
  int vector_bits = 128;
  bool fma = false;
  bool f16c = false;  // float16 is converted by an instruction
  bool bf16 = false;  // float32 is rounded to bfloat16 by an instruction
  bool avx2 = false;
  bool avx512 = false;        // F, BW, CD, DQ, VL
  bool non_temporal = false;  // non-temporal stores, ended by x86's fence

  // Returns whether there are 16 registers of 256 bits, where AVX-512 has 32 of 512.
  bool IsAvx2Only() const { return avx2 && !avx512; }
};

// Returns a module with one function, `symbol`. The spec must be valid.
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernel(llvm::LLVMContext& context, const KernelSpec& spec,
                                                          const CpuFeatures& features, const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_KERNEL_H_
