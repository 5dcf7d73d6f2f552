// Machine code of kernels.
//
//   SMELT_ASSIGN_OR_RETURN(KernelObject object, CompileKernel(spec, Target::kX86_64_V3));
//
// CompileKernel takes 2 to 10 ms and may be called from any number of threads. It gives the same bytes for the same input,
// whatever the machine, the thread and the order. link_image.h makes an image of many kernels.
#ifndef SMELT_CODEGEN_COMPILER_H_
#define SMELT_CODEGEN_COMPILER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/codegen/target.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// A kernel's entry, as fuser/kernel_spec.h describes it.
using KernelEntry = void (*)(const int64_t* words, int64_t begin, int64_t end, int64_t* status);

struct KernelObject {
  Target target = Target::kX86_64_V3;
  std::string key;  // of KernelKey, 64 hexadecimal digits; the entry's symbol is "k_" and this
  std::string symbol;
  std::string bytes;  // an ELF relocatable object (CPU), or PTX
};

// Code generation refuses (Unimplemented) operations that a target lacks, such as kAtomicAdd on a CPU.
absl::StatusOr<KernelObject> CompileKernel(const KernelSpec& spec, Target target);

// The kernel as text, for people: LLVM IR or assembly.
enum class KernelText { kLlvmIr, kAssembly };
absl::StatusOr<std::string> PrintKernel(const KernelSpec& spec, Target target, KernelText what);

}  // namespace smelt

#endif  // SMELT_CODEGEN_COMPILER_H_
