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
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/inspect_bundle.h"
#include "smelt/tools/plain_text.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOutside = 26;  // characters of the memory that a step reads from outside of the plan
constexpr size_t kName = 200;    // of an argument or state, which a page may name in every line
constexpr size_t kSource = 40;   // of a place in the model's source, in a box
constexpr int kTop = 24, kPitch = 46, kBoxHeight = 34, kBoxLeft = 210, kBoxWidth = 620;

constexpr absl::string_view kStyle = R"(
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #222; background: #fff; }
svg { font: 12px system-ui, sans-serif; display: block; }
rect { stroke: #555; rx: 4px; }
.launch { fill: #dcebfa; } .library { fill: #fbe6cf; } .copy { fill: #f6d5d5; } .other { fill: #eee; }
path { fill: none; stroke: #999; }
g.step:hover rect, g.near rect { stroke-width: 2.5px; } g.step:hover path { stroke: #c22; stroke-width: 2px; }
.small { fill: #555; font-size: 11px; } .bytes { text-anchor: end; }
.graph { max-height: 75vh; overflow: auto; border: 1px solid #ccc; cursor: grab; user-select: none; }
.details { min-height: 6em; background: #f4f4f4; padding: 8px; margin: 0 0 1em; white-space: pre-wrap; }
table { border-collapse: collapse; margin-bottom: 1em; }
td, th { padding: 2px 10px; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n { text-align: right; } pre { background: #f4f4f4; padding: 8px; overflow-x: auto; } .note { color: #555; }
text { fill: currentColor; } h1, td, summary { overflow-wrap: anywhere; }
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; }
  .launch { fill: #1d3a57; } .library { fill: #573f1c; } .copy { fill: #5c2a2a; } .other { fill: #333; }
  rect { stroke: #999; } path { stroke: #777; } .graph, td, th { border-color: #444; }
  .details, pre { background: #262626; } .small { fill: #aaa; } .note { color: #aaa; }
}
)";

// Drag to pan, Ctrl and the wheel to zoom, hover for the details of a step and the steps that it exchanges memory with.
constexpr absl::string_view kScript = R"(
for (const box of document.querySelectorAll('.graph')) {
  const svg = box.querySelector('svg'), details = box.nextElementSibling;
  const width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
  const steps = [...box.querySelectorAll('g.step')];
  const sources = step => step.dataset.from.split(' ');
  let zoom = 1, from = null;
  const apply = z => {
    zoom = Math.min(4, Math.max(0.1, z));
    svg.setAttribute('width', width * zoom);
    svg.setAttribute('height', height * zoom);
  };
  box.addEventListener('wheel', e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    apply(e.deltaY < 0 ? zoom * 1.15 : zoom / 1.15);
  }, {passive: false});
  box.addEventListener('dblclick', () => apply(1));
  box.addEventListener('mousedown', e => {
    from = {x: e.clientX + box.scrollLeft, y: e.clientY + box.scrollTop};
  });
  addEventListener('mousemove', e => {
    if (from) box.scrollTo(from.x - e.clientX, from.y - e.clientY);
  });
  addEventListener('mouseup', () => { from = null; });
  steps.forEach((step, i) => {
    step.addEventListener('mouseenter', () => {
      details.textContent = step.querySelector('desc').textContent;
      steps.forEach((other, k) => {
        other.classList.toggle('near', sources(step).includes(String(k)) || sources(other).includes(String(i)));
      });
    });
    step.addEventListener('mouseleave', () => steps.forEach(other => other.classList.remove('near')));
  });
}
)";

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
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

// The names by which people know the memories of a plan: "argument 0" is x, "state 3" is the buffer cache.
class MemoryNames {
 public:
  MemoryNames(const Json& j, const Json& plan) {
    const Json& inputs = j["signature"]["inputs"];
    // A plan for arguments that are one tensor has that tensor once.
    const Json& inner = plan["convention"]["duplicates"];
    for (size_t i = inputs.size(); i-- > 0;) {
      const size_t k = i < inner.size() ? inner[i].get<size_t>() : i;
      names_[absl::StrCat("argument ", k)] = Name(inputs[i]);
    }
    for (size_t i = j["weights"].size(); i-- > 0;) {
      const Json& w = j["weights"][i];
      names_[absl::StrCat("state ", w["storage"].get<int64_t>())] = Name(w);
    }
  }
  static std::string Name(const Json& named) {
    return Shortened(named[named.contains("path") ? "path" : "name"].get<std::string>(), kName);
  }
  std::string Of(const Json& view) const {
    const std::string memory = view["memory"].get<std::string>();
    const auto it = names_.find(memory);
    return it == names_.end() ? memory : it->second;
  }

 private:
  std::map<std::string, std::string> names_;
};

std::string SizesText(const Json& sizes) {
  std::string out = "[";
  for (const Json& n : sizes) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "",
                    n.is_null()     ? "?"
                    : n.is_string() ? n.get<std::string>()
                                    : JsonText(n));
  }
  return out + "]";
}

// A step in several lines, for the panel below the graph.
std::string Details(const Step& s, int row, const MemoryNames& names) {
  std::string out = absl::StrCat(row, ": ", s.title, "\n", s.detail);
  if (!s.source.empty()) absl::StrAppend(&out, "\nsource: ", s.source);
  const auto views = [&](const char* what, const std::vector<Json>& list) {
    for (const Json& v : list) {
      absl::StrAppend(&out, "\n", what, " ", names.Of(v), ": ", v["dtype"].get<std::string>(), " ",
                      SizesText(v["sizes"]));
    }
  };
  views("reads", s.reads);
  views("writes", s.writes);
  if (s.microseconds) absl::StrAppend(&out, "\ntime: ", Microseconds(*s.microseconds));
  return out;
}

// The steps from top to bottom; a curve from each step that wrote a memory to those that read it next.
void DrawSteps(const Json& steps, const std::vector<std::string>& specs, const std::vector<std::string>& keys,
               const MemoryNames& names, std::string& out) {
  int64_t read = 0, written = 0, launches = 0, libraries = 0;
  std::string body;
  std::map<int64_t, int> writer;  // by slot
  int row = 0;
  for (const Json& j : steps) {
    const Step s = StepOf(j, specs, keys);
    launches += s.kind == "launch";
    libraries += s.kind == "library";
    const int y = kTop + row * kPitch, middle = y + kBoxHeight / 2;
    std::set<int> from;
    std::set<std::string> memories;
    std::string outside;
    for (const Json& v : s.reads) {
      auto it = writer.find(v["slot"].get<int64_t>());
      if (it != writer.end()) {
        from.insert(it->second);
      } else if (memories.insert(v["memory"].get<std::string>()).second && outside.size() <= kOutside) {
        absl::StrAppend(&outside, outside.empty() ? "" : ", ", names.Of(v));
      }
    }
    absl::StrAppend(&body, "<g class=\"step\" data-from=\"", absl::StrJoin(from, " "), "\"><desc>",
                    Escape(Details(s, row, names)), "</desc>");
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
    const auto text = [&](const char* kind, int x, int at, const std::string& what) {
      if (!what.empty())
        absl::StrAppend(&body, "<text", kind, " x=\"", x, "\" y=\"", at, "\">", Escape(what), "</text>");
    };
    constexpr char kSmall[] = " class=\"small\"", kRight[] = " class=\"small bytes\"";
    text("", kBoxLeft + 8, y + 14, absl::StrCat(row, ": ", s.title));
    text(kSmall, kBoxLeft + 8, y + 28,
         s.source.empty() ? s.detail : absl::StrCat(s.detail, " · ", Shortened(s.source, kSource)));
    const std::string in = Traffic(s.reads, &read), to = Traffic(s.writes, &written);
    text(kRight, kBoxLeft + kBoxWidth - 8, y + 28,
         absl::StrCat(in.empty() ? "" : absl::StrCat("reads ", in), in.empty() || to.empty() ? "" : ", ",
                      to.empty() ? "" : absl::StrCat("writes ", to)));
    if (s.microseconds) text(kRight, kBoxLeft + kBoxWidth - 8, y + 14, Microseconds(*s.microseconds));
    if (!outside.empty()) text(kRight, kBoxLeft - 8, middle + 4, absl::StrCat(Shortened(outside, kOutside), " →"));
    absl::StrAppend(&body, "</g>\n");
    for (const Json& v : s.writes) writer[v["slot"].get<int64_t>()] = row;
    ++row;
  }
  absl::StrAppend(&out, "<p>", launches, launches == 1 ? " launch, " : " launches, ", Count(libraries, "library call"),
                  "; kernels and libraries read ", BytesText(read), " and write ", BytesText(written), ".</p>\n");
  if (row == 0) return;
  const int width = kBoxLeft + kBoxWidth + 200, height = 2 * kTop + row * kPitch;
  absl::StrAppend(&out, "<div class=\"graph\"><svg width=\"", width, "\" height=\"", height, "\" viewBox=\"0 0 ", width,
                  " ", height, "\">\n", body,
                  "</svg></div>\n<div class=\"details\">Hover over a step for its details; drag to pan, Ctrl and the "
                  "wheel to zoom.</div>\n");
}

// A table of texts.
class PageTable {
 public:
  PageTable(std::string id, std::vector<std::string> head) : id_(std::move(id)), head_(std::move(head)) {}
  void Row(const std::vector<std::string>& cells) {
    rows_ += "<tr>";
    for (const std::string& cell : cells) absl::StrAppend(&rows_, "<td>", Escape(cell), "</td>");
    rows_ += "</tr>\n";
  }
  // Nothing where there are no rows.
  std::string Html(absl::string_view title) const {
    if (rows_.empty()) return "";
    std::string out = absl::StrCat("<h2>", title, "</h2>\n<table id=\"", id_, "\"><tr>");
    for (const std::string& cell : head_) absl::StrAppend(&out, "<th>", cell, "</th>");
    return absl::StrCat(out, "</tr>\n", rows_, "</table>\n");
  }

 private:
  std::string id_, rows_;
  std::vector<std::string> head_;
};

std::string TextOf(const Json& j, const char* field) {
  if (!j.contains(field)) return "";
  return j[field].is_string() ? j[field].get<std::string>() : JsonText(j[field]);
}

// Tables of what the bundle takes, returns and keeps.
std::string SignatureTables(const Json& j) {
  const Json& signature = j["signature"];
  const auto name_of = [](const Json& list, const Json& named, const char* field) -> std::string {
    const size_t i = named[field].get<size_t>();
    return i < list.size() ? MemoryNames::Name(list[i]) : "?";
  };
  PageTable arguments("arguments", {"argument", "type", "sizes", "effects"});
  for (const Json& a : signature["inputs"]) {
    std::string effects = a.contains("constant") ? absl::StrCat("always ", TextOf(a, "constant_value")) : "";
    for (const Json& e : a.contains("effects") ? a["effects"] : Json::array()) {
      const std::string what = e.get<std::string>();
      absl::StrAppend(&effects, effects.empty() ? "" : ", ",
                      what == "data" ? "written" : absl::StrCat(what, what == "resized" ? "" : " changes"));
    }
    arguments.Row({MemoryNames::Name(a), a.contains("dtype") ? TextOf(a, "dtype") : TextOf(a, "kind"),
                   a.contains("sizes") ? SizesText(a["sizes"]) : "", effects});
  }
  PageTable symbols("symbols", {"size or number", "range", "is"});
  for (const Json& s : signature["symbols"]) {
    const std::string source = TextOf(s, "source");
    // Those of memory are for calls whose arguments share it.
    if (source == "stride" || source == "offset" || source == "bytes") continue;
    std::string of = absl::StrCat(source, s.contains("dim") ? absl::StrCat(" ", TextOf(s, "dim")) : "");
    if (s.contains("argument")) absl::StrAppend(&of, " of ", name_of(signature["inputs"], s, "argument"));
    if (s.contains("state")) absl::StrAppend(&of, " of ", name_of(j["weights"], s, "state"));
    symbols.Row({TextOf(s, "name"),
                 s.contains("max") ? absl::StrCat(TextOf(s, "min"), "..", TextOf(s, "max"))
                                   : absl::StrCat(TextOf(s, "min"), " or more"),
                 of});
  }
  PageTable results("results", {"result", "type", "sizes", "memory"});
  for (const Json& r : signature["outputs"]) {
    const std::string memory = MemoryOfResult(j["signature"]["inputs"], j["weights"], r);
    results.Row({TextOf(r, "name"), r.contains("dtype") ? TextOf(r, "dtype") : TextOf(r, "kind"),
                 r.contains("sizes") ? SizesText(r["sizes"]) : "",
                 memory.empty() && TextOf(r, "place") == "fresh" ? "new" : memory});
  }
  PageTable states("states", {"state", "kind", "type", "sizes"});
  for (const Json& w : j["weights"]) {
    if (w["mutated"].get<bool>())
      states.Row({TextOf(w, "name"), TextOf(w, "kind"), TextOf(w, "dtype"), SizesText(w["sizes"])});
  }
  return absl::StrCat(arguments.Html("Arguments"), symbols.Html("Sizes and numbers that vary"), results.Html("Results"),
                      states.Html("States that calls write or return"));
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
  std::string out = absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
                                 "<meta name=\"viewport\" content=\"width=device-width\">",
                                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                                 "'unsafe-inline'; script-src "
                                 "'unsafe-inline'\"><title>",
                                 model, "</title>\n<style>", kStyle, "</style></head><body>\n<h1>", model, "</h1>\n");
  absl::StrAppend(&out, "<p>", Escape(TextOf(j, "file")), ": ", BytesText(j["bytes"].get<int64_t>()),
                  ", bundle format ", TextOf(j, "format"), "; targets");
  for (const Json& t : j["targets"]) absl::StrAppend(&out, " ", Escape(t["name"].get<std::string>()));
  absl::StrAppend(&out, ".</p>\n", SignatureTables(j));
  for (const Json& p : j["plans"]) {
    absl::StrAppend(&out, "<h2>Plan for ", Escape(CallsOfPlan(j["signature"]["inputs"], p)), "</h2>\n");
    if (p["variant"] == "eager-order") {
      absl::StrAppend(&out, "<p>One operator after the other, on the caller's tensors.</p>\n");
      continue;
    }
    absl::StrAppend(
        &out, "<p>Working memory ",
        p["arena_bytes"].is_number() ? BytesText(p["arena_bytes"].get<int64_t>())
                                     : absl::StrCat(Escape(p["arena_bytes"].get<std::string>()), " B"),
        ". <span class=\"note\">Blue: a generated kernel. Orange: a library call. Red: a copy.</span></p>\n");
    const MemoryNames names(j, p);
    const std::vector<const Json*> blocks = BlocksOf(p);
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (b > 0) absl::StrAppend(&out, "<h3>Block ", b, "</h3>\n");
      DrawSteps(*blocks[b], specs, keys, names, out);
    }
  }
  absl::StrAppend(
      &out, "<h2>Kernels</h2>\n<table id=\"kernels\"><tr><th></th><th>key</th><th>launches</th><th>operations</th>",
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
  absl::StrAppend(&out, "</table>\n<script type=\"text/javascript\">", kScript, "</script>\n</body></html>\n");
  return out;
}

}  // namespace smelt
