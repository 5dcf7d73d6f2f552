#include "smelt/pipeline/eager_group_writer.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {
namespace {

// The call of a group while it is made. Tensors are distinguished by their numbers in the program: a tensor that an
// operator writes keeps its number.
//
// Where a group sees parts of a tensor that it makes or writes, the call makes the same views. The tensor is then a copy
// of the operand, which the call writes as the program does; its final contents are written to the operand as a whole.
class GroupCall {
 public:
  GroupCall(EagerProgramWriter& w, EagerComputing& computing, const EagerBases& bases, absl::Span<const NodeId> nodes)
      : w_(w), g_(w.graph()), computing_(computing), bases_(bases), nodes_(nodes), call_(w.graph(), /*flat=*/false) {
    absl::flat_hash_map<int, absl::flat_hash_set<int>> seen;  // numbers, by that of their base
    absl::flat_hash_map<int, int> base_of;
    const auto note = [&](ValueId v) {
      const int number = w_.Number(v), base = w_.Number(bases_.Base(v));
      names_[number].push_back(v);
      seen[base].insert(number);
      has_two_bases_ |= base_of.try_emplace(number, base).first->second != base;
    };
    absl::flat_hash_set<int> made, written;
    for (NodeId n : nodes) {
      ForTensorOperands(g_, n, note);
      if (bases_.IsView(n)) {
        views_.push_back(n);
        for (ValueId v : g_.node(n).outputs) names_[w_.Number(v)].push_back(v);
        continue;
      }
      auto& changed = FindSchema(g_.node(n).op)->IsMutable() ? written : made;
      for (ValueId v : g_.node(n).outputs) note(v), changed.insert(w_.Number(v));
    }
    ShowWhatIsReadAfterAWrite();
    // Parts that lie apart are operands of their own.
    const auto is_seen_changed = [&](int a, int b) {
      return a != b && written.contains(a) && !bases_.AreApart(names_.at(a).front(), names_.at(b).front());
    };
    for (const auto& [base, numbers] : seen) {
      const auto is_changed = [&](int a) {
        return absl::c_any_of(numbers, [&](int b) { return is_seen_changed(a, b); });
      };
      if (numbers.size() > 1 && (made.contains(base) || absl::c_any_of(numbers, is_changed))) shown_.insert(base);
    }
  }

  absl::Status Build() {
    if (has_two_bases_) return absl::UnimplementedError("a tensor with two bases");
    for (size_t k = 0; k < nodes_.size(); ++k) SMELT_RETURN_IF_ERROR(Add(nodes_[k], static_cast<int>(k)));
    layouts_ = WithoutWrites();
    for (const Result& r : results_) {
      if (!r.is_target && !IsUsedOutside(r.number)) continue;
      call_.graph().AddOutput(r.value);
      layouts_->AddOutput(r.first);
      targets.push_back(r.is_target ? r.number : -1);
      outputs.push_back(r.is_target ? -1 : r.number);
    }
    if (outputs.empty()) return absl::UnimplementedError("a group without results");
    return EraseWhatNothingReads();
  }

  CallGraph& call() { return call_; }
  std::vector<int> inputs() {
    std::vector<int> numbers;
    for (ValueId v : call_.operands()) numbers.push_back(w_.Number(v));
    return numbers;
  }
  // The rule for each input.
  std::vector<uint8_t> sharing() {
    std::vector<uint8_t> rules;
    for (ValueId v : call_.operands()) {
      OperandSharing rule = OperandSharing::kAny;
      const auto reads = reads_.find(w_.Number(v));
      for (const Result& r : results_) {
        if (!r.is_target || r.number == w_.Number(v) || reads == reads_.end()) continue;
        for (const Read& read : reads->second) rule = std::max(rule, RuleOf(read, r));
      }
      rules.push_back(static_cast<uint8_t>(rule));
    }
    return rules;
  }
  // The rule of the results' layouts, on all inputs; empty if every result is written to a given tensor.
  absl::StatusOr<std::vector<int64_t>> LayoutRule() const {
    if (absl::c_none_of(outputs, [](int v) { return v >= 0; })) return std::vector<int64_t>();
    std::vector<bool> are_targets;
    for (int v : targets) are_targets.push_back(v >= 0);
    return LayoutInference(*layouts_).RuleOfResults(are_targets);
  }

  // The group's views of tensors that it does not make.
  absl::flat_hash_set<int> ViewsFromOutside() const {
    absl::flat_hash_set<int> views;
    for (NodeId n : views_) {
      const ValueId base = bases_.Base(g_.node(n).outputs[0]);
      if (!absl::c_linear_search(nodes_, g_.value(base).def)) views.insert(w_.Number(g_.node(n).outputs[0]));
    }
    return views;
  }
  // The views of what the group makes that other nodes use, or views of them.
  absl::flat_hash_set<int> ViewsUsedOutside() const {
    absl::flat_hash_set<int> used;
    for (size_t k = views_.size(); k-- > 0;) {
      const Node& node = g_.node(views_[k]);
      const int number = w_.Number(node.outputs[0]);
      if (!used.contains(number) && !HasOtherUsers(number)) continue;
      used.insert(number);
      used.insert(w_.Number(node.inputs[0]));
    }
    return used;
  }

  std::vector<int> outputs, targets;  // by result of the call; -1: the other one has its number

 private:
  // The strides of what is made from a tensor follow the tensor's own, not those of the value that was written to it.
  void ShowWhatIsReadAfterAWrite() {
    absl::flat_hash_set<int> written;  // bases
    for (NodeId n : nodes_) {
      if (bases_.IsView(n)) continue;
      if (FindSchema(g_.node(n).op)->IsMutable()) {
        for (ValueId v : g_.node(n).outputs) written.insert(w_.Number(bases_.Base(v)));
      } else {
        ForTensorOperands(g_, n, [&](ValueId v) {
          const int base = w_.Number(bases_.Base(v));
          if (written.contains(base)) shown_.insert(base);
        });
      }
    }
  }

  struct Result {
    int number = -1;
    bool is_target = false;   // a tensor from outside, which the group writes
    ValueId first, value;     // as it was made, and in the end
    std::vector<int> writes;  // the nodes that write it, by place in the group
  };
  struct Read {
    int node = 0;
    OperandSharing rule = OperandSharing::kAny;  // of a node that writes
  };

  // A write reads its own operands before it writes anything; what is read later must not be what it wrote.
  OperandSharing RuleOf(const Read& read, const Result& written) const {
    const bool after = absl::c_any_of(written.writes, [&](int w) { return w < read.node; });
    if (after) return OperandSharing::kApart;
    if (!absl::c_linear_search(written.writes, read.node) || read.rule == OperandSharing::kAny)
      return OperandSharing::kAny;
    // An operand that lies like the whole of a tensor does not lie like the part that is written.
    const bool may_be_it = read.rule == OperandSharing::kNotPartly && !shown_.contains(written.number);
    return may_be_it ? OperandSharing::kNotPartly : OperandSharing::kApart;
  }

  bool HasOtherUsers(int number) const {
    for (ValueId v : names_.at(number)) {
      for (const Use& u : g_.value(v).uses) {
        if (!absl::c_linear_search(nodes_, u.user)) return true;
      }
    }
    return false;
  }
  bool IsUsedOutside(int number) const { return HasOtherUsers(number) || ViewsUsedOutside().contains(number); }

  void Bind(int number, ValueId inner) {
    defined_.insert(number);
    inner_[number] = inner;
    if (const auto it = names_.find(number); it != names_.end()) {
      for (ValueId v : it->second) call_.Bind(v, inner);
    }
  }

  // Returns the number of a tensor's base, if the call makes the views of that base; else its own.
  int Memory(ValueId v) const {
    const int base = w_.Number(bases_.Base(v));
    return shown_.contains(base) ? base : w_.Number(v);
  }

  absl::StatusOr<ValueId> Copy(ValueId v) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> copy,
                           call_.Apply(OpName::Get(op::kClone), {v, call_.Constant(std::monostate())}, 1, nullptr));
    return copy[0];
  }

  // Binds a tensor that the call has not seen yet.
  absl::Status Define(ValueId v) {
    v = bases_.Name(v);
    const int number = w_.Number(v);
    if (defined_.contains(number)) return absl::OkStatus();
    const int memory = Memory(v);
    if (memory == number) {
      SMELT_ASSIGN_OR_RETURN(ValueId x, call_.Operand(v));
      outside_.emplace(number, x);
      if (shown_.contains(number)) {
        SMELT_ASSIGN_OR_RETURN(x, Copy(x));
        copies_.push_back(call_.graph().value(x).def);
      }
      Bind(number, x);
      return absl::OkStatus();
    }
    const Node& view = g_.node(g_.value(v).def);
    SMELT_RETURN_IF_ERROR(Define(view.inputs[0]));
    std::vector<ValueId> operands = {inner_.at(w_.Number(view.inputs[0]))};
    for (size_t k = 1; k < view.inputs.size(); ++k) {
      SMELT_ASSIGN_OR_RETURN(const ValueId x, call_.Operand(view.inputs[k]));
      operands.push_back(x);
    }
    SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> made, call_.Apply(view.op, operands, 1, view.source));
    Bind(number, made[0]);
    return absl::OkStatus();
  }

  absl::Status Add(NodeId n, int place) {
    if (bases_.IsView(n)) return absl::OkStatus();
    absl::Status status;
    const FunctionSchema& schema = *FindSchema(g_.node(n).op);
    const bool writes = schema.IsMutable(), copies = g_.node(n).op.name() == op::kCopyInPlace;
    ForTensorOperands(g_, n, [&](ValueId v) {
      const bool is_read = !copies || v != g_.node(n).inputs[0] || v == g_.node(n).inputs[1];
      if (is_read || shown_.contains(Memory(v))) status.Update(Define(v));
    });
    SMELT_RETURN_IF_ERROR(status);
    if (!writes) {
      ForTensorOperands(g_, n, [&](ValueId v) { reads_[Memory(v)].push_back({place}); });
      return AddPure(n);
    }
    EagerComputing::Written written;
    if (copies) {
      const ValueId from = g_.node(n).inputs[1];
      SMELT_ASSIGN_OR_RETURN(const ValueId x, call_.Operand(from));
      SMELT_ASSIGN_OR_RETURN(written.value, call_.Cast(x, *DTypeOf(g_, g_.node(n).inputs[0])));
      // The call may write the operand later.
      if (written.value == x && shown_.contains(Memory(from))) {
        SMELT_ASSIGN_OR_RETURN(written.value, Copy(x));
      }
      reads_[Memory(from)].push_back({place, OperandSharing::kNotPartly});
    } else {
      SMELT_ASSIGN_OR_RETURN(written, computing_.ValueOfWrite(n, schema, call_));
      for (size_t k = 0; k < g_.node(n).inputs.size(); ++k) {
        const ValueId v = g_.node(n).inputs[k];
        if (!g_.value(v).type.IsTensor()) continue;
        reads_[Memory(v)].push_back({place, k < written.sharing.size() ? written.sharing[k] : OperandSharing::kAny});
      }
    }
    return Write(g_.node(n).inputs[0], written.value, place);
  }

  absl::Status Write(ValueId to, ValueId value, int place) {
    const int memory = Memory(to);
    if (shown_.contains(memory)) {
      const ValueId target = inner_.at(w_.Number(to));
      SMELT_ASSIGN_OR_RETURN(
          const std::vector<ValueId> written,
          call_.Apply(OpName::Get(op::kCopyInPlace), {target, value, call_.Constant(false)}, 1, nullptr));
      copies_.push_back(call_.graph().value(written[0]).def);
      // The final write includes elements that the program does not write.
      reads_[memory].push_back({static_cast<int>(nodes_.size())});
    }
    auto it = absl::c_find_if(results_, [&](const Result& r) { return r.number == memory; });
    if (it == results_.end()) {
      const auto from = outside_.find(memory);
      if (from == outside_.end() && defined_.contains(memory))
        return absl::UnimplementedError("a write to a tensor of unknown origin");
      it = results_.insert(results_.end(),
                           {memory, /*is_target=*/true, from == outside_.end() ? value : from->second, value, {}});
    }
    if (shown_.contains(memory)) {
      value = inner_.at(memory);
    } else {
      Bind(memory, value);
    }
    it->value = value;
    it->writes.push_back(place);
    // Targets are written in the order of their last writes.
    std::rotate(it, it + 1, results_.end());
    return absl::OkStatus();
  }

  absl::Status AddPure(NodeId n) {
    std::vector<ValueId> operands;
    for (ValueId v : g_.node(n).inputs) {
      SMELT_ASSIGN_OR_RETURN(const ValueId x, call_.Operand(v));
      operands.push_back(x);
    }
    std::vector<ValueId> made;
    if (GetOpTraits(g_.node(n).op).family == OpFamily::kConversion) {
      SMELT_ASSIGN_OR_RETURN(const ValueId converted, call_.Cast(operands[0], *DTypeOf(g_, g_.node(n).outputs[0])));
      made.push_back(converted);
    } else {
      SMELT_ASSIGN_OR_RETURN(made, call_.Apply(g_.node(n).op, operands, g_.node(n).outputs.size(), g_.node(n).source,
                                               g_.node(n).attributes));
    }
    for (size_t k = 0; k < made.size(); ++k) {
      const int number = w_.Number(g_.node(n).outputs[k]);
      Bind(number, made[k]);
      results_.push_back({number, /*is_target=*/false, made[k], made[k], {}});
    }
    return absl::OkStatus();
  }

  absl::Status EraseWhatNothingReads() {
    Graph& call = call_.graph();
    std::vector<NodeId> nodes(call.Nodes(call.top()));
    for (size_t k = nodes.size(); k-- > 0;) {
      const Node& node = call.node(nodes[k]);
      const bool is_read = absl::c_any_of(node.outputs, [&](ValueId v) { return !call.value(v).uses.empty(); });
      if (is_read || node.op == op::kCopyInPlace) continue;
      if (MayRefuseData(call, nodes[k])) return absl::UnimplementedError("an operator that runs without a reader");
      call.Erase(nodes[k]);
    }
    return absl::OkStatus();
  }

  // Returns the call's graph without writes: they change no strides.
  std::unique_ptr<Graph> WithoutWrites() {
    std::unique_ptr<Graph> out = call_.graph().Clone();
    for (NodeId n : copies_) {
      const ValueId copy = out->node(n).outputs[0], of = out->node(n).inputs[0];
      for (const Use& use : std::vector<Use>(out->value(copy).uses.begin(), out->value(copy).uses.end()))
        out->SetInput(use.user, use.index, of);
      out->Erase(n);
    }
    return out;
  }

  EagerProgramWriter& w_;
  const Graph& g_;
  EagerComputing& computing_;
  const EagerBases& bases_;
  absl::Span<const NodeId> nodes_;
  CallGraph call_;
  std::unique_ptr<Graph> layouts_;  // its results are the tensors as they are made
  std::vector<NodeId> copies_;      // nodes of the call that copy an operand, or write
  std::vector<NodeId> views_;       // of the group
  absl::flat_hash_map<int, std::vector<ValueId>> names_;
  absl::flat_hash_map<int, ValueId> inner_;  // of the call
  absl::flat_hash_set<int> defined_;
  absl::flat_hash_map<int, ValueId> outside_;  // operands of the call, as they are given
  absl::flat_hash_set<int> shown_;             // bases of which the call makes views
  bool has_two_bases_ = false;                 // one number, by names that the views do not connect
  absl::flat_hash_map<int, std::vector<Read>> reads_;
  std::vector<Result> results_;
};

}  // namespace

void EagerGroupWriter::Emit(absl::Span<const NodeId> nodes, absl::Span<const size_t> begins) {
  if (nodes.size() < 2 || EmitWhole(nodes, begins)) return;
  const size_t half = nodes.size() / 2;
  // The second half first: the other's places stay.
  Emit(nodes.subspan(half), begins.subspan(half));
  Emit(nodes.first(half), begins.first(half + 1));
}

bool EagerGroupWriter::EmitWhole(absl::Span<const NodeId> nodes, absl::Span<const size_t> begins) {
  const auto begin = static_cast<std::ptrdiff_t>(begins.front()), end = static_cast<std::ptrdiff_t>(begins.back());
  int launches = 0;
  for (auto k = begin; k != end; ++k) {
    const fb::EagerInstrT& i = *w_.program().blocks[w_.block()]->instrs[k];
    const bool calls = i.kind == fb::EagerKind::Compute || (i.kind == fb::EagerKind::Copy && i.call >= 0);
    launches += calls ? calls_.steps(i.call) : 0;
  }
  if (launches < 2) return false;
  GroupCall group(w_, computing_, bases_, nodes);
  // Results without operands have no layout rule.
  if (!group.Build().ok() || group.call().operands().empty()) return false;
  absl::StatusOr<std::vector<int64_t>> rule = group.LayoutRule();
  if (!rule.ok()) return false;
  const absl::StatusOr<int> call = calls_.AddGroup(group.call(), launches);
  if (!call.ok()) return false;
  const int inner = w_.AddBlock();
  auto& outer = w_.program().blocks[w_.block()]->instrs;
  auto& moved = w_.program().blocks[inner]->instrs;
  std::vector<std::unique_ptr<fb::EagerInstrT>> now;
  // Views of what lies outside come first. The group may take them as operands.
  const absl::flat_hash_set<int> before = group.ViewsFromOutside(), after = group.ViewsUsedOutside();
  const auto is_one_of = [](const fb::EagerInstrT& i, const absl::flat_hash_set<int>& views) {
    return i.kind == fb::EagerKind::View && views.contains(i.outputs[0]);
  };
  for (auto i = outer.begin() + begin; i != outer.begin() + end; ++i)
    (is_one_of(**i, before) ? now : moved).push_back(std::move(*i));
  std::unique_ptr<fb::EagerInstrT> instr = w_.New(fb::EagerKind::Group, nodes[0]);
  instr->call = *call;
  instr->blocks = {inner};
  instr->inputs = group.inputs();
  instr->sharing = group.sharing();
  instr->outputs = group.outputs;
  instr->targets = group.targets;
  if (!rule->empty()) {
    instr->layout = fb::EagerLayout::Rule;
    instr->layout_rule = *std::move(rule);
    instr->layout_inputs = instr->inputs;
  }
  now.push_back(std::move(instr));
  for (const auto& i : moved) {
    if (is_one_of(*i, after)) now.push_back(std::make_unique<fb::EagerInstrT>(*i));
  }
  outer.erase(outer.begin() + begin, outer.begin() + end);
  outer.insert(outer.begin() + begin, std::make_move_iterator(now.begin()), std::make_move_iterator(now.end()));
  return true;
}

}  // namespace smelt
