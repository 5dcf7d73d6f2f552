// Operators in terms of other operators, where core/op has no decomposition: operators that write statistics, and small
// ones.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/eval/pointwise.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::eval_internal {
namespace {

absl::StatusOr<Tensor> Op(Call& c, absl::string_view op, Values args) { return Run1(*c.state, op, std::move(args)); }

absl::StatusOr<Values> Decomposed(Call& c) { return RunDecomposed(c); }

// --- normalization that writes its statistics ---

absl::StatusOr<Values> BatchNorm(Call& c) {
  const std::string& n = c.name();
  const bool update = n == "aten::_batch_norm_with_update", no_update = n == "aten::_batch_norm_no_update";
  const bool training = no_update ? false : update || c.B("training");
  Tensor reserve = Tensor::Empty(DType::kUInt8, {0});
  if (!training || !c.Has("running_mean")) {
    if (!no_update) return Decomposed(c);
    SMELT_ASSIGN_OR_RETURN(Values r, Run(*c.state, OpName::Get("aten::_native_batch_norm_legit_no_training"),
                                         {c.args[0], c.args[1], c.args[2], c.Arg("running_mean"), c.Arg("running_var"),
                                          c.Arg("momentum"), c.Arg("eps")}));
    r.push_back(EvalValue(reserve));
    return r;
  }
  // PyTorch returns a copy of an empty input and does not change the statistics.
  if (n == "aten::batch_norm" && c.T("input").NumElements() == 0)
    return Run(*c.state, OpName::Get("aten::clone"), {c.args[0], EvalValue()});
  const Tensor mean = c.T("running_mean"), var = c.T("running_var");
  if (!var.defined()) return c.Error("running_mean and running_var must either both be None or neither be None");
  // PyTorch writes the statistics channel by channel, in several threads, and reads the rest afterwards.
  if (!mean.IsSame(var)) SMELT_RETURN_IF_ERROR(CheckOperand(c, mean, var, OperandSharing::kApart));
  for (const char* name : {"input", "weight", "bias"}) {
    if (!c.Has(name)) continue;
    SMELT_RETURN_IF_ERROR(CheckOperand(c, mean, c.T(name), OperandSharing::kApart));
    SMELT_RETURN_IF_ERROR(CheckOperand(c, var, c.T(name), OperandSharing::kApart));
  }
  const auto normalize = [&] {
    return Run(*c.state, OpName::Get("aten::_native_batch_norm_legit_functional"),
               {c.args[0], c.args[1], c.args[2], c.Arg("running_mean"), c.Arg("running_var"), EvalValue(true),
                c.Arg("momentum"), c.Arg("eps")});
  };
  SMELT_ASSIGN_OR_RETURN(Values r, normalize());
  if (r.size() != 5) return c.Unsupported("its functional form returns another number of tensors");
  SMELT_RETURN_IF_ERROR(CopyInto(mean, r[3].tensor()));
  if (mean.IsSame(var)) {  // written one after the other
    SMELT_ASSIGN_OR_RETURN(Values second, normalize());
    r[4] = second[4];
  }
  SMELT_RETURN_IF_ERROR(CopyInto(var, r[4].tensor()));
  if (n == "aten::batch_norm") return Values{r[0]};
  r.resize(3);
  if (update) r.push_back(EvalValue(reserve));
  return r;
}

absl::StatusOr<Values> InstanceNorm(Call& c) {
  if (!c.B("use_input_stats") || !c.Has("running_mean")) return Decomposed(c);
  const Tensor input = c.T("input");
  if (input.rank() < 2) return c.Error("expected an input of 2 dims or more");
  const int64_t batches = input.sizes()[0], channels = input.sizes()[1];
  std::vector<int64_t> sizes(input.sizes().begin(), input.sizes().end());
  sizes[0] = 1;
  sizes[1] = batches * channels;
  SMELT_ASSIGN_OR_RETURN(Tensor x, Op(c, "aten::reshape", {EvalValue(input), EvalValue::Ints(sizes)}));
  Values args = {EvalValue(x)};
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    if (!c.Has(name)) {
      args.push_back(None());
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::repeat", {c.Arg(name), EvalValue::Ints({batches})}));
    args.push_back(EvalValue(t));
  }
  args.insert(args.end(), {EvalValue(true), c.Arg("momentum"), c.Arg("eps")});
  SMELT_ASSIGN_OR_RETURN(Values r, Run(*c.state, OpName::Get("aten::_native_batch_norm_legit_functional"), args));
  for (auto [name, i] : {std::make_pair("running_mean", 3), std::make_pair("running_var", 4)}) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::reshape", {r[i], EvalValue::Ints({batches, channels})}));
    SMELT_ASSIGN_OR_RETURN(Tensor mean, Op(c, "aten::mean.dim", {EvalValue(t), EvalValue::Ints({0})}));
    SMELT_RETURN_IF_ERROR(CopyInto(c.T(name), mean));
  }
  SMELT_ASSIGN_OR_RETURN(Tensor y, Op(c, "aten::reshape", {r[0], EvalValue::Ints(input.sizes())}));
  return Values{EvalValue(y)};
}

absl::StatusOr<Values> GroupNormBackward(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor gx, NewTensor(*c.state, c.T("input").dtype(), c.T("input").sizes(),
                                              ContiguousStridesOf(c.T("input").sizes())));
  const int64_t n = c.I("N"), channels = c.I("C"), area = c.I("HxW"), groups = c.I("group");
  const std::vector<double> g = Read<double>(c.T("grad_out")), x = Read<double>(c.T("input"));
  const std::vector<double> mean = Read<double>(c.T("mean")), rstd = Read<double>(c.T("rstd"));
  std::vector<double> w(channels, 1);
  if (c.Has("weight")) w = Read<double>(c.T("weight"));
  const int64_t per_group = groups > 0 ? channels / groups : 0, size = n * channels * area;
  if (per_group == 0 || static_cast<int64_t>(g.size()) != size || static_cast<int64_t>(x.size()) != size ||
      static_cast<int64_t>(w.size()) != channels || static_cast<int64_t>(mean.size()) != n * groups ||
      rstd.size() != mean.size())
    return c.Error("the arguments do not fit each other");
  std::vector<double> dx(size), dw(channels), db(channels);
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t k = 0; k < groups; ++k) {
      const double m = mean[b * groups + k], r = rstd[b * groups + k];
      double c1 = 0, c2 = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t ch = k * per_group; ch < (k + 1) * per_group; ++ch) {
          for (int64_t i = 0; i < area; ++i) {
            const int64_t at = (b * channels + ch) * area + i;
            const double hat = (x[at] - m) * r, gw = g[at] * w[ch];
            if (pass == 0) {
              c1 += gw;
              c2 += gw * hat;
              dw[ch] += g[at] * hat;
              db[ch] += g[at];
            } else {
              const double count = static_cast<double>(per_group * area);
              dx[at] = r * (gw - c1 / count - hat * c2 / count);
            }
          }
        }
      }
    }
  }
  Write(gx, dx);
  const std::vector<int64_t> mask = c.Ints("output_mask");
  Values r(3);
  if (mask.size() != 3) return c.Error("output_mask must have 3 elements");
  if (mask[0]) r[0] = EvalValue(gx);
  for (int i : {1, 2}) {
    if (!mask[i]) continue;
    SMELT_ASSIGN_OR_RETURN(Tensor t,
                           NewTensor(*c.state, c.T(c.Has("weight") ? "weight" : "input").dtype(), {channels}, {1}));
    Write(t, i == 1 ? dw : db);
    r[i] = EvalValue(t);
  }
  return r;
}

absl::StatusOr<Values> CrossEntropy(Call& c) {
  const Tensor self = c.T("self"), target = c.T("target"), weight = c.T("weight");
  const double smoothing = c.D("label_smoothing");
  if (self.rank() == 0) return c.Error("expected self to have 1 or more dimensions, got 0");
  if (!weight.defined() || smoothing == 0 || IsFloating(target.dtype())) return Decomposed(c);
  const int64_t reduction = c.I("reduction", 1), ignore = c.I("ignore_index", -100);
  const int dim = self.rank() == 1 ? 0 : 1;
  const int64_t classes = self.sizes()[dim];
  SMELT_ASSIGN_OR_RETURN(Tensor log, Op(c, "aten::log_softmax.int", {EvalValue(self), Val(dim)}));
  SMELT_ASSIGN_OR_RETURN(
      Tensor nll,
      Op(c, "aten::nll_loss_nd", {EvalValue(log), EvalValue(target), EvalValue(weight), Val(reduction), Val(ignore)}));
  std::vector<int64_t> shape(self.rank(), 1);
  shape[dim] = classes;
  SMELT_ASSIGN_OR_RETURN(Tensor w, Op(c, "aten::reshape", {EvalValue(weight), EvalValue::Ints(shape)}));
  SMELT_ASSIGN_OR_RETURN(Tensor weighted, Op(c, "aten::mul.Tensor", {EvalValue(log), EvalValue(w)}));
  SMELT_ASSIGN_OR_RETURN(Tensor sum, Op(c, "aten::sum.dim_IntList", {EvalValue(weighted), EvalValue::Ints({dim})}));
  SMELT_ASSIGN_OR_RETURN(Tensor smooth, Op(c, "aten::neg", {EvalValue(sum)}));
  SMELT_ASSIGN_OR_RETURN(Tensor ignored, Op(c, "aten::eq.Scalar", {EvalValue(target), Val(ignore)}));
  SMELT_ASSIGN_OR_RETURN(smooth, Op(c, "aten::masked_fill.Scalar", {EvalValue(smooth), EvalValue(ignored), Val(0)}));
  if (reduction != 0) {
    SMELT_ASSIGN_OR_RETURN(smooth, Op(c, "aten::sum", {EvalValue(smooth)}));
  }
  if (reduction == 1) {
    double total = 0;
    const std::vector<double> each = Read<double>(weight);
    for (int64_t t : Read<int64_t>(target)) {
      if (t == ignore) continue;
      if (t < 0 || t >= classes) return c.Error("a target is out of bounds");
      total += each[t];
    }
    SMELT_ASSIGN_OR_RETURN(smooth, Op(c, "aten::div.Scalar", {EvalValue(smooth), Val(total)}));
  }
  SMELT_ASSIGN_OR_RETURN(nll, Op(c, "aten::mul.Scalar", {EvalValue(nll), Val(1 - smoothing)}));
  SMELT_ASSIGN_OR_RETURN(smooth,
                         Op(c, "aten::mul.Scalar", {EvalValue(smooth), Val(smoothing / static_cast<double>(classes))}));
  SMELT_ASSIGN_OR_RETURN(Tensor out, Op(c, "aten::add.Tensor", {EvalValue(nll), EvalValue(smooth)}));
  return Values{EvalValue(out)};
}

// --- small ones ---

absl::StatusOr<Values> AtLeast(Call& c) {
  const int want = c.name()[c.name().size() - 2] - '0';
  auto widen = [&](const EvalValue& v) -> absl::StatusOr<EvalValue> {
    EvalValue x = v;
    if (x.IsTensor() && x.tensor().rank() == 0) {
      SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::reshape", {x, EvalValue::Ints({1})}));
      x = EvalValue(t);
    }
    if (want >= 2 && x.tensor().rank() == 1) {
      SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::unsqueeze", {x, Val(0)}));
      x = EvalValue(t);
    }
    if (want == 3 && x.tensor().rank() == 2) {
      SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::unsqueeze", {x, Val(-1)}));
      x = EvalValue(t);
    }
    return x;
  };
  if (c.args[0].IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(EvalValue v, widen(c.args[0]));
    return Values{v};
  }
  Values r;
  for (const EvalValue& e : c.args[0].elements()) {
    SMELT_ASSIGN_OR_RETURN(EvalValue v, widen(e));
    r.push_back(v);
  }
  return Values{EvalValue::List(std::move(r))};
}

absl::StatusOr<Values> Meshgrid(Call& c) {
  std::vector<Tensor> parts = c.Tensors("tensors");
  const bool xy = c.Arg("indexing").IsString() && c.Arg("indexing").as_string() == "xy" && parts.size() > 1;
  if (xy) std::swap(parts[0], parts[1]);
  std::vector<int64_t> sizes;
  for (const Tensor& t : parts) {
    if (!t.defined() || t.rank() > 1) return c.Error("torch.meshgrid: Expected 0D or 1D tensors");
    sizes.push_back(t.NumElements());
  }
  Values grids;
  for (size_t i = 0; i < parts.size(); ++i) {
    Geometry g{sizes, std::vector<int64_t>(sizes.size(), 0), parts[i].offset()};
    // The strides of an expanded view as [1, ..., n, ..., 1]: this tensor's dims of size 1 keep the strides that view
    // gives them.
    std::vector<int64_t> shape(parts.size(), 1);
    shape[i] = sizes[i];
    ConcreteDecide decide;
    auto view = view_rules::View<ConcreteDecide>(decide, parts[i].geometry(), shape);
    if (!view.ok()) return c.Error(view.status().message());
    auto expanded = view_rules::Expand<ConcreteDecide>(decide, *view, sizes);
    if (!expanded.ok()) return c.Error(expanded.status().message());
    grids.push_back(EvalValue(parts[i].View(*expanded)));
  }
  if (xy) std::swap(grids[0], grids[1]);
  return Values{EvalValue::List(std::move(grids))};
}

absl::StatusOr<Values> CartesianProd(Call& c) {
  const std::vector<Tensor> parts = c.Tensors("tensors");
  if (parts.size() == 1) return Values{EvalValue(parts[0])};
  SMELT_ASSIGN_OR_RETURN(Values grids, Run(*c.state, OpName::Get("aten::meshgrid"), {c.args[0]}));
  Values flat;
  for (const EvalValue& g : grids[0].elements()) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, Op(c, "aten::flatten.using_ints", {g}));
    flat.push_back(EvalValue(t));
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, Op(c, "aten::stack", {EvalValue::List(flat), Val(1)}));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> BlockDiag(Call& c) {
  std::vector<Tensor> parts = c.Tensors("tensors");
  int64_t rows = 0, columns = 0;
  std::optional<DType> dtype;
  for (Tensor& t : parts) {
    if (!t.defined() || t.rank() > 2) return c.Error("torch.block_diag: Input tensors must have 2 or fewer dimensions");
    dtype = dtype ? PromoteTypes(*dtype, t.dtype()) : t.dtype();
    Geometry g = t.geometry();
    while (g.rank() < 2) {
      g.sizes.insert(g.sizes.begin(), 1);
      g.strides.insert(g.strides.begin(), 0);
    }
    t = t.View(g);
    rows += t.sizes()[0];
    columns += t.sizes()[1];
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, dtype.value_or(DType::kFloat32), {rows, columns},
                                               ContiguousStridesOf({rows, columns})));
  int64_t r = 0, k = 0;
  for (const Tensor& t : parts) {
    Geometry g{{t.sizes()[0], t.sizes()[1]}, {out.strides()[0], out.strides()[1]}, r * out.strides()[0] + k};
    SMELT_RETURN_IF_ERROR(CopyInto(out.View(g), t));
    r += t.sizes()[0];
    k += t.sizes()[1];
  }
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Diag(Call& c) {
  const Tensor self = c.T("self");
  if (self.rank() == 1) {
    return Run(*c.state, OpName::Get("aten::diag_embed"), {EvalValue(self), Val(c.I("diagonal")), Val(0), Val(1)});
  }
  SMELT_ASSIGN_OR_RETURN(Tensor d, Op(c, "aten::diagonal", {EvalValue(self), Val(c.I("diagonal")), Val(0), Val(1)}));
  return Values{EvalValue(CopyWithStrides(d, ContiguousStridesOf(d.sizes())))};
}

absl::StatusOr<Values> IsClose(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, Op(c, "aten::eq.Tensor", {c.args[0], c.args[1]}));
  SMELT_ASSIGN_OR_RETURN(Geometry a, Broadcasted(c.args[0].tensor().geometry(), out.sizes()));
  SMELT_ASSIGN_OR_RETURN(Geometry b, Broadcasted(c.args[1].tensor().geometry(), out.sizes()));
  const std::vector<Cx> x = Read<Cx>(c.args[0].tensor().View(a)), y = Read<Cx>(c.args[1].tensor().View(b));
  std::vector<int64_t> close;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool nan = std::isnan(std::abs(x[i])) && std::isnan(std::abs(y[i]));
    close.push_back(x[i] == y[i] || (nan && c.B("equal_nan")) ||
                    (std::isfinite(std::abs(x[i] - y[i])) && std::isfinite(std::abs(y[i])) &&
                     std::abs(x[i] - y[i]) <= c.D("atol") + c.D("rtol") * std::abs(y[i])));
  }
  Write(out, close);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Kron(Call& c) {
  Tensor a = c.T("self"), b = c.T("other");
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> as(2 * rank, 1), bs(2 * rank, 1), out(rank);
  for (int d = 0; d < rank; ++d) {
    const int ad = d - (rank - a.rank()), bd = d - (rank - b.rank());
    as[2 * d] = ad >= 0 ? a.sizes()[ad] : 1;
    bs[2 * d + 1] = bd >= 0 ? b.sizes()[bd] : 1;
    out[d] = as[2 * d] * bs[2 * d + 1];
  }
  SMELT_ASSIGN_OR_RETURN(Tensor x, Op(c, "aten::view", {EvalValue(a), EvalValue::Ints(as)}));
  SMELT_ASSIGN_OR_RETURN(Tensor y, Op(c, "aten::view", {EvalValue(b), EvalValue::Ints(bs)}));
  SMELT_ASSIGN_OR_RETURN(Tensor p, Op(c, "aten::mul.Tensor", {EvalValue(x), EvalValue(y)}));
  SMELT_ASSIGN_OR_RETURN(Tensor r, Op(c, "aten::view", {EvalValue(p), EvalValue::Ints(out)}));
  return Values{EvalValue(r)};
}

// Along a dim without elements it is the tensor itself.
absl::StatusOr<Values> Diff(Call& c) {
  const Tensor self = c.T("self");
  SMELT_ASSIGN_OR_RETURN(const int dim, Dim(c, c.I("dim", -1), self.rank()));
  const bool joined = c.Has("prepend") || c.Has("append");
  if (self.rank() > 0 && self.sizes()[dim] == 0 && c.I("n", 1) > 0 && !joined) return Values{EvalValue(self)};
  return RunDecomposed(c);
}

absl::StatusOr<Values> Tensordot(Call& c) {
  const Tensor a = c.T("self"), b = c.T("other");
  std::vector<int64_t> da, db, pa, pb, out;
  if ((a.rank() == 0 && !c.Ints("dims_self").empty()) || (b.rank() == 0 && !c.Ints("dims_other").empty()))
    return c.Error("a dim of a tensor that has none");
  for (int64_t d : c.Ints("dims_self")) {
    SMELT_ASSIGN_OR_RETURN(int w, Dim(c, d, a.rank()));
    da.push_back(w);
  }
  for (int64_t d : c.Ints("dims_other")) {
    SMELT_ASSIGN_OR_RETURN(int w, Dim(c, d, b.rank()));
    db.push_back(w);
  }
  if (da.size() != db.size()) return c.Error("both dimension lists should have same length");
  int64_t rows = 1, columns = 1, inner = 1;
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (std::find(da.begin(), da.end(), d) != da.end()) continue;
    pa.push_back(d);
    rows *= a.sizes()[d];
    out.push_back(a.sizes()[d]);
  }
  pa.insert(pa.end(), da.begin(), da.end());
  pb = db;
  for (int64_t d = 0; d < b.rank(); ++d) {
    if (std::find(db.begin(), db.end(), d) != db.end()) continue;
    pb.push_back(d);
    columns *= b.sizes()[d];
    out.push_back(b.sizes()[d]);
  }
  for (int64_t d : da) inner *= a.sizes()[d];
  SMELT_ASSIGN_OR_RETURN(Tensor x, Op(c, "aten::permute", {EvalValue(a), EvalValue::Ints(pa)}));
  SMELT_ASSIGN_OR_RETURN(Tensor y, Op(c, "aten::permute", {EvalValue(b), EvalValue::Ints(pb)}));
  SMELT_ASSIGN_OR_RETURN(x, Op(c, "aten::reshape", {EvalValue(x), EvalValue::Ints({rows, inner})}));
  SMELT_ASSIGN_OR_RETURN(y, Op(c, "aten::reshape", {EvalValue(y), EvalValue::Ints({inner, columns})}));
  SMELT_ASSIGN_OR_RETURN(Tensor p, Op(c, "aten::mm", {EvalValue(x), EvalValue(y)}));
  SMELT_ASSIGN_OR_RETURN(Tensor r, Op(c, "aten::reshape", {EvalValue(p), EvalValue::Ints(out)}));
  return Values{EvalValue(r)};
}

absl::StatusOr<Values> Inner(Call& c) {
  const Tensor a = c.T("self"), b = c.T("other");
  if (a.rank() == 0 || b.rank() == 0) return Run(*c.state, OpName::Get("aten::mul.Tensor"), {c.args[0], c.args[1]});
  return Run(*c.state, OpName::Get("aten::tensordot"),
             {c.args[0], c.args[1], EvalValue::Ints({-1}), EvalValue::Ints({-1})});
}

absl::StatusOr<Values> Trapezoid(Call& c) {
  const Tensor y = c.T("y");
  const bool cumulative = c.name() == "aten::cumulative_trapezoid";
  if (c.Has("x")) return c.Unsupported("with x");
  SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim", -1), y.rank()));
  const int64_t n = y.rank() == 0 ? 1 : y.sizes()[d];
  SMELT_ASSIGN_OR_RETURN(Tensor right, Op(c, "aten::slice.Tensor", {EvalValue(y), Val(d), Val(1), Val(n), Val(1)}));
  SMELT_ASSIGN_OR_RETURN(Tensor left, Op(c, "aten::slice.Tensor",
                                         {EvalValue(y), Val(d), Val(0), Val(std::max<int64_t>(n - 1, 0)), Val(1)}));
  SMELT_ASSIGN_OR_RETURN(Tensor sum, Op(c, "aten::add.Tensor", {EvalValue(left), EvalValue(right)}));
  if (cumulative) {
    SMELT_ASSIGN_OR_RETURN(sum, Op(c, "aten::cumsum", {EvalValue(sum), Val(d)}));
  } else {
    SMELT_ASSIGN_OR_RETURN(sum, Op(c, "aten::sum.dim_IntList", {EvalValue(sum), EvalValue::Ints({d})}));
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, Op(c, "aten::mul.Scalar", {EvalValue(sum), Val(c.D("dx", 1) / 2)}));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Vander(Call& c) {
  const Tensor x = c.T("x");
  if (x.rank() != 1) return c.Error("x must be a one-dimensional tensor.");
  const int64_t rows = x.sizes()[0], n = c.I("N", rows);
  DType dtype = x.dtype();
  if (!IsFloating(dtype) && !IsComplex(dtype)) dtype = DType::kInt64;
  if (n < 0) return c.Error("N must be non-negative.");
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, dtype, {rows, n}, ContiguousStridesOf({rows, n})));
  WithNumber(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> v;
    for (const T& value : Read<T>(x)) {
      std::vector<T> line(1, T(1));
      for (int64_t i = 1; i < n; ++i) line.push_back(WrappingMul(line.back(), value));
      line.resize(n);
      if (!c.B("increasing")) std::reverse(line.begin(), line.end());
      v.insert(v.end(), line.begin(), line.end());
    }
    Write(out, v);
    return 0;
  });
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Rot90(Call& c) {
  const Tensor self = c.T("self");
  const std::vector<int64_t> dims = c.Ints("dims");
  if (dims.size() != 2) return c.Error("expected total rotation dims == 2");
  SMELT_ASSIGN_OR_RETURN(int a, Dim(c, dims[0], self.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, Dim(c, dims[1], self.rank()));
  const int64_t k = ((c.I("k", 1) % 4) + 4) % 4;
  if (a == b) return c.Error("expected rotation dims to be different");
  auto flip = [&](std::vector<int64_t> d) { return Op(c, "aten::flip", {EvalValue(self), EvalValue::Ints(d)}); };
  if (k == 0) return Values{EvalValue(CopyWithStrides(self, ContiguousStridesOf(self.sizes())))};
  if (k == 2) {
    SMELT_ASSIGN_OR_RETURN(Tensor t, flip({a, b}));
    return Values{EvalValue(t)};
  }
  SMELT_ASSIGN_OR_RETURN(Tensor t, flip({k == 1 ? b : a}));
  SMELT_ASSIGN_OR_RETURN(t, Op(c, "aten::transpose.int", {EvalValue(t), Val(a), Val(b)}));
  return Values{EvalValue(t)};
}

absl::StatusOr<Values> FlipOne(Call& c) {
  return Run(*c.state, OpName::Get("aten::flip"), {c.args[0], EvalValue::Ints({c.name() == "aten::fliplr" ? 1 : 0})});
}

absl::StatusOr<Values> ItselfIfReal(Call& c) {
  if (!IsComplex(c.args[0].tensor().dtype())) return Values{c.args[0]};
  if (c.name() == "aten::conj") return Pointwise(c);
  // real() of a complex tensor is a view.
  SMELT_ASSIGN_OR_RETURN(Tensor parts, Op(c, "aten::view_as_real", {c.args[0]}));
  return Run(*c.state, OpName::Get("aten::select.int"), {EvalValue(parts), Val(-1), Val(0)});
}

absl::StatusOr<Values> Other(Call& c) {
  const bool max = c.name() == "aten::max";
  return Run(*c.state, OpName::Get(max ? "aten::maximum" : "aten::minimum"), {c.args[0], c.args[1]});
}

absl::StatusOr<Values> Itself(Call& c) {
  if (c.args[0].tensor().dtype() == DType::kBool)
    return c.Error("The `+` operator, on a bool tensor is not supported.");
  return Values{c.args[0]};
}

}  // namespace

void AddCompositeKernels(KernelTable& t) {
  t["aten::batch_norm"] = BatchNorm;
  for (const char* n :
       {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "_batch_norm_no_update"})
    t[absl::StrCat("aten::", n)] = BatchNorm;
  t["aten::instance_norm"] = InstanceNorm;
  t["aten::native_group_norm_backward"] = GroupNormBackward;
  t["aten::cross_entropy_loss"] = CrossEntropy;
  t["aten::atleast_1d"] = t["aten::atleast_2d"] = t["aten::atleast_3d"] = AtLeast;
  t["aten::meshgrid"] = Meshgrid;
  t["aten::cartesian_prod"] = CartesianProd;
  t["aten::block_diag"] = BlockDiag;
  t["aten::diag"] = Diag;
  t["aten::isclose"] = IsClose;
  t["aten::kron"] = Kron;
  t["aten::diff"] = Diff;
  t["aten::tensordot"] = Tensordot;
  t["aten::inner"] = Inner;
  t["aten::trapezoid"] = t["aten::cumulative_trapezoid"] = Trapezoid;
  t["aten::vander"] = Vander;
  t["aten::rot90"] = Rot90;
  t["aten::fliplr"] = t["aten::flipud"] = FlipOne;
  t["aten::conj"] = t["aten::real"] = ItselfIfReal;
  t["aten::positive"] = Itself;
  t["aten::max.other"] = t["aten::min.other"] = Other;
}

}  // namespace smelt::eval_internal
