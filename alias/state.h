// The inside of AliasDb: its parts, and what they have in common. Private to alias/.
//
//   AliasDb::State s(graph, options);
//   s.solver.Build();
//   s.records.PointsTo(v);
//
// Each part has its own header, which says what holds between two questions. Parts refer to each other through the state.
#ifndef SMELT_ALIAS_STATE_H_
#define SMELT_ALIAS_STATE_H_

#include <cstdint>

#include "smelt/alias/absence.h"
#include "smelt/alias/access_lists.h"
#include "smelt/alias/access_recorder.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/block_tree.h"
#include "smelt/alias/budget.h"
#include "smelt/alias/containers.h"
#include "smelt/alias/evaluator.h"
#include "smelt/alias/geometries.h"
#include "smelt/alias/loop_table.h"
#include "smelt/alias/memory.h"
#include "smelt/alias/moves.h"
#include "smelt/alias/node_effects.h"
#include "smelt/alias/numbers.h"
#include "smelt/alias/object_table.h"
#include "smelt/alias/overlaps.h"
#include "smelt/alias/reachability.h"
#include "smelt/alias/records.h"
#include "smelt/alias/reshapes.h"
#include "smelt/alias/same_handles.h"
#include "smelt/alias/set_pool.h"
#include "smelt/alias/solver.h"
#include "smelt/alias/stores.h"
#include "smelt/alias/types.h"
#include "smelt/alias/words.h"
#include "smelt/alias/work_list.h"
#include "smelt/alias/write_queries.h"

namespace smelt {
namespace alias_internal {

// The changes since the caches of questions were filled.
struct Changes {
  bool dirty = false;     // any fact
  bool geometry = false;  // the bytes that handles cover
  bool reach = false;     // the objects that values reach
  uint64_t edits = 1;     // how many there have been in all
};

// The questions that others than building ask.
struct Queries {
  explicit Queries(AliasDb::State& s) : overlaps(s), reachability(s), absence(s), written(s), moves(s) {}
  Overlaps overlaps;
  Reachability reachability;
  Absence absence;
  WriteQueries written;
  Moves moves;
};

}  // namespace alias_internal

struct AliasDb::State {
  using SetId = alias_internal::SetId;
  using Ref = alias_internal::Ref;
  using Object = alias_internal::Object;
  using Access = alias_internal::Access;
  using Kind = alias_internal::ObjectKind;

  State(Graph& graph, Options o)
      : g(graph),
        options(o),
        tree(graph),
        records(graph, tree),
        loops(graph, tree),
        accesses(*this, tree),
        budget(graph) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int64_t AllSteps() const {
    return steps + tree.steps() + sets.steps() + accesses.writes.steps() + accesses.reads.steps();
  }
  int64_t Bytes() const;
  void CollectSets();  // nothing but the state may hold a set then
  void DropCaches();   // those that the changes concern
  void PaidByEdit();

  Graph& g;
  Options options;
  int64_t steps = 0;
  // The facts.
  alias_internal::BlockTree tree;
  alias_internal::SetPool sets;
  alias_internal::ObjectTable objects;
  alias_internal::Records records;
  alias_internal::LoopTable loops;
  alias_internal::AccessLists accesses;
  alias_internal::Changes changes;
  alias_internal::Budget budget;
  // Evaluation.
  alias_internal::Effects effects{*this};
  alias_internal::Memory memory{*this};
  alias_internal::Containers containers{*this};
  alias_internal::Stores stores{*this};
  alias_internal::Reshapes reshapes{*this};
  alias_internal::AccessRecorder recorder{*this};
  alias_internal::Evaluator evaluator{*this};
  alias_internal::WorkList work{*this};
  alias_internal::Solver solver{*this};
  // Questions, those of the evaluation included.
  alias_internal::Words words{*this};
  alias_internal::Numbers numbers{*this};
  alias_internal::SameHandles same{*this};
  alias_internal::Geometries geometries{*this};
  alias_internal::Queries queries{*this};
};

}  // namespace smelt

#endif  // SMELT_ALIAS_STATE_H_
