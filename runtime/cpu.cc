#include "smelt/runtime/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

#include "smelt/core/base/arm_features.h"

namespace smelt {
namespace {

struct Features {
  uint32_t leaf1_ecx = 0, leaf1_edx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0, ext_ecx = 0;
  bool ymm_saved = false, zmm_saved = false;
  bool x86 = false;

  static const Features& Get() {
    static const Features kFeatures = Read();
    return kFeatures;
  }

  static Features Read() {
    Features f;
#if defined(__x86_64__)
    f.x86 = true;
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) f.leaf1_ecx = c, f.leaf1_edx = d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      f.leaf7_ebx = b, f.leaf7_ecx = c, f.leaf7_edx = d;
      if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.leaf7_1_eax = a;
    }
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) f.ext_ecx = c;
    if (f.leaf1_ecx & (1u << 27)) {  // OSXSAVE: XGETBV may be asked
      uint32_t low, high;
      __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      f.ymm_saved = (low & 0x6) == 0x6;
      f.zmm_saved = (low & 0xe6) == 0xe6;
    }
#endif
    return f;
  }
};

struct Bit {
  const char* name;
  uint32_t Features::* reg;
  int bit;
  enum { kNone, kYmm, kZmm } needs;
};

// The features that a target requires or this library looks for.
const Bit kBits[] = {
    {"sse2", &Features::leaf1_edx, 26, Bit::kNone},       {"sse3", &Features::leaf1_ecx, 0, Bit::kNone},
    {"ssse3", &Features::leaf1_ecx, 9, Bit::kNone},       {"fma", &Features::leaf1_ecx, 12, Bit::kYmm},
    {"cx16", &Features::leaf1_ecx, 13, Bit::kNone},       {"sse4.1", &Features::leaf1_ecx, 19, Bit::kNone},
    {"sse4.2", &Features::leaf1_ecx, 20, Bit::kNone},     {"crc32", &Features::leaf1_ecx, 20, Bit::kNone},
    {"movbe", &Features::leaf1_ecx, 22, Bit::kNone},      {"popcnt", &Features::leaf1_ecx, 23, Bit::kNone},
    {"xsave", &Features::leaf1_ecx, 26, Bit::kNone},      {"avx", &Features::leaf1_ecx, 28, Bit::kYmm},
    {"f16c", &Features::leaf1_ecx, 29, Bit::kYmm},        {"bmi", &Features::leaf7_ebx, 3, Bit::kNone},
    {"avx2", &Features::leaf7_ebx, 5, Bit::kYmm},         {"bmi2", &Features::leaf7_ebx, 8, Bit::kNone},
    {"avx512f", &Features::leaf7_ebx, 16, Bit::kZmm},     {"avx512dq", &Features::leaf7_ebx, 17, Bit::kZmm},
    {"avx512cd", &Features::leaf7_ebx, 28, Bit::kZmm},    {"avx512bw", &Features::leaf7_ebx, 30, Bit::kZmm},
    {"avx512vl", &Features::leaf7_ebx, 31, Bit::kZmm},    {"avx512vnni", &Features::leaf7_ecx, 11, Bit::kZmm},
    {"avx512bf16", &Features::leaf7_1_eax, 5, Bit::kZmm}, {"avx512fp16", &Features::leaf7_edx, 23, Bit::kZmm},
    {"sahf", &Features::ext_ecx, 0, Bit::kNone},          {"lzcnt", &Features::ext_ecx, 5, Bit::kNone},
};

bool HasAll(std::initializer_list<const char*> names) {
  for (const char* n : names) {
    if (!CpuHas(n)) return false;
  }
  return true;
}

#if defined(__x86_64__)
enum class Maker { kOther, kIntel, kAmd };
Maker Vendor() {
  unsigned highest, b, c, d;
  if (!__get_cpuid(0, &highest, &b, &c, &d)) return Maker::kOther;
  // The last four letters of "GenuineIntel" and "AuthenticAMD".
  return c == signature_INTEL_ecx ? Maker::kIntel : c == signature_AMD_ecx ? Maker::kAmd : Maker::kOther;
}
#endif

// Returns the bits of the hints below the size of the cache.
int64_t Strengths() {
#if defined(__x86_64__)
  constexpr int64_t kGathersWell = 1, kAskAhead = 2, kReadsAlone = 4;
  // True from Sapphire Rapids on: on earlier processors, microcode made gathers slow against leaks, and they have not
  // been measured.
  if (Vendor() == Maker::kIntel && CpuHas("avx512fp16")) return kGathersWell | kAskAhead;
  unsigned model, b, c, d;
  constexpr unsigned kZen5 = 0x1a;
  if (Vendor() == Maker::kAmd && __get_cpuid(1, &model, &b, &c, &d) &&
      (model >> 8 & 15) + (model >> 20 & 255) >= kZen5) {
    return kReadsAlone;
  }
#endif
  return 0;
}

}  // namespace

bool CpuHas(absl::string_view feature) {
  const Features& f = Features::Get();
  if (!f.x86) return ArmHas(feature);
  for (const Bit& b : kBits) {
    if (feature != b.name) continue;
    if (b.needs == Bit::kYmm && !f.ymm_saved) return false;
    if (b.needs == Bit::kZmm && !f.zmm_saved) return false;
    return (f.*b.reg >> b.bit) & 1;
  }
  return false;
}

std::vector<std::string> MissingFeatures(absl::Span<const std::string> required) {
  std::vector<std::string> missing;
  for (const std::string& name : required) {
    if (!CpuHas(name)) missing.push_back(name);
  }
  return missing;
}

absl::string_view CpuLevel() {
  static const absl::string_view kLevel = []() -> absl::string_view {
#if defined(__aarch64__)
    if (!HasAll({"crc", "dotprod", "fullfp16", "lse", "rdm"})) return "aarch64";
    if (!HasAll({"bf16", "i8mm"})) return "armv8.2-a";
    return "armv8.6-a";
#endif
    if (!Features::Get().x86) return "";
    if (!HasAll({"cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"})) return "x86-64";
    if (!HasAll({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"})) return "x86-64-v2";
    if (!HasAll({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) return "x86-64-v3";
    return "x86-64-v4";
  }();
  return kLevel;
}

bool RunsTriple(absl::string_view triple) {
#if defined(__x86_64__)
  constexpr absl::string_view kOwn = "x86_64-";
#elif defined(__aarch64__)
  constexpr absl::string_view kOwn = "aarch64-";
#else
  constexpr absl::string_view kOwn = "-";  // begins no triple
#endif
  return triple.substr(0, kOwn.size()) == kOwn;
}

int64_t LastCacheKib() {
  int64_t kib = 0;
#if defined(__x86_64__)
  // Intel and AMD describe their caches in the same form, in different leaves.
  unsigned a, b, c, d, level = 0;
  const unsigned leaf = Vendor() == Maker::kAmd ? 0x8000001d : 4;
  for (unsigned n = 0; n < 16 && __get_cpuid_count(leaf, n, &a, &b, &c, &d); ++n) {
    constexpr unsigned kNone = 0, kInstructions = 2;
    const unsigned type = a & 31;
    if (type == kNone) break;
    if (type == kInstructions || (a >> 5 & 7) <= level) continue;
    level = a >> 5 & 7;
    const int64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1;
    kib = ways * partitions * line * (int64_t{c} + 1) / 1024;
  }
#endif
  return kib;
}

int64_t CpuHints() {
  constexpr int kLastCacheShift = 8;
  static const int64_t kHints = Strengths() | LastCacheKib() << kLastCacheShift;
  return kHints;
}

}  // namespace smelt
