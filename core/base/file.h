// Whole files: read, mapped, written. Errors name the path and say what the system said.
//
//   SMELT_ASSIGN_OR_RETURN(std::string text, ReadFile("a.ir"));
//   SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile("a.smb"));   // pages come when they are touched
//   SMELT_RETURN_IF_ERROR(WriteFileAtomically("b.smb", bytes));
//
// Codes: kNotFound, kPermissionDenied, kResourceExhausted (no space, no memory, too many files), kInvalidArgument (a
// directory), kUnavailable (anything else).
#ifndef SMELT_CORE_BASE_FILE_H_
#define SMELT_CORE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace smelt {

// The file's bytes; also of a pipe or a file of /proc, whose size is not known beforehand.
absl::StatusOr<std::string> ReadFile(absl::string_view path);

// A file in memory, read-only, unmapped by the destructor. The address is page aligned and stays when the object moves.
//
// Not guaranteed: what happens when someone truncates the file meanwhile (the kernel sends SIGBUS). Writers that
// replace it whole, as WriteFileAtomically does, leave the mapping as it was.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  absl::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  friend absl::StatusOr<MappedFile> MapFile(absl::string_view path);

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

absl::StatusOr<MappedFile> MapFile(absl::string_view path);

// Replaces the file at `path` whole: a reader, and a crash at any moment, sees the old file or the new one, never a
// part. The bytes are on the disk when it returns. Mode 0644 less the umask.
absl::Status WriteFileAtomically(absl::string_view path, absl::string_view bytes);
absl::Status WriteFileAtomically(absl::string_view path, absl::Span<const uint8_t> bytes);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_FILE_H_
