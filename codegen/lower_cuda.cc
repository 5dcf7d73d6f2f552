#include "smelt/codegen/lower_cuda.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/cuda_emitter.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

CudaEmitter::CudaEmitter(llvm::Module& module, const KernelSpec& spec, const std::string& symbol,
                         const CudaLimits& limits, bool is_kernel)
    : s_(spec),
      limits_(limits),
      schedule_(CudaScheduleFor(spec, limits)),
      f_(module, spec, symbol, is_kernel),
      b_(f_.b()),
      scalar_(f_.scalar()),
      reductions_(f_, spec),
      i64_(b_.getInt64Ty()),
      index_(spec.rank(), b_.getInt64(0)) {}

void CudaEmitter::Emit(int stage) {
  switch (schedule_.kind) {
    case CudaSchedule::kPoints:
      schedule_.tile_dim >= 0 ? EmitPointsInTiles() : EmitPoints(/*serial=*/false);
      break;
    case CudaSchedule::kSerial:
      EmitPoints(/*serial=*/true);
      break;
    case CudaSchedule::kColumns:
      stage == 0 ? EmitColumns() : EmitColumnsOfPartials();
      break;
    case CudaSchedule::kRows:
      stage == 0 ? EmitRows() : EmitRowsOfPartials();
      break;
  }
  b_.CreateRetVoid();
}

llvm::Function* CudaEmitter::EmitOnePoint() {
  f_.Decompose(f_.begin(), 0, s_.parallel_rank, index_);
  Point(1);
  b_.CreateRetVoid();
  return f_.function();
}

Value* CudaEmitter::Splits() {
  Value* one = b_.getInt64(1);
  Value* chunks = CeilDiv(ReductionSize(), schedule_.split);
  return b_.CreateSelect(b_.CreateICmpSGT(chunks, one), chunks, one);
}

void CudaEmitter::EmitInstrs(const std::vector<int>& instrs, int v) {
  Value* const first = v > 1 ? index_[lane_dim_] : nullptr;
  bool loaded = false;
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    const bool plain = !in.has_offset && !in.has_guard;
    loaded = loaded || in.op == KernelOp::kLoad;
    if (once_ != nullptr && loaded && in.op == KernelOp::kStore) {
      // Each thread has loaded the value that the storing one replaces.
      Meet(*once_);
      loaded = false;
    }
    if (v > 1 && plain && in.op == KernelOp::kLoad && IsUnit(in.param, lane_dim_)) {
      LoadVector(i, v);
      continue;
    }
    if (v > 1 && plain && in.op == KernelOp::kStore && IsUnit(in.param, lane_dim_)) {
      StoreVector(i, v);
      continue;
    }
    if (v > 1 && in.op == KernelOp::kReduce) {
      reductions_.AccumulateAdjacent(i, values_);
      continue;
    }
    for (int u = 0; u < v; ++u) {
      if (first) index_[lane_dim_] = b_.CreateAdd(first, b_.getInt64(u));
      EmitInstr(i, u);
    }
    if (first) index_[lane_dim_] = first;
  }
}

void CudaEmitter::LoadVector(int i, int v) {
  const KernelInstr& in = s_.instrs[i];
  Type* type = llvm::FixedVectorType::get(MemoryType(in.type), v);
  auto* load = b_.CreateAlignedLoad(type, f_.Address(in.param, index_, nullptr), llvm::Align(v * ItemSize(in.type)));
  f_.MarkConstant(load, in.param);
  for (int u = 0; u < v; ++u) values_[u][i] = FromMemory(in.type, b_.CreateExtractElement(load, u));
}

void CudaEmitter::StoreVector(int i, int v) {
  const KernelInstr& in = s_.instrs[i];
  Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(MemoryType(in.type), v));
  for (int u = 0; u < v; ++u) vector = b_.CreateInsertElement(vector, ToMemory(in.type, values_[u][in.operands[0]]), u);
  b_.CreateAlignedStore(vector, f_.Address(in.param, index_, nullptr), llvm::Align(v * ItemSize(in.type)));
}

void CudaEmitter::EmitInstr(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  auto operand = [&](size_t k) { return values_[u][in.operands[k]]; };
  Value*& out = values_[u][i];
  switch (in.op) {
    case KernelOp::kScalar: {
      if (in.scalar == ScalarOp::kConst) {
        out = scalar_.Const(in.type, in.imm);
        return;
      }
      DType types[3] = {};
      Value* args[3] = {};
      for (size_t k = 0; k < in.operands.size(); ++k) {
        types[k] = s_.instrs[in.operands[k]].type;
        args[k] = operand(k);
      }
      out = scalar_.Emit(in.scalar, in.type, types, args, 1);
      return;
    }
    case KernelOp::kLoad: {
      if (!given_.empty() && given_[i] != nullptr) {
        out = given_[i];
        return;
      }
      auto load = [&] {
        auto* x = b_.CreateAlignedLoad(MemoryType(in.type),
                                       f_.Address(in.param, index_, in.has_offset ? operand(0) : nullptr),
                                       llvm::Align(ItemSize(in.type)));
        f_.MarkConstant(x, in.param);
        return FromMemory(in.type, x);
      };
      if (!in.has_guard) {
        out = load();
        return;
      }
      AllocaInst* variable = f_.Variable(scalar_.TypeOf(in.type));
      b_.CreateStore(llvm::Constant::getNullValue(scalar_.TypeOf(in.type)), variable);
      f_.If(operand(in.operands.size() - 1), [&] { b_.CreateStore(load(), variable); });
      out = f_.Get(variable);
      return;
    }
    case KernelOp::kStore: {
      Value* condition = in.has_guard ? operand(in.operands.size() - 1) : nullptr;
      // All threads of a team are here for one point.
      if (once_ != nullptr) condition = condition ? b_.CreateAnd(condition, stores_) : stores_;
      auto store = [&] {
        Value* address = f_.Address(in.param, index_, in.has_offset ? operand(1) : nullptr);
        b_.CreateAlignedStore(ToMemory(in.type, operand(0)), address, llvm::Align(ItemSize(in.type)));
      };
      if (condition) {
        f_.If(condition, store);
      } else {
        store();
      }
      return;
    }
    case KernelOp::kIndex:
      out = index_[in.dim];
      return;
    case KernelOp::kDimSize:
      out = f_.Size(in.dim);
      return;
    case KernelOp::kScalarParam:
      out = f_.Scalar(in.dim);
      return;
    case KernelOp::kReduce:
    case KernelOp::kScan:
      reductions_.Accumulate(i, values_[u]);
      return;
    case KernelOp::kCheckIndex: {
      Value *index = operand(0), *size = operand(1), *zero = b_.getInt64(0);
      Value* sum = b_.CreateAdd(index, size);
      index = b_.CreateSelect(b_.CreateICmpSLT(index, zero), sum, index);
      // Negative numbers are large as unsigned ones.
      Value* is_at_least = b_.CreateICmpSGE(index, size);
      Value* bad = b_.CreateOr(b_.CreateICmpSLT(index, zero), is_at_least);
      f_.SetStatus(1, bad);
      out = b_.CreateSelect(bad, zero, index);
      return;
    }
    case KernelOp::kAtomicAdd:
      SMELT_UNREACHABLE();
  }
}

llvm::Function* LowerPointForCuda(llvm::Module& module, const KernelSpec& spec, const std::string& symbol) {
  return CudaEmitter(module, spec, symbol, CudaLimits(), /*is_kernel=*/false).EmitOnePoint();
}

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol, const CudaLimits& limits) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("atomic_add: kernels have none");
  }
  auto module = std::make_unique<llvm::Module>("kernel", context);
  const fb::CudaKernelT launch = CudaLaunchFor(spec, symbol, limits);
  for (size_t k = 0; k < launch.stages.size(); ++k) {
    CudaEmitter(*module, spec, launch.stages[k]->entry, limits).Emit(static_cast<int>(k));
  }
  return module;
}

}  // namespace smelt
