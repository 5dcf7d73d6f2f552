// Solves the constraints over values: everything in program order, then again where something changed. Private to alias/.
//
//   Solver solver(state);
//   solver.Build();
//   work.Push(n);
//   solver.Flush();  // until no work is pending
//
// Invariant: when no work is pending, each value holds at least what its node gives it. While sets only grow (monotone)
// each value changes at most as often as its bound allows. What an edit cannot take back within its budget stays until
// everything is built again.
#ifndef SMELT_ALIAS_SOLVER_H_
#define SMELT_ALIAS_SOLVER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/copies.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

struct NodeRecord;

class Solver {
 public:
  explicit Solver(AliasDb::State& s) : copies(s), s_(s) {}

  void Build();
  void Flush();
  void Propagate();  // until the queue is empty
  void Evaluate(NodeId n, bool first);
  void Forget(NodeId n, NodeRecord& r, bool push);  // its accesses and stores; push: who reads the containers
  void Spend(int64_t steps);                        // for an edit; nothing has to be paid for while sets only grow

  bool needs_rebuild = false;
  bool monotone = false;   // sets only grow: while building, and while a loop is solved again
  bool building = false;   // from nothing
  bool walking = false;    // while building: some of the text has not been walked yet
  uint32_t walk_loop = 0;  // the loop around the node at hand; UINT32_MAX: it has to be looked for
  int64_t rebuilds = 0;
  Copies copies;

 private:
  // A node whose blocks are being walked.
  struct Walking {
    NodeId n;
    uint32_t from, saved_loop;
    bool again, waits;  // it is evaluated after its blocks; until then nothing inside need ask for it
    size_t block;       // the next of its blocks
    int64_t steps;      // so many before it
    NodeId at;          // the next node of the one before
  };
  void Reset();
  // Evaluates n and what is inside it, in program order.
  void Walk(NodeId n);
  void WalkBlock(BlockId b);
  void Enter(NodeId n, std::vector<Walking>* stack);
  void Enter(BlockId b);
  void Leave(const Walking& at);
  // Solves an outermost loop again from nothing: members that only its own back edges kept alive disappear.
  void ResolveLoop(NodeId loop);
  void WantRebuild();

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_SOLVER_H_
