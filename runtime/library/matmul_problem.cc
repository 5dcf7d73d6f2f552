#include "smelt/runtime/library/matmul_problem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/gemv.h"

namespace smelt::library_internal {
namespace {

bool AllZero(const std::vector<int64_t>& strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
}

// With one right operand for all, batches and rows are dims alike. Dims that continue each other are joined, and the
// longest that the library can use as rows becomes the rows: few large products instead of many small ones.
void FoldBatch(int64_t a_row_stride, int64_t c_row_stride, MatmulProblem& p) {
  struct Dim {
    int64_t size, a, c, bias;
  };
  std::vector<Dim> dims;
  const auto add = [&](const Dim& d) {
    if (!dims.empty()) {
      Dim& last = dims.back();
      if (last.a == d.size * d.a && last.c == d.size * d.c && last.bias == d.size * d.bias) {
        last = {last.size * d.size, d.a, d.c, d.bias};
        return;
      }
    }
    dims.push_back(d);
  };
  for (size_t i = 0; i < p.batch.size(); ++i) {
    add({p.batch[i], p.a_batch[i], p.c_batch[i], p.has_bias ? p.bias_batch[i] : 0});
  }
  if (p.m != 1) add({p.m, a_row_stride, c_row_stride, p.bias_row});
  const auto rows_of = [](const Matrix& m, int64_t size, int64_t stride) {
    return Matrix{size, m.cols, stride, m.col_stride}.Normalized();
  };
  int best = -1;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    const Matrix a = rows_of(p.a, dims[i].size, dims[i].a), c = rows_of(p.c, dims[i].size, dims[i].c);
    const bool as_they_lie = (a.RowMajor() || a.ColMajor()) && c.RowMajor();
    if (as_they_lie && (best < 0 || dims[i].size >= dims[best].size)) best = i;
  }
  if (best < 0) return;
  const Dim rows = dims[best];
  dims.erase(dims.begin() + best);
  p.m = rows.size;
  p.a = rows_of(p.a, rows.size, rows.a);
  p.c = rows_of(p.c, rows.size, rows.c);
  p.bias_row = rows.bias;
  p.batches = 1;
  p.batch.clear(), p.a_batch.clear(), p.c_batch.clear(), p.bias_batch.clear();
  p.b_batch.assign(dims.size(), 0);
  for (const Dim& d : dims) {
    p.batches *= d.size;
    p.batch.push_back(d.size);
    p.a_batch.push_back(d.a);
    p.c_batch.push_back(d.c);
    if (p.has_bias) p.bias_batch.push_back(d.bias);
  }
}

}  // namespace

// Checks all operands before it computes with any: what a file claims may not fit in several ways, each of which has
// its message.
absl::StatusOr<MatmulProblem> UnderstandMatmul(const LibraryRequest& r) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, 0));
  const OperandShape &a = r.inputs[0], &b = r.inputs[1], &c = r.outputs[0];
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("matmul of ", Show(a), " and ", Show(b), " to ", Show(c), ": ", what));
  };
  if (a.rank() < 2 || a.rank() != b.rank() || a.rank() != c.rank())
    return bad("the ranks must be equal and at least 2");
  const bool bytes =
      c.dtype == DType::kInt32 && (a.dtype == DType::kInt8 || a.dtype == DType::kUInt8) && b.dtype == DType::kInt8;
  const bool widens =
      bytes || (c.dtype == DType::kFloat32 && (a.dtype == DType::kBFloat16 || a.dtype == DType::kFloat16));
  if ((a.dtype != b.dtype && !bytes) || (a.dtype != c.dtype && !widens)) return bad("the dtypes differ");
  MatmulProblem p;
  p.dtype = a.dtype;
  p.b_dtype = b.dtype;
  p.out_dtype = c.dtype;
  const int rank = a.rank();
  p.m = c.sizes[rank - 2];
  p.n = c.sizes[rank - 1];
  p.k = a.sizes[rank - 1];
  if (a.sizes[rank - 2] != p.m || b.sizes[rank - 2] != p.k || b.sizes[rank - 1] != p.n)
    return bad("the sizes do not fit");
  p.a = Matrix{p.m, p.k, a.strides[rank - 2], a.strides[rank - 1]}.Normalized();
  p.b = Matrix{p.k, p.n, b.strides[rank - 2], b.strides[rank - 1]}.Normalized();
  p.c = Matrix{p.m, p.n, c.strides[rank - 2], c.strides[rank - 1]}.Normalized();
  for (int d = 0; d + 2 < rank; ++d) {
    const int64_t size = c.sizes[d];
    if ((a.sizes[d] != size && a.sizes[d] != 1) || (b.sizes[d] != size && b.sizes[d] != 1)) {
      return bad("the batch sizes do not fit");
    }
    p.batches *= size;
    if (size == 1) continue;
    p.batch.push_back(size);
    p.a_batch.push_back(a.sizes[d] == 1 ? 0 : a.strides[d]);
    p.b_batch.push_back(b.sizes[d] == 1 ? 0 : b.strides[d]);
    p.c_batch.push_back(c.strides[d]);
  }
  if (r.inputs.size() > 2 && r.inputs[2].present) {
    const OperandShape& bias = r.inputs[2];
    if (bias.dtype != c.dtype || bias.rank() > rank) return bad("the bias does not fit");
    p.has_bias = true;
    const auto stride = [&](int d) -> int64_t {  // of c's dim d
      const int at = d - (rank - bias.rank());
      return at < 0 || bias.sizes[at] == 1 ? 0 : bias.strides[at];
    };
    for (int d = rank - bias.rank(); d < rank; ++d) {
      const int64_t size = bias.sizes[d - (rank - bias.rank())];
      if (size != 1 && size != c.sizes[d]) return bad(absl::StrCat("the bias ", Show(bias), " does not fit"));
    }
    for (int d = 0; d + 2 < rank; ++d) {
      if (c.sizes[d] != 1) p.bias_batch.push_back(stride(d));
    }
    p.bias_row = stride(rank - 2);
    p.bias_col = stride(rank - 1);
  }
  if (r.floats.size() == 2) {
    p.alpha = r.floats[0];
    p.beta = r.floats[1];
  } else if (!r.floats.empty()) {
    return bad("expected no floating point attributes, or alpha and beta");
  }
  const bool one_right = AllZero(p.b_batch);
  if (!p.batch.empty() && one_right) FoldBatch(a.strides[rank - 2], c.strides[rank - 2], p);
  if (one_right) p.b_constant = b.constant, p.b_serves_all_rows = b.serves_all_rows;
  // If c lies by columns, its transpose is computed, and everything has BLAS's order. The same is done if c has few
  // columns: its transpose has few rows, and is a matrix times a few vectors.
  const bool few_columns = p.n <= kGemvRows && p.m > kGemvRows && p.c.rows > 1;
  if ((!p.c.RowMajor() && p.c.ColMajor()) || few_columns) {
    std::swap(p.m, p.n);
    std::swap(p.dtype, p.b_dtype);
    const Matrix a_before = p.a;
    p.a = p.b.Transposed();
    p.b = a_before.Transposed();
    p.c = p.c.Transposed();
    std::swap(p.a_batch, p.b_batch);
    std::swap(p.bias_row, p.bias_col);
    p.b_constant = AllZero(p.b_batch) ? a.constant : nullptr;
    p.b_serves_all_rows = a.serves_all_rows;
    p.swapped = true;
  }
  return p;
}

}  // namespace smelt::library_internal
