#include "smelt/codegen/launch_words.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

namespace {

// The last cache of a machine that does not say how large it is, in KiB. If a launch reads and writes more than the cache
// holds, its results are stored non-temporally.
constexpr int64_t kLastCache = 32 << 10;
// Except if rows are shorter than this and not a whole number of cache lines: non-temporal stores of a line in two
// parts cost more than they save.
constexpr int64_t kNonTemporalRowBytes = 1 << 10;

}  // namespace

LaunchWords::LaunchWords(KernelFunction& fn, const Schedule& plan) : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec) {
  int n = 0;
  for (int d = 0; d < s_.rank(); ++d) size_.push_back(Word(n++, b_.getInt64Ty()));
  for (const KernelParam& p : s_.params) {
    base_.push_back(Word(n++, b_.getPtrTy()));
    std::vector<Value*> strides;
    for (StrideClass c : p.strides) {
      Value* item = b_.getInt64(ItemSize(p.dtype));
      strides.push_back(c == StrideClass::kZero  ? nullptr
                        : c == StrideClass::kAny ? b_.CreateMul(Word(n++, b_.getInt64Ty()), item)
                                                 : b_.getInt64(ElementsApart(c) * ItemSize(p.dtype)));
    }
    stride_.push_back(std::move(strides));
  }
  for (DType t : s_.scalars) {
    Value* scalar = fn_.scalar().FromWord(Word(n++, b_.getInt64Ty()), t);
    if (t == DType::kFloat32 || t == DType::kFloat64) {
      Value* nan = llvm::ConstantFP::getNaN(scalar->getType());
      scalar = b_.CreateSelect(b_.CreateFCmpUNO(scalar, scalar), nan, scalar);  // see HaveShortNans
    }
    scalars_.push_back(scalar);
  }
  for (size_t p = 0; p < s_.params.size(); ++p) {
    NextRows& next = next_rows_.emplace_back();
    if (!plan_.fills_next[p]) continue;
    for (Value** word : {&next.address, &next.stride, &next.lines}) *word = Word(n++, b_.getInt64Ty());
  }
  const bool may_pass = absl::c_linear_search(plan_.may_pass_cache, true);
  if (may_pass || !plan_.features.IsAvx2Only()) LoadHints();
  for (size_t p = 0; p < s_.params.size(); ++p) {
    passes_cache_.push_back(plan_.may_pass_cache[p] ? PassesCache(static_cast<int>(p)) : nullptr);
  }
}

Value* LaunchWords::Word(int n, Type* type) {
  return b_.CreateAlignedLoad(type, b_.CreateConstGEP1_64(b_.getInt64Ty(), fn_.words(), n), llvm::Align(8));
}

void LaunchWords::LoadHints() {
  Value* place = b_.CreateConstGEP1_64(b_.getInt64Ty(), fn_.status(), kHintsWord);
  Value* hints = b_.CreateAlignedLoad(b_.getInt64Ty(), place, llvm::Align(8));
  Value* cache = b_.CreateLShr(hints, kLastCacheShift);
  cache = b_.CreateSelect(b_.CreateIsNull(cache), b_.getInt64(kLastCache), cache);
  cache_bytes_ = b_.CreateShl(cache, 10);
  if (plan_.features.IsAvx2Only()) return;
  asks_ahead_ = b_.CreateIsNotNull(b_.CreateAnd(hints, kAskAhead));
  reads_alone_ = b_.CreateIsNotNull(b_.CreateAnd(hints, kReadsAlone));
}

Value* LaunchWords::ElementsOf(int p) {
  Value* elements = b_.getInt64(1);
  for (int d = 0; d < s_.rank(); ++d) {
    if (stride_[p][d]) elements = b_.CreateMul(elements, size_[d]);
  }
  return elements;
}

// For each element of a result: the bytes that are read and written of params that have as many.
int64_t LaunchWords::BytesMovedWith(int p) const {
  int64_t bytes = 0;
  for (size_t q = 0; q < s_.params.size(); ++q) {
    bool all = true;
    for (int d = 0; d < s_.rank(); ++d) all = all && (!stride_[p][d] || stride_[q][d]);
    const int64_t apart = ElementsApart(s_.params[q].strides[plan_.loop_dim]);
    if (all) bytes += ItemSize(s_.params[q].dtype) * std::max<int64_t>(apart, 1);
  }
  return bytes;
}

Value* LaunchWords::PassesCache(int p) {
  const auto bytes_of = [&](int q) { return b_.CreateMul(ElementsOf(q), b_.getInt64(ItemSize(s_.params[q].dtype))); };
  Value* moved = b_.CreateMul(ElementsOf(p), b_.getInt64(BytesMovedWith(p)));
  Value* row = b_.CreateMul(size_[plan_.loop_dim], b_.getInt64(ItemSize(s_.params[p].dtype)));
  Value* whole_lines = b_.CreateICmpEQ(b_.CreateAnd(row, b_.getInt64(kLine - 1)), b_.getInt64(0));
  Value* long_rows = b_.CreateICmpSGE(row, b_.getInt64(kNonTemporalRowBytes));
  Value* either = b_.CreateOr(whole_lines, long_rows);
  Value* passes = b_.CreateAnd(b_.CreateICmpUGE(moved, cache_bytes_), either);
  if (plan_.has_scratch[p]) {
    passes = b_.CreateAnd(passes, b_.CreateICmpSLE(size_[plan_.loop_dim], b_.getInt64(kScratchElements)));
  }
  // A launch that writes into memory that it reads has just read lines that it writes, so that they are in the cache. A
  // store past it would save no read, and evict what the next launch may find there.
  for (int q = 0; q < static_cast<int>(s_.params.size()); ++q) {
    if (q == p || !s_.params[q].is_read || !plan_.MayShareMemory(p, q)) continue;
    Value* to = b_.CreatePtrToInt(base_[p], b_.getInt64Ty());
    Value* from = b_.CreatePtrToInt(base_[q], b_.getInt64Ty());
    Value* written = bytes_of(p);
    Value* begins_behind = b_.CreateICmpUGE(b_.CreateSub(from, to), written);
    Value* read = bytes_of(q);
    Value* ends_before = b_.CreateICmpUGE(b_.CreateSub(to, from), read);
    passes = b_.CreateAnd(passes, b_.CreateAnd(begins_behind, ends_before));
  }
  return passes;
}

LoopContext LaunchWords::Outermost() const {
  LoopContext ctx;
  ctx.addr = base_;
  ctx.idx.assign(s_.rank(), nullptr);
  ctx.scratch.assign(s_.params.size(), nullptr);
  return ctx;
}

void LaunchWords::AddIndex(LoopContext& ctx, int dim, Value* index) const {
  ctx.idx[dim] = index;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (!stride_[p][dim]) continue;
    if (s_.params[p].strides[dim] == StrideClass::kUnit) {
      ctx.addr[p] = b_.CreateGEP(fn_.MemType(s_.params[p].dtype), ctx.addr[p], index);
    } else {
      ctx.addr[p] = b_.CreateGEP(b_.getInt8Ty(), ctx.addr[p], b_.CreateMul(index, stride_[p][dim]));
    }
  }
}

Value* LaunchWords::Address(const LoopContext& ctx, int param, int u, bool past_scratch) const {
  Value* a = plan_.has_scratch[param] && !past_scratch ? ctx.scratch[param] : ctx.addr[param];
  Type* byte = b_.getInt8Ty();
  if (ctx.row_copies > 0) {
    Value* row = stride_[param][s_.rank() - 1];
    if (const int q = u / ctx.row_vectors; q && row) a = b_.CreateGEP(byte, a, b_.CreateMul(row, b_.getInt64(q)));
    u %= ctx.row_vectors;
  }
  if (!MovesAlongLoop(ctx, param)) return a;
  const int64_t first = static_cast<int64_t>(u) * ctx.lanes;
  if (plan_.LoopClass(param) == StrideClass::kUnit) {
    Type* t = fn_.MemType(s_.params[param].dtype);
    a = b_.CreateGEP(t, a, ctx.chunk);
    return u ? b_.CreateConstGEP1_64(t, a, first) : a;
  }
  Value* stride = stride_[param][plan_.loop_dim];
  a = b_.CreateGEP(byte, a, b_.CreateMul(ctx.chunk, stride));
  return u ? b_.CreateGEP(byte, a, b_.CreateMul(stride, b_.getInt64(first))) : a;
}

Value* LaunchWords::StrideAlongLoop(const LoopContext& ctx, int param) const {
  Value* s = ctx.chunk && plan_.loop_dim >= 0 ? stride_[param][plan_.loop_dim] : nullptr;
  return s ? s : b_.getInt64(0);
}

bool LaunchWords::UnitAlongLoop(const LoopContext& ctx, int param) const {
  return ctx.chunk && plan_.loop_dim >= 0 && plan_.LoopClass(param) == StrideClass::kUnit;
}

}  // namespace smelt
