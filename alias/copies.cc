#include "smelt/alias/copies.h"

#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Copies::Solve(NodeId loop) {
  loop_ = loop;
  count_ = 0;
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

std::vector<Copies::From> Copies::CopiesOf(ValueId v) {
  std::vector<From> out;
  const Graph& g = s_.g;
  const Value& value = g.value(v);
  const auto add = [&](ValueId from, uint32_t loop = 0) {
    if (IsAliasingType(g.value(from).type)) out.push_back({from, loop});
  };
  if (!IsAliasingType(value.type)) return out;
  const bool param = g.IsParam(value.def);
  const NodeId n = param ? g.block(g.node(value.def).parent).owner : value.def;
  if (!n.valid()) return out;
  const Node& node = g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  const size_t at = value.def_index;
  if (IsLoopKind(op.kind)) {
    const bool is_while = op.kind == EffectKind::kWhile;
    if (node.blocks.empty()) return out;
    const BlockId body = is_while && node.blocks.size() > 1 ? node.blocks[1] : node.blocks[0];
    const size_t inputs_from = is_while ? 0 : 2, params_from = param && !is_while ? 1 : 0;
    const size_t results_from = is_while ? 0 : 1;
    if (at < params_from) return out;
    const size_t k = at - params_from;
    if (inputs_from + k >= node.inputs.size()) return out;
    const bool runs = !param && !is_while && s_.evaluator.RunsOnce(node);
    const bool copies = !param && is_while && MayBeTensor(value.type);
    if (!runs && !copies) add(node.inputs[inputs_from + k]);
    if (results_from + k < g.results(body).size()) {
      if (!param) add(g.results(body)[results_from + k]);
      if (param || is_while) add(g.results(body)[results_from + k], s_.loops.IndexOf(n));
    }
  } else if (op.kind == EffectKind::kIf || op.kind == EffectKind::kCond) {
    if (param) {
      if (op.kind == EffectKind::kCond && at + 1 < node.inputs.size()) add(node.inputs[at + 1]);
      return out;
    }
    const std::optional<size_t> taken = s_.evaluator.BranchTaken(node);
    for (size_t b = 0; b < node.blocks.size(); ++b) {
      if (taken && b != *taken) continue;
      if (at < g.results(node.blocks[b]).size()) add(g.results(node.blocks[b])[at]);
    }
  } else if (op.kind == EffectKind::kTupleUnpack || op.kind == EffectKind::kListUnpack) {
    // Taken from a container that nothing has changed.
    const SetId p = node.inputs.empty() ? 0 : s_.records.PointsTo(node.inputs[0]);
    if (!SetPool::IsSingle(p) || IsOld(SetPool::SingleRef(p))) return out;
    const Object& o = s_.objects[ObjectOf(SetPool::SingleRef(p))];
    const Contents* c = s_.containers.FindContents(ObjectOf(SetPool::SingleRef(p)));
    if (o.kind != ObjectKind::kContainer || !o.def.valid() || (c != nullptr && !c->stores.empty())) return out;
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
  s_.steps += 1 + static_cast<int64_t>(out.size());
  return out;
}

void Copies::Open(ValueId v) {
  MarkOfValue& m = Mark(v);
  m.epoch = epoch_;
  m.order = m.low = ++count_;
  m.open = true;
  stack_.push_back(v);
  frames_.push_back({v, CopiesOf(v), 0});
}

void Copies::Visit(ValueId root) {
  if (root.index >= marks_.size() || Seen(root)) return;
  Open(root);
  while (!frames_.empty()) {
    Frame& f = frames_.back();
    if (f.next < f.from.size()) {
      const ValueId to = f.from[f.next++].v;
      if (s_.work.OutermostLoop(s_.g.value(to).def) != loop_) continue;  // what comes in is known
      if (!Seen(to)) {
        Open(to);
      } else if (Mark(to).open) {
        Mark(f.v).low = std::min(Mark(f.v).low, Mark(to).order);
      }
      continue;
    }
    const ValueId v = f.v;
    const uint32_t low = Mark(v).low;
    frames_.pop_back();
    if (!frames_.empty()) Mark(frames_.back().v).low = std::min(Mark(frames_.back().v).low, low);
    if (low != Mark(v).order) continue;
    size_t begin = stack_.size();
    while (stack_[--begin] != v) {
    }
    Close(absl::MakeConstSpan(stack_).subspan(begin));
    for (size_t i = begin; i < stack_.size(); ++i) Mark(stack_[i]).open = false;
    stack_.resize(begin);
  }
}

SetId Copies::Coming(const From& from) { return s_.memory.Shift(s_.records.PointsTo(from.v), from.loop); }

void Copies::Close(absl::Span<const ValueId> members) {
  if (members.size() == 1) {
    SetId all = s_.records.PointsTo(members[0]);
    const SetId before = all;
    for (const From& from : CopiesOf(members[0])) all = s_.memory.Join(all, Coming(from));
    if (all != before) s_.work.SetPointsTo(members[0], all, s_.g.value(members[0]).def, false);
    return;
  }
  SetId all = 0;
  uint32_t outermost = 0;
  for (ValueId v : members) {
    all = s_.memory.Join(all, s_.records.PointsTo(v));
    for (const From& from : CopiesOf(v)) {
      const bool inside = Seen(from.v) && Mark(from.v).open && Mark(from.v).order >= Mark(members[0]).order;
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
  for (ValueId v : members) {
    const SetId before = s_.records.PointsTo(v);
    const SetId now = s_.memory.Join(before, around);
    if (now != before) s_.work.SetPointsTo(v, now, s_.g.value(v).def, false);
  }
  // In the reverse order of their discovery, the values that others are copies of come first.
  for (size_t i = members.size(); i-- > 0;) {
    SetId now = s_.records.PointsTo(members[i]);
    const SetId before = now;
    for (const From& from : CopiesOf(members[i])) now = s_.memory.Join(now, Coming(from));
    if (now != before) s_.work.SetPointsTo(members[i], now, s_.g.value(members[i]).def, false);
  }
}

}  // namespace smelt::alias_internal
