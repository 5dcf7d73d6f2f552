#include "smelt/core/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace smelt::check_internal {

Failure::Failure(const char* file, int line, const char* what) {
  stream_ << file << ":" << line << ": " << what << " ";
}

Failure::~Failure() {
  std::string message = stream_.str();
  while (message.ends_with(' ')) message.pop_back();
  // Written in one call, so that messages of two threads do not mix.
  message += '\n';
  std::fwrite(message.data(), 1, message.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

std::unique_ptr<std::string> NotOk(const absl::Status& status, const char* text) {
  if (ABSL_PREDICT_TRUE(status.ok())) return nullptr;
  return std::make_unique<std::string>(absl::StrCat(text, " (", status.ToString(), ")"));
}

}  // namespace smelt::check_internal
