// The loops, memory accesses and reductions of a kernel. What a scalar operation is stands in lower_scalar.cc.
//
// Two shapes, by where the vectorized dim is:
//   columns: it is the last parallel dim. A chunk of U vectors of W points runs all phases; reductions accumulate per
//   lane. rows:    it is the last reduction dim (or there is none). Outer phases are scalar code; the innermost loop of
//   an inner phase
//            runs over vectors, with U accumulators, combined when the phase ends.
// A loop over the vectorized dim is an unmasked main loop of U vectors and one masked body for what is left. The masked
// body is the same arithmetic, so a result never depends on where in a loop an element falls.
//
// There is no IR optimization pipeline: loop-carried state lives in allocas that are promoted to registers at the end,
// everything else is emitted as it shall be.
#include "smelt/codegen/lower_kernel.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/codegen/math.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

// Iterations after which a floating point sum's accumulators are added to a compensated second level: bounds the error
// growth of a sum of any length by about this many roundings.
constexpr int kSumBlock = 64;
// Outputs of a launch beyond this many bytes are stored past the cache.
constexpr int64_t kNonTemporalBytes = 16 << 20;

bool IsSumLike(const KernelInstr& in) {
  return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(in.type);
}
bool IsArgKind(ReduceKind k) { return k == ReduceKind::kArgMin || k == ReduceKind::kArgMax; }

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const KernelSpec& spec, const CpuFeatures& features)
      : s_(spec), f_(features), m_(module), c_(module.getContext()), b_(c_), scalar_(b_, features) {
    i64_ = b_.getInt64Ty();
    i8_ = b_.getInt8Ty();
    ptr_ = b_.getPtrTy();
  }

  absl::Status Emit(const std::string& symbol) {
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
    // The entry keeps only allocas and what follows from the parameter block.
    b_.CreateCondBr(b_.CreateICmpSLT(begin_, end_), body, exit);
    b_.SetInsertPoint(body);
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
    return absl::OkStatus();
  }

 private:
  // ---- decisions ----

  void Plan() {
    const int p = s_.parallel_rank;
    columns_ = p > 0 && s_.vector_dim == p - 1;
    // The dim of the innermost loop, which may be vectorized.
    loop_dim_ = columns_ ? p - 1 : s_.reduction_rank > 0 ? s_.rank() - 1 : -1;
    const bool vectorize = s_.vector_dim >= 0 && !s_.sequential;
    lanes_ = vectorize ? f_.vector_bits / LaneBits() : 1;
    varying_.assign(s_.instrs.size(), false);
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
    written_.assign(s_.params.size(), false);
    for (const KernelInstr& in : s_.instrs) {
      if (in.op == KernelOp::kStore) written_[in.param] = true;
    }
  }

  // The width that decides how many lanes a vector has: of the floating point that is computed with, else of the widest
  // integer.
  int LaneBits() const {
    bool f32 = false, f64 = false;
    int bits = 8;
    for (const KernelInstr& in : s_.instrs) {
      if (in.op == KernelOp::kIndex || in.op == KernelOp::kDimSize || in.op == KernelOp::kCheckIndex) continue;
      f32 = f32 || in.type == DType::kFloat32 || in.type == DType::kFloat16 || in.type == DType::kBFloat16;
      f64 = f64 || in.type == DType::kFloat64;
      bits = std::max(bits, 8 * ItemSize(in.type));
    }
    return f32 ? 32 : f64 ? 64 : bits;
  }

  int CostOf(const std::vector<int>& instrs) const {
    int cost = 0;
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (!varying_[i] && in.op != KernelOp::kStore && in.op != KernelOp::kReduce) continue;
      const int parts = std::max(1, lanes_ * 8 * ItemSize(in.type) / f_.vector_bits);
      int c = 1;
      if (in.op == KernelOp::kScalar) c = MathCost(in.scalar);
      if ((in.op == KernelOp::kLoad || in.op == KernelOp::kStore)) {
        const bool indirect =
            in.has_offset || (loop_dim_ >= 0 && s_.params[in.param].strides[loop_dim_] == StrideClass::kAny);
        c = indirect ? 4 * lanes_ : in.has_guard ? 4 : 1;
      }
      cost += c * parts;
    }
    return cost;
  }

  // ---- parameter block ----

  Value* Word(int n) { return b_.CreateAlignedLoad(i64_, b_.CreateConstGEP1_64(i64_, words_, n), llvm::Align(8)); }

  void LoadWords() {
    int n = 0;
    for (int d = 0; d < s_.rank(); ++d) size_.push_back(Word(n++));
    for (const KernelParam& p : s_.params) {
      base_.push_back(b_.CreateIntToPtr(Word(n++), ptr_));
      std::vector<Value*> strides;
      for (StrideClass c : p.strides) {
        switch (c) {
          case StrideClass::kZero:
            strides.push_back(nullptr);
            break;
          case StrideClass::kUnit:
            strides.push_back(b_.getInt64(ItemSize(p.dtype)));
            break;
          case StrideClass::kAny:
            strides.push_back(b_.CreateMul(Word(n++), b_.getInt64(ItemSize(p.dtype))));
            break;
        }
      }
      stride_.push_back(std::move(strides));
    }
    for (DType t : s_.scalars) {
      Value* w = Word(n++);
      if (IsFloating(t)) {
        w = scalar_.Cast(b_.CreateBitCast(w, b_.getDoubleTy()), DType::kFloat64, t);
      } else if (t == DType::kBool) {
        w = b_.CreateICmpNE(w, b_.getInt64(0));
      } else {
        w = b_.CreateTrunc(w, scalar_.TypeOf(t));
      }
      scalars_.push_back(w);
    }
    addr_ = base_;
    idx_.assign(s_.rank(), nullptr);
    vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
    // Whether this launch's outputs are large enough to store past the cache.
    nt_launch_.assign(s_.params.size(), nullptr);
    for (size_t p = 0; p < s_.params.size(); ++p) {
      if (!written_[p] || !MayBeNonTemporal(static_cast<int>(p))) continue;
      Value* bytes = b_.getInt64(ItemSize(s_.params[p].dtype));
      for (int d = 0; d < s_.rank(); ++d) {
        if (stride_[p][d]) bytes = b_.CreateMul(bytes, size_[d]);
      }
      nt_launch_[p] = b_.CreateICmpSGE(bytes, b_.getInt64(kNonTemporalBytes));
    }
  }

  bool MayBeNonTemporal(int param) const {
    const KernelParam& p = s_.params[param];
    if (!f_.non_temporal || lanes_ == 1 || loop_dim_ < 0 || p.strides[loop_dim_] != StrideClass::kUnit || p.is_read)
      return false;
    if (8 * ItemSize(p.dtype) * lanes_ < 128) return false;
    // A class shared with a param that is read: the cache holds the lines already.
    for (const KernelParam& q : s_.params) {
      if (&q != &p && q.is_read && (p.alias_class < 0 ? false : q.alias_class == p.alias_class)) return false;
    }
    for (const KernelInstr& in : s_.instrs) {
      if (in.op == KernelOp::kStore && in.param == param && (in.has_offset || in.has_guard)) return false;
    }
    return true;
  }

  // ---- small helpers ----

  Type* Vec(Type* t, int lanes) { return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes); }
  Type* MemType(DType t) { return t == DType::kBool ? i8_ : scalar_.TypeOf(t); }

  AllocaInst* Variable(Type* t) {
    llvm::IRBuilder<> at(entry_, entry_->begin());
    AllocaInst* a = at.CreateAlloca(t);
    variables_.push_back(a);
    return a;
  }
  // Memory for the lanes of a vector, to be indexed at run time.
  AllocaInst* Temporary(Type* t) {
    llvm::IRBuilder<> at(entry_, entry_->begin());
    AllocaInst* a = at.CreateAlloca(t);
    a->setAlignment(llvm::Align(llvm::PowerOf2Ceil(std::max<uint64_t>(64, t->getPrimitiveSizeInBits() / 8))));
    return a;
  }
  Value* Load(AllocaInst* a) { return b_.CreateLoad(a->getAllocatedType(), a); }

  BasicBlock* Block(const char* name) { return BasicBlock::Create(c_, name, fn_); }

  // for (i = from; i < to; i += step) body(i)
  void For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
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
  void If(Value* condition, const std::function<void()>& then) {
    BasicBlock* yes = Block("then");
    BasicBlock* after = Block("endif");
    b_.CreateCondBr(condition, yes, after);
    b_.SetInsertPoint(yes);
    then();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  Value* IfElse(Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise) {
    BasicBlock* yes = Block("then");
    BasicBlock* no = Block("else");
    BasicBlock* after = Block("endif");
    b_.CreateCondBr(condition, yes, no);
    b_.SetInsertPoint(yes);
    Value* a = then();
    yes = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(no);
    Value* z = otherwise();
    no = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    if (!a) return nullptr;
    llvm::PHINode* phi = b_.CreatePHI(a->getType(), 2);
    phi->addIncoming(a, yes);
    phi->addIncoming(z, no);
    return phi;
  }
  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }
  Value* Any(Value* bits) {
    if (!bits->getType()->isVectorTy()) return bits;
    const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
    return b_.CreateICmpNE(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::ConstantInt::get(b_.getIntNTy(n), 0));
  }
  Value* All(Value* bits) {
    if (!bits->getType()->isVectorTy()) return bits;
    const unsigned n = llvm::cast<llvm::FixedVectorType>(bits->getType())->getNumElements();
    return b_.CreateICmpEQ(b_.CreateBitCast(bits, b_.getIntNTy(n)), llvm::Constant::getAllOnesValue(b_.getIntNTy(n)));
  }
  Value* Iota(Type* element, int lanes) {
    std::vector<llvm::Constant*> k;
    for (int i = 0; i < lanes; ++i) k.push_back(llvm::ConstantInt::get(element, i));
    return llvm::ConstantVector::get(k);
  }
  // Lane k is set iff k < count, 1 <= count <= lanes.
  Value* MaskOf(Value* count, int lanes) {
    if (f_.avx512) {
      Type* bits = b_.getIntNTy(lanes);
      Value* shift = b_.CreateTrunc(b_.CreateSub(b_.getInt64(lanes), count), bits);
      return b_.CreateBitCast(b_.CreateLShr(llvm::Constant::getAllOnesValue(bits), shift), Vec(b_.getInt1Ty(), lanes));
    }
    Value* n = b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty()));
    return b_.CreateICmpULT(Iota(b_.getInt32Ty(), lanes), n);
  }
  bool MasksNatively(Type* element) const {
    const unsigned bits = element->getScalarSizeInBits();
    return f_.avx512 || (f_.avx2 && bits >= 32);
  }

  void SetStatus(int code, Value* bad) {
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

  // ---- addresses ----

  void AddIndex(int dim, Value* index) {
    idx_[dim] = index;
    for (size_t p = 0; p < s_.params.size(); ++p) {
      if (stride_[p][dim]) addr_[p] = b_.CreateGEP(i8_, addr_[p], b_.CreateMul(index, stride_[p][dim]));
    }
  }

  // Where lane 0 of copy u is.
  Value* Address(int param, int u) {
    Value* a = addr_[param];
    if (!chunk_ || !stride_[param][loop_dim_]) return a;
    if (s_.params[param].strides[loop_dim_] == StrideClass::kUnit) {
      Type* t = MemType(s_.params[param].dtype);
      a = b_.CreateGEP(t, a, chunk_);
      return u ? b_.CreateConstGEP1_64(t, a, static_cast<int64_t>(u) * active_lanes_) : a;
    }
    Value* i = u ? b_.CreateAdd(chunk_, b_.getInt64(static_cast<int64_t>(u) * active_lanes_)) : chunk_;
    return b_.CreateGEP(i8_, a, b_.CreateMul(i, stride_[param][loop_dim_]));
  }
  Value* StrideAlongLoop(int param) {
    Value* s = chunk_ && loop_dim_ >= 0 ? stride_[param][loop_dim_] : nullptr;
    return s ? s : b_.getInt64(0);
  }
  bool UnitAlongLoop(int param) const {
    return chunk_ && loop_dim_ >= 0 && s_.params[param].strides[loop_dim_] == StrideClass::kUnit;
  }

  // ---- values ----

  Value* Get(int i, int u) { return vals_[u][i]; }
  Value* GetVector(int i, int u) { return Splat(Get(i, u)); }
  Value* Splat(Value* v) {
    if (active_lanes_ == 1 || v->getType()->isVectorTy()) return v;
    return b_.CreateVectorSplat(active_lanes_, v);
  }
  void Set(int i, int u, Value* v) { vals_[u][i] = v; }
  void SetAll(int i, Value* v) {
    for (auto& copy : vals_) copy[i] = v;
  }

  void EmitInstrs(const std::vector<int>& instrs, int copies) {
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (hoisted_.size() && hoisted_[i]) continue;
      const bool effect = in.op == KernelOp::kStore || in.op == KernelOp::kReduce || in.op == KernelOp::kScan;
      const bool vector = active_lanes_ > 1 || chunk_;
      if (!effect && (!varying_[i] || !vector)) {
        // One value for all lanes and copies.
        Value* v = EmitInstr(i, 0);
        SetAll(i, v);
        continue;
      }
      for (int u = 0; u < copies; ++u) {
        Value* v = EmitInstr(i, u);
        if (in.op != KernelOp::kReduce) Set(i, u, v);
      }
    }
  }

  Value* EmitInstr(int i, int u) {
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
        return EmitCheckIndex(in, u);
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

  Value* EmitScalar(int i, int u) {
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
      for (size_t k = 0; k < in.operands.size(); ++k) v[k] = Splat(v[k]);
    }
    if (in.scalar == ScalarOp::kConst) return scalar_.Const(in.type, in.imm);
    return scalar_.Emit(in.scalar, in.type, types, v, active_lanes_);
  }

  Value* EmitIndex(int dim, int u) {
    if (dim != loop_dim_ || !chunk_) return idx_[dim];
    Value* i = u ? b_.CreateAdd(chunk_, b_.getInt64(static_cast<int64_t>(u) * active_lanes_)) : chunk_;
    if (active_lanes_ == 1) return i;
    return b_.CreateAdd(b_.CreateVectorSplat(active_lanes_, i), Iota(i64_, active_lanes_));
  }

  Value* EmitCheckIndex(const KernelInstr& in, int u) {
    Value* index = Get(in.operands[0], u);
    Value* size = Get(in.operands[1], u);
    if (index->getType()->isVectorTy() || size->getType()->isVectorTy()) {
      index = Splat(index);
      size = Splat(size);
    }
    Value* zero = llvm::Constant::getNullValue(index->getType());
    index = b_.CreateSelect(b_.CreateICmpSLT(index, zero), b_.CreateAdd(index, size), index);
    Value* bad = b_.CreateOr(b_.CreateICmpSLT(index, zero), b_.CreateICmpSGE(index, size));
    SetStatus(1, bad);
    return b_.CreateSelect(bad, zero, index);
  }

  // ---- memory ----

  Value* FromMemory(DType t, Value* v) {
    return t == DType::kBool ? b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
  }
  Value* ToMemory(DType t, Value* v) {
    return t == DType::kBool ? b_.CreateZExt(v, v->getType()->getWithNewType(i8_)) : v;
  }
  Value* PlusOffset(Value* address, DType t, Value* offset) {
    return b_.CreateGEP(i8_, address, b_.CreateMul(offset, b_.getInt64(ItemSize(t))));
  }

  Value* EmitLoad(const KernelInstr& in, int u) {
    Value* offset = in.has_offset ? Get(in.operands[0], u) : nullptr;
    Value* guard = in.has_guard ? Get(in.operands.back(), u) : nullptr;
    Type* element = MemType(in.type);
    const llvm::Align align(ItemSize(in.type));
    const bool vector_offset = offset && offset->getType()->isVectorTy();
    const bool vector_guard = guard && guard->getType()->isVectorTy();
    const bool moves = chunk_ && stride_[in.param][loop_dim_];
    if (active_lanes_ == 1 || (!moves && !vector_offset && !vector_guard)) {
      auto load = [&]() -> Value* {
        Value* a = Address(in.param, u);
        if (offset) a = PlusOffset(a, in.type, offset);
        return b_.CreateAlignedLoad(element, a, align);
      };
      Value* v = guard ? IfElse(guard, load, [&] { return llvm::Constant::getNullValue(element); }) : load();
      return FromMemory(in.type, v);
    }
    Type* type = Vec(element, active_lanes_);
    if (UnitAlongLoop(in.param) && !vector_offset) {
      Value* a = Address(in.param, u);
      if (offset) a = PlusOffset(a, in.type, offset);
      if (!guard && !mask_) return FromMemory(in.type, b_.CreateAlignedLoad(type, a, align));
      Value* m = CombinedMask(guard);
      if (MasksNatively(element)) {
        return FromMemory(in.type, b_.CreateMaskedLoad(type, a, align, m, llvm::Constant::getNullValue(type)));
      }
      auto slow = [&] { return LoadLanes(in, type, a, b_.getInt64(ItemSize(in.type)), nullptr, guard); };
      if (mask_) return FromMemory(in.type, slow());
      return FromMemory(in.type,
                        IfElse(All(m), [&]() -> Value* { return b_.CreateAlignedLoad(type, a, align); }, slow));
    }
    Value* a = Address(in.param, u);
    if (offset && !vector_offset) a = PlusOffset(a, in.type, offset);
    Value* stride = StrideAlongLoop(in.param);
    Value* offsets = vector_offset ? offset : nullptr;
    if (mask_ || guard) return FromMemory(in.type, LoadLanes(in, type, a, stride, offsets, guard));
    Value* v = llvm::PoisonValue::get(type);
    for (int k = 0; k < active_lanes_; ++k) {
      v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(element, LaneAddress(in, a, stride, offsets, k), align), k);
    }
    return FromMemory(in.type, v);
  }

  Value* LaneAddress(const KernelInstr& in, Value* a, Value* stride, Value* offsets, int k) {
    a = b_.CreateGEP(i8_, a, b_.CreateMul(stride, b_.getInt64(k)));
    return offsets ? PlusOffset(a, in.type, b_.CreateExtractElement(offsets, k)) : a;
  }

  Value* CombinedMask(Value* guard) {
    if (!guard) return mask_;
    guard = Splat(guard);
    return mask_ ? b_.CreateAnd(guard, mask_) : guard;
  }

  // One lane after the other, in order, active and guarded ones only: body(lane number, address).
  void ForLanes(const KernelInstr& in, Value* a, Value* stride, Value* offsets, Value* guard,
                const std::function<void(Value*, Value*)>& body) {
    AllocaInst* offset_memory = nullptr;
    AllocaInst* guard_memory = nullptr;
    if (offsets) {
      offset_memory = Temporary(offsets->getType());
      b_.CreateStore(offsets, offset_memory);
    }
    if (guard) {
      guard_memory = Temporary(Vec(i8_, active_lanes_));
      b_.CreateStore(b_.CreateZExt(Splat(guard), Vec(i8_, active_lanes_)), guard_memory);
    }
    For(b_.getInt64(0), count_ ? count_ : b_.getInt64(active_lanes_), b_.getInt64(1), [&](Value* k) {
      auto access = [&] {
        Value* at = b_.CreateGEP(i8_, a, b_.CreateMul(stride, k));
        if (offsets) at = PlusOffset(at, in.type, b_.CreateLoad(i64_, b_.CreateGEP(i64_, offset_memory, k)));
        body(k, at);
      };
      if (!guard) return access();
      If(b_.CreateICmpNE(b_.CreateLoad(i8_, b_.CreateGEP(i8_, guard_memory, k)), b_.getInt8(0)), access);
    });
  }

  Value* LoadLanes(const KernelInstr& in, Type* type, Value* a, Value* stride, Value* offsets, Value* guard) {
    Type* element = MemType(in.type);
    AllocaInst* memory = Temporary(type);
    b_.CreateStore(llvm::Constant::getNullValue(type), memory);
    ForLanes(in, a, stride, offsets, guard, [&](Value* k, Value* at) {
      b_.CreateStore(b_.CreateAlignedLoad(element, at, llvm::Align(ItemSize(in.type))),
                     b_.CreateGEP(element, memory, k));
    });
    return b_.CreateLoad(type, memory);
  }

  void EmitStore(const KernelInstr& in, int u) {
    Value* value = ToMemory(in.type, Get(in.operands[0], u));
    Value* offset = in.has_offset ? Get(in.operands[1], u) : nullptr;
    Value* guard = in.has_guard ? Get(in.operands.back(), u) : nullptr;
    Type* element = MemType(in.type);
    const llvm::Align align(ItemSize(in.type));
    const bool vector_offset = offset && offset->getType()->isVectorTy();
    if (active_lanes_ == 1) {
      auto store = [&] {
        Value* a = Address(in.param, u);
        if (offset) a = PlusOffset(a, in.type, offset);
        b_.CreateAlignedStore(value, a, align);
      };
      if (guard) {
        If(guard, store);
      } else {
        store();
      }
      return;
    }
    value = Splat(value);
    Value* a = Address(in.param, u);
    if (offset && !vector_offset) a = PlusOffset(a, in.type, offset);
    auto slow = [&](Value* stride, Value* offsets) {
      AllocaInst* memory = Temporary(value->getType());
      b_.CreateStore(value, memory);
      ForLanes(in, a, stride, offsets, guard, [&](Value* k, Value* at) {
        b_.CreateAlignedStore(b_.CreateLoad(element, b_.CreateGEP(element, memory, k)), at, align);
      });
    };
    if (UnitAlongLoop(in.param) && !vector_offset) {
      if (!guard && !mask_) {
        if (non_temporal_ && MayBeNonTemporal(in.param)) {
          const unsigned bytes = std::min(64, active_lanes_ * ItemSize(in.type));
          llvm::StoreInst* s = b_.CreateAlignedStore(value, a, llvm::Align(bytes));
          s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                         llvm::MDNode::get(c_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
        } else {
          b_.CreateAlignedStore(value, a, align);
        }
        return;
      }
      Value* m = CombinedMask(guard);
      if (MasksNatively(element)) {
        b_.CreateMaskedStore(value, a, align, m);
        return;
      }
      Value* step = b_.getInt64(ItemSize(in.type));
      if (mask_) return slow(step, nullptr);
      IfElse(
          All(m),
          [&]() -> Value* {
            b_.CreateAlignedStore(value, a, align);
            return nullptr;
          },
          [&]() -> Value* {
            slow(step, nullptr);
            return nullptr;
          });
      return;
    }
    Value* stride = StrideAlongLoop(in.param);
    Value* offsets = vector_offset ? offset : nullptr;
    if (mask_ || guard) return slow(stride, offsets);
    for (int k = 0; k < active_lanes_; ++k) {
      b_.CreateAlignedStore(b_.CreateExtractElement(value, k), LaneAddress(in, a, stride, offsets, k), align);
    }
  }

  // ---- reductions ----

  struct State {
    std::vector<AllocaInst*> acc, index;   // a copy each; index of kArgMin and kArgMax
    std::vector<AllocaInst*> wide, error;  // of floating point sums: the compensated second level
  };

  Value* Identity(const KernelInstr& in, DType t, Type* type) {
    switch (in.reduce) {
      case ReduceKind::kSum:
      case ReduceKind::kOr:
        return llvm::Constant::getNullValue(type);
      case ReduceKind::kProd:
        return IsFloating(t) ? llvm::ConstantFP::get(type, 1.0) : static_cast<Value*>(llvm::ConstantInt::get(type, 1));
      case ReduceKind::kAnd:
        return llvm::Constant::getAllOnesValue(type);
      default: {
        const bool min = in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kArgMin;
        if (IsFloating(t)) return llvm::ConstantFP::getInfinity(type, !min);
        const unsigned bits = type->getScalarSizeInBits();
        if (bits == 1) return min ? llvm::Constant::getAllOnesValue(type) : llvm::Constant::getNullValue(type);
        const bool is_signed = IsSigned(t);
        llvm::APInt v = min ? (is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits))
                            : (is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
        return llvm::ConstantInt::get(type, v);
      }
    }
  }

  Type* AccumulatorType(const KernelInstr& in) {
    const DType t = s_.instrs[in.operands[0]].type;
    // A running sum of float32 is kept in float64, as PyTorch's cumsum keeps it.
    const bool wide = in.op == KernelOp::kScan && t == DType::kFloat32 &&
                      (in.reduce == ReduceKind::kSum || in.reduce == ReduceKind::kProd);
    return Vec(wide ? b_.getDoubleTy() : scalar_.TypeOf(t), active_lanes_);
  }

  // Before an inner phase: accumulators of its reductions and scans, `copies` of each.
  void StartReductions(const std::vector<int>& instrs, int copies) {
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kReduce && in.op != KernelOp::kScan) continue;
      State& state = states_[i];
      state = State();
      const DType t = s_.instrs[in.operands[0]].type;
      Type* type = AccumulatorType(in);
      for (int u = 0; u < copies; ++u) {
        auto variable = [&](Type* of, Value* first) {
          AllocaInst* a = Variable(of);
          b_.CreateStore(first, a);
          return a;
        };
        state.acc.push_back(variable(type, Identity(in, t, type)));
        if (IsArgKind(in.reduce)) {
          // No index yet: larger than any, so that the first element wins over the identity of equal value.
          Type* it = Vec(i64_, active_lanes_);
          state.index.push_back(variable(it, llvm::ConstantInt::get(it, llvm::APInt::getSignedMaxValue(64))));
        }
        if (IsSumLike(in) && (columns_ || u == 0)) {
          state.wide.push_back(variable(type, llvm::Constant::getNullValue(type)));
          state.error.push_back(variable(type, llvm::Constant::getNullValue(type)));
        }
      }
    }
  }

  // a (op) v, on scalars or vectors.
  Value* Combine(ReduceKind kind, DType t, Value* a, Value* v) {
    const bool real = IsFloating(t);
    switch (kind) {
      case ReduceKind::kSum:
        return real ? b_.CreateFAdd(a, v) : b_.CreateAdd(a, v);
      case ReduceKind::kProd:
        return real ? b_.CreateFMul(a, v) : b_.CreateMul(a, v);
      case ReduceKind::kAnd:
        return b_.CreateAnd(a, v);
      case ReduceKind::kOr:
        return b_.CreateOr(a, v);
      default: {
        const bool min = kind == ReduceKind::kMin;
        if (!real) {
          const bool is_signed = IsSigned(t);
          auto p = min ? (is_signed ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT)
                       : (is_signed ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT);
          return b_.CreateSelect(b_.CreateICmp(p, v, a), v, a);
        }
        // v where it is better or NaN; a that is NaN stays, since nothing compares with it.
        Value* better = min ? b_.CreateFCmpOLT(v, a) : b_.CreateFCmpOGT(v, a);
        return b_.CreateSelect(b_.CreateOr(better, b_.CreateFCmpUNO(v, v)), v, a);
      }
    }
  }

  // Where (v, j) replaces (a, i) in an argmin or argmax.
  Value* ArgBetter(ReduceKind kind, DType t, Value* a, Value* i, Value* v, Value* j) {
    const bool min = kind == ReduceKind::kArgMin;
    Value* earlier = b_.CreateICmpSLT(j, i);
    if (!IsFloating(t)) {
      const bool is_signed = IsSigned(t);
      auto p = min ? (is_signed ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT)
                   : (is_signed ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT);
      return b_.CreateOr(b_.CreateICmp(p, v, a), b_.CreateAnd(b_.CreateICmpEQ(v, a), earlier));
    }
    Value* a_nan = b_.CreateFCmpUNO(a, a);
    Value* v_nan = b_.CreateFCmpUNO(v, v);
    Value* better = min ? b_.CreateFCmpOLT(v, a) : b_.CreateFCmpOGT(v, a);
    Value* same = b_.CreateOr(b_.CreateFCmpOEQ(v, a), b_.CreateAnd(a_nan, v_nan));
    better = b_.CreateOr(better, b_.CreateAnd(v_nan, b_.CreateNot(a_nan)));
    return b_.CreateOr(better, b_.CreateAnd(same, earlier));
  }

  void Accumulate(int i, int u) {
    const KernelInstr& in = s_.instrs[i];
    State& state = states_[i];
    const DType t = s_.instrs[in.operands[0]].type;
    Value* v = GetVector(in.operands[0], u);
    Value* a = Load(state.acc[u]);
    if (IsArgKind(in.reduce)) {
      Value* j = GetVector(in.operands[1], u);
      Value* old = Load(state.index[u]);
      Value* better = ArgBetter(in.reduce, t, a, old, v, j);
      if (mask_) better = b_.CreateAnd(better, mask_);
      b_.CreateStore(b_.CreateSelect(better, v, a), state.acc[u]);
      b_.CreateStore(b_.CreateSelect(better, j, old), state.index[u]);
      return;
    }
    Value* next = Combine(in.reduce, t, a, v);
    if (mask_) next = b_.CreateSelect(mask_, next, a);
    b_.CreateStore(next, state.acc[u]);
  }

  Value* EmitScan(int i, int u) {
    const KernelInstr& in = s_.instrs[i];
    State& state = states_[i];
    const DType t = s_.instrs[in.operands[0]].type;
    Value* v = GetVector(in.operands[0], u);
    Value* a = Load(state.acc[u]);
    if (IsArgKind(in.reduce)) {
      Value* j = GetVector(in.operands[1], u);
      Value* old = Load(state.index[u]);
      Value* better = ArgBetter(in.reduce, t, a, old, v, j);
      b_.CreateStore(b_.CreateSelect(better, v, a), state.acc[u]);
      Value* index = b_.CreateSelect(better, j, old);
      b_.CreateStore(index, state.index[u]);
      return index;
    }
    const bool wide = v->getType() != a->getType();
    if (wide) v = b_.CreateFPExt(v, a->getType());
    Value* next = Combine(in.reduce, t, a, v);
    b_.CreateStore(next, state.acc[u]);
    return wide ? b_.CreateFPTrunc(next, Vec(b_.getFloatTy(), active_lanes_)) : next;
  }

  // Adds the accumulators of floating point sums to their second level, without losing what the addition rounds away.
  void FlushSums(const std::vector<int>& instrs, int copies) {
    for (int i : instrs) {
      if (!IsSumLike(s_.instrs[i])) continue;
      State& state = states_[i];
      if (columns_) {
        for (int u = 0; u < copies; ++u) AddCompensated(state, u, Load(state.acc[u]));
      } else {
        std::vector<Value*> parts;
        for (int u = 0; u < copies; ++u) parts.push_back(Load(state.acc[u]));
        AddCompensated(state, 0, Tree(std::move(parts), [&](Value* a, Value* z) { return b_.CreateFAdd(a, z); }));
      }
      for (int u = 0; u < copies; ++u) {
        b_.CreateStore(llvm::Constant::getNullValue(state.acc[u]->getAllocatedType()), state.acc[u]);
      }
    }
  }
  void AddCompensated(State& state, int u, Value* v) {
    Value* a = Load(state.wide[u]);
    Value* sum = b_.CreateFAdd(a, v);
    Value* part = b_.CreateFSub(sum, a);
    Value* lost = b_.CreateFAdd(b_.CreateFSub(a, b_.CreateFSub(sum, part)), b_.CreateFSub(v, part));
    b_.CreateStore(sum, state.wide[u]);
    b_.CreateStore(b_.CreateFAdd(Load(state.error[u]), lost), state.error[u]);
  }
  Value* Tree(std::vector<Value*> parts, const std::function<Value*(Value*, Value*)>& combine) {
    while (parts.size() > 1) {
      std::vector<Value*> next;
      for (size_t k = 0; k + 1 < parts.size(); k += 2) next.push_back(combine(parts[k], parts[k + 1]));
      if (parts.size() % 2) next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts[0];
  }
  Value* HighHalf(Value* v, int lanes) {
    std::vector<int> k;
    for (int i = 0; i < lanes / 2; ++i) k.push_back(lanes / 2 + i);
    return b_.CreateShuffleVector(v, k);
  }
  Value* LowHalf(Value* v, int lanes) {
    std::vector<int> k;
    for (int i = 0; i < lanes / 2; ++i) k.push_back(i);
    return b_.CreateShuffleVector(v, k);
  }

  // After an inner phase: its reductions' values, one a copy (columns) or one scalar (rows).
  void FinishReductions(const std::vector<int>& instrs, int copies) {
    FlushSums(instrs, copies);
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kReduce) continue;
      State& state = states_[i];
      const DType t = s_.instrs[in.operands[0]].type;
      auto total = [&](int u) -> Value* {
        if (!IsSumLike(in)) return Load(state.acc[u]);
        Value* error = Load(state.error[u]);
        // Infinities make the error NaN, where the sum is right.
        error = b_.CreateSelect(b_.CreateFCmpORD(error, error), error, llvm::Constant::getNullValue(error->getType()));
        return b_.CreateFAdd(Load(state.wide[u]), error);
      };
      if (columns_) {
        for (int u = 0; u < copies; ++u) {
          Set(i, u, IsArgKind(in.reduce) ? NoIndexIsZero(Load(state.index[u])) : total(u));
        }
        continue;
      }
      if (IsArgKind(in.reduce)) {
        Value* a = Load(state.acc[0]);
        Value* index = Load(state.index[0]);
        auto merge = [&](Value* v, Value* j) {
          Value* better = ArgBetter(in.reduce, t, a, index, v, j);
          a = b_.CreateSelect(better, v, a);
          index = b_.CreateSelect(better, j, index);
        };
        for (int u = 1; u < copies; ++u) merge(Load(state.acc[u]), Load(state.index[u]));
        for (int lanes = active_lanes_; lanes > 1; lanes /= 2) {
          Value* v = HighHalf(a, lanes);
          Value* j = HighHalf(index, lanes);
          a = LowHalf(a, lanes);
          index = LowHalf(index, lanes);
          merge(v, j);
        }
        if (index->getType()->isVectorTy()) index = b_.CreateExtractElement(index, uint64_t{0});
        SetAll(i, NoIndexIsZero(index));
        continue;
      }
      Value* v;
      if (IsSumLike(in)) {
        v = total(0);
      } else {
        std::vector<Value*> parts;
        for (int u = 0; u < copies; ++u) parts.push_back(Load(state.acc[u]));
        v = Tree(std::move(parts), [&](Value* a, Value* z) { return Combine(in.reduce, t, a, z); });
      }
      for (int lanes = active_lanes_; lanes > 1; lanes /= 2) {
        v = Combine(in.reduce, t, LowHalf(v, lanes), HighHalf(v, lanes));
      }
      if (v->getType()->isVectorTy()) v = b_.CreateExtractElement(v, uint64_t{0});
      SetAll(i, v);
    }
  }
  Value* NoIndexIsZero(Value* index) {
    Value* none = llvm::ConstantInt::get(index->getType(), llvm::APInt::getSignedMaxValue(64));
    return b_.CreateSelect(b_.CreateICmpEQ(index, none), llvm::Constant::getNullValue(index->getType()), index);
  }

  // ---- loops over the vectorized dim ----

  // Runs `instrs` that are equal for the whole loop before it; they are skipped in the loop. Only where the loop runs
  // at least once.
  void Hoist(const std::vector<int>& instrs, const std::vector<bool>& ready) {
    std::vector<bool> done = ready;
    hoisted_.assign(s_.instrs.size(), false);
    Value* chunk = std::exchange(chunk_, nullptr);
    const int lanes = std::exchange(active_lanes_, 1);
    std::vector<bool> now(s_.instrs.size(), false);
    for (int i : instrs) {
      const KernelInstr& in = s_.instrs[i];
      bool can = !varying_[i] && in.op != KernelOp::kStore && in.op != KernelOp::kReduce && in.op != KernelOp::kScan;
      for (int o : in.operands) can = can && done[o];
      if (can && in.op == KernelOp::kLoad) {
        const int cls = s_.params[in.param].alias_class;
        for (size_t q = 0; q < s_.params.size(); ++q) {
          // A store of this very kernel may change what the load sees.
          if (written_[q] && (cls < 0 || s_.params[q].alias_class < 0 || s_.params[q].alias_class == cls)) can = false;
        }
      }
      if (!can) continue;
      SetAll(i, EmitInstr(i, 0));
      done[i] = true;
      now[i] = true;
    }
    hoisted_ = std::move(now);
    chunk_ = chunk;
    active_lanes_ = lanes;
  }

  // Calls body(copies) with chunk_, mask_ and count_ set, for all of [lo, hi). `flush` after every kSumBlock iterations
  // of the main loop. `stores`: whether the body stores to memory, so that a second, non-temporal main loop pays.
  void ChunkLoop(Value* lo, Value* hi, int copies, const std::function<void(int)>& body,
                 const std::function<void()>& flush, bool stores) {
    const int lanes = active_lanes_;
    const bool keep_chunk = chunk_ != nullptr;
    SMELT_CHECK(!keep_chunk);
    if (lanes == 1) {
      auto all = [&](Value* from, Value* to) {
        For(from, to, b_.getInt64(1), [&](Value* i) {
          SetLoopIndex(i);
          body(1);
        });
      };
      if (!flush) {
        all(lo, hi);
      } else {
        For(lo, hi, b_.getInt64(kSumBlock), [&](Value* i) {
          all(i, Min(hi, b_.CreateAdd(i, b_.getInt64(kSumBlock))));
          flush();
        });
      }
      chunk_ = nullptr;
      return;
    }
    const int64_t step = static_cast<int64_t>(copies) * lanes;
    AllocaInst* at = Variable(i64_);
    b_.CreateStore(lo, at);
    auto main = [&](bool non_temporal) {
      non_temporal_ = non_temporal;
      auto run = [&](Value* from, Value* to) {
        // While a whole step fits.
        For(from, b_.CreateSub(to, b_.getInt64(step - 1)), b_.getInt64(step), [&](Value* i) {
          SetLoopIndex(i);
          body(copies);
          b_.CreateStore(b_.CreateAdd(i, b_.getInt64(step)), at);
        });
      };
      if (flush) {
        // Whole blocks of kSumBlock steps; the last may be short.
        For(Load(at), b_.CreateSub(hi, b_.getInt64(step - 1)), b_.getInt64(step * kSumBlock), [&](Value* i) {
          run(i, Min(hi, b_.CreateAdd(i, b_.getInt64(step * kSumBlock))));
          flush();
        });
      } else {
        run(Load(at), hi);
      }
      non_temporal_ = false;
      chunk_ = nullptr;
    };
    auto masked = [&](Value* count) {
      Value* i = Load(at);
      SetLoopIndex(i);
      count_ = count;
      mask_ = MaskOf(count, lanes);
      body(1);
      count_ = mask_ = nullptr;
      chunk_ = nullptr;
      b_.CreateStore(b_.CreateAdd(i, count), at);
    };
    Value* non_temporal = nullptr;
    Value* head = nullptr;
    if (stores) NonTemporalHead(lo, &non_temporal, &head);
    if (!non_temporal) {
      main(false);
      const bool middle = copies > 1 && !f_.avx512;
      if (middle) {
        // Without cheap masks, what is left of a step runs vector by vector first.
        For(Load(at), b_.CreateSub(hi, b_.getInt64(lanes - 1)), b_.getInt64(lanes), [&](Value* i) {
          SetLoopIndex(i);
          body(1);
          b_.CreateStore(b_.CreateAdd(i, b_.getInt64(lanes)), at);
        });
        chunk_ = nullptr;
      }
      BasicBlock* check = Block("rest");
      BasicBlock* part = Block("part");
      BasicBlock* done = Block("done");
      b_.CreateBr(check);
      b_.SetInsertPoint(check);
      Value* left = b_.CreateSub(hi, Load(at));
      b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
      b_.SetInsertPoint(part);
      masked(Min(left, b_.getInt64(lanes)));
      b_.CreateBr(check);
      b_.SetInsertPoint(done);
      return;
    }
    // A few elements first, until stores are aligned; then one of the two main loops; then what is left. One masked
    // body serves both ends.
    uses_non_temporal_ = true;
    AllocaInst* skip = Variable(i64_);
    b_.CreateStore(Min(head, b_.CreateSub(hi, lo)), skip);
    BasicBlock* check = Block("check");
    BasicBlock* part = Block("part");
    BasicBlock* whole = Block("whole");
    BasicBlock* some = Block("some");
    BasicBlock* done = Block("done");
    b_.CreateBr(check);
    b_.SetInsertPoint(check);
    Value* left = b_.CreateSub(hi, Load(at));
    Value* first = Load(skip);
    Value* is_head = b_.CreateICmpSGT(first, b_.getInt64(0));
    BasicBlock* not_head = Block("aligned");
    llvm::PHINode* count = llvm::PHINode::Create(i64_, 2, "", part);
    count->addIncoming(first, check);
    b_.CreateCondBr(is_head, part, not_head);
    b_.SetInsertPoint(not_head);
    b_.CreateCondBr(b_.CreateICmpSGE(left, b_.getInt64(step)), whole, some);
    b_.SetInsertPoint(some);
    count->addIncoming(Min(left, b_.getInt64(lanes)), some);
    b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
    b_.SetInsertPoint(part);
    b_.CreateStore(b_.getInt64(0), skip);
    masked(count);
    b_.CreateBr(check);
    b_.SetInsertPoint(whole);
    IfElse(
        non_temporal,
        [&]() -> Value* {
          main(true);
          return nullptr;
        },
        [&]() -> Value* {
          main(false);
          return nullptr;
        });
    b_.CreateBr(check);
    b_.SetInsertPoint(done);
  }

  void SetLoopIndex(Value* i) {
    chunk_ = i;
    idx_[loop_dim_] = i;
  }

  // Whether the loop that starts at lo may store past the cache: a launch with large outputs, whose addresses become
  // aligned after the same number of elements, `head`.
  void NonTemporalHead(Value* lo, Value** use, Value** head) {
    *use = *head = nullptr;
    Value* all = nullptr;
    for (size_t p = 0; p < s_.params.size(); ++p) {
      if (!nt_launch_[p]) continue;
      bool here = false;
      for (int i : loop_instrs_)
        here = here || (s_.instrs[i].op == KernelOp::kStore && s_.instrs[i].param == static_cast<int>(p));
      if (!here) continue;
      const int item = ItemSize(s_.params[p].dtype);
      const int64_t bytes = std::min(64, active_lanes_ * item);
      Value* a = b_.CreatePtrToInt(b_.CreateGEP(MemType(s_.params[p].dtype), addr_[p], lo), i64_);
      Value* elements = b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(a), b_.getInt64(bytes - 1)), b_.getInt64(item));
      all = all ? b_.CreateAnd(all, nt_launch_[p]) : nt_launch_[p];
      if (*head) {
        all = b_.CreateAnd(all, b_.CreateICmpEQ(*head, elements));
      } else {
        *head = elements;
      }
    }
    if (!all) return;
    *use = all;
    *head = b_.CreateSelect(all, *head, b_.getInt64(0));
  }

  // ---- loop nests ----

  // Every parallel dim but the vectorized one, from tile begin_ on: body() with idx_ and addr_ set.
  void ForTiles(const std::function<void()>& body) {
    const int dims = columns_ ? s_.parallel_rank - 1 : s_.parallel_rank;
    std::vector<AllocaInst*> index(dims);
    Value* rest = begin_;
    for (int d = dims - 1; d >= 0; --d) {
      index[d] = Variable(i64_);
      b_.CreateStore(d ? b_.CreateURem(rest, size_[d]) : rest, index[d]);
      if (d) rest = b_.CreateUDiv(rest, size_[d]);
    }
    const std::vector<Value*> addr = addr_;
    For(begin_, end_, b_.getInt64(1), [&](Value*) {
      addr_ = addr;
      std::vector<Value*> now;
      for (int d = 0; d < dims; ++d) now.push_back(Load(index[d]));
      for (int d = 0; d < dims; ++d) AddIndex(d, now[d]);
      body();
      Value* carry = nullptr;
      for (int d = dims - 1; d >= 0; --d) {
        Value* next = b_.CreateAdd(now[d], carry ? carry : b_.getInt64(1));
        if (d) {
          Value* wraps = b_.CreateICmpSGE(next, size_[d]);
          carry = b_.CreateZExt(wraps, i64_);
          next = b_.CreateSelect(wraps, b_.getInt64(0), next);
        }
        b_.CreateStore(next, index[d]);
      }
    });
    addr_ = addr;
  }

  // Loops over dims [from, to): body() with idx_ and addr_ set; `flush` every kSumBlock iterations of the innermost of
  // them.
  void Nest(int from, int to, const std::function<void()>& body, const std::function<void()>& flush) {
    if (from == to) return body();
    const std::vector<Value*> addr = addr_;
    auto run = [&](Value* lo, Value* hi) {
      For(lo, hi, b_.getInt64(1), [&](Value* i) {
        addr_ = addr;
        AddIndex(from, i);
        Nest(from + 1, to, body, flush);
      });
      addr_ = addr;
    };
    if (!flush || from + 1 != to) return run(b_.getInt64(0), size_[from]);
    For(b_.getInt64(0), size_[from], b_.getInt64(kSumBlock), [&](Value* i) {
      run(i, Min(size_[from], b_.CreateAdd(i, b_.getInt64(kSumBlock))));
      flush();
    });
  }

  bool HasSums(const std::vector<int>& instrs) const {
    return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return IsSumLike(s_.instrs[i]); });
  }
  bool HasStores(const std::vector<int>& instrs) const {
    return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return s_.instrs[i].op == KernelOp::kStore; });
  }

  static int Copies(int cost, bool reduces) {
    if (reduces) return cost <= 4 ? 8 : cost <= 12 ? 4 : cost <= 120 ? 2 : 1;
    return cost <= 12 ? 4 : cost <= 160 ? 2 : 1;
  }

  void EmitColumns() {
    active_lanes_ = lanes_;
    std::vector<int> outer, all;
    bool reduces = false;
    for (const KernelPhase& phase : s_.phases) {
      all.insert(all.end(), phase.instrs.begin(), phase.instrs.end());
      if (!phase.inner) outer.insert(outer.end(), phase.instrs.begin(), phase.instrs.end());
      reduces = reduces || phase.inner;
    }
    const int copies = lanes_ == 1 ? 1 : Copies(CostOf(all), reduces);
    vals_.assign(copies, std::vector<Value*>(s_.instrs.size(), nullptr));
    loop_instrs_ = all;
    auto row = [&](Value* lo, Value* hi) {
      Hoist(outer, std::vector<bool>(s_.instrs.size(), false));
      ChunkLoop(lo, hi, copies, [&](int n) { EmitColumnChunk(n); }, nullptr, HasStores(all));
    };
    if (s_.parallel_rank == 1) {
      row(begin_, end_);
      return;
    }
    If(b_.CreateICmpSGT(size_[loop_dim_], b_.getInt64(0)),
       [&] { ForTiles([&] { row(b_.getInt64(0), size_[loop_dim_]); }); });
  }

  void EmitColumnChunk(int copies) {
    for (const KernelPhase& phase : s_.phases) {
      if (!phase.inner) {
        EmitInstrs(phase.instrs, copies);
        continue;
      }
      StartReductions(phase.instrs, copies);
      std::function<void()> flush;
      if (HasSums(phase.instrs)) flush = [&, copies] { FlushSums(phase.instrs, copies); };
      Nest(s_.parallel_rank, s_.rank(), [&] { EmitInstrs(phase.instrs, copies); }, flush);
      FinishReductions(phase.instrs, copies);
    }
  }

  void EmitRowMode() {
    ForTiles([&] {
      active_lanes_ = 1;
      hoisted_.clear();
      vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
      for (const KernelPhase& phase : s_.phases) {
        if (!phase.inner) {
          active_lanes_ = 1;
          EmitInstrs(phase.instrs, 1);
          continue;
        }
        EmitRowPhase(phase);
      }
    });
  }

  void EmitRowPhase(const KernelPhase& phase) {
    const bool scans = std::any_of(phase.instrs.begin(), phase.instrs.end(),
                                   [&](int i) { return s_.instrs[i].op == KernelOp::kScan; });
    bool reduces = false;
    for (int i : phase.instrs) reduces = reduces || s_.instrs[i].op == KernelOp::kReduce;
    // A scan runs in order, one element after the other.
    active_lanes_ = scans ? 1 : lanes_;
    const int copies = active_lanes_ == 1 ? 1 : Copies(CostOf(phase.instrs), reduces);
    const std::vector<Value*> known = vals_[0];
    std::vector<bool> ready(s_.instrs.size());
    for (size_t i = 0; i < ready.size(); ++i) ready[i] = known[i] != nullptr;
    vals_.assign(copies, known);
    loop_instrs_ = phase.instrs;
    StartReductions(phase.instrs, copies);
    std::function<void()> flush;
    if (HasSums(phase.instrs)) flush = [&, copies] { FlushSums(phase.instrs, copies); };
    Value* n = size_[loop_dim_];
    If(b_.CreateICmpSGT(n, b_.getInt64(0)), [&] {
      Nest(
          s_.parallel_rank, s_.rank() - 1,
          [&] {
            Hoist(phase.instrs, ready);
            ChunkLoop(
                b_.getInt64(0), n, copies, [&](int k) { EmitInstrs(phase.instrs, k); }, flush, HasStores(phase.instrs));
          },
          flush);
    });
    hoisted_.clear();
    vals_.assign(copies, known);
    FinishReductions(phase.instrs, copies);
    // Only what later phases may use is left.
    std::vector<Value*> after = known;
    for (int i : phase.instrs) {
      if (s_.instrs[i].op == KernelOp::kReduce) after[i] = vals_[0][i];
    }
    vals_.assign(1, after);
    active_lanes_ = 1;
  }

  const KernelSpec& s_;
  const CpuFeatures& f_;
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
  std::vector<int> phase_of_;
  std::vector<bool> written_;
  std::vector<Value*> nt_launch_;
  bool uses_non_temporal_ = false;

  std::vector<Value*> size_, base_, scalars_;
  std::vector<std::vector<Value*>> stride_;  // bytes a step; null: broadcast
  std::vector<AllocaInst*> variables_;
  std::map<int, State> states_;

  // Where emission is: the innermost loop's first index, its lanes, which of them are active.
  std::vector<Value*> addr_, idx_;
  Value* chunk_ = nullptr;
  int active_lanes_ = 1;
  Value *mask_ = nullptr, *count_ = nullptr;
  bool non_temporal_ = false;
  std::vector<std::vector<Value*>> vals_;
  std::vector<bool> hoisted_;
  std::vector<int> loop_instrs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernel(llvm::LLVMContext& context, const KernelSpec& spec,
                                                          const CpuFeatures& features, const std::string& symbol) {
  auto module = std::make_unique<llvm::Module>("kernel", context);
  absl::Status status = KernelEmitter(*module, spec, features).Emit(symbol);
  if (!status.ok()) return status;
  return module;
}

}  // namespace smelt
