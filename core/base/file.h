// Whole files: read, mapped, written. Errors name the path and the system's message.
//
//   SMELT_ASSIGN_OR_RETURN(std::string text, ReadFile("a.ir"));
//   SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile("a.smb"));   // pages are read when they are touched
//   SMELT_RETURN_IF_ERROR(WriteFileAtomically("b.smb", bytes));
//
// Codes of reading: kNotFound, kPermissionDenied, kResourceExhausted (no space, no memory, too many files),
// kInvalidArgument (a directory, a named pipe, a name that is too long), kUnavailable (anything else). Codes of writing
// are the same, but also kUnavailable if the name cannot be a file's.
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

// Opens a file for reading, closed on exec, and never waits: a named pipe, whose writer may never come, is refused, as
// is a directory. A pipe that this process has open already (/dev/stdin, /dev/fd/N) is read. The caller closes the
// descriptor.
absl::StatusOr<int> OpenFile(absl::string_view path);

// Returns the file's bytes, also for a pipe or a file of /proc, whose size is not known beforehand.
absl::StatusOr<std::string> ReadFile(absl::string_view path);

// A file in memory, read-only, unmapped by the destructor. The address is page aligned and does not change when the
// object moves.
//
// Not guaranteed: what happens if another process truncates the file in the meantime (the kernel sends SIGBUS). Writers
// that replace it as a whole, like WriteFileAtomically, do not affect the mapping.
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

// A file that is being written, and that exists under its name only once it is complete.
//
//   SMELT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create("b.smb"));
//   SMELT_RETURN_IF_ERROR(file.Append(bytes));
//   SMELT_RETURN_IF_ERROR(file.Commit());   // without it nothing is left of the file
//
// Symbolic links are followed: the file that they lead to is replaced and the links stay. A device, a pipe, a socket or
// a descriptor of this process (/dev/stdout, /dev/fd/N) is never replaced: bytes are written as they come, so its
// contents after a failure are undefined. The mode is 0644 without the umask's bits.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(absl::string_view path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // Returns whether bytes go to something that cannot seek, in order and irrevocably. Then there is no WriteAt.
  bool is_stream() const { return temporary_.empty(); }
  absl::Status Append(absl::string_view bytes);
  absl::Status WriteAt(int64_t offset, absl::string_view bytes);
  // When it returns, the bytes are on the disk.
  absl::Status Commit();

 private:
  OutputFile() = default;

  std::string path_;       // as the caller named it
  std::string target_;     // the file that is replaced
  std::string temporary_;  // in the same folder; locked (flock) as long as it is being written
  int fd_ = -1;
};

// Removes a temporary file of an OutputFile whose writer has ended without it. A file that is being written stays.
void RemoveAbandonedOutput(const std::string& temporary);

// Replaces the file at `path` as a whole: a reader, and a crash at any moment, sees the old file or the new one, never
// a part. When it returns, the bytes are on the disk. Devices, pipes and links are treated as OutputFile says.
absl::Status WriteFileAtomically(absl::string_view path, absl::string_view bytes);
absl::Status WriteFileAtomically(absl::string_view path, absl::Span<const uint8_t> bytes);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_FILE_H_
