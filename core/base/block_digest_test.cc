#include "smelt/core/base/block_digest.h"

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "smelt/core/base/sha256.h"

namespace smelt {
namespace {

constexpr size_t kBlock = BlockHasher::kBlockBytes;

std::vector<uint8_t> Bytes(size_t n) {
  std::vector<uint8_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  return out;
}

TEST(BlockDigestTest, OneBlockHasItsSha256) {
  EXPECT_EQ(BlockDigest({}), Sha256(""));
  for (size_t n : {size_t{1}, size_t{1000}, kBlock}) {
    const std::vector<uint8_t> bytes = Bytes(n);
    EXPECT_EQ(BlockDigest(bytes), Sha256(bytes)) << n;
  }
}

TEST(BlockDigestTest, SeveralBlocksHaveTheSha256OfTheirs) {
  const std::vector<uint8_t> bytes = Bytes(2 * kBlock + 7);
  std::string digests;
  for (size_t at = 0; at < bytes.size(); at += kBlock) {
    const Sha256Digest d = Sha256(absl::MakeConstSpan(bytes).subspan(at, kBlock));
    digests.append(d.begin(), d.end());
  }
  EXPECT_EQ(BlockDigest(bytes), Sha256(digests));
}

TEST(BlockDigestTest, PiecesHashAsTheWholeAndAFinishedHasherStartsAnew) {
  const std::vector<uint8_t> bytes = Bytes(3 * kBlock + 5);
  BlockHasher hasher;
  for (size_t piece : {size_t{1000003}, kBlock - 1, kBlock + 1, 2 * kBlock}) {
    for (size_t at = 0; at < bytes.size(); at += piece) hasher.Update(absl::MakeConstSpan(bytes).subspan(at, piece));
    EXPECT_EQ(hasher.Finish(), BlockDigest(bytes)) << piece;
  }
}

}  // namespace
}  // namespace smelt
