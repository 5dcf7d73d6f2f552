#include "smelt/tools/bench_command.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/call_arguments.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/operator_libraries.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/progress.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRows = 1000;
constexpr size_t kMostLatencies = 10'000'000;  // per caller

struct Plan {
  int callers = 1;
  double warmup_s = 0.5, duration_s = 2;
  int64_t calls = 0;  // per caller; 0: as many as there is time for
  bool keep_state = false;
};

struct Row {
  SymbolSizes sizes;
  std::vector<double> latencies_ms;  // of all callers, ascending
  double calls_per_second = 0;
  CallStats last_call;
};

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// The least latency that so many of a hundred calls do not exceed.
double Percentile(const std::vector<double>& ascending, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(ascending.size()));
  return ascending[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}
double Mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

// An instance and its arguments, which are the same before each call.
class Caller {
 public:
  static absl::StatusOr<std::unique_ptr<Caller>> Create(const std::shared_ptr<const Program>& program,
                                                        const ArgumentMaker& maker, const SymbolSizes& sizes,
                                                        bool keep_state) {
    auto caller = std::unique_ptr<Caller>(new Caller());
    SMELT_ASSIGN_OR_RETURN(caller->instance_, Instance::Create(program));
    SMELT_ASSIGN_OR_RETURN(caller->args_, maker.Make(0, sizes));
    // Arguments that a call changes are copied from memory of the device.
    for (const Datum& v : caller->args_) {
      if (v.IsTensor()) SMELT_RETURN_IF_ERROR(v.tensor().storage()->MoveTo(program->on_device()));
    }
    caller->originals_.resize(caller->args_.size());
    for (size_t i = 0; i < caller->args_.size(); ++i) {
      const ArgInfo& a = program->args()[i];
      if (caller->args_[i].IsTensor() && (a.writes_data || a.changes_geometry || a.replaces_storage || a.resizes)) {
        SMELT_ASSIGN_OR_RETURN(caller->originals_[i], CopyOf(caller->args_[i].tensor()));
      }
    }
    const auto& states = program->states();
    caller->resets_ =
        !keep_state && std::any_of(states.begin(), states.end(), [](const StateInfo& s) { return s.is_mutated; });
    return caller;
  }

  // Makes one call and returns its milliseconds.
  absl::StatusOr<double> Call() {
    if (resets_) SMELT_RETURN_IF_ERROR(instance_->ResetStates());
    for (size_t i = 0; i < args_.size(); ++i) {
      if (!originals_[i].defined()) continue;
      SMELT_ASSIGN_OR_RETURN(Tensor copy, CopyOf(originals_[i]));
      args_[i] = Datum(std::move(copy));
    }
    const Clock::time_point begin = Clock::now();
    absl::StatusOr<std::vector<Datum>> results = instance_->Run(args_);
    const Clock::time_point end = Clock::now();
    if (!results.ok()) return results.status();
    return Seconds(end - begin) * 1e3;
  }

  const CallStats& last_call() const { return instance_->last_call(); }

 private:
  Caller() = default;
  static absl::StatusOr<Tensor> CopyOf(const Tensor& t) {
    if (t.device().is_cpu()) return t.Clone();
    return t.CopyTo(t.device());
  }

  std::unique_ptr<Instance> instance_;
  std::vector<Datum> args_;
  std::vector<Tensor> originals_;  // of those that calls change; undefined for others
  bool resets_ = false;
};

absl::Status Measure(Caller& caller, const Plan& plan, const std::atomic<bool>& stop, std::vector<double>& latencies) {
  const Clock::time_point begin = Clock::now();
  for (bool first = true; first || Seconds(Clock::now() - begin) < plan.warmup_s; first = false) {
    SMELT_RETURN_IF_ERROR(caller.Call());
    if (stop) return absl::OkStatus();
  }
  const Clock::time_point measured = Clock::now();
  while (!stop && latencies.size() < kMostLatencies) {
    SMELT_ASSIGN_OR_RETURN(const double ms, caller.Call());
    latencies.push_back(ms);
    if (plan.calls > 0 ? static_cast<int64_t>(latencies.size()) >= plan.calls
                       : Seconds(Clock::now() - measured) >= plan.duration_s)
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<Row> MeasureRow(const std::shared_ptr<const Program>& program, const ArgumentMaker& maker,
                               const SymbolSizes& sizes, const Plan& plan) {
  Row row;
  row.sizes = sizes;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < plan.callers; ++i) {
    SMELT_ASSIGN_OR_RETURN(callers.emplace_back(), Caller::Create(program, maker, sizes, plan.keep_state));
  }
  std::vector<std::vector<double>> latencies(callers.size());
  std::vector<absl::Status> statuses(callers.size());
  std::atomic<bool> stop = false;
  const auto work = [&](size_t i) {
    statuses[i] = CatchOutOfMemory([&] { return Measure(*callers[i], plan, stop, latencies[i]); });
    if (!statuses[i].ok()) stop = true;
  };
  std::vector<std::thread> threads;
  absl::Status started;
  try {
    for (size_t i = 1; i < callers.size(); ++i) threads.emplace_back(work, i);
  } catch (const std::system_error& e) {
    started = absl::ResourceExhaustedError(absl::StrCat("no thread for a caller: ", e.what()));
    stop = true;
  }
  if (started.ok()) work(0);
  for (std::thread& t : threads) t.join();
  SMELT_RETURN_IF_ERROR(started);
  for (const absl::Status& s : statuses) SMELT_RETURN_IF_ERROR(s);
  for (const std::vector<double>& own : latencies) {
    row.calls_per_second += 1e3 / Mean(own);
    row.latencies_ms.insert(row.latencies_ms.end(), own.begin(), own.end());
  }
  std::sort(row.latencies_ms.begin(), row.latencies_ms.end());
  row.last_call = callers[0]->last_call();
  return row;
}

// Every choice of one size per symbol.
std::vector<SymbolSizes> AllSizes(const ArgumentSource& source) {
  std::vector<SymbolSizes> out(1);
  for (const auto& [name, values] : source.sizes) {
    std::vector<SymbolSizes> next;
    for (const SymbolSizes& sizes : out) {
      for (int64_t n : values) {
        if (next.size() > kMostRows) return next;
        next.push_back(sizes);
        next.back()[name] = n;
      }
    }
    out = std::move(next);
  }
  return out;
}

std::string SizesText(const SymbolSizes& sizes) {
  if (sizes.empty()) return "-";
  return absl::StrJoin(sizes, " ", absl::PairFormatter("="));
}

void PrintTable(const Program& program, const Plan& plan, int64_t threads, const std::vector<Row>& rows) {
  std::printf("%s for %s, %s, %s; latencies in milliseconds\n", program.model_name().c_str(), program.target().c_str(),
              Count(plan.callers, "caller").c_str(),
              threads > 0 ? absl::StrCat(Count(threads, "thread"), " per call").c_str() : "one thread per core");
  size_t width = 5;
  for (const Row& row : rows) width = std::max(width, SizesText(row.sizes).size());
  const int w = static_cast<int>(width);
  std::printf("%-*s %9s %9s %9s %9s %9s %9s %9s %11s\n", w, "sizes", "calls", "min", "mean", "p50", "p90", "p99", "max",
              "calls/s");
  for (const Row& row : rows) {
    const std::vector<double>& v = row.latencies_ms;
    std::printf("%-*s %9zu %9.4g %9.4g %9.4g %9.4g %9.4g %9.4g %11.5g\n", w, SizesText(row.sizes).c_str(), v.size(),
                v.front(), Mean(v), Percentile(v, 50), Percentile(v, 90), Percentile(v, 99), v.back(),
                row.calls_per_second);
  }
}

nlohmann::ordered_json TableJson(const Program& program, const Plan& plan, int64_t threads,
                                 const std::vector<Row>& rows) {
  nlohmann::ordered_json j = {
      {"model", program.model_name()}, {"target", program.target()}, {"device", program.on_device().ToString()},
      {"callers", plan.callers},       {"threads", threads},         {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    const std::vector<double>& v = row.latencies_ms;
    nlohmann::ordered_json sizes = nlohmann::ordered_json::object();
    for (const auto& [name, n] : row.sizes) sizes[name] = n;
    j["rows"].push_back({{"sizes", std::move(sizes)},
                         {"calls", v.size()},
                         {"latency_ms",
                          {{"min", v.front()},
                           {"mean", Mean(v)},
                           {"p50", Percentile(v, 50)},
                           {"p90", Percentile(v, 90)},
                           {"p99", Percentile(v, 99)},
                           {"max", v.back()}}},
                         {"calls_per_second", row.calls_per_second}});
    if (program.on_device().is_cpu()) continue;
    const CallStats& s = row.last_call;
    j["rows"].back()["device"] = {{"host_steps", s.host_steps},           {"bytes_to_host", s.bytes_to_host},
                                  {"bytes_to_device", s.bytes_to_device}, {"waits", s.device_waits},
                                  {"kernel_launches", s.kernel_launches}, {"graph_launches", s.graph_launches},
                                  {"driver_calls", s.driver_calls},       {"cublaslt_products", s.cublaslt_products}};
  }
  return j;
}

absl::Status ReadSeconds(const CommandLine& line, absl::string_view name, double* out) {
  if (!line.Has(name)) return absl::OkStatus();
  if (absl::SimpleAtod(line.Get(name), out) && *out >= 0 && *out <= 86400) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", line.Get(name), ": seconds from 0 to 86400 expected"));
}

}  // namespace

int RunBench(const CommandLine& line) {
  Plan plan;
  int64_t callers = 1, threads = 0;
  absl::Status usage;
  if (line.positional().size() != 1) usage = absl::InvalidArgumentError("one bundle expected");
  for (const auto& [name, value, least, most] : {std::tuple("callers", &callers, int64_t{1}, int64_t{1024}),
                                                 {"threads", &threads, 0, 1024},
                                                 {"calls", &plan.calls, 1, int64_t{kMostLatencies}}}) {
    if (!usage.ok() || !line.Has(name)) continue;
    const absl::StatusOr<int64_t> n = line.GetInt(name, *value, least, most);
    usage = n.status();
    if (n.ok()) *value = *n;
  }
  plan.callers = static_cast<int>(callers);
  plan.keep_state = line.Has("keep-state");
  if (usage.ok()) usage = ReadSeconds(line, "duration", &plan.duration_s);
  if (usage.ok()) usage = ReadSeconds(line, "warmup", &plan.warmup_s);
  ProgramOptions options;
  options.threads = static_cast<int>(threads);
  if (usage.ok() && line.Has("device")) {
    options.device = line.Get("device");
    usage = Device::Parse(options.device).status();
  }
  if (usage.ok() && line.Has("calls")) usage = line.RefuseWithoutEffect({"duration"}, "with --calls");
  ArgumentSource source;
  if (usage.ok()) {
    absl::StatusOr<ArgumentSource> read = ReadArgumentSource(line);
    usage = read.status();
    if (read.ok()) source = *std::move(read);
  }
  if (usage.ok() && source.files.size() > 1) usage = absl::InvalidArgumentError("one --inputs expected");
  if (!source.seed) source.seed = 0;
  const std::vector<SymbolSizes> sizes = AllSizes(source);
  if (usage.ok() && sizes.size() > kMostRows)
    usage = absl::InvalidArgumentError(absl::StrCat("--size: more than ", kMostRows, " combinations"));
  if (!usage.ok()) return UsageError(*FindCommand("bench"), usage);

  Progress progress("smelt bench", line.Has("quiet"));
  const auto fail = [&](const absl::Status& s, int code) {
    progress.Stop();
    std::fprintf(stderr, "smelt bench: %s\n", std::string(s.message()).c_str());
    return code;
  };
  if (const absl::Status s = LoadOperatorLibraries(line); !s.ok()) return fail(s, ExitCodeOf(s));
  progress.Doing(absl::StrCat("loading ", line.positional()[0]));
  auto program = Program::Load(line.positional()[0], options);
  if (!program.ok())
    return fail(WithHowToCompile(program.status(), line.positional()[0]), LoadExitCodeOf(program.status()));
  program = ChosenMethod(*program, line);
  if (!program.ok()) return fail(program.status(), kExitUsage);
  std::vector<Row> rows;
  const auto run = [&]() -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(const auto maker, ArgumentMaker::Create(line.positional()[0], *program, source));
    for (const std::string& warning : maker->warnings()) progress.Say(absl::StrCat("warning: ", warning));
    for (size_t i = 0; i < sizes.size(); ++i) {
      // A single row says nothing about how much of it is done.
      progress.Doing(sizes[i].empty() ? "measuring" : absl::StrCat("measuring ", SizesText(sizes[i])),
                     static_cast<int64_t>(i), sizes.size() > 1 ? static_cast<int64_t>(sizes.size()) : 0);
      SMELT_ASSIGN_OR_RETURN(rows.emplace_back(), MeasureRow(*program, *maker, sizes[i], plan));
    }
    return absl::OkStatus();
  };
  if (const absl::Status s = run(); !s.ok()) return fail(s, absl::IsInvalidArgument(s) ? kExitUsage : ExitCodeOf(s));
  progress.Stop();
  if (line.Has("json")) {
    std::printf("%s\n", JsonText(TableJson(**program, plan, threads, rows)).c_str());
  } else {
    PrintTable(**program, plan, threads, rows);
  }
  return kExitOk;
}

}  // namespace smelt
