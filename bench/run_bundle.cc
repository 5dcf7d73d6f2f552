// Measures a call of a bundle with output memory reused: the minimum time of many calls, in milliseconds, and the
// call's kernel launches and library calls.
//
//   run_bundle MODEL.smb INPUTS.safetensors
//
// measures once, processor time of one thread.
//
//   run_bundle MODEL.smb INPUTS.safetensors --turns=THREADS
//
// measures once for each line of standard input, wall time, so that programs can take turns; a line of output has the
// time and the resident memory of the process in MB.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"

namespace smelt::bench {
namespace {

double Seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double ResidentMb() {
  std::ifstream file("/proc/self/statm");
  int64_t whole = 0, resident = 0;
  file >> whole >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// With 0 turns it measures once.
absl::Status Run(const char* bundle, const char* inputs, int threads_in_turns) {
  ProgramOptions options;
  options.threads = std::max(threads_in_turns, 1);
  SMELT_ASSIGN_OR_RETURN(auto program, Program::Load(bundle, options));
  SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(inputs));
  SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program));
  std::vector<Datum> args;
  for (const ArgInfo& a : program->args()) {
    if (a.kind != ValueKind::kTensor) {
      args.push_back(a.constant);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(Tensor t, file->ReadTensor(a.name));
    args.push_back(Datum(t));
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, instance->Run(args));
  const clockid_t clock = threads_in_turns > 0 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
  const auto measure = [&]() -> absl::StatusOr<double> {
    double best = 1e9, sum = 0;
    for (int n = 0; n < 3 || (sum < 0.2 && n < 100); ++n) {
      const double start = Seconds(clock);
      SMELT_RETURN_IF_ERROR(instance->RunInto(args, &outputs));
      const double seconds = Seconds(clock) - start;
      best = std::min(best, seconds);
      sum += seconds;
    }
    return best * 1e3;
  };
  if (threads_in_turns == 0) {
    SMELT_ASSIGN_OR_RETURN(const double best, measure());
    std::printf("%.4f %d %d\n", best, static_cast<int>(instance->last_call().kernel_launches),
                static_cast<int>(instance->last_call().library_calls));
    return absl::OkStatus();
  }
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    SMELT_ASSIGN_OR_RETURN(const double best, measure());
    std::printf("%.4f %.0f\n", best, ResidentMb());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  int threads_in_turns = 0;
  absl::string_view option = argc == 4 ? argv[3] : "";
  if (argc < 3 || argc > 4 ||
      (argc == 4 && (!absl::ConsumePrefix(&option, "--turns=") || !absl::SimpleAtoi(option, &threads_in_turns) ||
                     threads_in_turns < 1))) {
    std::fprintf(stderr, "run_bundle MODEL.smb INPUTS.safetensors [--turns=THREADS]\n");
    return 2;
  }
  const absl::Status s = smelt::bench::Run(argv[1], argv[2], threads_in_turns);
  if (s.ok()) return 0;
  std::fprintf(stderr, "run_bundle: %s\n", std::string(s.message()).c_str());
  return 1;
}
