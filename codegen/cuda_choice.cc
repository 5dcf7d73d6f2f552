#include "smelt/codegen/cuda_choice.h"

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

constexpr int kEach = kChoiceChunk / kCudaBlock;

// Elements of which some count.
class ChoiceEmitter {
 public:
  explicit ChoiceEmitter(CudaLibraryFunction& f) : f_(f), b_(f.b()), g_(f.f()) {}
  virtual ~ChoiceEmitter() = default;

  // All by one block.
  void EmitWhole() {
    f_.If(Term(g_.block()) == 0, [&] {
      AllocaInst* const total = g_.Variable(b_.getInt64Ty());
      b_.CreateStore(b_.getInt64(0), total);
      f_.For(0, NumElements(), kChoiceChunk, [&](Value* first) {
        Value* const before = g_.Get(total);
        Value* const all = StoreChunk(first, before);
        b_.CreateStore(f_.Emit(Term(before) + all), total);
        g_.Barrier();
      });
      Value* const all = g_.Get(total);
      StoreTotal(all);
      Finish(all, [&](const Term& count, const Body& body) { f_.For(g_.thread(), count, kCudaBlock, body); });
    });
  }

  // A stage of the wide form. The workspace has a number for each chunk: how many of its elements count, and from the
  // second stage on how many do up to its end.
  void EmitStage(int stage) {
    Value* const chunks = f_.Emit(Term::CeilDiv(NumElements(), kChoiceChunk));
    if (stage == 0) {
      ForChunks(chunks, [&](Value* chunk) {
        Value* const first = f_.Emit(Term(chunk) * kChoiceChunk + Term(g_.thread()) * kEach);
        const auto sum_to = f_.SumOverBlock(Sum(Flags(first)));
        f_.If(Term(g_.thread()) == 0, [&] {
          Value* all = sum_to(kCudaBlock - 1);
          StoreSum(all, chunk);
        });
      });
    } else if (stage == 1) {
      f_.If(Term(g_.block()) == 0, [&] { AddUp(chunks); });
    } else if (stage == 2) {
      ForChunks(chunks, [&](Value* chunk) {
        Value* const first = f_.Emit(Term(chunk) * kChoiceChunk);
        AllocaInst* const before = g_.Variable(b_.getInt64Ty());
        b_.CreateStore(b_.getInt64(0), before);
        f_.If(Term(0) < chunk, [&] { b_.CreateStore(SumAt(Term(chunk) - 1), before); });
        StoreChunk(first, g_.Get(before));
      });
    } else {
      f_.If(Term(0) < chunks, [&] {
        Value* const all = SumAt(Term(chunks) - 1);
        Finish(all, [&](const Term& count, const Body& body) { f_.ForItems(count, body); });
      });
    }
  }

 protected:
  using Body = std::function<void(Value*)>;
  using ForItems = std::function<void(const Term& count, const Body& body)>;

  virtual Value* NumElements() = 0;
  // Returns 1 or 0 for each of kEach elements from `first` on: 1 if there is such an element, and it counts.
  virtual std::vector<Value*> Flags(Value* first) = 0;
  // Stores what is to be stored for an element with this flag, before which `before` elements count. There may be no such
  // element.
  virtual void Store(Value* element, Value* flag, Value* before) = 0;
  // One block comes here with the number of elements that count.
  virtual void StoreTotal(Value* total) {}
  // Threads come here when everything is stored. `for_items` shares items among them.
  virtual void Finish(Value* total, const ForItems& for_items) {}

  CudaLibraryFunction& f_;
  llvm::IRBuilder<>& b_;
  CudaFunction& g_;

 private:
  Value* Sum(const std::vector<Value*>& flags) {
    Term sum = 0;
    for (Value* flag : flags) sum = sum + flag;
    return f_.Emit(sum);
  }
  void ForChunks(Value* chunks, const Body& body) {
    f_.For(g_.block(), chunks, g_.blocks(), [&](Value* chunk) {
      body(chunk);
      // The next chunk overwrites shared memory.
      g_.Barrier();
    });
  }
  Value* SumAt(const Term& chunk) { return f_.Load(f_.Address(g_.workspace(), DType::kInt64, chunk), DType::kInt64); }
  void StoreSum(Value* sum, const Term& chunk) {
    f_.Store(sum, f_.Address(g_.workspace(), DType::kInt64, chunk), DType::kInt64);
  }
  // Returns how many of the chunk's elements count.
  Value* StoreChunk(Value* begin, Value* before) {
    Value* const first = f_.Emit(Term(begin) + Term(g_.thread()) * kEach);
    const std::vector<Value*> flags = Flags(first);
    Value* const count = Sum(flags);
    const auto sum_to = f_.SumOverBlock(count);
    Value* place = f_.Emit(Term(before) + sum_to(g_.thread()) - count);
    Value* const all = sum_to(kCudaBlock - 1);
    for (int j = 0; j < kEach; ++j) {
      Value* const flag = flags[static_cast<size_t>(j)];
      Store(f_.Emit(Term(first) + j), flag, place);
      place = f_.Emit(Term(place) + flag);
    }
    return all;
  }
  void AddUp(Value* chunks) {
    AllocaInst* const total = g_.Variable(b_.getInt64Ty());
    b_.CreateStore(b_.getInt64(0), total);
    f_.For(0, chunks, kChoiceChunk, [&](Value* begin) {
      Value* const first = f_.Emit(Term(begin) + Term(g_.thread()) * kEach);
      std::vector<Value*> counts;
      for (int j = 0; j < kEach; ++j) {
        Value* const inside = f_.Emit(Term(first) + j < chunks);
        Value* const count = SumAt(Term::Select(inside, Term(first) + j, 0));
        counts.push_back(f_.Emit(Term::Select(inside, count, 0)));
      }
      Value* const count = Sum(counts);
      const auto sum_to = f_.SumOverBlock(count);
      Value* const before = g_.Get(total);
      Value* sum = f_.Emit(Term(before) + sum_to(g_.thread()) - count);
      Value* const all = sum_to(kCudaBlock - 1);
      for (int j = 0; j < kEach; ++j) {
        sum = f_.Emit(Term(sum) + counts[static_cast<size_t>(j)]);
        f_.If(Term(first) + j < chunks, [&] { StoreSum(sum, Term(first) + j); });
      }
      b_.CreateStore(f_.Emit(Term(before) + all), total);
      g_.Barrier();
    });
    StoreTotal(g_.Get(total));
  }
};

// The indices of nonzero elements, or elements where a mask holds.
class ChosenElements final : public ChoiceEmitter {
  using W = choice_words::Word;

 public:
  ChosenElements(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : ChoiceEmitter(f),
        by_mask_(kernel.base == kMaskedSelectKernel || kernel.base == kWideMaskedSelectKernel),
        type_(kernel.types[0]) {
    Term size = 1;
    for (int d = 0; d < kStridedRank; ++d) size = size * f_.Arg(W::kSizes + d);
    elements_ = f_.Emit(size);
  }

 private:
  Value* NumElements() override { return elements_; }
  std::vector<Value*> Flags(Value* first) override {
    const DType t = by_mask_ ? DType::kBool : type_;
    std::vector<Value*> flags;
    for (int j = 0; j < kEach; ++j) {
      Value* inside = f_.Emit(Term(first) + j < elements_);
      Value* element = f_.Emit(Term::Select(inside, Term(first) + j, 0));
      Value* at = f_.Offsets(element, W::kSizes, {W::kFlags + 1})[0];
      Value* flag = f_.Load(f_.Address(f_.Arg(W::kFlags), t, at), t);
      Value* holds = f_.scalar().Cast(flag, IsHalf(t) ? DType::kFloat32 : t, DType::kBool);
      flags.push_back(b_.CreateZExt(b_.CreateAnd(inside, holds), b_.getInt64Ty()));
    }
    return flags;
  }
  void Store(Value* element, Value* flag, Value* before) override {
    f_.If((Term(flag) != 0) & (Term(before) < f_.Arg(W::kCount)), [&] {
      const Term to = Term(before) * f_.Arg(W::kOut + 1);
      if (by_mask_) {
        Value* at = f_.Offsets(element, W::kSizes, {W::kFrom + 1})[0];
        // A complex element moves as one integer.
        Type* const bits = b_.getIntNTy(static_cast<unsigned>(8 * ItemSize(type_)));
        const llvm::Align align(static_cast<uint64_t>(ItemSize(RealOf(type_))));
        Value* value = b_.CreateAlignedLoad(bits, f_.Address(f_.Arg(W::kFrom), type_, at), align);
        b_.CreateAlignedStore(value, f_.Address(f_.Arg(W::kOut), type_, to), align);
        return;
      }
      // The last dims are the tensor's.
      Value* rest = element;
      for (int d = kStridedRank - 1; d >= 0; --d) {
        Value* index = f_.Emit(Term(rest) % f_.Arg(W::kSizes + d));
        rest = f_.Emit(Term(rest) / f_.Arg(W::kSizes + d));
        const Term dim = Term(f_.Arg(W::kRank)) - (kStridedRank - d);
        f_.If(Term(-1) < dim, [&] {
          Value* address = f_.Address(f_.Arg(W::kOut), DType::kInt64, to + dim * f_.Arg(W::kOut + 2));
          f_.Store(index, address, DType::kInt64);
        });
      }
    });
  }

  const bool by_mask_;
  const DType type_;
  Value* elements_ = nullptr;
};

// Runs of equal elements. Those with which one begins count.
class Runs final : public ChoiceEmitter {
  using R = runs_words::Word;

 public:
  Runs(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : ChoiceEmitter(f), type_(kernel.types[0]), is_sorted_(f_.Emit(Term(f_.Arg(R::kKeys)) != 0)) {}

 private:
  Value* NumElements() override { return f_.Arg(R::kLength); }
  std::vector<Value*> Flags(Value* first) override {
    const Term last = Term(NumElements()) - 1;
    // Outside, the last element is read in place of another.
    Value* before = KeyAt(Term::Min(Term::Select(Term(first) == 0, 0, Term(first) - 1), last));
    std::vector<Value*> flags;
    for (int j = 0; j < kEach; ++j) {
      Value* const i = f_.Emit(Term(first) + j);
      Value* const key = KeyAt(Term::Min(i, last));
      Value* const is_first = f_.Emit(Term(i) == 0);
      Value* begins = b_.CreateOr(is_first, b_.CreateICmpNE(key, before));
      if (const uint64_t nan = NanKey(type_); nan != 0) {
        begins = b_.CreateOr(begins, b_.CreateICmpEQ(key, b_.getInt64(nan)));
      }
      Value* const inside = f_.Emit(Term(i) < NumElements());
      flags.push_back(b_.CreateZExt(b_.CreateAnd(begins, inside), b_.getInt64Ty()));
      before = key;
    }
    return flags;
  }
  void Store(Value* i, Value* flag, Value* before) override {
    Value* const run = f_.Emit(Term(before) + flag - 1);
    f_.If((Term(i) < NumElements()) & (Term(run) < f_.Arg(R::kRoom)), [&] {
      f_.If(Term(f_.Arg(R::kInverse)) != 0, [&] {
        Value* place = PlaceOf(i);
        f_.Store(run, f_.Address(f_.Arg(R::kInverse), DType::kInt64, Term(place) * f_.Arg(R::kInverse + 1)),
                 DType::kInt64);
      });
      f_.If(Term(flag) != 0, [&] {
        f_.If(Term(f_.Arg(R::kBegins)) != 0,
              [&] { f_.Store(i, f_.Address(f_.Arg(R::kBegins), DType::kInt64, run), DType::kInt64); });
        f_.If(Term(f_.Arg(R::kValues)) != 0, [&] {
          const llvm::Align align(static_cast<uint64_t>(ItemSize(type_)));
          Value* from = Element(PlaceOf(i));
          Value* bits = b_.CreateAlignedLoad(b_.getIntNTy(static_cast<unsigned>(8 * ItemSize(type_))), from, align);
          Value* to = f_.Address(f_.Arg(R::kValues), type_, Term(run) * f_.Arg(R::kValues + 1));
          b_.CreateAlignedStore(bits, to, align);
        });
      });
    });
  }
  void StoreTotal(Value* total) override {
    f_.If((Term(f_.Arg(R::kNumber)) != 0) & (Term(g_.thread()) == 0),
          [&] { f_.Store(total, f_.Address(f_.Arg(R::kNumber), DType::kInt64, 0), DType::kInt64); });
  }
  // The lengths.
  void Finish(Value* total, const ForItems& for_items) override {
    const auto begin_of = [&](const Term& run) {
      return f_.Load(f_.Address(f_.Arg(R::kBegins), DType::kInt64, run), DType::kInt64);
    };
    f_.If(Term(f_.Arg(R::kCounts)) != 0, [&] {
      for_items(Term::Min(total, f_.Arg(R::kRoom)), [&](Value* run) {
        Value* const has_next = f_.Emit(Term(run) + 1 < total);
        Value* next = begin_of(Term::Select(has_next, Term(run) + 1, run));
        Value* end = f_.Emit(Term::Select(has_next, next, NumElements()));
        Value* begin = begin_of(run);
        Value* count = f_.Emit(Term(end) - begin);
        f_.Store(count, f_.Address(f_.Arg(R::kCounts), DType::kInt64, Term(run) * f_.Arg(R::kCounts + 1)),
                 DType::kInt64);
      });
    });
  }

  Value* Element(const Term& place) { return f_.Address(f_.Arg(R::kIn), type_, place * f_.Arg(R::kIn + 1)); }
  // The place of element i, which lies elsewhere if an order says so.
  Value* PlaceOf(Value* i) {
    AllocaInst* place = g_.Variable(b_.getInt64Ty());
    b_.CreateStore(i, place);
    g_.If(is_sorted_, [&] {
      Value* narrow = f_.Load(f_.Address(f_.Arg(R::kPlaces), DType::kInt32, i), DType::kInt32);
      b_.CreateStore(b_.CreateZExt(narrow, b_.getInt64Ty()), place);
    });
    return g_.Get(place);
  }
  Value* KeyAt(const Term& t) {
    Value* const i = f_.Emit(t);
    AllocaInst* key = g_.Variable(b_.getInt64Ty());
    g_.IfElse(
        is_sorted_,
        [&] {
          Value* sorted = f_.Load(f_.Address(f_.Arg(R::kKeys), DType::kInt64, i), DType::kInt64);
          b_.CreateStore(sorted, key);
        },
        [&] { b_.CreateStore(KeyOf(f_, f_.Load(Element(i), type_), type_), key); });
    return g_.Get(key);
  }

  const DType type_;
  Value* const is_sorted_;
};

void Emit(ChoiceEmitter&& emitter, bool is_wide, int stage) {
  is_wide ? emitter.EmitStage(stage) : emitter.EmitWhole();
}

}  // namespace

void EmitChoice(CudaLibraryFunction& f, const LibraryKernel& kernel, int stage) {
  const bool is_wide = kernel.Launch().stages.size() > 1;
  if (kernel.base == kRunsKernel || kernel.base == kWideRunsKernel) {
    Emit(Runs(f, kernel), is_wide, stage);
  } else {
    Emit(ChosenElements(f, kernel), is_wide, stage);
  }
}

}  // namespace smelt
