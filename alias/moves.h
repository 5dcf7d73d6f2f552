// Searches for dependences between nodes of one block: paths through uses and through the lists of accesses, not by
// walking the block. Private to alias/.
//
//   Moves moves(state);
//   moves.Path(n, m, /*forward=*/true, /*skip_direct=*/true, &why);  // n cannot move before m
//   moves.MovesAlone(n, m, /*forward=*/true);                        // nothing between them has to come along
//
// Reads must be recorded (State::ActivateReads). Invariant: the questions together take no more steps than building and
// they themselves have paid for, apart from a few for each. A question that would take more is answered as if the nodes
// depended on each other.
#ifndef SMELT_ALIAS_MOVES_H_
#define SMELT_ALIAS_MOVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "smelt/alias/access_index.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Moves {
 public:
  explicit Moves(AliasDb::State& s) : s_(s) {}

  // Building pays for the first questions.
  void PaidByBuilding(int64_t steps) { credit_ = kMovesPerBuild * steps; }
  // Returns whether `to` depends on `from` (forward: it stands behind it), or the reverse; with skip_direct, by way of
  // another node. *why gets the path.
  bool Path(NodeId from, NodeId to, bool forward, bool skip_direct, std::string* why);
  // Returns the nodes strictly between n and limit that n's move takes along, in program order. Takes as many steps as
  // there are dependences.
  std::vector<NodeId> Moving(NodeId n, NodeId limit, bool forward);
  // Returns whether these are none, as far as that has been paid for.
  bool MovesAlone(NodeId n, NodeId limit, bool forward);

 private:
  static constexpr int64_t kMovesPerBuild = 16;  // in times the steps of building

  struct Edge {
    NodeId to;
    std::string why;
  };
  // The results of one search for dependences, so that it looks at each node only once.
  struct Search {
    NodeId to;                                         // the node to reach, which is never `seen`
    absl::flat_hash_set<uint32_t> seen;                // nodes, by index
    absl::flat_hash_map<uint64_t, uint64_t> all_seen;  // list of accesses -> from which node on, by its order
    bool to_listed = false;
    absl::flat_hash_map<uint32_t, std::vector<Access>> of_to;  // by list: what `to` does, once it is listed
    bool only_first = false;                                   // one node other than `to` is enough
    int64_t left = INT64_MAX;                                  // steps that it may still take
    bool IsExhausted() const { return left < 0; }
  };
  int64_t BeginSearch(Search* search);               // returns the steps that it may take
  void EndSearch(const Search& search, int64_t of);  // of: what BeginSearch returned
  void Step(Search* search, int64_t count = 1);
  void Neighbours(NodeId n, NodeId limit, bool forward, bool want_why, Search* search, std::vector<Edge>* out);
  void AccessesOf(NodeId n, Search* search, absl::InlinedVector<NodeId, 8>* inside,
                  absl::InlinedVector<Access, 8>* out);
  void AddListsToLookAt(Search* search, absl::InlinedVector<Access, 8>* accesses);
  bool AnyHits(const Access& w, const Access& a, bool as_container, bool ignore_age);

  AliasDb::State& s_;
  int64_t credit_ = 0;  // the steps that are paid for
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_MOVES_H_
