#include "smelt/runtime/library/grouped_matmul.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/strided.h"

namespace smelt::library_internal {
namespace {

// Returns the number of rows, at least `rows` or the most at a time, of the product that computes them.
int64_t PreparedRows(int64_t rows) {
  static constexpr int64_t kRows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
  const int64_t* const at = std::lower_bound(std::begin(kRows), std::end(kRows), rows);
  return at == std::end(kRows) ? kRows[std::size(kRows) - 1] : *at;
}

class GroupedMatmul : public PreparedOp {
 public:
  GroupedMatmul(const LibraryRequest& r, PackedWeights* packed)
      : rows_(r.inputs[0]), matrices_(r.inputs[1]), ends_(r.inputs[2]), out_(r.outputs[0]), packed_(packed) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    LibraryContext inner = context;
    inner.listener = nullptr;
    int64_t begin = 0;
    for (int64_t g = 0; g < matrices_.sizes[0]; ++g) {
      const int64_t end =
          std::min(LoadInt(inputs[2] + g * ends_.strides[0] * ItemSize(ends_.dtype), ends_.dtype), rows_.sizes[0]);
      while (begin < end) {
        const int64_t prepared = PreparedRows(end - begin), count = std::min(prepared, end - begin);
        SMELT_RETURN_IF_ERROR(RunRows(inner, inputs, outputs[0], g, begin, count, prepared));
        begin += count;
      }
    }
    // Behind the last group.
    const std::vector<int64_t> rest = {out_.sizes[0] - begin, out_.sizes[1]};
    ForEachElement({outputs[0] + begin * out_.strides[0] * ItemSize(out_.dtype), out_.dtype, rest, out_.strides},
                   [&](char* p) { std::memset(p, 0, static_cast<size_t>(ItemSize(out_.dtype))); });
    return absl::OkStatus();
  }

 private:
  // Multiplies rows [begin, begin + count) by matrix `g`, with the product of `prepared` rows.
  absl::Status RunRows(const LibraryContext& context, absl::Span<char* const> inputs, char* out, int64_t g,
                       int64_t begin, int64_t count, int64_t prepared) const {
    SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedOp> op, Product(prepared, g));
    const int item = ItemSize(rows_.dtype);
    const int64_t depth = rows_.sizes[1], columns = out_.sizes[1];
    char* from = inputs[0] + begin * rows_.strides[0] * item;
    char* const to = out + begin * out_.strides[0] * item;
    char* const matrix = inputs[1] + g * matrices_.strides[0] * item;
    const bool in_place = count == prepared && rows_.IsDense() && out_.IsDense();
    if (in_place) return op->Run(context, {from, matrix}, {to});
    char* const padded = Scratch::Get(ScratchUse::kSource, prepared * depth * item);
    char* const product = Scratch::Get(ScratchUse::kDestination, prepared * columns * item);
    CopyStrided(padded, {depth, 1}, from, rows_.strides, {count, depth}, item);
    std::memset(padded + count * depth * item, 0, static_cast<size_t>((prepared - count) * depth * item));
    SMELT_RETURN_IF_ERROR(op->Run(context, {padded, matrix}, {product}));
    CopyStrided(to, out_.strides, product, {columns, 1}, {count, columns}, item);
    return absl::OkStatus();
  }

  // Returns the product of `rows` dense rows and matrix `g`.
  absl::StatusOr<std::shared_ptr<const PreparedOp>> Product(int64_t rows, int64_t g) const {
    const bool constant = matrices_.constant != nullptr;
    const std::pair<int64_t, int64_t> key = {rows, constant ? g : 0};
    std::lock_guard<std::mutex> lock(mutex_);
    auto& op = products_[key];
    if (op != nullptr) return op;
    LibraryRequest r;
    r.op = "matmul";
    r.inputs = {Dense(rows, rows_.sizes[1]), matrices_};
    r.inputs[1].sizes.erase(r.inputs[1].sizes.begin());
    r.inputs[1].strides.erase(r.inputs[1].strides.begin());
    if (constant) r.inputs[1].constant = matrices_.constant + g * matrices_.strides[0] * ItemSize(matrices_.dtype);
    r.outputs = {Dense(rows, out_.sizes[1])};
    SMELT_ASSIGN_OR_RETURN(op, MakeMatmul(r, packed_));
    return op;
  }

  OperandShape Dense(int64_t rows, int64_t columns) const { return {true, rows_.dtype, {rows, columns}, {columns, 1}}; }

  const OperandShape rows_, matrices_, ends_, out_;
  PackedWeights* const packed_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const PreparedOp>> products_;
};

}  // namespace

MakeResult MakeGroupedMatmul(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 3, 1, 1, 0));
  const OperandShape &rows = r.inputs[0], &matrices = r.inputs[1], &ends = r.inputs[2], &out = r.outputs[0];
  if (rows.rank() != 2 || matrices.rank() != 3 || ends.rank() != 1 || out.rank() != 2 || rows.dtype != matrices.dtype ||
      rows.dtype != out.dtype || !IsIntegral(ends.dtype) || rows.sizes[1] != matrices.sizes[1] ||
      ends.sizes[0] != matrices.sizes[0] || out.sizes[0] != rows.sizes[0] || out.sizes[1] != matrices.sizes[2])
    return absl::InvalidArgumentError("grouped_mm: the operands do not fit each other");
  return std::unique_ptr<PreparedOp>(new GroupedMatmul(r, packed));
}

}  // namespace smelt::library_internal
