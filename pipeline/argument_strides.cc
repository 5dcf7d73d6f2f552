#include "smelt/pipeline/argument_strides.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/substitute_symbols.h"

namespace smelt {
namespace {

// The symbols that are sizes of the tensor and may be 1 at a call.
std::set<std::string> MayBeOne(const Graph& g, const TensorType& t) {
  std::set<std::string> out;
  for (const Expr& size : *t.sizes) {
    const Expr::View v = size.Decompose();
    if (v.op != Expr::Op::kSymbol) continue;
    const SymbolRanges::Range r = g.symbols.Get(v.symbol);
    if (r.min <= 1 || (r.accepted_min >= 0 && r.accepted_min <= 1)) out.insert(v.symbol);
  }
  return out;
}

bool IsUserTensor(const Graph& g, int input) {
  const Type& type = g.value(g.inputs()[input]).type;
  return g.input_infos[input].kind == InputInfo::Kind::kUser && type.IsTensor() && type.tensor().IsComplete();
}

using Symbols = std::set<std::string>;

class Search {
 public:
  Search(const Graph& g, const LayoutInference& layouts) : g_(g), layouts_(layouts) {}

  bool StridesOfOnesDecide(int input) {
    if (!IsUserTensor(g_, input)) return false;
    const TensorType& type = g_.value(g_.inputs()[input]).type.tensor();
    if (type.rank() < 2) return false;
    const Symbols symbols = MayBeOne(g_, type);
    const auto decide = [&](const Symbols& ones) {
      const auto is_one = [](const Expr& size) { return size == Expr(1); };
      if (ones.empty() && std::none_of(type.sizes->begin(), type.sizes->end(), is_one)) return false;
      LayoutDependence* layouts = At(ones);
      return layouts != nullptr && layouts->OnStridesOfOnes(input);
    };
    return decide({}) || decide(symbols) ||
           std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return decide({s}); });
  }

  // Returns whether the results do not depend on how these inputs lie in memory.
  bool AnyStridesDo(const std::vector<int>& inputs) {
    Symbols symbols;
    for (int k : inputs) symbols.merge(MayBeOne(g_, g_.value(g_.inputs()[k]).type.tensor()));
    const auto do_at = [&](const Symbols& ones) {
      LayoutDependence* layouts = At(ones);
      return layouts != nullptr && !layouts->OnStrides(inputs);
    };
    return do_at({}) && std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return do_at({s}); });
  }

 private:
  // The program for calls in which these symbols are 1; null if that would be one program too many.
  LayoutDependence* At(const Symbols& ones) {
    constexpr size_t kMostPrograms = 8;
    if (at_.size() >= kMostPrograms && at_.count(ones) == 0) return nullptr;
    std::unique_ptr<LayoutDependence>& program = at_[ones];
    if (program == nullptr) {
      absl::flat_hash_map<std::string, int64_t> values;
      for (const std::string& s : ones) values.insert({s, 1});
      std::unique_ptr<Graph> at = AtValues(g_, values);
      if (!ones.empty()) layouts_.Of(g_, *at);
      program = std::make_unique<LayoutDependence>(layouts_, std::move(at));
    }
    return program.get();
  }

  const Graph& g_;
  const LayoutInference& layouts_;
  std::map<Symbols, std::unique_ptr<LayoutDependence>> at_;
};

// Returns the positions of inputs, in rising order, among the user's arguments.
std::vector<int> Positions(const Graph& g, const std::vector<int>& inputs) {
  std::vector<int> out;
  int position = 0;
  for (size_t k = 0; k < g.inputs().size(); ++k) {
    if (g.input_infos[k].kind != InputInfo::Kind::kUser) continue;
    if (std::binary_search(inputs.begin(), inputs.end(), static_cast<int>(k))) out.push_back(position);
    ++position;
  }
  return out;
}

}  // namespace

std::vector<int> ArgumentsWithStridesOfOnes(const Graph& g, const LayoutInference& layouts) {
  Search search(g, layouts);
  std::vector<int> inputs;
  for (size_t k = 0; k < g.inputs().size(); ++k) {
    if (search.StridesOfOnesDecide(static_cast<int>(k))) inputs.push_back(static_cast<int>(k));
  }
  return Positions(g, inputs);
}

std::vector<int> ArgumentsOfAnyStrides(const Graph& g, const LayoutInference& layouts) {
  Search search(g, layouts);
  std::vector<int> inputs;
  for (size_t k = 0; k < g.inputs().size(); ++k) {
    const int input = static_cast<int>(k);
    if (IsUserTensor(g, input) && search.AnyStridesDo({input})) inputs.push_back(input);
  }
  if (inputs.size() > 1 && !search.AnyStridesDo(inputs)) inputs.clear();
  return Positions(g, inputs);
}

}  // namespace smelt
