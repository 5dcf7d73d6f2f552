#include "smelt/tools/run_command.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/state_file.h"
#include "smelt/tools/call_arguments.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/operator_libraries.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/progress.h"
#include "smelt/tools/tensor_files.h"
#include "smelt/tools/value_text.h"

namespace smelt {

namespace {

nlohmann::ordered_json DeviceJson(Device device, int64_t host_steps, int64_t to_host, int64_t to_device, int64_t waits,
                                  int64_t cublaslt_products) {
  return {{"name", device.ToString()},    {"host_steps", host_steps}, {"bytes_to_host", to_host},
          {"bytes_to_device", to_device}, {"waits", waits},           {"cublaslt_products", cublaslt_products}};
}

// Returns the value with its tensor, and all of that tensor's storage, in memory of the host.
absl::StatusOr<Datum> OnHost(const Datum& value) {
  if (!value.IsTensor() || !value.tensor().defined() || value.tensor().device().is_cpu()) return value;
  const Tensor& t = value.tensor();
  const Tensor whole(t.storage(), DType::kUInt8, Geometry::Contiguous({t.storage()->bytes()}));
  SMELT_ASSIGN_OR_RETURN(const Tensor copy, whole.CopyTo(Device::Cpu()));
  return Datum(Tensor(copy.storage(), t.dtype(), t.geometry()));
}

// The file that the case says it was recorded of; "" if it does not say.
std::string ModelOfCase(const std::string& path) {
  const auto file = SafetensorsFile::Read(path);
  if (!file.ok() || !(*file)->metadata().contains("smelt.case")) return "";
  const auto j = ParseJsonText((*file)->metadata().at("smelt.case"), path);
  return j.ok() && j->is_object() && j->contains("model") && (*j)["model"].is_string()
             ? (*j)["model"].get<std::string>()
             : "";
}

int RunTheCase(const std::shared_ptr<const Program>& program, const CommandLine& line, Progress& progress, int repeat) {
  CaseOptions options;
  options.repeat = repeat;
  progress.Doing("running the case");
  auto report = RunCase(program, line.Get("case"), options);
  progress.Stop();
  if (!report.ok()) {
    std::fprintf(stderr, "smelt run: %s\n", std::string(report.status().message()).c_str());
    if (line.Has("json")) {
      nlohmann::ordered_json j = {
          {"ok", false},
          {"failures", {{{"call", 0}, {"where", "case"}, {"what", std::string(report.status().message())}}}}};
      std::printf("%s\n", JsonText(j).c_str());
    }
    return ExitCodeOf(report.status());
  }
  if (line.Has("json")) {
    nlohmann::ordered_json j;
    j["ok"] = report->ok;
    j["failures"] = nlohmann::ordered_json::array();
    for (const CaseFailure& f : report->failures)
      j["failures"].push_back({{"call", f.call}, {"where", f.where}, {"what", f.what}});
    j["max_abs_err"] = report->max_abs_err;
    j["max_rel_err"] = report->max_rel_err;
    j["latency_ms"] = {{"min", report->min_ms}, {"median", report->median_ms}};
    j["kernel_launches"] = report->kernel_launches;
    j["library_calls"] = report->library_calls;
    j["bytes_copied_back"] = report->bytes_copied_back;
    if (!program->on_device().is_cpu()) {
      j["device"] = DeviceJson(program->on_device(), report->host_steps, report->bytes_to_host, report->bytes_to_device,
                               report->device_waits, report->cublaslt_products);
    }
    j["alias_variant"] = report->alias_variants;
    j["arena_bytes"] = report->arena_bytes;
    std::printf("%s\n", JsonText(j).c_str());
  } else {
    for (const CaseFailure& f : report->failures)
      std::printf("call %d: %s: %s\n", f.call, f.where.c_str(), f.what.c_str());
    std::printf("%s; median %.3f ms\n", report->ok ? "ok" : "DIFFERENT", report->median_ms);
  }
  if (!report->ok && program->method_names().size() == 1) {
    const std::string recorded = ModelOfCase(line.Get("case"));
    if (!recorded.empty() && std::filesystem::path(recorded).stem() != program->model_name()) {
      std::fprintf(stderr, "smelt run: warning: %s was recorded of %s, and the bundle's model is %s\n",
                   line.Get("case").c_str(), Printable(recorded).c_str(), Printable(program->model_name()).c_str());
    }
  }
  return report->ok ? kExitOk : kExitDifferent;
}

// The results of one call by their callers' names, then NAME.after for each argument that the call has written.
std::vector<NamedDatum> Named(const Program& program, const std::vector<Datum>& results, const std::vector<Datum>& args,
                              const std::vector<std::string>& before) {
  std::vector<NamedDatum> out;
  std::set<std::string> taken;
  const auto add = [&](const std::string& first, const Datum& value) {
    std::string name = first;
    for (int n = 1; !taken.insert(name).second; ++n) name = absl::StrCat(first, ".", n);
    out.push_back({std::move(name), value});
  };
  for (size_t k = 0; k < results.size(); ++k) add(program.results()[k].name, results[k]);
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].IsTensor()) continue;
    const Storage& s = *args[i].tensor().storage();
    if (absl::string_view(s.data(), static_cast<size_t>(s.bytes())) != before[i])
      add(absl::StrCat(CallerName(program.args()[i]), ".after"), args[i]);
  }
  return out;
}

// `stats` are those of the calls.
void Print(const Program& program, const std::vector<std::vector<NamedDatum>>& calls,
           const std::vector<CallStats>& stats, bool json) {
  if (json) {
    nlohmann::ordered_json j;
    j["calls"] = nlohmann::ordered_json::array();
    for (size_t c = 0; c < calls.size(); ++c) {
      const std::vector<NamedDatum>& call = calls[c];
      nlohmann::ordered_json results = nlohmann::ordered_json::array();
      for (const NamedDatum& r : call) {
        nlohmann::ordered_json value = {{"name", r.name}};
        value.update(ValueJson(r.value));
        results.push_back(std::move(value));
      }
      nlohmann::ordered_json entry = {{"results", std::move(results)}};
      const CallStats& s = stats[c];
      if (!program.on_device().is_cpu()) {
        entry["device"] = DeviceJson(program.on_device(), s.host_steps, s.bytes_to_host, s.bytes_to_device,
                                     s.device_waits, s.cublaslt_products);
      }
      j["calls"].push_back(std::move(entry));
    }
    std::printf("%s\n", JsonText(j).c_str());
    return;
  }
  for (size_t c = 0; c < calls.size(); ++c) {
    if (calls.size() > 1) std::printf("%scall %zu\n", c > 0 ? "\n" : "", c);
    for (const NamedDatum& r : calls[c]) std::printf("%s: %s\n", Printable(r.name).c_str(), ValueText(r.value).c_str());
  }
}

absl::Status Write(const std::string& path, const std::vector<std::vector<NamedDatum>>& calls, Progress& progress) {
  std::vector<NamedDatum> all;
  for (size_t c = 0; c < calls.size(); ++c) {
    for (const NamedDatum& r : calls[c])
      all.push_back({calls.size() > 1 ? absl::StrCat("call", c, ".", r.name) : r.name, r.value});
  }
  nlohmann::ordered_json values;
  for (const NamedDatum& r : all) {
    if (!r.value.IsTensor()) values[r.name] = ScalarJson(r.value);
  }
  SMELT_ASSIGN_OR_RETURN(const OtherResults others, WriteResults(path, all, JsonText(values)));
  const auto say = [&](const std::vector<size_t>& which, absl::string_view what) {
    nlohmann::ordered_json shown;
    for (size_t i : which) shown[all[i].name] = values[all[i].name];
    if (!which.empty()) progress.Say(absl::StrCat(what, JsonText(shown)));
  };
  say(others.in_metadata, "results that are no tensors are in the metadata \"smelt.values\": ");
  say(others.left_out, "results that a .npy cannot hold are not written: ");
  return absl::OkStatus();
}

int RunCalls(const std::shared_ptr<const Program>& program, const CommandLine& line, Progress& progress,
             const ArgumentSource& source, int64_t rounds) {
  bool writing = false;
  auto run = [&]() -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(const auto maker, ArgumentMaker::Create(line.positional()[0], program, source));
    for (const std::string& warning : maker->warnings()) progress.Say(absl::StrCat("warning: ", warning));
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(program));
    if (line.Has("state-in")) SMELT_RETURN_IF_ERROR(LoadStates(*program, *instance, line.Get("state-in")));
    std::vector<std::vector<NamedDatum>> calls;
    std::vector<CallStats> stats;
    const int64_t total = rounds * static_cast<int64_t>(maker->num_calls());
    for (int64_t call = 0; call < total; ++call) {
      progress.Doing("calls:", call, total);
      SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> args,
                             maker->Make(static_cast<size_t>(call) % maker->num_calls(), source.FirstSizes()));
      std::vector<std::string> before;
      for (const Datum& v : args) {
        before.push_back(
            v.IsTensor() ? std::string(v.tensor().storage()->data(), static_cast<size_t>(v.tensor().storage()->bytes()))
                         : "");
      }
      for (const Datum& v : args) {
        if (v.IsTensor()) SMELT_RETURN_IF_ERROR(v.tensor().storage()->MoveTo(program->on_device()));
      }
      absl::StatusOr<std::vector<Datum>> results = instance->Run(args);
      if (!results.ok()) return total > 1 ? Annotate(results.status(), absl::StrCat("call ", call)) : results.status();
      std::vector<Datum> after = args;
      for (auto* list : {&after, &*results}) {
        for (Datum& v : *list) {
          SMELT_ASSIGN_OR_RETURN(v, OnHost(v));
        }
      }
      calls.push_back(Named(*program, *results, after, before));
      stats.push_back(instance->last_call());
      // The next call writes the memory of the model's state, which results may share.
      for (NamedDatum& r : calls.back()) {
        if (total > 1 && r.value.IsTensor()) r.value = Datum(r.value.tensor().Clone());
      }
    }
    writing = true;
    progress.Doing("writing");
    if (line.Has("outputs")) {
      SMELT_RETURN_IF_ERROR(Write(line.Get("outputs"), calls, progress));
    } else {
      progress.Stop();
      Print(*program, calls, stats, line.Has("json"));
    }
    if (line.Has("state-out")) SMELT_RETURN_IF_ERROR(SaveStates(*program, *instance, line.Get("state-out")));
    return absl::OkStatus();
  };
  const absl::Status s = run();
  if (s.ok()) {
    if (line.Has("outputs") || line.Has("state-out")) progress.Wrote({line.Get("outputs"), line.Get("state-out")});
    return kExitOk;
  }
  progress.Stop();
  std::fprintf(stderr, "smelt run: %s\n", std::string(s.message()).c_str());
  if (absl::IsInvalidArgument(s)) return kExitUsage;
  if (writing) return kExitCannotWrite;
  return ExitCodeOf(s);
}

constexpr char kOfCalls[] = "with --case: the case has its own arguments, methods and state";

absl::Status CheckUsage(const CommandLine& line) {
  if (line.positional().size() != 1) return absl::InvalidArgumentError("one bundle expected");
  if (line.Has("case")) {
    SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect(
        {"inputs", "input", "random-inputs", "size", "method", "calls", "outputs", "state-in", "state-out"}, kOfCalls));
  } else {
    SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect({"repeat"}, "without --case; --calls=N makes several calls"));
  }
  if (line.Has("outputs"))
    SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect({"json"}, "with --outputs, which takes the results"));
  if (!line.Has("random-inputs")) SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect({"size"}, "without --random-inputs"));
  return line.CheckFiles({"case", "inputs", "op-library", "state-in"}, {"outputs", "state-out"});
}

}  // namespace

int RunRun(const CommandLine& line) {
  absl::Status usage = CheckUsage(line);
  ProgramOptions options;
  int64_t repeat = 1, calls = 1, threads = 0;
  for (const auto& [name, value, least, most] :
       {std::tuple("repeat", &repeat, 1, 1000000), {"calls", &calls, 1, 1000000}, {"threads", &threads, 0, 1024}}) {
    if (!usage.ok()) break;
    const absl::StatusOr<int64_t> n = line.GetInt(name, *value, least, most);
    usage = n.status();
    if (n.ok()) *value = *n;
  }
  options.threads = static_cast<int>(threads);
  if (usage.ok() && line.Has("device")) {
    options.device = line.Get("device");
    usage = Device::Parse(options.device).status();
  }
  ArgumentSource source;
  if (usage.ok() && !line.Has("case")) {
    absl::StatusOr<ArgumentSource> read = ReadArgumentSource(line);
    usage = read.status();
    if (read.ok()) source = *std::move(read);
  }
  for (const auto& [name, values] : source.sizes) {
    if (values.size() > 1) usage = absl::InvalidArgumentError(absl::StrCat("--size ", name, ": one size expected"));
  }
  if (!usage.ok()) return UsageError(*FindCommand("run"), usage);
  if (const absl::Status s = LoadOperatorLibraries(line); !s.ok()) {
    std::fprintf(stderr, "smelt run: %s\n", std::string(s.message()).c_str());
    return ExitCodeOf(s);
  }
  Progress progress("smelt run", line.Has("quiet"));
  progress.Doing(absl::StrCat("loading ", line.positional()[0]));
  auto program = Program::Load(line.positional()[0], options);
  if (!program.ok()) {
    progress.Stop();
    const absl::Status error = WithHowToCompile(program.status(), line.positional()[0]);
    std::fprintf(stderr, "smelt run: %s\n", std::string(error.message()).c_str());
    if (line.Has("json") && line.Has("case")) {
      nlohmann::ordered_json j = {
          {"ok", false},
          {"failures", {{{"call", 0}, {"where", "load"}, {"what", std::string(program.status().message())}}}}};
      std::printf("%s\n", JsonText(j).c_str());
    }
    return LoadExitCodeOf(program.status());
  }
  if (line.Has("case")) return RunTheCase(*program, line, progress, static_cast<int>(repeat));
  const auto method = ChosenMethod(*program, line);
  if (!method.ok()) {
    progress.Stop();
    std::fprintf(stderr, "smelt run: %s\n", std::string(method.status().message()).c_str());
    return kExitUsage;
  }
  return RunCalls(*method, line, progress, source, calls);
}

}  // namespace smelt
