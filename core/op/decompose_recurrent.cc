// Decomposes recurrent layers step by step: the graph grows with the number of steps.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

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
  const size_t states = absl::StrContains(call.op().name(), "lstm") ? 2 : 1;
  if (a.state.size() != states) return call.Error(absl::StrCat(a.state.size(), " hidden states, expected ", states));
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

// One step of a cell, from the input's part of the gates (x W, computed for all steps at once) and the state. Returns
// the new states; the first is the output.
using Cell = std::vector<ValueId> (*)(Emit& e, ValueId from_input, ValueId from_state,
                                      const std::vector<ValueId>& state);

std::vector<ValueId> LstmCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>& state) {
  ValueId gates = e.Add(x, h);
  const Expr hidden = FloorDiv(e.Sizes(gates)[1], Expr(4));
  auto gate = [&](int k) { return e.Slice(gates, 1, hidden * k, hidden * (k + 1)); };
  ValueId i = e.Sigmoid(gate(0)), f = e.Sigmoid(gate(1)), g = e.Tanh(gate(2)), o = e.Sigmoid(gate(3));
  const ValueId product = e.Mul(i, g);
  ValueId c = e.Add(e.Mul(f, state[1]), product);
  return {e.Mul(o, e.Tanh(c)), c};
}
std::vector<ValueId> GruCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>& state) {
  const Expr hidden = FloorDiv(e.Sizes(x)[1], Expr(3));
  auto part = [&](ValueId v, int k) { return e.Slice(v, 1, hidden * k, hidden * (k + 1)); };
  const ValueId second = part(h, 0);
  ValueId r = e.Sigmoid(e.Add(part(x, 0), second));
  const ValueId second2 = part(h, 1);
  ValueId z = e.Sigmoid(e.Add(part(x, 1), second2));
  const ValueId product = e.Mul(r, part(h, 2));
  ValueId n = e.Tanh(e.Add(part(x, 2), product));
  return {e.Add(e.Mul(e.Sub(state[0], n), z), n)};
}
std::vector<ValueId> TanhCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>&) {
  return {e.Tanh(e.Add(x, h))};
}
std::vector<ValueId> ReluCell(Emit& e, ValueId x, ValueId h, const std::vector<ValueId>&) {
  return {e.Relu(e.Add(x, h))};
}

// The parameters of a layer in one direction; only the first two must be valid.
struct Direction {
  ValueId w_ih, w_hh, b_ih, b_hh, w_hr;
  bool reverse = false;
};

// Returns the outputs of all steps of x, [steps, batch, width]; `state` becomes the state after the last step.
ValueId RunDirection(Emit& e, ValueId x, const Direction& p, Cell cell, std::vector<ValueId>& state) {
  const Expr steps = e.Sizes(x)[0], batch = e.Sizes(x)[1], width = e.Sizes(x)[2], gates = e.Sizes(p.w_ih)[0];
  const int64_t count = *steps.Constant();
  constexpr int64_t kMostSteps = 1 << 14;
  if (count > kMostSteps) {
    e.Fail(absl::UnimplementedError("a recurrent layer of so many steps"));
    return ValueId();
  }
  const bool biases = p.b_ih.valid();
  // One product computes x W for all steps.
  const ValueId all =
      e.View(LinearWith(e, e.Reshape(x, {steps * batch, width}), p.w_ih, p.b_ih, biases), {steps, batch, gates});
  std::vector<ValueId> ys(count);
  for (int64_t k = 0; k < count && e.ok(); ++k) {
    const int64_t t = p.reverse ? count - 1 - k : k;
    const ValueId linear_with = LinearWith(e, state[0], p.w_hh, p.b_hh, biases);
    state = cell(e, e.Select(all, 0, t), linear_with, state);
    if (p.w_hr.valid()) state[0] = LinearWith(e, state[0], p.w_hr, ValueId(), false);
    ys[t] = e.Unsqueeze(state[0], 0);
  }
  return e.Cat(ys, 0);
}

Values Rnn(Emit& e, const OpCall& call, Cell cell) {
  SMELT_ASSIGN_OR_RETURN(RnnArgs a, GetRnnArgs(call));
  ValueId x = a.input;
  const bool batched = e.Rank(x) == 3;
  if (!batched) return call.Unsupported("an input without batch dimension");
  if (a.batch_first) x = e.Transpose(x, 0, 1);
  if (!e.Sizes(x)[0].IsConstant()) return call.Unsupported("a sequence whose length is known only at run time");
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
      Direction cells{a.params[at], a.params[at + 1]};
      if (a.has_biases) cells.b_ih = a.params[at + 2], cells.b_hh = a.params[at + 3];
      if (a.projected) cells.w_hr = a.params[at + a.params_each() - 1];
      cells.reverse = d == 1;
      std::vector<ValueId> state;
      for (ValueId s : a.state) state.push_back(e.Select(s, 0, layer * directions + d));
      outputs.push_back(RunDirection(e, x, cells, cell, state));
      if (!e.ok()) return e.status();
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

// mkldnn_rnn_layer(input, weight0 to weight3, hx, cx, reverse, batch_sizes, mode, ...): one direction of one LSTM
// layer, which PyTorch uses where gradients are taken. Steps come first, regardless of batch_first. The last result,
// oneDNN's workspace, is empty.
Values MkldnnRnnLayer(Emit& e, const OpCall& call) {
  constexpr int64_t kLstm = 2;
  SMELT_ASSIGN_OR_RETURN(int64_t mode, call.GetInt("mode"));
  SMELT_ASSIGN_OR_RETURN(int64_t layers, call.GetInt("num_layers"));
  SMELT_ASSIGN_OR_RETURN(bool biases, call.GetBool("has_biases"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> batch_sizes, call.GetExprs("batch_sizes"));
  if (mode != kLstm || layers != 1) return call.Unsupported("but for one layer of an LSTM");
  if (!batch_sizes.empty()) return call.Unsupported("packed sequences");
  const ValueId x = call.arg(0).value;
  if (e.Rank(x) != 3) return call.Error("expected an input of 3 dimensions");
  if (!e.Sizes(x)[0].IsConstant()) return call.Unsupported("a sequence whose length is known only at run time");
  if (*e.Sizes(x)[0].Constant() == 0) return call.Unsupported("a sequence without steps");
  Direction p{call.arg(1).value, call.arg(2).value};
  if (biases) p.b_ih = call.arg(3).value, p.b_hh = call.arg(4).value;
  SMELT_ASSIGN_OR_RETURN(p.reverse, call.GetBool("reverse"));
  if (e.Rank(p.w_ih) != 2 || e.Rank(p.w_hh) != 2) return call.Error("expected weights of 2 dimensions");
  const Expr batch = e.Sizes(x)[1], hidden = e.Sizes(p.w_hh)[1];
  std::vector<ValueId> state;
  for (const char* name : {"hx_", "cx_"}) state.push_back(e.Reshape(TensorArg(call, name), {batch, hidden}));
  if (!e.ok()) return e.status();
  const std::vector<Expr> sizes = e.Sizes(TensorArg(call, "hx_"));
  const ValueId y = RunDirection(e, x, p, LstmCell, state);
  if (!e.ok()) return e.status();
  return std::vector<ValueId>{y, e.Reshape(state[0], sizes), e.Reshape(state[1], sizes),
                              e.Full(DType::kUInt8, {Expr(0)}, 0)};
}

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

void AddRecurrentRules(DecompositionTable& t) {
  t["aten::lstm.input"] = Lstm;
  t["aten::gru.input"] = Gru;
  t["aten::rnn_tanh.input"] = RnnTanh;
  t["aten::rnn_relu.input"] = RnnRelu;
  t["aten::mkldnn_rnn_layer"] = MkldnnRnnLayer;
  t["aten::lstm_cell"] = LstmCellOp;
  t["aten::gru_cell"] = GruCellOp;
  t["aten::rnn_tanh_cell"] = TanhCellOp;
  t["aten::rnn_relu_cell"] = ReluCellOp;
}

}  // namespace smelt
