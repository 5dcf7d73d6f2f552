#include "smelt/codegen/emit_chunks.h"

#include <functional>

namespace smelt {

void ChunkEmitter::EmitChunk(const LoopContext& ctx, int copies) {
  const KernelSpec& spec = plan_.spec;
  for (const KernelPhase& phase : spec.phases) {
    if (!phase.inner) {
      parts_.instrs.EmitInstrs(ctx, phase.instrs, copies);
      continue;
    }
    parts_.reductions.StartReductions(ctx, phase.instrs, copies);
    std::function<void()> flush;
    if (plan_.HasSums(phase.instrs)) flush = [&] { parts_.reductions.FlushSums(ctx, phase.instrs, copies); };
    parts_.nests.Nest(
        ctx, spec.parallel_rank, spec.rank(),
        [&](const LoopContext& inner) { parts_.instrs.EmitInstrs(inner, phase.instrs, copies); }, flush);
    parts_.reductions.FinishReductions(ctx, phase.instrs, copies);
  }
}

}  // namespace smelt
