#include "smelt/core/ir/op_name.h"

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace smelt {

OpName OpName::Get(absl::string_view full) {
  // Never destroyed, because names outlive every static variable that may hold one.
  static absl::Mutex& mutex = *new absl::Mutex;
  static auto& table = *new absl::flat_hash_map<std::string, std::unique_ptr<const Rep>>;
  OpName result;
  {
    absl::ReaderMutexLock lock(&mutex);
    auto it = table.find(full);
    if (it != table.end()) {
      result.rep_ = it->second.get();
      return result;
    }
  }
  auto rep = std::make_unique<Rep>();
  // The text behind a line end distinguishes names that are otherwise equal: core/op/declare.h puts the schema there.
  const std::string key(full);
  full = full.substr(0, full.find('\n'));
  rep->full = std::string(full);
  size_t colons = full.rfind("::");
  size_t dot = full.find('.', colons == absl::string_view::npos ? 0 : colons);
  if (colons == absl::string_view::npos || dot == absl::string_view::npos) {
    rep->name = rep->full;
  } else {
    rep->name = std::string(full.substr(0, dot));
    rep->overload = std::string(full.substr(dot + 1));
  }
  absl::MutexLock lock(&mutex);
  result.rep_ = table.try_emplace(key, std::move(rep)).first->second.get();
  return result;
}

}  // namespace smelt
