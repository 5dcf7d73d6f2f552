#include "smelt/pipeline/probe_layouts.h"

#include <cstddef>

#include "smelt/core/ir/type.h"

namespace smelt::probe_layouts {
namespace {

// Dense strides; `order` lists the dims from the outermost to the innermost.
Strides Ordered(const std::vector<Expr>& sizes, const std::vector<size_t>& order) {
  Strides strides(sizes.size());
  Expr next = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = next;
    next = next * sizes[order[k]];
  }
  return strides;
}

}  // namespace

Strides Reversed(const std::vector<Expr>& sizes) {
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = order.size() - 1 - d;
  return Ordered(sizes, order);
}

Strides ChannelsLast(const std::vector<Expr>& sizes) {
  if (sizes.size() < 3) return Reversed(sizes);
  std::vector<size_t> order = {0};
  for (size_t d = 2; d < sizes.size(); ++d) order.push_back(d);
  order.push_back(1);
  return Ordered(sizes, order);
}

Strides ReversedRows(const std::vector<Expr>& sizes) {
  if (sizes.empty()) return {};
  std::vector<size_t> order;
  for (size_t d = sizes.size() - 1; d-- > 0;) order.push_back(d);
  order.push_back(sizes.size() - 1);
  return Ordered(sizes, order);
}

Strides LastOutside(const std::vector<Expr>& sizes) {
  if (sizes.empty()) return {};
  std::vector<size_t> order = {sizes.size() - 1};
  for (size_t d = 0; d + 1 < sizes.size(); ++d) order.push_back(d);
  return Ordered(sizes, order);
}

Strides FirstInside(const std::vector<Expr>& sizes) {
  if (sizes.empty()) return {};
  std::vector<size_t> order;
  for (size_t d = 1; d < sizes.size(); ++d) order.push_back(d);
  order.push_back(0);
  return Ordered(sizes, order);
}

Strides Gapped(const std::vector<Expr>& sizes) {
  Strides strides = ContiguousStrides(sizes);
  for (Expr& s : strides) s = s * 2;
  return strides;
}

}  // namespace smelt::probe_layouts
