#include "smelt/codegen/cuda_long_order.h"

#include <functional>
#include <utility>
#include <vector>

#include "smelt/codegen/cuda_order_keys.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// Memory of the caller.
class LongOrderEmitter {
 public:
  LongOrderEmitter(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : f_(f), b_(f.b()), g_(f.f()), type_(kernel.types.empty() ? DType::kInt64 : kernel.types[0]) {}

  void EmitMerge() {
    Value* const length = f_.Arg(W::kLength);
    Value* const run = f_.Arg(L::kRun);
    Value* const steps = f_.Emit(Term(LogOf(f_, run)) + 1);
    ForEach(length, [&](Value* line, Value* i) {
      Value* const base = f_.Emit(Term(line) * length);
      Value* const key = Key(L::kKeys, Term(base) + i);
      Value* const number = f_.Emit(Term(i) / run);
      Value* const is_second = f_.Emit((Term(number) & 1) != 0);
      Value* const own = f_.Emit(Term(number) * run);
      Value* const other = f_.Emit(Term::Select(is_second, Term(own) - run, Term(own) + run));
      Value* const end = f_.Emit(Term::Min(length, Term(other) + run));
      // The first of the other run that comes after this pair: of equal pairs, those of the first run come first.
      AllocaInst *low = g_.Variable(b_.getInt64Ty()), *high = g_.Variable(b_.getInt64Ty());
      b_.CreateStore(other, low);
      b_.CreateStore(f_.Emit(Term::Select(Term(other) < end, end, other)), high);
      Halve(f_, low, high, steps, [&](Value* middle) {
        Value* theirs = Key(L::kKeys, Term(base) + middle);
        Value* below = b_.CreateICmpULT(theirs, key);
        Value* equal = b_.CreateICmpEQ(theirs, key);
        return b_.CreateOr(below, b_.CreateAnd(equal, is_second));
      });
      Value* const first = f_.Emit(Term::Select(is_second, other, own));
      Value* const to = f_.Emit(Term(base) + first + (Term(i) - own) + (Term(g_.Get(low)) - other));
      SetKey(key, L::kOtherKeys, to);
      Value* place = Place(L::kPlaces, Term(base) + i);
      SetPlace(place, L::kOtherPlaces, to);
    });
  }

  // Into the room of the other pairs: the values' bits, and the places.
  void EmitTake() {
    Value* const length = f_.Arg(W::kLength);
    Value* const keep = f_.Arg(W::kKeep);
    ForEach(keep, [&](Value* line, Value* i) {
      Value* const base = f_.Emit(Term(line) * length);
      Value* const first = FirstOfResult(base);
      Value* const place = Place(L::kPlaces, Term(base) + first + i);
      SetPlace(place, L::kOtherPlaces, Term(base) + i);
      f_.If(Term(f_.Arg(W::kValues)) != 0, [&] {
        Value* at = f_.Offsets(line, W::kLines, {W::kIn + 1})[0];
        Value* from = f_.Address(f_.Arg(W::kIn), type_, Term(at) + Term(place) * f_.Arg(W::kIn + 1 + kStridedRank));
        Value* bits = b_.CreateAlignedLoad(Bits(), from, llvm::Align(static_cast<uint64_t>(ItemSize(type_))));
        SetKey(b_.CreateZExt(bits, b_.getInt64Ty()), L::kOtherKeys, Term(base) + i);
      });
    });
    f_.If(Term(f_.Arg(W::kFlag)) != 0, [&] {
      ForEach(length, [&](Value* line, Value* i) {
        f_.If((Term(f_.Arg(W::kFirstTie)) < i) & (Term(i) < Term(f_.Arg(W::kTies)) + 1), [&] {
          Value* const at = f_.Emit(Term(line) * length + i);
          Value* before = Key(L::kKeys, Term(at) - 1);
          Value* key = Key(L::kKeys, at);
          f_.If(Term(before) == key, [&] { SetFlag(W::kFlag); });
        });
      });
    });
  }
  void EmitTaken() {
    Value* const length = f_.Arg(W::kLength);
    ForEach(f_.Arg(W::kKeep), [&](Value* line, Value* i) {
      const std::vector<Value*> at = f_.Offsets(line, W::kLines, {W::kValues + 1, W::kIndices + 1});
      Value* const from = f_.Emit(Term(line) * length + i);
      f_.If(Term(f_.Arg(W::kValues)) != 0, [&] {
        Value* value = b_.CreateTrunc(Key(L::kOtherKeys, from), Bits());
        Value* to =
            f_.Address(f_.Arg(W::kValues), type_, Term(at[0]) + Term(i) * f_.Arg(W::kValues + 1 + kStridedRank));
        b_.CreateAlignedStore(value, to, llvm::Align(static_cast<uint64_t>(ItemSize(type_))));
      });
      f_.If(Term(f_.Arg(W::kIndices)) != 0, [&] {
        Value* place = Place(L::kOtherPlaces, from);
        Value* to = f_.Address(f_.Arg(W::kIndices), DType::kInt64,
                               Term(at[1]) + Term(i) * f_.Arg(W::kIndices + 1 + kStridedRank));
        f_.Store(place, to, DType::kInt64);
      });
    });
  }

  void EmitZeroBins() {
    using B = bincount_words::Word;
    f_.ForItems(f_.Arg(B::kBins), [&](Value* bin) {
      f_.Store(b_.getInt64(0), f_.Address(f_.Arg(B::kOut), DType::kInt64, Term(bin) * f_.Arg(B::kOut + 1)),
               DType::kInt64);
    });
  }
  void EmitBins() {
    using B = bincount_words::Word;
    f_.ForItems(f_.Arg(B::kLength), [&](Value* i) {
      Value* address = f_.Address(f_.Arg(B::kIn), type_, Term(i) * f_.Arg(B::kIn + 1));
      Value* bin = f_.scalar().Cast(f_.Load(address, type_), type_, DType::kInt64);
      g_.IfElse(
          f_.Emit((Term(-1) < bin) & (Term(bin) < f_.Arg(B::kBins))),
          [&] {
            Value* to = f_.Address(f_.Arg(B::kOut), DType::kInt64, Term(bin) * f_.Arg(B::kOut + 1));
            b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, to, b_.getInt64(1), llvm::Align(8),
                               llvm::AtomicOrdering::Monotonic);
          },
          [&] { SetFlag(B::kFlag); });
    });
  }

 private:
  using W = order_words::Word;
  using L = long_order_words::Word;

  Type* Bits() { return b_.getIntNTy(static_cast<unsigned>(8 * ItemSize(type_))); }
  Value* Key(int word, const Term& at) {
    return b_.CreateAlignedLoad(b_.getInt64Ty(), f_.Address(f_.Arg(word), DType::kInt64, at), llvm::Align(8));
  }
  void SetKey(Value* key, int word, const Term& at) {
    f_.Store(key, f_.Address(f_.Arg(word), DType::kInt64, at), DType::kInt64);
  }
  Value* Place(int word, const Term& at) {
    Value* narrow = b_.CreateAlignedLoad(b_.getInt32Ty(), f_.Address(f_.Arg(word), DType::kInt32, at), llvm::Align(4));
    return b_.CreateZExt(narrow, b_.getInt64Ty());
  }
  void SetPlace(Value* place, int word, const Term& at) {
    Value* narrow = b_.CreateTrunc(place, b_.getInt32Ty());
    b_.CreateAlignedStore(narrow, f_.Address(f_.Arg(word), DType::kInt32, at), llvm::Align(4));
  }
  void SetFlag(int word) { f_.Store(b_.getInt64(1), f_.Address(f_.Arg(word), DType::kInt64, 0), DType::kInt64); }
  // Calls body(line, i) for the elements i < count of all lines.
  void ForEach(Value* count, const std::function<void(Value*, Value*)>& body) {
    Term items = count;
    for (int d = 0; d < kStridedRank; ++d) items = items * f_.Arg(W::kLines + d);
    f_.ForItems(items, [&](Value* n) {
      Value* const line = f_.Emit(Term(n) / count);
      Value* const i = f_.Emit(Term(n) % count);
      body(line, i);
    });
  }
  // The place of the first result in the order of the line whose pairs begin at `base`.
  Value* FirstOfResult(Value* base) {
    Value* const length = f_.Arg(W::kLength);
    AllocaInst* first = g_.Variable(b_.getInt64Ty());
    b_.CreateStore(f_.Arg(W::kFirst), first);
    f_.If(Term(f_.Arg(W::kMedian)) != 0, [&] {
      AllocaInst *low = g_.Variable(b_.getInt64Ty()), *high = g_.Variable(b_.getInt64Ty());
      b_.CreateStore(length, low);
      if (const uint64_t nan = NanKey(type_); nan != 0) {
        b_.CreateStore(b_.getInt64(0), low);
        b_.CreateStore(length, high);
        Halve(f_, low, high, f_.Emit(Term(LogOf(f_, length)) + 1),
              [&](Value* middle) { return b_.CreateICmpNE(Key(L::kKeys, Term(base) + middle), b_.getInt64(nan)); });
      }
      Value* const numbers = g_.Get(low);
      PlaceMedian(f_, numbers, length, first);
    });
    return g_.Get(first);
  }

  CudaLibraryFunction& f_;
  llvm::IRBuilder<>& b_;
  CudaFunction& g_;
  const DType type_;
};

}  // namespace

void EmitLongOrder(CudaLibraryFunction& f, const LibraryKernel& kernel, int stage) {
  LongOrderEmitter emitter(f, kernel);
  if (kernel.base == kOrderMergeKernel) {
    emitter.EmitMerge();
  } else if (kernel.base == kOrderTakeKernel) {
    stage == 0 ? emitter.EmitTake() : emitter.EmitTaken();
  } else {
    stage == 0 ? emitter.EmitZeroBins() : emitter.EmitBins();
  }
}

}  // namespace smelt
