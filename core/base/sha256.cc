#include "smelt/core/base/sha256.h"

// The functions of this header are deprecated in favour of EVP's, which look up an algorithm by name at run time. These
// never fail and allocate nothing, and a program that links OpenSSL statically gets only them.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "smelt/core/base/check.h"

namespace smelt {

struct Sha256Hasher::Context {
  Context() { Restart(); }
  void Restart() { SMELT_CHECK_EQ(SHA256_Init(&sha), 1); }

  SHA256_CTX sha;
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::Update(absl::Span<const uint8_t> bytes) { Update(bytes.data(), bytes.size()); }

void Sha256Hasher::Update(const void* data, size_t size) {
  if (size != 0) SMELT_CHECK_EQ(SHA256_Update(&context_->sha, data, size), 1);
}

Sha256Digest Sha256Hasher::Finish() {
  Sha256Digest digest;
  SMELT_CHECK_EQ(SHA256_Final(digest.data(), &context_->sha), 1);
  context_->Restart();
  return digest;
}

Sha256Digest Sha256(absl::Span<const uint8_t> bytes) {
  Sha256Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

Sha256Digest Sha256(absl::string_view bytes) {
  Sha256Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

std::string ToHex(const Sha256Digest& digest) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::optional<Sha256Digest> Sha256FromHex(absl::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  if (!std::all_of(hex.begin(), hex.end(), [](unsigned char c) { return std::isxdigit(c) != 0; })) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace smelt
