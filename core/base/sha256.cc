#include "smelt/core/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "smelt/core/base/check.h"

namespace smelt {

namespace {

// OpenSSL's calls fail only where memory is short: that some provider has SHA-256 is part of its installation.
void OrOutOfMemory(bool succeeded) {
  if (!succeeded) throw std::bad_alloc();
}

struct Free {
  void operator()(EVP_MD_CTX* evp) const { EVP_MD_CTX_free(evp); }
};

}  // namespace

struct Sha256Hasher::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    OrOutOfMemory(evp != nullptr);
    Restart();
  }
  // To look the algorithm up, as EVP_sha256() does at each start, takes as long as to hash ten kilobytes.
  static const EVP_MD* Algorithm() {
    static const EVP_MD* const algorithm = [] {
      const EVP_MD* fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
      OrOutOfMemory(fetched != nullptr);
      return fetched;
    }();
    return algorithm;
  }
  void Restart() { OrOutOfMemory(EVP_DigestInit_ex(evp.get(), Algorithm(), nullptr) == 1); }

  std::unique_ptr<EVP_MD_CTX, Free> evp;
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::Update(absl::Span<const uint8_t> bytes) { Update(bytes.data(), bytes.size()); }

void Sha256Hasher::Update(const void* data, size_t size) {
  if (size != 0) OrOutOfMemory(EVP_DigestUpdate(context_->evp.get(), data, size) == 1);
}

Sha256Digest Sha256Hasher::Finish() {
  Sha256Digest digest;
  unsigned size = 0;
  OrOutOfMemory(EVP_DigestFinal_ex(context_->evp.get(), digest.data(), &size) == 1);
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
