#include "smelt/pipeline/calls_of_one.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/substitute_symbols.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using Symbols = std::set<std::string>;

bool Accepts(const SymbolRanges::Range& r, int64_t value) {
  return r.min > value && r.accepted_min >= 0 && r.accepted_min <= value;
}

// Whether tensors of these types lie alike. `seen`: as far as elements show it, which strides of dims of one element,
// and of no elements, do not; in PyTorch those may still decide how what is made of a tensor lies.
bool LieAlike(const Graph& g, const Type& a, const Type& b, bool seen) {
  if (!a.IsTensor() || !b.IsTensor()) return a == b;
  const TensorType &x = a.tensor(), &y = b.tensor();
  if (x.dtype != y.dtype || x.sizes.has_value() != y.sizes.has_value() ||
      x.strides.has_value() != y.strides.has_value() || x.rank() != y.rank())
    return false;
  const auto equal = [&](const Expr& p, const Expr& q) { return p == q || g.symbols.Equal(p, q) == true; };
  for (int d = 0; x.sizes && d < x.rank(); ++d) {
    if (!equal((*x.sizes)[d], (*y.sizes)[d])) return false;
  }
  const auto is_empty = [](const Expr& size) { return size == Expr(0); };
  if (seen && x.sizes && std::any_of(x.sizes->begin(), x.sizes->end(), is_empty)) return true;
  for (int d = 0; x.strides && d < x.rank(); ++d) {
    if (seen && (*x.sizes)[d] == Expr(1)) continue;
    if (!equal((*x.strides)[d], (*y.strides)[d])) return false;
  }
  return true;
}

std::vector<Type> TypesOfResults(const Graph& g, NodeId n) {
  std::vector<Type> types;
  for (ValueId v : g.node(n).outputs) types.push_back(g.value(v).type);
  return types;
}

// Of each node, in the order of AllNodes, whether inference tells how its results lie.
std::vector<bool> AreInferred(const Graph& graph) {
  const std::unique_ptr<Graph> copy = graph.Clone();
  Graph& g = *copy;
  std::vector<bool> out;
  for (NodeId n : g.AllNodes()) {
    bool same = IsInferred(g, n);
    if (same) {
      const std::vector<Type> stated = TypesOfResults(g, n);
      same = InferNode(g, n).ok();
      for (size_t k = 0; k < stated.size(); ++k) {
        const ValueId v = g.node(n).outputs[k];
        same = same && LieAlike(g, g.value(v).type, stated[k], /*seen=*/true);
        g.SetType(v, stated[k]);
      }
    }
    out.push_back(same);
  }
  return out;
}

// Of an operator that returns a view where its operand lies so that it can, and else a copy: whether it is one.
std::optional<bool> IsView(const Graph& g, NodeId n) {
  static const auto* const kReshape =
      new absl::flat_hash_set<std::string>{"aten::reshape", "aten::reshape_as", "aten::flatten"};
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  const bool copies = name == "aten::contiguous" || name == "aten::ravel";
  if (node.inputs.empty() || node.outputs.size() != 1 || (!copies && !kReshape->contains(name))) return std::nullopt;
  const Type &of = g.value(node.inputs[0]).type, &to = g.value(node.outputs[0]).type;
  if (!of.IsTensor() || !of.tensor().IsComplete() || !to.IsTensor() || !to.tensor().sizes) return std::nullopt;
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  const ExprGeometry from = {*of.tensor().sizes, *of.tensor().strides, Expr(0)};
  if (copies) return view_rules::IsContiguous(decide, from);
  const auto reshaped = view_rules::Reshape(decide, from, *to.tensor().sizes);
  if (!reshaped.ok()) return std::nullopt;
  return reshaped->aliases;
}

// Tensors that are, or may be, of one storage.
class Storages {
 public:
  explicit Storages(const Graph& g) {
    std::vector<ValueId> written;
    for (NodeId n : g.AllNodes()) {
      const Node& node = g.node(n);
      if (node.inputs.empty()) continue;
      const std::string& name = node.op.name();
      static const auto* const kMaybeViews = new absl::flat_hash_set<std::string>{
          "aten::reshape", "aten::reshape_as", "aten::flatten",    "aten::ravel",       "aten::contiguous",
          "aten::to",      "aten::type_as",    "prim::ListUnpack", "aten::__getitem__", "prim::TupleUnpack"};
      const OpKind kind = GetOpInfo(node.op).kind;
      const bool views = kind == OpKind::kView || kind == OpKind::kInplace || kind == OpKind::kInplaceView ||
                         kMaybeViews->contains(name);
      for (ValueId v : node.outputs) {
        if (views) Join(node.inputs[0], v);
      }
      if (const FunctionSchema* schema = FindSchema(node.op); schema != nullptr && schema->IsMutable())
        written.insert(written.end(), node.inputs.begin(), node.inputs.end());
    }
    for (ValueId v : written) shows_[Find(v)] += 2;
    for (ValueId v : g.inputs()) ++shows_[Find(v)];
    for (ValueId v : g.outputs()) ++shows_[Find(v)];
  }

  // Whether it shows where the tensor lies: it is written to, or seen under two names.
  bool Shows(ValueId v) {
    const auto it = shows_.find(Find(v));
    return it != shows_.end() && it->second > 1;
  }

 private:
  ValueId Find(ValueId v) {
    for (auto it = parent_.find(v); it != parent_.end(); it = parent_.find(v)) {
      const auto above = parent_.find(it->second);
      if (above != parent_.end()) it->second = above->second;
      v = it->second;
    }
    return v;
  }
  void Join(ValueId a, ValueId b) {
    a = Find(a), b = Find(b);
    if (a != b) parent_[b] = a;
  }

  absl::flat_hash_map<ValueId, ValueId> parent_;
  absl::flat_hash_map<ValueId, int> shows_;  // of a storage, how often: 2 for a write
};

struct AtOne {
  std::unique_ptr<Graph> graph;
  bool differs = false;  // from what the program says for other sizes, and it shows
  bool is_known = true;  // how all tensors lie
};
AtOne ProgramAt(const Graph& g, const std::vector<bool>& inferred, const Symbols& symbols, int64_t value = 1) {
  AtOne out;
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : symbols) values.insert({s, value});
  out.graph = AtValues(g, values);
  Graph& at = *out.graph;
  absl::flat_hash_set<ValueId> other;  // that lie in another way
  std::vector<ValueId> seen;           // of these, where elements show it
  std::vector<ValueId> shared;         // that have their operand's memory, or no longer have
  const std::vector<NodeId> nodes = g.AllNodes();
  size_t number = 0;
  for (NodeId n : at.AllNodes()) {
    const NodeId same = nodes[number];
    const bool is_inferred = inferred[number++];
    const std::vector<ValueId> inputs(at.node(n).inputs.begin(), at.node(n).inputs.end());
    const bool of_other = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return other.contains(v); });
    const std::vector<Type> stated = TypesOfResults(at, n);
    if (!is_inferred || !InferNode(at, n).ok()) {
      if (of_other && !stated.empty()) out.is_known = false;
      for (size_t k = 0; k < stated.size(); ++k) at.SetType(at.node(n).outputs[k], stated[k]);
      continue;
    }
    for (size_t k = 0; k < stated.size(); ++k) {
      const ValueId v = at.node(n).outputs[k];
      if (LieAlike(at, at.value(v).type, stated[k], /*seen=*/false)) continue;
      other.insert(v);
      if (!LieAlike(at, at.value(v).type, stated[k], /*seen=*/true)) seen.push_back(v);
    }
    if (IsView(at, n) != IsView(g, same)) shared.push_back(at.node(n).outputs[0]);
  }
  if (seen.empty() && shared.empty()) return out;
  Storages storages(at);
  for (ValueId v : shared) out.differs = out.differs || storages.Shows(v);
  for (ValueId v : seen) {
    const auto& outputs = at.outputs();
    out.differs = out.differs || storages.Shows(v) || std::find(outputs.begin(), outputs.end(), v) != outputs.end();
  }
  return out;
}

}  // namespace

CallsOfOne FindCallsOfOne(const Graph& g, const std::set<std::string>& known) {
  constexpr size_t kMostPrograms = 3, kMostInAnySet = 4, kMostInPairs = 8;
  CallsOfOne out;
  std::vector<std::string> candidates, empty;
  for (const auto& [symbol, range] : g.symbols.entries()) {
    if (Accepts(range, 1)) candidates.push_back(symbol);
    if (Accepts(range, 0)) empty.push_back(symbol);
  }
  if (candidates.empty()) return out;
  const std::vector<bool> inferred = AreInferred(g);
  const auto add = [&](const Symbols& set, bool in_any_case) {
    const auto holds_all_of = [&](const Symbols& s) {
      return std::includes(set.begin(), set.end(), s.begin(), s.end());
    };
    if (std::any_of(out.sets.begin(), out.sets.end(), holds_all_of)) return;
    AtOne at = ProgramAt(g, inferred, set);
    if (!at.differs && !in_any_case) return;
    out.sets.push_back(set);
    out.symbols.insert(set.begin(), set.end());
    if (at.is_known) out.programs.push_back({set, std::move(at.graph)});
  };
  // The sets of `size` symbols, in order.
  const std::function<void(size_t, size_t, Symbols)> add_all = [&](size_t size, size_t from, Symbols set) {
    if (set.size() == size) return add(set, size == 1 && known.count(*set.begin()) != 0);
    for (size_t k = from; k < candidates.size(); ++k) {
      Symbols larger = set;
      larger.insert(candidates[k]);
      add_all(size, k + 1, std::move(larger));
    }
  };
  const size_t n = candidates.size();
  const size_t largest = n <= kMostInAnySet ? n : n <= kMostInPairs ? 2 : 1;
  for (size_t size = 1; size <= largest; ++size) add_all(size, 0, {});
  if (largest < n) {
    // Of those that are in no set, any more at a time.
    Symbols rest;
    for (const std::string& symbol : candidates) {
      if (out.symbols.count(symbol) == 0) rest.insert(symbol);
    }
    if (rest.size() > largest && ProgramAt(g, inferred, rest).differs) {
      out.few = rest;
      out.most_of_few = static_cast<int>(largest);
    }
  }
  for (const std::string& symbol : empty) {
    if (ProgramAt(g, inferred, {symbol}, 0).differs) out.never_empty.insert(symbol);
  }
  if (out.programs.size() > kMostPrograms) out.programs.resize(kMostPrograms);
  if (out.symbols.size() > 1 && out.programs.size() < kMostPrograms) {
    AtOne at = ProgramAt(g, inferred, out.symbols);
    const auto is_there = [&](const ProgramOfOne& p) { return p.symbols == out.symbols; };
    if (at.is_known && std::none_of(out.programs.begin(), out.programs.end(), is_there))
      out.programs.push_back({out.symbols, std::move(at.graph)});
  }
  // What one of them says may in turn hang on others.
  for (const ProgramOfOne& program : out.programs) {
    const auto hangs_on = [&](const std::string& symbol, int64_t value) {
      return program.symbols.count(symbol) == 0 && ProgramAt(*program.graph, inferred, {symbol}, value).differs;
    };
    for (const std::string& symbol : candidates) {
      if (out.symbols.count(symbol) == 0 && hangs_on(symbol, 1)) out.symbols.insert(symbol);
    }
    for (const std::string& symbol : empty) {
      if (hangs_on(symbol, 0)) out.never_empty.insert(symbol);
    }
  }
  return out;
}

}  // namespace smelt
