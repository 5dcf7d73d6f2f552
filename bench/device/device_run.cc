// Checks and measures bundles on a GPU, without the compiler: the part of bench/device/run.sh that runs there.
//
//   device_run check DEVICE SECONDS FOLDER        each NAME.smb with its NAME.case.safetensors
//   device_run measure DEVICE SECONDS FOLDER      each row of FOLDER/rows.json, on random arguments
//   device_run cycles DEVICE COUNT BUNDLE         loads, runs and unloads a bundle
//   device_run report OUT.json OUT.md PART.json...
//
// The first three print one JSON object. What there was no time for is counted in it as left out.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/program.h"

namespace smelt::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr size_t kMostFailures = 20;  // that are described
constexpr size_t kMostTimed = 64;     // cases of a folder whose times are reported: the models

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// An error of the device, which no later call survives, is not a case's.
bool LosesTheDevice(const absl::Status& s) { return s.code() == absl::StatusCode::kUnavailable; }

Json Check(const std::string& device, double seconds, const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".smb") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  Json out = {{"kind", "check"}, {"name", std::filesystem::path(folder).filename().string()}};
  int64_t passed = 0, failed = 0, left_out = 0, host_steps = 0;
  bool lost = false;
  Json failures = Json::array(), timed = Json::array();
  const Clock::time_point begin = Clock::now();
  for (const std::string& name : names) {
    if (lost || SecondsSince(begin) > seconds) {
      ++left_out;
      continue;
    }
    const auto run = [&]() -> absl::StatusOr<CaseReport> {
      SMELT_ASSIGN_OR_RETURN(auto program, Program::Load(absl::StrCat(folder, "/", name, ".smb"), {.device = device}));
      // The second round's calls are graphs.
      return RunCase(program, absl::StrCat(folder, "/", name, ".case.safetensors"),
                     {.repeat = 2, .check_all_rounds = true});
    };
    const absl::StatusOr<CaseReport> report = run();
    std::string what;
    if (!report.ok()) {
      what = report.status().ToString();
      lost = LosesTheDevice(report.status());
    } else if (!report->ok) {
      what = absl::StrCat(report->failures[0].where, ": ", report->failures[0].what);
      lost = absl::StrContains(what, "cannot be used by this process any more");
    }
    if (report.ok()) host_steps += report->host_steps;
    if (what.empty() && names.size() <= kMostTimed) {
      timed.push_back({{"case", name},
                       {"calls", report->alias_variants.size()},
                       {"least_ms", report->min_ms},
                       {"kernel_launches", report->kernel_launches},
                       {"library_calls", report->library_calls},
                       {"cublaslt_products", report->cublaslt_products},
                       {"graph_launches", report->graph_launches},
                       {"waits", report->device_waits},
                       {"host_steps", report->host_steps},
                       {"bytes_to_host", report->bytes_to_host},
                       {"bytes_to_device", report->bytes_to_device}});
    }
    ++(what.empty() ? passed : failed);
    if (!what.empty() && failures.size() < kMostFailures) failures.push_back({{"case", name}, {"what", what}});
  }
  out["passed"] = passed;
  out["failed"] = failed;
  out["left_out"] = left_out;
  out["host_steps"] = host_steps;
  out["seconds"] = SecondsSince(begin);
  out["failures"] = failures;
  out["cases"] = timed;
  return out;
}

// Fills a tensor of the host: floating-point elements in [0, 1), integers in [0, limit).
void FillRandom(const Tensor& t, int64_t limit) {
  uint64_t state = 0x9e3779b97f4a7c15;
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  const int64_t n = t.NumElements();
  for (int64_t i = 0; i < n; ++i) {
    const float f = static_cast<float>(next() % (1 << 20)) / (1 << 20);
    switch (t.dtype()) {
      case DType::kFloat32:
        t.data_as<float>()[i] = f;
        break;
      case DType::kBFloat16: {
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        reinterpret_cast<uint16_t*>(t.data())[i] = static_cast<uint16_t>(bits >> 16);
        break;
      }
      case DType::kInt64:
        t.data_as<int64_t>()[i] = static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
        break;
      default:
        break;  // zeros
    }
  }
}

absl::StatusOr<std::vector<Datum>> Arguments(const Program& program, int64_t limit) {
  std::vector<Datum> args;
  for (const ArgInfo& a : program.args()) {
    if (a.kind != ValueKind::kTensor) {
      args.push_back(a.constant);
      continue;
    }
    Tensor t = Tensor::Empty(a.dtype, a.sizes);
    std::memset(t.data(), 0, static_cast<size_t>(t.storage()->bytes()));
    FillRandom(t, limit);
    SMELT_ASSIGN_OR_RETURN(t, t.CopyTo(program.on_device()));
    args.push_back(Datum(std::move(t)));
  }
  return args;
}

struct Timing {
  double us = 0;       // per call, of calls that are started one after the other
  double host_us = 0;  // of them, until Start returns
  double run_us = 0;   // the least of calls that are waited for
};

absl::StatusOr<Timing> Time(Instance& instance, const std::vector<Datum>& args, double seconds) {
  for (int i = 0; i < 3; ++i) SMELT_RETURN_IF_ERROR(instance.Run(args).status());
  Timing out;
  out.run_us = 1e30;
  Clock::time_point begin = Clock::now();
  for (int n = 0; n < 3 || (n < 1000 && SecondsSince(begin) < seconds / 2); ++n) {
    const Clock::time_point one = Clock::now();
    SMELT_RETURN_IF_ERROR(instance.Run(args).status());
    out.run_us = std::min(out.run_us, SecondsSince(one) * 1e6);
  }
  const int64_t calls = std::clamp<int64_t>(static_cast<int64_t>(seconds / 2 * 1e6 / out.run_us), 3, 10000);
  begin = Clock::now();
  StartedCall call;
  for (int64_t n = 0; n < calls; ++n) {
    SMELT_ASSIGN_OR_RETURN(call, instance.Start(args));
  }
  out.host_us = SecondsSince(begin) * 1e6 / static_cast<double>(calls);
  SMELT_RETURN_IF_ERROR(call.Wait());
  out.us = SecondsSince(begin) * 1e6 / static_cast<double>(calls);
  return out;
}

// Returns the bytes per microsecond that a copy within the device reads and writes.
absl::StatusOr<double> CopySpeed(const std::string& device, int64_t bytes) {
  SMELT_ASSIGN_OR_RETURN(const Device d, Device::Parse(device));
  if (d.is_cpu()) return absl::UnimplementedError("a copy is measured on a GPU");
  SMELT_ASSIGN_OR_RETURN(const DeviceMemory* memory, DeviceMemory::Of(d));
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<void> from, memory->Allocate(bytes));
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<void> to, memory->Allocate(bytes));
  auto *a = static_cast<char*>(from.get()), *b = static_cast<char*>(to.get());
  SMELT_RETURN_IF_ERROR(memory->Zero(a, bytes));
  char one;
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    SMELT_RETURN_IF_ERROR(memory->Copy(b, a, bytes));
    SMELT_RETURN_IF_ERROR(memory->ToHost(&one, b, 1));  // waits
    constexpr int kCopies = 20;
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kCopies; ++i) SMELT_RETURN_IF_ERROR(memory->Copy(b, a, bytes));
    SMELT_RETURN_IF_ERROR(memory->ToHost(&one, b, 1));
    best = std::min(best, SecondsSince(begin) * 1e6 / kCopies);
  }
  return 2 * static_cast<double>(bytes) / best;
}

// Returns calls per second of several instances, each on a thread of its own.
absl::StatusOr<double> CallsPerSecond(const std::shared_ptr<const Program>& program, const std::vector<Datum>& args,
                                      int instances, int calls) {
  std::vector<std::unique_ptr<Instance>> all;
  for (int i = 0; i < instances; ++i) {
    SMELT_ASSIGN_OR_RETURN(all.emplace_back(), Instance::Create(program));
    for (int k = 0; k < 3; ++k) SMELT_RETURN_IF_ERROR(all.back()->Run(args).status());
  }
  std::vector<absl::Status> statuses(all.size());
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < calls && statuses[i].ok(); ++k) statuses[i] = all[i]->Run(args).status();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const absl::Status& s : statuses) SMELT_RETURN_IF_ERROR(s);
  return instances * calls / SecondsSince(begin);
}

Json Measure(const std::string& device, double seconds, const std::string& folder) {
  Json out = {{"kind", "measure"}, {"rows", Json::array()}};
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/rows.json"));
  const Json rows = Json::parse(text.ok() ? *text : "[]", nullptr, /*allow_exceptions=*/false);
  const absl::StatusOr<double> copy = CopySpeed(device, int64_t{256} << 20);
  out["copy_gb_per_s"] = copy.ok() ? Json(*copy / 1e3) : Json(copy.status().ToString());
  const Clock::time_point begin = Clock::now();
  int64_t left_out = 0;
  for (const Json& row : rows) {
    if (SecondsSince(begin) > seconds) {
      ++left_out;
      continue;
    }
    Json done = row;
    const auto run = [&]() -> absl::Status {
      const std::string path = absl::StrCat(folder, "/", row.value("name", ""), ".smb");
      SMELT_ASSIGN_OR_RETURN(const auto program, Program::Load(path, {.device = device}));
      SMELT_ASSIGN_OR_RETURN(const auto instance, Instance::Create(program));
      SMELT_ASSIGN_OR_RETURN(const auto args, Arguments(*program, row.value("index_limit", int64_t{1})));
      SMELT_ASSIGN_OR_RETURN(const Timing t, Time(*instance, args, seconds / static_cast<double>(rows.size()) / 2));
      done["us"] = t.us;
      done["host_us"] = t.host_us;
      done["run_us"] = t.run_us;
      const double bytes = row.value("bytes", 0.0), flops = row.value("flops", 0.0);
      if (bytes > 0) done["gb_per_s"] = bytes / t.us / 1e3;
      if (bytes > 0 && copy.ok()) done["of_copy"] = bytes / t.us / *copy;
      if (flops > 0) done["tflops"] = flops / t.us / 1e6;
      const CallStats& s = instance->last_call();
      done["kernel_launches"] = s.kernel_launches;
      done["graph_launches"] = s.graph_launches;
      done["driver_calls"] = s.driver_calls;
      done["cublaslt_products"] = s.cublaslt_products;
      done["waits"] = s.device_waits;
      done["host_steps"] = s.host_steps;
      done["bytes_copied_back"] = s.bytes_copied_back;
      if (row.value("instances", 0) > 0) {
        SMELT_ASSIGN_OR_RETURN(const double alone, CallsPerSecond(program, args, 1, 200));
        SMELT_ASSIGN_OR_RETURN(const double all, CallsPerSecond(program, args, row.value("instances", 0), 200));
        done["calls_per_s_alone"] = alone;
        done["calls_per_s_of_all"] = all;
      }
      return absl::OkStatus();
    };
    const absl::Status s = run();
    if (!s.ok()) done["error"] = s.ToString();
    out["rows"].push_back(std::move(done));
    if (LosesTheDevice(s)) break;
  }
  out["left_out"] = left_out;
  return out;
}

// The megabytes that the GPUs have in use, as nvidia-smi says it; -1 if it says nothing.
int64_t UsedMegabytes() {
  FILE* const pipe = popen("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null", "r");
  if (pipe == nullptr) return -1;
  std::array<char, 64> line = {};
  int64_t sum = -1;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr)
    sum = std::max<int64_t>(sum, 0) + std::atoll(line.data());
  pclose(pipe);
  return sum;
}

Json Cycles(const std::string& device, int64_t count, const std::string& bundle) {
  Json out = {{"kind", "cycles"}, {"bundle", std::filesystem::path(bundle).filename().string()}};
  int64_t done = 0, first = -1;
  absl::Status status;
  for (; done < count && status.ok(); ++done) {
    status = [&]() -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(const auto program, Program::Load(bundle, {.device = device}));
      SMELT_ASSIGN_OR_RETURN(const auto instance, Instance::Create(program));
      SMELT_ASSIGN_OR_RETURN(const auto args, Arguments(*program, 1));
      for (int run = 0; run < 2; ++run) SMELT_RETURN_IF_ERROR(instance->Run(args).status());
      return absl::OkStatus();
    }();
    if (done == 0) first = UsedMegabytes();
  }
  out["done"] = done;
  out["megabytes_after_first"] = first;
  out["megabytes_at_end"] = UsedMegabytes();
  if (!status.ok()) out["error"] = status.ToString();
  return out;
}

// Returns text as it may stand in a cell of a table, or in a line.
std::string InLine(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}, {"|", "\\|"}});
}

std::string Cell(const Json& row, const char* name) {
  if (!row.contains(name)) return "";
  if (row[name].is_string()) return InLine(row[name].get<std::string>());
  return row[name].is_number_float() ? absl::StrFormat("%.4g", row[name].get<double>()) : row[name].dump();
}

// The parts as one object, and as tables.
absl::Status Report(const std::string& json, const std::string& markdown, const std::vector<std::string>& parts) {
  Json all = {{"parts", Json::array()}};
  for (const std::string& part : parts) {
    const absl::StatusOr<std::string> text = ReadFile(part);
    Json parsed = text.ok() ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
    // A process that was ended from outside has written nothing, or half of it.
    if (!parsed.is_object()) parsed = {{"kind", "nothing"}, {"name", std::filesystem::path(part).stem().string()}};
    all["parts"].push_back(std::move(parsed));
  }
  Json torch = Json::object();
  std::string md = "# Device report\n\n";
  for (const Json& p : all["parts"]) {
    const std::string kind = p.value("kind", "");
    if (kind == "machine") {
      for (const auto& [key, value] : p.items()) {
        if (key != "kind") absl::StrAppend(&md, "- ", key, ": ", Cell(p, key.c_str()), "\n");
      }
    } else if (kind == "torch") {
      for (const Json& row : p["rows"]) torch[row.value("name", "")] = row;
    }
  }
  absl::StrAppend(&md, "\n| cases | passed | failed | left out | steps on the CPU |\n|---|---|---|---|---|\n");
  for (const Json& p : all["parts"]) {
    const std::string kind = p.value("kind", "");
    if (kind == "check") {
      absl::StrAppend(&md, "| ", p.value("name", ""), " | ", Cell(p, "passed"), " | ", Cell(p, "failed"), " | ",
                      Cell(p, "left_out"), " | ", Cell(p, "host_steps"), " |\n");
    } else if (kind == "nothing") {
      absl::StrAppend(&md, "| ", p.value("name", ""), " | no result | | | |\n");
    }
  }
  absl::StrAppend(
      &md,
      "\n| row | name | us | GB/s | of a copy | TFLOP/s | host us | graphs | waits | CPU steps | cuBLASLt | torch us | "
      "compiled | reduce-overhead |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Json& p : all["parts"]) {
    if (p.value("kind", "") != "measure") continue;
    for (const Json& row : p["rows"]) {
      absl::StrAppend(&md, "| ", Cell(row, "row"), " | ", row.value("name", ""), " | ",
                      row.contains("error") ? Cell(row, "error") : Cell(row, "us"));
      for (const char* name :
           {"gb_per_s", "of_copy", "tflops", "host_us", "graph_launches", "waits", "host_steps", "cublaslt_products"})
        absl::StrAppend(&md, " | ", Cell(row, name));
      const Json other = torch.value(row.value("name", ""), Json::object());
      for (const char* name : {"eager_us", "compiled_us", "reduce_overhead_us"})
        absl::StrAppend(&md, " | ", Cell(other, name));
      absl::StrAppend(&md, " |\n");
    }
    absl::StrAppend(&md, "\nA copy within the device: ", Cell(p, "copy_gb_per_s"),
                    " GB/s, read and written. Rows that were left out: ", Cell(p, "left_out"), ".\n");
  }
  for (const Json& p : all["parts"]) {
    if (p.value("kind", "") != "check" || !p.contains("cases") || p["cases"].empty()) continue;
    absl::StrAppend(
        &md, "\n## ", Cell(p, "name"),
        ", of all calls of a round\n\n| case | calls | least ms per call | kernels | library calls | cuBLASLt | "
        "graphs | waits | CPU steps | bytes to the CPU | to the GPU |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const Json& c : p["cases"]) {
      absl::StrAppend(&md, "| ", Cell(c, "case"));
      for (const char* name : {"calls", "least_ms", "kernel_launches", "library_calls", "cublaslt_products",
                               "graph_launches", "waits", "host_steps", "bytes_to_host", "bytes_to_device"})
        absl::StrAppend(&md, " | ", Cell(c, name));
      absl::StrAppend(&md, " |\n");
    }
  }
  for (const Json& p : all["parts"]) {
    if (p.value("kind", "") == "cycles") {
      absl::StrAppend(&md, "\n", Cell(p, "done"), " times loaded, run and unloaded: ", Cell(p, "megabytes_after_first"),
                      " MB in use after the first, ", Cell(p, "megabytes_at_end"), " MB at the end.\n");
    }
    if (p.contains("failures") && !p["failures"].empty()) {
      absl::StrAppend(&md, "\n## Failures of ", p.value("name", ""), "\n\n");
      for (const Json& f : p["failures"]) absl::StrAppend(&md, "- ", Cell(f, "case"), ": ", Cell(f, "what"), "\n");
    }
  }
  SMELT_RETURN_IF_ERROR(
      WriteFileAtomically(json, absl::StrCat(all.dump(1, ' ', false, Json::error_handler_t::replace), "\n")));
  return WriteFileAtomically(markdown, md);
}

int Main(const std::vector<std::string>& args) {
  const std::string command = args.empty() ? "" : args[0];
  if (command == "report" && args.size() >= 3) {
    const absl::Status s = Report(args[1], args[2], {args.begin() + 3, args.end()});
    if (!s.ok()) std::fprintf(stderr, "device_run: %s\n", s.ToString().c_str());
    return s.ok() ? 0 : 1;
  }
  if (args.size() != 4 || (command != "check" && command != "measure" && command != "cycles")) {
    std::fprintf(stderr, "device_run check|measure|cycles DEVICE SECONDS|COUNT FOLDER|BUNDLE\n");
    return 2;
  }
  const absl::StatusOr<Device> device = Device::Parse(args[1]);
  absl::Status there = device.status();
  if (device.ok() && !device->is_cpu()) there = DeviceMemory::Of(*device).status();
  if (!there.ok()) {
    std::fprintf(stderr, "device_run: %s\n", std::string(there.message()).c_str());
    return 5;
  }
  const double limit = std::atof(args[2].c_str());
  const Json out = command == "check"     ? Check(args[1], limit, args[3])
                   : command == "measure" ? Measure(args[1], limit, args[3])
                                          : Cycles(args[1], static_cast<int64_t>(limit), args[3]);
  std::printf("%s\n", out.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
  return out.value("failed", 0) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) { return smelt::bench::Main({argv + 1, argv + argc}); }
