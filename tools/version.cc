#include "smelt/tools/version.h"

#include "absl/strings/str_cat.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/target.h"
#include "smelt/runtime/smelt.h"
#include "smelt/schema/bundle.h"

namespace smelt {

std::string VersionText() {
  return absl::StrCat("smelt ", SMELT_VERSION_MAJOR, ".", SMELT_VERSION_MINOR, ".", SMELT_VERSION_PATCH,
                      ": bundle format ", kBundleFormat, ", kernels by ", CodeGeneratorIdentity(Target::kX86_64_V2));
}

}  // namespace smelt
