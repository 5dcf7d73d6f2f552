#include "smelt/frontend/argument_paths.h"

#include "absl/strings/str_cat.h"

namespace smelt {
namespace pt2_internal {
namespace {

// Deeper than the arguments of any program.
constexpr int kDeepest = 100;

// PyTorch's TreeSpec, as text: {"type", "context", "children_spec"}; type null is a leaf.
class SpecReader {
 public:
  // Returns false if the JSON is not a spec.
  bool Read(const Json& spec, const ArgumentPath& at, bool known, int depth) {
    const Json *type = Find(spec, "type"), *children = Find(spec, "children_spec");
    if (type == nullptr || children == nullptr || !children->is_array() || depth > kDeepest) return false;
    if (type->is_null()) {
      paths.push_back(known ? at : ArgumentPath());
      return true;
    }
    if (!type->is_string()) return false;
    const std::optional<std::vector<std::string>> names = NamesOf(type->get<std::string>(), spec, children->size());
    for (size_t i = 0; i < children->size(); ++i) {
      ArgumentPath child = at;
      if (names) child.push_back((*names)[i]);
      if (!Read((*children)[i], child, known && names, depth + 1)) return false;
    }
    return true;
  }

  // Returns the text in Python's brackets for each child.
  static std::optional<std::vector<std::string>> NamesOf(const std::string& type, const Json& spec, size_t count) {
    std::vector<std::string> names;
    if (type == "builtins.tuple" || type == "builtins.list" || type == "collections.namedtuple") {
      for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat(i));
      return names;
    }
    if (type != "builtins.dict" && type != "collections.OrderedDict") return std::nullopt;
    const Json* context = Find(spec, "context");
    if (context == nullptr || !context->is_string()) return std::nullopt;
    const absl::StatusOr<Json> keys = ParseJson(context->get<std::string>(), "keys");
    if (!keys.ok() || !keys->is_array() || keys->size() != count) return std::nullopt;
    for (const Json& key : *keys) {
      if (!key.is_string() && !key.is_number_integer()) return std::nullopt;
      names.push_back(key.is_string() ? key.get<std::string>() : absl::StrCat(key.get<int64_t>()));
    }
    return names;
  }

  std::vector<ArgumentPath> paths;
};

}  // namespace

std::optional<std::vector<ArgumentPath>> ArgumentPaths(const Json& graph_module) {
  const Json* calls = Find(graph_module, "module_call_graph");
  if (calls == nullptr || !calls->is_array()) return std::nullopt;
  for (const Json& call : *calls) {
    const Json *name = Find(call, "fqn"), *signature = Find(call, "signature");
    if (name == nullptr || !name->is_string() || !name->get<std::string>().empty() || signature == nullptr) continue;
    const Json *text = Find(*signature, "in_spec"), *arguments = Find(*signature, "forward_arg_names");
    if (text == nullptr || !text->is_string() || arguments == nullptr || !arguments->is_array()) return std::nullopt;
    const absl::StatusOr<Json> in_spec = ParseJson(text->get<std::string>(), "in_spec");
    // [its version, a tuple of the positional arguments and a dict of the keyword arguments]
    if (!in_spec.ok() || !in_spec->is_array() || in_spec->size() != 2) return std::nullopt;
    const Json* both = Find((*in_spec)[1], "children_spec");
    if (both == nullptr || !both->is_array() || both->size() != 2) return std::nullopt;
    const Json *by_place = Find((*both)[0], "children_spec"), *by_name = Find((*both)[1], "children_spec");
    if (by_place == nullptr || !by_place->is_array() || by_name == nullptr || !by_name->is_array() ||
        by_place->size() > arguments->size()) {
      return std::nullopt;
    }
    SpecReader reader;
    for (size_t i = 0; i < by_place->size(); ++i) {
      if (!(*arguments)[i].is_string()) return std::nullopt;
      if (!reader.Read((*by_place)[i], {(*arguments)[i].get<std::string>()}, true, 0)) return std::nullopt;
    }
    const auto names = SpecReader::NamesOf("builtins.dict", (*both)[1], by_name->size());
    if (!names) return std::nullopt;
    for (size_t i = 0; i < by_name->size(); ++i) {
      if (!reader.Read((*by_name)[i], {(*names)[i]}, true, 0)) return std::nullopt;
    }
    return std::move(reader.paths);
  }
  return std::nullopt;
}

}  // namespace pt2_internal
}  // namespace smelt
