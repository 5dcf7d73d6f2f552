#include "smelt/pipeline/alias_variants.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/op/declare.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

// The number of pairs of arguments that can be one tensor.
constexpr int kMaxDuplicatePairs = 6;

struct UserArg {
  ValueId value;
  int position;  // among the user's arguments
};

std::vector<UserArg> UserArgs(const Graph& g) {
  std::vector<UserArg> out;
  int position = 0;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) out.push_back({g.inputs()[i], position++});
  }
  return out;
}

// Returns whether the plan's results reveal the order in which arguments' dims lie in memory, through the layout of
// fresh results.
bool OrderShows(const Convention& c) {
  for (const OutputInfo& o : c.outputs.outputs) {
    // A view reveals its place in the whole, whatever its own rank.
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate) return true;
    if (o.kind == OutputInfo::Kind::kFresh && o.geometry.sizes.size() > 1) return true;
  }
  for (const MutatedInput& m : c.mutations.inputs) {
    if (m.storage) return true;
  }
  return false;
}

}  // namespace

bool Mutates(const Convention& c) { return !c.mutations.memories.empty() || !c.mutations.inputs.empty(); }

bool ReturnsViews(const Convention& c) {
  return std::any_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [&](const OutputInfo& o) {
    return o.kind == OutputInfo::Kind::kAliasOfMemory && o.memory.value() < c.overlaps.num_argument_memories;
  });
}

bool ReturnsNewMemoryOnly(const Convention& c) {
  using Kind = OutputInfo::Kind;
  return !Mutates(c) && std::all_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [](const OutputInfo& o) {
    return o.kind == Kind::kFresh || o.kind == Kind::kAliasOfIntermediate || o.kind == Kind::kScalar;
  });
}

bool StridesAreSeen(const Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (g.node(n).op == op::kSetInPlaceSourceTensor) continue;
    const OpTraits& traits = GetOpTraits(g.node(n).op);
    if (traits.reads_strides || traits.reaches_storage || traits.takes_strides) return true;
  }
  return false;
}

std::vector<int> TensorArgs(const Graph& g) {
  std::vector<int> out;
  for (const UserArg& a : UserArgs(g)) {
    if (g.value(a.value).type.IsTensor()) out.push_back(a.position);
  }
  return out;
}
std::vector<int> AllStorages(const Graph& g) {
  std::vector<int> out;
  for (size_t s = 0; s < g.weight_storages.size(); ++s) out.push_back(static_cast<int>(s));
  return out;
}
std::vector<int> WrittenArgs(const Graph& g, const Convention& distinct) {
  std::vector<int> out;
  for (int position : TensorArgs(g)) {
    bool written = false;
    for (const MutatedMemory& m : distinct.mutations.memories) {
      written = written || distinct.overlaps.memory_of[position] == m.memory;
    }
    for (const MutatedInput& m : distinct.mutations.inputs) {
      written = written || (!m.is_state && m.arg.value() == position);
    }
    if (written) out.push_back(position);
  }
  return out;
}
std::vector<int> WrittenStorages(const Graph& g, const Convention& distinct) {
  std::vector<bool> written(g.weight_storages.size(), false);
  for (const MutatedMemory& m : distinct.mutations.memories) {
    const int storage = m.memory.value() - distinct.overlaps.num_argument_memories;
    if (storage >= 0) written[storage] = true;
  }
  for (const MutatedInput& m : distinct.mutations.inputs) {
    if (m.is_state) written[g.weights[m.state].storage] = true;
  }
  std::vector<int> out;
  for (size_t s = 0; s < written.size(); ++s) {
    if (written[s]) out.push_back(static_cast<int>(s));
  }
  return out;
}

EagerWrites FindEagerWrites(const Graph& g) {
  EagerWrites all{TensorArgs(g), AllStorages(g)};
  const std::vector<NodeId> nodes = g.AllNodes();
  const bool custom = std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return IsDeclared(g.node(n).op); });
  if (!custom) return all;
  const std::unique_ptr<Graph> copy = g.Clone();
  const std::unique_ptr<AliasDb> db = AliasDb::Build(*copy, {.distinct_inputs = true});
  EagerWrites out;
  std::vector<bool> storages(g.weight_storages.size(), false);
  const auto changes = [&](ValueId v) { return !db->Writers(v, /*geometry_too=*/true).empty(); };
  int position = 0;
  for (size_t i = 0; i < copy->inputs().size(); ++i) {
    const InputInfo& info = copy->input_infos[i];
    const ValueId v = copy->inputs()[i];
    if (info.kind == InputInfo::Kind::kUser) {
      if (copy->value(v).type.IsTensor() && changes(v)) out.args.push_back(position);
      ++position;
    } else if (changes(v) || db->MayContainAlias({v}, copy->outputs())) {
      storages[copy->weights[info.weight].storage] = true;
    }
  }
  for (size_t s = 0; s < storages.size(); ++s) {
    if (storages[s]) out.storages.push_back(static_cast<int>(s));
  }
  return out;
}

std::vector<Variant> DuplicateVariants(const Graph& g, const Convention& distinct) {
  std::vector<Variant> out;
  const std::vector<UserArg> args = UserArgs(g);
  const std::vector<int> changed = WrittenArgs(g, distinct);
  auto written = [&](int position) { return std::find(changed.begin(), changed.end(), position) != changed.end(); };
  for (size_t a = 0; a < args.size(); ++a) {
    for (size_t b = a + 1; b < args.size(); ++b) {
      const Type& ta = g.value(args[a].value).type;
      const Type& tb = g.value(args[b].value).type;
      if (!ta.IsTensor() || ta != tb || (!written(args[a].position) && !written(args[b].position))) continue;
      if (static_cast<int>(out.size()) == kMaxDuplicatePairs) return out;
      Variant v;
      v.kind = fb::VariantKind::Duplicate;
      int next = 0;
      for (size_t k = 0; k < args.size(); ++k) {
        if (k == b) {
          v.functionalize.duplicates.inner_of_outer.push_back(v.functionalize.duplicates.inner_of_outer[a]);
        } else {
          v.functionalize.duplicates.inner_of_outer.push_back(DistinctIndex(next++));
        }
      }
      v.plan.variant = v.kind;
      out.push_back(std::move(v));
    }
  }
  return out;
}

fb::OtherStrides OtherStridesOf(const Graph& opened_graph, const OpenedComposites& opened, const Convention& c) {
  if (opened.strides_decide || StridesAreSeen(opened_graph)) return fb::OtherStrides::Refused;
  return opened.order_decides || OrderShows(c) ? fb::OtherStrides::CopiedInOrder : fb::OtherStrides::Copied;
}

Variant OverlapVariant(const Graph& g, const OpenedComposites& opened, const Convention& distinct,
                       const std::vector<int>& strides_of_ones) {
  const bool strides_decide = opened.strides_decide;
  Variant v;
  v.kind = fb::VariantKind::Overlap;
  v.functionalize.overlapping = true;
  v.functionalize.symbolic_strides = !strides_decide;
  v.plan.variant = v.kind;
  v.plan.exported_strides = strides_decide;
  if (strides_decide) return v;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    const bool fixed = std::find(strides_of_ones.begin(), strides_of_ones.end(), a.position) != strides_of_ones.end();
    for (int d = 0; fixed && d < value.type.tensor().rank(); ++d) {
      v.plan.guards.push_back({Expr::Symbol(absl::StrCat(value.name, ".stride", d)), (*value.type.tensor().strides)[d],
                               fb::ExprOp::Eq,
                               absl::StrCat("argument ", value.name, ": its strides are other than at export, and the ",
                                            "format that they suggest shows")});
    }
  }
  if (!opened.order_decides && !OrderShows(distinct)) return v;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    if (!value.type.IsTensor()) continue;
    const TensorType& t = value.type.tensor();
    auto hint = [&](const Expr& e) -> int64_t {
      absl::flat_hash_map<std::string, int64_t> values;
      for (const std::string& s : e.Symbols()) {
        auto it = g.symbol_hints.find(s);
        values[s] = it == g.symbol_hints.end() ? 4 : it->second;
      }
      auto x = e.Evaluate(values);
      return x.ok() ? *x : 0;
    };
    std::vector<int> dims;
    for (int d = 0; d < t.rank(); ++d) {
      if ((*t.sizes)[d] != Expr(1)) dims.push_back(d);
    }
    std::stable_sort(dims.begin(), dims.end(),
                     [&](int x, int y) { return hint((*t.strides)[x]) > hint((*t.strides)[y]); });
    // Among equal strides PyTorch uses more than their order.
    auto stride = [&](int d) { return Expr::Symbol(absl::StrCat(value.name, ".stride", d)); };
    const std::string message =
        absl::StrCat("argument ", value.name, ": its dims lie in memory in another order than at export");
    for (size_t k = 0; k + 1 < dims.size(); ++k) {
      const bool equal = hint((*t.strides)[dims[k + 1]]) == hint((*t.strides)[dims[k]]);
      v.plan.guards.push_back({stride(dims[k + 1]), stride(dims[k]), equal ? fb::ExprOp::Eq : fb::ExprOp::Lt, message});
    }
    if (dims.size() > 1 && hint((*t.strides)[dims.back()]) > 0)
      v.plan.guards.push_back({Expr(0), stride(dims.back()), fb::ExprOp::Lt, message});
  }
  return v;
}

void AddSizeGuards(const SizeOneCalls& of_one, const std::set<std::string>& ones, Variant& v) {
  const auto beside_one = [](const std::string& symbol) {
    const Expr d = Expr::Symbol(symbol) - 1;
    return d * d;
  };
  const auto not_all_one = [&](const std::set<std::string>& set) {
    Expr sum = 0;
    for (const std::string& symbol : set) sum = sum + beside_one(symbol);
    v.plan.guards.push_back({Expr(0), sum, fb::ExprOp::Lt,
                             absl::StrCat("the size ", absl::StrJoin(set, ", "), " is 1, expected another: PyTorch ",
                                          "then lays out in another way what the program shows")});
  };
  for (const std::string& symbol : of_one.never_empty) {
    v.plan.guards.push_back({Expr(0), Expr::Symbol(symbol), fb::ExprOp::Lt,
                             absl::StrCat("the size ", symbol, " is 0, expected at least 1")});
  }
  if (!of_one.few.empty()) {
    Expr count = 0;
    for (const std::string& symbol : of_one.few) count = count + Max(Expr(1) - beside_one(symbol), 0);
    v.plan.guards.push_back({count, Expr(of_one.most_of_few), fb::ExprOp::Le,
                             absl::StrCat("more than ", of_one.most_of_few, " sizes are 1")});
  }
  if (ones.empty()) {
    for (const std::set<std::string>& set : of_one.sets) not_all_one(set);
    return;
  }
  for (const std::string& symbol : of_one.symbols) {
    if (ones.count(symbol) == 0) {
      not_all_one({symbol});
    } else {
      v.plan.guards.push_back(
          {Expr::Symbol(symbol), Expr(1), fb::ExprOp::Eq, absl::StrCat("the size ", symbol, " is not 1")});
    }
  }
}

}  // namespace smelt
