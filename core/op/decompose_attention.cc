// Attention and recurrent layers.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// Repeats the heads of v, [..., H, L, E], each beside itself, until there are `heads` of them.
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

Values ScaledDotProductAttention(Emit& e, const OpCall& call) {
  ValueId q = call.arg(0).value, k = call.arg(1).value, v = call.arg(2).value;
  const DType t = e.DTypeOf(q);
  SMELT_ASSIGN_OR_RETURN(double dropout, call.GetDoubleOr("dropout_p", 0));
  if (dropout != 0) return call.Unsupported("dropout inside attention");
  SMELT_ASSIGN_OR_RETURN(bool causal, call.GetBoolOr("is_causal", false));
  SMELT_ASSIGN_OR_RETURN(bool gqa, call.GetBoolOr("enable_gqa", false));
  const std::vector<Expr> sq = e.Sizes(q);
  const int rank = static_cast<int>(sq.size());
  const Expr depth = sq[rank - 1];
  double scale = 0;
  if (call.IsNone("scale")) {
    if (!depth.IsConstant()) return call.Unsupported("a head size known only at run time");
    scale = 1 / std::sqrt(static_cast<double>(*depth.Constant()));
  } else {
    SMELT_ASSIGN_OR_RETURN(scale, call.GetDouble("scale"));
  }
  if (gqa && (rank < 3 || e.Rank(k) < 3 || e.Rank(v) < 3)) return call.Error("heads are expected, with enable_gqa");
  if (gqa) {
    SMELT_ASSIGN_OR_RETURN(k, RepeatHeads(e, call, k, sq[rank - 3]));
    SMELT_ASSIGN_OR_RETURN(v, RepeatHeads(e, call, v, sq[rank - 3]));
  }
  ValueId scores = e.Op("aten::matmul", {q, e.Transpose(k, -2, -1)});
  scores = e.MulN(e.Cast(scores, OpMathType(t)), scale);
  const DType c = e.DTypeOf(scores);
  const double inf = std::numeric_limits<double>::infinity();
  const bool masked = call.arg(3).IsTensor();
  if (masked) {
    const ValueId mask = call.arg(3).value;
    if (e.DTypeOf(mask) == DType::kBool) {
      scores = e.Where(mask, scores, e.Scalar(c, -inf));
    } else {
      scores = e.Add(scores, e.Cast(mask, c));
    }
  }
  if (causal) {
    ValueId none = e.None();
    const Expr l = sq[rank - 2], s = e.Sizes(k)[e.Rank(k) - 2];
    ValueId ones = e.Op("aten::ones", {e.Ints({l, s}), e.Const(ScalarTypeOf(DType::kBool)), none, none, none});
    scores = e.Where(e.Op("aten::tril", {ones, e.Const(int64_t{0})}), scores, e.Scalar(c, -inf));
  }
  ValueId dim = e.Const(int64_t{-1});
  ValueId weights = e.Op("aten::_safe_softmax", {scores, dim, e.None()});
  return std::vector<ValueId>{e.Op("aten::matmul", {e.Cast(weights, t), v})};
}

Values ScaledDotProductAttentionForCpu(Emit& e, const OpCall& call) {
  // (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> (output, logsumexp)
  const OpArg* mask = call.Find("attn_mask");
  ValueId none = e.None();
  SMELT_ASSIGN_OR_RETURN(double dropout, call.GetDoubleOr("dropout_p", 0));
  SMELT_ASSIGN_OR_RETURN(bool causal, call.GetBoolOr("is_causal", false));
  ValueId scale = none;
  if (!call.IsNone("scale")) {
    SMELT_ASSIGN_OR_RETURN(double s, call.GetDouble("scale"));
    scale = e.Const(s);
  }
  ValueId out = e.Op("aten::scaled_dot_product_attention", {call.arg(0).value, call.arg(1).value, call.arg(2).value,
                                                            mask != nullptr && mask->IsTensor() ? mask->value : none,
                                                            e.Const(dropout), e.Const(causal), scale, e.Const(false)});
  return std::vector<ValueId>{out, ValueId()};
}

// --- recurrent layers ---
struct RnnArgs {
  ValueId input;
  std::vector<ValueId> state, params;
  bool has_biases, bidirectional, batch_first;
  bool projected = false;  // of LSTMs: the state is W_hr times what the cell gives
  int64_t layers;

  size_t params_each() const { return (has_biases ? 4 : 2) + (projected ? 1 : 0); }  // of a layer in a direction
};

absl::StatusOr<RnnArgs> GetRnnArgs(const OpCall& call) {
  RnnArgs a;
  a.input = call.arg(0).value;
  if (call.arg(1).kind == OpArg::Kind::kTensorList) {
    for (const OpArg& s : call.arg(1).elements) a.state.push_back(s.value);
  } else {
    a.state.push_back(call.arg(1).value);
  }
  for (const OpArg& p : call.arg(2).elements) a.params.push_back(p.value);
  SMELT_ASSIGN_OR_RETURN(a.has_biases, call.GetBool("has_biases"));
  SMELT_ASSIGN_OR_RETURN(a.layers, call.GetInt("num_layers"));
  SMELT_ASSIGN_OR_RETURN(a.bidirectional, call.GetBool("bidirectional"));
  SMELT_ASSIGN_OR_RETURN(a.batch_first, call.GetBool("batch_first"));
  SMELT_ASSIGN_OR_RETURN(bool train, call.GetBool("train"));
  SMELT_ASSIGN_OR_RETURN(double dropout, call.GetDoubleOr("dropout", 0));
  if (train && dropout != 0 && a.layers > 1) return call.Unsupported("dropout between layers in training mode");
  const size_t cells = static_cast<size_t>(a.layers) * (a.bidirectional ? 2 : 1);
  a.projected = a.params.size() == (a.params_each() + 1) * cells;
  if (a.params.size() != a.params_each() * cells || (a.projected && a.state.size() != 2))
    return call.Error(absl::StrCat(a.params.size(), " parameters for ", cells, " cells"));
  return a;
}

ValueId LinearWith(Emit& e, ValueId x, ValueId weight, ValueId bias, bool has_bias) {
  ValueId one = e.Const(int64_t{1});
  ValueId wt = e.Transpose(weight, 0, 1);
  return has_bias ? e.Op("aten::addmm", {bias, x, wt, one, one}) : e.Mm(x, wt);
}

// One step: gates from the input (x W, computed for all steps at once) and the state. Returns the new states; the first
// is the output.
using Cell = std::vector<ValueId> (*)(Emit& e, ValueId from_input, ValueId from_state,
                                      const std::vector<ValueId>& state);

std::vector<ValueId> LstmCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>& state) {
  ValueId gates = e.Add(x, h);
  const Expr hidden = FloorDiv(e.Sizes(gates)[1], Expr(4));
  auto gate = [&](int k) { return e.Slice(gates, 1, hidden * k, hidden * (k + 1)); };
  ValueId i = e.Sigmoid(gate(0)), f = e.Sigmoid(gate(1)), g = e.Tanh(gate(2)), o = e.Sigmoid(gate(3));
  ValueId c = e.Add(e.Mul(f, state[1]), e.Mul(i, g));
  return {e.Mul(o, e.Tanh(c)), c};
}
std::vector<ValueId> GruCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>& state) {
  const Expr hidden = FloorDiv(e.Sizes(x)[1], Expr(3));
  auto part = [&](ValueId v, int k) { return e.Slice(v, 1, hidden * k, hidden * (k + 1)); };
  ValueId r = e.Sigmoid(e.Add(part(x, 0), part(h, 0)));
  ValueId z = e.Sigmoid(e.Add(part(x, 1), part(h, 1)));
  ValueId n = e.Tanh(e.Add(part(x, 2), e.Mul(r, part(h, 2))));
  return {e.Add(e.Mul(e.Sub(state[0], n), z), n)};
}
std::vector<ValueId> TanhCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>&) {
  return {e.Tanh(e.Add(x, h))};
}
std::vector<ValueId> ReluCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>&) {
  return {e.Relu(e.Add(x, h))};
}

Values Rnn(Emit& e, const OpCall& call, Cell cell) {
  SMELT_ASSIGN_OR_RETURN(RnnArgs a, GetRnnArgs(call));
  ValueId x = a.input;
  const bool batched = e.Rank(x) == 3;
  if (!batched) return call.Unsupported("an input without batch dimension");
  if (a.batch_first) x = e.Transpose(x, 0, 1);
  const Expr steps_expr = e.Sizes(x)[0], batch = e.Sizes(x)[1];
  if (!steps_expr.IsConstant()) return call.Unsupported("a sequence whose length is known only at run time");
  const int64_t steps = *steps_expr.Constant();
  const int directions = a.bidirectional ? 2 : 1;
  for (ValueId v : a.state) {
    if (e.Rank(v) != 3) return call.Error("expected hidden states of 3 dimensions");
  }
  for (size_t i = 0; i < a.params.size(); ++i) {
    const size_t which = i % a.params_each();
    const int rank = which >= 2 && which < 4 && a.has_biases ? 1 : 2;
    if (e.Rank(a.params[i]) != rank)
      return call.Error(absl::StrCat("expected parameter ", i, " to have ", rank, " dimensions"));
  }
  std::vector<std::vector<ValueId>> finals(a.state.size());
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    std::vector<ValueId> outputs;
    for (int d = 0; d < directions; ++d) {
      const size_t at = (layer * directions + d) * a.params_each();
      const ValueId w_ih = a.params[at], w_hh = a.params[at + 1];
      const ValueId b_ih = a.has_biases ? a.params[at + 2] : ValueId(),
                    b_hh = a.has_biases ? a.params[at + 3] : ValueId();
      const ValueId w_hr = a.projected ? a.params[at + a.params_each() - 1] : ValueId();
      const Expr width = e.Sizes(x)[2], gates = e.Sizes(w_ih)[0];
      // x W of all steps is one product.
      ValueId all = e.View(LinearWith(e, e.Reshape(x, {steps_expr * batch, width}), w_ih, b_ih, a.has_biases),
                           {steps_expr, batch, gates});
      std::vector<ValueId> state;
      for (ValueId s : a.state) state.push_back(e.Select(s, 0, layer * directions + d));
      std::vector<ValueId> ys(steps);
      for (int64_t k = 0; k < steps; ++k) {
        const int64_t t = d == 0 ? k : steps - 1 - k;
        state = cell(e, e.Select(all, 0, t), LinearWith(e, state[0], w_hh, b_hh, a.has_biases), state);
        if (a.projected) state[0] = LinearWith(e, state[0], w_hr, ValueId(), false);
        if (!e.ok()) return e.status();
        ys[t] = e.Unsqueeze(state[0], 0);
      }
      outputs.push_back(e.Cat(ys, 0));
      for (size_t s = 0; s < state.size(); ++s) finals[s].push_back(e.Unsqueeze(state[s], 0));
    }
    x = outputs.size() == 1 ? outputs[0] : e.Cat(outputs, 2);
  }
  std::vector<ValueId> results = {a.batch_first ? e.Transpose(x, 0, 1) : x};
  for (const auto& f : finals) results.push_back(e.Cat(f, 0));
  return results;
}
Values Lstm(Emit& e, const OpCall& call) { return Rnn(e, call, LstmCell); }
Values Gru(Emit& e, const OpCall& call) { return Rnn(e, call, GruCell); }
Values RnnTanh(Emit& e, const OpCall& call) { return Rnn(e, call, TanhCell); }
Values RnnRelu(Emit& e, const OpCall& call) { return Rnn(e, call, ReluCell); }

// cells: (input, hx or hx[], w_ih, w_hh, b_ih, b_hh)
Values OneCell(Emit& e, const OpCall& call, Cell cell) {
  std::vector<ValueId> state;
  if (call.arg(1).kind == OpArg::Kind::kTensorList) {
    for (const OpArg& s : call.arg(1).elements) state.push_back(s.value);
  } else {
    state.push_back(call.arg(1).value);
  }
  if (state.size() != (call.op().name() == "aten::lstm_cell" ? 2 : 1))
    return call.Error("expected another number of states");
  if (e.Rank(call.arg(0).value) != 2 || e.Rank(state[0]) != 2)
    return call.Unsupported("a cell without batch dimension");
  const bool biases = call.arg(4).IsTensor() && call.arg(5).IsTensor();
  ValueId x = LinearWith(e, call.arg(0).value, call.arg(2).value, call.arg(4).value, biases);
  ValueId h = LinearWith(e, state[0], call.arg(3).value, call.arg(5).value, biases);
  return cell(e, x, h, state);
}
Values LstmCellOp(Emit& e, const OpCall& call) { return OneCell(e, call, LstmCell); }
Values GruCellOp(Emit& e, const OpCall& call) { return OneCell(e, call, GruCell); }
Values TanhCellOp(Emit& e, const OpCall& call) { return OneCell(e, call, TanhCell); }
Values ReluCellOp(Emit& e, const OpCall& call) { return OneCell(e, call, ReluCell); }

}  // namespace

void AddAttentionRules(DecompositionTable& t) {
  t["aten::scaled_dot_product_attention"] = ScaledDotProductAttention;
  t["aten::_scaled_dot_product_flash_attention_for_cpu"] = ScaledDotProductAttentionForCpu;
  t["aten::lstm.input"] = Lstm;
  t["aten::gru.input"] = Gru;
  t["aten::rnn_tanh.input"] = RnnTanh;
  t["aten::rnn_relu.input"] = RnnRelu;
  t["aten::lstm_cell"] = LstmCellOp;
  t["aten::gru_cell"] = GruCellOp;
  t["aten::rnn_tanh_cell"] = TanhCellOp;
  t["aten::rnn_relu_cell"] = ReluCellOp;
}

}  // namespace smelt
