// The file that holds a bundle (.smb) or a graph (.smg): a header, page-aligned segments and a table of them, each with
// its digest (core/base/block_digest.h).
//
//   SMELT_ASSIGN_OR_RETURN(ContainerWriter writer, ContainerWriter::Create("net.smb", ContentKind::kBundle));
//   SMELT_ASSIGN_OR_RETURN(int code, writer.Add(SegmentKind::kCode, image));
//   SMELT_RETURN_IF_ERROR(writer.Begin(SegmentKind::kWeights));            // large ones in pieces
//   for (...) SMELT_RETURN_IF_ERROR(writer.Append(piece));
//   SMELT_ASSIGN_OR_RETURN(int weights, writer.End());
//   SMELT_RETURN_IF_ERROR(writer.Finish());                                // only now "net.smb" exists
//
//   SMELT_ASSIGN_OR_RETURN(auto file, Container::Open("net.smb", ContentKind::kBundle));
//   file->bytes(weights);                                                  // mapped; pages come when touched
//
// Opening checks the header and the table, and the digest of every segment but those of kind kWeights, whose digest is
// checked by VerifyDigest on request: reading gigabytes at load is the user's decision. The same segments in the same
// order give the same bytes.
//
// Layout, little-endian:
//   0  "SMELTBND"   8 u32 version   12 u32 header bytes (96)   16 u64 file bytes   24 u32 content   28 u32 segments
//   32 u64 offset of the table      40 24 bytes of zero        64 SHA-256 of bytes [0, 64) and the table
//   the segments, each at a multiple of 4096 (code, weights) or 64, gaps zeroed
//   the table, the last thing in the file: of each segment u32 kind, u32 flags (0), u64 offset, u64 size, u64 zero,
//   digest
// An older version is read as long as this reader knows it; a newer one is refused.
#ifndef SMELT_SCHEMA_CONTAINER_H_
#define SMELT_SCHEMA_CONTAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/base/block_digest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"

namespace smelt {

// The numbers are part of the format.
enum class ContentKind : uint32_t { kBundle = 1, kGraph = 2 };
enum class SegmentKind : uint32_t {
  kMetadata = 1,  // FlatBuffers: bundle.fbs or graph.fbs
  kWeights = 2,   // raw little-endian contents of storages
  kCode = 3,      // a position-independent image that imports nothing
  kText = 4,      // for people
};

inline constexpr int64_t kContainerPage = 4096;

struct Segment {
  SegmentKind kind = SegmentKind::kMetadata;
  int64_t offset = 0;
  int64_t size = 0;
  Sha256Digest digest = {};
};

// A container in memory, immutable. It is shared: users of mapped parts keep it alive. Thread-safe.
class Container {
 public:
  // Opens a file. Errors: those of core/base/file.h if the file cannot be read; kDataLoss if it is not a container,
  // truncated or corrupt; kUnimplemented for a newer version; kInvalidArgument for other content than requested.
  static absl::StatusOr<std::shared_ptr<const Container>> Open(absl::string_view path, ContentKind content);
  // Copies `bytes`. `name` stands for the path in errors.
  static absl::StatusOr<std::shared_ptr<const Container>> FromMemory(absl::Span<const uint8_t> bytes,
                                                                     ContentKind content,
                                                                     absl::string_view name = "(memory)");
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  const std::string& name() const { return name_; }
  int64_t file_bytes() const { return size_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // Returns the first segment of that kind, or -1 if there is none.
  int Find(SegmentKind kind) const;
  absl::Span<const uint8_t> bytes(int segment) const {
    const Segment& s = segments_[segment];
    return absl::Span<const uint8_t>(data_ + s.offset, static_cast<size_t>(s.size));
  }
  // Reads the whole segment. Returns kDataLoss if the bytes differ from the written ones.
  absl::Status VerifyDigest(int segment) const;

  // Makes a segment's pages executable (and keeps them readable), in place if the file's mapping allows it, else in a
  // private copy. The address stays valid as long as the container. Only for kCode, whose digest Open has checked.
  absl::StatusOr<const uint8_t*> MapExecutable(int segment) const;

  // Returns whether the byte at this address is one of the container's.
  bool Contains(const void* byte) const {
    return static_cast<const uint8_t*>(byte) >= data_ && static_cast<const uint8_t*>(byte) < data_ + size_;
  }

  // Gives the whole pages of [begin, begin + bytes) of the container back to the system. They are read from the file again
  // when they are used. Does nothing for a container that is not mapped from a file.
  void ReleasePages(const void* begin, int64_t bytes) const;

  // A private, writable view of bytes [offset, offset + size) of a segment: pages are copied when they are written. The
  // owner unmaps it. `data` has the alignment that offset has within the file, up to a page.
  struct WritableCopy {
    uint8_t* data = nullptr;
    std::shared_ptr<void> owner;
  };
  absl::StatusOr<WritableCopy> MapWritable(int segment, int64_t offset, int64_t size) const;

 private:
  Container() = default;
  absl::Status Parse(ContentKind content);

  std::string name_;
  int fd_ = -1;  // -1: from memory
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  std::vector<Segment> segments_;
};

// Writes a container to a file, in order, without holding segments in memory; the file gets its name when Finish()
// returns (OutputFile). If it is destroyed before that, it leaves nothing behind. A container for a device or a pipe,
// whose header could not be written last, is held in memory until then.
class ContainerWriter {
 public:
  static absl::StatusOr<ContainerWriter> Create(absl::string_view path, ContentKind content);
  // Writes into memory; FinishToString() returns the bytes.
  static ContainerWriter InMemory(ContentKind content);
  ContainerWriter(ContainerWriter&& other) = default;
  ContainerWriter& operator=(ContainerWriter&& other) = delete;

  // Each returns the segment's number. Begin, Append..., End must not be interleaved with another segment.
  absl::StatusOr<int> Add(SegmentKind kind, absl::Span<const uint8_t> bytes);
  absl::StatusOr<int> Add(SegmentKind kind, absl::string_view bytes) {
    return Add(kind, absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  absl::Status Begin(SegmentKind kind);
  absl::Status Append(absl::Span<const uint8_t> bytes);
  absl::StatusOr<int> End();

  int64_t bytes_written() const { return position_; }

  absl::Status Finish();
  absl::StatusOr<std::string> FinishToString();

 private:
  ContainerWriter() = default;
  absl::Status Write(const void* data, int64_t size);
  absl::Status WriteTableAndHeader();

  ContentKind content_ = ContentKind::kBundle;
  std::string path_;
  std::optional<OutputFile> file_;
  bool in_memory_ = false;
  std::string buffer_;  // in memory: everything; to a file: not yet written
  int64_t position_ = 0;
  bool open_segment_ = false;
  Segment current_;
  BlockHasher hasher_;
  std::vector<Segment> segments_;
};

// For tests that mutate containers: sets the digests of the segments and the header to match the bytes, as far as the
// header and the table can be read at all.
void ResealContainer(std::string& bytes);

}  // namespace smelt

#endif  // SMELT_SCHEMA_CONTAINER_H_
