#include "smelt/codegen/emit_instrs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/math.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Value;

namespace {

// This many loads of a body for whole vectors and others share a branch.
constexpr size_t kLoadedTogether = 4;

}  // namespace

void InstrEmitter::EmitInstrs(const LoopContext& ctx, const std::vector<int>& instrs, int copies) {
  std::vector<bool> loaded(s_.instrs.size(), false);  // by LoadTogether
  for (size_t k = 0; k < instrs.size(); ++k) {
    const int i = instrs[k];
    const KernelInstr& in = s_.instrs[i];
    if (values_.IsHoisted(i)) continue;
    if (ctx.whole && in.op == KernelOp::kLoad && !loaded[i]) LoadTogether(ctx, instrs, k, loaded);
    if (loaded[i]) continue;
    const bool effect = in.op == KernelOp::kStore || in.op == KernelOp::kReduce || in.op == KernelOp::kScan;
    const bool vector = ctx.lanes > 1 || ctx.chunk;
    if (!effect && ctx.row_copies == 0 && (!plan_.varying[i] || !vector)) {
      // One value for all lanes and copies.
      Value* v = EmitInstr(ctx, i, 0);
      values_.SetAll(i, v);
      continue;
    }
    if (plan_.IsEmittedTogether(in) && copies > 1 && ctx.lanes > 1 && ctx.row_copies == 0) {
      EmitTogether(ctx, i, copies);
      continue;
    }
    if (in.op == KernelOp::kLoad && ctx.pairs && !ctx.mask && copies % 2 == 0) {
      for (int u = 0; u < copies; u += 2) memory_.LoadEvenOdd(ctx, i, u);
      continue;
    }
    if (in.op == KernelOp::kStore) {
      if (!plan_.IsPairedIn(i, instrs)) {
        memory_.EmitStores(ctx, in, copies);
      } else if (plan_.partner[i] < i) {
        memory_.WholeOrPart(ctx, [&](const LoopContext& one) -> Value* {
          memory_.EmitInterleaved(one, s_.instrs[plan_.partner[i]], in, copies);
          return nullptr;
        });
      }
      continue;
    }
    if (in.op == KernelOp::kReduce && IsSumLike(in) && ctx.row_copies > 1) {
      reductions_.AccumulateRows(ctx, i);
      continue;
    }
    for (int u = 0; u < copies; ++u) {
      Value* v = EmitInstr(ctx, i, u);
      if (in.op != KernelOp::kReduce) values_.Set(i, u, v);
    }
  }
}

// If a body serves whole vectors and parts of them, each access is two blocks of code. A few loads from places that are
// known at the start of the body share them. (More loads would wait for their use in registers that others need.)
void InstrEmitter::LoadTogether(const LoopContext& ctx, const std::vector<int>& instrs, size_t from,
                                std::vector<bool>& loaded) {
  std::vector<int> loads;
  for (size_t k = from; k < instrs.size() && loads.size() < kLoadedTogether; ++k) {
    const KernelInstr& in = s_.instrs[instrs[k]];
    // Later instructions may read what is stored.
    if (in.op == KernelOp::kStore) break;
    const bool is_plain =
        in.op == KernelOp::kLoad && !in.has_offset && !in.has_guard && words_.UnitAlongLoop(ctx, in.param);
    if (is_plain && !values_.IsHoisted(instrs[k])) loads.push_back(instrs[k]);
    if (loads.empty()) return;  // the first one is another kind of load
  }
  const std::vector<Value*> values = memory_.WholesOrParts(ctx, [&](const LoopContext& one) {
    std::vector<Value*> parts;
    for (int i : loads) parts.push_back(memory_.LoadVector(one, s_.instrs[i], 0, nullptr, nullptr));
    return parts;
  });
  for (size_t k = 0; k < loads.size(); ++k) {
    values_.Set(loads[k], 0, fn_.FromMemory(s_.instrs[loads[k]].type, values[k]));
    loaded[loads[k]] = true;
  }
}

void InstrEmitter::EmitTogether(const LoopContext& ctx, int i, int copies) {
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
    for (int u = 0; u < copies; ++u) parts.push_back(values_.GetVector(ctx, in.operands[k], u));
    for (int lanes = ctx.lanes; parts.size() > 1; lanes *= 2) {
      std::vector<Value*> next;
      for (size_t u = 0; u < parts.size(); u += 2) {
        next.push_back(b_.CreateShuffleVector(parts[u], parts[u + 1], range(0, 2 * lanes)));
      }
      parts = std::move(next);
    }
    v[k] = parts[0];
  }
  Value* r = EmitScalarOp(ctx, in, types, v, ctx.lanes * copies);
  for (int u = 0; u < copies; ++u) values_.Set(i, u, b_.CreateShuffleVector(r, range(u * ctx.lanes, ctx.lanes)));
}

Value* InstrEmitter::EmitInstr(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  switch (in.op) {
    case KernelOp::kScalar:
      return EmitScalar(ctx, i, u);
    case KernelOp::kLoad:
      return memory_.EmitLoad(ctx, in, u);
    case KernelOp::kIndex:
      return EmitIndex(ctx, in.dim, u);
    case KernelOp::kScalarParam:
      return words_.scalar(in.dim);
    case KernelOp::kDimSize:
      return words_.size(in.dim);
    case KernelOp::kCheckIndex:
      return EmitCheckIndex(ctx, i, u);
    case KernelOp::kReduce:
      reductions_.Accumulate(ctx, i, u);
      return nullptr;
    case KernelOp::kScan:
      return reductions_.EmitScan(ctx, i, u);
    case KernelOp::kStore:  // of all copies at once: EmitInstrs
    case KernelOp::kAtomicAdd:
      break;
  }
  SMELT_UNREACHABLE();
  return nullptr;
}

Value* InstrEmitter::EmitScalar(const LoopContext& ctx, int i, int u) {
  const KernelInstr& in = s_.instrs[i];
  Value* v[3] = {};
  DType types[3] = {};
  bool vector = false;
  for (size_t k = 0; k < in.operands.size(); ++k) {
    v[k] = values_.Get(in.operands[k], u);
    types[k] = s_.instrs[in.operands[k]].type;
    vector = vector || v[k]->getType()->isVectorTy();
  }
  if (vector) {
    if (Value* lanes = CompareLanes(ctx, in, u)) return lanes;
    for (size_t k = 0; k < in.operands.size(); ++k) v[k] = fn_.Splat(ctx.lanes, v[k]);
  }
  if (in.scalar == ScalarOp::kConst) return fn_.scalar().Const(in.type, in.imm);
  return EmitScalarOp(ctx, in, types, v, ctx.lanes);
}

Value* InstrEmitter::EmitScalarOp(const LoopContext& ctx, const KernelInstr& in, const DType* types, Value* const* v,
                                  int lanes) {
  if (in.scalar == ScalarOp::kCast && in.type == DType::kBFloat16 && plan_.short_nans[in.operands[0]]) {
    return fn_.scalar().ToBFloat16(v[0], types[0]);
  }
  if (in.scalar == ScalarOp::kExp && in.type == DType::kFloat32 && plan_.maxima.at_most_zero[in.operands[0]]) {
    return EmitExpAtMostZero(b_, plan_.features, v[0]);
  }
  fn_.scalar().SetStatusHandler([&](int code, Value* bad) { fn_.SetStatus(code, bad, ctx.mask); });
  Value* result = fn_.scalar().Emit(in.scalar, in.type, types, v, lanes);
  fn_.scalar().SetStatusHandler(nullptr);
  return result;
}

Value* InstrEmitter::EmitIndex(const LoopContext& ctx, int dim, int u) {
  if (ctx.row_copies > 0) {
    if (dim == s_.rank() - 1) {
      return u < ctx.row_vectors ? ctx.idx[dim] : b_.CreateAdd(ctx.idx[dim], b_.getInt64(u / ctx.row_vectors));
    }
    u %= ctx.row_vectors;
  }
  if (dim != plan_.loop_dim || !ctx.chunk) return ctx.idx[dim];
  Value* i = FirstIndex(ctx, u);
  if (ctx.lanes == 1) return i;
  return b_.CreateAdd(b_.CreateVectorSplat(ctx.lanes, i), fn_.Iota(b_.getInt64Ty(), ctx.lanes));
}

Value* InstrEmitter::FirstIndex(const LoopContext& ctx, int u) {
  return u ? b_.CreateAdd(ctx.chunk, b_.getInt64(static_cast<int64_t>(u) * ctx.lanes)) : ctx.chunk;
}

Value* InstrEmitter::CompareLanes(const LoopContext& ctx, const KernelInstr& in, int u) {
  if (in.op != KernelOp::kScalar || in.operands.size() != 2 || ctx.row_copies > 0 || !ctx.chunk) return nullptr;
  if (in.scalar < ScalarOp::kLt || in.scalar > ScalarOp::kGe) return nullptr;
  const auto is_index = [&](int i) {
    return s_.instrs[i].op == KernelOp::kIndex && s_.instrs[i].dim == plan_.loop_dim;
  };
  const bool swapped = is_index(in.operands[1]);
  const int index = in.operands[swapped], limit = in.operands[!swapped];
  if (!is_index(index) || plan_.varying[limit]) return nullptr;
  // In lane l of copy u the index is first + u * lanes + l. Both sides are reduced by `first`, and the limit is clamped
  // to what copies hold.
  constexpr int kMostCopies = 64;
  const int bits = std::clamp(plan_.features.vector_bits / ctx.lanes, 16, 64);
  Value* first = FirstIndex(ctx, 0);
  Value* end = b_.CreateAdd(first, b_.getInt64(static_cast<int64_t>(kMostCopies) * ctx.lanes));
  Value* left =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, values_.Get(limit, 0), b_.CreateSub(first, b_.getInt64(1)));
  left = b_.CreateSub(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, end), first);
  llvm::Type* t = b_.getIntNTy(bits);
  Value* lane = fn_.Iota(t, ctx.lanes);
  if (u > 0) {
    lane = b_.CreateAdd(
        lane, b_.CreateVectorSplat(ctx.lanes, llvm::ConstantInt::get(t, static_cast<int64_t>(u) * ctx.lanes)));
  }
  Value* v[] = {lane, b_.CreateVectorSplat(ctx.lanes, b_.CreateTrunc(left, t))};
  if (swapped) std::swap(v[0], v[1]);
  const DType types[] = {DType::kInt64, DType::kInt64};  // signed; narrower here
  return fn_.scalar().Emit(in.scalar, in.type, types, v, ctx.lanes);
}

bool InstrEmitter::IsNegative(int i, int x) const {
  const KernelInstr& in = s_.instrs[i];
  if (in.op != KernelOp::kScalar || in.scalar != ScalarOp::kLt || in.operands[0] != x) return false;
  const KernelInstr& zero = s_.instrs[in.operands[1]];
  return zero.op == KernelOp::kScalar && zero.scalar == ScalarOp::kConst && !IsFloating(zero.type) && zero.imm.i == 0;
}

Value* InstrEmitter::EmitCheckIndex(const LoopContext& ctx, int i, int u) {
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
  Value* index = values_.Get(refuses_negative ? from.operands[2] : in.operands[0], u);
  Value* size = values_.Get(in.operands[1], u);
  if (index->getType()->isVectorTy() || size->getType()->isVectorTy()) {
    index = fn_.Splat(ctx.lanes, index);
    size = fn_.Splat(ctx.lanes, size);
  }
  Value* zero = llvm::Constant::getNullValue(index->getType());
  if (!refuses_negative) {
    Value* sum = b_.CreateAdd(index, size);
    index = b_.CreateSelect(b_.CreateICmpSLT(index, zero), sum, index);
  }
  Value* bad = b_.CreateICmpUGE(index, size);  // a negative one, too
  fn_.SetStatus(1, bad, ctx.mask);
  return b_.CreateSelect(bad, zero, index);
}

}  // namespace smelt
