#include "smelt/core/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "smelt/core/base/check.h"

namespace smelt {

struct Sha256Hasher::Context {
  // OpenSSL's calls fail only when memory runs out or no provider has SHA-256: nothing a caller could act on.
  Context() : evp(EVP_MD_CTX_new()) {
    SMELT_CHECK(evp != nullptr);
    Restart();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  // To look the algorithm up, as EVP_sha256() does at each start, takes as long as to hash ten kilobytes.
  static const EVP_MD* Algorithm() {
    static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    SMELT_CHECK(algorithm != nullptr);
    return algorithm;
  }
  void Restart() { SMELT_CHECK_EQ(EVP_DigestInit_ex(evp, Algorithm(), nullptr), 1); }

  EVP_MD_CTX* evp;
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::Update(absl::Span<const uint8_t> bytes) { Update(bytes.data(), bytes.size()); }

void Sha256Hasher::Update(const void* data, size_t size) {
  if (size != 0) SMELT_CHECK_EQ(EVP_DigestUpdate(context_->evp, data, size), 1);
}

Sha256Digest Sha256Hasher::Finish() {
  Sha256Digest digest;
  unsigned size = 0;
  SMELT_CHECK_EQ(EVP_DigestFinal_ex(context_->evp, digest.data(), &size), 1);
  SMELT_CHECK_EQ(size, digest.size());
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
