#include "smelt/codegen/lane_folds.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

Value* LaneFolds::FoldedLanes() {
  Value* lanes = b_.getInt64(plan_.lanes);
  return b_.CreateSub(lanes, b_.CreateURem(lanes, words_.size(plan_.loop_dim)));
}

Value* LaneFolds::Spread(Value* v) {
  Value* wide = fn_.Widened(v);
  Type* element = wide->getType()->getScalarType();
  const llvm::Align align = AlignOf(element);
  AllocaInst* memory = fn_.Temporary(llvm::ArrayType::get(element, 2 * int64_t{plan_.lanes}));
  fn_.For(b_.getInt64(0), b_.getInt64(plan_.lanes), words_.size(plan_.loop_dim),
          [&](Value* at) { b_.CreateAlignedStore(wide, b_.CreateGEP(element, memory, at), align); });
  Value* all = b_.CreateAlignedLoad(wide->getType(), memory, align);
  return wide == v ? all : b_.CreateICmpNE(all, llvm::Constant::getNullValue(all->getType()));
}

Value* LaneFolds::FoldLanes(Value* v, const std::function<Value*(Value*, Value*)>& combine) {
  Value* wide = fn_.Widened(v);
  Type* element = wide->getType()->getScalarType();
  const llvm::Align align = AlignOf(element);
  AllocaInst* memory = fn_.Temporary(llvm::ArrayType::get(element, 2 * int64_t{plan_.lanes}));
  b_.CreateAlignedStore(wide, memory, align);
  b_.CreateAlignedStore(llvm::Constant::getNullValue(wide->getType()),
                        b_.CreateConstGEP1_64(element, memory, plan_.lanes), align);
  AllocaInst* all = fn_.Variable(v->getType());
  b_.CreateStore(v, all);
  fn_.For(words_.size(plan_.loop_dim), FoldedLanes(), words_.size(plan_.loop_dim), [&](Value* at) {
    Value* next = b_.CreateAlignedLoad(wide->getType(), b_.CreateGEP(element, memory, at), align);
    if (wide != v) next = b_.CreateICmpNE(next, llvm::Constant::getNullValue(next->getType()));
    b_.CreateStore(combine(fn_.Load(all), next), all);
  });
  return fn_.Load(all);
}

}  // namespace smelt
