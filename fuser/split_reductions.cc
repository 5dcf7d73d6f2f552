#include "smelt/fuser/split_reductions.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/placement.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {
namespace {

constexpr int64_t kFullVector = 16;  // elements
constexpr int64_t kLongRow = 64;

class ReductionSplitter {
 public:
  explicit ReductionSplitter(Graph& g) : g_(g) {}

  int Run() {
    int split = 0;
    for (NodeId n : g_.AllNodes()) {
      const OpName op = g_.node(n).op;
      if ((op == op::kMeanDim || op == op::kSumDimIntList) && Split(n)) ++split;
    }
    for (NodeId n : split > 0 ? g_.AllNodes() : std::vector<NodeId>()) {
      if (GetOpInfo(g_.node(n).op).kind == OpKind::kPointwise) TakeRepeated(n);
    }
    return split;
  }

 private:
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  int64_t SizeOf(const Expr& e) const { return e.Evaluate(g_.symbol_hints).value_or(0); }

  // Returns `v`, the values that pointwise operators make it of, and the values that those read: the first operands
  // with its sizes.
  std::vector<ValueId> ChainOf(ValueId v) const {
    constexpr size_t kMostSteps = 16;
    std::vector<ValueId> chain = {v};
    while (chain.size() < kMostSteps) {
      const NodeId def = g_.value(v).def;
      if (g_.IsParam(def) || GetOpInfo(g_.node(def).op).kind != OpKind::kPointwise) break;
      const auto& inputs = g_.node(def).inputs;
      const auto same = absl::c_find_if(inputs, [&](ValueId x) {
        return g_.value(x).type.IsTensor() && T(x).IsComplete() && *T(x).sizes == *T(v).sizes;
      });
      if (same == inputs.end()) break;
      v = *same;
      chain.push_back(v);
    }
    return chain;
  }

  bool IsReadByElements(ValueId v) const {
    return absl::c_all_of(g_.value(v).uses, [&](const Use& u) {
      if (g_.IsReturn(u.user)) return false;
      const OpKind kind = GetOpInfo(g_.node(u.user).op).kind;
      return kind == OpKind::kPointwise || kind == OpKind::kReduction;
    });
  }

  // Nobody in between needs the layout of the values. They get the layout of the operand, so that the vectors stay.
  void LayLike(const std::vector<ValueId>& chain, const std::vector<Expr>& strides) {
    const std::vector<Expr>& sizes = *T(chain.back()).sizes;
    const std::vector<int> order = kernel::DimsByStride(sizes, strides, g_.symbols);
    std::vector<Expr> dense(sizes.size(), Expr(1));
    Expr next = 1;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      dense[*d] = next;
      next = next * sizes[*d];
    }
    for (size_t k = 0; k + 1 < chain.size(); ++k) {
      if (IsReadByElements(chain[k])) g_.SetType(chain[k], Type::Tensor(*T(chain[k]).dtype, sizes, dense));
    }
  }

  bool Split(NodeId n) {
    auto call = OpCall::Of(g_, n);
    if (!call.ok()) return false;
    const auto m = BuildReduction(*call);
    const ValueId in = g_.node(n).inputs[0], out = g_.node(n).outputs[0];
    if (!m.ok() || !T(in).IsComplete() || !T(out).IsComplete() || *T(in).dtype != *T(out).dtype) return false;
    // PyTorch rounds the whole sum once. A part that is rounded may even be infinite where the sum is not.
    if (const DType t = *T(in).dtype; IsFloating(t) && ItemSize(t) < ItemSize(DType::kFloat32)) return false;
    const std::vector<ValueId> chain = ChainOf(in);
    const std::vector<Expr> sizes = *T(in).sizes, strides = ShownMemory(g_, chain.back()).second.strides;
    const auto is_reduced = [&](size_t d) { return absl::c_linear_search(m->dims, static_cast<int>(d)); };
    std::optional<size_t> inner;
    int64_t others = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (!is_reduced(d)) continue;
      if (strides[d] == Expr(1) && sizes[d] != Expr(1)) {
        inner = d;
      } else {
        others *= SizeOf(sizes[d]);
      }
    }
    if (!inner || sizes[*inner].Constant().value_or(kFullVector) >= kFullVector || others < kLongRow) return false;
    bool side_by_side = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      side_by_side = side_by_side || (!is_reduced(d) && strides[d] == sizes[*inner] && SizeOf(sizes[d]) > 1);
    }
    if (!side_by_side) return false;
    std::vector<int64_t> rest;
    std::vector<Expr> kept = sizes;
    for (int d : m->dims) {
      if (d == static_cast<int>(*inner)) continue;
      rest.push_back(d);
      kept[d] = 1;
    }
    std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    inputs[1] = InsertConstant(g_, n, rest);
    inputs[2] = InsertConstant(g_, n, true);
    const NodeId first = g_.InsertBefore(n, g_.node(n).op, inputs, {Type::Tensor(*T(in).dtype, kept)});
    g_.SetSource(first, g_.node(n).source);
    g_.SetInput(n, 0, g_.node(first).outputs[0]);
    // (The dims that are 1 by now are reduced with it, as before, so the result's shape stays.)
    LayLike(chain, strides);
    Spread spread{sizes, sizes, static_cast<int>(*inner)};
    for (int d : m->dims) spread.from[d] = 1;
    if (!absl::c_any_of(spreads_, [&](const Spread& x) { return x.sizes == spread.sizes && x.from == spread.from; }))
      spreads_.push_back(std::move(spread));
    return true;
  }

  // Repeats a number per group for each of its channels, if it is used beside values with one number per channel, so
  // that groups and channels are one dim to the loops.
  void TakeRepeated(NodeId n) {
    const ValueId out = g_.node(n).outputs[0];
    if (!g_.value(out).type.IsTensor() || !T(out).IsComplete()) return;
    for (const Spread& s : spreads_) {
      if (*T(out).sizes != s.sizes) continue;
      for (uint32_t i = 0; i < g_.node(n).inputs.size(); ++i) {
        const ValueId v = g_.node(n).inputs[i];
        if (!g_.value(v).type.IsTensor() || !T(v).IsComplete() || *T(v).sizes != s.from) continue;
        auto [it, fresh] = repeated_.try_emplace({v, g_.node(n).parent});
        if (fresh) {
          std::vector<int64_t> times(s.sizes.size(), 1);
          times[s.inner] = *s.sizes[s.inner].Constant();
          std::vector<Expr> sizes = s.from;
          sizes[s.inner] = s.sizes[s.inner];
          const NodeId repeat = g_.InsertBefore(n, OpName::Get(op::kRepeat), {v, InsertConstant(g_, n, times)},
                                                {Type::Tensor(*T(v).dtype, sizes)}, {{kStored, int64_t{1}}});
          g_.SetSource(repeat, g_.node(n).source);
          it->second = g_.node(repeat).outputs[0];
        }
        g_.SetInput(n, i, it->second);
      }
    }
  }

  struct Spread {
    std::vector<Expr> sizes, from;  // of a pointwise operator, and of an operand that has one number for all of a row
    int inner;
  };

  Graph& g_;
  std::vector<Spread> spreads_;
  absl::flat_hash_map<std::pair<ValueId, BlockId>, ValueId> repeated_;  // by the block whose nodes read it
};

}  // namespace

int SplitReductions(Graph& g) { return ReductionSplitter(g).Run(); }

Pass SplitReductionsPass() {
  return {.name = "split-reductions",
          .description = "means and sums over a short innermost dim are split in two",
          .prerequisites = {"expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return SplitReductions(g) > 0; }};
}

}  // namespace smelt
