#include "smelt/codegen/kernel_function.h"

#include "llvm/IR/Dominators.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"
#include "smelt/codegen/keep_constants.h"
#include "smelt/codegen/share_repeated.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

KernelFunction::KernelFunction(llvm::Module& module, const CpuFeatures& features, bool gathers,
                               const std::string& symbol)
    : m_(module), f_(features), gathers_(gathers), b_(module.getContext()), scalar_(b_, features) {
  Type* i64 = b_.getInt64Ty();
  Type* ptr = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, i64, ptr}, false);
  fn_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, m_);
  fn_->setDSOLocal(true);
  entry_ = Block("entry");
  b_.SetInsertPoint(entry_);
}

void KernelFunction::EnterBody() {
  BasicBlock* body = Block("body");
  exit_ = Block("exit");
  b_.CreateCondBr(b_.CreateICmpSLT(begin(), end()), body, exit_);
  b_.SetInsertPoint(body);
}

void KernelFunction::RefuseIf(Value* refuses) {
  BasicBlock* bad = Block("bad");
  BasicBlock* good = Block("good");
  b_.CreateCondBr(refuses, bad, good);
  b_.SetInsertPoint(bad);
  b_.CreateAlignedStore(b_.getInt64(1), status(), llvm::Align(8));
  b_.CreateBr(exit_);
  b_.SetInsertPoint(good);
}

void KernelFunction::Finish() {
  if (fences_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
  b_.CreateBr(exit_);
  b_.SetInsertPoint(exit_);
  b_.CreateRetVoid();
  llvm::DominatorTree dominators(*fn_);
  std::vector<AllocaInst*> promotable;
  for (AllocaInst* a : variables_) {
    if (llvm::isAllocaPromotable(a)) promotable.push_back(a);
  }
  llvm::PromoteMemToReg(promotable, dominators);
  ShareRepeated(*fn_);
  if (f_.neon) KeepConstants(*fn_);
}

AllocaInst* KernelFunction::Variable(Type* t) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  AllocaInst* a = at.CreateAlloca(t);
  variables_.push_back(a);
  return a;
}

AllocaInst* KernelFunction::Temporary(Type* t) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  AllocaInst* a = at.CreateAlloca(t);
  a->setAlignment(llvm::Align(llvm::PowerOf2Ceil(std::max<uint64_t>(64, t->getPrimitiveSizeInBits() / 8))));
  return a;
}

void KernelFunction::For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* loop = Block("loop");
  BasicBlock* done = Block("done");
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), loop, done);
  b_.SetInsertPoint(loop);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(from, before);
  body(i);
  Value* next = b_.CreateAdd(i, step, "", /*HasNUW=*/false, /*HasNSW=*/true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), loop, done);
  b_.SetInsertPoint(done);
}

void KernelFunction::While(const std::function<Value*()>& condition, const std::function<void()>& body) {
  BasicBlock* check = Block("check");
  BasicBlock* work = Block("work");
  BasicBlock* done = Block("done");
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  b_.CreateCondBr(condition(), work, done);
  b_.SetInsertPoint(work);
  body();
  b_.CreateBr(check);
  b_.SetInsertPoint(done);
}

void KernelFunction::If(Value* condition, const std::function<void()>& then) {
  BasicBlock* yes = Block("then");
  BasicBlock* after = Block("endif");
  b_.CreateCondBr(condition, yes, after);
  b_.SetInsertPoint(yes);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* KernelFunction::IfElse(Value* condition, const std::function<Value*()>& then,
                              const std::function<Value*()>& otherwise) {
  const auto values = IfElseOfSome(
      condition, [&] { return std::vector<Value*>{then()}; }, [&] { return std::vector<Value*>{otherwise()}; });
  return values[0];
}

std::vector<Value*> KernelFunction::IfElseOfSome(Value* condition, const std::function<std::vector<Value*>()>& then,
                                                 const std::function<std::vector<Value*>()>& otherwise) {
  BasicBlock* yes = Block("then");
  BasicBlock* no = Block("else");
  BasicBlock* after = Block("endif");
  b_.CreateCondBr(condition, yes, no, llvm::MDBuilder(m_.getContext()).createLikelyBranchWeights());
  b_.SetInsertPoint(yes);
  std::vector<Value*> values = then();
  yes = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(no);
  const std::vector<Value*> others = otherwise();
  no = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  for (size_t k = 0; k < values.size(); ++k) {
    if (!values[k]) continue;
    llvm::PHINode* phi = b_.CreatePHI(values[k]->getType(), 2);
    phi->addIncoming(values[k], yes);
    phi->addIncoming(others[k], no);
    values[k] = phi;
  }
  return values;
}

void KernelFunction::SetStatus(int code, Value* bad, Value* mask) {
  if (mask && bad->getType()->isVectorTy()) bad = b_.CreateAnd(bad, mask);
  BasicBlock* yes = Block("bad");
  BasicBlock* after = Block("good");
  llvm::MDNode* unlikely = llvm::MDNode::get(m_.getContext(), {llvm::MDString::get(m_.getContext(), "branch_weights"),
                                                               llvm::ConstantAsMetadata::get(b_.getInt32(1)),
                                                               llvm::ConstantAsMetadata::get(b_.getInt32(100000))});
  b_.CreateCondBr(Any(bad), yes, after, unlikely);
  b_.SetInsertPoint(yes);
  b_.CreateAlignedStore(b_.getInt64(code), status(), llvm::Align(8));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* KernelFunction::FromMemory(DType t, Value* v) {
  return t == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}

Value* KernelFunction::Widened(Value* v) {
  return v->getType()->getScalarSizeInBits() == 1 ? b_.CreateZExt(v, v->getType()->getWithNewType(b_.getInt8Ty())) : v;
}

Value* KernelFunction::Splat(int lanes, Value* v) {
  if (lanes == 1 || v->getType()->isVectorTy()) return v;
  // The constant is made here, not in the loop that reads it: nothing would move it out of there.
  llvm::IRBuilder<>::InsertPointGuard here(b_);
  auto* made = llvm::dyn_cast<llvm::Instruction>(v);
  if (made && made->getParent() != b_.GetInsertBlock() && !llvm::isa<llvm::PHINode>(made)) {
    b_.SetInsertPoint(made->getNextNode());
  }
  return b_.CreateVectorSplat(lanes, v);
}

Value* KernelFunction::Any(Value* bits) {
  if (!bits->getType()->isVectorTy()) return bits;
  const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
  return b_.CreateICmpNE(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::ConstantInt::get(b_.getIntNTy(n), 0));
}

Value* KernelFunction::All(Value* bits) {
  if (!bits->getType()->isVectorTy()) return bits;
  const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
  return b_.CreateICmpEQ(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::Constant::getAllOnesValue(b_.getIntNTy(n)));
}

Value* KernelFunction::Iota(Type* element, int lanes) {
  std::vector<llvm::Constant*> k;
  for (int i = 0; i < lanes; ++i) k.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(k);
}

Value* KernelFunction::MaskOf(Value* count, int lanes) {
  if (f_.avx512) {
    // LLVM takes longer over a shift of so short an integer.
    Type* word = lanes <= 32 ? b_.getInt32Ty() : b_.getInt64Ty();
    const auto zero_high_bits = lanes <= 32 ? llvm::Intrinsic::x86_bmi_bzhi_32 : llvm::Intrinsic::x86_bmi_bzhi_64;
    Value* bits = b_.CreateIntrinsic(zero_high_bits, {},
                                     {llvm::Constant::getAllOnesValue(word), b_.CreateZExtOrTrunc(count, word)});
    return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes)), Vec(b_.getInt1Ty(), lanes));
  }
  Value* n = b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty()));
  return b_.CreateICmpULT(Iota(b_.getInt32Ty(), lanes), n);
}

bool KernelFunction::MasksNatively(Type* element) const {
  const unsigned bits = element->getScalarSizeInBits();
  return f_.avx512 || (f_.avx2 && bits >= 32);
}

void KernelFunction::PastCache(llvm::StoreInst* store) {
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(m_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

void KernelFunction::Prefetch(Value* at, bool nearest) {
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {at, b_.getInt32(0), b_.getInt32(nearest ? 3 : 2), b_.getInt32(1)});
}

}  // namespace smelt
