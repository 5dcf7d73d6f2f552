#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

namespace {

std::string Describe(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  std::string out;
  for (ValueId v : node.outputs)
    absl::StrAppend(&out, out.empty() ? "" : ", ", "%", g.IsLive(v) ? g.value(v).name : "?");
  if (!out.empty()) out += " = ";
  absl::StrAppend(&out, node.op ? node.op.full() : std::string("(no operator)"));
  if (node.source != nullptr && !node.source->file.empty()) absl::StrAppend(&out, " (", node.source->ToString(), ")");
  return out;
}

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g) {}

  // A list of checks of the whole graph, each with its own message, and then of each block.
  absl::Status Run() {
    if (g_.input_infos.size() != g_.inputs().size()) {
      return absl::InternalError(absl::StrCat("expected an InputInfo for each of ", g_.inputs().size(),
                                              " inputs, found ", g_.input_infos.size()));
    }
    if (g_.output_names.size() != g_.outputs().size()) {
      return absl::InternalError(absl::StrCat("expected a name (or \"\") for each of ", g_.outputs().size(),
                                              " outputs, found ", g_.output_names.size()));
    }
    for (size_t i = 0; i < g_.input_infos.size(); ++i) {
      const InputInfo& info = g_.input_infos[i];
      if (info.kind == InputInfo::Kind::kWeight &&
          (info.weight < 0 || info.weight >= static_cast<int>(g_.weights.size()))) {
        return absl::InternalError(absl::StrCat("input ", i, " is weight ", info.weight, " of ", g_.weights.size()));
      }
    }
    for (const Weight& w : g_.weights) {
      if (w.storage < 0 || w.storage >= static_cast<int>(g_.weight_storages.size())) {
        return absl::InternalError(
            absl::StrCat("weight \"", w.name, "\" is in storage ", w.storage, " of ", g_.weight_storages.size()));
      }
      const std::shared_ptr<Storage>& storage = g_.weight_storages[w.storage];
      absl::Status status = CheckWeight(w, storage == nullptr ? 0 : storage->bytes());
      if (!status.ok()) return absl::InternalError(status.message());
    }
    visible_.assign(g_.value_index_bound(), false);
    struct Frame {
      BlockId block;
      NodeId next;
      size_t defined;  // visible_values_ at entry
    };
    std::vector<Frame> stack;
    auto enter = [&](BlockId b) -> absl::Status {
      size_t defined = defined_.size();
      absl::Status status = EnterBlock(b);
      if (status.ok()) stack.push_back({b, g_.block(b).first, defined});
      return status;
    };
    absl::Status status = enter(g_.top());
    if (!status.ok()) return status;
    if (g_.block(g_.top()).owner.valid()) return absl::InternalError("the top block has an owner");
    // A node's own outputs become visible after its blocks: outputs_pending holds the nodes whose blocks are being
    // visited.
    struct Pending {
      NodeId node;
      size_t block = 0;
      size_t depth = 0;
    };
    std::vector<Pending> pending;
    while (!stack.empty()) {
      if (!pending.empty() && pending.back().depth == stack.size()) {
        Pending& p = pending.back();
        const Node& node = g_.node(p.node);
        if (p.block < node.blocks.size()) {
          BlockId b = node.blocks[p.block++];
          if (!g_.IsLive(b) || g_.block(b).owner != p.node) return Fail(p.node, "a block whose owner is another node");
          if (!(status = enter(b)).ok()) return status;
        } else {
          NodeId n = p.node;
          pending.pop_back();
          if (!(status = Define(n)).ok()) return status;
        }
        continue;
      }
      Frame& frame = stack.back();
      if (!frame.next.valid()) {
        NodeId ret = g_.block(frame.block).return_node;
        if (!(status = CheckInputs(ret)).ok()) return status;
        for (size_t i = frame.defined; i < defined_.size(); ++i) visible_[defined_[i].index] = false;
        defined_.resize(frame.defined);
        stack.pop_back();
        continue;
      }
      NodeId n = frame.next;
      frame.next = g_.node(n).next;
      if (!(status = CheckNode(n, frame.block)).ok()) return status;
      if (g_.node(n).blocks.empty()) {
        if (!(status = Define(n)).ok()) return status;
      } else {
        pending.push_back({n, 0, stack.size()});
      }
    }
    if (nodes_ != g_.num_nodes()) {
      return absl::InternalError(absl::StrCat("found ", nodes_, " nodes in blocks, expected ", g_.num_nodes()));
    }
    if (uses_ != inputs_)
      return absl::InternalError(absl::StrCat("values have ", uses_, " uses, nodes have ", inputs_, " inputs"));
    return absl::OkStatus();
  }

 private:
  absl::Status Fail(NodeId n, absl::string_view what) const {
    return absl::InternalError(absl::StrCat("node ", n.ToString(), ", ", Describe(g_, n), ": ", what));
  }

  absl::Status EnterBlock(BlockId b) {
    const Block& block = g_.block(b);
    if (!g_.IsLive(block.param_node) || !g_.IsLive(block.return_node)) {
      return absl::InternalError("a block without a live param or return node");
    }
    if (g_.node(block.param_node).parent != b || g_.node(block.return_node).parent != b) {
      return absl::InternalError("a block's param or return node belongs to another block");
    }
    if (!g_.node(block.param_node).inputs.empty()) return Fail(block.param_node, "a param node has inputs");
    if (!g_.node(block.return_node).outputs.empty()) return Fail(block.return_node, "a return node has outputs");
    NodeId previous;
    for (NodeId n = block.first; n.valid(); n = g_.node(n).next) {
      if (!g_.IsLive(n)) return absl::InternalError(absl::StrCat("a block lists the stale node ", n.ToString()));
      const Node& node = g_.node(n);
      if (node.parent != b) return Fail(n, "its parent is another block");
      if (node.prev != previous) return Fail(n, "its neighbour before does not lead to it");
      uint64_t before = previous.valid() ? g_.node(previous).order : g_.node(block.param_node).order;
      if (node.order <= before || node.order >= g_.node(block.return_node).order)
        return Fail(n, "its order label is out of order");
      previous = n;
    }
    if (block.last != previous) return absl::InternalError("a block's last node is not the end of its list");
    return Define(block.param_node);
  }

  absl::Status CheckNode(NodeId n, BlockId b) {
    ++nodes_;
    const Node& node = g_.node(n);
    if (!node.op) return Fail(n, "no operator");
    for (size_t i = 1; i < node.attributes.size(); ++i) {
      if (!(node.attributes[i - 1].first < node.attributes[i].first))
        return Fail(n, "attributes are not sorted by name");
    }
    return CheckInputs(n);
  }

  absl::Status CheckInputs(NodeId n) {
    const Node& node = g_.node(n);
    if (node.use_positions.size() != node.inputs.size()) return Fail(n, "its inputs and their uses differ in number");
    inputs_ += static_cast<int64_t>(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId v = node.inputs[i];
      if (!g_.IsLive(v)) return Fail(n, absl::StrCat("input ", i, " is a value that was erased"));
      const Value& value = g_.value(v);
      uint32_t position = node.use_positions[i];
      if (position >= value.uses.size() || value.uses[position].user != n || value.uses[position].index != i) {
        return Fail(n, absl::StrCat("input ", i, ", %", value.name, ", does not list this use"));
      }
      if (!visible_[v.index]) {
        return Fail(
            n, absl::StrCat("input ", i, ", %", value.name, ", is not defined before, in this block or one around it"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Define(NodeId n) {
    const Node& node = g_.node(n);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId v = node.outputs[i];
      if (!g_.IsLive(v)) return Fail(n, absl::StrCat("output ", i, " is a value that was erased"));
      const Value& value = g_.value(v);
      if (value.def != n || value.def_index != i)
        return Fail(n, absl::StrCat("output ", i, ", %", value.name, ", is another node's"));
      if (g_.FindValue(value.name) != v)
        return Fail(n, absl::StrCat("the name %", value.name, " leads to another value"));
      uses_ += static_cast<int64_t>(value.uses.size());
      visible_[v.index] = true;
      defined_.push_back(v);
    }
    return absl::OkStatus();
  }

  const Graph& g_;
  std::vector<bool> visible_;
  std::vector<ValueId> defined_;
  int64_t nodes_ = 0, uses_ = 0, inputs_ = 0;
};

}  // namespace

absl::Status CheckWeight(const Weight& w, int64_t storage_bytes) {
  const Geometry& g = w.geometry;
  auto fail = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("weight \"", w.name, "\", ", Name(w.dtype), " ", g.ToString(),
                                                   " in ", storage_bytes, " bytes: ", what));
  };
  if (g.sizes.size() != g.strides.size()) return fail("expected as many strides as sizes");
  if (g.sizes.size() > 64) return fail("expected at most 64 dimensions");
  if (g.offset < 0) return fail("expected an offset >= 0");
  int64_t elements = ItemSize(w.dtype), last = g.offset;
  bool is_empty = false;
  for (size_t i = 0; i < g.sizes.size(); ++i) {
    if (g.sizes[i] < 0) return fail("expected sizes >= 0");
    if (g.strides[i] < 0) return fail("expected strides >= 0");
    is_empty = is_empty || g.sizes[i] == 0;
    if (__builtin_mul_overflow(elements, std::max<int64_t>(g.sizes[i], 1), &elements))
      return fail("its size is no int64");
    int64_t reach;
    if (__builtin_mul_overflow(std::max<int64_t>(g.sizes[i] - 1, 0), g.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return fail("its extent is no int64");
    }
  }
  if (!is_empty && last >= storage_bytes / ItemSize(w.dtype)) return fail("it does not lie inside its storage");
  return absl::OkStatus();
}

absl::Status VerifyGraph(const Graph& g) { return Verifier(g).Run(); }

}  // namespace smelt
