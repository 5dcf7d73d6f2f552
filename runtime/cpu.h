// The levels that this processor can run, for choosing a target of a bundle.
#ifndef SMELT_RUNTIME_CPU_H_
#define SMELT_RUNTIME_CPU_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace smelt {

// Returns whether this machine has an instruction-set feature, by LLVM's name ("avx512bw"): the processor has it and
// the operating system saves its registers. False for unknown names.
bool CpuHas(absl::string_view feature);

// Returns those of `required` that this machine lacks.
std::vector<std::string> MissingFeatures(absl::Span<const std::string> required);

// Returns the highest level that this machine runs: of "x86-64", "x86-64-v2", "x86-64-v3" and "x86-64-v4", or of
// "aarch64", "armv8.2-a" and "armv8.6-a" (docs/targets.md); "" on another architecture.
absl::string_view CpuLevel();

// Returns whether code for an LLVM triple ("aarch64-unknown-linux-gnu") is for machines of this architecture.
bool RunsTriple(absl::string_view triple);

// Returns the size of the last cache before memory, which several processors may share, in KiB; 0 if it is unknown.
int64_t LastCacheKib();

// Returns the hints about this machine for kernels (`status[1]`, fuser/kernel_spec.h).
int64_t CpuHints();

}  // namespace smelt

#endif  // SMELT_RUNTIME_CPU_H_
