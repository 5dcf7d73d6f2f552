#include "smelt/codegen/kernel_record.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr absl::string_view kMagic = "smelt kernel 1";

struct Header {
  absl::string_view digest;
  uint64_t text_bytes = 0, object_bytes = 0;
  size_t end = 0;  // of the line
};
absl::StatusOr<Header> ReadHeader(absl::string_view bytes) {
  Header out;
  const size_t end = bytes.substr(0, 256).find('\n');
  if (end == absl::string_view::npos) return absl::DataLossError("has no header");
  absl::string_view line = bytes.substr(0, end);
  if (!absl::ConsumePrefix(&line, kMagic)) return absl::DataLossError("is of another kind or version");
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &out.text_bytes) ||
      !absl::SimpleAtoi(words[2], &out.object_bytes)) {
    return absl::DataLossError("has a damaged header");
  }
  out.digest = words[0];
  out.end = end + 1;
  const uint64_t have = bytes.size() - out.end;
  if (out.text_bytes > have || out.object_bytes > have - out.text_bytes) {
    return absl::DataLossError(
        absl::StrCat("has ", have, " bytes, expected ", out.text_bytes, " + ", out.object_bytes));
  }
  return out;
}

}  // namespace

std::string EncodeKernelRecord(absl::string_view key_text, absl::string_view object) {
  Sha256Hasher hasher;
  hasher.Update(key_text);
  hasher.Update(object);
  return absl::StrCat(kMagic, " ", ToHex(hasher.Finish()), " ", key_text.size(), " ", object.size(), "\n", key_text,
                      object);
}

absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view bytes) {
  SMELT_ASSIGN_OR_RETURN(Header header, ReadHeader(bytes));
  const absl::string_view payload = bytes.substr(header.end);
  if (payload.size() != header.text_bytes + header.object_bytes) {
    return absl::DataLossError(
        absl::StrCat("has ", payload.size(), " bytes, expected ", header.text_bytes, " + ", header.object_bytes));
  }
  if (ToHex(Sha256(payload)) != header.digest) return absl::DataLossError("does not fit its digest");
  return KernelRecord{payload.substr(0, header.text_bytes), payload.substr(header.text_bytes)};
}

absl::StatusOr<absl::string_view> TakeKernelRecord(absl::string_view& bytes) {
  SMELT_ASSIGN_OR_RETURN(Header header, ReadHeader(bytes));
  const size_t size = header.end + header.text_bytes + header.object_bytes;
  const absl::string_view record = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return record;
}

}  // namespace smelt
