#include "smelt/pipeline/layout_inference.h"

#include <algorithm>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/layout_rule_builder.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

// Returns whether tensors of these types have the same layout. With `seen`, only strides that elements can show count,
// not those of dims of one element or of empty tensors. In PyTorch these may still decide the layout of values that are
// computed from the tensor.
bool HaveSameLayout(const Graph& g, const Type& a, const Type& b, bool seen) {
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

// Returns whether an operator that returns a view if its operand's layout allows it, and a copy otherwise, returns a
// view here.
std::optional<bool> IsView(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const OpTraits& traits = GetOpTraits(node.op);
  if (node.inputs.empty() || node.outputs.size() != 1 || !traits.may_alias) return std::nullopt;
  const bool converts = traits.family == OpFamily::kConversion;
  const bool copies = converts || traits.family == OpFamily::kCopy || node.op.name() == op::kRavel;
  const Type &of = g.value(node.inputs[0]).type, &to = g.value(node.outputs[0]).type;
  if (!of.IsTensor() || !of.tensor().IsComplete() || !to.IsTensor() || !to.tensor().sizes) return std::nullopt;
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  const ExprGeometry from = {*of.tensor().sizes, *of.tensor().strides, Expr(0)};
  if (copies) {
    if (of.tensor().dtype != to.tensor().dtype) return false;
    const FunctionSchema* schema = FindSchema(node.op);
    const int at = schema == nullptr ? -1 : schema->FindArgument("memory_format");
    const auto given = at < 0 ? std::nullopt : GetConstant(g, node.inputs[at]);
    const auto* format = given ? std::get_if<int64_t>(&*given) : nullptr;
    if (format == nullptr ? converts : *format == 1) return true;
    // A conversion depends on the format that the strides suggest.
    if (converts) {
      const bool last =
          SuggestsChannelsLast(decide, absl::MakeConstSpan(from.sizes), absl::MakeConstSpan(from.strides));
      return last == (*format != 0);
    }
    return format == nullptr || *format == 0 ? view_rules::IsContiguous(decide, from)
                                             : view_rules::IsChannelsLast(decide, from);
  }
  const auto reshaped = view_rules::Reshape(decide, from, *to.tensor().sizes);
  if (!reshaped.ok()) return std::nullopt;
  return reshaped->aliases;
}

// Tensors that have, or may have, one storage. core/op/storage_of.h follows a value back to where its storage comes from,
// as it is in this graph. Here the question is who else has it: all names are joined, those after the value too, and an
// operator that copies for some layouts counts as a view, since the layouts are about to change.
class Storages {
 public:
  explicit Storages(const Graph& g) {
    std::vector<ValueId> written, reshaped;
    for (NodeId n : g.AllNodes()) {
      const Node& node = g.node(n);
      for (BlockId b : node.blocks) JoinBlock(g, n, b);
      if (node.inputs.empty()) continue;
      const std::string& name = node.op.name();
      const OpKind kind = GetOpInfo(node.op).kind;
      const bool views = kind == OpKind::kView || kind == OpKind::kInplace || kind == OpKind::kInplaceView ||
                         GetOpTraits(node.op).may_alias || name == op::kPrimListUnpack || name == op::kDunderGetitem ||
                         name == op::kPrimTupleUnpack;
      for (ValueId v : node.outputs) {
        if (views) Join(node.inputs[0], v);
      }
      const FunctionSchema* schema = FindSchema(node.op);
      if (schema == nullptr || !schema->IsMutable()) continue;
      auto& changed = kind == OpKind::kInplace ? written : reshaped;
      changed.insert(changed.end(), node.inputs.begin(), node.inputs.end());
    }
    for (ValueId v : written) shows_[Find(v)] += 2;
    for (ValueId v : reshaped) shows_[Find(v)] += 2, names_[Find(v)] += 2;
    for (ValueId v : g.inputs()) ++shows_[Find(v)], ++names_[Find(v)];
    for (ValueId v : g.outputs()) ++shows_[Find(v)], ++names_[Find(v)];
  }

  // Returns whether the place of the tensor can be observed: it is written to, or seen under two names.
  bool Shows(ValueId v) {
    const auto it = shows_.find(Find(v));
    return it != shows_.end() && it->second > 1;
  }

  // Returns whether the tensor may be seen under two names, or have another geometry in the end.
  bool IsShared(ValueId v) {
    const auto it = names_.find(Find(v));
    return it != names_.end() && it->second > 1;
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
  // Joins the values that a block is given with those that it returns, whatever the places.
  void JoinBlock(const Graph& g, NodeId n, BlockId b) {
    for (ValueId p : g.params(b)) {
      for (ValueId v : g.node(n).inputs) JoinTensors(g, p, v);
    }
    for (ValueId r : g.results(b)) {
      for (ValueId v : g.node(n).outputs) JoinTensors(g, r, v);
    }
  }
  void JoinTensors(const Graph& g, ValueId a, ValueId b) {
    if (g.value(a).type.IsTensor() && g.value(b).type.IsTensor()) Join(a, b);
  }
  void Join(ValueId a, ValueId b) {
    a = Find(a), b = Find(b);
    if (a != b) parent_[b] = a;
  }

  absl::flat_hash_map<ValueId, ValueId> parent_;
  // How often a storage is seen: 2 for a write. The names count only writes that may change more than elements.
  absl::flat_hash_map<ValueId, int> shows_, names_;
};

// Walks a copy of the program beside the program itself.
class Walk {
 public:
  // `inferred` has an entry for each node, in the order of AllNodes.
  Walk(const Graph& g, const std::vector<bool>& inferred, Graph& at) : g_(g), at_(at) {
    for (const auto& [symbol, range] : at.symbols.entries()) symbols_.insert(symbol);
    const std::vector<NodeId> nodes = g.AllNodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (inferred[i]) inferred_.insert(nodes[i]);
    }
  }

  // All types of the copy may differ.
  LayoutInference::Result Run() {
    Block(g_.top(), at_.top());
    return Conclude();
  }

  // These types differ, and those that follow from them. Afterwards the copy is as before.
  LayoutInference::Result RunFrom(const std::vector<std::pair<ValueId, Type>>& values) {
    if (nodes_.empty()) NumberNodes();
    only_what_follows_ = true;
    for (const auto& [v, type] : values) {
      const Type stated = at_.value(v).type;
      Keep(v);
      at_.SetType(v, type);
      Compare(v, stated);
    }
    if (has_blocks_) {
      Block(g_.top(), at_.top());
    } else {
      for (const auto& [v, type] : values) Open(v);
      Follow();
    }
    const LayoutInference::Result result = Conclude();
    for (size_t k = before_.size(); k-- > 0;) {
      at_.SetType(before_[k].value, std::move(before_[k].type));
      at_.SetExpr(before_[k].value, std::move(before_[k].expr));
    }
    before_.clear();
    other_.clear();
    out_ = {};
    return result;
  }

  int64_t num_visited() const { return num_visited_; }

 private:
  // Judges the values that were found since the last time.
  LayoutInference::Result Conclude() {
    if (seen_.empty() && shared_.empty()) return out_;
    if (!storages_) {
      storages_.emplace(at_);
      outputs_.insert(at_.outputs().begin(), at_.outputs().end());
    }
    out_.differs =
        out_.differs || std::any_of(shared_.begin(), shared_.end(), [&](ValueId v) { return storages_->Shows(v); }) ||
        std::any_of(seen_.begin(), seen_.end(), [&](ValueId v) { return outputs_.contains(v) || AreStridesRead(v); });
    seen_.clear();
    shared_.clear();
    return out_;
  }

  // Visits the pending nodes in program order. What follows at a node depends only on the values that lie otherwise and
  // are still used from there on. Many arguments come to the same: with its weights in another format a convolution
  // hands on the format, whichever convolution it is. Each such conclusion is drawn once.
  void Follow() {
    struct Passed {
      std::string state;
      LayoutInference::Result before;  // found on the way here from the last such place
    };
    std::vector<Passed> passed;
    LayoutInference::Result rest;
    for (; !pending_.empty(); pending_.erase(pending_.begin())) {
      const size_t at = *pending_.begin();
      if (std::string state = StateAt(at); !state.empty()) {
        if (const auto known = concluded_.find(state); known != concluded_.end()) {
          rest = known->second;
          pending_.clear();
          break;
        }
        passed.push_back({std::move(state), Conclude()});
        out_ = {};
      }
      const auto [in_g, n] = nodes_[at];
      Node(in_g, n);
      for (ValueId v : at_.node(n).outputs) Open(v);
    }
    Add(Conclude(), &rest);
    for (; !passed.empty(); passed.pop_back()) {
      concluded_[passed.back().state] = rest;
      Add(passed.back().before, &rest);
    }
    out_ = rest;
    open_.clear();
    exprs_changed_ = false;
  }

  static void Add(const LayoutInference::Result& more, LayoutInference::Result* to) {
    to->differs = to->differs || more.differs;
    to->is_known = to->is_known && more.is_known;
  }

  // The node, and the values that lie otherwise and that it or a later one uses, with their types. Empty if they are
  // many, or if types do not say all about them.
  std::string StateAt(size_t at) {
    constexpr size_t kFew = 8;
    open_.erase(open_.begin(), open_.lower_bound(at));
    if (exprs_changed_ || open_.size() > kFew) return "";
    std::vector<ValueId> values;
    for (const auto& [last, v] : open_) values.push_back(v);
    std::sort(values.begin(), values.end(), [](ValueId a, ValueId b) { return a.index < b.index; });
    std::string state = absl::StrCat(at);
    for (ValueId v : values) {
      const Type& type = at_.value(v).type;
      if (!type.IsTensor() || HasUnknownStrides(type.tensor())) return "";
      absl::StrAppend(&state, ";", v.index, ":", type.ToString());
    }
    return state;
  }

  // Returns whether the strides depend on those of the inputs, so that what follows depends on the case.
  bool HasUnknownStrides(const TensorType& t) const {
    for (size_t d = 0; t.strides && d < t.strides->size(); ++d) {
      for (const std::string& s : (*t.strides)[d].Symbols()) {
        if (!symbols_.contains(s)) return true;
      }
    }
    return false;
  }

  void NumberNodes() {
    const std::vector<NodeId> nodes = g_.Nodes(g_.top()), same = at_.Nodes(at_.top());
    for (size_t k = 0; k < nodes.size(); ++k) {
      nodes_.emplace_back(nodes[k], same[k]);
      number_[same[k]] = k;
      has_blocks_ = has_blocks_ || !g_.node(nodes[k]).blocks.empty();
    }
  }

  // The users of a value that lies otherwise are pending.
  void Open(ValueId v) {
    if (!other_.contains(v)) return;
    size_t last = 0;
    for (const Use& use : at_.value(v).uses) {
      const auto it = number_.find(use.user);
      if (it == number_.end()) continue;
      pending_.insert(it->second);
      last = std::max(last, it->second);
    }
    open_.emplace(last, v);
  }

  // Called before it changes.
  void Keep(ValueId v) {
    if (only_what_follows_) before_.push_back({v, at_.value(v).type, at_.value(v).expr});
  }

  void Block(BlockId in_g, BlockId in_at) {
    const std::vector<NodeId> nodes = g_.Nodes(in_g), same = at_.Nodes(in_at);
    for (size_t k = 0; k < nodes.size(); ++k) {
      const std::string& name = g_.node(nodes[k]).op.name();
      if (g_.node(nodes[k]).blocks.empty()) {
        Node(nodes[k], same[k]);
      } else if (name == op::kPrimLoop) {
        Loop(nodes[k], same[k], {.input = 2, .param = 1, .result = 1});
      } else if (name == op::kSmeltWhileLoop) {
        Loop(nodes[k], same[k], {});
      } else {
        Branches(nodes[k], same[k]);
      }
    }
  }

  void Node(NodeId in_g, NodeId n) {
    const auto& inputs = at_.node(n).inputs;
    const bool of_other = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return other_.contains(v); });
    if (only_what_follows_ && !of_other) return;
    ++num_visited_;
    const std::vector<Type> stated = TypesOfResults(at_, n);
    const size_t kept = before_.size();
    for (ValueId v : at_.node(n).outputs) Keep(v);
    if (!inferred_.contains(in_g) || !InferNode(at_, n).ok()) {
      if (of_other && !stated.empty()) out_.is_known = false;
      for (size_t k = 0; k < stated.size(); ++k) at_.SetType(at_.node(n).outputs[k], stated[k]);
      return;
    }
    for (size_t k = kept; k < before_.size(); ++k) {
      exprs_changed_ = exprs_changed_ || at_.value(before_[k].value).expr != before_[k].expr;
    }
    for (size_t k = 0; k < stated.size(); ++k) {
      const ValueId v = at_.node(n).outputs[k];
      const bool is_list = stated[k].kind() == TypeKind::kList || stated[k].kind() == TypeKind::kTuple;
      if (of_other && is_list) other_.insert(v);
      Compare(v, stated[k]);
    }
    if (IsView(at_, n) != IsView(g_, in_g)) shared_.push_back(at_.node(n).outputs[0]);
  }

  // The parameters of a block are the node's inputs from `first` on.
  void Enter(NodeId n, BlockId b, size_t first, size_t first_param) {
    for (size_t k = first_param; k < at_.params(b).size(); ++k) {
      const ValueId v = at_.params(b)[k];
      const size_t input = first + k - first_param;
      if (input < at_.node(n).inputs.size()) PropagateType(at_.node(n).inputs[input], v);
    }
  }

  // The results of a branch, whichever is taken. The operands of smelt::cond behind the first are its blocks'
  // parameters.
  void Branches(NodeId in_g, NodeId n) {
    for (size_t b = 0; b < at_.node(n).blocks.size(); ++b) {
      const BlockId block = at_.node(n).blocks[b];
      Enter(n, block, 1, 0);
      Block(g_.node(in_g).blocks[b], block);
    }
    for (size_t k = 0; k < at_.node(n).outputs.size(); ++k) {
      for (size_t b = 0; b < at_.node(n).blocks.size(); ++b) Return(n, at_.node(n).blocks[b], k, k, b > 0);
    }
  }

  // The first of a loop's carried values among its inputs, its blocks' parameters and its body's results.
  struct Carried {
    size_t input = 0, param = 0, result = 0;
  };

  // The next round and the code behind the loop receive what a round is given, in the layout that it has there.
  void Loop(NodeId in_g, NodeId n, Carried first) {
    const BlockId body = at_.node(n).blocks.back();
    for (size_t b = 0; b < at_.node(n).blocks.size(); ++b) {
      Enter(n, at_.node(n).blocks[b], first.input, first.param);
      Block(g_.node(in_g).blocks[b], at_.node(n).blocks[b]);
    }
    for (size_t k = 0; k < at_.node(n).outputs.size(); ++k) {
      PropagateType(at_.params(body)[first.param + k], at_.node(n).outputs[k]);
      Return(n, body, first.result + k, k, true);
    }
  }

  // Result `from` of the block is output `to` of the node; with `also`, in addition to its other sources.
  void Return(NodeId n, BlockId b, size_t from, size_t to, bool also) {
    if (from >= at_.results(b).size()) return;
    const ValueId result = at_.results(b)[from], v = at_.node(n).outputs[to];
    if (!also) return PropagateType(result, v);
    if (!HaveSameLayout(at_, at_.value(v).type, at_.value(result).type, /*seen=*/true)) out_.is_known = false;
  }

  void PropagateType(ValueId from, ValueId to) {
    const Type stated = at_.value(to).type;
    Keep(to);
    if (stated.IsTensor() && at_.value(from).type.IsTensor() && at_.value(from).type.tensor().IsComplete())
      at_.SetType(to, at_.value(from).type);
    Compare(to, stated);
  }

  // Returns whether an operator uses the tensor's strides for more than finding its elements: for the strides of
  // another tensor, or for other elements.
  bool AreStridesRead(ValueId v) const {
    const auto& uses = at_.value(v).uses;
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return GetOpTraits(at_.node(use.user).op).reads_strides; });
  }

  void Compare(ValueId v, const Type& stated) {
    if (HaveSameLayout(at_, at_.value(v).type, stated, /*seen=*/false)) return;
    other_.insert(v);
    if (!HaveSameLayout(at_, at_.value(v).type, stated, /*seen=*/true)) seen_.push_back(v);
  }

  const Graph& g_;
  Graph& at_;
  absl::flat_hash_set<NodeId> inferred_;
  absl::flat_hash_set<std::string> symbols_;  // of the program's sizes
  bool only_what_follows_ = false;
  absl::flat_hash_set<ValueId> other_;  // that lie in another way
  std::vector<ValueId> seen_;           // of these, where elements show it
  std::vector<ValueId> shared_;         // that have their operand's memory, or no longer have
  LayoutInference::Result out_;
  std::optional<Storages> storages_;

  struct Before {
    ValueId value;
    Type type;
    std::optional<Expr> expr;
  };
  std::vector<Before> before_;
  // The nodes of the top block, in the program and in the copy, and those that are to be visited.
  std::vector<std::pair<NodeId, NodeId>> nodes_;
  absl::flat_hash_map<NodeId, size_t> number_;
  bool has_blocks_ = false;
  std::set<size_t> pending_;
  std::multimap<size_t, ValueId> open_;  // that lie otherwise, by their last user's number
  bool exprs_changed_ = false;           // a number, which no state tells
  absl::flat_hash_map<std::string, LayoutInference::Result> concluded_;  // by the state: what follows from there on
  absl::flat_hash_set<ValueId> outputs_;
  int64_t num_visited_ = 0;
};

// The types of a graph while its nodes are inferred again and again.
class ChangingTypes {
 public:
  ChangingTypes(Graph& g, const std::vector<NodeId>& nodes) : g_(g), nodes_(nodes), ran_at_(nodes.size(), 0) {}

  absl::Status Infer(size_t k) {
    const NodeId n = nodes_[k];
    ran_at_[k] = ++now_;
    std::vector<std::pair<Type, std::optional<Expr>>> before;
    for (ValueId v : g_.node(n).outputs) before.emplace_back(g_.value(v).type, g_.value(v).expr);
    const absl::Status status = InferNode(g_, n);
    for (size_t i = 0; i < before.size(); ++i) {
      const ValueId v = g_.node(n).outputs[i];
      if (g_.value(v).type != before[i].first || g_.value(v).expr != before[i].second) changed_at_[v] = now_;
    }
    return status;
  }

  // Returns whether node k was inferred, and nothing that it reads has changed since then.
  bool ReadsTheSame(size_t k) const {
    const auto& inputs = g_.node(nodes_[k]).inputs;
    return ran_at_[k] > 0 &&
           std::none_of(inputs.begin(), inputs.end(), [&](ValueId v) { return HasChanged(v, ran_at_[k]); });
  }

 private:
  bool HasChanged(ValueId v, int64_t since) const {
    if (const auto it = changed_at_.find(v); it != changed_at_.end() && it->second > since) return true;
    // Inference of a list's reader looks at its elements.
    const TypeKind kind = g_.value(v).type.kind();
    const NodeId def = g_.value(v).def;
    if ((kind != TypeKind::kList && kind != TypeKind::kTuple) || g_.IsParam(def)) return false;
    const auto& inputs = g_.node(def).inputs;
    return IsStoredInto(v) ||
           std::any_of(inputs.begin(), inputs.end(), [&](ValueId e) { return HasChanged(e, since); });
  }

  bool IsStoredInto(ValueId list) const {
    const auto& uses = g_.value(list).uses;
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      const FunctionSchema* schema = FindSchema(g_.node(use.user).op);
      return schema != nullptr && schema->IsMutable();
    });
  }

  Graph& g_;
  const std::vector<NodeId>& nodes_;
  std::vector<int64_t> ran_at_;
  absl::flat_hash_map<ValueId, int64_t> changed_at_;
  int64_t now_ = 0;
};

}  // namespace

const std::vector<bool>& LayoutInference::Inferred() const {
  if (!inferred_.empty()) return inferred_;
  const std::unique_ptr<Graph> copy = g_.Clone();
  for (NodeId n : copy->AllNodes()) {
    bool same = IsInferred(*copy, n);
    if (same) {
      const std::vector<Type> stated = TypesOfResults(*copy, n);
      same = InferNode(*copy, n).ok();
      for (size_t k = 0; k < stated.size(); ++k) {
        const ValueId v = copy->node(n).outputs[k];
        same = same && HaveSameLayout(*copy, copy->value(v).type, stated[k], /*seen=*/true);
        copy->SetType(v, stated[k]);
      }
    }
    inferred_.push_back(same);
  }
  return inferred_;
}

absl::StatusOr<std::vector<int64_t>> LayoutInference::RuleOfResults(const std::vector<bool>& are_arguments) const {
  constexpr int kMostInferences = 1 << 12;
  Storages storages(g_);
  for (size_t k = 0; k < g_.outputs().size(); ++k) {
    const ValueId v = g_.outputs()[k];
    if (g_.value(v).type.IsTensor() && !are_arguments[k] && storages.IsShared(v))
      return absl::UnimplementedError("a result that may share memory");
  }
  const std::vector<bool>& inferred = Inferred();
  const std::unique_ptr<Graph> copy = g_.Clone();
  Graph& at = *copy;
  SymbolRanges ranges = at.symbols.Accepted();
  std::vector<LayoutRuleOperand> operands;
  absl::flat_hash_set<ValueId> traced;
  for (size_t k = 0; k < at.inputs().size(); ++k) {
    if (at.input_infos[k].kind != InputInfo::Kind::kUser) continue;
    LayoutRuleOperand& operand = operands.emplace_back();
    const ValueId v = at.inputs()[k];
    if (!at.value(v).type.IsTensor()) {
      if (at.value(v).expr && at.value(v).expr->IsSymbol()) operand.number = at.value(v).expr->SymbolName();
      continue;
    }
    const TensorType type = at.value(v).type.tensor();
    if (!type.IsComplete()) return absl::UnimplementedError("an argument whose type is not complete");
    operand.geometry = {*type.sizes, {}, Expr(0)};
    for (int d = 0; d < type.rank(); ++d) {
      const std::string name = absl::StrCat("argument", operands.size() - 1, ".stride", d);
      operand.geometry.strides.push_back(Expr::Symbol(name));
      const absl::StatusOr<int64_t> hint = (*type.strides)[d].Evaluate(at.symbol_hints);
      at.symbol_hints[name] = hint.ok() ? *hint : 1;
    }
    at.SetType(v, Type::Tensor(*type.dtype, *type.sizes, operand.geometry.strides));
    traced.insert(v);
  }
  at.symbols = WithHints(std::move(ranges), at.symbol_hints);
  // Facts that follow from the arguments must be what inference says.
  std::vector<NodeId> nodes;
  const std::vector<NodeId> all = at.AllNodes();
  for (size_t k = 0; k < all.size(); ++k) {
    const auto& node = at.node(all[k]);
    if (!node.blocks.empty()) return absl::UnimplementedError("a program with blocks");
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return traced.contains(v); })) continue;
    if (!inferred[k]) return absl::UnimplementedError(absl::StrCat("a layout that is not inferred: ", node.op.full()));
    nodes.push_back(all[k]);
    traced.insert(node.outputs.begin(), node.outputs.end());
  }
  const auto results = [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
    std::vector<InferredLayout> out;
    for (size_t k = 0; k < at.outputs().size(); ++k) {
      InferredLayout& layout = out.emplace_back();
      const Type& type = at.value(at.outputs()[k]).type;
      if (!type.IsTensor() || are_arguments[k]) continue;
      if (!type.tensor().IsComplete()) return absl::UnimplementedError("a result whose layout is not known");
      layout = ExprGeometry{*type.tensor().sizes, *type.tensor().strides, Expr(0)};
    }
    return out;
  };
  LayoutRuleOptions options;
  options.max_runs = std::max(8, std::min(256, kMostInferences / static_cast<int>(nodes.size() + 1)));
  options.whole = true;
  ChangingTypes types(at, nodes);
  const auto run = [&](size_t step) { return types.Infer(step); };
  const auto reads_the_same = [&](size_t step) { return types.ReadsTheSame(step); };
  const LayoutSteps infer = {.count = nodes.size(), .run = run, .reads_the_same = reads_the_same, .results = results};
  return BuildLayoutRule(operands, at.symbols, at.symbol_hints, infer, options);
}

LayoutInference::Result LayoutInference::Of(const Graph& base, Graph& at) const {
  return Walk(base, Inferred(), at).Run();
}

class LayoutDependence::Impl : public Walk {
 public:
  using Walk::Walk;
};

LayoutDependence::LayoutDependence(const LayoutInference& layouts, std::unique_ptr<Graph> program)
    : program_(std::move(program)),
      copy_(program_->Clone()),
      impl_(std::make_unique<Impl>(*program_, layouts.Inferred(), *copy_)) {
  FindSymbols();
}
LayoutDependence::~LayoutDependence() = default;

bool LayoutDependence::OnStrides(const std::vector<int>& inputs) { return On(inputs, /*only_of_ones=*/false); }

bool LayoutDependence::OnStridesOfOnes(int input) { return On({input}, /*only_of_ones=*/true); }

void LayoutDependence::FindSymbols() {
  absl::flat_hash_map<std::string, int> inputs_with;
  for (size_t k = 0; k < copy_->inputs().size(); ++k) {
    const Type& type = copy_->value(copy_->inputs()[k]).type;
    if (!type.IsTensor() || !type.tensor().IsComplete()) continue;
    std::set<std::string> symbols;
    for (const std::vector<Expr>* list : {&*type.tensor().sizes, &*type.tensor().strides}) {
      for (const Expr& e : *list) {
        if (e.IsSymbol()) symbols.insert(e.SymbolName());
      }
    }
    int least = INT_MAX;
    for (const std::string& symbol : symbols) least = std::min(least, inputs_with[symbol]++);
    if (!symbols.empty()) with_symbols_.emplace_back(least, static_cast<int>(k));
  }
  std::sort(with_symbols_.begin(), with_symbols_.end());
}

bool LayoutDependence::On(std::vector<int> inputs, bool only_of_ones) {
  absl::flat_hash_map<std::string, int64_t> hints = copy_->symbol_hints;
  std::vector<LayoutRuleOperand> operands;
  std::vector<std::pair<ValueId, Type>> values;
  // The inputs in question, whose strides get symbols of their own, and enough others to have every symbol.
  std::sort(inputs.begin(), inputs.end());
  std::vector<int> looked_at = inputs;
  for (const auto& [before, k] : with_symbols_) {
    if (before > static_cast<int>(inputs.size())) break;
    looked_at.push_back(k);
  }
  std::sort(looked_at.begin(), looked_at.end());
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  for (int k : looked_at) {
    const ValueId v = copy_->inputs()[k];
    if (!copy_->value(v).type.IsTensor() || !copy_->value(v).type.tensor().IsComplete()) continue;
    const TensorType& type = copy_->value(v).type.tensor();
    LayoutRuleOperand& operand = operands.emplace_back();
    operand.geometry = {*type.sizes, *type.strides, Expr(0)};
    if (!std::binary_search(inputs.begin(), inputs.end(), k)) continue;
    for (size_t d = 0; d < type.sizes->size(); ++d) {
      if (only_of_ones && (*type.sizes)[d] != Expr(1)) continue;
      const std::string name = absl::StrCat("input", k, ".stride", d);
      hints[name] = (*type.strides)[d].Evaluate(copy_->symbol_hints).value_or(1);
      operand.geometry.strides[d] = Expr::Symbol(name);
    }
    values.emplace_back(v, Type::Tensor(*type.dtype, *type.sizes, operand.geometry.strides));
  }
  const auto is_same = [&] {
    const LayoutInference::Result r = impl_->RunFrom(values);
    return !r.differs && (r.is_known || only_of_ones);
  };
  const LayoutCases cases = {.max_runs = 64, .compares_strides = only_of_ones};
  return !HoldsForAllLayouts(operands, copy_->symbols, hints, is_same, cases);
}

int64_t LayoutDependence::num_visited() const { return impl_->num_visited(); }

}  // namespace smelt
