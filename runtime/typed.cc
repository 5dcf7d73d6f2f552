#include "smelt/runtime/typed.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/file.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace typed_internal {

absl::Status CheckTensor(const Tensor& t, DType dtype, absl::Span<const int64_t> sizes) {
  if (!t.defined()) return absl::InvalidArgumentError("a tensor without memory");
  bool fits = t.dtype() == dtype && t.sizes().size() == sizes.size();
  for (size_t d = 0; fits && d < sizes.size(); ++d) fits = sizes[d] == kAnySize || sizes[d] == t.sizes()[d];
  if (fits) return absl::OkStatus();
  auto name = [](DType type, absl::Span<const int64_t> s) {
    return absl::StrCat(Name(type), " [",
                        absl::StrJoin(s, ", ",
                                      [](std::string* out, int64_t n) {
                                        absl::StrAppend(out, n == kAnySize ? "any" : absl::StrCat(n));
                                      }),
                        "]");
  };
  return absl::InvalidArgumentError(absl::StrCat(name(t.dtype(), t.sizes()), ", expected ", name(dtype, sizes)));
}

absl::Status CheckNumResults(size_t got, size_t want) {
  if (got == want) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the model returned ", got, " results, ", want, " expected"));
}

absl::Status InField(absl::string_view field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(field, ": ", status.message()));
}

}  // namespace typed_internal

absl::StatusOr<std::shared_ptr<const Program>> LoadBundleFile(absl::string_view path, absl::string_view header_digest,
                                                              const ProgramOptions& options) {
  // The header's digest covers the table of all segments and their digests: the file's identity (container.h).
  constexpr size_t kHeaderBytes = 96, kDigest = 64;
  if (const absl::StatusOr<MappedFile> file = MapFile(path); file.ok() && file->size() >= kHeaderBytes) {
    if (absl::BytesToHexString(file->text().substr(kDigest, 32)) != header_digest) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is another bundle than the one this program was built with"));
    }
  }
  return Program::Load(path, options);  // says why a file cannot be read
}

}  // namespace smelt
