#include "smelt/codegen/kernel_key.h"

#include "absl/strings/str_cat.h"
#include "llvm-c/Core.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/generator_digest.h"
#include "smelt/codegen/library_digest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"

namespace smelt {

namespace {

// The version of the LLVM that is loaded, which may be a later patch than that of the headers.
std::string LlvmVersion() {
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  return absl::StrCat(major, ".", minor, ".", patch);
}

}  // namespace

const std::string& CodeGeneratorIdentity(Target target) {
  static const std::string* const cpu =
      new std::string(absl::StrCat("sha256:", kGeneratorDigest, " LLVM ", LlvmVersion()));
  if (!IsCuda(target)) return *cpu;
  static const std::string* const cuda = [] {
    const absl::StatusOr<std::string> libdevice = ReadFile(FindCudaTools().libdevice);
    return new std::string(
        absl::StrCat(*cpu, " libdevice ", libdevice.ok() ? ToHex(Sha256(*libdevice)).substr(0, 16) : "none"));
  }();
  return *cuda;
}

std::string KernelKeyText(absl::string_view spec_text, Target target) {
  return absl::StrCat("target ", Name(target), "\ngenerator ", CodeGeneratorIdentity(target), "\nspec\n", spec_text);
}

std::string LibraryKeyText(absl::string_view entry, Target target) {
  return absl::StrCat("target ", Name(target), "\ngenerator ", CodeGeneratorIdentity(target),
                      " library sha256:", kLibraryDigest, "\nspec\nlibrary kernel ", entry, "\n");
}

std::string ComputeKernelKey(absl::string_view spec_text, Target target) {
  return ToHex(Sha256(KernelKeyText(spec_text, target)));
}

}  // namespace smelt
