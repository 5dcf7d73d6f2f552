// The contents of containers: the elements that they were made with, and those that were stored before a reader looks.
// Private to alias/.
//
//   Containers containers(state);
//   containers.ContentOfSet(lists, slot, reader);
//   containers.Reach(set, reader);  // the set and everything that its containers hold
//
// Invariants: a node that has looked into a container is one of its readers (readers.h). A summary holds all that its
// members hold, once FollowJoined has run.
#ifndef SMELT_ALIAS_CONTAINERS_H_
#define SMELT_ALIAS_CONTAINERS_H_

#include <cstdint>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/contents_table.h"
#include "smelt/alias/element_table.h"
#include "smelt/alias/readers.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

enum class ObjectKind : uint8_t;

// Slots of containers.
constexpr int32_t kAnySlot = -1;
constexpr int32_t kAppended = -2;  // a store beyond the elements the container was made with
constexpr int kMaxElementDepth = 12;

class Containers {
 public:
  using Elements = ElementTable::Elements;

  explicit Containers(AliasDb::State& s) : readers(s), s_(s) {}

  void Clear();
  Contents* FindContents(uint32_t container) { return contents.Find(container); }
  Contents& ContentsOf(uint32_t container) { return contents.Of(container); }

  // The elements that a reader finds. A reader that is not valid looks at any time.
  SetId ContentOf(Ref holder, int32_t slot, NodeId reader);
  SetId ContentOfSet(SetId s, int32_t slot, NodeId reader);
  SetId BaseContent(uint32_t object, int32_t slot, int32_t* count);  // made with; *count: how many, -1 if not known
  SetId Reach(SetId s, NodeId reader = NodeId());
  SetId OfType(SetId s, const Type& type);  // the part of the set that can be of the type
  // Called when the container's node has been evaluated: computes again what the container was made with.
  void MakeContents(uint32_t own, bool first, bool inputs_changed);
  void ContainerMade(uint32_t own, uint64_t made_of, bool inputs_changed);
  void RefreshPieces(uint32_t container);
  void FollowJoined();                // joined_containers
  bool KeepMore(uint32_t container);  // of a blurred one: false if its readers know all that it holds now

  uint32_t ElementObject(uint32_t parent, int32_t slot, bool tensor, bool container, ObjectKind kind);
  Type TypeOfElement(uint32_t container, int32_t slot);
  Type TypeOfObject(uint32_t object, int depth = 0);
  int64_t bytes() const;

  ContentsTable contents;
  ElementTable elements;
  Readers readers;
  std::vector<Ref> joined_containers;  // members of summaries that may hold more than is known there

 private:
  SetId ContentNow(Ref holder, int32_t slot, NodeId reader);  // of a container that is not a summary
  SetId MadeWith(uint32_t object, std::vector<SetId>* slots);
  void MakePartsOf(uint32_t own);
  SetId PieceStorage(uint32_t container, uint32_t piece);
  bool MayHoldOthers(uint32_t object, int32_t slot);
  SetId JoinedInputs(const Node& node);

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_CONTAINERS_H_
