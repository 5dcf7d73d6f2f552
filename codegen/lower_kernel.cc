// The general parts of a kernel: decisions, the parameter block, values, the blocks of loops and branches.
#include <algorithm>
#include <numeric>
#include <utility>

#include "llvm/IR/Dominators.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"
#include "smelt/codegen/kernel_emitter.h"
#include "smelt/codegen/math.h"
#include "smelt/codegen/share_repeated.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

absl::Status KernelEmitter::Emit(const std::string& symbol) {
  for (const KernelInstr& in : s_.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("atomic_add: kernels for a CPU have none");
  }
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr_, i64_, i64_, ptr_}, false);
  fn_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, m_);
  fn_->setDSOLocal(true);
  words_ = fn_->getArg(0);
  begin_ = fn_->getArg(1);
  end_ = fn_->getArg(2);
  status_ = fn_->getArg(3);
  entry_ = BasicBlock::Create(c_, "entry", fn_);
  b_.SetInsertPoint(entry_);
  scalar_.SetStatusHandler([this](int code, Value* bad) { SetStatus(code, bad); });
  Plan();
  LoadWords();
  auto* body = BasicBlock::Create(c_, "body", fn_);
  auto* exit = BasicBlock::Create(c_, "exit", fn_);
  // The entry holds only allocas and values that follow from the parameter block.
  b_.CreateCondBr(b_.CreateICmpSLT(begin_, end_), body, exit);
  b_.SetInsertPoint(body);
  if (Value* refuses = IndexesNothing(b_, s_, size_, scalars_)) {
    auto* bad = Block("bad");
    auto* good = Block("good");
    b_.CreateCondBr(refuses, bad, good);
    b_.SetInsertPoint(bad);
    b_.CreateAlignedStore(b_.getInt64(1), status_, llvm::Align(8));
    b_.CreateBr(exit);
    b_.SetInsertPoint(good);
  }
  if (columns_) {
    EmitColumns();
  } else {
    EmitRowMode();
  }
  if (uses_non_temporal_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
  b_.CreateBr(exit);
  b_.SetInsertPoint(exit);
  b_.CreateRetVoid();
  llvm::DominatorTree dominators(*fn_);
  std::vector<AllocaInst*> promotable;
  for (AllocaInst* a : variables_) {
    if (llvm::isAllocaPromotable(a)) promotable.push_back(a);
  }
  llvm::PromoteMemToReg(promotable, dominators);
  ShareRepeated(*fn_);
  return absl::OkStatus();
}

void KernelEmitter::Plan() {
  const int p = s_.parallel_rank;
  columns_ = p > 0 && s_.vector_dim == p - 1;
  // The dim of the innermost loop, which may be vectorized.
  loop_dim_ = columns_ ? p - 1 : s_.reduction_rank > 0 ? s_.rank() - 1 : -1;
  unless_.assign(s_.phases.size(), -1);
  is_plain_.assign(s_.instrs.size(), false);
  if (!columns_) {
    if (std::optional<Deviations> one_pass = FindDeviations(s_)) {
      s_ = std::move(one_pass->spec);
      unless_ = std::move(one_pass->unless);
      is_plain_ = std::move(one_pass->is_plain);
    }
  }
  varying_.assign(s_.instrs.size(), false);
  uses_.assign(s_.instrs.size(), 0);
  for (const KernelInstr& in : s_.instrs) {
    for (int o : in.operands) ++uses_[o];
  }
  phase_of_.assign(s_.instrs.size(), 0);
  for (size_t k = 0; k < s_.phases.size(); ++k) {
    for (int i : s_.phases[k].instrs) phase_of_[i] = static_cast<int>(k);
  }
  for (size_t i = 0; i < s_.instrs.size(); ++i) {
    const KernelInstr& in = s_.instrs[i];
    const bool phase_has_loop = columns_ || s_.phases[phase_of_[i]].inner;
    bool v = false;
    for (int o : in.operands) v = v || varying_[o];
    switch (in.op) {
      case KernelOp::kIndex:
        v = in.dim == loop_dim_;
        break;
      case KernelOp::kLoad:
        v = v || (phase_has_loop && loop_dim_ >= 0 && s_.params[in.param].strides[loop_dim_] != StrideClass::kZero);
        break;
      case KernelOp::kReduce:
        v = columns_;
        break;
      case KernelOp::kScan:
        v = true;
        break;
      default:
        break;
    }
    varying_[i] = v;
  }
  const bool vectorize = s_.vector_dim >= 0 && !s_.sequential;
  lanes_ = vectorize ? f_.vector_bits / LaneBits() : 1;
  // Elements far apart are read and written one by one; very many of them in short vectors. The compile time of code of
  // ten thousand instructions is quadratic in them.
  constexpr int kMostApart = 256;
  for (const int apart = CountApart(); lanes_ > 4 && lanes_ * apart > kMostApart;) lanes_ /= 2;
  written_.assign(s_.params.size(), false);
  for (const KernelInstr& in : s_.instrs) {
    if (in.op == KernelOp::kStore) written_[in.param] = true;
  }
  maxima_ = FindMaxima(s_);
  short_nans_ = HaveShortNans(s_);
  ChooseTiled();
  PlanStreams();
  PlanScratch();
  PlanFolds();
  PairStores();
  if (columns_ && lanes_ > 1 && !has_tiles_) interior_ = FindInterior(s_, varying_);
}

int KernelEmitter::CountApart() const {
  if (loop_dim_ < 0) return 0;
  return static_cast<int>(std::count_if(s_.instrs.begin(), s_.instrs.end(), [&](const KernelInstr& in) {
    return (in.op == KernelOp::kLoad || in.op == KernelOp::kStore) &&
           s_.params[in.param].strides[loop_dim_] == StrideClass::kAny;
  }));
}

int KernelEmitter::LaneBits() const {
  bool f32 = false, f64 = false;
  int bits = 8;
  for (size_t i = 0; i < s_.instrs.size(); ++i) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op == KernelOp::kIndex || in.op == KernelOp::kDimSize || in.op == KernelOp::kCheckIndex) continue;
    // A value that is equal in all lanes takes no lane: a Python number is 64 bits wide.
    if (!varying_[i] && in.op != KernelOp::kReduce && in.op != KernelOp::kStore) continue;
    f32 = f32 || in.type == DType::kFloat32 || IsHalf(in.type);
    f64 = f64 || in.type == DType::kFloat64;
    bits = std::max(bits, 8 * ItemSize(in.type));
  }
  return f32 ? 32 : f64 ? 64 : bits;
}

KernelEmitter::Cost KernelEmitter::CostOf(const std::vector<int>& instrs) const {
  Cost cost;
  std::vector<int> path(s_.instrs.size(), 0);
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (!varying_[i] && in.op != KernelOp::kStore && in.op != KernelOp::kReduce) continue;
    const int parts = std::max(1, lanes_ * 8 * ItemSize(in.type) / f_.vector_bits);
    int c = 1;
    if (in.op == KernelOp::kScalar) c = MathCost(in.scalar);
    if ((in.op == KernelOp::kLoad || in.op == KernelOp::kStore)) {
      const StrideClass along = loop_dim_ >= 0 ? LoopClass(in.param) : StrideClass::kZero;
      const bool by_lanes = in.has_offset || along == StrideClass::kAny;
      c = by_lanes ? 4 * lanes_ : IsApart(along) ? 4 * static_cast<int>(ElementsApart(along)) : in.has_guard ? 4 : 1;
    }
    cost.all += c * parts;
    for (int o : in.operands) path[i] = std::max(path[i], path[o]);
    path[i] += c;
    cost.path = std::max(cost.path, path[i]);
  }
  return cost;
}

void KernelEmitter::LoadWords() {
  int n = 0;
  for (int d = 0; d < s_.rank(); ++d) size_.push_back(Word(n++));
  for (const KernelParam& p : s_.params) {
    base_.push_back(Word(n++, ptr_));
    std::vector<Value*> strides;
    for (StrideClass c : p.strides) {
      Value* item = b_.getInt64(ItemSize(p.dtype));
      strides.push_back(c == StrideClass::kZero  ? nullptr
                        : c == StrideClass::kAny ? b_.CreateMul(Word(n++), item)
                                                 : b_.getInt64(ElementsApart(c) * ItemSize(p.dtype)));
    }
    stride_.push_back(std::move(strides));
  }
  for (DType t : s_.scalars) {
    Value* scalar = scalar_.FromWord(Word(n++), t);
    if (t == DType::kFloat32 || t == DType::kFloat64) {
      Value* nan = llvm::ConstantFP::getNaN(scalar->getType());
      scalar = b_.CreateSelect(b_.CreateFCmpUNO(scalar, scalar), nan, scalar);  // see HaveShortNans
    }
    scalars_.push_back(scalar);
  }
  if (!f_.IsAvx2Only()) {
    Value* hints = b_.CreateAlignedLoad(i64_, b_.CreateConstGEP1_64(i64_, status_, kHintsWord), llvm::Align(8));
    asks_ahead_ = b_.CreateIsNotNull(b_.CreateAnd(hints, kAskAhead));
    reads_alone_ = b_.CreateIsNotNull(b_.CreateAnd(hints, kReadsAlone));
  }
  addr_ = base_;
  idx_.assign(s_.rank(), nullptr);
  vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  // Computes whether this launch's outputs are large enough to be stored past the cache.
  nt_launch_.assign(s_.params.size(), nullptr);
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (!written_[p] || !MayBeNonTemporal(static_cast<int>(p))) continue;
    Value* bytes = b_.getInt64(ItemSize(s_.params[p].dtype));
    for (int d = 0; d < s_.rank(); ++d) {
      if (stride_[p][d]) bytes = b_.CreateMul(bytes, size_[d]);
    }
    Value* row = b_.CreateMul(size_[loop_dim_], b_.getInt64(ItemSize(s_.params[p].dtype)));
    Value* whole_lines = b_.CreateICmpEQ(b_.CreateAnd(row, b_.getInt64(63)), b_.getInt64(0));
    Value* long_rows = b_.CreateICmpSGE(row, b_.getInt64(kNonTemporalRowBytes));
    Value* either = b_.CreateOr(whole_lines, long_rows);
    nt_launch_[p] = b_.CreateAnd(b_.CreateICmpSGE(bytes, b_.getInt64(kNonTemporalBytes)), either);
    if (has_scratch_[p]) {
      Value* fits = b_.CreateICmpSLE(size_[loop_dim_], b_.getInt64(kScratchElements));
      nt_launch_[p] = b_.CreateAnd(nt_launch_[p], fits);
    }
  }
}

bool KernelEmitter::MayBeNonTemporal(int param) const {
  const KernelParam& p = s_.params[param];
  if (!f_.non_temporal || lanes_ == 1 || loop_dim_ < 0) return false;
  if (p.strides[loop_dim_] != StrideClass::kUnit) return false;
  if (p.is_read && !has_scratch_[param]) return false;
  if (8 * ItemSize(p.dtype) * lanes_ < 128) return false;
  // The param shares a class with one that is read: the cache holds the lines already.
  for (const KernelParam& q : s_.params) {
    if (&q != &p && q.is_read && (p.alias_class < 0 ? false : q.alias_class == p.alias_class)) return false;
  }
  for (const KernelInstr& in : s_.instrs) {
    if (in.op == KernelOp::kStore && in.param == param && (in.has_offset || in.has_guard)) return false;
  }
  return true;
}

AllocaInst* KernelEmitter::Variable(Type* t) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  AllocaInst* a = at.CreateAlloca(t);
  variables_.push_back(a);
  return a;
}

AllocaInst* KernelEmitter::Temporary(Type* t) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  AllocaInst* a = at.CreateAlloca(t);
  a->setAlignment(llvm::Align(llvm::PowerOf2Ceil(std::max<uint64_t>(64, t->getPrimitiveSizeInBits() / 8))));
  return a;
}

void KernelEmitter::For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* loop = Block("loop");
  BasicBlock* done = Block("done");
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), loop, done);
  b_.SetInsertPoint(loop);
  llvm::PHINode* i = b_.CreatePHI(i64_, 2);
  i->addIncoming(from, before);
  body(i);
  Value* next = b_.CreateAdd(i, step, "", /*HasNUW=*/false, /*HasNSW=*/true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), loop, done);
  b_.SetInsertPoint(done);
}

void KernelEmitter::While(const std::function<Value*()>& condition, const std::function<void()>& body) {
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
void KernelEmitter::If(Value* condition, const std::function<void()>& then) {
  BasicBlock* yes = Block("then");
  BasicBlock* after = Block("endif");
  b_.CreateCondBr(condition, yes, after);
  b_.SetInsertPoint(yes);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* KernelEmitter::IfElse(Value* condition, const std::function<Value*()>& then,
                             const std::function<Value*()>& otherwise) {
  const auto values = IfElseOfSome(
      condition, [&] { return std::vector<Value*>{then()}; }, [&] { return std::vector<Value*>{otherwise()}; });
  return values[0];
}

std::vector<Value*> KernelEmitter::IfElseOfSome(Value* condition, const std::function<std::vector<Value*>()>& then,
                                                const std::function<std::vector<Value*>()>& otherwise) {
  BasicBlock* yes = Block("then");
  BasicBlock* no = Block("else");
  BasicBlock* after = Block("endif");
  b_.CreateCondBr(condition, yes, no, llvm::MDBuilder(c_).createLikelyBranchWeights());
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

Value* KernelEmitter::Any(Value* bits) {
  if (!bits->getType()->isVectorTy()) return bits;
  const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
  return b_.CreateICmpNE(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::ConstantInt::get(b_.getIntNTy(n), 0));
}

Value* KernelEmitter::All(Value* bits) {
  if (!bits->getType()->isVectorTy()) return bits;
  const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
  return b_.CreateICmpEQ(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::Constant::getAllOnesValue(b_.getIntNTy(n)));
}

Value* KernelEmitter::Iota(Type* element, int lanes) {
  std::vector<llvm::Constant*> k;
  for (int i = 0; i < lanes; ++i) k.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(k);
}

Value* KernelEmitter::MaskOf(Value* count, int lanes) {
  if (f_.avx512) {
    // LLVM takes longer over a shift of so short an integer.
    Type* word = lanes <= 32 ? b_.getInt32Ty() : i64_;
    const auto zero_high_bits = lanes <= 32 ? llvm::Intrinsic::x86_bmi_bzhi_32 : llvm::Intrinsic::x86_bmi_bzhi_64;
    Value* bits = b_.CreateIntrinsic(zero_high_bits, {},
                                     {llvm::Constant::getAllOnesValue(word), b_.CreateZExtOrTrunc(count, word)});
    return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes)), Vec(b_.getInt1Ty(), lanes));
  }
  Value* n = b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty()));
  return b_.CreateICmpULT(Iota(b_.getInt32Ty(), lanes), n);
}

bool KernelEmitter::MasksNatively(Type* element) const {
  const unsigned bits = element->getScalarSizeInBits();
  return f_.avx512 || (f_.avx2 && bits >= 32);
}

void KernelEmitter::SetStatus(int code, Value* bad) {
  if (mask_ && bad->getType()->isVectorTy()) bad = b_.CreateAnd(bad, mask_);
  BasicBlock* yes = Block("bad");
  BasicBlock* after = Block("good");
  llvm::MDNode* unlikely =
      llvm::MDNode::get(c_, {llvm::MDString::get(c_, "branch_weights"), llvm::ConstantAsMetadata::get(b_.getInt32(1)),
                             llvm::ConstantAsMetadata::get(b_.getInt32(100000))});
  b_.CreateCondBr(Any(bad), yes, after, unlikely);
  b_.SetInsertPoint(yes);
  b_.CreateAlignedStore(b_.getInt64(code), status_, llvm::Align(8));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* KernelEmitter::Splat(Value* v) {
  if (active_lanes_ == 1 || v->getType()->isVectorTy()) return v;
  // The constant is made here, not in the loop that reads it: nothing would move it out of there.
  llvm::IRBuilder<>::InsertPointGuard here(b_);
  auto* made = llvm::dyn_cast<llvm::Instruction>(v);
  if (made && made->getParent() != b_.GetInsertBlock() && !llvm::isa<llvm::PHINode>(made)) {
    b_.SetInsertPoint(made->getNextNode());
  }
  return b_.CreateVectorSplat(active_lanes_, v);
}

void KernelEmitter::SetAll(int i, Value* v) {
  for (auto& copy : vals_) copy[i] = v;
}

// Functions with branches are emitted together: otherwise the copies' code, block after block, would no longer run side
// by side. On a machine with few registers, functions of float32 are too: each constant is then loaded once for all
// copies, and each instruction waits less for the one before, as those of the other copies come between them.
bool KernelEmitter::IsEmittedTogether(const KernelInstr& in) const {
  if (in.op != KernelOp::kScalar) return false;
  switch (in.scalar) {
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return true;
    case ScalarOp::kExp:
    case ScalarOp::kExp2:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kLog1p:
    case ScalarOp::kTanh:
    case ScalarOp::kSigmoid:
    case ScalarOp::kErf:
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
    case ScalarOp::kAtan:
      return f_.IsAvx2Only() && in.type == DType::kFloat32;
    default:
      return false;
  }
}

void KernelEmitter::EmitInstrs(const std::vector<int>& instrs, int copies) {
  loaded_.assign(s_.instrs.size(), false);
  for (size_t k = 0; k < instrs.size(); ++k) {
    const int i = instrs[k];
    const KernelInstr& in = s_.instrs[i];
    if (hoisted_.size() && hoisted_[i]) continue;
    if (whole_ && in.op == KernelOp::kLoad && !loaded_[i]) LoadTogether(instrs, k);
    if (loaded_[i]) continue;
    const bool effect = in.op == KernelOp::kStore || in.op == KernelOp::kReduce || in.op == KernelOp::kScan;
    const bool vector = active_lanes_ > 1 || chunk_;
    if (!effect && row_copies_ == 0 && (!varying_[i] || !vector)) {
      // One value for all lanes and copies.
      Value* v = EmitInstr(i, 0);
      SetAll(i, v);
      continue;
    }
    if (IsEmittedTogether(in) && copies > 1 && active_lanes_ > 1 && row_copies_ == 0) {
      EmitTogether(i, copies);
      continue;
    }
    if (in.op == KernelOp::kLoad && pairs_ && !mask_ && copies % 2 == 0) {
      for (int u = 0; u < copies; u += 2) LoadEvenOdd(i, u);
      continue;
    }
    if (in.op == KernelOp::kStore) {
      if (!IsPairedIn(i, instrs)) {
        EmitStores(in, copies);
      } else if (partner_[i] < i) {
        WholeOrPart([&]() -> Value* {
          EmitInterleaved(s_.instrs[partner_[i]], in, copies);
          return nullptr;
        });
      }
      continue;
    }
    if (in.op == KernelOp::kReduce && IsSumLike(in) && row_copies_ > 1) {
      AccumulateRows(i);
      continue;
    }
    for (int u = 0; u < copies; ++u) {
      Value* v = EmitInstr(i, u);
      if (in.op != KernelOp::kReduce) Set(i, u, v);
    }
  }
}

Value* KernelEmitter::WholeOrPart(const std::function<Value*()>& access) {
  if (!whole_) return access();
  return WholesOrParts([&] { return std::vector<Value*>{access()}; })[0];
}

std::vector<Value*> KernelEmitter::WholesOrParts(const std::function<std::vector<Value*>()>& accesses) {
  Value* is_whole = std::exchange(whole_, nullptr);
  auto wholes = [&] {
    Value* mask = std::exchange(mask_, nullptr);
    Value* count = std::exchange(count_, nullptr);
    std::vector<Value*> values = accesses();
    mask_ = mask;
    count_ = count;
    return values;
  };
  std::vector<Value*> values = IfElseOfSome(is_whole, wholes, accesses);
  whole_ = is_whole;
  return values;
}

// If a body serves whole vectors and parts of them, each access is two blocks of code. A few loads from places that are
// known at the start of the body share them. (More loads would wait for their use in registers that others need.)
void KernelEmitter::LoadTogether(const std::vector<int>& instrs, size_t from) {
  std::vector<int> loads;
  for (size_t k = from; k < instrs.size() && loads.size() < kLoadedTogether; ++k) {
    const KernelInstr& in = s_.instrs[instrs[k]];
    // Later instructions may read what is stored.
    if (in.op == KernelOp::kStore) break;
    const bool is_plain = in.op == KernelOp::kLoad && !in.has_offset && !in.has_guard && UnitAlongLoop(in.param);
    if (is_plain && !(hoisted_.size() && hoisted_[instrs[k]])) loads.push_back(instrs[k]);
    if (loads.empty()) return;  // the first one is another kind of load
  }
  const std::vector<Value*> values = WholesOrParts([&] {
    std::vector<Value*> parts;
    for (int i : loads) parts.push_back(LoadVector(s_.instrs[i], 0, nullptr, nullptr));
    return parts;
  });
  for (size_t k = 0; k < loads.size(); ++k) {
    Set(loads[k], 0, FromMemory(s_.instrs[loads[k]].type, values[k]));
    loaded_[loads[k]] = true;
  }
}

void KernelEmitter::EmitStores(const KernelInstr& in, int copies) {
  if (whole_) {
    WholeOrPart([&]() -> Value* {
      EmitStores(in, copies);
      return nullptr;
    });
    return;
  }
  auto stores = [&]() -> Value* {
    const bool together = copies % 2 == 0 && !mask_ && row_copies_ == 0;
    if (together && pairs_) {
      for (int u = 0; u < copies; u += 2) StoreEvenOdd(in, u);
    } else if (together && non_temporal_ && active_lanes_ * ItemSize(in.type) == 32) {
      for (int u = 0; u < copies; u += 2) StorePair(in, u);
    } else {
      for (int u = 0; u < copies; ++u) EmitStore(in, u);
    }
    return nullptr;
  };
  if (!past_cache_ || mask_ || !nt_launch_[in.param] || !IsLastStore(in)) {
    stores();
    return;
  }
  auto past_cache = [&]() -> Value* {
    non_temporal_ = true;
    stores();
    non_temporal_ = false;
    return nullptr;
  };
  if (llvm::isa<llvm::ConstantInt>(past_cache_)) {
    past_cache();
  } else {
    IfElse(past_cache_, past_cache, stores);
  }
}

void KernelEmitter::EmitTogether(int i, int copies) {
  const KernelInstr& in = s_.instrs[i];
  auto range = [](int from, int n) {
    std::vector<int> r(n);
    std::iota(r.begin(), r.end(), from);
    return r;
  };
  Value* v[3] = {};
  DType types[3] = {};
  for (size_t k = 0; k < in.operands.size(); ++k) {
    types[k] = s_.instrs[in.operands[k]].type;
    std::vector<Value*> parts;
    for (int u = 0; u < copies; ++u) parts.push_back(GetVector(in.operands[k], u));
    for (int lanes = active_lanes_; parts.size() > 1; lanes *= 2) {
      std::vector<Value*> next;
      for (size_t u = 0; u < parts.size(); u += 2) {
        next.push_back(b_.CreateShuffleVector(parts[u], parts[u + 1], range(0, 2 * lanes)));
      }
      parts = std::move(next);
    }
    v[k] = parts[0];
  }
  Value* r = EmitScalarOp(in, types, v, active_lanes_ * copies);
  for (int u = 0; u < copies; ++u) Set(i, u, b_.CreateShuffleVector(r, range(u * active_lanes_, active_lanes_)));
}

Value* KernelEmitter::EmitInstr(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  switch (in.op) {
    case KernelOp::kScalar:
      return EmitScalar(i, u);
    case KernelOp::kLoad:
      return EmitLoad(in, u);
    case KernelOp::kStore:
      EmitStore(in, u);
      return nullptr;
    case KernelOp::kIndex:
      return EmitIndex(in.dim, u);
    case KernelOp::kScalarParam:
      return scalars_[in.dim];
    case KernelOp::kDimSize:
      return size_[in.dim];
    case KernelOp::kCheckIndex:
      return EmitCheckIndex(i, u);
    case KernelOp::kReduce:
      Accumulate(i, u);
      return nullptr;
    case KernelOp::kScan:
      return EmitScan(i, u);
    case KernelOp::kAtomicAdd:
      break;
  }
  SMELT_UNREACHABLE();
  return nullptr;
}

Value* KernelEmitter::EmitScalar(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  Value* v[3] = {};
  DType types[3] = {};
  bool vector = false;
  for (size_t k = 0; k < in.operands.size(); ++k) {
    v[k] = Get(in.operands[k], u);
    types[k] = s_.instrs[in.operands[k]].type;
    vector = vector || v[k]->getType()->isVectorTy();
  }
  if (vector) {
    if (Value* lanes = CompareLanes(in, u)) return lanes;
    for (size_t k = 0; k < in.operands.size(); ++k) v[k] = Splat(v[k]);
  }
  if (in.scalar == ScalarOp::kConst) return scalar_.Const(in.type, in.imm);
  return EmitScalarOp(in, types, v, active_lanes_);
}

Value* KernelEmitter::EmitScalarOp(const KernelInstr& in, const DType* types, Value* const* v, int lanes) {
  if (in.scalar == ScalarOp::kCast && in.type == DType::kBFloat16 && short_nans_[in.operands[0]]) {
    return scalar_.ToBFloat16(v[0], types[0]);
  }
  if (in.scalar == ScalarOp::kExp && in.type == DType::kFloat32 && maxima_.at_most_zero[in.operands[0]]) {
    return EmitExpAtMostZero(b_, f_, v[0]);
  }
  return scalar_.Emit(in.scalar, in.type, types, v, lanes);
}

Value* KernelEmitter::EmitIndex(int dim, int u) {
  if (row_copies_ > 0) {
    if (dim == s_.rank() - 1)
      return u < row_vectors_ ? idx_[dim] : b_.CreateAdd(idx_[dim], b_.getInt64(u / row_vectors_));
    u %= row_vectors_;
  }
  if (dim != loop_dim_ || !chunk_) return idx_[dim];
  Value* i = FirstIndex(u);
  if (active_lanes_ == 1) return i;
  return b_.CreateAdd(b_.CreateVectorSplat(active_lanes_, i), Iota(i64_, active_lanes_));
}

Value* KernelEmitter::FirstIndex(int u) {
  return u ? b_.CreateAdd(chunk_, b_.getInt64(static_cast<int64_t>(u) * active_lanes_)) : chunk_;
}

Value* KernelEmitter::CompareLanes(const KernelInstr& in, int u) {
  if (in.op != KernelOp::kScalar || in.operands.size() != 2 || row_copies_ > 0 || !chunk_) return nullptr;
  if (in.scalar < ScalarOp::kLt || in.scalar > ScalarOp::kGe) return nullptr;
  const auto is_index = [&](int i) { return s_.instrs[i].op == KernelOp::kIndex && s_.instrs[i].dim == loop_dim_; };
  const bool swapped = is_index(in.operands[1]);
  const int index = in.operands[swapped], limit = in.operands[!swapped];
  if (!is_index(index) || varying_[limit]) return nullptr;
  // In lane l of copy u the index is first + u * lanes + l. Both sides are reduced by `first`, and the limit is clamped
  // to what copies hold.
  constexpr int kMostCopies = 64;
  const int bits = std::clamp(f_.vector_bits / active_lanes_, 16, 64);
  Value* first = FirstIndex(0);
  Value* end = b_.CreateAdd(first, b_.getInt64(static_cast<int64_t>(kMostCopies) * active_lanes_));
  Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, Get(limit, 0), b_.CreateSub(first, b_.getInt64(1)));
  left = b_.CreateSub(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, end), first);
  llvm::Type* t = b_.getIntNTy(bits);
  Value* lane = Iota(t, active_lanes_);
  if (u > 0) {
    lane = b_.CreateAdd(
        lane, b_.CreateVectorSplat(active_lanes_, llvm::ConstantInt::get(t, static_cast<int64_t>(u) * active_lanes_)));
  }
  Value* v[] = {lane, b_.CreateVectorSplat(active_lanes_, b_.CreateTrunc(left, t))};
  if (swapped) std::swap(v[0], v[1]);
  const DType types[] = {DType::kInt64, DType::kInt64};  // signed; narrower here
  return scalar_.Emit(in.scalar, in.type, types, v, active_lanes_);
}

// Returns whether instruction `i` is x < 0.
bool KernelEmitter::IsNegative(int i, int x) const {
  const KernelInstr& in = s_.instrs[i];
  if (in.op != KernelOp::kScalar || in.scalar != ScalarOp::kLt || in.operands[0] != x) return false;
  const KernelInstr& zero = s_.instrs[in.operands[1]];
  return zero.op == KernelOp::kScalar && zero.scalar == ScalarOp::kConst && !IsFloating(zero.type) && zero.imm.i == 0;
}

Value* KernelEmitter::EmitCheckIndex(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  // If a negative index has been replaced by the size, which is out of range, it need not be distinguished. A phase
  // knows only the values of earlier phases that its operands name, not their operands.
  const KernelInstr& from = s_.instrs[in.operands[0]];
  const bool in_one_phase = std::any_of(s_.phases.begin(), s_.phases.end(), [&](const KernelPhase& p) {
    const auto has = [&](int k) { return std::find(p.instrs.begin(), p.instrs.end(), k) != p.instrs.end(); };
    return has(i) && has(in.operands[0]);
  });
  const bool refuses_negative = in_one_phase && from.op == KernelOp::kScalar && from.scalar == ScalarOp::kSelect &&
                                from.operands[1] == in.operands[1] && IsNegative(from.operands[0], from.operands[2]);
  Value* index = Get(refuses_negative ? from.operands[2] : in.operands[0], u);
  Value* size = Get(in.operands[1], u);
  if (index->getType()->isVectorTy() || size->getType()->isVectorTy()) {
    index = Splat(index);
    size = Splat(size);
  }
  Value* zero = llvm::Constant::getNullValue(index->getType());
  if (!refuses_negative) {
    Value* sum = b_.CreateAdd(index, size);
    index = b_.CreateSelect(b_.CreateICmpSLT(index, zero), sum, index);
  }
  Value* bad = b_.CreateICmpUGE(index, size);  // a negative one, too
  SetStatus(1, bad);
  return b_.CreateSelect(bad, zero, index);
}

namespace {

// A kernel that continues as `gathers` or as `apart`.
void EmitChoice(llvm::Function& apart, llvm::Function& gathers, const std::string& symbol) {
  auto* fn =
      llvm::Function::Create(apart.getFunctionType(), llvm::GlobalValue::ExternalLinkage, symbol, apart.getParent());
  fn->setDSOLocal(true);
  llvm::IRBuilder<> b(BasicBlock::Create(fn->getContext(), "entry", fn));
  Value* hints = b.CreateConstGEP1_64(b.getInt64Ty(), fn->getArg(3), kHintsWord);
  hints = b.CreateAlignedLoad(b.getInt64Ty(), hints, llvm::Align(8));
  BasicBlock* ways[] = {BasicBlock::Create(fn->getContext(), "gathers", fn),
                        BasicBlock::Create(fn->getContext(), "apart", fn)};
  b.CreateCondBr(b.CreateIsNotNull(b.CreateAnd(hints, kGathersWell)), ways[0], ways[1]);
  for (int k = 0; k < 2; ++k) {
    b.SetInsertPoint(ways[k]);
    std::vector<Value*> args;
    for (llvm::Argument& a : fn->args()) args.push_back(&a);
    b.CreateCall(k == 0 ? &gathers : &apart, args)->setTailCallKind(llvm::CallInst::TCK_MustTail);
    b.CreateRetVoid();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernel(llvm::LLVMContext& context, const KernelSpec& spec,
                                                          const CpuFeatures& features, const std::string& symbol) {
  auto module = std::make_unique<llvm::Module>("kernel", context);
  KernelEmitter one_by_one(*module, spec, features, /*gathers=*/false);
  absl::Status status = one_by_one.Emit(symbol);
  if (!status.ok()) return status;
  if (!one_by_one.could_gather()) return module;
  // The kernel holds both forms, and the machine that runs it chooses. On Intel's processors gathers take half of the
  // time of moving places out of a vector and elements into one; on AMD's they take up to half as much again. A choice
  // at each load would keep LLVM from extracting the places once for all loads there.
  llvm::Function* apart = module->getFunction(symbol);
  apart->setName(symbol + "_apart");
  apart->setLinkage(llvm::GlobalValue::InternalLinkage);
  status = KernelEmitter(*module, spec, features, /*gathers=*/true).Emit(symbol + "_gathers");
  if (!status.ok()) return status;
  llvm::Function* gathers = module->getFunction(symbol + "_gathers");
  gathers->setLinkage(llvm::GlobalValue::InternalLinkage);
  EmitChoice(*apart, *gathers, symbol);
  return module;
}

}  // namespace smelt
