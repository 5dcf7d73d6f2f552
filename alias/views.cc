#include "smelt/alias/views.h"

#include <algorithm>
#include <utility>

#include "smelt/alias/box_of_view.h"
#include "smelt/alias/boxes.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/view_op.h"

namespace smelt::alias_internal {

namespace {

// Returns whether the node's views have the dtype of what they are views of.
bool KeepsDtype(const Node& node) {
  const ViewOp* view = ViewOpOf(node);
  return view != nullptr && !view->changes_dtype;
}

// The attributes of smelt::view state where its result lies.
std::optional<SymbolicGeometry> SaidGeometry(const Node& node, const Type& type, DType base_dtype) {
  const Attribute *sizes = node.FindAttribute("sizes"), *strides = node.FindAttribute("strides"),
                  *offset = node.FindAttribute("offset");
  const auto exprs = [](const Attribute* a) {
    std::vector<Expr> out;
    if (a == nullptr) return out;
    if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
    if (const auto* i = std::get_if<std::vector<int64_t>>(a)) out.assign(i->begin(), i->end());
    return out;
  };
  SymbolicGeometry s;
  s.sizes = exprs(sizes);
  s.strides = exprs(strides);
  const Type& t = UnwrapOptional(type);
  s.dtype = t.IsTensor() && t.tensor().dtype ? *t.tensor().dtype : base_dtype;
  if (offset == nullptr || s.sizes.size() != s.strides.size()) return std::nullopt;
  if (const auto* e = std::get_if<Expr>(offset)) {
    s.offset = *e;
  } else if (const auto* i = std::get_if<int64_t>(offset)) {
    s.offset = Expr(*i);
  } else {
    return std::nullopt;
  }
  return s;
}

}  // namespace

// as_strided with an offset states its place in the storage, wherever its base is.
void Views::PlaceInStorage(const Node& node, const Geom& base, Geom* out) {
  if (node.op.name() != op::kAsStrided || node.inputs.size() != 4 || base.storage == 0) return;
  const std::optional<std::vector<Expr>> sizes = s_.numbers.IntsOf(node.inputs[1]),
                                         strides = s_.numbers.IntsOf(node.inputs[2]);
  const std::optional<Expr> offset = s_.numbers.IntOf(node.inputs[3]);
  const bool item_known = base.exact ? base.item_known : base.dtype.has_value();
  if (!sizes || !strides || !offset || sizes->size() != strides->size() || !(item_known || base.own_dtype)) return;
  out->exact = true;
  out->item_known = item_known;
  const ObjectKind kind = s_.objects[base.storage].kind;
  out->absolute = kind == ObjectKind::kInput || kind == ObjectKind::kElement;
  if (item_known) out->geometry.dtype = base.exact ? base.geometry.dtype : *base.dtype;
  out->geometry.sizes = *sizes;
  out->geometry.strides = *strides;
  out->geometry.offset = *offset;
}

namespace {

// One of the pieces that a node takes along a dimension of known length.
struct Pieces {
  ViewShape shape;
  size_t dim;
  int64_t length, piece;
  std::optional<int64_t> said;  // how many pieces, or how long each
  bool is_split = false;        // how long
  int64_t count = 0;
};

// Returns nothing if the node takes no pieces, or if the dimension's length is not known.
std::optional<Pieces> PiecesOf(const AliasDb::State& s, const Node& node, const SymbolicGeometry& base, int piece) {
  const ViewOp* const view = ViewOpOf(node);
  Pieces out;
  out.shape = view != nullptr ? view->shape : ViewShape::kUnknown;
  if (out.shape != ViewShape::kUnbind && out.shape != ViewShape::kSplit && out.shape != ViewShape::kPieces) {
    return std::nullopt;
  }
  const size_t dim_arg = out.shape == ViewShape::kUnbind ? 1 : 2;
  std::optional<int64_t> dim =
      dim_arg < node.inputs.size() ? s.numbers.ConstantInt(node.inputs[dim_arg]) : std::nullopt;
  const int64_t rank = static_cast<int64_t>(base.sizes.size());
  if (dim && *dim < 0) *dim += rank;
  if (!dim || *dim < 0 || *dim >= rank || !base.sizes[*dim].IsConstant()) return std::nullopt;
  out.dim = static_cast<size_t>(*dim);
  out.length = *base.sizes[*dim].Constant();
  out.piece = piece;
  out.is_split = out.shape == ViewShape::kSplit && node.op.overload() == "Tensor";
  if (out.shape == ViewShape::kUnbind) {
    out.count = out.length;
    return out;
  }
  out.said = s.numbers.ConstantInt(node.inputs[1]);
  if (!out.said) {
    out.count = static_cast<int64_t>(s.g.node(s.g.value(node.inputs[1]).def).inputs.size());
  } else if (*out.said > 0) {
    out.count = out.is_split ? out.length / *out.said + 1 : *out.said;
  }
  return out;
}

// Returns the place of one of very many pieces. The view rules place all pieces at once, and each piece asks for itself.
// Nothing: it is not known.
std::optional<SymbolicGeometry> PlaceOfPiece(const Node& node, const SymbolicGeometry& base, const Pieces& p) {
  SymbolicGeometry out = base;
  if (p.piece < 0) return std::nullopt;
  if (p.shape == ViewShape::kUnbind) {
    if (p.piece >= p.length) return std::nullopt;
    out.offset = base.offset + base.strides[p.dim] * p.piece;
    out.sizes.erase(out.sizes.begin() + static_cast<std::ptrdiff_t>(p.dim));
    out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(p.dim));
    return out;
  }
  if (!p.said || p.length <= 0 || !(p.is_split || node.op.name() == op::kChunk)) return std::nullopt;
  const int64_t each = p.is_split ? *p.said : (p.length - 1) / *p.said + 1;
  if (p.piece > (p.length - 1) / each) return std::nullopt;
  out.offset = base.offset + base.strides[p.dim] * (each * p.piece);
  out.sizes[p.dim] = Expr(std::min(each, p.length - each * p.piece));
  return out;
}

}  // namespace

// Places the view by the view rules, from the place of the base.
void Views::PlaceExactly(uint32_t object, NodeId n, const Geom& base, int piece, Geom* out) {
  const Node& node = s_.g.node(n);
  absl::StatusOr<OpCall> call = OpCall::Of(s_.g, n);
  if (!call.ok()) return;
  const Value& value = s_.g.value(s_.objects[object].def);
  std::optional<SymbolicGeometry> found;
  constexpr int64_t kManyPieces = 64;
  const std::optional<Pieces> pieces = PiecesOf(s_, node, base.geometry, piece);
  if (node.op.full() == op::kSmeltView) {
    found = SaidGeometry(node, value.type, base.geometry.dtype);
  } else if (pieces && pieces->count > kManyPieces) {
    found = PlaceOfPiece(node, base.geometry, *pieces);
  } else if (absl::StatusOr<ViewMeaning> meaning = BuildView(*call, base.geometry, s_.g.symbols); meaning.ok()) {
    s_.steps += static_cast<int64_t>(meaning->outputs.size());
    const size_t which = piece >= 0 ? piece : meaning->is_list ? SIZE_MAX : value.def_index;
    if (which < meaning->outputs.size()) found = std::move(meaning->outputs[which]);
  }
  if (!found) return;
  out->exact = true;
  out->geometry = *std::move(found);
}

void Views::Apply(uint32_t object, NodeId n, const Geom& base, uint32_t base_object, bool base_changes, Geom* out) {
  const Object& o = s_.objects[object];
  const Node& node = s_.g.node(n);
  const size_t output = s_.g.value(o.def).def_index;
  const bool constant_chunk = GetOpEffects(node.op).kind == EffectKind::kConstantChunk;
  const int piece = o.kind == ObjectKind::kPiece ? o.slot : constant_chunk ? static_cast<int>(output) : -1;
  *out = base;
  out->exact = false;
  out->geometry = SymbolicGeometry();
  const bool keeps_dtype = KeepsDtype(node);
  out->own_dtype = base.own_dtype && keeps_dtype;
  if (!base_changes) PlaceInStorage(node, base, out);
  if (!out->exact && base.exact && (base.item_known || keeps_dtype) && !base_changes && !constant_chunk) {
    PlaceExactly(object, n, base, piece, out);
  }
  if (out->space == 0) return;
  if (base_changes) {
    // The base's dimensions mean different things at different times.
    out->space = 0;
    out->box.clear();
    return;
  }
  // The pieces of a tensor that overlaps itself (expanded, unfolded) may be the same bytes.
  if (piece >= 0 && base.injective && GetOpEffects(node.op).result(output).partition) {
    Point(out, kPieces + s_.objects[object].parent, piece);
  }
  if (constant_chunk) {
    if (base.injective) Point(out, kPieces * 2 + n.index, piece);
    out->has_sizes = false;
    if (out->rank < 0) out->negative_ok = false;
    return Lose(out);
  }
  TakeBoxOfView(s_, object, n, base, base_object, piece, out);
}

}  // namespace smelt::alias_internal
