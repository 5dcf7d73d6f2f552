#include "smelt/codegen/emit_prefetches.h"

#include "absl/algorithm/container.h"

namespace smelt {

using llvm::Value;

namespace {

// The row `kRowsAhead` further on is prefetched if rows are at least kFarRow bytes apart and at most kShortRow bytes
// long.
constexpr int64_t kFarRow = 2 << 10, kShortRow = 128;
constexpr int64_t kRowsAhead = 16;
// The distance of prefetches in memory that is read in one piece, on machines that need them (an Emerald Rapids was
// measured; 1 to 8 KiB are alike there, and less takes less room in the nearest cache).
constexpr int64_t kBytesAheadInOnePiece = 3 << 10;
// The most bytes of a row that is prefetched as a whole.
constexpr int64_t kPrefetchBytes = 16 << 10;
// The distance of prefetches in longer rows.
constexpr int64_t kLineAhead = 8 << 10;
// With more instructions per vector, a loop without reductions is not bound by memory.
constexpr int kComputeBound = 100;

}  // namespace

PrefetchEmitter::PrefetchEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words)
    : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), words_(words), next_lines_(s_.params.size()) {
  for (size_t p = 0; p < next_lines_.size(); ++p) {
    if (!plan_.fills_next[p]) continue;
    next_lines_[p] = {fn_.Variable(b_.getInt64Ty()), fn_.Variable(b_.getInt64Ty())};
    b_.CreateStore(words_.next_rows(static_cast<int>(p)).address, next_lines_[p].address);
    b_.CreateStore(words_.next_rows(static_cast<int>(p)).lines, next_lines_[p].left);
  }
}

// Short rows far from each other, where no prefetcher of the machine knows where the next ones are.
std::vector<FarRows> PrefetchEmitter::FindFarRows() {
  std::vector<FarRows> found;
  const int last = s_.parallel_rank - 2;
  if (last < 0 || s_.reduction_rank > 0 || plan_.lanes == 1 || plan_.tiles.some) return found;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (plan_.written[k] || !words_.stride(k, last)) continue;
    if (s_.params[k].strides[plan_.loop_dim] != StrideClass::kUnit) continue;
    Value* bytes = b_.CreateMul(words_.size(plan_.loop_dim), b_.getInt64(ItemSize(s_.params[k].dtype)));
    Value* are_far = b_.CreateICmpSGE(words_.stride(k, last), b_.getInt64(kFarRow));
    are_far = b_.CreateAnd(are_far, b_.CreateICmpSGT(words_.size(last), b_.getInt64(kRowsAhead)));
    Value* ahead = b_.CreateMul(words_.stride(k, last), b_.getInt64(kRowsAhead));
    found.push_back({static_cast<int>(k), b_.CreateAnd(are_far, b_.CreateICmpSLE(bytes, b_.getInt64(kShortRow))), ahead,
                     b_.CreateAdd(ahead, b_.CreateSub(bytes, b_.getInt64(1)))});
  }
  return found;
}

void PrefetchEmitter::PrefetchFarRows(const LoopContext& ctx, const std::vector<FarRows>& far_rows) {
  for (const FarRows& rows : far_rows) {
    fn_.If(rows.are_far, [&] {
      fn_.Prefetch(b_.CreateGEP(b_.getInt8Ty(), ctx.addr[rows.param], rows.first));
      fn_.Prefetch(b_.CreateGEP(b_.getInt8Ty(), ctx.addr[rows.param], rows.last));
    });
  }
}

// A machine with AVX-512 prefetches by itself what a loop without reductions reads in one piece, and explicit
// prefetches get in its way. Intel's machines are an exception, because their prefetchers stop at the end of a page; and
// so are elements apart, two lines for each vector, of which a Zen 5 prefetches too few while a loop computes: with
// prefetches of ours tanh(a * b + c) * sigmoid(a) of every other element takes a third less time.
// (Where only a part is in one piece, a distance of 0 prefetches the bytes that are read next anyway: a branch for each
// operand would take LLVM longer than everything that the loop computes.)
LinesAhead PrefetchEmitter::FindLinesAhead() {
  LinesAhead ahead;
  const int row = s_.parallel_rank - 2;  // the dim that counts rows
  const bool by_machine = !plan_.features.IsAvx2Only();
  Value* const always = b_.getInt64(by_machine ? kBytesAheadInOnePiece : kLineAhead);
  Value* const if_asked = by_machine ? b_.CreateSelect(words_.asks_ahead(), always, b_.getInt64(0)) : always;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int param = static_cast<int>(k);
    if (!plan_.IsReadInLines(param) || (row >= 0 && !words_.stride(k, row))) continue;
    Value* const piece = AsksAlways(param) ? always : if_asked;
    if (row < 0 || !by_machine) {
      ahead.lines.push_back({param, row < 0 ? piece : DistanceAhead(param, row, nullptr)});
      continue;
    }
    Value* bytes =
        b_.CreateMul(words_.size(plan_.loop_dim), b_.getInt64(ItemSize(s_.params[k].dtype) * plan_.LinesApart(param)));
    Value* is_piece = b_.CreateICmpEQ(words_.stride(k, row), bytes);
    ahead.in_one_piece = ahead.in_one_piece ? b_.CreateAnd(ahead.in_one_piece, is_piece) : is_piece;
    ahead.lines.push_back({param, b_.CreateSelect(is_piece, piece, DistanceAhead(param, row, nullptr))});
  }
  if (by_machine && row < 0) ahead.in_one_piece = b_.getTrue();
  if (ahead.in_one_piece) ahead.asks = b_.CreateOr(words_.asks_ahead(), b_.CreateNot(ahead.in_one_piece));
  return ahead;
}

void PrefetchEmitter::PrefetchAhead(const LoopContext& ctx, const LinesAhead& ahead, const std::vector<int>& instrs,
                                    int copies) {
  if (!ctx.past_cache || (ctx.mask && !ctx.whole) || ahead.lines.empty()) return;
  const bool nearest = plan_.features.IsAvx2Only() || plan_.CostOf(instrs).all > kComputeBound;
  const auto is_apart = [&](const LinesAhead::Line& line) { return AsksAlways(line.param); };
  auto ask = [&](bool into_nearest, bool only_apart = false) -> Value* {
    for (const LinesAhead::Line& line : ahead.lines) {
      if (only_apart && !is_apart(line)) continue;
      Value* at = b_.CreateGEP(b_.getInt8Ty(), words_.Address(ctx, line.param, 0), line.distance);
      PrefetchLines(ctx, line.param, at, copies, into_nearest);
    }
    return nullptr;
  };
  const auto ask_all = [&] {
    if (nearest || !ahead.in_one_piece) {
      ask(nearest);
    } else if (llvm::isa<llvm::ConstantInt>(ahead.in_one_piece)) {
      ask(true);
    } else {
      fn_.IfElse(ahead.in_one_piece, [&] { return ask(true); }, [&] { return ask(false); });
    }
  };
  if (!ahead.asks || absl::c_none_of(ahead.lines, is_apart)) {
    fn_.If(ahead.asks ? b_.CreateAnd(ctx.past_cache, ahead.asks) : ctx.past_cache, ask_all);
    return;
  }
  fn_.If(ctx.past_cache, [&] {
    fn_.IfElse(
        ahead.asks,
        [&]() -> Value* {
          ask_all();
          return nullptr;
        },
        [&] { return ask(/*into_nearest=*/false, /*only_apart=*/true); });
  });
}

Value* PrefetchEmitter::DistanceAhead(int param, int row, Value* rows) {
  const int item = ItemSize(s_.params[param].dtype);
  Value* small = b_.CreateICmpSLE(words_.size(plan_.loop_dim), b_.getInt64(kPrefetchBytes / item));
  Value* next = rows ? b_.CreateMul(words_.stride(param, row), rows) : words_.stride(param, row);
  return b_.CreateSelect(small, next, b_.getInt64(kLineAhead));
}

std::vector<Value*> PrefetchEmitter::FindRowsAhead(const LoopContext& ctx, Value* rows) {
  const int row = s_.parallel_rank - 1;
  std::vector<Value*> ahead(ctx.addr.size(), nullptr);
  for (size_t k = 0; row >= 0 && k < ctx.addr.size(); ++k) {
    if (!words_.stride(k, row)) continue;
    ahead[k] = b_.CreateGEP(b_.getInt8Ty(), ctx.addr[k], DistanceAhead(static_cast<int>(k), row, rows));
  }
  return ahead;
}

// Rows are often pages, and no prefetcher of the machine looks into the next page. A machine with AVX-512 prefetches
// into the second cache if memory is the limit: that holds more outstanding lines, and pages that share places in the
// nearest cache evict each other from it.
void PrefetchEmitter::PrefetchRows(const LoopContext& ctx, const std::vector<Value*>& rows_ahead, int copies) {
  LoopContext ahead = ctx;
  ahead.addr = rows_ahead;
  const int row = s_.parallel_rank - 1;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int param = static_cast<int>(k);
    if (plan_.fills_next[param]) {
      PrefetchNextRows(ctx, param, copies);
      continue;
    }
    if (!plan_.IsReadInLines(param) || (row >= 0 && !words_.stride(k, row))) continue;
    Value* at = nullptr;
    if (row >= 0) {
      at = words_.Address(ahead, param, 0);
    } else {
      at = b_.CreateGEP(b_.getInt8Ty(), words_.Address(ctx, param, 0), b_.getInt64(kLineAhead));
    }
    PrefetchLines(ctx, param, at, copies, plan_.features.IsAvx2Only());
  }
}

void PrefetchEmitter::PrefetchNextRows(const LoopContext& ctx, int param, int copies) {
  const NextRows& next = words_.next_rows(param);
  const NextLine& line = next_lines_[param];
  fn_.If(b_.CreateIsNotNull(next.address), [&] {
    // As many lines as the loop takes from the buffer: with the last row, the next buffer is complete.
    const int64_t bytes = int64_t{copies} * ctx.lanes * ItemSize(s_.params[param].dtype);
    Value* jump = b_.CreateSub(next.stride, b_.CreateMul(b_.CreateSub(next.lines, b_.getInt64(1)), b_.getInt64(kLine)));
    for (int64_t byte = 0; byte + kLine <= bytes; byte += kLine) {
      Value* address = fn_.Load(line.address);
      fn_.Prefetch(b_.CreateIntToPtr(address, b_.getPtrTy()), /*nearest=*/false);
      Value* left = b_.CreateSub(fn_.Load(line.left), b_.getInt64(1));
      Value* ends = b_.CreateIsNull(left);
      b_.CreateStore(b_.CreateSelect(ends, next.lines, left), line.left);
      b_.CreateStore(b_.CreateAdd(address, b_.CreateSelect(ends, jump, b_.getInt64(kLine))), line.address);
    }
  });
}

void PrefetchEmitter::PrefetchLines(const LoopContext& ctx, int param, Value* at, int copies, bool nearest) {
  const int64_t bytes = copies * ctx.lanes * ItemSize(s_.params[param].dtype) * plan_.LinesApart(param);
  for (int64_t byte = 0; byte < bytes; byte += kLine) {
    fn_.Prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), at, byte), nearest);
  }
}

}  // namespace smelt
