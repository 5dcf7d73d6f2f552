// Reductions over rows of columns that fill less than half a vector. The rows follow each other in memory, and a vector
// takes several of them: each of its lanes is a part of a column's result, and the parts are put together when a phase
// ends.
#include <algorithm>
#include <utility>

#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// Vectors of rows from which on it is worth it to put parts together: of cheap instructions and of dearer ones.
constexpr int64_t kManyVectors = 8, kFewVectors = 4;
constexpr int kCheap = 12;
// Vectors at a time: more take LLVM longer than the machine.
constexpr int kCopies = 2;

}  // namespace

void KernelEmitter::PlanFolds() {
  can_fold_ = columns_ && lanes_ > 1 && s_.reduction_rank > 0;
  in_rows_.assign(s_.instrs.size(), false);
  const int rows = s_.rank() - 1;
  bool loads = false;
  for (const KernelPhase& phase : s_.phases) {
    if (!phase.inner) continue;
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      bool moves = in.op == KernelOp::kReduce || in.op == KernelOp::kStore;
      for (int o : in.operands) moves = moves || (in_rows_[o] && s_.instrs[o].op != KernelOp::kReduce);
      if (in.op == KernelOp::kLoad) moves = moves || s_.params[in.param].strides[rows] != StrideClass::kZero;
      in_rows_[i] = moves;
      can_fold_ =
          can_fold_ && in.op != KernelOp::kScan && !IsArg(in.reduce) && (in.op != KernelOp::kIndex || in.dim != rows);
      if (in.op != KernelOp::kLoad && in.op != KernelOp::kStore) continue;
      if (moves) {
        can_fold_ = can_fold_ && IsFoldable(in);
      } else {
        can_fold_ = can_fold_ && !MayBeWritten(in.param);
      }
      loads = loads || (moves && in.op == KernelOp::kLoad);
    }
  }
  can_fold_ = can_fold_ && loads;
}

// Returns whether it goes over elements that may follow each other through all rows.
bool KernelEmitter::IsFoldable(const KernelInstr& in) const {
  const std::vector<StrideClass>& strides = s_.params[in.param].strides;
  return !in.has_offset && !in.has_guard && strides[loop_dim_] == StrideClass::kUnit &&
         strides[s_.rank() - 1] == StrideClass::kAny;
}

// Decided by sizes alone, so that results do not depend on which tiles are computed together.
Value* KernelEmitter::Folds() {
  const int rows = s_.rank() - 1;
  Value* columns = size_[loop_dim_];
  auto both = [&](Value* a, Value* z) { return b_.CreateAnd(a, z); };
  Value* all = b_.CreateICmpSLE(columns, b_.getInt64(lanes_ / 2));
  std::vector<int> inner;
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) inner.insert(inner.end(), phase.instrs.begin(), phase.instrs.end());
  }
  const int64_t vectors = CostOf(inner).all <= kCheap ? kManyVectors : kFewVectors;
  all = both(all, b_.CreateICmpSGE(b_.CreateMul(columns, size_[rows]), b_.getInt64(vectors * lanes_)));
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (s_.params[p].strides[rows] == StrideClass::kZero) continue;
    Value* row = b_.CreateMul(columns, b_.getInt64(ItemSize(s_.params[p].dtype)));
    all = both(all, b_.CreateICmpEQ(stride_[p][rows], row));
  }
  return all;
}

void KernelEmitter::EmitFolded() {
  vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) {
      FoldPhase(phase.instrs);
    } else {
      OnColumns(phase.instrs);
    }
  }
}

// One vector of all columns.
void KernelEmitter::OnColumns(const std::vector<int>& instrs) {
  MaskedVector(b_.getInt64(0), size_[loop_dim_], [&] { EmitInstrs(instrs, 1); });
}

void KernelEmitter::FoldPhase(const std::vector<int>& instrs) {
  const std::vector<Value*> known = vals_[0];
  std::vector<int> once, rows;
  for (int i : instrs) (in_rows_[i] ? rows : once).push_back(i);
  loop_instrs_ = rows;
  folds_ = true;
  const int copies = std::min(kCopies, Copies(rows, /*reduces=*/true));
  StartReductions(rows, copies);
  std::function<void()> flush;
  if (HasSums(rows)) flush = [&, copies] { FlushSums(rows, copies); };
  Value* columns = size_[loop_dim_];
  Value* n = b_.CreateMul(columns, size_[s_.rank() - 1]);
  auto whole = [&]() -> Value* {
    ChunkLoop(b_.getInt64(0), n, copies, [&](int k) { EmitInstrs(rows, k); }, flush, HasStores(rows));
    return nullptr;
  };
  auto part = [&]() -> Value* {
    Value* taken = FoldedLanes();
    auto run = [&](Value* from, Value* to) {
      For(from, to, taken,
          [&](Value* i) { MaskedVector(i, Min(b_.CreateSub(to, i), taken), [&] { EmitInstrs(rows, 1); }); });
    };
    InBlocks(b_.getInt64(0), n, b_.CreateMul(taken, b_.getInt64(kSumBlock)), run, flush);
    return nullptr;
  };
  Nest(
      s_.parallel_rank, s_.rank() - 1,
      [&] {
        vals_.assign(1, known);
        OnColumns(once);
        vals_.assign(copies, vals_[0]);
        std::vector<bool> spread(s_.instrs.size(), false);
        for (int i : rows) {
          for (int o : s_.instrs[i].operands) {
            Value* v = in_rows_[o] && phase_of_[o] == phase_of_[i] ? nullptr : vals_[0][o];
            if (!v || spread[o] || !v->getType()->isVectorTy()) continue;
            SetAll(o, Spread(v));
            spread[o] = true;
          }
        }
        IfElse(b_.CreateICmpEQ(FoldedLanes(), b_.getInt64(lanes_)), whole, part);
      },
      flush);
  vals_.assign(copies, known);
  FinishReductions(rows, copies);
  vals_.resize(1);
  folds_ = false;
}

// Lanes of the rows that a vector takes.
Value* KernelEmitter::FoldedLanes() {
  Value* lanes = b_.getInt64(lanes_);
  return b_.CreateSub(lanes, b_.CreateURem(lanes, size_[loop_dim_]));
}

// In each lane the number of its column.
Value* KernelEmitter::Spread(Value* v) {
  Value* wide = Widened(v);
  Type* element = wide->getType()->getScalarType();
  const llvm::Align align = AlignOf(element);
  AllocaInst* memory = Temporary(llvm::ArrayType::get(element, 2 * int64_t{lanes_}));
  For(b_.getInt64(0), b_.getInt64(lanes_), size_[loop_dim_],
      [&](Value* at) { b_.CreateAlignedStore(wide, b_.CreateGEP(element, memory, at), align); });
  Value* all = b_.CreateAlignedLoad(wide->getType(), memory, align);
  return wide == v ? all : b_.CreateICmpNE(all, llvm::Constant::getNullValue(all->getType()));
}

// The first lanes with what `combine` makes of each and of those of the same column.
Value* KernelEmitter::FoldLanes(Value* v, const std::function<Value*(Value*, Value*)>& combine) {
  Value* wide = Widened(v);
  Type* element = wide->getType()->getScalarType();
  const llvm::Align align = AlignOf(element);
  AllocaInst* memory = Temporary(llvm::ArrayType::get(element, 2 * int64_t{lanes_}));
  b_.CreateAlignedStore(wide, memory, align);
  b_.CreateAlignedStore(llvm::Constant::getNullValue(wide->getType()), b_.CreateConstGEP1_64(element, memory, lanes_),
                        align);
  AllocaInst* all = Variable(v->getType());
  b_.CreateStore(v, all);
  For(size_[loop_dim_], FoldedLanes(), size_[loop_dim_], [&](Value* at) {
    Value* next = b_.CreateAlignedLoad(wide->getType(), b_.CreateGEP(element, memory, at), align);
    if (wide != v) next = b_.CreateICmpNE(next, llvm::Constant::getNullValue(next->getType()));
    b_.CreateStore(combine(Load(all), next), all);
  });
  return Load(all);
}

}  // namespace smelt
