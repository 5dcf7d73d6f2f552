#include "smelt/frontend/pt2_assignments.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/frontend/pt2_memory.h"

namespace smelt {
namespace pt2_internal {

namespace {

bool IsUserInput(const Graph& g, ValueId v) {
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.inputs()[i] == v) return g.input_infos[i].kind != InputInfo::Kind::kWeight;
  }
  return false;
}

// Returns whether no other state lies in the storage of this one.
bool IsAlone(const Graph& g, ValueId buffer) {
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.inputs()[i] != buffer) continue;
    const int storage = g.weights[g.input_infos[i].weight].storage;
    return std::count_if(g.weights.begin(), g.weights.end(), [&](const Weight& w) { return w.storage == storage; }) ==
           1;
  }
  return false;
}

// Returns null if its sizes are not known.
const TensorType* SizedType(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().sizes && t.tensor().strides ? &t.tensor() : nullptr;
}

bool HaveTheSameSizes(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.sizes == b.sizes; }

// Returns whether the dims of two tensors of the same sizes lie in memory in one order. Unknown strides count as large.
bool LieInTheSameOrder(const TensorType& a, const TensorType& b) {
  const auto before = [](const TensorType& t, int i, int j) {
    const int64_t large = std::numeric_limits<int64_t>::max();
    return (*t.strides)[i].Constant().value_or(large) > (*t.strides)[j].Constant().value_or(large);
  };
  for (int i = 0; i < a.rank(); ++i) {
    for (int j = 0; j < i; ++j) {
      if ((*a.sizes)[i] == Expr(1) || (*a.sizes)[j] == Expr(1)) continue;
      if (before(a, i, j) != before(b, i, j)) return false;
    }
  }
  return true;
}

// How a buffer comes to hold what it is assigned.
enum class Becomes {
  kTensor,    // that very tensor
  kCopy,      // a new one with the same contents
  kContents,  // its memory takes the contents: nothing sees that it does
};

// `others` are the owners of everything that outlives the call without this assignment, and an invalid one if that is
// not known. From a part of new memory the buffer takes the contents if nothing sees either memory: it keeps its
// layout, which the compiled plans expect, and the rest of that memory is not kept.
Becomes HowItBecomes(const Graph& g, ValueId buffer, ValueId value, ValueId owner, absl::Span<const ValueId> others) {
  if (SameTensor(g, value) == buffer) return Becomes::kContents;  // self.step += 1
  const TensorType *to = SizedType(g, buffer), *from = SizedType(g, value);
  if (to == nullptr || from == nullptr) return Becomes::kCopy;
  if (!HaveTheSameSizes(*to, *from)) return Becomes::kTensor;
  const bool order = LieInTheSameOrder(*to, *from);
  const bool old_seen = absl::c_linear_search(others, buffer) || absl::c_linear_search(others, ValueId());
  if (owner.valid() && IsUserInput(g, owner)) return Becomes::kTensor;
  if (owner.valid()) {
    const TensorType* all = SizedType(g, owner);
    const bool whole = all == nullptr || Product(*all->sizes) == Product(*from->sizes);
    const bool seen = absl::c_linear_search(others, owner);
    if (g.IsParam(g.value(owner).def) || whole || seen || old_seen || !order) return Becomes::kTensor;
  }
  return order && !old_seen && IsAlone(g, buffer) ? Becomes::kContents : Becomes::kCopy;
}

}  // namespace

bool Pt2Assignments::IsAssignment(const Json& node, NodeId call) {
  const absl::Span<const ValueId> args = g_.node(call).inputs;
  if (g_.node(call).op != "aten::copy_" || args.size() < 2) return false;
  const Json* name = Find(node, "name");
  if (name == nullptr) {  // PyTorch 2.9 writes none: it is that of the output
    const Json* outputs = Find(node, "outputs");
    const Json* tensor = outputs == nullptr || outputs->size() != 1 ? nullptr : Find((*outputs)[0], "as_tensor");
    name = tensor == nullptr ? nullptr : Find(*tensor, "name");
  }
  const Json* metadata = Find(node, "metadata");
  const Json* function = metadata == nullptr ? nullptr : Find(*metadata, "torch_fn");
  if (name == nullptr || !name->is_string() || function == nullptr || !function->is_string()) return false;
  const std::string& called = function->get_ref<const std::string&>();
  if (absl::EndsWith(called, ".copy_") && copies_called_.insert(called).second) return false;
  if (!absl::StartsWith(name->get_ref<const std::string&>(), "copy__default")) return false;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (g_.inputs()[i] == args[0]) return g_.input_infos[i].kind == InputInfo::Kind::kWeight;
  }
  return false;
}

void Pt2Assignments::Open() {
  if (nodes_.empty()) return;
  const NodeId first = nodes_.front();
  auto handle = [&](ValueId v) {
    const NodeId n = g_.InsertBefore(first, OpName::Get("aten::detach"), {v}, {g_.value(v).type});
    g_.SetSource(n, g_.node(first).source);
    return g_.node(n).outputs[0];
  };
  auto copy = [&](ValueId v) {
    const ValueId none = InsertConstant(g_, first, std::monostate());
    const NodeId n = g_.InsertBefore(first, OpName::Get("aten::clone"), {v, none}, {g_.value(v).type});
    g_.SetSource(n, g_.node(first).source);
    return g_.node(n).outputs[0];
  };
  struct Assignment {
    NodeId node;
    ValueId old, now;  // the buffer's tensor before, where it is returned, and the one assigned
  };
  std::vector<ValueId> owners;  // of what is assigned, then of what is returned
  for (NodeId n : nodes_) owners.push_back(OwnerOfMemory(g_, g_.node(n).inputs[1]));
  for (ValueId v : g_.outputs()) owners.push_back(OwnerOfMemory(g_, v));
  std::vector<Assignment> opened;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    const NodeId n = nodes_[k];
    const ValueId buffer = g_.node(n).inputs[0], value = g_.node(n).inputs[1];
    std::vector<ValueId> others = owners;
    others.erase(others.begin() + static_cast<int64_t>(k));
    const Becomes how = HowItBecomes(g_, buffer, value, owners[k], others);
    if (how == Becomes::kContents) continue;
    const bool old_is_returned = absl::c_any_of(g_.outputs(), [&](ValueId v) { return SameTensor(g_, v) == buffer; });
    opened.push_back(
        {n, old_is_returned ? handle(buffer) : ValueId(), handle(how == Becomes::kCopy ? copy(value) : value)});
  }
  for (const auto& [n, old, now] : opened) {
    const ValueId buffer = g_.node(n).inputs[0];
    // If the model returns the buffer, it returns the tensor that the buffer was.
    const NodeId end = g_.block(g_.top()).return_node;
    for (uint32_t k = 0; k < g_.node(end).inputs.size(); ++k) {
      if (SameTensor(g_, g_.node(end).inputs[k]) == buffer) g_.SetInput(end, k, old);
    }
    const NodeId set = g_.InsertBefore(n, OpName::Get("aten::set_.source_Tensor"), {buffer, now}, {g_.value(now).type});
    g_.SetSource(set, g_.node(n).source);
    g_.ReplaceAllUses(g_.node(n).outputs[0], g_.node(set).outputs[0]);
    g_.Erase(n);
  }
}

}  // namespace pt2_internal
}  // namespace smelt
