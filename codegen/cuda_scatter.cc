// The scatters of a CUDA kernel: inner phases that store at an offset, so that several elements may name one place.
// Their values meet there in the order of the elements.
#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/codegen/cuda_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Value;

bool CudaEmitter::Scatters(const KernelPhase& phase) const {
  return std::any_of(phase.instrs.begin(), phase.instrs.end(),
                     [&](int i) { return s_.instrs[i].op == KernelOp::kStore && s_.instrs[i].has_offset; });
}

// Returns the only store at an offset in a phase in which its param is loaded at that very offset alone, and where
// only the store depends on the loaded value; -1 for any other phase.
int CudaEmitter::OnlyScatter(const KernelPhase& phase) const {
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
std::vector<bool> CudaEmitter::DependsOnLoad(const KernelPhase& phase, int param) const {
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
void CudaEmitter::EmitScatter(const KernelPhase& phase) {
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

bool CudaEmitter::IsUsedBy(int instr, const std::vector<int>& users) const {
  return std::any_of(users.begin(), users.end(), [&](int u) {
    const std::vector<int>& operands = s_.instrs[u].operands;
    return std::find(operands.begin(), operands.end(), instr) != operands.end();
  });
}

}  // namespace smelt
