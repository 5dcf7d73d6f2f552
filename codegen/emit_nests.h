// The loops over all dims but the vectorized one.
//
// Invariant: a body gets a position that has the indices of the loops around it, and never changes the position of the
// code after the loop.
#ifndef SMELT_CODEGEN_EMIT_NESTS_H_
#define SMELT_CODEGEN_EMIT_NESTS_H_

#include <functional>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

class NestEmitter {
  using Value = llvm::Value;

 public:
  NestEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words)
      : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), words_(words) {}

  // Loops over every parallel dim but the vectorized one, the tiles from the launch's first one to `end`: body(position,
  // tile). `begin` runs before tiles that differ in the last of these dims, at their common position.
  void ForTiles(const LoopContext& ctx, Value* end, const std::function<void(const LoopContext&, Value*)>& body,
                const std::function<void(const LoopContext&)>& begin = nullptr);
  // Loops over dims [from, to); `flush` every kSumBlock iterations of the innermost of them.
  void Nest(const LoopContext& ctx, int from, int to, const std::function<void(const LoopContext&)>& body,
            const std::function<void()>& flush);
  // Emits run(from, to) for all of [lo, hi), or for pieces of `block` with `flush` between them if there is something
  // to flush.
  void InBlocks(Value* lo, Value* hi, Value* block, const std::function<void(Value*, Value*)>& run,
                const std::function<void()>& flush);

 private:
  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_NESTS_H_
