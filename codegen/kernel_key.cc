#include "smelt/codegen/kernel_key.h"

#include "absl/strings/str_cat.h"
#include "llvm/Config/llvm-config.h"
#include "smelt/codegen/generator_digest.h"
#include "smelt/core/base/sha256.h"

namespace smelt {

const std::string& CodeGeneratorIdentity() {
  static const std::string* identity =
      new std::string(absl::StrCat("sha256:", kGeneratorDigest, " LLVM ", LLVM_VERSION_STRING));
  return *identity;
}

std::string KernelKeyText(absl::string_view spec_text, Target target) {
  return absl::StrCat("target ", Name(target), "\ngenerator ", CodeGeneratorIdentity(), "\nspec\n", spec_text);
}

std::string ComputeKernelKey(absl::string_view spec_text, Target target) {
  return ToHex(Sha256(KernelKeyText(spec_text, target)));
}

}  // namespace smelt
