// The targets that kernels are compiled for: a level of an instruction set, not a particular machine.
#ifndef SMELT_CODEGEN_TARGET_H_
#define SMELT_CODEGEN_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

enum class Target : uint8_t { kX86_64_V2, kX86_64_V3, kX86_64_V4, kAArch64, kSm80, kSm90, kSm100 };
inline constexpr Target kX86Targets[] = {Target::kX86_64_V2, Target::kX86_64_V3, Target::kX86_64_V4};

const char* Name(Target t);  // "x86-64-v3", "aarch64", "sm_90"
// Also accepts "native": the highest level that this machine runs; an error if it runs none of them.
absl::StatusOr<Target> ParseTarget(absl::string_view name);
// The instruction-set features, by LLVM's names, that a machine must have to run the target's code. Never tuning flags.
std::vector<std::string> RequiredFeatures(Target t);
const char* Triple(Target t);  // LLVM's: "x86_64-unknown-linux-gnu"
bool IsX86(Target t);
bool IsCuda(Target t);
// Returns whether this machine can run code of the level (false for CUDA: no device is looked for here).
bool RunsHere(Target t);

}  // namespace smelt

#endif  // SMELT_CODEGEN_TARGET_H_
