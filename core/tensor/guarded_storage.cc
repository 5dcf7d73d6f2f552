#include "smelt/core/tensor/guarded_storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"

namespace smelt {

absl::StatusOr<std::shared_ptr<Storage>> GuardedStorage(int64_t bytes, GuardPages side) {
  SMELT_CHECK(side != GuardPages::kNone && bytes >= 0);
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t inner = (bytes + page - 1) / page * page;
  const size_t whole = static_cast<size_t>(inner + 2 * page);
  void* map = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes: ", strerror(errno)));
  std::shared_ptr<void> owner(map, [whole](void* p) { munmap(p, whole); });
  char* first = static_cast<char*>(map) + page;
  if (inner > 0 && mprotect(first, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0)
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes: ", strerror(errno)));
  return Storage::Adopt(side == GuardPages::kEnd ? first + (inner - bytes) : first, bytes, std::move(owner));
}

}  // namespace smelt
