// The loop over the vectorized dim.
//
// It is an unmasked main loop of U vectors and one masked body for the rest. The masked body has the same arithmetic, so
// a result never depends on the position of an element in a loop. If the arithmetic is long there is one body for both,
// and only memory is accessed in two ways.
//
// Invariants: each index of a range is processed once, and in order. A body gets a position with `chunk` set, and with
// `mask` and `count` where not all lanes are active.
#ifndef SMELT_CODEGEN_EMIT_LOOPS_H_
#define SMELT_CODEGEN_EMIT_LOOPS_H_

#include <functional>
#include <vector>

#include "smelt/codegen/emit_instrs.h"
#include "smelt/codegen/emit_nests.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

// The indices [lo, hi), `copies` vectors at a time. `stores`: the body stores to memory, so that it may pay to do so
// past the cache.
struct ChunkRange {
  llvm::Value *lo, *hi;
  int copies;
  bool stores;
};

// body(position, copies)
using ChunkBody = std::function<void(const LoopContext&, int)>;

// The decision of a launch to store non-temporally in a loop (null: it never does), and the number of elements before
// the first such store.
struct NonTemporalStart {
  llvm::Value *use = nullptr, *head = nullptr;
};

class LoopEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Value = llvm::Value;

 public:
  LoopEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values, InstrEmitter& instrs)
      : fn_(fn),
        b_(fn.b()),
        plan_(plan),
        s_(plan.spec),
        words_(words),
        values_(values),
        instrs_(instrs),
        nests_(fn, plan, words) {}

  // Computes those of `instrs` that are invariant in the loop before it; the loop skips them, and those that are
  // `ready`. Only if the loop runs at least once.
  void Hoist(const LoopContext& ctx, const std::vector<int>& instrs, const std::vector<bool>& ready);

  // Emits the loop, whose body has `instrs`. `flush` runs after every kSumBlock iterations of the main loop.
  void ChunkLoop(const LoopContext& ctx, const std::vector<int>& instrs, const ChunkRange& range, const ChunkBody& body,
                 const std::function<void()>& flush);
  // Emits one vector from `first` on, of which `count` lanes are active.
  void MaskedVector(const LoopContext& ctx, Value* first, Value* count,
                    const std::function<void(const LoopContext&)>& body);
  // Returns the position of a whole vector from index i on.
  LoopContext AtIndex(const LoopContext& ctx, Value* i) const;

  // Computes whether the loop over `instrs` that starts at lo may store non-temporally: if the launch has large outputs
  // whose addresses become aligned after the same number of elements.
  NonTemporalStart NonTemporalHead(const LoopContext& ctx, const std::vector<int>& instrs, Value* lo);

 private:
  // The parts of a loop. `at` is the variable of the next index.
  void MainLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at, const ChunkBody& body,
                const std::function<void()>& flush);
  void MaskedPart(const LoopContext& ctx, AllocaInst* at, Value* count, const ChunkBody& body);
  void RestLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at, bool by_vectors,
                const ChunkBody& body);
  void AlignedLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at, const NonTemporalStart& past_cache,
                   const ChunkBody& body, const std::function<void()>& flush);
  void OneBodyLoop(const LoopContext& ctx, const std::vector<int>& instrs, const ChunkRange& range,
                   const ChunkBody& body);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  InstrEmitter& instrs_;
  NestEmitter nests_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_LOOPS_H_
