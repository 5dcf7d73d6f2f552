#include "smelt/tools/forked_workers.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

// An answer is its length, then its bytes.
constexpr size_t kLength = sizeof(uint64_t);

bool WriteAll(int fd, const void* data, size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

ForkedWorkers::~ForkedWorkers() {
  for (Worker& w : workers_) {
    if (w.item >= 0) kill(w.pid, SIGKILL);
    close(w.fd);  // tells an idle one to end
  }
  for (Worker& w : workers_) waitpid(w.pid, nullptr, 0);
}

int ForkedWorkers::busy() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.item >= 0; }));
}

void ForkedWorkers::RunChild(int fd) noexcept {
  const Work work = start_();
  for (;;) {
    int32_t item;
    const ssize_t n = recv(fd, &item, sizeof item, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof item) _exit(0);
    const std::string answer = work(item);
    std::fflush(nullptr);
    const uint64_t length = answer.size();
    if (!WriteAll(fd, &length, kLength) || !WriteAll(fd, answer.data(), answer.size())) _exit(0);
  }
}

absl::Status ForkedWorkers::Give(int item) {
  auto idle = std::find_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.item < 0; });
  if (idle == workers_.end()) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("socketpair: ", strerror(errno)));
    }
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
      close(pair[0]);
      close(pair[1]);
      return absl::ResourceExhaustedError(absl::StrCat("fork: ", strerror(errno)));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      signal(SIGINT, SIG_IGN);  // a terminal sends it to all: the parent decides
      close(pair[0]);
      for (const Worker& w : workers_) close(w.fd);
      RunChild(pair[1]);
    }
    close(pair[1]);
    workers_.push_back({pid, pair[0], -1, ""});
    idle = workers_.end() - 1;
  }
  idle->item = item;
  const int32_t number = item;
  // If it has died meanwhile, Wait reports it.
  WriteAll(idle->fd, &number, sizeof number);
  return absl::OkStatus();
}

std::vector<ForkedWorkers::Outcome> ForkedWorkers::Wait(int milliseconds, int wake) {
  std::vector<pollfd> fds;
  for (const Worker& w : workers_) fds.push_back({w.item >= 0 ? w.fd : -1, POLLIN, 0});
  fds.push_back({wake, POLLIN, 0});
  std::vector<Outcome> out;
  if (poll(fds.data(), fds.size(), milliseconds) <= 0) return out;
  for (size_t i = workers_.size(); i-- > 0;) {
    if (fds[i].revents == 0) continue;
    Worker& w = workers_[i];
    char buffer[65536];
    const ssize_t n = recv(w.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n > 0) {
      w.in.append(buffer, static_cast<size_t>(n));
      uint64_t length;
      if (w.in.size() < kLength) continue;
      std::memcpy(&length, w.in.data(), kLength);
      if (w.in.size() - kLength < length) continue;
      out.push_back({w.item, false, 0, 0, w.in.substr(kLength)});
      w.item = -1;
      w.in.clear();
      continue;
    }
    int status = 0;
    waitpid(w.pid, &status, 0);
    close(w.fd);
    out.push_back(
        {w.item, true, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : 0, ""});
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(i));
  }
  return out;
}

}  // namespace smelt
