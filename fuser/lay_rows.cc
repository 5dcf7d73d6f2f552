#include "smelt/fuser/lay_rows.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/row_tiles.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {
namespace {

constexpr int64_t kFewElements = 2048;
constexpr int64_t kShortRow = 32;  // its lines stay in the nearest cache until the next rows want them
constexpr int64_t kShortDim = 8;
constexpr int64_t kFullVector = 16;
constexpr int64_t kNear = 4;  // elements apart: several lie in one vector

class RowLayer {
 public:
  RowLayer(Graph& g, const LayRowsOptions& options, LoweredGroups* lowered)
      : g_(g), options_(options), lowered_(lowered) {}

  absl::StatusOr<int> Run() {
    for (NodeId n : g_.AllNodes()) {
      if (!IsKernelNode(g_, n) || !MayReduce(n)) continue;
      const LayoutFn layout = [&](ValueId v) { return ShownMemory(g_, v).second; };
      const auto kernel = lowered_ == nullptr ? LowerGroup(g_, n, layout) : lowered_->Lower(g_, n, layout);
      // If there is no kernel, other passes report why.
      if (kernel.ok()) Lay(n, *kernel);
    }
    return laid_;
  }

 private:
  const Graph* SubgraphOf(NodeId n) const {
    const Attribute* a = g_.node(n).op == op::kSmeltFusionGroup ? g_.node(n).FindAttribute("Subgraph") : nullptr;
    const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
    return sub == nullptr ? nullptr : sub->get();
  }
  bool MayReduce(NodeId n) const {
    const auto reduces = [](const Graph& g, NodeId m) { return GetOpInfo(g.node(m).op).kind == OpKind::kReduction; };
    const Graph* sub = SubgraphOf(n);
    if (sub == nullptr) return reduces(g_, n);
    return absl::c_any_of(sub->AllNodes(), [&](NodeId m) { return reduces(*sub, m); });
  }
  bool IsLong(const Expr& size) const { return g_.symbols.Less(size, kShortDim) != true; }

  void Lay(NodeId n, const LoweredKernel& kernel) {
    const KernelSpec& s = kernel.spec;
    if (s.reduction_rank == 0 || s.sequential) return;
    const int along = s.vector_dim >= 0 ? s.vector_dim : s.rank() - 1;
    const auto elements = Product(kernel.sizes).Evaluate(g_.symbol_hints);
    if (elements.ok() && *elements < kFewElements) return;
    std::vector<bool> chosen(s.params.size(), false);  // at places that data say
    for (const KernelInstr& in : s.instrs) {
      if (in.has_offset) chosen[in.param] = true;
    }
    bool any_along = false;
    std::vector<int> across;
    for (size_t p = 0; p < s.params.size(); ++p) {
      const std::vector<Expr>& strides = kernel.params[p].strides;
      // A value of all elements, not one value per row.
      Expr whole = 1;
      for (int d = 0; d < s.rank(); ++d) whole = strides[d] == Expr(0) ? whole : whole * kernel.sizes[d];
      if (strides[along] == Expr(1) && whole == Product(kernel.sizes)) any_along = true;
      const std::optional<int64_t> step = strides[along].Constant();
      if (chosen[p] || (step && *step <= kNear)) continue;
      for (int d = 0; d < s.rank(); ++d) {
        if (d == along || strides[d] != Expr(1) || !IsLong(kernel.sizes[d])) continue;
        across.push_back(static_cast<int>(p));
        break;
      }
    }
    if (const std::optional<int> p = PairedRows(kernel)) {
      const LoweredKernel::Param& param = kernel.params[*p];
      const int last = s.parallel_rank - 1;
      LayOperand(n, param.value, param.strides[last], kernel.sizes[last]);
      return;
    }
    if (const std::optional<int> d = ReadAlong(n, kernel, along)) {
      for (const LoweredKernel::Param& param : kernel.params) {
        if (param.is_output) LayResult(n, param.output, param.strides[*d], kernel.sizes[*d]);
      }
      return;
    }
    if (!any_along || g_.symbols.Less(kernel.sizes[along], kShortRow) == true) return;
    const RowTiles tiles = RowTiles::Of(s);
    const auto row = kernel.sizes[along].Evaluate(g_.symbol_hints);
    const bool have_room = options_.in_kernels && row.ok() && tiles.HaveRoom(*row);
    for (int p : across) {
      const LoweredKernel::Param& param = kernel.params[p];
      const bool is_free = param.is_output && IsReadByElements(g_.node(n).outputs[param.output]);
      if (have_room && tiles.Takes(p) && !is_free) continue;
      if (param.is_output) {
        LayResult(n, param.output, param.strides[along], kernel.sizes[along]);
      } else if (!s.params[p].is_written) {
        LayOperand(n, param.value, param.strides[along], kernel.sizes[along]);
      }
    }
  }

  // Recognises kernels over each row of one operand with each row of another, such as the distances between all points
  // of two sets, and returns the operand that the innermost of the kernel's dims goes through. When it is transposed,
  // its rows lie beside each other in vectors, and the kernel goes across them; nothing is summed within a vector.
  std::optional<int> PairedRows(const LoweredKernel& kernel) const {
    const KernelSpec& s = kernel.spec;
    const int last = s.parallel_rank - 1, along = s.rank() - 1;
    if (s.reduction_rank != 1 || last < 1 || (s.vector_dim != along && s.vector_dim != last)) return std::nullopt;
    const auto size = [&](int d) { return kernel.sizes[d].Evaluate(g_.symbol_hints).value_or(0); };
    int64_t times = 1;  // it is gone through
    for (int d = 0; d < last; ++d) times *= size(d);
    if (size(last) < kFullVector || times < kFullVector) return std::nullopt;
    std::optional<int> found;
    for (size_t p = 0; p < s.params.size(); ++p) {
      const std::vector<Expr>& strides = kernel.params[p].strides;
      if (kernel.params[p].is_output) {
        if (strides[last] != Expr(1) || strides[along] != Expr(0) || s.params[p].is_read) return std::nullopt;
        continue;
      }
      if (strides[last] == Expr(0)) continue;
      for (int d = 0; d < last; ++d) {
        if (strides[d] != Expr(0)) return std::nullopt;
      }
      if (strides[along] == Expr(0)) continue;
      if (found || strides[along] != Expr(1) || strides[last].Constant().value_or(kNear + 1) <= kNear)
        return std::nullopt;
      found = static_cast<int>(p);
    }
    return found;
  }

  // Returns a dim along which the operands lie, if only results that kernels alone read lie along the kernel's own dim.
  // Then the results get the operands' layout, and their readers have less to transpose, if anything.
  std::optional<int> ReadAlong(NodeId n, const LoweredKernel& kernel, int along) const {
    const KernelSpec& s = kernel.spec;
    if (along != s.parallel_rank - 1) return std::nullopt;
    std::optional<int> found;
    for (size_t p = 0; p < s.params.size(); ++p) {
      const std::vector<Expr>& strides = kernel.params[p].strides;
      if (kernel.params[p].is_output) {
        const ValueId v = g_.node(n).outputs[kernel.params[p].output];
        if (s.params[p].is_read || strides[along] != Expr(1) || !IsReadByElements(v)) return std::nullopt;
        continue;
      }
      if (strides[along] == Expr(0)) continue;
      if (strides[along].Constant().value_or(kNear + 1) <= kNear) return std::nullopt;
      for (int d = 0; d < along && !found; ++d) {
        if (strides[d] == Expr(1) && IsLong(kernel.sizes[d])) found = d;
      }
    }
    for (size_t p = 0; found && p < s.params.size(); ++p) {
      if (kernel.params[p].is_output && kernel.params[p].strides[*found] == Expr(0)) return std::nullopt;
    }
    return found;
  }

  // Returns strides of memory of its own, in which the dims that together have `row` elements, now `step` apart, are
  // rows; nullopt if there are none.
  static std::optional<std::vector<Expr>> RowStrides(const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                                                     const SymbolRanges& ranges, Expr step, const Expr& row) {
    std::vector<Expr> out(sizes.size(), Expr(1));
    std::vector<int> left;
    for (size_t d = 0; d < sizes.size(); ++d) left.push_back(static_cast<int>(d));
    Expr next = 1;
    const auto take = [&](std::vector<int>::iterator d) {
      out[*d] = next;
      next = next * sizes[*d];
      left.erase(d);
    };
    while (next != row) {
      const auto it = absl::c_find_if(left, [&](int d) { return sizes[d] != Expr(1) && strides[d] == step; });
      if (it == left.end()) return std::nullopt;
      step = step * sizes[*it];
      take(it);
    }
    // The other dims keep their order, the widest stride first.
    std::stable_sort(left.begin(), left.end(),
                     [&](int a, int b) { return ranges.Less(strides[b], strides[a]) == true; });
    while (!left.empty()) take(left.end() - 1);
    return out;
  }

  NodeId Materialize(ValueId v, const std::vector<Expr>& strides, NodeId like) {
    const TensorType& t = g_.value(v).type.tensor();
    const NodeId copy = g_.Append(g_.node(like).parent, OpName::Get(op::kSmeltMaterialize), {v},
                                  {Type::Tensor(*t.dtype, *t.sizes, strides)}, {{"strides", strides}});
    g_.SetSource(copy, g_.node(like).source);
    ++laid_;
    return copy;
  }

  void LayOperand(NodeId n, ValueId v, const Expr& step, const Expr& row) {
    const TensorType& t = g_.value(v).type.tensor();
    if (!t.IsComplete()) return;
    // A broadcast operand is in memory once.
    auto [root, shown] = ShownMemory(g_, v);
    const std::vector<Expr> all = shown.sizes;
    for (size_t d = 0; d < all.size(); ++d) {
      if (shown.strides[d] == Expr(0)) shown.sizes[d] = 1;
    }
    const bool broadcast = shown.sizes != all;
    const NodeId def = g_.value(v).def;
    if (broadcast && !g_.IsParam(def) && g_.node(def).FindAttribute("argument") != nullptr) return;
    const auto strides = RowStrides(shown.sizes, shown.strides, g_.symbols, step, row);
    if (!strides) return;
    // Operands that the kernel takes over, or views inside, are memory to it.
    const Graph* sub = SubgraphOf(n);
    for (uint32_t i = 0; i < g_.node(n).inputs.size(); ++i) {
      if (g_.node(n).inputs[i] == v && sub != nullptr && SeesMemory(*sub, sub->inputs()[i])) return;
    }
    const ValueId once = broadcast ? g_.node(InsertView(g_, n, root, shown)).outputs[0] : v;
    const NodeId copy = Materialize(once, *strides, n);
    g_.MoveBefore(copy, n);
    ValueId laid = g_.node(copy).outputs[0];
    if (broadcast) {
      SymbolicGeometry spread{shown.dtype, all, *strides, Expr(0)};
      for (size_t d = 0; d < all.size(); ++d) {
        if (all[d] != shown.sizes[d]) spread.strides[d] = 0;
      }
      laid = g_.node(InsertView(g_, n, laid, spread)).outputs[0];
    }
    for (uint32_t i = 0; i < g_.node(n).inputs.size(); ++i) {
      if (g_.node(n).inputs[i] == v) g_.SetInput(n, i, laid);
    }
  }

  void LayResult(NodeId n, int output, const Expr& step, const Expr& row) {
    const Attribute* a = g_.node(n).FindAttribute("Subgraph");
    Graph* sub = SubgraphOf(n) == nullptr ? nullptr : std::get<std::shared_ptr<Graph>>(*a).get();
    const ValueId v = g_.node(n).outputs[output];
    const TensorType t = g_.value(v).type.tensor();
    if (!t.IsComplete()) return;
    const auto strides = RowStrides(*t.sizes, *t.strides, g_.symbols, step, row);
    if (!strides) return;
    const Type type = Type::Tensor(*t.dtype, *t.sizes, *strides);
    if (sub != nullptr) {
      const ValueId inner = sub->outputs()[output];
      const NodeId def = sub->value(inner).def;
      if (sub->IsParam(def) || IsRegionOp(sub->node(def)) || SeesMemory(*sub, inner)) return;
      if (sub->node(def).op == op::kSmeltMaterialize) sub->SetAttribute(def, "strides", *strides);
      sub->SetType(inner, type);
    }
    // Readers of elements find them in any layout.
    if (IsReadByElements(v)) {
      g_.SetType(v, type);
      ++laid_;
      return;
    }
    const NodeId copy = Materialize(v, *t.strides, n);
    g_.MoveAfter(copy, n);
    g_.SetType(v, type);
    const ValueId as_before = g_.node(copy).outputs[0];
    const std::vector<Use> uses(g_.value(v).uses.begin(), g_.value(v).uses.end());
    for (const Use& u : uses) {
      if (u.user != copy) g_.SetInput(u.user, u.index, as_before);
    }
  }

  bool IsReadByElements(ValueId v) const {
    return absl::c_all_of(g_.value(v).uses, [&](const Use& u) { return ReadsElements(u); });
  }
  bool ReadsElements(const Use& u) const {
    if (g_.IsReturn(u.user) || !IsKernelNode(g_, u.user)) return false;
    if (const Graph* sub = SubgraphOf(u.user)) return !SeesMemory(*sub, sub->inputs()[u.index]);
    const Node& user = g_.node(u.user);
    return user.op != op::kSmeltOverlay && !IsRegionOp(user);
  }

  // Returns whether a view shows it, or something is written into it.
  static bool SeesMemory(const Graph& g, ValueId v) {
    return absl::c_any_of(g.value(v).uses, [&](const Use& u) {
      if (g.IsReturn(u.user)) return false;
      const Node& user = g.node(u.user);
      return user.op == op::kSmeltView || user.op == op::kSmeltOverlay || (IsRegionOp(user) && u.index == 0);
    });
  }

  Graph& g_;
  const LayRowsOptions& options_;
  LoweredGroups* lowered_;
  int laid_ = 0;
};

}  // namespace

absl::StatusOr<int> LayRows(Graph& g, const LayRowsOptions& options, LoweredGroups* lowered) {
  return RowLayer(g, options, lowered).Run();
}

Pass LayRowsPass() {
  return {.name = "lay-rows",
          .description = "what a kernel reads or writes across its rows is transposed by a kernel of its own",
          .prerequisites = {"fuse"},
          .is_optional = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            SMELT_ASSIGN_OR_RETURN(const int laid,
                                   LayRows(g, context.Get<LayRowsOptions>(), &context.Get<LoweredGroups>()));
            return laid > 0;
          }};
}

}  // namespace smelt
