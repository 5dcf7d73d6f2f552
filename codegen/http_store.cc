#include "smelt/codegen/http_store.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/curl.h"
#include "smelt/core/base/sha256.h"

namespace smelt {
namespace {

constexpr size_t kMaxResult = 64 << 10;
constexpr int64_t kMaxRecord = 64 << 20;

// --- the little of protocol buffers that an ActionResult with one output needs ---
// ActionResult.output_files = 2, exit_code = 4; OutputFile.path = 1, digest = 2; Digest.hash = 1, size_bytes = 2.

void PutVarint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}
void PutBytes(std::string& out, int field, absl::string_view bytes) {
  PutVarint(out, field << 3 | 2);
  PutVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}

bool TakeVarint(absl::string_view& in, uint64_t& v) {
  v = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(in[0]);
    in.remove_prefix(1);
    v |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}
struct Field {
  int number = 0;
  uint64_t value = 0;       // of a varint
  absl::string_view bytes;  // of a length-delimited one
};
bool TakeField(absl::string_view& in, Field& f) {
  uint64_t tag, size;
  f = Field();
  if (!TakeVarint(in, tag) || tag >> 3 > 1 << 29) return false;
  f.number = static_cast<int>(tag >> 3);
  switch (tag & 7) {
    case 0:
      return TakeVarint(in, f.value);
    case 1:
    case 2:
    case 5:
      if ((tag & 7) == 2) {
        if (!TakeVarint(in, size)) return false;
      } else {
        size = (tag & 7) == 1 ? 8 : 4;
      }
      if (size > in.size()) return false;
      f.bytes = in.substr(0, size);
      in.remove_prefix(size);
      return true;
    default:
      return false;
  }
}

bool Is200(long code) { return code >= 200 && code < 300; }

}  // namespace

std::string EncodeActionResult(absl::string_view path, absl::string_view sha256, int64_t bytes) {
  std::string digest, file, result;
  PutBytes(digest, 1, sha256);
  PutVarint(digest, 2 << 3);
  PutVarint(digest, static_cast<uint64_t>(bytes));
  PutBytes(file, 1, path);
  PutBytes(file, 2, digest);
  PutBytes(result, 2, file);
  return result;
}

std::optional<ActionOutput> DecodeActionResult(absl::string_view message) {
  std::optional<ActionOutput> out;
  Field result, file, digest;
  while (!message.empty()) {
    if (!TakeField(message, result)) return std::nullopt;
    if (result.number != 2 || out) continue;
    out.emplace();
    while (!result.bytes.empty()) {
      if (!TakeField(result.bytes, file)) return std::nullopt;
      if (file.number != 2) continue;
      while (!file.bytes.empty()) {
        if (!TakeField(file.bytes, digest)) return std::nullopt;
        if (digest.number == 1) out->sha256 = std::string(digest.bytes);
        if (digest.number == 2) out->bytes = static_cast<int64_t>(digest.value);
      }
    }
  }
  return out;
}

class HttpStore::Impl {
 public:
  Impl(const Curl& curl, Options options) : curl_(curl), options_(std::move(options)) {}
  ~Impl() {
    for (CURL* c : idle_) curl_.easy_cleanup(c);
  }

  std::optional<std::string> Get(const std::string& key) {
    std::optional<std::string> message = Fetch("/ac/", key, kMaxResult);
    if (!message) return std::nullopt;
    const std::optional<ActionOutput> output = DecodeActionResult(*message);
    if (!output || !Sha256FromHex(output->sha256) || output->bytes < 0 || output->bytes > kMaxRecord) {
      Failed(absl::StrCat("/ac/", key, " is no action result with an output"), /*connection=*/false);
      return std::nullopt;
    }
    std::optional<std::string> record = Fetch("/cas/", output->sha256, output->bytes);
    if (record && ToHex(Sha256(*record)) != output->sha256) {
      Failed(absl::StrCat("/cas/", output->sha256, " is not what its digest says"), /*connection=*/false);
      return std::nullopt;
    }
    return record;
  }

  void Put(const std::string& key, const std::string& record) {
    if (static_cast<int64_t>(record.size()) > kMaxRecord) return;
    const std::string digest = ToHex(Sha256(record));
    // The contents are stored first, so that every reader that finds the result finds them.
    if (Send("/cas/", digest, record)) Send("/ac/", key, EncodeActionResult("kernel", digest, record.size()));
  }

 private:
  struct Body {
    std::string bytes;
    size_t limit = 0;
    bool too_long = false;
  };
  static size_t Receive(char* data, size_t, size_t size, void* context) {
    auto* body = static_cast<Body*>(context);
    if (size > body->limit - body->bytes.size()) {
      body->too_long = true;
      return 0;
    }
    body->bytes.append(data, size);
    return size;
  }
  struct Source {
    absl::string_view rest;
  };
  static size_t Supply(char* data, size_t item, size_t items, void* context) {
    auto* source = static_cast<Source*>(context);
    const size_t n = std::min(item * items, source->rest.size());
    std::copy_n(source->rest.data(), n, data);
    source->rest.remove_prefix(n);
    return n;
  }

  void Warn(absl::string_view what) const {
    if (options_.warn) return options_.warn(what);
    std::fprintf(stderr, "smelt: remote cache: %.*s\n", static_cast<int>(what.size()), what.data());
  }

  void Failed(const std::string& what, bool connection) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (off_) return;
    ++failures_;
    if (connection || failures_ >= kMaxFailures) off_ = true;
    Warn(absl::StrCat(what, off_ ? "; going on without it" : ""));
  }

  // Takes a connection that was used before, if there is one.
  CURL* Take() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        CURL* c = idle_.back();
        idle_.pop_back();
        curl_.easy_reset(c);
        return c;
      }
    }
    return curl_.easy_init();
  }

  // Returns the status, or 0 if there was none; then the failure has been reported.
  long Perform(CURL* c, const char* folder, const std::string& name) {
    const std::string url = absl::StrCat(options_.url, folder, name);
    curl_.easy_setopt(c, CURLOPT_URL, url.c_str());
    curl_.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, long{options_.connect_ms});
    curl_.easy_setopt(c, CURLOPT_TIMEOUT_MS, long{options_.request_ms});
    curl_.easy_setopt(c, CURLOPT_USERAGENT, "smelt");
    const CURLcode code = curl_.easy_perform(c);
    long status = 0;
    if (code == CURLE_OK) {
      curl_.easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    } else if (code != CURLE_WRITE_ERROR) {
      Failed(absl::StrCat(folder, name, ": ", curl_.easy_strerror(code)), /*connection=*/true);
    }
    return status;
  }
  void GiveBack(CURL* c) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(c);
  }

  std::optional<std::string> Fetch(const char* folder, const std::string& name, size_t limit) {
    CURL* c = off_ ? nullptr : Take();
    if (c == nullptr) return std::nullopt;
    Body body;
    body.limit = limit;
    curl_.easy_setopt(c, CURLOPT_WRITEFUNCTION, &Receive);
    curl_.easy_setopt(c, CURLOPT_WRITEDATA, &body);
    const long status = Perform(c, folder, name);
    GiveBack(c);
    if (body.too_long) Failed(absl::StrCat(folder, name, " is longer than it should be"), /*connection=*/false);
    if (status == 0 || body.too_long || status == 404) return std::nullopt;
    if (!Is200(status)) {
      Failed(absl::StrCat("GET ", folder, name, ": status ", status), /*connection=*/false);
      return std::nullopt;
    }
    return std::move(body.bytes);
  }

  bool Send(const char* folder, const std::string& name, const std::string& bytes) {
    CURL* c = off_ || read_only_ ? nullptr : Take();
    if (c == nullptr) return false;
    Source source{bytes};
    Body answer;
    answer.limit = kMaxResult;
    curl_.easy_setopt(c, CURLOPT_UPLOAD, 1L);
    curl_.easy_setopt(c, CURLOPT_READFUNCTION, &Supply);
    curl_.easy_setopt(c, CURLOPT_READDATA, &source);
    curl_.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
    curl_.easy_setopt(c, CURLOPT_WRITEFUNCTION, &Receive);
    curl_.easy_setopt(c, CURLOPT_WRITEDATA, &answer);
    // Otherwise curl waits a second for a server that does not know "Expect: 100-continue".
    curl_slist* headers = curl_.slist_append(nullptr, "Expect:");
    curl_.easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    const long status = Perform(c, folder, name);
    curl_.slist_free_all(headers);
    GiveBack(c);
    if (status == 0) return false;
    if (Is200(status)) return true;
    // A read-only server is fine.
    if (!read_only_.exchange(true)) Warn(absl::StrCat("PUT ", folder, name, ": status ", status, "; only reading"));
    return false;
  }

  const Curl& curl_;
  const Options options_;
  std::mutex mutex_;
  std::vector<CURL*> idle_;
  int failures_ = 0;
  std::atomic<bool> off_ = false, read_only_ = false;
};

HttpStore::HttpStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpStore::~HttpStore() = default;

absl::StatusOr<std::shared_ptr<HttpStore>> HttpStore::Create(Options options) {
  if (!absl::StartsWith(options.url, "http://") && !absl::StartsWith(options.url, "https://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("remote cache \"", options.url, "\": a URL of http:// or https:// expected"));
  }
  const Curl* curl = OpenCurl();
  if (curl == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("remote cache ", options.url,
                     " needs libcurl.so.4, which does not open on this machine; on Debian it is in libcurl4"));
  }
  while (absl::EndsWith(options.url, "/")) options.url.pop_back();
  return std::shared_ptr<HttpStore>(new HttpStore(std::make_unique<Impl>(*curl, std::move(options))));
}

std::optional<std::string> HttpStore::Get(const std::string& key) { return impl_->Get(key); }
void HttpStore::Put(const std::string& key, const std::string& record) { impl_->Put(key, record); }

}  // namespace smelt
