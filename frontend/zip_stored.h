// Finds the bytes of entries that are stored uncompressed in a zip file, so that large ones can be mapped instead of
// read: libzip does not return their position.
#ifndef SMELT_FRONTEND_ZIP_STORED_H_
#define SMELT_FRONTEND_ZIP_STORED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

class StoredEntries {
 public:
  // Maps the file and reads its directory. Finds nothing if it cannot read the directory; then nothing is mapped.
  static StoredEntries Find(const std::string& path);

  // Returns the entry's bytes, mapped privately: writes to them do not change the file. Null unless it is stored
  // uncompressed with this size and checksum, at a multiple of 64 bytes, where PyTorch places weights.
  std::shared_ptr<Storage> Map(absl::string_view name, uint64_t size, uint32_t crc) const;

 private:
  struct Place {
    uint64_t offset = 0, size = 0;
  };
  uint64_t U(uint64_t at, int bytes) const;  // little-endian; at + bytes is within the file
  void ReadDirectory();

  std::shared_ptr<void> mapping_;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  absl::flat_hash_map<std::string, Place> places_;
};

}  // namespace smelt

#endif  // SMELT_FRONTEND_ZIP_STORED_H_
