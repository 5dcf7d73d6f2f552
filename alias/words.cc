#include "smelt/alias/words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "smelt/alias/state.h"

namespace smelt::alias_internal {

const char* KindName(ObjectKind k) {
  switch (k) {
    case ObjectKind::kFree:
      return "free";
    case ObjectKind::kTensor:
      return "fresh";
    case ObjectKind::kView:
      return "view";
    case ObjectKind::kContainer:
      return "container";
    case ObjectKind::kInput:
      return "input";
    case ObjectKind::kElement:
      return "element";
    case ObjectKind::kPiece:
      return "piece";
    case ObjectKind::kConstant:
      return "constant";
    case ObjectKind::kWeight:
      return "weight";
    case ObjectKind::kUnknown:
      return "unknown";
    case ObjectKind::kSummary:
      return "summary";
    case ObjectKind::kMade:
      return "made in a call";
    case ObjectKind::kRandom:
      return "random state";
    case ObjectKind::kWorld:
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

std::string Words::ObjectName(uint32_t object) const {
  const Object& o = s_.objects[object];
  switch (o.kind) {
    case ObjectKind::kUnknown:
      return "unknown";
    case ObjectKind::kRandom:
      return "random";
    case ObjectKind::kWorld:
      return "world";
    case ObjectKind::kWeight:
      return absl::StrCat("weight storage ", o.slot);
    case ObjectKind::kSummary: {
      const auto it = s_.objects.groups.find(s_.objects.Find(object));
      return absl::StrCat("summary(", it != s_.objects.groups.end() ? ObjectName(it->second.first) : "", "...)");
    }
    case ObjectKind::kMade:
      return absl::StrCat(o.parent != 0 ? "tensors" : "containers", " made in the call of %", s_.g.value(o.def).name);
    case ObjectKind::kElement:
    case ObjectKind::kPiece: {
      std::string slot = o.slot < 0 ? "*" : absl::StrCat(o.slot);
      for (const auto& [name, index] : s_.effects.attribute_slots) {
        if (index != o.slot) continue;
        Type t = const_cast<AliasDb::State&>(s_).containers.TypeOfObject(o.parent);
        while (t.kind() == TypeKind::kOptional) t = Type(t.element());
        if (t.kind() == TypeKind::kClass) return absl::StrCat(ObjectName(o.parent), ".", name);
      }
      return absl::StrCat(ObjectName(o.parent), "[", slot, "]");
    }
    default:
      if (o.def.valid() && s_.g.IsLive(o.def)) return absl::StrCat("%", s_.g.value(o.def).name);
      return absl::StrCat("object ", object);
  }
}

std::string Words::RefName(Ref r) const {
  return absl::StrCat(ObjectName(ObjectOf(r)), IsOld(r) ? " of an earlier iteration" : "");
}

std::vector<std::string> Words::Names(SetId set) const {
  std::vector<std::string> out;
  s_.sets.ForEach(set, [&](Ref r) { out.push_back(RefName(r)); });
  std::sort(out.begin(), out.end());
  return out;
}

std::string Words::DescribeNode(NodeId n) const {
  const Node& node = s_.g.node(n);
  std::string out = node.op.name();
  if (!node.outputs.empty()) absl::StrAppend(&out, " (%", s_.g.value(node.outputs[0]).name, ")");
  if (node.source != nullptr && !node.source->file.empty()) absl::StrAppend(&out, " at ", node.source->ToString());
  return out;
}

}  // namespace smelt::alias_internal
