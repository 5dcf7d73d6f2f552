// The metadata of a bundle: decoded, verified, encoded.
//
//   SMELT_ASSIGN_OR_RETURN(auto file, Container::Open("net.smb", ContentKind::kBundle));
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<fb::BundleT> bundle, LoadBundle(*file));   // decoded, then verified
//
// The result of LoadBundle is safe to walk: every index is in range, expressions refer backwards, the blocks of a plan
// form a tree, and word counts match the kernels. It does not guarantee that kernels do what their specs say. Running
// an untrusted bundle runs its code; inspecting one is safe.
#ifndef SMELT_SCHEMA_BUNDLE_H_
#define SMELT_SCHEMA_BUNDLE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/schema/bundle_generated.h"
#include "smelt/schema/container.h"

namespace smelt {

// Raised when an old reader would misread a new file.
inline constexpr uint32_t kBundleFormat = 1;
// The format of a bundle with several methods, which readers of format 1 cannot run.
inline constexpr uint32_t kMethodsFormat = 2;
// The name of a bundle's only method where the bundle does not say.
inline constexpr char kDefaultMethod[] = "forward";
// The calling convention of kernels (fuser/kernel_spec.h).
inline constexpr uint32_t kKernelAbi = 1;

// Returns the bytes of the metadata segment. Deterministic.
std::string EncodeBundle(const fb::BundleT& bundle);

// Decodes only the structure of the table; its contents are still untrusted. Memory is bounded by a small multiple of
// the input.
absl::StatusOr<std::unique_ptr<fb::BundleT>> DecodeBundle(absl::Span<const uint8_t> bytes);

// Verifies the contents. `container` may be null (a bundle that is not packed yet); then segments are not checked.
// Returns kDataLoss, or kUnimplemented for a newer format; the message names the plan, the step and the field. Linear
// in the bundle.
absl::Status VerifyBundle(const fb::BundleT& bundle, const Container* container);

// Returns the number of operands of a function of numbers.
inline size_t OperandsOf(fb::NumberFunction f) {
  return f == fb::NumberFunction::Float || f >= fb::NumberFunction::neg ? 1 : 2;
}

// Returns whether a method can have this name: that of a function in C++ and in Python, of at most 100 characters.
bool IsMethodName(absl::string_view name);
// Returns InvalidArgument unless the names are identifiers, and all different.
absl::Status CheckMethodNames(absl::Span<const std::string> names);

// Decodes and verifies the container's metadata. Each method then has a copy of the bundle's states and storages, so
// that it can be read as a bundle of its own, but for the kernels.
absl::StatusOr<std::unique_ptr<fb::BundleT>> LoadBundle(const Container& container);

}  // namespace smelt

#endif  // SMELT_SCHEMA_BUNDLE_H_
