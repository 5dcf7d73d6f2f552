// The messages of a command that takes a while, on standard error: its progress once a second has passed, and at the end
// what was written, how large it is and how long that took.
//
//   Progress progress("smelt compile", line.Has("quiet"));
//   progress.Doing("compiling kernels", 3, 40);      // from any thread
//   ...
//   progress.Wrote({"model.smb"}, "40 kernels compiled");
//   // smelt compile: wrote model.smb (1.3 MB) in 2.4 s: 40 kernels compiled
//
// On a terminal the progress is one line that changes, elsewhere a line after one second and then every ten.
#ifndef SMELT_TOOLS_PROGRESS_H_
#define SMELT_TOOLS_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"

namespace smelt {

class Progress {
 public:
  // kOwnThread shows that time passes even while nothing else happens; without a thread to spare nothing is shown.
  // kWhenToldSo shows progress only when Doing() is called: for processes that fork, which must have no other threads.
  enum class Drawing { kOwnThread, kWhenToldSo };
  // `command` begins each message.
  Progress(std::string command, bool quiet, Drawing drawing = Drawing::kOwnThread);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Notes the present work, and how much of it is done; `total` 0: nobody knows.
  void Doing(std::string what, int64_t done = 0, int64_t total = 0);
  // Notes work that says itself how much of it is done, until the next Doing(). `done` is called from another thread, and
  // must be valid until Stop().
  void Watch(std::string what, std::function<int64_t()> done, int64_t total);
  // Prints a line between those of the progress, also if the command is quiet. Print() adds nothing to the text.
  void Say(absl::string_view message);
  void Print(absl::string_view text);
  // Removes the line from a terminal, until there is progress to show again: for text on standard output.
  void Clear();
  // Ends the progress and removes its line. Whoever prints to standard error calls it before.
  void Stop();
  // Stops, and prints the summary. A path that is no regular file has no size; an empty one is left out.
  void Wrote(const std::vector<std::string>& paths, absl::string_view more = "");

 private:
  void DrawRepeatedly();  // in the thread
  void Draw();            // with the mutex held
  std::string Text() const;
  double Seconds() const;

  const std::string command_;
  const bool quiet_, terminal_;
  const Drawing drawing_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::chrono::steady_clock::time_point next_ = begin_ + std::chrono::seconds(1);  // when to draw
  bool stop_ = false, drawn_ = false;
  std::string what_;
  int64_t done_ = 0, total_ = 0;
  std::function<int64_t()> watched_;
  std::thread thread_;
};

}  // namespace smelt

#endif  // SMELT_TOOLS_PROGRESS_H_
