#include "smelt/core/ir/graph.h"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"

namespace smelt {

namespace {

// The labels of a block's nodes are between those of its param and its return node.
constexpr uint64_t kParamOrder = 0;
constexpr uint64_t kReturnOrder = UINT64_MAX;
constexpr uint64_t kFirstOrder = uint64_t{1} << 62;
constexpr uint64_t kOrderStep = uint64_t{1} << 24;  // room for 2^38 appended nodes

// Parses an automatic name: "0", "17". Returns nullopt for all others, including "007".
std::optional<uint32_t> AsNumber(absl::string_view name) {
  if (name.empty() || name.size() > 9 || (name[0] == '0' && name.size() > 1)) return std::nullopt;
  uint32_t value = 0;
  for (char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

// Most values are named by a number, counted upwards, and are found in a table indexed by it, at 4 bytes each. Other
// names are found by hash; the set keeps only the value's index, and the value holds the name.
struct Graph::Names {
  explicit Names(const Arena<Value, ValueId>& values) : table(0, Hash{&values}, Equal{&values}) {}

  struct Hash {
    using is_transparent = void;
    const Arena<Value, ValueId>* values;
    size_t operator()(absl::string_view s) const { return absl::Hash<absl::string_view>()(s); }
    size_t operator()(uint32_t index) const { return (*this)(values->At(index).name); }
  };
  struct Equal {
    using is_transparent = void;
    const Arena<Value, ValueId>* values;
    absl::string_view Name(absl::string_view s) const { return s; }
    absl::string_view Name(uint32_t index) const { return values->At(index).name; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Name(a) == Name(b);
    }
  };

  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> by_number;  // the value's index, or kNone
  uint32_t next_number = 0;
  int64_t numbers_in_table = 0;  // names in `table` that are numbers
  absl::flat_hash_set<uint32_t, Hash, Equal> table;
  absl::flat_hash_map<std::string, int64_t> next_suffix;  // of "x" in x.1, x.2, ...

  // A number from a file may be huge: numbers too large for a dense table, and those of 10 digits, are stored in the
  // hash.
  bool IsDense(uint32_t number) const {
    return number < by_number.size() + 1024 + by_number.size() / 2 && number < 1'000'000'000;
  }

  uint32_t Find(absl::string_view name) const {
    if (auto number = AsNumber(name); number && *number < by_number.size() && by_number[*number] != kNone) {
      return by_number[*number];
    }
    auto it = table.find(name);
    return it == table.end() ? kNone : *it;
  }
  // The value at `index` has its name already.
  void Insert(uint32_t index, absl::string_view name) {
    if (auto number = AsNumber(name)) {
      InsertNumber(index, *number);
    } else {
      table.insert(index);
    }
  }
  // The same for a value whose name is `number` in decimal.
  void InsertNumber(uint32_t index, uint32_t number) {
    if (IsDense(number)) {
      if (number >= by_number.size()) by_number.resize(number + 1, kNone);
      by_number[number] = index;
    } else {
      table.insert(index);
      ++numbers_in_table;
    }
  }
  void Remove(uint32_t index, absl::string_view name) {
    if (auto number = AsNumber(name); number && *number < by_number.size() && by_number[*number] == index) {
      by_number[*number] = kNone;
    } else {
      table.erase(index);
      if (number) --numbers_in_table;
    }
  }
  // Returns a number that is no value's name.
  uint32_t NextNumber() {
    for (;; ++next_number) {
      if (next_number < by_number.size() && by_number[next_number] != kNone) continue;
      if (numbers_in_table > 0 && Find(absl::StrCat(next_number)) != kNone) continue;
      return next_number++;
    }
  }
  // Returns `name` itself if it is free, else with the suffix ".1", ".2", ... (after removing such a suffix from it, as
  // TorchScript does).
  std::string MakeUnique(absl::string_view name) {
    if (Find(name) == kNone) return std::string(name);
    absl::string_view base = name;
    size_t dot = base.rfind('.');
    if (dot != absl::string_view::npos && dot > 0 && dot + 1 < base.size() &&
        base.find_first_not_of("0123456789", dot + 1) == absl::string_view::npos) {
      base = base.substr(0, dot);
    }
    int64_t& next = next_suffix[base];
    for (;;) {
      std::string candidate = absl::StrCat(base, ".", ++next);
      if (Find(candidate) == kNone) return candidate;
    }
  }
};

std::string SourceLocation::ToString() const {
  if (file.empty()) return "";
  return absl::StrCat(file, ":", line);
}

std::vector<Attributes::Entry>& Attributes::Own() {
  if (entries_ == nullptr) {
    entries_ = std::make_shared<std::vector<Entry>>();
  } else if (entries_.use_count() > 1) {
    entries_ = std::make_shared<std::vector<Entry>>(*entries_);
  } else {
    // The other owners, perhaps in other threads, have released it; their reads come before the writes from here on.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return *entries_;
}

const Attribute* Node::FindAttribute(absl::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Graph::Graph() : names_(std::make_unique<Names>(values_)) { top_ = NewBlock(NodeId()); }
Graph::~Graph() = default;

void Graph::AddSizeGuard(SizeGuard guard) {
  symbols.SetNonZero(guard.holds);
  size_guards.push_back(std::move(guard));
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto g = std::make_unique<Graph>();
  g->name = name;
  g->weights = weights;
  g->weight_storages = weight_storages;
  g->input_infos = input_infos;
  g->output_names = output_names;
  g->symbols = symbols;
  g->symbol_hints = symbol_hints;
  g->size_guards = size_guards;
  g->written_at_the_end = written_at_the_end;
  g->values_.CopyFrom(values_);
  g->nodes_.CopyFrom(nodes_);
  g->blocks_.CopyFrom(blocks_);
  g->top_ = top_;
  g->live_nodes_ = live_nodes_;
  g->names_ = std::make_unique<Names>(g->values_);
  g->names_->by_number = names_->by_number;
  g->names_->next_number = names_->next_number;
  g->names_->numbers_in_table = names_->numbers_in_table;
  g->names_->next_suffix = names_->next_suffix;
  g->names_->table.reserve(names_->table.size());
  for (uint32_t index : names_->table) g->names_->table.insert(index);
  const auto is_subgraph = [](const Attributes::Entry& entry) {
    const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&entry.second);
    return subgraph != nullptr && *subgraph != nullptr;
  };
  for (uint32_t i = 0; i < g->nodes_.size(); ++i) {
    Attributes& attributes = g->nodes_.At(i).attributes;
    if (!std::any_of(attributes.begin(), attributes.end(), is_subgraph)) continue;
    for (Attributes::Entry& entry : attributes.Own()) {
      if (is_subgraph(entry))
        entry.second = std::shared_ptr<Graph>(std::get<std::shared_ptr<Graph>>(entry.second)->Clone());
    }
  }
  return g;
}

// --- reading ---

bool Graph::IsParam(NodeId n) const { return block(node(n).parent).param_node == n; }
bool Graph::IsReturn(NodeId n) const { return block(node(n).parent).return_node == n; }

ValueId Graph::FindValue(absl::string_view name) const {
  uint32_t index = names_->Find(name);
  return index == Names::kNone ? ValueId() : values_.IdAt(index);
}

bool Graph::IsBefore(NodeId a, NodeId b) const {
  const Node &x = node(a), &y = node(b);
  SMELT_CHECK(x.parent == y.parent) << "IsBefore asked of nodes in different blocks";
  return x.order < y.order;
}

std::vector<NodeId> Graph::Nodes(BlockId b) const {
  std::vector<NodeId> result;
  for (NodeId n = block(b).first; n.valid(); n = node(n).next) result.push_back(n);
  return result;
}

std::vector<NodeId> Graph::AllNodes() const {
  std::vector<NodeId> result;
  result.reserve(live_nodes_);
  std::vector<NodeId> stack = {block(top_).first};
  while (!stack.empty()) {
    NodeId n = stack.back();
    stack.pop_back();
    if (!n.valid()) continue;
    result.push_back(n);
    stack.push_back(node(n).next);
    absl::Span<const BlockId> blocks = node(n).blocks;
    for (size_t i = blocks.size(); i-- > 0;) stack.push_back(block(blocks[i]).first);
  }
  return result;
}

// --- making and freeing ---

ValueId Graph::NewValue(NodeId def, uint32_t index, Type type, absl::string_view name) {
  std::string unique;
  uint32_t number = 0;
  if (name.empty()) {
    number = names_->NextNumber();
  } else {
    unique = names_->MakeUnique(name);
  }
  ValueId v = values_.Allocate();
  Value& value = values_.At(v.index);
  value.type = std::move(type);
  value.def = def;
  value.def_index = index;
  if (name.empty()) {
    char buffer[16];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), number);
    value.name.assign(buffer, end);
    names_->InsertNumber(v.index, number);
  } else {
    value.name = std::move(unique);
    names_->Insert(v.index, value.name);
  }
  return v;
}

void Graph::FreeValue(ValueId v) {
  names_->Remove(v.index, values_.At(v.index).name);
  values_.Free(v);
}

BlockId Graph::NewBlock(NodeId owner) {
  static const OpName kParam = OpName::Get("prim::Param");
  static const OpName kReturn = OpName::Get("prim::Return");
  BlockId b = blocks_.Allocate();
  NodeId param = nodes_.Allocate();
  NodeId ret = nodes_.Allocate();
  Block& block = blocks_.At(b.index);
  block.owner = owner;
  block.param_node = param;
  block.return_node = ret;
  Node& p = nodes_.At(param.index);
  p.op = kParam;
  p.parent = b;
  p.order = kParamOrder;
  Node& r = nodes_.At(ret.index);
  r.op = kReturn;
  r.parent = b;
  r.order = kReturnOrder;
  return b;
}

// Its nodes, results and uses of its params are gone already.
void Graph::FreeBlock(BlockId b) {
  NodeId param = blocks_.At(b.index).param_node, ret = blocks_.At(b.index).return_node;
  for (ValueId v : nodes_.At(param.index).outputs) {
    SMELT_CHECK(values_.Get(v).uses.empty()) << "%" << values_.Get(v).name << " is used outside its block";
    FreeValue(v);
  }
  nodes_.Free(param);
  nodes_.Free(ret);
  blocks_.Free(b);
}

NodeId Graph::NewNode(OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types) {
  NodeId n = nodes_.Allocate();
  Node& node = nodes_.At(n.index);
  node.op = op;
  node.inputs.reserve(inputs.size());
  node.use_positions.reserve(inputs.size());
  for (ValueId v : inputs) AddUse(n, v);
  node.outputs.reserve(output_types.size());
  for (const Type& type : output_types) {
    uint32_t index = static_cast<uint32_t>(node.outputs.size());
    node.outputs.push_back(NewValue(n, index, type, ""));
  }
  return n;
}

// --- uses ---

void Graph::AddUse(NodeId n, ValueId v) {
  Node& node = nodes_.At(n.index);
  auto& uses = values_.Get(v).uses;
  node.use_positions.push_back(static_cast<uint32_t>(uses.size()));
  uses.push_back({n, static_cast<uint32_t>(node.inputs.size())});
  node.inputs.push_back(v);
}

// Removes the use from the value's list in O(1); node.inputs does not change.
void Graph::DropUse(NodeId n, uint32_t index) {
  Node& node = nodes_.At(n.index);
  auto& uses = values_.Get(node.inputs[index]).uses;
  uint32_t position = node.use_positions[index];
  if (position + 1 != uses.size()) {
    uses[position] = uses.back();
    nodes_.At(uses[position].user.index).use_positions[uses[position].index] = position;
  }
  uses.pop_back();
}

// --- order ---

uint64_t Graph::MakeLabel(NodeId prev, NodeId next) {
  if (!prev.valid() && !next.valid()) return kFirstOrder;
  if (!next.valid()) {
    uint64_t last = nodes_.At(prev.index).order;
    if (last < kReturnOrder - kOrderStep) return last + kOrderStep;
    return last + (kReturnOrder - last) / 2;  // equal to `last` where there is no room: the caller relabels
  }
  uint64_t after = nodes_.At(next.index).order;
  uint64_t before = prev.valid() ? nodes_.At(prev.index).order : kParamOrder;
  if (!prev.valid() && after > kOrderStep) return after - kOrderStep;
  return before + (after - before) / 2;
}

// Spreads the labels around a node: the smallest aligned range of labels that contains it and is sparse enough (the
// allowed density falls by 3/4 with every doubling) is filled evenly. Takes amortised O(log n) per insertion, for any
// order of insertions (Bender et al., "Two simplified algorithms for maintaining order in a list").
void Graph::Relabel(NodeId around) {
  const Block& block = blocks_.At(nodes_.At(around.index).parent.index);
  uint64_t center = nodes_.At(around.index).order;
  NodeId first = around, last = around;
  uint64_t count = 1;
  double threshold = 1;
  for (int bits = 1; bits < 64; ++bits) {
    uint64_t size = uint64_t{1} << bits;
    uint64_t low = center & ~(size - 1);
    uint64_t high = low + (size - 1);
    for (NodeId p = nodes_.At(first.index).prev; p.valid() && nodes_.At(p.index).order >= low;
         p = nodes_.At(p.index).prev) {
      first = p;
      ++count;
    }
    for (NodeId p = nodes_.At(last.index).next; p.valid() && nodes_.At(p.index).order <= high;
         p = nodes_.At(p.index).next) {
      last = p;
      ++count;
    }
    threshold *= 0.75;
    // Leaves room for one more between any two, and none at the labels of the param and return nodes.
    uint64_t step = size / (count + 1);
    if (step < 4 || static_cast<double>(count) > threshold * static_cast<double>(size)) continue;
    uint64_t label = low;
    for (NodeId p = first;; p = nodes_.At(p.index).next) {
      label += step;
      nodes_.At(p.index).order = label;
      if (p == last) break;
    }
    return;
  }
  SMELT_CHECK(false) << "no room for order labels in a block; first node " << block.first;
}

void Graph::Link(NodeId n, BlockId b, NodeId next) {
  Block& block = blocks_.Get(b);
  Node& node = nodes_.At(n.index);
  NodeId prev = next.valid() ? nodes_.At(next.index).prev : block.last;
  uint64_t label = MakeLabel(prev, next);
  for (;;) {
    uint64_t before = prev.valid() ? nodes_.At(prev.index).order : kParamOrder;
    uint64_t after = next.valid() ? nodes_.At(next.index).order : kReturnOrder;
    if (label > before && label < after) break;
    Relabel(prev.valid() ? prev : next);
    before = prev.valid() ? nodes_.At(prev.index).order : kParamOrder;
    after = next.valid() ? nodes_.At(next.index).order : kReturnOrder;
    label = before + (after - before) / 2;
  }
  node.parent = b;
  node.order = label;
  node.prev = prev;
  node.next = next;
  (prev.valid() ? nodes_.At(prev.index).next : block.first) = n;
  (next.valid() ? nodes_.At(next.index).prev : block.last) = n;
}

void Graph::Unlink(NodeId n) {
  Node& node = nodes_.At(n.index);
  Block& block = blocks_.At(node.parent.index);
  (node.prev.valid() ? nodes_.At(node.prev.index).next : block.first) = node.next;
  (node.next.valid() ? nodes_.At(node.next.index).prev : block.last) = node.prev;
  node.prev = node.next = NodeId();
}

// --- editing ---

ValueId Graph::AddInput(absl::string_view name, Type type, InputInfo info) {
  input_infos.resize(inputs().size());
  input_infos.push_back(std::move(info));
  NodeId param = block(top_).param_node;
  uint32_t index = static_cast<uint32_t>(node(param).outputs.size());
  ValueId v = NewValue(param, index, std::move(type), name);
  nodes_.At(param.index).outputs.push_back(v);
  Notify([&](GraphListener* l) { l->OnOutputAdded(param, index); });
  return v;
}

void Graph::AddOutput(ValueId v, absl::string_view name) {
  output_names.resize(outputs().size());
  output_names.emplace_back(name);
  AddNodeInput(block(top_).return_node, v);
}

void Graph::SetOutput(int index, ValueId v) { SetInput(block(top_).return_node, static_cast<uint32_t>(index), v); }

NodeId Graph::InsertNode(BlockId b, NodeId next, OpName op, absl::Span<const ValueId> inputs,
                         absl::Span<const Type> output_types, Attributes attributes) {
  SMELT_CHECK(static_cast<bool>(op)) << "a node needs an operator";
  NodeId n = NewNode(op, inputs, output_types);
  if (!attributes.empty()) {
    const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(attributes.begin(), attributes.end(), before)) {
      std::vector<Attributes::Entry>& entries = attributes.Own();
      std::sort(entries.begin(), entries.end(), before);
    }
    nodes_.At(n.index).attributes = std::move(attributes);
  }
  Link(n, b, next);
  ++live_nodes_;
  Notify([&](GraphListener* l) { l->OnNodeInserted(n); });
  return n;
}

NodeId Graph::Append(BlockId b, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types) {
  return InsertNode(b, NodeId(), op, inputs, output_types);
}

NodeId Graph::Append(BlockId b, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types,
                     Attributes attributes) {
  return InsertNode(b, NodeId(), op, inputs, output_types, std::move(attributes));
}

NodeId Graph::InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs,
                           absl::Span<const Type> output_types) {
  return InsertBefore(anchor, op, inputs, output_types, {});
}

NodeId Graph::InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs,
                           absl::Span<const Type> output_types, Attributes attributes) {
  SMELT_CHECK(!IsParam(anchor)) << "nothing can be before a block's parameters";
  return InsertNode(node(anchor).parent, IsReturn(anchor) ? NodeId() : anchor, op, inputs, output_types,
                    std::move(attributes));
}

NodeId Graph::InsertAfter(NodeId anchor, OpName op, absl::Span<const ValueId> inputs,
                          absl::Span<const Type> output_types) {
  SMELT_CHECK(!IsReturn(anchor)) << "nothing can be after a block's results";
  const Node& a = node(anchor);
  return InsertNode(a.parent, IsParam(anchor) ? block(a.parent).first : a.next, op, inputs, output_types);
}

BlockId Graph::AddBlock(NodeId n) {
  SMELT_CHECK(!IsParam(n) && !IsReturn(n)) << "param and return nodes have no blocks";
  BlockId b = NewBlock(n);
  nodes_.At(n.index).blocks.push_back(b);
  Notify([&](GraphListener* l) { l->OnBlockAdded(n, b); });
  return b;
}

ValueId Graph::AddParam(BlockId b, Type type, absl::string_view name) {
  if (b == top_) return AddInput(name, std::move(type));
  return AddNodeOutput(block(b).param_node, std::move(type), name);
}

void Graph::AddResult(BlockId b, ValueId v) {
  if (b == top_) return AddOutput(v);
  AddNodeInput(block(b).return_node, v);
}

void Graph::EraseParam(BlockId b, int index) {
  EraseNodeOutput(block(b).param_node, index);
  if (b == top_ && index < static_cast<int>(input_infos.size())) input_infos.erase(input_infos.begin() + index);
}

void Graph::EraseResult(BlockId b, int index) {
  RemoveInput(block(b).return_node, static_cast<uint32_t>(index));
  if (b == top_ && index < static_cast<int>(output_names.size())) output_names.erase(output_names.begin() + index);
}

ValueId Graph::AddNodeOutput(NodeId n, Type type, absl::string_view name) {
  uint32_t index = static_cast<uint32_t>(node(n).outputs.size());
  ValueId v = NewValue(n, index, std::move(type), name);
  nodes_.At(n.index).outputs.push_back(v);
  Notify([&](GraphListener* l) { l->OnOutputAdded(n, index); });
  return v;
}

void Graph::EraseNodeOutput(NodeId n, int index) {
  Node& node = nodes_.Get(n);
  SMELT_CHECK(index >= 0 && index < static_cast<int>(node.outputs.size()));
  ValueId v = node.outputs[index];
  SMELT_CHECK(value(v).uses.empty()) << "%" << value(v).name << " still has " << value(v).uses.size() << " uses";
  Notify([&](GraphListener* l) { l->OnOutputErasing(n, static_cast<uint32_t>(index)); });
  node.outputs.erase(node.outputs.begin() + index);
  for (size_t i = index; i < node.outputs.size(); ++i)
    values_.At(node.outputs[i].index).def_index = static_cast<uint32_t>(i);
  FreeValue(v);
}

void Graph::SetInput(NodeId n, uint32_t index, ValueId v) {
  Node& node = nodes_.Get(n);
  SMELT_CHECK_LT(index, node.inputs.size());
  ValueId old = node.inputs[index];
  if (old == v) return;
  auto& uses = values_.Get(v).uses;
  DropUse(n, index);
  node.inputs[index] = v;
  node.use_positions[index] = static_cast<uint32_t>(uses.size());
  uses.push_back({n, index});
  Notify([&](GraphListener* l) { l->OnInputChanged(n, index, old); });
}

void Graph::AddNodeInput(NodeId n, ValueId v) {
  uint32_t index = static_cast<uint32_t>(node(n).inputs.size());
  AddUse(n, v);
  Notify([&](GraphListener* l) { l->OnInputChanged(n, index, ValueId()); });
}

void Graph::RemoveInput(NodeId n, uint32_t index) {
  Node& node = nodes_.Get(n);
  SMELT_CHECK_LT(index, node.inputs.size());
  ValueId old = node.inputs[index];
  DropUse(n, index);
  node.inputs.erase(node.inputs.begin() + index);
  node.use_positions.erase(node.use_positions.begin() + index);
  for (size_t i = index; i < node.inputs.size(); ++i) {
    values_.At(node.inputs[i].index).uses[node.use_positions[i]].index = static_cast<uint32_t>(i);
  }
  Notify([&](GraphListener* l) { l->OnInputRemoved(n, index, old); });
}

void Graph::ReplaceAllUses(ValueId from, ValueId to) {
  SMELT_CHECK(IsLive(to)) << "stale or invalid id " << to;
  if (from == to) return;
  const Value& value = values_.Get(from);
  // Goes backwards: SetInput removes each in O(1).
  while (!value.uses.empty()) {
    Use use = value.uses.back();
    SetInput(use.user, use.index, to);
  }
}

void Graph::MoveTo(NodeId n, BlockId b, NodeId next) {
  SMELT_CHECK(!IsParam(n) && !IsReturn(n)) << "param and return nodes do not move";
  BlockId old = node(n).parent;
  if (n == next) return;
  if (old != b) {
    for (BlockId up = b; block(up).owner.valid(); up = node(block(up).owner).parent) {
      SMELT_CHECK(block(up).owner != n) << "a node cannot move into its own block";
    }
  }
  // The node's own place counts as free.
  if (old == b && node(n).next == next) return;
  Unlink(n);
  Link(n, b, next);
  Notify([&](GraphListener* l) { l->OnNodeMoved(n, old); });
}

void Graph::MoveBefore(NodeId n, NodeId anchor) {
  SMELT_CHECK(!IsParam(anchor)) << "nothing can be before a block's parameters";
  MoveTo(n, node(anchor).parent, IsReturn(anchor) ? NodeId() : anchor);
}

void Graph::MoveAfter(NodeId n, NodeId anchor) {
  SMELT_CHECK(!IsReturn(anchor)) << "nothing can be after a block's results";
  if (n == anchor) return;
  const Node& a = node(anchor);
  NodeId next = IsParam(anchor) ? block(a.parent).first : a.next;
  if (next == n) return;  // is there already
  MoveTo(n, a.parent, next);
}

void Graph::MoveToEnd(NodeId n, BlockId b) { MoveTo(n, b, NodeId()); }

void Graph::Erase(NodeId root) {
  SMELT_CHECK(!IsParam(root) && !IsReturn(root)) << "param and return nodes go with their block";
  if (node(root).blocks.empty()) {
    EraseOne(root);
    return;
  }
  // Pre-order with the return node of each block at its end, so that backwards, uses come before definitions.
  std::vector<NodeId> order = {root};
  std::vector<NodeId> stack;
  auto push_blocks = [&](NodeId n) {
    absl::Span<const BlockId> blocks = node(n).blocks;
    for (size_t i = blocks.size(); i-- > 0;) {
      stack.push_back(block(blocks[i]).return_node);
      if (block(blocks[i]).first.valid()) stack.push_back(block(blocks[i]).first);
    }
  };
  push_blocks(root);
  while (!stack.empty()) {
    NodeId n = stack.back();
    stack.pop_back();
    order.push_back(n);
    if (IsReturn(n)) continue;
    if (node(n).next.valid()) stack.push_back(node(n).next);
    push_blocks(n);
  }
  for (size_t i = order.size(); i-- > 0;) {
    NodeId n = order[i];
    Node& node = nodes_.At(n.index);
    if (IsReturn(n)) {
      for (size_t k = node.inputs.size(); k-- > 0;) RemoveInput(n, static_cast<uint32_t>(k));
      continue;
    }
    EraseOne(n);
  }
}

// Its blocks are empty.
void Graph::EraseOne(NodeId n) {
  Node& node = nodes_.At(n.index);
  for (ValueId v : node.outputs) {
    const Value& value = values_.Get(v);
    SMELT_CHECK(value.uses.empty()) << "cannot erase " << node.op.full() << ": %" << value.name << " still has "
                                    << value.uses.size() << " uses";
  }
  Notify([&](GraphListener* l) { l->OnNodeErasing(n); });
  for (BlockId b : node.blocks) FreeBlock(b);
  for (size_t k = node.inputs.size(); k-- > 0;) DropUse(n, static_cast<uint32_t>(k));
  for (ValueId v : node.outputs) FreeValue(v);
  Unlink(n);
  nodes_.Free(n);
  --live_nodes_;
}

void Graph::SetAttribute(NodeId n, absl::string_view name, Attribute value) {
  std::vector<Attributes::Entry>& attributes = nodes_.Get(n).attributes.Own();
  auto it = std::lower_bound(attributes.begin(), attributes.end(), name,
                             [](const auto& entry, absl::string_view key) { return entry.first < key; });
  if (it != attributes.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    attributes.emplace(it, std::string(name), std::move(value));
  }
  Notify([&](GraphListener* l) { l->OnAttributeChanged(n, name); });
}

void Graph::RemoveAttribute(NodeId n, absl::string_view name) {
  Attributes& attributes = nodes_.Get(n).attributes;
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (attributes[i].first != name) continue;
    std::vector<Attributes::Entry>& entries = attributes.Own();
    entries.erase(entries.begin() + static_cast<ptrdiff_t>(i));
    Notify([&](GraphListener* l) { l->OnAttributeChanged(n, name); });
    return;
  }
}

void Graph::SetType(ValueId v, Type type) {
  values_.Get(v).type = std::move(type);
  Notify([&](GraphListener* l) { l->OnTypeChanged(v); });
}

void Graph::SetExpr(ValueId v, std::optional<Expr> expr) { values_.Get(v).expr = std::move(expr); }

void Graph::SetName(ValueId v, absl::string_view name) {
  Value& value = values_.Get(v);
  if (value.name == name) return;
  names_->Remove(v.index, value.name);
  value.name = name.empty() ? absl::StrCat(names_->NextNumber()) : names_->MakeUnique(name);
  names_->Insert(v.index, value.name);
}

void Graph::SetOp(NodeId n, OpName op) {
  Node& node = nodes_.Get(n);
  node.op = op;
  ValueId old = node.inputs.empty() ? ValueId() : node.inputs[0];
  Notify([&](GraphListener* l) { l->OnInputChanged(n, 0, old); });
}

void Graph::SetSource(NodeId n, std::shared_ptr<const SourceLocation> source) {
  nodes_.Get(n).source = std::move(source);
}

void Graph::AddListener(GraphListener* l) { listeners_.push_back(l); }

void Graph::RemoveListener(GraphListener* l) {
  auto it = std::find(listeners_.begin(), listeners_.end(), l);
  SMELT_CHECK(it != listeners_.end()) << "the listener is not registered";
  listeners_.erase(it);
}

}  // namespace smelt
