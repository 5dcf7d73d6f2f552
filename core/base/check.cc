#include "smelt/core/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace smelt {
namespace check_internal {

// Both are set by recover.cc for a thread whose work may fail without ending the process. The first throws from the
// constructor, because a destructor may not throw. Text that is streamed into the failure later is then lost.
using OnFailure = void (*)(const std::string& message);
using OnNode = void (*)(absl::string_view op, absl::string_view source);
constinit thread_local OnFailure instead_of_aborting = nullptr;
constinit thread_local OnNode works_on_node = nullptr;

}  // namespace check_internal

// Declared here as in recover.h, for callers that do not depend on it.
void WorksOnNode(absl::string_view op, absl::string_view source) {
  if (check_internal::works_on_node != nullptr) check_internal::works_on_node(op, source);
}

namespace check_internal {

Failure::Failure(const char* file, int line, const char* what) {
  stream_ << file << ":" << line << ": " << what;
  if (instead_of_aborting != nullptr) instead_of_aborting(stream_.str());
  stream_ << " ";
}

Failure::~Failure() {
  std::string message = stream_.str();
  while (message.ends_with(' ')) message.pop_back();
  // Written in one call, so that the messages of two threads do not mix.
  message += '\n';
  std::fwrite(message.data(), 1, message.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

std::unique_ptr<std::string> NotOk(const absl::Status& status, const char* text) {
  if (ABSL_PREDICT_TRUE(status.ok())) return nullptr;
  return std::make_unique<std::string>(absl::StrCat(text, " (", status.ToString(), ")"));
}

}  // namespace check_internal
}  // namespace smelt
