#include "smelt/alias/box_of_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "smelt/alias/boxes.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

const ViewOp* ViewOpOf(const Node& node) {
  const ViewOp* view = FindViewOp(node.op.full());
  return view != nullptr ? view : FindViewOpByName(node.op.name());
}

namespace {

// Places a view in its base's index space: limits `out`, which is the base's geometry at first, to the part that the
// view takes.
class BoxOfView {
 public:
  BoxOfView(AliasDb::State& s, uint32_t object, NodeId n, const Geom& base, uint32_t base_object, int piece, Geom* out)
      : s_(s),
        object_(object),
        n_(n),
        node_(s.g.node(n)),
        base_(base),
        base_object_(base_object),
        piece_(piece),
        out_(out) {}

  void Apply() {
    if (s_.same.IsWholeSlice(node_)) return;
    if (node_.op.full() == op::kSmeltView) return Anywhere();
    const ViewOp* view = ViewOpOf(node_);
    switch (view == nullptr ? ViewShape::kUnknown : view->shape) {
      case ViewShape::kUnknown:
        return Lose(out_);
      case ViewShape::kWhole:
        return;
      case ViewShape::kComponent:
        return Part();
      case ViewShape::kSelect:
        return Select();
      case ViewShape::kSlice:
        return Slice();
      case ViewShape::kNarrow:
        return Narrow();
      case ViewShape::kUnbind:
        return Unbind();
      case ViewShape::kSplit:
        return Split();
      case ViewShape::kPieces:
        return Pieces();
      case ViewShape::kTranspose:
        return Transpose();
      case ViewShape::kReverse:
        return Reverse();
      case ViewShape::kPermute:
        return PermuteDims();
      case ViewShape::kUnsqueeze:
        return Unsqueeze();
      case ViewShape::kSqueeze:
        return Squeeze();
      case ViewShape::kDiagonal:
        return Diagonal();
      case ViewShape::kAnywhere:
        return Anywhere();
      case ViewShape::kRepeats:
        return OverlapItself();
      case ViewShape::kNewSpace:
        return NewSpace();
    }
  }

 private:
  std::optional<int64_t> Constant(size_t i) const {
    return i < node_.inputs.size() ? s_.numbers.ConstantInt(node_.inputs[i]) : std::nullopt;
  }
  // A dimension that some tensor could have.
  std::optional<int64_t> Dim(size_t i) const {
    const std::optional<int64_t> d = Constant(i);
    return d && *d >= -kMaxRank && *d < kMaxRank ? d : std::nullopt;
  }
  std::optional<Expr> Int(size_t i) const {
    return i < node_.inputs.size() ? s_.numbers.IntOf(node_.inputs[i]) : std::nullopt;
  }
  bool IsNone(size_t i) const {
    if (i >= node_.inputs.size() || s_.g.value(node_.inputs[i]).type.kind() == TypeKind::kNone) return true;
    const auto constant = GetConstant(s_.g, node_.inputs[i]);
    return constant && std::holds_alternative<std::monostate>(*constant);
  }
  // Returns whether a bound is counted from the begin; nothing: its sign is not known.
  std::optional<bool> IsFromBegin(const Expr& e) const { return s_.g.symbols.LessOrEqual(Expr(0), e); }
  // Returns the position along the base's dimension that the operator takes a bound for.
  std::optional<Expr> Place(const Expr& bound, std::optional<bool> from_begin, int64_t dim) const {
    const int64_t key = KeyOf(*out_, dim);
    return key == kNoKey ? std::nullopt : s_.geometries.PositionOf(bound, from_begin, key, base_, base_object_, n_);
  }

  void Select() {
    const std::optional<int64_t> dim = Dim(1);
    if (!dim) return Lose(out_);
    if (const std::optional<Expr> index = Int(2)) {
      const std::optional<Expr> size = SizeOf(*out_, *dim);
      const std::optional<bool> from_begin = IsFromBegin(*index);
      if (from_begin == false && size) {
        Limit(out_, *dim, *size + *index, *size + *index + 1, 1);
      } else {
        if (from_begin == false) LimitFromEnd(out_, *dim, *index, *index + 1);
        if (const std::optional<Expr> at = Place(*index, from_begin, *dim)) Limit(out_, *dim, *at, *at + 1, 1);
      }
    }
    RemoveDim(out_, *dim);
  }

  // Returns a bound of dimension `dim`. A negative bound of an unknown size is counted from the end, too.
  std::optional<Expr> Bound(const Expr& e, int64_t dim, std::optional<Expr>* from_end) const {
    const std::optional<bool> from_begin = IsFromBegin(e);
    if (from_begin == false) {
      if (const std::optional<Expr> size = SizeOf(*out_, dim)) return Max(Expr(0), *size + e);
      *from_end = e;
    }
    return Place(e, from_begin, dim);
  }

  void Slice() {
    const std::optional<int64_t> dim = Dim(1);
    if (!dim) return Lose(out_);
    std::optional<Expr> lo, hi, end_lo, end_hi;
    if (IsNone(2)) {
      lo = Expr(0);
    } else if (const std::optional<Expr> start = Int(2)) {
      lo = Bound(*start, *dim, &end_lo);
    }
    if (!IsNone(3)) {
      const std::optional<Expr> end = Int(3);
      if (end && end->Constant() != std::numeric_limits<int64_t>::max()) hi = Bound(*end, *dim, &end_hi);
    }
    const std::optional<int64_t> s = Constant(4);
    // A step is a fact only if the start is known.
    const int64_t step = lo && s && *s > 0 ? *s : 1;
    if (end_lo || end_hi) LimitFromEnd(out_, *dim, end_lo, end_hi);
    if (lo || hi) Limit(out_, *dim, lo, hi, step);
    // With an unknown start nested indices cannot be placed.
    if (!lo && KeyOf(*out_, *dim) != kNoKey && out_->rank < 0) Lose(out_);
    Shortened(*dim, lo.has_value());
  }

  void Narrow() {
    const std::optional<int64_t> dim = Dim(1);
    if (!dim) return Lose(out_);
    std::optional<Expr> lo, hi;
    if (const std::optional<Expr> start = Int(2)) {
      const std::optional<Expr> length = Int(3);
      std::optional<Expr> from_end;  // how far it reaches is counted from there
      lo = Bound(*start, *dim, &from_end);
      if (lo && length) hi = start->Constant() == 0 ? Place(*length, IsFromBegin(*length), *dim) : *lo + *length;
    }
    if (lo || hi) Limit(out_, *dim, lo, hi, 1);
    Shortened(*dim, lo.has_value());
  }

  // Records the remaining part of the sizes and of the dimension that was cut.
  void Shortened(int64_t dim, bool start_known) {
    if (out_->has_sizes) {
      const Object& o = s_.objects[object_];
      const Type& t = UnwrapOptional(s_.g.value(o.def).type);
      if (out_->exact) {
        out_->sizes = out_->geometry.sizes;
      } else if (o.kind != ObjectKind::kPiece && t.IsTensor() && t.tensor().sizes && t.tensor().rank() == out_->rank) {
        out_->sizes = *t.tensor().sizes;
      } else {
        out_->has_sizes = false;
      }
    }
    // An unknown start, or one that is counted from the end, hides the place of nested indices.
    if (start_known || KeyOf(*out_, dim) == kNoKey) return;
    if (dim < 0 && out_->rank >= 0) dim += out_->rank;
    if (dim < 0) return Lose(out_);
    Materialize(out_, dim + 1);
    out_->front[dim] = kNoKey;
    if (out_->rank < 0) out_->negative_ok = false;
  }

  void Unbind() {
    const std::optional<int64_t> dim = Dim(1);
    if (!dim) return Lose(out_);
    if (piece_ >= 0) Limit(out_, *dim, Expr(piece_), Expr(piece_) + 1, 1);
    RemoveDim(out_, *dim);
  }

  // The requested sizes give the begin and the end of the piece.
  void Split() {
    const std::optional<int64_t> dim = Dim(2);
    if (piece_ < 0 || !dim) return Pieces();
    std::optional<Expr> lo, hi;
    if (const std::optional<Expr> size = Int(1); size && node_.op.overload() == "Tensor") {
      lo = *size * piece_;
      hi = *size * (piece_ + 1);
    } else if (const std::optional<std::vector<Expr>> list = s_.numbers.IntsOf(node_.inputs[1]);
               list && piece_ < static_cast<int>(list->size())) {
      Expr at(0);
      for (int i = 0; i < piece_; ++i) at = at + (*list)[i];
      lo = at;
      hi = at + (*list)[piece_];
    }
    if (!lo) return Pieces();
    Limit(out_, *dim, lo, hi, 1);
    out_->has_sizes = false;
  }

  // The piece lies somewhere along the dimension.
  void Pieces() {
    std::optional<int64_t> dim = Dim(2);
    if (dim && *dim < 0 && out_->rank >= 0) *dim += out_->rank;
    if (dim && *dim >= 0 && (out_->rank < 0 || *dim < out_->rank) && !out_->lost) {
      Materialize(out_, *dim + 1);
      out_->front[*dim] = kNoKey;
      out_->negative_ok = false;
    } else {
      Lose(out_);
    }
    out_->has_sizes = false;
  }

  void Transpose() {
    const std::optional<int64_t> a = Dim(1), b = Dim(2);
    if (!a || !b) return Lose(out_);
    if (out_->rank >= 0) {
      std::vector<int64_t> dims;
      for (int i = 0; i < out_->rank; ++i) dims.push_back(i);
      const int64_t x = *a < 0 ? *a + out_->rank : *a, y = *b < 0 ? *b + out_->rank : *b;
      if (x >= 0 && y >= 0 && x < out_->rank && y < out_->rank) std::swap(dims[x], dims[y]);
      Permute(out_, dims);
    } else if (*a >= 0 && *b >= 0) {
      Materialize(out_, std::max(*a, *b) + 1);
      if (!out_->lost) std::swap(out_->front[*a], out_->front[*b]);
      out_->negative_ok = false;
    } else {
      Lose(out_);
    }
  }

  void Reverse() {
    if (out_->rank < 0) return Lose(out_);
    std::vector<int64_t> dims;
    for (int i = out_->rank; i-- > 0;) dims.push_back(i);
    Permute(out_, dims);
  }

  void PermuteDims() {
    const std::optional<std::vector<Expr>> list =
        node_.inputs.size() > 1 ? s_.numbers.IntsOf(node_.inputs[1]) : std::nullopt;
    if (!list) return Lose(out_);
    std::vector<int64_t> dims;
    for (const Expr& e : *list) {
      if (!e.IsConstant()) return Lose(out_);
      dims.push_back(*e.Constant());
    }
    Permute(out_, dims);
  }

  void Unsqueeze() {
    const std::optional<int64_t> dim = Dim(1);
    if (!dim || (*dim < 0 && out_->rank < 0)) return Lose(out_);
    const int64_t d = *dim < 0 ? *dim + out_->rank + 1 : *dim;
    Materialize(out_, out_->rank >= 0 ? out_->rank : d);
    if (d < 0 || d > static_cast<int64_t>(out_->front.size())) return Lose(out_);
    if (!out_->lost) out_->front.insert(out_->front.begin() + d, kNoKey);
    if (out_->rank < 0) {
      --out_->rest;
      if (d != 0) out_->negative_ok = false;
      return;
    }
    if (out_->has_sizes && static_cast<int>(out_->sizes.size()) == out_->rank) {
      out_->sizes.insert(out_->sizes.begin() + d, Expr(1));
    } else {
      out_->has_sizes = false;
    }
    ++out_->rank;
  }

  void Squeeze() {
    if (out_->rank < 0 || !out_->has_sizes || node_.op.overload() != "dim") return Lose(out_);
    const std::optional<int64_t> dim = Dim(1);
    const std::optional<Expr> size = dim ? SizeOf(*out_, *dim) : std::nullopt;
    if (!size || !size->IsConstant()) return Lose(out_);
    if (size->Constant() == 1) RemoveDim(out_, *dim);
  }

  void Part() {
    const bool imaginary = node_.op.name() == op::kImag;
    if (imaginary || (base_.dtype && IsComplex(*base_.dtype))) Point(out_, kPart, imaginary ? 1 : 0);
    out_->dtype = std::nullopt;
  }

  // Two diagonals of one matrix are disjoint.
  void Diagonal() {
    std::optional<int64_t> offset = Constant(1);
    const std::optional<int64_t> d1 = Dim(2), d2 = Dim(3);
    if (offset && *offset != INT64_MIN && d1 && d2) {
      int64_t k1 = KeyOf(*out_, *d1), k2 = KeyOf(*out_, *d2);
      const bool limited = FindKey(out_, k1) != nullptr || FindKey(out_, k2) != nullptr;
      if (!limited && k1 >= 0 && k2 >= 0 && k1 < kMaxRank && k2 < kMaxRank && k1 != k2) {
        if (k1 > k2) {
          std::swap(k1, k2);
          offset = -*offset;
        }
        Point(out_, kDiagonal + kMaxRank * k1 + k2, *offset);
      }
    }
    Lose(out_);
  }

  // The view reaches anywhere in the storage.
  void Anywhere() {
    out_->box.clear();
    out_->space = 0;
  }

  void OverlapItself() {
    out_->injective = false;
    Lose(out_);
  }

  // The new handle is an index space of its own. Facts about the base hold for all of it.
  void NewSpace() {
    const Object& o = s_.objects[object_];
    out_->space = object_;
    out_->space_parent = base_object_;
    out_->space_varies = s_.work.OutermostLoop(n_).valid();
    out_->box.clear();
    out_->injective = out_->space_injective = base_.injective;
    out_->lost = false;
    out_->front.clear();
    out_->rest = 0;
    out_->rank = -1;
    out_->negative_ok = true;
    out_->has_sizes = false;
    out_->dtype = std::nullopt;
    if (o.kind != ObjectKind::kPiece) TakeSizes(s_.g.value(o.def).type, out_);
    if (out_->exact && out_->rank < 0) {
      out_->rank = static_cast<int>(out_->geometry.sizes.size());
      out_->sizes = out_->geometry.sizes;
      out_->has_sizes = true;
    }
    if (out_->rank >= 0) Materialize(out_, out_->rank);
  }

  AliasDb::State& s_;
  const uint32_t object_;
  const NodeId n_;
  const Node& node_;
  const Geom& base_;
  const uint32_t base_object_;
  const int piece_;  // which of the views that one node makes; -1: the only one
  Geom* const out_;
};

}  // namespace

void TakeBoxOfView(AliasDb::State& s, uint32_t object, NodeId n, const Geom& base, uint32_t base_object, int piece,
                   Geom* out) {
  BoxOfView(s, object, n, base, base_object, piece, out).Apply();
}

}  // namespace smelt::alias_internal
