#include "smelt/frontend/zip_stored.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "smelt/core/base/blocks.h"

namespace smelt {
namespace {

// PKWARE's APPNOTE: signatures and lengths of the fixed parts.
constexpr uint64_t kEnd = 0x06054b50, kEndBytes = 22, kEnd64Locator = 0x07064b50, kEnd64LocatorBytes = 20;
constexpr uint64_t kEnd64 = 0x06064b50, kEnd64Bytes = 56, kCentral = 0x02014b50, kCentralBytes = 46;
constexpr uint64_t kLocal = 0x04034b50, kLocalBytes = 30;
constexpr uint32_t kElsewhere = 0xffffffff;  // the value is in the zip64 field

}  // namespace

StoredEntries StoredEntries::Find(const std::string& path) {
  StoredEntries out;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return out;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    const size_t size = static_cast<size_t>(info.st_size);
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (data != MAP_FAILED) {
      out.mapping_ = std::shared_ptr<void>(data, [size](void* p) { munmap(p, size); });
      out.data_ = static_cast<char*>(data);
      out.size_ = size;
      out.ReadDirectory();
    }
  }
  close(fd);
  return out;
}

uint64_t StoredEntries::U(uint64_t at, int bytes) const {
  uint64_t v = 0;
  for (int i = bytes; i-- > 0;) v = v << 8 | static_cast<uint8_t>(data_[at + i]);
  return v;
}

void StoredEntries::ReadDirectory() {
  auto fits = [&](uint64_t at, uint64_t bytes) { return at <= size_ && bytes <= size_ - at; };
  // The end record, before a comment of at most 64 KiB.
  if (size_ < kEndBytes) return;
  uint64_t end = size_ - kEndBytes;
  const uint64_t lowest = end > 65535 ? end - 65535 : 0;
  while (U(end, 4) != kEnd) {
    if (end == lowest) return;
    --end;
  }
  uint64_t entries = U(end + 10, 2), at = U(end + 16, 4);
  if (end >= kEnd64LocatorBytes && U(end - kEnd64LocatorBytes, 4) == kEnd64Locator) {
    const uint64_t end64 = U(end - kEnd64LocatorBytes + 8, 8);
    if (!fits(end64, kEnd64Bytes) || U(end64, 4) != kEnd64) return;
    entries = U(end64 + 32, 8);
    at = U(end64 + 48, 8);
  }
  for (; entries > 0; --entries) {
    if (!fits(at, kCentralBytes) || U(at, 4) != kCentral) return;
    const uint64_t flags = U(at + 8, 2), method = U(at + 10, 2);
    const uint64_t name_bytes = U(at + 28, 2), extra_bytes = U(at + 30, 2), comment_bytes = U(at + 32, 2);
    uint64_t packed = U(at + 20, 4), size = U(at + 24, 4), local = U(at + 42, 4);
    const uint64_t rest = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    if (!fits(at, rest)) return;
    // The zip64 field holds those values that did not fit, in this order.
    uint64_t extra = at + kCentralBytes + name_bytes;
    const uint64_t extra_end = extra + extra_bytes;
    while (extra_end - extra >= 4) {
      const uint64_t id = U(extra, 2), bytes = U(extra + 2, 2);
      extra += 4;
      if (bytes > extra_end - extra) return;
      if (id == 1) {
        uint64_t value = extra;
        for (uint64_t* field : {&size, &packed, &local}) {
          if (*field != kElsewhere) continue;
          if (extra + bytes - value < 8) return;
          *field = U(value, 8);
          value += 8;
        }
      }
      extra += bytes;
    }
    const std::string name(data_ + at + kCentralBytes, name_bytes);
    at += rest;
    if (method != 0 || (flags & 1) != 0 || packed != size) continue;  // compressed or encrypted
    if (!fits(local, kLocalBytes) || U(local, 4) != kLocal || U(local + 26, 2) != name_bytes) continue;
    const uint64_t contents = local + kLocalBytes + name_bytes + U(local + 28, 2);
    if (!fits(contents, size) || name != std::string(data_ + local + kLocalBytes, name_bytes)) continue;
    places_[name] = {contents, size};
  }
}

std::shared_ptr<Storage> StoredEntries::Map(absl::string_view name, uint64_t size, uint32_t crc) const {
  const auto it = places_.find(name);
  if (it == places_.end() || it->second.size != size || it->second.offset % 64 != 0) return nullptr;
  char* contents = data_ + it->second.offset;
  // The checksum of the whole is that of its blocks, joined.
  constexpr uint64_t kBlock = 16 << 20;
  const int64_t blocks = static_cast<int64_t>((size + kBlock - 1) / kBlock);
  auto block_bytes = [&](int64_t i) { return std::min<uint64_t>(kBlock, size - static_cast<uint64_t>(i) * kBlock); };
  std::vector<uLong> sums(static_cast<size_t>(blocks));
  ForEachBlock(blocks, [&](int64_t i) {
    sums[i] = crc32(0, reinterpret_cast<const Bytef*>(contents + i * kBlock), static_cast<uInt>(block_bytes(i)));
  });
  uLong have = 0;
  for (int64_t i = 0; i < blocks; ++i) have = crc32_combine(have, sums[i], static_cast<z_off_t>(block_bytes(i)));
  if (have != crc) return nullptr;
  return Storage::Adopt(contents, static_cast<int64_t>(size), mapping_);
}

}  // namespace smelt
