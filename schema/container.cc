#include "smelt/schema/container.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/blocks.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr char kMagic[8] = {'S', 'M', 'E', 'L', 'T', 'B', 'N', 'D'};
constexpr uint32_t kVersion = 2;
constexpr int64_t kHeaderBytes = 96;
constexpr int64_t kDigested = 64;  // of the header
constexpr int64_t kEntryBytes = 64;
constexpr uint32_t kMaxSegments = 1 << 16;
constexpr size_t kFlushBytes = 1 << 20;
// Pieces of at least this many bytes are hashed while they are written.
constexpr size_t kHashedAside = 8 << 20;

uint32_t Load32(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}
uint64_t Load64(const uint8_t* p) { return Load32(p) | uint64_t{Load32(p + 4)} << 32; }
void Store32(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
}
void Store64(uint8_t* p, uint64_t v) {
  Store32(p, static_cast<uint32_t>(v));
  Store32(p + 4, static_cast<uint32_t>(v >> 32));
}

int64_t AlignmentOf(SegmentKind kind) {
  return kind == SegmentKind::kCode || kind == SegmentKind::kWeights ? kContainerPage : 64;
}

absl::string_view NameOf(ContentKind kind) {
  return kind == ContentKind::kBundle ? "a bundle (.smb)" : "a graph (.smg)";
}

absl::Status SystemError(absl::string_view path, absl::string_view what, int error) {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (error == ENOENT || error == ENOTDIR) code = absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = absl::StatusCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM || error == EMFILE || error == ENFILE)
    code = absl::StatusCode::kResourceExhausted;
  if (error == EISDIR || error == ENAMETOOLONG || error == ELOOP) code = absl::StatusCode::kInvalidArgument;
  return absl::Status(code, absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error)));
}

// Returns the bytes of a page of this system: 4, 16 or 64 KiB. It is at least kContainerPage, and may be more.
uintptr_t SystemPage() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

Sha256Digest HeaderDigest(const uint8_t* header, absl::Span<const uint8_t> table) {
  Sha256Hasher hasher;
  hasher.Update(header, kDigested);
  hasher.Update(table);
  return hasher.Finish();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Container>> Container::Open(absl::string_view path, ContentKind content) {
  auto c = std::shared_ptr<Container>(new Container());
  c->name_ = std::string(path);
  SMELT_ASSIGN_OR_RETURN(c->fd_, OpenFile(path));
  struct stat info;
  if (fstat(c->fd_, &info) != 0) return SystemError(path, "read", errno);
  if (!S_ISREG(info.st_mode)) return SystemError(path, "map", ENODEV);
  if (info.st_size < kHeaderBytes) {
    return absl::DataLossError(absl::StrCat(path, ": has ", info.st_size, " bytes, too few for ", NameOf(content)));
  }
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, c->fd_, 0);
  if (data == MAP_FAILED) return SystemError(path, "map", errno);
  c->data_ = static_cast<uint8_t*>(data);
  c->size_ = info.st_size;
  SMELT_RETURN_IF_ERROR(Annotate(c->Parse(content), path));
  return std::shared_ptr<const Container>(std::move(c));
}

absl::StatusOr<std::shared_ptr<const Container>> Container::FromMemory(absl::Span<const uint8_t> bytes,
                                                                       ContentKind content, absl::string_view name) {
  auto c = std::shared_ptr<Container>(new Container());
  c->name_ = std::string(name);
  if (bytes.size() < kHeaderBytes) {
    return absl::DataLossError(absl::StrCat(name, ": has ", bytes.size(), " bytes, too few for ", NameOf(content)));
  }
  void* data = mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return SystemError(name, "allocate", errno);
  c->data_ = static_cast<uint8_t*>(data);
  c->size_ = static_cast<int64_t>(bytes.size());
  std::memcpy(data, bytes.data(), bytes.size());
  SMELT_RETURN_IF_ERROR(Annotate(c->Parse(content), name));
  return std::shared_ptr<const Container>(std::move(c));
}

Container::~Container() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
  if (fd_ >= 0) close(fd_);
}

absl::Status Container::Parse(ContentKind content) {
  const uint8_t* h = data_;
  if (std::memcmp(h, kMagic, sizeof(kMagic)) != 0) {
    return absl::DataLossError(absl::StrCat("is not ", NameOf(content), ": it does not begin with \"SMELTBND\""));
  }
  const uint32_t version = Load32(h + 8);
  if (version != kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("has container version ", version, "; this program reads version ", kVersion));
  }
  if (Load32(h + 12) != kHeaderBytes) {
    return absl::DataLossError(absl::StrCat("header length is ", Load32(h + 12), ", expected ", kHeaderBytes));
  }
  if (Load64(h + 16) != static_cast<uint64_t>(size_)) {
    return absl::DataLossError(absl::StrCat("has ", size_, " bytes; its header says ", Load64(h + 16),
                                            Load64(h + 16) > static_cast<uint64_t>(size_) ? ": it is cut off" : ""));
  }
  const uint32_t count = Load32(h + 28);
  if (count > kMaxSegments) {
    return absl::DataLossError(absl::StrCat("has ", count, " segments; at most ", kMaxSegments, " are possible"));
  }
  const uint64_t table_offset = Load64(h + 32);
  const int64_t table_bytes = int64_t{count} * kEntryBytes;
  if (table_bytes > size_ - kHeaderBytes || table_offset != static_cast<uint64_t>(size_ - table_bytes)) {
    return absl::DataLossError(absl::StrCat("the segment table is at ", table_offset, "; ", count,
                                            " segments in a file of ", size_, " bytes need another place"));
  }
  const absl::Span<const uint8_t> table(data_ + table_offset, static_cast<size_t>(table_bytes));
  Sha256Digest stored;
  std::memcpy(stored.data(), h + kDigested, stored.size());
  if (HeaderDigest(h, table) != stored) {
    return absl::DataLossError("the header or the segment table is corrupt: their SHA-256 differs");
  }
  for (int i = 40; i < kDigested; ++i) {
    if (h[i] != 0) return absl::DataLossError(absl::StrCat("header byte ", i, " is ", int{h[i]}, ", expected 0"));
  }
  // The content kind comes after the digest: a wrong one is then the caller's mistake, not corruption.
  const uint32_t kind = Load32(h + 24);
  if (kind != static_cast<uint32_t>(ContentKind::kBundle) && kind != static_cast<uint32_t>(ContentKind::kGraph)) {
    return absl::DataLossError(absl::StrCat("content kind is ", kind, ", expected 1 (bundle) or 2 (graph)"));
  }
  if (kind != static_cast<uint32_t>(content)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", NameOf(static_cast<ContentKind>(kind)), ", expected ", NameOf(content)));
  }
  int64_t end = kHeaderBytes;  // of the segment before
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* e = table.data() + i * kEntryBytes;
    const uint32_t segment_kind = Load32(e);
    if (segment_kind < 1 || segment_kind > 4) {
      return absl::DataLossError(absl::StrCat("segment ", i, ": kind is ", segment_kind, ", expected 1 to 4"));
    }
    if (Load32(e + 4) != 0 || Load64(e + 24) != 0) {
      return absl::DataLossError(absl::StrCat("segment ", i, ": reserved fields are not 0"));
    }
    Segment s;
    s.kind = static_cast<SegmentKind>(segment_kind);
    const uint64_t offset = Load64(e + 8), size = Load64(e + 16);
    if (offset > table_offset || offset < static_cast<uint64_t>(end) || size > table_offset - offset) {
      return absl::DataLossError(absl::StrCat("segment ", i, ": ", size, " bytes at ", offset,
                                              " do not lie between the segment before, which ends at ", end,
                                              ", and the table at ", table_offset));
    }
    if (offset % AlignmentOf(s.kind) != 0) {
      return absl::DataLossError(
          absl::StrCat("segment ", i, ": its offset ", offset, " is no multiple of ", AlignmentOf(s.kind)));
    }
    s.offset = static_cast<int64_t>(offset);
    s.size = static_cast<int64_t>(size);
    std::memcpy(s.digest.data(), e + 32, s.digest.size());
    end = s.offset + s.size;
    segments_.push_back(s);
  }
  for (int i = 0; i < static_cast<int>(segments_.size()); ++i) {
    if (segments_[i].kind != SegmentKind::kWeights) SMELT_RETURN_IF_ERROR(VerifyDigest(i));
  }
  return absl::OkStatus();
}

int Container::Find(SegmentKind kind) const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].kind == kind) return static_cast<int>(i);
  }
  return -1;
}

absl::Status Container::VerifyDigest(int segment) const {
  const Sha256Digest digest = BlockDigest(bytes(segment));
  if (digest == segments_[segment].digest) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("segment ", segment, " is corrupt: its digest is ", ToHex(digest),
                                          ", expected ", ToHex(segments_[segment].digest)));
}

absl::StatusOr<const uint8_t*> Container::MapExecutable(int segment) const {
  const Segment& s = segments_[segment];
  SMELT_CHECK(s.kind == SegmentKind::kCode);
  if (s.size == 0) return absl::DataLossError(absl::StrCat(name_, ": segment ", segment, " holds no code"));
  // data_ begins at a page of the system, and the code at a multiple of kContainerPage, so that larger pages may hold
  // other segments besides. They are only read, so that it does not matter that they can be executed.
  const size_t before = static_cast<size_t>(s.offset) % SystemPage();
  uint8_t* code = data_ + s.offset;
  if (mprotect(code - before, before + static_cast<size_t>(s.size), PROT_READ | PROT_EXEC) != 0) {
    return SystemError(name_, "map code as executable", errno);
  }
  // Instructions that were copied are in the cache of data, which those of instructions need not see. The system does
  // this itself for pages of a file.
  if (fd_ < 0) __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code + s.size));
  return code;
}

void Container::ReleasePages(const void* begin, int64_t bytes) const {
  if (fd_ < 0) return;
  const uintptr_t page = SystemPage();
  const uintptr_t from = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t to = (reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes)) / page * page;
  SMELT_CHECK(bytes >= 0 && static_cast<const uint8_t*>(begin) >= data_ &&
              static_cast<const uint8_t*>(begin) + bytes <= data_ + size_);
  // If the system refuses, the pages stay in memory.
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

absl::StatusOr<Container::WritableCopy> Container::MapWritable(int segment, int64_t offset, int64_t size) const {
  const Segment& s = segments_[segment];
  SMELT_CHECK(offset >= 0 && size >= 0 && offset <= s.size && size <= s.size - offset);
  // A mapping costs a system call, and a fault per page. Small storages are cheaper to copy.
  constexpr int64_t kMapFrom = 64 << 10;
  WritableCopy copy;
  const int64_t from = s.offset + offset;
  const int64_t page_from = fd_ >= 0 && size >= kMapFrom ? from & ~static_cast<int64_t>(SystemPage() - 1) : from;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(from + size - page_from, 1));
  void* data;
  if (fd_ >= 0 && size >= kMapFrom) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_, page_from);
  } else {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) std::memcpy(data, data_ + from, static_cast<size_t>(size));
  }
  if (data == MAP_FAILED) return SystemError(name_, "map a writable copy of a weight", errno);
  copy.owner = std::shared_ptr<void>(data, [bytes](void* p) { munmap(p, bytes); });
  copy.data = static_cast<uint8_t*>(data) + (from - page_from);
  return copy;
}

absl::StatusOr<ContainerWriter> ContainerWriter::Create(absl::string_view path, ContentKind content) {
  ContainerWriter w;
  w.content_ = content;
  w.path_ = std::string(path);
  SMELT_ASSIGN_OR_RETURN(w.file_, OutputFile::Create(path));
  w.in_memory_ = w.file_->is_stream();
  const std::string header(kHeaderBytes, '\0');
  SMELT_RETURN_IF_ERROR(w.Write(header.data(), kHeaderBytes));
  return w;
}

ContainerWriter ContainerWriter::InMemory(ContentKind content) {
  ContainerWriter w;
  w.content_ = content;
  w.in_memory_ = true;
  const std::string header(kHeaderBytes, '\0');
  SMELT_CHECK_OK(w.Write(header.data(), kHeaderBytes));
  return w;
}

absl::Status ContainerWriter::Write(const void* data, int64_t size) {
  position_ += size;
  const absl::string_view bytes(static_cast<const char*>(data), static_cast<size_t>(size));
  if (in_memory_ || buffer_.size() + bytes.size() < kFlushBytes) {
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  SMELT_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return file_->Append(bytes);
}

absl::Status ContainerWriter::Begin(SegmentKind kind) {
  SMELT_CHECK(!open_segment_);
  if (segments_.size() >= kMaxSegments) return absl::ResourceExhaustedError(absl::StrCat(path_, ": too many segments"));
  const int64_t alignment = AlignmentOf(kind);
  const std::string padding(static_cast<size_t>((alignment - position_ % alignment) % alignment), '\0');
  SMELT_RETURN_IF_ERROR(Write(padding.data(), static_cast<int64_t>(padding.size())));
  current_ = Segment{.kind = kind, .offset = position_};
  open_segment_ = true;
  return absl::OkStatus();
}

absl::Status ContainerWriter::Append(absl::Span<const uint8_t> bytes) {
  SMELT_CHECK(open_segment_);
  current_.size += static_cast<int64_t>(bytes.size());
  if (bytes.size() < kHashedAside) {
    hasher_.Update(bytes);
    return Write(bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  std::vector<std::thread> aside;
  bool out_of_memory = false;
  const bool hashed_aside = StartThread(aside, [&] {
    try {
      hasher_.Update(bytes);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  });
  const absl::Status written = Write(bytes.data(), static_cast<int64_t>(bytes.size()));
  for (std::thread& t : aside) t.join();
  if (out_of_memory) throw std::bad_alloc();
  if (!hashed_aside) hasher_.Update(bytes);
  return written;
}

absl::StatusOr<int> ContainerWriter::End() {
  SMELT_CHECK(open_segment_);
  open_segment_ = false;
  current_.digest = hasher_.Finish();
  segments_.push_back(current_);
  return static_cast<int>(segments_.size()) - 1;
}

absl::StatusOr<int> ContainerWriter::Add(SegmentKind kind, absl::Span<const uint8_t> bytes) {
  SMELT_RETURN_IF_ERROR(Begin(kind));
  SMELT_RETURN_IF_ERROR(Append(bytes));
  return End();
}

absl::Status ContainerWriter::WriteTableAndHeader() {
  SMELT_CHECK(!open_segment_);
  const std::string padding(static_cast<size_t>((64 - position_ % 64) % 64), '\0');
  SMELT_RETURN_IF_ERROR(Write(padding.data(), static_cast<int64_t>(padding.size())));
  std::string table(segments_.size() * kEntryBytes, '\0');
  for (size_t i = 0; i < segments_.size(); ++i) {
    uint8_t* e = reinterpret_cast<uint8_t*>(table.data()) + i * kEntryBytes;
    Store32(e, static_cast<uint32_t>(segments_[i].kind));
    Store64(e + 8, static_cast<uint64_t>(segments_[i].offset));
    Store64(e + 16, static_cast<uint64_t>(segments_[i].size));
    std::memcpy(e + 32, segments_[i].digest.data(), 32);
  }
  uint8_t header[kHeaderBytes] = {};
  std::memcpy(header, kMagic, sizeof(kMagic));
  Store32(header + 8, kVersion);
  Store32(header + 12, kHeaderBytes);
  Store64(header + 16, static_cast<uint64_t>(position_) + table.size());
  Store32(header + 24, static_cast<uint32_t>(content_));
  Store32(header + 28, static_cast<uint32_t>(segments_.size()));
  Store64(header + 32, static_cast<uint64_t>(position_));
  const Sha256Digest digest =
      HeaderDigest(header, absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(table.data()), table.size()));
  std::memcpy(header + kDigested, digest.data(), digest.size());
  SMELT_RETURN_IF_ERROR(Write(table.data(), static_cast<int64_t>(table.size())));
  if (in_memory_) {
    std::memcpy(buffer_.data(), header, kHeaderBytes);
    return absl::OkStatus();
  }
  // The buffered bytes come first, then the header in its place.
  SMELT_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return file_->WriteAt(0, absl::string_view(reinterpret_cast<const char*>(header), kHeaderBytes));
}

absl::Status ContainerWriter::Finish() {
  SMELT_CHECK(file_.has_value());
  SMELT_RETURN_IF_ERROR(WriteTableAndHeader());
  if (in_memory_) SMELT_RETURN_IF_ERROR(file_->Append(buffer_));
  return file_->Commit();
}

absl::StatusOr<std::string> ContainerWriter::FinishToString() {
  SMELT_CHECK(!file_.has_value());
  SMELT_RETURN_IF_ERROR(WriteTableAndHeader());
  return std::move(buffer_);
}

void ResealContainer(std::string& bytes) {
  uint8_t* data = reinterpret_cast<uint8_t*>(bytes.data());
  const uint64_t size = bytes.size();
  if (size < kHeaderBytes) return;
  const uint64_t count = Load32(data + 28), table = Load64(data + 32);
  if (table > size || count > (size - table) / kEntryBytes) return;
  for (uint64_t i = 0; i < count; ++i) {
    uint8_t* e = data + table + i * kEntryBytes;
    const uint64_t offset = Load64(e + 8), n = Load64(e + 16);
    if (offset > size || n > size - offset) continue;
    const Sha256Digest digest = BlockDigest(absl::Span<const uint8_t>(data + offset, n));
    std::memcpy(e + 32, digest.data(), digest.size());
  }
  const Sha256Digest digest = HeaderDigest(data, absl::Span<const uint8_t>(data + table, count * kEntryBytes));
  std::memcpy(data + kDigested, digest.data(), digest.size());
}

}  // namespace smelt
