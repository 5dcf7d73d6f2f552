// Times the workloads of bench/README.md, with one thread pinned to a core and output memory reused, and compares them
// with the limits of the machine.
//
//   bazel run -c opt //bench:kernels -- [--only=softmax,mlp] [--json] [--threads=1] [--cpu=0] [--cpu-time]
//
// --cpu-time measures the thread's processor time, for machines that do other work too; such work still shares caches
// and memory.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/bench/roofline.h"
#include "smelt/bench/workloads.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"

namespace smelt::bench {
namespace {

struct Options {
  std::vector<std::string> only;
  bool json = false;
  int threads = 1, cpu = 0;
  double budget = 0.7;
};

struct Row {
  double run = 0, limit = 0, compile = 0;  // seconds
  int64_t launches = 0, library_calls = 0, kernels = 0;
};

void Fill(const Tensor& t) {
  uint32_t seed = 7;
  const int64_t n = t.NumElements();
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525 + 1013904223;
    const float v = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-30f;
    if (t.dtype() == DType::kFloat32) t.data_as<float>()[i] = v;
    if (t.dtype() == DType::kBFloat16) {
      uint32_t bits;
      std::memcpy(&bits, &v, 4);
      t.data_as<uint16_t>()[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}

absl::StatusOr<Row> Measure(const Workload& w, const Options& options, Roofline& roofline) {
  Row row;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, BuildGraph(w));
  CompileOptions compile;
  SMELT_ASSIGN_OR_RETURN(Target native, ParseTarget("native"));
  compile.targets = {native};
  const std::string path = absl::StrCat("/tmp/smelt_bench_", w.name, ".smb");
  const auto start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(CompileStats stats, CompileToFile(*graph, path, compile));
  row.compile = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  row.kernels = stats.distinct_kernels;
  ProgramOptions program_options;
  program_options.threads = options.threads;
  SMELT_ASSIGN_OR_RETURN(auto program, Program::Load(path, program_options));
  std::remove(path.c_str());
  SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program));
  std::vector<Datum> args;
  for (const ArgInfo& a : program->args()) {
    Tensor t = Tensor::Empty(a.dtype, a.sizes);
    Fill(t);
    args.push_back(Datum(t));
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, instance->Run(args));
  absl::Status status;
  row.run = MinSeconds(
      [&] {
        absl::Status s = instance->RunInto(args, &outputs);
        if (!s.ok()) status = s;
      },
      options.budget);
  SMELT_RETURN_IF_ERROR(status);
  row.launches = instance->last_call().kernel_launches;
  row.library_calls = instance->last_call().library_calls;
  row.limit = std::max(roofline.MoveSeconds(w.read_bytes, w.written_bytes), w.flops / roofline.FlopsPerSecond());
  return row;
}

int Run(const Options& options) {
  Roofline roofline;
  if (!options.json) {
    std::printf("%-20s %10s %10s %8s %12s %14s %9s %8s %8s\n", "workload", "smelt ms", "limit ms", "ratio",
                "table: limit", "table: at most", "compile ms", "launches", "library");
  }
  int failed = 0;
  for (const Workload& w : AllWorkloads()) {
    if (!options.only.empty() && std::find(options.only.begin(), options.only.end(), w.name) == options.only.end())
      continue;
    auto row = Measure(w, options, roofline);
    if (!row.ok()) {
      std::fprintf(stderr, "%s: %s\n", w.name.c_str(), row.status().ToString().c_str());
      ++failed;
      continue;
    }
    if (options.json) {
      std::printf(
          "{\"peer\": \"smelt\", \"workload\": \"%s\", \"run_s\": %.5g, \"limit_s\": %.5g, \"compile_s\": %.4g, "
          "\"launches\": %d, \"library_calls\": %d}\n",
          w.name.c_str(), row->run, row->limit, row->compile, static_cast<int>(row->launches),
          static_cast<int>(row->library_calls));
    } else {
      std::printf("%-20s %10.4f %10.4f %8.2f %12.4f %14.4f %9.1f %8d %8d\n", w.name.c_str(), row->run * 1e3,
                  row->limit * 1e3, row->run / row->limit, w.best_peer_ms, w.at_most_ms, row->compile * 1e3,
                  static_cast<int>(row->launches), static_cast<int>(row->library_calls));
    }
    std::fflush(stdout);
  }
  return failed != 0;
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  smelt::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--only=")) {
      options.only = absl::StrSplit(a, ',');
    } else if (a == "--json") {
      options.json = true;
    } else if (absl::ConsumePrefix(&a, "--threads=") && absl::SimpleAtoi(a, &options.threads)) {
    } else if (absl::ConsumePrefix(&a, "--cpu=") && absl::SimpleAtoi(a, &options.cpu)) {
    } else if (absl::ConsumePrefix(&a, "--budget=") && absl::SimpleAtod(a, &options.budget)) {
    } else if (a == "--cpu-time") {
      smelt::bench::UseCpuTime();
    } else {
      std::fprintf(
          stderr,
          "kernels [--only=A,B] [--json] [--threads=N] [--cpu=N, -1: not pinned] [--cpu-time] [--budget=SECONDS]\n");
      return 64;
    }
  }
  if (options.cpu >= 0 && options.threads == 1) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(options.cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  return smelt::bench::Run(options);
}
