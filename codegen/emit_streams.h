// Reductions over many rows while the columns are vectorized. Memory is read row after row in its order, and buffers
// keep the accumulators of a tile of columns and the values that phases pass to later ones. (With few rows, one chunk of
// columns at a time runs through all phases, with accumulators in registers: emit_chunks.h.)
//
// Invariants: buffers are longer than tiles, so that whole vectors are read and written in them. Between the loops over
// columns the accumulators are in buffers; within one, in the variables of ReductionEmitter.
#ifndef SMELT_CODEGEN_EMIT_STREAMS_H_
#define SMELT_CODEGEN_EMIT_STREAMS_H_

#include <functional>
#include <map>
#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

class StreamEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // Allocates the buffers of kept values, if the schedule has such loops.
  StreamEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values, LoopParts& parts);

  // Computes whether there are so many rows that this pays.
  Value* HasManyRows();
  // Emits all phases for the columns [lo, hi).
  void StreamColumns(const LoopContext& ctx, Value* lo, Value* hi);

 private:
  using Body = std::function<void(const LoopContext&)>;

  // The buffers of a reduction's accumulators; null: it has none of that kind.
  struct Buffers {
    AllocaInst *acc = nullptr, *index = nullptr, *wide = nullptr, *error = nullptr;
  };
  // Rows of the innermost reduced dim from `first` on that are taken at once, `vectors` vectors of each. Where
  // `is_last`, sums go on to their second level (null: they do not).
  struct RowGroup {
    int rows, vectors;
    Value *first, *is_last;
  };

  AllocaInst* Buffer(Type* element);
  AllocaInst* BufferLike(AllocaInst* variable);  // bools are kept as bytes
  // Returns the place in a buffer of column `at`.
  Value* BufferPlace(AllocaInst* buffer, Value* at);
  Value* LoadBuffer(AllocaInst* buffer, Value* at);
  void StoreBuffer(AllocaInst* buffer, Value* at, Value* v);
  // Calls body(place) for each vector of the tile's buffers.
  void ForBuffers(const std::function<void(Value*)>& body);

  // Keep the values of `instrs` for later phases; load those of earlier ones that they need.
  void Keep(const LoopContext& ctx, const std::vector<int>& instrs);
  void LoadKept(const LoopContext& ctx, const std::vector<int>& instrs);

  void StreamPhase(const LoopContext& ctx, const std::vector<int>& instrs);
  // The same for a phase whose sums are not used in columns where instruction `known` is true: if it is in all columns of
  // the tile, the sums are 0.
  void StreamPhaseUnless(const LoopContext& ctx, const std::vector<int>& instrs, int known);
  void MakeBuffers(const std::vector<int>& instrs);
  // Copies between the buffers of `n` vectors from `at` on and their variables: accumulators (`accs`), and the second
  // level of sums (`sums`). one(buffer, variable, place)
  void ForEach(const std::vector<int>& instrs, Value* at, int n, bool accs, bool sums,
               const std::function<void(AllocaInst*, AllocaInst*, Value*)>& one);
  void Save(const std::vector<int>& instrs, Value* at, int n, bool sums);
  void Restore(const std::vector<int>& instrs, Value* at, int n, bool accs, bool sums);
  // Adds the sums of columns from `from` on to their second level.
  void FlushTile(const LoopContext& ctx, const std::vector<int>& instrs, Value* from);
  // Emits a group of rows in a loop over columns: loop(position, body).
  void EmitGroup(const LoopContext& ctx, const std::vector<int>& instrs, const RowGroup& group,
                 const std::function<void(const LoopContext&, const Body&)>& loop);
  struct SingleRows {
    bool stores, prefetches;
  };
  void EmitSingleRows(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end,
                      const SingleRows& rows);
  // Computes whether rows that are read take more memory than the caches of a core hold.
  Value* AreFar(const std::vector<int>& instrs);
  // Prefetches what a later row reads in the vector of `ctx`.
  void PrefetchRow(const LoopContext& ctx, const std::vector<int>& instrs);
  // Emit the rows [begin, end): one at a time, or several over whole vectors of columns and, under masks, the columns
  // that are left; then the rows that are left.
  void EmitSingleRows(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end, bool stores);
  void EmitRowGroups(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end, int rows,
                     int vectors);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  LoopParts& parts_;
  std::vector<AllocaInst*> kept_;   // by instruction: the buffer of its value; null
  std::map<int, Buffers> buffers_;  // by instruction
  std::vector<bool> ready_;         // hoisted by earlier phases
  std::vector<Value*> known_;       // values from before the phase
  Value *tile_begin_ = nullptr, *tile_end_ = nullptr;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_STREAMS_H_
