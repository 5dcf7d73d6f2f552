// The digest of large data, computed on all cores: the SHA-256 of the SHA-256 digests of its blocks of 16 MiB, one
// after the other. Data no longer than one block have their plain SHA-256.
//
//   Sha256Digest d = BlockDigest(bytes);                    // in one go
//   BlockHasher h; h.Update(a); h.Update(b); h.Finish();    // the same as of a and b joined
#ifndef SMELT_CORE_BASE_BLOCK_DIGEST_H_
#define SMELT_CORE_BASE_BLOCK_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/base/sha256.h"

namespace smelt {

class BlockHasher {
 public:
  static constexpr size_t kBlockBytes = 16 << 20;

  // Blocks that are entirely in `bytes` are hashed in parallel.
  void Update(absl::Span<const uint8_t> bytes);

  // Returns the digest of all bytes so far, and resets the hasher.
  Sha256Digest Finish();

 private:
  std::vector<Sha256Digest> blocks_;
  Sha256Hasher begun_;
  size_t begun_bytes_ = 0;  // of the block after `blocks_`
};

Sha256Digest BlockDigest(absl::Span<const uint8_t> bytes);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_BLOCK_DIGEST_H_
