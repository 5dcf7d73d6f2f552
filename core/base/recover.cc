#include "smelt/core/base/recover.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace check_internal {

// Defined in check.cc. They have no header, because everything would include it and a change of it would recompile
// everything.
using OnFailure = void (*)(const std::string& message);
using OnNode = void (*)(absl::string_view op, absl::string_view source);
extern constinit thread_local OnFailure instead_of_aborting;
extern constinit thread_local OnNode works_on_node;

}  // namespace check_internal

namespace {

struct CheckFailed {
  std::string message;
};

// The work of this thread's innermost Recovered.
struct Work {
  std::string pass, op, source;
};
constinit thread_local Work* current = nullptr;

[[noreturn]] void Throw(const std::string& message) { throw CheckFailed{message}; }

void Note(absl::string_view op, absl::string_view source) {
  current->op.assign(op.data(), op.size());
  current->source.assign(source.data(), source.size());
}

std::string Where(const Work& work) {
  std::string where = work.pass;
  if (!work.op.empty()) absl::StrAppend(&where, ": ", work.op);
  if (!work.source.empty()) absl::StrAppend(&where, " (", work.source, ")");
  return where;
}

absl::Status Bug(const Work& work, absl::string_view what) {
  std::string line = absl::StrCat(Where(work), ": ", what, "; this is a bug in smelt");
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return absl::InternalError(line);
}

}  // namespace

void WorksOnPass(absl::string_view pass) {
  if (current == nullptr) return;
  current->pass.assign(pass.data(), pass.size());
  current->op.clear();
  current->source.clear();
}

absl::Status Recovered(absl::string_view pass, absl::FunctionRef<absl::Status()> work) {
  Work mine;
  mine.pass = std::string(pass);
  struct Scope {
    explicit Scope(Work* work) : outer(current) { Set(work); }
    ~Scope() { Set(outer); }
    static void Set(Work* work) {
      current = work;
      check_internal::instead_of_aborting = work == nullptr ? nullptr : Throw;
      check_internal::works_on_node = work == nullptr ? nullptr : Note;
    }
    Work* outer;
  } scope(&mine);
  try {
    return work();
  } catch (const CheckFailed& e) {
    return Bug(mine, e.message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(Where(mine), ": out of memory"));
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::resource_unavailable_try_again || e.code() == std::errc::not_enough_memory)
      return absl::ResourceExhaustedError(absl::StrCat(Where(mine), ": ", e.what()));
    return Bug(mine, e.what());
  } catch (const std::exception& e) {
    return Bug(mine, e.what());
  }
}

}  // namespace smelt
