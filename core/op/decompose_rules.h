// The table of decompositions. Internal to core/op; other code uses decompose.h.
#ifndef SMELT_CORE_OP_DECOMPOSE_RULES_H_
#define SMELT_CORE_OP_DECOMPOSE_RULES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

// Returns the values that replace the call's results, with an invalid id for a result that must have no uses. Empty if
// the rule does not apply to these arguments, and nothing was inserted.
using DecompositionRule = absl::StatusOr<std::vector<ValueId>> (*)(Emit& e, const OpCall& call);
using DecompositionTable = absl::flat_hash_map<std::string, DecompositionRule>;

// By full name ("aten::var.dim") or by name for all overloads ("aten::conv2d").
DecompositionRule FindDecomposition(OpName op);

void AddLinearAlgebraRules(DecompositionTable& table);  // linear, matmul, convolutions
void AddEinsumRule(DecompositionTable& table);
void AddNormalizationRules(DecompositionTable& table);  // softmax, layer norm, batch norm, var, norms
void AddAttentionRules(DecompositionTable& table);      // scaled_dot_product_attention and its gradients
void AddRecurrentRules(DecompositionTable& table);      // lstm, gru, rnn_tanh, rnn_relu and their cells
void AddLossRules(DecompositionTable& table);
void AddMovementRules(DecompositionTable& table);  // stack, pad, repeat_interleave, one_hot, ..._copy, ..._scatter
void AddBackwardRules(DecompositionTable& table);
void AddImageBackwardRules(DecompositionTable& table);  // gradients of pads, pools, upsample_*
void AddForeachRules(DecompositionTable& table);
void AddOptimizerRules(DecompositionTable& table);  // _fused_sgd_, _fused_adam_, ..., the gradient scaler's
void AddShapeRules(DecompositionTable& table);
void AddSamplingRules(DecompositionTable& table);       // affine_grid_generator, max_unpool, cdist
void AddResizingRules(DecompositionTable& table);       // bicubic and smoothed upsample_*, all of images of bytes
void AddGridSamplerRules(DecompositionTable& table);    // grid_sampler_* and their gradients
void AddEmbeddingRules(DecompositionTable& table);      // embedding_bag, gradients of embeddings
void AddQuantizationRules(DecompositionTable& table);   // fake_quantize, quantized_decomposed
void AddRandomRules(DecompositionTable& table);         // cauchy, geometric, multinomial
void AddSortingRules(DecompositionTable& table);        // argsort, medians, quantiles, histc
void AddFactorizationRules(DecompositionTable& table);  // linalg_inv, linalg_solve, linalg_det, cholesky
void AddGradientRules(DecompositionTable& table);       // gradient
void AddNumberRules(DecompositionTable& table);         // gcd, mvlgamma, logspace, logcumsumexp
void AddFourierRules(DecompositionTable& table);        // fft_fft, fft_irfftn, stft, ...
void AddDetectionRules(DecompositionTable& table);      // torchvision::deform_conv2d
void AddWeightProductRules(DecompositionTable& table);  // _grouped_mm, _weight_int8pack_mm

// Returns an argument as a value: its own, or a constant made before the node.
ValueId ValueOf(Emit& e, const OpArg& arg);

// --- for the rules ---
// The value of a tensor argument; invalid if it is None or absent.
ValueId TensorArg(const OpCall& call, absl::string_view name);
// Returns dims wrapped into [0, rank); all of them for None or an empty list.
absl::StatusOr<std::vector<int64_t>> DimsArg(const OpCall& call, absl::string_view name, int rank);
int64_t WrapDim(int64_t d, int rank);
// Multiplies a and b of any rank, as in torch.matmul. `out` is float32 for a product of half types that is not rounded
// to them.
ValueId EmitMatmul(Emit& e, ValueId a, ValueId b, std::optional<DType> out = std::nullopt);
// Returns 0, 1, ..., n-1 as a tensor.
ValueId Range(Emit& e, const Expr& n, DType t = DType::kInt64);
// Returns the weights of the four neighbours at -1, 0, 1, 2 of a position `t` after the second, for PyTorch's cubic
// convolution.
std::vector<ValueId> CubicWeights(Emit& e, ValueId t);
// Inserts an assertion that refuses calls in which one of these bools is false.
inline void AssertAll(Emit& e, ValueId bools, const char* otherwise) {
  e.Multi("aten::_assert_async.msg", {e.Op("aten::all", {bools}), e.Const(std::string(otherwise))}, 0);
}
// Converts the value to the dtype in which its kernel computes: float32 for half types.
inline ValueId ToCompute(Emit& e, ValueId v) { return e.Cast(v, OpMathType(e.DTypeOf(v))); }

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECOMPOSE_RULES_H_
