// Emits the functions of one CUDA kernel. Internal to lower_cuda.h, whose files hold the parts of this class:
// instructions (lower_cuda.cc), points and columns (cuda_points.cc), transposes (cuda_transpose.cc), rows
// (cuda_rows.cc), scatters (cuda_scatter.cc).
//
//   CudaEmitter(module, spec, launch.stages[k]->entry, limits).Emit(k);
//
// Invariant: `index_` and `values_` belong to the point that is being emitted. Whoever emits a phase leaves both as
// they were, except for the values of the phase's instructions.
#ifndef SMELT_CODEGEN_CUDA_EMITTER_H_
#define SMELT_CODEGEN_CUDA_EMITTER_H_

#include <functional>
#include <string>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/cuda_function.h"
#include "smelt/codegen/cuda_reductions.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

class CudaEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  CudaEmitter(llvm::Module& module, const KernelSpec& spec, const std::string& symbol, const CudaLimits& limits,
              bool is_kernel = true);
  // Emits stage `stage` of the launch, and the end of the function.
  void Emit(int stage);
  // Emits the point whose number, in row-major order, is the function's `begin`, and the end of the function.
  llvm::Function* EmitOnePoint();

 private:
  // Threads that compute a row together: a warp or a block.
  struct Team {
    CudaReductions::Scope scope;
    int size;
    Value* rank;   // of the thread in its team
    Value* index;  // of the team in the launch
    Value* teams;  // of the launch
  };

  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }
  Value* CeilDiv(Value* n, int64_t by) {
    return by == 1 ? n : b_.CreateUDiv(b_.CreateAdd(n, b_.getInt64(by - 1)), b_.getInt64(by));
  }
  // The number of chunks that a reduction is split into, at least 1.
  Value* Splits();
  Value* ReductionSize() { return f_.Product(s_.parallel_rank, s_.rank()); }

  // ---- points, cuda_points.cc ----

  void EmitPoints(bool serial);
  // Points [at, at + v) of the last parallel dim, as far as they are below `limit`.
  void Chunk(Value* at, Value* limit, int v);
  // Emits one point, or `v` side by side: all phases, with reductions inside the thread.
  void Point(int v);
  // The points of the launch as rows of columns, which are adjacent.
  struct Columns {
    Value *rows, *columns;
  };
  Columns ColumnsOfLaunch();
  void EmitColumns();
  // A block takes 32 adjacent points and a chunk of the reduction. Each of its warps reduces every eighth element.
  void EmitTiledColumns();
  // Combines the partial results of each point, in a thread.
  void EmitColumnsOfPartials();
  // Sets the index of point `column` in row `row` of the last parallel dim.
  void SetPoint(Value* row, Value* column);

  // ---- points that read transposed params, cuda_transpose.cc ----

  void EmitPointsInTiles();
  void EmitTiles();

  // ---- rows, cuda_rows.cc ----

  void EmitRows();
  Team Warps();
  Team Blocks();
  void EmitRows(const Team& team);
  // The inner phase for elements [from, to) of the reduction dims, which the team shares. `v` adjacent ones at once
  // where they are aligned.
  void EmitElements(const KernelPhase& phase, const Team& team, Value* from, Value* to);
  // Returns whether the phase may take several adjacent elements at once. Emits the question to memory.
  Value* IsAligned(const KernelPhase& phase, int v);
  // Blocks reduce chunks of each row to partial results, if rows are long.
  void EmitSplitRows();
  // Blocks combine the partial results of each row.
  void EmitRowsOfPartials();
  // The phases before or after the inner one of a reduction that may be split.
  void EmitPhasesBefore();
  void EmitPhasesAfter(const Team& team, Value* stores);
  // An outer phase, for the whole team at once. The thread for which `stores` is true stores.
  void EmitOnce(const KernelPhase& phase, const Team& team, Value* stores);
  const KernelPhase& InnerPhase() const;
  // All threads of the team wait for each other.
  void Meet(const Team& team);

  // ---- scatters, cuda_scatter.cc ----

  bool Scatters(const KernelPhase& phase) const;
  int OnlyScatter(const KernelPhase& phase) const;
  std::vector<bool> DependsOnLoad(const KernelPhase& phase, int param) const;
  void EmitScatter(const KernelPhase& phase);
  bool IsUsedBy(int instr, const std::vector<int>& users) const;

  // ---- instructions, lower_cuda.cc ----

  // `v` elements side by side along `lane_dim_`, from index_ on.
  void EmitInstrs(const std::vector<int>& instrs, int v);
  void EmitInstr(int i, int u);
  bool IsUnit(int param, int dim) const { return s_.params[param].strides[dim] == StrideClass::kUnit; }
  Type* MemoryType(DType t) { return t == DType::kBool ? b_.getInt8Ty() : scalar_.TypeOf(t); }
  Value* FromMemory(DType t, Value* v) {
    return t == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
  }
  Value* ToMemory(DType t, Value* v) { return t == DType::kBool ? b_.CreateZExt(v, b_.getInt8Ty()) : v; }
  void LoadVector(int i, int v);
  void StoreVector(int i, int v);

  const KernelSpec& s_;
  const CudaLimits limits_;
  const CudaSchedule schedule_;
  CudaFunction f_;
  llvm::IRBuilder<>& b_;
  ScalarEmitter& scalar_;
  CudaReductions reductions_;
  Type* const i64_;
  int lane_dim_ = 0;                         // the dim of elements side by side
  const Team* once_ = nullptr;               // the team whose threads all emit one point's outer phase
  Value* stores_ = nullptr;                  // with `once_`: the thread that stores
  llvm::GlobalVariable* places_ = nullptr;   // of scatters: a word per thread
  std::vector<Value*> given_;                // by instruction: values of loads that are loaded already; may be empty
  std::vector<Value*> index_;                // of the point
  std::vector<std::vector<Value*>> values_;  // of each point side by side, by instruction
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_EMITTER_H_
