// The objects of a graph: tensor handles, containers and memory, and the summaries that stand for many of them. Private to
// alias/.
//
//   ObjectTable objects;
//   const uint32_t o = objects.New(ObjectKind::kTensor, v);
//   objects[o].tensor = true;
//   objects.Find(o);  // the summary that o is a member of, or o
//
// Invariants: the numbers of objects are dense, and a number is used again only after Release. An object is a member of
// at most one summary, and a summary of at most one other. Find takes O(1) amortized steps.
#ifndef SMELT_ALIAS_OBJECT_TABLE_H_
#define SMELT_ALIAS_OBJECT_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// The first objects. The others have numbers from kFirstObject on.
constexpr uint32_t kUnknown = 1, kRandom = 2, kWorld = 3, kFirstObject = 4;

enum class ObjectKind : uint8_t {
  kFree,
  kTensor,     // storage of its own (and others': a result that may be a view or a copy)
  kView,       // a handle over others' storages
  kContainer,  // made by the graph
  kInput,      // a top-level input
  kElement,    // inside a caller's container: parent, slot
  kPiece,      // inside a container that an operator made: parent, slot
  kConstant,
  kWeight,  // a weight's storage
  kUnknown,
  kSummary,
  kMade,    // all that code which is not seen makes in one run of its node: tensors, containers that hold any of it
  kRandom,  // pseudo locations: the generator, the world
  kWorld,
};

struct Object {
  ValueId def;          // the value whose node makes it
  SetId storage = 0;    // of tensors: storages (refs to objects)
  uint32_t parent = 0;  // of kElement, kPiece
  int32_t slot = -1;    // of those; -1: any. Of weights: the index
  uint32_t loop = 0;    // the innermost loop it is allocated in; an index into loops, 0: none
  // The summary it is a member of, or one that has become a member of that since: ObjectTable::Find shortens the way.
  mutable uint32_t group = 0;
  uint32_t recent_write = 0;  // the latest write recorded by way of it, if it is still one: most questions end there
  ObjectKind kind = ObjectKind::kFree;
  enum class Empty : uint8_t { kNotAsked, kNo, kYes };
  Empty empty = Empty::kNotAsked;  // whether its type says that it has no elements
  bool tensor = false, container = false;
  bool external = false;  // caller owned
  bool escaped = false;
};

class ObjectTable {
 public:
  struct Group {
    uint32_t members = 0;
    uint32_t first = 0;  // one of them
  };

  Object& operator[](uint32_t object) { return objects_[object]; }
  const Object& operator[](uint32_t object) const { return objects_[object]; }
  size_t size() const { return objects_.size(); }
  std::vector<Object>::const_iterator begin() const { return objects_.begin(); }
  std::vector<Object>::const_iterator end() const { return objects_.end(); }

  // Forgets all objects but the first ones, and makes room for about so many.
  void Reset(size_t expected);
  uint32_t New(ObjectKind kind, ValueId def);
  // The object is gone, and another may get its number if `again`.
  void Release(uint32_t object, bool again);
  void Trim();  // gives back memory that it holds for more objects

  // Returns the summary that the object is a member of, or the object itself.
  uint32_t Find(uint32_t object) const {
    while (objects_[object].group != 0) {
      const uint32_t group = objects_[object].group, further = objects_[group].group;
      if (further == 0) return group;
      object = objects_[object].group = further;
    }
    return object;
  }
  bool IsSummary(uint32_t object) const { return is_summary_[object]; }
  // The handles of one list of pieces are distinguished by index only if the index is known: a change of one's geometry
  // or storage counts for all.
  uint32_t HandleKey(uint32_t object) const {
    return objects_[object].kind == ObjectKind::kPiece ? objects_[object].parent : object;
  }

  // Returns whether the object is met for the first time since the last StartMarking.
  bool Mark(uint32_t object);
  void StartMarking();
  int64_t bytes() const;

  absl::flat_hash_map<uint32_t, Group> groups;  // summaries that are not part of another
  int64_t summarised = 0;                       // how often a set has become a summary

 private:
  std::vector<Object> objects_;
  std::vector<bool> is_summary_;  // by object: many are asked about at once
  std::vector<uint32_t> free_;
  std::vector<uint32_t> marks_;  // by object: the last marking that has met it
  uint32_t mark_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_OBJECT_TABLE_H_
