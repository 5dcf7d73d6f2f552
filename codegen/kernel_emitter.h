// The loops, memory accesses and reductions of a kernel. Scalar operations are in lower_scalar.cc.
//
// There are two shapes, depending on the vectorized dim:
//
//   columns: it is the last parallel dim. A chunk of U vectors of W points runs all phases; reductions
//            accumulate per lane. With many rows, memory is read row after row (emit_columns.cc); with
//            few columns, several rows are in one vector (emit_folds.cc).
//   rows:    it is the last reduction dim (or there is none). Outer phases are scalar code; the innermost
//            loop of an inner phase runs over vectors, with U accumulators that are combined when the
//            phase ends.
//
// A loop over the vectorized dim is an unmasked main loop of U vectors and one masked body for the rest. The masked
// body has the same arithmetic, so a result never depends on the position of an element in a loop. If the arithmetic is
// long there is one body for both, and only memory is accessed in two ways.
//
// There is no IR optimization pipeline: loop-carried state is in allocas that are promoted to registers at the end, and
// everything else is emitted in its final form.
#ifndef SMELT_CODEGEN_KERNEL_EMITTER_H_
#define SMELT_CODEGEN_KERNEL_EMITTER_H_

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/deviations.h"
#include "smelt/codegen/interior.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/codegen/maxima.h"
#include "smelt/codegen/short_nans.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// After this number of iterations the accumulators of a floating-point sum are added to a second level, in float64 (for
// float64: with the rounding errors of the additions). This bounds the error of a sum of any length by about this many
// roundings; eager PyTorch's sums have as many.
constexpr int kSumBlock = 16;
// The size of a cache line, in bytes.
constexpr int64_t kLine = 64;
// If a launch has more bytes of output than this, they are stored non-temporally.
constexpr int64_t kNonTemporalBytes = 16 << 20;
// Except if rows are shorter than this and not a whole number of cache lines: non-temporal stores of a line in two
// parts cost more than they save.
constexpr int64_t kNonTemporalRowBytes = 1 << 10;
// The most elements of a row whose values are kept between phases in a buffer.
constexpr int64_t kScratchElements = 4096;
// The most bytes of a row that is prefetched as a whole.
constexpr int64_t kPrefetchBytes = 16 << 10;
// The distance of prefetches in longer rows.
constexpr int64_t kLineAhead = 8 << 10;
// With more instructions per vector, a loop without reductions is not bound by memory.
constexpr int kComputeBound = 100;
// With at least this many dependent instructions, a loop processes more vectors at a time.
constexpr int kLongPath = 100;
// With at least this many instructions per vector, if columns are vectorized, whole vectors and the rest of a row share
// a loop body, one vector at a time. More copies would cost LLVM more time than they save in the kernel, since the
// processor overlaps adjacent vectors anyway. (With fewer instructions, and in the last loop of a row's reductions,
// sharing made kernels a few percent slower.)
constexpr int kOneBody = 60;
// This many loads of such a body share a branch.
constexpr size_t kLoadedTogether = 4;
// On a machine with few registers, with at most this many instructions per vector, four vectors are computed at a time
// if float32 functions are among the instructions.
constexpr int kFourTogether = 60;
// The shape of a tile of a transposed operand (emit_tiles.cc): the length of its contiguous pieces, and their number.
// For machines without AVX-512 it was chosen by measurements on a Zen 3, which is slow at changing pages: half a tile,
// twice as wide, passes half as often over the pages of the operands that are in the loop's order.
struct TileShape {
  int64_t bytes, columns;
};
constexpr TileShape kTile = {1 << 10, 64}, kTileOfAvx2 = {256, 128};

// The alignment of an element; a boolean in memory is a byte.
inline llvm::Align AlignOf(llvm::Type* element) {
  return llvm::Align(std::max(1u, element->getScalarSizeInBits() / 8));
}

inline bool IsApart(StrideClass c) { return c == StrideClass::kAny || ElementsApart(c) >= 2; }

inline bool IsSumLike(const KernelInstr& in) {
  return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(in.type);
}

class KernelEmitter {
  using AllocaInst = llvm::AllocaInst;
  using BasicBlock = llvm::BasicBlock;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // `gathers`: for a machine on which gathering a vector at indices from data is faster than loading it lane by lane.
  KernelEmitter(llvm::Module& module, const KernelSpec& spec, const CpuFeatures& features, bool gathers)
      : s_(spec), f_(features), gathers_(gathers), m_(module), c_(module.getContext()), b_(c_), scalar_(b_, features) {
    i64_ = b_.getInt64Ty();
    i8_ = b_.getInt8Ty();
    ptr_ = b_.getPtrTy();
  }

  absl::Status Emit(const std::string& symbol);

  // After Emit: returns whether the code for a machine that gathers would differ.
  bool could_gather() const { return could_gather_; }

 private:
  // ---- decisions ----

  void Plan();

  // Returns the width that determines the number of lanes of a vector: that of the computation's floating-point type,
  // else that of the widest integer.
  int LaneBits() const;

  // Counts reads and writes whose elements are not adjacent along the loop.
  int CountApart() const;

  // The approximate number of machine instructions per vector, in all and in sequence.
  struct Cost {
    int all = 0, path = 0;
  };
  Cost CostOf(const std::vector<int>& instrs) const;

  // ---- parameter block ----

  Value* Word(int n, Type* type) {
    return b_.CreateAlignedLoad(type, b_.CreateConstGEP1_64(i64_, words_, n), llvm::Align(8));
  }
  Value* Word(int n) { return Word(n, i64_); }

  void LoadWords();

  bool MayBeNonTemporal(int param) const;

  // ---- small helpers ----

  Type* Vec(Type* t, int lanes) { return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes); }
  Type* MemType(DType t) { return t == DType::kBool ? i8_ : scalar_.TypeOf(t); }

  AllocaInst* Variable(Type* t);
  // Memory for the lanes of a vector, to be indexed at run time.
  AllocaInst* Temporary(Type* t);
  Value* Load(AllocaInst* a) { return b_.CreateLoad(a->getAllocatedType(), a); }

  BasicBlock* Block(const char* name) { return BasicBlock::Create(c_, name, fn_); }

  // for (i = from; i < to; i += step) body(i)
  void For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body);
  void While(const std::function<Value*()>& condition, const std::function<void()>& body);
  void If(Value* condition, const std::function<void()>& then);
  Value* IfElse(Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise);
  std::vector<Value*> IfElseOfSome(Value* condition, const std::function<std::vector<Value*>()>& then,
                                   const std::function<std::vector<Value*>()>& otherwise);
  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }
  Value* Any(Value* bits);
  Value* All(Value* bits);
  Value* Iota(Type* element, int lanes);
  // Lane k is set iff k < count, 1 <= count <= lanes.
  Value* MaskOf(Value* count, int lanes);
  bool MasksNatively(Type* element) const;

  void SetStatus(int code, Value* bad);

  // ---- addresses ----

  void AddIndex(int dim, Value* index);

  // Returns the stride class of a param along the vectorized dim. A transposed param's tile is in the loop's order.
  StrideClass LoopClass(int param) const {
    return tiled_[param] ? StrideClass::kUnit : s_.params[param].strides[loop_dim_];
  }
  // Returns the address of lane 0 of copy u.
  Value* Address(int param, int u, bool past_scratch = false);
  Value* StrideAlongLoop(int param);
  bool UnitAlongLoop(int param) const;

  // ---- values ----

  Value* Get(int i, int u) { return vals_[u][i]; }
  Value* GetVector(int i, int u) { return Splat(Get(i, u)); }
  Value* Splat(Value* v);
  void Set(int i, int u, Value* v) { vals_[u][i] = v; }
  void SetAll(int i, Value* v);

  void EmitInstrs(const std::vector<int>& instrs, int copies);
  void EmitTogether(int i, int copies);

  Value* EmitInstr(int i, int u);

  Value* EmitScalar(int i, int u);
  Value* EmitScalarOp(const KernelInstr& in, const DType* types, Value* const* v, int lanes);
  // Returns whether the copies' vectors are joined into one while the instruction is computed.
  bool IsEmittedTogether(const KernelInstr& in) const;

  Value* EmitIndex(int dim, int u);
  // Returns the index along the loop's dim of the first lane of copy `u`.
  Value* FirstIndex(int u);
  // Compares the index along the loop's dim with a number that is equal in all lanes. Vectors of indices take many
  // registers, so lanes are counted instead. nullptr if it is another comparison.
  Value* CompareLanes(const KernelInstr& in, int u);

  bool IsNegative(int i, int x) const;
  Value* EmitCheckIndex(int i, int u);

  // ---- memory ----

  Value* FromMemory(DType t, Value* v);
  Value* ToMemory(DType t, Value* v);
  Value* PlusOffset(Value* address, DType t, Value* offset);

  // Emits `access` for a whole vector and for the lanes of mask_, and selects one, if the loop body serves both.
  Value* WholeOrPart(const std::function<Value*()>& access);
  std::vector<Value*> WholesOrParts(const std::function<std::vector<Value*>()>& accesses);
  void LoadTogether(const std::vector<int>& instrs, size_t from);

  // Stores all copies; non-temporally or not, if the launch decides that.
  void EmitStores(const KernelInstr& in, int copies);

  Value* EmitLoad(const KernelInstr& in, int u);
  Value* LoadVector(const KernelInstr& in, int u, Value* offset, Value* guard);

  std::vector<Value*> LaneAddresses(const KernelInstr& in, Value* a, Value* stride, Value* offsets);
  Value* LaneVector(const KernelInstr& in, Value* a, Value* stride, Value* offsets);
  std::vector<Value*> MasksOf(int vectors, Value* count);
  // Returns whether whole vectors are loaded, and the elements at distance `apart` are extracted from them.
  bool LoadsWholes(Type* element, int64_t apart) const;
  Value* LoadApart(Type* type, Value* a, int64_t apart);

  Value* CombinedMask(Value* guard);

  // Processes one lane after the other, in order, only active lanes whose guard holds: body(lane number, address).
  void ForLanes(const KernelInstr& in, Value* a, Value* stride, Value* offsets, Value* guard,
                const std::function<void(Value*, Value*)>& body);

  Value* LoadLanes(const KernelInstr& in, Type* type, Value* a, Value* stride, Value* offsets, Value* guard);
  // Loads the first `bytes` at a, 1 to 8 and a multiple of `item`, as a number; zero beyond.
  Value* LoadBytes(Value* a, Value* bytes, int item);
  void StoreBytes(Value* word, Value* a, Value* bytes, int item);
  // Returns whether the first count_ elements of a vector are read and written in words, because the machine has no
  // masks for them.
  bool InWords(DType type, Value* guard) const;
  // Loads the first count_ elements at a, in at most 16 bytes; zero beyond.
  Value* LoadFront(Type* type, Value* a, int item);
  void StoreFront(Value* v, Value* a, int item);

  // Pairs stores whose elements may be adjacent, like the parts of complex numbers, in partner_.
  void PairStores();
  bool IsPairedIn(int i, const std::vector<int>& instrs) const;
  void EmitInterleaved(const KernelInstr& first, const KernelInstr& second, int copies);

  void EmitStore(const KernelInstr& in, int u);
  void StorePair(const KernelInstr& in, int u);
  void StoreApart(Value* value, Value* a, Type* element, int64_t apart);

  // Returns whether a loop over vectors processes two vectors of bfloat16 at a time, as words: one copy has the even
  // elements, the next the odd ones. Widening is then a shift or a mask, while in order it would move every element.
  bool CanPair(const std::vector<int>& instrs, int copies) const;
  // Returns whether one of them reads or writes elements that are not adjacent along the loop.
  bool HasStrides(const std::vector<int>& instrs) const;
  void LoadEvenOdd(int i, int u);
  void StoreEvenOdd(const KernelInstr& in, int u);
  Value* EvenOddWords(int i, int u);

  // ---- reductions ----

  struct State {
    std::vector<AllocaInst*> acc,
        index;  // a copy each; index of kArgMin and kArgMax
    std::vector<AllocaInst*> wide,
        error;  // for floating-point sums: the second level, or for float64 the lost part
    // For a tile of columns (emit_columns.cc).
    AllocaInst *acc_buffer = nullptr, *index_buffer = nullptr, *wide_buffer = nullptr, *error_buffer = nullptr;
  };

  Value* Identity(const KernelInstr& in, DType t, Type* type);

  int AccumulatorLanes(const KernelInstr& in) const;
  Type* AccumulatorType(const KernelInstr& in);

  // Called before an inner phase: makes accumulators of its reductions and scans, `copies` of each.
  void StartReductions(const std::vector<int>& instrs, int copies);

  // Returns a (op) v, on scalars or vectors. A maximum that may ignore NaN ignores it.
  Value* Combine(ReduceKind kind, DType t, Value* a, Value* v, bool ignores_nan = false);
  bool IgnoresNan(const KernelInstr& in) const { return maxima_.may_ignore_nan[&in - s_.instrs.data()]; }

  // Computes where (v, j) replaces (a, i) in an argmin or argmax.
  Value* ArgBetter(ReduceKind kind, DType t, Value* a, Value* i, Value* v, Value* j);

  void Accumulate(int i, int u);
  bool SumsProducts(int i) const;
  llvm::Value* AddProduct(int i, int u, llvm::Value* to);
  void AccumulateRows(int i);

  Value* EmitScan(int i, int u);
  Value* EmitArgScan(const KernelInstr& in, const State& state, Value* v, Value* j);

  // Returns whether a sum's second level also keeps the rounding errors of its additions. For float32, a second level
  // in float64 loses nothing that matters.
  bool IsCompensated(const KernelInstr& in) const {
    return IsSumLike(in) && s_.instrs[in.operands[0]].type == DType::kFloat64 && !is_plain_[&in - s_.instrs.data()];
  }
  // Adds the accumulators of floating-point sums to their second level.
  void FlushSums(const std::vector<int>& instrs, int copies);
  void AddToSecondLevel(State& state, int u, Value* v);
  Value* Tree(std::vector<Value*> parts, const std::function<Value*(Value*, Value*)>& combine);
  Value* HighHalf(Value* v, int lanes);
  Value* LowHalf(Value* v, int lanes);

  // Called after an inner phase: computes its reductions' values, one per copy (columns) or one scalar (rows).
  void FinishReductions(const std::vector<int>& instrs, int copies);
  Value* NoIndexIsZero(Value* index);

  // ---- loops over the vectorized dim ----

  // Runs those of `instrs` that are invariant in the loop before it; the loop skips them. Only if the loop runs at
  // least once.
  void Hoist(const std::vector<int>& instrs, const std::vector<bool>& ready);
  // Emits one vector from `first` on, of which `count` lanes are active: body() with chunk_, mask_ and count_ set.
  void MaskedVector(Value* first, Value* count, const std::function<void()>& body);
  // Emits run(from, to) for all of [lo, hi), or for pieces of `block` with `flush` between them if there is something
  // to flush.
  void InBlocks(Value* lo, Value* hi, Value* block, const std::function<void(Value*, Value*)>& run,
                const std::function<void()>& flush);
  bool CanHoist(int i, const std::vector<bool>& done) const;
  // Returns whether a store of this kernel may change the memory that is read from `param`.
  bool MayBeWritten(int param) const;

  // Calls body(copies) with chunk_, mask_ and count_ set, for all of [lo, hi). `flush` runs after every kSumBlock
  // iterations of the main loop. `stores`: the body stores to memory, so that a second, non-temporal main loop pays.
  void ChunkLoop(Value* lo, Value* hi, int copies, const std::function<void(int)>& body,
                 const std::function<void()>& flush, bool stores);
  bool HasOneBody(const std::vector<int>& instrs, int copies) const;
  void OneBodyLoop(Value* lo, Value* hi, const std::function<void(int)>& body, bool stores);

  void SetLoopIndex(Value* i);

  // Computes whether the loop that starts at lo may store non-temporally: if the launch has large outputs whose
  // addresses become aligned after the same number of elements, `head`.
  void NonTemporalHead(Value* lo, Value** use, Value** head);

  // ---- loop nests ----

  // Loops over every parallel dim but the vectorized one, tiles [begin_, end): body(tile) with idx_ and addr_ set;
  // `begin` runs before tiles that differ in the last of these dims.
  void ForTiles(Value* end, const std::function<void(Value*)>& body, const std::function<void()>& begin = nullptr);
  // For a param: whether its rows are far apart in memory, and the distances of the first and the last byte to
  // prefetch.
  struct FarRows {
    size_t param;
    Value *are_far, *first, *last;
  };
  std::vector<FarRows> FindFarRows();
  void FindLinesAhead();
  // Prefetches in a loop over columns that stores non-temporally.
  void PrefetchAhead(int copies);
  std::vector<int> StillOverTiles(const std::vector<int>& instrs) const;

  // Loops over dims [from, to): body() with idx_ and addr_ set; `flush` every kSumBlock iterations of the innermost of
  // them.
  void Nest(int from, int to, const std::function<void()>& body, const std::function<void()>& flush);

  bool HasSums(const std::vector<int>& instrs) const;
  bool HasStores(const std::vector<int>& instrs) const;

  // Returns whether an access to a vector is one access per lane.
  bool TakesLanes(const std::vector<int>& instrs) const;
  int Copies(const std::vector<int>& instrs, bool reduces) const;

  void EmitColumns();

  void EmitColumnChunk(int copies);
  // Emits the elements of a row before its interior one by one, the interior in vectors without guards, and the
  // elements after it one by one; `otherwise` if those are many, or if there is no interior.
  void EmitInterior(Value* lo, Value* hi, const std::function<void()>& otherwise);

  // ---- rows ----

  void EmitRowMode();
  class KeptRow;
  // `start` sets up the values of a row; the loop of phase `last` and the code after it run one row behind.
  void EmitRowsInTurns(size_t last, const std::function<void(Value*)>& start);
  void EmitPhases(size_t from, size_t to);

  // The loop of an inner phase in separate parts, which may be in different blocks.
  struct RowLoop {
    const KernelPhase* phase = nullptr;
    int copies = 1;
    bool prefetches = false;
  };
  RowLoop PlanRowLoop(const KernelPhase& phase);
  void StartRowLoop(const RowLoop& loop);
  void RunRowLoop(const RowLoop& loop, Value* lo, Value* hi, const std::function<void()>& flush = nullptr);
  void FinishRowLoop(const RowLoop& loop);
  void EmitRowPhase(const KernelPhase& phase);
  // Returns the number of elements before the first non-temporal store.
  Value* HeadOf(const RowLoop& loop);
  // Emits the loop of phase `k`, whose sums are not needed if `known` is true.
  void EmitRowPhaseUnless(size_t k, Value* known);
  void PrefetchRows(int copies);
  Value* DistanceAhead(int param, int row);
  void FindRowsAhead();                    // before the row loop that prefetches
  void PastCache(llvm::StoreInst* store);  // makes a store non-temporal
  void Prefetch(Value* at, bool nearest = true);
  // Returns whether the loop reads the param's lines one after the other. LinesApart counts the elements per used
  // element.
  bool IsReadInLines(int param) const;
  int64_t LinesApart(int param) const;
  // Prefetches the lines from `at` on that this many copies of a vector read.
  void PrefetchLines(int param, Value* at, int copies, bool nearest);

  void PlanScratch();
  bool IsLastStore(const KernelInstr& in) const;

  // ---- reductions over many rows ----

  void PlanStreams();
  Value* HasManyRows();
  void StreamColumns(Value* lo, Value* hi);
  void StreamPhase(const KernelPhase& phase);
  AllocaInst* Buffer(Type* element);
  Value* BufferPlace(AllocaInst* buffer, Value* at);
  Value* LoadBuffer(AllocaInst* buffer, Value* at);
  void StoreBuffer(AllocaInst* buffer, Value* at, Value* v);
  void Keep(const std::vector<int>& instrs);
  bool TakesKept(const std::vector<int>& instrs) const;
  void LoadKept(const std::vector<int>& instrs);
  void ForBuffers(const std::function<void(Value*)>& body);
  Value* Widened(Value* v);
  Type* BufferElement(AllocaInst* variable);

  // ---- rows of few columns ----

  void PlanFolds();
  bool IsFoldable(const KernelInstr& in) const;
  // Computes whether there are few columns, and many rows without gaps.
  Value* Folds();
  void EmitFolded();
  void OnColumns(const std::vector<int>& instrs);
  void FoldPhase(const std::vector<int>& instrs);
  Value* FoldedLanes();
  Value* Spread(Value* v);
  Value* FoldLanes(Value* v, const std::function<Value*(Value*, Value*)>& combine);

  // ---- transposed operands ----

  void ChooseTiled();
  void FillTile(int param, Value* tile, Value* from, Value* rows, Value* columns);
  bool IsReadAsLoopRuns(size_t param) const;
  void GoToTileRow(const std::vector<Value*>& tiles, Value* row, int64_t columns, Value* first);
  void PrefetchNextTile(Value* column);
  // Like ForTiles and a loop over columns, tile by tile: row(lo, hi) with idx_ and addr_ set; or vectors(at, n) for n
  // whole vectors from column `at` on that are stored non-temporally.
  void EmitTiles(const std::function<void(Value*, Value*)>& row, const std::function<void(Value*, int)>& vectors);

  // ---- transposed operands, past the cache ----

  // Sizes are in elements. A square is transposed in registers, and its rows and columns are whole cache lines.
  struct BlockShape {
    int64_t rows, columns, square_rows, square_columns;
  };
  // A position in the dims of rows and columns.
  struct BlockPlace {
    Value *first_row, *first_column, *rows, *columns;
  };
  // nullopt if blocks do not pay.
  std::optional<BlockShape> PlanBlocks() const;
  Value* WritesWholeLines();
  Value* InNextBlock(int param, Value* element);
  // The elements per side of a square that is transposed in registers at a time.
  int SquareSide(int item) const { return std::min(16, f_.vector_bits / 8 / item); }
  // to[i][j] = from[j][i]: the addresses of its rows, and `pitch` and `stride`, the bytes from one to the next. For the
  // lines to prefetch: the address of the first, and the distances to the next in the same row of a block and after its
  // end.
  struct Square {
    Value *from, *stride, *to, *pitch, *ahead, *step, *jump;
  };
  void FillSquare(int param, const Square& square);
  void EmitSquare(int param, const Square& square);
  void StoreSquare(int item, std::vector<Value*>& rows, Value* to, Value* pitch);
  void FillBlockSquare(int param, Value* tile, Value* first_column, Value* number);
  Value* Paced(Value* number);
  // Emits whole squares. addr_ is the address of the position's first row, next_corner that of the position after its
  // columns.
  void EmitBlocks(const std::vector<Value*>& tiles, const BlockPlace& place, const std::vector<Value*>& next_corner,
                  const std::function<void(Value*, int)>& vectors);

  KernelSpec s_;                // the spec of a loop's interior, while that is emitted
  std::vector<int> unless_;     // see Deviations
  std::vector<bool> is_plain_;  // see Deviations
  std::vector<bool> short_nans_;
  const CpuFeatures& f_;
  const bool gathers_;
  bool could_gather_ = false;
  llvm::Module& m_;
  llvm::LLVMContext& c_;
  llvm::IRBuilder<> b_;
  ScalarEmitter scalar_;
  Type* i64_;
  Type* i8_;
  Type* ptr_;
  llvm::Function* fn_ = nullptr;
  BasicBlock* entry_ = nullptr;
  Value *words_ = nullptr, *begin_ = nullptr, *end_ = nullptr, *status_ = nullptr;

  bool columns_ = false;
  int loop_dim_ = -1;
  int lanes_ = 1;
  std::vector<bool> varying_;
  std::vector<int> uses_;  // the number of instructions that read each
  std::vector<int> phase_of_;
  std::vector<bool> written_;
  std::vector<bool> tiled_;   // params that are read through a tile that is transposed first
  std::vector<int> partner_;  // for a store, the other of its pair; -1
  bool has_tiles_ = false;
  int64_t tile_rows_ = 0, tile_columns_ = 0;
  Value *one_ = nullptr, *zero_ = nullptr;  // values that the optimizer does not know
  std::optional<BlockShape> block_;
  std::vector<Value*> block_ahead_;  // for each param, the address of the next block's first element
  std::vector<bool> has_scratch_;
  std::vector<Value*> scratch_;  // for each param, the buffer of its row between phases
  std::optional<Interior> interior_;
  Maxima maxima_;
  bool streams_ = false;
  int64_t stream_columns_ = 0;
  std::vector<AllocaInst*> kept_;  // the values that later phases use
  std::vector<bool> ready_;        // hoisted by earlier phases
  Value *tile_begin_ = nullptr, *tile_end_ = nullptr;
  bool can_fold_ = false;
  std::vector<bool> in_rows_;  // of inner phases: values that differ per row of the innermost reduced dim
  bool folds_ = false;         // lanes are parts of the columns' results
  std::vector<Value*> nt_launch_;
  bool uses_non_temporal_ = false;

  std::vector<Value*> size_, base_, scalars_;
  std::vector<std::vector<Value*>> stride_;  // bytes per step; null: broadcast
  std::vector<AllocaInst*> variables_;
  std::map<int, State> states_;

  // The position of the emission: the innermost loop's first index, its lanes, and which of them are active.
  std::vector<Value*> addr_, idx_;
  Value* chunk_ = nullptr;
  int active_lanes_ = 1;
  Value *mask_ = nullptr, *count_ = nullptr;
  Value* whole_ = nullptr;  // next to mask_, where one body serves both: whether all lanes are active
  int prefetch_loop_ = 0;   // the loop of a row that prefetches later rows: the second or the only one, or the last
  std::vector<Value*> row_ahead_;   // for each param, the address of the row to prefetch
  Value* rows_ahead_ = nullptr;     // the distance of the row to prefetch; null: the next
  Value* past_cache_ = nullptr;     // in a main loop: whether its stores are non-temporal
  Value* reads_alone_ = nullptr;    // whether reading rows of several operands is faster without writes between
  Value* asks_for_rows_ = nullptr;  // whether later rows are prefetched; null: always
  Value* asks_ahead_ = nullptr;     // whether the machine benefits from prefetches of contiguous reads
  bool non_temporal_ = false;       // whether that is decided
  // For columns: the prefetched param and the distance in bytes; whether all of it is contiguous (null: it does not
  // matter); whether to prefetch at all (null: always).
  struct LinesAhead {
    int param;
    Value* distance;
  };
  std::vector<LinesAhead> lines_ahead_;
  Value *in_one_piece_ = nullptr, *asks_for_lines_ = nullptr;
  bool pairs_ = false;  // CanPair
  // > 0: the number of adjacent rows that copies belong to, with `row_vectors_` adjacent vectors of each.
  int row_copies_ = 0, row_vectors_ = 1;
  std::vector<std::vector<Value*>> vals_;
  std::vector<bool> hoisted_;
  std::vector<bool> loaded_;  // the emitted instructions that LoadTogether has loaded
  std::vector<int> loop_instrs_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_EMITTER_H_
