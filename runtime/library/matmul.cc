#include "smelt/runtime/library/matmul.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/direct_matmul.h"
#include "smelt/runtime/library/gemv.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/implementation.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul_problem.h"
#include "smelt/runtime/library/tiled_matmul.h"

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

struct Call {
  const LibraryRequest& r;
  const MatmulProblem& p;
  PackedWeights* packed;
};

MakeResult MakeTiles(const Call& c) { return MakeTiledMatmul(c.p, c.r.outputs[0].IsDense(), c.packed); }
MakeResult MakeRows(const Call& c) { return MakeDirectMatmul(c.p); }

constexpr Implementation<Call> kProducts[] = {
    {"nothing to multiply",
     [](const Call& c) -> const char* {
       return c.r.outputs[0].NumElements() == 0 || c.p.k == 0 ? nullptr : "there are products";
     },
     [](const Call& c) -> MakeResult { return std::make_unique<EmptyMatmul>(c.r, c.p.beta); }},
    // Before the tiles: the overhead of a library call exceeds the time of the multiplications.
    {"rows, of a small product",
     [](const Call& c) -> const char* {
       return c.p.dtype != DType::kFloat32 ? "it is not float32"
              : c.p.m <= kGemvRows         ? "there are few rows"
              : !IsSmallMatmul(c.p)        ? "the product is not small"
                                           : nullptr;
     },
     MakeRows},
    {"tiles",
     [](const Call& c) -> const char* {
       const DType t = c.p.dtype;
       if (AddsInFloat32(t)) return nullptr;
       if (!MultipliesBytes(c.p)) return "it is neither floating point nor int8 to int32";
       if (c.p.b_dtype != DType::kInt8) return "there are no tiles with a right operand of uint8";
       return HasExactInt8(c.p) ? nullptr : "nothing on this machine adds such products of int8 faster";
     },
     MakeTiles},
    {"rows", [](const Call& c) -> const char* { return c.p.dtype == DType::kBool ? "bool has no products" : nullptr; },
     MakeRows},
};

}  // namespace

MakeResult MakeMatmul(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_ASSIGN_OR_RETURN(const MatmulProblem p, UnderstandMatmul(r));
  return MakeFirst<Call>(kProducts, {r, p, packed}, absl::StrCat("matmul of ", Name(p.dtype)));
}

}  // namespace smelt::library_internal
