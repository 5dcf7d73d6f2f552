#include "smelt/fuser/lower_group.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/group_domain.h"
#include "smelt/fuser/lowering.h"

namespace smelt {
namespace kernel {

absl::StatusOr<LoweredKernel> Lowering::Run() {
  SMELT_RETURN_IF_ERROR(g_.Read());
  // A value may need a dim of the domain split in two (for a flattening view inside the group). Then everything begins
  // again.
  for (int attempt = 0; attempt < 16; ++attempt) {
    b_ = std::make_unique<Builder>(g_.graph().symbols);
    memo_.clear();
    scalar_memo_.clear();
    split_.reset();
    SMELT_ASSIGN_OR_RETURN(domain_, ChooseDomain(g_, splits_, *b_));
    absl::Status s = EmitRoots();
    if (split_) {
      splits_.push_back(*split_);
      continue;
    }
    SMELT_RETURN_IF_ERROR(s);
    LoweredKernel k = b_->Finish(domain_.ordered);
    SMELT_RETURN_IF_ERROR(Annotate(VerifyKernelSpec(k.spec), g_.Where()));
    return k;
  }
  return absl::InternalError("a group whose iteration space never settles");
}

absl::Status Lowering::EmitRoots() {
  for (const Root& r : g_.roots()) {
    if (g_.IsAction(r)) {
      SMELT_RETURN_IF_ERROR(EmitAction(r));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(Index index, RootIndex(r));
    SMELT_ASSIGN_OR_RETURN(int v, Eval(r.value, index, -1));
    StoreTo(r, index, Convert(v, r.target.dtype));
  }
  return absl::OkStatus();
}

absl::StatusOr<Index> Lowering::RootIndex(const Root& r) {
  if (auto it = domain_.labels.find(r.value); it != domain_.labels.end()) return it->second;
  const std::vector<Expr>& sizes = g_.Sizes(r.value);
  if (sizes == domain_.parallel) return domain_.parallel_index;
  std::vector<Expr> all = domain_.parallel;
  all.insert(all.end(), domain_.reduced.begin(), domain_.reduced.end());
  if (sizes == all) {
    Index index = domain_.parallel_index;
    index.insert(index.end(), domain_.reduced_index.begin(), domain_.reduced_index.end());
    return index;
  }
  return g_.Unsupported(g_.value(r.value).def, "a result whose sizes are not those of its group's loops");
}

void Lowering::StoreTo(const Root& r, const Index& index, int value) {
  auto [access, offset] = b_->Address(g_.OuterOutput(r), true, r.output, r.target, index);
  b_->Store(access, value, offset, -1);
}

int Lowering::LoadFrom(const Root& r, const Index& index) {
  auto [access, offset] = b_->Address(g_.OuterOutput(r), true, r.output, r.target, index);
  return b_->Load(access, offset, -1);
}

absl::StatusOr<int> Lowering::Eval(ValueId v, const Index& index, int guard) {
  const Type& type = g_.value(v).type;
  if (!type.IsTensor() || !type.tensor().IsComplete()) {
    return absl::InvalidArgumentError(absl::StrCat("%", g_.value(v).name, " has no complete tensor type"));
  }
  if (!g_.IsInternal(v)) return LoadOperand(v, index, guard);
  // Dims of size 1 have one index. Otherwise the same value would be computed twice.
  const std::vector<Expr>& sizes = *type.tensor().sizes;
  for (size_t d = 0; d < sizes.size() && d < index.size(); ++d) {
    if (sizes[d] != Expr(1) || index[d] == b_->Zero()) continue;
    Index same = index;
    for (size_t k = d; k < same.size(); ++k) {
      if (sizes[k] == Expr(1)) same[k] = b_->Zero();
    }
    return Eval(v, same, guard);
  }
  std::vector<Memo>& memos = memo_[g_.value(v).def];
  for (const Memo& m : memos) {
    if ((m.guard == guard || m.guard < 0) && m.index == index) return m.results[g_.value(v).def_index];
  }
  const NodeId n = g_.value(v).def;
  if (++depth_ > 2000) return g_.Unsupported(n, "a group this deep");
  auto results = EvalNode(n, g_.value(v).def_index, index, guard);
  --depth_;
  if (!results.ok()) return results.status();
  memo_[n].push_back({index, guard, *results});
  return (*results)[g_.value(v).def_index];
}

absl::StatusOr<int> Lowering::LoadOperand(ValueId v, const Index& index, int guard) {
  const NodeId def = g_.value(v).def;
  if (!g_.graph().IsParam(def) && g_.node(def).op == op::kPrimConstant) {
    const Attribute* a = g_.node(def).FindAttribute("value");
    const Tensor* t = a == nullptr ? nullptr : std::get_if<Tensor>(a);
    if (t != nullptr && t->NumElements() == 1 && !IsComplex(t->dtype())) return ConstantElement(*t);
  }
  const ValueId outer = g_.OuterValue(v);
  if (!outer.valid()) return g_.Unsupported(def, "a tensor that a group cannot take from outside");
  auto [access, offset] = b_->Address(outer, false, -1, g_.Layout(outer), index);
  return b_->Load(access, offset, guard);
}

}  // namespace kernel

bool IsTransparent(const Node& n) {
  return n.op == op::kSmeltView || n.op == op::kSmeltSize || n.op == op::kPrimConstant ||
         n.op == op::kPrimListConstruct || n.op == op::kPrimTupleConstruct;
}
bool IsAction(const Node& n) { return absl::StartsWith(n.op.name(), op::kSmeltInplacePrefix); }
bool IsRegionOp(const Node& n) { return n.op == op::kSmeltWriteRegion || IsAction(n); }

RegionWrites RegionWritesOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (g.IsParam(def)) return {};
  const Node& node = g.node(def);
  if (IsRegionOp(node)) return {{&node}, node.inputs[0]};
  if (node.op != op::kSmeltFusionGroup) return {};
  const Attribute* a = node.FindAttribute("Subgraph");
  const auto* subgraph = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
  if (subgraph == nullptr) return {};
  // Inside it they begin with one of the group's inputs.
  const Graph& sub = **subgraph;
  RegionWrites out;
  ValueId inner = sub.outputs()[g.value(v).def_index];
  for (; !sub.IsParam(sub.value(inner).def); inner = out.nodes.back()->inputs[0]) {
    const Node& write = sub.node(sub.value(inner).def);
    if (!IsRegionOp(write)) return {};
    out.nodes.push_back(&write);
  }
  if (!out.nodes.empty()) out.base = node.inputs[sub.value(inner).def_index];
  return out;
}

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

absl::StatusOr<LoweredKernel> LowerGroup(const Graph& g, NodeId n, const LayoutFn& layout) {
  return kernel::Lowering(g, n, layout).Run();
}

}  // namespace smelt
