#include "smelt/tools/inspect_html.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/json_text.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOutside = 24;  // characters of the memory that a step reads from outside of the plan
constexpr int kTop = 24, kPitch = 46, kBoxHeight = 34, kBoxLeft = 190, kBoxWidth = 560;

constexpr absl::string_view kStyle = R"(
body { font: 14px sans-serif; margin: 24px; color: #222; background: #fff; }
svg { font: 12px sans-serif; }
rect { stroke: #555; rx: 4px; }
.launch { fill: #dcebfa; } .library { fill: #fbe6cf; } .copy { fill: #f6d5d5; } .other { fill: #eee; }
path { fill: none; stroke: #999; }
g.step:hover rect { stroke-width: 2.5px; } g.step:hover path { stroke: #c22; stroke-width: 2px; }
.small { fill: #555; font-size: 11px; } .bytes { text-anchor: end; }
table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: left; border-bottom: 1px solid #ddd; }
td.n { text-align: right; } pre { background: #f4f4f4; padding: 8px; overflow-x: auto; }
)";

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string BytesText(int64_t bytes) {
  if (bytes < 10000) return absl::StrCat(bytes, " B");
  if (bytes < 10000000) return absl::StrFormat("%.1f KB", static_cast<double>(bytes) / 1e3);
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

std::string Microseconds(double us) { return absl::StrFormat("%.2f µs", us); }

// The bytes of the elements that a view shows, or nothing if a size depends on the call.
std::optional<int64_t> BytesOf(const Json& view) {
  const std::optional<DType> dtype = ParseDType(view["dtype"].get<std::string>());
  if (!dtype) return std::nullopt;
  int64_t n = ItemSize(*dtype);
  for (size_t d = 0; d < view["sizes"].size(); ++d) {
    const Json &size = view["sizes"][d], &stride = view["strides"][d];
    if (!size.is_number()) return std::nullopt;
    if (stride.is_number() && stride.get<int64_t>() == 0) continue;  // one element, seen many times
    if (__builtin_mul_overflow(n, size.get<int64_t>(), &n)) return std::nullopt;
  }
  return n;
}

// Returns the operations of a spec in a few words: "exp sub div, 2 reductions".
std::string Operations(const std::string& spec) {
  std::vector<std::string> order;
  std::map<std::string, int> count;
  for (absl::string_view line : absl::StrSplit(spec, '\n')) {
    if (line.empty() || line[0] != '%') continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() < 3) continue;
    std::string op(words[2]);
    if (op == "const" || op == "cast") continue;
    for (absl::string_view access : {"load.", "store.", "scalar.", "index.", "dim_size."}) {
      if (absl::StartsWith(op, access)) op.clear();
    }
    if (op.empty()) continue;
    if (count[op]++ == 0) order.push_back(op);
  }
  std::string out;
  for (const std::string& op : order) {
    if (out.size() > 60) return absl::StrCat(out, " …");
    absl::StrAppend(&out, out.empty() ? "" : " ", op, count[op] > 1 ? absl::StrCat("×", count[op]) : "");
  }
  return out.empty() ? "moves elements" : out;
}

// The steps of each block of a plan, the top one first.
std::vector<const Json*> BlocksOf(const Json& plan) {
  if (!plan.contains("blocks")) return {&plan["steps"]};
  std::vector<const Json*> out;
  for (const Json& block : plan["blocks"]) out.push_back(&block);
  return out;
}

struct Step {
  std::string kind = "other";  // the class of its box
  std::string title, detail, source;
  std::optional<double> microseconds;
  std::vector<Json> reads, writes;
};

Step StepOf(const Json& j, const std::vector<std::string>& specs, const std::vector<std::string>& keys) {
  Step s;
  auto views = [](const Json& list, std::vector<Json>& out) {
    for (const Json& v : list) {
      if (v.is_object()) out.push_back(v);
    }
  };
  if (j.contains("launch")) {
    const size_t k = j["launch"].get<size_t>();
    s.kind = "launch";
    s.title = k < specs.size() ? Operations(specs[k]) : "?";
    s.detail = absl::StrCat("kernel ", k, k < keys.size() ? absl::StrCat(" (", keys[k].substr(0, 8), ")") : "");
    views(j["reads"], s.reads);
    views(j["writes"], s.writes);
  } else if (j.contains("library")) {
    s.kind = "library";
    s.title = j["library"].get<std::string>();
    s.detail = j.contains("epilogue") ? "library call; its epilogue is the next launch" : "library call";
    views(j["inputs"], s.reads);
    views(j["outputs"], s.writes);
  } else if (j.contains("copy")) {
    s.kind = "copy";
    s.title = j["copy_back"].get<bool>() ? "copy back to the caller's memory" : "copy";
    views(Json::array({j["copy"]}), s.reads);
    views(Json::array({j["to"]}), s.writes);
  } else {
    s.title = j.begin().key();
    s.detail = j.begin()->is_string() ? j.begin()->get<std::string>() : JsonText(*j.begin());
    if (j.contains("out")) views(Json::array({j["out"]}), s.writes);
  }
  if (j.contains("microseconds")) s.microseconds = j["microseconds"].get<double>();
  if (j.contains("source")) s.source = j["source"].get<std::string>();
  return s;
}

// The most there is where it overflows: sizes in a file may say anything.
int64_t SumOf(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

std::string Traffic(const std::vector<Json>& views, int64_t* total) {
  int64_t sum = 0;
  bool known = true;
  for (const Json& v : views) {
    const std::optional<int64_t> bytes = BytesOf(v);
    known = known && bytes;
    sum = SumOf(sum, bytes.value_or(0));
  }
  *total = SumOf(*total, sum);
  return views.empty() ? "" : known ? BytesText(sum) : "depends on sizes";
}

// The steps from top to bottom; a curve from each step that wrote a memory to those that read it next.
void DrawSteps(const Json& steps, const std::vector<std::string>& specs, const std::vector<std::string>& keys,
               std::string& out) {
  int64_t read = 0, written = 0, launches = 0, libraries = 0;
  std::string body;
  std::map<int64_t, int> writer;  // by slot
  int row = 0;
  for (const Json& j : steps) {
    const Step s = StepOf(j, specs, keys);
    launches += s.kind == "launch";
    libraries += s.kind == "library";
    const int y = kTop + row * kPitch, middle = y + kBoxHeight / 2;
    absl::StrAppend(&body, "<g class=\"step\"><title>", Escape(s.source), "</title>");
    std::set<int> from;
    std::set<std::string> memories;
    std::string outside;
    for (const Json& v : s.reads) {
      auto it = writer.find(v["slot"].get<int64_t>());
      if (it != writer.end()) {
        from.insert(it->second);
      } else if (memories.insert(v["memory"].get<std::string>()).second && outside.size() <= kOutside) {
        absl::StrAppend(&outside, outside.empty() ? "" : ", ", v["memory"].get<std::string>());
      }
    }
    for (int f : from) {
      // Wide curves for what is far apart, at the right; the neighbours' edge straight down.
      const int y0 = kTop + f * kPitch + kBoxHeight;
      if (f == row - 1) {
        absl::StrAppend(&body, "<path d=\"M", kBoxLeft + 40, " ", y0, " V", y, "\"/>");
      } else {
        const int x = kBoxLeft + kBoxWidth, reach = x + 20 + std::min(160, 8 * (row - f));
        absl::StrAppend(&body, "<path d=\"M", x, " ", y0 - kBoxHeight / 2, " C", reach, " ", y0, " ", reach, " ", y,
                        " ", x, " ", middle, "\"/>");
      }
    }
    absl::StrAppend(&body, "<rect class=\"", s.kind, "\" x=\"", kBoxLeft, "\" y=\"", y, "\" width=\"", kBoxWidth,
                    "\" height=\"", kBoxHeight, "\"/>");
    absl::StrAppend(&body, "<text x=\"", kBoxLeft + 8, "\" y=\"", y + 14, "\">", row, ": ", Escape(s.title), "</text>");
    absl::StrAppend(&body, "<text class=\"small\" x=\"", kBoxLeft + 8, "\" y=\"", y + 28, "\">", Escape(s.detail),
                    "</text>");
    const std::string in = Traffic(s.reads, &read), to = Traffic(s.writes, &written);
    absl::StrAppend(&body, "<text class=\"small bytes\" x=\"", kBoxLeft + kBoxWidth - 8, "\" y=\"", y + 28, "\">",
                    in.empty() ? "" : absl::StrCat("reads ", in), in.empty() || to.empty() ? "" : ", ",
                    to.empty() ? "" : absl::StrCat("writes ", to), "</text>");
    if (s.microseconds) {
      absl::StrAppend(&body, "<text class=\"small bytes\" x=\"", kBoxLeft + kBoxWidth - 8, "\" y=\"", y + 14, "\">",
                      Microseconds(*s.microseconds), "</text>");
    }
    if (!outside.empty()) {
      if (outside.size() > kOutside) outside = absl::StrCat(outside.substr(0, kOutside - 2), "…");
      absl::StrAppend(&body, "<text class=\"small bytes\" x=\"", kBoxLeft - 8, "\" y=\"", middle + 4, "\">",
                      Escape(outside), " →</text>");
    }
    absl::StrAppend(&body, "</g>\n");
    for (const Json& v : s.writes) writer[v["slot"].get<int64_t>()] = row;
    ++row;
  }
  absl::StrAppend(&out, "<p>", launches, " launches, ", libraries, " library calls; kernels and libraries read ",
                  BytesText(read), " and write ", BytesText(written), ".</p>\n");
  absl::StrAppend(&out, "<svg width=\"", kBoxLeft + kBoxWidth + 200, "\" height=\"", 2 * kTop + row * kPitch, "\">\n",
                  body, "</svg>\n");
}

}  // namespace

std::string BundlePage(const Json& j) {
  std::vector<std::string> specs, keys;
  std::string first_target;
  std::map<std::string, std::map<std::string, int64_t>> code;  // bytes by key and target
  std::vector<int64_t> uses;
  std::map<size_t, double> times;  // by kernel, of all steps that launch it
  for (const Json& p : j["plans"]) {
    for (const Json* block : BlocksOf(p)) {
      for (const Json& step : *block) {
        if (step.contains("launch") && step.contains("microseconds"))
          times[step["launch"].get<size_t>()] += step["microseconds"].get<double>();
      }
    }
  }
  for (const Json& k : j["kernels"]) {
    const std::string target = k["target"].get<std::string>(), key = k["key"].get<std::string>();
    if (first_target.empty()) first_target = target;
    code[k["spec"].get<std::string>()][target] = k["bytes"].get<int64_t>();
    if (target != first_target) continue;
    specs.push_back(k["spec"].get<std::string>());
    keys.push_back(key);
    uses.push_back(k["uses"].get<int64_t>());
  }
  const std::string model = Escape(j["model"].get<std::string>());
  std::string out = absl::StrCat("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>", model,
                                 "</title>\n<style>", kStyle, "</style></head><body>\n<h1>", model, "</h1>\n");
  absl::StrAppend(&out, "<p>", BytesText(j["bytes"].get<int64_t>()), "; targets");
  for (const Json& t : j["targets"]) absl::StrAppend(&out, " ", Escape(t["name"].get<std::string>()));
  absl::StrAppend(&out, ". Blue: a generated kernel. Orange: a library call. Red: a copy.</p>\n");
  for (const Json& p : j["plans"]) {
    absl::StrAppend(&out, "<h2>Plan for ", Escape(p["variant"].get<std::string>()),
                    " arguments</h2>\n<p>Working memory ",
                    p["arena_bytes"].is_number() ? BytesText(p["arena_bytes"].get<int64_t>())
                                                 : Escape(p["arena_bytes"].get<std::string>()),
                    ".</p>\n");
    const std::vector<const Json*> blocks = BlocksOf(p);
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (b > 0) absl::StrAppend(&out, "<h3>Block ", b, "</h3>\n");
      DrawSteps(*blocks[b], specs, keys, out);
    }
  }
  absl::StrAppend(&out, "<h2>Kernels</h2>\n<table><tr><th></th><th>key</th><th>launches</th><th>operations</th>",
                  "<th>bytes of code</th>", times.empty() ? "" : "<th>time, all launches</th>", "</tr>\n");
  for (size_t k = 0; k < specs.size(); ++k) {
    absl::StrAppend(&out, "<tr><td>", k, "</td><td>", Escape(keys[k].substr(0, 12)), "</td><td class=\"n\">", uses[k],
                    "</td><td><details><summary>", Escape(Operations(specs[k])), "</summary><pre>", Escape(specs[k]),
                    "</pre></details></td><td>");
    for (const auto& [target, bytes] : code[specs[k]]) absl::StrAppend(&out, Escape(target), " ", bytes, " ");
    absl::StrAppend(&out, "</td>");
    if (!times.empty())
      absl::StrAppend(&out, "<td class=\"n\">", times.count(k) > 0 ? Microseconds(times[k]) : "", "</td>");
    absl::StrAppend(&out, "</tr>\n");
  }
  absl::StrAppend(&out, "</table>\n</body></html>\n");
  return out;
}

}  // namespace smelt
