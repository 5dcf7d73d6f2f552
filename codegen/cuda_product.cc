#include "smelt/codegen/cuda_product.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/lower_cuda.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// A block computes a tile of `side` rows and columns. It stages `step` elements of the inner dim at a time in shared
// memory, whose rows lie `pitch` elements apart; a thread moves `unit` elements at once.
struct TileShape {
  int side, step, unit, pitch;
};
TileShape TileOf(int side, DType in, bool uses_mma) {
  if (uses_mma) return {side, 32, 8, 32 + 8};
  return {side, side == 128 ? 8 : 16, ItemSize(in) == 8 ? 2 : 4, side + 4};
}

class ProductEmitter {
 public:
  // kSlice computes the sums of one slice of the inner dim, and kSum the result of all of them.
  enum class Part { kWhole, kSlice, kSum };
  // `epilogue` may be null.
  ProductEmitter(llvm::Module& module, const LibraryKernel& kernel, int capability, Part part, llvm::Function* epilogue)
      : c_(module.getContext()),
        part_(part),
        epilogue_{part == Part::kSlice ? nullptr : epilogue, kernel.NumWords() - kernel.epilogue_words, {}},
        f_(module, kernel, kernel.StageEntry(part == Part::kSum ? 1 : 0)),
        b_(f_.b()),
        is_convolution_(kernel.base == kConvolutionKernel || kernel.base == kWideConvolutionKernel),
        in_(kernel.types[0]),
        out_(kernel.types[1]),
        sum_(ProductSum(in_)),
        uses_mma_(IsHalf(in_) && capability >= 80),
        tile_(TileOf(ProductTile(kernel), in_, uses_mma_)),
        staged_(uses_mma_ ? b_.getInt16Ty() : f_.TypeOf(sum_)) {}

  void Emit();

 private:
  // One of the two matrices that are multiplied. Its "rows" are rows of the result, or columns.
  struct Operand {
    const char* name;
    Value* base = nullptr;  // the address of the batch's first element
    Value* rows = nullptr;  // their number
    Value* inner_stride = nullptr;
    Value* inner_first = nullptr;  // adjacent threads take adjacent elements of the inner dim, not adjacent rows
    Value* fast = nullptr;         // a unit is one aligned load, if all of it is inside
    llvm::GlobalVariable* shared = nullptr;
    // This thread loads units whose first is at (row, inner), in the tile.
    Value *row = nullptr, *inner = nullptr;
    // By state (see below): the row's place and whether there is such a row; for this step's tap.
    std::vector<Value*> offset = {}, valid = {};
    std::vector<std::vector<Value*>> at = {};  // of a convolution's input: the spatial place in the result
    std::vector<AllocaInst*> staged = {};      // by unit and element: on the way to shared memory
  };
  // A thread needs the places of several rows: of one for each unit, or of one for each element of all units.
  int Units() const { return tile_.side * tile_.step / kCudaBlock / tile_.unit; }
  int States() const { return std::max(Units(), tile_.unit); }
  // The distance of a thread's next unit.
  int UnitRows() const { return kCudaBlock / (tile_.step / tile_.unit); }
  int UnitInner() const { return kCudaBlock / (tile_.side / tile_.unit); }

  void Sizes();
  void Return();
  void AddSlices();
  void PlaceBatch(Value* z);
  void Tile(Value* item);
  void PlaceThread(Operand& o);
  void Strided(Operand& o, int address, Value* row_stride, const std::vector<Value*>& aligned);
  void RowsOfProduct(Operand& o, Value* first_row, Value* row_stride);
  void RowsOfInput(Operand& o, Value* first_row);
  void PlaceTap(Operand& o);
  void NextStep();
  void LoadUnits(Operand& o);
  void StoreUnits(Operand& o, Value* buffer);
  Value* SharedAt(const Operand& o, const Term& buffer, const Term& row, const Term& inner);
  void Multiply(Value* buffer);
  void MultiplyByMma(Value* buffer);
  void Results(Value* first_row, Value* first_column, Value* z);
  void StoreResult(Value* sum, const Term& row, const Term& column);
  // The address of an element of the result.
  Value* ResultAt(Value* row, Value* column);
  // Computes the epilogue of an element of the result, or of all of a tile, by all threads of the block.
  void GoOn(Value* row, Value* column);
  void GoOnWithTile();

  Value* Arg(int n) const { return f_.Arg(n); }
  Value* Emit(const Term& t) { return f_.Emit(t); }
  Value* Get(AllocaInst* a) { return f_.f().Get(a); }
  void Set(AllocaInst* a, const Term& t) {
    Value* v = Emit(t);
    b_.CreateStore(v, a);
  }
  Value* Zero(Type* t) { return llvm::Constant::getNullValue(t); }
  bool sums_floats() const { return IsFloating(sum_); }

  llvm::LLVMContext& c_;
  const Part part_;
  // The function that goes on with the result, or null.
  struct Epilogue {
    llvm::Function* function;
    int first_word;
    std::vector<llvm::CallInst*> to_inline;
  } epilogue_;
  CudaLibraryFunction f_;
  llvm::IRBuilder<>& b_;
  const bool is_convolution_;
  const DType in_, out_, sum_;
  const bool uses_mma_;
  const TileShape tile_;
  Type* const staged_;

  // The numbers of rows, of elements of the inner dim and so on, of the whole product.
  struct ProductSizes {
    Value *rows = nullptr, *columns = nullptr, *inner = nullptr, *taps = nullptr;
    Value *row_tiles = nullptr, *column_tiles = nullptr, *batches = nullptr;
    Value* slices = nullptr;
  } sizes_;
  Value *item_ = nullptr, *first_row_ = nullptr, *first_column_ = nullptr;  // of the tile, and of its slice
  Operand a_{"_a"}, w_{"_b"};
  // The step that is loaded: the first element of the inner dim, and the tap.
  AllocaInst* inner_at_ = nullptr;
  AllocaInst* tap_[3] = {};
  Value* tap_offset_ = nullptr;  // in the weight
  std::vector<AllocaInst*> sums_;
  Value *c_base_ = nullptr, *bias_base_ = nullptr;
};

void ProductEmitter::Sizes() {
  if (is_convolution_) {
    using namespace convolution_words;  // NOLINT
    sizes_.rows = Emit(Term(Arg(kImages)) * Arg(kOut) * Arg(kOut + 1) * Arg(kOut + 2));
    sizes_.columns = Arg(kOutChannels);
    sizes_.inner = Arg(kInChannels);
    sizes_.taps = Emit(Term(Arg(kTaps)) * Arg(kTaps + 1) * Arg(kTaps + 2));
    sizes_.batches = Arg(kGroups);
  } else {
    using namespace product_words;  // NOLINT
    sizes_.rows = Arg(kRows);
    sizes_.columns = Arg(kColumns);
    sizes_.inner = Arg(kInner);
    sizes_.taps = b_.getInt64(1);
    sizes_.batches = Emit(Term(Arg(kBatch)) * Arg(kBatch + 1) * Arg(kBatch + 2) * Arg(kBatch + 3));
  }
  sizes_.row_tiles = Emit(Term::CeilDiv(sizes_.rows, tile_.side));
  sizes_.column_tiles = Emit(Term::CeilDiv(sizes_.columns, tile_.side));
  sizes_.slices = part_ == Part::kWhole ? b_.getInt64(1) : Arg(product_words::kSlices);
}

void ProductEmitter::Emit() {
  Sizes();
  if (part_ == Part::kSum) {
    AddSlices();
    Return();
    return;
  }
  CudaFunction& g = f_.f();
  for (Operand* o : {&a_, &w_}) {
    o->shared = f_.Shared(o->name, staged_, 2 * tile_.pitch * (uses_mma_ ? tile_.side : tile_.step));
    for (int k = 0; k < Units() * tile_.unit; ++k) {
      o->staged.push_back(g.Variable(uses_mma_ ? b_.getInt16Ty() : f_.TypeOf(sum_)));
    }
  }
  inner_at_ = g.Variable(b_.getInt64Ty());
  for (AllocaInst*& t : tap_) t = g.Variable(b_.getInt64Ty());
  for (int k = 0; k < tile_.side * tile_.side / kCudaBlock; ++k) sums_.push_back(g.Variable(f_.TypeOf(sum_)));
  const Term items = Term(sizes_.row_tiles) * sizes_.column_tiles * sizes_.batches * sizes_.slices;
  f_.For(g.block(), items, g.blocks(), [&](Value* item) { Tile(item); });
  Return();
}

void ProductEmitter::Return() {
  b_.CreateRetVoid();
  for (llvm::CallInst* call : epilogue_.to_inline) {
    llvm::InlineFunctionInfo info;
    SMELT_CHECK(llvm::InlineFunction(*call, info).isSuccess());
  }
}

// The workspace has a tile of sums for each slice of each tile, the slices of a tile one after the other.
void ProductEmitter::AddSlices() {
  CudaFunction& g = f_.f();
  AllocaInst* const sum = g.Variable(f_.TypeOf(sum_));
  f_.ForItems(Term(sizes_.batches) * sizes_.rows * sizes_.columns, [&](Value* n) {
    Value* const column = Emit(Term(n) % sizes_.columns);
    Value* const rest = Emit(Term(n) / sizes_.columns);
    Value* const row = Emit(Term(rest) % sizes_.rows);
    Value* const z = Emit(Term(rest) / sizes_.rows);
    Value* const tile =
        Emit((Term(z) * sizes_.column_tiles + Term(column) / tile_.side) * sizes_.row_tiles + Term(row) / tile_.side);
    b_.CreateStore(Zero(sum->getAllocatedType()), sum);
    f_.For(0, sizes_.slices, 1, [&](Value* slice) {
      const Term at = (Term(tile) * sizes_.slices + slice) * (tile_.side * tile_.side) +
                      Term(row) % tile_.side * tile_.side + Term(column) % tile_.side;
      Value* part = f_.Load(f_.Address(g.workspace(), sum_, at), sum_);
      Value* before = Get(sum);
      b_.CreateStore(b_.CreateFAdd(before, part), sum);
    });
    PlaceBatch(z);
    StoreResult(Get(sum), row, column);
    if (epilogue_.function != nullptr) GoOn(row, column);
  });
}

// The address of the operand, and how its units are loaded. All numbers of `aligned`, in elements, and the address are
// multiples of a unit where units are single loads.
void ProductEmitter::Strided(Operand& o, int address, Value* row_stride, const std::vector<Value*>& aligned) {
  const Term inner_is_dense = Term(o.inner_stride) == 1;
  const Term rows_are_dense = Term(row_stride) == 1;
  o.inner_first = Emit(Term::Select(inner_is_dense, inner_is_dense, rows_are_dense == Term(b_.getFalse())));
  Term any = Term(Arg(address)) & int64_t{tile_.unit * ItemSize(in_) - 1};
  for (Value* v : aligned) any = any | (Term(v) & int64_t{tile_.unit - 1});
  // The stride between units.
  const Term across = Term::Select(o.inner_first, row_stride, o.inner_stride);
  any = any | (across & int64_t{tile_.unit - 1});
  const bool may_take_rows = !is_convolution_ || &o == &w_;
  Term dense = inner_is_dense;
  if (may_take_rows) dense = inner_is_dense | rows_are_dense;
  o.fast = Emit((any == 0) & dense);
}

void ProductEmitter::PlaceThread(Operand& o) {
  Value* const t = f_.f().thread();
  const int inner_units = tile_.step / tile_.unit, row_units = tile_.side / tile_.unit;
  o.row = Emit(Term::Select(o.inner_first, Term(t) / inner_units, Term(t) % row_units * tile_.unit));
  o.inner = Emit(Term::Select(o.inner_first, Term(t) % inner_units * tile_.unit, Term(t) / row_units));
}

void ProductEmitter::RowsOfProduct(Operand& o, Value* first_row, Value* row_stride) {
  o.offset.clear(), o.valid.clear();
  for (int s = 0; s < States(); ++s) {
    const Term apart = Term::Select(o.inner_first, s * UnitRows(), s);
    Value* row = Emit(Term(first_row) + o.row + apart);
    o.offset.push_back(Emit(Term(row) * row_stride));
    o.valid.push_back(Emit(Term(row) < o.rows));
  }
}

// Rows are places of the result: image, and up to three spatial indices.
void ProductEmitter::RowsOfInput(Operand& o, Value* first_row) {
  using namespace convolution_words;  // NOLINT
  o.offset.clear(), o.valid.clear(), o.at.clear();
  for (int s = 0; s < States(); ++s) {
    const Term apart = Term::Select(o.inner_first, s * UnitRows(), s);
    Value* row = Emit(Term(first_row) + o.row + apart);
    std::vector<Value*> at(3);
    Value* rest = row;
    for (int d = 2; d >= 0; --d) {
      at[d] = Emit(Term(rest) % Arg(kOut + d));
      rest = Emit(Term(rest) / Arg(kOut + d));
    }
    o.at.push_back(at);
    o.offset.push_back(Emit(Term(rest) * Arg(kInput + 1)));
    o.valid.push_back(Emit(Term(row) < o.rows));
  }
}

// Moves the rows' places to those that the present tap reads.
void ProductEmitter::PlaceTap(Operand& o) {
  using namespace convolution_words;  // NOLINT
  CudaFunction& g = f_.f();
  Value* tap[3];
  for (int d = 0; d < 3; ++d) tap[d] = Get(tap_[d]);
  Term weight = 0;
  for (int d = 0; d < 3; ++d) weight = weight + Term(tap[d]) * Arg(kWeight + 4 + d);
  tap_offset_ = Emit(weight);
  for (size_t s = 0; s < o.at.size(); ++s) {
    for (int d = 0; d < 3; ++d) {
      AllocaInst* place = g.Variable(b_.getInt64Ty());
      g.IfElse(
          Emit(Term(Arg(kTransposed)) == 0),
          [&] {
            Set(place, Term(o.at[s][d]) * Arg(kStride + d) - Arg(kPadding + d) + Term(tap[d]) * Arg(kDilation + d));
          },
          [&] {
            Value* apart = Emit(Term(o.at[s][d]) + Arg(kPadding + d) - Term(tap[d]) * Arg(kDilation + d));
            const Term is_reached = (Term(-1) < apart) & (Term(apart) % Arg(kStride + d) == 0);
            Set(place, Term::Select(is_reached, Term(apart) / Arg(kStride + d), -1));
          });
      Value* at = Get(place);
      o.valid[s] = Emit(Term(o.valid[s]) & (Term(-1) < at) & (Term(at) < Arg(kIn + d)));
      o.offset[s] = Emit(Term(o.offset[s]) + Term(at) * Arg(kInput + 4 + d));
    }
  }
}

// Advances the step that is loaded next: inner dim, then the taps, the last one fastest.
void ProductEmitter::NextStep() {
  if (!is_convolution_) {
    Set(inner_at_, Term(Get(inner_at_)) + tile_.step);
    return;
  }
  Value* next = Emit(Term(Get(inner_at_)) + tile_.step);
  Value* carry = Emit(Term(sizes_.inner) < (Term(next) + 1));
  Set(inner_at_, Term::Select(carry, 0, next));
  for (int d = 2; d >= 0; --d) {
    Value* tap = Emit(Term::Select(carry, Term(Get(tap_[d])) + 1, Get(tap_[d])));
    Value* is_over = Emit(Term(tap) == Arg(convolution_words::kTaps + d));
    Set(tap_[d], Term::Select(is_over, 0, tap));
    carry = is_over;
  }
}

void ProductEmitter::LoadUnits(Operand& o) {
  Value* const first = Get(inner_at_);
  const std::vector<Value*> offset = o.offset, valid = o.valid;
  if (is_convolution_ && &o == &a_) PlaceTap(o);
  Type* const vector = llvm::FixedVectorType::get(f_.TypeOf(in_), static_cast<unsigned>(tile_.unit));
  CudaFunction& g = f_.f();
  const auto stage = [&](int k, Value* v) {
    if (!uses_mma_) {
      if (IsHalf(in_)) v = f_.scalar().Cast(v, in_, DType::kFloat32);
      if (v->getType() != f_.TypeOf(sum_)) v = f_.scalar().Cast(v, in_, sum_);
    }
    b_.CreateStore(v, o.staged[static_cast<size_t>(k)]);
  };
  for (int i = 0; i < Units(); ++i) {
    Value* inner = Emit(Term(first) + o.inner + Term::Select(o.inner_first, 0, i * UnitInner()));
    const auto place = [&](int j) {  // of element j
      const Term row = Term::Select(o.inner_first, o.offset[static_cast<size_t>(i)], o.offset[static_cast<size_t>(j)]);
      const Term along = Term(inner) + Term::Select(o.inner_first, j, 0);
      Term at = row + along * o.inner_stride;
      if (is_convolution_ && &o == &w_) at = at + tap_offset_;
      return at;
    };
    const auto is_inside = [&](int j) {
      const Term row = Term::Select(o.inner_first, o.valid[static_cast<size_t>(i)], o.valid[static_cast<size_t>(j)]);
      const Term along = Term(inner) + Term::Select(o.inner_first, j, 0);
      return row & (along < sizes_.inner);
    };
    g.IfElse(
        Emit(Term(o.fast) & is_inside(tile_.unit - 1)),
        [&] {
          Value* address = f_.Address(o.base, in_, place(0));
          Value* v =
              b_.CreateAlignedLoad(vector, address, llvm::Align(static_cast<uint64_t>(tile_.unit * ItemSize(in_))));
          for (int j = 0; j < tile_.unit; ++j)
            stage(i * tile_.unit + j, b_.CreateExtractElement(v, static_cast<uint64_t>(j)));
        },
        [&] {
          // Outside, the first element of the operand is read in place of another, so that no load waits for a branch.
          for (int j = 0; j < tile_.unit; ++j) {
            Value* inside = Emit(is_inside(j));
            Value* address = f_.Address(o.base, in_, Term::Select(inside, place(j), 0));
            Value* v = b_.CreateAlignedLoad(f_.TypeOf(in_), address, llvm::Align(static_cast<uint64_t>(ItemSize(in_))));
            stage(i * tile_.unit + j, b_.CreateSelect(inside, v, Zero(v->getType())));
          }
        });
  }
  o.offset = offset;
  o.valid = valid;
}

// Shared memory holds steps as [inner][row], for vectors of rows, or as [row][inner] for tensor cores.
Value* ProductEmitter::SharedAt(const Operand& o, const Term& buffer, const Term& row, const Term& inner) {
  const Term in_buffer = uses_mma_ ? row * tile_.pitch + inner : inner * tile_.pitch + row;
  Value* at = Emit(buffer * (tile_.pitch * (uses_mma_ ? tile_.side : tile_.step)) + in_buffer);
  return b_.CreateGEP(staged_, o.shared, {at});
}

void ProductEmitter::StoreUnits(Operand& o, Value* buffer) {
  const int bytes = static_cast<int>(staged_->getPrimitiveSizeInBits() / 8);
  Type* const vector = llvm::FixedVectorType::get(staged_, static_cast<unsigned>(tile_.unit));
  for (int i = 0; i < Units(); ++i) {
    std::vector<Value*> values;
    for (int j = 0; j < tile_.unit; ++j) values.push_back(Get(o.staged[static_cast<size_t>(i * tile_.unit + j)]));
    const Term row = Term(o.row) + Term::Select(o.inner_first, i * UnitRows(), 0);
    const Term inner = Term(o.inner) + Term::Select(o.inner_first, 0, i * UnitInner());
    const auto together = [&] {
      Value* v = llvm::PoisonValue::get(vector);
      for (int j = 0; j < tile_.unit; ++j) {
        v = b_.CreateInsertElement(v, values[static_cast<size_t>(j)], static_cast<uint64_t>(j));
      }
      Value* at = SharedAt(o, buffer, row, inner);
      b_.CreateAlignedStore(v, at, llvm::Align(static_cast<uint64_t>(std::min(16, tile_.unit * bytes))));
    };
    const auto apart = [&](bool along_inner) {
      for (int j = 0; j < tile_.unit; ++j) {
        Value* at = along_inner ? SharedAt(o, buffer, row, inner + j) : SharedAt(o, buffer, row + j, inner);
        b_.CreateAlignedStore(values[static_cast<size_t>(j)], at, llvm::Align(static_cast<uint64_t>(bytes)));
      }
    };
    f_.f().IfElse(
        o.inner_first, [&] { uses_mma_ ? together() : apart(true); }, [&] { uses_mma_ ? apart(false) : together(); });
  }
}

void ProductEmitter::Multiply(Value* buffer) {
  if (uses_mma_) return MultiplyByMma(buffer);
  // Thread (y, x) of 16 x 16 has rows 4y to 4y + 3 of each 64, and columns likewise.
  const int groups = tile_.side / 64;
  Type* const four = llvm::FixedVectorType::get(staged_, 4);
  const Term y = Term(f_.f().thread()) / 16, x = Term(f_.f().thread()) % 16;
  for (int k = 0; k < tile_.step; ++k) {
    std::vector<Value*> rows, columns;
    const auto load = [&](const Operand& o, const Term& first, std::vector<Value*>& out) {
      for (int g = 0; g < groups; ++g) {
        Value* at = SharedAt(o, buffer, first * 4 + 64 * g, k);
        Value* v = b_.CreateAlignedLoad(four, at, llvm::Align(16));
        for (uint64_t j = 0; j < 4; ++j) out.push_back(b_.CreateExtractElement(v, j));
      }
    };
    load(a_, y, rows);
    load(w_, x, columns);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        AllocaInst* sum = sums_[i * columns.size() + j];
        Value* before = Get(sum);
        Value* after;
        if (sums_floats()) {
          after = b_.CreateIntrinsic(llvm::Intrinsic::fma, {before->getType()}, {rows[i], columns[j], before});
        } else {
          after = b_.CreateAdd(before, b_.CreateMul(rows[i], columns[j]));
        }
        b_.CreateStore(after, sum);
      }
    }
  }
}

// Warp (y, x) of 2 x 4 has half of the rows and a quarter of the columns, in pieces of 16 x 8. Lane 4g + q has, of a
// piece, the elements (g, 2q), (g, 2q + 1), (g + 8, 2q) and (g + 8, 2q + 1).
void ProductEmitter::MultiplyByMma(Value* buffer) {
  const int row_pieces = tile_.side / 2 / 16, column_pieces = tile_.side / 4 / 8;
  Value* const lane = Emit(Term(f_.f().thread()) % kCudaWarp);
  Value* const warp = Emit(Term(f_.f().thread()) / kCudaWarp);
  Value* const row = Emit(Term(warp) / 4 * (tile_.side / 2) + Term(lane) / 4);
  Value* const column = Emit(Term(warp) % 4 * (tile_.side / 4) + Term(lane) / 4);
  Value* const pair = Emit(Term(lane) % 4 * 2);
  const bool is_bfloat = in_ == DType::kBFloat16;
  Type* const piece = is_bfloat ? b_.getInt32Ty() : static_cast<Type*>(llvm::FixedVectorType::get(b_.getHalfTy(), 2));
  const auto load = [&](const Operand& o, const Term& r, const Term& k) {
    Value* at = SharedAt(o, buffer, r, k);
    return b_.CreateAlignedLoad(piece, at, llvm::Align(4));
  };
  for (int k = 0; k < tile_.step; k += 16) {
    std::vector<std::vector<Value*>> rows, columns;
    for (int i = 0; i < row_pieces; ++i) {
      std::vector<Value*>& of = rows.emplace_back();
      for (int part = 0; part < 4; ++part) {
        of.push_back(load(a_, Term(row) + 16 * i + 8 * (part % 2), Term(pair) + k + 8 * (part / 2)));
      }
    }
    for (int j = 0; j < column_pieces; ++j) {
      std::vector<Value*>& of = columns.emplace_back();
      for (int part = 0; part < 2; ++part) of.push_back(load(w_, Term(column) + 8 * j, Term(pair) + k + 8 * part));
    }
    for (int i = 0; i < row_pieces; ++i) {
      for (int j = 0; j < column_pieces; ++j) {
        std::vector<Value*> args = rows[static_cast<size_t>(i)];
        const std::vector<Value*>& right = columns[static_cast<size_t>(j)];
        args.insert(args.end(), right.begin(), right.end());
        AllocaInst** const sums = &sums_[static_cast<size_t>((i * column_pieces + j) * 4)];
        for (int e = 0; e < 4; ++e) args.push_back(Get(sums[e]));
        Value* all = b_.CreateIntrinsic(is_bfloat ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                                                  : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
                                        {}, args);
        for (unsigned e = 0; e < 4; ++e) b_.CreateStore(b_.CreateExtractValue(all, e), sums[e]);
      }
    }
  }
}

// Finds the matrices of a batch.
void ProductEmitter::PlaceBatch(Value* z) {
  using namespace product_words;  // NOLINT
  Value* index[4];
  Value* left = z;
  for (int d = 3; d >= 0; --d) {
    index[d] = Emit(Term(left) % Arg(kBatch + d));
    left = Emit(Term(left) / Arg(kBatch + d));
  }
  const auto base = [&](int word, DType t) {
    Term at = 0;
    for (int d = 0; d < 4; ++d) at = at + Term(index[d]) * Arg(word + 3 + d);
    return f_.Address(Arg(word), t, at);
  };
  a_.base = base(kA, in_);
  w_.base = base(kB, in_);
  c_base_ = base(kC, out_);
  bias_base_ = base(kBias, out_);
}

// Emits the pipeline of one tile: loads, stores to shared memory, products, barriers. Their order is the algorithm.
void ProductEmitter::Tile(Value* item) {
  CudaFunction& g = f_.f();
  item_ = item;
  Value* const tile = Emit(Term(item) / sizes_.slices);
  Value* const slice = Emit(Term(item) % sizes_.slices);
  Value* const first_row = first_row_ = Emit(Term(tile) % sizes_.row_tiles * tile_.side);
  Value* const rest = Emit(Term(tile) / sizes_.row_tiles);
  Value* const first_column = first_column_ = Emit(Term(rest) % sizes_.column_tiles * tile_.side);
  Value* const z = Emit(Term(rest) / sizes_.column_tiles);
  a_.rows = sizes_.rows;
  w_.rows = sizes_.columns;
  if (is_convolution_) {
    using namespace convolution_words;  // NOLINT
    const auto words = [&](int from, int count) {
      std::vector<Value*> out;
      for (int k = 0; k < count; ++k) out.push_back(Arg(from + k));
      return out;
    };
    a_.inner_stride = Arg(kInput + 2);
    std::vector<Value*> input = words(kInput + 3, 4);
    input.push_back(Arg(kInput + 1));
    // Adjacent places of the result read adjacent elements where the last spatial dim is dense.
    Strided(a_, kInput, Arg(kInput + 6), input);
    a_.base = f_.Address(Arg(kInput), in_, Term(z) * Arg(kInput + 3));
    w_.inner_stride = Arg(kWeight + 1);
    Strided(w_, kWeight, Arg(kWeight + 2), words(kWeight + 3, 4));
    w_.base = f_.Address(Arg(kWeight), in_, Term(z) * Arg(kWeight + 3));
    PlaceThread(a_);
    PlaceThread(w_);
    RowsOfInput(a_, first_row);
    RowsOfProduct(w_, first_column, Arg(kWeight + 2));
  } else {
    using namespace product_words;  // NOLINT
    PlaceBatch(z);
    const auto strides = [&](int from) {
      return std::vector<Value*>{Arg(from), Arg(from + 1), Arg(from + 2), Arg(from + 3)};
    };
    a_.inner_stride = Arg(kA + 2);
    Strided(a_, kA, Arg(kA + 1), strides(kA + 3));
    w_.inner_stride = Arg(kB + 1);
    Strided(w_, kB, Arg(kB + 2), strides(kB + 3));
    PlaceThread(a_);
    PlaceThread(w_);
    RowsOfProduct(a_, first_row, Arg(kA + 1));
    RowsOfProduct(w_, first_column, Arg(kB + 2));
  }
  for (AllocaInst* sum : sums_) b_.CreateStore(Zero(sum->getAllocatedType()), sum);
  // All of the inner dim, but for a slice.
  Value* first_inner = b_.getInt64(0);
  Value* inner = sizes_.inner;
  if (part_ == Part::kSlice) {
    const Term units = Term::CeilDiv(Term::CeilDiv(sizes_.inner, kSliceUnit), sizes_.slices);
    Value* const length = Emit(units * kSliceUnit);
    first_inner = Emit(Term(slice) * length);
    inner = Emit(Term::Min(Term(sizes_.inner) - first_inner, length));
  }
  Set(inner_at_, first_inner);
  for (AllocaInst* t : tap_) Set(t, 0);
  Value* const steps = Emit(Term(sizes_.taps) * Term::Select(Term(inner) < 0, 0, Term::CeilDiv(inner, tile_.step)));
  const auto load = [&] {
    LoadUnits(a_);
    LoadUnits(w_);
    NextStep();
  };
  const auto store = [&](Value* buffer) {
    StoreUnits(a_, buffer);
    StoreUnits(w_, buffer);
  };
  f_.If(Term(0) < steps, [&] {
    load();
    store(b_.getInt64(0));
  });
  g.Barrier();
  f_.For(0, steps, 1, [&](Value* s) {
    Value* const is_last = Emit(Term(s) + 1 == steps);
    Value* const goes_on = b_.CreateNot(is_last);
    g.If(goes_on, load);
    Value* const buffer = Emit(Term(s) & 1);
    Multiply(buffer);
    Value* const other = Emit(Term(1) - buffer);
    g.If(goes_on, [&] { store(other); });
    g.Barrier();
  });
  Results(first_row, first_column, z);
  if (epilogue_.function != nullptr) GoOnWithTile();
}

void ProductEmitter::GoOnWithTile() {
  CudaFunction& g = f_.f();
  g.Barrier();
  // Adjacent threads take adjacent columns where they are adjacent in memory, else rows.
  const int column_stride = is_convolution_ ? int{convolution_words::kOutput} + 2 : int{product_words::kC} + 2;
  const Term by_columns = Term(Arg(column_stride)) == 1;
  f_.For(g.thread(), int64_t{tile_.side} * tile_.side, kCudaBlock, [&](Value* n) {
    const Term slow = Term(n) / tile_.side, fast = Term(n) % tile_.side;
    Value* const row = Emit(Term(first_row_) + Term::Select(by_columns, slow, fast));
    Value* const column = Emit(Term(first_column_) + Term::Select(by_columns, fast, slow));
    f_.If((Term(row) < sizes_.rows) & (Term(column) < sizes_.columns), [&] { GoOn(row, column); });
  });
}

void ProductEmitter::GoOn(Value* row, Value* column) {
  llvm::Function* const kernel = f_.f().function();
  // The result is dense, so that its elements are numbered as they lie.
  Value* const address = b_.CreatePtrToInt(ResultAt(row, column), b_.getInt64Ty());
  const int result = is_convolution_ ? int{convolution_words::kOutput} : int{product_words::kC};
  Value* const number = Emit((Term(address) - Arg(result)) / ItemSize(out_));
  Value* const words = b_.CreateConstGEP1_64(b_.getInt64Ty(), kernel->getArg(0), epilogue_.first_word);
  Value* const end = Emit(Term(number) + 1);
  epilogue_.to_inline.push_back(
      b_.CreateCall(epilogue_.function, {words, number, end, kernel->getArg(3), kernel->getArg(4)}));
}

void ProductEmitter::Results(Value* first_row, Value* first_column, Value* z) {
  if (is_convolution_) {
    using namespace convolution_words;  // NOLINT
    c_base_ = f_.Address(Arg(kOutput), out_, Term(z) * Arg(kOutput + 3));
    bias_base_ = f_.Address(Arg(kBias), out_, Term(z) * Arg(kBias + 2));
  }
  Value* const t = f_.f().thread();
  if (!uses_mma_) {
    const int each = tile_.side / 16;
    for (int i = 0; i < each; ++i) {
      Value* row = Emit(Term(first_row) + Term(t) / 16 * 4 + 64 * (i / 4) + i % 4);
      for (int j = 0; j < each; ++j) {
        StoreResult(Get(sums_[static_cast<size_t>(i * each + j)]), row,
                    Term(first_column) + Term(t) % 16 * 4 + 64 * (j / 4) + j % 4);
      }
    }
    return;
  }
  const int row_pieces = tile_.side / 2 / 16, column_pieces = tile_.side / 4 / 8;
  Value* const row = Emit(Term(first_row) + Term(t) / 128 * (tile_.side / 2) + Term(t) % 32 / 4);
  Value* const column = Emit(Term(first_column) + Term(t) / 32 % 4 * (tile_.side / 4) + Term(t) % 4 * 2);
  for (int i = 0; i < row_pieces; ++i) {
    for (int half = 0; half < 2; ++half) {
      Value* at = Emit(Term(row) + 16 * i + 8 * half);
      for (int j = 0; j < column_pieces; ++j) {
        for (int e = 0; e < 2; ++e) {
          AllocaInst* sum = sums_[static_cast<size_t>((i * column_pieces + j) * 4 + 2 * half + e)];
          StoreResult(Get(sum), at, Term(column) + 8 * j + e);
        }
      }
    }
  }
}

Value* ProductEmitter::ResultAt(Value* row, Value* column) {
  Term at = 0;
  if (is_convolution_) {
    using namespace convolution_words;  // NOLINT
    at = Term(column) * Arg(kOutput + 2);
    Value* rest = row;
    for (int d = 2; d >= 0; --d) {
      at = at + Term(rest) % Arg(kOut + d) * Arg(kOutput + 4 + d);
      rest = Emit(Term(rest) / Arg(kOut + d));
    }
    at = at + Term(rest) * Arg(kOutput + 1);
  } else {
    at = Term(row) * Arg(product_words::kC + 1) + Term(column) * Arg(product_words::kC + 2);
  }
  return f_.Address(c_base_, out_, at);
}

void ProductEmitter::StoreResult(Value* sum, const Term& row_term, const Term& column_term) {
  Value* const row = Emit(row_term);
  Value* const column = Emit(column_term);
  if (part_ == Part::kSlice) {
    const Term in_tile = (Term(row) - first_row_) * tile_.side + (Term(column) - first_column_);
    f_.Store(sum, f_.Address(f_.f().workspace(), sum_, Term(item_) * (tile_.side * tile_.side) + in_tile), sum_);
    return;
  }
  // Sums of integers are those of the result's dtype: they wrap.
  const DType type = IsHalf(out_) ? DType::kFloat32 : out_;
  const int bias_word = is_convolution_ ? static_cast<int>(convolution_words::kBias) : product_words::kBias;
  f_.If((Term(row) < sizes_.rows) & (Term(column) < sizes_.columns), [&] {
    AllocaInst* result = f_.f().Variable(f_.TypeOf(sum_));
    Value* scaled = sum;
    if (!is_convolution_) {
      Value* alpha = f_.scalar().Cast(f_.DoubleArg(product_words::kAlpha), DType::kFloat64, sum_);
      scaled = sums_floats() ? b_.CreateFMul(sum, alpha) : b_.CreateMul(sum, alpha);
    }
    b_.CreateStore(scaled, result);
    f_.If(Term(Arg(bias_word)) != 0, [&] {
      const Term at = is_convolution_ ? Term(column) * Arg(bias_word + 1)
                                      : Term(row) * Arg(bias_word + 1) + Term(column) * Arg(bias_word + 2);
      Value* address = f_.Address(bias_base_, out_, at);
      Value* bias = f_.scalar().Cast(f_.Load(address, out_), type, sum_);
      if (!is_convolution_) {
        Value* beta = f_.scalar().Cast(f_.DoubleArg(product_words::kBeta), DType::kFloat64, sum_);
        bias = sums_floats() ? b_.CreateFMul(bias, beta) : b_.CreateMul(bias, beta);
      }
      Value* before = Get(result);
      b_.CreateStore(sums_floats() ? b_.CreateFAdd(before, bias) : b_.CreateAdd(before, bias), result);
    });
    Value* address = ResultAt(row, column);
    f_.Store(f_.scalar().Cast(Get(result), sum_, type), address, out_);
  });
}

}  // namespace

absl::Status EmitProduct(llvm::Module& module, const LibraryKernel& kernel, int capability) {
  using Part = ProductEmitter::Part;
  llvm::Function* epilogue = nullptr;
  KernelSpec spec;  // outlives the function's emission
  if (!kernel.epilogue_key.empty()) {
    SMELT_ASSIGN_OR_RETURN(spec, ParseKernelSpec(kernel.epilogue_spec));
    if (!CanBeEpilogue(spec) || spec.num_words() != kernel.epilogue_words) {
      return absl::UnimplementedError(absl::StrCat(kernel.Entry(), ": the kernel cannot be an epilogue"));
    }
    epilogue = LowerPointForCuda(module, spec, absl::StrCat(kernel.Entry(), "_point"));
  }
  const bool is_split = kernel.base == kSplitProductKernel;
  ProductEmitter(module, kernel, capability, is_split ? Part::kSlice : Part::kWhole, epilogue).Emit();
  if (is_split) ProductEmitter(module, kernel, capability, Part::kSum, epilogue).Emit();
  // It is part of the kernel now.
  if (epilogue != nullptr) epilogue->eraseFromParent();
  return absl::OkStatus();
}

}  // namespace smelt
