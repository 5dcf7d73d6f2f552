#include "smelt/alias/print.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/alias/state.h"

namespace smelt::alias_internal {

std::string PrintText(const AliasDb& db, AliasDb::State& s) {
  std::string out = "values:\n";
  for (ValueId v : AllValues(s.g)) {
    const SetId p = s.records.PointsTo(v);
    if (p == 0) continue;
    absl::StrAppend(&out, "  %", s.g.value(v).name, " : ", s.g.value(v).type.ToString(), " -> {",
                    absl::StrJoin(s.words.Names(p), ", "), "}");
    std::vector<std::string> stores = s.words.Names(s.memory.StoragesOfSet(p));
    if (stores != s.words.Names(p)) absl::StrAppend(&out, " in {", absl::StrJoin(stores, ", "), "}");
    if (SetPool::IsSingle(p) && s.objects[ObjectOf(SetPool::SingleRef(p))].tensor) {
      ValueMemory m = db.Memory(v);
      if (m.region) absl::StrAppend(&out, " region ", m.region->ToString());
      if (m.geometry_changes) absl::StrAppend(&out, " (its geometry changes)");
    }
    out += "\n";
  }
  out += "writes:\n";
  for (NodeId n : s.g.AllNodes()) {
    std::vector<std::string> lines;
    for (uint32_t i = s.records.RecordOf(n).first_write; i != 0; i = s.accesses.writes.at(i).node_next) {
      const Access w = s.accesses.writes.at(i);
      for (const auto& [handle, storage] : s.accesses.PairsOf(w)) {
        lines.push_back(absl::StrCat((w.bits & kWrite) ? "" : "geometry of ", s.words.RefName(handle), " in ",
                                     s.words.RefName(storage)));
      }
    }
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    if (!lines.empty()) absl::StrAppend(&out, "  ", s.words.DescribeNode(n), ": ", absl::StrJoin(lines, "; "), "\n");
  }
  return out;
}

std::string PrintJson(const AliasDb& db, AliasDb::State& s) {
  s.recorder.ActivateReads();
  s.solver.Flush();
  std::string out = "{\n \"locations\": [";
  bool first = true;
  absl::flat_hash_set<uint32_t> listed;
  auto location = [&](uint32_t o) {
    if (!listed.insert(o).second) return;
    Location l = db.Describe(LocationId(o));
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"id\": ", o, ", \"name\": ", Json(l.name),
                    ", \"kind\": ", Json(KindName(s.objects[o].kind)),
                    ", \"caller_owned\": ", l.caller_owned ? "true" : "false",
                    ", \"escaped\": ", l.escaped ? "true" : "false", "}");
    first = false;
  };
  for (ValueId v : AllValues(s.g)) {
    const SetId p = s.records.PointsTo(v);
    s.sets.ForEach(s.memory.StoragesOfSet(p), [&](Ref r) { location(s.objects.Find(ObjectOf(r))); });
  }
  out += "\n ],\n \"values\": [";
  first = true;
  for (ValueId v : AllValues(s.g)) {
    const SetId p = s.records.PointsTo(v);
    if (p == 0) continue;
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"value\": ", Json(absl::StrCat("%", s.g.value(v).name)),
                    ", \"type\": ", Json(s.g.value(v).type.ToString()), ", \"objects\": [");
    std::vector<std::string> names = s.words.Names(p);
    for (std::string& n : names) n = Json(n);
    absl::StrAppend(&out, absl::StrJoin(names, ", "), "], \"locations\": [");
    ValueMemory m = db.Memory(v);
    std::vector<std::string> ids;
    for (LocationId l : m.locations) ids.push_back(absl::StrCat(l.index));
    absl::StrAppend(&out, absl::StrJoin(ids, ", "), "]");
    if (m.region) absl::StrAppend(&out, ", \"region\": ", Json(m.region->ToString()));
    absl::StrAppend(&out, ", \"has_writers\": ", s.queries.written.Written(v, true) ? "true" : "false", "}");
    first = false;
  }
  out += "\n ],\n \"nodes\": [";
  first = true;
  int k = 0;
  for (NodeId n : s.g.AllNodes()) {
    std::vector<std::string> writes, reads;
    auto add = [&](const Access& a, std::vector<std::string>* to, const char* geometry) {
      s.sets.ForEach(a.handles, [&](Ref r) { to->push_back(Json(absl::StrCat(geometry, s.words.RefName(r)))); });
    };
    for (uint32_t i = s.records.RecordOf(n).first_write; i != 0; i = s.accesses.writes.at(i).node_next) {
      const Access& w = s.accesses.writes.at(i);
      add(w, &writes, w.bits & kWrite ? "" : "geometry of ");
    }
    for (uint32_t i = s.records.RecordOf(n).first_read; i != 0; i = s.accesses.reads.at(i).node_next) {
      const Access& w = s.accesses.reads.at(i);
      add(w, &reads, w.bits & kRead ? "" : "geometry of ");
    }
    for (auto* list : {&writes, &reads}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"index\": ", k++, ", \"node\": ", Json(s.words.DescribeNode(n)),
                    ", \"writes\": [", absl::StrJoin(writes, ", "), "], \"reads\": [", absl::StrJoin(reads, ", "),
                    "]}");
    first = false;
  }
  return out + "\n ]\n}\n";
}

}  // namespace smelt::alias_internal
