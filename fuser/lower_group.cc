#include "smelt/fuser/lower_group.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/kernel_builder.h"

namespace smelt {
namespace {

using kernel::Affine;
using kernel::Builder;
using kernel::Index;

// What an operator that is neither pointwise nor a plain reduction does to indices.
enum class Special {
  kView,
  kMaterialize,
  kFill,
  kArange,
  kLinspace,
  kEye,
  kTriangle,
  kConstantPad,
  kReflectionPad,
  kReplicationPad,
  kFlip,
  kRoll,
  kRepeat,
  kRepeatInterleave,
  kGather,
  kIndexSelect,
  kEmbedding,
  kIndex,
  kTake,
  kOneHot,
  kCat,
  kStack,
  kMaxPool,
  kAvgPool,
  kAdaptiveMaxPool,
  kAdaptiveAvgPool,
  kUpsampleNearest,
  kUpsampleLinear,
  kIm2Col,
  kCol2Im,
  kMaskedScatter,
};

const absl::flat_hash_map<std::string, Special>& SpecialOps() {
  static const auto* const table = new absl::flat_hash_map<std::string, Special>{
      {"smelt::view", Special::kView},
      {"smelt::materialize", Special::kMaterialize},
      {"aten::clone", Special::kMaterialize},
      {"aten::contiguous", Special::kMaterialize},
      {"aten::lift_fresh_copy", Special::kMaterialize},
      {"smelt::full", Special::kFill},
      {"aten::full", Special::kFill},
      {"aten::full_like", Special::kFill},
      {"aten::new_full", Special::kFill},
      {"aten::zeros", Special::kFill},
      {"aten::zeros_like", Special::kFill},
      {"aten::new_zeros", Special::kFill},
      {"aten::ones", Special::kFill},
      {"aten::ones_like", Special::kFill},
      {"aten::new_ones", Special::kFill},
      {"aten::empty", Special::kFill},
      {"aten::empty_like", Special::kFill},
      {"aten::empty_strided", Special::kFill},
      {"aten::empty_permuted", Special::kFill},
      {"aten::new_empty", Special::kFill},
      {"aten::new_empty_strided", Special::kFill},
      {"aten::scalar_tensor", Special::kFill},
      {"aten::arange", Special::kArange},
      {"aten::linspace", Special::kLinspace},
      {"aten::eye", Special::kEye},
      {"aten::tril", Special::kTriangle},
      {"aten::triu", Special::kTriangle},
      {"aten::constant_pad_nd", Special::kConstantPad},
      {"aten::reflection_pad1d", Special::kReflectionPad},
      {"aten::reflection_pad2d", Special::kReflectionPad},
      {"aten::reflection_pad3d", Special::kReflectionPad},
      {"aten::replication_pad1d", Special::kReplicationPad},
      {"aten::replication_pad2d", Special::kReplicationPad},
      {"aten::replication_pad3d", Special::kReplicationPad},
      {"aten::flip", Special::kFlip},
      {"aten::roll", Special::kRoll},
      {"aten::repeat", Special::kRepeat},
      {"aten::repeat_interleave", Special::kRepeatInterleave},
      {"aten::gather", Special::kGather},
      {"aten::index_select", Special::kIndexSelect},
      {"aten::embedding", Special::kEmbedding},
      {"aten::index", Special::kIndex},
      {"aten::_unsafe_index", Special::kIndex},
      {"aten::take", Special::kTake},
      {"aten::one_hot", Special::kOneHot},
      {"aten::cat", Special::kCat},
      {"aten::stack", Special::kStack},
      {"aten::max_pool1d", Special::kMaxPool},
      {"aten::max_pool1d_with_indices", Special::kMaxPool},
      {"aten::max_pool2d", Special::kMaxPool},
      {"aten::max_pool2d_with_indices", Special::kMaxPool},
      {"aten::max_pool3d", Special::kMaxPool},
      {"aten::max_pool3d_with_indices", Special::kMaxPool},
      {"aten::avg_pool1d", Special::kAvgPool},
      {"aten::avg_pool2d", Special::kAvgPool},
      {"aten::avg_pool3d", Special::kAvgPool},
      {"aten::adaptive_max_pool1d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_max_pool2d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_max_pool3d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_avg_pool1d", Special::kAdaptiveAvgPool},
      {"aten::adaptive_avg_pool2d", Special::kAdaptiveAvgPool},
      {"aten::adaptive_avg_pool3d", Special::kAdaptiveAvgPool},
      {"aten::_adaptive_avg_pool2d", Special::kAdaptiveAvgPool},
      {"aten::_adaptive_avg_pool3d", Special::kAdaptiveAvgPool},
      {"aten::upsample_nearest1d", Special::kUpsampleNearest},
      {"aten::upsample_nearest2d", Special::kUpsampleNearest},
      {"aten::upsample_nearest3d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact1d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact2d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact3d", Special::kUpsampleNearest},
      {"aten::upsample_linear1d", Special::kUpsampleLinear},
      {"aten::upsample_bilinear2d", Special::kUpsampleLinear},
      {"aten::upsample_trilinear3d", Special::kUpsampleLinear},
      {"aten::im2col", Special::kIm2Col},
      {"aten::col2im", Special::kCol2Im},
      {"aten::masked_scatter", Special::kMaskedScatter},
  };
  return *table;
}

// Operators that write elements chosen by data into memory that holds their first argument's contents already. In the
// graph they are pure: `smelt::inplace_X` is aten::X.
const absl::flat_hash_set<std::string>& InplaceOps() {
  static const auto* const table = new absl::flat_hash_set<std::string>{
      "smelt::inplace_scatter",         "smelt::inplace_scatter_add", "smelt::inplace_scatter_reduce",
      "smelt::inplace_index_add",       "smelt::inplace_index_copy",  "smelt::inplace_index_fill",
      "smelt::inplace_index_put",       "smelt::inplace_put",         "smelt::inplace__unsafe_index_put",
      "smelt::inplace__index_put_impl",
  };
  return *table;
}

bool IsMeta(const Node& n) { return absl::StartsWith(n.op.name(), "prim::"); }

Expr Product(absl::Span<const Expr> sizes) {
  Expr n = 1;
  for (const Expr& s : sizes) n = n * s;
  return n;
}

std::string Where(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  std::string out = node.op.full();
  if (node.source != nullptr) absl::StrAppend(&out, " (", node.source->ToString(), ")");
  return out;
}

bool HasComplex(const Graph& g, NodeId n) {
  auto complex = [&](ValueId v) {
    const Type& t = g.value(v).type;
    return t.IsTensor() && t.tensor().dtype && IsComplex(*t.tensor().dtype);
  };
  // Of a region write the contents are neither read nor written as numbers.
  if (g.node(n).op == "smelt::write_region") return complex(g.node(n).inputs[1]);
  for (ValueId v : g.node(n).inputs) {
    if (complex(v)) return true;
  }
  for (ValueId v : g.node(n).outputs) {
    if (complex(v)) return true;
  }
  return false;
}

// One group, lowered by demand: each value is computed at an index that is a function of the loop's indices.
class Lowering {
 public:
  Lowering(const Graph& outer, NodeId group, const LayoutFn& layout) : outer_(outer), group_(group), layout_(layout) {}

  absl::StatusOr<LoweredKernel> Run() {
    SMELT_RETURN_IF_ERROR(Setup());
    // A value may need a dim of the domain in two (a flattening view inside the group): then all begins again.
    for (int attempt = 0; attempt < 16; ++attempt) {
      b_ = std::make_unique<Builder>(g_->symbols);
      memo_.clear();
      scalar_memo_.clear();
      split_dim_ = -1;
      SMELT_RETURN_IF_ERROR(ChooseDomain());
      absl::Status s = EmitRoots();
      if (split_dim_ >= 0) {
        splits_.push_back({split_dim_, split_sizes_});
        continue;
      }
      SMELT_RETURN_IF_ERROR(s);
      return Finish();
    }
    return absl::InternalError("a group whose iteration space never settles");
  }

 private:
  struct Root {
    int output = -1;
    ValueId value;  // what is stored; of an action: unused
    NodeId action;  // an inplace_ node
    SymbolicGeometry target;
  };
  struct Memo {
    Index index;
    int guard;
    std::vector<int> results;
  };
  struct Split {
    int dim;
    std::vector<Expr> sizes;
  };

  // --- the group ---
  absl::Status Setup() {
    const Node& node = outer_.node(group_);
    if (node.op == "smelt::FusionGroup") {
      const Attribute* a = node.FindAttribute("Subgraph");
      if (a == nullptr || !std::holds_alternative<std::shared_ptr<Graph>>(*a)) {
        return absl::InvalidArgumentError("a smelt::FusionGroup has no graph attribute \"Subgraph\"");
      }
      g_ = std::get<std::shared_ptr<Graph>>(*a).get();
      is_group_ = true;
      if (g_->inputs().size() != node.inputs.size() || g_->outputs().size() != node.outputs.size()) {
        return absl::InvalidArgumentError("a smelt::FusionGroup's subgraph does not fit its inputs and outputs");
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) outer_of_[g_->inputs()[i]] = node.inputs[i];
      for (NodeId n : g_->Nodes(g_->top())) {
        if (!IsMeta(g_->node(n))) nodes_.push_back(n);
      }
    } else {
      g_ = &outer_;
      nodes_ = {group_};
    }
    for (NodeId n : nodes_) {
      if (HasComplex(*g_, n)) return Unsupported(n, "complex numbers in a kernel");
      for (ValueId v : g_->node(n).outputs) internal_.insert(v);
    }
    return CollectRoots();
  }

  absl::Status Unsupported(NodeId n, absl::string_view what) const {
    return absl::UnimplementedError(absl::StrCat(Where(*g_, n), ": ", what));
  }

  absl::Status CollectRoots() {
    const Node& node = outer_.node(group_);
    // While a group is being made nobody uses any of its results yet.
    const bool in_use =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !outer_.value(v).uses.empty(); });
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
      const bool unused = in_use && node.outputs.size() > 1 && outer_.value(node.outputs[k]).uses.empty();
      if (unused && !(k + 1 == static_cast<int>(node.outputs.size()) && roots_.empty())) continue;
      ValueId inner = is_group_ ? g_->outputs()[k] : node.outputs[k];
      if (!g_->value(inner).type.IsTensor()) return Unsupported(group_in_g(), "a result that is no tensor");
      std::vector<Root> chain;
      while (internal_.contains(inner)) {
        const NodeId def = g_->value(inner).def;
        const Node& d = g_->node(def);
        Root r;
        r.output = k;
        if (d.op == "smelt::write_region") {
          r.value = d.inputs[1];
          r.target = RegionGeometry(d);
          chain.push_back(std::move(r));
          inner = d.inputs[0];
          continue;
        }
        if (InplaceOps().contains(d.op.name())) {
          r.action = def;
          r.target = layout_(node.outputs[k]);
          chain.push_back(std::move(r));
          inner = d.inputs[0];
          continue;
        }
        if (!chain.empty()) return Unsupported(def, "a region is written into a value of its own group");
        r.value = inner;
        r.target = layout_(node.outputs[k]);
        chain.push_back(std::move(r));
        break;
      }
      if (chain.empty()) return absl::InvalidArgumentError("a group's result is one of its inputs");
      roots_.insert(roots_.end(), chain.rbegin(), chain.rend());
    }
    if (roots_.empty()) return absl::InvalidArgumentError("a kernel without results");
    return absl::OkStatus();
  }
  NodeId group_in_g() const { return is_group_ ? nodes_[0] : group_; }

  absl::StatusOr<const OpCall*> CallOf(NodeId n) {
    auto it = calls_.find(n);
    if (it == calls_.end()) {
      SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(*g_, n));
      it = calls_.emplace(n, std::make_unique<OpCall>(std::move(call))).first;
    }
    return it->second.get();
  }
  absl::StatusOr<const ReductionMeaning*> ReductionOf(NodeId n) {
    auto it = reductions_.find(n);
    if (it == reductions_.end()) {
      SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
      SMELT_ASSIGN_OR_RETURN(ReductionMeaning m, BuildReduction(*call));
      it = reductions_.emplace(n, std::make_unique<ReductionMeaning>(std::move(m))).first;
    }
    return it->second.get();
  }
  absl::StatusOr<const PointwiseMeaning*> PointwiseOf(NodeId n) {
    auto it = pointwise_.find(n);
    if (it == pointwise_.end()) {
      SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
      SMELT_ASSIGN_OR_RETURN(PointwiseMeaning m, BuildPointwise(*call));
      it = pointwise_.emplace(n, std::make_unique<PointwiseMeaning>(std::move(m))).first;
    }
    return it->second.get();
  }
  std::optional<Special> SpecialOf(NodeId n) const {
    auto it = SpecialOps().find(g_->node(n).op.name());
    if (it == SpecialOps().end()) return std::nullopt;
    return it->second;
  }
  bool IsPointwise(NodeId n) const { return !SpecialOf(n) && GetOpInfo(g_->node(n).op).kind == OpKind::kPointwise; }
  bool IsReduction(NodeId n) const { return !SpecialOf(n) && GetOpInfo(g_->node(n).op).kind == OpKind::kReduction; }
  const std::vector<Expr>& Sizes(ValueId v) const { return *g_->value(v).type.tensor().sizes; }
  DType Dt(ValueId v) const { return *g_->value(v).type.tensor().dtype; }
  ValueId Out(NodeId n, int k = 0) const { return g_->node(n).outputs[k]; }

  absl::StatusOr<ValueId> TensorArg(NodeId n, absl::string_view name) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const OpArg* a = call->Find(name);
    if (a == nullptr || !a->IsTensor()) return call->Error(absl::StrCat("argument ", name, " is no tensor"));
    return a->value;
  }

  // --- the domain ---
  // What reduces over dims of the domain: the sizes it reduces over.
  struct Site {
    NodeId node;
    std::vector<Expr> reduced;
    std::vector<Expr> kept;  // the parallel dims it implies
    ValueId input;           // of a plain reduction
    std::vector<int>
        where;  // of a plain reduction: for each input dim: k >= 0 the kept dim k, else -1-j the reduced dim j
  };
  absl::StatusOr<std::optional<Site>> SiteOf(NodeId n) {
    Site s;
    s.node = n;
    if (IsReduction(n)) {
      SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, ReductionOf(n));
      SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
      s.input = call->arg(m->arg).value;
      const std::vector<Expr>& sizes = Sizes(s.input);
      for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
        const bool reduced = std::find(m->dims.begin(), m->dims.end(), d) != m->dims.end();
        s.where.push_back(reduced ? -1 - static_cast<int>(s.reduced.size()) : static_cast<int>(s.kept.size()));
        (reduced ? s.reduced : s.kept).push_back(sizes[d]);
      }
      return s;
    }
    const std::optional<Special> special = SpecialOf(n);
    if (!special) return std::nullopt;
    switch (*special) {
      case Special::kMaxPool:
      case Special::kAvgPool:
      case Special::kAdaptiveMaxPool:
      case Special::kAdaptiveAvgPool:
      case Special::kCol2Im: {
        s.kept = Sizes(Out(n));
        SMELT_ASSIGN_OR_RETURN(s.reduced, WindowOf(n, *special));
        return s;
      }
      case Special::kMaskedScatter:
        s.reduced = Sizes(Out(n));
        return s;
      default:
        return std::nullopt;
    }
  }

  static bool IsOneElement(const std::vector<Expr>& sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](const Expr& e) { return e == Expr(1); });
  }

  // Which dims the loop has, and the index of each root's value in them.
  absl::Status ChooseDomain() {
    p_sizes_.clear();
    q_sizes_.clear();
    labels_.clear();
    ordered_ = false;
    std::optional<Site> anchor;
    for (NodeId n : nodes_) {
      SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, SiteOf(n));
      if (!s || (anchor && IsOneElement(s->reduced))) continue;
      // One that reduces over a single element fits into any loop.
      const bool decides = !IsOneElement(s->reduced);
      anchor = std::move(s);
      if (decides) break;
    }
    std::optional<ActionDomain> action;
    for (const Root& r : roots_) {
      if (!g_->IsLive(r.action)) continue;
      if (roots_.size() > 1 || anchor) return Unsupported(r.action, "an indexed write together with other results");
      SMELT_ASSIGN_OR_RETURN(action, DomainOf(r.action));
    }
    if (action) {
      p_sizes_ = action->parallel;
      q_sizes_ = action->ordered;
      ordered_ = !q_sizes_.empty();
    } else if (anchor) {
      p_sizes_ = anchor->kept;
      q_sizes_ = anchor->reduced;
    } else {
      p_sizes_ = Sizes(roots_[0].value);
    }
    std::vector<Expr> all = p_sizes_;
    all.insert(all.end(), q_sizes_.begin(), q_sizes_.end());
    if (anchor && q_sizes_.empty()) all.push_back(Expr(1));  // a reduction over no dims is over one element
    b_->SetDomain(all, static_cast<int>(p_sizes_.size()));
    p_index_.clear();
    q_index_.clear();
    for (size_t d = 0; d < all.size(); ++d) {
      (d < p_sizes_.size() ? p_index_ : q_index_).push_back(b_->Dim(static_cast<int>(d)));
    }
    if (!action) {
      if (anchor) {
        if (g_->IsLive(anchor->input)) {
          Index in;
          for (int w : anchor->where) in.push_back(w >= 0 ? p_index_[w] : q_index_[-1 - w]);
          labels_[anchor->input] = in;
        } else {
          for (ValueId v : g_->node(anchor->node).outputs) {
            if (Sizes(v).size() == p_index_.size()) labels_[v] = p_index_;
          }
        }
      } else {
        labels_[roots_[0].value] = p_index_;
      }
      SMELT_RETURN_IF_ERROR(PropagateLabels());
      // A result that nothing connects with the others runs over the same loops.
      for (const Root& r : roots_) {
        if (g_->IsLive(r.action) || labels_.contains(r.value) || Sizes(r.value) != p_sizes_) continue;
        labels_[r.value] = p_index_;
        SMELT_RETURN_IF_ERROR(PropagateLabels());
      }
    }
    for (const Split& s : splits_) {
      b_->SplitDim(s.dim, s.sizes);
      auto again = [&](Index& index) {
        for (Affine& a : index) b_->SplitIn(a, s.dim, s.sizes);
      };
      again(p_index_);
      again(q_index_);
      for (auto& [v, index] : labels_) again(index);
    }
    return absl::OkStatus();
  }

  // Whether an index of loop dims visits each element of a value of these sizes: a dim of the loop for each of its
  // dims. (The diagonal of a square does not.)
  bool IsPlace(const Index& index, const std::vector<Expr>& sizes) const {
    std::vector<bool> used(b_->rank(), false);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == Expr(1)) continue;
      const int loop = b_->LoneDim(index[d]);
      if (loop < 0 || used[loop] || b_->DimSize(loop) != sizes[d]) return false;
      used[loop] = true;
    }
    return true;
  }

  // From the values whose place in the domain is known to those connected with them.
  absl::Status PropagateLabels() {
    for (int round = 0; round < 4; ++round) {
      bool changed = false;
      for (NodeId n : nodes_) {
        SMELT_ASSIGN_OR_RETURN(bool c, LabelForward(n));
        changed = changed || c;
      }
      for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
        SMELT_ASSIGN_OR_RETURN(bool c, LabelBackward(*it));
        changed = changed || c;
      }
      if (!changed) break;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ValueId>> SameIndexOperands(NodeId n) {
    std::vector<ValueId> out;
    if (IsPointwise(n)) {
      SMELT_ASSIGN_OR_RETURN(const PointwiseMeaning* m, PointwiseOf(n));
      SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
      for (const PointwiseOperand& o : m->operands) {
        if (!o.is_scalar) out.push_back(OperandValue(*call, o));
      }
    } else if (SpecialOf(n) == Special::kMaterialize) {
      out.push_back(g_->node(n).inputs[0]);
    } else if (IsReduction(n)) {
      SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, ReductionOf(n));
      SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
      if (m->is_scan) out.push_back(call->arg(m->arg).value);
    }
    return out;
  }

  absl::StatusOr<bool> LabelForward(NodeId n) {
    const ValueId out = Out(n);
    if (!g_->value(out).type.IsTensor() || labels_.contains(out)) return false;
    const std::vector<Expr>& sizes = Sizes(out);
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> operands, SameIndexOperands(n));
    if (!operands.empty()) {
      Index label(sizes.size(), b_->Zero());
      std::vector<bool> known(sizes.size(), false);
      for (size_t d = 0; d < sizes.size(); ++d) known[d] = sizes[d] == Expr(1);
      for (ValueId v : operands) {
        auto it = labels_.find(v);
        if (it == labels_.end()) continue;
        const std::vector<Expr>& s = Sizes(v);
        for (size_t d = 0; d < s.size() && s.size() <= sizes.size(); ++d) {
          const size_t o = sizes.size() - s.size() + d;
          if (known[o] || s[d] != sizes[o]) continue;
          label[o] = it->second[d];
          known[o] = true;
        }
      }
      if (std::find(known.begin(), known.end(), false) != known.end() || !IsPlace(label, sizes)) return false;
      for (ValueId o : g_->node(n).outputs) labels_[o] = label;
      return true;
    }
    if (IsReduction(n)) {
      SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, SiteOf(n));
      auto it = labels_.find(s->input);
      if (it == labels_.end()) return false;
      SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, ReductionOf(n));
      Index label;
      for (size_t d = 0; d < s->where.size(); ++d) {
        if (s->where[d] >= 0) {
          label.push_back(it->second[d]);
        } else if (m->keepdim) {
          label.push_back(b_->Zero());
        }
      }
      for (ValueId o : g_->node(n).outputs) labels_[o] = label;
      return true;
    }
    if (SpecialOf(n) == Special::kView) {
      // A view that shows each dim of its base once, or not at all where it has size 1.
      const ValueId base = g_->node(n).inputs[0];
      auto it = labels_.find(base);
      if (it == labels_.end() || !internal_.contains(base)) return false;
      const SymbolicGeometry view = RegionGeometry(g_->node(n));
      const TensorType& t = g_->value(base).type.tensor();
      if (view.offset != Expr(0) || view.dtype != *t.dtype) return false;
      Index label;
      std::vector<bool> used(t.sizes->size(), false);
      for (size_t k = 0; k < view.sizes.size(); ++k) {
        if (view.sizes[k] == Expr(1)) {
          label.push_back(b_->Zero());
          continue;
        }
        bool found = false;
        for (size_t j = 0; j < t.sizes->size() && !found; ++j) {
          if (used[j] || (*t.sizes)[j] != view.sizes[k] || (*t.strides)[j] != view.strides[k]) continue;
          used[j] = found = true;
          label.push_back(it->second[j]);
        }
        if (!found) return false;
      }
      if (!IsPlace(label, sizes)) return false;
      labels_[out] = label;
      return true;
    }
    return false;
  }

  absl::StatusOr<bool> LabelBackward(NodeId n) {
    const ValueId out = Out(n);
    auto it = labels_.find(out);
    if (it == labels_.end()) return false;
    const Index label = it->second;
    const std::vector<Expr>& sizes = Sizes(out);
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> operands, SameIndexOperands(n));
    bool changed = false;
    for (ValueId v : operands) {
      if (!internal_.contains(v) || labels_.contains(v)) continue;
      const std::vector<Expr>& s = Sizes(v);
      if (s.size() > sizes.size()) continue;
      Index place = BroadcastIndex(label, sizes, s);
      if (!IsPlace(place, s)) continue;
      labels_[v] = std::move(place);
      changed = true;
    }
    if (operands.empty() && IsReduction(n)) {
      SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, SiteOf(n));
      SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, ReductionOf(n));
      if (labels_.contains(s->input) || s->reduced != q_sizes_) return changed;
      Index in;
      size_t o = 0;
      for (int w : s->where) {
        if (w >= 0) {
          in.push_back(label[o++]);
        } else {
          in.push_back(q_index_[-1 - w]);
          if (m->keepdim) ++o;
        }
      }
      if (!IsPlace(in, Sizes(s->input))) return changed;
      labels_[s->input] = in;
      changed = true;
    }
    if (SpecialOf(n) == Special::kView) {
      // As forward, but every dim of the base must be shown.
      const ValueId base = g_->node(n).inputs[0];
      if (!internal_.contains(base) || labels_.contains(base)) return changed;
      const SymbolicGeometry view = RegionGeometry(g_->node(n));
      const TensorType& t = g_->value(base).type.tensor();
      if (view.offset != Expr(0) || view.dtype != *t.dtype) return changed;
      Index in(t.sizes->size(), b_->Zero());
      std::vector<bool> shown(t.sizes->size(), false);
      for (size_t k = 0; k < view.sizes.size(); ++k) {
        if (view.sizes[k] == Expr(1)) continue;
        bool found = false;
        for (size_t j = 0; j < t.sizes->size() && !found; ++j) {
          if (shown[j] || (*t.sizes)[j] != view.sizes[k] || (*t.strides)[j] != view.strides[k]) continue;
          shown[j] = found = true;
          in[j] = label[k];
        }
        if (!found) return changed;
      }
      for (size_t j = 0; j < t.sizes->size(); ++j) {
        if (!shown[j] && (*t.sizes)[j] != Expr(1)) return changed;
      }
      labels_[base] = in;
      changed = true;
    }
    return changed;
  }

  Index BroadcastIndex(const Index& index, const std::vector<Expr>& sizes, const std::vector<Expr>& operand) const {
    Index out;
    const size_t lead = sizes.size() - operand.size();
    for (size_t d = 0; d < operand.size(); ++d) {
      out.push_back(operand[d] == Expr(1) && sizes[lead + d] != Expr(1) ? b_->Zero() : index[lead + d]);
    }
    return out;
  }

  absl::StatusOr<Index> RootIndex(const Root& r) {
    if (auto it = labels_.find(r.value); it != labels_.end()) return it->second;
    const std::vector<Expr>& sizes = Sizes(r.value);
    if (sizes == p_sizes_) return p_index_;
    std::vector<Expr> all = p_sizes_;
    all.insert(all.end(), q_sizes_.begin(), q_sizes_.end());
    if (sizes == all) {
      Index index = p_index_;
      index.insert(index.end(), q_index_.begin(), q_index_.end());
      return index;
    }
    return Unsupported(g_->value(r.value).def, "a result whose sizes are not those of its group's loops");
  }

  absl::Status EmitRoots() {
    for (const Root& r : roots_) {
      if (g_->IsLive(r.action)) {
        SMELT_RETURN_IF_ERROR(EmitAction(r));
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(Index index, RootIndex(r));
      SMELT_ASSIGN_OR_RETURN(int v, Eval(r.value, index, -1));
      if (b_->TypeOf(v) != r.target.dtype) v = b_->Cast(v, r.target.dtype);
      StoreTo(r, index, v, -1);
    }
    return absl::OkStatus();
  }
  // Returns the access, for a load of the same place.
  void StoreTo(const Root& r, const Index& index, int value, int guard) {
    auto [access, offset] = b_->Address(OuterOutput(r), true, r.output, r.target, index);
    b_->Store(access, value, offset, guard);
  }
  int LoadFrom(const Root& r, const Index& index) {
    auto [access, offset] = b_->Address(OuterOutput(r), true, r.output, r.target, index);
    return b_->Load(access, offset, -1);
  }
  ValueId OuterOutput(const Root& r) const { return outer_.node(group_).outputs[r.output]; }

  // --- values ---
  ValueId OuterValue(ValueId v) const {
    if (!is_group_) return v;
    auto it = outer_of_.find(v);
    return it == outer_of_.end() ? ValueId() : it->second;
  }

  absl::StatusOr<int> Eval(ValueId v, const Index& index, int guard) {
    const Type& type = g_->value(v).type;
    if (!type.IsTensor() || !type.tensor().IsComplete()) {
      return absl::InvalidArgumentError(absl::StrCat("%", g_->value(v).name, " has no complete tensor type"));
    }
    if (!internal_.contains(v)) return LoadOperand(v, index, guard);
    // Of dims of size 1 there is one index: else the same value would be computed twice.
    const std::vector<Expr>& sizes = *type.tensor().sizes;
    for (size_t d = 0; d < sizes.size() && d < index.size(); ++d) {
      if (sizes[d] != Expr(1) || index[d] == b_->Zero()) continue;
      Index same = index;
      for (size_t k = d; k < same.size(); ++k) {
        if (sizes[k] == Expr(1)) same[k] = b_->Zero();
      }
      return Eval(v, same, guard);
    }
    std::vector<Memo>& memos = memo_[g_->value(v).def];
    for (const Memo& m : memos) {
      if (m.guard == guard && m.index == index) return m.results[g_->value(v).def_index];
    }
    const NodeId n = g_->value(v).def;
    if (++depth_ > 2000) return Unsupported(n, "a group this deep");
    auto results = EvalNode(n, g_->value(v).def_index, index, guard);
    --depth_;
    if (!results.ok()) return results.status();
    memo_[n].push_back({index, guard, *results});
    return (*results)[g_->value(v).def_index];
  }

  absl::StatusOr<int> LoadOperand(ValueId v, const Index& index, int guard) {
    const NodeId def = g_->value(v).def;
    if (!g_->IsParam(def) && g_->node(def).op == "prim::Constant") {
      const Attribute* a = g_->node(def).FindAttribute("value");
      const Tensor* t = a == nullptr ? nullptr : std::get_if<Tensor>(a);
      if (t != nullptr && t->NumElements() == 1 && !IsComplex(t->dtype())) return ConstantElement(*t);
    }
    const ValueId outer = OuterValue(v);
    if (!outer.valid()) return Unsupported(def, "a tensor that a group cannot take from outside");
    auto [access, offset] = b_->Address(outer, false, -1, layout_(outer), index);
    return b_->Load(access, offset, guard);
  }
  int ConstantElement(const Tensor& t) {
    LoweredKernel::Scalar s;
    s.is_constant = true;
    const void* at = t.data();
    auto as = [&](auto x) {
      std::memcpy(&x, at, sizeof x);
      return x;
    };
    DType type = t.dtype();
    switch (type) {
      case DType::kBool:
      case DType::kUInt8:
        s.int_constant = as(uint8_t{});
        break;
      case DType::kInt8:
        s.int_constant = as(int8_t{});
        break;
      case DType::kInt16:
        s.int_constant = as(int16_t{});
        break;
      case DType::kInt32:
        s.int_constant = as(int32_t{});
        break;
      case DType::kInt64:
        s.int_constant = as(int64_t{});
        break;
      case DType::kFloat32:
        s.constant = as(float{});
        break;
      case DType::kFloat64:
        s.constant = as(double{});
        break;
      case DType::kBFloat16: {
        const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
        float f;
        std::memcpy(&f, &bits, sizeof f);
        s.constant = f;
        break;
      }
      case DType::kFloat16: {
        const uint16_t h = as(uint16_t{});
        const int e = h >> 10 & 31, m = h & 1023;
        double f = e == 31 ? (m ? std::nan("") : INFINITY) : e == 0 ? std::ldexp(m, -24) : std::ldexp(m + 1024, e - 25);
        s.constant = h >> 15 ? -f : f;
        break;
      }
      default:
        break;
    }
    return b_->ScalarParam(type, std::move(s));
  }

  // A Python number among the arguments, as an instruction of type `t`.
  absl::StatusOr<int> ScalarArg(NodeId n, const OpArg& a, DType t) {
    const DType own = a.kind == OpArg::Kind::kBool    ? DType::kBool
                      : a.kind == OpArg::Kind::kFloat ? DType::kFloat64
                                                      : DType::kInt64;
    LoweredKernel::Scalar s;
    if (a.known) {
      if (a.kind == OpArg::Kind::kInt && !a.expr.IsConstant()) {
        return Convert(b_->ExprParam(a.expr), t);
      }
      s.is_constant = true;
      if (a.kind == OpArg::Kind::kInt) {
        s.int_constant = *a.expr.Constant();
        s.constant = static_cast<double>(s.int_constant);
      } else {
        s.constant = a.number;
        s.int_constant = a.kind == OpArg::Kind::kBool ? a.number != 0 : 0;
        if (a.kind == OpArg::Kind::kFloat && !IsFloating(t)) {
          // A number beyond what fits converts as C++ would clamp it.
          const double v = a.number;
          s.int_constant = t == DType::kBool ? v != 0
                           : v >= 9.2e18     ? INT64_MAX
                           : v <= -9.2e18    ? INT64_MIN
                                             : static_cast<int64_t>(v);
        }
      }
      return b_->ScalarParam(t, std::move(s));
    }
    if (!a.value.valid()) return Unsupported(n, "a number that is not known");
    if (g_->value(a.value).expr) return Convert(b_->ExprParam(*g_->value(a.value).expr), t);
    const ValueId outer = OuterValue(a.value);
    if (!outer.valid()) return Unsupported(n, "a number that is computed inside the group");
    auto [it, fresh] = scalar_memo_.try_emplace(std::make_pair(outer, static_cast<int>(own)), -1);
    if (fresh) {
      s.value = outer;
      it->second = b_->ScalarParam(own, std::move(s));
    }
    return Convert(it->second, t);
  }
  int Convert(int v, DType t) { return b_->TypeOf(v) == t ? v : b_->Cast(v, t); }

  static ValueId OperandValue(const OpCall& call, const PointwiseOperand& o) {
    const OpArg& a = call.arg(o.arg);
    if (o.element < 0) return a.value;
    return a.elements[o.element].value;
  }

  absl::StatusOr<std::vector<int>> EvalNode(NodeId n, uint32_t output, const Index& index, int guard) {
    const std::optional<Special> special = SpecialOf(n);
    if (special) {
      absl::StatusOr<std::vector<int>> many = EvalSpecial(n, *special, index, guard);
      return many;
    }
    switch (GetOpInfo(g_->node(n).op).kind) {
      case OpKind::kPointwise:
        return EvalPointwise(n, output, index, guard);
      case OpKind::kReduction:
        return EvalReduction(n, index, guard);
      default:
        return Unsupported(n, "has no kernel");
    }
  }

  absl::StatusOr<std::vector<int>> EvalPointwise(NodeId n, uint32_t output, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const PointwiseMeaning* m, PointwiseOf(n));
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const std::vector<Expr>& sizes = Sizes(Out(n, static_cast<int>(output)));
    std::vector<int> args;
    for (size_t k = 0; k < m->operands.size(); ++k) {
      const PointwiseOperand& o = m->operands[k];
      if (o.is_scalar) {
        const OpArg& a = o.element < 0 ? call->arg(o.arg) : call->arg(o.arg).elements[o.element];
        SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, a, m->fn.arg_types[k]));
        args.push_back(v);
        continue;
      }
      const ValueId v = OperandValue(*call, o);
      if (!v.valid()) return Unsupported(n, "an operand that is no value");
      const std::vector<Expr>& s = Sizes(v);
      if (s.size() > sizes.size()) return Unsupported(n, "an operand of higher rank than the result");
      SMELT_ASSIGN_OR_RETURN(int x, Eval(v, BroadcastIndex(index, sizes, s), guard));
      if (b_->TypeOf(x) != m->fn.arg_types[k]) x = b_->Cast(x, m->fn.arg_types[k]);
      args.push_back(x);
    }
    return b_->Inline(m->fn, args);
  }

  static ReduceKind KindOf(Combine c) {
    switch (c) {
      case Combine::kSum:
        return ReduceKind::kSum;
      case Combine::kProd:
        return ReduceKind::kProd;
      case Combine::kMin:
        return ReduceKind::kMin;
      case Combine::kMax:
        return ReduceKind::kMax;
      case Combine::kArgMin:
        return ReduceKind::kArgMin;
      case Combine::kArgMax:
        return ReduceKind::kArgMax;
      case Combine::kAnd:
        return ReduceKind::kAnd;
      case Combine::kOr:
        return ReduceKind::kOr;
    }
    return ReduceKind::kSum;
  }

  // The index of the reduced dims; an error where this reduction is not over the domain's reduction dims.
  absl::Status CheckSite(NodeId n, const std::vector<Expr>& reduced, const Index& outer) {
    if (reduced != q_sizes_) return Unsupported(n, "a reduction over other dims than its group's");
    for (const Affine& a : outer) {
      if (b_->UsesReduction(a)) return Unsupported(n, "a reduction's result is used along the reduced dims");
    }
    return absl::OkStatus();
  }

  // One accumulator over the reduction dims; `index` for kArgMin and kArgMax, else -1.
  int Reduce(ReduceKind kind, int value, int index, bool scan) {
    DType t = b_->TypeOf(value);
    const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
    const bool half = t == DType::kFloat16 || t == DType::kBFloat16;
    if (t == DType::kBool && !arg) {
      if (kind == ReduceKind::kMax || kind == ReduceKind::kSum) kind = ReduceKind::kOr;
      if (kind == ReduceKind::kMin || kind == ReduceKind::kProd) kind = ReduceKind::kAnd;
    }
    if (half) value = b_->Cast(value, DType::kFloat32);
    if (t == DType::kBool && arg) value = b_->Cast(value, DType::kUInt8);
    if (t != DType::kBool && (kind == ReduceKind::kAnd || kind == ReduceKind::kOr)) {
      value = b_->Cast(value, DType::kBool);
      t = DType::kBool;
    }
    int r = b_->Reduce(kind, value, index, scan);
    if (half && !arg) r = b_->Cast(r, t);
    return r;
  }

  absl::StatusOr<std::vector<int>> EvalReduction(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, ReductionOf(n));
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(std::optional<Site> site, SiteOf(n));
    Index in;
    Index outer;
    if (m->is_scan) {
      for (size_t d = 0; d < index.size(); ++d) {
        if (site->where[d] >= 0) {
          outer.push_back(index[d]);
        } else if (Sizes(g_->node(n).outputs[0])[d] != Expr(1) && !(index[d] == q_index_[-1 - site->where[d]])) {
          return Unsupported(n, "a scan that is used at another index");
        }
      }
      in = index;
      ordered_ = true;
    } else {
      size_t o = 0;
      for (int w : site->where) {
        if (w >= 0) {
          in.push_back(index[o]);
          outer.push_back(index[o++]);
        } else {
          in.push_back(static_cast<size_t>(-1 - w) < q_index_.size() ? q_index_[-1 - w] : b_->Zero());
          if (m->keepdim) ++o;
        }
      }
    }
    const bool one = !m->is_scan && site->reduced != q_sizes_ && IsOneElement(site->reduced);
    if (one) {
      for (size_t d = 0; d < site->where.size(); ++d) {
        if (site->where[d] < 0) in[d] = b_->Zero();
      }
    } else {
      SMELT_RETURN_IF_ERROR(CheckSite(n, site->reduced, outer));
    }
    SMELT_ASSIGN_OR_RETURN(int x, Eval(site->input, in, guard));
    std::vector<int> pre_args = {x};
    std::vector<int> scalars;
    for (size_t k = 0; k < m->scalars.size(); ++k) {
      // The functions take scalars after their own arguments; their types are the functions'.
      DType t = DType::kFloat64;
      if (1 + k < m->pre.arg_types.size()) {
        t = m->pre.arg_types[1 + k];
      } else if (m->combine.size() + 1 + k < m->post.arg_types.size()) {
        t = m->post.arg_types[m->combine.size() + 1 + k];
      }
      SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, call->arg(m->scalars[k]), t));
      scalars.push_back(v);
    }
    for (int s : scalars) {
      if (pre_args.size() < m->pre.arg_types.size()) pre_args.push_back(s);
    }
    const std::vector<int> pre = b_->Inline(m->pre, pre_args);
    int flat = -1;
    std::vector<int> post_args;
    for (size_t k = 0; k < m->combine.size(); ++k) {
      const ReduceKind kind = KindOf(m->combine[k]);
      if (one) {
        const bool index = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
        const bool truth = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
        post_args.push_back(index ? b_->ConstInt(DType::kInt64, 0) : truth ? Convert(pre[k], DType::kBool) : pre[k]);
        continue;
      }
      if ((kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax) && flat < 0) {
        Affine a = b_->Zero();
        Expr stride = 1;
        for (size_t j = q_sizes_.size(); j-- > 0;) {
          a = b_->Add(a, b_->Scale(q_index_[j], stride));
          stride = stride * q_sizes_[j];
        }
        flat = b_->IndexValue(a);
      }
      const bool arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
      if (arg && m->is_scan) {
        // PyTorch's cummax keeps the last of equals, a kernel's accumulator the first: indices run backwards.
        const int back = b_->Op(ScalarOp::kNeg, DType::kInt64, flat);
        post_args.push_back(b_->Op(ScalarOp::kNeg, DType::kInt64, Reduce(kind, pre[k], back, true)));
      } else {
        post_args.push_back(Reduce(kind, pre[k], arg ? flat : -1, m->is_scan));
      }
    }
    for (size_t k = 0; k < post_args.size(); ++k) {
      if (k < m->post.arg_types.size()) post_args[k] = Convert(post_args[k], m->post.arg_types[k]);
    }
    if (post_args.size() < m->post.arg_types.size()) post_args.push_back(b_->ExprParam(Product(site->reduced)));
    for (int s : scalars) {
      if (post_args.size() < m->post.arg_types.size()) post_args.push_back(s);
    }
    return b_->Inline(m->post, post_args);
  }

  // --- views of values that live inside the group ---
  // The index of `base` at which the view shows `index`.
  absl::StatusOr<Index> ViewIndex(NodeId n, const Index& index) {
    const ValueId base = g_->node(n).inputs[0];
    const TensorType& t = g_->value(base).type.tensor();
    const SymbolicGeometry view = RegionGeometry(g_->node(n));
    if (view.dtype != *t.dtype) return Unsupported(n, "a view of a group's own value through another dtype");
    const std::vector<Expr>& sizes = *t.sizes;
    const std::vector<Expr>& strides = *t.strides;
    // Base dims from the widest stride to the narrowest.
    std::vector<int> order;
    for (size_t j = 0; j < sizes.size(); ++j) {
      if (sizes[j] != Expr(1)) order.push_back(static_cast<int>(j));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      auto less = g_->symbols.Less(strides[b], strides[a]);
      return less.has_value() && *less && strides[a] != strides[b];
    });
    auto quotient = [&](const Expr& a, const Expr& b) -> std::optional<Expr> {
      if (a == b) return Expr(1);
      if (b == Expr(0)) return std::nullopt;
      const Expr q = FloorDiv(a, b);
      if (q * b == a && !(q == Expr(0))) return q;
      return std::nullopt;
    };
    Index out(sizes.size(), b_->Zero());
    std::vector<Expr> high(sizes.size(), Expr(0));  // the largest index reached
    Expr rest = view.offset;
    for (int j : order) {
      if (rest == Expr(0)) break;
      const Expr q = FloorDiv(rest, strides[j]);
      if (rest.IsConstant() && strides[j].IsConstant()) {
        out[j].base = out[j].base + q;
        high[j] = high[j] + q;
        rest = rest - q * strides[j];
      } else if (auto exact = quotient(rest, strides[j])) {
        out[j].base = out[j].base + *exact;
        high[j] = high[j] + *exact;
        rest = 0;
      }
    }
    bool fits = rest == Expr(0);
    std::vector<int> spread;  // view dims that run over several base dims
    for (size_t k = 0; k < view.sizes.size() && fits; ++k) {
      if (view.sizes[k] == Expr(1) || view.strides[k] == Expr(0)) continue;
      bool placed = false;
      for (int j : order) {
        auto q = quotient(view.strides[k], strides[j]);
        if (!q) continue;
        const Expr reach = high[j] + *q * (view.sizes[k] - 1);
        const std::optional<bool> ok = g_->symbols.LessOrEqual(reach, sizes[j] - 1);
        if (!ok || !*ok) break;  // the widest dim it divides is the only one it can run along
        out[j] = b_->Add(out[j], b_->Scale(index[k], *q));
        high[j] = reach;
        placed = true;
        break;
      }
      if (!placed) {
        spread.push_back(static_cast<int>(k));
      }
    }
    if (fits && spread.empty()) return out;
    // A view dim that flattens base dims: if it runs along one dim of the domain, the domain's dim is taken apart.
    if (fits) {
      for (int k : spread) {
        std::vector<Expr> parts;
        Expr stride = view.strides[k];
        Expr left = view.sizes[k];
        for (auto it = order.rbegin(); it != order.rend() && !(left == Expr(1)); ++it) {
          if (strides[*it] != stride) continue;
          parts.insert(parts.begin(), sizes[*it]);
          stride = stride * sizes[*it];
          const Expr q = FloorDiv(left, sizes[*it]);
          if (q * sizes[*it] != left) break;
          left = q;
        }
        const int d = b_->LoneDim(index[k]);
        if (left == Expr(1) && parts.size() > 1 && d >= 0 && b_->DimSize(d) == view.sizes[k]) {
          split_dim_ = d;
          split_sizes_ = parts;
          return absl::InternalError("split");
        }
      }
    }
    // Else by division, where the base is dense.
    Expr expected = 1;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (strides[*it] != expected) return Unsupported(n, "a view that cuts across the dims of a group's own value");
      expected = expected * sizes[*it];
    }
    Affine linear = b_->Zero();
    linear.base = view.offset;
    for (size_t k = 0; k < view.sizes.size(); ++k) linear = b_->Add(linear, b_->Scale(index[k], view.strides[k]));
    const int at = b_->IndexValue(linear);
    Index divided(sizes.size(), b_->Zero());
    for (int j : order) {
      int v = at;
      if (strides[j] != Expr(1)) v = b_->Op(ScalarOp::kDivFloor, DType::kInt64, v, b_->ExprParam(strides[j]));
      if (j != order[0]) v = b_->Op(ScalarOp::kRemFloor, DType::kInt64, v, b_->ExprParam(sizes[j]));
      divided[j] = b_->Dynamic(v);
    }
    return divided;
  }

  // --- operators described by hand ---
  int And(int a, int b) {
    if (a < 0) return b;
    if (b < 0) return a;
    return b_->Op(ScalarOp::kAnd, DType::kBool, a, b);
  }
  // 0 <= a < size as a guard; -1 where that is so anyway.
  int InRange(const Affine& a, const Expr& size) {
    int guard = -1;
    const auto [low, high] = b_->Bounds(a);
    const auto above = low ? g_->symbols.LessOrEqual(Expr(0), *low) : std::nullopt;
    const auto below = high ? g_->symbols.Less(*high, size) : std::nullopt;
    const int v = b_->IndexValue(a);
    if (!above || !*above) guard = And(guard, b_->Op(ScalarOp::kGe, DType::kBool, v, b_->ConstInt(DType::kInt64, 0)));
    if (!below || !*below) guard = And(guard, b_->Op(ScalarOp::kLt, DType::kBool, v, b_->ExprParam(size)));
    return guard;
  }
  int Select(int guard, int a, int b) { return guard < 0 ? a : b_->Op(ScalarOp::kSelect, b_->TypeOf(a), guard, a, b); }
  int Number(DType t, double v) { return IsFloating(t) ? b_->Const(t, v) : b_->ConstInt(t, static_cast<int64_t>(v)); }
  int I64(ScalarOp op, int a, int b = -1) { return b_->Op(op, DType::kInt64, a, b); }
  int Size(const Expr& e) { return b_->ExprParam(e); }

  // An index from data: in range or the kernel's status is set. PyTorch's gather and its kin refuse negative ones.
  int Checked(int index, const Expr& size, bool wrap, int guard) {
    index = Convert(index, DType::kInt64);
    const int n = Size(size);
    if (!wrap) {
      const int negative = b_->Op(ScalarOp::kLt, DType::kBool, index, b_->ConstInt(DType::kInt64, 0));
      index = b_->Op(ScalarOp::kSelect, DType::kInt64, negative, n, index);
    }
    if (guard >= 0) index = b_->Op(ScalarOp::kSelect, DType::kInt64, guard, index, b_->ConstInt(DType::kInt64, 0));
    return b_->CheckIndex(index, n);
  }

  absl::StatusOr<std::vector<Expr>> Exprs(NodeId n, absl::string_view name) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    return call->GetExprs(name);
  }
  absl::StatusOr<std::vector<Expr>> ExprsOr(NodeId n, absl::string_view name, size_t rank,
                                            std::vector<Expr> otherwise) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    if (call->IsNone(name)) return otherwise;
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> v, call->GetExprs(name));
    if (v.empty()) return otherwise;
    if (v.size() == 1 && rank > 1) v.assign(rank, v[0]);
    if (v.size() != rank)
      return Unsupported(n, absl::StrCat("argument ", name, " has ", v.size(), " elements for ", rank, " dims"));
    return v;
  }
  absl::StatusOr<int> DimArg(NodeId n, absl::string_view name, int rank) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(int64_t d, call->GetInt(name));
    if (d < 0) d += std::max(rank, 1);
    if (d < 0 || d >= std::max(rank, 1)) return call->Error("a dim out of range");
    return static_cast<int>(d);
  }

  absl::StatusOr<std::vector<int>> One(absl::StatusOr<int> v) {
    if (!v.ok()) return v.status();
    return std::vector<int>{*v};
  }

  absl::StatusOr<std::vector<int>> EvalSpecial(NodeId n, Special s, const Index& index, int guard) {
    switch (s) {
      case Special::kView: {
        const ValueId base = g_->node(n).inputs[0];
        if (!internal_.contains(base)) {
          const ValueId outer = OuterValue(base);
          if (!outer.valid()) return Unsupported(n, "a view of a tensor that a group cannot take from outside");
          auto [access, offset] = b_->Address(outer, false, -1, RegionGeometry(g_->node(n)), index);
          return std::vector<int>{b_->Load(access, offset, guard)};
        }
        SMELT_ASSIGN_OR_RETURN(Index at, ViewIndex(n, index));
        return One(Eval(base, at, guard));
      }
      case Special::kMaterialize:
        return One(Eval(g_->node(n).inputs[0], index, guard));
      case Special::kFill:
        return One(EvalFill(n));
      case Special::kArange:
        return One(EvalArange(n, index));
      case Special::kLinspace:
        return One(EvalLinspace(n, index));
      case Special::kEye: {
        const DType t = Dt(Out(n));
        Affine difference = b_->Add(index[0], b_->Scale(index[1], Expr(-1)));
        const int equal =
            b_->Op(ScalarOp::kEq, DType::kBool, b_->IndexValue(difference), b_->ConstInt(DType::kInt64, 0));
        return std::vector<int>{Select(equal, Number(t, 1), Number(t, 0))};
      }
      case Special::kTriangle: {
        SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
        SMELT_ASSIGN_OR_RETURN(Expr k, call->GetExpr("diagonal"));
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        SMELT_ASSIGN_OR_RETURN(int v, Eval(self, index, guard));
        const size_t r = index.size();
        Affine d = b_->Add(index[r - 1], b_->Scale(index[r - 2], Expr(-1)));
        const bool lower = g_->node(n).op.name() == "aten::tril";
        const int keep = b_->Op(lower ? ScalarOp::kLe : ScalarOp::kGe, DType::kBool, b_->IndexValue(d), Size(k));
        return std::vector<int>{Select(keep, v, Number(b_->TypeOf(v), 0))};
      }
      case Special::kConstantPad:
        return One(EvalConstantPad(n, index, guard));
      case Special::kReflectionPad:
      case Special::kReplicationPad:
        return One(EvalEdgePad(n, s == Special::kReflectionPad, index, guard));
      case Special::kFlip: {
        SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
        SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        Index at = index;
        for (int64_t d : dims) {
          if (d < 0) d += static_cast<int64_t>(index.size());
          if (d < 0 || d >= static_cast<int64_t>(index.size())) continue;
          at[d] = b_->Scale(index[d], Expr(-1));
          at[d].base = at[d].base + Sizes(self)[d] - 1;
        }
        return One(Eval(self, at, guard));
      }
      case Special::kRoll:
        return One(EvalRoll(n, index, guard));
      case Special::kRepeat: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        const std::vector<Expr>& sizes = Sizes(self);
        const std::vector<Expr>& out = Sizes(Out(n));
        Index at;
        const size_t lead = index.size() - sizes.size();
        for (size_t d = 0; d < sizes.size(); ++d) {
          if (sizes[d] == Expr(1)) {
            at.push_back(b_->Zero());
          } else if (sizes[d] == out[lead + d]) {
            at.push_back(index[lead + d]);
          } else {
            at.push_back(b_->Dynamic(I64(ScalarOp::kRemFloor, b_->IndexValue(index[lead + d]), Size(sizes[d]))));
          }
        }
        return One(Eval(self, at, guard));
      }
      case Special::kRepeatInterleave: {
        if (g_->node(n).op.overload() != "self_int") return Unsupported(n, "has no kernel");
        SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
        SMELT_ASSIGN_OR_RETURN(Expr times, call->GetExpr("repeats"));
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        Index at = index;
        if (call->IsNone("dim")) {
          const int flat = I64(ScalarOp::kDivFloor, b_->IndexValue(index[0]), Size(times));
          at = Unflatten(flat, Sizes(self));
        } else {
          SMELT_ASSIGN_OR_RETURN(int d, DimArg(n, "dim", static_cast<int>(index.size())));
          at[d] = b_->Dynamic(I64(ScalarOp::kDivFloor, b_->IndexValue(index[d]), Size(times)));
        }
        return One(Eval(self, at, guard));
      }
      case Special::kGather: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        SMELT_ASSIGN_OR_RETURN(ValueId where, TensorArg(n, "index"));
        SMELT_ASSIGN_OR_RETURN(int i, Eval(where, index, guard));
        Index at = index;
        if (Sizes(self).empty()) {
          at.clear();
        } else if (index.empty()) {
          at = {b_->Dynamic(Checked(i, Sizes(self)[0], false, guard))};
        } else {
          SMELT_ASSIGN_OR_RETURN(int d, DimArg(n, "dim", static_cast<int>(index.size())));
          at[d] = b_->Dynamic(Checked(i, Sizes(self)[d], false, guard));
        }
        return One(Eval(self, at, guard));
      }
      case Special::kIndexSelect: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        SMELT_ASSIGN_OR_RETURN(ValueId where, TensorArg(n, "index"));
        if (Sizes(self).empty()) return One(Eval(self, {}, guard));
        SMELT_ASSIGN_OR_RETURN(int d, DimArg(n, "dim", static_cast<int>(index.size())));
        Index i;
        if (!Sizes(where).empty()) i.push_back(index[d]);
        SMELT_ASSIGN_OR_RETURN(int v, Eval(where, i, guard));
        Index at = index;
        at[d] = b_->Dynamic(Checked(v, Sizes(self)[d], false, guard));
        return One(Eval(self, at, guard));
      }
      case Special::kEmbedding: {
        SMELT_ASSIGN_OR_RETURN(ValueId weight, TensorArg(n, "weight"));
        SMELT_ASSIGN_OR_RETURN(ValueId where, TensorArg(n, "indices"));
        Index i(index.begin(), index.end() - 1);
        SMELT_ASSIGN_OR_RETURN(int v, Eval(where, i, guard));
        return One(Eval(weight, {b_->Dynamic(Checked(v, Sizes(weight)[0], false, guard)), index.back()}, guard));
      }
      case Special::kIndex: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        SMELT_ASSIGN_OR_RETURN(IndexList list, IndicesOf(n, self));
        SMELT_ASSIGN_OR_RETURN(Index at, IndexedAt(list, Sizes(self), index, guard));
        return One(Eval(self, at, guard));
      }
      case Special::kTake: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        SMELT_ASSIGN_OR_RETURN(ValueId where, TensorArg(n, "index"));
        SMELT_ASSIGN_OR_RETURN(int v, Eval(where, index, guard));
        const int flat = Checked(v, Product(Sizes(self)), true, guard);
        return One(Eval(self, Unflatten(flat, Sizes(self)), guard));
      }
      case Special::kOneHot: {
        SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
        Index i(index.begin(), index.end() - 1);
        SMELT_ASSIGN_OR_RETURN(int v, Eval(self, i, guard));
        v = Checked(v, Sizes(Out(n)).back(), false, guard);
        const int equal = b_->Op(ScalarOp::kEq, DType::kBool, v, b_->IndexValue(index.back()));
        return std::vector<int>{b_->Cast(equal, Dt(Out(n)))};
      }
      case Special::kCat:
      case Special::kStack:
        return One(EvalCat(n, s == Special::kStack, index, guard));
      case Special::kMaxPool:
      case Special::kAvgPool:
      case Special::kAdaptiveMaxPool:
      case Special::kAdaptiveAvgPool:
        return EvalPool(n, s, index, guard);
      case Special::kUpsampleNearest:
        return One(EvalUpsampleNearest(n, index, guard));
      case Special::kUpsampleLinear:
        return One(EvalUpsampleLinear(n, index, guard));
      case Special::kIm2Col:
        return One(EvalIm2Col(n, index, guard));
      case Special::kCol2Im:
        return One(EvalCol2Im(n, index, guard));
      case Special::kMaskedScatter:
        return One(EvalMaskedScatter(n, index, guard));
    }
    return Unsupported(n, "has no kernel");
  }

  // The row-major index of a flat one.
  Index Unflatten(int flat, const std::vector<Expr>& sizes) {
    Index out(sizes.size(), b_->Zero());
    Expr stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      if (sizes[d] == Expr(1)) continue;
      int v = flat;
      if (stride != Expr(1)) v = I64(ScalarOp::kDivFloor, v, Size(stride));
      if (d > 0) v = I64(ScalarOp::kRemFloor, v, Size(sizes[d]));
      out[d] = b_->Dynamic(v);
      stride = stride * sizes[d];
    }
    return out;
  }

  absl::StatusOr<int> EvalFill(NodeId n) {
    const Node& node = g_->node(n);
    const DType t = Dt(Out(n));
    if (node.op == "smelt::full") {
      LoweredKernel::Scalar s;
      s.is_constant = true;
      const Attribute* a = node.FindAttribute("value");
      if (const auto* d = a == nullptr ? nullptr : std::get_if<double>(a)) {
        s.constant = *d;
        s.int_constant = static_cast<int64_t>(*d);
      } else if (const auto* i = a == nullptr ? nullptr : std::get_if<int64_t>(a)) {
        s.constant = static_cast<double>(*i);
        s.int_constant = *i;
      }
      return b_->ScalarParam(t, std::move(s));
    }
    const std::string& name = node.op.name();
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    for (const char* argument : {"fill_value", "s"}) {
      const OpArg* a = call->Find(argument);
      if (a == nullptr || a->IsNone()) continue;
      if (a->IsTensor()) {
        SMELT_ASSIGN_OR_RETURN(int v, Eval(a->value, {}, -1));
        return Convert(v, t);
      }
      const DType own = a->kind == OpArg::Kind::kFloat  ? DType::kFloat64
                        : a->kind == OpArg::Kind::kBool ? DType::kBool
                                                        : DType::kInt64;
      if (a->known) return ScalarArg(n, *a, t);
      SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, *a, own));
      return Convert(v, t);
    }
    LoweredKernel::Scalar s;
    s.is_constant = true;
    s.int_constant = absl::EndsWith(name, "ones") || absl::EndsWith(name, "ones_like");
    s.constant = static_cast<double>(s.int_constant);
    return b_->ScalarParam(t, std::move(s));
  }

  absl::StatusOr<int> EvalArange(NodeId n, const Index& index) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const DType t = Dt(Out(n));
    const DType c = IsFloating(t) ? DType::kFloat64 : DType::kInt64;
    const OpArg* start = call->Find("start");
    const OpArg* step = call->Find("step");
    int v = b_->IndexValue(index[0]);
    if (c == DType::kFloat64) v = b_->Cast(v, c);
    const bool unit = step == nullptr || step->IsNone() || (step->known && step->number == 1);
    const bool from_zero = start == nullptr || start->IsNone() ||
                           (start->known && start->kind == OpArg::Kind::kInt && start->expr == Expr(0));
    if (!unit) {
      SMELT_ASSIGN_OR_RETURN(int s, ScalarArg(n, *step, c));
      v = b_->Op(ScalarOp::kMul, c, v, s);
    }
    if (!from_zero) {
      SMELT_ASSIGN_OR_RETURN(int s, ScalarArg(n, *start, c));
      v = b_->Op(ScalarOp::kAdd, c, s, v);
    }
    return Convert(v, t);
  }

  absl::StatusOr<int> EvalLinspace(NodeId n, const Index& index) {
    if (!g_->node(n).op.overload().empty()) return Unsupported(n, "has no kernel");
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const DType t = Dt(Out(n));
    const DType c = t == DType::kFloat64 || !IsFloating(t) ? DType::kFloat64 : DType::kFloat32;
    const Expr steps = Sizes(Out(n))[0];
    SMELT_ASSIGN_OR_RETURN(int start, ScalarArg(n, *call->Find("start"), c));
    SMELT_ASSIGN_OR_RETURN(int end, ScalarArg(n, *call->Find("end"), c));
    if (steps == Expr(1)) return Convert(start, t);
    const int i = b_->IndexValue(index[0]);
    const int step = b_->Op(ScalarOp::kDiv, c, b_->Op(ScalarOp::kSub, c, end, start), b_->Cast(Size(steps - 1), c));
    // Counted from the nearer end, as PyTorch does.
    const int low = b_->Op(ScalarOp::kAdd, c, start, b_->Op(ScalarOp::kMul, c, step, b_->Cast(i, c)));
    const int back = I64(ScalarOp::kSub, Size(steps - 1), i);
    const int high = b_->Op(ScalarOp::kSub, c, end, b_->Op(ScalarOp::kMul, c, step, b_->Cast(back, c)));
    const int first = b_->Op(ScalarOp::kLt, DType::kBool, i, Size(FloorDiv(steps, 2)));
    return Convert(b_->Op(ScalarOp::kSelect, c, first, low, high), t);
  }

  absl::StatusOr<int> EvalConstantPad(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs("pad"));
    const std::vector<Expr>& sizes = Sizes(self);
    Index at = index;
    int inside = -1;
    for (size_t k = 0; k + 1 < pad.size(); k += 2) {
      const size_t d = index.size() - 1 - k / 2;
      if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
      at[d].base = at[d].base - pad[k];
      inside = And(inside, InRange(at[d], sizes[d]));
    }
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
    if (inside < 0) return v;
    SMELT_ASSIGN_OR_RETURN(int fill, ScalarArg(n, *call->Find("value"), b_->TypeOf(v)));
    return Select(inside, v, fill);
  }

  absl::StatusOr<int> EvalEdgePad(NodeId n, bool reflect, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs("padding"));
    const std::vector<Expr>& sizes = Sizes(self);
    Index at = index;
    for (size_t k = 0; k + 1 < pad.size(); k += 2) {
      const size_t d = index.size() - 1 - k / 2;
      if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
      at[d].base = at[d].base - pad[k];
      int v = b_->IndexValue(at[d]);
      const int last = Size(sizes[d] - 1);
      if (reflect) {
        v = I64(ScalarOp::kAbs, v);
        v = I64(ScalarOp::kSub, last, I64(ScalarOp::kAbs, I64(ScalarOp::kSub, last, v)));
      } else {
        v = I64(ScalarOp::kMin, I64(ScalarOp::kMax, v, b_->ConstInt(DType::kInt64, 0)), last);
      }
      at[d] = b_->Dynamic(v);
    }
    return Eval(self, at, guard);
  }

  absl::StatusOr<int> EvalRoll(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shifts, call->GetExprs("shifts"));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
    const std::vector<Expr>& sizes = Sizes(self);
    if (dims.empty()) {
      if (shifts.size() != 1) return call->Error("shifts and dims differ in length");
      Affine flat = b_->Zero();
      Expr stride = 1;
      for (size_t d = sizes.size(); d-- > 0;) {
        flat = b_->Add(flat, b_->Scale(index[d], stride));
        stride = stride * sizes[d];
      }
      flat.base = flat.base - shifts[0];
      return Eval(self, Unflatten(I64(ScalarOp::kRemFloor, b_->IndexValue(flat), Size(stride)), sizes), guard);
    }
    if (dims.size() != shifts.size()) return call->Error("shifts and dims differ in length");
    Index at = index;
    for (size_t k = 0; k < dims.size(); ++k) {
      const size_t d = dims[k] < 0 ? dims[k] + index.size() : dims[k];
      if (d >= index.size()) return call->Error("a dim out of range");
      at[d].base = at[d].base - shifts[k];
      at[d] = b_->Dynamic(I64(ScalarOp::kRemFloor, b_->IndexValue(at[d]), Size(sizes[d])));
    }
    return Eval(self, at, guard);
  }

  absl::StatusOr<int> EvalCat(NodeId n, bool stack, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const OpArg* list = call->Find("tensors");
    if (list == nullptr || list->elements.empty()) return Unsupported(n, "a list that is not made in place");
    SMELT_ASSIGN_OR_RETURN(int dim, DimArg(n, "dim", static_cast<int>(index.size())));
    const DType t = Dt(Out(n));
    int result = -1;
    Expr offset = 0;
    for (const OpArg& e : list->elements) {
      const std::vector<Expr>& sizes = Sizes(e.value);
      if (!stack && sizes.size() == 1 && sizes[0] == Expr(0) && index.size() != 1)
        continue;  // legacy: an empty list of numbers
      Index at = index;
      at[dim].base = at[dim].base - offset;
      const Expr length = stack ? Expr(1) : sizes[dim];
      if (length == Expr(0)) continue;
      const int inside = InRange(at[dim], length);
      if (stack) at.erase(at.begin() + dim);
      SMELT_ASSIGN_OR_RETURN(int v, Eval(e.value, at, And(guard, inside)));
      v = Convert(v, t);
      result = result < 0 ? v : Select(inside, v, result);
      offset = offset + length;
    }
    if (result < 0) return Number(t, 0);
    return result;
  }

  // --- windows ---
  struct Window {
    std::vector<Expr> kernel, stride, padding, dilation;
    std::vector<Expr> in, out;  // spatial sizes
  };
  // The dims that a pooling node reduces over.
  absl::StatusOr<std::vector<Expr>> WindowOf(NodeId n, Special s) {
    if (s == Special::kAdaptiveAvgPool || s == Special::kAdaptiveMaxPool) {
      SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
      const size_t spatial = SpatialRank(n);
      std::vector<Expr> out;
      for (size_t k = 0; k < spatial; ++k) {
        const Expr in = Sizes(self)[Sizes(self).size() - spatial + k];
        const Expr o = Sizes(Out(n))[Sizes(Out(n)).size() - spatial + k];
        // A window runs from floor(i*in/out) to ceil((i+1)*in/out).
        const Expr q = FloorDiv(in, o);
        out.push_back(q * o == in ? q : FloorDiv(in + o - 1, o) + 1);
      }
      return out;
    }
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> k, call->GetExprs("kernel_size"));
    const size_t spatial = s == Special::kCol2Im ? 2 : SpatialRank(n);
    if (k.size() == 1) k.assign(spatial, k[0]);
    return k;
  }
  size_t SpatialRank(NodeId n) const {
    const std::string& name = g_->node(n).op.name();
    for (size_t k = 1; k <= 3; ++k) {
      if (absl::StrContains(name, absl::StrCat(k, "d"))) return k;
    }
    return 2;
  }

  absl::StatusOr<std::vector<int>> EvalPool(NodeId n, Special s, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    const std::vector<Expr>& sizes = Sizes(self);
    const size_t spatial = SpatialRank(n);
    const size_t lead = sizes.size() - spatial;
    const bool adaptive = s == Special::kAdaptiveAvgPool || s == Special::kAdaptiveMaxPool;
    const bool average = s == Special::kAdaptiveAvgPool || s == Special::kAvgPool;
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> window, WindowOf(n, s));
    SMELT_RETURN_IF_ERROR(CheckSite(n, window, index));
    Index at = index;
    int inside = -1;
    int count = -1;  // elements that a mean divides by, int64
    if (adaptive) {
      for (size_t k = 0; k < spatial; ++k) {
        const size_t d = lead + k;
        const Expr in = sizes[d], out = Sizes(Out(n))[d];
        const Expr q = FloorDiv(in, out);
        int length;
        if (q * out == in) {
          at[d] = b_->Add(b_->Scale(index[d], q), q_index_[k]);
          length = Size(q);
        } else {
          const int i = b_->IndexValue(index[d]);
          const int start = I64(ScalarOp::kDivFloor, I64(ScalarOp::kMul, i, Size(in)), Size(out));
          const int next = I64(ScalarOp::kMul, I64(ScalarOp::kAdd, i, b_->ConstInt(DType::kInt64, 1)), Size(in));
          const int end = I64(ScalarOp::kDivFloor, I64(ScalarOp::kAdd, next, Size(out - 1)), Size(out));
          at[d] = b_->Add(b_->Dynamic(start), q_index_[k]);
          inside = And(inside, b_->Op(ScalarOp::kLt, DType::kBool, b_->IndexValue(at[d]), end));
          length = I64(ScalarOp::kSub, end, start);
        }
        count = count < 0 ? length : I64(ScalarOp::kMul, count, length);
      }
    } else {
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, ExprsOr(n, "stride", spatial, window));
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, ExprsOr(n, "padding", spatial, std::vector<Expr>(spatial, 0)));
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation,
                             ExprsOr(n, "dilation", spatial, std::vector<Expr>(spatial, 1)));
      bool include_pad = true;
      SMELT_ASSIGN_OR_RETURN(bool ceil_mode, call->GetBoolOr("ceil_mode", false));
      bool fixed = false;
      if (average) {
        SMELT_ASSIGN_OR_RETURN(include_pad, call->GetBoolOr("count_include_pad", true));
        if (!call->IsNone("divisor_override")) {
          SMELT_ASSIGN_OR_RETURN(Expr d, call->GetExpr("divisor_override"));
          count = Size(d);
          fixed = true;
        }
      }
      for (size_t k = 0; k < spatial; ++k) {
        const size_t d = lead + k;
        at[d] = b_->Add(b_->Scale(index[d], stride[k]), b_->Scale(q_index_[k], dilation[k]));
        at[d].base = at[d].base - padding[k];
        inside = And(inside, InRange(at[d], sizes[d]));
        if (!average || fixed) continue;
        // How much of the window counts: with padding counted, what overhangs the padded input (ceil_mode) still does
        // not.
        int length;
        if ((include_pad && !ceil_mode) || (padding[k] == Expr(0) && !ceil_mode)) {
          length = Size(window[k]);
        } else {
          Affine start = b_->Scale(index[d], stride[k]);
          start.base = start.base - padding[k];
          const int begin = b_->IndexValue(start);
          int end = I64(ScalarOp::kAdd, begin, Size(window[k]));
          end = I64(ScalarOp::kMin, end, Size(sizes[d] + padding[k]));
          int from = begin;
          if (!include_pad) {
            end = I64(ScalarOp::kMin, end, Size(sizes[d]));
            from = I64(ScalarOp::kMax, begin, b_->ConstInt(DType::kInt64, 0));
          }
          length = I64(ScalarOp::kSub, end, from);
        }
        count = count < 0 ? length : I64(ScalarOp::kMul, count, length);
      }
    }
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
    const DType t = Dt(Out(n));
    if (average) {
      const DType c = OpMathType(t);
      v = Convert(v, c);
      v = Select(inside, v, Number(c, 0));
      int sum = Reduce(ReduceKind::kSum, v, -1, false);
      if (IsFloating(c)) {
        sum = b_->Op(ScalarOp::kDiv, c, sum, b_->Cast(count, c));
      } else {
        sum = b_->Op(ScalarOp::kDivTrunc, c, sum, Convert(count, c));
      }
      return std::vector<int>{Convert(sum, t)};
    }
    int low;
    if (IsFloating(t)) {
      low = Number(t, -INFINITY);
    } else {
      const int bits = 8 * ItemSize(t);
      low = b_->ConstInt(t, IsSigned(t) ? (bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1))) : 0);
    }
    v = Select(inside, v, low);
    const int best = Reduce(ReduceKind::kMax, v, -1, false);
    if (g_->node(n).outputs.size() == 1) return std::vector<int>{best};
    // The flat index in the input's plane, of the first maximum (of a NaN, if there is one).
    Affine flat = b_->Zero();
    Expr stride = 1;
    for (size_t d = sizes.size(); d-- > lead;) {
      flat = b_->Add(flat, b_->Scale(at[d], stride));
      stride = stride * sizes[d];
    }
    int i = b_->IndexValue(flat);
    // Outside of the input nothing is chosen, even among -infinities: those come last.
    if (inside >= 0) i = b_->Op(ScalarOp::kSelect, DType::kInt64, inside, i, b_->ConstInt(DType::kInt64, INT64_MAX));
    const int arg = Reduce(ReduceKind::kArgMax, v, i, false);
    return std::vector<int>{best, arg};
  }

  absl::StatusOr<int> EvalIm2Col(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    const std::vector<Expr>& sizes = Sizes(self);
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, ExprsOr(n, "kernel_size", 2, {}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, ExprsOr(n, "stride", 2, {1, 1}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, ExprsOr(n, "padding", 2, {0, 0}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, ExprsOr(n, "dilation", 2, {1, 1}));
    const size_t lead = sizes.size() - 3;
    const Expr in_w = sizes[lead + 2];
    const Expr out_w = FloorDiv(in_w + padding[1] * 2 - dilation[1] * (kernel[1] - 1) - 1, stride[1]) + 1;
    const int block = b_->IndexValue(index[lead]);
    const int place = b_->IndexValue(index[lead + 1]);
    const int c = I64(ScalarOp::kDivFloor, block, Size(kernel[0] * kernel[1]));
    const int k = I64(ScalarOp::kRemFloor, block, Size(kernel[0] * kernel[1]));
    const Affine ky = b_->Dynamic(I64(ScalarOp::kDivFloor, k, Size(kernel[1])));
    const Affine kx = b_->Dynamic(I64(ScalarOp::kRemFloor, k, Size(kernel[1])));
    const Affine oy = b_->Dynamic(I64(ScalarOp::kDivFloor, place, Size(out_w)));
    const Affine ox = b_->Dynamic(I64(ScalarOp::kRemFloor, place, Size(out_w)));
    Index at(index.begin(), index.begin() + lead);
    at.push_back(b_->Dynamic(c));
    at.push_back(b_->Add(b_->Scale(oy, stride[0]), b_->Scale(ky, dilation[0])));
    at.push_back(b_->Add(b_->Scale(ox, stride[1]), b_->Scale(kx, dilation[1])));
    int inside = -1;
    for (int d = 0; d < 2; ++d) {
      at[lead + 1 + d].base = at[lead + 1 + d].base - padding[d];
      if (padding[d] != Expr(0)) inside = And(inside, InRange(at[lead + 1 + d], sizes[lead + 1 + d]));
    }
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
    return Select(inside, v, Number(b_->TypeOf(v), 0));
  }

  absl::StatusOr<int> EvalCol2Im(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    const std::vector<Expr>& out = Sizes(Out(n));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, ExprsOr(n, "kernel_size", 2, {}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, ExprsOr(n, "stride", 2, {1, 1}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, ExprsOr(n, "padding", 2, {0, 0}));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, ExprsOr(n, "dilation", 2, {1, 1}));
    SMELT_RETURN_IF_ERROR(CheckSite(n, kernel, index));
    const size_t lead = out.size() - 3;
    std::vector<Expr> blocks;
    for (int d = 0; d < 2; ++d) {
      blocks.push_back(FloorDiv(out[lead + 1 + d] + padding[d] * 2 - dilation[d] * (kernel[d] - 1) - 1, stride[d]) + 1);
    }
    // The block that puts element q of its window here, if one does.
    int inside = -1;
    std::vector<Affine> block;
    for (int d = 0; d < 2; ++d) {
      Affine a = b_->Add(index[lead + 1 + d], b_->Scale(q_index_[d], Expr(0) - dilation[d]));
      a.base = a.base + padding[d];
      Affine quotient = a;
      if (stride[d] != Expr(1)) {
        const int v = b_->IndexValue(a);
        const int r = I64(ScalarOp::kRemFloor, v, Size(stride[d]));
        inside = And(inside, b_->Op(ScalarOp::kEq, DType::kBool, r, b_->ConstInt(DType::kInt64, 0)));
        quotient = b_->Dynamic(I64(ScalarOp::kDivFloor, v, Size(stride[d])));
      }
      inside = And(inside, InRange(quotient, blocks[d]));
      block.push_back(quotient);
    }
    Index at(index.begin(), index.begin() + lead);
    at.push_back(b_->Add(b_->Scale(index[lead], kernel[0] * kernel[1]),
                         b_->Add(b_->Scale(q_index_[0], kernel[1]), q_index_[1])));
    at.push_back(b_->Add(b_->Scale(block[0], blocks[1]), block[1]));
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
    const DType t = Dt(Out(n)), c = OpMathType(t);
    v = Convert(v, c);
    v = Select(inside, v, Number(c, 0));
    return Convert(Reduce(ReduceKind::kSum, v, -1, false), t);
  }

  absl::StatusOr<int> EvalMaskedScatter(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(ValueId self, TensorArg(n, "self"));
    SMELT_ASSIGN_OR_RETURN(ValueId mask, TensorArg(n, "mask"));
    SMELT_ASSIGN_OR_RETURN(ValueId source, TensorArg(n, "source"));
    SMELT_RETURN_IF_ERROR(CheckSite(n, Sizes(Out(n)), {}));
    for (size_t d = 0; d < index.size(); ++d) {
      if (!(index[d] == q_index_[d])) return Unsupported(n, "masked_scatter used at another index");
    }
    ordered_ = true;
    SMELT_ASSIGN_OR_RETURN(int keep, Eval(self, BroadcastIndex(index, Sizes(Out(n)), Sizes(self)), guard));
    SMELT_ASSIGN_OR_RETURN(int m, Eval(mask, BroadcastIndex(index, Sizes(Out(n)), Sizes(mask)), guard));
    m = Convert(m, DType::kBool);
    const int seen = b_->Reduce(ReduceKind::kSum, b_->Cast(m, DType::kInt64), -1, true);
    int at = I64(ScalarOp::kSub, seen, b_->ConstInt(DType::kInt64, 1));
    const int taken = b_->Op(ScalarOp::kSelect, DType::kInt64, m, at, b_->ConstInt(DType::kInt64, 0));
    at = b_->CheckIndex(taken, Size(Max(Product(Sizes(source)), Expr(1))));
    SMELT_ASSIGN_OR_RETURN(int v, Eval(source, Unflatten(at, Sizes(source)), And(guard, m)));
    return Select(m, v, keep);
  }

  // --- resampling ---
  // The ratio that maps an output index to an input index; scales (if given) are output over input.
  absl::StatusOr<std::optional<double>> ScaleArg(NodeId n, size_t k, size_t spatial) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    if (const OpArg* f = call->Find("scale_factors"); f != nullptr) {
      if (f->IsNone()) return std::nullopt;
      if (f->kind == OpArg::Kind::kFloatList && f->known && k < f->floats.size()) return f->floats[k];
      return Unsupported(n, "scale factors that are not constants");
    }
    static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
    const char* name = spatial == 1 ? "scales" : kNames[3 - spatial + k];
    if (call->IsNone(name)) return std::nullopt;
    SMELT_ASSIGN_OR_RETURN(double v, call->GetDouble(name));
    return v;
  }
  ValueId ImageOf(const OpCall& call) const {
    const OpArg* a = call.Find("self");
    if (a == nullptr) a = call.Find("input");
    return a == nullptr ? ValueId() : a->value;
  }
  // 1 / scale, or in / out, as a float32 or float64 instruction.
  absl::StatusOr<int> Ratio(NodeId n, DType c, const Expr& in, const Expr& out, size_t k, size_t spatial) {
    SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(n, k, spatial));
    if (scale && *scale > 0) {
      LoweredKernel::Scalar s;
      s.is_constant = true;
      s.constant = 1.0 / *scale;
      return b_->ScalarParam(c, std::move(s));
    }
    return b_->Op(ScalarOp::kDiv, c, b_->Cast(Size(in), c), b_->Cast(Size(out), c));
  }

  absl::StatusOr<int> EvalUpsampleNearest(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const ValueId self = ImageOf(*call);
    const std::vector<Expr>& sizes = Sizes(self);
    const size_t spatial = SpatialRank(n);
    const size_t lead = sizes.size() - spatial;
    const bool exact = absl::StrContains(g_->node(n).op.name(), "exact");
    Index at = index;
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      const Expr in = sizes[d], out = Sizes(Out(n))[d];
      if (in == out && !exact) continue;
      SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(n, k, spatial));
      const Expr times = FloorDiv(out, in);
      const bool whole = times * in == out && times.IsConstant();
      if (whole && (!scale || *scale == static_cast<double>(*times.Constant()))) {
        at[d] = b_->Dynamic(I64(ScalarOp::kDivFloor, b_->IndexValue(index[d]), Size(times)));
        continue;
      }
      const DType c = DType::kFloat32;
      SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(n, c, in, out, k, spatial));
      int x = b_->Cast(b_->IndexValue(index[d]), c);
      if (exact) x = b_->Op(ScalarOp::kAdd, c, x, b_->Const(c, 0.5));
      x = b_->Op(ScalarOp::kFloor, c, b_->Op(ScalarOp::kMul, c, x, ratio));
      at[d] = b_->Dynamic(I64(ScalarOp::kMin, b_->Cast(x, DType::kInt64), Size(in - 1)));
    }
    return Eval(self, at, guard);
  }

  absl::StatusOr<int> EvalUpsampleLinear(NodeId n, const Index& index, int guard) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    const ValueId self = ImageOf(*call);
    const std::vector<Expr>& sizes = Sizes(self);
    const size_t spatial = SpatialRank(n);
    const size_t lead = sizes.size() - spatial;
    const DType t = Dt(Out(n));
    const DType c = t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    SMELT_ASSIGN_OR_RETURN(bool corners, call->GetBool("align_corners"));
    std::vector<std::array<int, 2>> place(spatial), weight(spatial);
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      const Expr in = sizes[d], out = Sizes(Out(n))[d];
      const int i = b_->Cast(b_->IndexValue(index[d]), c);
      int x;
      if (corners) {
        x = out == Expr(1)
                ? b_->Const(c, 0)
                : b_->Op(ScalarOp::kMul, c,
                         b_->Op(ScalarOp::kDiv, c, b_->Cast(Size(in - 1), c), b_->Cast(Size(out - 1), c)), i);
      } else {
        SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(n, c, in, out, k, spatial));
        x = b_->Op(ScalarOp::kMul, c, ratio, b_->Op(ScalarOp::kAdd, c, i, b_->Const(c, 0.5)));
        x = b_->Op(ScalarOp::kMax, c, b_->Op(ScalarOp::kSub, c, x, b_->Const(c, 0.5)), b_->Const(c, 0));
      }
      const int low = I64(ScalarOp::kMin, b_->Cast(x, DType::kInt64), Size(in - 1));
      const int high = I64(ScalarOp::kMin, I64(ScalarOp::kAdd, low, b_->ConstInt(DType::kInt64, 1)), Size(in - 1));
      int w = b_->Op(ScalarOp::kSub, c, x, b_->Cast(low, c));
      w = b_->Op(ScalarOp::kMin, c, b_->Op(ScalarOp::kMax, c, w, b_->Const(c, 0)), b_->Const(c, 1));
      place[k] = {low, high};
      weight[k] = {b_->Op(ScalarOp::kSub, c, b_->Const(c, 1), w), w};
    }
    std::vector<int> values;
    for (size_t corner = 0; corner < (size_t{1} << spatial); ++corner) {
      Index at = index;
      for (size_t k = 0; k < spatial; ++k) at[lead + k] = b_->Dynamic(place[k][corner >> (spatial - 1 - k) & 1]);
      SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, guard));
      values.push_back(Convert(v, c));
    }
    for (size_t k = spatial; k-- > 0;) {
      std::vector<int> next;
      for (size_t j = 0; j < values.size(); j += 2) {
        next.push_back(b_->Op(ScalarOp::kAdd, c, b_->Op(ScalarOp::kMul, c, weight[k][0], values[j]),
                              b_->Op(ScalarOp::kMul, c, weight[k][1], values[j + 1])));
      }
      values = std::move(next);
    }
    return Convert(values[0], t);
  }

  // --- index lists ---
  struct IndexList {
    std::vector<ValueId> at;  // by dim of self; invalid: a whole dim
    std::vector<Expr> sizes;  // of the indices, broadcast
    int first = 0;            // where those dims stand in the result
  };
  absl::StatusOr<IndexList> IndicesFrom(NodeId n, absl::Span<const ValueId> values, ValueId self) {
    IndexList out;
    out.at.resize(Sizes(self).size());
    if (values.size() > out.at.size()) return Unsupported(n, "more indices than dims");
    int begin = -1, end = -1;
    bool together = true;
    for (size_t d = 0; d < values.size(); ++d) {
      const ValueId v = values[d];
      if (!v.valid() || !g_->value(v).type.IsTensor()) continue;
      if (Dt(v) == DType::kBool || Dt(v) == DType::kUInt8)
        return Unsupported(n, "a mask as index: the number of elements is in the data");
      out.at[d] = v;
      if (begin < 0) begin = static_cast<int>(d);
      together = together && (end < 0 || end == static_cast<int>(d));
      end = static_cast<int>(d) + 1;
      const std::vector<Expr>& s = Sizes(v);
      if (s.size() > out.sizes.size()) out.sizes.insert(out.sizes.begin(), s.size() - out.sizes.size(), Expr(1));
      for (size_t k = 0; k < s.size(); ++k) {
        Expr& o = out.sizes[out.sizes.size() - s.size() + k];
        if (o == Expr(1)) o = s[k];
      }
    }
    out.first = together ? std::max(begin, 0) : 0;
    return out;
  }
  absl::StatusOr<IndexList> IndicesOf(NodeId n, ValueId self) {
    std::optional<std::vector<ValueId>> list = GetListElements(*g_, g_->node(n).inputs[1]);
    if (!list) return Unsupported(n, "a list that is not made in place");
    return IndicesFrom(n, *list, self);
  }
  absl::StatusOr<Index> IndexedAt(const IndexList& list, const std::vector<Expr>& self, const Index& index, int guard) {
    Index which(index.begin() + list.first, index.begin() + list.first + list.sizes.size());
    Index rest(index.begin(), index.begin() + list.first);
    rest.insert(rest.end(), index.begin() + list.first + list.sizes.size(), index.end());
    Index at;
    size_t r = 0;
    for (size_t d = 0; d < self.size(); ++d) {
      if (!list.at[d].valid()) {
        at.push_back(rest[r++]);
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(int v, Eval(list.at[d], BroadcastIndex(which, list.sizes, Sizes(list.at[d])), guard));
      at.push_back(b_->Dynamic(Checked(v, self[d], true, guard)));
    }
    return at;
  }

  // --- writes at indices from data ---
  // Points that write different elements whatever the data are parallel; the others run in order.
  struct ActionDomain {
    std::vector<Expr> parallel, ordered;
  };
  static std::string ActionName(const Node& node) {
    return std::string(absl::StripPrefix(node.op.name(), "smelt::inplace_"));
  }
  absl::StatusOr<int> ActionDim(NodeId n, int rank) const {
    const std::optional<Expr> d = GetIntExpr(*g_, g_->node(n).inputs[1]);
    if (!d || !d->IsConstant()) return Unsupported(n, "a dim that is not a constant");
    int64_t v = *d->Constant();
    if (v < 0) v += std::max(rank, 1);
    if (v < 0 || v >= std::max(rank, 1)) return Unsupported(n, "a dim out of range");
    return static_cast<int>(v);
  }
  bool IsTensorValue(ValueId v) const { return g_->value(v).type.IsTensor(); }

  absl::StatusOr<ActionDomain> DomainOf(NodeId n) {
    const Node& node = g_->node(n);
    const std::string name = ActionName(node);
    ActionDomain d;
    const std::vector<Expr>& self = Sizes(node.inputs[0]);
    if (absl::StartsWith(name, "scatter")) {
      const std::vector<Expr>& sizes = Sizes(node.inputs[2]);
      SMELT_ASSIGN_OR_RETURN(int dim, ActionDim(n, static_cast<int>(sizes.size())));
      for (int k = 0; k < static_cast<int>(sizes.size()); ++k) (k == dim ? d.ordered : d.parallel).push_back(sizes[k]);
    } else if (absl::StrContains(name, "index_put")) {
      std::optional<std::vector<ValueId>> list = GetListElements(*g_, node.inputs[1]);
      if (!list) return Unsupported(n, "a list that is not made in place");
      SMELT_ASSIGN_OR_RETURN(IndexList indices, IndicesFrom(n, *list, node.inputs[0]));
      for (size_t k = 0; k < self.size(); ++k) {
        if (!indices.at[k].valid()) d.parallel.push_back(self[k]);
      }
      d.ordered = indices.sizes;
    } else if (name == "put") {
      d.ordered = Sizes(node.inputs[1]);
    } else {
      // index_add, index_copy, index_fill
      SMELT_ASSIGN_OR_RETURN(int dim, ActionDim(n, static_cast<int>(self.size())));
      for (int k = 0; k < static_cast<int>(self.size()); ++k) {
        if (k != dim) d.parallel.push_back(self[k]);
      }
      d.ordered.push_back(Product(Sizes(node.inputs[2])));
    }
    // One element, or none at all, is in no order.
    if (Product(d.ordered) == Expr(1)) d.ordered.clear();
    return d;
  }

  absl::StatusOr<int> ActionScalar(NodeId n, ValueId v, DType t) {
    OpArg a;
    a.value = v;
    if (auto c = GetConstant(*g_, v)) {
      a.known = true;
      if (const auto* i = std::get_if<int64_t>(&*c)) {
        a.kind = OpArg::Kind::kInt;
        a.expr = Expr(*i);
        a.number = static_cast<double>(*i);
      } else if (const auto* d = std::get_if<double>(&*c)) {
        a.kind = OpArg::Kind::kFloat;
        a.number = *d;
      } else if (const auto* b = std::get_if<bool>(&*c)) {
        a.kind = OpArg::Kind::kBool;
        a.number = *b;
      } else {
        return Unsupported(n, "a number that is none");
      }
    } else {
      const TypeKind k = g_->value(v).type.kind();
      a.kind = k == TypeKind::kFloat  ? OpArg::Kind::kFloat
               : k == TypeKind::kBool ? OpArg::Kind::kBool
                                      : OpArg::Kind::kInt;
    }
    return ScalarArg(n, a, t);
  }

  absl::Status EmitAction(const Root& r) {
    const NodeId n = r.action;
    const Node& node = g_->node(n);
    const std::string name = ActionName(node);
    const std::vector<Expr>& self = Sizes(node.inputs[0]);
    const DType t = r.target.dtype;
    enum class Mode { kSet, kAdd, kMul, kMin, kMax } mode = Mode::kSet;
    Index at;
    int value = -1;
    size_t p = 0;
    auto ordered = [&](size_t k) { return q_index_.empty() ? b_->Zero() : q_index_[k]; };
    if (absl::StartsWith(name, "scatter")) {
      const std::vector<Expr>& sizes = Sizes(node.inputs[2]);
      SMELT_ASSIGN_OR_RETURN(int dim, ActionDim(n, static_cast<int>(sizes.size())));
      Index index;
      for (int k = 0; k < static_cast<int>(sizes.size()); ++k) index.push_back(k == dim ? ordered(0) : p_index_[p++]);
      SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[2], index, -1));
      at = index;
      if (self.empty()) {
        at.clear();
      } else if (sizes.empty()) {
        at = {b_->Dynamic(Checked(i, self[0], false, -1))};
      } else {
        at[dim] = b_->Dynamic(Checked(i, self[dim], false, -1));
      }
      if (IsTensorValue(node.inputs[3])) {
        Index from = index;
        from.resize(Sizes(node.inputs[3]).size(), b_->Zero());
        SMELT_ASSIGN_OR_RETURN(value, Eval(node.inputs[3], from, -1));
      } else {
        SMELT_ASSIGN_OR_RETURN(value, ActionScalar(n, node.inputs[3], t));
      }
      if (name == "scatter_add") mode = Mode::kAdd;
      if (node.inputs.size() > 4) {
        auto c = GetConstant(*g_, node.inputs[4]);
        const auto* reduce = c ? std::get_if<std::string>(&*c) : nullptr;
        if (reduce == nullptr) return Unsupported(n, "a reduction that is not a constant");
        if (*reduce == "add" || *reduce == "sum") {
          mode = Mode::kAdd;
        } else if (*reduce == "multiply" || *reduce == "prod") {
          mode = Mode::kMul;
        } else if (*reduce == "amin") {
          mode = Mode::kMin;
        } else if (*reduce == "amax") {
          mode = Mode::kMax;
        } else {
          return Unsupported(n, absl::StrCat("the reduction ", *reduce));
        }
        if (node.inputs.size() > 5) {
          auto include = GetConstant(*g_, node.inputs[5]);
          const auto* yes = include ? std::get_if<bool>(&*include) : nullptr;
          if (yes == nullptr || !*yes) return Unsupported(n, "include_self=False");
        }
      }
    } else if (absl::StrContains(name, "index_put")) {
      std::optional<std::vector<ValueId>> list = GetListElements(*g_, node.inputs[1]);
      if (!list) return Unsupported(n, "a list that is not made in place");
      SMELT_ASSIGN_OR_RETURN(IndexList indices, IndicesFrom(n, *list, node.inputs[0]));
      // The index into the values: the indices' dims where they stand, whole dims around them.
      Index index;
      std::vector<Expr> sizes;
      for (size_t d = 0; d < self.size(); ++d) {
        if (static_cast<int>(index.size()) == indices.first && sizes.size() == index.size()) {
        }
        if (!indices.at[d].valid()) {
          index.push_back(p_index_[p++]);
          sizes.push_back(self[d]);
        }
      }
      Index which;
      for (size_t k = 0; k < indices.sizes.size(); ++k) which.push_back(ordered(k));
      index.insert(index.begin() + indices.first, which.begin(), which.end());
      sizes.insert(sizes.begin() + indices.first, indices.sizes.begin(), indices.sizes.end());
      SMELT_ASSIGN_OR_RETURN(at, IndexedAt(indices, self, index, -1));
      const std::vector<Expr>& s = Sizes(node.inputs[2]);
      if (s.size() > sizes.size()) return Unsupported(n, "values of higher rank than what they are put into");
      SMELT_ASSIGN_OR_RETURN(value, Eval(node.inputs[2], BroadcastIndex(index, sizes, s), -1));
      SMELT_ASSIGN_OR_RETURN(bool accumulate, BoolInput(n, 3));
      if (accumulate) mode = Mode::kAdd;
    } else if (name == "put") {
      Index index;
      for (size_t k = 0; k < Sizes(node.inputs[1]).size(); ++k) index.push_back(ordered(k));
      SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[1], index, -1));
      at = Unflatten(Checked(i, Product(self), true, -1), self);
      // The source has as many elements, in any shape.
      const std::vector<Expr>& sizes = Sizes(node.inputs[1]);
      if (Sizes(node.inputs[2]) != sizes) {
        Affine flat = b_->Zero();
        Expr stride = 1;
        for (size_t k = sizes.size(); k-- > 0; stride = stride * sizes[k])
          flat = b_->Add(flat, b_->Scale(index[k], stride));
        index = Unflatten(b_->IndexValue(flat), Sizes(node.inputs[2]));
      }
      SMELT_ASSIGN_OR_RETURN(value, Eval(node.inputs[2], index, -1));
      SMELT_ASSIGN_OR_RETURN(bool accumulate, BoolInput(n, 3));
      if (accumulate) mode = Mode::kAdd;
    } else {
      SMELT_ASSIGN_OR_RETURN(int dim, ActionDim(n, static_cast<int>(self.size())));
      Index where;
      if (!Sizes(node.inputs[2]).empty()) where.push_back(ordered(0));
      SMELT_ASSIGN_OR_RETURN(int i, Eval(node.inputs[2], where, -1));
      Index from;
      for (int k = 0; k < static_cast<int>(self.size()); ++k) {
        at.push_back(k == dim ? b_->Dynamic(Checked(i, self[k], name == "index_fill", -1)) : p_index_[p++]);
        from.push_back(k == dim ? ordered(0) : at.back());
      }
      if (self.empty()) Checked(i, Expr(1), name == "index_fill", -1);
      if (!IsTensorValue(node.inputs[3])) {
        SMELT_ASSIGN_OR_RETURN(value, ActionScalar(n, node.inputs[3], t));
      } else if (name == "index_fill") {
        SMELT_ASSIGN_OR_RETURN(value, Eval(node.inputs[3], Index(Sizes(node.inputs[3]).size(), b_->Zero()), -1));
      } else {
        from.resize(Sizes(node.inputs[3]).size(), b_->Zero());
        SMELT_ASSIGN_OR_RETURN(value, Eval(node.inputs[3], from, -1));
      }
      if (name == "index_add") {
        mode = Mode::kAdd;
        auto alpha = node.inputs.size() > 4 ? GetConstant(*g_, node.inputs[4]) : std::nullopt;
        const auto* one = alpha ? std::get_if<int64_t>(&*alpha) : nullptr;
        if (node.inputs.size() > 4 && (one == nullptr || *one != 1)) {
          const DType c = OpMathType(t);
          SMELT_ASSIGN_OR_RETURN(int a, ActionScalar(n, node.inputs[4], c));
          value = b_->Op(ScalarOp::kMul, c, Convert(value, c), a);
        }
      }
    }
    if (mode != Mode::kSet) {
      const DType c = t == DType::kBool ? DType::kBool : OpMathType(t);
      const int old = Convert(LoadFrom(r, at), c);
      value = Convert(value, c);
      ScalarOp op = ScalarOp::kAdd;
      switch (mode) {
        case Mode::kSet:
        case Mode::kAdd:
          op = t == DType::kBool ? ScalarOp::kOr : ScalarOp::kAdd;
          break;
        case Mode::kMul:
          op = t == DType::kBool ? ScalarOp::kAnd : ScalarOp::kMul;
          break;
        case Mode::kMin:
          op = ScalarOp::kMin;
          break;
        case Mode::kMax:
          op = ScalarOp::kMax;
          break;
      }
      value = b_->Op(op, c, old, value);
    }
    StoreTo(r, at, Convert(value, t), -1);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> BoolInput(NodeId n, size_t i) const {
    if (g_->node(n).inputs.size() <= i) return false;
    auto c = GetConstant(*g_, g_->node(n).inputs[i]);
    const auto* b = c ? std::get_if<bool>(&*c) : nullptr;
    if (b == nullptr) return Unsupported(n, "a flag that is not a constant");
    return *b;
  }

  absl::StatusOr<LoweredKernel> Finish() {
    LoweredKernel k = b_->Finish(ordered_);
    absl::Status s = VerifyKernelSpec(k.spec);
    if (!s.ok()) return Annotate(s, Where(*g_, group_in_g()));
    return k;
  }

  const Graph& outer_;
  const NodeId group_;
  const LayoutFn& layout_;
  const Graph* g_ = nullptr;
  bool is_group_ = false;
  std::vector<NodeId> nodes_;
  absl::flat_hash_set<ValueId> internal_;
  absl::flat_hash_map<ValueId, ValueId> outer_of_;
  std::vector<Root> roots_;
  absl::flat_hash_map<NodeId, std::unique_ptr<OpCall>> calls_;
  absl::flat_hash_map<NodeId, std::unique_ptr<ReductionMeaning>> reductions_;
  absl::flat_hash_map<NodeId, std::unique_ptr<PointwiseMeaning>> pointwise_;
  // Of one attempt.
  std::unique_ptr<Builder> b_;
  std::vector<Expr> p_sizes_, q_sizes_;  // before splits
  Index p_index_, q_index_;
  absl::flat_hash_map<ValueId, Index> labels_;
  absl::flat_hash_map<NodeId, std::vector<Memo>> memo_;
  absl::flat_hash_map<std::pair<ValueId, int>, int> scalar_memo_;
  bool ordered_ = false;  // the reduction dims must run in order
  int depth_ = 0;
  // Across attempts.
  std::vector<Split> splits_;
  int split_dim_ = -1;
  std::vector<Expr> split_sizes_;
};

}  // namespace

SymbolicGeometry RegionGeometry(const Node& n) {
  // Numbers may have been read from text as plain integers.
  auto list = [&](absl::string_view name) -> std::vector<Expr> {
    const Attribute* a = n.FindAttribute(name);
    if (a == nullptr) return {};
    if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
    if (const auto* i = std::get_if<std::vector<int64_t>>(a)) return std::vector<Expr>(i->begin(), i->end());
    return {};
  };
  SymbolicGeometry out;
  const Attribute* dtype = n.FindAttribute("dtype");
  const auto* code = dtype == nullptr ? nullptr : std::get_if<int64_t>(dtype);
  const std::optional<DType> t = code == nullptr ? std::nullopt : DTypeFromScalarType(*code);
  SMELT_CHECK(t.has_value()) << n.op.full() << " has no attribute dtype";
  out.dtype = *t;
  out.sizes = list("sizes");
  out.strides = list("strides");
  SMELT_CHECK_EQ(out.sizes.size(), out.strides.size());
  if (const Attribute* a = n.FindAttribute("offset"); a != nullptr) {
    if (const auto* e = std::get_if<Expr>(a)) out.offset = *e;
    if (const auto* i = std::get_if<int64_t>(a)) out.offset = Expr(*i);
  }
  return out;
}

SymbolicGeometry DefaultLayout(const Graph& g, ValueId v) {
  const TensorType& t = g.value(v).type.tensor();
  return {*t.dtype, *t.sizes, *t.strides, Expr(0)};
}

bool IsKernelNode(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.op == "smelt::FusionGroup") return true;
  if (node.op == "smelt::view" || node.outputs.empty() || HasComplex(g, n)) return false;
  for (ValueId v : node.outputs) {
    if (!g.value(v).type.IsTensor()) return false;
  }
  const std::string& name = node.op.name();
  if (node.op == "smelt::write_region" || InplaceOps().contains(name)) return true;
  if (auto it = SpecialOps().find(name); it != SpecialOps().end()) {
    switch (it->second) {
      case Special::kIndex: {
        // A mask chooses a number of elements that only the data know.
        auto list = node.inputs.size() > 1 ? GetListElements(g, node.inputs[1]) : std::nullopt;
        if (!list) return false;
        for (ValueId v : *list) {
          const Type& t = g.value(v).type;
          if (t.IsTensor() && (t.tensor().dtype == DType::kBool || t.tensor().dtype == DType::kUInt8)) return false;
        }
        return true;
      }
      case Special::kRepeatInterleave:
        return node.op.overload() == "self_int";
      case Special::kLinspace:
        return node.op.overload().empty();
      default:
        return true;
    }
  }
  switch (GetOpInfo(node.op).kind) {
    case OpKind::kPointwise:
    case OpKind::kReduction:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<LoweredKernel> LowerGroup(const Graph& g, NodeId n, const LayoutFn& layout) {
  return Lowering(g, n, layout).Run();
}

}  // namespace smelt
