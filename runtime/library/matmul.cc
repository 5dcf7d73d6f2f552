// "matmul": c[.., M, N] = alpha * (a[.., M, K] @ b[.., K, N]) + beta * bias. c may be float32 for halves, and int32 for
// int8.
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/gemv.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul_problem.h"

namespace smelt::library_internal {
namespace {

// Nothing to add up: c = beta * bias, or 0.
class EmptyMatmul : public PreparedOp {
 public:
  EmptyMatmul(LibraryRequest r, double beta) : r_(std::move(r)), beta_(beta) {}
  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const OperandShape& c = r_.outputs[0];
    const bool has_bias = r_.inputs.size() > 2 && r_.inputs[2].present;
    std::vector<int64_t> strides(c.sizes.size(), 0);
    if (has_bias) {
      const OperandShape& bias = r_.inputs[2];
      for (int d = 0; d < bias.rank(); ++d) {
        if (bias.sizes[d] != 1) strides[c.rank() - bias.rank() + d] = bias.strides[d];
      }
    }
    std::vector<int64_t> index(c.sizes.size(), 0);
    ForEachElement({outputs[0], c.dtype, c.sizes, c.strides}, [&](char* p) {
      if (!has_bias) {
        StoreDouble(p, c.dtype, 0);
      } else {
        int64_t at = 0;
        for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        StoreDouble(p, c.dtype, beta_ * LoadDouble(inputs[2] + at * ItemSize(c.dtype), c.dtype));
      }
      for (int d = c.rank() - 1; d >= 0; --d) {
        if (++index[d] < c.sizes[d]) break;
        index[d] = 0;
      }
    });
    return absl::OkStatus();
  }

 private:
  LibraryRequest r_;
  double beta_;
};

}  // namespace

MakeResult MakeMatmul(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_ASSIGN_OR_RETURN(MatmulProblem p, UnderstandMatmul(r));
  const OperandShape& c = r.outputs[0];
  if (c.NumElements() == 0 || p.k == 0) return std::unique_ptr<PreparedOp>(new EmptyMatmul(r, p.beta));
  if (p.dtype == DType::kFloat32 && p.m > kGemvRows && IsSmallMatmul(p)) return MakeDirectMatmul(std::move(p));
  switch (p.dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return MakeTiledMatmul(std::move(p), c.IsDense(), packed);
    case DType::kBool:
      return absl::UnimplementedError("matmul of bool");
    case DType::kInt8:
      if (p.out_dtype == DType::kInt32 && HasExactInt8(p)) return MakeTiledMatmul(std::move(p), c.IsDense(), packed);
      [[fallthrough]];
    default:
      return MakeDirectMatmul(std::move(p));
  }
}

}  // namespace smelt::library_internal
