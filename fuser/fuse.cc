#include "smelt/fuser/fuse.h"

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/gather_group.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/merge_matmuls.h"

namespace smelt {
namespace {

constexpr int kBefore = -1;           // the position of what is ready before the block's first node
constexpr int kNever = INT_MAX;       // of what is needed only at the block's end
constexpr int kFree = 2;              // arithmetic that may be done again rather than stored and read
constexpr int64_t kRowLimit = 32768;  // elements that one tile may walk twice where no other tile shares the work

bool IsTransparent(const Node& n) {
  return n.op == "smelt::view" || n.op == "smelt::size" || n.op == "prim::Constant" || n.op == "prim::ListConstruct" ||
         n.op == "prim::TupleConstruct";
}
bool IsAction(const Node& n) { return absl::StartsWith(n.op.name(), "smelt::inplace_"); }
bool IsRegionOp(const Node& n) { return n.op == "smelt::write_region" || IsAction(n); }
// What is seen of a value's memory. Where arguments share memory it counts from the argument `home`, whose distance to
// another only the call knows; -1: from the memory's first byte.
struct Extent {
  Region region;
  int64_t home = -1;
};
Extent ExtentOf(const Node& n) {
  const SymbolicGeometry s = RegionGeometry(n);
  const Attribute* home = n.FindAttribute("argument");
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)),
          home != nullptr ? std::get<int64_t>(*home) : -1};
}
Extent ExtentOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (!g.IsParam(def) && g.node(def).op == "smelt::view") return ExtentOf(g.node(def));
  const SymbolicGeometry s = DefaultLayout(g, v);
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)), -1};
}
Overlap CompareExtents(const Extent& a, const Extent& b, const SymbolRanges& symbols) {
  return a.home == b.home ? Compare(a.region, b.region, symbols) : Overlap::kUnknown;
}
// Makes its result from numbers alone: any kernel that reads it can make it instead.
bool IsLeaf(const Node& n) {
  static const auto* const names = new absl::flat_hash_set<std::string>{
      "smelt::full",      "aten::full",          "aten::zeros",     "aten::ones",     "aten::full_like",
      "aten::zeros_like", "aten::ones_like",     "aten::new_zeros", "aten::new_ones", "aten::new_full",
      "aten::arange",     "aten::scalar_tensor", "aten::eye"};
  return names->contains(n.op.name());
}
bool IsAllocation(const Node& n) {
  return absl::StartsWith(n.op.name(), "aten::empty") || absl::StartsWith(n.op.name(), "aten::new_empty");
}

Expr Product(absl::Span<const Expr> v) {
  Expr n = 1;
  for (const Expr& e : v) n = n * e;
  return n;
}

// How a group's loop looks: the sizes of its dims, and which of them it reduces over.
struct Frame {
  std::vector<Expr> sizes;
  std::vector<bool> reduced;
  bool HasReduction() const { return std::find(reduced.begin(), reduced.end(), true) != reduced.end(); }
};
using Label = std::vector<int>;  // for each dim of a value the frame's dim, -1: the value has size 1 there

struct Group {
  std::vector<int> members;  // positions, ascending
  int at = 0;                // the position it stands at
  Frame frame;
  bool pullable = true;  // each value can be computed at any index: no reductions, no writes
  bool open = true;      // others may join
  bool pulled = false;   // some members are computed at other indices than the loop's: labels do not tell theirs
};

// How a node fits into a loop.
struct Shape {
  Frame frame;
  Label out;                                        // of each of its outputs
  std::vector<std::pair<ValueId, Label>> operands;  // that are read at the loop's own index
  bool any_index = true;                            // see Group::pullable
  bool joins = true;                                // may be in a group at all
};

class BlockFuser {
 public:
  BlockFuser(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report)
      : g_(g), block_(b), options_(options), report_(report) {}

  absl::Status Run() {
    nodes_ = g_.Nodes(block_);
    place_.assign(g_.node_index_bound(), INT_MIN);
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) place_[nodes_[i].index] = i;
    group_of_.assign(nodes_.size(), -1);
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const NodeId n = nodes_[i];
      if (IsRegionOp(g_.node(n))) writers_[Root(g_.node(n).inputs[0])].push_back(i);
    }
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) SMELT_RETURN_IF_ERROR(Visit(i));
    for (int k = 0; k < static_cast<int>(groups_.size()); ++k) Pull(k);
    JoinSiblings();
    return Emit();
  }

 private:
  const Node& N(int i) const { return g_.node(nodes_[i]); }
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  bool IsTensor(ValueId v) const { return g_.value(v).type.IsTensor(); }

  // --- where things are ---
  // The position in this block of the node, or of the node of this block that it is inside of; INT_MIN: it is
  // elsewhere.
  int PlaceOf(NodeId n) const {
    while (true) {
      if (n.index < place_.size() && place_[n.index] != INT_MIN) return place_[n.index];
      const BlockId parent = g_.node(n).parent;
      if (!parent.valid() || parent == block_) return INT_MIN;
      n = g_.block(parent).owner;
      if (!n.valid()) return INT_MIN;
    }
  }
  ValueId Root(ValueId v) const {
    while (true) {
      const NodeId def = g_.value(v).def;
      if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return v;
      v = g_.node(def).inputs[0];
    }
  }
  int DefPlace(ValueId v) const {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).parent != block_) return kBefore;
    return place_[def.index];
  }
  int At(int i) const { return group_of_[i] >= 0 ? groups_[group_of_[i]].at : i; }
  // When a value can be had at the earliest, given where groups stand.
  int Ready(ValueId v) const {
    const int i = DefPlace(v);
    if (i == kBefore) return kBefore;
    const Node& def = N(i);
    if (IsTransparent(def) || (IsAllocation(def) && group_of_[i] < 0)) {
      int ready = kBefore;
      for (ValueId x : def.inputs) ready = std::max(ready, Ready(x));
      return ready;
    }
    return At(i);
  }
  // The first position outside of groups a and b at which a value is needed. Ends early at one that is at most
  // `enough`: a value may have very many uses.
  int Needed(ValueId v, int a, int b, int enough = INT_MIN) const {
    int first = kNever;
    for (const Use& u : g_.value(v).uses) {
      if (first <= enough) return first;
      if (g_.IsReturn(u.user)) {
        if (g_.node(u.user).parent != block_) {
          const int i = PlaceOf(g_.block(g_.node(u.user).parent).owner);
          if (i != INT_MIN) first = std::min(first, At(i));
        }
        continue;
      }
      const int i = PlaceOf(u.user);
      if (i == INT_MIN) continue;
      if (group_of_[i] >= 0 && (group_of_[i] == a || group_of_[i] == b)) continue;
      if (nodes_[i] == u.user && IsTransparent(N(i))) {
        for (ValueId o : N(i).outputs) first = std::min(first, Needed(o, a, b, enough));
        continue;
      }
      first = std::min(first, At(i));
    }
    return first;
  }
  // Calls f(position) for each reader of a memory's contents `root`, through views and lists.
  template <typename F>
  void ForReaders(ValueId v, const F& f) const {
    for (const Use& u : g_.value(v).uses) {
      if (g_.IsReturn(u.user)) continue;
      const int i = PlaceOf(u.user);
      if (i == INT_MIN) continue;
      if (nodes_[i] == u.user && IsTransparent(N(i))) {
        for (ValueId o : N(i).outputs) ForReaders(o, f);
        continue;
      }
      if (nodes_[i] == u.user && IsRegionOp(N(i)) && u.index == 0) continue;  // takes the memory over
      f(i);
    }
  }
  template <typename F>
  void ForOperands(int i, const F& f) const {
    for (ValueId v : N(i).inputs) {
      if (IsTensor(v)) {
        f(v);
      } else if (auto list = GetListElements(g_, v)) {
        for (ValueId e : *list) {
          if (IsTensor(e)) f(e);
        }
      } else {
        f(v);
      }
    }
  }

  // --- how nodes fit ---
  static Label Identity(size_t rank, const std::vector<Expr>& sizes) {
    Label l;
    for (size_t d = 0; d < rank; ++d) l.push_back(sizes[d] == Expr(1) ? -1 : static_cast<int>(d));
    return l;
  }
  std::optional<Shape> ShapeOf(int i) const {
    const Node& n = N(i);
    Shape s;
    if (!IsKernelNode(g_, nodes_[i]) || n.op == "smelt::FusionGroup" || IsAllocation(n)) return std::nullopt;
    const std::vector<Expr>& sizes = *T(n.outputs[0]).sizes;
    if (IsAction(n)) {
      s.any_index = s.joins = false;
      return s;
    }
    if (n.op == "smelt::write_region") {
      const std::vector<Expr>& region = *T(n.inputs[1]).sizes;
      s.frame.sizes = region;
      s.frame.reduced.assign(region.size(), false);
      s.out = Identity(region.size(), region);
      s.operands.push_back({n.inputs[1], s.out});
      s.any_index = false;
      // A region whose elements are all at one place is empty, or was refused. A row's kernel would not know: what does
      // not move along the row is stored once.
      const std::vector<Expr>& strides = RegionGeometry(n).strides;
      for (size_t d = 0; d < region.size(); ++d) s.joins = s.joins && (strides[d] != Expr(0) || region[d] == Expr(1));
      return s;
    }
    const std::string& name = n.op.name();
    const OpKind kind = GetOpInfo(n.op).kind;
    if (kind == OpKind::kReduction) {
      auto call = OpCall::Of(g_, nodes_[i]);
      if (!call.ok()) return std::nullopt;
      auto m = BuildReduction(*call);
      if (!m.ok()) return std::nullopt;
      const ValueId in = call->arg(m->arg).value;
      s.frame.sizes = *T(in).sizes;
      s.frame.reduced.assign(s.frame.sizes.size(), false);
      for (int d : m->dims) s.frame.reduced[d] = true;
      const Label whole = Identity(s.frame.sizes.size(), s.frame.sizes);
      s.operands.push_back({in, whole});
      for (size_t d = 0; d < whole.size(); ++d) {
        if (m->is_scan || !s.frame.reduced[d]) {
          s.out.push_back(whole[d]);
        } else if (m->keepdim) {
          s.out.push_back(-1);
        }
      }
      s.any_index = false;
      if (!s.frame.HasReduction()) s.joins = false;
      return s;
    }
    s.frame.sizes = sizes;
    s.frame.reduced.assign(sizes.size(), false);
    s.out = Identity(sizes.size(), sizes);
    const bool special_window =
        absl::StrContains(name, "_pool") || name == "aten::col2im" || name == "aten::masked_scatter";
    if (special_window) {
      // Reduces over a window that is no dim of anything else.
      s.any_index = false;
      s.joins = false;
      return s;
    }
    if (kind == OpKind::kPointwise || name == "smelt::materialize" || name == "aten::tril" || name == "aten::triu") {
      for (ValueId v : n.inputs) AddOperand(s, v, sizes);
      if (n.inputs.size() == 1 || kind != OpKind::kPointwise) return s;
      for (ValueId v : n.inputs) {
        if (auto list = IsTensor(v) ? std::nullopt : GetListElements(g_, v)) {
          for (ValueId e : *list) AddOperand(s, e, sizes);
        }
      }
      return s;
    }
    return s;  // gathers, pads...: no operand is read at the loop's own index
  }
  void AddOperand(Shape& s, ValueId v, const std::vector<Expr>& sizes) const {
    if (!IsTensor(v) || !T(v).IsComplete()) return;
    const std::vector<Expr>& own = *T(v).sizes;
    if (own.size() > sizes.size()) return;
    Label l;
    const size_t lead = sizes.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d) l.push_back(own[d] == Expr(1) ? -1 : s.out[lead + d]);
    s.operands.push_back({v, std::move(l)});
  }

  // The label of a view's base, given the view's: where the view shows each dim of its base once. False: it does not.
  bool ThroughView(NodeId view, const Label& label, Label* base_label) const {
    const Node& n = g_.node(view);
    const SymbolicGeometry shown = RegionGeometry(n);
    const TensorType& t = T(n.inputs[0]);
    if (!t.IsComplete() || *t.dtype != shown.dtype || shown.offset != Expr(0)) return false;
    base_label->assign(t.sizes->size(), -1);
    std::vector<bool> used(t.sizes->size(), false);
    for (size_t k = 0; k < shown.sizes.size(); ++k) {
      if (shown.sizes[k] == Expr(1) || shown.strides[k] == Expr(0)) continue;
      bool found = false;
      for (size_t j = 0; j < used.size() && !found; ++j) {
        if (used[j] || (*t.sizes)[j] != shown.sizes[k] || (*t.strides)[j] != shown.strides[k]) continue;
        used[j] = found = true;
        (*base_label)[j] = label[k];
      }
      if (!found) return false;
    }
    for (size_t j = 0; j < used.size(); ++j) {
      if (!used[j] && (*t.sizes)[j] != Expr(1)) return false;
    }
    return true;
  }

  // --- joining ---
  std::string Describe(int i) const {
    return absl::StrCat(N(i).op.full(), " %", N(i).outputs.empty() ? "" : g_.value(N(i).outputs[0]).name);
  }
  // The last word on an edge holds; ReportEdges says it.
  void Explain(int producer, int consumer, absl::string_view reason) {
    if (options_.explain) reasons_[{producer, consumer}] = std::string(reason);
  }

  absl::Status Visit(int i) {
    const NodeId n = nodes_[i];
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    for (BlockId b : blocks) {
      SMELT_RETURN_IF_ERROR(BlockFuser(g_, b, options_, report_).Run());
    }
    std::optional<Shape> shape = ShapeOf(i);
    if (!shape) {
      return absl::OkStatus();
    }
    const int own = static_cast<int>(groups_.size());
    Group fresh;
    fresh.members = {i};
    fresh.at = i;
    fresh.frame = shape->frame;
    fresh.pullable = shape->any_index;
    fresh.open = shape->joins;
    groups_.push_back(std::move(fresh));
    group_of_[i] = own;
    for (ValueId v : N(i).outputs) labels_[v] = shape->out;
    if (!shape->joins) return absl::OkStatus();
    // What is read at the loop's own index, latest made first.
    struct Candidate {
      int producer;
      ValueId value;  // without views
      Label label;
    };
    std::vector<Candidate> candidates;
    for (auto& [v, label] : shape->operands) {
      ValueId at = v;
      Label l = label;
      bool simple = true;
      while (simple) {
        const NodeId def = g_.value(at).def;
        if (g_.IsParam(def) || g_.node(def).op != "smelt::view") break;
        Label next;
        simple = ThroughView(def, l, &next);
        if (simple) {
          at = g_.node(def).inputs[0];
          l = std::move(next);
        }
      }
      const int p = DefPlace(Root(at));
      if (p < 0 || group_of_[p] < 0) continue;
      if (!simple) {
        Explain(p, i, "it is read through a view that slices or reshapes it");
        continue;
      }
      candidates.push_back({p, at, std::move(l)});
    }
    // A region written after others of the same fresh memory may share their loop.
    if (N(i).op == "smelt::write_region") {
      const int p = DefPlace(N(i).inputs[0]);
      if (p >= 0 && group_of_[p] >= 0 && N(p).op == "smelt::write_region")
        candidates.push_back({p, N(i).inputs[0], shape->out});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return At(a.producer) > At(b.producer); });
    for (const Candidate& c : candidates) {
      if (group_of_[c.producer] == group_of_[i]) continue;
      std::string reason;
      Join(group_of_[i], group_of_[c.producer], c.value, c.label, i, &reason);
      Explain(c.producer, i, reason);
    }
    return absl::OkStatus();
  }

  // Group b's value `v` is read by group a at `expected`. Makes b part of a if the loop, the order and the memory allow
  // it.
  bool Join(int a, int b, ValueId v, const Label& expected, int consumer, std::string* reason) {
    Group& ga = groups_[a];
    Group& gb = groups_[b];
    if (!gb.open || !ga.open) {
      *reason = "the producer's kernel is closed (an indexed write or a window)";
      return false;
    }
    if (static_cast<int>(ga.members.size() + gb.members.size()) > options_.max_group_nodes) {
      *reason = "the kernel would grow too large";
      return false;
    }
    // The loops.
    Frame frame = ga.frame;
    std::vector<int> to(gb.frame.sizes.size(), -1);  // b's dims in the frame
    const Label& have = labels_.at(v);
    const bool chain = N(DefPlace(v)).op == "smelt::write_region";
    if (chain && have.size() != expected.size()) {
      *reason = "regions of different shape";
      return false;
    }
    for (size_t d = 0; d < have.size(); ++d) {
      if (have[d] < 0) continue;
      if (expected[d] < 0 || gb.frame.sizes[have[d]] != frame.sizes[expected[d]]) {
        *reason = "the loops differ in size";
        return false;
      }
      if (to[have[d]] >= 0 && to[have[d]] != expected[d]) {
        *reason = "the loops' dims do not correspond";
        return false;
      }
      to[have[d]] = expected[d];
    }
    std::vector<bool> hit(frame.sizes.size(), false);
    for (int t : to) {
      if (t < 0) continue;
      if (hit[t]) {
        *reason = "the loops' dims do not correspond";
        return false;
      }
      hit[t] = true;
    }
    std::vector<int> unmapped;
    for (size_t d = 0; d < to.size(); ++d) {
      if (to[d] >= 0 || gb.frame.sizes[d] == Expr(1)) continue;
      if (!gb.frame.reduced[d]) {
        *reason = "the producer runs over dims that the consumer does not have";
        return false;
      }
      unmapped.push_back(static_cast<int>(d));
    }
    std::vector<int> missing;  // dims of the frame that b's value does not run over
    for (size_t d = 0; d < frame.sizes.size(); ++d) {
      if (!hit[d] && frame.sizes[d] != Expr(1)) missing.push_back(static_cast<int>(d));
    }
    const bool a_reduces = ga.frame.HasReduction(), b_reduces = gb.frame.HasReduction();
    if (!unmapped.empty()) {
      // b's value is a reduction's result. Its reduced dims are those the consumer has and it lacks, or new ones.
      std::vector<int> targets;
      if (missing.empty()) {
        if (a_reduces) {
          *reason = "the consumer reduces over other dims";
          return false;
        }
        for (int d : unmapped) {
          targets.push_back(static_cast<int>(frame.sizes.size()));
          frame.sizes.push_back(gb.frame.sizes[d]);
          frame.reduced.push_back(true);
          hit.push_back(true);
        }
      } else {
        targets = missing;
      }
      if (targets.size() != unmapped.size()) {
        *reason = "the result of a reduction is spread over other dims than it reduced";
        return false;
      }
      for (size_t k = 0; k < unmapped.size(); ++k) {
        if (frame.sizes[targets[k]] != gb.frame.sizes[unmapped[k]]) {
          *reason = "the result of a reduction is spread over dims of another size";
          return false;
        }
        if (a_reduces && !frame.reduced[targets[k]]) {
          *reason = "the consumer reduces over other dims";
          return false;
        }
        to[unmapped[k]] = targets[k];
        frame.reduced[targets[k]] = true;
      }
      if (a_reduces) {
        for (size_t d = 0; d < frame.reduced.size(); ++d) {
          const bool is_target = std::find(targets.begin(), targets.end(), static_cast<int>(d)) != targets.end();
          if (frame.reduced[d] && !is_target && frame.sizes[d] != Expr(1)) {
            *reason = "the consumer reduces over other dims";
            return false;
          }
        }
      }
    } else {
      if (b_reduces) {
        // b's value runs over all of its loop: the dims it reduces are the consumer's too.
        for (size_t d = 0; d < to.size(); ++d) {
          if (to[d] < 0) continue;
          if (a_reduces && frame.reduced[to[d]] != gb.frame.reduced[d]) {
            *reason = "the consumer reduces over other dims";
            return false;
          }
          if (gb.frame.reduced[d]) frame.reduced[to[d]] = true;
        }
      }
      for (int d : missing) {
        if (!frame.reduced[d]) {
          *reason = "the producer's values would be computed again along a broadcast dim";
          return false;
        }
      }
    }
    // One tile alone should not walk a large array twice.
    if (frame.HasReduction()) {
      Expr outer = 1, inner = 1;
      for (size_t d = 0; d < frame.sizes.size(); ++d)
        (frame.reduced[d] ? inner : outer) = (frame.reduced[d] ? inner : outer) * frame.sizes[d];
      const bool few = outer.IsConstant() && *outer.Constant() < 8;
      const bool small = inner.IsConstant() && *inner.Constant() <= kRowLimit;
      if (few && !small && b_reduces) {
        *reason = "a reduction over nearly everything: what follows runs in parallel as a kernel of its own";
        return false;
      }
    }
    // Where it can stand.
    int at;
    if (!CanStand(a, b, &at, reason) || !MemoryAllows(a, b, frame.HasReduction(), reason)) return false;
    // Done.
    for (int m : gb.members) {
      for (ValueId o : N(m).outputs) {
        auto it = labels_.find(o);
        if (it == labels_.end()) continue;
        for (int& d : it->second) {
          if (d >= 0) d = to[d];
        }
      }
    }
    Absorb(a, b, at);
    ga.frame = std::move(frame);
    *reason = chain ? "regions of one memory written by one loop" : b_reduces ? "one kernel a row" : "the same loop";
    return true;
  }

  // Whether a and b can be one node, and where. Either at the later one's place, if nothing between needs what the
  // earlier one makes and no memory that it reads is taken over between; or at the earlier one's, if all is ready.
  bool CanStand(int a, int b, int* at, std::string* reason) {
    const int early = groups_[a].at < groups_[b].at ? a : b;
    const int late = early == a ? b : a;
    const int first = groups_[early].at, last = groups_[late].at;
    bool ok = true;
    for (int m : groups_[early].members) {
      for (ValueId o : N(m).outputs) ok = ok && Needed(o, a, b, last) > last;
      if (!ok) break;
      ForOperands(m, [&](ValueId v) {
        if (!IsTensor(v)) return;
        auto it = writers_.find(Root(v));
        if (it == writers_.end()) return;
        for (int w : it->second) {
          if (group_of_[w] == a || group_of_[w] == b) continue;
          const int p = At(w);
          if (p > first && p < last) ok = false;
        }
      });
      if (!ok) break;
    }
    if (ok) {
      *at = last;
      return true;
    }
    ok = true;
    int obstacle = -1;
    bool by_memory = false;
    for (int m : groups_[late].members) {
      ForOperands(m, [&](ValueId v) {
        const int p = DefPlace(v);
        if (p >= 0 && (group_of_[p] == a || group_of_[p] == b)) return;
        const ValueId root = IsTensor(v) ? Root(v) : v;
        const int q = DefPlace(root);
        if (q >= 0 && (group_of_[q] == a || group_of_[q] == b)) return;
        if (Ready(v) < first) return;
        ok = false;
        obstacle = q;
      });
      if (!ok) break;
      if (IsRegionOp(N(m))) {
        ForReaders(Root(N(m).inputs[0]), [&](int r) {
          if (group_of_[r] >= 0 && (group_of_[r] == a || group_of_[r] == b)) return;
          const int p = At(r);
          if (p <= first || p >= last) return;
          ok = false;
          obstacle = r;
          by_memory = true;
        });
      }
      if (!ok) break;
    }
    if (ok) {
      *at = first;
      return true;
    }
    *reason = absl::StrCat(
        obstacle >= 0 ? Describe(obstacle) : "a node", ", between the two, ",
        by_memory ? "reads memory that the consumer's kernel takes over" : "needs the one and is needed by the other");
    return false;
  }

  // The contents that a chain of region writes inside groups a and b begins with.
  ValueId ChainBase(int w, int a, int b) const {
    while (true) {
      const ValueId base = Root(N(w).inputs[0]);
      const int p = DefPlace(base);
      if (p < 0 || N(p).op != "smelt::write_region" || (group_of_[p] != a && group_of_[p] != b)) return base;
      w = p;
    }
  }

  // A kernel may write a region and read the same memory only at the same index or elsewhere; it may not read what it
  // wrote.
  bool MemoryAllows(int a, int b, bool reduces, std::string* reason) const {
    std::vector<int> writes, members;
    for (int k : {a, b}) {
      for (int m : groups_[k].members) {
        members.push_back(m);
        if (N(m).op == "smelt::write_region") writes.push_back(m);
      }
    }
    if (!writes.empty()) {
      for (int m : members) {
        bool ok = true;
        const bool is_write = N(m).op == "smelt::write_region";
        const ValueId memory = is_write ? N(m).inputs[0] : ValueId();
        ForOperands(m, [&](ValueId v) {
          if (!IsTensor(v)) return;
          const ValueId root = Root(v);
          for (int w : writes) {
            if (root == N(w).outputs[0]) {
              // Only the next link of a chain of disjoint regions, nobody else looking.
              const bool link = v == memory && v == root && g_.value(root).uses.size() == 1 &&
                                CompareExtents(ExtentOf(N(m)), ExtentOf(N(w)), g_.symbols) == Overlap::kDisjoint;
              ok = ok && link;
            }
            if (root == Root(N(w).inputs[0]) && v != memory) {
              const Overlap o = CompareExtents(ExtentOf(g_, v), ExtentOf(N(w)), g_.symbols);
              // A list's elements are chosen from by index.
              const bool same = o == Overlap::kSame && !reduces && absl::c_linear_search(N(m).inputs, v);
              ok = ok && (o == Overlap::kDisjoint || same);
            }
          }
        });
        if (!ok) {
          *reason = "the kernel would write memory that it reads at other indices";
          return false;
        }
      }
    }
    // Of two writes to one element a kernel does not know which comes last.
    for (int w : writes) {
      for (int x : writes) {
        if (group_of_[w] != a || group_of_[x] != b || ChainBase(w, a, b) != ChainBase(x, a, b)) continue;
        if (CompareExtents(ExtentOf(N(w)), ExtentOf(N(x)), g_.symbols) == Overlap::kDisjoint) continue;
        *reason = "the kernel would write one region twice";
        return false;
      }
    }
    // Operands.
    absl::flat_hash_set<ValueId> operands;
    for (int m : members) {
      ForOperands(m, [&](ValueId v) {
        const int p = DefPlace(IsTensor(v) ? Root(v) : v);
        if (p < 0 || (group_of_[p] != a && group_of_[p] != b)) {
          if (p >= 0 && N(p).op == "prim::Constant") return;
          operands.insert(v);
        }
      });
    }
    if (static_cast<int>(operands.size()) > options_.max_group_operands) {
      *reason = "the kernel would have too many operands";
      return false;
    }
    return true;
  }

  // --- siblings ---
  // Kernels over one loop that have no value of each other's in common, but read one operand: it is read once.
  void JoinSiblings() {
    absl::flat_hash_map<ValueId, int> reader;  // by operand: the last group that reads all of it in its loop's order
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (group_of_[i] < 0 || GetOpInfo(N(i).op).kind != OpKind::kPointwise) continue;
      for (ValueId v : N(i).inputs) {
        if (!IsTensor(v) || *T(v).sizes != *T(N(i).outputs[0]).sizes) continue;
        const int k = group_of_[i];
        const int p = DefPlace(Root(v));
        if (p >= 0 && group_of_[p] == k) continue;
        auto [it, first] = reader.try_emplace(v, i);
        if (first || group_of_[it->second] == k || JoinSibling(it->second, i)) continue;
        it->second = i;
      }
    }
  }

  // Memory that is read beside each other in one loop, beyond which the hardware does not fetch ahead.
  static constexpr size_t kStreams = 12;

  // Nodes i and j, of two groups, read one operand over the whole of their loops.
  bool JoinSibling(int i, int j) {
    const int a = group_of_[j], b = group_of_[i];
    Group& ga = groups_[a];
    Group& gb = groups_[b];
    if (!ga.open || !gb.open || ga.pulled || gb.pulled || !ga.pullable || !gb.pullable ||
        ga.frame.sizes != gb.frame.sizes)
      return false;
    if (ga.frame.HasReduction() || gb.frame.HasReduction()) return false;
    if (labels_.at(N(i).outputs[0]) != labels_.at(N(j).outputs[0])) return false;
    if (static_cast<int>(ga.members.size() + gb.members.size()) > options_.max_group_nodes) return false;
    absl::flat_hash_set<ValueId> streams;
    for (int k : {a, b}) {
      for (int m : groups_[k].members) {
        for (ValueId v : N(m).inputs) {
          if (!IsTensor(v)) continue;
          const int p = DefPlace(Root(v));
          if (p >= 0 && (group_of_[p] == a || group_of_[p] == b)) continue;
          // Each lies in the order of the loop: a transposed operand would make both walk in tiles.
          const std::vector<Expr>& strides = *T(v).strides;
          if (!strides.empty() && strides.back() != Expr(1) && T(v).sizes->back() != Expr(1)) return false;
          streams.insert(v);
        }
        for (ValueId v : N(m).outputs) {
          for (const Use& u : g_.value(v).uses) {
            const int q = PlaceOf(u.user);
            if (q < 0 || (group_of_[q] != a && group_of_[q] != b)) streams.insert(v);
          }
        }
      }
    }
    std::string reason;
    int at;
    if (streams.size() > kStreams || !CanStand(a, b, &at, &reason) || !MemoryAllows(a, b, false, &reason)) return false;
    Absorb(a, b, at);
    return true;
  }

  // b's members become a's.
  void Absorb(int a, int b, int at) {
    Group &ga = groups_[a], &gb = groups_[b];
    for (int m : gb.members) group_of_[m] = a;
    std::vector<int> members;
    std::merge(ga.members.begin(), ga.members.end(), gb.members.begin(), gb.members.end(), std::back_inserter(members));
    ga.members = std::move(members);
    ga.at = at;
    ga.pullable = ga.pullable && gb.pullable;
    gb = Group();
    gb.open = false;
  }

  // --- pulling producers in ---
  // Arithmetic an element costs, in additions.
  int CostOf(int i) const {
    const std::string& name = N(i).op.name();
    const OpKind kind = GetOpInfo(N(i).op).kind;
    if (name == "smelt::materialize" || name == "aten::clone" || IsLeaf(N(i))) return 0;
    if (kind != OpKind::kPointwise) return 3;  // index arithmetic
    static const auto* const cheap = new absl::flat_hash_set<std::string>{
        "aten::add",         "aten::sub",         "aten::mul",        "aten::neg",
        "aten::abs",         "aten::relu",        "aten::where",      "prims::convert_element_type",
        "aten::_to_copy",    "aten::to",          "aten::eq",         "aten::ne",
        "aten::lt",          "aten::le",          "aten::gt",         "aten::ge",
        "aten::maximum",     "aten::minimum",     "aten::clamp",      "aten::rsub",
        "aten::logical_not", "aten::logical_and", "aten::logical_or", "aten::bitwise_and",
        "aten::bitwise_or",  "aten::bitwise_not", "aten::masked_fill"};
    if (cheap->contains(name)) return 1;
    if (name == "aten::div" || name == "aten::sqrt" || name == "aten::rsqrt" || name == "aten::reciprocal") return 6;
    return 20;
  }

  // How often node i's loop computes the operand v if it is made there: at each point of the loop, but once a row where
  // v runs over none of the dims that the row is reduced over. (A view in between hides what it runs over.)
  Expr Evaluations(ValueId v, int i, const Frame& frame) const {
    Expr rows = 1, points = 1;
    for (size_t d = 0; d < frame.sizes.size(); ++d) {
      points = points * frame.sizes[d];
      if (!frame.reduced[d]) rows = rows * frame.sizes[d];
    }
    auto label = labels_.find(N(i).outputs[0]);
    if (label == labels_.end() || GetOpInfo(N(i).op).kind != OpKind::kPointwise) return points;
    // The consumer itself may run over fewer dims than its kernel.
    bool reduced = false;
    for (int d : label->second) reduced = reduced || (d >= 0 && frame.reduced[d]);
    if (!reduced) return rows;
    if (!IsTensor(v)) return rows;
    const std::vector<Expr>& own = *T(v).sizes;
    if (std::find(N(i).inputs.begin(), N(i).inputs.end(), v) == N(i).inputs.end()) return points;
    const size_t lead = label->second.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d) {
      const int at = label->second[lead + d];
      if (own[d] != Expr(1) && at >= 0 && frame.reduced[at]) return points;
    }
    return rows;
  }

  // Group k, all of whose results are read by one other group, becomes part of it even where that reads slices,
  // reshapes or broadcasts of them, if that computes nothing twice, or only what is cheaper than reading it.
  void Pull(int k) {
    if (groups_[k].members.empty() || !groups_[k].pullable) return;
    int into = -1;
    absl::string_view obstacle;
    Expr evaluations = 0, elements = 0;
    bool ok = true;
    std::vector<std::pair<int, int>> edges;
    auto visit = [&](auto&& self, ValueId v) -> void {
      for (const Use& u : g_.value(v).uses) {
        if (!ok) return;
        const int i = g_.IsReturn(u.user) ? INT_MIN : PlaceOf(u.user);
        if (i == INT_MIN || nodes_[i] != u.user) {
          obstacle = "its result leaves the block, so it is stored anyway";
          ok = false;
          return;
        }
        if (IsTransparent(N(i))) {
          for (ValueId o : N(i).outputs) self(self, o);
          continue;
        }
        const int g = group_of_[i];
        if (g == k) continue;
        edges.push_back({DefPlace(Root(v)), i});
        if (g < 0 || (into >= 0 && g != into) || (IsRegionOp(N(i)) && u.index == 0)) {
          obstacle = g < 0 ? "a library call, a random draw or control flow reads it too, so it is stored anyway"
                     : g != into && into >= 0 ? "several kernels read it, so it is stored once"
                                              : "it is the memory that a region is written into";
          ok = false;
          return;
        }
        into = g;
        Expr count = IsTensor(v) ? Product(*T(v).sizes) : Expr(1);
        if (!IsAction(N(i)) && IsTensor(N(i).outputs[0]) && groups_[g].open) {
          const Expr points = Evaluations(v, i, groups_[g].frame);
          const std::optional<bool> fewer = g_.symbols.Less(count, points);
          if (!fewer || *fewer) count = points;
        }
        evaluations = evaluations + count;
      }
    };
    int cost = 0;
    for (int m : groups_[k].members) {
      cost += CostOf(m);
      for (ValueId o : N(m).outputs) {
        const bool outside = Needed(o, k, k, kNever - 1) != kNever;
        visit(visit, o);
        if (outside) elements = elements + Product(*T(o).sizes);
      }
    }
    auto explain = [&](absl::string_view why) {
      for (auto [p, c] : edges) Explain(p, c, why);
    };
    if (!ok) return explain(obstacle);
    if (into < 0 || into == k) return;
    Group& target = groups_[into];
    if (static_cast<int>(target.members.size() + groups_[k].members.size()) > options_.max_group_nodes)
      return explain("the kernel would grow too large");
    if (target.at <= groups_[k].at) return explain("the consumer's kernel stands before it");
    std::string reason;
    const std::optional<bool> once = g_.symbols.LessOrEqual(evaluations, elements);
    const bool free = cost <= kFree && elements != Expr(0);
    if (!(once && *once) && !free)
      return explain("it would be computed again for each use, which costs more than reading it");
    // At the consumer's place, past which no memory that it reads is taken over.
    for (int m : groups_[k].members) {
      ForOperands(m, [&](ValueId v) {
        if (!IsTensor(v)) return;
        auto it = writers_.find(Root(v));
        if (it == writers_.end()) return;
        for (int w : it->second) {
          const int p = At(w);
          if (group_of_[w] != into && p > groups_[k].at && p < target.at) ok = false;
        }
      });
    }
    if (!ok) return explain("memory that it reads is taken over before the consumer runs");
    // Reads at other indices than its writes are no longer the same index.
    if (!MemoryAllows(into, k, true, &reason)) return explain(reason);
    Absorb(into, k, target.at);
    target.pulled = true;
    explain("computed where it is read");
  }

  // Each edge between two nodes that are no mere views, numbers or lists, once, in the order of consumers.
  void ReportEdges() {
    if (!options_.explain) return;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (IsTransparent(N(i)) || IsAllocation(N(i))) continue;
      absl::flat_hash_set<int> seen;
      ForOperands(i, [&](ValueId v) {
        const int p = IsTensor(v) ? DefPlace(Root(v)) : kBefore;
        if (p < 0 || IsTransparent(N(p)) || !seen.insert(p).second) return;
        const bool fused = group_of_[p] >= 0 && group_of_[p] == group_of_[i];
        auto it = reasons_.find({p, i});
        std::string reason = it != reasons_.end() ? it->second : DefaultReason(p, i, fused);
        edge_groups_.push_back(fused ? group_of_[i] : -1);
        report_.edges.push_back({Describe(p), Describe(i), fused, std::move(reason)});
      });
    }
  }
  // Where no step of the pass met the edge.
  std::string DefaultReason(int p, int i, bool fused) const {
    if (fused) return "already in one kernel by another edge";
    if (IsLeaf(N(p))) return "a constant fill: a kernel that needs it makes it itself";
    if (IsAllocation(N(p))) return "memory without contents";
    if (group_of_[i] < 0) return "the consumer is a library call, a random draw or control flow";
    if (group_of_[p] < 0) return "the producer is a library call, a random draw or control flow";
    if (IsRegionOp(N(i)) && Root(N(i).inputs[0]) == Root(N(p).outputs[0]))
      return "it is the memory that a region is written into";
    if (!groups_[group_of_[p]].pullable)
      return "it is read at other indices than it is made, and a reduction or a write is made once";
    return "it is read at other indices than it is made";
  }
  // A group that is none after all.
  void ReportSplit(int k, absl::string_view why) {
    for (size_t e = 0; e < edge_groups_.size(); ++e) {
      if (edge_groups_[e] != k) continue;
      FusionEdge& edge = report_.edges[first_edge_ + e];
      edge.fused = false;
      edge.reason = std::string(why);
    }
  }

  // --- the groups' nodes ---
  absl::Status Emit() {
    first_edge_ = report_.edges.size();
    ReportEdges();
    for (int k = 0; k < static_cast<int>(groups_.size()); ++k) {
      if (groups_[k].members.empty()) continue;
      SMELT_ASSIGN_OR_RETURN(bool made, EmitGroup(k));
      if (made) {
        ++report_.groups;
        report_.fused_nodes += static_cast<int>(groups_[k].members.size());
      } else {
        report_.single_kernels += static_cast<int>(groups_[k].members.size());
      }
    }
    return absl::OkStatus();
  }

  // Copies of constants, lists, sizes and leaves, inside a group.
  struct Copier {
    Graph& sub;
    absl::flat_hash_map<ValueId, ValueId> inner;
    std::vector<ValueId> operands;
  };
  void CopyNode(Copier& c, NodeId n) {
    const Node& node = g_.node(n);
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(Inner(c, v));
    std::vector<Type> types;
    for (ValueId v : node.outputs) types.push_back(g_.value(v).type);
    NodeId fresh = c.sub.Append(c.sub.top(), node.op, inputs, types, node.attributes);
    c.sub.SetSource(fresh, node.source);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId o = c.sub.node(fresh).outputs[i];
      if (g_.value(node.outputs[i]).expr) c.sub.SetExpr(o, g_.value(node.outputs[i]).expr);
      c.inner[node.outputs[i]] = o;
    }
  }
  ValueId Inner(Copier& c, ValueId v) {
    if (auto it = c.inner.find(v); it != c.inner.end()) return it->second;
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def)) {
      const Node& node = g_.node(def);
      const Attribute* value = node.op == "prim::Constant" ? node.FindAttribute("value") : nullptr;
      const bool tensor = value != nullptr && std::holds_alternative<Tensor>(*value);
      // Of a value made inside; a view of an operand is an operand itself.
      auto base = c.inner.find(Root(v));
      const bool internal_view =
          node.op == "smelt::view" && base != c.inner.end() && !c.sub.IsParam(c.sub.value(base->second).def);
      bool copy = (node.op == "prim::Constant" && !tensor) || node.op == "prim::ListConstruct" ||
                  node.op == "smelt::size" || internal_view;
      if (IsLeaf(node) && IsKernelNode(g_, def)) {
        // A leaf's arguments are numbers; one computed at run time stays outside.
        copy = true;
        for (ValueId x : node.inputs)
          copy = copy && !IsTensor(x) && (GetConstant(g_, x) || g_.value(x).expr || GetIntListExpr(g_, x));
      }
      if (copy) {
        CopyNode(c, def);
        return c.inner.at(v);
      }
      if (!g_.value(v).type.IsTensor() && g_.value(v).expr) {
        // An integer that is an expression over sizes.
        NodeId size =
            c.sub.Append(c.sub.top(), OpName::Get("smelt::size"), {}, {Type::Int()}, {{"value", *g_.value(v).expr}});
        c.sub.SetExpr(c.sub.node(size).outputs[0], g_.value(v).expr);
        return c.inner[v] = c.sub.node(size).outputs[0];
      }
    }
    const ValueId in = c.sub.AddInput("", g_.value(v).type);
    if (g_.value(v).expr) c.sub.SetExpr(in, g_.value(v).expr);
    c.operands.push_back(v);
    return c.inner[v] = in;
  }
  // A base must be an operand, whatever makes it.
  void TakeBase(Copier& c, ValueId v) {
    if (c.inner.contains(v)) return;
    const ValueId in = c.sub.AddInput("", g_.value(v).type);
    c.operands.push_back(v);
    c.inner[v] = in;
  }

  std::string NameOf(const Group& group) const {
    std::string name;
    int words = 0;
    for (int m : group.members) {
      const std::string& full = N(m).op.name();
      const size_t colon = full.rfind(':');
      const std::string word = colon == std::string::npos ? full : full.substr(colon + 1);
      if (++words > 6) break;
      absl::StrAppend(&name, name.empty() ? "" : "_", word);
    }
    return name;
  }

  // Moves a transparent node, and those it needs, before `anchor`.
  void Hoist(ValueId v, NodeId anchor) {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).parent != block_ || def == anchor || g_.IsBefore(def, anchor)) return;
    for (ValueId x : g_.node(def).inputs) Hoist(x, anchor);
    g_.MoveBefore(def, anchor);
  }
  // Moves transparent users of a value after `anchor`.
  void Sink(ValueId v, NodeId anchor) {
    std::vector<NodeId> users;
    for (const Use& u : g_.value(v).uses) {
      if (g_.IsReturn(u.user) || g_.node(u.user).parent != block_) continue;
      if (IsTransparent(g_.node(u.user)) && g_.IsBefore(u.user, anchor)) users.push_back(u.user);
    }
    for (NodeId u : users) {
      if (!g_.IsBefore(u, anchor)) continue;
      g_.MoveAfter(u, anchor);
      for (ValueId o : g_.node(u).outputs) Sink(o, u);
    }
  }

  absl::StatusOr<bool> EmitGroup(int k) {
    const Group& group = groups_[k];
    absl::flat_hash_set<NodeId> members;
    for (int m : group.members) members.insert(nodes_[m]);
    const NodeId anchor = nodes_[group.at];
    // A single node is a kernel as it is, unless it can make leaves itself.
    if (group.members.size() == 1) {
      bool leaf = false;
      for (size_t x = IsRegionOp(N(group.members[0])) ? 1 : 0; x < N(group.members[0]).inputs.size(); ++x) {
        const NodeId def = g_.value(N(group.members[0]).inputs[x]).def;
        leaf = leaf || (!g_.IsParam(def) && IsLeaf(g_.node(def)));
      }
      if (!leaf || IsLeaf(N(group.members[0]))) return false;
    }
    if (options_.alias_db != nullptr && group.members.size() > 1) {
      std::vector<NodeId> together;
      for (int m : group.members) together.push_back(nodes_[m]);
      std::string why;
      // What is hoisted out of the way, or sinks behind the group.
      const auto goes_along = [](const Node& n) { return IsTransparent(n) || IsAllocation(n) || IsLeaf(n); };
      if (!GatherGroup(*options_.alias_db, g_, together, anchor, goes_along, &why)) {
        ReportSplit(k, why);
        ++report_.refused_groups;
        return false;
      }
    }
    auto sub = std::make_shared<Graph>();
    sub->name = NameOf(group);
    sub->symbols = g_.symbols;
    Copier c{*sub, {}, {}};
    // Bases first: they are what results take over.
    for (int m : group.members) {
      if (!IsRegionOp(N(m))) continue;
      const ValueId base = N(m).inputs[0];
      if (members.contains(g_.value(base).def)) continue;
      // A view of what a member makes is no operand.
      if (members.contains(g_.value(Root(base)).def)) {
        ReportSplit(k, "what it writes to is a view of a value made in it");
        return false;
      }
      TakeBase(c, base);
    }
    for (int m : group.members) CopyNode(c, nodes_[m]);
    // Results: what anyone outside uses.
    std::vector<ValueId> results;
    std::vector<Type> types;
    for (int m : group.members) {
      for (ValueId o : N(m).outputs) {
        bool outside = false;
        auto look = [&](auto&& self, ValueId v) -> void {
          for (const Use& u : g_.value(v).uses) {
            if (outside) return;
            if (members.contains(u.user)) continue;
            if (!g_.IsReturn(u.user) && IsTransparent(g_.node(u.user)) && g_.node(u.user).parent == block_) {
              for (ValueId x : g_.node(u.user).outputs) self(self, x);
              continue;
            }
            outside = true;
          }
        };
        look(look, o);
        if (!outside) continue;
        results.push_back(o);
        types.push_back(g_.value(o).type);
        sub->AddOutput(c.inner.at(o));
      }
    }
    if (results.empty()) return false;
    for (ValueId v : c.operands) Hoist(v, anchor);
    const NodeId node = g_.InsertBefore(anchor, OpName::Get("smelt::FusionGroup"), c.operands, types,
                                        {{"Subgraph", sub}, {"name", sub->name}});
    g_.SetSource(node, N(group.members.back()).source);
    // Before it is lowered: a result without uses is not one of the kernel's.
    for (size_t i = 0; i < results.size(); ++i) g_.ReplaceAllUses(results[i], g_.node(node).outputs[i]);
    auto lowered = LowerGroup(g_, node, [&](ValueId v) {
      const NodeId def = g_.value(v).def;
      return !g_.IsParam(def) && g_.node(def).op == "smelt::view" ? RegionGeometry(g_.node(def)) : DefaultLayout(g_, v);
    });
    if (!lowered.ok()) {
      for (size_t i = 0; i < results.size(); ++i) g_.ReplaceAllUses(g_.node(node).outputs[i], results[i]);
      g_.Erase(node);
      if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
      ReportSplit(k, absl::StrCat("the group has no kernel: ", lowered.status().message()));
      return false;
    }
    for (ValueId o : g_.node(node).outputs) Sink(o, node);
    // Views that only members read go with them.
    for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) {
      for (ValueId o : N(*it).outputs) EraseUsers(o);
      g_.Erase(nodes_[*it]);
    }
    return true;
  }
  void EraseUsers(ValueId v) {
    while (!g_.value(v).uses.empty()) {
      const NodeId u = g_.value(v).uses[0].user;
      for (ValueId o : g_.node(u).outputs) EraseUsers(o);
      g_.Erase(u);
    }
  }

  Graph& g_;
  const BlockId block_;
  const FuseOptions& options_;
  FusionReport& report_;
  std::vector<NodeId> nodes_;
  std::vector<int> place_;  // by NodeId::index
  std::vector<int> group_of_;
  std::vector<Group> groups_;
  absl::flat_hash_map<ValueId, Label> labels_;
  absl::flat_hash_map<ValueId, std::vector<int>> writers_;  // by the memory's root: nodes that take it over
  // With FuseOptions::explain: by producer and consumer; of the block's edges the group that holds both ends, or -1.
  absl::flat_hash_map<std::pair<int, int>, std::string> reasons_;
  std::vector<int> edge_groups_;
  size_t first_edge_ = 0;
};

ValueId RootOf(const Graph& g, ValueId v) {
  while (true) {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def) || g.node(def).op != "smelt::view") return v;
    v = g.node(def).inputs[0];
  }
}

}  // namespace

absl::StatusOr<FusionReport> Fuse(Graph& g, const FuseOptions& options) {
  FusionReport report;
  report.merged_matmuls = MergeMatmuls(g);
  SMELT_RETURN_IF_ERROR(BlockFuser(g, g.top(), options, report).Run());
  // Leaves that every reader now makes itself, views of what is gone.
  std::vector<NodeId> nodes = g.AllNodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& n = g.node(*it);
    if (!IsTransparent(n) && !IsLeaf(n) && !IsAllocation(n)) continue;
    bool used = false;
    for (ValueId v : n.outputs) used = used || !g.value(v).uses.empty();
    if (!used) g.Erase(*it);
  }
  return report;
}

int CountLateReads(const Graph& g) {
  int count = 0;
  // Of a value's contents, through views and lists, by nodes behind `taker` in its block (or by what is inside them).
  const auto read_behind = [&](auto&& self, ValueId v, NodeId taker) -> bool {
    for (const Use& u : g.value(v).uses) {
      if (u.user == taker || g.IsReturn(u.user)) continue;
      if (IsTransparent(g.node(u.user))) {
        for (ValueId o : g.node(u.user).outputs) {
          if (self(self, o, taker)) return true;
        }
        continue;
      }
      NodeId n = u.user;
      while (n.valid() && g.node(n).parent != g.node(taker).parent) n = g.block(g.node(n).parent).owner;
      if (n.valid() && n != taker && g.IsBefore(taker, n)) return true;
    }
    return false;
  };
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (IsRegionOp(node)) count += read_behind(read_behind, RootOf(g, node.inputs[0]), n);
    if (node.op != "smelt::FusionGroup") continue;
    const Attribute* a = node.FindAttribute("Subgraph");
    const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
    if (sub == nullptr) continue;
    const Graph& s = **sub;
    absl::flat_hash_set<ValueId> taken;
    for (NodeId m : s.Nodes(s.top())) {
      if (!IsRegionOp(s.node(m)) || !s.IsParam(s.value(s.node(m).inputs[0]).def)) continue;
      const ValueId base = RootOf(g, node.inputs[s.value(s.node(m).inputs[0]).def_index]);
      if (taken.insert(base).second) count += read_behind(read_behind, base, n);
    }
  }
  return count;
}

absl::Status VerifyFusionPlan(const Graph& g, int late_reads) {
  if (const int now = CountLateReads(g); late_reads >= 0 && now > late_reads) {
    return absl::InternalError(absl::StrCat("fusion: ", now,
                                            " memories are read after a region write has taken them "
                                            "over; before fusing there were ",
                                            late_reads));
  }
  return VerifyFusionPlan(g);
}

absl::Status VerifyFusionPlan(const Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (node.op != "smelt::FusionGroup") continue;
    auto error = [&](absl::string_view what) {
      const Attribute* name = node.FindAttribute("name");
      const auto* s = name == nullptr ? nullptr : std::get_if<std::string>(name);
      return absl::InternalError(absl::StrCat("fusion group ", s == nullptr ? "" : *s, ": ", what));
    };
    const Attribute* a = node.FindAttribute("Subgraph");
    const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
    if (sub == nullptr) return error("has no graph attribute \"Subgraph\"");
    const Graph& s = **sub;
    SMELT_RETURN_IF_ERROR(Annotate(VerifyGraph(s), "the subgraph of a fusion group"));
    if (s.inputs().size() != node.inputs.size()) return error("its subgraph has another number of inputs");
    if (s.outputs().size() != node.outputs.size()) return error("its subgraph has another number of results");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (s.value(s.inputs()[i]).type != g.value(node.inputs[i]).type)
        return error(absl::StrCat("operand ", i, " has another type inside"));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (s.value(s.outputs()[i]).type != g.value(node.outputs[i]).type)
        return error(absl::StrCat("result ", i, " has another type inside"));
    }
    absl::flat_hash_set<ValueId> written;  // memory that it takes over, as roots outside
    for (NodeId m : s.Nodes(s.top())) {
      const Node& inner = s.node(m);
      if (IsTransparent(inner)) continue;
      if (!IsKernelNode(s, m)) return error(absl::StrCat(inner.op.full(), " is no kernel's work"));
      if (!IsRegionOp(inner)) continue;
      if (s.IsParam(s.value(inner.inputs[0]).def))
        written.insert(RootOf(g, node.inputs[s.value(inner.inputs[0]).def_index]));
    }
    if (written.empty()) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!g.value(v).type.IsTensor() || !written.contains(RootOf(g, v))) continue;
      // Either the base itself, or a read of other elements, or of the very ones that are written.
      for (const Use& u : s.value(s.inputs()[i]).uses) {
        if (!s.IsReturn(u.user) && IsRegionOp(s.node(u.user)) && u.index == 0) continue;
        for (NodeId m : s.Nodes(s.top())) {
          if (s.node(m).op != "smelt::write_region") continue;
          const Overlap o = CompareExtents(ExtentOf(g, v), ExtentOf(s.node(m)), g.symbols);
          if (o != Overlap::kDisjoint && o != Overlap::kSame)
            return error(absl::StrCat("writes memory that operand ", i, " shows at other indices"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
