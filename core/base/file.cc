#include "smelt/core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// `what` is an infinitive: "a.smb: cannot open: No such file or directory".
absl::Status SystemError(absl::string_view path, absl::string_view what, int error) {
  return absl::Status(CodeOf(error), absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error)));
}

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

absl::StatusOr<int> OpenForReading(absl::string_view path, struct stat& info) {
  const int fd = Retry([&] { return open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0) return SystemError(path, "open", errno);
  int error = 0;
  if (fstat(fd, &info) != 0) {
    error = errno;
  } else if (S_ISDIR(info.st_mode)) {
    error = EISDIR;
  }
  if (error == 0) return fd;
  close(fd);
  return SystemError(path, "read", error);
}

absl::Status WriteAll(int fd, absl::string_view path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return SystemError(path, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

// A device may have no end.
constexpr size_t kMostOfAStream = size_t{1} << 30;

absl::StatusOr<std::string> ReadFile(absl::string_view path) {
  struct stat info;
  SMELT_ASSIGN_OR_RETURN(const int fd, OpenForReading(path, info));
  absl::Cleanup closer = [fd] { close(fd); };
  std::string bytes;
  size_t size = 0;
  // One byte more than the file has, so that its end is seen without growing the buffer.
  size_t want = S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) + 1 : 1 << 16;
  while (true) {
    if (want > kMostOfAStream && !S_ISREG(info.st_mode))
      return absl::ResourceExhaustedError(absl::StrCat(path, ": no regular file, and over ", kMostOfAStream, " bytes"));
    bytes.resize(want);
    const ssize_t got = Retry([&] { return read(fd, bytes.data() + size, want - size); });
    if (got < 0) return SystemError(path, "read", errno);
    size += static_cast<size_t>(got);
    if (got == 0) break;
    if (size == want) want *= 2;
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<MappedFile> MapFile(absl::string_view path) {
  struct stat info;
  SMELT_ASSIGN_OR_RETURN(const int fd, OpenForReading(path, info));
  absl::Cleanup closer = [fd] { close(fd); };
  if (!S_ISREG(info.st_mode)) return SystemError(path, "map", ENODEV);
  MappedFile file;
  if (info.st_size == 0) return file;  // an empty mapping is not allowed
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return SystemError(path, "map", errno);
  file.data_ = static_cast<const uint8_t*>(data);
  file.size_ = static_cast<size_t>(info.st_size);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

absl::Status WriteFileAtomically(absl::string_view path, absl::string_view bytes) {
  // Beside the file, as rename() does not cross file systems; named so that no two writers meet, in or between
  // processes.
  static std::atomic<unsigned> counter = 0;
  std::string temporary;
  int fd;
  do {
    temporary = absl::StrCat(path, ".tmp.", getpid(), ".", counter++);
    fd = Retry([&] { return open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return SystemError(path, "create", errno);
  absl::Cleanup remover = [&] { unlink(temporary.c_str()); };

  absl::Status status = WriteAll(fd, path, bytes);
  if (status.ok() && fsync(fd) != 0) status = SystemError(path, "write", errno);
  if (close(fd) != 0 && status.ok()) status = SystemError(path, "write", errno);
  SMELT_RETURN_IF_ERROR(status);
  if (rename(temporary.c_str(), std::string(path).c_str()) != 0) return SystemError(path, "replace", errno);
  std::move(remover).Cancel();

  // The rename is durable once its directory is. Some file systems refuse to sync a directory: the file is whole even
  // then.
  const size_t slash = path.rfind('/');
  const std::string folder = slash == absl::string_view::npos ? "." : std::string(path.substr(0, slash + 1));
  if (const int folder_fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder_fd >= 0) {
    fsync(folder_fd);
    close(folder_fd);
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(absl::string_view path, absl::Span<const uint8_t> bytes) {
  return WriteFileAtomically(path, absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace smelt
