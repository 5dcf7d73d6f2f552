#include "smelt/pipeline/argument_layouts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/op_info.h"

namespace smelt {
namespace {

int64_t Example(const Graph& g, const Expr& e) { return e.Evaluate(g.symbol_hints).value_or(0); }

bool HasSeveral(const Graph& g, const TensorType& t, int dim) { return Example(g, (*t.sizes)[dim]) > 1; }

// Returns the dims of several elements in the exported order.
std::vector<int> ExportedOrder(const Graph& g, const TensorType& t) {
  std::vector<int> order;
  for (int d = 0; d < t.rank(); ++d) {
    if (HasSeveral(g, t, d)) order.push_back(d);
  }
  const auto stride = [&](int d) { return Example(g, (*t.strides)[d]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stride(a) > stride(b); });
  return order;
}

// Returns the order in which `dim` is innermost.
std::vector<int> WithInnermost(std::vector<int> order, int dim) {
  order.erase(std::find(order.begin(), order.end(), dim));
  order.push_back(dim);
  return order;
}

// Returns the dim that is innermost in the likeliest other layout: of a matrix its other dim, of a batch of matrices its
// rows, of images their channels, or the last dim if these are exported so.
int OtherInnermost(const TensorType& t, int exported) {
  const int likely = t.rank() == 2 ? 0 : 1;
  return exported == likely ? t.rank() - 1 : likely;
}

// Returns whether some view has no dim of adjacent elements, and its last dim is not one of those a few apart. Such an
// operand is read one element at a time: a copy takes less. The exceptions are operands of pointwise operators whose dim
// beside the last has every other element: those are read in tiles.
bool HasAcross(const Graph& g) {
  const auto is_pointwise = [&](const Use& u) {
    return !g.IsReturn(u.user) && GetOpInfo(g.node(u.user).op).kind == OpKind::kPointwise;
  };
  const auto is_across = [&](ValueId v) {
    const Type& type = g.value(v).type;
    if (!type.IsTensor() || !type.tensor().IsComplete()) return false;
    const TensorType& t = type.tensor();
    bool last_is_near = true;
    for (int d = 0; d < t.rank(); ++d) {
      const Expr& stride = (*t.strides)[d];
      if ((*t.sizes)[d] == Expr(1)) continue;
      if (stride == Expr(1)) return false;
      last_is_near = stride.IsConstant();
    }
    const bool in_tiles = t.rank() > 1 && (*t.strides)[t.rank() - 2] == Expr(2);
    return !last_is_near && !(in_tiles && absl::c_all_of(g.value(v).uses, is_pointwise));
  };
  return absl::c_any_of(g.AllNodes(), [&](NodeId n) { return absl::c_any_of(g.node(n).outputs, is_across); });
}

struct Candidate {
  size_t position;
  bool is_large;                                 // its order is also changed alone
  std::vector<int> exported, other, transposed;  // empty: no such order
};

}  // namespace

Expr StrideSymbol(const Value& argument, int dim) { return Expr::Symbol(absl::StrCat(argument.name, ".stride", dim)); }

std::vector<DimOrders> OrdersWithPlans(const Graph& g, int64_t min_bytes, bool steps) {
  constexpr int kMostMixed = 3;  // arguments whose order is also changed alone
  // An argument of this part of `min_bytes` follows the large ones: beside them, its copy takes as long as they do.
  constexpr int64_t kPart = 8;
  std::vector<Candidate> candidates, vectors;
  size_t positions = 0;
  for (size_t k = 0; k < g.inputs().size(); ++k) {
    if (g.input_infos[k].kind != InputInfo::Kind::kUser) continue;
    const size_t position = positions++;
    const Type& type = g.value(g.inputs()[k]).type;
    if (!type.IsTensor() || !type.tensor().IsComplete() || !type.tensor().dtype) continue;
    const TensorType& t = type.tensor();
    int64_t bytes = ItemSize(*t.dtype);
    for (const Expr& size : *t.sizes) bytes *= Example(g, size);
    const std::vector<int> order = ExportedOrder(g, t);
    if (bytes < (min_bytes + kPart - 1) / kPart || order.empty() || Example(g, (*t.strides)[order.back()]) != 1)
      continue;
    Candidate c{position, bytes >= min_bytes, order, {}, {}};
    if (order.size() < 2) {
      vectors.push_back(std::move(c));
      continue;
    }
    const auto with_innermost = [&](int dim) {
      const bool has = std::find(order.begin(), order.end(), dim) != order.end();
      return has ? WithInnermost(order, dim) : std::vector<int>();
    };
    c.other = with_innermost(OtherInnermost(t, order.back()));
    // Matrices in a batch of batches; of other tensors, that is the other order.
    if (order.back() == t.rank() - 1 && t.rank() > 3) c.transposed = with_innermost(t.rank() - 2);
    candidates.push_back(std::move(c));
  }
  std::vector<DimOrders> out;
  const auto count_large = [](const std::vector<Candidate>& of) {
    return static_cast<int>(absl::c_count_if(of, [](const Candidate& c) { return c.is_large; }));
  };
  if (count_large(candidates) + count_large(vectors) == 0) return out;
  if (count_large(candidates) == 0) candidates.clear();
  const auto add = [&](const auto& is_other, std::vector<int> Candidate::* order = &Candidate::other) {
    DimOrders orders(positions);
    for (size_t k = 0; k < candidates.size(); ++k) {
      const bool other = is_other(k) && !(candidates[k].*order).empty();
      orders[candidates[k].position] = DimOrder(other ? candidates[k].*order : candidates[k].exported);
    }
    if (std::find(out.begin(), out.end(), orders) == out.end()) out.push_back(std::move(orders));
  };
  if (!candidates.empty()) {
    add([](size_t) { return false; });
    add([](size_t) { return true; });
    add([](size_t) { return true; }, &Candidate::transposed);
  }
  const bool mixes = count_large(candidates) <= kMostMixed;
  for (size_t one = 0; mixes && one < candidates.size(); ++one) {
    if (!candidates[one].is_large) continue;
    add([&](size_t k) { return k == one; });
  }
  candidates.insert(candidates.end(), vectors.begin(), vectors.end());
  const auto add_stepped = [&](const auto& is_stepped) {
    DimOrders& orders = out.emplace_back(positions);
    for (size_t k = 0; k < candidates.size(); ++k) {
      const Candidate& c = candidates[k];
      if (is_stepped(k) || c.exported.size() > 1) orders[c.position] = DimOrder(c.exported, is_stepped(k) ? 2 : 1);
    }
  };
  if (!steps || candidates.empty()) return out;
  add_stepped([](size_t) { return true; });
  const bool mixes_steps = candidates.size() > 1 && count_large(candidates) <= kMostMixed;
  for (size_t one = 0; mixes_steps && one < candidates.size(); ++one) {
    if (!candidates[one].is_large) continue;
    add_stepped([&](size_t k) { return k == one; });
  }
  return out;
}

std::unique_ptr<Graph> AtDimOrders(const Graph& g, const LayoutInference& layouts, const DimOrders& orders) {
  std::unique_ptr<Graph> program = g.Clone();
  Graph& at = *program;
  size_t position = 0;
  for (size_t k = 0; k < at.inputs().size(); ++k) {
    if (at.input_infos[k].kind != InputInfo::Kind::kUser) continue;
    const auto& [order, step] = orders[position++];
    if (order.empty()) continue;
    const ValueId v = at.inputs()[k];
    const TensorType t = at.value(v).type.tensor();
    std::vector<Expr> strides = *t.strides;
    strides[order.back()] = Expr(step);
    // The example has gaps, so that no decision takes a dim for the continuation of another.
    constexpr int64_t kGap = 16;
    int64_t example = step * Example(at, (*t.sizes)[order.back()]) + kGap;
    int64_t least = step;  // stride of the dim before
    for (size_t i = order.size() - 1; i-- > 0;) {
      const Expr symbol = StrideSymbol(at.value(v), order[i]);
      // The plan's guards let no smaller one through. (Elements that repeat are only read, where it does not matter.)
      SymbolRanges::Range range;
      const std::optional<int64_t> size = (*t.sizes)[order[i + 1]].Constant();
      if (!size || __builtin_mul_overflow(least, *size, &least)) least = 0;
      least = std::max<int64_t>(2, least - (step - 1));
      range.min = least;
      range.hint = example;
      at.symbols.Set(symbol.SymbolName(), range);
      at.symbol_hints[symbol.SymbolName()] = example;
      strides[order[i]] = symbol;
      example = example * Example(at, (*t.sizes)[order[i]]) + kGap;
    }
    at.SetType(v, Type::Tensor(*t.dtype, *t.sizes, strides));
  }
  if (!layouts.Of(g, at).is_known) return nullptr;
  const bool steps = absl::c_any_of(orders, [](const DimOrder& o) { return o.step != 1; });
  return steps && HasAcross(at) ? nullptr : std::move(program);
}

}  // namespace smelt
