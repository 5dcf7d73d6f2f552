// Reads a zip archive of untrusted origin: every entry's name, size and bytes are checked before use.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> zip, ZipArchive::Open("model.pt2"));
//   SMELT_ASSIGN_OR_RETURN(std::string json, zip->Read("model/models/model.json", /*max_bytes=*/1 << 28));
#ifndef SMELT_FRONTEND_ZIP_ARCHIVE_H_
#define SMELT_FRONTEND_ZIP_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/frontend/zip_stored.h"

namespace smelt {

class ZipArchive {
 public:
  // Fails for a file that is not a zip, for two entries of one name, and for names that leave the archive ("..",
  // absolute, backslashes).
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(const std::string& path);
  ~ZipArchive();

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }  // in the archive's order
  bool Contains(absl::string_view name) const;

  // Reads the whole entry. More than `max_bytes`, an entry shorter than declared, or a wrong checksum is an error.
  absl::StatusOr<std::string> Read(absl::string_view name, int64_t max_bytes) const;
  // Reads the entry as a storage. Large entries that are stored uncompressed are mapped privately: writes to the
  // storage do not reach the file.
  absl::StatusOr<std::shared_ptr<Storage>> ReadStorage(absl::string_view name, int64_t max_bytes) const;

 private:
  ZipArchive() = default;
  absl::Status ReadInto(absl::string_view name, int64_t max_bytes, char* (*allocate)(void*, int64_t),
                        void* context) const;
  std::string path_;
  std::vector<std::string> names_;
  void* zip_ = nullptr;
  mutable std::optional<StoredEntries> stored_;  // found when first needed
};

}  // namespace smelt

#endif  // SMELT_FRONTEND_ZIP_ARCHIVE_H_
