#include "smelt/frontend/call_structure_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace pt2_internal {
namespace {

using Kind = StructureNode::Kind;
using Key = StructureNode::Key;

// Reads PyTorch's TreeSpec: {"type", "context", "children_spec"}; type null is a leaf. `context` is mostly JSON as
// text.
class SpecReader {
 public:
  // Appends `spec` and what is below it. False: it is no TreeSpec.
  bool Read(const Json& spec, StructureNode node, int depth) {
    const Json *type = Find(spec, "type"), *children = Find(spec, "children_spec");
    if (type == nullptr || children == nullptr || !children->is_array() || depth >= kDeepestStructure) return false;
    if (type->is_null()) {
      nodes.push_back(std::move(node));
      return true;
    }
    if (!type->is_string()) return false;
    Describe(type->get<std::string>(), Find(spec, "context"), children->size(), node);
    std::vector<StructureNode> below = std::move(below_);
    node.children = static_cast<int>(below.size());
    nodes.push_back(std::move(node));
    for (size_t i = 0; i < below.size(); ++i) {
      if (below[i].kind == Kind::kNone) {
        nodes.push_back(std::move(below[i]));
      } else if (!Read((*children)[i], std::move(below[i]), depth + 1)) {
        return false;
      }
    }
    return true;
  }

  // Keys of a dictionary; nothing if some are neither strings nor integers.
  static std::optional<std::vector<StructureNode>> Keys(const Json& keys, size_t count) {
    if (!keys.is_array() || keys.size() != count) return std::nullopt;
    std::vector<StructureNode> out(count);
    for (size_t i = 0; i < count; ++i) {
      if (!keys[i].is_string() && !keys[i].is_number_integer()) return std::nullopt;
      const bool is_name = keys[i].is_string();
      out[i].key_kind = is_name ? Key::kName : Key::kNumber;
      out[i].key = is_name ? keys[i].get<std::string>() : absl::StrCat(keys[i].get<int64_t>());
    }
    return out;
  }

  Structure nodes;

 private:
  // Sets the kind of `node` and, in below_, the places of its children.
  void Describe(const std::string& type, const Json* context, size_t count, StructureNode& node) {
    below_.assign(count, StructureNode());
    if (type == "builtins.tuple" || type == "builtins.list" || type == "collections.deque") {
      node.kind = type == "builtins.tuple" ? Kind::kTuple : Kind::kList;
      return;
    }
    if (type == "collections.namedtuple") {
      node.kind = Kind::kNamedTuple;
      if (context != nullptr && context->is_string()) node.type = context->get<std::string>();
      return;
    }
    node.kind = Kind::kObject;
    node.type = type;
    if (context == nullptr) return;
    const Json parsed =
        context->is_string() ? ParseJson(context->get<std::string>(), "context").value_or(Json()) : *context;
    const Json* keys = &parsed;
    if (type == "collections.defaultdict") keys = Find(parsed, "dict_context");
    if (keys == nullptr) return;
    if (type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict") {
      if (auto found = Keys(*keys, count)) {
        node.kind = Kind::kDict;
        node.type.clear();
        below_ = *std::move(found);
      }
      return;
    }
    // A dataclass: the names of its leaves, and of fields that held None. Other classes: perhaps a list of names.
    const bool with_nones = keys->is_array() && keys->size() == 2 && (*keys)[0].is_array() && (*keys)[1].is_array();
    auto found = Keys(with_nones ? (*keys)[0] : *keys, count);
    if (!found || !AreNames(*found)) return;
    if (with_nones) {
      auto nones = Keys((*keys)[1], (*keys)[1].size());
      if (!nones || !AreNames(*nones)) return;
      for (StructureNode& none : *nones) none.kind = Kind::kNone;
      found->insert(found->end(), nones->begin(), nones->end());
    }
    below_ = *std::move(found);
  }
  static bool AreNames(const std::vector<StructureNode>& nodes) {
    return std::all_of(nodes.begin(), nodes.end(), [](const StructureNode& n) { return n.key_kind == Key::kName; });
  }

  std::vector<StructureNode> below_;
};

std::optional<Json> SpecOf(const Json& signature, const char* which) {
  const Json* text = Find(signature, which);
  if (text == nullptr || !text->is_string()) return std::nullopt;
  absl::StatusOr<Json> spec = ParseJson(text->get<std::string>(), which);
  // [its version, the spec]
  if (!spec.ok() || !spec->is_array() || spec->size() != 2) return std::nullopt;
  return std::move((*spec)[1]);
}

Structure Results(const Json& signature) {
  const std::optional<Json> spec = SpecOf(signature, "out_spec");
  SpecReader reader;
  if (!spec || !reader.Read(*spec, StructureNode(), 0)) return {};
  return std::move(reader.nodes);
}

Structure Arguments(const Json& signature) {
  const std::optional<Json> spec = SpecOf(signature, "in_spec");
  const Json* names = Find(signature, "forward_arg_names");
  if (!spec || names == nullptr || !names->is_array()) return {};
  // A tuple of what is given by place and a dict of what is given by name.
  const Json* both = Find(*spec, "children_spec");
  if (both == nullptr || !both->is_array() || both->size() != 2) return {};
  const Json *by_place = Find((*both)[0], "children_spec"), *by_name = Find((*both)[1], "children_spec");
  const Json* context = Find((*both)[1], "context");
  if (by_place == nullptr || !by_place->is_array() || by_name == nullptr || !by_name->is_array() ||
      by_place->size() > names->size() || context == nullptr || !context->is_string()) {
    return {};
  }
  const absl::StatusOr<Json> keys = ParseJson(context->get<std::string>(), "keys");
  const auto keywords = keys.ok() ? SpecReader::Keys(*keys, by_name->size()) : std::nullopt;
  if (!keywords) return {};
  SpecReader reader;
  StructureNode root;
  root.kind = Kind::kTuple;
  root.children = static_cast<int>(by_place->size() + by_name->size());
  reader.nodes.push_back(root);
  for (size_t i = 0; i < by_place->size() + by_name->size(); ++i) {
    const bool named = i >= by_place->size();
    StructureNode node = named ? (*keywords)[i - by_place->size()] : StructureNode();
    if (!named) {
      if (!(*names)[i].is_string()) return {};
      node.key = (*names)[i].get<std::string>();
    }
    node.key_kind = Key::kName;
    node.by_name = named;
    if (!reader.Read(named ? (*by_name)[i - by_place->size()] : (*by_place)[i], std::move(node), 1)) return {};
  }
  return std::move(reader.nodes);
}

}  // namespace

CallStructure ReadCallStructure(const Json& graph_module) {
  const Json* calls = Find(graph_module, "module_call_graph");
  if (calls == nullptr || !calls->is_array()) return {};
  for (const Json& call : *calls) {
    const Json *name = Find(call, "fqn"), *signature = Find(call, "signature");
    if (name == nullptr || !name->is_string() || !name->get<std::string>().empty() || signature == nullptr) continue;
    return {Arguments(*signature), Results(*signature)};
  }
  return {};
}

std::vector<ArgumentPath> ArgumentPaths(const Structure& arguments) {
  struct Level {
    ArgumentPath path;
    bool known = true;  // Python's brackets lead to its children
    int children = 0, next = 0;
  };
  std::vector<ArgumentPath> out;
  std::vector<Level> levels;
  for (const StructureNode& node : arguments) {
    Level level{{}, true, node.children, 0};
    if (!levels.empty()) {
      Level& above = levels.back();
      level.path = above.path;
      level.path.push_back(node.key_kind == Key::kIndex ? absl::StrCat(above.next) : node.key);
      level.known = above.known;
      ++above.next;
    }
    if (node.kind == Kind::kLeaf) out.push_back(level.known ? level.path : ArgumentPath());
    level.known = level.known && node.kind != Kind::kObject;
    if (node.children > 0) levels.push_back(std::move(level));
    while (!levels.empty() && levels.back().next == levels.back().children) levels.pop_back();
  }
  return out;
}

}  // namespace pt2_internal
}  // namespace smelt
