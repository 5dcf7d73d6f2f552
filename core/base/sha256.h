// SHA-256, as OpenSSL computes it.
//
//   Sha256Digest d = Sha256(bytes);                     // in one go
//   Sha256Hasher h; h.Update(a); h.Update(b); h.Finish();  // the same as of a and b joined
//   ToHex(d);                                           // 64 lower-case digits
//
// About 2 GB/s a core where the machine has SHA instructions.
#ifndef SMELT_CORE_BASE_SHA256_H_
#define SMELT_CORE_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace smelt {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(Sha256Hasher&&) noexcept;
  Sha256Hasher& operator=(Sha256Hasher&&) noexcept;

  void Update(absl::Span<const uint8_t> bytes);
  void Update(absl::Span<const std::byte> bytes) { Update(bytes.data(), bytes.size()); }
  void Update(absl::string_view bytes) { Update(bytes.data(), bytes.size()); }
  void Update(const void* data, size_t size);

  // Returns the digest of all bytes so far, and resets the hasher.
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest Sha256(absl::Span<const uint8_t> bytes);
Sha256Digest Sha256(absl::string_view bytes);

std::string ToHex(const Sha256Digest& digest);
// Returns nothing if `hex` is not 64 hexadecimal digits.
std::optional<Sha256Digest> Sha256FromHex(absl::string_view hex);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_SHA256_H_
