// Kernels whose vectorized dim is parallel: loops over rows and, in each, over columns. It chooses among the forms of
// these loops: chunks of columns (emit_chunks.h), streams of rows (emit_streams.h), folded rows (emit_folds.h) and tiles
// of transposed operands (emit_tiles.h).
//
// Invariant: a choice that a launch makes depends on sizes and strides alone, never on data.
#ifndef SMELT_CODEGEN_EMIT_COLUMNS_H_
#define SMELT_CODEGEN_EMIT_COLUMNS_H_

#include <functional>
#include <vector>

#include "smelt/codegen/emit_chunks.h"
#include "smelt/codegen/emit_folds.h"
#include "smelt/codegen/emit_streams.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

class ColumnEmitter {
  using Value = llvm::Value;

 public:
  ColumnEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values);

  // Emits the body of the kernel; `fn` stands in it.
  void Emit();

 private:
  void ByColumns(const LoopContext& ctx);
  void Folded(const LoopContext& ctx);
  // Computes before tiles that differ only in the last of their dims what is the same for all of them.
  void BeginTiles(const LoopContext& ctx);
  // Emits the columns [lo, hi) of a row.
  void Row(const LoopContext& ctx, Value* lo, Value* hi);
  void Chunks(const LoopContext& ctx, Value* lo, Value* hi);
  // Emits n whole vectors from column `at` on, stored past the cache.
  void PastCache(const LoopContext& ctx, Value* at, int n);
  // Emits the elements of a row before its interior one by one, the interior in vectors without guards, and the
  // elements after it one by one; or the interior one by one, if it is little of the row; `otherwise` if neither is few.
  void EmitInterior(const LoopContext& ctx, Value* lo, Value* hi, const std::function<void()>& otherwise);
  // Emit the parts of a row whose interior is [first, end), if that is most of it or little of it.
  void EmitAround(const LoopContext& ctx, Value* lo, Value* first, Value* end, Value* hi);
  void EmitBeside(const LoopContext& ctx, Value* lo, Value* first, Value* end, Value* hi);
  void OneByOne(const LoopContext& ctx, Value* from, Value* to);
  // Emits [from, to) in vectors by the schedule of a part.
  void InVectors(const LoopContext& ctx, const Schedule& part, Value* from, Value* to);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  LoopParts parts_;
  ChunkEmitter chunks_;
  const Schedule stream_plan_;
  Values stream_values_;
  LoopParts stream_parts_;
  StreamEmitter streams_;
  FoldEmitter folds_;
  std::vector<int> outer_, all_;  // instructions of outer phases, and of all
  bool reduces_ = false;
  int copies_ = 1;
  std::vector<FarRows> far_rows_;
  LinesAhead lines_ahead_;
  // The values that are known before a row, and which of them are hoisted.
  std::vector<Value*> known_;
  std::vector<bool> ready_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_COLUMNS_H_
