// Tries untrusted files: each is read, checked and compiled as `smelt compile` does it, in a separate process, so that
// a file that crashes or does not end is reported and the next one continues.
//
//   HostileReport report = TryFiles(0, 20000, [&](int64_t i) { return mutator.Make(i); }, OptionsOfTests());
//   EXPECT_EQ(report.Found(), "");
#ifndef SMELT_TOOLS_FUZZ_HOSTILE_H_
#define SMELT_TOOLS_FUZZ_HOSTILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "smelt/tools/fuzz/hostile_file.h"

namespace smelt {

struct HostileOptions {
  std::string scratch = "/tmp";  // a folder; files that fail are kept there
  int seconds = 20;              // of processor time, for one file
  int64_t compile_each = 1;      // compiles every n-th file that is read successfully; 0: none
  double wall_seconds = 1e18;    // starts no file after that time
  size_t most_failures = 1000;
};

// With the scratch folder that Bazel gives a test.
HostileOptions OptionsOfTests();

struct HostileFailure {
  int64_t index = 0;
  std::string what;     // of the file
  std::string outcome;  // "signal 11", "does not end", "70: fuse: ..."
};

struct HostileReport {
  int64_t files = 0;
  int64_t read = 0;  // successfully
  std::map<int, int64_t> by_exit_code;
  std::vector<HostileFailure> failures;  // ended by a signal, did not end, a bug in smelt
  std::vector<std::string> left_behind;  // files that no compilation should have left
  // The failures and what was left behind, a line each; "" where there is nothing.
  std::string Found() const;
  std::string ToString() const;
};

// Files [first, end) of `make`, which is called in the other process, in order; nullopt: there is no such file.
HostileReport TryFiles(int64_t first, int64_t end, const std::function<std::optional<HostileFile>(int64_t)>& make,
                       const HostileOptions& options);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_HOSTILE_H_
