#include "smelt/functionalize/data_sizes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

constexpr char kNms[] = "torchvision::nms";

class SizeOpener {
 public:
  SizeOpener(Graph& g, NodeId n) : g_(g), n_(n) {}

  absl::StatusOr<bool> Run() {
    const std::string& full = g_.node(n_).op.full();
    if (!TypesAreKnown()) return absl::UnimplementedError("a size that the data decide, without a name for it");
    SMELT_RETURN_IF_ERROR(CheckRanks(full));
    if (full == op::kNonzero || full == op::kArgwhere) return NonzeroTensor();
    if (full == op::kNonzeroNumpy || full == op::kWhere) return NonzeroColumns();
    if (full == op::kIndexTensor) return MaskIndex();
    if (absl::StrContains(full, "index_put")) return MaskPut();
    if (full == op::kMaskedSelect) return MaskedSelect();
    if (full == op::kPrivateUnique2) return Unique(/*consecutive=*/false);
    if (full == op::kUniqueDim) return UniqueSlices(In(1), /*consecutive=*/false);
    if (full == op::kUniqueConsecutive)
      return IsNone(In(3)) ? Unique(/*consecutive=*/true) : UniqueSlices(In(3), /*consecutive=*/true);
    if (full == op::kBincount) return Bincount();
    if (full == kNms) return Nms();
    if (full == op::kRepeatInterleaveSelfTensor || full == op::kRepeatInterleaveTensor)
      return RepeatInterleave(full == op::kRepeatInterleaveTensor);
    return false;
  }

 private:
  // Inference does not know such results, not even their number of dims.
  absl::Status CheckRanks(const std::string& full) const {
    int rank = -1;
    if (full == op::kNonzero || full == op::kArgwhere) rank = 2;
    if (full == op::kMaskedSelect || full == op::kPrivateUnique2 || full == op::kBincount) rank = 1;
    if (full == op::kUniqueConsecutive) rank = IsNone(In(3)) ? 1 : T(In(0)).rank();
    if (full == op::kUniqueDim) rank = T(In(0)).rank();
    if (full == op::kRepeatInterleaveTensor || full == kNms) rank = 1;
    if (full == op::kRepeatInterleaveSelfTensor) rank = IsNone(In(2)) ? 1 : T(In(0)).rank();
    const Node& node = g_.node(n_);
    if (rank < 0 || node.outputs.empty() || !g_.value(node.outputs[0]).type.IsTensor()) return absl::OkStatus();
    if (const int has = T(node.outputs[0]).rank(); has != rank)
      return absl::InvalidArgumentError(absl::StrCat("its result is declared of ", has, " dims, expected ", rank));
    return absl::OkStatus();
  }
  ValueId In(int i) const { return g_.node(n_).inputs[i]; }
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  ValueId None() { return InsertConstant(g_, n_, std::monostate()); }
  ValueId Int(int64_t v) { return InsertConstant(g_, n_, v); }
  bool IsNone(ValueId v) const {
    const auto constant = GetConstant(g_, v);
    return constant && std::holds_alternative<std::monostate>(*constant);
  }

  // TorchScript's text has no symbols for sizes that the data decide.
  bool TypesAreKnown() const {
    const auto known = [&](ValueId v) { return !g_.value(v).type.IsTensor() || (T(v).dtype && T(v).sizes); };
    const Node& node = g_.node(n_);
    return std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), known);
  }

  absl::StatusOr<ValueId> Insert(absl::string_view op, std::vector<ValueId> args) {
    NodeId n = g_.InsertBefore(n_, OpName::Get(op), args, {Type::Tensor()});
    g_.SetSource(n, g_.node(n_).source);
    SMELT_RETURN_IF_ERROR(InferNode(g_, n));
    return g_.node(n).outputs[0];
  }
  NodeId InsertTyped(absl::string_view op, std::vector<ValueId> args, std::vector<Type> types,
                     Graph::Attributes attributes = {}) {
    NodeId n = g_.InsertBefore(n_, OpName::Get(op), args, types, std::move(attributes));
    g_.SetSource(n, g_.node(n_).source);
    return n;
  }
  static Type Long(std::vector<Expr> sizes, std::vector<Expr> strides) {
    return Type::Tensor(DType::kInt64, std::move(sizes), std::move(strides));
  }
  void ReplaceOutput(int k, ValueId v) { g_.ReplaceAllUses(g_.node(n_).outputs[k], v); }
  void ReplaceList(const std::vector<ValueId>& results) {
    NodeId list = InsertTyped(op::kPrimListConstruct, results, {Type::List(Type::Tensor())});
    ReplaceOutput(0, g_.node(list).outputs[0]);
  }
  bool Done() {
    g_.Erase(n_);
    return true;
  }

  // Returns whether the call's arguments, or the nodes before this one, give the symbol its value.
  bool IsKnown(const std::string& symbol) const {
    const auto mentions = [&](const Expr& e) { return absl::c_linear_search(e.Symbols(), symbol); };
    for (ValueId v : g_.inputs()) {
      if (g_.value(v).type.IsTensor() && T(v).sizes && absl::c_any_of(*T(v).sizes, mentions)) return true;
    }
    const auto gives = [&](ValueId v) { return g_.value(v).expr == Expr::Symbol(symbol); };
    for (NodeId at = n_; at.valid(); at = g_.block(g_.node(at).parent).owner) {
      if (absl::c_any_of(g_.params(g_.node(at).parent), gives)) return true;
      for (NodeId before = g_.node(at).prev; before.valid(); before = g_.node(before).prev) {
        if (absl::c_any_of(g_.node(before).outputs, gives)) return true;
      }
    }
    return false;
  }
  bool IsKnown(const Expr& e) const {
    return absl::c_all_of(e.Symbols(), [&](const std::string& symbol) { return IsKnown(symbol); });
  }

  // A call whose data violate the condition is refused.
  void Require(ValueId holds, const char* otherwise) {
    InsertTyped(op::kPrivateAssertAsyncMsg, {holds, InsertConstant(g_, n_, std::string(otherwise))}, {});
  }

  // Returns the int that `count`, a 0-dim tensor, holds: `size`, a symbol of this very node's result. If the export
  // found that it must be a number, or a size of something else, it is that, and the call is refused if it differs.
  absl::StatusOr<ValueId> Read(ValueId count, const Expr& size) {
    if (IsKnown(size)) {
      const ValueId total = Number(size);
      SMELT_ASSIGN_OR_RETURN(ValueId equal, Insert(op::kEqScalar, {count, total}));
      Require(equal, "the data choose another number of elements than the model takes");
      return total;
    }
    if (!size.IsSymbol())
      return absl::UnimplementedError(absl::StrCat("a result whose size the data decide, yet is ", size.ToString()));
    NodeId n = InsertTyped(op::kPrivateLocalScalarDense, {count}, {Type::Int()});
    g_.SetExpr(g_.node(n).outputs[0], size);
    return g_.node(n).outputs[0];
  }

  // [size, rank], column by column as PyTorch lays it out.
  absl::StatusOr<ValueId> Nonzero(ValueId x, const Expr& size) {
    SMELT_ASSIGN_OR_RETURN(ValueId count, Insert(op::kCountNonzero, {x, None()}));
    SMELT_ASSIGN_OR_RETURN(ValueId n, Read(count, size));
    return NonzeroOf(x, n, size);
  }
  ValueId NonzeroOf(ValueId x, ValueId n, const Expr& size) {
    NodeId found = InsertTyped(op::kSmeltNonzero, {x, n}, {Long({size, Expr(T(x).rank())}, {Expr(1), size})});
    return g_.node(found).outputs[0];
  }
  Values Columns(ValueId x, const Expr& size) {
    if (T(x).rank() == 0) {
      SMELT_ASSIGN_OR_RETURN(x, Insert(op::kUnsqueeze, {x, Int(0)}));
    }
    SMELT_ASSIGN_OR_RETURN(ValueId found, Nonzero(x, size));
    return ColumnsOf(found, T(x).rank());
  }
  Values ColumnsOf(ValueId found, int rank) {
    std::vector<ValueId> columns;
    for (int d = 0; d < rank; ++d) {
      SMELT_ASSIGN_OR_RETURN(ValueId c, Insert(op::kSelectInt, {found, Int(1), Int(d)}));
      columns.push_back(c);
    }
    return columns;
  }

  absl::StatusOr<bool> NonzeroTensor() {
    SMELT_ASSIGN_OR_RETURN(ValueId v, Nonzero(In(0), (*T(g_.node(n_).outputs[0]).sizes)[0]));
    ReplaceOutput(0, v);
    return Done();
  }

  absl::StatusOr<bool> NonzeroColumns() {
    if (g_.node(n_).inputs.size() != 1) return false;
    // The elements' types are given where the list is unpacked.
    std::optional<Expr> size;
    for (const Use& u : g_.value(g_.node(n_).outputs[0]).uses) {
      if (g_.IsReturn(u.user) || g_.node(u.user).op != op::kPrimListUnpack || g_.node(u.user).outputs.empty()) continue;
      const TensorType& t = T(g_.node(u.user).outputs[0]);
      if (t.sizes && !t.sizes->empty()) size = (*t.sizes)[0];
    }
    if (!size) return absl::UnimplementedError("a list whose elements' sizes are not known");
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> columns, Columns(In(0), *size));
    ReplaceList(columns);
    return Done();
  }

  // A list of indices with masks in it.
  struct MaskedIndices {
    std::vector<ValueId> indices, masks, others;
    int dim = 0;  // where the first mask's dims begin
  };
  bool IsMask(ValueId v) const {
    if (!g_.value(v).type.IsTensor()) return false;
    const DType t = *T(v).dtype;
    return t == DType::kBool || t == DType::kUInt8;
  }
  absl::StatusOr<std::optional<MaskedIndices>> FindMasks() {
    std::optional<std::vector<ValueId>> indices = GetListElements(g_, In(1));
    if (!indices) return std::nullopt;
    MaskedIndices out{*indices, {}, {}, 0};
    for (ValueId v : *indices) {
      if (!g_.value(v).type.IsTensor()) {
        out.dim += out.masks.empty();
      } else if (!IsMask(v)) {
        out.others.push_back(v);
      } else {
        if (T(v).rank() == 0) return absl::UnimplementedError("a mask of rank 0");
        out.masks.push_back(v);
      }
    }
    if (out.masks.empty()) return std::nullopt;
    return out;
  }
  // Returns the indices, with each mask replaced by the columns of its nonzero. There are `size` of them, the value of
  // `total`. For the mask `counted` that is known; for others it is checked.
  absl::StatusOr<ValueId> WithColumns(const MaskedIndices& m, ValueId counted, ValueId total, const Expr& size) {
    std::vector<ValueId> elements;
    for (ValueId v : m.indices) {
      if (!IsMask(v)) {
        elements.push_back(v);
        continue;
      }
      if (v != counted) {
        SMELT_ASSIGN_OR_RETURN(ValueId count, Insert(op::kCountNonzero, {v, None()}));
        SMELT_ASSIGN_OR_RETURN(ValueId equal, Insert(op::kEqScalar, {count, total}));
        Require(equal,
                "shape mismatch: indexing tensors could not be broadcast together: a mask chooses another number of "
                "elements");
      }
      SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> columns, ColumnsOf(NonzeroOf(v, total, size), T(v).rank()));
      elements.insert(elements.end(), columns.begin(), columns.end());
    }
    NodeId list = InsertTyped(op::kPrimListConstruct, elements, {g_.value(In(1)).type});
    return g_.node(list).outputs[0];
  }
  // An int with the value of an expression.
  ValueId Number(const Expr& e) {
    const ValueId v = InsertSize(g_, n_, e);
    g_.SetSource(g_.value(v).def, g_.node(n_).source);
    return v;
  }
  // The number of elements that the mask chooses, under a name of its own.
  absl::StatusOr<ValueId> Count(ValueId mask, Expr* size) {
    *size = Expr::Symbol(absl::StrCat("chosen_by_", g_.value(mask).name, "_", n_.index));
    SMELT_ASSIGN_OR_RETURN(ValueId count, Insert(op::kCountNonzero, {mask, None()}));
    return Read(count, *size);
  }

  // self[..., mask, ...]: masks' dims become the columns of their nonzero.
  absl::StatusOr<bool> MaskIndex() {
    SMELT_ASSIGN_OR_RETURN(const std::optional<MaskedIndices> m, FindMasks());
    if (!m) return false;
    const std::vector<Expr> sizes = *T(g_.node(n_).outputs[0]).sizes;
    if (m->dim >= static_cast<int>(sizes.size())) return absl::UnimplementedError("a mask that leaves no dim");
    const Expr size = sizes[m->dim];
    ValueId total, counted;
    if (!m->others.empty() && IsKnown(size)) {
      // Broadcast against the other indices.
      total = Number(size);
    } else {
      counted = m->masks[0];
      SMELT_ASSIGN_OR_RETURN(ValueId count, Insert(op::kCountNonzero, {counted, None()}));
      SMELT_ASSIGN_OR_RETURN(total, Read(count, size));
    }
    SMELT_ASSIGN_OR_RETURN(ValueId list, WithColumns(*m, counted, total, size));
    g_.SetInput(n_, 1, list);
    return true;
  }

  // index_put(self, [..., mask, ...], values, accumulate): the masks' dims become the columns of their nonzero. Later
  // passes handle one value for all elements that a single mask chooses.
  absl::StatusOr<bool> MaskPut() {
    SMELT_ASSIGN_OR_RETURN(const std::optional<MaskedIndices> m, FindMasks());
    const DType to = *T(In(0)).dtype, from = *T(In(2)).dtype;
    if (to != from) {
      if (!m || !FillsByMask(*m))
        return absl::FailedPreconditionError(
            absl::StrCat("Index put requires the source and destination dtypes match, got ", ScalarTypeName(to),
                         " for the destination and ", ScalarTypeName(from), " for the source."));
      SMELT_ASSIGN_OR_RETURN(const ValueId value,
                             Insert(op::kPrivateToCopy, {In(2), Int(ScalarTypeOf(to)), None(), None(), None(),
                                                         InsertConstant(g_, n_, false), None()}));
      g_.SetInput(n_, 2, value);
    }
    if (!m) return false;
    if (m->masks.size() > 1 || !m->others.empty()) return MasksAndOthersPut(*m);
    const ValueId mask = m->masks[0];
    const TensorType values = T(In(2));
    const int behind = T(In(0)).rank() - m->dim - T(mask).rank(), at = values.rank() - 1 - behind;
    if (FillsByMask(*m)) {
      if (T(mask).dtype != DType::kBool)
        return absl::FailedPreconditionError(
            "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char");
      if (g_.node(n_).op.full() == op::kIndexPutInPlace) return MaskFill(*m);
    }
    if (at < 0 || (*values.sizes)[at] == Expr(1)) return false;  // one for all
    Expr size = (*values.sizes)[at];
    if (g_.symbols.Less(Expr(1), size) == true) {
      const ValueId total = Number(size);
      SMELT_ASSIGN_OR_RETURN(ValueId list, WithColumns(*m, ValueId(), total, size));
      g_.SetInput(n_, 1, list);
      return true;
    }
    // There are as many values as the mask chooses, or one for all.
    const Expr given = size;
    SMELT_ASSIGN_OR_RETURN(ValueId total, Count(mask, &size));
    SMELT_ASSIGN_OR_RETURN(ValueId count, Insert(op::kCountNonzero, {mask, None()}));
    SMELT_ASSIGN_OR_RETURN(ValueId more, Insert(op::kSubScalar, {count, Number(given), Int(1)}));
    SMELT_ASSIGN_OR_RETURN(more, Insert(op::kMulScalar, {more, Number(given - 1)}));
    SMELT_ASSIGN_OR_RETURN(ValueId fits, Insert(op::kEqScalar, {more, Int(0)}));
    Require(fits,
            "shape mismatch: value tensor cannot be broadcast to indexing result: the mask chooses another number of "
            "elements");
    SMELT_ASSIGN_OR_RETURN(ValueId row, Insert(op::kArange, {total, None(), None(), None(), None()}));
    SMELT_ASSIGN_OR_RETURN(row, Insert(op::kClampMax, {row, Number(given - 1)}));
    SMELT_ASSIGN_OR_RETURN(ValueId of_each, Insert(op::kIndexSelect, {In(2), Int(at), row}));
    SMELT_ASSIGN_OR_RETURN(ValueId list, WithColumns(*m, mask, total, size));
    g_.SetInput(n_, 1, list);
    g_.SetInput(n_, 2, of_each);
    return true;
  }
  // Returns whether PyTorch calls masked_fill_, whose mask may be the written tensor itself: one value, a mask alone.
  bool FillsByMask(const MaskedIndices& m) const {
    if (m.masks.size() != 1 || !m.others.empty()) return false;
    if (static_cast<int>(m.indices.size()) != m.dim + 1) return false;
    const auto accumulate = GetConstant(g_, In(3));
    return accumulate && std::holds_alternative<bool>(*accumulate) && !std::get<bool>(*accumulate) &&
           std::all_of(T(In(2)).sizes->begin(), T(In(2)).sizes->end(), [](const Expr& s) { return s == Expr(1); });
  }
  absl::StatusOr<bool> MaskFill(const MaskedIndices& m) {
    ValueId mask = m.masks[0], value = In(2);
    for (int behind = T(In(0)).rank() - m.dim - T(mask).rank(); behind > 0; --behind) {
      SMELT_ASSIGN_OR_RETURN(mask, Insert(op::kUnsqueeze, {mask, Int(-1)}));
    }
    while (T(value).rank() > 0) {
      SMELT_ASSIGN_OR_RETURN(value, Insert(op::kSelectInt, {value, Int(0), Int(0)}));
    }
    const NodeId fill =
        InsertTyped(op::kMaskedFillInPlaceTensor, {In(0), mask, value}, {g_.value(g_.node(n_).outputs[0]).type});
    ReplaceOutput(0, g_.node(fill).outputs[0]);
    return Done();
  }
  absl::StatusOr<bool> MasksAndOthersPut(const MaskedIndices& m) {
    // There are as many elements as the other indices have, or else as the first mask chooses.
    std::optional<Expr> size;
    for (ValueId v : m.others) {
      if (T(v).rank() == 0 || T(v).sizes->back() == Expr(1)) continue;
      size = T(v).sizes->back();
    }
    const TensorType& values = T(In(2));
    if (!size && values.rank() > 0 && values.sizes->back() != Expr(1)) {
      if (static_cast<int>(m.indices.size()) != T(In(0)).rank() || m.masks.size() != m.indices.size() - m.others.size())
        return absl::UnimplementedError("several values beside a mask among other indices");
      size = values.sizes->back();
    }
    ValueId total, counted;
    if (size) {
      if (g_.symbols.Less(Expr(1), *size) != true)
        return absl::UnimplementedError("a mask among indices whose number may be one");
      total = Number(*size);
    } else {
      size = Expr();
      counted = m.masks[0];
      SMELT_ASSIGN_OR_RETURN(total, Count(counted, &*size));
    }
    SMELT_ASSIGN_OR_RETURN(ValueId list, WithColumns(m, counted, total, *size));
    g_.SetInput(n_, 1, list);
    return true;
  }

  absl::StatusOr<bool> MaskedSelect() {
    ValueId self = In(0), mask = In(1);
    // Broadcast against each other.
    const std::vector<Expr> a = *T(self).sizes, b = *T(mask).sizes;
    std::vector<Expr> sizes(std::max(a.size(), b.size()), Expr(1));
    for (const auto* s : {&a, &b}) {
      for (size_t d = 0; d < s->size(); ++d) {
        Expr& out = sizes[sizes.size() - s->size() + d];
        if (out == Expr(1)) out = (*s)[d];
      }
    }
    if (sizes.empty()) sizes = {Expr(1)};
    for (ValueId* v : {&self, &mask}) {
      if (*T(*v).sizes == sizes) continue;
      std::vector<ValueId> elements;
      for (const Expr& e : sizes) {
        if (!e.IsConstant()) return absl::UnimplementedError("masked_select that broadcasts over symbolic sizes");
        elements.push_back(Int(*e.Constant()));
      }
      NodeId list = InsertTyped(op::kPrimListConstruct, elements, {Type::List(Type::Int())});
      SMELT_ASSIGN_OR_RETURN(*v, Insert(op::kExpand, {*v, g_.node(list).outputs[0], InsertConstant(g_, n_, false)}));
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> columns, Columns(mask, (*T(g_.node(n_).outputs[0]).sizes)[0]));
    NodeId list = InsertTyped(op::kPrimListConstruct, columns, {Type::List(Type::Optional(Type::Tensor()))});
    NodeId index =
        InsertTyped(op::kIndexTensor, {self, g_.node(list).outputs[0]}, {g_.value(g_.node(n_).outputs[0]).type});
    ReplaceOutput(0, g_.node(index).outputs[0]);
    return Done();
  }

  // The unique ones of all elements: the values, the number of each element's value, and the count of each value.
  absl::StatusOr<NodeId> UniqueOf(ValueId self, const Expr& size, bool consecutive) {
    const Graph::Attributes kind = {{"consecutive", int64_t{consecutive}}};
    NodeId count = InsertTyped(op::kSmeltUniqueCount, {self}, {Long({}, {})}, kind);
    SMELT_ASSIGN_OR_RETURN(ValueId n, Read(g_.node(count).outputs[0], size));
    const std::vector<Expr> sizes = *T(self).sizes;
    return InsertTyped(op::kSmeltUnique, {self, n},
                       {Type::Tensor(*T(self).dtype, {size}, {Expr(1)}), Long(sizes, ContiguousStrides(sizes)),
                        Long({size}, {Expr(1)})},
                       kind);
  }

  // _unique2(self, sorted, return_inverse, return_counts); unique_consecutive(self, return_inverse, return_counts, dim)
  absl::StatusOr<bool> Unique(bool consecutive) {
    SMELT_ASSIGN_OR_RETURN(const NodeId unique, UniqueOf(In(0), (*T(g_.node(n_).outputs[0]).sizes)[0], consecutive));
    for (int k = 0; k < 3; ++k) {
      const ValueId out = g_.node(n_).outputs[k];
      if (k > 0 && *T(out).sizes != *T(g_.node(unique).outputs[k]).sizes) {
        // A result that was not requested is empty.
        if (!g_.value(out).uses.empty()) return absl::UnimplementedError("a result of unique that was not asked for");
        continue;
      }
      ReplaceOutput(k, g_.node(unique).outputs[k]);
    }
    return Done();
  }

  // unique_dim(self, dim, sorted, return_inverse, return_counts); unique_consecutive(self, return_inverse,
  // return_counts, dim): unique slices. Each slice gets a number, equal ones the same, and numbers are in the order of
  // the slices' elements.
  absl::StatusOr<bool> UniqueSlices(ValueId along, bool consecutive) {
    constexpr int64_t kWidest = 64;  // each element of a slice takes two sorts
    const auto constant = GetConstant(g_, along);
    if (!constant || !std::holds_alternative<int64_t>(*constant))
      return absl::UnimplementedError("unique along a dim that is not known");
    const std::vector<Expr> sizes = *T(In(0)).sizes;
    const int rank = static_cast<int>(sizes.size());
    const int64_t dim = std::get<int64_t>(*constant) + (std::get<int64_t>(*constant) < 0 ? rank : 0);
    if (dim < 0 || dim >= rank) return absl::UnimplementedError("unique along a dim that its tensor does not have");
    const Expr n = sizes[dim];
    std::vector<Expr> slice = sizes;
    slice.erase(slice.begin() + dim);
    const std::optional<int64_t> width = Product(slice).Constant();
    if (!width || *width < 1 || (!consecutive && *width > kWidest)) {
      return absl::UnimplementedError(
          absl::StrCat("unique of slices of ", Product(slice).ToString(), " elements, not 1 to ", kWidest));
    }
    if (g_.symbols.Less(Expr(0), n) != true) return absl::UnimplementedError("unique of what may be no slices");

    Emit e(g_, n_);
    std::vector<int64_t> front = {dim}, back;
    for (int d = 0; d < rank; ++d) {
      if (d != dim) front.push_back(d);
      back.push_back(d == dim ? 0 : d < dim ? d + 1 : d);
    }
    const ValueId slices = e.Contiguous(e.Permute(In(0), front));
    const ValueId rows = e.View(slices, {n, Expr(*width)});
    const ValueId numbers = consecutive ? NumbersOfRuns(e, rows) : NumbersInOrder(e, rows);
    SMELT_RETURN_IF_ERROR(e.status());
    const Expr size = (*T(g_.node(n_).outputs[0]).sizes)[dim];
    SMELT_ASSIGN_OR_RETURN(const NodeId unique, UniqueOf(numbers, size, consecutive));
    const ValueId inverse = g_.node(unique).outputs[1];
    const ValueId first =
        e.Op(op::kScatterReduceTwo,
             {e.Full(DType::kInt64, {size}, 1LL << 62), e.Const(int64_t{0}), inverse,
              e.Op(op::kArange, {e.Size(n), e.Const(ScalarTypeOf(DType::kInt64)), e.None(), e.None(), e.None()}),
              e.Const(std::string("amin")), e.Const(true)});
    const ValueId values = e.Permute(e.Op(op::kIndexSelect, {slices, e.Const(int64_t{0}), first}), back);
    SMELT_RETURN_IF_ERROR(e.status());
    ReplaceOutput(0, values);
    ReplaceOutput(1, inverse);
    ReplaceOutput(2, g_.node(unique).outputs[2]);
    return Done();
  }
  ValueId NumbersOfRuns(Emit& e, ValueId rows) {
    const Expr n = e.Sizes(rows)[0];
    const ValueId differs = e.Op(op::kNeTensor, {e.Slice(rows, 0, 1, n), e.Slice(rows, 0, 0, n - 1)});
    const ValueId begins = e.Op(op::kAnyDim, {differs, e.Const(int64_t{1}), e.Const(false)});
    const ValueId all = e.Cat({e.Full(DType::kBool, {Expr(1)}, 0), begins}, 0);
    return e.Op(op::kCumsum, {all, e.Const(int64_t{0}), e.None()});
  }
  // Goes through the elements of a slice one after the other: the number so far, then the rank of the element among
  // those.
  ValueId NumbersInOrder(Emit& e, ValueId rows) {
    if (e.DTypeOf(rows) == DType::kBool) rows = e.Cast(rows, DType::kUInt8);
    if (IsFloating(e.DTypeOf(rows))) {
      const ValueId is_number = e.Op(op::kLogicalNot, {e.Op(op::kIsnan, {rows})});
      Require(e.Op(op::kAll, {is_number}), "unique of slices with NaNs, whose order PyTorch leaves open");
    }
    // Counts the smaller ones.
    const auto place = [&](ValueId v) {
      const ValueId sorted = e.Multi(op::kSort, {v, e.Const(int64_t{0}), e.Const(false)}, 2)[0];
      return e.Op(op::kSearchsortedTensor, {sorted, v, e.Const(false), e.Const(false), e.None(), e.None()});
    };
    ValueId numbers;
    for (int64_t k = 0; k < *e.Sizes(rows)[1].Constant(); ++k) {
      const ValueId of_element = place(e.Contiguous(e.Select(rows, 1, k)));
      if (k == 0) {
        numbers = of_element;
      } else {
        numbers = place(e.Add(e.Op(op::kMulScalar, {numbers, e.Size(e.Sizes(rows)[0])}), of_element));
      }
    }
    return numbers;
  }

  // bincount(self, weights, minlength)
  absl::StatusOr<bool> Bincount() {
    const ValueId self = In(0);
    const Expr elements = (*T(self).sizes)[0];
    const std::optional<bool> some = g_.symbols.LessOrEqual(Expr(1), elements);
    if (!some || !*some) return absl::UnimplementedError("bincount of what may have no elements");
    const TensorType& out = T(g_.node(n_).outputs[0]);
    SMELT_ASSIGN_OR_RETURN(ValueId most, Insert(op::kAmax, {self, InsertConstant(g_, n_, std::vector<int64_t>()),
                                                            InsertConstant(g_, n_, false)}));
    // The largest byte has a bin behind it, too.
    if (T(self).dtype != DType::kInt64) {
      SMELT_ASSIGN_OR_RETURN(most, Insert(op::kPrivateToCopy, {most, Int(ScalarTypeOf(DType::kInt64)), None(), None(),
                                                               None(), InsertConstant(g_, n_, false), None()}));
    }
    const std::optional<Expr> least = GetIntExpr(g_, In(2));
    if (!least || g_.symbols.LessOrEqual(0, *least) != true) {
      SMELT_ASSIGN_OR_RETURN(ValueId length, Insert(op::kMulScalar, {most, Int(0)}));
      SMELT_ASSIGN_OR_RETURN(length, Insert(op::kAddScalar, {length, In(2), Int(1)}));
      SMELT_ASSIGN_OR_RETURN(ValueId holds, Insert(op::kGeScalar, {length, Int(0)}));
      Require(holds, "bincount: minlength should be >= 0");
    }
    SMELT_ASSIGN_OR_RETURN(ValueId bins, Insert(op::kAddScalar, {most, Int(1), Int(1)}));
    SMELT_ASSIGN_OR_RETURN(bins, Insert(op::kClampMin, {bins, In(2)}));
    SMELT_ASSIGN_OR_RETURN(ValueId n, Read(bins, (*out.sizes)[0]));
    std::vector<ValueId> args = {self, n};
    if (g_.value(In(1)).type.IsTensor()) args.push_back(In(1));
    NodeId count = InsertTyped(op::kSmeltBincount, args, {g_.value(g_.node(n_).outputs[0]).type});
    ReplaceOutput(0, g_.node(count).outputs[0]);
    return Done();
  }

  // nms(dets, scores, iou_threshold): smelt::nms_order gives the boxes by falling score, and which of them stay.
  absl::StatusOr<bool> Nms() {
    const NodeId order = InsertTyped(absl::StrCat(op::kSmeltNamespace, "nms_order"), {In(0), In(1), In(2)},
                                     {Type::Tensor(), Type::Tensor()});
    SMELT_RETURN_IF_ERROR(InferNode(g_, order));
    const Type& out = g_.value(g_.node(n_).outputs[0]).type;
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> places, Columns(g_.node(order).outputs[1], (*out.tensor().sizes)[0]));
    SMELT_ASSIGN_OR_RETURN(ValueId kept, Insert(op::kIndexSelect, {g_.node(order).outputs[0], Int(0), places[0]}));
    ReplaceOutput(0, kept);
    return Done();
  }

  // repeat_interleave(self, repeats, dim, output_size): the k-th row of the result is the first row of self whose
  // running sum of repeats exceeds k. repeat_interleave(repeats, output_size) gives that row's number.
  absl::StatusOr<bool> RepeatInterleave(bool numbers) {
    const ValueId repeats = In(numbers ? 0 : 1), output_size = In(numbers ? 1 : 3);
    const Type out = g_.value(g_.node(n_).outputs[0]).type;
    int64_t dim = 0;
    if (!numbers) {
      const TensorType& self = T(In(0));
      auto dim_constant = GetConstant(g_, In(2));
      if (dim_constant && std::holds_alternative<int64_t>(*dim_constant)) {
        dim = std::get<int64_t>(*dim_constant);
        if (dim < 0) dim += self.rank();
      } else if (self.rank() != 1) {
        return absl::UnimplementedError("repeat_interleave without a dim");
      }
      if (T(repeats).rank() != 1 || *T(repeats).sizes != std::vector<Expr>{(*self.sizes)[dim]})
        return absl::UnimplementedError("repeat_interleave with one number of repeats for all");
    }
    const Expr size = (*out.tensor().sizes)[dim];
    SMELT_ASSIGN_OR_RETURN(ValueId counts, Insert(op::kGeScalar, {repeats, Int(0)}));
    SMELT_ASSIGN_OR_RETURN(counts, Insert(op::kAll, {counts}));
    Require(counts, "repeat_interleave: repeats can not be negative");
    SMELT_ASSIGN_OR_RETURN(ValueId sum, Insert(op::kSum, {repeats, None()}));
    ValueId total;
    if (!GetIntExpr(g_, output_size)) {
      SMELT_ASSIGN_OR_RETURN(total, Read(sum, size));
    } else {
      total = Number(size);
      SMELT_ASSIGN_OR_RETURN(ValueId equal, Insert(op::kEqScalar, {sum, total}));
      Require(equal, "repeat_interleave: the sum of the repeats is not the given output_size");
    }
    SMELT_ASSIGN_OR_RETURN(ValueId ends, Insert(op::kCumsum, {repeats, Int(0), None()}));
    SMELT_ASSIGN_OR_RETURN(ValueId at, Insert(op::kArange, {total, None(), None(), None(), None()}));
    SMELT_ASSIGN_OR_RETURN(ValueId row,
                           Insert(op::kSearchsortedTensor,
                                  {ends, at, InsertConstant(g_, n_, numbers && out.tensor().dtype == DType::kInt32),
                                   InsertConstant(g_, n_, true), None(), None()}));
    if (numbers) {
      ReplaceOutput(0, row);
      return Done();
    }
    SMELT_ASSIGN_OR_RETURN(ValueId picked, Insert(op::kIndexSelect, {In(0), Int(dim), row}));
    ReplaceOutput(0, picked);
    return Done();
  }

  Graph& g_;
  const NodeId n_;
};

}  // namespace

absl::StatusOr<bool> OpenDataSizes(Graph& g, NodeId n) { return SizeOpener(g, n).Run(); }

}  // namespace smelt
