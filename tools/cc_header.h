// Generates C++ for one bundle: a header with its inputs and outputs as types, and its implementation.
//
//   CcOptions options = {.cc_namespace = "digits", .header = "m/digits.h"};
//   SMELT_ASSIGN_OR_RETURN(CcFiles files, MakeCc(bundle, container, options));
#ifndef SMELT_TOOLS_CC_HEADER_H_
#define SMELT_TOOLS_CC_HEADER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {

struct CcOptions {
  std::string cc_namespace;  // of the header's declarations: "digits", "my::models::digits"
  std::string header;        // as in an #include
  std::string bundle_path;   // the path at which a program finds the bundle if it is not linked in
  bool embed = true;         // the bundle is linked in
};
struct CcFiles {
  std::string header, source;
  std::string object;  // an ELF file with the bundle's bytes; if embedded
};
// Returns whether a text can be CcOptions::cc_namespace.
bool IsCcNamespace(const std::string& name);

// Unimplemented for a model that refuses every call. `container_bytes` are the bytes of the bundle's file.
absl::StatusOr<CcFiles> MakeCc(const fb::BundleT& bundle, absl::string_view container_bytes, const CcOptions& options);

// Returns a relocatable object for an ELF machine (EM_X86_64, EM_AARCH64) with `bytes` as page-aligned read-only data,
// from the symbol NAME to NAME_end.
std::string MakeDataObject(absl::string_view bytes, const std::string& name, uint16_t machine);

}  // namespace smelt

#endif  // SMELT_TOOLS_CC_HEADER_H_
