// How a caller nests what a model takes and returns: Python's tuples, lists and dictionaries around the flat lists of
// arguments and results that a graph and a bundle have.
//
//   {"logits": a, "aux": (b, c)}   is   dict of 2 { logits: leaf, aux: tuple of 2 { 0: leaf, 1: leaf } }
//
// The leaves, in order, are the arguments or results. Of arguments the root is a tuple whose children have the names of
// the function's parameters.
#ifndef SMELT_CORE_CONVENTION_CALL_STRUCTURE_H_
#define SMELT_CORE_CONVENTION_CALL_STRUCTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace smelt {

struct StructureNode {
  enum class Kind : uint8_t {
    kLeaf = 0,
    kTuple = 1,
    kList = 2,
    kDict = 3,
    kNamedTuple = 4,  // the archive names the class, not its fields
    kObject = 5,      // a class whose parts somebody registered; its fields have names where the archive tells them
    kNone = 6,        // a field of an object that held None and is no leaf
  };
  // Its place in the node above.
  enum class Key : uint8_t {
    kIndex = 0,   // its position; `key` is empty
    kName = 1,    // a string
    kNumber = 2,  // a dictionary's key that is an integer, in decimal
  };
  Kind kind = Kind::kLeaf;
  Key key_kind = Key::kIndex;
  std::string key;
  bool by_name = false;  // an argument that the exported example gave by name
  std::string type;      // of kNamedTuple and kObject: what Python calls the class
  int children = 0;
};

// Every node before its children. Empty: nobody knows, so the values stand in a flat tuple.
using Structure = std::vector<StructureNode>;

struct CallStructure {
  Structure arguments, results;
};

// No class nests deeper than this.
inline constexpr int kDeepestStructure = 100;

// Checks that it is one tree with so many leaves. The error names the fault.
absl::Status CheckStructure(absl::Span<const StructureNode> structure, size_t leaves);

struct LeafPath {
  std::string text;        // "aux.0"; "" for a lone value
  bool has_names = false;  // some key on the way is a name
};
// Returns the path of each leaf, in order. The structure must be a tree.
std::vector<LeafPath> LeafPaths(absl::Span<const StructureNode> structure);

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_CALL_STRUCTURE_H_
