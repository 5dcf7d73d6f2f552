#include "smelt/tools/convert_record.h"

#include "smelt/runtime/json_text.h"

namespace smelt {

using Json = nlohmann::ordered_json;

Json LogLine(const ConvertRecord& r) {
  Json j = {{"model", r.model},
            {"bundle", r.bundle},
            {"status", r.status},
            {"exit_code", r.exit_code},
            {"ms", r.milliseconds},
            {"model_bytes", r.model_bytes},
            {"bundle_bytes", r.bundle_bytes},
            {"kernels_compiled", r.kernels_compiled},
            {"kernels_from_cache", r.kernels_from_cache},
            {"unsupported", Json::array()}};
  for (const ReportOperator& o : r.unsupported) j["unsupported"].push_back({{"operator", o.name}, {"count", o.count}});
  if (!r.error.empty()) j["error"] = r.error;
  return j;
}

std::string Encode(const ConvertRecord& r) {
  Json j = LogLine(r);
  j["input_digest"] = r.input_digest;
  j["bundle_digest"] = r.bundle_digest;
  j["kernels"] = Json::array();
  for (const ReportKernel& k : r.kernels) j["kernels"].push_back({{"key", k.key}, {"launches", k.launches}});
  return JsonText(j);
}

bool Decode(const std::string& text, ConvertRecord& r) {
  const Json j = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return false;
  bool good = true;
  auto text_of = [&](const Json& o, const char* name) {
    const auto it = o.find(name);
    good = good && it != o.end() && it->is_string();
    return good ? it->get<std::string>() : std::string();
  };
  auto number_of = [&](const Json& o, const char* name) {
    const auto it = o.find(name);
    good = good && it != o.end() && it->is_number();
    return good ? it->get<double>() : 0;
  };
  r = ConvertRecord();
  r.model = text_of(j, "model");
  r.bundle = text_of(j, "bundle");
  r.status = text_of(j, "status");
  r.exit_code = static_cast<int>(number_of(j, "exit_code"));
  r.milliseconds = number_of(j, "ms");
  r.model_bytes = static_cast<int64_t>(number_of(j, "model_bytes"));
  r.bundle_bytes = static_cast<int64_t>(number_of(j, "bundle_bytes"));
  r.kernels_compiled = static_cast<int64_t>(number_of(j, "kernels_compiled"));
  r.kernels_from_cache = static_cast<int64_t>(number_of(j, "kernels_from_cache"));
  if (j.contains("error")) r.error = text_of(j, "error");
  r.input_digest = text_of(j, "input_digest");
  r.bundle_digest = text_of(j, "bundle_digest");
  for (const char* name : {"unsupported", "kernels"}) good = good && j.contains(name) && j[name].is_array();
  if (!good) return false;
  for (const Json& o : j["unsupported"]) {
    if (!o.is_object()) return false;
    r.unsupported.push_back({text_of(o, "operator"), static_cast<int64_t>(number_of(o, "count"))});
  }
  for (const Json& k : j["kernels"]) {
    if (!k.is_object()) return false;
    r.kernels.push_back({text_of(k, "key"), static_cast<int64_t>(number_of(k, "launches"))});
  }
  return good;
}

ReportModel ToReport(const ConvertRecord& r, const std::string& name) {
  ReportModel m;
  m.name = name;
  m.status = r.status;
  m.why = r.error;
  m.model_bytes = r.model_bytes;
  if (r.status != "failed") m.bundle_bytes = r.bundle_bytes;
  if (r.status != "skipped") m.milliseconds = r.milliseconds;
  m.kernels = r.kernels;
  m.unsupported = r.unsupported;
  return m;
}

}  // namespace smelt
