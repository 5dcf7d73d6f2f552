#include "smelt/core/base/block_digest.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "smelt/core/base/blocks.h"

namespace smelt {

void BlockHasher::Update(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t whole = begun_bytes_ == 0 ? bytes.size() / kBlockBytes : 0;
    if (whole > 0) {
      const size_t first = blocks_.size();
      blocks_.resize(first + whole);
      std::atomic<bool> out_of_memory = false;  // a thread must not throw
      ForEachBlock(static_cast<int64_t>(whole), [&](int64_t i) {
        const size_t block = static_cast<size_t>(i);
        try {
          blocks_[first + block] = Sha256(bytes.subspan(block * kBlockBytes, kBlockBytes));
        } catch (const std::bad_alloc&) {
          out_of_memory = true;
        }
      });
      if (out_of_memory) throw std::bad_alloc();
      bytes.remove_prefix(whole * kBlockBytes);
      continue;
    }
    const size_t n = std::min(bytes.size(), kBlockBytes - begun_bytes_);
    begun_.Update(bytes.first(n));
    begun_bytes_ += n;
    bytes.remove_prefix(n);
    if (begun_bytes_ == kBlockBytes) {
      blocks_.push_back(begun_.Finish());
      begun_bytes_ = 0;
    }
  }
}

Sha256Digest BlockHasher::Finish() {
  if (begun_bytes_ > 0 || blocks_.empty()) blocks_.push_back(begun_.Finish());
  begun_bytes_ = 0;
  Sha256Digest digest = blocks_.front();
  if (blocks_.size() > 1) {
    Sha256Hasher hasher;
    for (const Sha256Digest& d : blocks_) hasher.Update(d.data(), d.size());
    digest = hasher.Finish();
  }
  blocks_.clear();
  return digest;
}

Sha256Digest BlockDigest(absl::Span<const uint8_t> bytes) {
  BlockHasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

}  // namespace smelt
