#include "smelt/core/convention/call_structure.h"

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

// A hostile file may have a long key above many leaves, and each has it in its path.
constexpr size_t kMostPathText = 1 << 20, kMostPathTextPerLeaf = 256;

}  // namespace

absl::Status CheckStructure(absl::Span<const StructureNode> structure, size_t leaves) {
  using Kind = StructureNode::Kind;
  std::vector<int64_t> missing;  // children, of each node on the way to this one
  std::vector<size_t> lengths;   // of their paths, about
  size_t found = 0, text = 0;
  for (size_t i = 0; i < structure.size(); ++i) {
    const StructureNode& node = structure[i];
    if (i > 0 && missing.empty()) return absl::InvalidArgumentError("it is more than one tree");
    if (!missing.empty()) --missing.back();
    if (node.children < 0)
      return absl::InvalidArgumentError(absl::StrCat("node ", i, " has ", node.children, " children"));
    if (node.kind == Kind::kLeaf || node.kind == Kind::kNone) {
      if (node.children > 0) return absl::InvalidArgumentError(absl::StrCat("node ", i, " is a leaf and has children"));
      if (node.kind == Kind::kLeaf) ++found;
    }
    const size_t length = (lengths.empty() ? 0 : lengths.back()) + node.key.size() + 8;
    if (node.kind == Kind::kLeaf) text += length;
    if (text > kMostPathText + kMostPathTextPerLeaf * found) return absl::InvalidArgumentError("its keys are too long");
    if (node.children > 0) {
      missing.push_back(node.children);
      lengths.push_back(length);
    }
    if (missing.size() > kDeepestStructure) return absl::InvalidArgumentError("it is too deep");
    while (!missing.empty() && missing.back() == 0) missing.pop_back(), lengths.pop_back();
  }
  if (!missing.empty()) return absl::InvalidArgumentError("it ends before its last node");
  if (found == leaves) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it has ", found, " leaves for ", leaves, " values"));
}

std::vector<LeafPath> LeafPaths(absl::Span<const StructureNode> structure) {
  struct Level {
    LeafPath path;
    int children = 0, next = 0;
  };
  std::vector<LeafPath> out;
  std::vector<Level> levels;
  for (const StructureNode& node : structure) {
    LeafPath path;
    if (!levels.empty()) {
      Level& above = levels.back();
      const bool is_index = node.key_kind == StructureNode::Key::kIndex;
      path.text = absl::StrCat(above.path.text, above.path.text.empty() ? "" : ".",
                               is_index ? absl::StrCat(above.next) : node.key);
      path.has_names = above.path.has_names || node.key_kind == StructureNode::Key::kName;
      ++above.next;
    }
    if (node.kind == StructureNode::Kind::kLeaf) out.push_back(path);
    if (node.children > 0) levels.push_back({std::move(path), node.children, 0});
    while (!levels.empty() && levels.back().next == levels.back().children) levels.pop_back();
  }
  return out;
}

}  // namespace smelt
