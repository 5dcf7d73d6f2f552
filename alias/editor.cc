#include "smelt/alias/editor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/ops.h"

namespace smelt {

struct Editor::Saved {
  NodeId id;
  OpName op;
  std::vector<ValueId> inputs;
  struct Output {
    ValueId id;
    Type type;
    std::string name;
    std::optional<Expr> expr;
  };
  std::vector<Output> outputs;
  Graph::Attributes attributes;
  std::shared_ptr<const SourceLocation> source;
  struct Inside {
    BlockId id;
    std::vector<Output> params;
    std::vector<Saved> nodes;
    std::vector<ValueId> results;
  };
  std::vector<Inside> blocks;
};

namespace {

template <typename Id>
Id Follow(const absl::flat_hash_map<Id, Id>& map, Id id) {
  for (auto it = map.find(id); it != map.end(); it = map.find(id)) id = it->second;
  return id;
}

}  // namespace

NodeId Editor::Current(NodeId n) const { return Follow(nodes_, n); }
ValueId Editor::Current(ValueId v) const { return Follow(values_, v); }
BlockId Editor::Current(BlockId b) const { return Follow(blocks_, b); }

Editor::Editor(Graph& g) : g_(g) {}
Editor::~Editor() = default;

void Editor::Forget() {
  journal_.clear();
  erased_.clear();
  grouped_nodes_.clear();
  grouped_values_.clear();
}

void Editor::UndoTo(Mark m) {
  while (journal_.size() > m) {
    const Done e = journal_.back();
    journal_.pop_back();
    const NodeId next = e.next.valid() ? Current(e.next) : NodeId();
    switch (e.kind) {
      case Done::kInserted:
        g_.Erase(Current(e.node));
        break;
      case Done::kErased: {
        const Saved saved = std::move(erased_.back());
        erased_.pop_back();
        Restore(saved, Current(e.block), next);
        break;
      }
      case Done::kInput:
        g_.SetInput(e.is_return ? g_.block(Current(e.block)).return_node : Current(e.node), e.index, Current(e.old));
        break;
      case Done::kOp:
        g_.SetOp(Current(e.node), e.op);
        break;
      case Done::kMoved:
        if (next.valid()) {
          g_.MoveBefore(Current(e.node), next);
        } else {
          g_.MoveToEnd(Current(e.node), Current(e.block));
        }
        break;
      case Done::kGrouped:
        Ungroup(e);
        break;
    }
  }
}

NodeId Editor::InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs,
                            absl::Span<const Type> output_types, Graph::Attributes attributes) {
  const NodeId n = g_.InsertBefore(anchor, op, inputs, output_types, std::move(attributes));
  journal_.push_back({.kind = Done::kInserted, .node = n});
  return n;
}

Editor::Saved Editor::Save(NodeId n) const {
  const Node& node = g_.node(n);
  auto outputs = [&](absl::Span<const ValueId> values) {
    std::vector<Saved::Output> out;
    for (ValueId v : values) {
      const Value& value = g_.value(v);
      out.push_back({v, value.type, value.name, value.expr});
    }
    return out;
  };
  Saved s;
  s.id = n;
  s.op = node.op;
  s.inputs.assign(node.inputs.begin(), node.inputs.end());
  s.outputs = outputs(node.outputs);
  s.attributes = node.attributes;
  s.source = node.source;
  for (BlockId b : node.blocks) {
    Saved::Inside inside;
    inside.id = b;
    inside.params = outputs(g_.params(b));
    for (NodeId m : g_.Nodes(b)) inside.nodes.push_back(Save(m));
    absl::Span<const ValueId> results = g_.results(b);
    inside.results.assign(results.begin(), results.end());
    s.blocks.push_back(std::move(inside));
  }
  return s;
}

void Editor::Restore(const Saved& s, BlockId block, NodeId next) {
  std::vector<ValueId> inputs;
  for (ValueId v : s.inputs) inputs.push_back(Current(v));
  std::vector<Type> types;
  for (const Saved::Output& o : s.outputs) types.push_back(o.type);
  const NodeId n = next.valid() ? g_.InsertBefore(next, s.op, inputs, types, s.attributes)
                                : g_.Append(block, s.op, inputs, types, s.attributes);
  nodes_[s.id] = n;
  auto name = [&](ValueId v, const Saved::Output& o) {
    g_.SetName(v, o.name);
    if (o.expr) g_.SetExpr(v, o.expr);
    values_[o.id] = v;
  };
  for (size_t i = 0; i < s.outputs.size(); ++i) name(g_.node(n).outputs[i], s.outputs[i]);
  if (s.source != nullptr) g_.SetSource(n, s.source);
  for (const Saved::Inside& inside : s.blocks) {
    const BlockId b = g_.AddBlock(n);
    blocks_[inside.id] = b;
    for (const Saved::Output& p : inside.params) name(g_.AddParam(b, p.type, p.name), p);
    for (const Saved& m : inside.nodes) Restore(m, b, NodeId());
    for (ValueId v : inside.results) g_.AddResult(b, Current(v));
  }
}

void Editor::Erase(NodeId n) {
  const Node& node = g_.node(n);
  journal_.push_back({.kind = Done::kErased, .block = node.parent, .next = node.next});
  erased_.push_back(Save(n));
  g_.Erase(n);
}

void Editor::SetInput(NodeId n, uint32_t index, ValueId v) {
  const ValueId old = g_.node(n).inputs[index];
  if (old == v) return;
  journal_.push_back({.kind = Done::kInput,
                      .is_return = g_.IsReturn(n),
                      .index = index,
                      .node = n,
                      .block = g_.node(n).parent,
                      .old = old});
  g_.SetInput(n, index, v);
}

void Editor::SetOp(NodeId n, OpName op) {
  journal_.push_back({.kind = Done::kOp, .node = n, .op = g_.node(n).op});
  g_.SetOp(n, op);
}

void Editor::ReplaceAllUses(ValueId from, ValueId to) {
  if (from == to) return;
  const Value& value = g_.value(from);
  while (!value.uses.empty()) {
    const Use use = value.uses.back();
    SetInput(use.user, use.index, to);
  }
}

void Editor::RecordMove(NodeId n) {
  const Node& node = g_.node(n);
  journal_.push_back({.kind = Done::kMoved, .node = n, .block = node.parent, .next = node.next});
}

void Editor::MoveBefore(NodeId n, NodeId anchor) {
  RecordMove(n);
  g_.MoveBefore(n, anchor);
}

void Editor::MoveAfter(NodeId n, NodeId anchor) {
  RecordMove(n);
  g_.MoveAfter(n, anchor);
}

absl::Status Editor::InlineBlock(NodeId n, int k) {
  const std::string name = g_.node(n).op.name();
  const bool is_cond = name == op::kSmeltCond;
  if (name != op::kPrimIf && !is_cond) {
    return absl::InvalidArgumentError(absl::StrCat("only a branch can be inlined, not ", name));
  }
  if (k < 0 || k >= static_cast<int>(g_.node(n).blocks.size())) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has no block ", k));
  }
  const BlockId b = g_.node(n).blocks[k];
  const size_t num_params = g_.params(b).size();
  if (is_cond) {
    for (size_t i = 0; i < num_params; ++i) ReplaceAllUses(g_.params(b)[i], g_.node(n).inputs[i + 1]);
  }
  for (NodeId m : g_.Nodes(b)) MoveBefore(m, n);
  for (size_t i = 0; i < g_.node(n).outputs.size(); ++i) ReplaceAllUses(g_.node(n).outputs[i], g_.results(b)[i]);
  Erase(n);
  return absl::OkStatus();
}

absl::StatusOr<NodeId> Editor::Group(absl::Span<const NodeId> nodes, OpName op) {
  if (nodes.empty()) return absl::InvalidArgumentError("a group needs a node");
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!g_.node(nodes[i]).blocks.empty()) return absl::InvalidArgumentError("a node with blocks cannot join a group");
    if (i > 0 && g_.node(nodes[i - 1]).next != nodes[i]) {
      return absl::InvalidArgumentError("the nodes of a group must follow each other");
    }
  }
  const Node& first = g_.node(nodes.front());
  const Node& last = g_.node(nodes.back());
  const auto is_member = [&](NodeId n) {
    const Node& node = g_.node(n);
    return node.parent == first.parent && node.order >= first.order && node.order <= last.order;
  };
  auto sub = std::make_shared<Graph>();
  sub->symbols = g_.symbols;
  sub->name = "group";
  sub->input_infos.reserve(4);  // most have no more
  absl::flat_hash_map<ValueId, ValueId> inner;
  inner.reserve(4 * nodes.size());
  absl::InlinedVector<ValueId, 8> operands, inputs, results;
  absl::InlinedVector<Type, 4> types;
  Done done = {.kind = Done::kGrouped,
               .index = static_cast<uint32_t>(grouped_nodes_.size()),
               .values = static_cast<uint32_t>(grouped_values_.size())};
  grouped_nodes_.insert(grouped_nodes_.end(), nodes.begin(), nodes.end());
  for (NodeId n : nodes) {
    const Node& node = g_.node(n);
    operands.clear();
    for (ValueId v : node.inputs) {
      auto [it, inserted] = inner.try_emplace(v);
      if (inserted) {
        inputs.push_back(v);
        const Value& value = g_.value(v);
        it->second = sub->AddInput(value.name, value.type);
        if (value.expr) sub->SetExpr(it->second, value.expr);
      }
      operands.push_back(it->second);
    }
    const NodeId copy = sub->Append(sub->top(), node.op, operands, {}, node.attributes);
    if (node.source != nullptr) sub->SetSource(copy, node.source);
    for (ValueId v : node.outputs) {
      const Value& value = g_.value(v);
      const ValueId made = sub->AddNodeOutput(copy, value.type, value.name);
      if (value.expr) sub->SetExpr(made, value.expr);
      inner[v] = made;
      grouped_values_.push_back(v);
      if (std::all_of(value.uses.begin(), value.uses.end(), [&](const Use& u) { return is_member(u.user); })) continue;
      results.push_back(v);
      types.push_back(value.type);
      sub->AddOutput(made);
    }
  }
  Graph::Attributes attributes;
  attributes.emplace_back("Subgraph", std::move(sub));
  done.node = g_.InsertBefore(nodes[0], op, inputs, types, std::move(attributes));
  for (size_t i = 0; i < results.size(); ++i) g_.ReplaceAllUses(results[i], g_.node(done.node).outputs[i]);
  for (size_t i = nodes.size(); i-- > 0;) g_.Erase(nodes[i]);
  journal_.push_back(done);
  return done.node;
}

void Editor::Ungroup(const Done& done) {
  const NodeId group = Current(done.node);
  const std::shared_ptr<Graph> sub = std::get<std::shared_ptr<Graph>>(*g_.node(group).FindAttribute("Subgraph"));
  absl::flat_hash_map<ValueId, ValueId> outer;
  for (size_t i = 0; i < sub->inputs().size(); ++i) outer[sub->inputs()[i]] = g_.node(group).inputs[i];
  auto id = grouped_nodes_.begin() + done.index;
  auto value_id = grouped_values_.begin() + done.values;
  for (NodeId m : sub->Nodes(sub->top())) {
    const Node& node = sub->node(m);
    std::vector<ValueId> operands;
    for (ValueId v : node.inputs) operands.push_back(outer.at(v));
    std::vector<Type> types;
    for (ValueId v : node.outputs) types.push_back(sub->value(v).type);
    const NodeId n = g_.InsertBefore(group, node.op, operands, types, node.attributes);
    if (node.source != nullptr) g_.SetSource(n, node.source);
    nodes_[*id++] = n;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = sub->value(node.outputs[i]);
      const ValueId made = g_.node(n).outputs[i];
      g_.SetName(made, value.name);
      if (value.expr) g_.SetExpr(made, value.expr);
      outer[node.outputs[i]] = made;
      values_[*value_id++] = made;
    }
  }
  for (size_t i = 0; i < sub->outputs().size(); ++i) {
    g_.ReplaceAllUses(g_.node(group).outputs[i], outer.at(sub->outputs()[i]));
  }
  g_.Erase(group);
  grouped_nodes_.resize(done.index);
  grouped_values_.resize(done.values);
}

absl::Status Editor::TakeApart(NodeId n) {
  const Attribute* a = g_.node(n).FindAttribute("Subgraph");
  const std::shared_ptr<Graph>* found = a != nullptr ? std::get_if<std::shared_ptr<Graph>>(a) : nullptr;
  if (found == nullptr || *found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(g_.node(n).op.full(), " has no subgraph"));
  }
  const std::shared_ptr<Graph> sub = *found;
  const Graph& s = *sub;
  if (s.inputs().size() != g_.node(n).inputs.size() || s.outputs().size() != g_.node(n).outputs.size()) {
    return absl::InvalidArgumentError("the subgraph does not have the node's inputs and outputs");
  }
  for (NodeId m : s.Nodes(s.top())) {
    if (!s.node(m).blocks.empty()) return absl::UnimplementedError("a subgraph with blocks");
  }
  absl::flat_hash_map<ValueId, ValueId> outer;
  for (size_t i = 0; i < s.inputs().size(); ++i) outer[s.inputs()[i]] = g_.node(n).inputs[i];
  for (NodeId m : s.Nodes(s.top())) {
    const Node& node = s.node(m);
    std::vector<ValueId> operands;
    for (ValueId v : node.inputs) operands.push_back(outer.at(v));
    std::vector<Type> types;
    for (ValueId v : node.outputs) types.push_back(s.value(v).type);
    const NodeId copy = InsertBefore(n, node.op, operands, types, node.attributes);
    if (node.source != nullptr) g_.SetSource(copy, node.source);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      outer[node.outputs[i]] = g_.node(copy).outputs[i];
      if (s.value(node.outputs[i]).expr) g_.SetExpr(g_.node(copy).outputs[i], s.value(node.outputs[i]).expr);
    }
  }
  for (size_t i = 0; i < s.outputs().size(); ++i) ReplaceAllUses(g_.node(n).outputs[i], outer.at(s.outputs()[i]));
  Erase(n);
  return absl::OkStatus();
}

}  // namespace smelt
