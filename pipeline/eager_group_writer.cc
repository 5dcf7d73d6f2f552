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
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {
namespace {

// The call of a group while it is made. Tensors are distinguished by their numbers in the program: a tensor that an
// operator writes keeps its number.
class GroupCall {
 public:
  GroupCall(EagerProgramWriter& w, EagerComputing& computing, absl::Span<const NodeId> nodes)
      : w_(w), g_(w.graph()), computing_(computing), nodes_(nodes), call_(w.graph(), /*flat=*/false) {
    for (NodeId n : nodes) {
      ForTensors(n, [&](ValueId v) { names_[w_.Number(v)].push_back(v); });
      for (ValueId v : g_.node(n).outputs) names_[w_.Number(v)].push_back(v);
    }
  }

  absl::Status Build() {
    for (size_t k = 0; k < nodes_.size(); ++k) SMELT_RETURN_IF_ERROR(Add(nodes_[k], static_cast<int>(k)));
    layouts_ = call_.graph().Clone();
    for (const Result& r : results_) {
      if (!r.is_target && !IsUsedOutside(r.number)) continue;
      call_.graph().AddOutput(r.value);
      layouts_->AddOutput(r.first);
      targets.push_back(r.is_target ? r.number : -1);
      outputs.push_back(r.is_target ? -1 : r.number);
    }
    return outputs.empty() ? absl::UnimplementedError("a group without results") : absl::OkStatus();
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
    return LayoutInference(*layouts_).RuleOfResults(std::vector<bool>(layouts_->outputs().size()));
  }

  std::vector<int> outputs, targets;  // by result of the call; -1: the other one has its number

 private:
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

  template <typename F>
  void ForTensors(NodeId n, const F& f) const {
    for (ValueId v : g_.node(n).inputs) {
      if (g_.value(v).type.IsTensor()) {
        f(v);
      } else if (auto list = GetListElements(g_, v)) {
        for (ValueId e : *list) {
          if (g_.value(e).type.IsTensor()) f(e);
        }
      }
    }
  }

  // A write reads its own operands before it writes anything; what is read later must not be what it wrote.
  static OperandSharing RuleOf(const Read& read, const Result& written) {
    const bool after = absl::c_any_of(written.writes, [&](int w) { return w < read.node; });
    if (after) return OperandSharing::kApart;
    if (!absl::c_linear_search(written.writes, read.node) || read.rule == OperandSharing::kAny)
      return OperandSharing::kAny;
    return read.rule == OperandSharing::kNotPartly ? OperandSharing::kNotPartly : OperandSharing::kApart;
  }

  bool IsUsedOutside(int number) const {
    for (ValueId v : names_.at(number)) {
      for (const Use& u : g_.value(v).uses) {
        if (!absl::c_linear_search(nodes_, u.user)) return true;
      }
    }
    return false;
  }

  void Bind(int number, ValueId inner) {
    for (ValueId v : names_.at(number)) call_.Bind(v, inner);
  }

  absl::Status Add(NodeId n, int place) {
    absl::Status status;
    const FunctionSchema& schema = *FindSchema(g_.node(n).op);
    const bool writes = schema.IsMutable(), copies = g_.node(n).op.name() == op::kCopyInPlace;
    ForTensors(n, [&](ValueId v) {
      if (copies && v == g_.node(n).inputs[0] && v != g_.node(n).inputs[1]) return;  // it is not read
      const int number = w_.Number(v);
      if (!defined_.insert(number).second) return;
      const absl::StatusOr<ValueId> x = call_.Operand(v);
      status.Update(x.status());
      if (x.ok()) Bind(number, *x);
      outside_.insert(number);
    });
    SMELT_RETURN_IF_ERROR(status);
    if (!writes) {
      ForTensors(n, [&](ValueId v) { reads_[w_.Number(v)].push_back({place}); });
      return AddPure(n);
    }
    EagerComputing::Written written;
    if (copies) {
      const ValueId from = g_.node(n).inputs[1];
      SMELT_ASSIGN_OR_RETURN(const ValueId x, call_.Operand(from));
      SMELT_ASSIGN_OR_RETURN(written.value, call_.Cast(x, *DTypeOf(g_, g_.node(n).inputs[0])));
      reads_[w_.Number(from)].push_back({place, OperandSharing::kNotPartly});
    } else {
      SMELT_ASSIGN_OR_RETURN(written, computing_.ValueOfWrite(n, schema, call_));
      for (size_t k = 0; k < g_.node(n).inputs.size(); ++k) {
        const ValueId v = g_.node(n).inputs[k];
        if (!g_.value(v).type.IsTensor()) continue;
        reads_[w_.Number(v)].push_back({place, k < written.sharing.size() ? written.sharing[k] : OperandSharing::kAny});
      }
    }
    const int number = w_.Number(g_.node(n).inputs[0]);
    Bind(number, written.value);
    auto it = absl::c_find_if(results_, [&](const Result& r) { return r.number == number; });
    if (it == results_.end()) {
      if (!defined_.insert(number).second && !outside_.contains(number))
        return absl::UnimplementedError("a write to a tensor of unknown origin");
      it = results_.insert(results_.end(), {number, /*is_target=*/true, written.value, written.value, {}});
    }
    it->value = written.value;
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
    SMELT_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        call_.Apply(g_.node(n).op, operands, g_.node(n).outputs.size(), g_.node(n).source, g_.node(n).attributes));
    for (size_t k = 0; k < made.size(); ++k) {
      const int number = w_.Number(g_.node(n).outputs[k]);
      defined_.insert(number);
      Bind(number, made[k]);
      results_.push_back({number, /*is_target=*/false, made[k], made[k], {}});
    }
    return absl::OkStatus();
  }

  EagerProgramWriter& w_;
  const Graph& g_;
  EagerComputing& computing_;
  absl::Span<const NodeId> nodes_;
  CallGraph call_;
  std::unique_ptr<Graph> layouts_;  // its results are the tensors as they are made: a write changes no strides
  absl::flat_hash_map<int, std::vector<ValueId>> names_;
  absl::flat_hash_set<int> defined_, outside_;
  absl::flat_hash_map<int, std::vector<Read>> reads_;
  std::vector<Result> results_;
};

}  // namespace

void EagerGroupWriter::Emit(absl::Span<const NodeId> nodes, size_t first) {
  auto& instrs = w_.program().blocks[w_.block()]->instrs;
  const auto launches = absl::c_count_if(absl::MakeSpan(instrs).subspan(first), [](const auto& i) {
    return i->kind == fb::EagerKind::Compute || (i->kind == fb::EagerKind::Copy && i->call >= 0);
  });
  if (launches < 2) return;
  GroupCall group(w_, computing_, nodes);
  // Results without operands have no layout rule.
  if (!group.Build().ok() || group.call().operands().empty()) return;
  absl::StatusOr<std::vector<int64_t>> rule = group.LayoutRule();
  if (!rule.ok()) return;
  const absl::StatusOr<int> call = calls_.AddGroup(group.call(), static_cast<int>(launches));
  if (!call.ok()) return;
  const int inner = w_.AddBlock();
  auto& outer = w_.program().blocks[w_.block()]->instrs;
  auto& moved = w_.program().blocks[inner]->instrs;
  std::move(outer.begin() + static_cast<std::ptrdiff_t>(first), outer.end(), std::back_inserter(moved));
  outer.resize(first);
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Group, nodes[0]);
  i.call = *call;
  i.blocks = {inner};
  i.inputs = group.inputs();
  i.sharing = group.sharing();
  i.outputs = group.outputs;
  i.targets = group.targets;
  if (rule->empty()) return;
  i.layout = fb::EagerLayout::Rule;
  i.layout_rule = *std::move(rule);
  i.layout_inputs = i.inputs;
}

}  // namespace smelt
