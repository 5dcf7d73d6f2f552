// The parts of the reader of one archive that its nodes need: one of each.
#ifndef SMELT_FRONTEND_PT2_PARTS_H_
#define SMELT_FRONTEND_PT2_PARTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/pt2_arguments.h"
#include "smelt/frontend/pt2_assignments.h"
#include "smelt/frontend/pt2_autocast.h"
#include "smelt/frontend/pt2_counts.h"
#include "smelt/frontend/pt2_inserter.h"
#include "smelt/frontend/pt2_results.h"
#include "smelt/frontend/pt2_sources.h"
#include "smelt/frontend/pt2_types.h"

namespace smelt {
namespace pt2_internal {

struct Pt2Parts {
  // Both must outlive this.
  Pt2Parts(Graph& g, const Pt2Options& options)
      : g(g),
        options(options),
        insert(g),
        types(g, uint16),
        arguments(g, insert),
        results(g, insert, types),
        autocast(g, insert),
        assignments(g) {}

  Graph& g;
  const Pt2Options& options;
  Pt2Sources sources;
  NodeInserter insert;
  Uint16Values uint16;
  Pt2Types types;
  Pt2Arguments arguments;
  Pt2Results results;
  Pt2Autocast autocast;
  Pt2Assignments assignments;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_PARTS_H_
