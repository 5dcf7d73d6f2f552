// Decompositions of attention.
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kUnbounded = int64_t{1} << 31;  // no two places are so far apart

// Repeats each head of v, [..., H, L, E], so that there are `heads` heads; the copies of a head are adjacent.
absl::StatusOr<ValueId> RepeatHeads(Emit& e, const OpCall& call, ValueId v, const Expr& heads) {
  std::vector<Expr> s = e.Sizes(v);
  const int h = static_cast<int>(s.size()) - 3;
  if (s[h] == heads) return v;
  if (!heads.IsConstant() || !s[h].IsConstant() || *s[h].Constant() == 0)
    return call.Unsupported("a number of heads known only at run time");
  const int64_t times = *heads.Constant() / *s[h].Constant();
  if (times == 1) return v;
  std::vector<Expr> wide = s;
  wide.insert(wide.begin() + h + 1, Expr(times));
  ValueId out = e.Expand(e.Unsqueeze(v, h + 1), wide);
  s[h] = s[h] * times;
  return e.Reshape(out, s);
}

// Returns the operand of the softmax, q k^T scaled and masked, in the dtype of PyTorch's kernel.
absl::StatusOr<ValueId> Scores(Emit& e, const OpCall& call, ValueId q, ValueId k, ValueId* scale) {
  SMELT_ASSIGN_OR_RETURN(double dropout, call.GetDoubleOr("dropout_p", 0));
  if (dropout != 0) return call.Unsupported("dropout inside attention");
  SMELT_ASSIGN_OR_RETURN(bool causal, call.GetBoolOr("is_causal", false));
  const std::vector<Expr> sq = e.Sizes(q);
  const int rank = static_cast<int>(sq.size());
  if (rank < 2 || e.Rank(k) < 2) return call.Error("operands of 2 or more dims are expected");
  const Expr depth = sq[rank - 1];
  if (!call.IsNone("scale")) {
    SMELT_ASSIGN_OR_RETURN(const double given, call.GetDouble("scale"));
    *scale = e.Const(given);
  } else if (depth.IsConstant()) {
    *scale = e.Const(1 / std::sqrt(static_cast<double>(*depth.Constant())));
  } else {
    const ValueId root = e.Op("aten::sqrt.float", {e.Op("aten::Float.Scalar", {e.Size(depth)})});
    *scale = e.Op("aten::div.float", {e.Const(1.0), root});
  }
  const DType c = OpMathType(e.DTypeOf(q));
  ValueId scores = e.Op("aten::mul.Scalar", {EmitMatmul(e, q, e.Transpose(k, -2, -1), c), *scale});
  if (const ValueId mask = TensorArg(call, "attn_mask"); mask.valid()) {
    if (e.DTypeOf(mask) == DType::kBool) {
      scores = e.Where(mask, scores, e.Scalar(c, -kInf));
    } else {
      scores = e.Add(scores, e.Cast(mask, c));
    }
  }
  if (causal) {
    const ValueId none = e.None();
    const Expr l = sq[rank - 2], s = e.Sizes(k)[e.Rank(k) - 2];
    const ValueId ones = e.Op("aten::ones", {e.Ints({l, s}), e.Const(ScalarTypeOf(DType::kBool)), none, none, none});
    const ValueId scalar = e.Scalar(c, -kInf);
    scores = e.Where(e.Op("aten::tril", {ones, e.Const(int64_t{0})}), scores, scalar);
  }
  if (!e.ok()) return e.status();
  return scores;
}

ValueId Attended(Emit& e, ValueId scores, ValueId v) {
  const ValueId weights = e.Op("aten::_safe_softmax", {scores, e.Const(int64_t{-1}), e.None()});
  return e.Op("aten::matmul", {e.Cast(weights, e.DTypeOf(v)), v});
}

bool IsAttentionDType(DType t) { return t == DType::kFloat32 || t == DType::kBFloat16 || t == DType::kFloat16; }

// Returns the mask with the rank of the query, if the library's attention reads it: each of its sizes is 1 or that of
// the scores. Invalid otherwise.
ValueId MaskOfScores(Emit& e, ValueId mask, std::vector<Expr> scores) {
  const int rank = static_cast<int>(scores.size());
  if ((e.DTypeOf(mask) != DType::kBool && !IsAttentionDType(e.DTypeOf(mask))) || e.Rank(mask) > rank) return ValueId();
  const std::vector<Expr> sizes = e.Sizes(mask);
  const int missing = rank - e.Rank(mask);
  for (int d = missing; d < rank; ++d) {
    if (sizes[d - missing] != Expr(1) && sizes[d - missing] != scores[d]) return ValueId();
  }
  for (int d = 0; d < missing; ++d) mask = e.Unsqueeze(mask, 0);
  return mask;
}

// Returns whether the result is known to have the layout of the queries: only if inference says so, too, for the call. In
// other cases the result is contiguous, and copied where inference says otherwise.
bool LiesAsQuery(Emit& e, const OpCall& call, ValueId q, ValueId k, ValueId v, bool gqa) {
  const TensorType& query = e.TypeOf(q);
  for (ValueId operand : {q, k, v}) {
    const TensorType& t = e.TypeOf(operand);
    if (!t.IsComplete() || t.rank() != 4 || t.sizes->at(3) != query.sizes->at(3) ||
        t.sizes->at(0) != query.sizes->at(0) || t.sizes->at(2) == Expr(0) || t.strides->at(3) != Expr(1) ||
        (!gqa && t.sizes->at(1) != query.sizes->at(1))) {
      return false;
    }
  }
  const ValueId mask = TensorArg(call, "attn_mask");
  if (!mask.valid()) return true;
  const TensorType& t = e.TypeOf(mask);
  return t.IsComplete() && (t.rank() == 2 || t.rank() == 4) && t.strides->back() == Expr(1);
}

// Returns the attention as one operator of the library, which needs no memory for scores; invalid if the library has
// none for these operands.
absl::StatusOr<ValueId> Whole(Emit& e, const OpCall& call, ValueId q, ValueId k, ValueId v, bool gqa) {
  const std::vector<Expr> sq = e.Sizes(q), sk = e.Sizes(k), sv = e.Sizes(v);
  const int rank = static_cast<int>(sq.size());
  if (rank < 2 || e.Rank(k) != rank || e.Rank(v) != rank) return ValueId();
  const DType t = e.DTypeOf(q);
  if (!IsAttentionDType(t) || e.DTypeOf(k) != t || e.DTypeOf(v) != t) return ValueId();
  SMELT_ASSIGN_OR_RETURN(const double dropout, call.GetDoubleOr("dropout_p", 0));
  SMELT_ASSIGN_OR_RETURN(const bool causal, call.GetBoolOr("is_causal", false));
  if (dropout != 0 || sq[rank - 1] != sk[rank - 1] || sk[rank - 2] != sv[rank - 2]) return ValueId();
  for (int d = 0; d < rank - 2; ++d) {
    for (const Expr& n : {sk[d], sv[d]}) {
      const bool groups = gqa && d == rank - 3 && n.IsConstant() && sq[d].IsConstant() && n != Expr(0) &&
                          *sq[d].Constant() % *n.Constant() == 0;
      if (n != sq[d] && n != Expr(1) && !groups) return ValueId();
    }
  }
  double scale;
  if (!call.IsNone("scale")) {
    const OpArg& given = *call.Find("scale");
    if (!given.known) return ValueId();
    SMELT_ASSIGN_OR_RETURN(scale, call.GetDouble("scale"));
  } else {
    const std::optional<int64_t> depth = sq[rank - 1].Constant();
    if (!depth || *depth == 0) return ValueId();
    scale = 1 / std::sqrt(static_cast<double>(*depth));
  }
  ValueId mask = TensorArg(call, "attn_mask");
  if (mask.valid()) {
    std::vector<Expr> scores = sq;
    scores[rank - 1] = sk[rank - 2];
    mask = MaskOfScores(e, mask, std::move(scores));
    if (!mask.valid()) return ValueId();
  } else {
    mask = e.None();
  }
  const bool as_query = LiesAsQuery(e, call, q, k, v, gqa);
  const ValueId out =
      e.Op("smelt::attention", {q, k, v, mask, e.Const(scale), e.Const(0.0), e.Const(-kUnbounded),
                                e.Const(causal ? int64_t{0} : kUnbounded), e.Const(false), e.Const(as_query)});
  if (!e.ok()) return e.status();
  return out;
}

Values ScaledDotProductAttention(Emit& e, const OpCall& call) {
  const ValueId q = call.arg(0).value;
  ValueId k = call.arg(1).value, v = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(bool gqa, call.GetBoolOr("enable_gqa", false));
  SMELT_ASSIGN_OR_RETURN(const ValueId whole, Whole(e, call, q, k, v, gqa));
  if (whole.valid()) return std::vector<ValueId>{whole};
  const std::vector<Expr> sq = e.Sizes(q);
  const int rank = static_cast<int>(sq.size());
  if (gqa && (rank < 3 || e.Rank(k) < 3 || e.Rank(v) < 3)) return call.Error("heads are expected, with enable_gqa");
  if (gqa) {
    SMELT_ASSIGN_OR_RETURN(k, RepeatHeads(e, call, k, sq[rank - 3]));
    SMELT_ASSIGN_OR_RETURN(v, RepeatHeads(e, call, v, sq[rank - 3]));
  }
  ValueId scale;
  SMELT_ASSIGN_OR_RETURN(const ValueId scores, Scores(e, call, q, k, &scale));
  return std::vector<ValueId>{Attended(e, scores, v)};
}

// (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> (output, logsumexp)
Values ScaledDotProductAttentionForCpu(Emit& e, const OpCall& call) {
  ValueId scale;
  SMELT_ASSIGN_OR_RETURN(const ValueId scores, Scores(e, call, call.arg(0).value, call.arg(1).value, &scale));
  ValueId sums = e.Op("aten::logsumexp", {scores, e.Dims({-1}), e.Const(false)});
  // The logsumexp of a fully masked row is 0. In memory the heads come after the length.
  const ValueId filled = e.Fill(sums, 0);
  sums = e.Where(e.EqN(sums, -kInf), filled, sums);
  if (e.ok() && e.Rank(sums) == 3) sums = e.Transpose(e.Contiguous(e.Transpose(sums, 1, 2)), 1, 2);
  return std::vector<ValueId>{Attended(e, scores, call.arg(2).value), sums};
}

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale) -> gradients of query, key
// and value. With P = exp(scores - logsumexp): dV = P^T dO, dS = P (dO V^T - sum(dO O)), dQ = dS K, dK = dS^T Q.
Values ScaledDotProductAttentionForCpuBackward(Emit& e, const OpCall& call) {
  const ValueId grad = ToCompute(e, call.arg(0).value), q = ToCompute(e, call.arg(1).value),
                k = ToCompute(e, call.arg(2).value), v = ToCompute(e, call.arg(3).value),
                out = ToCompute(e, call.arg(4).value);
  if (e.Rank(out) == 0) return call.Error("operands of 2 or more dims are expected");
  if (e.Rank(call.arg(5).value) != e.Rank(q) - 1)
    return call.Unsupported("weights as logsumexp, which PyTorch's run_decompositions() passes by mistake");
  ValueId scale;
  SMELT_ASSIGN_OR_RETURN(const ValueId scores, Scores(e, call, call.arg(1).value, call.arg(2).value, &scale));
  const ValueId sums = e.Unsqueeze(e.Cast(call.arg(5).value, e.DTypeOf(scores)), -1);
  const ValueId weights = e.Exp(e.Sub(scores, sums));
  const auto product = [&](ValueId a, ValueId b) { return e.Op("aten::matmul", {a, b}); };
  const auto t = [&](ValueId a) { return e.Transpose(a, -2, -1); };
  const ValueId mean = e.Sum(e.Mul(grad, out), {-1}, true);
  const ValueId d = e.Op("aten::mul.Scalar", {e.Mul(weights, e.Sub(product(grad, t(v)), mean)), scale});
  const auto as = [&](ValueId a, int arg) { return e.Cast(a, e.DTypeOf(call.arg(arg).value)); };
  return std::vector<ValueId>{as(product(d, k), 1), as(product(t(d), q), 2), as(product(t(weights), grad), 3)};
}

// Self-attention of a batch of sequences, with one combined projection for queries, keys and values.
ValueId SelfAttention(Emit& e, ValueId x, int64_t heads, ValueId qkv_weight, ValueId qkv_bias, ValueId out_weight,
                      ValueId out_bias) {
  const std::vector<Expr> sizes = e.Sizes(x);
  const Expr width = FloorDiv(sizes[2], heads);
  const ValueId qkv = e.Op("aten::linear", {x, qkv_weight, qkv_bias});
  const ValueId by_head = e.Permute(e.View(qkv, {sizes[0], sizes[1], Expr(3), Expr(heads), width}), {2, 0, 3, 1, 4});
  const ValueId attended = e.Op("aten::scaled_dot_product_attention",
                                {e.Select(by_head, 0, 0), e.Select(by_head, 0, 1), e.Select(by_head, 0, 2), e.None(),
                                 e.Const(0.0), e.Const(false), e.None(), e.Const(false)});
  const ValueId joined = e.Reshape(e.Transpose(attended, 1, 2), sizes);
  return e.Op("aten::linear", {joined, out_weight, out_bias});
}

// _transformer_encoder_layer_fwd: called by nn.TransformerEncoderLayer where nothing needs gradients.
Values TransformerEncoderLayer(Emit& e, const OpCall& call) {
  const ValueId src = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t heads, call.GetInt("num_heads"));
  SMELT_ASSIGN_OR_RETURN(bool gelu, call.GetBool("use_gelu"));
  SMELT_ASSIGN_OR_RETURN(bool norm_first, call.GetBool("norm_first"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDouble("eps"));
  if (!call.IsNone("mask")) return call.Unsupported("a mask");
  if (e.Rank(src) != 3 || heads < 1) return call.Unsupported("an input that is no batch of sequences");
  auto arg = [&](const char* name) { return TensorArg(call, name); };
  auto norm = [&](ValueId x, const char* weight, const char* bias) {
    return e.Op("aten::layer_norm",
                {x, e.Ints({e.Sizes(src)[2]}), arg(weight), arg(bias), e.Const(eps), e.Const(false)});
  };
  ValueId x = norm_first ? norm(src, "norm_weight_1", "norm_bias_1") : src;
  x = SelfAttention(e, x, heads, arg("qkv_weight"), arg("qkv_bias"), arg("proj_weight"), arg("proj_bias"));
  x = e.Add(x, src);
  if (!norm_first) x = norm(x, "norm_weight_1", "norm_bias_1");
  const ValueId attended = x;
  if (norm_first) x = norm(x, "norm_weight_2", "norm_bias_2");
  x = e.Op("aten::linear", {x, arg("ffn_weight_1"), arg("ffn_bias_1")});
  x = gelu ? e.Op("aten::gelu", {x, e.Const(std::string("none"))}) : e.Relu(x);
  x = e.Add(e.Op("aten::linear", {x, arg("ffn_weight_2"), arg("ffn_bias_2")}), attended);
  if (!norm_first) x = norm(x, "norm_weight_2", "norm_bias_2");
  return std::vector<ValueId>{x};
}

}  // namespace

void AddAttentionRules(DecompositionTable& t) {
  t["aten::_transformer_encoder_layer_fwd"] = TransformerEncoderLayer;
  t["aten::scaled_dot_product_attention"] = ScaledDotProductAttention;
  t["aten::_scaled_dot_product_flash_attention_for_cpu"] = ScaledDotProductAttentionForCpu;
  t["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] = ScaledDotProductAttentionForCpuBackward;
}

}  // namespace smelt
