// Attention on CUDA, without memory for the scores.
//
// A block of 256 threads computes 64 rows of a head's result. It goes over tiles of 64 keys: the scores of the tile, as
// the product of queries and keys in steps of 16 through shared memory; the largest score and the sum of each row, which
// correct what earlier tiles have added up; the weights, in shared memory; and their product with the tile's values, in
// steps of 16 keys. Tiles outside the band are skipped, and the values of a tile that a mask excludes are not read.
// Everything is float32: queries, keys and values of 16 bits are converted on the way to shared memory. Tensor cores are
// not used.
//
// The cost of a tile is 64 * 64 * (depth + 128) multiply-adds: columns of the values are padded to 128. A thread runs 16
// FFMA for every 2 LDS.128 of the scores, and 32 for every 3 of the values.
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

class AttentionEmitter {
 public:
  AttentionEmitter(CudaLibraryFunction& f, const LibraryKernel& kernel)
      : f_(f), b_(f.b()), g_(f.f()), type_(kernel.types[0]), mask_type_(kernel.types[1]), float_(b_.getFloatTy()) {}

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
    scale_ = b_.CreateFPTrunc(f_.DoubleArg(W::kScale), float_);
    cap_ = b_.CreateFPTrunc(f_.DoubleArg(W::kCap), float_);
    Value* const blocks = f_.Emit(Term::CeilDiv(f_.Arg(W::kQueries), kRows));
    Term all = blocks;
    for (int d = 0; d < 4; ++d) all = all * f_.Arg(W::kHeads + d);
    f_.For(g_.block(), all, g_.blocks(), [&](Value* n) {
      // The last blocks of a causal head are the longest, and run first.
      Value* const turned = f_.Emit(all - 1 - n);
      Value* const head = f_.Emit(Term(turned) / blocks);
      Value* const first_row = f_.Emit(Term(turned) % blocks * kRows);
      Block(head, first_row);
    });
  }

 private:
  using W = attention_words::Word;

  Value* Number(double x) { return llvm::ConstantFP::get(float_, x); }
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

  // Combines a value of the 16 threads that share rows.
  Value* Across(Value* v, const std::function<Value*(Value*, Value*)>& combine) {
    Value* const lane = b_.CreateTrunc(f_.Emit(Term(g_.thread()) % kCudaWarp), b_.getInt32Ty());
    for (int apart = 8; apart > 0; apart /= 2) {
      Value* bits = b_.CreateBitCast(v, b_.getInt32Ty());
      Value* from = b_.CreateXor(lane, b_.getInt32(static_cast<uint32_t>(apart)));
      Value* other = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {},
                                        {b_.getInt32(0xffffffff), bits, from, b_.getInt32(31)});
      Value* number = b_.CreateBitCast(other, float_);
      v = combine(v, number);
    }
    return v;
  }

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
  // An element of a matrix, or 0 outside.
  Value* Element(Value* base, DType t, const Term& is_inside, const Term& at) {
    Value* inside = f_.Emit(is_inside);
    Value* address = f_.Address(base, t, Term::Select(inside, at, 0));
    Value* v = f_.Load(address, t);
    return b_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
  }

  void Block(Value* head_number, Value* first_row) {
    std::vector<Value*> head(4);
    Value* rest = head_number;
    for (int d = 3; d >= 0; --d) {
      head[d] = f_.Emit(Term(rest) % f_.Arg(W::kHeads + d));
      rest = f_.Emit(Term(rest) / f_.Arg(W::kHeads + d));
    }
    Value* const query = Matrix(W::kQuery, type_, head, -1);
    Value* const key = Matrix(W::kKey, type_, head, W::kKeyShares);
    Value* const value = Matrix(W::kValue, type_, head, W::kValueShares);
    Value* const mask = Matrix(W::kMask, mask_type_, head, -1);
    Value* const out = Matrix(W::kOut, type_, head, -1);
    for (int i = 0; i < 4; ++i) {
      b_.CreateStore(Number(-std::numeric_limits<double>::infinity()), largest_[i]);
      b_.CreateStore(Number(0), sums_[i]);
    }
    for (AllocaInst* v : out_) b_.CreateStore(Number(0), v);
    // The tiles that the band lets through.
    Value* const low = f_.Emit(Term(first_row) + f_.Arg(W::kFirst));
    Value* const first = f_.Emit(Term::Select(Term(low) < 0, 0, Term(low) / kTile * kTile));
    Value* const end = f_.Emit(Term::Min(f_.Arg(W::kKeys), Term(first_row) + kRows + f_.Arg(W::kLast)));
    f_.For(first, end, kTile, [&](Value* first_key) {
      f_.If(Term(g_.thread()) == 0, [&] { b_.CreateAlignedStore(b_.getInt64(0), counts_, llvm::Align(8)); });
      Scores(query, key, first_row, first_key);
      Exclude(mask, first_row, first_key);
      Weigh();
      g_.Barrier();
      Value* counts = b_.CreateAlignedLoad(b_.getInt64Ty(), counts_, llvm::Align(8));
      f_.If(Term(counts) != 0, [&] { Values(value, first_key); });
      g_.Barrier();
    });
    Store(out, first_row);
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

  // Scales the scores, caps them, and makes those that do not count -infinity.
  void Exclude(Value* mask, Value* first_row, Value* first_key) {
    Value* const excluded = Number(-std::numeric_limits<double>::infinity());
    for (int i = 0; i < 4; ++i) {
      Value* const row = f_.Emit(Term(first_row) + Term(y_) * 4 + i);
      for (int j = 0; j < 4; ++j) {
        AllocaInst* const score = scores_[i * 4 + j];
        Value* const key = f_.Emit(Term(first_key) + Term(x_) * 4 + j);
        Value* scaled = b_.CreateFMul(Get(score), scale_);
        b_.CreateStore(scaled, score);
        g_.If(b_.CreateFCmpOGT(cap_, Number(0)), [&] {
          Value* part = b_.CreateFDiv(Get(score), cap_);
          b_.CreateStore(b_.CreateFMul(Math(ScalarOp::kTanh, part), cap_), score);
        });
        Value* inside = f_.Emit((Term(row) < f_.Arg(W::kQueries)) & (Term(key) < f_.Arg(W::kKeys)));
        f_.If(Term(f_.Arg(W::kMask)) != 0, [&] {
          Value* m =
              Element(mask, mask_type_, inside, Term(row) * f_.Arg(W::kMask + 5) + Term(key) * f_.Arg(W::kMask + 6));
          Value* added = mask_type_ == DType::kBool ? b_.CreateSelect(m, Number(0), excluded) : m;
          Value* before = Get(score);
          b_.CreateStore(b_.CreateFAdd(before, added), score);
        });
        const Term apart = Term(key) - row;
        Value* counts =
            f_.Emit(Term(inside) & (Term(f_.Arg(W::kFirst)) < (apart + 1)) & (apart < (Term(f_.Arg(W::kLast)) + 1)));
        Value* before = Get(score);
        b_.CreateStore(b_.CreateSelect(counts, before, excluded), score);
      }
    }
  }

  // Turns scores into weights relative to the largest so far, and corrects the sums.
  void Weigh() {
    Value* const excluded = Number(-std::numeric_limits<double>::infinity());
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
      most = Across(most, [&](Value* a, Value* z) { return Larger(a, z); });
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
      Value* const sum = Across(Get(sums_[i]), [&](Value* a, Value* z) { return b_.CreateFAdd(a, z); });
      Value* const empty = b_.CreateFCmpOEQ(sum, Number(0));
      Value* const nan = f_.Emit(Term(f_.Arg(W::kEmptyIsNan)) != 0);
      Value* const none = b_.CreateSelect(nan, Number(std::numeric_limits<double>::quiet_NaN()), Number(0));
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

  CudaLibraryFunction& f_;
  llvm::IRBuilder<>& b_;
  CudaFunction& g_;
  const DType type_, mask_type_;
  Type* const float_;
  llvm::GlobalVariable *queries_ = nullptr, *keys_ = nullptr, *weights_ = nullptr, *values_ = nullptr,
                       *counts_ = nullptr;
  Value *y_ = nullptr, *x_ = nullptr, *scale_ = nullptr, *cap_ = nullptr;
  std::vector<AllocaInst*> largest_, sums_, scores_, out_;  // out_: by group and column, and by row
};

}  // namespace

void EmitAttention(CudaLibraryFunction& f, const LibraryKernel& kernel) { AttentionEmitter(f, kernel).Emit(); }

}  // namespace smelt
