#include "smelt/pipeline/strides_of_ones.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/substitute_symbols.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {
namespace {

using Exprs = std::vector<Expr>;

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

// The strides with others in the dims of one element: the smallest and the largest that a dense tensor has there.
std::vector<Exprs> OtherStrides(const TensorType& t) {
  constexpr size_t kMostDims = 3;
  std::vector<size_t> ones;
  Expr all = 1;
  for (size_t d = 0; d < t.sizes->size(); ++d) {
    if ((*t.sizes)[d] == Expr(1)) ones.push_back(d);
    all = all * (*t.sizes)[d];
  }
  if (ones.size() > kMostDims) ones.resize(kMostDims);
  std::vector<Exprs> out;
  for (size_t choice = 0; choice < (size_t{1} << ones.size()); ++choice) {
    Exprs strides = *t.strides;
    for (size_t k = 0; k < ones.size(); ++k) strides[ones[k]] = (choice >> k & 1) != 0 ? all : Expr(1);
    if (strides != *t.strides) out.push_back(std::move(strides));
  }
  return out;
}

class Search {
 public:
  explicit Search(const Graph& g) : g_(g) {}

  bool Decide(int input) {
    const Type& type = g_.value(g_.inputs()[input]).type;
    if (g_.input_infos[input].kind != InputInfo::Kind::kUser || !type.IsTensor() || !type.tensor().IsComplete())
      return false;
    // Images and rows of such: of other tensors PyTorch reads no format.
    if (type.tensor().rank() < 3 || type.tensor().rank() > 5) return false;
    const std::set<std::string> symbols = MayBeOne(g_, type.tensor());
    std::set<std::set<std::string>> sets = {{}, symbols};
    for (const std::string& s : symbols) sets.insert({s});
    return std::any_of(sets.begin(), sets.end(), [&](const auto& set) { return DecideAtOne(input, set); });
  }

 private:
  bool DecideAtOne(int input, const std::set<std::string>& symbols) {
    const auto is_one = [](const Expr& size) { return size == Expr(1); };
    const TensorType& here = g_.value(g_.inputs()[input]).type.tensor();
    if (symbols.empty() && std::none_of(here.sizes->begin(), here.sizes->end(), is_one)) return false;
    if (!inferred_) inferred_.emplace(g_);
    absl::flat_hash_map<std::string, int64_t> ones;
    for (const std::string& s : symbols) ones.insert({s, 1});
    const std::unique_ptr<Graph> base = AtValues(g_, ones);
    if (!symbols.empty()) inferred_->Of(g_, *base);
    const TensorType type = base->value(base->inputs()[input]).type.tensor();
    for (Exprs& strides : OtherStrides(type)) {
      const std::unique_ptr<Graph> at = base->Clone();
      at->SetType(at->inputs()[input], Type::Tensor(*type.dtype, *type.sizes, std::move(strides)));
      if (inferred_->Of(*base, *at, {{input}}).differs) return true;
    }
    return false;
  }

  const Graph& g_;
  std::optional<LayoutInference> inferred_;
};

}  // namespace

std::vector<int> InputsWithStridesOfOnes(const Graph& g) {
  Search search(g);
  std::vector<int> out;
  for (size_t k = 0; k < g.inputs().size(); ++k) {
    if (search.Decide(static_cast<int>(k))) out.push_back(static_cast<int>(k));
  }
  return out;
}

}  // namespace smelt
