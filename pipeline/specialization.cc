#include "smelt/pipeline/specialization.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/pipeline/call_effects.h"

namespace smelt {
namespace {

// The number of pairs of arguments that have a plan each.
constexpr int kMaxDuplicatePairs = 6;

}  // namespace

fb::VariantKind Specialization::kind() const {
  if (alias.arguments_overlap) return fb::VariantKind::Overlap;
  return alias.duplicates.inner_of_outer.empty() ? fb::VariantKind::Distinct : fb::VariantKind::Duplicate;
}

FunctionalizeOptions FunctionalizeOptionsFor(const Specialization& s) {
  FunctionalizeOptions options;
  options.duplicates = s.alias.duplicates;
  options.overlapping = s.alias.arguments_overlap;
  options.symbolic_strides = s.layouts == Specialization::ArgumentLayouts::kAny;
  return options;
}

BundleBuilder::PlanOptions PlanOptionsFor(const Specialization& s) {
  BundleBuilder::PlanOptions options;
  options.variant = s.kind();
  options.exported_strides = s.layouts == Specialization::ArgumentLayouts::kExported;
  options.guards = s.guards;
  return options;
}

Specialization DistinctArguments() { return {}; }

Specialization OrderedArguments(const Graph& g, DimOrders orders, const std::vector<int>& may_repeat) {
  Specialization s;
  s.layouts = Specialization::ArgumentLayouts::kOrdered;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    if (!value.type.IsTensor()) continue;
    const TensorType& t = value.type.tensor();
    const auto& [order, step] = orders[a.position];
    const std::string message = absl::StrCat("argument ", value.name, ": its dims lie in memory in another order");
    const auto stride = [&](int d) { return StrideSymbol(value, d); };
    for (int d = 0; d < t.rank(); ++d) {
      if ((*t.sizes)[d] == Expr(1) || absl::c_linear_search(order, d)) continue;
      s.guards.push_back({stride(d), (*t.strides)[d], fb::ExprOp::Eq, message});
    }
    if (order.empty()) continue;
    s.guards.push_back({stride(order.back()), Expr(step), fb::ExprOp::Eq, message});
    const bool repeats = absl::c_linear_search(may_repeat, a.position);
    for (size_t k = 0; k + 1 < order.size(); ++k) {
      const int inner = order[k + 1];
      // Behind the last element of a row there may be none that is left out.
      const Expr outer = stride(order[k]);
      const Expr reach = stride(inner) * (*t.sizes)[inner] - (inner == order.back() ? step - 1 : 0);
      if (!repeats) {
        s.guards.push_back({Expr(1), outer, fb::ExprOp::Lt, message});
        s.guards.push_back({reach, outer, fb::ExprOp::Le, message});
        continue;
      }
      // The products say that the stride is 0 or at least as large as without repeated elements.
      s.guards.push_back({Expr(0), outer, fb::ExprOp::Le, message});
      s.guards.push_back({Expr(0), outer * (outer - 2), fb::ExprOp::Le, message});
      s.guards.push_back({Expr(0), outer * (outer - reach), fb::ExprOp::Le, message});
    }
  }
  s.dim_orders = std::move(orders);
  return s;
}

std::vector<Specialization> DuplicateArguments(const Graph& g, const Convention& distinct) {
  std::vector<Specialization> out;
  const std::vector<UserArg> args = UserArgs(g);
  const std::vector<int> changed = WrittenArgs(g, distinct);
  auto written = [&](int position) { return std::binary_search(changed.begin(), changed.end(), position); };
  for (size_t a = 0; a < args.size(); ++a) {
    for (size_t b = a + 1; b < args.size(); ++b) {
      const Type& ta = g.value(args[a].value).type;
      const Type& tb = g.value(args[b].value).type;
      if (!ta.IsTensor() || ta != tb || (!written(args[a].position) && !written(args[b].position))) continue;
      if (static_cast<int>(out.size()) == kMaxDuplicatePairs) return {};
      std::vector<DistinctIndex>& inner = out.emplace_back().alias.duplicates.inner_of_outer;
      int next = 0;
      for (size_t k = 0; k < args.size(); ++k) inner.push_back(k == b ? inner[a] : DistinctIndex(next++));
    }
  }
  return out;
}

fb::OtherStrides OtherStridesOf(const Graph& opened_graph, const OpenedComposites& opened, const Convention& c) {
  if (opened.strides_decide || StridesAreSeen(opened_graph)) return fb::OtherStrides::Refused;
  return opened.order_decides || OrderShows(c) ? fb::OtherStrides::CopiedInOrder : fb::OtherStrides::Copied;
}

Specialization OverlappingArguments(const Graph& g, const OpenedComposites& opened, const Convention& distinct,
                                    const std::vector<int>& strides_of_ones) {
  Specialization s;
  s.alias.arguments_overlap = true;
  if (opened.strides_decide) return s;
  s.layouts = Specialization::ArgumentLayouts::kAny;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    const bool fixed = std::find(strides_of_ones.begin(), strides_of_ones.end(), a.position) != strides_of_ones.end();
    for (int d = 0; fixed && d < value.type.tensor().rank(); ++d) {
      s.guards.push_back({StrideSymbol(value, d), (*value.type.tensor().strides)[d], fb::ExprOp::Eq,
                          absl::StrCat("argument ", value.name, ": its strides are other than at export, and the ",
                                       "format that they suggest shows")});
    }
  }
  if (!opened.order_decides && !OrderShows(distinct)) return s;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    if (!value.type.IsTensor()) continue;
    const TensorType& t = value.type.tensor();
    auto hint = [&](const Expr& e) -> int64_t {
      absl::flat_hash_map<std::string, int64_t> values;
      for (const std::string& symbol : e.Symbols()) {
        auto it = g.symbol_hints.find(symbol);
        values[symbol] = it == g.symbol_hints.end() ? 4 : it->second;
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
    auto stride = [&](int d) { return StrideSymbol(value, d); };
    const std::string message =
        absl::StrCat("argument ", value.name, ": its dims lie in memory in another order than at export");
    for (size_t k = 0; k + 1 < dims.size(); ++k) {
      const bool equal = hint((*t.strides)[dims[k + 1]]) == hint((*t.strides)[dims[k]]);
      s.guards.push_back({stride(dims[k + 1]), stride(dims[k]), equal ? fb::ExprOp::Eq : fb::ExprOp::Lt, message});
    }
    if (dims.size() > 1 && hint((*t.strides)[dims.back()]) > 0)
      s.guards.push_back({Expr(0), stride(dims.back()), fb::ExprOp::Lt, message});
  }
  return s;
}

void AddSizeGuards(const SizeOneCalls& of_one, Specialization& s) {
  const auto beside_one = [](const std::string& symbol) {
    const Expr d = Expr::Symbol(symbol) - 1;
    return d * d;
  };
  const auto not_all_one = [&](const std::set<std::string>& set) {
    Expr sum = 0;
    for (const std::string& symbol : set) sum = sum + beside_one(symbol);
    s.guards.push_back({Expr(0), sum, fb::ExprOp::Lt,
                        absl::StrCat("the size ", absl::StrJoin(set, ", "), " is 1, expected another: PyTorch ",
                                     "then lays out in another way what the program shows")});
  };
  for (const std::string& symbol : of_one.never_empty) {
    s.guards.push_back({Expr(0), Expr::Symbol(symbol), fb::ExprOp::Lt,
                        absl::StrCat("the size ", symbol, " is 0, expected at least 1")});
  }
  if (!of_one.few.empty()) {
    Expr count = 0;
    for (const std::string& symbol : of_one.few) count = count + Max(Expr(1) - beside_one(symbol), 0);
    s.guards.push_back({count, Expr(of_one.most_of_few), fb::ExprOp::Le,
                        absl::StrCat("more than ", of_one.most_of_few, " sizes are 1")});
  }
  if (s.unit_symbols.empty()) {
    for (const std::set<std::string>& set : of_one.sets) not_all_one(set);
    return;
  }
  for (const std::string& symbol : of_one.symbols) {
    if (s.unit_symbols.count(symbol) == 0) {
      not_all_one({symbol});
    } else {
      s.guards.push_back(
          {Expr::Symbol(symbol), Expr(1), fb::ExprOp::Eq, absl::StrCat("the size ", symbol, " is not 1")});
    }
  }
}

void AddSharingGuards(const std::set<std::string>& at_least_two, Specialization& s) {
  for (const std::string& symbol : at_least_two) {
    s.guards.push_back({Expr(1), Expr::Symbol(symbol), fb::ExprOp::Lt,
                        absl::StrCat("the size ", symbol, " is 1, expected at least 2: PyTorch then shares memory ",
                                     "that otherwise is copied, and the program shows it")});
  }
}

}  // namespace smelt
