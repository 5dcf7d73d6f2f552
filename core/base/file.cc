#include "smelt/core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/unfinished_outputs.h"

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

// Returns the error of a file that is being written. An invalid file name is not a mistake in the data that was read.
absl::Status WriteError(absl::string_view path, absl::string_view what, int error) {
  const absl::Status status = SystemError(path, what, error);
  return absl::IsInvalidArgument(status) ? absl::UnavailableError(status.message()) : status;
}

// Returns the N of a name that stands for descriptor N of this process.
std::optional<int> OwnDescriptor(absl::string_view path) {
  if (path == "/dev/stdin") return 0;
  if (path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  int n;
  if ((absl::ConsumePrefix(&path, "/dev/fd/") || absl::ConsumePrefix(&path, "/proc/self/fd/")) &&
      absl::SimpleAtoi(path, &n) && n >= 0)
    return n;
  return std::nullopt;
}

absl::StatusOr<int> OpenForReading(absl::string_view path, struct stat& info) {
  // Opening a named pipe without a writer would wait for one.
  const int fd = Retry([&] { return open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (fd < 0) return SystemError(path, "open", errno);
  absl::Cleanup closer = [fd] { close(fd); };
  if (fstat(fd, &info) != 0) return SystemError(path, "read", errno);
  if (S_ISDIR(info.st_mode)) return SystemError(path, "read", EISDIR);
  struct statfs system;
  constexpr decltype(system.f_type) kPipeFs = 0x50495045;  // of pipes without a name
  if (S_ISFIFO(info.st_mode) && !OwnDescriptor(path) && (fstatfs(fd, &system) != 0 || system.f_type != kPipeFs))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a named pipe; a file expected"));
  if (!S_ISREG(info.st_mode)) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  std::move(closer).Cancel();
  return fd;
}

absl::Status WriteAll(int fd, absl::string_view path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return WriteError(path, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Returns the file that `path` leads to through symbolic links, which itself need not exist; empty if it is a
// descriptor of this process, which is stored in `own`.
absl::StatusOr<std::string> FollowLinks(absl::string_view path, std::optional<int>& own) {
  std::string at(path);
  constexpr int kMostLinks = 40;  // as Linux has it
  for (int links = 0; links <= kMostLinks; ++links) {
    own = OwnDescriptor(at);
    if (own) return std::string();
    struct stat info;
    if (lstat(at.c_str(), &info) != 0) {
      if (errno == ENOENT) return at;
      return WriteError(path, "create", errno);
    }
    if (!S_ISLNK(info.st_mode)) return at;
    char to[4096];
    const ssize_t size = readlink(at.c_str(), to, sizeof to);
    if (size < 0) return WriteError(path, "follow the link", errno);
    const absl::string_view next(to, static_cast<size_t>(size));
    const size_t slash = at.rfind('/');
    at = next.substr(0, 1) == "/" || slash == std::string::npos ? std::string(next)
                                                                : absl::StrCat(at.substr(0, slash + 1), next);
  }
  return WriteError(path, "create", ELOOP);
}

// The folder of a file, with the slash; "" for the current one.
std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? std::string() : std::string(path.substr(0, slash + 1));
}

}  // namespace

// A device may be endless.
constexpr size_t kMostOfAStream = size_t{1} << 30;

absl::StatusOr<int> OpenFile(absl::string_view path) {
  struct stat info;
  return OpenForReading(path, info);
}

absl::StatusOr<std::string> ReadFile(absl::string_view path) {
  struct stat info;
  SMELT_ASSIGN_OR_RETURN(const int fd, OpenForReading(path, info));
  absl::Cleanup closer = [fd] { close(fd); };
  std::string bytes;
  size_t size = 0;
  // Requests one byte more than the file has, so that its end is seen without growing the buffer.
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

namespace {

// The names of temporary files that are being written. A file that finds no free slot is not among them.
std::array<std::atomic<const char*>, 256> unfinished = {};

void AddUnfinished(const char* temporary) {
  for (auto& slot : unfinished) {
    const char* free = nullptr;
    if (slot.compare_exchange_strong(free, temporary)) return;
  }
}

void DropUnfinished(const char* temporary) {
  for (auto& slot : unfinished) {
    const char* expected = temporary;
    if (slot.compare_exchange_strong(expected, nullptr)) return;
  }
}

}  // namespace

void RemoveUnfinishedOutputs() noexcept {
  for (auto& slot : unfinished) {
    if (const char* temporary = slot.exchange(nullptr)) unlink(temporary);
  }
}

absl::StatusOr<OutputFile> OutputFile::Create(absl::string_view path) {
  if (path.empty()) return absl::UnavailableError("the name of an output file is empty");
  OutputFile out;
  out.path_ = std::string(path);
  std::optional<int> own;
  SMELT_ASSIGN_OR_RETURN(out.target_, FollowLinks(path, own));
  if (own) {
    // Not opened again, because a file would then be written from its first byte.
    if (*own == STDOUT_FILENO) std::fflush(stdout);
    out.fd_ = fcntl(*own, F_DUPFD_CLOEXEC, 0);
    if (out.fd_ < 0) return WriteError(path, "write", errno);
    return out;
  }
  struct stat info;
  const bool exists = stat(out.target_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return WriteError(path, "replace", EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    out.fd_ = Retry([&] { return open(out.target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY); });
    if (out.fd_ < 0) return WriteError(path, "open", errno);
    return out;
  }
  if (out.target_.back() == '/') return WriteError(path, "create", EISDIR);

  // The temporary file is next to the target, because rename() does not cross file systems, and its name is unique
  // across threads and processes. The target's own name may be as long as names can be.
  static std::atomic<unsigned> counter = 0;
  constexpr size_t kMostOfName = 200;
  const std::string folder = FolderOf(out.target_), name = out.target_.substr(folder.size(), kMostOfName);
  while (out.fd_ < 0) {
    out.temporary_ = absl::StrCat(folder, name, ".tmp.", getpid(), ".", counter++);
    if (out.temporary_.size() < 2 * sizeof(std::string)) out.temporary_.reserve(2 * sizeof(std::string));
    out.fd_ = Retry([&] { return open(out.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
    if (out.fd_ < 0 && errno != EEXIST) {
      const int error = errno;
      out.temporary_.clear();
      return WriteError(path, "create", error);
    }
    // Another process that removes abandoned files may have locked it first. Without locks (on some network file
    // systems) none are removed.
    struct stat made;
    if (out.fd_ >= 0 && Retry([&] { return flock(out.fd_, LOCK_EX); }) == 0 && fstat(out.fd_, &made) == 0 &&
        made.st_nlink == 0) {
      close(std::exchange(out.fd_, -1));
    }
  }
  // The name is longer than a string holds in itself, so it keeps its place when the OutputFile moves.
  AddUnfinished(out.temporary_.c_str());
  return out;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {
  other.temporary_.clear();
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
    DropUnfinished(temporary_.c_str());
  }
  close(fd_);
}

absl::Status OutputFile::Append(absl::string_view bytes) { return WriteAll(fd_, path_, bytes); }

absl::Status OutputFile::WriteAt(int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (written < 0) return WriteError(path_, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (is_stream()) {
    if (close(std::exchange(fd_, -1)) != 0) return WriteError(path_, "write", errno);
    return absl::OkStatus();
  }
  if (fsync(fd_) != 0) return WriteError(path_, "write", errno);
  // The file is open, and so locked, until it has its final name.
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return WriteError(path_, "replace", errno);
  DropUnfinished(temporary_.c_str());
  close(std::exchange(fd_, -1));

  // The rename is durable once its directory is synced. Some file systems refuse to sync a directory; the file is
  // complete even then.
  const std::string folder = FolderOf(target_);
  if (const int folder_fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      folder_fd >= 0) {
    fsync(folder_fd);
    close(folder_fd);
  }
  return absl::OkStatus();
}

void RemoveAbandonedOutput(const std::string& temporary) {
  const int fd = open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(temporary.c_str());
  close(fd);
}

absl::Status WriteFileAtomically(absl::string_view path, absl::string_view bytes) {
  SMELT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  SMELT_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

absl::Status WriteFileAtomically(absl::string_view path, absl::Span<const uint8_t> bytes) {
  return WriteFileAtomically(path, absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace smelt
