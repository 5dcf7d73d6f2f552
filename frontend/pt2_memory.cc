#include "smelt/frontend/pt2_memory.h"

#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"

namespace smelt {
namespace pt2_internal {

ValueId OwnerOfMemory(const Graph& g, ValueId v) {
  while (true) {
    const StorageSource source = StorageStep(g, v);
    if (source.kind == StorageSource::kOwn) return v;
    if (source.kind == StorageSource::kUnknown) {
      const OpName op = g.node(g.value(v).def).op;
      return op == op::kSmeltCond || op == op::kSmeltWhileLoop ? v : ValueId();
    }
    v = source.operand;
  }
}

}  // namespace pt2_internal
}  // namespace smelt
