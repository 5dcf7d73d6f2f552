#include "smelt/functionalize/view_or_copy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/example_value.h"

namespace smelt {

std::optional<bool> HasFormat(const Graph& g, const TensorType& t, int64_t memory_format) {
  const std::vector<Expr>& s = *t.sizes;
  if (std::find(s.begin(), s.end(), Expr(0)) != s.end()) return true;  // nothing is in every order
  std::vector<Expr> expected(s.size());
  if (memory_format == 0) {
    expected = ContiguousStrides(s);
  } else {
    // Channels last: NHWC, NDHWC.
    const int rank = static_cast<int>(s.size());
    if (rank < 4) return false;
    Expr stride = 1;
    expected[1] = stride;
    stride = stride * s[1];
    for (int d = rank - 1; d >= 2; --d) {
      expected[d] = stride;
      stride = stride * s[d];
    }
    expected[0] = stride;
  }
  bool surely = true;
  for (size_t d = 0; d < s.size(); ++d) {
    const Expr& stride = (*t.strides)[d];
    if (s[d] == Expr(1) || stride == expected[d]) continue;
    if (g.symbols.Equal(s[d], 1) == false && g.symbols.Equal(stride, expected[d]) == false) return false;
    surely = false;
  }
  return surely ? std::optional<bool>(true) : std::nullopt;
}

bool MayBeViewable(const Graph& g, const TensorType& from, const std::vector<Expr>& sizes) {
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  auto result = view_rules::Reshape(decide, {*from.sizes, *from.strides, Expr(0)}, sizes);
  return !result.ok() || result->aliases || !decide.assumptions().empty();
}

bool IsViewable(const Graph& g, const TensorType& from, const std::vector<Expr>& sizes) {
  const std::vector<Expr>& old_sizes = *from.sizes;
  const std::vector<Expr>& old_strides = *from.strides;
  for (const Expr& s : old_sizes) {
    if (s == Expr(0)) return true;
  }
  int view_d = static_cast<int>(sizes.size()) - 1;
  if (old_sizes.empty()) return true;
  Expr chunk_base = old_strides.back(), tensor_numel = 1, view_numel = 1;
  for (int d = static_cast<int>(old_sizes.size()) - 1; d >= 0; --d) {
    tensor_numel = tensor_numel * old_sizes[d];
    const bool end = d == 0 || (old_sizes[d - 1] != Expr(1) && old_strides[d - 1] != tensor_numel * chunk_base);
    if (!end) continue;
    while (view_d >= 0 && (view_numel != tensor_numel) &&
           (ExampleValue(g, view_numel).value_or(INT64_MAX) < ExampleValue(g, tensor_numel).value_or(INT64_MAX) ||
            sizes[view_d] == Expr(1))) {
      view_numel = view_numel * sizes[view_d];
      --view_d;
    }
    while (view_d >= 0 && sizes[view_d] == Expr(1)) --view_d;
    if (view_numel != tensor_numel) return false;
    if (d > 0) {
      chunk_base = old_strides[d - 1];
      tensor_numel = 1;
      view_numel = 1;
    }
  }
  return view_d == -1;
}

std::vector<std::string> AliasesAtOne(const Graph& g, const TensorType& from, const std::vector<Expr>& to,
                                      Aliases aliases) {
  absl::flat_hash_map<std::string, Expr> ones;
  for (const std::vector<Expr>* exprs : {&*from.sizes, &*from.strides}) {
    for (const Expr& e : *exprs) {
      for (const std::string& symbol : e.Symbols()) {
        const int64_t least = g.symbols.Get(symbol).accepted_min;
        if (least == 0 || least == 1) ones.emplace(symbol, Expr(1));
      }
    }
  }
  const auto aliases_where = [&](const absl::flat_hash_map<std::string, Expr>& values) {
    const auto at = [&](std::vector<Expr> exprs) {
      for (Expr& e : exprs) e = e.Substitute(values);
      return exprs;
    };
    TensorType t = from;
    t.sizes = at(*from.sizes);
    t.strides = at(*from.strides);
    return aliases(t, at(to));
  };
  std::vector<std::string> found;
  for (const auto& [symbol, one] : ones) {
    if (aliases_where({{symbol, one}})) found.push_back(symbol);
  }
  if (found.empty() && ones.size() > 1 && aliases_where(ones)) {
    for (const auto& [symbol, one] : ones) found.push_back(symbol);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace smelt
