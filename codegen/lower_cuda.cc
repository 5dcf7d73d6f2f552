#include "smelt/codegen/lower_cuda.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces
constexpr int kVectorBytes = 16;

// libdevice's name for a function of float or double; empty if it has none.
std::string LibdeviceName(ScalarOp op, bool is_double) {
  const char* name = nullptr;
  switch (op) {
    case ScalarOp::kPow:
      name = "pow";
      break;
    case ScalarOp::kAtan2:
      name = "atan2";
      break;
    case ScalarOp::kHypot:
      name = "hypot";
      break;
    case ScalarOp::kNextAfter:
      name = "nextafter";
      break;
    case ScalarOp::kRemTrunc:
      name = "fmod";
      break;
    case ScalarOp::kExp:
      name = "exp";
      break;
    case ScalarOp::kExp2:
      name = "exp2";
      break;
    case ScalarOp::kExpm1:
      name = "expm1";
      break;
    case ScalarOp::kLog:
      name = "log";
      break;
    case ScalarOp::kLog2:
      name = "log2";
      break;
    case ScalarOp::kLog10:
      name = "log10";
      break;
    case ScalarOp::kLog1p:
      name = "log1p";
      break;
    case ScalarOp::kSin:
      name = "sin";
      break;
    case ScalarOp::kCos:
      name = "cos";
      break;
    case ScalarOp::kTan:
      name = "tan";
      break;
    case ScalarOp::kAsin:
      name = "asin";
      break;
    case ScalarOp::kAcos:
      name = "acos";
      break;
    case ScalarOp::kAtan:
      name = "atan";
      break;
    case ScalarOp::kSinh:
      name = "sinh";
      break;
    case ScalarOp::kCosh:
      name = "cosh";
      break;
    case ScalarOp::kTanh:
      name = "tanh";
      break;
    case ScalarOp::kAsinh:
      name = "asinh";
      break;
    case ScalarOp::kAcosh:
      name = "acosh";
      break;
    case ScalarOp::kAtanh:
      name = "atanh";
      break;
    case ScalarOp::kErf:
      name = "erf";
      break;
    case ScalarOp::kErfc:
      name = "erfc";
      break;
    case ScalarOp::kErfinv:
      name = "erfinv";
      break;
    case ScalarOp::kLgamma:
      name = "lgamma";
      break;
    default:
      return "";
  }
  return absl::StrCat("__nv_", name, is_double ? "" : "f");
}

class CudaEmitter {
 public:
  CudaEmitter(llvm::Module& module, const KernelSpec& spec)
      : s_(spec), m_(module), c_(module.getContext()), b_(c_), features_(Features()), scalar_(b_, features_) {
    schedule_ = CudaScheduleFor(spec);
    i64_ = b_.getInt64Ty();
    i32_ = b_.getInt32Ty();
  }

  void Emit(const std::string& symbol) {
    Type* ptr = b_.getPtrTy();
    fn_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64_, i64_, ptr}, false),
                                 llvm::GlobalValue::ExternalLinkage, symbol, m_);
    fn_->setCallingConv(llvm::CallingConv::PTX_Kernel);
    fn_->addFnAttr("nvvm.reqntid", absl::StrCat(kCudaBlock));
    fn_->addFnAttr(llvm::Attribute::NoUnwind);
    entry_ = BasicBlock::Create(c_, "entry", fn_);
    b_.SetInsertPoint(entry_);
    words_ = fn_->getArg(0);
    begin_ = fn_->getArg(1);
    end_ = fn_->getArg(2);
    scalar_.SetStatusHandler([this](int code, Value* bad) { SetStatus(code, bad); });
    scalar_.SetMathHandler([this](ScalarOp op, Value* x, Value* y) { return Math(op, x, y); });
    thread_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    block_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    blocks_ = Register(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
    LoadWords();
    // Loops below branch out of here; allocas stay in the entry.
    BasicBlock* body = Block("body");
    b_.CreateBr(body);
    b_.SetInsertPoint(body);
    columns_ = s_.parallel_rank > 0 && s_.vector_dim == s_.parallel_rank - 1;
    LeaveIfIndexesNothing();
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
  // The features that the scalar emitter may use: contraction is explicit, conversions of float16 are instructions.
  static CpuFeatures Features() {
    CpuFeatures f;
    f.fma = true;
    f.f16c = true;
    return f;
  }

  // --- small helpers ---
  BasicBlock* Block(const char* name) { return BasicBlock::Create(c_, name, fn_); }
  Value* Register(llvm::Intrinsic::ID id) { return b_.CreateZExt(b_.CreateIntrinsic(id, {}), i64_); }
  AllocaInst* Variable(Type* t) {
    llvm::IRBuilder<> at(entry_, entry_->begin());
    return at.CreateAlloca(t);
  }
  Value* Get(AllocaInst* a) { return b_.CreateLoad(a->getAllocatedType(), a); }
  void For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
    BasicBlock *before = b_.GetInsertBlock(), *head = Block("loop"), *inside = Block("each"), *done = Block("done");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* i = b_.CreatePHI(i64_, 2);
    i->addIncoming(from, before);
    b_.CreateCondBr(b_.CreateICmpSLT(i, to), inside, done);
    b_.SetInsertPoint(inside);
    body(i);
    i->addIncoming(b_.CreateAdd(i, step), b_.GetInsertBlock());
    b_.CreateBr(head);
    b_.SetInsertPoint(done);
  }
  void IfElse(Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
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
  void If(Value* condition, const std::function<void()>& then) {
    IfElse(condition, then, [] {});
  }
  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }
  void SetStatus(int code, Value* bad) {
    If(bad, [&] { b_.CreateAlignedStore(b_.getInt64(code), fn_->getArg(3), llvm::Align(8)); });
  }
  // All threads alike.
  void LeaveIfIndexesNothing() {
    Value* refuses = IndexesNothing(b_, s_, size_, scalars_);
    if (!refuses) return;
    BasicBlock *yes = Block("nothing"), *no = Block("elements");
    b_.CreateCondBr(refuses, yes, no);
    b_.SetInsertPoint(yes);
    b_.CreateAlignedStore(b_.getInt64(1), fn_->getArg(3), llvm::Align(8));
    b_.CreateRetVoid();
    b_.SetInsertPoint(no);
  }
  void Barrier() { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {b_.getInt32(0)}); }
  Value* Math(ScalarOp op, Value* x, Value* y) {
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

  // --- the parameter block ---
  Value* Word(int n) { return b_.CreateAlignedLoad(i64_, b_.CreateConstGEP1_64(i64_, words_, n), llvm::Align(8)); }
  void LoadWords() {
    int n = 0;
    for (int d = 0; d < s_.rank(); ++d) size_.push_back(Word(n++));
    for (const KernelParam& p : s_.params) {
      base_.push_back(b_.CreateIntToPtr(Word(n++), llvm::PointerType::get(c_, kGlobal)));
      std::vector<Value*> strides;
      for (StrideClass c : p.strides) {
        const int64_t item = ItemSize(p.dtype);
        strides.push_back(c == StrideClass::kZero  ? nullptr
                          : c == StrideClass::kAny ? b_.CreateMul(Word(n++), b_.getInt64(item))
                                                   : b_.getInt64(ElementsApart(c) * item));
      }
      stride_.push_back(std::move(strides));
    }
    for (DType t : s_.scalars) scalars_.push_back(scalar_.FromWord(Word(n++), t));
    index_.assign(s_.rank(), b_.getInt64(0));
    // Params that no launch of this kernel may write: loads may go past the coherent cache.
    for (const KernelParam& p : s_.params) {
      bool constant = p.is_read && !p.is_written && p.alias_class >= 0;
      for (const KernelParam& q : s_.params) {
        if (q.is_written && (q.alias_class < 0 || q.alias_class == p.alias_class)) constant = false;
      }
      constant_.push_back(constant);
    }
  }

  // Sets index_[from..to) to the digits of a row-major number.
  void Decompose(Value* number, int from, int to) {
    for (int d = to - 1; d > from; --d) {
      index_[d] = b_.CreateURem(number, size_[d]);
      number = b_.CreateUDiv(number, size_[d]);
    }
    if (to > from) index_[from] = number;
  }
  Value* Product(int from, int to) {
    Value* n = b_.getInt64(1);
    for (int d = from; d < to; ++d) n = b_.CreateMul(n, size_[d]);
    return n;
  }

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
    Value* tiles = b_.CreateSub(end_, begin_);
    Value* per_row = by_rows ? chunks(size_[p - 1]) : nullptr;
    Value* total = by_elements ? chunks(tiles) : by_rows ? b_.CreateMul(tiles, per_row) : tiles;
    Value* first = serial ? b_.getInt64(0) : b_.CreateAdd(b_.CreateMul(block_, b_.getInt64(kCudaBlock)), thread_);
    Value* step = serial ? b_.getInt64(1) : b_.CreateMul(blocks_, b_.getInt64(kCudaBlock));
    auto all = [&] {
      For(first, total, step, [&](Value* c) {
        if (by_elements) {
          Chunk(b_.CreateAdd(begin_, b_.CreateMul(c, b_.getInt64(v))), end_, v);
        } else if (by_rows) {
          Decompose(b_.CreateAdd(begin_, b_.CreateUDiv(c, per_row)), 0, row_dims);
          Chunk(b_.CreateMul(b_.CreateURem(c, per_row), b_.getInt64(v)), size_[p - 1], v);
        } else {
          Decompose(b_.CreateAdd(begin_, c), 0, p);
          Point(1);
        }
      });
    };
    if (serial) {
      If(b_.CreateICmpEQ(b_.CreateOr(block_, thread_), b_.getInt64(0)), all);
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
      For(at, stop, b_.getInt64(1), [&](Value* i) {
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
      Value* address = b_.CreatePtrToInt(Address(static_cast<int>(k), nullptr), i64_);
      whole = b_.CreateAnd(whole, b_.CreateICmpEQ(b_.CreateAnd(address, b_.getInt64(bytes - 1)), b_.getInt64(0)));
    }
    IfElse(whole, [&] { index = at, Point(v); }, one_by_one);
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
      BeginReductions(phase);
      For(b_.getInt64(0), Product(s_.parallel_rank, s_.rank()), b_.getInt64(1), [&](Value* k) {
        Decompose(k, s_.parallel_rank, s_.rank());
        EmitInstrs(phase.instrs, 1);
      });
      index_ = outer;
      EndReductions(phase, /*block=*/false);
    }
    index_ = outer;
  }

  void EmitRows() {
    auto* slots = llvm::ArrayType::get(i64_, 2 * kCudaBlock / kCudaWarp);
    shared_ = new llvm::GlobalVariable(m_, slots, false, llvm::GlobalValue::InternalLinkage,
                                       llvm::UndefValue::get(slots), absl::StrCat(fn_->getName().str(), "_partial"),
                                       nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
    shared_->setAlignment(llvm::Align(8));
    For(b_.CreateAdd(begin_, block_), end_, blocks_, [&](Value* tile) {
      Decompose(tile, 0, s_.parallel_rank);
      const std::vector<Value*> outer = index_;
      values_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
      for (const KernelPhase& phase : s_.phases) {
        index_ = outer;
        if (!phase.inner) {
          once_ = true;
          EmitInstrs(phase.instrs, 1);
          once_ = false;
        } else {
          BeginReductions(phase);
          if (Scatters(phase)) {
            EmitScatter(phase);
          } else {
            For(thread_, Product(s_.parallel_rank, s_.rank()), b_.getInt64(kCudaBlock), [&](Value* k) {
              Decompose(k, s_.parallel_rank, s_.rank());
              EmitInstrs(phase.instrs, 1);
            });
          }
          index_ = outer;
          EndReductions(phase, /*block=*/true);
        }
        // Later phases read what threads of this one stored, and store what they loaded.
        Barrier();
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
    Value* const count = Product(s_.parallel_rank, s_.rank());
    const int store = OnlyScatter(phase);
    if (store < 0) {
      If(b_.CreateICmpEQ(thread_, b_.getInt64(0)), [&] {
        For(b_.getInt64(0), count, b_.getInt64(1), [&](Value* k) {
          Decompose(k, s_.parallel_rank, s_.rank());
          EmitInstrs(phase.instrs, 1);
        });
      });
      return;
    }
    const KernelInstr& to = s_.instrs[store];
    const std::vector<bool> late = DependsOnLoad(phase, to.param);
    std::vector<int> early, last;
    for (int i : phase.instrs) (late[i] || i == store ? last : early).push_back(i);
    auto* slots = llvm::ArrayType::get(i64_, kCudaBlock);
    if (places_ == nullptr) {
      places_ = new llvm::GlobalVariable(m_, slots, false, llvm::GlobalValue::InternalLinkage,
                                         llvm::UndefValue::get(slots), absl::StrCat(fn_->getName().str(), "_places"),
                                         nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
      places_->setAlignment(llvm::Align(8));
    }
    auto slot = [&](Value* t) { return b_.CreateGEP(i64_, places_, {t}); };
    AllocaInst *place = Variable(i64_), *rank = Variable(i64_);
    For(b_.getInt64(0), count, b_.getInt64(kCudaBlock), [&](Value* base) {
      Value* const k = b_.CreateAdd(base, thread_);
      Decompose(k, s_.parallel_rank, s_.rank());
      const std::vector<Value*> index = index_;
      // -1: no element, or one that is not stored.
      b_.CreateStore(b_.getInt64(-1), place);
      std::vector<std::pair<int, AllocaInst*>> kept;
      If(b_.CreateICmpSLT(k, count), [&] {
        EmitInstrs(early, 1);
        Value* at = b_.CreatePtrToInt(Address(to.param, values_[0][to.operands[1]]), i64_);
        if (to.has_guard) at = b_.CreateSelect(values_[0][to.operands.back()], at, b_.getInt64(-1));
        b_.CreateStore(at, place);
        for (int i : early) {
          if (values_[0][i] == nullptr || !IsUsedBy(i, last)) continue;
          kept.push_back({i, Variable(values_[0][i]->getType())});
          b_.CreateStore(values_[0][i], kept.back().second);
        }
      });
      Value* const mine = Get(place);
      b_.CreateAlignedStore(mine, slot(thread_), llvm::Align(8));
      Barrier();
      b_.CreateStore(b_.getInt64(0), rank);
      For(b_.getInt64(0), thread_, b_.getInt64(1), [&](Value* t) {
        Value* same = b_.CreateICmpEQ(b_.CreateAlignedLoad(i64_, slot(t), llvm::Align(8)), mine);
        b_.CreateStore(b_.CreateAdd(Get(rank), b_.CreateZExt(same, i64_)), rank);
      });
      Value* const none = b_.CreateICmpEQ(mine, b_.getInt64(-1));
      Value* const turn = b_.CreateSelect(none, b_.getInt64(-1), Get(rank));
      KernelInstr latest;
      latest.reduce = ReduceKind::kMax;
      Value* const turns = b_.CreateAdd(AcrossBlock(latest, DType::kInt64, turn, nullptr).first, b_.getInt64(1));
      For(b_.getInt64(0), turns, b_.getInt64(1), [&](Value* now) {
        If(b_.CreateICmpEQ(turn, now), [&] {
          index_ = index;
          for (const auto& [i, variable] : kept) values_[0][i] = Get(variable);
          EmitInstrs(last, 1);
        });
        Barrier();
      });
    });
  }
  bool IsUsedBy(int instr, const std::vector<int>& users) const {
    return std::any_of(users.begin(), users.end(), [&](int u) {
      const std::vector<int>& operands = s_.instrs[u].operands;
      return std::find(operands.begin(), operands.end(), instr) != operands.end();
    });
  }

  // --- reductions ---
  // A running reduction or scan. Floating point sums carry what rounding lost, so that their error does not grow with
  // the length; scans run in double, as PyTorch's cumsum and the interpreter do.
  struct Accumulator {
    AllocaInst* value = nullptr;
    AllocaInst* lost = nullptr;   // of a sum
    AllocaInst* index = nullptr;  // of argmin, argmax
  };
  DType Element(const KernelInstr& in) const { return s_.instrs[in.operands[0]].type; }
  // Returns the dtype of a reduction's accumulator.
  DType Kept(const KernelInstr& in) const {
    const DType t = Element(in);
    return in.op == KernelOp::kScan && IsFloating(t) && !IsArg(in.reduce) ? DType::kFloat64 : t;
  }
  Value* Identity(ReduceKind kind, DType t) {
    const bool low = kind == ReduceKind::kMax || kind == ReduceKind::kArgMax;
    Type* type = scalar_.TypeOf(t);
    switch (kind) {
      case ReduceKind::kSum:
      case ReduceKind::kOr:
        return llvm::Constant::getNullValue(type);
      case ReduceKind::kProd:
        return IsFloating(t) ? static_cast<Value*>(llvm::ConstantFP::get(type, 1)) : llvm::ConstantInt::get(type, 1);
      case ReduceKind::kAnd:
        return b_.getTrue();
      default:
        break;
    }
    if (IsFloating(t)) return llvm::ConstantFP::getInfinity(type, /*Negative=*/low);
    const unsigned bits = type->getIntegerBitWidth();
    if (!IsSigned(t)) return llvm::ConstantInt::get(type, low ? llvm::APInt(bits, 0) : llvm::APInt::getMaxValue(bits));
    return llvm::ConstantInt::get(type,
                                  low ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  }
  static bool IsCompensated(const KernelInstr& in, DType t) {
    return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(t);
  }
  void BeginReductions(const KernelPhase& phase) {
    accumulators_.resize(s_.instrs.size());
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kReduce && in.op != KernelOp::kScan) continue;
      const DType t = Kept(in);
      Accumulator& a = accumulators_[i];
      a.value = Variable(scalar_.TypeOf(t));
      b_.CreateStore(Identity(in.reduce, t), a.value);
      if (IsArg(in.reduce)) {
        a.index = Variable(i64_);
        b_.CreateStore(b_.getInt64(std::numeric_limits<int64_t>::max()), a.index);
      }
      if (IsCompensated(in, t)) {
        a.lost = Variable(scalar_.TypeOf(t));
        b_.CreateStore(llvm::Constant::getNullValue(scalar_.TypeOf(t)), a.lost);
      }
    }
  }
  Value* Combine(ReduceKind kind, DType t, Value* a, Value* z) {
    const DType types[] = {t, t};
    Value* const operands[] = {a, z, nullptr};
    switch (kind) {
      case ReduceKind::kSum:
        return scalar_.Emit(ScalarOp::kAdd, t, types, operands, 1);
      case ReduceKind::kProd:
        return scalar_.Emit(ScalarOp::kMul, t, types, operands, 1);
      case ReduceKind::kMin:
        return scalar_.Emit(ScalarOp::kMin, t, types, operands, 1);
      case ReduceKind::kMax:
        return scalar_.Emit(ScalarOp::kMax, t, types, operands, 1);
      case ReduceKind::kAnd:
        return b_.CreateAnd(a, z);
      case ReduceKind::kOr:
        return b_.CreateOr(a, z);
      default:
        SMELT_UNREACHABLE();
        return nullptr;
    }
  }
  // Returns whether z is to be taken out of two candidates (value, index): NaN wins, and among equals the lower index.
  Value* Better(ReduceKind kind, DType t, Value* a, Value* a_index, Value* z, Value* z_index) {
    const bool min = kind == ReduceKind::kArgMin;
    Value* earlier = b_.CreateICmpSLT(z_index, a_index);
    using P = llvm::CmpInst;
    if (!IsFloating(t)) {
      const auto less = IsSigned(t) ? P::ICMP_SLT : P::ICMP_ULT, more = IsSigned(t) ? P::ICMP_SGT : P::ICMP_UGT;
      return b_.CreateOr(b_.CreateICmp(min ? less : more, z, a), b_.CreateAnd(b_.CreateICmpEQ(z, a), earlier));
    }
    Value *a_nan = b_.CreateFCmpUNO(a, a), *z_nan = b_.CreateFCmpUNO(z, z);
    Value* better = b_.CreateFCmp(min ? P::FCMP_OLT : P::FCMP_OGT, z, a);
    Value* same = b_.CreateOr(b_.CreateFCmpOEQ(z, a), b_.CreateAnd(a_nan, z_nan));
    return b_.CreateOr(b_.CreateOr(better, b_.CreateAnd(z_nan, b_.CreateNot(a_nan))), b_.CreateAnd(same, earlier));
  }
  void Accumulate(int i) {
    const KernelInstr& in = s_.instrs[i];
    Accumulator& a = accumulators_[i];
    const DType t = Kept(in);
    Value* x = scalar_.Cast(values_[0][in.operands[0]], Element(in), t);
    Value* old = Get(a.value);
    if (IsArg(in.reduce)) {
      Value *index = values_[0][in.operands[1]], *old_index = Get(a.index);
      Value* take = Better(in.reduce, t, old, old_index, x, index);
      b_.CreateStore(b_.CreateSelect(take, x, old), a.value);
      b_.CreateStore(b_.CreateSelect(take, index, old_index), a.index);
      if (in.op == KernelOp::kScan) values_[0][i] = Get(a.index);
      return;
    }
    if (a.lost) {
      // Kahan's sum. If it is infinite nothing is carried: infinity less infinity would be NaN.
      Value* y = b_.CreateFSub(x, Get(a.lost));
      Value* sum = b_.CreateFAdd(old, y);
      Value* lost = b_.CreateFSub(b_.CreateFSub(sum, old), y);
      Value* finite = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, lost),
                                       llvm::ConstantFP::getInfinity(lost->getType()));
      b_.CreateStore(b_.CreateSelect(finite, lost, llvm::Constant::getNullValue(lost->getType())), a.lost);
      b_.CreateStore(sum, a.value);
      return;
    }
    Value* next = Combine(in.reduce, t, old, x);
    b_.CreateStore(next, a.value);
    if (in.op == KernelOp::kScan) values_[0][i] = scalar_.Cast(next, t, in.type);
  }
  void EndReductions(const KernelPhase& phase, bool block) {
    for (int i : phase.instrs) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kReduce) continue;
      const Accumulator& a = accumulators_[i];
      const DType t = Kept(in);
      Value* value = Get(a.value);
      Value* index = a.index ? Get(a.index) : nullptr;
      if (a.lost) value = b_.CreateFSub(value, Get(a.lost));
      if (block) std::tie(value, index) = AcrossBlock(in, t, value, index);
      if (index) {
        // With no elements the index is 0, as in the interpreter.
        Value* none = b_.CreateICmpEQ(index, b_.getInt64(std::numeric_limits<int64_t>::max()));
        value = b_.CreateSelect(none, b_.getInt64(0), index);
      }
      values_[0][i] = value;
    }
  }
  std::pair<Value*, Value*> Merge(const KernelInstr& in, DType t, std::pair<Value*, Value*> a,
                                  std::pair<Value*, Value*> z) {
    if (!a.second) return {Combine(in.reduce, t, a.first, z.first), nullptr};
    Value* take = Better(in.reduce, t, a.first, a.second, z.first, z.second);
    return {b_.CreateSelect(take, z.first, a.first), b_.CreateSelect(take, z.second, a.second)};
  }
  // All threads get the result. The tree is fixed, so the bits are too.
  std::pair<Value*, Value*> AcrossBlock(const KernelInstr& in, DType t, Value* value, Value* index) {
    std::pair<Value*, Value*> mine = {value, index};
    for (int distance = kCudaWarp / 2; distance > 0; distance /= 2) {
      mine = Merge(in, t, mine, {Down(mine.first, distance), index ? Down(mine.second, distance) : nullptr});
    }
    const int warps = kCudaBlock / kCudaWarp;
    auto slot = [&](Value* w, int which) {
      Value* at = b_.CreateAdd(w, b_.getInt64(which * warps));
      return b_.CreateGEP(i64_, shared_, {at});
    };
    Barrier();  // the slots may still be read
    If(b_.CreateICmpEQ(b_.CreateURem(thread_, b_.getInt64(kCudaWarp)), b_.getInt64(0)), [&] {
      Value* warp = b_.CreateUDiv(thread_, b_.getInt64(kCudaWarp));
      b_.CreateAlignedStore(ToWord(mine.first), slot(warp, 0), llvm::Align(8));
      if (index) b_.CreateAlignedStore(mine.second, slot(warp, 1), llvm::Align(8));
    });
    Barrier();
    auto read = [&](int w) -> std::pair<Value*, Value*> {
      Value* first = b_.CreateAlignedLoad(i64_, slot(b_.getInt64(w), 0), llvm::Align(8));
      Value* second = index ? b_.CreateAlignedLoad(i64_, slot(b_.getInt64(w), 1), llvm::Align(8)) : nullptr;
      return {FromWord(first, value->getType()), second};
    };
    std::pair<Value*, Value*> all = read(0);
    for (int w = 1; w < warps; ++w) all = Merge(in, t, all, read(w));
    return all;
  }
  Value* ToWord(Value* v) {
    Type* bits = b_.getIntNTy(v->getType()->getPrimitiveSizeInBits());
    return b_.CreateZExt(b_.CreateBitCast(v, bits), i64_);
  }
  Value* FromWord(Value* word, Type* type) {
    return b_.CreateBitCast(b_.CreateTrunc(word, b_.getIntNTy(type->getPrimitiveSizeInBits())), type);
  }
  // The value of the thread `distance` further in the warp.
  Value* Down(Value* v, int distance) {
    auto shuffle = [&](Value* x) {
      return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_down_i32,
                                {b_.getInt32(0xffffffff), x, b_.getInt32(distance), b_.getInt32(kCudaWarp - 1)});
    };
    Value* word = ToWord(v);
    Value* low = b_.CreateZExt(shuffle(b_.CreateTrunc(word, i32_)), i64_);
    if (v->getType()->getPrimitiveSizeInBits() <= 32) return FromWord(low, v->getType());
    Value* high = b_.CreateZExt(shuffle(b_.CreateTrunc(b_.CreateLShr(word, 32), i32_)), i64_);
    return FromWord(b_.CreateOr(b_.CreateShl(high, 32), low), v->getType());
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
        Barrier();
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
    auto* load = b_.CreateAlignedLoad(type, Address(in.param, nullptr), llvm::Align(v * ItemSize(in.type)));
    MarkConstant(load, in.param);
    for (int u = 0; u < v; ++u) values_[u][i] = FromMemory(in.type, b_.CreateExtractElement(load, u));
  }
  void StoreVector(int i, int v) {
    const KernelInstr& in = s_.instrs[i];
    Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(MemoryType(in.type), v));
    for (int u = 0; u < v; ++u)
      vector = b_.CreateInsertElement(vector, ToMemory(in.type, values_[u][in.operands[0]]), u);
    b_.CreateAlignedStore(vector, Address(in.param, nullptr), llvm::Align(v * ItemSize(in.type)));
  }
  void MarkConstant(llvm::LoadInst* load, int param) {
    if (constant_[param]) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(c_, {}));
  }
  Value* Address(int param, Value* offset) {
    Value* bytes = b_.getInt64(0);
    for (int d = 0; d < s_.rank(); ++d) {
      if (stride_[param][d]) bytes = b_.CreateAdd(bytes, b_.CreateMul(index_[d], stride_[param][d]));
    }
    if (offset) bytes = b_.CreateAdd(bytes, b_.CreateMul(offset, b_.getInt64(ItemSize(s_.params[param].dtype))));
    return b_.CreateGEP(b_.getInt8Ty(), base_[param], {bytes});
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
          auto* x = b_.CreateAlignedLoad(MemoryType(in.type), Address(in.param, in.has_offset ? operand(0) : nullptr),
                                         llvm::Align(ItemSize(in.type)));
          MarkConstant(x, in.param);
          return FromMemory(in.type, x);
        };
        if (!in.has_guard) {
          out = load();
          return;
        }
        AllocaInst* variable = Variable(scalar_.TypeOf(in.type));
        b_.CreateStore(llvm::Constant::getNullValue(scalar_.TypeOf(in.type)), variable);
        If(operand(in.operands.size() - 1), [&] { b_.CreateStore(load(), variable); });
        out = Get(variable);
        return;
      }
      case KernelOp::kStore: {
        Value* condition = in.has_guard ? operand(in.operands.size() - 1) : nullptr;
        if (once_) {
          // All threads of the block are here for one point.
          Value* one = b_.CreateICmpEQ(thread_, b_.getInt64(0));
          condition = condition ? b_.CreateAnd(condition, one) : one;
        }
        auto store = [&] {
          b_.CreateAlignedStore(ToMemory(in.type, operand(0)), Address(in.param, in.has_offset ? operand(1) : nullptr),
                                llvm::Align(ItemSize(in.type)));
        };
        if (condition) {
          If(condition, store);
        } else {
          store();
        }
        return;
      }
      case KernelOp::kIndex:
        out = index_[in.dim];
        return;
      case KernelOp::kDimSize:
        out = size_[in.dim];
        return;
      case KernelOp::kScalarParam:
        out = scalars_[in.dim];
        return;
      case KernelOp::kReduce:
      case KernelOp::kScan:
        Accumulate(i);
        return;
      case KernelOp::kCheckIndex: {
        Value *index = operand(0), *size = operand(1), *zero = b_.getInt64(0);
        index = b_.CreateSelect(b_.CreateICmpSLT(index, zero), b_.CreateAdd(index, size), index);
        // Negative numbers are large as unsigned ones.
        Value* bad = b_.CreateOr(b_.CreateICmpSLT(index, zero), b_.CreateICmpSGE(index, size));
        SetStatus(1, bad);
        out = b_.CreateSelect(bad, zero, index);
        return;
      }
      case KernelOp::kAtomicAdd:
        SMELT_UNREACHABLE();
    }
  }

  const KernelSpec& s_;
  llvm::Module& m_;
  llvm::LLVMContext& c_;
  llvm::IRBuilder<> b_;
  const CpuFeatures features_;
  ScalarEmitter scalar_;
  CudaSchedule schedule_;
  bool columns_ = false;
  bool once_ = false;  // all threads of the block emit one point's outer phase
  Type *i64_ = nullptr, *i32_ = nullptr;
  llvm::Function* fn_ = nullptr;
  BasicBlock* entry_ = nullptr;
  Value *words_ = nullptr, *begin_ = nullptr, *end_ = nullptr;
  Value *thread_ = nullptr, *block_ = nullptr, *blocks_ = nullptr;
  llvm::GlobalVariable* shared_ = nullptr;  // a word a warp, twice
  llvm::GlobalVariable* places_ = nullptr;  // of scatters: a word a thread
  std::vector<Value*> size_, base_, scalars_, index_;
  std::vector<std::vector<Value*>> stride_;  // bytes; null: the dim does not matter
  std::vector<bool> constant_;
  std::vector<std::vector<Value*>> values_;  // of each point side by side, by instruction
  std::vector<Accumulator> accumulators_;
};

}  // namespace

CudaSchedule CudaScheduleFor(const KernelSpec& spec) {
  CudaSchedule out;
  const bool columns = spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1;
  bool scans = false;
  for (const KernelInstr& in : spec.instrs) scans = scans || in.op == KernelOp::kScan;
  if (spec.sequential) {
    out.kind = CudaSchedule::kSerial;
  } else if (spec.reduction_rank > 0 && !columns && !scans) {
    out.kind = CudaSchedule::kRows;
  } else if (columns && spec.reduction_rank == 0) {
    int widest = 1;
    for (const KernelParam& p : spec.params) {
      if (p.strides[spec.parallel_rank - 1] == StrideClass::kUnit) widest = std::max<int>(widest, ItemSize(p.dtype));
    }
    out.vector = std::max(1, std::min(8, kVectorBytes / widest));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("atomic_add: kernels have none");
  }
  auto module = std::make_unique<llvm::Module>("kernel", context);
  CudaEmitter(*module, spec).Emit(symbol);
  return module;
}

}  // namespace smelt
