// Prefetches of what a loop will read: later lines of the same rows, and later rows.
//
// Invariant: a prefetch may name memory that does not exist, and never changes a result.
#ifndef SMELT_CODEGEN_EMIT_PREFETCHES_H_
#define SMELT_CODEGEN_EMIT_PREFETCHES_H_

#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

// For a param: whether its rows are far apart in memory, and the distances of the first and the last byte to prefetch.
struct FarRows {
  int param;
  llvm::Value *are_far, *first, *last;
};

// For a loop over columns: the prefetched params and the distances in bytes; whether all of it is contiguous (null: it
// does not matter); whether to prefetch at all (null: always).
struct LinesAhead {
  struct Line {
    int param;
    llvm::Value* distance;
  };
  std::vector<Line> lines;
  llvm::Value *in_one_piece = nullptr, *asks = nullptr;
};

class PrefetchEmitter {
  using Value = llvm::Value;

 public:
  // Made where `fn` stands before all loops.
  PrefetchEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words);

  std::vector<FarRows> FindFarRows();
  void PrefetchFarRows(const LoopContext& ctx, const std::vector<FarRows>& far_rows);

  LinesAhead FindLinesAhead();
  // Prefetches in a loop over columns that stores non-temporally.
  void PrefetchAhead(const LoopContext& ctx, const LinesAhead& ahead, const std::vector<int>& instrs, int copies);

  // Returns for each param the address of the row to prefetch, `rows` further on (null: the next row).
  std::vector<Value*> FindRowsAhead(const LoopContext& ctx, Value* rows);
  void PrefetchRows(const LoopContext& ctx, const std::vector<Value*>& rows_ahead, int copies);

 private:
  // Returns whether the elements lie apart and the machine's own prefetchers do not keep up with them.
  bool AsksAlways(int param) const { return plan_.features.avx512 && plan_.LinesApart(param) > 1; }
  // In bytes.
  Value* DistanceAhead(int param, int row, Value* rows);
  // Prefetches the lines from `at` on that this many copies of a vector read.
  void PrefetchLines(const LoopContext& ctx, int param, Value* at, int copies, bool nearest);

  // Prefetches as many lines for the next buffer of a param with Schedule::fills_next.
  void PrefetchNextRows(const LoopContext& ctx, int param, int copies);

  // The line to prefetch next, as a number, and those left in its column.
  struct NextLine {
    llvm::AllocaInst *address = nullptr, *left = nullptr;
  };

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  std::vector<NextLine> next_lines_;  // by param
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_PREFETCHES_H_
