#include "smelt/fuser/group_domain.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smelt/core/base/status_macros.h"

namespace smelt::kernel {
namespace {

class DomainChooser {
 public:
  DomainChooser(Group& g, const std::vector<DimSplit>& splits, Builder& b) : g_(g), splits_(splits), b_(b) {}

  absl::StatusOr<Domain> Choose();

 private:
  // Returns whether an index of loop dims visits each element of a value of these sizes: a dim of the loop for each of
  // its dims. (The diagonal of a square does not.)
  bool IsPlace(const Index& index, const std::vector<Expr>& sizes) const;
  // Propagates labels from the values whose place in the domain is known to those connected with them.
  absl::Status PropagateLabels();
  // Returns the operands that the node reads at the index of its result.
  absl::StatusOr<std::vector<ValueId>> SameIndexOperands(NodeId n);
  absl::StatusOr<bool> LabelForward(NodeId n);
  absl::StatusOr<bool> LabelBackward(NodeId n);

  Group& g_;
  const std::vector<DimSplit>& splits_;
  Builder& b_;
  Domain d_;
};

absl::StatusOr<Domain> DomainChooser::Choose() {
  std::optional<Site> anchor;
  for (NodeId n : g_.nodes()) {
    SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, g_.SiteOf(n));
    if (!s || (anchor && IsOneElement(s->reduced))) continue;
    // A reduction over a single element fits into any loop.
    const bool decides = !IsOneElement(s->reduced);
    anchor = std::move(s);
    if (decides) break;
  }
  std::optional<ActionDomain> action;
  for (const Root& r : g_.roots()) {
    if (!g_.IsAction(r)) continue;
    if (g_.roots().size() > 1 || anchor)
      return g_.Unsupported(r.action, "an indexed write together with other results");
    SMELT_ASSIGN_OR_RETURN(action, g_.DomainOf(r.action));
  }
  if (action) {
    d_.parallel = action->parallel;
    d_.reduced = action->ordered;
    d_.ordered = !d_.reduced.empty();
  } else if (anchor) {
    d_.parallel = anchor->kept;
    d_.reduced = anchor->reduced;
  } else {
    d_.parallel = g_.Sizes(g_.roots()[0].value);
  }
  std::vector<Expr> all = d_.parallel;
  all.insert(all.end(), d_.reduced.begin(), d_.reduced.end());
  if (anchor && d_.reduced.empty()) all.push_back(Expr(1));  // a reduction over no dims is over one element
  b_.SetDomain(all, static_cast<int>(d_.parallel.size()));
  for (size_t d = 0; d < all.size(); ++d) {
    (d < d_.parallel.size() ? d_.parallel_index : d_.reduced_index).push_back(b_.Dim(static_cast<int>(d)));
  }
  if (!action) {
    if (anchor) {
      if (g_.graph().IsLive(anchor->input)) {
        Index in;
        for (int w : anchor->where) in.push_back(w >= 0 ? d_.parallel_index[w] : d_.reduced_index[-1 - w]);
        d_.labels[anchor->input] = in;
      } else {
        for (ValueId v : g_.node(anchor->node).outputs) {
          if (g_.Sizes(v).size() == d_.parallel_index.size()) d_.labels[v] = d_.parallel_index;
        }
      }
    } else {
      d_.labels[g_.roots()[0].value] = d_.parallel_index;
    }
    SMELT_RETURN_IF_ERROR(PropagateLabels());
    // A result that is not connected with the others runs over the same loops.
    for (const Root& r : g_.roots()) {
      if (g_.IsAction(r) || d_.labels.contains(r.value) || g_.Sizes(r.value) != d_.parallel) continue;
      d_.labels[r.value] = d_.parallel_index;
      SMELT_RETURN_IF_ERROR(PropagateLabels());
    }
  }
  for (const DimSplit& s : splits_) {
    b_.SplitDim(s.dim, s.sizes);
    auto again = [&](Index& index) {
      for (Affine& a : index) b_.SplitIn(a, s.dim, s.sizes);
    };
    again(d_.parallel_index);
    again(d_.reduced_index);
    for (auto& [v, index] : d_.labels) again(index);
  }
  return std::move(d_);
}

bool DomainChooser::IsPlace(const Index& index, const std::vector<Expr>& sizes) const {
  std::vector<bool> used(b_.rank(), false);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Expr(1)) continue;
    const int loop = b_.LoneDim(index[d]);
    if (loop < 0 || used[loop] || b_.DimSize(loop) != sizes[d]) return false;
    used[loop] = true;
  }
  return true;
}

absl::Status DomainChooser::PropagateLabels() {
  for (int round = 0; round < 4; ++round) {
    bool changed = false;
    for (NodeId n : g_.nodes()) {
      SMELT_ASSIGN_OR_RETURN(bool c, LabelForward(n));
      changed = changed || c;
    }
    for (auto it = g_.nodes().rbegin(); it != g_.nodes().rend(); ++it) {
      SMELT_ASSIGN_OR_RETURN(bool c, LabelBackward(*it));
      changed = changed || c;
    }
    if (!changed) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> DomainChooser::SameIndexOperands(NodeId n) {
  std::vector<ValueId> out;
  if (g_.IsPointwise(n)) {
    SMELT_ASSIGN_OR_RETURN(const PointwiseMeaning* m, g_.PointwiseOf(n));
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
    for (const PointwiseOperand& o : m->operands) {
      if (!o.is_scalar) out.push_back(OperandValue(*call, o));
    }
  } else if (g_.SpecialOf(n) == OpFamily::kMaterialize || g_.SpecialOf(n) == OpFamily::kCopy) {
    out.push_back(g_.node(n).inputs[0]);
  } else if (g_.IsReduction(n)) {
    SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, g_.ReductionOf(n));
    SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
    if (m->is_scan) out.push_back(call->arg(m->arg).value);
  }
  return out;
}

absl::StatusOr<bool> DomainChooser::LabelForward(NodeId n) {
  const ValueId out = g_.Out(n);
  if (!g_.value(out).type.IsTensor() || d_.labels.contains(out)) return false;
  const std::vector<Expr>& sizes = g_.Sizes(out);
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> operands, SameIndexOperands(n));
  if (!operands.empty()) {
    Index label(sizes.size(), b_.Zero());
    std::vector<bool> known(sizes.size(), false);
    for (size_t d = 0; d < sizes.size(); ++d) known[d] = sizes[d] == Expr(1);
    for (ValueId v : operands) {
      auto it = d_.labels.find(v);
      if (it == d_.labels.end()) continue;
      const std::vector<Expr>& s = g_.Sizes(v);
      for (size_t d = 0; d < s.size() && s.size() <= sizes.size(); ++d) {
        const size_t o = sizes.size() - s.size() + d;
        if (known[o] || s[d] != sizes[o]) continue;
        label[o] = it->second[d];
        known[o] = true;
      }
    }
    if (std::find(known.begin(), known.end(), false) != known.end() || !IsPlace(label, sizes)) return false;
    for (ValueId o : g_.node(n).outputs) d_.labels[o] = label;
    return true;
  }
  if (g_.IsReduction(n)) {
    SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, g_.SiteOf(n));
    auto it = d_.labels.find(s->input);
    if (it == d_.labels.end()) return false;
    SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, g_.ReductionOf(n));
    Index label;
    for (size_t d = 0; d < s->where.size(); ++d) {
      if (s->where[d] >= 0) {
        label.push_back(it->second[d]);
      } else if (m->keepdim) {
        label.push_back(b_.Zero());
      }
    }
    for (ValueId o : g_.node(n).outputs) d_.labels[o] = label;
    return true;
  }
  if (g_.SpecialOf(n) == OpFamily::kRegionView) {
    // A view that shows each dim of its base once, or not at all where it has size 1.
    const ValueId base = g_.node(n).inputs[0];
    auto it = d_.labels.find(base);
    if (it == d_.labels.end() || !g_.IsInternal(base)) return false;
    const SymbolicGeometry view = RegionGeometry(g_.node(n));
    const TensorType& t = g_.value(base).type.tensor();
    if (view.offset != Expr(0) || view.dtype != *t.dtype) return false;
    Index label;
    std::vector<bool> used(t.sizes->size(), false);
    for (size_t k = 0; k < view.sizes.size(); ++k) {
      if (view.sizes[k] == Expr(1)) {
        label.push_back(b_.Zero());
        continue;
      }
      bool found = false;
      for (size_t j = 0; j < t.sizes->size() && !found; ++j) {
        if (used[j] || (*t.sizes)[j] != view.sizes[k] || (*t.strides)[j] != view.strides[k]) continue;
        used[j] = found = true;
        label.push_back(it->second[j]);
      }
      if (!found) return false;
    }
    if (!IsPlace(label, sizes)) return false;
    d_.labels[out] = label;
    return true;
  }
  return false;
}

absl::StatusOr<bool> DomainChooser::LabelBackward(NodeId n) {
  const ValueId out = g_.Out(n);
  auto it = d_.labels.find(out);
  if (it == d_.labels.end()) return false;
  const Index label = it->second;
  const std::vector<Expr>& sizes = g_.Sizes(out);
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> operands, SameIndexOperands(n));
  bool changed = false;
  // This includes operands from outside: another node that reads them at its own index is placed by them.
  for (ValueId v : operands) {
    if (d_.labels.contains(v)) continue;
    const std::vector<Expr>& s = g_.Sizes(v);
    if (s.size() > sizes.size()) continue;
    Index place = BroadcastIndex(b_, label, sizes, s);
    if (!IsPlace(place, s)) continue;
    d_.labels[v] = std::move(place);
    changed = true;
  }
  if (operands.empty() && g_.IsReduction(n)) {
    SMELT_ASSIGN_OR_RETURN(std::optional<Site> s, g_.SiteOf(n));
    SMELT_ASSIGN_OR_RETURN(const ReductionMeaning* m, g_.ReductionOf(n));
    const bool one = s->reduced != d_.reduced && IsOneElement(s->reduced);
    if (d_.labels.contains(s->input) || (s->reduced != d_.reduced && !one)) return changed;
    Index in;
    size_t o = 0;
    for (int w : s->where) {
      if (w >= 0) {
        in.push_back(label[o++]);
      } else {
        in.push_back(one ? b_.Zero() : d_.reduced_index[-1 - w]);
        if (m->keepdim) ++o;
      }
    }
    if (!IsPlace(in, g_.Sizes(s->input))) return changed;
    d_.labels[s->input] = in;
    changed = true;
  }
  if (g_.SpecialOf(n) == OpFamily::kRegionView) {
    // As forward, but every dim of the base must be shown.
    const ValueId base = g_.node(n).inputs[0];
    if (!g_.IsInternal(base) || d_.labels.contains(base)) return changed;
    const SymbolicGeometry view = RegionGeometry(g_.node(n));
    const TensorType& t = g_.value(base).type.tensor();
    if (view.offset != Expr(0) || view.dtype != *t.dtype) return changed;
    Index in(t.sizes->size(), b_.Zero());
    std::vector<bool> shown(t.sizes->size(), false);
    for (size_t k = 0; k < view.sizes.size(); ++k) {
      if (view.sizes[k] == Expr(1)) continue;
      bool found = false;
      for (size_t j = 0; j < t.sizes->size() && !found; ++j) {
        if (shown[j] || (*t.sizes)[j] != view.sizes[k] || (*t.strides)[j] != view.strides[k]) continue;
        shown[j] = found = true;
        in[j] = label[k];
      }
      if (!found) return changed;
    }
    for (size_t j = 0; j < t.sizes->size(); ++j) {
      if (!shown[j] && (*t.sizes)[j] != Expr(1)) return changed;
    }
    d_.labels[base] = in;
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<Domain> ChooseDomain(Group& g, const std::vector<DimSplit>& splits, Builder& b) {
  return DomainChooser(g, splits, b).Choose();
}

Index BroadcastIndex(const Builder& b, const Index& index, const std::vector<Expr>& sizes,
                     const std::vector<Expr>& operand) {
  Index out;
  const size_t lead = sizes.size() - operand.size();
  for (size_t d = 0; d < operand.size(); ++d) {
    out.push_back(operand[d] == Expr(1) && sizes[lead + d] != Expr(1) ? b.Zero() : index[lead + d]);
  }
  return out;
}

}  // namespace smelt::kernel
