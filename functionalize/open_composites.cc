#include "smelt/functionalize/open_composites.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/data_sizes.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/new_geometry.h"

namespace smelt {
namespace {

class Opener {
 public:
  Opener(Graph& g, StrideChoices choices) : g_(g), at_run_time_(choices == StrideChoices::kAtRunTime) {}

  OpenedComposites decided() const { return decided_; }

  absl::Status Run() {
    for (NodeId n : g_.AllNodes()) {
      if (!g_.IsLive(n)) continue;
      absl::Status s = stale_ ? InferNode(g_, n) : absl::OkStatus();
      if (s.ok()) s = Open(n);
      if (s.ok() && g_.IsLive(n)) UseOneName(n);
      if (!s.ok()) {
        const Node& node = g_.node(n);
        return Annotate(
            s, node.source ? absl::StrCat(node.op.full(), " (", node.source->ToString(), ")") : node.op.full());
      }
    }
    return absl::OkStatus();
  }

 private:
  using Rule = absl::Status (Opener::*)(NodeId);

  static const absl::flat_hash_map<std::string, Rule>& Rules() {
    static const auto* const kRules = new absl::flat_hash_map<std::string, Rule>{
        {"aten::reshape", &Opener::Reshape},
        {"aten::_unsafe_view", &Opener::Reshape},
        {"aten::flatten", &Opener::Reshape},
        {"aten::ravel", &Opener::Reshape},
        {"aten::unflatten", &Opener::Reshape},
        {"aten::reshape_as", &Opener::Reshape},
        {"aten::view_as", &Opener::Reshape},
        {"aten::view", &Opener::View},
        {"aten::expand_as", &Opener::ExpandAs},
        {"aten::contiguous", &Opener::Contiguous},
        {"aten::rot90", &Opener::Rot90},
        {"aten::to", &Opener::To},
        {"aten::type_as", &Opener::To},
        {"aten::float", &Opener::To},
        {"aten::_autocast_to_reduced_precision", &Opener::To},
        {"aten::_autocast_to_full_precision", &Opener::To},
        {"aten::dropout", &Opener::Dropout},
        {"aten::dropout_", &Opener::Dropout},
        {"aten::feature_dropout", &Opener::Dropout},
        {"aten::feature_dropout_", &Opener::Dropout},
        {"aten::alpha_dropout", &Opener::Dropout},
        {"aten::alpha_dropout_", &Opener::Dropout},
        {"aten::feature_alpha_dropout", &Opener::Dropout},
        {"aten::feature_alpha_dropout_", &Opener::Dropout},
        {"aten::silu", &Opener::ComplexSilu},
        {"aten::silu_", &Opener::ComplexSilu},
        {"aten::detach_", &Opener::Identity},
        {"aten::requires_grad_", &Opener::Identity},
        {"aten::positive", &Opener::Identity},
        {"aten::mH", &Opener::Adjoint},
        {"aten::adjoint", &Opener::Adjoint},
        {"aten::matrix_H", &Opener::Adjoint},
        {"aten::tensor", &Opener::NumberTensor},
        {"aten::conj", &Opener::Conj},
        {"aten::conj_physical", &Opener::Conj},
        {"aten::real", &Opener::Conj},
        {"aten::lift", &Opener::Identity},
        {"aten::lift_fresh", &Opener::Identity},
        {"aten::batch_norm", &Opener::BatchNorm},
        {"aten::native_batch_norm", &Opener::BatchNorm},
        {"aten::_native_batch_norm_legit", &Opener::BatchNorm},
        {"aten::instance_norm", &Opener::InstanceNorm},
        {"aten::broadcast_tensors", &Opener::BroadcastTensors},
        {"aten::unsafe_split", &Opener::UnsafeSplit},
        {"aten::unsafe_chunk", &Opener::UnsafeSplit},
        {"aten::unsafe_split_with_sizes", &Opener::UnsafeSplit},
        {"aten::sum_to_size", &Opener::SumToSize},
        {"aten::fill_diagonal_", &Opener::FillDiagonal},
        {"aten::atleast_1d", &Opener::AtLeast},
        {"aten::atleast_2d", &Opener::AtLeast},
        {"aten::atleast_3d", &Opener::AtLeast},
        // Their results keep the strides of self, gaps and all.
        {"aten::slice_scatter", &Opener::View},
        {"aten::select_scatter", &Opener::View},
        {"aten::diagonal_scatter", &Opener::View},
        {"aten::as_strided_scatter", &Opener::View},
        {"aten::rrelu", &Opener::Rrelu},
        {"aten::embedding_renorm_", &Opener::EmbeddingRenorm},
        {"aten::rrelu_", &Opener::Rrelu},
        {"aten::cartesian_prod", &Opener::CartesianProduct},
        {"aten::meshgrid", &Opener::Meshgrid},
        {"aten::nonzero", &Opener::DataSizes},
        {"aten::argwhere", &Opener::DataSizes},
        {"aten::nonzero_numpy", &Opener::DataSizes},
        {"aten::where", &Opener::DataSizes},
        {"aten::index", &Opener::DataSizes},
        {"aten::index_put", &Opener::DataSizes},
        {"aten::index_put_", &Opener::DataSizes},
        {"aten::_index_put_impl_", &Opener::DataSizes},
        {"aten::_unsafe_index_put", &Opener::DataSizes},
        {"aten::masked_select", &Opener::DataSizes},
        {"aten::_unique2", &Opener::DataSizes},
        {"aten::unique_consecutive", &Opener::DataSizes},
        {"aten::bincount", &Opener::DataSizes},
        {"aten::repeat_interleave", &Opener::DataSizes},
    };
    return *kRules;
  }

  static bool HasOut(OpName op) { return op.overload() == "out" || absl::EndsWith(op.overload(), "_out"); }

  absl::Status Open(NodeId n) {
    const std::string& name = g_.node(n).op.name();
    if (absl::StartsWith(name, "aten::_foreach_")) return Foreach(n);
    const bool parts =
        name == "aten::unbind_copy" || name == "aten::split_copy" || name == "aten::split_with_sizes_copy";
    if (parts && HasOut(g_.node(n).op)) return CopiesOfParts(n);
    if (absl::EndsWith(name, "_copy") || name == "aten::diag") return ViewCopy(n);
    auto it = Rules().find(name);
    if (it == Rules().end()) return absl::OkStatus();
    if (HasOut(g_.node(n).op)) {
      // Written like any result; but what these compute besides they write themselves.
      if (it->second == &Opener::BatchNorm) return absl::UnimplementedError("batch_norm with out=");
      if (it->second != &Opener::DataSizes) return absl::OkStatus();
    }
    const bool by_strides = it->second == &Opener::Reshape || it->second == &Opener::View ||
                            it->second == &Opener::ExpandAs || it->second == &Opener::Contiguous ||
                            it->second == &Opener::To;
    if (at_run_time_ && by_strides) return absl::OkStatus();
    for (ValueId v : g_.node(n).inputs) {
      const Type& t = g_.value(v).type;
      if (t.IsTensor() && !t.tensor().IsComplete() && it->second != &Opener::Identity)
        return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(v).name, " is not known"));
    }
    return (this->*it->second)(n);
  }

  // --- helpers ---
  ValueId In(NodeId n, int i) const { return g_.node(n).inputs[i]; }
  const TensorType& TypeOfValue(ValueId v) const { return g_.value(v).type.tensor(); }
  absl::StatusOr<int> ArgumentIndex(NodeId n, absl::string_view name) const {
    const FunctionSchema* schema = FindSchema(g_.node(n).op);
    if (schema != nullptr) {
      for (size_t i = 0; i < schema->arguments.size(); ++i) {
        if (schema->arguments[i].name == name) return static_cast<int>(i);
      }
    }
    return absl::InternalError(absl::StrCat("no argument ", name));
  }
  ValueId None(NodeId anchor) { return InsertConstant(g_, anchor, std::monostate()); }

  absl::StatusOr<std::vector<ValueId>> Insert(NodeId anchor, absl::string_view op, std::vector<ValueId> args,
                                              size_t outputs = 1) {
    NodeId n = g_.InsertBefore(anchor, OpName::Get(op), args, std::vector<Type>(outputs, Type::Tensor()));
    g_.SetSource(n, g_.node(anchor).source);
    SMELT_RETURN_IF_ERROR(InferNode(g_, n));
    return std::vector<ValueId>(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  }
  void ReplaceWith(NodeId n, ValueId v) {
    const ValueId out = g_.node(n).outputs[0];
    g_.ReplaceAllUses(out, v);
    g_.Erase(n);
  }

  // A list of sizes as a value: constants, or the expressions of ints made for the purpose.
  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes) {
    std::vector<int64_t> constants;
    for (const Expr& e : sizes) {
      if (e.IsConstant()) constants.push_back(*e.Constant());
    }
    if (constants.size() == sizes.size()) return InsertConstant(g_, anchor, constants);
    std::vector<ValueId> elements;
    for (const Expr& e : sizes) {
      elements.push_back(e.IsConstant() ? InsertConstant(g_, anchor, *e.Constant()) : InsertSize(g_, anchor, e));
    }
    NodeId list = g_.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Int())});
    return g_.node(list).outputs[0];
  }

  // A choice is about to be made by the strides of v.
  void Decide(ValueId v) { (MayBeOfArgument(v) ? decided_.strides_decide : decided_.order_decides) = true; }
  // Whether v may lie in an argument's storage. What is behind blocks and lists counts as that.
  bool MayBeOfArgument(ValueId v) {
    std::vector<ValueId> passed;
    std::optional<bool> answer;
    while (!answer) {
      if (auto known = may_be_of_argument_.find(v); known != may_be_of_argument_.end()) {
        answer = known->second;
        break;
      }
      passed.push_back(v);
      const NodeId def = g_.value(v).def;
      if (g_.IsParam(def)) {
        answer = IsUserInput(v) || g_.node(def).parent != g_.top();
        continue;
      }
      const OpEffects effects = NodeEffects(g_, def);
      if (effects.kind != EffectKind::kGeneric || effects.geometry_from >= 0 || effects.storage_unknown) {
        answer = effects.kind != EffectKind::kConstant;
        continue;
      }
      const ResultEffects& r = effects.result(g_.value(v).def_index);
      const uint64_t from = r.self | r.view;
      if (r.unknown || (r.element | r.element_view) != 0 || (from & (from - 1)) != 0) {
        answer = true;
      } else if (from == 0) {
        answer = false;
      } else {
        v = In(def, __builtin_ctzll(from));
      }
    }
    for (ValueId p : passed) may_be_of_argument_[p] = *answer;
    return *answer;
  }
  bool IsUserInput(ValueId v) const {
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      if (g_.inputs()[i] == v) return g_.input_infos[i].kind == InputInfo::Kind::kUser;
    }
    return false;
  }

  // --- names ---
  // Until its geometry changes, the results of in-place operators are names of their operand.
  void UseOneName(NodeId n) {
    if (UseNewGeometry(g_, n)) {
      stale_ = true;
      return;
    }
    const Node& node = g_.node(n);
    if (ReturnsItsOperand(g_, n) && node.parent == g_.top() && !ChangesGeometry(node.op))
      g_.ReplaceAllUses(node.outputs[0], node.inputs[0]);
  }

  // --- rules ---
  // Whether it is legal, and its strides, hang on its argument's.
  absl::Status View(NodeId n) {
    Decide(In(n, 0));
    return absl::OkStatus();
  }

  absl::Status DataSizes(NodeId n) { return OpenDataSizes(g_, n).status(); }

  absl::Status Identity(NodeId n) {
    ReplaceWith(n, In(n, 0));
    return absl::OkStatus();
  }
  // Of a tensor that is not complex PyTorch hands back the tensor itself.
  absl::Status Conj(NodeId n) { return IsComplex(*TypeOfValue(In(n, 0)).dtype) ? absl::OkStatus() : Identity(n); }

  // The conjugate of the transpose.
  absl::Status Adjoint(NodeId n) {
    if (!IsComplex(*TypeOfValue(In(n, 0)).dtype)) return absl::OkStatus();
    SMELT_ASSIGN_OR_RETURN(auto t,
                           Insert(n, "aten::transpose.int",
                                  {In(n, 0), InsertConstant(g_, n, int64_t{-2}), InsertConstant(g_, n, int64_t{-1})}));
    const NodeId conj = g_.InsertBefore(n, OpName::Get("aten::_conj"), {t[0]}, {g_.value(t[0]).type});
    g_.SetSource(conj, g_.node(n).source);
    ReplaceWith(n, g_.node(conj).outputs[0]);
    return absl::OkStatus();
  }
  // tensor(number, dtype, device, requires_grad)
  absl::Status NumberTensor(NodeId n) {
    const TensorType& t = TypeOfValue(g_.node(n).outputs[0]);
    if (!t.IsComplete() || t.rank() != 0) return absl::UnimplementedError("a tensor of a list of numbers");
    const ValueId none = None(n);
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::scalar_tensor",
                                          {In(n, 0), InsertConstant(g_, n, ScalarTypeOf(*t.dtype)), none, none, none}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }

  // rrelu(x, lower, upper, training): outside of training the slope is the middle.
  absl::Status Rrelu(NodeId n) {
    auto lower = GetConstant(g_, In(n, 1)), upper = GetConstant(g_, In(n, 2)), training = GetConstant(g_, In(n, 3));
    auto number = [](const std::optional<ConstantValue>& c) -> std::optional<double> {
      if (c && std::holds_alternative<double>(*c)) return std::get<double>(*c);
      if (c && std::holds_alternative<int64_t>(*c)) return static_cast<double>(std::get<int64_t>(*c));
      return std::nullopt;
    };
    if (!number(lower) || !number(upper) || !training || !std::holds_alternative<bool>(*training))
      return absl::UnimplementedError("rrelu whose mode or bounds are known only at run time");
    if (std::get<bool>(*training)) return RandomRrelu(n, *number(lower), *number(upper));
    const ValueId slope = InsertConstant(g_, n, (*number(lower) + *number(upper)) / 2);
    SMELT_ASSIGN_OR_RETURN(
        auto v,
        Insert(n, g_.node(n).op.name() == "aten::rrelu" ? "aten::leaky_relu" : "aten::leaky_relu_", {In(n, 0), slope}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }

  // In training each element that is not positive has a slope of its own.
  absl::Status RandomRrelu(NodeId n, double lower, double upper) {
    const ValueId self = In(n, 0), none = None(n), zero = InsertConstant(g_, n, int64_t{0});
    SMELT_ASSIGN_OR_RETURN(auto slope, Insert(n, "aten::empty_like", {self, none, none, none, none, none}));
    SMELT_ASSIGN_OR_RETURN(slope, Insert(n, "aten::uniform_",
                                         {slope[0], InsertConstant(g_, n, lower), InsertConstant(g_, n, upper), none}));
    SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, "aten::mul.Tensor", {self, slope[0]}));
    SMELT_ASSIGN_OR_RETURN(auto negative, Insert(n, "aten::le.Scalar", {self, zero}));
    SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, "aten::where.self", {negative[0], scaled[0], self}));
    if (g_.node(n).op.name() == "aten::rrelu_") {
      SMELT_ASSIGN_OR_RETURN(out, Insert(n, "aten::copy_", {self, out[0], InsertConstant(g_, n, false)}));
    }
    ReplaceWith(n, out[0]);
    return absl::OkStatus();
  }

  // reshape to sizes that the output's type says, decided when it runs.
  absl::Status ReshapeLater(NodeId n) {
    const ValueId list = IntList(n, *TypeOfValue(g_.node(n).outputs[0]).sizes);
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::reshape", {In(n, 0), list}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }

  absl::Status CartesianProduct(NodeId n) {
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
    if (!elements || elements->size() != 1) return absl::OkStatus();
    ReplaceWith(n, (*elements)[0]);
    return absl::OkStatus();
  }

  // meshgrid(tensors, indexing): each, of rank 0 or 1, expanded along its own dim. "xy" swaps the first two.
  absl::Status Meshgrid(NodeId n) {
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
    if (!elements) return absl::UnimplementedError("a list that is not made in place");
    bool swap = false;
    if (g_.node(n).inputs.size() > 1) {
      auto indexing = GetConstant(g_, In(n, 1));
      if (!indexing || !std::holds_alternative<std::string>(*indexing))
        return absl::UnimplementedError("an indexing that is known only at run time");
      swap = std::get<std::string>(*indexing) == "xy" && elements->size() >= 2;
    }
    const size_t rank = elements->size();
    std::vector<size_t> dim(rank);
    for (size_t k = 0; k < rank; ++k) dim[k] = k;
    if (swap) std::swap(dim[0], dim[1]);
    std::vector<Expr> sizes(rank, Expr(1));
    for (size_t k = 0; k < rank; ++k) {
      const std::vector<Expr>& s = *TypeOfValue((*elements)[k]).sizes;
      if (s.size() > 1) return absl::InvalidArgumentError("meshgrid takes tensors of rank 0 or 1");
      if (!s.empty()) sizes[dim[k]] = s[0];
    }
    std::vector<ValueId> results;
    for (size_t k = 0; k < rank; ++k) {
      std::vector<Expr> own(rank, Expr(1));
      own[dim[k]] = sizes[dim[k]];
      SMELT_ASSIGN_OR_RETURN(auto flat, Insert(n, "aten::view", {(*elements)[k], IntList(n, own)}));
      SMELT_ASSIGN_OR_RETURN(auto e,
                             Insert(n, "aten::expand", {flat[0], IntList(n, sizes), InsertConstant(g_, n, false)}));
      results.push_back(e[0]);
    }
    return ReplaceList(n, results);
  }

  // reshape, flatten, …: the output's sizes are known from its type; only alias or copy is to be decided.
  absl::Status Reshape(NodeId n) {
    const ValueId self = In(n, 0);
    const TensorType from = TypeOfValue(self);
    const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
    if (!from.IsComplete() || !to.sizes) return absl::InvalidArgumentError("incomplete types");
    const std::string& name = g_.node(n).op.name();
    if (name == "aten::flatten" && *from.sizes == *to.sizes) return Identity(n);  // PyTorch returns the tensor itself
    Decide(self);
    const ValueId list = IntList(n, *to.sizes);
    ValueId base = self;
    // view_as is a view or refused, never a copy.
    const bool ravel = name == "aten::ravel";  // of what is contiguous a view, else a copy
    const std::optional<bool> contiguous = HasFormat(from, 0);
    const bool viewable = ravel ? contiguous == true : IsViewable(from, *to.sizes);
    if (name != "aten::view_as" && !viewable) {
      const bool may_alias = ravel ? !contiguous.has_value() : MayBeViewable(from, *to.sizes);
      SMELT_ASSIGN_OR_RETURN(base, Clone(n, self, 0, may_alias));
      // PyTorch hands out the copy's view; nobody else can see the copy.
    }
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::view", {base, list}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }

  // A copy; for some sizes of the call PyTorch may take a view instead, which is then all the same or refused.
  absl::StatusOr<ValueId> Clone(NodeId n, ValueId v, int64_t format, bool may_alias) {
    SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, "aten::clone", {v, InsertConstant(g_, n, format)}));
    if (may_alias) g_.SetAttribute(g_.value(copy[0]).def, kMayAlias, int64_t{1});
    return copy[0];
  }

  // Whether some values of the symbols let `sizes` be laid over these strides.
  bool MayBeViewable(const TensorType& from, const std::vector<Expr>& sizes) const {
    SymbolicDecide decide(&g_.symbols, g_.symbol_hints);
    auto result = view_rules::Reshape(decide, {*from.sizes, *from.strides, Expr(0)}, sizes);
    return !result.ok() || result->aliases || !decide.assumptions().empty();
  }

  // PyTorch's computeStride: can `sizes` be laid over these strides, whatever the symbols are?
  bool IsViewable(const TensorType& from, const std::vector<Expr>& sizes) const {
    const std::vector<Expr>& old_sizes = *from.sizes;
    const std::vector<Expr>& old_strides = *from.strides;
    for (const Expr& s : old_sizes) {
      if (s == Expr(0)) return true;
    }
    int view_d = static_cast<int>(sizes.size()) - 1;
    if (old_sizes.empty()) return true;
    Expr chunk_base = old_strides.back(), tensor_numel = 1, view_numel = 1;
    for (int d = static_cast<int>(old_sizes.size()) - 1; d >= 0; --d) {
      tensor_numel = tensor_numel * old_sizes[d];
      const bool end = d == 0 || (old_sizes[d - 1] != Expr(1) && old_strides[d - 1] != tensor_numel * chunk_base);
      if (!end) continue;
      while (view_d >= 0 && (view_numel != tensor_numel) &&
             (Hint(view_numel) < Hint(tensor_numel) || sizes[view_d] == Expr(1))) {
        view_numel = view_numel * sizes[view_d];
        --view_d;
      }
      while (view_d >= 0 && sizes[view_d] == Expr(1)) --view_d;
      if (view_numel != tensor_numel) return false;
      if (d > 0) {
        chunk_base = old_strides[d - 1];
        tensor_numel = 1;
        view_numel = 1;
      }
    }
    return view_d == -1;
  }
  int64_t Hint(const Expr& e) const {
    absl::flat_hash_map<std::string, int64_t> values;
    for (const std::string& s : e.Symbols()) {
      auto it = g_.symbol_hints.find(s);
      values[s] = it == g_.symbol_hints.end() ? 4 : it->second;
    }
    auto v = e.Evaluate(values);
    return v.ok() ? *v : INT64_MAX;
  }

  // A quarter turn is the transpose of a flip, in its memory.
  absl::Status Rot90(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
    SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("k", 1));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
    if (k % 2 == 0 || dims.size() != 2) return absl::OkStatus();
    const bool once = (k % 4 + 4) % 4 == 1;
    SMELT_ASSIGN_OR_RETURN(auto flipped, Insert(n, "aten::flip", {In(n, 0), IntList(n, {Expr(dims[once ? 1 : 0])})}));
    SMELT_ASSIGN_OR_RETURN(
        auto turned,
        Insert(n, "aten::transpose.int", {flipped[0], InsertConstant(g_, n, dims[0]), InsertConstant(g_, n, dims[1])}));
    ReplaceWith(n, turned[0]);
    return absl::OkStatus();
  }

  absl::Status ExpandAs(NodeId n) {
    const std::vector<Expr> sizes = *TypeOfValue(In(n, 1)).sizes;
    SMELT_ASSIGN_OR_RETURN(auto v,
                           Insert(n, "aten::expand", {In(n, 0), IntList(n, sizes), InsertConstant(g_, n, false)}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }

  // nullopt: that hangs on sizes that are not known.
  std::optional<bool> HasFormat(const TensorType& t, int64_t memory_format) const {
    const std::vector<Expr>& s = *t.sizes;
    if (std::find(s.begin(), s.end(), Expr(0)) != s.end()) return true;  // nothing is in every order
    std::vector<Expr> expected(s.size());
    if (memory_format == 0) {
      expected = ContiguousStrides(s);
    } else {
      // Channels last: NHWC, NDHWC.
      const int rank = static_cast<int>(s.size());
      if (rank < 4) return false;
      Expr stride = 1;
      expected[1] = stride;
      stride = stride * s[1];
      for (int d = rank - 1; d >= 2; --d) {
        expected[d] = stride;
        stride = stride * s[d];
      }
      expected[0] = stride;
    }
    bool surely = true;
    for (size_t d = 0; d < s.size(); ++d) {
      const Expr& stride = (*t.strides)[d];
      if (s[d] == Expr(1) || stride == expected[d]) continue;
      if (g_.symbols.Equal(s[d], 1) == false && g_.symbols.Equal(stride, expected[d]) == false) return false;
      surely = false;
    }
    return surely ? std::optional<bool>(true) : std::nullopt;
  }

  absl::Status Contiguous(NodeId n) {
    std::optional<Expr> format = GetIntExpr(g_, In(n, 1));
    const int64_t code = format && format->IsConstant() ? *format->Constant() : 0;
    if (code == 1)
      return absl::InvalidArgumentError("preserve memory format is unsupported by the contiguous operator");
    Decide(In(n, 0));
    const std::optional<bool> has = HasFormat(TypeOfValue(In(n, 0)), code);
    if (has == true) return Identity(n);
    SMELT_ASSIGN_OR_RETURN(ValueId v, Clone(n, In(n, 0), code, !has.has_value()));
    ReplaceWith(n, v);
    return absl::OkStatus();
  }

  // to.dtype, to.device, to.dtype_layout, to.other, type_as: nothing to do returns the tensor itself, else _to_copy.
  absl::Status To(NodeId n) {
    const TensorType from = TypeOfValue(In(n, 0));
    const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
    bool copy = false;
    int64_t format = 1;  // preserve
    if (auto i = ArgumentIndex(n, "copy"); i.ok()) {
      auto c = GetConstant(g_, In(n, *i));
      copy = c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
    }
    if (auto i = ArgumentIndex(n, "memory_format"); i.ok()) {
      auto c = GetConstant(g_, In(n, *i));
      if (c && std::holds_alternative<int64_t>(*c)) format = std::get<int64_t>(*c);
    }
    if (!copy && *from.dtype == *to.dtype) {
      const std::optional<bool> has = format == 1 ? true : HasFormat(from, format);
      if (!has) return absl::UnimplementedError("whether the result is the tensor itself hangs on its sizes");
      if (*has) return Identity(n);
    }
    ValueId none = None(n);
    NodeId fresh = g_.InsertBefore(n, OpName::Get("aten::_to_copy"),
                                   {In(n, 0), InsertConstant(g_, n, ScalarTypeOf(*to.dtype)), none, none, none,
                                    InsertConstant(g_, n, false), InsertConstant(g_, n, format)},
                                   {g_.value(g_.node(n).outputs[0]).type});
    g_.SetSource(fresh, g_.node(n).source);
    ReplaceWith(n, g_.node(fresh).outputs[0]);
    return absl::OkStatus();
  }

  absl::Status Dropout(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(int p, ArgumentIndex(n, "p"));
    SMELT_ASSIGN_OR_RETURN(int train, ArgumentIndex(n, "train"));
    auto training = GetConstant(g_, In(n, train));
    auto rate = GetConstant(g_, In(n, p));
    if (!training || !std::holds_alternative<bool>(*training) || !rate || !std::holds_alternative<double>(*rate)) {
      return absl::UnimplementedError("dropout whose mode or rate is known only at run time");
    }
    const double drop = std::get<double>(*rate);
    if (!std::get<bool>(*training) || drop == 0) return Identity(n);
    const std::string name = g_.node(n).op.name();
    const bool alpha = absl::StrContains(name, "alpha");
    const bool feature = absl::StrContains(name, "feature"), in_place = absl::EndsWith(name, "_");
    if (drop == 1) {  // nothing is drawn
      SMELT_ASSIGN_OR_RETURN(auto zero, Insert(n, in_place ? "aten::mul_.Scalar" : "aten::mul.Scalar",
                                               {In(n, 0), InsertConstant(g_, n, 0.0)}));
      ReplaceWith(n, zero[0]);
      return absl::OkStatus();
    }
    // x * bernoulli(1 - p) / (1 - p), as PyTorch computes it on the CPU.
    ValueId none = None(n);
    const ValueId self = In(n, 0);
    std::vector<ValueId> noise;
    if (feature) {  // one draw a channel
      std::vector<Expr> sizes = *TypeOfValue(self).sizes;
      if (sizes.size() < 2) return absl::InvalidArgumentError("feature dropout requires at least 2 dimensions");
      std::fill(sizes.begin() + 2, sizes.end(), Expr(1));
      SMELT_ASSIGN_OR_RETURN(noise, Insert(n, "aten::new_empty", {self, IntList(n, sizes), none, none, none, none}));
    } else {
      SMELT_ASSIGN_OR_RETURN(noise, Insert(n, "aten::empty_like", {self, none, none, none, none, none}));
    }
    SMELT_ASSIGN_OR_RETURN(auto drawn,
                           Insert(n, "aten::bernoulli_.float", {noise[0], InsertConstant(g_, n, 1 - drop), none}));
    if (alpha) return AlphaDropout(n, drawn[0], drop, in_place);
    SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, "aten::div_.Scalar", {drawn[0], InsertConstant(g_, n, 1 - drop)}));
    SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, in_place ? "aten::mul_.Tensor" : "aten::mul.Tensor", {self, scaled[0]}));
    ReplaceWith(n, out[0]);
    return absl::OkStatus();
  }

  // x * a*noise + b, where mean and variance of what selu has made stay: PyTorch's _dropout_impl.
  absl::Status AlphaDropout(NodeId n, ValueId noise, double drop, bool in_place) {
    constexpr double kAlpha = 1.7580993408473766;
    const double a = 1.0 / std::sqrt((kAlpha * kAlpha * drop + 1) * (1 - drop));
    auto number = [&](double v) { return InsertConstant(g_, n, v); };
    const ValueId one = InsertConstant(g_, n, int64_t{1});
    SMELT_ASSIGN_OR_RETURN(auto b, Insert(n, "aten::add.Scalar", {noise, number(-1), one}));
    SMELT_ASSIGN_OR_RETURN(b, Insert(n, "aten::mul_.Scalar", {b[0], number(kAlpha * a)}));
    SMELT_ASSIGN_OR_RETURN(b, Insert(n, "aten::add_.Scalar", {b[0], number(kAlpha * a * drop), one}));
    SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, "aten::mul_.Scalar", {noise, number(a)}));
    SMELT_ASSIGN_OR_RETURN(auto out,
                           Insert(n, in_place ? "aten::mul_.Tensor" : "aten::mul.Tensor", {In(n, 0), scaled[0]}));
    SMELT_ASSIGN_OR_RETURN(out, Insert(n, in_place ? "aten::add_.Tensor" : "aten::add.Tensor", {out[0], b[0], one}));
    ReplaceWith(n, out[0]);
    return absl::OkStatus();
  }

  // unbind_copy(self, dim, out=list): each part is copied to its place, in order.
  absl::Status CopiesOfParts(NodeId n) {
    std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const std::optional<std::vector<ValueId>> given = GetListElements(g_, args.back());
    if (!given) return absl::UnimplementedError("results in a list that is not known");
    args.pop_back();
    const std::string& name = g_.node(n).op.name();
    const std::string view =
        absl::StrCat(name.substr(0, name.size() - std::string("_copy").size()),
                     name == "aten::unbind_copy" ? ".int" : "", name == "aten::split_copy" ? ".Tensor" : "");
    const NodeId list = g_.InsertBefore(n, OpName::Get(view), args, {Type::List(Type::Tensor())});
    const NodeId parts = g_.InsertBefore(n, OpName::Get("prim::ListUnpack"), {g_.node(list).outputs[0]},
                                         std::vector<Type>(given->size(), Type::Tensor()));
    for (NodeId made : {list, parts}) {
      g_.SetSource(made, g_.node(n).source);
      SMELT_RETURN_IF_ERROR(InferNode(g_, made));
    }
    for (size_t i = 0; i < given->size(); ++i) {
      const ValueId to = (*given)[i], from = g_.node(parts).outputs[i];
      if (TypeOfValue(to).sizes != TypeOfValue(from).sizes)
        return absl::UnimplementedError("a given result of another size");
      SMELT_RETURN_IF_ERROR(Insert(n, "aten::copy_", {to, from, InsertConstant(g_, n, false)}).status());
    }
    g_.Erase(n);
    return absl::OkStatus();
  }

  // x / (1 + exp(-x)); of real numbers the operator has a meaning of its own.
  absl::Status ComplexSilu(NodeId n) {
    if (g_.node(n).inputs.size() != 1 || !IsComplex(*TypeOfValue(In(n, 0)).dtype)) return absl::OkStatus();
    const bool in_place = g_.node(n).op.name() == "aten::silu_";
    const ValueId one = InsertConstant(g_, n, int64_t{1});
    SMELT_ASSIGN_OR_RETURN(auto e, Insert(n, "aten::neg", {In(n, 0)}));
    SMELT_ASSIGN_OR_RETURN(e, Insert(n, "aten::exp", {e[0]}));
    SMELT_ASSIGN_OR_RETURN(e, Insert(n, "aten::add.Scalar", {e[0], one, one}));
    SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, in_place ? "aten::div_.Tensor" : "aten::div.Tensor", {In(n, 0), e[0]}));
    ReplaceWith(n, out[0]);
    return absl::OkStatus();
  }

  // Training: the functional form, then the running statistics are written.
  absl::Status BatchNorm(NodeId n) {
    const std::string name = g_.node(n).op.name();
    SMELT_ASSIGN_OR_RETURN(int t, ArgumentIndex(n, "training"));
    auto training = GetConstant(g_, In(n, t));
    if (!training || !std::holds_alternative<bool>(*training))
      return absl::UnimplementedError("batch_norm whose mode is known only at run time");
    auto is_none = [&](ValueId v) {
      auto c = GetConstant(g_, v);
      return c && std::holds_alternative<std::monostate>(*c);
    };
    if (!std::get<bool>(*training)) return absl::OkStatus();
    const bool no_stats_overload = g_.node(n).op.overload() == "no_stats";
    if (no_stats_overload) return absl::OkStatus();
    const ValueId mean = In(n, 3), var = In(n, 4);
    const TensorType& input = g_.value(In(n, 0)).type.tensor();
    if (name == "aten::batch_norm" && input.sizes &&
        std::find(input.sizes->begin(), input.sizes->end(), Expr(0)) != input.sizes->end()) {
      // Of nothing PyTorch makes a copy, and leaves the statistics.
      SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, "aten::clone", {In(n, 0), InsertConstant(g_, n, std::monostate())}));
      return ReplaceOutputs(n, copy);
    }
    SMELT_ASSIGN_OR_RETURN(int m, ArgumentIndex(n, "momentum"));
    SMELT_ASSIGN_OR_RETURN(int e, ArgumentIndex(n, "eps"));
    if (is_none(mean) || is_none(var)) {
      SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::_native_batch_norm_legit.no_stats",
                                            {In(n, 0), In(n, 1), In(n, 2), In(n, t), In(n, m), In(n, e)}, 3));
      return ReplaceOutputs(n, v);
    }
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::_native_batch_norm_legit_functional",
                                          {In(n, 0), In(n, 1), In(n, 2), mean, var, In(n, t), In(n, m), In(n, e)}, 5));
    SMELT_RETURN_IF_ERROR(Insert(n, "aten::copy_", {mean, v[3], InsertConstant(g_, n, false)}).status());
    ValueId new_var = v[4];
    if (mean == var) {  // one tensor for both, which PyTorch writes one after the other
      SMELT_ASSIGN_OR_RETURN(auto second,
                             Insert(n, "aten::_native_batch_norm_legit_functional",
                                    {In(n, 0), In(n, 1), In(n, 2), mean, var, In(n, t), In(n, m), In(n, e)}, 5));
      new_var = second[4];
    }
    SMELT_RETURN_IF_ERROR(Insert(n, "aten::copy_", {var, new_var, InsertConstant(g_, n, false)}).status());
    return ReplaceOutputs(n, v);
  }
  absl::Status ReplaceOutputs(NodeId n, const std::vector<ValueId>& with) {
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    for (size_t i = 0; i < outputs.size(); ++i) g_.ReplaceAllUses(outputs[i], with[i]);
    g_.Erase(n);
    return absl::OkStatus();
  }

  // instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, …): without running statistics it is
  // pure.
  absl::Status InstanceNorm(NodeId n) {
    auto is_none = [&](ValueId v) {
      auto c = GetConstant(g_, v);
      return c && std::holds_alternative<std::monostate>(*c);
    };
    if (is_none(In(n, 3)) && is_none(In(n, 4))) return absl::OkStatus();
    auto use = GetConstant(g_, In(n, 5));
    if (use && std::holds_alternative<bool>(*use) && !std::get<bool>(*use)) return absl::OkStatus();
    // PyTorch's own way: the batch norm of one sample with batch * channels channels, its running statistics averaged
    // over the batch.
    const std::vector<Expr> s = *TypeOfValue(In(n, 0)).sizes;
    const Expr batch = s[0], channels = s[1];
    std::vector<Expr> flat = s;
    flat[0] = 1;
    flat[1] = batch * channels;
    auto view = [&](ValueId v, const std::vector<Expr>& sizes) -> absl::StatusOr<ValueId> {
      if (at_run_time_) {
        SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, "aten::reshape", {v, IntList(n, sizes)}));
        return out[0];
      }
      if (HasFormat(TypeOfValue(v), 0) != true) {
        SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, "aten::clone", {v, InsertConstant(g_, n, int64_t{0})}));
        v = copy[0];
      }
      SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, "aten::view", {v, IntList(n, sizes)}));
      return out[0];
    };
    auto repeat = [&](ValueId v) -> absl::StatusOr<ValueId> {
      if (is_none(v)) return v;
      SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, "aten::repeat", {v, IntList(n, {batch})}));
      return out[0];
    };
    SMELT_ASSIGN_OR_RETURN(ValueId x, view(In(n, 0), flat));
    SMELT_ASSIGN_OR_RETURN(ValueId weight, repeat(In(n, 1)));
    SMELT_ASSIGN_OR_RETURN(ValueId bias, repeat(In(n, 2)));
    SMELT_ASSIGN_OR_RETURN(ValueId mean, repeat(In(n, 3)));
    SMELT_ASSIGN_OR_RETURN(ValueId var, repeat(In(n, 4)));
    SMELT_ASSIGN_OR_RETURN(auto v,
                           Insert(n, "aten::_native_batch_norm_legit_functional",
                                  {x, weight, bias, mean, var, InsertConstant(g_, n, true), In(n, 6), In(n, 7)}, 5));
    for (int k = 0; k < 2; ++k) {
      SMELT_ASSIGN_OR_RETURN(ValueId rows, view(v[3 + k], {batch, channels}));
      SMELT_ASSIGN_OR_RETURN(auto average, Insert(n, "aten::mean.dim",
                                                  {rows, InsertConstant(g_, n, std::vector<int64_t>{0}),
                                                   InsertConstant(g_, n, false), None(n)}));
      SMELT_RETURN_IF_ERROR(
          Insert(n, "aten::copy_", {In(n, 3 + k), average[0], InsertConstant(g_, n, false)}).status());
    }
    SMELT_ASSIGN_OR_RETURN(ValueId out, view(v[0], s));
    ReplaceWith(n, out);
    return absl::OkStatus();
  }

  absl::Status BroadcastTensors(NodeId n) {
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, In(n, 0));
    if (!elements) return absl::UnimplementedError("a list that is not made in place");
    // The common shape is that of any result; it is found from the operands.
    size_t rank = 0;
    for (ValueId v : *elements) rank = std::max(rank, TypeOfValue(v).sizes->size());
    std::vector<Expr> sizes(rank, Expr(1));
    for (ValueId v : *elements) {
      const std::vector<Expr>& s = *TypeOfValue(v).sizes;
      for (size_t d = 0; d < s.size(); ++d) {
        Expr& out = sizes[rank - s.size() + d];
        if (out == Expr(1)) out = s[d];
      }
    }
    std::vector<ValueId> results;
    for (ValueId v : *elements) {
      if (*TypeOfValue(v).sizes == sizes) {  // PyTorch hands back the tensor itself
        results.push_back(v);
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(auto e, Insert(n, "aten::expand", {v, IntList(n, sizes), InsertConstant(g_, n, false)}));
      results.push_back(e[0]);
    }
    return ReplaceList(n, results);
  }

  absl::Status ReplaceList(NodeId n, const std::vector<ValueId>& results) {
    NodeId list = g_.InsertBefore(n, OpName::Get("prim::ListConstruct"), results, {Type::List(Type::Tensor())});
    g_.SetSource(list, g_.node(n).source);
    ReplaceWith(n, g_.node(list).outputs[0]);
    return absl::OkStatus();
  }

  absl::Status UnsafeSplit(NodeId n) {
    // They do share memory, whatever their schema says.
    const std::string name = g_.node(n).op.full();
    std::string safe = absl::StrCat("aten::", absl::StripPrefix(name, "aten::unsafe_"));
    const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    NodeId fresh = g_.InsertBefore(n, OpName::Get(safe), args, {Type::List(Type::Tensor())});
    g_.SetSource(fresh, g_.node(n).source);
    ReplaceWith(n, g_.node(fresh).outputs[0]);
    return absl::OkStatus();
  }

  // The same into a tensor that is given: copied there.
  absl::Status ViewCopyOut(NodeId n) {
    const OpName op = g_.node(n).op;
    const std::string overload(absl::StripSuffix(absl::StripSuffix(op.overload(), "out"), "_"));
    const OpName copy = OpName::Get(absl::StrCat(op.name(), overload.empty() ? "" : ".", overload));
    std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const FunctionSchema* schema = FindSchema(copy);
    if (schema == nullptr || schema->returns.size() != 1 || !schema->returns[0].type.IsTensor() ||
        schema->arguments.size() + 1 != args.size() || GetOpInfo(copy).kind == OpKind::kPointwise)
      return absl::OkStatus();
    const ValueId out = args.back();
    args.pop_back();
    if (op.name() == "aten::_to_copy") return absl::OkStatus();
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, copy.full(), args));
    const NodeId made = g_.value(v[0]).def;
    if (*TypeOfValue(v[0]).sizes != *TypeOfValue(out).sizes)
      return absl::UnimplementedError("a copy of a view into a tensor that is resized");
    SMELT_ASSIGN_OR_RETURN(auto copied, Insert(n, "aten::copy_", {out, v[0], InsertConstant(g_, n, false)}));
    ReplaceWith(n, copied[0]);
    return ViewCopy(made);
  }

  // t_copy and the like, diag of a matrix: a view, copied.
  absl::Status ViewCopy(NodeId n) {
    const OpName op = g_.node(n).op;
    if (HasOut(op)) return ViewCopyOut(n);
    if (g_.node(n).outputs.size() != 1 || op == "aten::alias_copy" || op == "aten::detach_copy" ||
        op == "aten::lift_fresh_copy")
      return absl::OkStatus();
    const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    const ValueId out = g_.node(n).outputs[0];
    const auto copied = [&](NodeId anchor, ValueId v) -> absl::StatusOr<ValueId> {
      const ValueId contiguous = InsertConstant(g_, anchor, int64_t{0});
      SMELT_ASSIGN_OR_RETURN(auto copy, Insert(anchor, "aten::clone", {v, contiguous}));
      return copy[0];
    };
    if (op == "aten::diag") {
      if (TypeOfValue(args[0]).rank() != 2) return absl::OkStatus();
      const ValueId first = InsertConstant(g_, n, int64_t{0}), second = InsertConstant(g_, n, int64_t{1});
      SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::diagonal", {args[0], args[1], first, second}));
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
      ReplaceWith(n, copy);
      return absl::OkStatus();
    }
    if (op == "aten::view_copy") {
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, args[0]));
      SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, "aten::view", {copy, args[1]}));
      ReplaceWith(n, v[0]);
      return absl::OkStatus();
    }
    const OpName view = OpName::Get(
        absl::StrCat(absl::StripSuffix(op.name(), "_copy"), op.overload().empty() ? "" : ".", op.overload()));
    if (FindSchema(view) == nullptr || GetOpInfo(view).kind != OpKind::kView) return absl::OkStatus();
    if (g_.value(out).type.IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, view.full(), args));
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
      ReplaceWith(n, copy);
      return absl::OkStatus();
    }
    // A list: each where it is unpacked.
    std::vector<NodeId> unpacks;
    for (const Use& u : g_.value(out).uses) {
      if (g_.node(u.user).op != "prim::ListUnpack") return absl::OkStatus();
      unpacks.push_back(u.user);
    }
    const NodeId fresh = g_.InsertBefore(n, view, args, {Type::List(Type::Tensor())});
    g_.SetSource(fresh, g_.node(n).source);
    ReplaceWith(n, g_.node(fresh).outputs[0]);
    for (const NodeId u : unpacks) {
      const Node& node = g_.node(u);
      const NodeId next = node.next.valid() ? node.next : g_.block(node.parent).return_node;
      const std::vector<ValueId> parts(node.outputs.begin(), node.outputs.end());
      for (const ValueId v : parts) {
        const std::vector<Use> uses(g_.value(v).uses.begin(), g_.value(v).uses.end());
        SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(next, v));
        for (const Use& use : uses) g_.SetInput(use.user, use.index, copy);
      }
    }
    return absl::OkStatus();
  }

  absl::Status SumToSize(NodeId n) {
    const TensorType from = TypeOfValue(In(n, 0));
    const TensorType to = TypeOfValue(g_.node(n).outputs[0]);
    if (to.rank() == 0) {  // PyTorch sums, even over one element
      SMELT_ASSIGN_OR_RETURN(auto sum, Insert(n, "aten::sum", {In(n, 0), None(n)}));
      ReplaceWith(n, sum[0]);
      return absl::OkStatus();
    }
    if (*from.sizes == *to.sizes) return Identity(n);
    const int lead = from.rank() - to.rank();
    std::vector<int64_t> dims;
    for (int d = 0; d < from.rank(); ++d) {
      if (d < lead || ((*to.sizes)[d - lead] == Expr(1) && (*from.sizes)[d] != Expr(1))) dims.push_back(d);
    }
    ValueId v = In(n, 0);
    SMELT_ASSIGN_OR_RETURN(auto sum, Insert(n, "aten::sum.dim_IntList",
                                            {v, InsertConstant(g_, n, dims), InsertConstant(g_, n, true), None(n)}));
    v = sum[0];
    if (lead > 0) {
      SMELT_ASSIGN_OR_RETURN(auto view, Insert(n, "aten::view", {v, IntList(n, *to.sizes)}));
      v = view[0];
    }
    ReplaceWith(n, v);
    return absl::OkStatus();
  }

  absl::Status FillDiagonal(NodeId n) {
    const TensorType t = TypeOfValue(In(n, 0));
    if (t.rank() < 2) return absl::InvalidArgumentError("dimensions must larger than 1");
    auto number = [&](int64_t v) { return InsertConstant(g_, n, v); };
    // Of all dims at once.
    auto fill = [&](ValueId v) -> absl::Status {
      for (int k = 1; k < t.rank(); ++k) {
        SMELT_ASSIGN_OR_RETURN(auto d, Insert(n, "aten::diagonal", {v, number(0), number(0), number(1)}));
        v = d[0];
      }
      return Insert(n, "aten::fill_.Scalar", {v, In(n, 1)}).status();
    };
    auto wrap = GetConstant(g_, In(n, 2));
    const bool wraps = t.rank() == 2 && wrap && std::holds_alternative<bool>(*wrap) && std::get<bool>(*wrap);
    const std::optional<int64_t> rows = (*t.sizes)[0].Constant();
    const std::optional<int64_t> columns = wraps ? (*t.sizes)[1].Constant() : std::nullopt;
    if (wraps && (!rows || !columns)) return absl::UnimplementedError("a wrapped fill_diagonal_ of symbolic sizes");
    if (wraps && *rows > *columns + 1) {
      // The diagonal begins anew a row after it has ended.
      for (int64_t row = 0; row < *rows; row += *columns + 1) {
        SMELT_ASSIGN_OR_RETURN(
            auto part, Insert(n, "aten::slice.Tensor", {In(n, 0), number(0), number(row), number(*rows), number(1)}));
        SMELT_RETURN_IF_ERROR(fill(part[0]));
      }
    } else {
      SMELT_RETURN_IF_ERROR(fill(In(n, 0)));
    }
    ReplaceWith(n, In(n, 0));
    return absl::OkStatus();
  }

  absl::Status AtLeast(NodeId n) {
    if (!g_.value(g_.node(n).outputs[0]).type.IsTensor()) return absl::UnimplementedError("a list of tensors");
    if (*TypeOfValue(In(n, 0)).sizes == *TypeOfValue(g_.node(n).outputs[0]).sizes) return Identity(n);
    return at_run_time_ ? ReshapeLater(n) : Reshape(n);
  }

  // embedding_renorm_(self, indices, max_norm, norm_type): the rows that the indices name are scaled to a norm of
  // max_norm where theirs is larger.
  absl::Status EmbeddingRenorm(NodeId n) {
    const ValueId self = In(n, 0), indices = In(n, 1), max_norm = In(n, 2), none = None(n);
    const std::vector<Expr> rows = {(*TypeOfValue(self).sizes)[0]};
    auto constant = [&](const ConstantValue& v) { return InsertConstant(g_, n, v); };
    SMELT_ASSIGN_OR_RETURN(auto zeros, Insert(n, "aten::new_zeros", {self, IntList(n, rows), none, none, none, none}));
    SMELT_ASSIGN_OR_RETURN(auto one, Insert(n, "aten::new_ones", {self, IntList(n, {}), none, none, none, none}));
    NodeId list =
        g_.InsertBefore(n, OpName::Get("prim::ListConstruct"), {indices}, {Type::List(Type::Optional(Type::Tensor()))});
    SMELT_ASSIGN_OR_RETURN(auto named,
                           Insert(n, "aten::index_put", {zeros[0], g_.node(list).outputs[0], one[0], constant(false)}));
    SMELT_ASSIGN_OR_RETURN(auto column, Insert(n, "aten::unsqueeze", {named[0], constant(int64_t{1})}));
    SMELT_ASSIGN_OR_RETURN(auto norm,
                           Insert(n, "aten::linalg_vector_norm",
                                  {self, In(n, 3), constant(std::vector<int64_t>{1}), constant(true), none}));
    SMELT_ASSIGN_OR_RETURN(auto seen, Insert(n, "aten::mul.Tensor", {norm[0], column[0]}));
    SMELT_ASSIGN_OR_RETURN(auto large, Insert(n, "aten::gt.Scalar", {seen[0], max_norm}));
    SMELT_ASSIGN_OR_RETURN(auto safe, Insert(n, "aten::add.Scalar", {norm[0], constant(1e-7), constant(int64_t{1})}));
    SMELT_ASSIGN_OR_RETURN(auto inverse, Insert(n, "aten::reciprocal", {safe[0]}));
    SMELT_ASSIGN_OR_RETURN(auto scale, Insert(n, "aten::mul.Scalar", {inverse[0], max_norm}));
    SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, "aten::mul.Tensor", {self, scale[0]}));
    SMELT_ASSIGN_OR_RETURN(auto rows_now, Insert(n, "aten::where.self", {large[0], scaled[0], self}));
    SMELT_ASSIGN_OR_RETURN(auto written, Insert(n, "aten::copy_", {self, rows_now[0], constant(false)}));
    ReplaceWith(n, written[0]);
    return absl::OkStatus();
  }

  // _foreach_OP(_).OVERLOAD: one OP a tensor. Lists among the arguments are walked together; other arguments go to
  // each.
  absl::Status Foreach(NodeId n) {
    const FunctionSchema* schema = FindSchema(g_.node(n).op);
    if (schema == nullptr) return absl::UnimplementedError("no such operator is known");
    std::string base = absl::StrCat("aten::", absl::StripPrefix(schema->op.name(), "aten::_foreach_"));
    // Of one tensor they have another name in place.
    if (base == "aten::maximum_") base = "aten::clamp_min_";
    if (base == "aten::minimum_") base = "aten::clamp_max_";
    const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    std::vector<std::optional<std::vector<ValueId>>> lists;
    size_t count = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      const Type& t = schema->arguments[i].type;
      const bool list = t.kind() == TypeKind::kList;
      lists.push_back(std::nullopt);
      if (!list) continue;
      lists.back() = GetListElements(g_, args[i]);
      if (!lists.back()) {
        // A constant list of numbers.
        auto c = GetConstant(g_, args[i]);
        std::vector<ValueId> elements;
        if (c && std::holds_alternative<std::vector<double>>(*c)) {
          for (double d : std::get<std::vector<double>>(*c)) elements.push_back(InsertConstant(g_, n, d));
        } else if (c && std::holds_alternative<std::vector<int64_t>>(*c)) {
          for (int64_t d : std::get<std::vector<int64_t>>(*c)) elements.push_back(InsertConstant(g_, n, d));
        } else {
          return absl::UnimplementedError("a list that is not made in place");
        }
        lists.back() = std::move(elements);
      }
      count = std::max(count, lists.back()->size());
    }
    std::vector<ValueId> results;
    for (size_t k = 0; k < count; ++k) {
      std::vector<ValueId> call;
      std::vector<Type> types;
      for (size_t i = 0; i < args.size(); ++i) {
        if (lists[i] && k >= lists[i]->size()) return absl::InvalidArgumentError("lists of different lengths");
        call.push_back(lists[i] ? (*lists[i])[k] : args[i]);
        types.push_back(g_.value(call.back()).type);
      }
      OpName op = OpName::Get("aten::linalg_vector_norm");
      if (base == "aten::norm") {  // (self, ord, dtype): over all dims, which are not kept
        call.insert(call.begin() + 2, {InsertConstant(g_, n, std::monostate()), InsertConstant(g_, n, false)});
      } else {
        SMELT_ASSIGN_OR_RETURN(op, ResolveOverload(base, types));
        SMELT_RETURN_IF_ERROR(FitArguments(n, *schema, *FindSchema(op), call));
      }
      const FunctionSchema* single = FindSchema(op);
      SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op.full(), call, single->returns.size()));
      if (!v.empty()) results.push_back(v[0]);
    }
    if (g_.node(n).outputs.empty()) {
      g_.Erase(n);
      return absl::OkStatus();
    }
    return ReplaceList(n, results);
  }
  // By name where names agree, else by position; missing ones take their defaults.
  absl::Status FitArguments(NodeId anchor, const FunctionSchema& from, const FunctionSchema& to,
                            std::vector<ValueId>& call) {
    std::vector<ValueId> out(to.arguments.size());
    std::vector<bool> used(call.size(), false);
    for (size_t k = 0; k < to.arguments.size(); ++k) {
      for (size_t i = 0; i < call.size(); ++i) {
        if (!used[i] && (from.arguments[i].name == to.arguments[k].name) && !g_.IsLive(out[k])) {
          out[k] = call[i];
          used[i] = true;
        }
      }
    }
    size_t next = 0;
    for (size_t k = 0; k < to.arguments.size(); ++k) {
      if (g_.IsLive(out[k])) continue;
      while (next < call.size() && used[next]) ++next;
      if (next < call.size()) {
        out[k] = call[next];
        used[next] = true;
      } else if (to.arguments[k].default_value) {
        out[k] = InsertConstant(g_, anchor, *to.arguments[k].default_value);
      } else {
        return absl::UnimplementedError(absl::StrCat("no value for argument ", to.arguments[k].name));
      }
    }
    call = std::move(out);
    return absl::OkStatus();
  }

  Graph& g_;
  const bool at_run_time_;
  bool stale_ = false;  // types of what comes later may be those of a geometry that was changed
  OpenedComposites decided_;
  absl::flat_hash_map<ValueId, bool> may_be_of_argument_;
};

}  // namespace

absl::StatusOr<OpenedComposites> OpenComposites(Graph& g, StrideChoices choices) {
  Opener opener(g, choices);
  SMELT_RETURN_IF_ERROR(opener.Run());
  return opener.decided();
}

}  // namespace smelt
