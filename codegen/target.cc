#include "smelt/codegen/target.h"

#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/arm_features.h"

namespace smelt {
namespace {

constexpr const char* kNames[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "armv8.2-a", "armv8.6-a",
                                  "sm_75",     "sm_80",     "sm_86",     "sm_87",   "sm_89",     "sm_90",
                                  "sm_90a",    "sm_100",    "sm_103",    "sm_110",  "sm_120"};
static_assert(std::size(kNames) == static_cast<size_t>(kLastTarget) + 1);

}  // namespace

const char* Name(Target t) { return kNames[static_cast<int>(t)]; }

// The levels of x86-64 are those of its psABI. Those of AArch64 require what the kernels may use of a version of the architecture,
// and its optional parts that servers and phones have.
std::vector<std::string> RequiredFeatures(Target t) {
  if (IsArm(t)) {
    std::vector<std::string> out;
    if (t >= Target::kArmV8_2) out = {"crc", "dotprod", "fullfp16", "lse", "rdm"};
    if (t >= Target::kArmV8_6) out.insert(out.end(), {"bf16", "i8mm"});
    return out;
  }
  if (!IsX86(t)) return {};
  std::vector<std::string> out = {"cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2", "crc32"};
  if (t >= Target::kX86_64_V3) {
    for (const char* f : {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}) out.push_back(f);
  }
  if (t >= Target::kX86_64_V4) {
    for (const char* f : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) out.push_back(f);
  }
  return out;
}

const char* Triple(Target t) {
  return IsX86(t) ? "x86_64-unknown-linux-gnu" : IsCuda(t) ? "nvptx64-nvidia-cuda" : "aarch64-unknown-linux-gnu";
}
bool IsX86(Target t) { return t <= Target::kX86_64_V4; }
bool IsArm(Target t) { return !IsX86(t) && !IsCuda(t); }
bool IsCuda(Target t) { return t >= Target::kSm75; }
int ComputeCapability(Target t) { return IsCuda(t) ? std::atoi(Name(t) + 3) : 0; }
bool IsForExactDevice(Target t) { return t == Target::kSm90a; }

bool RunsHere(Target t) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (t) {
    case Target::kX86_64_V2:
      return __builtin_cpu_supports("x86-64-v2");
    case Target::kX86_64_V3:
      return __builtin_cpu_supports("x86-64-v3");
    case Target::kX86_64_V4:
      return __builtin_cpu_supports("x86-64-v4");
    default:
      return false;
  }
#elif defined(__aarch64__)
  if (!IsArm(t)) return false;
  for (const std::string& feature : RequiredFeatures(t)) {
    if (!ArmHas(feature)) return false;
  }
  return true;
#else
  return false;
#endif
}

std::vector<Target> DefaultTargets() {
#if defined(__aarch64__)
  return {Target::kAArch64, Target::kArmV8_6};
#else
  return {Target::kX86_64_V3, Target::kX86_64_V4};
#endif
}

absl::StatusOr<Target> ParseTarget(absl::string_view name) {
  if (name == "native") {
    for (size_t i = std::size(kHostTargets); i-- > 0;) {
      if (RunsHere(kHostTargets[i])) return kHostTargets[i];
    }
    return absl::UnimplementedError(absl::StrCat("target native: this machine is below ", Name(kHostTargets[0])));
  }
  std::string known;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Target>(i);
    absl::StrAppend(&known, i ? ", " : "", kNames[i]);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("target \"", name, "\" is not known; there are ", known, " and native"));
}

}  // namespace smelt
