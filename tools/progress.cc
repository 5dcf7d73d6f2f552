#include "smelt/tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/tools/plain_text.h"

namespace smelt {

Progress::Progress(std::string command, bool quiet, Drawing drawing)
    : command_(std::move(command)), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), drawing_(drawing) {
  if (quiet_ || drawing_ != Drawing::kOwnThread) return;
  try {
    thread_ = std::thread([this] { DrawRepeatedly(); });
  } catch (const std::system_error&) {
    // A machine without a thread to spare does its work in silence.
  }
}

Progress::~Progress() { Stop(); }

void Progress::Doing(std::string what, int64_t done, int64_t total) {
  const std::lock_guard<std::mutex> lock(mutex_);
  what_ = std::move(what);
  watched_ = nullptr;
  done_ = done;
  total_ = total;
  if (drawing_ == Drawing::kWhenToldSo && !quiet_ && !stop_ && std::chrono::steady_clock::now() >= next_) Draw();
}

void Progress::Watch(std::string what, std::function<int64_t()> done, int64_t total) {
  const std::lock_guard<std::mutex> lock(mutex_);
  what_ = std::move(what);
  watched_ = std::move(done);
  done_ = 0;
  total_ = total;
}

double Progress::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

std::string Progress::Text() const {
  constexpr int kBar = 20, kMoving = 4;
  std::string out = what_;
  if (terminal_) {
    std::string bar(kBar, ' ');
    if (total_ > 0) {
      const int64_t full = kBar * std::clamp<int64_t>(done_, 0, total_) / total_;
      bar.replace(0, static_cast<size_t>(full), static_cast<size_t>(full), '#');
    } else {
      // Nobody knows how much there is: something moves.
      const int at = static_cast<int>(Seconds() * 5) % (2 * (kBar - kMoving));
      bar.replace(static_cast<size_t>(std::min(at, 2 * (kBar - kMoving) - at)), kMoving, kMoving, '#');
    }
    out = absl::StrCat("[", bar, "] ", out);
  }
  if (total_ > 0) absl::StrAppend(&out, " ", done_, " of ", total_);
  absl::StrAppend(&out, " (", SecondsText(std::floor(Seconds())), ")");
  return out;
}

void Progress::Draw() {
  if (terminal_) {
    winsize size;
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
    const std::string line = absl::StrCat(command_, ": ", Text());
    std::fprintf(stderr, "\r\x1b[K%s", line.substr(0, known ? size.ws_col - 1 : 79).c_str());
    std::fflush(stderr);
    drawn_ = true;
    next_ += std::chrono::milliseconds(200);
  } else {
    std::fprintf(stderr, "%s: %s\n", command_.c_str(), Text().c_str());
    next_ += std::chrono::seconds(10);
  }
  next_ = std::max(next_, std::chrono::steady_clock::now());
}

void Progress::DrawRepeatedly() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_until(lock, next_, [this] { return stop_; })) {
    if (const std::function<int64_t()> watched = watched_) {
      // Without the mutex: whoever is watched may be waiting for it to say something.
      lock.unlock();
      const int64_t done = watched();
      lock.lock();
      if (watched_) done_ = done;
    }
    Draw();
  }
}

void Progress::Say(absl::string_view message) { Print(absl::StrCat(command_, ": ", message, "\n")); }

void Progress::Print(absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::fprintf(stderr, "%s%s", drawn_ ? "\r\x1b[K" : "", std::string(text).c_str());
}

void Progress::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void Progress::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (drawn_) {
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  }
  drawn_ = false;
}

void Progress::Wrote(const std::vector<std::string>& paths, absl::string_view more) {
  Stop();
  if (quiet_) return;
  std::fflush(stdout);  // the summary comes last, also where both streams go to one file
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path.empty()) continue;
    const bool is_file = std::filesystem::is_regular_file(path, error);
    const auto bytes = is_file ? std::filesystem::file_size(path, error) : 0;
    texts.push_back(is_file && !error ? absl::StrCat(path, " (", BytesText(static_cast<int64_t>(bytes)), ")") : path);
  }
  std::fprintf(stderr, "%s: wrote %s in %s%s%s\n", command_.c_str(), absl::StrJoin(texts, ", ").c_str(),
               SecondsText(Seconds()).c_str(), more.empty() ? "" : ": ", std::string(more).c_str());
}

}  // namespace smelt
