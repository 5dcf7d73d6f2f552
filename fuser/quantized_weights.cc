#include "smelt/fuser/quantized_weights.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

constexpr char kDequantizePerChannel[] = "quantized_decomposed::dequantize_per_channel";

// A weight [columns, depth] of int8. Without scales they are 1, without zero points those are 0.
struct QuantizedWeight {
  ValueId elements, scales, zeros;
};

class WeightFinder {
 public:
  explicit WeightFinder(Graph& g) : g_(g) {}

  absl::Status Run() {
    for (NodeId n : g_.AllNodes()) {
      if (!g_.IsLive(n)) continue;
      const OpName op = g_.node(n).op;
      if (op == linear_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), Widened(In(n, 1), Type(In(n, 0)).dtype), In(n, 2)));
      } else if (op == op::kMm) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), WidenedTransposed(In(n, 1), Type(In(n, 0)).dtype), ValueId()));
      }
    }
    return absl::OkStatus();
  }

 private:
  ValueId In(NodeId n, int i) const {
    const Node& node = g_.node(n);
    return i < static_cast<int>(node.inputs.size()) ? node.inputs[i] : ValueId();
  }
  const TensorType& Type(ValueId v) const { return g_.value(v).type.tensor(); }
  bool IsTensor(ValueId v) const { return v.valid() && g_.value(v).type.IsTensor() && Type(v).IsComplete(); }

  // Returns whether a node writes into the memory of the value, which a read must then not be moved behind.
  bool IsWritten(ValueId v) const {
    for (const Use& use : g_.value(v).uses) {
      if (g_.IsReturn(use.user)) continue;
      const Node& user = g_.node(use.user);
      if (user.op == op::kSmeltWriteRegion && use.index == 0) return true;
      if (!user.blocks.empty() || absl::StartsWith(user.op.name(), op::kSmeltCall)) return true;
      if (user.op == op::kSmeltView && IsWritten(user.outputs[0])) return true;
    }
    return false;
  }
  // Returns whether the value is a matrix of int8 with its rows one after the other.
  bool IsInt8Matrix(ValueId v) const {
    if (!IsTensor(v)) return false;
    const TensorType& t = Type(v);
    return t.dtype == DType::kInt8 && t.rank() == 2 && *t.strides == ContiguousStrides(*t.sizes);
  }
  // Returns the matrix whose transpose `v` shows; invalid if it is none.
  ValueId Transposed(ValueId v) const {
    if (!IsTensor(v) || Type(v).rank() != 2 || g_.IsParam(g_.value(v).def)) return ValueId();
    const Node& view = g_.node(g_.value(v).def);
    if (view.op != op::kSmeltView) return ValueId();
    const ValueId base = view.inputs[0];
    const Attribute* offset = view.FindAttribute("offset");
    const Expr* at = offset == nullptr ? nullptr : std::get_if<Expr>(offset);
    const int64_t* number = offset == nullptr ? nullptr : std::get_if<int64_t>(offset);
    if (!(at != nullptr ? *at == Expr(0) : number != nullptr && *number == 0)) return ValueId();
    if (!IsTensor(base) || Type(base).rank() != 2 || Type(base).dtype != Type(v).dtype) return ValueId();
    const std::vector<Expr>&sizes = *Type(base).sizes, &strides = *Type(base).strides;
    const bool swapped = *Type(v).sizes == std::vector<Expr>{sizes[1], sizes[0]} &&
                         *Type(v).strides == std::vector<Expr>{strides[1], strides[0]};
    return swapped ? base : ValueId();
  }

  std::optional<QuantizedWeight> Widened(ValueId w, std::optional<DType> rows) const {
    if (!IsTensor(w) || Type(w).dtype != rows || !IsProductDType(rows) || g_.IsParam(g_.value(w).def))
      return std::nullopt;
    const NodeId def = g_.value(w).def;
    if (g_.node(def).op.name() == kDequantizePerChannel) {
      const auto axis = GetConstant(g_, In(def, 3));
      const int64_t* number = axis ? std::get_if<int64_t>(&*axis) : nullptr;
      if (number == nullptr || (*number != 0 && *number != -2) || !IsInt8Matrix(In(def, 0)) || !IsTensor(In(def, 1)))
        return std::nullopt;
      const bool shifted = g_.value(In(def, 2)).type.IsTensor();
      if (shifted && !IsTensor(In(def, 2))) return std::nullopt;
      return QuantizedWeight{In(def, 0), In(def, 1), shifted ? In(def, 2) : ValueId()};
    }
    if (GetOpTraits(g_.node(def).op).family != OpFamily::kConversion || !IsInt8Matrix(In(def, 0))) return std::nullopt;
    return QuantizedWeight{In(def, 0), ValueId(), ValueId()};
  }
  // The transpose of a widened weight, or the widened transpose of a weight.
  std::optional<QuantizedWeight> WidenedTransposed(ValueId w, std::optional<DType> rows) const {
    if (const ValueId base = Transposed(w); base.valid()) return Widened(base, rows);
    if (!IsTensor(w) || Type(w).dtype != rows || !IsProductDType(rows) || g_.IsParam(g_.value(w).def))
      return std::nullopt;
    const NodeId def = g_.value(w).def;
    if (GetOpTraits(g_.node(def).op).family != OpFamily::kConversion) return std::nullopt;
    const ValueId base = Transposed(In(def, 0));
    if (!base.valid() || !IsInt8Matrix(base)) return std::nullopt;
    return QuantizedWeight{base, ValueId(), ValueId()};
  }
  static bool IsProductDType(std::optional<DType> t) {
    return t == DType::kFloat32 || t == DType::kBFloat16 || t == DType::kFloat16;
  }

  absl::Status Replace(NodeId n, ValueId rows, const std::optional<QuantizedWeight>& w, ValueId bias) {
    if (!w || !IsTensor(rows) || Type(rows).rank() < 1) return absl::OkStatus();
    for (ValueId read : {w->elements, w->scales, w->zeros}) {
      if (read.valid() && IsWritten(read)) return absl::OkStatus();
    }
    Emit e(g_, n);
    const std::vector<Expr> sizes = e.Sizes(rows);
    const DType t = e.DTypeOf(rows);
    const Expr columns = e.Sizes(w->elements)[0];
    const ValueId flat = e.Reshape(rows, {Product(absl::MakeSpan(sizes).first(sizes.size() - 1)), sizes.back()});
    const ValueId scales = w->scales.valid() ? e.Cast(w->scales, DType::kFloat32) : e.Full(DType::kFloat32, {1}, 1);
    ValueId out = e.Op(absl::StrCat(op::kSmeltNamespace, "int8_mm"), {flat, w->elements, scales});
    if (w->zeros.valid()) {
      // Each element is less by the zero point. (A row may have infinite elements: nothing times zero is taken off.)
      const ValueId zeros = e.Mul(e.Cast(w->zeros, DType::kFloat32), scales);
      const ValueId sums = e.Sum(e.Cast(flat, DType::kFloat32), {1}, true);
      const ValueId part = e.Mul(sums, e.Unsqueeze(zeros, 0));
      const ValueId wide = e.Cast(out, DType::kFloat32);
      const ValueId no_zero_point = e.EqN(e.Unsqueeze(zeros, 0), 0);
      out = e.Cast(e.Where(no_zero_point, wide, e.Sub(wide, part)), t);
    }
    if (bias.valid() && g_.value(bias).type.IsTensor()) out = e.Add(out, bias);
    std::vector<Expr> result(sizes.begin(), sizes.end() - 1);
    result.push_back(columns);
    out = e.View(out, result);
    if (!e.ok()) return e.status();
    return e.ReplaceNode({out});
  }

  Graph& g_;
  const OpName linear_ = OpName::Get(absl::StrCat(op::kAtenNamespace, "linear"));
};

}  // namespace

absl::Status UseQuantizedWeights(Graph& g) { return WeightFinder(g).Run(); }

}  // namespace smelt
