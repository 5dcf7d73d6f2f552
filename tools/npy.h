// Reads and writes NumPy's .npy: one tensor after a header that is a Python dictionary.
#ifndef SMELT_TOOLS_NPY_H_
#define SMELT_TOOLS_NPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Returns whether the bytes begin as those of a .npy do.
bool IsNpy(absl::string_view bytes);

// Returns a row-major copy, also of an array that is stored column by column. The bytes are untrusted: DataLoss for what
// is no whole .npy, Unimplemented for elements that smelt has not (big-endian, unsigned 16 bits, Python objects).
// `where` begins the messages.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes, absl::string_view where);

// Returns the bytes of a .npy, version 1.0. Unimplemented for bfloat16, which NumPy lacks.
absl::StatusOr<std::string> EncodeNpy(const Tensor& tensor);

}  // namespace smelt

#endif  // SMELT_TOOLS_NPY_H_
