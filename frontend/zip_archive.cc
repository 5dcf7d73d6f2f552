#include "smelt/frontend/zip_archive.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int64_t kMaxEntries = 1 << 20;
// Storages of fewer bytes are read, because a mapping exposes the data to changes of the file by others.
constexpr uint64_t kMappedBytes = 1 << 20;

absl::Status BadName(const std::string& path, absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": entry \"", name.substr(0, 200), "\" ", why));
}

absl::Status CheckName(const std::string& path, absl::string_view name) {
  if (name.empty() || name.size() > 4096) return BadName(path, name, "has no usable name (1 to 4096 bytes expected)");
  if (name[0] == '/' || absl::StrContains(name, '\\') || absl::StrContains(name, absl::string_view("\0", 1))) {
    return BadName(path, name, "has a name that is absolute or holds a backslash or a zero byte");
  }
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") return BadName(path, name, "has a name that leaves the archive (..)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(const std::string& path) {
  // libzip would wait for the writer of a named pipe.
  SMELT_ASSIGN_OR_RETURN(const int fd, OpenFile(path));
  close(fd);
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    std::string message = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (code == ZIP_ER_NOENT) return absl::NotFoundError(absl::StrCat(path, ": ", message));
    if (code == ZIP_ER_EXISTS) return absl::InvalidArgumentError(absl::StrCat(path, ": an entry's name occurs twice"));
    // libzip would say once more that it is not a zip archive.
    if (code == ZIP_ER_NOZIP)
      return absl::InvalidArgumentError(absl::StrCat(path, ": not a readable zip archive, or cut off"));
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a readable zip archive: ", message));
  }
  auto archive = std::unique_ptr<ZipArchive>(new ZipArchive());
  archive->path_ = path;
  archive->zip_ = zip;
  const zip_int64_t n = zip_get_num_entries(zip, 0);
  if (n > kMaxEntries)
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", n, " entries, more than ", kMaxEntries));
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": its size is unknown: ", error.message()));
  uint64_t packed_bytes = 0;
  absl::flat_hash_set<std::string> seen;
  for (zip_int64_t i = 0; i < n; ++i) {
    const char* name = zip_get_name(zip, i, ZIP_FL_ENC_RAW);
    if (name == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": entry ", i, " has no name"));
    SMELT_RETURN_IF_ERROR(CheckName(path, name));
    if (!seen.insert(name).second) return BadName(path, name, "occurs twice");
    archive->names_.push_back(name);
    // Entries that share their bytes could claim any number of times the file's size.
    zip_stat_t stat;
    if (zip_stat_index(zip, i, 0, &stat) == 0 && (stat.valid & ZIP_STAT_COMP_SIZE) &&
        (__builtin_add_overflow(packed_bytes, stat.comp_size, &packed_bytes) || packed_bytes > file_bytes)) {
      return BadName(path, name, "overlaps others: the entries claim more bytes than the file has");
    }
  }
  return archive;
}

ZipArchive::~ZipArchive() {
  if (zip_ != nullptr) zip_discard(static_cast<zip_t*>(zip_));
}

bool ZipArchive::Contains(absl::string_view name) const {
  return zip_name_locate(static_cast<zip_t*>(zip_), std::string(name).c_str(), ZIP_FL_ENC_RAW) >= 0;
}

absl::Status ZipArchive::ReadInto(absl::string_view name, int64_t max_bytes, char* (*allocate)(void*, int64_t),
                                  void* context) const {
  auto* zip = static_cast<zip_t*>(zip_);
  const std::string entry(name);
  const zip_int64_t index = zip_name_locate(zip, entry.c_str(), ZIP_FL_ENC_RAW);
  if (index < 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": entry \"", name, "\" is missing"));
  zip_stat_t stat;
  if (zip_stat_index(zip, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE)) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": entry \"", name, "\" has no size"));
  }
  if (stat.size > static_cast<uint64_t>(max_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": entry \"", name, "\" has ", stat.size, " bytes, at most ", max_bytes, " expected"));
  }
  // PyTorch stores entries uncompressed; a compressed one may be a bomb, so its ratio is limited.
  if ((stat.valid & ZIP_STAT_COMP_SIZE) && stat.size > (1 << 20) && stat.size / 200 > stat.comp_size) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": entry \"", name, "\" inflates from ", stat.comp_size,
                                                   " to ", stat.size, " bytes, which looks like a zip bomb"));
  }
  zip_file_t* file = zip_fopen_index(zip, index, 0);
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": entry \"", name, "\": ", zip_strerror(zip)));
  }
  char* data = allocate(context, static_cast<int64_t>(stat.size));
  uint64_t at = 0;
  while (at < stat.size) {
    const zip_int64_t got = zip_fread(file, data + at, stat.size - at);
    if (got <= 0) break;
    at += got;
  }
  // One more byte makes libzip compare the checksum at the entry's end.
  char extra;
  const zip_int64_t more = zip_fread(file, &extra, 1);
  const int closed = zip_fclose(file);
  if (at != stat.size || more != 0 || closed != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": entry \"", name, "\" is corrupt: ", at, " of ", stat.size,
                                                   " bytes read",
                                                   at == stat.size ? ", checksum or length differs" : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ZipArchive::Read(absl::string_view name, int64_t max_bytes) const {
  std::string out;
  SMELT_RETURN_IF_ERROR(ReadInto(
      name, max_bytes,
      [](void* context, int64_t bytes) {
        auto* s = static_cast<std::string*>(context);
        s->resize(bytes);
        return s->data();
      },
      &out));
  return out;
}

absl::StatusOr<std::shared_ptr<Storage>> ZipArchive::ReadStorage(absl::string_view name, int64_t max_bytes) const {
  std::shared_ptr<Storage> out;
  zip_stat_t stat;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_CRC;
  if (zip_stat(static_cast<zip_t*>(zip_), std::string(name).c_str(), ZIP_FL_ENC_RAW, &stat) == 0 &&
      (stat.valid & kNeeded) == kNeeded && stat.size >= kMappedBytes && stat.size <= static_cast<uint64_t>(max_bytes)) {
    if (!stored_) stored_ = StoredEntries::Find(path_);
    if ((out = stored_->Map(name, stat.size, stat.crc))) return out;
  }
  SMELT_RETURN_IF_ERROR(ReadInto(
      name, max_bytes,
      [](void* context, int64_t bytes) {
        auto* s = static_cast<std::shared_ptr<Storage>*>(context);
        *s = Storage::Allocate(bytes);
        return (*s)->data();
      },
      &out));
  return out;
}

}  // namespace smelt
