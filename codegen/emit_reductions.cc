#include "smelt/codegen/emit_reductions.h"

#include <utility>

#include "llvm/IR/Intrinsics.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

Value* ReductionEmitter::Identity(const KernelInstr& in, DType t, Type* type) {
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

int ReductionEmitter::AccumulatorLanes(const LoopContext& ctx, const KernelInstr& in) const {
  const bool in_order = in.op == KernelOp::kScan && !plan_.columns;  // one for all lanes
  return in_order ? 1 : ctx.lanes;
}

Type* ReductionEmitter::AccumulatorType(const LoopContext& ctx, const KernelInstr& in) {
  const DType t = s_.instrs[in.operands[0]].type;
  // A running sum of float32 is kept in float64, as PyTorch's cumsum keeps it.
  const bool wide = in.op == KernelOp::kScan && t == DType::kFloat32 &&
                    (in.reduce == ReduceKind::kSum || in.reduce == ReduceKind::kProd);
  return fn_.Vec(wide ? b_.getDoubleTy() : fn_.scalar().TypeOf(t), AccumulatorLanes(ctx, in));
}

void ReductionEmitter::StartReductions(const LoopContext& ctx, const std::vector<int>& instrs, int copies) {
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce && in.op != KernelOp::kScan) continue;
    State& state = states_[i];
    state = State();
    const DType t = s_.instrs[in.operands[0]].type;
    Type* type = AccumulatorType(ctx, in);
    for (int u = 0; u < copies; ++u) {
      auto variable = [&](Type* of, Value* first) {
        AllocaInst* a = fn_.Variable(of);
        b_.CreateStore(first, a);
        return a;
      };
      state.acc.push_back(variable(type, Identity(in, t, type)));
      if (IsArg(in.reduce)) {
        // There is no index yet: a number larger than any, so that the first element wins over the identity of equal
        // value.
        Type* it = fn_.Vec(b_.getInt64Ty(), AccumulatorLanes(ctx, in));
        state.index.push_back(variable(it, llvm::ConstantInt::get(it, llvm::APInt::getSignedMaxValue(64))));
      }
      if (IsSumLike(in) && (plan_.columns || u == 0)) {
        Type* wide = fn_.Vec(b_.getDoubleTy(), AccumulatorLanes(ctx, in));
        state.wide.push_back(variable(wide, llvm::Constant::getNullValue(wide)));
        if (plan_.IsCompensated(in)) state.error.push_back(variable(wide, llvm::Constant::getNullValue(wide)));
      }
    }
  }
}

Value* ReductionEmitter::Combine(ReduceKind kind, DType t, Value* a, Value* v, bool ignores_nan) {
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
      if (plan_.features.neon) return min ? b_.CreateMinimum(a, v) : b_.CreateMaximum(a, v);
      // Takes v where it is better (as x86's minps and maxps do) or NaN. An a that is NaN stays, since nothing compares
      // with it.
      Value* better = min ? b_.CreateFCmpOLT(v, a) : b_.CreateFCmpOGT(v, a);
      Value* best = b_.CreateSelect(better, v, a);
      return ignores_nan ? best : b_.CreateSelect(b_.CreateFCmpUNO(v, v), v, best);
    }
  }
}

Value* ReductionEmitter::ArgBetter(ReduceKind kind, DType t, Value* a, Value* i, Value* v, Value* j) {
  const bool min = kind == ReduceKind::kArgMin;
  Value* earlier = b_.CreateICmpSLT(j, i);
  if (!IsFloating(t)) {
    const bool is_signed = IsSigned(t);
    auto p = min ? (is_signed ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT)
                 : (is_signed ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT);
    Value* both = b_.CreateAnd(b_.CreateICmpEQ(v, a), earlier);
    return b_.CreateOr(b_.CreateICmp(p, v, a), both);
  }
  Value* a_nan = b_.CreateFCmpUNO(a, a);
  Value* v_nan = b_.CreateFCmpUNO(v, v);
  Value* better = min ? b_.CreateFCmpOLT(v, a) : b_.CreateFCmpOGT(v, a);
  Value* both = b_.CreateAnd(a_nan, v_nan);
  Value* same = b_.CreateOr(b_.CreateFCmpOEQ(v, a), both);
  better = b_.CreateOr(better, b_.CreateAnd(v_nan, b_.CreateNot(a_nan)));
  return b_.CreateOr(better, b_.CreateAnd(same, earlier));
}

void ReductionEmitter::Accumulate(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  State& state = states_[i];
  const DType t = s_.instrs[in.operands[0]].type;
  Value* v = values_.GetVector(ctx, in.operands[0], u);
  Value* j = IsArg(in.reduce) ? values_.GetVector(ctx, in.operands[1], u) : nullptr;
  const int copy = u;
  if (ctx.row_copies > 0) u %= ctx.row_vectors;  // rows follow each other in one accumulator
  Value* a = fn_.Load(state.acc[u]);
  if (IsArg(in.reduce)) {
    Value* old = fn_.Load(state.index[u]);
    Value* better = ArgBetter(in.reduce, t, a, old, v, j);
    if (ctx.mask) better = b_.CreateAnd(better, ctx.mask);
    b_.CreateStore(b_.CreateSelect(better, v, a), state.acc[u]);
    b_.CreateStore(b_.CreateSelect(better, j, old), state.index[u]);
    return;
  }
  Value* next = plan_.SumsProducts(i) ? AddProduct(ctx, i, copy, a) : Combine(in.reduce, t, a, v, plan_.IgnoresNan(in));
  if (ctx.mask) next = b_.CreateSelect(ctx.mask, next, a);
  b_.CreateStore(next, state.acc[u]);
}

Value* ReductionEmitter::AddProduct(const LoopContext& ctx, int i, int u, Value* to) {
  const KernelInstr& made = s_.instrs[s_.instrs[i].operands[0]];
  return b_.CreateIntrinsic(
      llvm::Intrinsic::fma, {to->getType()},
      {values_.GetVector(ctx, made.operands[0], u), values_.GetVector(ctx, made.operands[1], u), to});
}

// Rows are added to each other in pairs first, and their sum to the previous sum: that takes fewer roundings, and fewer
// additions wait for each other.
void ReductionEmitter::AccumulateRows(const LoopContext& ctx, int i) {
  const KernelInstr& in = s_.instrs[i];
  State& state = states_[i];
  const DType t = s_.instrs[in.operands[0]].type;
  for (int w = 0; w < ctx.row_vectors; ++w) {
    std::vector<Value*> pairs;
    for (int q = 0; q < ctx.row_copies; q += 2) {
      const int first = q * ctx.row_vectors + w, second = first + ctx.row_vectors;
      Value* v = values_.GetVector(ctx, in.operands[0], first);
      pairs.push_back(plan_.SumsProducts(i)
                          ? AddProduct(ctx, i, second, v)
                          : Combine(in.reduce, t, v, values_.GetVector(ctx, in.operands[0], second), false));
    }
    Value* a = fn_.Load(state.acc[w]);
    Value* next = b_.CreateFAdd(a, Tree(pairs, [&](Value* x, Value* y) { return b_.CreateFAdd(x, y); }));
    if (ctx.mask) next = b_.CreateSelect(ctx.mask, next, a);
    b_.CreateStore(next, state.acc[w]);
  }
}

void ReductionEmitter::FlushSums(const LoopContext& ctx, const std::vector<int>& instrs, int copies) {
  for (int i : instrs) {
    if (!IsSumLike(s_.instrs[i])) continue;
    State& state = states_[i];
    if (plan_.columns && !ctx.folds) {
      for (int u = 0; u < copies; ++u) AddToSecondLevel(state, u, fn_.Load(state.acc[u]));
    } else {
      std::vector<Value*> parts;
      for (int u = 0; u < copies; ++u) parts.push_back(fn_.Load(state.acc[u]));
      AddToSecondLevel(state, 0, Tree(std::move(parts), [&](Value* a, Value* z) { return b_.CreateFAdd(a, z); }));
    }
    for (int u = 0; u < copies; ++u) {
      b_.CreateStore(llvm::Constant::getNullValue(state.acc[u]->getAllocatedType()), state.acc[u]);
    }
  }
}

void ReductionEmitter::AddToSecondLevel(State& state, int u, Value* v) {
  Value* a = fn_.Load(state.wide[u]);
  if (state.error.empty()) {
    b_.CreateStore(b_.CreateFAdd(a, b_.CreateFPExt(v, a->getType())), state.wide[u]);
    return;
  }
  Value* sum = b_.CreateFAdd(a, v);
  Value* part = b_.CreateFSub(sum, a);
  Value* difference = b_.CreateFSub(v, part);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(a, b_.CreateFSub(sum, part)), difference);
  b_.CreateStore(sum, state.wide[u]);
  b_.CreateStore(b_.CreateFAdd(fn_.Load(state.error[u]), lost), state.error[u]);
}

void ReductionEmitter::FinishReductions(const LoopContext& ctx, const std::vector<int>& instrs, int copies) {
  const bool by_columns = plan_.columns && !ctx.folds;
  // Loops over rows have flushed each block of them.
  if (!by_columns && s_.reduction_rank == 1) FlushSums(ctx, instrs, copies);
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    if (by_columns) {
      for (int u = 0; u < copies; ++u) {
        values_.Set(i, u, IsArg(in.reduce) ? NoIndexIsZero(fn_.Load(states_[i].index[u])) : Rounded(in, Total(i, u)));
      }
    } else {
      values_.SetAll(i, IsArg(in.reduce) ? IndexOfAll(ctx, i, copies) : ValueOfAll(ctx, i, copies));
    }
  }
}

// For a sum this is the second level, which is rounded to its type when its lanes are one.
Value* ReductionEmitter::Total(int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  const State& state = states_[i];
  if (!IsSumLike(in)) return fn_.Load(state.acc[u]);
  if (!plan_.IsCompensated(in)) return fn_.Load(state.wide[u]);
  Value* error = fn_.Load(state.error[u]);
  // Infinities make the error NaN, where the sum is right.
  error = b_.CreateSelect(b_.CreateFCmpORD(error, error), error, llvm::Constant::getNullValue(error->getType()));
  return b_.CreateFAdd(fn_.Load(state.wide[u]), error);
}

Value* ReductionEmitter::Rounded(const KernelInstr& in, Value* v) {
  Type* type = v->getType()->getWithNewType(fn_.scalar().TypeOf(s_.instrs[in.operands[0]].type));
  return IsSumLike(in) && v->getType() != type ? b_.CreateFPTrunc(v, type) : v;
}

Value* ReductionEmitter::IndexOfAll(const LoopContext& ctx, int i, int copies) {
  const KernelInstr& in = s_.instrs[i];
  const State& state = states_[i];
  const DType t = s_.instrs[in.operands[0]].type;
  Value* a = fn_.Load(state.acc[0]);
  Value* index = fn_.Load(state.index[0]);
  auto merge = [&](Value* v, Value* j) {
    Value* better = ArgBetter(in.reduce, t, a, index, v, j);
    a = b_.CreateSelect(better, v, a);
    index = b_.CreateSelect(better, j, index);
  };
  for (int u = 1; u < copies; ++u) {
    Value* loaded = fn_.Load(state.index[u]);
    merge(fn_.Load(state.acc[u]), loaded);
  }
  for (int lanes = ctx.lanes; lanes > 1; lanes /= 2) {
    Value* v = HighHalf(a, lanes);
    Value* j = HighHalf(index, lanes);
    a = LowHalf(a, lanes);
    index = LowHalf(index, lanes);
    merge(v, j);
  }
  if (index->getType()->isVectorTy()) index = b_.CreateExtractElement(index, uint64_t{0});
  return NoIndexIsZero(index);
}

Value* ReductionEmitter::ValueOfAll(const LoopContext& ctx, int i, int copies) {
  const KernelInstr& in = s_.instrs[i];
  const DType t = s_.instrs[in.operands[0]].type;
  auto combine = [&](Value* a, Value* z) { return Combine(in.reduce, t, a, z, plan_.IgnoresNan(in)); };
  Value* v;
  if (IsSumLike(in)) {
    v = Total(i, 0);
  } else {
    std::vector<Value*> parts;
    for (int u = 0; u < copies; ++u) parts.push_back(fn_.Load(states_[i].acc[u]));
    v = Tree(std::move(parts), combine);
  }
  if (ctx.folds) return Rounded(in, lane_folds_.FoldLanes(v, combine));
  for (int lanes = ctx.lanes; lanes > 1; lanes /= 2) {
    Value* high_half = HighHalf(v, lanes);
    v = combine(LowHalf(v, lanes), high_half);
  }
  if (v->getType()->isVectorTy()) v = b_.CreateExtractElement(v, uint64_t{0});
  return Rounded(in, v);
}

Value* ReductionEmitter::Tree(std::vector<Value*> parts, const std::function<Value*(Value*, Value*)>& combine) {
  while (parts.size() > 1) {
    std::vector<Value*> next;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) next.push_back(combine(parts[k], parts[k + 1]));
    if (parts.size() % 2) next.push_back(parts.back());
    parts = std::move(next);
  }
  return parts[0];
}

Value* ReductionEmitter::HighHalf(Value* v, int lanes) {
  std::vector<int> k;
  for (int i = 0; i < lanes / 2; ++i) k.push_back(lanes / 2 + i);
  return b_.CreateShuffleVector(v, k);
}

Value* ReductionEmitter::LowHalf(Value* v, int lanes) {
  std::vector<int> k;
  for (int i = 0; i < lanes / 2; ++i) k.push_back(i);
  return b_.CreateShuffleVector(v, k);
}

Value* ReductionEmitter::NoIndexIsZero(Value* index) {
  Value* none = llvm::ConstantInt::get(index->getType(), llvm::APInt::getSignedMaxValue(64));
  return b_.CreateSelect(b_.CreateICmpEQ(index, none), llvm::Constant::getNullValue(index->getType()), index);
}

Value* ReductionEmitter::EmitScan(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  State& state = states_[i];
  const DType t = s_.instrs[in.operands[0]].type;
  Value* v = values_.GetVector(ctx, in.operands[0], u);
  Value* a = fn_.Load(state.acc[u]);
  const bool in_order = ctx.lanes > 1 && !plan_.columns;
  if (IsArg(in.reduce)) {
    Value* j = values_.GetVector(ctx, in.operands[1], u);
    if (in_order) return EmitArgScan(ctx, in, state, v, j);
    Value* old = fn_.Load(state.index[u]);
    Value* better = ArgBetter(in.reduce, t, a, old, v, j);
    b_.CreateStore(b_.CreateSelect(better, v, a), state.acc[u]);
    Value* index = b_.CreateSelect(better, j, old);
    b_.CreateStore(index, state.index[u]);
    return index;
  }
  if (in_order && (in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kMax)) {
    // Combines a vector's first 2, 4, 8... elements, and last what came before the vector, so that vectors wait for
    // each other only once.
    for (int s = 1; s < ctx.lanes; s *= 2) {
      std::vector<int> from(ctx.lanes);
      for (int k = 0; k < ctx.lanes; ++k) from[k] = k < s ? k : k - s;
      v = Combine(in.reduce, t, b_.CreateShuffleVector(v, from), v);
    }
    v = Combine(in.reduce, t, fn_.Splat(ctx.lanes, a), v);
    Value* last = ctx.mask ? b_.CreateSub(ctx.count, b_.getInt64(1)) : b_.getInt64(ctx.lanes - 1);
    b_.CreateStore(b_.CreateExtractElement(v, last), state.acc[u]);
    return v;
  }
  const bool wide = v->getType()->getScalarType() != a->getType()->getScalarType();
  auto step = [&](Value* x) {
    if (wide) x = b_.CreateFPExt(x, a->getType());
    return Combine(in.reduce, t, a, x);
  };
  auto rounded = [&](Value* x, int lanes) { return wide ? b_.CreateFPTrunc(x, fn_.Vec(b_.getFloatTy(), lanes)) : x; };
  if (plan_.columns || ctx.lanes == 1) {
    Value* next = step(v);
    b_.CreateStore(next, state.acc[u]);
    return rounded(next, ctx.lanes);
  }
  Value* out = llvm::PoisonValue::get(v->getType());
  for (int k = 0; k < ctx.lanes; ++k) {
    Value* next = step(b_.CreateExtractElement(v, k));
    out = b_.CreateInsertElement(out, rounded(next, 1), k);
    a = ctx.mask ? b_.CreateSelect(b_.CreateExtractElement(ctx.mask, k), next, a) : next;
  }
  b_.CreateStore(a, state.acc[u]);
  return out;
}

// Scans along a row. Most vectors have nothing better than the elements before them. Only other vectors are taken
// element by element.
Value* ReductionEmitter::EmitArgScan(const LoopContext& ctx, const KernelInstr& in, const State& state, Value* v,
                                     Value* j) {
  const DType t = s_.instrs[in.operands[0]].type;
  Value* before = fn_.Splat(ctx.lanes, fn_.Load(state.index[0]));
  Value* better = ArgBetter(in.reduce, t, fn_.Splat(ctx.lanes, fn_.Load(state.acc[0])), before, v, j);
  if (ctx.mask) better = b_.CreateAnd(better, ctx.mask);
  auto one_by_one = [&]() -> Value* {
    Value* stored = fn_.ToMemory(t, v);
    AllocaInst* values = fn_.Temporary(stored->getType());
    AllocaInst* indices = fn_.Temporary(j->getType());
    b_.CreateStore(stored, values);
    b_.CreateStore(j, indices);
    fn_.For(b_.getInt64(0), ctx.mask ? ctx.count : b_.getInt64(ctx.lanes), b_.getInt64(1), [&](Value* k) {
      Value* x = fn_.FromMemory(t, b_.CreateLoad(fn_.MemType(t), b_.CreateGEP(fn_.MemType(t), values, k)));
      Value* at = b_.CreateGEP(b_.getInt64Ty(), indices, k);
      Value* i = b_.CreateLoad(b_.getInt64Ty(), at);
      Value* a = fn_.Load(state.acc[0]);
      Value* old = fn_.Load(state.index[0]);
      Value* takes = ArgBetter(in.reduce, t, a, old, x, i);
      Value* index = b_.CreateSelect(takes, i, old);
      b_.CreateStore(b_.CreateSelect(takes, x, a), state.acc[0]);
      b_.CreateStore(index, state.index[0]);
      b_.CreateStore(index, at);
    });
    return b_.CreateLoad(j->getType(), indices);
  };
  return fn_.IfElse(b_.CreateNot(fn_.Any(better)), [&] { return before; }, one_by_one);
}

}  // namespace smelt
