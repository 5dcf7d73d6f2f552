#include "smelt/codegen/cuda_function.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/libdevice.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// The features that the scalar emitter may use: contraction is explicit, conversions of float16 and to bfloat16 are
// instructions.
CpuFeatures Features() {
  CpuFeatures f;
  f.fma = true;
  f.f16c = true;
  f.bf16 = true;
  return f;
}

}  // namespace

CudaFunction::CudaFunction(llvm::Module& module, const KernelSpec& spec, const std::string& symbol, bool is_kernel)
    : s_(spec),
      m_(module),
      c_(module.getContext()),
      b_(c_),
      features_(Features()),
      scalar_(b_, features_),
      i64_(b_.getInt64Ty()) {
  Type* ptr = b_.getPtrTy();
  fn_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64_, i64_, ptr, ptr}, false),
                               is_kernel ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
                               symbol, m_);
  if (is_kernel) fn_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  if (is_kernel && TakesWordsByValue(spec)) {
    fn_->addParamAttr(0, llvm::Attribute::getWithByValType(c_, llvm::ArrayType::get(i64_, spec.num_words())));
    fn_->addParamAttr(0, llvm::Attribute::getWithAlignment(c_, llvm::Align(8)));
  }
  if (is_kernel) fn_->addFnAttr("nvvm.reqntid", absl::StrCat(kCudaBlock));
  fn_->addFnAttr(llvm::Attribute::NoUnwind);
  entry_ = BasicBlock::Create(c_, "entry", fn_);
  b_.SetInsertPoint(entry_);
  begin_ = fn_->getArg(1);
  end_ = fn_->getArg(2);
  workspace_ = b_.CreateAddrSpaceCast(fn_->getArg(4), llvm::PointerType::get(c_, kCudaGlobal));
  scalar_.SetStatusHandler([this](int code, Value* bad) { SetStatus(code, bad); });
  scalar_.SetMathHandler([this](ScalarOp op, Value* x, Value* y) { return Math(op, x, y); });
  if (is_kernel) {
    thread_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    block_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    blocks_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  }
  LoadWords(fn_->getArg(0));
  if (!is_kernel) constant_.assign(constant_.size(), false);
  // Loops below branch out of here; allocas stay in the entry.
  BasicBlock* body = Block("body");
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  LeaveIfIndexesNothing();
}

AllocaInst* CudaFunction::Variable(Type* t) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  return at.CreateAlloca(t);
}

void CudaFunction::For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
  BasicBlock *before = b_.GetInsertBlock(), *head = Block("loop"), *inside = Block("each"), *done = Block("done");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* i = b_.CreatePHI(i64_, 2);
  i->addIncoming(from, before);
  b_.CreateCondBr(b_.CreateICmpSLT(i, to), inside, done);
  b_.SetInsertPoint(inside);
  body(i);
  Value* next = b_.CreateAdd(i, step);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(done);
}

void CudaFunction::IfElse(Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  BasicBlock *yes = Block("then"), *no = Block("else"), *after = Block("endif");
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(no);
  otherwise();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void CudaFunction::If(Value* condition, const std::function<void()>& then) {
  IfElse(condition, then, [] {});
}

void CudaFunction::Barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b_.getInt32(0)});
}

void CudaFunction::WarpBarrier() { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {b_.getInt32(0xffffffff)}); }

void CudaFunction::SetStatus(int code, Value* bad) {
  If(bad, [&] { b_.CreateAlignedStore(b_.getInt64(code), fn_->getArg(3), llvm::Align(8)); });
}

llvm::GlobalVariable* CudaFunction::Shared(const char* suffix, int slots) {
  auto* type = llvm::ArrayType::get(i64_, slots);
  auto* shared = new llvm::GlobalVariable(m_, type, false, llvm::GlobalValue::InternalLinkage,
                                          llvm::UndefValue::get(type), absl::StrCat(fn_->getName().str(), suffix),
                                          nullptr, llvm::GlobalValue::NotThreadLocal, kCudaShared);
  shared->setAlignment(llvm::Align(8));
  return shared;
}

// All threads alike.
void CudaFunction::LeaveIfIndexesNothing() {
  Value* refuses = IndexesNothing(b_, s_, size_, scalars_);
  if (!refuses) return;
  BasicBlock *yes = Block("nothing"), *no = Block("elements");
  b_.CreateCondBr(refuses, yes, no);
  b_.SetInsertPoint(yes);
  b_.CreateAlignedStore(b_.getInt64(1), fn_->getArg(3), llvm::Align(8));
  b_.CreateRetVoid();
  b_.SetInsertPoint(no);
}

Value* CudaFunction::Math(ScalarOp op, Value* x, Value* y) {
  const bool is_double = x->getType()->isDoubleTy();
  const std::string name = LibdeviceName(op, is_double);
  if (op == ScalarOp::kSigmoid) {
    Value* one = llvm::ConstantFP::get(x->getType(), 1);
    return b_.CreateFDiv(one, b_.CreateFAdd(one, Math(ScalarOp::kExp, b_.CreateFNeg(x), nullptr)));
  }
  if (name.empty()) return nullptr;  // inline, as on a CPU
  std::vector<Type*> types = {x->getType()};
  std::vector<Value*> args = {x};
  if (NumOperands(op) == 2) {
    types.push_back(y->getType());
    args.push_back(y);
  }
  return b_.CreateCall(m_.getOrInsertFunction(name, llvm::FunctionType::get(x->getType(), types, false)), args);
}

Value* CudaFunction::Word(Value* words, int n) {
  return b_.CreateAlignedLoad(i64_, b_.CreateConstGEP1_64(i64_, words, n), llvm::Align(8));
}

void CudaFunction::LoadWords(Value* words) {
  int n = 0;
  for (int d = 0; d < s_.rank(); ++d) size_.push_back(Word(words, n++));
  for (const KernelParam& p : s_.params) {
    base_.push_back(b_.CreateIntToPtr(Word(words, n++), llvm::PointerType::get(c_, kCudaGlobal)));
    std::vector<Value*> strides;
    for (StrideClass c : p.strides) {
      const int64_t item = ItemSize(p.dtype);
      strides.push_back(c == StrideClass::kZero  ? nullptr
                        : c == StrideClass::kAny ? b_.CreateMul(Word(words, n++), b_.getInt64(item))
                                                 : b_.getInt64(ElementsApart(c) * item));
    }
    stride_.push_back(std::move(strides));
  }
  for (DType t : s_.scalars) scalars_.push_back(scalar_.FromWord(Word(words, n++), t));
  // Params that no launch of this kernel may write: loads may go past the coherent cache.
  for (const KernelParam& p : s_.params) {
    bool constant = p.is_read && !p.is_written && p.alias_class >= 0;
    for (const KernelParam& q : s_.params) {
      if (q.is_written && (q.alias_class < 0 || q.alias_class == p.alias_class)) constant = false;
    }
    constant_.push_back(constant);
  }
}

void CudaFunction::Decompose(Value* number, int from, int to, std::vector<Value*>& index) {
  for (int d = to - 1; d > from; --d) {
    index[d] = b_.CreateURem(number, size_[d]);
    number = b_.CreateUDiv(number, size_[d]);
  }
  if (to > from) index[from] = number;
}

Value* CudaFunction::Product(int from, int to) {
  Value* n = b_.getInt64(1);
  for (int d = from; d < to; ++d) n = b_.CreateMul(n, size_[d]);
  return n;
}

void CudaFunction::MarkConstant(llvm::LoadInst* load, int param) {
  if (constant_[param]) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(c_, {}));
}

Value* CudaFunction::Address(int param, const std::vector<Value*>& index, Value* offset) {
  Value* bytes = b_.getInt64(0);
  for (int d = 0; d < s_.rank(); ++d) {
    if (stride_[param][d]) bytes = b_.CreateAdd(bytes, b_.CreateMul(index[d], stride_[param][d]));
  }
  if (offset) bytes = b_.CreateAdd(bytes, b_.CreateMul(offset, b_.getInt64(ItemSize(s_.params[param].dtype))));
  return b_.CreateGEP(b_.getInt8Ty(), base_[param], {bytes});
}

}  // namespace smelt
