#include "smelt/codegen/http_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/core/base/sha256.h"

namespace smelt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Target kTarget = Target::kX86_64_V3;

KernelSpec Spec(const std::string& op) {
  absl::StatusOr<KernelSpec> spec = ParseKernelSpec(absl::StrReplaceAll(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = $OP float32 %0 %0
%2 = store.p1 float32 %1
outer 0 1 2
)",
                                                                        {{"$OP", op}}));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

struct Answer {
  int status = 404;
  std::string body;
  bool silent = false;  // nothing is sent, ever
};

// A server on the loopback interface with one connection per request.
class Server {
 public:
  using Handler = std::function<Answer(const std::string& method, const std::string& path, const std::string& body)>;
  explicit Server(Handler handler) : handler_(std::move(handler)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 64), 0);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Server() { Stop(); }
  void Stop() {
    if (!thread_.joinable()) return;
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
    for (int c : silent_) close(c);
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/smelt"); }
  std::vector<std::string> requests() {
    std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    for (;;) {
      const int c = accept(socket_, nullptr, nullptr);
      if (c < 0) return;
      std::string in;
      char buffer[4096];
      size_t body_at, length = 0;
      for (;;) {
        body_at = in.find("\r\n\r\n");
        if (body_at != std::string::npos) {
          body_at += 4;
          const size_t at = in.find("Content-Length: ");
          length = at == std::string::npos ? 0 : strtoul(in.c_str() + at + 16, nullptr, 10);
          if (in.size() >= body_at + length) break;
        }
        const ssize_t n = read(c, buffer, sizeof buffer);
        if (n <= 0) break;
        in.append(buffer, n);
      }
      const std::string method = in.substr(0, in.find(' '));
      const size_t path_at = method.size() + 1;
      std::string path = in.substr(path_at, in.find(' ', path_at) - path_at);
      path = std::string(absl::StripPrefix(path, "/smelt"));
      {
        std::lock_guard<std::mutex> lock(mutex_);
        requests_.push_back(absl::StrCat(method, " ", path.substr(0, path.rfind('/'))));
      }
      const Answer a = handler_(method, path, in.substr(std::min(in.size(), body_at)));
      if (a.silent) {
        silent_.push_back(c);
        continue;
      }
      const std::string out = absl::StrCat("HTTP/1.1 ", a.status, " x\r\nContent-Length: ", a.body.size(),
                                           "\r\nConnection: close\r\n\r\n", a.body);
      for (size_t at = 0; at < out.size();) {
        const ssize_t n = send(c, out.data() + at, out.size() - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += n;
      }
      close(c);
    }
  }

  Handler handler_;
  int socket_ = -1, port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<int> silent_;
};

// The blobs that a working server stores.
class Blobs {
 public:
  Answer operator()(const std::string& method, const std::string& path, const std::string& body) {
    if (method == "PUT") {
      (*blobs_)[path] = body;
      return {201, ""};
    }
    auto it = blobs_->find(path);
    if (it == blobs_->end()) return {404, "none"};
    return {200, it->second};
  }
  std::map<std::string, std::string>& blobs() { return *blobs_; }

 private:
  std::shared_ptr<std::map<std::string, std::string>> blobs_ = std::make_shared<std::map<std::string, std::string>>();
};

class HttpStoreTest : public testing::Test {
 protected:
  // A cache without anything on disk, like that of a new machine.
  std::unique_ptr<KernelCache> Machine(const std::string& url) {
    auto store =
        HttpStore::Create({.url = url, .connect_ms = 300, .request_ms = 300, .warn = [this](absl::string_view w) {
                             warnings_.emplace_back(w);
                           }});
    EXPECT_TRUE(store.ok()) << store.status();
    KernelCache::Options options;
    options.mode = CacheMode::kOff;
    options.store = *store;
    options.warn = [this](absl::string_view w) { warnings_.emplace_back(w); };
    return *KernelCache::Create(std::move(options));
  }
  // The kernel compiled without any cache.
  std::string Compiled(const KernelSpec& spec) { return CompileKernel(spec, kTarget)->bytes; }
  void ExpectRightKernel(KernelCache& cache, const KernelSpec& spec) {
    auto kernel = cache.GetOrCompile(spec, kTarget);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ((*kernel)->bytes, Compiled(spec));
  }

  std::vector<std::string> warnings_;
};

TEST_F(HttpStoreTest, AnActionResultIsTheProtocolBufferThatBazelReads) {
  // ActionResult { output_files { path: "kernel" digest { hash: "ab" size_bytes: 300 } } }, by hand.
  const std::string want(
      "\x12\x11\x0a\x06kernel\x12\x07\x0a\x02"
      "ab\x10\xac\x02",
      19);
  EXPECT_EQ(EncodeActionResult("kernel", "ab", 300), want);
  auto output = DecodeActionResult(want);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->sha256, "ab");
  EXPECT_EQ(output->bytes, 300);
  // Other fields (exit_code, an unknown one) are skipped; truncated text is not a message.
  EXPECT_EQ(DecodeActionResult(absl::StrCat(std::string("\x20\x00", 2), want, "\x32\x01x"))->sha256, "ab");
  for (size_t n = 1; n < want.size(); ++n) EXPECT_FALSE(DecodeActionResult(want.substr(0, n))) << n;
  EXPECT_FALSE(DecodeActionResult(""));
}

TEST_F(HttpStoreTest, AnotherMachineCompilesNothing) {
  Server server{Blobs()};
  auto first = Machine(server.url()), second = Machine(server.url());
  for (const char* op : {"add", "mul"}) ExpectRightKernel(*first, Spec(op));
  EXPECT_EQ(first->stats().compiled, 2);
  for (const char* op : {"add", "mul"}) ExpectRightKernel(*second, Spec(op));
  EXPECT_EQ(second->stats().compiled, 0);
  EXPECT_EQ(second->stats().store_hits, 2);
  ExpectRightKernel(*second, Spec("sub"));
  EXPECT_EQ(second->stats().compiled, 1);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(HttpStoreTest, EntriesAreWhereBazelsProtocolPutsThem) {
  Blobs blobs;
  Server server{blobs};
  auto machine = Machine(server.url());
  ExpectRightKernel(*machine, Spec("add"));
  const std::string key = ComputeKernelKey(Spec("add").ToString(), kTarget);
  ASSERT_THAT(blobs.blobs(), SizeIs(2));
  const auto output = DecodeActionResult(blobs.blobs()["/ac/" + key]);
  ASSERT_TRUE(output);
  const std::string& record = blobs.blobs()["/cas/" + output->sha256];
  EXPECT_EQ(ToHex(Sha256(record)), output->sha256);
  EXPECT_EQ(record.size(), output->bytes);
  EXPECT_THAT(server.requests(), ElementsAre("GET /ac", "PUT /cas", "PUT /ac"));
}

TEST_F(HttpStoreTest, WrongBytesAreCompiledAnew) {
  Blobs blobs;
  Server server{blobs};
  ExpectRightKernel(*Machine(server.url()), Spec("add"));
  for (auto& [path, bytes] : blobs.blobs()) {
    if (absl::StartsWith(path, "/cas/")) bytes[bytes.size() / 2] ^= 1;
  }
  auto second = Machine(server.url());
  ExpectRightKernel(*second, Spec("add"));
  EXPECT_EQ(second->stats().compiled, 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is not what its digest says")));
}

TEST_F(HttpStoreTest, AnotherKernelUnderTheKeyIsCompiledAnew) {
  Blobs blobs;
  Server server{blobs};
  auto first = Machine(server.url());
  for (const char* op : {"add", "mul"}) ExpectRightKernel(*first, Spec(op));
  const std::string add = "/ac/" + ComputeKernelKey(Spec("add").ToString(), kTarget);
  const std::string mul = "/ac/" + ComputeKernelKey(Spec("mul").ToString(), kTarget);
  blobs.blobs()[add] = blobs.blobs()[mul];
  auto second = Machine(server.url());
  ExpectRightKernel(*second, Spec("add"));
  EXPECT_EQ(second->stats().compiled, 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("holds another kernel")));
}

TEST_F(HttpStoreTest, ADeadServerCostsOneWarning) {
  Server server{Blobs()};
  const std::string url = server.url();
  server.Stop();
  auto machine = Machine(url);
  for (const char* op : {"add", "mul", "sub"}) ExpectRightKernel(*machine, Spec(op));
  EXPECT_EQ(machine->stats().compiled, 3);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("going on without it")));
}

TEST_F(HttpStoreTest, AServerThatNeverAnswersCostsOneWait) {
  Server server([](auto...) { return Answer{.silent = true}; });
  auto machine = Machine(server.url());
  const auto begin = std::chrono::steady_clock::now();
  for (const char* op : {"add", "mul", "sub"}) ExpectRightKernel(*machine, Spec(op));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(server.requests(), SizeIs(1));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("going on without it")));
}

TEST_F(HttpStoreTest, AServerThatIsAlwaysWrongIsLeftAfterThreeAnswers) {
  for (const Answer& wrong : {Answer{500, "oops"}, Answer{200, "<html>hello</html>"}, Answer{200, ""},
                              Answer{200, std::string(1 << 20, 'x')}, Answer{302, "elsewhere"}}) {
    warnings_.clear();
    Server server([&](auto...) { return wrong; });
    auto machine = Machine(server.url());
    for (const char* op : {"add", "mul", "sub", "max", "min"}) ExpectRightKernel(*machine, Spec(op));
    EXPECT_EQ(machine->stats().compiled, 5);
    EXPECT_THAT(warnings_, Contains(HasSubstr("going on without it"))) << wrong.status;
    int gets = 0;
    for (const std::string& r : server.requests()) gets += absl::StartsWith(r, "GET");
    EXPECT_EQ(gets, HttpStore::kMaxFailures) << wrong.status << wrong.body.substr(0, 20);
  }
}

TEST_F(HttpStoreTest, AServerThatTakesNothingIsStillRead) {
  Blobs blobs;
  Server writable{blobs};
  ExpectRightKernel(*Machine(writable.url()), Spec("add"));
  Server readable([&](const std::string& method, const std::string& path, const std::string& body) {
    return method == "PUT" ? Answer{405, ""} : blobs(method, path, body);
  });
  auto machine = Machine(readable.url());
  for (const char* op : {"mul", "sub", "add"}) ExpectRightKernel(*machine, Spec(op));
  EXPECT_EQ(machine->stats().store_hits, 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("only reading")));
}

TEST_F(HttpStoreTest, AUrlOfAnotherKindIsRefused) {
  for (const char* url : {"", "ftp://x", "file:///etc/passwd", "/tmp"}) {
    EXPECT_FALSE(HttpStore::Create({.url = url}).ok()) << url;
  }
}

}  // namespace
}  // namespace smelt
