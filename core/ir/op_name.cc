#include "smelt/core/ir/op_name.h"

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace smelt {

OpName OpName::Get(absl::string_view full) { return Intern(full, ""); }

OpName OpName::GetDeclared(absl::string_view full, absl::string_view schema) { return Intern(full, schema); }

OpName OpName::Intern(absl::string_view full, absl::string_view schema) {
  // Never destroyed, because names outlive every static variable that may hold one.
  static absl::Mutex& mutex = *new absl::Mutex;
  static auto& names = *new absl::flat_hash_map<std::string, std::unique_ptr<const Rep>>;
  static auto& declared = *new absl::flat_hash_map<std::string, std::unique_ptr<const Rep>>;
  const bool is_declared = !schema.empty();
  auto& table = is_declared ? declared : names;
  std::string with_schema;
  if (is_declared) with_schema = absl::StrCat(full, "\n", schema);
  const absl::string_view key = is_declared ? with_schema : full;
  OpName result;
  {
    absl::ReaderMutexLock lock(&mutex);
    auto it = table.find(key);
    if (it != table.end()) {
      result.rep_ = it->second.get();
      return result;
    }
  }
  auto rep = std::make_unique<Rep>();
  rep->is_declared = is_declared;
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
