#include "smelt/codegen/cuda_order.h"

#include <functional>
#include <utility>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/codegen/cuda_order_keys.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

class OrderEmitter {
 public:
  OrderEmitter(CudaLibraryFunction& f, DType t) : f_(f), b_(f.b()), g_(f.f()), type_(t) {}

  void Emit() {
    keys_ = f_.Shared("_keys", b_.getInt64Ty(), kLongestLine);
    indices_ = f_.Shared("_indices", b_.getInt32Ty(), kLongestLine);
    first_nan_ = f_.Shared("_nan", b_.getInt64Ty(), 1);
    length_ = f_.Arg(order_words::kLength);
    Term lines = 1;
    for (int d = 0; d < kStridedRank; ++d) lines = lines * f_.Arg(order_words::kLines + d);
    f_.For(g_.block(), lines, g_.blocks(), [&](Value* line) { Line(line); });
  }
  // Sorts the pieces of long lines.
  void EmitPieces() {
    keys_ = f_.Shared("_keys", b_.getInt64Ty(), kLongestLine);
    indices_ = f_.Shared("_indices", b_.getInt32Ty(), kLongestLine);
    length_ = f_.Arg(order_words::kLength);
    Value* const pieces = f_.Emit(Term::CeilDiv(length_, kLongestLine));
    Term items = pieces;
    for (int d = 0; d < kStridedRank; ++d) items = items * f_.Arg(order_words::kLines + d);
    f_.For(g_.block(), items, g_.blocks(), [&](Value* item) {
      Value* const line = f_.Emit(Term(item) / pieces);
      Value* const first = f_.Emit(Term(item) % pieces * kLongestLine);
      Piece(line, first);
    });
  }

 private:
  using W = order_words::Word;

  Value* Key(const Term& i) { return At(keys_, b_.getInt64Ty(), i); }
  Value* Index(const Term& i) { return At(indices_, b_.getInt32Ty(), i); }
  Value* At(llvm::GlobalVariable* shared, Type* t, const Term& i) {
    Value* at = f_.Emit(i);
    return b_.CreateGEP(t, shared, {at});
  }
  Value* Load(Type* t, Value* at) {
    return b_.CreateAlignedLoad(t, at, llvm::Align(t->getPrimitiveSizeInBits().getFixedValue() / 8));
  }
  void Store(Value* v, Value* at) {
    b_.CreateAlignedStore(v, at, llvm::Align(v->getType()->getPrimitiveSizeInBits().getFixedValue() / 8));
  }
  Value* LoadIndex(const Term& i) {
    Value* at = Index(i);
    return b_.CreateZExt(Load(b_.getInt32Ty(), at), b_.getInt64Ty());
  }
  // for (i = thread; i < end; i += kCudaBlock)
  void Each(const Term& end, const std::function<void(Value*)>& body) { f_.For(g_.thread(), end, kCudaBlock, body); }

  // Sorts elements [first, first + count) of a line.
  void Sort(Value* offset, const Term& first, Value* count, Value* log) {
    Value* const padded = f_.Emit(Term(1) << log);
    Value* const flip = f_.Emit(Term(0) - f_.Arg(W::kDescending));
    Each(padded, [&](Value* i) {
      AllocaInst* key = g_.Variable(b_.getInt64Ty());
      // Elements that fill the line up come after all others: their indices are larger.
      b_.CreateStore(b_.getInt64(~uint64_t{0}), key);
      f_.If(Term(i) < count, [&] {
        Value* address = Element(offset, first + i);
        Value* k = KeyOf(f_, f_.Load(address, type_), type_);
        b_.CreateStore(f_.Emit(Term(k) ^ flip), key);
      });
      Value* const whole = g_.Get(key);
      Store(whole, Key(i));
      Value* index = b_.CreateTrunc(i, b_.getInt32Ty());
      Store(index, Index(i));
    });
    g_.Barrier();
    f_.For(1, Term(log) + 1, 1, [&](Value* k) {
      f_.For(0, k, 1, [&](Value* m) {
        Exchange(padded, k, f_.Emit(Term(1) << (Term(k) - 1 - m)));
        g_.Barrier();
      });
    });
  }
  // The address of an element of the line that begins at `offset`.
  Value* Element(Value* offset, const Term& i) {
    return f_.Address(f_.Arg(W::kIn), type_, Term(offset) + i * f_.Arg(W::kIn + 1 + kStridedRank));
  }

  void Piece(Value* line, Value* first) {
    const std::vector<Value*> at = f_.Offsets(line, W::kLines, {W::kIn + 1});
    Value* const count = f_.Emit(Term::Min(Term(length_) - first, kLongestLine));
    Sort(at[0], first, count, b_.getInt64(11));
    static_assert(kLongestLine == 1 << 11);
    Value* const to = f_.Emit(Term(line) * length_ + first);
    Each(count, [&](Value* i) {
      Value* key = Key(i);
      Value* k = Load(b_.getInt64Ty(), key);
      Store(k, f_.Address(f_.Arg(long_order_words::kKeys), DType::kInt64, Term(to) + i));
      Value* place = f_.Emit(Term(LoadIndex(i)) + first);
      Value* narrow = b_.CreateTrunc(place, b_.getInt32Ty());
      Store(narrow, f_.Address(f_.Arg(long_order_words::kPlaces), DType::kInt32, Term(to) + i));
    });
    // The next piece overwrites shared memory.
    g_.Barrier();
  }

  void Line(Value* line) {
    const std::vector<Value*> at = f_.Offsets(line, W::kLines, {W::kIn + 1, W::kValues + 1, W::kIndices + 1});
    const auto element = [&](Value* i) { return Element(at[0], i); };
    Sort(at[0], 0, length_, LogOf(f_, length_));
    NoteTies();
    Value* const first = FirstOfResult();
    // The elements themselves, before any is overwritten.
    Value* const keep = f_.Arg(W::kKeep);
    f_.If(Term(f_.Arg(W::kValues)) != 0, [&] {
      Each(keep, [&](Value* i) {
        Value* from = element(LoadIndex(Term(first) + i));
        Type* bits = b_.getIntNTy(static_cast<unsigned>(8 * ItemSize(type_)));
        Value* value = Load(bits, from);
        Value* wide = b_.CreateZExt(value, b_.getInt64Ty());
        Store(wide, Key(i));
      });
      g_.Barrier();
      Each(keep, [&](Value* i) {
        Value* key = Key(i);
        Value* wide = Load(b_.getInt64Ty(), key);
        Value* value = b_.CreateTrunc(wide, b_.getIntNTy(static_cast<unsigned>(8 * ItemSize(type_))));
        Value* to =
            f_.Address(f_.Arg(W::kValues), type_, Term(at[1]) + Term(i) * f_.Arg(W::kValues + 1 + kStridedRank));
        Store(value, to);
      });
    });
    f_.If(Term(f_.Arg(W::kIndices)) != 0, [&] {
      Each(keep, [&](Value* i) {
        Value* index = LoadIndex(Term(first) + i);
        Value* to = f_.Address(f_.Arg(W::kIndices), DType::kInt64,
                               Term(at[2]) + Term(i) * f_.Arg(W::kIndices + 1 + kStridedRank));
        Store(index, to);
      });
    });
    // The next line overwrites shared memory.
    g_.Barrier();
  }

  // Orders the pairs of elements `apart`, ascending in every other group of 2^k.
  void Exchange(Value* padded, Value* k, Value* apart) {
    Each(Term(padded) / 2, [&](Value* p) {
      Value* i = f_.Emit(Term(p) * 2 - (Term(p) & (Term(apart) - 1)));
      Value* j = f_.Emit(Term(i) + apart);
      Value *key_i = Key(i), *key_j = Key(j), *index_i = Index(i), *index_j = Index(j);
      Value* ki = Load(b_.getInt64Ty(), key_i);
      Value* kj = Load(b_.getInt64Ty(), key_j);
      Value* ii = Load(b_.getInt32Ty(), index_i);
      Value* ij = Load(b_.getInt32Ty(), index_j);
      Value* is_above = b_.CreateICmpUGT(ki, kj);
      Value* is_equal = b_.CreateICmpEQ(ki, kj);
      Value* comes_later = b_.CreateICmpUGT(ii, ij);
      Value* out_of_order = b_.CreateOr(is_above, b_.CreateAnd(is_equal, comes_later));
      Value* descends = f_.Emit(((Term(i) >> k) & 1) != 0);
      g_.If(b_.CreateXor(out_of_order, descends), [&] {
        Store(kj, key_i);
        Store(ki, key_j);
        Store(ij, index_i);
        Store(ii, index_j);
      });
    });
  }

  // Sets the flag if equal elements are among the first kTies, or the last of them equals the next one.
  void NoteTies() {
    Value* const ties = f_.Arg(W::kTies);
    f_.If(Term(f_.Arg(W::kFlag)) != 0, [&] {
      const Term end = Term::Min(Term(ties) + 1, length_);
      f_.For(Term(f_.Arg(W::kFirstTie)) + g_.thread() + 1, end, kCudaBlock, [&](Value* i) {
        Value* before = Load(b_.getInt64Ty(), Key(Term(i) - 1));
        Value* key = Load(b_.getInt64Ty(), Key(i));
        f_.If(Term(before) == key, [&] { Store(b_.getInt64(1), f_.Address(f_.Arg(W::kFlag), DType::kInt64, 0)); });
      });
    });
  }

  // The place of the first result in the order.
  Value* FirstOfResult() {
    AllocaInst* first = g_.Variable(b_.getInt64Ty());
    b_.CreateStore(f_.Arg(W::kFirst), first);
    f_.If(Term(f_.Arg(W::kMedian)) != 0, [&] {
      // NaN are the last.
      f_.If(Term(g_.thread()) == 0, [&] { Store(length_, At(first_nan_, b_.getInt64Ty(), 0)); });
      g_.Barrier();
      if (const uint64_t nan = NanKey(type_); nan != 0) {
        Each(length_, [&](Value* i) {
          Value* is_nan = b_.CreateICmpEQ(Load(b_.getInt64Ty(), Key(i)), b_.getInt64(nan));
          Value* has_before = f_.Emit(Term(i) != 0);
          Value* before = Load(b_.getInt64Ty(), Key(Term::Select(has_before, Term(i) - 1, 0)));
          Value* follows = b_.CreateAnd(has_before, b_.CreateICmpEQ(before, b_.getInt64(nan)));
          g_.If(b_.CreateAnd(is_nan, b_.CreateNot(follows)), [&] { Store(i, At(first_nan_, b_.getInt64Ty(), 0)); });
        });
      }
      g_.Barrier();
      Value* numbers = Load(b_.getInt64Ty(), At(first_nan_, b_.getInt64Ty(), 0));
      PlaceMedian(f_, numbers, length_, first);
    });
    // All have read the keys, which give way to values.
    g_.Barrier();
    return g_.Get(first);
  }

  CudaLibraryFunction& f_;
  llvm::IRBuilder<>& b_;
  CudaFunction& g_;
  const DType type_;
  llvm::GlobalVariable *keys_ = nullptr, *indices_ = nullptr, *first_nan_ = nullptr;
  Value* length_ = nullptr;
};

void EmitSearch(CudaLibraryFunction& f, const std::vector<DType>& types) {
  using W = search_words::Word;
  llvm::IRBuilder<>& b = f.b();
  CudaFunction& g = f.f();
  const bool is_real = IsFloating(types[0]) || IsFloating(types[1]);
  const auto load = [&](Value* address, DType t) {
    const DType loaded = IsHalf(t) ? DType::kFloat32 : t;
    return f.scalar().Cast(f.Load(address, t), loaded, is_real ? DType::kFloat64 : DType::kInt64);
  };
  f.ForElements(W::kSizes, [&](Value* n) {
    const std::vector<Value*> at = f.Offsets(n, W::kSizes, {W::kValues + 1, W::kSorted + 1, W::kOut + 1});
    Value* const value = load(f.Address(f.Arg(W::kValues), types[1], at[0]), types[1]);
    AllocaInst *low = g.Variable(b.getInt64Ty()), *high = g.Variable(b.getInt64Ty());
    b.CreateStore(b.getInt64(0), low);
    b.CreateStore(f.Arg(W::kLength), high);
    // As many steps as halve any range to nothing.
    Value* const steps = f.Emit(Term(LogOf(f, f.Emit(Term(f.Arg(W::kLength)) + 1))));
    Halve(f, low, high, steps, [&](Value* middle) {
      Value* address =
          f.Address(f.Arg(W::kSorted), types[0], Term(at[1]) + Term(middle) * f.Arg(W::kSorted + 1 + kStridedRank));
      Value* boundary = load(address, types[0]);
      // A comparison with NaN is false.
      Value* is_above = is_real ? b.CreateFCmpOGT(boundary, value) : b.CreateICmpSGT(boundary, value);
      Value* reaches = is_real ? b.CreateFCmpOGE(boundary, value) : b.CreateICmpSGE(boundary, value);
      Value* right = f.Emit(Term(f.Arg(W::kRight)) != 0);
      return b.CreateNot(b.CreateSelect(right, is_above, reaches));
    });
    Value* place = f.scalar().Cast(g.Get(low), DType::kInt64, types[2]);
    f.Store(place, f.Address(f.Arg(W::kOut), types[2], at[2]), types[2]);
  });
}

}  // namespace

void EmitOrder(CudaLibraryFunction& f, const LibraryKernel& kernel) {
  if (kernel.base == kOrderKernel) {
    OrderEmitter(f, kernel.types[0]).Emit();
  } else if (kernel.base == kOrderPiecesKernel) {
    OrderEmitter(f, kernel.types[0]).EmitPieces();
  } else {
    EmitSearch(f, kernel.types);
  }
}

}  // namespace smelt
