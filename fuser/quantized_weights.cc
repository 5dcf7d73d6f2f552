#include "smelt/fuser/quantized_weights.h"

#include <algorithm>
#include <cstdint>
#include <memory>
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
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/int4_form.h"

namespace smelt {
namespace {

constexpr char kDequantizePerChannel[] = "quantized_decomposed::dequantize_per_channel";
constexpr char kDequantizePerTensor[] = "quantized_decomposed::dequantize_per_tensor";
constexpr char kDequantizePerToken[] = "quantized_decomposed::dequantize_per_token";
constexpr char kDequantizePerGroup[] = "quantized_decomposed::dequantize_per_channel_group";
constexpr char kDequantizeAffine[] = "torchao::dequantize_affine";

// A weight [columns, depth] of int8 or float8. Without scales they are 1, without zero points those are 0.
struct QuantizedWeight {
  ValueId elements, scales, zeros;
};

// Sums of so many products of bytes, and the terms of zero points that are taken off them, fit in int32.
constexpr int64_t kMostDepth = int64_t{1} << 15;

// Rows of bytes that are dequantized: by one scale and zero point, or by those of each row. A zero point that is known is
// not among the values.
struct QuantizedRows {
  ValueId elements, scale, zero;
  double known_scale = 1;
  int64_t known_zero = 0;
  bool by_row = false;
};

// A weight [columns, depth] of 4 bits, in bytes. The elements of a row have `groups` scales, and zeros if those are valid.
// All three are contiguous.
struct Int4Weight {
  ValueId elements, scales, zeros;
  Expr columns, depth, groups;
};

class WeightFinder {
 public:
  explicit WeightFinder(Graph& g) : g_(g) {}

  absl::Status Run() {
    for (NodeId n : g_.AllNodes()) {
      if (!g_.IsLive(n)) continue;
      OpName op = g_.node(n).op;
      // Rows of any sizes times a matrix are a product of matrices.
      if (op == matmul_ && IsTensor(In(n, 0)) && IsTensor(In(n, 1)) && Type(In(n, 1)).rank() == 2) op = mm_;
      if (std::find(std::begin(convolutions_), std::end(convolutions_), op) != std::end(convolutions_)) {
        SMELT_RETURN_IF_ERROR(ReplaceConvolution(n));
        continue;
      }
      if (op == linear_) {
        SMELT_RETURN_IF_ERROR(ReplaceByIntegers(n));
        if (!g_.IsLive(n)) continue;
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), Widened(In(n, 1), Type(In(n, 0)).dtype), In(n, 2)));
      } else if (op == sum_) {
        SMELT_RETURN_IF_ERROR(ReplaceSums(n));
      } else if (op == mm_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), WidenedTransposed(In(n, 1), Type(In(n, 0)).dtype), ValueId()));
      }
      if (!g_.IsLive(n)) continue;
      if (op == linear_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), Scaled(In(n, 1), false), In(n, 2)));
      } else if (op == mm_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), Scaled(In(n, 1), true), ValueId()));
      } else if (op == op::kAddmm && IsOne(In(n, 3)) && IsOne(In(n, 4))) {
        std::optional<QuantizedWeight> w = WidenedTransposed(In(n, 2), Type(In(n, 1)).dtype);
        if (!w) w = Scaled(In(n, 2), true);
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 1), w, In(n, 0)));
      }
      if (!g_.IsLive(n)) continue;
      if (op == linear_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), InGroups(In(n, 1), false), In(n, 2)));
      } else if (op == mm_) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 0), InGroups(In(n, 1), true), ValueId()));
      } else if (op == op::kAddmm && IsOne(In(n, 3)) && IsOne(In(n, 4))) {
        SMELT_RETURN_IF_ERROR(Replace(n, In(n, 1), InGroups(In(n, 2), true), In(n, 0)));
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
  // Returns whether the value is a matrix of int8 or float8 with its rows one after the other.
  bool IsByteMatrix(ValueId v) const {
    if (!IsTensor(v)) return false;
    const TensorType& t = Type(v);
    return (t.dtype == DType::kInt8 || IsFloat8(*t.dtype)) && t.rank() == 2 &&
           *t.strides == ContiguousStrides(*t.sizes);
  }
  bool IsInt8Matrix(ValueId v) const { return IsByteMatrix(v) && Type(v).dtype == DType::kInt8; }
  // Returns the matrix whose transpose `v` shows; invalid if it is none.
  ValueId Transposed(ValueId v) const {
    if (!IsTensor(v) || Type(v).rank() != 2 || g_.IsParam(g_.value(v).def)) return ValueId();
    const Node& view = g_.node(g_.value(v).def);
    if (view.op != op::kSmeltView) return ValueId();
    const ValueId base = view.inputs[0];
    if (!StartsAtZero(view)) return ValueId();
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
    if (GetOpTraits(g_.node(def).op).family != OpFamily::kConversion || !IsByteMatrix(In(def, 0))) return std::nullopt;
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
    if (!base.valid() || !IsByteMatrix(base)) return std::nullopt;
    return QuantizedWeight{base, ValueId(), ValueId()};
  }
  // A widened weight times a scale for each of its rows, or one for all; or a conversion of it to the rows' dtype. The
  // weight that a product reads is [columns, depth] or, `transposed`, [depth, columns].
  std::optional<QuantizedWeight> Scaled(ValueId w, bool transposed) const {
    if (!IsTensor(w) || Type(w).rank() != 2 || !IsProductDType(Type(w).dtype) || g_.IsParam(g_.value(w).def))
      return std::nullopt;
    if (transposed && Transposed(w).valid()) return Scaled(Transposed(w), false);
    NodeId def = g_.value(w).def;
    if (GetOpTraits(g_.node(def).op).family == OpFamily::kConversion) {
      w = In(def, 0);
      if (!IsTensor(w) || !IsProductDType(Type(w).dtype) || g_.IsParam(g_.value(w).def)) return std::nullopt;
      if (transposed && Transposed(w).valid()) return Scaled(Transposed(w), false);
      def = g_.value(w).def;
    }
    if (g_.node(def).op.name() != op::kMul) return std::nullopt;
    const ValueId elements = In(def, 0), scales = In(def, 1);
    if (!IsTensor(scales) || !IsProductDType(Type(scales).dtype)) return std::nullopt;
    std::optional<QuantizedWeight> found =
        transposed ? WidenedTransposed(elements, Type(w).dtype) : Widened(elements, Type(w).dtype);
    if (!found || found->scales.valid()) return std::nullopt;
    const std::vector<Expr>&sizes = *Type(w).sizes, &own = *Type(scales).sizes;
    std::vector<Expr> by_column(2, Expr(1));
    by_column[transposed ? 1 : 0] = sizes[transposed ? 1 : 0];
    if (own != by_column && (Product(own) != Expr(1) || own.size() > 2)) return std::nullopt;
    found->scales = scales;
    return found;
  }
  static bool IsProductDType(std::optional<DType> t) {
    return t == DType::kFloat32 || t == DType::kBFloat16 || t == DType::kFloat16;
  }

  bool IsOne(ValueId v) const {
    const std::optional<ConstantValue> c = GetConstant(g_, v);
    if (!c) return false;
    const int64_t* whole = std::get_if<int64_t>(&*c);
    const double* number = std::get_if<double>(&*c);
    return (whole != nullptr && *whole == 1) || (number != nullptr && *number == 1);
  }
  bool IsContiguous(ValueId v) const { return IsTensor(v) && *Type(v).strides == ContiguousStrides(*Type(v).sizes); }
  // Returns the tensor whose elements `v` shows in order: through views of contiguous tensors.
  ValueId InOrder(ValueId v) const {
    while (IsContiguous(v) && !g_.IsParam(g_.value(v).def)) {
      const Node& view = g_.node(g_.value(v).def);
      if (view.op != op::kSmeltView || !StartsAtZero(view)) break;
      const ValueId base = view.inputs[0];
      if (!IsContiguous(base) || Product(*Type(base).sizes) != Product(*Type(v).sizes) ||
          Type(base).dtype != Type(v).dtype)
        break;
      v = base;
    }
    return v;
  }
  static bool StartsAtZero(const Node& view) {
    const Attribute* offset = view.FindAttribute("offset");
    if (offset == nullptr) return false;
    if (const Expr* at = std::get_if<Expr>(offset)) return *at == Expr(0);
    const int64_t* number = std::get_if<int64_t>(offset);
    return number != nullptr && *number == 0;
  }
  // Returns the integers of which a value is a conversion; otherwise the value itself.
  ValueId Unconverted(ValueId v) const {
    v = InOrder(v);
    if (!IsContiguous(v) || g_.IsParam(g_.value(v).def)) return v;
    const NodeId def = g_.value(v).def;
    if (GetOpTraits(g_.node(def).op).family != OpFamily::kConversion || !IsContiguous(In(def, 0))) return v;
    return IsIntegral(*Type(In(def, 0)).dtype) ? InOrder(In(def, 0)) : v;
  }
  bool IsBytes(ValueId v) const {
    return IsContiguous(v) && (Type(v).dtype == DType::kInt8 || Type(v).dtype == DType::kUInt8);
  }

  // Returns the bytes of a weight of the graph with contiguous elements; empty if the value is none.
  absl::Span<const uint8_t> BytesOf(ValueId v) const {
    const absl::Span<const ValueId> inputs = g_.inputs();
    const auto input = std::find(inputs.begin(), inputs.end(), v);
    if (input == inputs.end() || g_.input_infos.size() != inputs.size() || !IsContiguous(v)) return {};
    const InputInfo& info = g_.input_infos[input - inputs.begin()];
    if (info.kind != InputInfo::Kind::kWeight) return {};
    const Weight& w = g_.weights[info.weight];
    const std::shared_ptr<Storage>& storage = g_.weight_storages[w.storage];
    const int64_t item = ItemSize(w.dtype);
    int64_t count = 1;
    for (int64_t s : w.geometry.sizes) count *= s;
    if (storage == nullptr || storage->data() == nullptr || w.geometry.offset < 0 || count < 1 ||
        count > storage->bytes() / item - w.geometry.offset)
      return {};
    const auto* data = reinterpret_cast<const uint8_t*>(storage->data());
    return absl::MakeConstSpan(data + w.geometry.offset * item, static_cast<size_t>(count * item));
  }
  // Returns whether a weight of the graph that nothing writes has 16 adjacent values at most.
  bool HasFourBits(ValueId v) const {
    const absl::Span<const uint8_t> bytes = BytesOf(v);
    const int shift = Type(v).dtype == DType::kInt8 ? 8 : 0;  // -8 to 7 become 0 to 15
    bool fits = !bytes.empty();
    for (const uint8_t byte : bytes) fits = fits && static_cast<uint8_t>(byte + shift) < 16;
    return fits;
  }
  // Returns whether each zero point is that of no shift.
  bool IsZero(ValueId zeros) const {
    if (!zeros.valid()) return true;
    if (!IsTensor(zeros) || !IsIntegral(*Type(zeros).dtype)) return false;
    const absl::Span<const uint8_t> bytes = BytesOf(InOrder(zeros));
    return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
  }

  // The weight that a product reads, as [columns, depth] or, `transposed`, as [depth, columns].
  std::optional<Int4Weight> InGroups(ValueId v, bool transposed) const {
    if (!IsTensor(v) || Type(v).rank() != 2 || !IsProductDType(Type(v).dtype) || g_.IsParam(g_.value(v).def))
      return std::nullopt;
    const std::vector<Expr>& sizes = *Type(v).sizes;
    Int4Weight w;
    w.columns = sizes[transposed ? 1 : 0];
    w.depth = sizes[transposed ? 0 : 1];
    const std::optional<int64_t> columns = w.columns.Constant(), depth = w.depth.Constant();
    if (!columns || !depth || *columns < 1 || *depth < 1) return std::nullopt;
    ValueId source = v;
    if (transposed) {
      const Node& view = g_.node(g_.value(v).def);
      if (view.op != op::kSmeltView || !StartsAtZero(view) || *Type(v).strides != std::vector<Expr>{1, w.depth})
        return std::nullopt;
      source = view.inputs[0];
      if (!IsContiguous(source) || Product(*Type(source).sizes) != w.columns * w.depth ||
          Type(source).dtype != Type(v).dtype)
        return std::nullopt;
    }
    source = InOrder(source);
    if (!IsContiguous(source) || g_.IsParam(g_.value(source).def)) return std::nullopt;
    const NodeId def = g_.value(source).def;
    const absl::string_view name = g_.node(def).op.name();
    if (name == kDequantizePerGroup || name == kDequantizeAffine) {
      if (!InFourBits(def, w)) return std::nullopt;
    } else if (!Written(def, w)) {
      return std::nullopt;
    }
    // One scale for each group of a row, and as many zeros.
    if (!IsBytes(w.elements) || Product(*Type(w.elements).sizes) != w.columns * w.depth || !IsContiguous(w.scales) ||
        !IsProductDType(Type(w.scales).dtype))
      return std::nullopt;
    const std::optional<int64_t> scales = Product(*Type(w.scales).sizes).Constant();
    if (!scales || *scales < 1 || *scales % *columns != 0 || *depth % (*scales / *columns) != 0) return std::nullopt;
    w.groups = *scales / *columns;
    if (w.zeros.valid()) {
      if (!IsContiguous(w.zeros) || Product(*Type(w.zeros).sizes) != Expr(*scales)) return std::nullopt;
      const DType t = *Type(w.zeros).dtype;
      if (!IsProductDType(t) && !IsIntegral(t)) return std::nullopt;
    }
    return w;
  }
  // Reads the operands of dequantize_per_channel_group and dequantize_affine, whose range has 4 bits.
  bool InFourBits(NodeId def, Int4Weight& w) const {
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, def);
    if (!call.ok()) return false;
    const absl::StatusOr<int64_t> low = call->GetInt("quant_min"), high = call->GetInt("quant_max");
    if (!low.ok() || !high.ok() || (*low < -8 || *high > 15 || (*low < 0 && *high > 7))) return false;
    w.elements = In(def, 0);
    if (!IsBytes(w.elements) || Type(w.elements).rank() != 2) return false;
    if (g_.node(def).op.name() == kDequantizePerGroup) {
      w.scales = In(def, 1);
      w.zeros = IsTensor(In(def, 2)) ? In(def, 2) : ValueId();
      const absl::StatusOr<int64_t> group = call->GetInt("group_size");
      return group.ok() && HasGroups(w, *group);
    }
    w.scales = In(def, 2);
    w.zeros = IsTensor(In(def, 3)) ? In(def, 3) : ValueId();
    const absl::StatusOr<std::vector<int64_t>> block = call->GetInts("block_size");
    return block.ok() && block->size() == 2 && (*block)[0] == 1 && HasGroups(w, (*block)[1]);
  }
  bool HasGroups(const Int4Weight& w, int64_t group) const {
    return group >= 1 && IsTensor(w.scales) && Product(*Type(w.scales).sizes) * Expr(group) == w.columns * w.depth;
  }
  // Reads (q - zeros) * scales or q * scales, for q [columns, groups, elements] and the others [columns, groups, 1].
  bool Written(NodeId def, Int4Weight& w) const {
    if (g_.node(def).op.name() != op::kMul) return false;
    ValueId q = In(def, 0);
    const ValueId scales = In(def, 1), product = g_.node(def).outputs[0];
    if (!HasGroupSizes(product, scales, w)) return false;
    if (!IsTensor(q) || *Type(q).sizes != *Type(product).sizes || Type(q).dtype != Type(product).dtype) return false;
    if (const NodeId sub = g_.value(q).def; !g_.IsParam(sub) && g_.node(sub).op.name() == op::kSub) {
      if (!IsOne(In(sub, 2)) || !HasGroupSizes(product, In(sub, 1), w)) return false;
      w.zeros = Unconverted(In(sub, 1));
      q = In(sub, 0);
      if (!IsTensor(q) || *Type(q).sizes != *Type(product).sizes || Type(q).dtype != Type(product).dtype) return false;
    }
    w.elements = Unconverted(q);
    w.scales = InOrder(scales);
    return IsBytes(w.elements) && HasFourBits(w.elements);
  }
  bool HasGroupSizes(ValueId product, ValueId v, const Int4Weight& w) const {
    if (!IsTensor(v)) return false;
    const std::vector<Expr>&all = *Type(product).sizes, &own = *Type(v).sizes;
    return all.size() == 3 && own.size() == 3 && all[0] == w.columns && all[1] * all[2] == w.depth &&
           own[0] == all[0] && own[1] == all[1] && own[2] == Expr(1);
  }

  absl::Status Replace(NodeId n, ValueId rows, const std::optional<Int4Weight>& w, ValueId bias) {
    if (!w || !IsTensor(rows) || Type(rows).rank() < 1) return absl::OkStatus();
    for (ValueId read : {w->elements, w->scales, w->zeros}) {
      if (read.valid() && IsWritten(read)) return absl::OkStatus();
    }
    Emit e(g_, n);
    const std::vector<Expr> sizes = e.Sizes(rows);
    const ValueId flat = e.Reshape(rows, {Product(absl::MakeSpan(sizes).first(sizes.size() - 1)), sizes.back()});
    const ValueId scales = e.View(w->scales, {w->columns, w->groups});
    const ValueId zeros = w->zeros.valid() ? e.View(w->zeros, {w->columns, w->groups}) : scales;
    const Int4Form form = w->zeros.valid() ? Int4Form::kBytesWithZeros : Int4Form::kBytes;
    ValueId out =
        e.Op(absl::StrCat(op::kSmeltNamespace, "int4_mm"),
             {flat, e.View(w->elements, {w->columns, w->depth}), scales, zeros, e.Const(static_cast<int64_t>(form))});
    if (bias.valid() && g_.value(bias).type.IsTensor()) out = e.Add(out, bias);
    std::vector<Expr> result(sizes.begin(), sizes.end() - 1);
    result.push_back(w->columns);
    out = e.View(out, result);
    if (!e.ok()) return e.status();
    return e.ReplaceNode({out});
  }

  // Reads rows of float32 that a node dequantizes, or images in any order of memory.
  std::optional<QuantizedRows> RowsOf(ValueId v, bool in_order = true) const {
    if (!IsTensor(v) || Type(v).dtype != DType::kFloat32 || g_.IsParam(g_.value(v).def)) return std::nullopt;
    const NodeId def = g_.value(v).def;
    const absl::string_view name = g_.node(def).op.name();
    QuantizedRows r;
    r.by_row = name == kDequantizePerToken;
    if (!r.by_row && !absl::StartsWith(name, kDequantizePerTensor)) return std::nullopt;
    r.elements = In(def, 0);
    if (!IsTensor(r.elements) || *Type(r.elements).sizes != *Type(v).sizes) return std::nullopt;
    const DType t = *Type(r.elements).dtype;
    if ((t != DType::kInt8 && t != DType::kUInt8) || (in_order && !IsContiguous(r.elements))) return std::nullopt;
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, def);
    // (Other operators check the dtype.)
    if (!call.ok() || call->GetDType("dtype") != Type(r.elements).dtype) return std::nullopt;
    if (g_.value(In(def, 1)).type.IsTensor()) {
      r.scale = In(def, 1);
      r.zero = In(def, 2);
      if (!IsTensor(r.scale) || !IsFloating(*Type(r.scale).dtype) || !IsTensor(r.zero) ||
          !IsIntegral(*Type(r.zero).dtype))
        return std::nullopt;
      const std::vector<Expr>& sizes = *Type(v).sizes;
      const Expr numbers = r.by_row ? Product(absl::MakeConstSpan(sizes).first(sizes.size() - 1)) : Expr(1);
      if (Product(*Type(r.scale).sizes) != numbers || Product(*Type(r.zero).sizes) != numbers) return std::nullopt;
      return r;
    }
    const absl::StatusOr<double> scale = call->GetDouble("scale");
    const absl::StatusOr<int64_t> zero = call->GetInt("zero_point");
    if (!scale.ok() || !zero.ok() || *zero < -255 || *zero > 255) return std::nullopt;
    r.known_scale = *scale;
    r.known_zero = *zero;
    return r;
  }

  // A linear layer of dequantized bytes and a dequantized weight of int8 becomes a product of the bytes themselves: the
  // sums are of int32, and the zero point of the rows takes off a multiple of the sum of each weight's row.
  absl::Status ReplaceByIntegers(NodeId n) {
    const std::optional<QuantizedRows> r = RowsOf(In(n, 0));
    if (!r || Type(In(n, 0)).rank() < 1) return absl::OkStatus();
    const std::optional<QuantizedWeight> w = Widened(In(n, 1), DType::kFloat32);
    if (!w || !IsInt8Matrix(w->elements) || !IsZero(w->zeros)) return absl::OkStatus();
    const std::optional<int64_t> depth = Type(w->elements).sizes->back().Constant();
    if (!depth || *depth > kMostDepth) return absl::OkStatus();
    for (ValueId read : {r->elements, r->scale, r->zero, w->elements, w->scales, w->zeros}) {
      if (read.valid() && IsWritten(read)) return absl::OkStatus();
    }
    Emit e(g_, n);
    const std::vector<Expr> sizes = e.Sizes(In(n, 0));
    const Expr rows = Product(absl::MakeConstSpan(sizes).first(sizes.size() - 1)), columns = e.Sizes(w->elements)[0];
    const ValueId bias = In(n, 2), flat = e.Reshape(r->elements, {rows, sizes.back()});
    ValueId out = e.Op(absl::StrCat(op::kAtenNamespace, "_int_mm"), {flat, e.Transpose(w->elements, 0, 1)});
    const auto weight_sums = [&] { return e.Op(absl::StrCat(op::kSmeltNamespace, "row_sums"), {w->elements}); };
    const auto of_rows = [&](ValueId v) { return r->by_row ? e.Reshape(v, {rows, Expr(1)}) : e.Reshape(v, {Expr(1)}); };
    if (r->zero.valid()) {
      // Nothing says how large it is.
      const ValueId wide_sums = e.Cast(weight_sums(), DType::kInt64);
      const ValueId less = e.Mul(wide_sums, of_rows(e.Cast(r->zero, DType::kInt64)));
      out = e.Sub(e.Cast(out, DType::kInt64), less);
    } else if (r->known_zero != 0) {
      const ValueId less = e.Op(op::kMulScalar, {weight_sums(), e.Const(r->known_zero)});
      out = e.Sub(out, less);
    }
    out = e.Cast(out, DType::kFloat32);
    out = r->scale.valid() ? e.Mul(out, of_rows(e.Cast(r->scale, DType::kFloat32))) : e.MulN(out, r->known_scale);
    if (w->scales.valid()) out = e.Mul(out, e.Cast(w->scales, DType::kFloat32));
    return ReplaceProduct(e, out, bias, sizes, columns);
  }

  // Reads a convolution's weight of int8 that a node dequantizes: per output channel, or by one scale that is known.
  std::optional<QuantizedRows> KernelOf(ValueId v) const {
    if (const std::optional<QuantizedRows> r = RowsOf(v)) {
      const bool fits =
          !r->by_row && !r->scale.valid() && r->known_zero == 0 && Type(r->elements).dtype == DType::kInt8;
      return fits ? r : std::nullopt;
    }
    if (!IsTensor(v) || Type(v).dtype != DType::kFloat32 || g_.IsParam(g_.value(v).def)) return std::nullopt;
    const NodeId def = g_.value(v).def;
    if (g_.node(def).op.name() != kDequantizePerChannel) return std::nullopt;
    const auto axis = GetConstant(g_, In(def, 3));
    const int64_t* number = axis ? std::get_if<int64_t>(&*axis) : nullptr;
    const ValueId zeros = g_.value(In(def, 2)).type.IsTensor() ? In(def, 2) : ValueId();
    if (number == nullptr || *number != 0 || !IsContiguous(In(def, 0)) || Type(In(def, 0)).dtype != DType::kInt8 ||
        !IsTensor(In(def, 1)) || !IsZero(zeros))
      return std::nullopt;
    QuantizedRows r;
    r.elements = In(def, 0);
    r.scale = In(def, 1);
    return r;
  }

  // Returns an argument that has a number for each spatial dim, or one for all of them; empty for padding "same".
  static std::optional<std::vector<int64_t>> PerDim(const OpCall& call, absl::string_view name, int dims,
                                                    int64_t fallback) {
    if (call.Find(name) == nullptr || call.IsNone(name)) return std::vector<int64_t>(dims, fallback);
    absl::StatusOr<std::vector<int64_t>> list = call.GetInts(name);
    if (!list.ok()) return std::nullopt;
    if (list->empty()) *list = {fallback};
    if (list->size() == 1) list->resize(dims, (*list)[0]);
    if (static_cast<int>(list->size()) != dims) return std::nullopt;
    return *list;
  }

  // A convolution of dequantized bytes becomes one of the bytes: the sums are of int32. Groups, whose products would be
  // narrow, and numbers that only the run knows leave it as it is.
  absl::Status ReplaceConvolution(NodeId n) {
    const std::optional<QuantizedRows> x = RowsOf(In(n, 0), /*in_order=*/false);
    if (!x || x->by_row || x->scale.valid()) return absl::OkStatus();
    const std::optional<QuantizedRows> w = KernelOf(In(n, 1));
    const int rank = Type(In(n, 0)).rank();
    if (!w || Type(w->elements).rank() != rank || rank < 3 || rank > 5) return absl::OkStatus();
    const std::vector<Expr>& sizes = *Type(w->elements).sizes;
    const std::optional<int64_t> depth = Product(absl::MakeConstSpan(sizes).subspan(1)).Constant();
    const int64_t low = Type(x->elements).dtype == DType::kUInt8 ? 0 : -128;
    if (!depth || *depth < 1 || *depth > kMostDepth || x->known_zero < low || x->known_zero > low + 255)
      return absl::OkStatus();
    for (ValueId read : {x->elements, w->elements, w->scale}) {
      if (read.valid() && IsWritten(read)) return absl::OkStatus();
    }
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, n);
    if (!call.ok()) return absl::OkStatus();
    const absl::StatusOr<bool> transposed = call->GetBoolOr("transposed", false);
    const absl::StatusOr<int64_t> groups = call->GetIntOr("groups", 1);
    if (!transposed.ok() || *transposed || !groups.ok() || *groups != 1) return absl::OkStatus();
    const std::optional<std::vector<int64_t>> stride = PerDim(*call, "stride", rank - 2, 1),
                                              padding = PerDim(*call, "padding", rank - 2, 0),
                                              dilation = PerDim(*call, "dilation", rank - 2, 1);
    if (!stride || !padding || !dilation) return absl::OkStatus();
    Emit e(g_, n);
    std::vector<ValueId> operands = {x->elements, w->elements};
    for (const auto* list : {&*stride, &*padding, &*dilation}) operands.push_back(e.Const(*list));
    operands.push_back(e.Const(x->known_zero));
    ValueId out = e.Op(absl::StrCat(op::kSmeltNamespace, "int8_convolution"), operands);
    out = e.MulN(e.Cast(out, DType::kFloat32), x->known_scale);
    std::vector<Expr> channels(rank - 1, Expr(1));
    channels[0] = sizes[0];
    if (w->scale.valid()) {
      const ValueId scales = e.Cast(w->scale, DType::kFloat32);
      out = e.Mul(out, e.Reshape(scales, channels));
    } else {
      out = e.MulN(out, w->known_scale);
    }
    const ValueId bias = In(n, 2);
    if (bias.valid() && g_.value(bias).type.IsTensor()) out = e.Add(out, e.Reshape(bias, channels));
    if (!e.ok()) return e.status();
    return e.ReplaceNode({out});
  }

  // Replaces a node by a product of rows, whose sizes are `sizes`, and its bias, if there is one.
  absl::Status ReplaceProduct(Emit& e, ValueId out, ValueId bias, const std::vector<Expr>& sizes, const Expr& columns) {
    if (bias.valid() && g_.value(bias).type.IsTensor()) out = e.Add(out, bias);
    std::vector<Expr> result(sizes.begin(), sizes.end() - 1);
    result.push_back(columns);
    out = e.View(out, result);
    if (!e.ok()) return e.status();
    return e.ReplaceNode({out});
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
    const ValueId scales = w->scales.valid()
                               ? e.Reshape(e.Cast(w->scales, DType::kFloat32), {Product(e.Sizes(w->scales))})
                               : e.Full(DType::kFloat32, {1}, 1);
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
    return ReplaceProduct(e, out, bias, sizes, columns);
  }

  // The sums of the rows of a weight of int8, which torchao's products of uint8 take off, are the same in each call.
  absl::Status ReplaceSums(NodeId n) {
    const ValueId summed = In(n, 0), result = g_.node(n).outputs[0];
    const ValueId base = Transposed(summed).valid() ? Transposed(summed) : summed;
    if (!IsInt8Matrix(base) || BytesOf(base).empty() || IsWritten(base) || !IsTensor(result) ||
        Type(result).dtype != DType::kInt32)
      return absl::OkStatus();
    const absl::StatusOr<OpCall> call = OpCall::Of(g_, n);
    if (!call.ok()) return absl::OkStatus();
    const absl::StatusOr<std::vector<int64_t>> dims = call->GetInts("dim");
    const int64_t depth = base == summed ? 1 : 0;
    if (!dims.ok() || dims->size() != 1 || ((*dims)[0] != depth && (*dims)[0] != depth - 2)) return absl::OkStatus();
    Emit e(g_, n);
    const ValueId sums = e.View(e.Op(absl::StrCat(op::kSmeltNamespace, "row_sums"), {base}), *Type(result).sizes);
    if (!e.ok()) return e.status();
    return e.ReplaceNode({sums});
  }

  Graph& g_;
  const OpName sum_ = OpName::Get(op::kSumDimIntList);
  const OpName mm_ = OpName::Get(op::kMm), matmul_ = OpName::Get(absl::StrCat(op::kAtenNamespace, "matmul"));
  const OpName linear_ = OpName::Get(absl::StrCat(op::kAtenNamespace, "linear"));
  const OpName convolutions_[4] = {OpName::Get(op::kConv1d), OpName::Get(absl::StrCat(op::kAtenNamespace, "conv2d")),
                                   OpName::Get(absl::StrCat(op::kAtenNamespace, "conv3d")),
                                   OpName::Get(op::kConvolution)};
};

}  // namespace

absl::Status UseQuantizedWeights(Graph& g) { return WeightFinder(g).Run(); }

}  // namespace smelt
