// Decomposes einsum in the same steps as PyTorch, because the steps determine the layout of the result.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/einsum.h"

namespace smelt {
namespace {

using Dims = std::vector<int64_t>;

bool IsLonger(Emit& e, ValueId v, int64_t dim) { return e.Sizes(v)[dim] != Expr(1); }

// Returns one label for each dim that all operands are aligned to: those of the result, then the summed ones, "..."
// before letters.
std::string AlignedLabels(const EinsumLabels& labels) {
  std::string summed;
  for (const std::string& of_operand : labels.inputs) {
    for (char c : of_operand) {
      if (!absl::c_linear_search(labels.output, c) && !absl::c_linear_search(summed, c)) summed.push_back(c);
    }
  }
  // ParseEinsum gives the dims of "..." decreasing numbers, all less than those of letters.
  const auto letters = std::stable_partition(summed.begin(), summed.end(), [](char c) { return c < 'A'; });
  std::sort(summed.begin(), letters, std::greater<>());
  std::sort(letters, summed.end());
  return labels.output + summed;
}

// Returns the operand with one dim for each label of `aligned`; dims that it lacks have size 1.
ValueId Align(Emit& e, ValueId v, std::string labels, const std::string& aligned) {
  while (const auto dims = TakeRepeatedLabel(&labels)) {
    v = e.Op("aten::diagonal", {v, e.Const(int64_t{0}), e.Const(dims->first), e.Const(dims->second)});
  }
  Dims order;
  for (char c : aligned) {
    if (!absl::c_linear_search(labels, c)) {
      v = e.Unsqueeze(v, -1);
      labels.push_back(c);
    }
    order.push_back(static_cast<int64_t>(labels.find(c)));
  }
  return e.Permute(v, order);
}

// The dims of a pair of operands, grouped by which of them has more than one element there; summed dims are left out.
struct PairDims {
  Dims both, left, right;
};

PairDims Classify(Emit& e, ValueId a, ValueId b, const Dims& summed) {
  PairDims out;
  for (int64_t d = 0; d < e.Rank(a); ++d) {
    if (absl::c_linear_search(summed, d)) continue;
    const bool in_a = IsLonger(e, a, d), in_b = IsLonger(e, b, d);
    (in_a && in_b ? out.both : in_a ? out.left : out.right).push_back(d);
  }
  return out;
}

Expr Elements(Emit& e, ValueId v, const Dims& dims) {
  return absl::c_accumulate(dims, Expr(1), [&](const Expr& n, int64_t d) { return n * e.Sizes(v)[d]; });
}

Dims Joined(std::initializer_list<Dims> parts) {
  Dims all;
  for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Returns the product of two aligned operands, summed over `summed` (these dims keep size 1), as one bmm.
ValueId Contract(Emit& e, ValueId a, ValueId b, const Dims& summed) {
  if (summed.empty()) return e.Mul(a, b);
  PairDims dims = Classify(e, a, b, summed);
  // With swapped operands the product has the layout of the result's dims.
  if (!dims.left.empty() && !dims.right.empty() && dims.right.back() < dims.left.front()) {
    std::swap(a, b);
    std::swap(dims.left, dims.right);
  }
  const Expr batch = Elements(e, a, dims.both), length = Elements(e, a, summed);
  const Dims lies = Joined({dims.both, dims.left, summed, dims.right});  // the product
  const ValueId x = e.Reshape(e.Permute(a, lies), {batch, Elements(e, a, dims.left), length});
  const ValueId y = e.Reshape(e.Permute(b, Joined({dims.both, summed, dims.right, dims.left})),
                              {batch, length, Elements(e, b, dims.right)});
  std::vector<Expr> sizes;
  for (int64_t d : dims.both) sizes.push_back(e.Sizes(a)[d]);
  for (int64_t d : dims.left) sizes.push_back(e.Sizes(a)[d]);
  sizes.resize(sizes.size() + summed.size(), Expr(1));
  for (int64_t d : dims.right) sizes.push_back(e.Sizes(b)[d]);
  Dims back(lies.size());
  for (size_t k = 0; k < lies.size(); ++k) back[lies[k]] = static_cast<int64_t>(k);
  return e.Permute(e.View(e.Op("aten::bmm", {x, y}), sizes), back);
}

// The pairs to contract. Each is removed from the operands, and its product is inserted at the front if `in_front`,
// else at the end.
struct Path {
  std::vector<std::pair<size_t, size_t>> pairs;
  bool in_front = true;
};

absl::StatusOr<Path> ReadPath(const OpCall& call, size_t operands) {
  Path out;
  const OpArg* given = call.Find("path");
  if (given == nullptr || given->IsNone()) {
    out.pairs.assign(operands - 1, {0, 1});
    return out;
  }
  out.in_front = false;
  SMELT_ASSIGN_OR_RETURN(const Dims path, call.GetInts("path"));
  if (path.size() != 2 * (operands - 1))
    return call.Error(absl::StrCat("the path has ", path.size(), " numbers, expected ", 2 * (operands - 1)));
  for (size_t k = 0; k < path.size(); k += 2) {
    const auto [i, j] = std::minmax(path[k], path[k + 1]);
    if (i == j || i < 0 || j >= static_cast<int64_t>(operands - k / 2))
      return call.Error(absl::StrCat("invalid contraction (", i, ", ", j, ")"));
    out.pairs.emplace_back(i, j);
  }
  return out;
}

absl::StatusOr<std::vector<ValueId>> Einsum(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::string equation, call.GetString("equation"));
  std::vector<ValueId> operands;
  std::vector<int> ranks;
  for (const OpArg& a : call.arg(1).elements) {
    operands.push_back(a.value);
    ranks.push_back(e.Rank(a.value));
  }
  if (operands.empty()) return call.Error("at least one operand is expected");
  const auto parsed = ParseEinsum(std::move(equation), ranks);
  if (!parsed.ok()) return call.Error(parsed.status().message());
  const std::string aligned = AlignedLabels(*parsed);
  for (char c : parsed->output) {
    if (absl::c_none_of(parsed->inputs, [c](const std::string& s) { return absl::c_linear_search(s, c); }))
      return call.Error("an output label is in no operand");
  }
  SMELT_ASSIGN_OR_RETURN(const Path path, ReadPath(call, operands.size()));
  for (size_t k = 0; k < operands.size(); ++k) operands[k] = Align(e, operands[k], parsed->inputs[k], aligned);
  if (!e.ok()) return e.status();
  const int64_t rank = static_cast<int64_t>(aligned.size()), kept = static_cast<int64_t>(parsed->output.size());
  // For each dim, the number of operands that have more than one element in it. These all have the same size there.
  std::vector<int> having(rank, 0);
  for (int64_t d = 0; d < rank; ++d) {
    Expr size = 1;
    for (ValueId v : operands) {
      if (!IsLonger(e, v, d)) continue;
      if (having[d]++ > 0 && e.graph().symbols.Equal(size, e.Sizes(v)[d]) != true)
        return call.Unsupported("operands that may broadcast");
      size = e.Sizes(v)[d];
    }
  }
  if (operands.size() == 1) {
    if (rank == kept) return operands;
    Dims summed(rank - kept);
    std::iota(summed.begin(), summed.end(), kept);
    return std::vector<ValueId>{e.Sum(operands[0], summed, false)};
  }
  for (const auto& [i, j] : path.pairs) {
    ValueId a = operands[i], b = operands[j];
    operands.erase(operands.begin() + j);
    operands.erase(operands.begin() + i);
    Dims summed, of_a, of_b;  // no further operand has these
    for (int64_t d = kept; d < rank; ++d) {
      const bool in_a = IsLonger(e, a, d), in_b = IsLonger(e, b, d);
      if (in_a && in_b) {
        if (--having[d] == 1) summed.push_back(d);
      } else if (having[d] == 1 && (in_a || in_b)) {
        (in_a ? of_a : of_b).push_back(d);
      }
    }
    if (!of_a.empty()) a = e.Sum(a, of_a, true);
    if (!of_b.empty()) b = e.Sum(b, of_b, true);
    const ValueId product = Contract(e, a, b, summed);
    if (!e.ok()) return e.status();
    operands.insert(path.in_front ? operands.begin() : operands.end(), product);
  }
  if (rank == kept) return operands;
  return std::vector<ValueId>{
      e.View(operands[0], std::vector<Expr>(e.Sizes(operands[0]).begin(), e.Sizes(operands[0]).begin() + kept))};
}

}  // namespace

void AddEinsumRule(DecompositionTable& t) { t["aten::einsum"] = Einsum; }

}  // namespace smelt
