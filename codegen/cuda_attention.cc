#include "smelt/codegen/cuda_attention.h"

#include <limits>
#include <utility>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

constexpr int kRows = 64, kTile = 64, kStep = 16, kPitch = kTile + 4;
constexpr int kGroups = kWidestValue / 64, kValuePitch = kWidestValue + 4;

// The parts that both forms share.
class AttentionParts {
 protected:
  using W = attention_words::Word;

  AttentionParts(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : f_(f), b_(f.b()), g_(f.f()), type_(kernel.types[0]), mask_type_(kernel.types[1]), float_(b_.getFloatTy()) {}

  // A head's matrices: the addresses of their first elements.
  struct Head {
    Value *query, *key, *value, *mask, *out;
  };
  // Calls body(head, first row) for the blocks of `rows` rows that this block computes.
  void ForEachBlock(int rows, const std::function<void(const Head&, Value*)>& body) {
    scale_ = b_.CreateFPTrunc(f_.DoubleArg(W::kScale), float_);
    cap_ = b_.CreateFPTrunc(f_.DoubleArg(W::kCap), float_);
    Value* const blocks = f_.Emit(Term::CeilDiv(f_.Arg(W::kQueries), rows));
    Term all = blocks;
    for (int d = 0; d < 4; ++d) all = all * f_.Arg(W::kHeads + d);
    f_.For(g_.block(), all, g_.blocks(), [&](Value* n) {
      // The last blocks of a causal head are the longest, and run first.
      Value* const turned = f_.Emit(all - 1 - n);
      Value* const number = f_.Emit(Term(turned) / blocks);
      Value* const first_row = f_.Emit(Term(turned) % blocks * rows);
      std::vector<Value*> index(4);
      Value* rest = number;
      for (int d = 3; d >= 0; --d) {
        index[d] = f_.Emit(Term(rest) % f_.Arg(W::kHeads + d));
        rest = f_.Emit(Term(rest) / f_.Arg(W::kHeads + d));
      }
      Head head;
      head.query = Matrix(W::kQuery, type_, index, -1);
      head.key = Matrix(W::kKey, type_, index, W::kKeyShares);
      head.value = Matrix(W::kValue, type_, index, W::kValueShares);
      head.mask = Matrix(W::kMask, mask_type_, index, -1);
      head.out = Matrix(W::kOut, type_, index, -1);
      body(head, first_row);
    });
  }
  // for (first key of each tile that the band lets through to rows of the block)
  void ForEachTile(Value* first_row, int rows, const std::function<void(Value*)>& body) {
    Value* const first = FirstTile(first_row);
    Value* const end = EndOfTiles(first_row, rows);
    f_.For(first, end, kTile, body);
  }
  Value* FirstTile(Value* first_row) {
    Value* const low = f_.Emit(Term(first_row) + f_.Arg(W::kFirst));
    return f_.Emit(Term::Select(Term(low) < 0, 0, Term(low) / kTile * kTile));
  }
  Value* EndOfTiles(Value* first_row, int rows) {
    return f_.Emit(Term::Min(f_.Arg(W::kKeys), Term(first_row) + rows + f_.Arg(W::kLast)));
  }

  Value* Number(double x) { return llvm::ConstantFP::get(float_, x); }
  Value* Excluded() { return Number(-std::numeric_limits<double>::infinity()); }
  Value* Get(AllocaInst* a) { return g_.Get(a); }
  Value* Math(ScalarOp op, Value* x) {
    const DType type = DType::kFloat32;
    return f_.scalar().Emit(op, type, &type, &x, 1);
  }
  Value* Larger(Value* a, Value* z) { return b_.CreateSelect(b_.CreateFCmpOGT(z, a), z, a); }

  // The address of the first element of a head's matrix.
  Value* Matrix(int word, DType t, const std::vector<Value*>& head, int shares) {
    Term at = 0;
    for (int d = 0; d < 4; ++d) {
      const Term index = shares < 0 ? Term(head[d]) : Term(head[d]) / f_.Arg(shares + d);
      at = at + index * f_.Arg(word + 1 + d);
    }
    return f_.Address(f_.Arg(word), t, at);
  }

  // Combines a value of `lanes` adjacent threads, a power of 2.
  Value* Across(int lanes, Value* v, const std::function<Value*(Value*, Value*)>& combine) {
    Value* const lane = b_.CreateTrunc(f_.Emit(Term(g_.thread()) % kCudaWarp), b_.getInt32Ty());
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
      Value* bits = b_.CreateBitCast(v, b_.getInt32Ty());
      Value* source = b_.CreateXor(lane, b_.getInt32(static_cast<uint32_t>(apart)));
      Value* other = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {},
                                        {b_.getInt32(0xffffffff), bits, source, b_.getInt32(31)});
      Value* number = b_.CreateBitCast(other, float_);
      v = combine(v, number);
    }
    return v;
  }

  // An element of a matrix, or 0 outside.
  Value* Element(Value* base, DType t, const Term& is_inside, const Term& at) {
    Value* inside = f_.Emit(is_inside);
    Value* address = f_.Address(base, t, Term::Select(inside, at, 0));
    Value* v = f_.Load(address, t);
    return b_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
  }

  // Returns whether each key of the tile is there for each of `rows` rows, and inside the band.
  Value* IsWhole(Value* first_row, int rows, Value* first_key) {
    const Term last_row = Term(first_row) + (rows - 1), last_key = Term(first_key) + (kTile - 1);
    return f_.Emit((last_row < f_.Arg(W::kQueries)) & (last_key < f_.Arg(W::kKeys)) &
                   (Term(f_.Arg(W::kFirst)) < Term(first_key) - last_row + 1) &
                   (last_key - first_row < Term(f_.Arg(W::kLast)) + 1));
  }
  // Scales the scores of queries `rows` and keys `keys`, caps them, and makes those that do not count -infinity.
  void Exclude(Value* mask, const std::vector<Value*>& rows, const std::vector<Value*>& keys, Value* is_whole,
               const std::vector<AllocaInst*>& scores) {
    for (AllocaInst* score : scores) {
      Value* scaled = b_.CreateFMul(Get(score), scale_);
      b_.CreateStore(scaled, score);
    }
    g_.If(b_.CreateFCmpOGT(cap_, Number(0)), [&] {
      for (AllocaInst* score : scores) {
        Value* part = b_.CreateFDiv(Get(score), cap_);
        b_.CreateStore(b_.CreateFMul(Math(ScalarOp::kTanh, part), cap_), score);
      }
    });
    const auto is_inside = [&](size_t i) {
      return (Term(rows[i]) < f_.Arg(W::kQueries)) & (Term(keys[i]) < f_.Arg(W::kKeys));
    };
    f_.If(Term(f_.Arg(W::kMask)) != 0, [&] {
      for (size_t i = 0; i < scores.size(); ++i) {
        Value* m = Element(mask, mask_type_, is_inside(i),
                           Term(rows[i]) * f_.Arg(W::kMask + 5) + Term(keys[i]) * f_.Arg(W::kMask + 6));
        Value* added = mask_type_ == DType::kBool ? b_.CreateSelect(m, Number(0), Excluded()) : m;
        Value* before = Get(scores[i]);
        b_.CreateStore(b_.CreateFAdd(before, added), scores[i]);
      }
    });
    g_.If(b_.CreateNot(is_whole), [&] {
      for (size_t i = 0; i < scores.size(); ++i) {
        const Term apart = Term(keys[i]) - rows[i];
        Value* counts =
            f_.Emit(is_inside(i) & (Term(f_.Arg(W::kFirst)) < (apart + 1)) & (apart < (Term(f_.Arg(W::kLast)) + 1)));
        Value* before = Get(scores[i]);
        b_.CreateStore(b_.CreateSelect(counts, before, Excluded()), scores[i]);
      }
    });
  }
  // Returns the result of a row without keys.
  Value* ResultOfNone() {
    Value* const nan = f_.Emit(Term(f_.Arg(W::kEmptyIsNan)) != 0);
    return b_.CreateSelect(nan, Number(std::numeric_limits<double>::quiet_NaN()), Number(0));
  }

  CudaLibraryFunction& f_;
  llvm::IRBuilder<>& b_;
  CudaFunction& g_;
  const DType type_, mask_type_;
  Type* const float_;
  Value *scale_ = nullptr, *cap_ = nullptr;
};

class AttentionEmitter : AttentionParts {
 public:
  AttentionEmitter(CudaLibraryFunction& f, const LibraryKernel& kernel) : AttentionParts(f, kernel) {}

  void Emit() {
    queries_ = f_.Shared("_queries", float_, kStep * kPitch);
    keys_ = f_.Shared("_keys", float_, kStep * kPitch);
    weights_ = f_.Shared("_weights", float_, kTile * kPitch);
    values_ = f_.Shared("_values", float_, kStep * kValuePitch);
    counts_ = f_.Shared("_counts", b_.getInt64Ty(), 1);
    for (int i = 0; i < 4; ++i) {
      largest_.push_back(g_.Variable(float_));
      sums_.push_back(g_.Variable(float_));
    }
    for (int i = 0; i < 16; ++i) scores_.push_back(g_.Variable(float_));
    for (int i = 0; i < 16 * kGroups; ++i) out_.push_back(g_.Variable(float_));
    y_ = f_.Emit(Term(g_.thread()) / 16);
    x_ = f_.Emit(Term(g_.thread()) % 16);
    ForEachBlock(kRows, [&](const Head& head, Value* first_row) { Block(head, first_row); });
  }

 private:
  Value* SharedAt(llvm::GlobalVariable* shared, const Term& at) {
    Value* index = f_.Emit(at);
    return b_.CreateGEP(float_, shared, {index});
  }
  // Four adjacent elements, at a multiple of four.
  std::vector<Value*> Four(llvm::GlobalVariable* shared, const Term& at) {
    Value* address = SharedAt(shared, at);
    Value* v = b_.CreateAlignedLoad(llvm::FixedVectorType::get(float_, 4), address, llvm::Align(16));
    std::vector<Value*> out;
    for (uint64_t k = 0; k < 4; ++k) out.push_back(b_.CreateExtractElement(v, k));
    return out;
  }
  void Block(const Head& head, Value* first_row) {
    for (int i = 0; i < 4; ++i) {
      b_.CreateStore(Excluded(), largest_[i]);
      b_.CreateStore(Number(0), sums_[i]);
    }
    for (AllocaInst* v : out_) b_.CreateStore(Number(0), v);
    ForEachTile(first_row, kRows, [&](Value* first_key) {
      f_.If(Term(g_.thread()) == 0, [&] { b_.CreateAlignedStore(b_.getInt64(0), counts_, llvm::Align(8)); });
      Scores(head.query, head.key, first_row, first_key);
      std::vector<Value*> rows, keys;
      for (int i = 0; i < 4; ++i) {
        Value* const row = f_.Emit(Term(first_row) + Term(y_) * 4 + i);
        for (int j = 0; j < 4; ++j) {
          rows.push_back(row);
          keys.push_back(f_.Emit(Term(first_key) + Term(x_) * 4 + j));
        }
      }
      Exclude(head.mask, rows, keys, IsWhole(first_row, kRows, first_key), scores_);
      Weigh();
      g_.Barrier();
      Value* counts = b_.CreateAlignedLoad(b_.getInt64Ty(), counts_, llvm::Align(8));
      f_.If(Term(counts) != 0, [&] { Values(head.value, first_key); });
      g_.Barrier();
    });
    Store(head.out, first_row);
  }

  void Stage(llvm::GlobalVariable* shared, Value* base, int word, const Term& first, Value* limit, Value* depth_at) {
    Value* const e = f_.Emit(Term(depth_at) + x_);
    for (int i = 0; i < 4; ++i) {
      Value* row = f_.Emit(first + y_ + 16 * i);
      Value* v = Element(base, type_, (Term(row) < limit) & (Term(e) < f_.Arg(W::kDepth)),
                         Term(row) * f_.Arg(word + 5) + Term(e) * f_.Arg(word + 6));
      b_.CreateAlignedStore(v, SharedAt(shared, Term(x_) * kPitch + y_ + 16 * i), llvm::Align(4));
    }
  }

  void Scores(Value* query, Value* key, Value* first_row, Value* first_key) {
    for (AllocaInst* s : scores_) b_.CreateStore(Number(0), s);
    f_.For(0, f_.Arg(W::kDepth), kStep, [&](Value* at) {
      Stage(queries_, query, W::kQuery, first_row, f_.Arg(W::kQueries), at);
      Stage(keys_, key, W::kKey, first_key, f_.Arg(W::kKeys), at);
      g_.Barrier();
      for (int e = 0; e < kStep; ++e) {
        const std::vector<Value*> rows = Four(queries_, Term(y_) * 4 + e * kPitch);
        const std::vector<Value*> columns = Four(keys_, Term(x_) * 4 + e * kPitch);
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) Add(scores_[i * 4 + j], rows[i], columns[j]);
        }
      }
      g_.Barrier();
    });
  }
  void Add(AllocaInst* sum, Value* a, Value* z) {
    Value* before = Get(sum);
    b_.CreateStore(b_.CreateIntrinsic(llvm::Intrinsic::fma, {float_}, {a, z, before}), sum);
  }

  // Turns scores into weights relative to the largest so far, and corrects the sums.
  void Weigh() {
    Value* const excluded = Excluded();
    Value* any = b_.getFalse();
    for (AllocaInst* s : scores_) {
      Value* counts = b_.CreateFCmpUNE(Get(s), excluded);
      any = b_.CreateOr(any, counts);
    }
    g_.If(any, [&] { b_.CreateAlignedStore(b_.getInt64(1), counts_, llvm::Align(8)); });
    std::vector<std::vector<Value*>> columns(4);
    for (int i = 0; i < 4; ++i) {
      Value* const before = Get(largest_[i]);
      Value* most = before;
      for (int j = 0; j < 4; ++j) most = Larger(most, Get(scores_[i * 4 + j]));
      most = Across(16, most, [&](Value* a, Value* z) { return Larger(a, z); });
      b_.CreateStore(most, largest_[i]);
      // Where all keys are excluded so far, all weights are 0.
      Value* const top = b_.CreateSelect(b_.CreateFCmpOEQ(most, excluded), Number(0), most);
      Value* const correction = Math(ScalarOp::kExp, b_.CreateFSub(before, top));
      Value* sum = b_.CreateFMul(Get(sums_[i]), correction);
      for (int j = 0; j < 4; ++j) {
        Value* less = b_.CreateFSub(Get(scores_[i * 4 + j]), top);
        Value* weight = Math(ScalarOp::kExp, less);
        sum = b_.CreateFAdd(sum, weight);
        columns[j].push_back(weight);
      }
      b_.CreateStore(sum, sums_[i]);
      for (int k = 0; k < 4 * kGroups; ++k) {
        AllocaInst* const o = out_[k * 4 + i];
        b_.CreateStore(b_.CreateFMul(Get(o), correction), o);
      }
    }
    for (int j = 0; j < 4; ++j) {
      Value* v = llvm::PoisonValue::get(llvm::FixedVectorType::get(float_, 4));
      for (uint64_t i = 0; i < 4; ++i) v = b_.CreateInsertElement(v, columns[j][i], i);
      b_.CreateAlignedStore(v, SharedAt(weights_, (Term(x_) * 4 + j) * kPitch + Term(y_) * 4), llvm::Align(16));
    }
  }

  // Adds the products of weights and values: thread (y, x) has columns 4x to 4x + 3 of each 64.
  void Values(Value* value, Value* first_key) {
    f_.For(0, kTile, kStep, [&](Value* at) {
      for (int i = 0; i < kStep * kWidestValue / kCudaBlock; ++i) {
        Value* column = f_.Emit((Term(g_.thread()) + kCudaBlock * i) % kWidestValue);
        Value* k = f_.Emit((Term(g_.thread()) + kCudaBlock * i) / kWidestValue);
        Value* key = f_.Emit(Term(first_key) + at + k);
        Value* v = Element(value, type_, (Term(key) < f_.Arg(W::kKeys)) & (Term(column) < f_.Arg(W::kColumns)),
                           Term(key) * f_.Arg(W::kValue + 5) + Term(column) * f_.Arg(W::kValue + 6));
        b_.CreateAlignedStore(v, SharedAt(values_, Term(k) * kValuePitch + column), llvm::Align(4));
      }
      g_.Barrier();
      for (int k = 0; k < kStep; ++k) {
        const std::vector<Value*> rows = Four(weights_, (Term(at) + k) * kPitch + Term(y_) * 4);
        for (int group = 0; group < kGroups; ++group) {
          const std::vector<Value*> columns = Four(values_, Term(x_) * 4 + (k * kValuePitch + 64 * group));
          for (int j = 0; j < 4; ++j) {
            for (int i = 0; i < 4; ++i) Add(out_[(group * 4 + j) * 4 + i], rows[i], columns[j]);
          }
        }
      }
      g_.Barrier();
    });
  }

  void Store(Value* out, Value* first_row) {
    for (int i = 0; i < 4; ++i) {
      Value* const row = f_.Emit(Term(first_row) + Term(y_) * 4 + i);
      Value* const sum = Across(16, Get(sums_[i]), [&](Value* a, Value* z) { return b_.CreateFAdd(a, z); });
      Value* const empty = b_.CreateFCmpOEQ(sum, Number(0));
      Value* const none = ResultOfNone();
      for (int k = 0; k < 4 * kGroups; ++k) {
        Value* const column = f_.Emit(Term(x_) * 4 + (k % 4 + 64 * (k / 4)));
        f_.If((Term(row) < f_.Arg(W::kQueries)) & (Term(column) < f_.Arg(W::kColumns)), [&] {
          Value* divided = b_.CreateFDiv(Get(out_[k * 4 + i]), sum);
          Value* result = b_.CreateSelect(empty, none, divided);
          f_.Store(result, f_.Address(out, type_, Term(row) * f_.Arg(W::kOut + 5) + Term(column) * f_.Arg(W::kOut + 6)),
                   type_);
        });
      }
    }
  }

  llvm::GlobalVariable *queries_ = nullptr, *keys_ = nullptr, *weights_ = nullptr, *values_ = nullptr,
                       *counts_ = nullptr;
  Value *y_ = nullptr, *x_ = nullptr;
  std::vector<AllocaInst*> largest_, sums_, scores_, out_;  // out_: by group and column, and by row
};

// Lane 4g + q of a warp has, of a piece of 16 x 8 elements, those of rows g and g + 8 and columns 2q and 2q + 1. Of a left
// operand of 16 x 16 elements it also has those of columns 2q + 8 and 2q + 9.
class TensorAttentionEmitter : AttentionParts {
 public:
  TensorAttentionEmitter(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : AttentionParts(f, kernel),
        half_(b_.getInt16Ty()),
        unit_(llvm::FixedVectorType::get(half_, kUnit)),
        piece_(type_ == DType::kBFloat16 ? b_.getInt32Ty()
                                         : static_cast<Type*>(llvm::FixedVectorType::get(b_.getHalfTy(), 2))) {}

  void Emit() {
    keys_ = f_.Shared("_keys", half_, kTile * kKeyPitch);
    values_ = f_.Shared("_values", half_, kWidestValue * kPairPitch);
    for (int i = 0; i < 2; ++i) {
      largest_.push_back(g_.Variable(float_));
      sums_.push_back(g_.Variable(float_));
    }
    for (int i = 0; i < kTile / 8 * 4; ++i) scores_.push_back(g_.Variable(float_));
    for (int i = 0; i < kWidestValue / 8 * 4; ++i) out_.push_back(g_.Variable(float_));
    for (int i = 0; i < kDeepestQuery / 16 * 4; ++i) queries_.push_back(g_.Variable(piece_));
    for (int i = 0; i < kUnits; ++i) {
      staged_keys_.push_back(g_.Variable(unit_));
      staged_values_.push_back(g_.Variable(unit_));
    }
    const Term lane = Term(g_.thread()) % kCudaWarp;
    warp_ = f_.Emit(Term(g_.thread()) / kCudaWarp);
    g_row_ = f_.Emit(lane / 4);
    pair_ = f_.Emit(lane % 4 * 2);
    key_loads_ = LoadsOf(W::kKey);
    query_loads_ = LoadsOf(W::kQuery);
    value_loads_ = LoadsOf(W::kValue);
    is_deep_ = f_.Emit(Term(64) < f_.Arg(W::kDepth));
    is_wide_ = f_.Emit(Term(64) < f_.Arg(W::kColumns));
    ForEachBlock(kBlockRows, [&](const Head& head, Value* first_row) { Block(head, first_row); });
  }

 private:
  // Rows of a block; elements that are loaded at once; units of a thread for a tile of keys or values; elements between
  // the rows of keys, and between the columns of values, in shared memory.
  static constexpr int kBlockRows = 128, kUnit = 8, kUnits = kTile * kDeepestQuery / kUnit / kCudaBlock,
                       kKeyPitch = kDeepestQuery + 8, kPairPitch = kTile + 8;
  static_assert(kDeepestQuery == kWidestValue);

  // Returns whether units of an operand are single loads, where all of one is inside.
  Value* LoadsOf(int word) {
    Term any = Term(f_.Arg(word)) & int64_t{kUnit * 2 - 1};
    for (int d = 0; d < 5; ++d) any = any | (Term(f_.Arg(word + 1 + d)) & int64_t{kUnit - 1});
    return f_.Emit((any == 0) & (Term(f_.Arg(word + 6)) == 1));
  }

  // Loads elements (row, column) to (row, column + 7) of a matrix; 0 outside.
  void LoadUnit(AllocaInst* to, Value* base, int word, Value* loads, const Term& row_term, const Term& column_term,
                int rows_word, int columns_word) {
    Value* const row = f_.Emit(row_term);
    Value* const column = f_.Emit(column_term);
    Value* const has_row = f_.Emit(Term(row) < f_.Arg(rows_word));
    const auto place = [&](int j) { return Term(row) * f_.Arg(word + 5) + (Term(column) + j) * f_.Arg(word + 6); };
    g_.IfElse(
        f_.Emit(Term(loads) & has_row & (Term(column) + (kUnit - 1) < f_.Arg(columns_word))),
        [&] {
          Value* address = f_.Address(base, type_, place(0));
          b_.CreateStore(b_.CreateAlignedLoad(unit_, address, llvm::Align(kUnit * 2)), to);
        },
        [&] {
          Value* all = llvm::Constant::getNullValue(unit_);
          for (int j = 0; j < kUnit; ++j) {
            Value* inside = f_.Emit(Term(has_row) & (Term(column) + j < f_.Arg(columns_word)));
            Value* address = f_.Address(base, type_, Term::Select(inside, place(j), 0));
            Value* v = b_.CreateAlignedLoad(half_, address, llvm::Align(2));
            Value* known = b_.CreateSelect(inside, v, llvm::Constant::getNullValue(half_));
            all = b_.CreateInsertElement(all, known, static_cast<uint64_t>(j));
          }
          b_.CreateStore(all, to);
        });
  }
  // A tile of 64 rows of queries or keys: 16 threads load a row.
  void LoadRows(Value* base, int word, Value* loads, const Term& first, int rows_word) {
    for (int i = 0; i < kUnits; ++i) {
      LoadUnit(staged_keys_[i], base, word, loads, first + Term(g_.thread()) / 16 + 16 * i,
               Term(g_.thread()) % 16 * kUnit, rows_word, W::kDepth);
    }
  }
  void StoreRows() {
    for (int i = 0; i < kUnits; ++i) {
      Value* at = SharedAt(keys_, (Term(g_.thread()) / 16 + 16 * i) * kKeyPitch + Term(g_.thread()) % 16 * kUnit);
      b_.CreateAlignedStore(Get(staged_keys_[i]), at, llvm::Align(kUnit * 2));
    }
  }
  // A tile of 64 rows of values: a thread loads eight columns of two adjacent keys, twice.
  Term PairOfKeys(int i) { return Term(g_.thread()) / 16 + 16 * (i / 2); }
  void LoadValues(Value* base, const Term& first_key) {
    for (int i = 0; i < kUnits; ++i) {
      LoadUnit(staged_values_[i], base, W::kValue, value_loads_, first_key + PairOfKeys(i) * 2 + i % 2,
               Term(g_.thread()) % 16 * kUnit, W::kKeys, W::kColumns);
    }
  }
  void StoreValues() {
    Type* const pair = llvm::FixedVectorType::get(half_, 2);
    for (int i = 0; i < kUnits; i += 2) {
      Value* const even = Get(staged_values_[i]);
      Value* const odd = Get(staged_values_[i + 1]);
      for (int j = 0; j < kUnit; ++j) {
        Value* both = llvm::PoisonValue::get(pair);
        both = b_.CreateInsertElement(both, b_.CreateExtractElement(even, static_cast<uint64_t>(j)), uint64_t{0});
        both = b_.CreateInsertElement(both, b_.CreateExtractElement(odd, static_cast<uint64_t>(j)), uint64_t{1});
        Value* at = SharedAt(values_, (Term(g_.thread()) % 16 * kUnit + j) * kPairPitch + PairOfKeys(i) * 2);
        b_.CreateAlignedStore(both, at, llvm::Align(4));
      }
    }
  }
  Value* SharedAt(llvm::GlobalVariable* shared, const Term& at) {
    Value* index = f_.Emit(at);
    return b_.CreateGEP(half_, shared, {index});
  }
  Value* Piece(llvm::GlobalVariable* shared, const Term& at) {
    Value* address = SharedAt(shared, at);
    return b_.CreateAlignedLoad(piece_, address, llvm::Align(4));
  }
  // sums[0..3] += left (16 x 16) * right (16 x 8)
  void Multiply(const std::vector<Value*>& left, Value* right0, Value* right1, AllocaInst* const* sums) {
    std::vector<Value*> args = left;
    args.push_back(right0);
    args.push_back(right1);
    for (int e = 0; e < 4; ++e) args.push_back(Get(sums[e]));
    Value* all = b_.CreateIntrinsic(type_ == DType::kBFloat16 ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                                                              : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
                                    {}, args);
    for (unsigned e = 0; e < 4; ++e) b_.CreateStore(b_.CreateExtractValue(all, e), sums[e]);
  }

  void Block(const Head& head, Value* first_row) {
    // Each half of the warps takes its queries from the memory of keys.
    for (int half = 0; half < 2; ++half) {
      LoadRows(head.query, W::kQuery, query_loads_, Term(first_row) + 64 * half, W::kQueries);
      g_.Barrier();
      StoreRows();
      g_.Barrier();
      f_.If(Term(warp_) / 4 == half, [&] {
        for (int k = 0; k < kDeepestQuery / 16; ++k) {
          for (int part = 0; part < 4; ++part) {
            Value* piece = Piece(
                keys_, (Term(warp_) % 4 * 16 + g_row_ + 8 * (part % 2)) * kKeyPitch + pair_ + 16 * k + 8 * (part / 2));
            b_.CreateStore(piece, queries_[k * 4 + part]);
          }
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      b_.CreateStore(Excluded(), largest_[i]);
      b_.CreateStore(Number(0), sums_[i]);
    }
    for (AllocaInst* v : out_) b_.CreateStore(Number(0), v);
    Value* const first_tile = FirstTile(first_row);
    Value* const end = EndOfTiles(first_row, kBlockRows);
    const auto load = [&](const Term& first_key) {
      Value* const from = f_.Emit(first_key);
      LoadRows(head.key, W::kKey, key_loads_, from, W::kKeys);
      LoadValues(head.value, from);
    };
    f_.If(Term(first_tile) < end, [&] { load(first_tile); });
    f_.For(first_tile, end, kTile, [&](Value* first_key) {
      // All have read the tile before this one.
      g_.Barrier();
      StoreRows();
      StoreValues();
      g_.Barrier();
      f_.If(Term(first_key) + kTile < end, [&] { load(Term(first_key) + kTile); });
      Scores();
      const Term row = Term(first_row) + Term(warp_) * 16 + g_row_;
      std::vector<Value*> rows, keys;
      for (int j = 0; j < kTile / 8; ++j) {
        for (int e = 0; e < 4; ++e) {
          rows.push_back(f_.Emit(row + 8 * (e / 2)));
          keys.push_back(f_.Emit(Term(first_key) + 8 * j + pair_ + e % 2));
        }
      }
      Exclude(head.mask, rows, keys, IsWhole(first_row, kBlockRows, first_key), scores_);
      g_.If(Weigh(), [&] { AddValues(); });
    });
    Store(head.out, first_row);
    // The next block overwrites shared memory.
    g_.Barrier();
  }

  void Scores() {
    for (AllocaInst* s : scores_) b_.CreateStore(Number(0), s);
    const auto steps = [&](int from, int to) {
      for (int k = from; k < to; ++k) {
        std::vector<Value*> left;
        for (int part = 0; part < 4; ++part) left.push_back(Get(queries_[k * 4 + part]));
        for (int j = 0; j < kTile / 8; ++j) {
          const Term at = (Term(g_row_) + 8 * j) * kKeyPitch + pair_ + 16 * k;
          Value* right0 = Piece(keys_, at);
          Value* right1 = Piece(keys_, at + 8);
          Multiply(left, right0, right1, &scores_[j * 4]);
        }
      }
    };
    steps(0, 4);
    g_.If(is_deep_, [&] { steps(4, kDeepestQuery / 16); });
  }

  // Turns scores into weights relative to the largest so far, and corrects the sums. Returns whether any key counts for
  // any row of the warp.
  Value* Weigh() {
    Value* any = b_.getFalse();
    for (int i = 0; i < 2; ++i) {
      Value* const before = Get(largest_[i]);
      Value* most = Excluded();
      for (int j = 0; j < kTile / 8; ++j) {
        for (int e = 0; e < 2; ++e) most = Larger(most, Get(scores_[j * 4 + i * 2 + e]));
      }
      // A NaN counts, and makes its own score and sum NaN.
      Value* counts = b_.getFalse();
      for (int j = 0; j < kTile / 8; ++j) {
        for (int e = 0; e < 2; ++e) {
          counts = b_.CreateOr(counts, b_.CreateFCmpUNE(Get(scores_[j * 4 + i * 2 + e]), Excluded()));
        }
      }
      any = b_.CreateOr(any, counts);
      most = Across(4, Larger(before, most), [&](Value* a, Value* z) { return Larger(a, z); });
      b_.CreateStore(most, largest_[i]);
      // Where all keys are excluded so far, all weights are 0.
      Value* const top = b_.CreateSelect(b_.CreateFCmpOEQ(most, Excluded()), Number(0), most);
      Value* const correction = Math(ScalarOp::kExp, b_.CreateFSub(before, top));
      Value* sum = b_.CreateFMul(Get(sums_[i]), correction);
      for (int j = 0; j < kTile / 8; ++j) {
        for (int e = 0; e < 2; ++e) {
          AllocaInst* const score = scores_[j * 4 + i * 2 + e];
          Value* less = b_.CreateFSub(Get(score), top);
          Value* weight = Math(ScalarOp::kExp, less);
          b_.CreateStore(weight, score);
          sum = b_.CreateFAdd(sum, weight);
        }
      }
      b_.CreateStore(sum, sums_[i]);
      for (size_t j = 0; j < out_.size(); j += 4) {
        for (size_t e = 0; e < 2; ++e) {
          AllocaInst* const o = out_[j + static_cast<size_t>(i) * 2 + e];
          b_.CreateStore(b_.CreateFMul(Get(o), correction), o);
        }
      }
    }
    Value* const one = b_.CreateSelect(any, Number(1), Number(0));
    return b_.CreateFCmpOGT(Across(kCudaWarp, one, [&](Value* a, Value* z) { return Larger(a, z); }), Number(0));
  }

  // Two weights, rounded, as operands of tensor cores.
  Value* Rounded(AllocaInst* first, AllocaInst* second) {
    Value* both = llvm::PoisonValue::get(llvm::FixedVectorType::get(half_, 2));
    Value* low = f_.scalar().Cast(Get(first), DType::kFloat32, type_);
    both = b_.CreateInsertElement(both, low, uint64_t{0});
    Value* high = f_.scalar().Cast(Get(second), DType::kFloat32, type_);
    both = b_.CreateInsertElement(both, high, uint64_t{1});
    return b_.CreateBitCast(both, piece_);
  }

  void AddValues() {
    std::vector<std::vector<Value*>> weights;
    for (int k = 0; k < kTile / 16; ++k) {
      std::vector<Value*>& of = weights.emplace_back();
      for (int part = 0; part < 4; ++part) {
        AllocaInst* const* piece = &scores_[(2 * k + part / 2) * 4 + part % 2 * 2];
        of.push_back(Rounded(piece[0], piece[1]));
      }
    }
    const auto columns = [&](int from, int to) {
      for (int k = 0; k < kTile / 16; ++k) {
        for (int j = from; j < to; ++j) {
          const Term at = (Term(g_row_) + 8 * j) * kPairPitch + pair_ + 16 * k;
          Value* right0 = Piece(values_, at);
          Value* right1 = Piece(values_, at + 8);
          Multiply(weights[k], right0, right1, &out_[j * 4]);
        }
      }
    };
    columns(0, 8);
    g_.If(is_wide_, [&] { columns(8, kWidestValue / 8); });
  }

  void Store(Value* out, Value* first_row) {
    for (int i = 0; i < 2; ++i) {
      Value* const row = f_.Emit(Term(first_row) + Term(warp_) * 16 + g_row_ + 8 * i);
      Value* const sum = Across(4, Get(sums_[i]), [&](Value* a, Value* z) { return b_.CreateFAdd(a, z); });
      Value* const empty = b_.CreateFCmpOEQ(sum, Number(0));
      Value* const none = ResultOfNone();
      for (int j = 0; j < kWidestValue / 8; ++j) {
        for (int e = 0; e < 2; ++e) {
          Value* const column = f_.Emit(Term(pair_) + (8 * j + e));
          f_.If((Term(row) < f_.Arg(W::kQueries)) & (Term(column) < f_.Arg(W::kColumns)), [&] {
            Value* divided = b_.CreateFDiv(Get(out_[j * 4 + i * 2 + e]), sum);
            Value* result = b_.CreateSelect(empty, none, divided);
            Value* address =
                f_.Address(out, type_, Term(row) * f_.Arg(W::kOut + 5) + Term(column) * f_.Arg(W::kOut + 6));
            f_.Store(result, address, type_);
          });
        }
      }
    }
  }

  Type *const half_, *const unit_, *const piece_;
  llvm::GlobalVariable *keys_ = nullptr, *values_ = nullptr;
  Value *warp_ = nullptr, *g_row_ = nullptr, *pair_ = nullptr;
  Value *key_loads_ = nullptr, *query_loads_ = nullptr, *value_loads_ = nullptr;
  Value *is_deep_ = nullptr, *is_wide_ = nullptr;
  // By piece and element; for queries by step and part.
  std::vector<AllocaInst*> queries_, scores_, out_, largest_, sums_, staged_keys_, staged_values_;
};

}  // namespace

void EmitAttention(CudaLibraryFunction& f, const LibraryKernel& kernel) {
  if (kernel.base == kTensorAttentionKernel) {
    TensorAttentionEmitter(f, kernel).Emit();
  } else {
    AttentionEmitter(f, kernel).Emit();
  }
}

}  // namespace smelt
