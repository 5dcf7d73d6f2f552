// The targets that kernels are compiled for: a level of an instruction set, not a particular machine.
#ifndef SMELT_CODEGEN_TARGET_H_
#define SMELT_CODEGEN_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

enum class Target : uint8_t {
  kX86_64_V2,
  kX86_64_V3,
  kX86_64_V4,
  kAArch64,  // ARMv8.0 with NEON
  kArmV8_2,  // dot products, arithmetic on float16, atomics: Neoverse N1, Cortex-A76
  kArmV8_6,  // besides, bfloat16 and products of int8 matrices: Neoverse V1 and N2, Apple M2
  // CUDA, by compute capability. Code of kSm90a runs on devices of 9.0 alone.
  kSm75,
  kSm80,
  kSm86,
  kSm87,
  kSm89,
  kSm90,
  kSm90a,
  kSm100,
  kSm103,
  kSm110,
  kSm120,
};
inline constexpr Target kLastTarget = Target::kSm120;
// The targets of the architecture that this program is built for, from the lowest, and the one that tests compile for.
#if defined(__aarch64__)
inline constexpr Target kHostTargets[] = {Target::kAArch64, Target::kArmV8_2, Target::kArmV8_6};
inline constexpr Target kHostTarget = Target::kAArch64;
#else
inline constexpr Target kHostTargets[] = {Target::kX86_64_V2, Target::kX86_64_V3, Target::kX86_64_V4};
inline constexpr Target kHostTarget = Target::kX86_64_V3;
#endif

const char* Name(Target t);  // "x86-64-v3", "aarch64", "sm_90"
// Also accepts "native": the highest level that this machine runs; an error if it runs none of them.
absl::StatusOr<Target> ParseTarget(absl::string_view name);
// The instruction-set features, by LLVM's names, that a machine must have to run the target's code. Never tuning flags.
std::vector<std::string> RequiredFeatures(Target t);
const char* Triple(Target t);  // LLVM's: "x86_64-unknown-linux-gnu"
bool IsX86(Target t);
bool IsArm(Target t);
bool IsCuda(Target t);
// Returns 10 * major + minor for a CUDA target: 90 for sm_90 and sm_90a; 0 for any other.
int ComputeCapability(Target t);
// Returns whether code for the CUDA target runs on devices of its very compute capability alone.
bool IsForExactDevice(Target t);
// The targets of a bundle for which none are named: two levels of the architecture that this program is built for.
std::vector<Target> DefaultTargets();
// Returns whether this machine can run code of the level (false for CUDA: no device is looked for here).
bool RunsHere(Target t);

}  // namespace smelt

#endif  // SMELT_CODEGEN_TARGET_H_
