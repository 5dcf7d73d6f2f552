#include "smelt/alias/editor.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

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

void Editor::UndoTo(Mark m) {
  while (journal_.size() > m) {
    std::function<void()> inverse = std::move(journal_.back());
    journal_.pop_back();
    inverse();
  }
}

NodeId Editor::InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs,
                            absl::Span<const Type> output_types, Graph::Attributes attributes) {
  const NodeId n = g_.InsertBefore(anchor, op, inputs, output_types, std::move(attributes));
  journal_.push_back([this, n] { g_.Erase(Current(n)); });
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
  auto saved = std::make_shared<const Saved>(Save(n));
  const BlockId block = g_.node(n).parent;
  const NodeId next = g_.node(n).next;
  g_.Erase(n);
  journal_.push_back(
      [this, saved, block, next] { Restore(*saved, Current(block), next.valid() ? Current(next) : NodeId()); });
}

void Editor::SetInput(NodeId n, uint32_t index, ValueId v) {
  const ValueId old = g_.node(n).inputs[index];
  if (old == v) return;
  g_.SetInput(n, index, v);
  // A block's return node is known by its block: it is not restored under an id of its own.
  const bool is_return = g_.IsReturn(n);
  const BlockId block = g_.node(n).parent;
  journal_.push_back([this, n, index, old, is_return, block] {
    g_.SetInput(is_return ? g_.block(Current(block)).return_node : Current(n), index, Current(old));
  });
}

void Editor::ReplaceAllUses(ValueId from, ValueId to) {
  if (from == to) return;
  const Value& value = g_.value(from);
  while (!value.uses.empty()) {
    const Use use = value.uses.back();
    SetInput(use.user, use.index, to);
  }
}

std::function<void()> Editor::BackTo(NodeId n) const {
  const BlockId block = g_.node(n).parent;
  const NodeId next = g_.node(n).next;
  return [this, n, block, next] {
    if (next.valid()) {
      g_.MoveBefore(Current(n), Current(next));
    } else {
      g_.MoveToEnd(Current(n), Current(block));
    }
  };
}

void Editor::MoveBefore(NodeId n, NodeId anchor) {
  std::function<void()> back = BackTo(n);
  g_.MoveBefore(n, anchor);
  journal_.push_back(std::move(back));
}

void Editor::MoveAfter(NodeId n, NodeId anchor) {
  std::function<void()> back = BackTo(n);
  g_.MoveAfter(n, anchor);
  journal_.push_back(std::move(back));
}

absl::Status Editor::InlineBlock(NodeId n, int k) {
  const std::string name = g_.node(n).op.name();
  const bool is_cond = name == "smelt::cond";
  if (name != "prim::If" && !is_cond) {
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
  absl::flat_hash_map<NodeId, size_t> members;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!g_.node(nodes[i]).blocks.empty()) return absl::InvalidArgumentError("a node with blocks cannot join a group");
    if (i > 0 && g_.node(nodes[i - 1]).next != nodes[i]) {
      return absl::InvalidArgumentError("the nodes of a group must follow each other");
    }
    members.emplace(nodes[i], i);
  }
  auto sub = std::make_shared<Graph>();
  sub->symbols = g_.symbols;
  sub->name = "group";
  absl::flat_hash_map<ValueId, ValueId> inner;
  std::vector<ValueId> inputs, results;
  std::vector<Type> types;
  for (NodeId n : nodes) {
    const Node& node = g_.node(n);
    std::vector<ValueId> operands;
    for (ValueId v : node.inputs) {
      auto [it, inserted] = inner.try_emplace(v);
      if (inserted) {
        inputs.push_back(v);
        it->second = sub->AddInput(g_.value(v).name, g_.value(v).type);
        if (g_.value(v).expr) sub->SetExpr(it->second, g_.value(v).expr);
      }
      operands.push_back(it->second);
    }
    std::vector<Type> output_types;
    for (ValueId v : node.outputs) output_types.push_back(g_.value(v).type);
    const NodeId copy = sub->Append(sub->top(), node.op, operands, output_types, node.attributes);
    if (node.source != nullptr) sub->SetSource(copy, node.source);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = g_.value(node.outputs[i]);
      const ValueId made = sub->node(copy).outputs[i];
      inner[node.outputs[i]] = made;
      sub->SetName(made, value.name);
      if (value.expr) sub->SetExpr(made, value.expr);
      bool outside = false;
      for (const Use& u : value.uses) outside |= !members.contains(u.user);
      if (!outside) continue;
      results.push_back(node.outputs[i]);
      types.push_back(value.type);
      sub->AddOutput(made);
    }
  }
  const NodeId group = InsertBefore(nodes[0], op, inputs, types, {{"Subgraph", sub}});
  for (size_t i = 0; i < results.size(); ++i) ReplaceAllUses(results[i], g_.node(group).outputs[i]);
  for (size_t i = nodes.size(); i-- > 0;) Erase(nodes[i]);
  return group;
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
