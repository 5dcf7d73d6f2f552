#include "smelt/fuser/written_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 31;  // no two places are so far apart

// The scores of a softmax: cap(scale * query keys) + mask, where `keys` has the keys in its columns.
struct Scores {
  ValueId query, keys, mask;
  double scale = 1, cap = 0;
  bool excludes = false;  // the mask is true where a key does not count
};

class AttentionFinder {
 public:
  explicit AttentionFinder(Graph& g) : g_(g) {}

  absl::Status Run() {
    for (NodeId n : g_.AllNodes()) {
      if (!g_.IsLive(n)) continue;
      const OpName op = g_.node(n).op;
      if (op == matmul_ || op == op::kBmm) SMELT_RETURN_IF_ERROR(Replace(n));
      if (op == flash_) SMELT_RETURN_IF_ERROR(ReplaceFlash(n));
    }
    return absl::OkStatus();
  }

 private:
  OpName Aten(absl::string_view name) { return OpName::Get(absl::StrCat(op::kAtenNamespace, name)); }

  ValueId In(NodeId n, int i) const {
    const Node& node = g_.node(n);
    return i < static_cast<int>(node.inputs.size()) ? node.inputs[i] : ValueId();
  }
  bool IsTensor(ValueId v) const {
    return v.valid() && g_.value(v).type.IsTensor() && g_.value(v).type.tensor().IsComplete();
  }
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  // Returns the node that computes a tensor for one reader alone.
  std::optional<NodeId> Only(ValueId v) const {
    if (!IsTensor(v) || g_.value(v).uses.size() != 1 || g_.IsParam(g_.value(v).def)) return std::nullopt;
    return g_.value(v).def;
  }
  std::optional<double> Number(ValueId v) const {
    const auto constant = v.valid() ? GetConstant(g_, v) : std::nullopt;
    if (!constant) return std::nullopt;
    if (const double* number = std::get_if<double>(&*constant)) return *number;
    if (const int64_t* number = std::get_if<int64_t>(&*constant)) return static_cast<double>(*number);
    return std::nullopt;
  }
  bool IsNone(ValueId v) const { return !v.valid() || g_.value(v).type.kind() == TypeKind::kNone; }
  static bool IsAttentionDType(DType t) {
    return t == DType::kFloat32 || t == DType::kBFloat16 || t == DType::kFloat16;
  }

  // Returns whether a node writes into the memory of the value, which a read must then not be moved behind.
  bool IsWritten(ValueId v) const {
    const NodeId view = ViewNodeOf(g_, v);
    const ValueId memory = view.valid() ? In(view, 0) : v;
    for (ValueId seen : {v, memory}) {
      for (const Use& use : g_.value(seen).uses) {
        if (g_.IsReturn(use.user)) continue;
        const Node& user = g_.node(use.user);
        if (user.op == op::kSmeltWriteRegion && use.index == 0) return true;
        if (!user.blocks.empty() || absl::StartsWith(user.op.name(), op::kSmeltCall)) return true;
      }
    }
    return false;
  }

  // Returns the value of which `v` shows all elements in their order, in the same last two dims; else `v`.
  ValueId Unviewed(ValueId v) const {
    const auto def = Only(v);
    if (!def || g_.node(*def).op != op::kSmeltView || g_.node(*def).FindAttribute("argument") != nullptr) return v;
    const ValueId base = In(*def, 0);
    if (!Only(base) || g_.node(g_.value(base).def).op == op::kSmeltWriteRegion) return v;
    const std::vector<Expr>&from = *T(base).sizes, &to = *T(v).sizes;
    if (from.size() < 2 || to.size() < 2 || T(base).dtype != T(v).dtype ||
        RegionGeometry(g_.node(*def)).offset != Expr(0))
      return v;
    const bool whole = *T(base).strides == ContiguousStrides(from) && *T(v).strides == ContiguousStrides(to) &&
                       from[from.size() - 2] == to[to.size() - 2] && from.back() == to.back() &&
                       Product(Leading(from)) == Product(Leading(to));
    return whole ? base : v;
  }
  static absl::Span<const Expr> Leading(const std::vector<Expr>& sizes) {
    return absl::MakeSpan(sizes).first(sizes.size() - 2);
  }
  // Returns the operand of a conversion between floating-point dtypes of one reader; else `v`.
  ValueId Unconverted(ValueId v) const {
    const auto def = Only(v);
    if (!def || GetOpTraits(g_.node(*def).op).family != OpFamily::kConversion) return v;
    const ValueId from = In(*def, 0);
    return IsTensor(from) && IsAttentionDType(*T(from).dtype) && *T(from).sizes == *T(v).sizes ? from : v;
  }

  // Multiplications by a number, and divisions: returns the operand, and the factor.
  std::optional<std::pair<ValueId, double>> Scaled(NodeId n) const {
    const OpName op = g_.node(n).op;
    const bool times = op == op::kMulTensor || op == op::kMulScalar, by = op == op::kDivTensor || op == div_scalar_;
    const auto number = times || by ? Number(In(n, 1)) : std::nullopt;
    if (!number || !IsTensor(In(n, 0)) || !(std::isfinite(*number) && *number > 0)) return std::nullopt;
    return std::pair<ValueId, double>{In(n, 0), by ? 1 / *number : *number};
  }

  // Reads the mask of `n`, whose result has the sizes `sizes`. Returns the scores without it; invalid if `n` is no mask.
  ValueId Unmasked(NodeId n, const std::vector<Expr>& sizes, Scores& scores) const {
    const OpName op = g_.node(n).op;
    if (op == op::kAddTensor) {
      if (Number(In(n, 2)) != 1.0 || !IsTensor(In(n, 0)) || !IsTensor(In(n, 1))) return ValueId();
      // Only one of the two is computed by a product: the other one is the mask.
      const int at = EndsInProduct(In(n, 0)) ? 0 : 1;
      if (!EndsInProduct(In(n, at)) || *T(In(n, at)).sizes != sizes) return ValueId();
      scores.mask = In(n, 1 - at);
      return IsAttentionDType(*T(scores.mask).dtype) ? In(n, at) : ValueId();
    }
    const bool filled = op == masked_fill_, chosen = op == where_other_ || op == op::kWhereSelf;
    if (!filled && !chosen) return ValueId();
    const ValueId kept = In(n, chosen ? 1 : 0), mask = In(n, chosen ? 0 : 1);
    if (!IsTensor(kept) || !IsTensor(mask) || T(mask).dtype != DType::kBool || *T(kept).sizes != sizes)
      return ValueId();
    if (NumberOrFilled(In(n, 2)) != -HUGE_VAL) return ValueId();
    scores.mask = mask;
    scores.excludes = filled;
    return kept;
  }
  // A number, or a tensor without dims that is made from one.
  std::optional<double> NumberOrFilled(ValueId v) const {
    if (!IsTensor(v) || T(v).rank() != 0 || g_.IsParam(g_.value(v).def)) return Number(v);
    const NodeId def = g_.value(v).def;
    if (g_.node(def).op == scalar_tensor_) return Number(In(def, 0));
    if (g_.node(def).op == full_) return Number(In(def, 1));
    return std::nullopt;
  }
  bool EndsInProduct(ValueId v) const {
    for (int steps = 0; steps < 8; ++steps) {
      v = Unviewed(Unconverted(v));
      const auto def = Only(v);
      if (!def) return false;
      const OpName op = g_.node(*def).op;
      if (op == matmul_ || op == op::kBmm || op == op::kBaddbmm) return true;
      if (op == op::kWhereSelf || op == where_other_) {
        v = In(*def, 1);
      } else if (Scaled(*def) || op == tanh_ || op == masked_fill_ || op == op::kAddTensor) {
        v = In(*def, 0);
      } else {
        return false;
      }
    }
    return false;
  }

  std::optional<Scores> ReadScores(ValueId v) const {
    const std::vector<Expr> sizes = *T(v).sizes;
    Scores scores;
    bool scaled = false;
    for (int steps = 0; steps < 16; ++steps) {
      v = Unconverted(v);
      if (const ValueId base = Unviewed(v); base != v) {
        v = base;
        continue;
      }
      const auto def = Only(v);
      if (!def) return std::nullopt;
      const OpName op = g_.node(*def).op;
      if (op == matmul_ || op == op::kBmm) {
        scores.query = In(*def, 0);
        scores.keys = In(*def, 1);
        return scores;
      }
      if (op == op::kBaddbmm && !scores.mask.valid() && !scaled) {
        const auto beta = Number(In(*def, 3)), alpha = Number(In(*def, 4));
        if (beta != 1.0 && beta != 0.0) return std::nullopt;
        if (!alpha) return std::nullopt;
        if (beta == 1.0) scores.mask = In(*def, 0);
        scores.scale = *alpha;
        scores.query = In(*def, 1);
        scores.keys = In(*def, 2);
        return scores;
      }
      if (const auto factor = Scaled(*def)) {
        const auto inner = Only(factor->first);
        if (inner && g_.node(*inner).op == tanh_) {
          // c * tanh(s / c)
          const auto divided = Only(In(*inner, 0));
          const auto divisor = divided ? Scaled(*divided) : std::nullopt;
          if (scaled || scores.cap > 0 || !divisor || std::fabs(divisor->second * factor->second - 1) > 1e-12)
            return std::nullopt;
          scores.cap = factor->second;
          v = divisor->first;
        } else {
          scores.scale *= factor->second;
          v = factor->first;
          scaled = true;
        }
        continue;
      }
      if (scaled || scores.cap > 0 || scores.mask.valid()) return std::nullopt;
      v = Unmasked(*def, *T(v).sizes, scores);
      if (!v.valid()) return std::nullopt;
    }
    return std::nullopt;
  }

  // Returns `v`, [.., rows, columns], with the leading sizes of the scores, where each may be 1; invalid if it has
  // others.
  ValueId Shaped(Emit& e, ValueId v, absl::Span<const Expr> leading) const {
    const std::vector<Expr> sizes = e.Sizes(v);
    if (sizes.size() < 2) return ValueId();
    const absl::Span<const Expr> own = Leading(sizes);
    if (own.size() == leading.size()) {
      for (size_t d = 0; d < own.size(); ++d) {
        if (own[d] != leading[d] && own[d] != Expr(1)) return ValueId();
      }
      return v;
    }
    if (Product(own) != Product(leading)) return ValueId();
    std::vector<Expr> to(leading.begin(), leading.end());
    to.insert(to.end(), sizes.end() - 2, sizes.end());
    return e.Reshape(v, to);
  }

  // Returns the keys or values before they were repeated for the heads of queries; invalid if they were not. Repeated
  // ones are a copy of an expanded view [.., heads, times, rows, columns], of which v shows all in fewer dims.
  ValueId Unrepeated(Emit& e, ValueId v, absl::Span<const Expr> leading, bool transposed) const {
    const NodeId view = ViewNodeOf(g_, v);
    if (!view.valid() || leading.empty()) return ValueId();
    SymbolicGeometry seen = RegionGeometry(g_.node(view));
    const size_t rank = seen.sizes.size();
    const ValueId copy = In(view, 0);
    if (!IsTensor(copy) || g_.IsParam(g_.value(copy).def)) return ValueId();
    if (transposed) {
      std::swap(seen.sizes[rank - 1], seen.sizes[rank - 2]);
      std::swap(seen.strides[rank - 1], seen.strides[rank - 2]);
    }
    if (seen.offset != Expr(0) || seen.strides != ContiguousStrides(seen.sizes)) return ValueId();
    const NodeId copies = g_.value(copy).def;
    if (g_.node(copies).op != op::kSmeltMaterialize && g_.node(copies).op.name() != op::kClone) return ValueId();
    const ValueId wide = In(copies, 0);
    if (!IsTensor(wide)) return ValueId();
    const std::vector<Expr> sizes = *T(wide).sizes;
    const size_t repeated = leading.size();
    if (sizes.size() != leading.size() + 3 || *T(copy).sizes != sizes || *T(copy).strides != ContiguousStrides(sizes) ||
        T(wide).dtype != T(copy).dtype || T(copy).dtype != seen.dtype || IsWritten(wide)) {
      return ValueId();
    }
    // All of the copy, in rows of the same length.
    if (seen.sizes[rank - 2] != sizes[repeated + 1] || seen.sizes[rank - 1] != sizes[repeated + 2] ||
        Product(Leading(seen.sizes)) != Product(Leading(sizes))) {
      return ValueId();
    }
    const Expr times = sizes[repeated], heads = sizes[repeated - 1];
    if ((*T(wide).strides)[repeated] != Expr(0) || !times.IsConstant() || !heads.IsConstant() ||
        heads * times != leading.back() || !std::equal(leading.begin(), leading.end() - 1, sizes.begin())) {
      return ValueId();
    }
    const ValueId out = e.Select(wide, static_cast<int64_t>(repeated), Expr(0));
    return transposed ? e.Transpose(out, -2, -1) : out;
  }
  ValueId KeysOrValues(Emit& e, ValueId v, absl::Span<const Expr> leading, bool transposed) const {
    const ValueId shared = Unrepeated(e, v, leading, transposed);
    return shared.valid() ? shared : Shaped(e, v, leading);
  }

  absl::Status Replace(NodeId n) {
    const ValueId value = In(n, 1);
    const ValueId weights = Unviewed(Unconverted(Unviewed(In(n, 0))));
    const auto softmax = Only(weights);
    if (!softmax || !IsTensor(value)) return absl::OkStatus();
    const OpName op = g_.node(*softmax).op;
    const bool safe = op == safe_softmax_;
    if (!safe && op != softmax_ && op != private_softmax_) return absl::OkStatus();
    const ValueId last = In(*softmax, 0);
    if (!IsTensor(last) || T(last).rank() < 2) return absl::OkStatus();
    const int rank = T(last).rank();
    const auto dim = Number(In(*softmax, 1));
    if (!dim || (*dim != -1 && *dim != rank - 1) || !IsAttentionDType(*T(last).dtype) ||
        !IsAttentionDType(*T(weights).dtype)) {
      return absl::OkStatus();
    }
    const auto scores = ReadScores(last);
    if (!scores || !IsTensor(scores->query) || !IsTensor(scores->keys) || T(scores->query).rank() < 2 ||
        T(scores->keys).rank() < 2 || T(value).rank() < 2) {
      return absl::OkStatus();
    }
    const DType t = *T(value).dtype;
    if (!IsAttentionDType(t) || T(scores->query).dtype != t || T(scores->keys).dtype != t) return absl::OkStatus();
    for (ValueId read : {scores->query, scores->keys, value, scores->mask}) {
      if (read.valid() && IsWritten(read)) return absl::OkStatus();
    }
    const std::vector<Expr> sizes = *T(last).sizes, result = *T(g_.node(n).outputs[0]).sizes;
    const absl::Span<const Expr> leading = Leading(sizes);
    // The mask's sizes are those of the scores or 1.
    if (scores->mask.valid()) {
      const std::vector<Expr>& own = *T(scores->mask).sizes;
      const size_t missing = sizes.size() - std::min(sizes.size(), own.size());
      if (own.size() > sizes.size()) return absl::OkStatus();
      for (size_t d = 0; d < own.size(); ++d) {
        if (own[d] != Expr(1) && own[d] != sizes[missing + d]) return absl::OkStatus();
      }
    }
    if (!HasShape(scores->query, leading, false) || !HasShape(scores->keys, leading, true) ||
        !HasShape(value, leading, true)) {
      return absl::OkStatus();
    }
    Emit e(g_, n);
    const ValueId query = Shaped(e, scores->query, leading);
    const ValueId keys = KeysOrValues(e, scores->keys, leading, /*transposed=*/true);
    const ValueId key = e.Transpose(keys, -2, -1);
    const ValueId values = KeysOrValues(e, value, leading, /*transposed=*/false);
    ValueId mask = scores->mask;
    if (mask.valid()) {
      if (scores->excludes) mask = e.Op(op::kLogicalNot, {mask});
      for (int d = e.ok() ? e.Rank(mask) : rank; d < rank; ++d) mask = e.Unsqueeze(mask, 0);
    } else {
      mask = e.None();
    }
    ValueId out = e.Op(absl::StrCat(op::kSmeltNamespace, "attention"),
                       {query, key, values, mask, e.Const(scores->scale), e.Const(scores->cap), e.Const(-kUnbounded),
                        e.Const(kUnbounded), e.Const(!safe), e.Const(false)});
    if (e.ok() && e.Sizes(out) != result) out = e.View(out, result);
    if (!e.ok()) return e.status();
    return e.ReplaceNode({out});
  }
  // _scaled_dot_product_flash_attention_for_cpu, of which nothing reads the second result, which a gradient needs.
  absl::Status ReplaceFlash(NodeId n) {
    const ValueId out = g_.node(n).outputs[0];
    if (!g_.value(g_.node(n).outputs[1]).uses.empty() || !IsTensor(out)) return absl::OkStatus();
    Emit e(g_, n);
    const ValueId none = e.None();
    const ValueId mask = In(n, 5), scale = In(n, 6), dropout = In(n, 3), causal = In(n, 4);
    const ValueId attended =
        e.Op(absl::StrCat(op::kAtenNamespace, "scaled_dot_product_attention"),
             {In(n, 0), In(n, 1), In(n, 2), mask.valid() ? mask : none, dropout.valid() ? dropout : e.Const(0.0),
              causal.valid() ? causal : e.Const(false), scale.valid() ? scale : none, e.Const(false)});
    if (!e.ok()) return e.status();
    if (!IsTensor(attended) || g_.value(attended).type != g_.value(out).type) return absl::OkStatus();
    return e.ReplaceNode({attended, ValueId()});
  }
  // Returns whether Shaped has an answer, and one of equal sizes unless sizes of 1 are allowed.
  bool HasShape(ValueId v, absl::Span<const Expr> leading, bool ones) const {
    const absl::Span<const Expr> own = Leading(*T(v).sizes);
    if (own.size() != leading.size()) return Product(own) == Product(leading);
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] != leading[d] && !(ones && own[d] == Expr(1))) return false;
    }
    return true;
  }

  Graph& g_;
  const OpName matmul_ = Aten("matmul"), softmax_ = Aten("softmax.int"), private_softmax_ = Aten("_softmax"),
               safe_softmax_ = Aten("_safe_softmax"), div_scalar_ = Aten("div.Scalar"), tanh_ = Aten("tanh"),
               masked_fill_ = Aten("masked_fill.Scalar"), where_other_ = Aten("where.ScalarOther"),
               scalar_tensor_ = Aten("scalar_tensor"), full_ = Aten("full"),
               flash_ = Aten("_scaled_dot_product_flash_attention_for_cpu");
};

}  // namespace

absl::Status UseAttention(Graph& g) { return AttentionFinder(g).Run(); }

}  // namespace smelt
