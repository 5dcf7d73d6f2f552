// The decisions about a kernel for a CPU that follow from its spec and the instruction set: which loop is vectorized,
// how wide, what its instructions cost, and which of the special forms of loops it may take. Contains no LLVM types.
//
//   const Schedule plan = Schedule::Of(spec, features);
//   plan.columns;                                           // the vectorized dim is parallel
//   plan.Copies(plan.spec.phases[0].instrs, /*reduces=*/false);  // vectors that an iteration processes
//
// There are two shapes, depending on the vectorized dim:
//
//   columns: it is the last parallel dim. A chunk of U vectors of W points runs all phases; reductions
//            accumulate per lane. With many rows, memory is read row after row (emit_streams.h); with
//            few columns, several rows are in one vector (emit_folds.h).
//   rows:    it is the last reduction dim (or there is none). Outer phases are scalar code; the innermost
//            loop of an inner phase runs over vectors, with U accumulators that are combined when the
//            phase ends.
//
// Invariants: a schedule never changes once it is made, and equal specs and features give equal schedules. Vectors are
// indexed by instruction, param or phase of `spec`, as each says.
#ifndef SMELT_CODEGEN_SCHEDULE_H_
#define SMELT_CODEGEN_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/codegen/cpu_features.h"
#include "smelt/codegen/interior.h"
#include "smelt/codegen/maxima.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The size of a cache line, in bytes.
constexpr int64_t kLine = 64;
// After this number of iterations the accumulators of a floating-point sum are added to a second level, in float64 (for
// float64: with the rounding errors of the additions). This bounds the error of a sum of any length by about this many
// roundings; eager PyTorch's sums have as many.
constexpr int kSumBlock = 16;

inline bool IsApart(StrideClass c) { return c == StrideClass::kAny || ElementsApart(c) >= 2; }

inline bool IsSumLike(const KernelInstr& in) {
  return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(in.type);
}

// Transposed operands: tiles of rows and columns, see emit_tiles.h.
struct TilePlan {
  std::vector<bool> is_tiled;  // params that are read and written through a tile, which is transposed
  bool some = false;
  int64_t rows = 0, columns = 0;  // of a tile
};

// Reductions over many rows of columns, see emit_streams.h.
struct StreamPlan {
  bool possible = false;
  int64_t columns = 0;        // of a tile, so that all buffers stay in the nearest cache
  std::vector<bool> is_kept;  // instructions whose values later phases take from a buffer
};

// Reductions over rows of few columns, see emit_folds.h.
struct FoldPlan {
  bool possible = false;
  std::vector<bool> in_rows;  // of inner phases: values that differ per row of the innermost reduced dim
};

// Kernels in which each row is one tile, see emit_rows.h. "Loops" are those of inner phases that always run.
struct RowPlan {
  int last = 0;                  // the phase of the last loop
  bool in_turns = false;         // the last loop runs one row behind the others
  bool prefetches_late = false;  // the next row is prefetched as this one is written
  int prefetch_loop = 0;         // the loop that prefetches later rows: the second or the only one, or the last
  int64_t bytes_read = 0;        // per element
};

// Transposed operands of results that are too large for the cache, see emit_blocks.h. Sizes are in elements. A square
// is transposed in registers, and its rows and columns are whole cache lines.
struct BlockShape {
  int64_t rows, columns, square_rows, square_columns;
};

// The approximate number of machine instructions per vector, in all and in sequence.
struct InstrCost {
  int all = 0, path = 0;
};

struct Schedule {
  static Schedule Of(const KernelSpec& spec, const CpuFeatures& features);
  // Return the schedule of the loop in the interior, or of those outside of it, which must exist: the same decisions about
  // fewer instructions.
  Schedule OfInterior() const { return OfPart(interior->spec); }
  Schedule OfOutside() const { return OfPart(*interior->outside); }
  // Returns the schedule of columns whose rows are read in the order of memory: that of sums of deviations in one pass, if
  // there are any.
  Schedule OfStreams() const;

  // ---- instructions ----

  InstrCost CostOf(const std::vector<int>& instrs) const;
  // Returns how many vectors an iteration of a loop over `instrs` processes. `reduces`: the loop is over reduced dims.
  int Copies(const std::vector<int>& instrs, bool reduces) const;
  bool HasSums(const std::vector<int>& instrs) const;
  bool HasStores(const std::vector<int>& instrs) const;
  // Returns whether one of them reads or writes elements that are not adjacent along the loop.
  bool HasStrides(const std::vector<int>& instrs) const;
  // Returns whether an access to a vector is one access per lane.
  bool TakesLanes(const std::vector<int>& instrs) const;
  // Returns whether a loop may process two vectors of bfloat16 at a time, as words: one copy has the even elements, the
  // next the odd ones. Widening is then a shift or a mask, while in order it would move every element.
  bool CanPair(const std::vector<int>& instrs, int copies) const;
  // Returns whether whole vectors and the rest of a row share a loop body, one vector at a time.
  bool HasOneBody(const std::vector<int>& instrs, int copies, int active_lanes) const;
  // Returns whether the copies' vectors are joined into one while the instruction is computed.
  bool IsEmittedTogether(const KernelInstr& in) const;
  // Returns whether instruction `i` may run before the loop; `done` are those that already do.
  bool CanHoist(int i, const std::vector<bool>& done) const;
  // Returns the instructions that do not vary with the last dim of tiles.
  std::vector<int> StillOverTiles(const std::vector<int>& instrs) const;
  // Returns whether one of them takes a value that an earlier phase keeps in a buffer.
  bool TakesKept(const std::vector<int>& instrs) const;
  // Returns whether the store `i` and its partner are both among `instrs`.
  bool IsPairedIn(int i, const std::vector<int>& instrs) const;
  bool IsLastStore(const KernelInstr& in) const;
  // Returns whether a sum rounds once per element, with the product that it adds: that is nearer to the exact sum, and
  // saves an instruction.
  bool SumsProducts(int i) const;
  bool IgnoresNan(const KernelInstr& in) const { return maxima.may_ignore_nan[NumberOf(in)]; }
  // Returns whether a sum's second level also keeps the rounding errors of its additions. For float32, a second level
  // in float64 loses nothing that matters.
  bool IsCompensated(const KernelInstr& in) const {
    return IsSumLike(in) && spec.instrs[in.operands[0]].type == DType::kFloat64 && !is_plain[NumberOf(in)];
  }
  // The number of one of the spec's instructions.
  int NumberOf(const KernelInstr& in) const { return static_cast<int>(&in - spec.instrs.data()); }

  // ---- params ----

  // Returns the stride class of a param along the vectorized dim. A transposed param's tile is in the loop's order.
  StrideClass LoopClass(int param) const {
    return tiles.is_tiled[param] ? StrideClass::kUnit : spec.params[param].strides[loop_dim];
  }
  // Returns whether the elements of two params may be the same memory.
  bool MayShareMemory(int a, int b) const;
  // Returns whether a store of this kernel may change the memory that is read from `param`.
  bool MayBeWritten(int param) const;
  // Returns whether the loop reads the param's lines one after the other. LinesApart counts the elements per used
  // element.
  bool IsReadInLines(int param) const;
  int64_t LinesApart(int param) const;
  bool IsReadAsLoopRuns(int param) const;
  bool Moves(int param, int dim) const { return spec.params[param].strides[dim] != StrideClass::kZero; }

  // ---- forms of loops ----

  RowPlan PlanRows() const;
  // nullopt if blocks do not pay.
  std::optional<BlockShape> PlanBlocks() const;
  // The elements per side of a square that is transposed in registers at a time.
  int SquareSide(int item) const { return std::min(16, features.vector_bits / 8 / item); }

  KernelSpec spec;  // with the sums of FindDeviations, if there are any
  CpuFeatures features;
  bool columns = false;
  int loop_dim = -1;  // the dim of the innermost loop, which may be vectorized
  int lanes = 1;      // of a vector
  // For each instruction: whether its lanes differ, the number of instructions that read it, its phase.
  std::vector<bool> varying;
  std::vector<int> uses, phase_of;
  std::vector<bool> short_nans;  // see HaveShortNans
  std::vector<int> partner;      // for a store, the other of its pair; -1
  Maxima maxima;
  std::vector<int> unless;     // see Deviations
  std::vector<bool> is_plain;  // see Deviations
  // For each param: whether it is written; whether a row of it is kept in a buffer between phases, and written once;
  // whether a launch may store it non-temporally.
  std::vector<bool> written, has_scratch, may_pass_cache;
  // For each param: whether its rows lie in a buffer, and the next ones are prefetched from memory for the next buffer
  // (emit_row_tiles.h).
  std::vector<bool> fills_next;
  TilePlan tiles;
  StreamPlan streams;
  FoldPlan folds;
  std::optional<Interior> interior;

 private:
  static Schedule Make(const KernelSpec& spec, const CpuFeatures& features, bool finds_deviations);
  Schedule OfPart(const KernelSpec& part) const;
  // The parts of Of, in their order.
  void FindVarying();
  void ChooseLanes();
  void PlanTiles();
  void PlanStreams();
  void PlanScratch();
  void PlanFolds();
  void PairStores();

  // Returns the width that determines the number of lanes of a vector: that of the computation's floating-point type,
  // else that of the widest integer.
  int LaneBits() const;
  // Counts reads and writes whose elements are not adjacent along the loop.
  int CountApart() const;
  // Returns whether it goes over elements that may follow each other through all rows.
  bool IsFoldable(const KernelInstr& in) const;
  bool MayPassCache(int param) const;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_SCHEDULE_H_
