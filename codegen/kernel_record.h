// A compiled kernel as bytes: the content of a cache entry on disk or on a server, and one of the records in a file of
// kernels. A line "smelt kernel 1 DIGEST KEYTEXT-BYTES OBJECT-BYTES", the key's text, the object; the digest is of
// everything after the line.
#ifndef SMELT_CODEGEN_KERNEL_RECORD_H_
#define SMELT_CODEGEN_KERNEL_RECORD_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

struct KernelRecord {
  absl::string_view key_text;  // of KernelKeyText
  absl::string_view object;
};

std::string EncodeKernelRecord(absl::string_view key_text, absl::string_view object);

// Decodes exactly one record; its parts point into `bytes`. kDataLoss if the bytes are not a complete record.
absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view bytes);

// Removes the first of several from the front of `bytes` and returns its bytes, not yet compared with their digest.
absl::StatusOr<absl::string_view> TakeKernelRecord(absl::string_view& bytes);

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_RECORD_H_
