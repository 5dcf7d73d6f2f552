// Bags of embeddings, and the gradients of embeddings.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

ValueId Rows(Emit& e, ValueId of, ValueId indices) {
  return e.Op("aten::index_select", {of, e.Const(int64_t{0}), indices});
}
// Adds values to rows of a tensor of zeros.
ValueId AddedRows(Emit& e, const std::vector<Expr>& sizes, ValueId indices, ValueId values) {
  return e.Op("aten::index_add",
              {e.Full(e.DTypeOf(values), sizes, 0), e.Const(int64_t{0}), indices, values, e.Const(int64_t{1})});
}
// Sets the rows to 0 whose index is `padding`.
ValueId WithoutPadding(Emit& e, ValueId rows, ValueId indices, int64_t padding) {
  if (padding < 0) return rows;
  ValueId kept = e.NeInt(indices, padding);
  if (e.Rank(rows) == 2) kept = e.Unsqueeze(kept, 1);
  return e.WhereN(kept, rows, 0);
}

// Returns the number of indices per bag if it is known and the same for all bags: the offsets are then a range that the
// graph computes, as for indices of two dims.
absl::StatusOr<std::optional<Expr>> RegularBag(const Emit& e, ValueId offsets, const Expr& bags, const Expr& indices) {
  const NodeId def = e.graph().value(offsets).def;
  if (e.graph().IsParam(def) || e.graph().node(def).op != "aten::arange.start_step") return std::nullopt;
  SMELT_ASSIGN_OR_RETURN(OpCall range, OpCall::Of(e.graph(), def));
  const OpArg *start = range.Find("start"), *step = range.Find("step");
  for (const OpArg* a : {start, step}) {
    if (a == nullptr || a->kind != OpArg::Kind::kInt || !a->known) return std::nullopt;
  }
  if (start->expr != Expr(0) || step->expr == Expr(0) || bags * step->expr != indices) return std::nullopt;
  return step->expr;
}

// Returns the bag of each of n indices: the number of bags that have begun, less one.
ValueId BagOfEach(Emit& e, ValueId offsets, const Expr& n) {
  const ValueId ones = e.Full(DType::kInt64, {e.Sizes(offsets)[0]}, 1), dim = e.Const(int64_t{0}),
                one = e.Const(int64_t{1});
  const ValueId begun = e.Op("aten::cumsum", {AddedRows(e, {n + 1}, offsets, ones), dim, e.None()});
  return e.Op("aten::sub.Scalar", {e.Slice(begun, 0, 0, n), one, one});
}

// Returns the number of indices of each bag, of n in all.
ValueId LengthsOfBags(Emit& e, ValueId offsets, const Expr& bags, const Expr& n) {
  const ValueId none = e.None();
  const ValueId end =
      e.Op("aten::full", {e.Dims({1}), e.Size(n), e.Const(ScalarTypeOf(e.DTypeOf(offsets))), none, none, none});
  return e.Sub(e.Cat({e.Slice(offsets, 0, 1, bags), end}, 0), offsets);
}

// The maximum of each bag's rows, [bags, width], and the index of the row that it comes from. PyTorch visits a bag's
// rows in order and takes each value that is greater than the current one: a NaN in the first row remains, later NaNs
// are ignored, and the first of equal values remains. A bag without rows that count has the value 0 and index 0.
struct Maxima {
  ValueId values, indices;
};
Maxima MaximaOfBags(Emit& e, ValueId rows, ValueId indices, ValueId bag, ValueId is_counted, const Expr& bags) {
  constexpr double kNowhere = 1LL << 62, kLeast = -std::numeric_limits<double>::infinity();
  const Expr n = e.Sizes(rows)[0], width = e.Sizes(rows)[1];
  const ValueId dim = e.Const(int64_t{0});
  auto reduced = [&](ValueId into, ValueId values, const char* how) {
    return e.Op("aten::index_reduce", {into, dim, bag, values, e.Const(std::string(how)), e.Const(true)});
  };
  auto fill = [&](ValueId v, ValueId where, double with) { return e.Where(where, e.Fill(v, with), v); };
  // Bags without rows use the first row if there surely is one, or else an additional row of zeros at the end.
  const bool is_any = e.graph().symbols.AlwaysLessOrEqual(1, n) == true;
  auto gather = [&](ValueId from, ValueId at, ValueId is_empty) {
    if (is_any) {
      at = fill(at, is_empty, 0);
    } else {
      from = e.Cat({from, e.Full(e.DTypeOf(from), {1, width}, 0)}, 0);
      at = e.Op("aten::clamp_max", {at, e.Size(n)});
    }
    return e.Op("aten::gather", {from, dim, at, e.Const(false)});
  };
  auto is_nan = [&](ValueId v) { return e.Op("aten::isnan", {v}); };
  auto both = [&](ValueId a, ValueId b) { return e.Op("aten::logical_and", {a, b}); };
  // Returns the first wanted position of each bag and column.
  auto first = [&](ValueId wanted) {
    const ValueId scalar = e.Scalar(DType::kInt64, kNowhere);
    const ValueId at = e.Where(wanted, e.Unsqueeze(Range(e, n), 1), scalar);
    return reduced(e.Full(DType::kInt64, {bags, width}, kNowhere), at, "amin");
  };
  const ValueId counted = e.Expand(e.Unsqueeze(is_counted, 1), {n, width});
  const ValueId start = first(counted), is_empty = e.EqN(start, kNowhere);
  const ValueId begin = gather(rows, start, is_empty), begins_nan = is_nan(begin);
  const ValueId is_number = both(counted, e.Op("aten::logical_not", {is_nan(rows)}));
  const ValueId least = e.Full(e.DTypeOf(rows), {bags, width}, kLeast);
  const ValueId best = reduced(least, e.WhereN(is_number, rows, kLeast), "amax");
  const ValueId is_best = e.Op("aten::eq.Tensor", {rows, Rows(e, best, bag)});
  const ValueId at = e.Where(begins_nan, start, first(both(is_number, is_best)));
  const ValueId from = gather(e.Expand(e.Unsqueeze(indices, 1), {n, width}), at, is_empty);
  return {fill(e.Where(begins_nan, begin, best), is_empty, 0), fill(from, is_empty, 0)};
}

// embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
// padding_idx): the sums, means or maxima of each bag's rows and, for the gradients, the bag of each index (empty for
// sums without padding), the number of indices per bag (0 for sums) and the positions of the maxima.
Values EmbeddingBag(Emit& e, const OpCall& call) {
  const ValueId weight = call.arg(0).value, indices = call.arg(1).value;
  ValueId offsets = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(int64_t mode, call.GetIntOr("mode", kSum));
  SMELT_ASSIGN_OR_RETURN(bool last, call.GetBoolOr("include_last_offset", false));
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetIntOr("padding_idx", -1));
  // In that overload a negative padding_idx counts from the end; in the others -1 means none.
  if (call.op().overload() == "padding_idx" && !call.IsNone("padding_idx")) {
    const Expr& rows = e.Sizes(weight)[0];
    if (!rows.IsConstant()) return call.Unsupported("padding_idx of a number of rows known only at run time");
    if (padding < -*rows.Constant() || padding >= *rows.Constant())
      return call.Error("padding_idx must be within the number of embeddings");
    if (padding < 0) padding += *rows.Constant();
  }
  if (e.Rank(indices) != 1 || e.Rank(offsets) != 1) return call.Unsupported("indices of this rank");
  Expr bags = e.Sizes(offsets)[0];
  if (last) {
    bags = bags - 1;
    offsets = e.Slice(offsets, 0, 0, bags);
  }
  const Expr n = e.Sizes(indices)[0], width = e.Sizes(weight)[1];
  const DType t = e.DTypeOf(weight), compute = OpMathType(t);
  SMELT_ASSIGN_OR_RETURN(const std::optional<Expr> regular, RegularBag(e, call.arg(2).value, bags, n));
  if (!regular) {
    const ValueId end = e.Select(call.arg(2).value, 0, -1);
    AssertAll(e, e.Op("aten::le.Scalar", {end, e.Size(n)}),
              "offsets[-1] can not be greater than the number of indices");
  }
  ValueId rows = e.Cast(Rows(e, weight, indices), compute);
  if (const ValueId scales = TensorArg(call, "per_sample_weights"); scales.valid())
    rows = e.Mul(rows, e.Unsqueeze(e.Cast(scales, compute), 1));
  rows = WithoutPadding(e, rows, indices, padding);
  const ValueId counted = WithoutPadding(e, e.Full(compute, {n}, 1), indices, padding);
  const ValueId bag =
      regular ? e.Op("aten::div.Scalar_mode", {Range(e, n), e.Size(*regular), e.Const(std::string("floor"))})
              : BagOfEach(e, offsets, n);
  ValueId out, count, maxima;
  if (mode == kMax) {
    const ValueId ones = e.Full(DType::kBool, {n}, 1);
    const ValueId is_counted = padding < 0 ? ones : e.NeInt(indices, padding);
    const Maxima of = MaximaOfBags(e, rows, indices, bag, is_counted, bags);
    out = of.values;
    maxima = of.indices;
    count = AddedRows(e, {bags}, bag, counted);
  } else if (regular) {
    out = e.Sum(e.Reshape(rows, {bags, *regular, width}), {1}, false);
    count = e.Sum(e.Reshape(counted, {bags, *regular}), {1}, false);
  } else {
    out = AddedRows(e, {bags, width}, bag, rows);
    count = padding < 0 ? LengthsOfBags(e, offsets, bags, n) : AddedRows(e, {bags}, bag, counted);
  }
  if (mode == kMean && regular && padding < 0) {
    out = e.DivBy(out, *regular);
  } else if (mode == kMean) {
    out = e.Div(out, e.Unsqueeze(e.Op("aten::clamp_min", {count, e.Const(int64_t{1})}), 1));
  }
  // One per offset if no gradients of the sums are requested.
  const bool for_offsets = call.op().name() == "aten::_embedding_bag_forward_only" && mode == kSum;
  const ValueId sizes = mode == kSum ? e.Full(DType::kInt64, {for_offsets ? e.Sizes(call.arg(2).value)[0] : bags}, 0)
                                     : e.Cast(count, DType::kInt64);
  const bool no_bags = mode == kSum && padding < 0;
  // PyTorch's export gives bag_size of the composite operator one element more than the operator returns.
  if (last && call.op().name() == "aten::embedding_bag") return std::vector<ValueId>{e.Cast(out, t), {}, {}, {}};
  return std::vector<ValueId>{e.Cast(out, t), no_bags ? e.Full(DType::kInt64, {Expr(0)}, 0) : bag, sizes,
                              mode == kMax ? maxima : sizes};
}

// Divides each row of a gradient by the number of occurrences of its index.
ValueId ByFrequency(Emit& e, ValueId rows, ValueId indices, const Expr& num_weights) {
  const DType t = e.DTypeOf(rows);
  const ValueId ones = e.Full(OpMathType(t), {e.Sizes(indices)[0]}, 1);
  const ValueId counts = AddedRows(e, {num_weights}, indices, ones);
  return e.Cast(e.Div(rows, e.Unsqueeze(Rows(e, counts, indices), 1)), t);
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
Values EmbeddingBackward(Emit& e, const OpCall& call) {
  const ValueId grad = call.arg(0).value, indices = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(Expr num_weights, call.GetExpr("num_weights"));
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetInt("padding_idx"));
  SMELT_ASSIGN_OR_RETURN(bool by_frequency, call.GetBool("scale_grad_by_freq"));
  if (e.Rank(grad) == 0) return call.Error("a gradient of 1 or more dims is expected");
  const Expr width = e.Sizes(grad).back(), n = Product(e.Sizes(indices));
  const ValueId flat = e.Reshape(indices, {n});
  ValueId rows = WithoutPadding(e, e.Reshape(grad, {n, width}), flat, padding);
  if (by_frequency) rows = ByFrequency(e, rows, flat, num_weights);
  return std::vector<ValueId>{AddedRows(e, {num_weights, width}, flat, rows)};
}

// _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights,
// scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx)
Values EmbeddingBagBackward(Emit& e, const OpCall& call) {
  ValueId grad = ToCompute(e, call.arg(0).value);
  const ValueId indices = call.arg(1).value, offsets = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(Expr num_weights, call.GetExpr("num_weights"));
  SMELT_ASSIGN_OR_RETURN(int64_t mode, call.GetInt("mode"));
  SMELT_ASSIGN_OR_RETURN(bool by_frequency, call.GetBool("scale_grad_by_freq"));
  SMELT_ASSIGN_OR_RETURN(bool sparse, call.GetBool("sparse"));
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetIntOr("padding_idx", -1));
  if (sparse) return call.Unsupported("a sparse gradient");
  if (by_frequency) return call.Unsupported("scale_grad_by_freq, for which PyTorch takes the counts of other rows");
  if (e.Rank(grad) != 2 || e.Rank(indices) != 1 || e.Rank(offsets) != 1)
    return call.Unsupported("indices of this rank");
  const Expr n = e.Sizes(indices)[0], bags = e.Sizes(grad)[0], width = e.Sizes(grad)[1];
  if (mode == kMax) {
    const ValueId has_rows = e.Unsqueeze(e.Op("aten::ne.Scalar", {call.arg(4).value, e.Const(int64_t{0})}), 1);
    const ValueId zeros = e.Full(e.DTypeOf(grad), {num_weights, width}, 0);
    const ValueId maxima = e.Cast(call.arg(5).value, DType::kInt64);
    const ValueId sums = e.Op("aten::scatter_add", {zeros, e.Const(int64_t{0}), maxima, e.WhereN(has_rows, grad, 0)});
    return std::vector<ValueId>{e.Cast(sums, e.DTypeOf(call.arg(0).value))};
  }
  const ValueId bag = BagOfEach(e, e.Slice(offsets, 0, 0, bags), n);
  if (mode == kMean) {
    const ValueId ones = WithoutPadding(e, e.Full(e.DTypeOf(grad), {n}, 1), indices, padding);
    const ValueId count = e.Op("aten::clamp_min", {AddedRows(e, {bags}, bag, ones), e.Const(int64_t{1})});
    grad = e.Div(grad, e.Unsqueeze(count, 1));
  }
  ValueId rows = Rows(e, grad, bag);
  if (const ValueId scales = TensorArg(call, "per_sample_weights"); scales.valid())
    rows = e.Mul(rows, e.Unsqueeze(e.Cast(scales, e.DTypeOf(grad)), 1));
  rows = WithoutPadding(e, rows, indices, padding);
  return std::vector<ValueId>{e.Cast(AddedRows(e, {num_weights, width}, indices, rows), e.DTypeOf(call.arg(0).value))};
}

// _embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx)
Values PerSampleWeightsBackward(Emit& e, const OpCall& call) {
  const ValueId grad = ToCompute(e, call.arg(0).value), weight = ToCompute(e, call.arg(1).value);
  const ValueId indices = call.arg(2).value, offsets = call.arg(3).value;
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetIntOr("padding_idx", -1));
  if (e.Rank(grad) != 2 || e.Rank(indices) != 1 || e.Rank(offsets) != 1)
    return call.Unsupported("indices of this rank");
  if (e.Rank(weight) != 2) return call.Error("a weight of 2 dims is expected");
  const ValueId bag = BagOfEach(e, e.Slice(offsets, 0, 0, e.Sizes(grad)[0]), e.Sizes(indices)[0]);
  const ValueId rows = Rows(e, weight, indices);
  const ValueId dots = e.Sum(e.Mul(Rows(e, grad, bag), rows), {1}, false);
  return std::vector<ValueId>{e.Cast(WithoutPadding(e, dots, indices, padding), e.DTypeOf(call.arg(0).value))};
}

}  // namespace

void AddEmbeddingRules(DecompositionTable& t) {
  t["aten::embedding_bag"] = t["aten::_embedding_bag"] = t["aten::_embedding_bag_forward_only"] = EmbeddingBag;
  t["aten::embedding_dense_backward"] = EmbeddingBackward;
  t["aten::_embedding_bag_backward"] = EmbeddingBagBackward;
  t["aten::_embedding_bag_per_sample_weights_backward"] = PerSampleWeightsBackward;
}

}  // namespace smelt
