#include "smelt/codegen/lower_cuda.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/cuda_function.h"
#include "smelt/codegen/cuda_reductions.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

class CudaEmitter {
 public:
  CudaEmitter(llvm::Module& module, const KernelSpec& spec, const std::string& symbol)
      : s_(spec),
        schedule_(CudaScheduleFor(spec)),
        columns_(spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1),
        f_(module, spec, symbol),
        b_(f_.b()),
        scalar_(f_.scalar()),
        reductions_(f_, spec),
        i64_(b_.getInt64Ty()),
        index_(spec.rank(), b_.getInt64(0)) {}

  void Emit() {
    switch (schedule_.kind) {
      case CudaSchedule::kPoints:
        EmitPoints(/*serial=*/false);
        break;
      case CudaSchedule::kSerial:
        EmitPoints(/*serial=*/true);
        break;
      case CudaSchedule::kRows:
        EmitRows();
        break;
    }
    b_.CreateRetVoid();
  }

 private:
  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }

  // --- schedules ---
  void EmitPoints(bool serial) {
    const int p = s_.parallel_rank;
    const bool by_elements = columns_ && p == 1;
    const bool by_rows = columns_ && p > 1;
    const int row_dims = by_rows ? p - 1 : p;
    const int v = serial ? 1 : schedule_.vector;
    auto chunks = [&](Value* n) {
      return v == 1 ? n : b_.CreateUDiv(b_.CreateAdd(n, b_.getInt64(v - 1)), b_.getInt64(v));
    };
    Value* tiles = b_.CreateSub(f_.end(), f_.begin());
    Value* per_row = by_rows ? chunks(f_.Size(p - 1)) : nullptr;
    Value* total = by_elements ? chunks(tiles) : by_rows ? b_.CreateMul(tiles, per_row) : tiles;
    Value* first =
        serial ? b_.getInt64(0) : b_.CreateAdd(b_.CreateMul(f_.block(), b_.getInt64(kCudaBlock)), f_.thread());
    Value* step = serial ? b_.getInt64(1) : b_.CreateMul(f_.blocks(), b_.getInt64(kCudaBlock));
    auto all = [&] {
      f_.For(first, total, step, [&](Value* c) {
        if (by_elements) {
          Chunk(b_.CreateAdd(f_.begin(), b_.CreateMul(c, b_.getInt64(v))), f_.end(), v);
        } else if (by_rows) {
          f_.Decompose(b_.CreateAdd(f_.begin(), b_.CreateUDiv(c, per_row)), 0, row_dims, index_);
          Chunk(b_.CreateMul(b_.CreateURem(c, per_row), b_.getInt64(v)), f_.Size(p - 1), v);
        } else {
          f_.Decompose(b_.CreateAdd(f_.begin(), c), 0, p, index_);
          Point(1);
        }
      });
    };
    if (serial) {
      f_.If(b_.CreateICmpEQ(b_.CreateOr(f_.block(), f_.thread()), b_.getInt64(0)), all);
    } else {
      all();
    }
  }
  // Points [at, at + v) of the last parallel dim, as far as they are below `limit`.
  void Chunk(Value* at, Value* limit, int v) {
    Value*& index = index_[s_.parallel_rank - 1];
    if (v == 1) {
      index = at;
      Point(1);
      return;
    }
    auto one_by_one = [&] {
      Value* stop = Min(limit, b_.CreateAdd(at, b_.getInt64(v)));
      f_.For(at, stop, b_.getInt64(1), [&](Value* i) {
        index = i;
        Point(1);
      });
    };
    // True if the chunk is whole and each param with adjacent elements is aligned: no alignment is promised.
    index = at;
    Value* whole = b_.CreateICmpSLE(b_.CreateAdd(at, b_.getInt64(v)), limit);
    for (size_t k = 0; k < s_.params.size(); ++k) {
      if (!SideBySide(static_cast<int>(k))) continue;
      const int bytes = v * ItemSize(s_.params[k].dtype);
      Value* address = b_.CreatePtrToInt(f_.Address(static_cast<int>(k), index_, nullptr), i64_);
      whole = b_.CreateAnd(whole, b_.CreateICmpEQ(b_.CreateAnd(address, b_.getInt64(bytes - 1)), b_.getInt64(0)));
    }
    f_.IfElse(whole, [&] { index = at, Point(v); }, one_by_one);
  }
  bool SideBySide(int param) const { return s_.params[param].strides[s_.parallel_rank - 1] == StrideClass::kUnit; }

  // Emits one point, or `v` side by side: all phases, with reductions inside the thread.
  void Point(int v) {
    const std::vector<Value*> outer = index_;
    values_.assign(v, std::vector<Value*>(s_.instrs.size(), nullptr));
    for (const KernelPhase& phase : s_.phases) {
      index_ = outer;
      if (!phase.inner) {
        EmitInstrs(phase.instrs, v);
        continue;
      }
      SMELT_CHECK(v == 1);
      reductions_.Begin(phase);
      f_.For(b_.getInt64(0), f_.Product(s_.parallel_rank, s_.rank()), b_.getInt64(1), [&](Value* k) {
        f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
        EmitInstrs(phase.instrs, 1);
      });
      index_ = outer;
      reductions_.End(phase, /*block=*/false, values_[0]);
    }
    index_ = outer;
  }

  void EmitRows() {
    reductions_.ShareAmongBlock();
    f_.For(b_.CreateAdd(f_.begin(), f_.block()), f_.end(), f_.blocks(), [&](Value* tile) {
      f_.Decompose(tile, 0, s_.parallel_rank, index_);
      const std::vector<Value*> outer = index_;
      values_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
      for (const KernelPhase& phase : s_.phases) {
        index_ = outer;
        if (!phase.inner) {
          once_ = true;
          EmitInstrs(phase.instrs, 1);
          once_ = false;
        } else {
          reductions_.Begin(phase);
          if (Scatters(phase)) {
            EmitScatter(phase);
          } else {
            f_.For(f_.thread(), f_.Product(s_.parallel_rank, s_.rank()), b_.getInt64(kCudaBlock), [&](Value* k) {
              f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
              EmitInstrs(phase.instrs, 1);
            });
          }
          index_ = outer;
          reductions_.End(phase, /*block=*/true, values_[0]);
        }
        // Later phases read what threads of this one stored, and store what they loaded.
        f_.Barrier();
      }
      index_ = outer;
    });
  }

  // --- scatters ---
  // An inner phase that stores at an offset: several elements may name one place, whose values meet there in the order
  // of the elements.
  bool Scatters(const KernelPhase& phase) const {
    return std::any_of(phase.instrs.begin(), phase.instrs.end(),
                       [&](int i) { return s_.instrs[i].op == KernelOp::kStore && s_.instrs[i].has_offset; });
  }
  // Returns the only store at an offset in a phase in which its param is loaded at that very offset alone, and where
  // only the store depends on the loaded value; -1 for any other phase.
  int OnlyScatter(const KernelPhase& phase) const {
    int store = -1;
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kStore || !in.has_offset) continue;
      if (store >= 0) return -1;
      store = i;
    }
    const KernelInstr& to = s_.instrs[store];
    const std::vector<bool> late = DependsOnLoad(phase, to.param);
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      const bool touches = in.op == KernelOp::kLoad || in.op == KernelOp::kStore;
      if (touches && i != store && in.param == to.param &&
          (in.op == KernelOp::kStore || !in.has_offset || in.operands[0] != to.operands[1]))
        return -1;
      if (late[i] && i != store && in.op != KernelOp::kLoad && in.op != KernelOp::kScalar) return -1;
    }
    return late[to.operands[1]] || (to.has_guard && late[to.operands.back()]) ? -1 : store;
  }
  // Returns the instructions of the phase that depend on loads from `param`: the loads themselves, and everything
  // computed from them.
  std::vector<bool> DependsOnLoad(const KernelPhase& phase, int param) const {
    std::vector<bool> late(s_.instrs.size(), false);
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      late[i] = in.op == KernelOp::kLoad && in.param == param;
      for (int o : in.operands) late[i] = late[i] || late[o];
    }
    return late;
  }

  // Takes as many elements at once as there are threads. Each thread computes the place and the value of its element.
  // First the elements are stored whose place no earlier element of the same lot names, then the second ones, and so
  // on. So each place sees its elements in their order, whatever the hardware does.
  void EmitScatter(const KernelPhase& phase) {
    Value* const count = f_.Product(s_.parallel_rank, s_.rank());
    const int store = OnlyScatter(phase);
    if (store < 0) {
      f_.If(b_.CreateICmpEQ(f_.thread(), b_.getInt64(0)), [&] {
        f_.For(b_.getInt64(0), count, b_.getInt64(1), [&](Value* k) {
          f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
          EmitInstrs(phase.instrs, 1);
        });
      });
      return;
    }
    const KernelInstr& to = s_.instrs[store];
    const std::vector<bool> late = DependsOnLoad(phase, to.param);
    std::vector<int> early, last;
    for (int i : phase.instrs) (late[i] || i == store ? last : early).push_back(i);
    if (places_ == nullptr) places_ = f_.Shared("_places", kCudaBlock);
    auto slot = [&](Value* t) { return b_.CreateGEP(i64_, places_, {t}); };
    AllocaInst *place = f_.Variable(i64_), *rank = f_.Variable(i64_);
    f_.For(b_.getInt64(0), count, b_.getInt64(kCudaBlock), [&](Value* base) {
      Value* const k = b_.CreateAdd(base, f_.thread());
      f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
      const std::vector<Value*> index = index_;
      // -1: no element, or one that is not stored.
      b_.CreateStore(b_.getInt64(-1), place);
      std::vector<std::pair<int, AllocaInst*>> kept;
      f_.If(b_.CreateICmpSLT(k, count), [&] {
        EmitInstrs(early, 1);
        Value* at = b_.CreatePtrToInt(f_.Address(to.param, index_, values_[0][to.operands[1]]), i64_);
        if (to.has_guard) at = b_.CreateSelect(values_[0][to.operands.back()], at, b_.getInt64(-1));
        b_.CreateStore(at, place);
        for (int i : early) {
          if (values_[0][i] == nullptr || !IsUsedBy(i, last)) continue;
          kept.push_back({i, f_.Variable(values_[0][i]->getType())});
          b_.CreateStore(values_[0][i], kept.back().second);
        }
      });
      Value* const mine = f_.Get(place);
      b_.CreateAlignedStore(mine, slot(f_.thread()), llvm::Align(8));
      f_.Barrier();
      b_.CreateStore(b_.getInt64(0), rank);
      f_.For(b_.getInt64(0), f_.thread(), b_.getInt64(1), [&](Value* t) {
        Value* same = b_.CreateICmpEQ(b_.CreateAlignedLoad(i64_, slot(t), llvm::Align(8)), mine);
        Value* wide = b_.CreateZExt(same, i64_);
        b_.CreateStore(b_.CreateAdd(f_.Get(rank), wide), rank);
      });
      Value* const none = b_.CreateICmpEQ(mine, b_.getInt64(-1));
      Value* const turn = b_.CreateSelect(none, b_.getInt64(-1), f_.Get(rank));
      Value* const turns = b_.CreateAdd(reductions_.LargestOfBlock(turn), b_.getInt64(1));
      f_.For(b_.getInt64(0), turns, b_.getInt64(1), [&](Value* now) {
        f_.If(b_.CreateICmpEQ(turn, now), [&] {
          index_ = index;
          for (const auto& [i, variable] : kept) values_[0][i] = f_.Get(variable);
          EmitInstrs(last, 1);
        });
        f_.Barrier();
      });
    });
  }
  bool IsUsedBy(int instr, const std::vector<int>& users) const {
    return std::any_of(users.begin(), users.end(), [&](int u) {
      const std::vector<int>& operands = s_.instrs[u].operands;
      return std::find(operands.begin(), operands.end(), instr) != operands.end();
    });
  }

  // --- instructions ---
  void EmitInstrs(const std::vector<int>& instrs, int v) {
    const int last = s_.parallel_rank - 1;
    Value* const first = v > 1 ? index_[last] : nullptr;
    bool loaded = false;
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      const bool plain = !in.has_offset && !in.has_guard;
      loaded = loaded || in.op == KernelOp::kLoad;
      if (once_ && loaded && in.op == KernelOp::kStore) {
        // Each thread has loaded the value that the storing one replaces.
        f_.Barrier();
        loaded = false;
      }
      if (v > 1 && plain && in.op == KernelOp::kLoad && SideBySide(in.param)) {
        LoadVector(i, v);
        continue;
      }
      if (v > 1 && plain && in.op == KernelOp::kStore && SideBySide(in.param)) {
        StoreVector(i, v);
        continue;
      }
      for (int u = 0; u < v; ++u) {
        if (first) index_[last] = b_.CreateAdd(first, b_.getInt64(u));
        EmitInstr(i, u);
      }
      if (first) index_[last] = first;
    }
  }
  Type* MemoryType(DType t) { return t == DType::kBool ? b_.getInt8Ty() : scalar_.TypeOf(t); }
  Value* FromMemory(DType t, Value* v) {
    return t == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
  }
  Value* ToMemory(DType t, Value* v) { return t == DType::kBool ? b_.CreateZExt(v, b_.getInt8Ty()) : v; }
  void LoadVector(int i, int v) {
    const KernelInstr& in = s_.instrs[i];
    Type* type = llvm::FixedVectorType::get(MemoryType(in.type), v);
    auto* load = b_.CreateAlignedLoad(type, f_.Address(in.param, index_, nullptr), llvm::Align(v * ItemSize(in.type)));
    f_.MarkConstant(load, in.param);
    for (int u = 0; u < v; ++u) values_[u][i] = FromMemory(in.type, b_.CreateExtractElement(load, u));
  }
  void StoreVector(int i, int v) {
    const KernelInstr& in = s_.instrs[i];
    Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(MemoryType(in.type), v));
    for (int u = 0; u < v; ++u)
      vector = b_.CreateInsertElement(vector, ToMemory(in.type, values_[u][in.operands[0]]), u);
    b_.CreateAlignedStore(vector, f_.Address(in.param, index_, nullptr), llvm::Align(v * ItemSize(in.type)));
  }
  void EmitInstr(int i, int u) {
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
        if (once_) {
          // All threads of the block are here for one point.
          Value* one = b_.CreateICmpEQ(f_.thread(), b_.getInt64(0));
          condition = condition ? b_.CreateAnd(condition, one) : one;
        }
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

  const KernelSpec& s_;
  const CudaSchedule schedule_;
  const bool columns_;
  CudaFunction f_;
  llvm::IRBuilder<>& b_;
  ScalarEmitter& scalar_;
  CudaReductions reductions_;
  Type* const i64_;
  bool once_ = false;                        // all threads of the block emit one point's outer phase
  llvm::GlobalVariable* places_ = nullptr;   // of scatters: a word per thread
  std::vector<Value*> index_;                // of the point
  std::vector<std::vector<Value*>> values_;  // of each point side by side, by instruction
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("atomic_add: kernels have none");
  }
  auto module = std::make_unique<llvm::Module>("kernel", context);
  CudaEmitter(*module, spec, symbol).Emit();
  return module;
}

}  // namespace smelt
