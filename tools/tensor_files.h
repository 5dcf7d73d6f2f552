// Files of tensors, by name, as the command line reads and writes them: safetensors, .npz, a folder of .npy files, one
// .npy. All are untrusted.
#ifndef SMELT_TOOLS_TENSOR_FILES_H_
#define SMELT_TOOLS_TENSOR_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/value.h"

namespace smelt {

struct NamedTensors {
  std::string path;
  std::map<std::string, absl::StatusOr<Tensor>> tensors;  // one that cannot be read harms only who asks for it
  bool is_one_npy = false;                                // then its tensor has no name: ""
};

// The kind of file is found from its contents, not from its name.
absl::StatusOr<NamedTensors> ReadTensors(const std::string& path);
// The one tensor of a file.
absl::StatusOr<Tensor> ReadOneTensor(const std::string& path);

struct NamedDatum {
  std::string name;
  Datum value;
};

// Where results that are no tensors went, by their place in the list.
struct OtherResults {
  std::vector<size_t> in_metadata, left_out;
};
// Writes results to what `path` says: OUT.npy, a folder (OUT/, or one that exists), else a safetensors file, which has all
// that are no tensors in the text `values` of its metadata. A .npy stands for a number or a bool too; others are left out.
absl::StatusOr<OtherResults> WriteResults(const std::string& path, const std::vector<NamedDatum>& results,
                                          const std::string& values);

}  // namespace smelt

#endif  // SMELT_TOOLS_TENSOR_FILES_H_
