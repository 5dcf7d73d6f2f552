#include "smelt/tools/command_main.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "smelt/core/base/unfinished_outputs.h"
#include "smelt/tools/exit_codes.h"

namespace smelt {
namespace {

// Runs on any thread.
void EndWithoutMemory() {
  RemoveUnfinishedOutputs();
  // Another thread that has come here says it and ends the process.
  static std::atomic_flag is_ending;
  while (is_ending.test_and_set()) pause();
  constexpr char kMessage[] = "smelt: out of memory\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(kExitCannotWrite);
}

// Replaces closed standard streams, so that no file takes their place. They are opened the other way round: printing to
// one fails, and is noticed.
void OccupyStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) {
      dup2(opened, fd);
      close(opened);
    }
  }
}

int FinishStandardOutput(const char* name, int code) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != kExitOk) return code;
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0)
    return kExitCannotWrite;  // a pipe whose reader has seen enough: smelt inspect m.smb | head
  std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", name, errno == 0 ? "" : ": ",
               errno == 0 ? "" : std::strerror(errno));
  return kExitCannotWrite;
}

}  // namespace

int RunProgram(const char* name, const std::function<int()>& body) {
  OccupyStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is an error of writing, not an end
  std::set_new_handler(EndWithoutMemory);
  try {
    return FinishStandardOutput(name, body());
  } catch (const std::bad_alloc& e) {
    std::fprintf(stderr, "%s: out of memory: %s\n", name, e.what());
    return kExitCannotWrite;
  } catch (const std::length_error&) {
    std::fprintf(stderr, "%s: out of memory: a list would have more elements than memory can hold\n", name);
    return kExitCannotWrite;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: a bug in smelt: %s\n", name, e.what());
    return kExitBug;
  }
}

}  // namespace smelt
