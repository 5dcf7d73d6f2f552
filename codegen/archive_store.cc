#include "smelt/codegen/archive_store.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

class ArchiveStore : public KernelStore {
 public:
  absl::Status Add(const std::string& path) {
    SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
    absl::string_view rest = file.text();
    while (!rest.empty()) {
      const size_t at = file.size() - rest.size();
      auto bytes = TakeKernelRecord(rest);
      absl::StatusOr<KernelRecord> record =
          bytes.ok() ? DecodeKernelRecord(*bytes) : absl::StatusOr<KernelRecord>(bytes.status());
      if (!record.ok()) {
        return absl::DataLossError(
            absl::StrCat(path, ": the kernel at byte ", at, " ", std::string(record.status().message())));
      }
      records_.emplace(ToHex(Sha256(record->key_text)), *bytes);
    }
    files_.push_back(std::move(file));
    return absl::OkStatus();
  }

  std::optional<std::string> Get(const std::string& key) override {
    auto it = records_.find(key);
    if (it == records_.end()) return std::nullopt;
    return std::string(it->second);
  }
  void Put(const std::string&, const std::string&) override {}

 private:
  std::vector<MappedFile> files_;
  absl::flat_hash_map<std::string, absl::string_view> records_;  // into files_
};

}  // namespace

absl::StatusOr<std::shared_ptr<KernelStore>> OpenArchives(const std::vector<std::string>& paths) {
  auto store = std::make_shared<ArchiveStore>();
  for (const std::string& path : paths) SMELT_RETURN_IF_ERROR(store->Add(path));
  return store;
}

}  // namespace smelt
