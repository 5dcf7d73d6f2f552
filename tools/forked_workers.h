// Works on numbered items in separate processes, so that a crash affects only one item.
//
//   ForkedWorkers workers([] {
//     auto state = Prepare();
//     return [state](int item) { return Work(state, item); };
//   });
//   workers.Give(7);
//   for (const ForkedWorkers::Outcome& o : workers.Wait(/*milliseconds=*/100, /*wake=*/-1)) Use(o.item, o.answer);
//
// Processes are forked from the caller, which must have no other thread, and are reused for further items. They end
// with the caller, however it ends.
#ifndef SMELT_TOOLS_FORKED_WORKERS_H_
#define SMELT_TOOLS_FORKED_WORKERS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace smelt {

class ForkedWorkers {
 public:
  using Work = std::function<std::string(int item)>;
  struct Outcome {
    int item = 0;
    bool ended = false;  // the process ended instead of answering
    int signal = 0;      // the signal that ended it, if one did
    int exit_code = 0;   // else its exit code
    std::string answer;
  };
  // `start` is called once in each new process.
  explicit ForkedWorkers(std::function<Work()> start) : start_(std::move(start)) {}
  ~ForkedWorkers();  // kills the processes that are working
  ForkedWorkers(const ForkedWorkers&) = delete;
  ForkedWorkers& operator=(const ForkedWorkers&) = delete;

  int busy() const;
  // Gives the item to an idle process, else to a new one. ResourceExhausted if none can be started.
  absl::Status Give(int item);
  // Waits until there is an outcome, `milliseconds` have passed, or the descriptor `wake` can be read.
  std::vector<Outcome> Wait(int milliseconds, int wake);

 private:
  struct Worker {
    pid_t pid = 0;
    int fd = -1;    // a socket to it
    int item = -1;  // -1: idle
    std::string in;
  };
  [[noreturn]] void RunChild(int fd) noexcept;  // exceptions of the work must not reach the parent's code

  std::function<Work()> start_;
  std::vector<Worker> workers_;
};

}  // namespace smelt

#endif  // SMELT_TOOLS_FORKED_WORKERS_H_
