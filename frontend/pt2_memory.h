// The memory of a value in a graph that was just read.
#ifndef SMELT_FRONTEND_PT2_MEMORY_H_
#define SMELT_FRONTEND_PT2_MEMORY_H_

#include "smelt/core/ir/graph.h"

namespace smelt {
namespace pt2_internal {

struct Memory {
  enum Kind { kUnknown, kOwn, kOperands } kind = kUnknown;
  ValueId operand = {};  // with kOperands: the one that the value is, or is a view of
};
Memory MemoryOf(const Graph& g, ValueId v);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_MEMORY_H_
