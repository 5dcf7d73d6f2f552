// Printing, explaining, and the comparison with a fresh build.
#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "smelt/alias/state.h"
#include "smelt/core/ir/text.h"

namespace smelt {

using alias_internal::IsOld;
using alias_internal::kGeometryRead;
using alias_internal::kGeometryWrite;
using alias_internal::kRead;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;

namespace {

std::string Json(absl::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      const char* hex = "0123456789abcdef";
      absl::StrAppend(&out, "\\u00", std::string(1, hex[c >> 4]), std::string(1, hex[c & 15]));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Html(absl::string_view s) {
  return absl::StrReplaceAll(s, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

const char* KindName(alias_internal::ObjectKind k) {
  using Kind = alias_internal::ObjectKind;
  switch (k) {
    case Kind::kFree:
      return "free";
    case Kind::kTensor:
      return "fresh";
    case Kind::kView:
      return "view";
    case Kind::kContainer:
      return "container";
    case Kind::kInput:
      return "input";
    case Kind::kElement:
      return "element";
    case Kind::kPiece:
      return "piece";
    case Kind::kConstant:
      return "constant";
    case Kind::kWeight:
      return "weight";
    case Kind::kUnknown:
      return "unknown";
    case Kind::kSummary:
      return "summary";
    case Kind::kMade:
      return "made in a call";
    case Kind::kRandom:
      return "random state";
    case Kind::kWorld:
      return "world";
  }
  return "?";
}

}  // namespace

std::string AliasDb::State::ObjectName(uint32_t object) const {
  const Object& o = objects[object];
  switch (o.kind) {
    case Kind::kUnknown:
      return "unknown";
    case Kind::kRandom:
      return "random";
    case Kind::kWorld:
      return "world";
    case Kind::kWeight:
      return absl::StrCat("weight storage ", o.slot);
    case Kind::kSummary: {
      // By its first member, which is stable enough to read.
      auto it = members.find(object);
      std::string first;
      if (it != members.end()) {
        for (Ref r : it->second) {
          std::string name = ObjectName(ObjectOf(r));
          if (first.empty() || name < first) first = name;
        }
      }
      return absl::StrCat("summary(", first, "...)");
    }
    case Kind::kMade:
      return absl::StrCat(o.parent != 0 ? "tensors" : "containers", " made in the call of %", g.value(o.def).name);
    case Kind::kElement:
    case Kind::kPiece: {
      std::string slot = o.slot < 0 ? "*" : absl::StrCat(o.slot);
      for (const auto& [name, index] : attribute_slots) {
        if (index != o.slot) continue;
        Type t = const_cast<State*>(this)->TypeOfObject(o.parent);
        while (t.kind() == TypeKind::kOptional) t = Type(t.element());
        if (t.kind() == TypeKind::kClass) return absl::StrCat(ObjectName(o.parent), ".", name);
      }
      return absl::StrCat(ObjectName(o.parent), "[", slot, "]");
    }
    default:
      if (o.def.valid() && g.IsLive(o.def)) return absl::StrCat("%", g.value(o.def).name);
      return absl::StrCat("object ", object);
  }
}

std::string AliasDb::State::RefName(Ref r) const {
  return absl::StrCat(ObjectName(ObjectOf(r)), IsOld(r) ? " of an earlier iteration" : "");
}

namespace {

// Every value in program order: inputs, then each node's outputs, blocks' parameters before their nodes.
void ForEachValue(const Graph& g, const std::function<void(ValueId)>& f) {
  for (ValueId v : g.inputs()) f(v);
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) f(v);
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.params(b)) f(v);
    }
  }
}

template <typename S>
std::vector<std::string> Names(const S& s, alias_internal::SetId set) {
  std::vector<std::string> out;
  s.sets.ForEach(set, [&](alias_internal::Ref r) { out.push_back(s.RefName(r)); });
  std::sort(out.begin(), out.end());
  return out;
}

// Of one list of the caller's: "some element" says all that "its first" says, which is there if somebody looked before
// it was known that the elements change places.
template <typename S>
bool IsSaidByAny(const S& s, alias_internal::Ref r, absl::FunctionRef<bool(alias_internal::Ref)> has) {
  const alias_internal::Object& o = s.objects[ObjectOf(r)];
  if (o.kind != alias_internal::ObjectKind::kElement || o.slot < 0) return false;
  auto any = s.elements.find({o.parent, alias_internal::kAnySlot});
  return any != s.elements.end() && has(alias_internal::MakeRef(any->second, IsOld(r)));
}

template <typename S>
std::vector<std::string> NamesToCompare(const S& s, alias_internal::SetId set) {
  std::vector<std::string> out;
  s.sets.ForEach(set, [&](alias_internal::Ref r) {
    if (!IsSaidByAny(s, r, [&](alias_internal::Ref any) { return s.sets.Contains(set, any); })) {
      out.push_back(s.RefName(r));
    }
  });
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string AliasDb::ToString() const {
  State& s = Flushed();
  std::string out = "values:\n";
  ForEachValue(s.g, [&](ValueId v) {
    const State::SetId p = s.PointsTo(v);
    if (p == 0) return;
    absl::StrAppend(&out, "  %", s.g.value(v).name, " : ", s.g.value(v).type.ToString(), " -> {",
                    absl::StrJoin(Names(s, p), ", "), "}");
    std::vector<std::string> stores = Names(s, s.StoragesOfSet(p));
    if (stores != Names(s, p)) absl::StrAppend(&out, " in {", absl::StrJoin(stores, ", "), "}");
    if (SetPool::IsSingle(p) && s.objects[ObjectOf(SetPool::SingleRef(p))].tensor) {
      ValueMemory m = Memory(v);
      if (m.region) absl::StrAppend(&out, " region ", m.region->ToString());
      if (m.geometry_changes) absl::StrAppend(&out, " (its geometry changes)");
    }
    out += "\n";
  });
  out += "writes:\n";
  for (NodeId n : s.g.AllNodes()) {
    std::vector<std::string> lines;
    for (uint32_t i = s.RecordOf(n).first_write; i != 0; i = s.writes.at(i).node_next) {
      const State::Access& w = s.writes.at(i);
      lines.push_back(
          absl::StrCat((w.bits & kWrite) ? "" : "geometry of ", s.RefName(w.object), " in ", s.RefName(w.storage)));
    }
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    if (!lines.empty()) absl::StrAppend(&out, "  ", s.DescribeNode(n), ": ", absl::StrJoin(lines, "; "), "\n");
  }
  return out;
}

std::string AliasDb::ToJson() const {
  State& s = Flushed();
  s.ActivateReads();
  s.Flush();
  std::string out = "{\n \"locations\": [";
  bool first = true;
  absl::flat_hash_set<uint32_t> listed;
  auto location = [&](uint32_t o) {
    if (!listed.insert(o).second) return;
    Location l = Describe(LocationId(o));
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"id\": ", o, ", \"name\": ", Json(l.name),
                    ", \"kind\": ", Json(KindName(s.objects[o].kind)),
                    ", \"caller_owned\": ", l.caller_owned ? "true" : "false",
                    ", \"escaped\": ", l.escaped ? "true" : "false", "}");
    first = false;
  };
  ForEachValue(s.g, [&](ValueId v) {
    const State::SetId p = s.PointsTo(v);
    s.sets.ForEach(s.StoragesOfSet(p), [&](State::Ref r) { location(s.Find(ObjectOf(r))); });
  });
  out += "\n ],\n \"values\": [";
  first = true;
  ForEachValue(s.g, [&](ValueId v) {
    const State::SetId p = s.PointsTo(v);
    if (p == 0) return;
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"value\": ", Json(absl::StrCat("%", s.g.value(v).name)),
                    ", \"type\": ", Json(s.g.value(v).type.ToString()), ", \"objects\": [");
    std::vector<std::string> names = Names(s, p);
    for (std::string& n : names) n = Json(n);
    absl::StrAppend(&out, absl::StrJoin(names, ", "), "], \"locations\": [");
    ValueMemory m = Memory(v);
    std::vector<std::string> ids;
    for (LocationId l : m.locations) ids.push_back(absl::StrCat(l.index));
    absl::StrAppend(&out, absl::StrJoin(ids, ", "), "]");
    if (m.region) absl::StrAppend(&out, ", \"region\": ", Json(m.region->ToString()));
    absl::StrAppend(&out, ", \"has_writers\": ", s.Written(v, true) ? "true" : "false", "}");
    first = false;
  });
  out += "\n ],\n \"nodes\": [";
  first = true;
  int k = 0;
  for (NodeId n : s.g.AllNodes()) {
    std::vector<std::string> writes, reads;
    auto add = [&](const State::Access& a, std::vector<std::string>* to, const char* geometry) {
      to->push_back(Json(absl::StrCat(geometry, s.RefName(a.object))));
    };
    for (uint32_t i = s.RecordOf(n).first_write; i != 0; i = s.writes.at(i).node_next) {
      const State::Access& w = s.writes.at(i);
      add(w, &writes, w.bits & kWrite ? "" : "geometry of ");
    }
    for (uint32_t i = s.RecordOf(n).first_read; i != 0; i = s.reads.at(i).node_next) {
      const State::Access& w = s.reads.at(i);
      add(w, &reads, w.bits & kRead ? "" : "geometry of ");
    }
    for (auto* list : {&writes, &reads}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    absl::StrAppend(&out, first ? "\n" : ",\n", "  {\"index\": ", k++, ", \"node\": ", Json(s.DescribeNode(n)),
                    ", \"writes\": [", absl::StrJoin(writes, ", "), "], \"reads\": [", absl::StrJoin(reads, ", "),
                    "]}");
    first = false;
  }
  return out + "\n ]\n}\n";
}

std::string AliasDb::ToDot() const {
  State& s = Flushed();
  std::string out = "digraph alias {\n  rankdir=LR;\n  node [fontname=\"monospace\"];\n";
  absl::flat_hash_set<uint32_t> drawn;
  absl::flat_hash_set<uint32_t> written;
  for (NodeId n : s.g.AllNodes()) {
    for (uint32_t i = s.RecordOf(n).first_write; i != 0; i = s.writes.at(i).node_next) {
      written.insert(ObjectOf(s.writes.at(i).storage));
    }
  }
  std::vector<std::string> edges;
  auto draw = [&](uint32_t o) {
    if (!drawn.insert(o).second) return;
    absl::StrAppend(&out, "  o", o,
                    " [shape=box, label=", Json(absl::StrCat(s.ObjectName(o), "\n", KindName(s.objects[o].kind))),
                    written.contains(o) ? ", style=filled, fillcolor=\"#f4c7c3\"" : "", "];\n");
  };
  ForEachValue(s.g, [&](ValueId v) {
    const State::SetId p = s.PointsTo(v);
    if (p == 0) return;
    absl::StrAppend(&out, "  v", v.index, " [label=", Json(absl::StrCat("%", s.g.value(v).name)),
                    s.Written(v, true) ? ", color=red" : "", "];\n");
    s.sets.ForEach(p, [&](State::Ref r) {
      edges.push_back(absl::StrCat("  v", v.index, " -> o", ObjectOf(r), IsOld(r) ? " [style=dashed];\n" : ";\n"));
    });
    for (State::Ref r : s.sets.Refs(p)) {
      draw(ObjectOf(r));
      const State::Object o = s.objects[ObjectOf(r)];
      s.sets.ForEach(o.storage, [&](State::Ref x) {
        draw(ObjectOf(x));
        if (ObjectOf(x) != ObjectOf(r)) {
          edges.push_back(absl::StrCat("  o", ObjectOf(r), " -> o", ObjectOf(x), " [label=\"in\", color=blue];\n"));
        }
      });
      if (o.container) {
        State::SetId inside = s.ContentOf(r, -1, NodeId());
        s.sets.ForEach(inside, [&](State::Ref x) {
          draw(ObjectOf(x));
          edges.push_back(absl::StrCat("  o", ObjectOf(r), " -> o", ObjectOf(x), " [label=\"holds\", color=gray];\n"));
        });
      }
    }
  });
  std::vector<std::string> unique;
  absl::flat_hash_set<std::string> seen;
  for (std::string& e : edges) {
    if (seen.insert(e).second) out += e;
  }
  return out + "}\n";
}

std::string AliasDb::ToHtml() const {
  State& s = Flushed();
  std::string out =
      "<!doctype html>\n<meta charset=\"utf-8\"><title>alias "
      "database</title>\n<style>body{font-family:sans-serif;display:flex;"
      "gap:2em}pre{line-height:1.5}.w{background:#f4c7c3}.v{cursor:default;border-bottom:1px dotted #888}"
      "td{font-family:monospace;padding:0 .6em;vertical-align:top}</style>\n<div><h3>graph</h3><pre>";
  absl::flat_hash_map<std::string, bool> writers;
  std::string text = PrintGraph(s.g);
  for (NodeId n : s.g.AllNodes()) {
    bool writes = false;
    for (uint32_t i = s.RecordOf(n).first_write; i != 0; i = s.writes.at(i).node_next) {
      writes |= ObjectOf(s.writes.at(i).storage) != State::kWorld && ObjectOf(s.writes.at(i).storage) != State::kRandom;
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
  ForEachValue(s.g, [&](ValueId v) {
    const State::SetId p = s.PointsTo(v);
    if (p == 0) return;
    std::vector<uint32_t> ids;
    s.sets.ForEach(s.StoragesOfSet(p), [&](State::Ref r) {
      uint32_t o = s.Find(ObjectOf(r));
      if (std::find(ids.begin(), ids.end(), o) == ids.end()) ids.push_back(o);
      if (place_of.try_emplace(o, places.size()).second) places.push_back(o);
    });
    rows.push_back({v, ids});
  });
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
                    s.Written(rows[i].first, true) ? " fill=\"#c00\"" : "", ">%", Html(s.g.value(rows[i].first).name),
                    "<title>", Html(absl::StrJoin(Names(s, s.PointsTo(rows[i].first)), ", ")), "</title></text>\n");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    absl::StrAppend(&out, "<text x=\"408\" y=\"", 22 * i + 20, "\">", Html(s.ObjectName(places[i])), " (",
                    KindName(s.objects[places[i]].kind), ")</text>\n");
  }
  out += "</svg>\n<p>Red: written while in scope, or by its own node. Marked lines write memory.</p></div>\n";
  return out;
}

// How v comes to hold the object, then where the object lives.
std::vector<std::string> AliasDb::Why(ValueId a, ValueId b) const {
  State& s = Flushed();
  std::vector<std::string> out;
  if (!MayContainAlias(a, b)) return out;
  auto trace = [&](ValueId v, State::Ref target, State::Ref storage) {
    ValueId at = v;
    absl::flat_hash_set<ValueId> seen;
    for (int step = 0; step < 100 && seen.insert(at).second; ++step) {
      const Value& value = s.g.value(at);
      const NodeId def = value.def;
      const Node& node = s.g.node(def);
      const std::string name = absl::StrCat("%", value.name);
      auto holds = [&](ValueId x) {
        bool found = false;
        s.sets.ForEach(s.PointsTo(x), [&](State::Ref r) { found |= ObjectOf(r) == ObjectOf(target); });
        return found;
      };
      if (s.g.IsParam(def)) {
        const NodeId owner = s.g.block(node.parent).owner;
        if (!owner.valid()) {
          out.push_back(absl::StrCat(name, " is an input"));
          return;
        }
        ValueId next;
        const char* edge = "enters the block as";
        for (ValueId x : s.g.node(owner).inputs) {
          if (holds(x)) next = x;
        }
        if (!next.valid()) {
          for (BlockId block : s.g.node(owner).blocks) {
            for (ValueId x : s.g.results(block)) {
              if (holds(x) && !seen.contains(x)) {
                next = x;
                edge = "comes around the loop as";
              }
            }
          }
        }
        if (!next.valid()) return;
        out.push_back(absl::StrCat("%", s.g.value(next).name, " ", edge, " ", name));
        at = next;
        continue;
      }
      if (s.values[at.index].own == ObjectOf(target)) {
        const State::Object& o = s.objects[ObjectOf(target)];
        bool own_storage = false;
        s.sets.ForEach(o.storage, [&](State::Ref r) { own_storage |= ObjectOf(r) == ObjectOf(target); });
        if (ObjectOf(storage) == ObjectOf(target) || (own_storage && o.kind != State::Kind::kTensor) || !o.tensor) {
          out.push_back(absl::StrCat(name, " is made by ", s.DescribeNode(def)));
          return;
        }
        ValueId base;
        State::Ref next_target = 0;
        for (ValueId x : node.inputs) {
          s.sets.ForEach(s.PointsTo(x), [&](State::Ref r) {
            s.sets.ForEach(s.objects[ObjectOf(r)].storage, [&](State::Ref y) {
              if (s.Find(ObjectOf(y)) == s.Find(ObjectOf(storage)) && !base.valid()) {
                base = x;
                next_target = r;
              }
            });
          });
        }
        if (!base.valid()) {
          out.push_back(absl::StrCat(name, " is made by ", s.DescribeNode(def)));
          return;
        }
        out.push_back(absl::StrCat(name, " is a view of %", s.g.value(base).name, " by ", node.op.name()));
        at = base;
        target = next_target;
        continue;
      }
      ValueId next;
      std::string line;
      for (ValueId x : node.inputs) {
        if (holds(x)) {
          next = x;
          line = absl::StrCat(name, " is %", s.g.value(x).name, ", returned by ", node.op.name());
        }
      }
      for (BlockId block : node.blocks) {
        for (ValueId x : s.g.results(block)) {
          if (!next.valid() && holds(x)) {
            next = x;
            line = absl::StrCat(name, " is %", s.g.value(x).name, ", a result of ", node.op.name(), "'s block");
          }
        }
      }
      if (!next.valid()) {
        out.push_back(absl::StrCat(name, " is taken out of memory by ", s.DescribeNode(def), ": ", s.RefName(target)));
        return;
      }
      out.push_back(std::move(line));
      at = next;
    }
  };
  State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  bool direct = s.SetsMayAlias(p, q, false);
  if (!direct) {
    p = s.Reach(p);
    q = s.Reach(q);
    out.push_back("by what they contain:");
  }
  for (State::Ref x : s.sets.Refs(p)) {
    for (State::Ref y : s.sets.Refs(q)) {
      if (!s.RefsMayAlias(x, y, false)) continue;
      State::Ref sx = x, sy = y;
      for (State::Ref i : s.sets.Refs(s.Storages(x))) {
        for (State::Ref j : s.sets.Refs(s.Storages(y))) {
          if (s.StoragesMayOverlap(i, j, false)) {
            sx = i;
            sy = j;
          }
        }
      }
      trace(a, x, sx);
      trace(b, y, sy);
      if (s.Find(ObjectOf(sx)) == s.Find(ObjectOf(sy))) {
        out.push_back(absl::StrCat("both live in the memory of ", s.RefName(sx)));
      } else {
        out.push_back(absl::StrCat(s.RefName(sx), " and ", s.RefName(sy), " may overlap: both are the caller's"));
      }
      return out;
    }
  }
  return out;
}

absl::Status AliasDb::Verify() const {
  State& s = *state_;
  if (!s.queue.empty() || s.needs_rebuild || !s.resolve_loops.empty()) s.Flush();
  State fresh(s.g, s.options);
  fresh.Build();
  const bool summarised = s.summarised != 0 || fresh.summarised != 0;
  absl::Status result;
  auto fail = [&](std::string message) {
    if (result.ok()) result = absl::InternalError(std::move(message));
  };
  ForEachValue(s.g, [&](ValueId v) {
    std::vector<std::string> mine = NamesToCompare(s, s.PointsTo(v)), theirs = NamesToCompare(fresh, fresh.PointsTo(v));
    if (summarised) {
      if (mine.empty() != theirs.empty()) fail(absl::StrCat("%", s.g.value(v).name, ": one of both is empty"));
      return;
    }
    if (mine != theirs) {
      fail(absl::StrCat("%", s.g.value(v).name, " points to {", absl::StrJoin(mine, ", "), "}, a fresh build says {",
                        absl::StrJoin(theirs, ", "), "}"));
      return;
    }
    mine = NamesToCompare(s, s.StoragesOfSet(s.PointsTo(v)));
    theirs = NamesToCompare(fresh, fresh.StoragesOfSet(fresh.PointsTo(v)));
    if (mine != theirs) {
      fail(absl::StrCat("%", s.g.value(v).name, " lives in {", absl::StrJoin(mine, ", "), "}, a fresh build says {",
                        absl::StrJoin(theirs, ", "), "}"));
    }
    bool escaped = false, escaped_fresh = false;
    s.sets.ForEach(s.PointsTo(v), [&](State::Ref r) { escaped |= s.objects[ObjectOf(r)].escaped; });
    fresh.sets.ForEach(fresh.PointsTo(v), [&](State::Ref r) { escaped_fresh |= fresh.objects[ObjectOf(r)].escaped; });
    if (escaped != escaped_fresh)
      fail(absl::StrCat("%", s.g.value(v).name, escaped ? " escapes" : " does not escape", " here"));
  });
  // What is known of the text's order holds, and the lists of accesses are in it.
  uint32_t last_position = 0;
  for (NodeId n : s.g.AllNodes()) {
    const State::NodeRecord& r = s.RecordOf(n);
    if (r.position != 0 && r.position <= last_position) fail(absl::StrCat(s.DescribeNode(n), " has a wrong position"));
    last_position = std::max(last_position, r.position);
    const uint32_t scope = s.g.block(s.g.node(n).parent).return_node.index;
    for (ValueId v : s.g.node(n).outputs) {
      const State::ValueRecord& value = s.RecordOf(v);
      if (value.from != 0 && (value.from != r.position || value.scope != scope)) {
        fail(absl::StrCat("%", s.g.value(v).name, " has a wrong scope"));
      }
    }
    const auto check_order = [&](const alias_internal::AccessIndex& index, uint32_t first) {
      for (uint32_t i = first; i != 0; i = index.at(i).node_next) {
        const uint32_t next = index.Next(i);
        if (next != 0 && alias_internal::ProgramOrderLess(s.g, index.at(next).node, n)) {
          fail(absl::StrCat(s.DescribeNode(n), " stands in the wrong place among the accesses"));
        }
      }
    };
    check_order(s.writes, r.first_write);
    check_order(s.reads, r.first_read);
  }
  if (summarised) return result;
  for (NodeId n : s.g.AllNodes()) {
    auto lines = [&](State& state) {
      std::vector<std::string> out;
      for (uint32_t i = state.RecordOf(n).first_write; i != 0; i = state.writes.at(i).node_next) {
        const State::Access& w = state.writes.at(i);
        const auto has = [&](State::Ref any) {
          for (uint32_t k = state.RecordOf(n).first_write; k != 0; k = state.writes.at(k).node_next) {
            if (state.writes.at(k).object == any && state.writes.at(k).bits == w.bits) return true;
          }
          return false;
        };
        if (IsSaidByAny(state, w.object, has)) continue;
        out.push_back(
            absl::StrCat(static_cast<int>(w.bits), " ", state.RefName(w.object), " in ", state.RefName(w.storage)));
        if (w.list != state.ListOf(ObjectOf(w.storage))) out.push_back("in the wrong list");
      }
      std::sort(out.begin(), out.end());
      out.erase(std::unique(out.begin(), out.end()), out.end());
      return out;
    };
    std::vector<std::string> mine = lines(s), theirs = lines(fresh);
    if (mine != theirs) {
      fail(absl::StrCat(s.DescribeNode(n), " writes {", absl::StrJoin(mine, "; "), "}, a fresh build says {",
                        absl::StrJoin(theirs, "; "), "}"));
    }
  }
  return result;
}

}  // namespace smelt
