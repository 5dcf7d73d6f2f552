#include "smelt/fuser/merge_matmuls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {
namespace {

// This many rows of one matmul fill the machine alone. Joining more would save nothing, and would move the result to
// memory and back: it lives from its first use to its last (an LSTM of 100 steps of 64 rows, 256 to 1024: 26 MB, a
// tenth of its time).
constexpr int64_t kEnoughRows = 128;

class Merger {
 public:
  Merger(Graph& g, BlockId b) : g_(g), block_(b) {}

  int Run() {
    for (NodeId n : g_.Nodes(block_)) Look(n);
    int gone = 0;
    for (std::string& key : order_) gone += MergeAll(matmuls_.at(key));
    return gone;
  }

 private:
  struct Matmul {
    NodeId node;
    SymbolicGeometry left;
    int64_t offset;
  };
  struct Candidates {
    ValueId root;  // of the left operands
    std::vector<Matmul> list;
  };

  std::string KeyOf(ValueId v) const {
    const auto [root, s] = ShownMemory(g_, v);
    std::string key =
        absl::StrCat(root.index, ".", root.generation, " ", static_cast<int>(s.dtype), " ", s.offset.ToString());
    for (size_t d = 0; d < s.sizes.size(); ++d)
      absl::StrAppend(&key, " ", s.sizes[d].ToString(), ":", s.strides[d].ToString());
    return key;
  }
  bool IsOne(ValueId v) const {
    auto c = GetConstant(g_, v);
    if (!c) return false;
    if (const auto* i = std::get_if<int64_t>(&*c)) return *i == 1;
    if (const auto* d = std::get_if<double>(&*c)) return *d == 1;
    return false;
  }

  void Look(NodeId n) {
    const Node& node = g_.node(n);
    const bool add = node.op == op::kAddmm;
    if (!add && node.op != op::kMm) return;
    if (add && (!IsOne(node.inputs[3]) || !IsOne(node.inputs[4]))) return;
    const ValueId left = node.inputs[add ? 1 : 0], right = node.inputs[add ? 2 : 1];
    const auto [root, s] = ShownMemory(g_, left);
    const NodeId def = g_.value(left).def;
    if (root == left || g_.node(def).FindAttribute("argument") != nullptr) return;
    for (const Expr& e : s.sizes) {
      if (!e.IsConstant()) return;
    }
    if (!s.offset.IsConstant() || !s.strides[0].IsConstant() || !s.strides[1].IsConstant()) return;
    if (*s.sizes[0].Constant() > kEnoughRows / 2 || *s.sizes[0].Constant() == 0) return;
    std::string key = absl::StrCat(root.index, ".", root.generation, " ", static_cast<int>(s.dtype), " ",
                                   s.sizes[0].ToString(), " ", s.sizes[1].ToString(), " ", s.strides[0].ToString(), " ",
                                   s.strides[1].ToString(), " | ", KeyOf(right));
    if (add) {
      const TensorType& bias = g_.value(node.inputs[0]).type.tensor();
      const bool row = bias.rank() == 1 || (bias.rank() == 2 && (*bias.sizes)[0] == Expr(1));
      if (!row) return;
      absl::StrAppend(&key, " | ", KeyOf(node.inputs[0]));
    }
    auto [it, fresh] = matmuls_.try_emplace(key);
    if (fresh) {
      it->second.root = root;
      order_.push_back(key);
    }
    it->second.list.push_back({n, s, *s.offset.Constant()});
  }

  int MergeAll(Candidates& c) {
    if (c.list.size() < 2) return 0;
    std::stable_sort(c.list.begin(), c.list.end(),
                     [](const Matmul& a, const Matmul& b) { return a.offset < b.offset; });
    const int64_t rows = *c.list[0].left.sizes[0].Constant();
    const int64_t step = rows * *c.list[0].left.strides[0].Constant();
    const auto most = static_cast<size_t>(kEnoughRows / rows);
    int gone = 0;
    for (size_t i = 0; i < c.list.size();) {
      const size_t limit = std::min(i + most, c.list.size());
      size_t end = i + 1;
      while (end < limit && c.list[end].offset == c.list[end - 1].offset + step) ++end;
      if (end - i >= 2) gone += Merge(c.root, absl::MakeSpan(c.list).subspan(i, end - i));
      i = end;
    }
    return gone;
  }

  int Merge(ValueId root, absl::Span<Matmul> run) {
    NodeId first = run[0].node;
    for (const Matmul& m : run) {
      if (g_.IsBefore(m.node, first)) first = m.node;
    }
    const Node node = g_.node(first);
    const bool add = node.op == op::kAddmm;
    const TensorType out = g_.value(node.outputs[0]).type.tensor();
    const int64_t rows = *run[0].left.sizes[0].Constant();
    const int64_t all = rows * static_cast<int64_t>(run.size());
    const std::vector<Expr> contiguous = ContiguousStrides(*out.sizes);
    for (const Matmul& m : run) {
      const TensorType& t = g_.value(g_.node(m.node).outputs[0]).type.tensor();
      if (*t.sizes != *out.sizes || *t.strides != contiguous || *t.dtype != *out.dtype) return 0;
      // A result of the block, or memory that is taken over, stays a value of its own.
      for (const Use& u : g_.value(g_.node(m.node).outputs[0]).uses) {
        if (g_.IsReturn(u.user)) return 0;
        const Node& user = g_.node(u.user);
        if (u.index == 0 && IsRegionOp(user)) return 0;
        // It may be viewed as wider elements only if each part begins with a whole one.
        if (user.op == op::kSmeltView &&
            Mod(Product(*out.sizes) * ItemSize(*out.dtype), ItemSize(RegionGeometry(user).dtype)) != Expr(0))
          return 0;
      }
    }
    const Expr columns = (*out.sizes)[1];
    if (!columns.IsConstant()) return 0;
    SymbolicGeometry left = run[0].left;
    left.sizes[0] = all;
    const NodeId view = InsertView(g_, first, root, left);
    std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end());
    inputs[add ? 1 : 0] = g_.node(view).outputs[0];
    const NodeId merged = g_.InsertBefore(first, node.op, inputs, {Type::Tensor(*out.dtype, {all, columns})});
    g_.SetSource(merged, node.source);
    const ValueId result = g_.node(merged).outputs[0];
    for (size_t k = 0; k < run.size(); ++k) {
      const ValueId old = g_.node(run[k].node).outputs[0];
      const SymbolicGeometry part{*out.dtype, *out.sizes, contiguous, Expr(static_cast<int64_t>(k) * rows) * columns};
      // Views of the old result become views of the new one.
      std::vector<std::pair<NodeId, SymbolicGeometry>> views;
      for (const Use& u : g_.value(old).uses) {
        if (g_.IsReturn(u.user) || g_.node(u.user).op != op::kSmeltView) continue;
        views.push_back({u.user, RegionGeometry(g_.node(u.user))});
      }
      for (auto& [v, geometry] : views) {
        g_.SetInput(v, 0, result);
        // Counted in elements of the view, which may be narrower or wider.
        const Expr moved = FloorDiv(part.offset * ItemSize(part.dtype), ItemSize(geometry.dtype));
        g_.SetAttribute(v, "offset", geometry.offset + moved);
      }
      if (!g_.value(old).uses.empty()) g_.ReplaceAllUses(old, g_.node(InsertView(g_, first, result, part)).outputs[0]);
    }
    for (const Matmul& m : run) g_.Erase(m.node);
    return static_cast<int>(run.size()) - 1;
  }

  Graph& g_;
  const BlockId block_;
  absl::flat_hash_map<std::string, Candidates> matmuls_;
  std::vector<std::string> order_;
};

int MergeIn(Graph& g, BlockId b) {
  int gone = Merger(g, b).Run();
  for (NodeId n : g.Nodes(b)) {
    const std::vector<BlockId> blocks(g.node(n).blocks.begin(), g.node(n).blocks.end());
    for (BlockId inner : blocks) gone += MergeIn(g, inner);
  }
  return gone;
}

}  // namespace

int MergeMatmuls(Graph& g) { return MergeIn(g, g.top()); }

Pass MergeMatmulsPass() {
  return {.name = "merge-matmuls",
          .description = "matmuls of one right operand become one",
          .prerequisites = {"expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            return context.Put(MergedMatmuls{MergeMatmuls(g)}).count > 0;
          }};
}

}  // namespace smelt
