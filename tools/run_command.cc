#include "smelt/tools/run_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/smelt.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"

namespace smelt {

const char kRunHelp[] =
    "smelt run BUNDLE.smb --case=F.case.safetensors [--repeat=N] [--threads=N] [--json]\n"
    "smelt run BUNDLE.smb --inputs=IN.safetensors --outputs=OUT.safetensors [--threads=N]\n"
    "  --case       runs a case and checks everything a caller sees (docs/case_files.md); exit 1 if anything differs\n"
    "  --op-library=FILE[,FILE...]  shared libraries with operators that the model calls: loads and runs their code\n"
    "  --repeat=N   rounds, for latencies; arguments and state are restored before each\n"
    "  --inputs     plain tensors named after the model's inputs; outputs get the outputs' names, NAME.after an input "
    "that was written;\n"
    "               results that are no tensors go to the file's metadata \"smelt.values\"\n"
    "  --json       one JSON object on standard output (docs/json.md)\n";

namespace {

ExitCode LoadExitCode(const absl::Status& s) {
  return s.code() == absl::StatusCode::kFailedPrecondition ? kExitWrongMachine : ExitCodeOf(s);
}

int RunTheCase(const std::shared_ptr<const Program>& program, const CommandLine& line, int repeat) {
  CaseOptions options;
  options.repeat = repeat;
  auto report = RunCase(program, line.Get("case"), options);
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
    j["alias_variant"] = report->alias_variants;
    j["arena_bytes"] = report->arena_bytes;
    std::printf("%s\n", JsonText(j).c_str());
  } else {
    for (const CaseFailure& f : report->failures)
      std::printf("call %d: %s: %s\n", f.call, f.where.c_str(), f.what.c_str());
    std::printf("%s; median %.3f ms\n", report->ok ? "ok" : "DIFFERENT", report->median_ms);
  }
  return report->ok ? kExitOk : kExitDifferent;
}

// A result that is no tensor, as a case file has it (docs/case_files.md).
nlohmann::ordered_json ValueJson(const Datum& v) {
  if (v.IsInt()) return {{"int", v.as_int()}};
  if (v.IsBool()) return {{"bool", v.as_bool()}};
  if (v.IsString()) return {{"string", v.as_string()}};
  const auto number = [](double d) -> nlohmann::ordered_json {
    if (std::isfinite(d)) return d;
    return std::isnan(d) ? "NaN" : d > 0 ? "Infinity" : "-Infinity";  // JSON has no words for them
  };
  if (v.IsFloat()) return {{"float", number(v.as_float())}};
  if (v.IsComplex()) return {{"complex", {number(v.as_complex().real()), number(v.as_complex().imag())}}};
  return {{"none", true}};
}

int RunPlain(const std::shared_ptr<const Program>& program, const CommandLine& line) {
  bool writing = false;
  auto run = [&]() -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(line.Get("inputs")));
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(program));
    std::vector<Datum> args;
    std::map<std::string, Tensor> written;
    std::vector<std::string> before;
    for (const auto& a : program->args()) {
      if (a.kind != ValueKind::kTensor) {
        if (!a.has_constant)
          return absl::InvalidArgumentError(
              absl::StrCat("input ", a.name, " is a number; --case can give it, --inputs cannot"));
        args.push_back(a.constant);
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(Tensor t, file->ReadTensor(a.name));
      args.push_back(Datum(t));
    }
    std::string unused_tensors;
    for (const auto& [name, entry] : file->entries()) {
      const auto& inputs = program->args();
      if (std::none_of(inputs.begin(), inputs.end(), [&](const ArgInfo& a) { return a.name == name; }))
        absl::StrAppend(&unused_tensors, unused_tensors.empty() ? "" : ", ", name);
    }
    if (!unused_tensors.empty())
      std::fprintf(stderr, "smelt run: warning: no inputs of the model, and not used: %s\n", unused_tensors.c_str());
    std::vector<std::string> bytes;
    for (const Datum& v : args)
      bytes.push_back(v.IsTensor() ? std::string(v.tensor().storage()->data(), v.tensor().storage()->bytes()) : "");
    SMELT_ASSIGN_OR_RETURN(std::vector<Datum> results, instance->Run(args));
    std::map<std::string, Tensor> out;
    nlohmann::ordered_json values;
    // If several results have one name, all are written.
    const auto unused = [&](std::string name) {
      const std::string first = name;
      for (int n = 1; out.contains(name) || values.contains(name); ++n) name = absl::StrCat(first, ".", n);
      return name;
    };
    for (size_t k = 0; k < results.size(); ++k) {
      const std::string name = unused(program->results()[k].name);
      if (results[k].IsTensor()) {
        out[name] = results[k].tensor();
      } else {
        values[name] = ValueJson(results[k]);
      }
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i].IsTensor()) continue;
      const Storage& s = *args[i].tensor().storage();
      if (absl::string_view(s.data(), s.bytes()) != bytes[i])
        out[unused(absl::StrCat(program->args()[i].name, ".after"))] = args[i].tensor();
    }
    std::map<std::string, std::string> metadata;
    if (!values.empty()) {
      metadata["smelt.values"] = values.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      std::fprintf(stderr, "smelt run: results that are no tensors are in the metadata \"smelt.values\": %s\n",
                   metadata["smelt.values"].c_str());
    }
    writing = true;
    return WriteSafetensors(line.Get("outputs"), out, metadata);
  };
  absl::Status s = run();
  if (s.ok()) return kExitOk;
  std::fprintf(stderr, "smelt run: %s\n", std::string(s.message()).c_str());
  if (writing) return kExitCannotWrite;
  if (absl::IsInvalidArgument(s)) return kExitUsage;
  return ExitCodeOf(s);
}

}  // namespace

int RunRun(const std::vector<std::string>& args) {
  auto line =
      CommandLine::Parse(args, {"case", "repeat", "threads", "inputs", "outputs", "op-library"}, {"json", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kRunHelp, stdout);
    return kExitOk;
  }
  absl::Status usage = line.status();
  if (usage.ok() && line->positional().size() != 1) usage = absl::InvalidArgumentError("one bundle expected");
  if (usage.ok() && line->Has("case") == (line->Has("inputs") && line->Has("outputs"))) {
    usage = absl::InvalidArgumentError("either --case or both --inputs and --outputs expected");
  }
  ProgramOptions options;
  int64_t repeat = 1;
  if (usage.ok()) {
    auto r = line->GetInt("repeat", 1, 1, 1000000);
    auto t = line->GetInt("threads", 0, 0, 1024);
    if (!r.ok()) usage = r.status();
    if (!t.ok()) usage = t.status();
    if (usage.ok()) {
      repeat = *r;
      options.threads = static_cast<int>(*t);
    }
  }
  if (usage.ok() && line->Has("case") && (line->Has("inputs") || line->Has("outputs")))
    usage = absl::InvalidArgumentError("--case has its own inputs: neither --inputs nor --outputs beside it");
  if (usage.ok() && !line->Has("case"))
    usage = line->RefuseWithoutEffect({"json", "repeat"}, "with --inputs and --outputs: it is about a case");
  if (usage.ok()) usage = line->CheckFiles({"case", "inputs", "op-library"}, {"outputs"});
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt run: %s\n%s", std::string(usage.message()).c_str(), kRunHelp);
    return kExitUsage;
  }
  for (const absl::string_view library : absl::StrSplit(line->Get("op-library"), ',', absl::SkipEmpty())) {
    const smelt_status loaded = smelt_operator_library_load(std::string(library).c_str());
    if (loaded == SMELT_OK) continue;
    std::fprintf(stderr, "smelt run: %s\n", smelt_last_error());
    return ExitCodeOf(absl::Status(static_cast<absl::StatusCode>(loaded), ""));
  }
  auto program = Program::Load(line->positional()[0], options);
  if (!program.ok()) {
    std::fprintf(stderr, "smelt run: %s\n", std::string(program.status().message()).c_str());
    if (line->Has("json")) {
      nlohmann::ordered_json j = {
          {"ok", false},
          {"failures", {{{"call", 0}, {"where", "load"}, {"what", std::string(program.status().message())}}}}};
      std::printf("%s\n", JsonText(j).c_str());
    }
    return LoadExitCode(program.status());
  }
  return line->Has("case") ? RunTheCase(*program, *line, static_cast<int>(repeat)) : RunPlain(*program, *line);
}

}  // namespace smelt
