// All phases of a kernel for some vectors of columns.
//
// Invariant: the accumulators of reductions are per lane and copy, and stay in registers.
#ifndef SMELT_CODEGEN_EMIT_CHUNKS_H_
#define SMELT_CODEGEN_EMIT_CHUNKS_H_

#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

class ChunkEmitter {
 public:
  ChunkEmitter(const Schedule& plan, LoopParts& parts) : plan_(plan), parts_(parts) {}

  // Emits the body of the loop over columns.
  void EmitChunk(const LoopContext& ctx, int copies);

 private:
  const Schedule& plan_;
  LoopParts& parts_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_CHUNKS_H_
