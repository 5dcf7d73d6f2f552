#include "smelt/alias/picture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "smelt/alias/state.h"
#include "smelt/core/ir/text.h"

namespace smelt::alias_internal {

namespace {

std::string Html(absl::string_view s) {
  return absl::StrReplaceAll(s, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

std::string DrawDot(AliasDb::State& s) {
  std::string out = "digraph alias {\n  rankdir=LR;\n  node [fontname=\"monospace\"];\n";
  absl::flat_hash_set<uint32_t> drawn;
  absl::flat_hash_set<uint32_t> written;
  for (NodeId n : s.g.AllNodes()) {
    for (uint32_t i = s.records.RecordOf(n).first_write; i != 0; i = s.accesses.writes.at(i).node_next) {
      s.sets.ForEach(s.accesses.writes.at(i).storages, [&](Ref x) { written.insert(ObjectOf(x)); });
    }
  }
  std::vector<std::string> edges;
  auto draw = [&](uint32_t o) {
    if (!drawn.insert(o).second) return;
    absl::StrAppend(&out, "  o", o,
                    " [shape=box, label=", Json(absl::StrCat(s.words.ObjectName(o), "\n", KindName(s.objects[o].kind))),
                    written.contains(o) ? ", style=filled, fillcolor=\"#f4c7c3\"" : "", "];\n");
  };
  for (ValueId v : AllValues(s.g)) {
    const SetId p = s.records.PointsTo(v);
    if (p == 0) continue;
    absl::StrAppend(&out, "  v", v.index, " [label=", Json(absl::StrCat("%", s.g.value(v).name)),
                    s.queries.written.Written(v, true) ? ", color=red" : "", "];\n");
    s.sets.ForEach(p, [&](Ref r) {
      edges.push_back(absl::StrCat("  v", v.index, " -> o", ObjectOf(r), IsOld(r) ? " [style=dashed];\n" : ";\n"));
    });
    for (Ref r : s.sets.Refs(p)) {
      draw(ObjectOf(r));
      const Object o = s.objects[ObjectOf(r)];
      s.sets.ForEach(o.storage, [&](Ref x) {
        draw(ObjectOf(x));
        if (ObjectOf(x) != ObjectOf(r)) {
          edges.push_back(absl::StrCat("  o", ObjectOf(r), " -> o", ObjectOf(x), " [label=\"in\", color=blue];\n"));
        }
      });
      if (o.container) {
        SetId inside = s.containers.ContentOf(r, -1, NodeId());
        s.sets.ForEach(inside, [&](Ref x) {
          draw(ObjectOf(x));
          edges.push_back(absl::StrCat("  o", ObjectOf(r), " -> o", ObjectOf(x), " [label=\"holds\", color=gray];\n"));
        });
      }
    }
  }
  std::vector<std::string> unique;
  absl::flat_hash_set<std::string> seen;
  for (std::string& e : edges) {
    if (seen.insert(e).second) out += e;
  }
  return out + "}\n";
}

std::string DrawHtml(AliasDb::State& s) {
  std::string out =
      "<!doctype html>\n<meta charset=\"utf-8\"><title>alias "
      "database</title>\n<style>body{font-family:sans-serif;display:flex;"
      "gap:2em}pre{line-height:1.5}.w{background:#f4c7c3}.v{cursor:default;border-bottom:1px dotted #888}"
      "td{font-family:monospace;padding:0 .6em;vertical-align:top}</style>\n<div><h3>graph</h3><pre>";
  absl::flat_hash_map<std::string, bool> writers;
  std::string text = PrintGraph(s.g);
  for (NodeId n : s.g.AllNodes()) {
    bool writes = false;
    for (uint32_t i = s.records.RecordOf(n).first_write; i != 0; i = s.accesses.writes.at(i).node_next) {
      s.sets.ForEach(s.accesses.writes.at(i).storages,
                     [&](Ref x) { writes |= ObjectOf(x) != kWorld && ObjectOf(x) != kRandom; });
    }
    if (!writes) continue;
    std::string line = PrintNode(s.g, n);
    writers[line.substr(0, line.find('\n'))] = true;
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    size_t start = line.find_first_not_of(' ');
    bool marked = start != std::string::npos && writers.contains(line.substr(start));
    absl::StrAppend(&out, marked ? "<span class=\"w\">" : "", Html(line), marked ? "</span>" : "", "\n");
    at = end + 1;
  }
  out += "</pre></div>\n<div><h3>memory</h3><svg xmlns=\"http://www.w3.org/2000/svg\" ";
  // Values to the left, locations to the right, an edge for each membership.
  std::vector<std::pair<ValueId, std::vector<uint32_t>>> rows;
  std::vector<uint32_t> places;
  absl::flat_hash_map<uint32_t, size_t> place_of;
  for (ValueId v : AllValues(s.g)) {
    const SetId p = s.records.PointsTo(v);
    if (p == 0) continue;
    std::vector<uint32_t> ids;
    s.sets.ForEach(s.memory.StoragesOfSet(p), [&](Ref r) {
      uint32_t o = s.objects.Find(ObjectOf(r));
      if (std::find(ids.begin(), ids.end(), o) == ids.end()) ids.push_back(o);
      if (place_of.try_emplace(o, places.size()).second) places.push_back(o);
    });
    rows.push_back({v, ids});
  }
  const size_t height = 22 * (std::max(rows.size(), places.size()) + 1);
  absl::StrAppend(&out, "width=\"720\" height=\"", height, "\" font-family=\"monospace\" font-size=\"13\">\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    for (uint32_t o : rows[i].second) {
      absl::StrAppend(&out, "<line x1=\"180\" y1=\"", 22 * i + 16, "\" x2=\"400\" y2=\"", 22 * place_of[o] + 16,
                      "\" stroke=\"#8ab\"/>\n");
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    absl::StrAppend(&out, "<text x=\"4\" y=\"", 22 * i + 20, "\"",
                    s.queries.written.Written(rows[i].first, true) ? " fill=\"#c00\"" : "", ">%",
                    Html(s.g.value(rows[i].first).name), "<title>",
                    Html(absl::StrJoin(s.words.Names(s.records.PointsTo(rows[i].first)), ", ")), "</title></text>\n");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    absl::StrAppend(&out, "<text x=\"408\" y=\"", 22 * i + 20, "\">", Html(s.words.ObjectName(places[i])), " (",
                    KindName(s.objects[places[i]].kind), ")</text>\n");
  }
  out += "</svg>\n<p>Red: written while in scope, or by its own node. Marked lines write memory.</p></div>\n";
  return out;
}

}  // namespace smelt::alias_internal
