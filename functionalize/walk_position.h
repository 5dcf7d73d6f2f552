// Where functionalization's walk over the program is. What it inserts takes its source location from here.
#ifndef SMELT_FUNCTIONALIZE_WALK_POSITION_H_
#define SMELT_FUNCTIONALIZE_WALK_POSITION_H_

#include <memory>

#include "smelt/core/ir/graph.h"

namespace smelt {

struct WalkPosition {
  int block_depth = 0;  // of branches and loops around the node
  std::shared_ptr<const SourceLocation> source;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_WALK_POSITION_H_
