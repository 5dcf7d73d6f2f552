#include "smelt/fuser/group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/symbol/expr.h"

namespace smelt::kernel {
namespace {

bool IsMeta(const Node& n) { return absl::StartsWith(n.op.name(), op::kPrimNamespace); }

}  // namespace

std::string ActionName(const Node& node) {
  return std::string(absl::StripPrefix(node.op.name(), op::kSmeltInplacePrefix));
}

ValueId OperandValue(const OpCall& call, const PointwiseOperand& o) {
  const OpArg& a = call.arg(o.arg);
  return o.element < 0 ? a.value : a.elements[o.element].value;
}

bool IsOneElement(const std::vector<Expr>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const Expr& e) { return e == Expr(1); });
}

absl::Status Group::Read() {
  const Node& node = outer_.node(node_);
  if (node.op == op::kSmeltFusionGroup) {
    const Attribute* a = node.FindAttribute("Subgraph");
    if (a == nullptr || !std::holds_alternative<std::shared_ptr<Graph>>(*a)) {
      return absl::InvalidArgumentError("a smelt::FusionGroup has no graph attribute \"Subgraph\"");
    }
    graph_ = std::get<std::shared_ptr<Graph>>(*a).get();
    is_group_ = true;
    if (graph_->inputs().size() != node.inputs.size() || graph_->outputs().size() != node.outputs.size()) {
      return absl::InvalidArgumentError("a smelt::FusionGroup's subgraph does not fit its inputs and outputs");
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) outer_of_[graph_->inputs()[i]] = node.inputs[i];
    for (NodeId n : graph_->Nodes(graph_->top())) {
      if (!IsMeta(graph_->node(n))) nodes_.push_back(n);
    }
  } else {
    graph_ = &outer_;
    nodes_ = {node_};
  }
  for (NodeId n : nodes_) {
    if (HasComplex(*graph_, n)) return Unsupported(n, "complex numbers in a kernel");
    for (ValueId v : graph_->node(n).outputs) internal_.insert(v);
  }
  return CollectRoots();
}

std::string Group::Where(NodeId n) const { return OperatorAndSource(graph_->node(n)); }

absl::Status Group::Unsupported(NodeId n, absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(Where(n), ": ", what));
}

absl::Status Group::CollectRoots() {
  const Node& node = outer_.node(node_);
  // While a group is being formed, nothing uses its results yet.
  const bool in_use =
      std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !outer_.value(v).uses.empty(); });
  for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
    const bool unused = in_use && node.outputs.size() > 1 && outer_.value(node.outputs[k]).uses.empty();
    if (unused && !(k + 1 == static_cast<int>(node.outputs.size()) && roots_.empty())) continue;
    ValueId inner = is_group_ ? graph_->outputs()[k] : node.outputs[k];
    if (!graph_->value(inner).type.IsTensor()) return Unsupported(first(), "a result that is no tensor");
    std::vector<Root> chain;
    while (internal_.contains(inner)) {
      const NodeId def = graph_->value(inner).def;
      const Node& d = graph_->node(def);
      Root r;
      r.output = k;
      if (d.op == op::kSmeltWriteRegion) {
        r.value = d.inputs[1];
        r.target = RegionGeometry(d);
        chain.push_back(std::move(r));
        inner = d.inputs[0];
        continue;
      }
      if (IsInplaceOp(d)) {
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

absl::StatusOr<const OpCall*> Group::CallOf(NodeId n) {
  auto it = calls_.find(n);
  if (it == calls_.end()) {
    SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(*graph_, n));
    it = calls_.emplace(n, std::make_unique<OpCall>(std::move(call))).first;
  }
  return it->second.get();
}

absl::StatusOr<const ReductionMeaning*> Group::ReductionOf(NodeId n) {
  auto it = reductions_.find(n);
  if (it == reductions_.end()) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(ReductionMeaning m, BuildReduction(*call));
    it = reductions_.emplace(n, std::make_unique<ReductionMeaning>(std::move(m))).first;
  }
  return it->second.get();
}

absl::StatusOr<const PointwiseMeaning*> Group::PointwiseOf(NodeId n) {
  auto it = pointwise_.find(n);
  if (it == pointwise_.end()) {
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
    SMELT_ASSIGN_OR_RETURN(PointwiseMeaning m, BuildPointwise(*call));
    it = pointwise_.emplace(n, std::make_unique<PointwiseMeaning>(std::move(m))).first;
  }
  return it->second.get();
}

bool Group::IsPointwise(NodeId n) const {
  return !SpecialOf(n) && GetOpInfo(graph_->node(n).op).kind == OpKind::kPointwise;
}

bool Group::IsReduction(NodeId n) const {
  return !SpecialOf(n) && GetOpInfo(graph_->node(n).op).kind == OpKind::kReduction;
}

absl::StatusOr<ValueId> Group::TensorArg(NodeId n, absl::string_view name) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
  const OpArg* a = call->Find(name);
  if (a == nullptr || !a->IsTensor()) return call->Error(absl::StrCat("argument ", name, " is no tensor"));
  return a->value;
}

absl::StatusOr<std::optional<Site>> Group::SiteOf(NodeId n) {
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
  const std::optional<OpFamily> special = SpecialOf(n);
  if (!special) return std::nullopt;
  switch (*special) {
    case OpFamily::kMaxPool:
    case OpFamily::kAvgPool:
    case OpFamily::kAdaptiveMaxPool:
    case OpFamily::kAdaptiveAvgPool:
    case OpFamily::kCol2Im: {
      s.kept = Sizes(Out(n));
      SMELT_ASSIGN_OR_RETURN(s.reduced, WindowOf(n, *special));
      return s;
    }
    case OpFamily::kMaskedScatter:
      s.reduced = Sizes(Out(n));
      return s;
    default:
      return std::nullopt;
  }
}

ValueId Group::OuterValue(ValueId v) const {
  if (!is_group_) return v;
  auto it = outer_of_.find(v);
  return it == outer_of_.end() ? ValueId() : it->second;
}

absl::StatusOr<std::vector<Expr>> Group::ExprsOr(NodeId n, absl::string_view name, size_t rank,
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

absl::StatusOr<int> Group::DimArg(NodeId n, absl::string_view name, int rank) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, CallOf(n));
  SMELT_ASSIGN_OR_RETURN(int64_t d, call->GetInt(name));
  if (d < 0) d += std::max(rank, 1);
  if (d < 0 || d >= std::max(rank, 1)) return call->Error("a dim out of range");
  return static_cast<int>(d);
}

absl::StatusOr<std::vector<Expr>> Group::WindowOf(NodeId n, OpFamily s) {
  if (s == OpFamily::kAdaptiveAvgPool || s == OpFamily::kAdaptiveMaxPool) {
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
  const size_t spatial = SpatialRank(n);
  if (k.size() == 1) k.assign(spatial, k[0]);
  if (s != OpFamily::kCol2Im) return k;
  // Among elements side by side, every stride-th one can have come from a given place.
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, ExprsOr(n, "stride", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, ExprsOr(n, "dilation", 2, {1, 1}));
  for (int d = 0; d < 2; ++d) {
    if (dilation[d] == Expr(1)) k[d] = FloorDiv(k[d] + stride[d] - 1, stride[d]);
  }
  return k;
}

size_t Group::SpatialRank(NodeId n) const { return GetOpTraits(graph_->node(n).op).spatial_dims; }

absl::StatusOr<IndexList> Group::IndicesOf(NodeId n, ValueId self) const {
  const std::optional<std::vector<ValueId>> values = GetListElements(*graph_, graph_->node(n).inputs[1]);
  if (!values) return Unsupported(n, "a list that is not made in place");
  IndexList out;
  out.at.resize(Sizes(self).size());
  if (values->size() > out.at.size()) return Unsupported(n, "more indices than dims");
  int begin = -1, end = -1;
  bool together = true;
  for (size_t d = 0; d < values->size(); ++d) {
    const ValueId v = (*values)[d];
    if (!v.valid() || !graph_->value(v).type.IsTensor()) continue;
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

absl::StatusOr<int> Group::ActionDim(NodeId n, int rank) const {
  const std::optional<Expr> d = GetIntExpr(*graph_, graph_->node(n).inputs[1]);
  if (!d || !d->IsConstant()) return Unsupported(n, "a dim that is not a constant");
  int64_t v = *d->Constant();
  if (v < 0) v += std::max(rank, 1);
  if (v < 0 || v >= std::max(rank, 1)) return Unsupported(n, "a dim out of range");
  return static_cast<int>(v);
}

absl::StatusOr<ActionDomain> Group::DomainOf(NodeId n) const {
  const Node& node = graph_->node(n);
  const std::string name = ActionName(node);
  ActionDomain d;
  const std::vector<Expr>& self = Sizes(node.inputs[0]);
  if (absl::StartsWith(name, "scatter")) {
    const std::vector<Expr>& sizes = Sizes(node.inputs[2]);
    SMELT_ASSIGN_OR_RETURN(int dim, ActionDim(n, static_cast<int>(sizes.size())));
    for (int k = 0; k < static_cast<int>(sizes.size()); ++k) (k == dim ? d.ordered : d.parallel).push_back(sizes[k]);
  } else if (absl::StrContains(name, "index_put")) {
    SMELT_ASSIGN_OR_RETURN(IndexList indices, IndicesOf(n, node.inputs[0]));
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
  // One element, or none at all, has no order.
  if (Product(d.ordered) == Expr(1)) d.ordered.clear();
  return d;
}

absl::StatusOr<bool> Group::BoolInput(NodeId n, size_t i) const {
  if (graph_->node(n).inputs.size() <= i) return false;
  auto c = GetConstant(*graph_, graph_->node(n).inputs[i]);
  const auto* b = c ? std::get_if<bool>(&*c) : nullptr;
  if (b == nullptr) return Unsupported(n, "a flag that is not a constant");
  return *b;
}

}  // namespace smelt::kernel
