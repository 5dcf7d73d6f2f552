// A server of kernels that machines share. The store uses Bazel's HTTP cache protocol, so it works with any server for
// Bazel (nginx with DAV, bazel-remote).
//
//   SMELT_ASSIGN_OR_RETURN(options.store, HttpStore::Create({.url = "http://cache.example:8080/smelt"}));
//
// It uses GET and PUT of URL/ac/KEY, an ActionResult that names one output by its SHA-256, and of URL/cas/SHA-256, the
// record. A fetched record is compared with that digest, and the kernel cache compares the record's own digest and its
// whole key.
//
// A server that is dead, slow or wrong causes no failure, and waits are bounded. After a failed connection, or
// kMaxFailures wrong answers, the store reports it once and is off for the rest of the process.
#ifndef SMELT_CODEGEN_HTTP_STORE_H_
#define SMELT_CODEGEN_HTTP_STORE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/codegen/kernel_cache.h"

namespace smelt {

class HttpStore : public KernelStore {
 public:
  static constexpr int kMaxFailures = 3;
  struct Options {
    std::string url;                              // http:// or https://
    int connect_ms = 1000;                        // at most, to connect
    int request_ms = 5000;                        // at most, for one request in all
    std::function<void(absl::string_view)> warn;  // null: standard error
  };
  // InvalidArgument if the URL is invalid. Nothing is sent yet.
  static absl::StatusOr<std::shared_ptr<HttpStore>> Create(Options options);
  ~HttpStore() override;

  std::optional<std::string> Get(const std::string& key) override;
  void Put(const std::string& key, const std::string& record) override;

 private:
  class Impl;
  explicit HttpStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The messages of the protocol (protocol buffers, as in Bazel's remote_execution.proto), for tests.
std::string EncodeActionResult(absl::string_view path, absl::string_view sha256, int64_t bytes);
struct ActionOutput {
  std::string sha256;
  int64_t bytes = 0;
};
// Returns the first output; nullopt if there is none or the bytes are not such a message.
std::optional<ActionOutput> DecodeActionResult(absl::string_view message);

}  // namespace smelt

#endif  // SMELT_CODEGEN_HTTP_STORE_H_
