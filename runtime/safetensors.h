// Reads and writes safetensors files: a header of JSON, then raw bytes.
#ifndef SMELT_RUNTIME_SAFETENSORS_H_
#define SMELT_RUNTIME_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

class SafetensorsFile {
 public:
  // The file is untrusted: offsets, sizes and names are checked; entries may not overlap the header or exceed the end.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Read(const std::string& path);

  struct Entry {
    std::string dtype;  // "F32", "U8", as in the file
    std::vector<int64_t> shape;
    absl::string_view bytes;
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Returns a copy of an entry as a contiguous tensor; Unimplemented for a dtype that smelt does not have.
  absl::StatusOr<Tensor> ReadTensor(absl::string_view name) const;

 private:
  absl::Status Parse(const std::string& path);

  std::string path_, data_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes contiguous copies of the tensors, by name, and texts for the header's __metadata__. The file is written as a
// whole or not at all.
absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace smelt

#endif  // SMELT_RUNTIME_SAFETENSORS_H_
