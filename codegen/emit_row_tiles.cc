#include "smelt/codegen/emit_row_tiles.h"

#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/transpose_registers.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

class RowTileEmitter {
 public:
  RowTileEmitter(KernelFunction& fn, const Schedule& plan, const RowTiles& tiles, const std::vector<bool>& fills_next,
                 const LaunchWords& words)
      : fn_(fn),
        b_(fn.b()),
        plan_(plan),
        s_(plan.spec),
        tiles_(tiles),
        fills_next_(fills_next),
        words_(words),
        row_(s_.parallel_rank - 1) {}

  void Emit(llvm::Function& in_tiles, llvm::Function& across) {
    length_ = words_.size(plan_.loop_dim);
    Value* row_bytes = b_.getInt64(0);  // of all buffers
    for (size_t p = 0; p < s_.params.size(); ++p) {
      pitch_.push_back(tiles_.Takes(static_cast<int>(p)) ? PitchOf(static_cast<int>(p)) : nullptr);
      if (pitch_[p]) row_bytes = b_.CreateAdd(row_bytes, pitch_[p]);
    }
    // Longer rows than any buffer has room for would overflow the product.
    Value* is_short = b_.CreateICmpSLE(length_, b_.getInt64(RowTiles::kBytes));
    Value* least = b_.CreateMul(row_bytes, b_.getInt64(RowTiles::kRows));
    Value* has_room = b_.CreateAnd(is_short, b_.CreateICmpSLE(least, b_.getInt64(RowTiles::kBytes)));
    fn_.IfElse(
        has_room,
        [&]() -> Value* {
          EmitTiles(in_tiles, row_bytes);
          return nullptr;
        },
        [&]() -> Value* {
          b_.CreateCall(&across, {fn_.words(), fn_.begin(), fn_.end(), fn_.status()});
          return nullptr;
        });
  }

 private:
  Value* Bytes(Value* at, Value* count) { return b_.CreateGEP(b_.getInt8Ty(), at, count); }

  Value* PitchOf(int param) {
    Value* bytes = b_.CreateMul(length_, b_.getInt64(ItemSize(s_.params[param].dtype)));
    Value* lines = b_.CreateUDiv(b_.CreateAdd(bytes, b_.getInt64(RowTiles::kLine - 1)), b_.getInt64(RowTiles::kLine));
    return b_.CreateMul(b_.CreateOr(lines, b_.getInt64(1)), b_.getInt64(RowTiles::kLine));
  }

  void EmitTiles(llvm::Function& in_tiles, Value* row_bytes) {
    Value* room = b_.CreateUDiv(b_.getInt64(RowTiles::kBytes), row_bytes);
    Value* most = b_.CreateAnd(room, b_.getInt64(-RowTiles::kRows));
    Value* place = fn_.Temporary(llvm::ArrayType::get(b_.getInt8Ty(), RowTiles::kBytes));
    std::vector<Value*> buffers;
    for (Value* pitch : pitch_) {
      buffers.push_back(pitch ? place : nullptr);
      if (pitch) place = Bytes(place, b_.CreateMul(most, pitch));
    }
    Value* block =
        fn_.Temporary(llvm::ArrayType::get(b_.getInt64Ty(), s_.num_words() + NextRows::kWords * s_.params.size()));
    const std::vector<int> bases = CopyWords(block);
    AllocaInst* at = fn_.Variable(b_.getInt64Ty());
    b_.CreateStore(fn_.begin(), at);
    fn_.While([&] { return b_.CreateICmpSLT(fn_.Load(at), fn_.end()); },
              [&] {
                Value* first = fn_.Load(at);
                LoopContext corner = words_.Outermost();
                Value* index = b_.CreateURem(first, words_.size(row_));
                Value* rest = b_.CreateUDiv(first, words_.size(row_));
                for (int d = row_ - 1; d >= 0; --d) {
                  words_.AddIndex(corner, d, b_.CreateURem(rest, words_.size(d)));
                  rest = b_.CreateUDiv(rest, words_.size(d));
                }
                words_.AddIndex(corner, row_, index);
                // Later tiles begin at a multiple of kRows: most operands have a line there.
                Value* beyond = b_.CreateAnd(index, b_.getInt64(RowTiles::kRows - 1));
                Value* left = b_.CreateSub(words_.size(row_), index);
                Value* rows = fn_.Min(b_.CreateSub(most, beyond), left);
                rows = fn_.Min(rows, b_.CreateSub(fn_.end(), first));
                for (size_t p = 0; p < buffers.size(); ++p) {
                  if (!buffers[p]) continue;
                  const int param = static_cast<int>(p);
                  if (IsReadFirst(s_, param)) Move(param, corner.addr[p], buffers[p], rows, /*fills=*/true);
                  Value* origin = Bytes(buffers[p], b_.CreateNeg(b_.CreateMul(index, pitch_[p])));
                  b_.CreateStore(origin, b_.CreateConstGEP1_64(b_.getInt64Ty(), block, bases[p]));
                }
                SetNextRows(block, corner, b_.CreateAdd(index, rows), rows, most);
                Value* next = b_.CreateAdd(first, rows);
                b_.CreateCall(&in_tiles, {block, first, next, fn_.status()});
                for (size_t p = 0; p < buffers.size(); ++p) {
                  if (!buffers[p] || !plan_.written[p]) continue;
                  Move(static_cast<int>(p), corner.addr[p], buffers[p], rows, /*fills=*/false);
                }
                b_.CreateStore(next, at);
              });
  }

  // Writes the words of SpecOfTiledRows, without the addresses of buffers. Returns where each param's address goes.
  std::vector<int> CopyWords(Value* block) {
    int from = 0, to = 0;
    const auto word = [&](Value* at, int n) { return b_.CreateConstGEP1_64(b_.getInt64Ty(), at, n); };
    const auto copy = [&] {
      Value* v = b_.CreateAlignedLoad(b_.getInt64Ty(), word(fn_.words(), from++), llvm::Align(8));
      b_.CreateAlignedStore(v, word(block, to++), llvm::Align(8));
    };
    for (int d = 0; d < s_.rank(); ++d) copy();
    std::vector<int> bases;
    for (size_t p = 0; p < s_.params.size(); ++p) {
      bases.push_back(to);
      copy();
      for (StrideClass c : s_.params[p].strides) {
        if (c != StrideClass::kAny) continue;
        pitch_[p] ? static_cast<void>(++from) : copy();
      }
      if (!pitch_[p]) continue;
      Value* elements = b_.CreateUDiv(pitch_[p], b_.getInt64(ItemSize(s_.params[p].dtype)));
      b_.CreateAlignedStore(elements, word(block, to++), llvm::Align(8));
    }
    for (size_t k = 0; k < s_.scalars.size(); ++k) copy();
    return bases;
  }

  // Writes the words of LaunchWords::next_rows: the rows behind `rows` of `corner` begin at index `next`.
  void SetNextRows(Value* block, const LoopContext& corner, Value* next, Value* rows, Value* most) {
    Value* is_last = b_.CreateICmpSGE(next, words_.size(row_));
    int to = s_.num_words();
    for (size_t p = 0; p < fills_next_.size(); ++p) {
      if (!fills_next_[p]) continue;
      const int item = ItemSize(s_.params[p].dtype);
      Value* behind = b_.CreatePtrToInt(Bytes(corner.addr[p], b_.CreateMul(rows, b_.getInt64(item))), b_.getInt64Ty());
      Value* lines = b_.CreateUDiv(b_.CreateMul(most, b_.getInt64(item)), b_.getInt64(RowTiles::kLine));
      lines = b_.CreateSelect(b_.CreateIsNull(lines), b_.getInt64(1), lines);
      Value* const address = b_.CreateSelect(is_last, b_.getInt64(0), behind);
      for (Value* word : {address, words_.stride(p, plan_.loop_dim), lines}) {
        b_.CreateStore(word, b_.CreateConstGEP1_64(b_.getInt64Ty(), block, to++));
      }
    }
  }

  // Transposes `rows` rows between memory and a buffer, square by square, while it prefetches the columns of the next
  // squares: into the nearest cache if the kernel has prefetched them into the second one. The last squares end with the
  // rows and columns: elements in two of them are moved twice. Fewer rows or columns than a square has are moved one by
  // one.
  void Move(int param, Value* memory, Value* buffer, Value* rows, bool fills) {
    const int item = ItemSize(s_.params[param].dtype), n = plan_.SquareSide(item);
    Type* element = fn_.MemType(s_.params[param].dtype);
    const llvm::Align align(item);
    Value* stride = words_.stride(param, plan_.loop_dim);
    Value *zero = b_.getInt64(0), *one = b_.getInt64(1), *side = b_.getInt64(n);
    const auto in_memory = [&](Value* i, Value* j) {
      return b_.CreateGEP(element, Bytes(memory, b_.CreateMul(j, stride)), i);
    };
    const auto in_buffer = [&](Value* i, Value* j) {
      return b_.CreateGEP(element, Bytes(buffer, b_.CreateMul(i, pitch_[param])), j);
    };
    const auto squares = [&]() -> Value* {
      Value *last_row = b_.CreateSub(rows, side), *last_column = b_.CreateSub(length_, side);
      fn_.For(zero, length_, side, [&](Value* next_column) {
        Value* j = fn_.Min(next_column, last_column);
        Value* ahead = b_.CreateAdd(j, side);
        fn_.For(zero, rows, side, [&](Value* next_row) {
          Value* i = fn_.Min(next_row, last_row);
          Value *from = fills ? in_memory(i, j) : in_buffer(i, j), *to = fills ? in_buffer(i, j) : in_memory(i, j);
          Value *from_pitch = fills ? stride : pitch_[param], *to_pitch = fills ? pitch_[param] : stride;
          Value* asked = in_memory(i, ahead);
          std::vector<Value*> square;
          for (int k = 0; k < n; ++k) {
            square.push_back(b_.CreateAlignedLoad(fn_.Vec(element, n), from, align));
            from = Bytes(from, from_pitch);
            if (!fills) continue;
            fn_.Prefetch(asked, /*nearest=*/fills_next_[param]);
            asked = Bytes(asked, stride);
          }
          TransposeRegisters(b_, item, square);
          for (Value* v : square) {
            b_.CreateAlignedStore(v, to, align);
            to = Bytes(to, to_pitch);
          }
        });
      });
      return nullptr;
    };
    const auto elements = [&]() -> Value* {
      fn_.For(zero, rows, one, [&](Value* i) {
        fn_.For(zero, length_, one, [&](Value* j) {
          Value *from = fills ? in_memory(i, j) : in_buffer(i, j), *to = fills ? in_buffer(i, j) : in_memory(i, j);
          b_.CreateAlignedStore(b_.CreateAlignedLoad(element, from, align), to, align);
        });
      });
      return nullptr;
    };
    Value* has_rows = b_.CreateICmpSGE(rows, side);
    fn_.IfElse(b_.CreateAnd(has_rows, b_.CreateICmpSGE(length_, side)), squares, elements);
  }

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const RowTiles& tiles_;
  const std::vector<bool>& fills_next_;
  const LaunchWords& words_;
  const int row_;  // the dim that counts adjacent rows
  Value* length_ = nullptr;
  std::vector<Value*> pitch_;  // by param; null if it is not tiled
};

}  // namespace

KernelSpec SpecOfTiledRows(const KernelSpec& spec, const RowTiles& tiles) {
  KernelSpec rows = spec;
  for (size_t p = 0; p < spec.params.size(); ++p) {
    if (!tiles.Takes(static_cast<int>(p))) continue;
    std::vector<StrideClass>& strides = rows.params[p].strides;
    strides.assign(spec.rank(), StrideClass::kZero);  // the rows of a buffer differ in one parallel dim alone
    strides[spec.parallel_rank - 1] = StrideClass::kAny;
    strides[spec.rank() - 1] = StrideClass::kUnit;
  }
  return rows;
}

bool IsReadFirst(const KernelSpec& spec, int param) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kLoad && in.param == param) return true;
    if (in.op == KernelOp::kStore && in.param == param) return false;
  }
  return false;
}

void EmitRowTiles(const Schedule& plan, const RowTiles& tiles, const std::vector<bool>& fills_next,
                  llvm::Function& in_tiles, llvm::Function& across, const std::string& symbol) {
  KernelFunction fn(*in_tiles.getParent(), plan.features, /*gathers=*/false, symbol);
  const LaunchWords words(fn, plan);
  fn.EnterBody();
  RowTileEmitter(fn, plan, tiles, fills_next, words).Emit(in_tiles, across);
  fn.Finish();
}

}  // namespace smelt
