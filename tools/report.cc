#include "smelt/tools/report.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/container.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/progress.h"

namespace smelt {
namespace {

std::string Escape(absl::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string Bytes(std::optional<int64_t> n) { return n ? BytesText(*n) : "–"; }

// Which of the models use a kernel.
struct Use {
  int models = 0;
  int64_t launches = 0;
  std::vector<std::string> names;  // the first few
};

constexpr char kStyle[] =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;margin:.5em 0 2em}"
    "th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid #ddd;vertical-align:top}"
    "th{border-bottom:2px solid #888}td.n,th.n{text-align:right;white-space:nowrap}"
    "code{font-size:12px;overflow-wrap:anywhere}"
    ".converted,.bundle{color:#176f2c}.skipped{color:#555}.failed{color:#b3261e;font-weight:600}"
    "td,p{overflow-wrap:anywhere}td:first-child{min-width:9em}td.converted,td.skipped{white-space:nowrap}"
    "@media(max-width:60em){table{display:block;overflow-x:auto}}:root{color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}"
    ".converted,.bundle{color:#7bc98f}.skipped{color:#aaa}.failed{color:#f2877f}}";

// The model and its kernels, as the bundle's file has them.
absl::StatusOr<ReportModel> FromBundle(const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(auto file, Container::Open(path, ContentKind::kBundle));
  SMELT_ASSIGN_OR_RETURN(auto bundle, LoadBundle(*file));
  ReportModel m;
  m.name = bundle->model_name;
  m.status = "bundle";
  m.bundle_bytes = file->file_bytes();
  m.kernels = KernelsOf(*bundle);
  for (const auto& t : bundle->targets) absl::StrAppend(&m.targets, m.targets.empty() ? "" : " ", t->name);
  return m;
}

// A line of a log of `smelt convert` (docs/json.md). The log does not list kernels: they are read from the bundle, whose
// path is relative to the folder in which the conversion ran.
absl::StatusOr<ReportModel> FromLogLine(absl::string_view line) {
  const auto j = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* name) { return j.contains(name) && j[name].is_string(); };
  const auto number = [&](const char* name) { return j.contains(name) && j[name].is_number(); };
  if (!j.is_object() || !text("model") || !text("bundle") || !text("status") || !number("ms") ||
      !number("model_bytes") || !j.contains("unsupported") || !j["unsupported"].is_array()) {
    return absl::DataLossError("a line of a log of smelt convert expected");
  }
  ReportModel m;
  if (j["status"] != "failed") {
    SMELT_ASSIGN_OR_RETURN(m, FromBundle(j["bundle"].get<std::string>()));
  } else if (text("error")) {
    m.why = j["error"].get<std::string>();
  }
  m.name = j["model"].get<std::string>();
  m.status = j["status"].get<std::string>();
  m.model_bytes = j["model_bytes"].get<int64_t>();
  if (m.status != "skipped") m.milliseconds = j["ms"].get<double>();
  for (const auto& o : j["unsupported"]) {
    if (!o.is_object() || !o.contains("operator") || !o["operator"].is_string() || !o.contains("count") ||
        !o["count"].is_number()) {
      return absl::DataLossError("\"unsupported\" of a log of smelt convert expected");
    }
    m.unsupported.push_back({o["operator"].get<std::string>(), o["count"].get<int64_t>()});
  }
  return m;
}

// Appends the models of a log. `logs` maps each model that was read so far to the log that has it.
absl::Status AppendLog(const std::string& path, std::vector<ReportModel>& models,
                       std::map<std::string, std::string>& logs) {
  SMELT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto model = FromLogLine(line);
    if (!model.ok()) return Annotate(model.status(), absl::StrCat(path, ":", number));
    const auto [other, fresh] = logs.try_emplace(model->name, path);
    if (!fresh) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", model->name, " is also in ",
                                                     other->second, "; logs of different shards expected"));
    }
    models.push_back(*std::move(model));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ReportKernel> KernelsOf(const fb::BundleT& bundle) {
  std::vector<ReportKernel> out;
  for (const auto& k : bundle.kernels) out.push_back({k->key, k->uses});
  return out;
}

// Counts over all models, then writes the page from top to bottom.
std::string RenderReport(const ReportInfo& info, const std::vector<ReportModel>& models) {
  std::map<std::string, Use> uses;
  std::map<std::string, std::pair<int, int64_t>> unsupported;  // models, occurrences
  std::map<std::string, int64_t> counts;                       // by status
  int64_t bundle_bytes = 0, model_bytes = 0, asked = 0;
  bool timed = false, targeted = false;
  for (const ReportModel& m : models) {
    ++counts[m.status];
    bundle_bytes += m.bundle_bytes.value_or(0);
    model_bytes += m.model_bytes.value_or(0);
    timed = timed || m.milliseconds.has_value();
    targeted = targeted || !m.targets.empty();
    for (const ReportKernel& k : m.kernels) {
      Use& u = uses[k.key];
      ++u.models;
      ++asked;
      u.launches += k.launches;
      if (u.names.size() < 4) u.names.push_back(m.name);
    }
    for (const ReportOperator& o : m.unsupported) {
      ++unsupported[o.name].first;
      unsupported[o.name].second += o.count;
    }
  }
  const int64_t all = static_cast<int64_t>(models.size()), failed = counts["failed"], not_begun = counts["not begun"];
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>",
      Escape(info.title), "</title><style>", kStyle, "</style></head><body>\n<h1>", Escape(info.title), "</h1>\n");
  absl::StrAppend(&out, "<p id=\"summary\">", Count(all, "model"), ", ", all - failed - not_begun, " supported, ",
                  failed, " failed", not_begun > 0 ? absl::StrCat(", ", not_begun, " not begun") : "", "; ",
                  model_bytes > 0 ? absl::StrCat(Bytes(model_bytes), " of models, ") : "", Bytes(bundle_bytes),
                  " of bundles; ", uses.size(), " distinct kernels for ", Count(asked, "kernel"), " of models.</p>\n");
  absl::StrAppend(&out, "<p id=\"made\">", Escape(info.version),
                  info.options.empty() ? "" : "; options: ", Escape(info.options), ".</p>\n");

  if (failed > 0) {
    out += "<h2>Failures</h2>\n<table id=\"failures\"><thead><tr><th>model</th><th>why</th></tr></thead><tbody>\n";
    for (const ReportModel& m : models) {
      if (m.status != "failed") continue;
      absl::StrAppend(&out, "<tr><td class=\"failed\">", Escape(m.name), "</td><td>", Escape(m.why), "</td></tr>\n");
    }
    out += "</tbody></table>\n";
  }

  if (!unsupported.empty()) {
    out +=
        "<h2>Unsupported operators</h2>\n<table id=\"unsupported\"><thead><tr><th>operator</th><th "
        "class=\"n\">models</th>"
        "<th class=\"n\">occurrences</th></tr></thead><tbody>\n";
    for (const auto& [name, count] : unsupported) {
      absl::StrAppend(&out, "<tr><td><code>", Escape(name), "</code></td><td class=\"n\">", count.first,
                      "</td><td class=\"n\">", count.second, "</td></tr>\n");
    }
    out += "</tbody></table>\n";
  }

  absl::StrAppend(
      &out,
      "<h2>Models</h2>\n<table id=\"models\"><thead><tr><th>model</th><th>status</th><th class=\"n\">model size</th>"
      "<th class=\"n\">bundle size</th><th class=\"n\">kernels</th><th class=\"n\">shared kernels</th>",
      targeted ? "<th>targets</th>" : "", timed ? "<th class=\"n\">ms</th>" : "", "</tr></thead><tbody>\n");
  for (const ReportModel& m : models) {
    const auto shared = std::count_if(m.kernels.begin(), m.kernels.end(),
                                      [&](const ReportKernel& k) { return uses[k.key].models > 1; });
    absl::StrAppend(&out, "<tr><td>", Escape(m.name), "</td><td class=\"", Escape(m.status), "\">", Escape(m.status),
                    "</td><td class=\"n\">", Bytes(m.model_bytes), "</td><td class=\"n\">", Bytes(m.bundle_bytes),
                    "</td><td class=\"n\">", m.kernels.size(), "</td><td class=\"n\">", shared, "</td>");
    if (targeted) absl::StrAppend(&out, "<td>", Escape(m.targets), "</td>");
    if (timed) {
      absl::StrAppend(&out, "<td class=\"n\">",
                      m.milliseconds ? absl::StrFormat("%.0f", *m.milliseconds) : std::string("–"), "</td>");
    }
    out += "</tr>\n";
  }
  out += "</tbody></table>\n";

  std::vector<std::pair<std::string, Use>> shared;
  for (const auto& [key, u] : uses) {
    if (u.models > 1) shared.push_back({key, u});
  }
  std::stable_sort(shared.begin(), shared.end(),
                   [](const auto& a, const auto& b) { return a.second.models > b.second.models; });
  absl::StrAppend(&out, "<h2>Kernels shared among models</h2>\n<p>", shared.size(), " of ", uses.size(),
                  " kernels are used by several models.</p>\n");
  if (!shared.empty()) {
    out +=
        "<table id=\"kernels\"><thead><tr><th>kernel</th><th class=\"n\">models</th><th class=\"n\">launches</th>"
        "<th>among them</th></tr></thead><tbody>\n";
    for (const auto& [key, u] : shared) {
      std::string names;
      for (const std::string& n : u.names) absl::StrAppend(&names, names.empty() ? "" : ", ", n);
      if (u.models > static_cast<int>(u.names.size())) names += ", …";
      absl::StrAppend(&out, "<tr><td><code>", Escape(key.substr(0, 16)), "</code></td><td class=\"n\">", u.models,
                      "</td><td class=\"n\">", u.launches, "</td><td>", Escape(names), "</td></tr>\n");
    }
    out += "</tbody></table>\n";
  }
  out += "</body></html>\n";
  return out;
}

int RunReport(const CommandLine& line) {
  absl::Status usage = line.CheckFiles({}, {"o"});
  if (line.positional().empty() || !line.Has("o"))
    usage = absl::InvalidArgumentError("bundles or logs, and -o REPORT.html expected");
  if (!usage.ok()) return UsageError(*FindCommand("report"), usage);
  Progress progress("smelt report", line.Has("quiet"));
  std::vector<ReportModel> models, logged;
  std::map<std::string, std::string> logs;
  const auto total = static_cast<int64_t>(line.positional().size());
  for (const std::string& path : line.positional()) {
    progress.Doing("reading files:", &path - line.positional().data(), total);
    absl::Status read;
    if (absl::EndsWith(path, ".jsonl")) {
      read = AppendLog(path, logged, logs);
    } else if (auto model = FromBundle(path); model.ok()) {
      models.push_back(*std::move(model));
    } else {
      read = WithHowToCompile(model.status(), path);
    }
    if (!read.ok()) {
      progress.Stop();
      std::fprintf(stderr, "smelt report: %s\n", std::string(read.message()).c_str());
      return absl::IsInvalidArgument(read) ? kExitUsage : ExitCodeOf(read);
    }
  }
  // A log has the models in the order in which they finished.
  std::stable_sort(logged.begin(), logged.end(),
                   [](const ReportModel& a, const ReportModel& b) { return a.name < b.name; });
  models.insert(models.end(), std::make_move_iterator(logged.begin()), std::make_move_iterator(logged.end()));
  progress.Doing(absl::StrCat("writing ", line.Get("o")));
  const absl::Status s = WriteFileAtomically(
      line.Get("o"),
      RenderReport({"smelt: bundles", absl::StrCat("Bundle format ", static_cast<int>(kBundleFormat)), ""}, models));
  if (s.ok()) {
    progress.Wrote({line.Get("o")});
    return kExitOk;
  }
  progress.Stop();
  std::fprintf(stderr, "smelt report: %s\n", std::string(s.message()).c_str());
  return WriteExitCodeOf(s);
}

}  // namespace smelt
