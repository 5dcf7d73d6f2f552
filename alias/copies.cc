#include "smelt/alias/copies.h"

#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Copies::Trim() {
  std::vector<MarkOfValue>().swap(marks_);
  std::vector<Reached>().swap(reached_);
  std::vector<From>().swap(from_);
}

void Copies::Solve(NodeId loop) {
  loop_ = loop;
  asked_ = NodeId();
  reached_.clear();
  from_.clear();
  if (marks_.size() < s_.records.values.size()) marks_.resize(s_.records.values.size());
  ++epoch_;
  std::vector<NodeId> todo = {loop_};
  while (!todo.empty()) {
    const NodeId n = todo.back();
    todo.pop_back();
    const Node& node = s_.g.node(n);
    for (ValueId v : node.outputs) Visit(v);
    for (BlockId b : node.blocks) {
      for (ValueId v : s_.g.params(b)) Visit(v);
      for (NodeId m = s_.g.block(b).first; m.valid(); m = s_.g.node(m).next) todo.push_back(m);
    }
  }
}

// A loop is asked about for each of its results.
bool Copies::RunsOnce(NodeId loop) {
  if (asked_ != loop) {
    asked_ = loop;
    runs_ = s_.evaluator.RunsOnce(s_.g.node(loop));
  }
  return runs_;
}

void Copies::AddCopiesOf(ValueId v) {
  const Graph& g = s_.g;
  const Value& value = g.value(v);
  const auto add = [&](ValueId from, uint32_t loop = 0) {
    if (IsAliasingType(g.value(from).type)) from_.push_back({from, loop});
  };
  const bool param = g.IsParam(value.def);
  const NodeId n = param ? g.block(g.node(value.def).parent).owner : value.def;
  if (!n.valid()) return;
  const Node& node = g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  const size_t at = value.def_index;
  if (IsLoopKind(op.kind)) {
    const bool is_while = op.kind == EffectKind::kWhile;
    if (node.blocks.empty()) return;
    const BlockId body = is_while && node.blocks.size() > 1 ? node.blocks[1] : node.blocks[0];
    const size_t inputs_from = is_while ? 0 : 2, params_from = param && !is_while ? 1 : 0;
    const size_t results_from = is_while ? 0 : 1;
    if (at < params_from) return;
    const size_t k = at - params_from;
    if (inputs_from + k >= node.inputs.size()) return;
    const bool runs = !param && !is_while && RunsOnce(n);
    const bool copies = !param && is_while && MayBeTensor(value.type);
    if (!runs && !copies) add(node.inputs[inputs_from + k]);
    if (results_from + k < g.results(body).size()) {
      if (!param) add(g.results(body)[results_from + k]);
      if (param || is_while) add(g.results(body)[results_from + k], s_.loops.IndexOf(n));
    }
  } else if (op.kind == EffectKind::kIf || op.kind == EffectKind::kCond) {
    if (param) {
      if (op.kind == EffectKind::kCond && at + 1 < node.inputs.size()) add(node.inputs[at + 1]);
      return;
    }
    const std::optional<size_t> taken = s_.evaluator.BranchTaken(node);
    for (size_t b = 0; b < node.blocks.size(); ++b) {
      if (taken && b != *taken) continue;
      if (at < g.results(node.blocks[b]).size()) add(g.results(node.blocks[b])[at]);
    }
  } else if (op.kind == EffectKind::kTupleUnpack || op.kind == EffectKind::kListUnpack) {
    // Taken from a container that nothing has changed.
    const SetId p = node.inputs.empty() ? 0 : s_.records.PointsTo(node.inputs[0]);
    if (!SetPool::IsSingle(p) || IsOld(SetPool::SingleRef(p))) return;
    const Object& o = s_.objects[ObjectOf(SetPool::SingleRef(p))];
    const Contents* c = s_.containers.FindContents(ObjectOf(SetPool::SingleRef(p)));
    if (o.kind != ObjectKind::kContainer || !o.def.valid() || (c != nullptr && !c->stores.empty())) return;
    const Node& made = g.node(g.value(o.def).def);
    const EffectKind kind = GetOpEffects(made.op).kind;
    const bool lists = kind == EffectKind::kTupleConstruct || kind == EffectKind::kListConstruct;
    if (lists && at < made.inputs.size()) add(made.inputs[at]);
  } else if (op.by == OpEffects::By::kNothing && op.kind == EffectKind::kGeneric) {
    const uint64_t self = op.result(at).self;
    for (size_t i = 0; self != 0 && i < node.inputs.size() && i < 64; ++i) {
      if (self & uint64_t{1} << i) add(node.inputs[i]);
    }
  }
}

void Copies::Open(ValueId v) {
  const uint32_t number = static_cast<uint32_t>(reached_.size()), from = static_cast<uint32_t>(from_.size());
  AddCopiesOf(v);
  const uint32_t end = static_cast<uint32_t>(from_.size());
  s_.steps += 1 + (end - from);
  marks_[v.index] = {epoch_, number};
  reached_.push_back({v, number, from, end, true});
  stack_.push_back(number);
  frames_.push_back({number, from});
}

void Copies::Visit(ValueId root) {
  if (root.index >= marks_.size() || Seen(root) || !IsAliasingType(s_.g.value(root).type)) return;
  Open(root);
  while (!frames_.empty()) {
    Frame& f = frames_.back();
    Reached& r = reached_[f.number];
    if (f.next < r.from_end) {
      const ValueId to = from_[f.next++].v;
      if (Seen(to)) {
        if (At(to).open) r.low = std::min(r.low, marks_[to.index].number);
      } else if (s_.work.OutermostLoop(s_.g.value(to).def) == loop_) {  // what comes in from outside is known
        Open(to);
      }
      continue;
    }
    const uint32_t number = f.number, low = r.low;
    frames_.pop_back();
    if (!frames_.empty()) {
      uint32_t& below = reached_[frames_.back().number].low;
      below = std::min(below, low);
    }
    if (low != number) continue;
    size_t begin = stack_.size();
    while (stack_[--begin] != number) {
    }
    Close(absl::MakeConstSpan(stack_).subspan(begin));
    for (size_t i = begin; i < stack_.size(); ++i) reached_[stack_[i]].open = false;
    stack_.resize(begin);
  }
}

SetId Copies::Coming(const From& from) { return s_.memory.Shift(s_.records.PointsTo(from.v), from.loop); }

void Copies::Close(absl::Span<const uint32_t> members) {
  // Gives the value everything that it is a copy of.
  const auto gather = [&](const Reached& r) {
    const SetId before = s_.records.PointsTo(r.v);
    SetId now = before;
    for (const From& from : CopiesOf(r)) now = s_.memory.Join(now, Coming(from));
    if (now != before) s_.work.SetPointsTo(r.v, now, s_.g.value(r.v).def, false);
  };
  if (members.size() == 1) return gather(reached_[members[0]]);
  SetId all = 0;
  uint32_t outermost = 0;
  for (uint32_t member : members) {
    const Reached& r = reached_[member];
    all = s_.memory.Join(all, s_.records.PointsTo(r.v));
    for (const From& from : CopiesOf(r)) {
      const bool inside = Seen(from.v) && At(from.v).open && marks_[from.v.index].number >= members[0];
      if (!inside) {
        all = s_.memory.Join(all, Coming(from));
      } else if (from.loop != 0 && (outermost == 0 || s_.loops[from.loop].depth < s_.loops[outermost].depth)) {
        outermost = from.loop;
      }
    }
  }
  if (outermost == 0) return;
  // Every member gets the allocations inside as older ones, and everything else unchanged.
  const SetId around = s_.memory.Shift(all, outermost);
  for (uint32_t member : members) {
    const ValueId v = reached_[member].v;
    const SetId before = s_.records.PointsTo(v);
    const SetId now = s_.memory.Join(before, around);
    if (now != before) s_.work.SetPointsTo(v, now, s_.g.value(v).def, false);
  }
  // In the reverse order of their discovery, the values that others are copies of come first.
  for (size_t i = members.size(); i-- > 0;) gather(reached_[members[i]]);
}

}  // namespace smelt::alias_internal
