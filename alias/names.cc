// Names of objects and memory in the pictures and the explanations.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "smelt/alias/state.h"

namespace smelt {

namespace alias_internal {

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

std::vector<ValueId> AllValues(const Graph& g) {
  std::vector<ValueId> values(g.inputs().begin(), g.inputs().end());
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) values.push_back(v);
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.params(b)) values.push_back(v);
    }
  }
  return values;
}

}  // namespace alias_internal

using alias_internal::IsOld;
using alias_internal::ObjectOf;

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
      const auto it = groups.find(Find(object));
      return absl::StrCat("summary(", it != groups.end() ? ObjectName(it->second.first) : "", "...)");
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

std::vector<std::string> AliasDb::State::Names(SetId set) const {
  std::vector<std::string> out;
  sets.ForEach(set, [&](Ref r) { out.push_back(RefName(r)); });
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace smelt
