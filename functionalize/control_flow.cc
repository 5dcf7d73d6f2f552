// Branches and loops: memories that they write become results.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
namespace {

// Returns whether order and gaps are the same, wherever each tensor lies.
bool SameLayout(SymbolicGeometry a, const SymbolicGeometry& b) {
  a.offset = b.offset;
  return SameGeometry(a, b);
}

// Adds what a block wrote to what was written before it.
void AddWrites(const MemoryState& block, MemoryState& memory) {
  memory.written.insert(memory.written.end(), block.written.begin(), block.written.end());
  memory.written_home.insert(memory.written_home.end(), block.written_home.begin(), block.written_home.end());
}

}  // namespace

absl::Status Functionalizer::ProcessInner(BlockId b) {
  ++at_.block_depth;
  checked_.Enter();  // what a branch has checked is not checked where it is not taken
  absl::Status s = ProcessBlock(b);
  checked_.Leave();
  --at_.block_depth;
  return s;
}

void Functionalizer::ShareAtOne(MemoryId a, MemoryId b, const std::vector<std::string>& symbols) {
  memories_.Edit(a).shared_at_one.push_back({b, symbols});
  memories_.Edit(b).shared_at_one.push_back({a, symbols});
}

void Functionalizer::NoteWriteAtOne(MemoryId id) {
  if (memories_[id].shared_at_one.empty()) return;
  absl::flat_hash_set<MemoryId> seen = {id};
  std::vector<std::pair<MemoryId, std::vector<std::string>>> todo = {{id, {}}};
  while (!todo.empty()) {
    const auto [now, way] = todo.back();
    todo.pop_back();
    for (const SharedAtOne& shared : memories_[now].shared_at_one) {
      if (!seen.insert(shared.other).second) continue;
      std::vector<std::string> symbols = way;
      symbols.insert(symbols.end(), shared.symbols.begin(), shared.symbols.end());
      // In a loop the nodes before a write also come after it.
      if (at_.block_depth > 0) {
        ExpectAtLeastTwo(symbols);
      } else {
        memories_.Edit(shared.other).stale_at_one.insert(symbols.begin(), symbols.end());
      }
      todo.push_back({shared.other, std::move(symbols)});
    }
  }
}

void Functionalizer::ExpectAtLeastTwo(const std::vector<std::string>& symbols) {
  result_.at_least_two.insert(symbols.begin(), symbols.end());
}

absl::Status Functionalizer::CheckResults(NodeId n) const {
  for (ValueId v : g_.node(n).outputs) {
    const Type& t = g_.value(v).type;
    if (!t.IsTensor() && HoldsTensors(t)) return absl::UnimplementedError("lists or optional tensors are handed on");
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessIf(NodeId n) {
  SMELT_RETURN_IF_ERROR(CheckResults(n));
  const bool closed = g_.node(n).op.name() == op::kSmeltCond;
  // The predicate may be a one-element tensor.
  const ValueId predicate = g_.node(n).inputs[0];
  if (const TensorId* t = tensor_of_.Find(predicate)) g_.SetInput(n, 0, Read(*t, n));
  const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
  if (closed) {
    // Operands are bound to the parameters: the branch sees the same tensors.
    for (BlockId b : blocks) {
      const std::vector<ValueId> params(g_.params(b).begin(), g_.params(b).end());
      for (size_t i = 0; i < params.size(); ++i) {
        const ValueId outer = g_.node(n).inputs[i + 1];
        g_.ReplaceAllUses(params[i], outer);
      }
      for (size_t i = params.size(); i-- > 0;) g_.EraseParam(b, static_cast<int>(i));
    }
    while (g_.node(n).inputs.size() > 1) g_.RemoveInput(n, static_cast<uint32_t>(g_.node(n).inputs.size()) - 1);
  }
  const size_t num_before = memories_.size();
  const PossibleSharing::Mark before = sharing_.Now(num_before);
  std::vector<MemoryTable::Edits> after;      // by block
  std::vector<std::vector<ValueId>> results;  // a block's declared results, as values
  std::vector<std::vector<TensorId>> result_tensors;
  std::vector<std::vector<PossibleSharing::Set>> may_be(g_.node(n).outputs.size());
  for (BlockId b : blocks) {
    memories_.Enter();
    sharing_.Enter();
    SMELT_RETURN_IF_ERROR(ProcessInner(b));
    result_tensors.emplace_back();
    for (size_t k = 0; k < g_.results(b).size() && k < may_be.size(); ++k) {
      if (const TensorId* t = tensor_of_.Find(g_.results(b)[k]))
        may_be[k].push_back(sharing_.SetOf(tensors_[*t].memory));
    }
    std::vector<ValueId> values;
    for (ValueId v : g_.results(b)) {
      const TensorId* t = tensor_of_.Find(v);
      result_tensors.back().push_back(t == nullptr ? -1 : *t);
      values.push_back(t == nullptr ? v : Read(*t, g_.block(b).return_node));
    }
    // Views cached while reading results belong to the block.
    DropCachedViewsSince(0);
    results.push_back(std::move(values));
    after.push_back(memories_.Leave());
    sharing_.Leave();
  }
  // Memories that a branch changed become results.
  std::set<MemoryId> changed;
  for (const MemoryTable::Edits& edits : after) {
    for (const auto& [m, state] : edits.all()) {
      if (state.version != memories_[m].version) changed.insert(m);
    }
  }
  const auto state_after = [&](size_t block, MemoryId m) -> const MemoryState& {
    const MemoryState* edited = after[block].Find(m);
    return edited == nullptr ? memories_[m] : *edited;
  };
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  std::vector<PossibleSharing::Copy> copied;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!g_.value(outputs[k]).type.IsTensor()) continue;
    const TensorId t0 = result_tensors[0][k], t1 = result_tensors[1][k];
    if (t0 == t1 && t0 >= 0 && tensors_[t0].memory < static_cast<int>(num_before)) {
      tensor_of_[outputs[k]] = t0;  // both branches hand out the same tensor
      // Its value is not needed as a result; any value will do.
      continue;
    }
    if (t0 < 0 || t1 < 0)
      return absl::UnimplementedError("a branch's result that is no tensor functionalization knows");
    const TensorType& declared = g_.value(outputs[k]).type.tensor();
    SymbolicGeometry geometry = declared.IsComplete() ? GeometryOf(declared) : tensors_[t0].geometry;
    geometry.offset = 0;
    if (geometry.sizes != tensors_[t0].geometry.sizes || geometry.sizes != tensors_[t1].geometry.sizes) {
      return absl::UnimplementedError("branches whose results differ in size");
    }
    if (!IsDense(geometry, g_.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
    for (TensorId t : {t0, t1}) {
      if (!SameLayout(tensors_[t].geometry, geometry))
        return absl::UnimplementedError("branches whose results differ in layout");
    }
    g_.SetType(outputs[k], TypeOf(geometry));
    for (size_t i = 0; i < 2; ++i) {
      at_.source = g_.node(n).source;
      results[i][k] = Own(g_.block(blocks[i]).return_node, results[i][k], geometry.strides);
    }
    BindFresh(outputs[k]);
    copied.push_back({tensors_[tensor_of_[outputs[k]]].memory, std::move(may_be[k])});
  }
  sharing_.Join(copied, before);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t k = 0; k < results[i].size(); ++k) {
      g_.SetInput(g_.block(blocks[i]).return_node, static_cast<uint32_t>(k), results[i][k]);
    }
    for (MemoryId m : changed) g_.AddResult(blocks[i], state_after(i, m).version);
  }
  for (MemoryId m : changed) {
    if (!SameGeometry(state_after(0, m).nominal, memories_[m].nominal) ||
        !SameGeometry(state_after(1, m).nominal, memories_[m].nominal)) {
      return absl::UnimplementedError("memory resized inside a branch");
    }
    if (absolute_access_ && memories_[m].origin != MemoryState::Origin::kFresh && !memories_[m].shared)
      return absl::UnimplementedError("a branch that writes to an argument that as_strided addresses absolutely");
    ValueId out = g_.AddNodeOutput(n, g_.value(memories_[m].version).type);
    MemoryState& memory = memories_.Edit(m);
    memory.version = out;
    ++memory.generation;
    for (const MemoryTable::Edits& edits : after) {
      if (const MemoryState* edited = edits.Find(m); edited != nullptr) AddWrites(*edited, memory);
    }
  }
  return absl::OkStatus();
}

void Functionalizer::CollectWritten(BlockId b, absl::flat_hash_set<MemoryId>& out) {
  for (NodeId n : g_.Nodes(b)) {
    for (BlockId inner : g_.node(n).blocks) CollectWritten(inner, out);
    const FunctionSchema* schema = FindSchema(g_.node(n).op);
    if (schema == nullptr || !schema->IsMutable()) continue;
    for (size_t i = 0; i < schema->arguments.size() && i < g_.node(n).inputs.size(); ++i) {
      if (!IsWritten(schema->arguments[i])) continue;
      ValueId v = g_.node(n).inputs[i];
      // Up through views and in-place results to something defined outside.
      while (!tensor_of_.contains(v)) {
        const NodeId def = g_.value(v).def;
        if (g_.IsParam(def) || g_.node(def).inputs.empty()) break;
        const std::string& name = g_.node(def).op.name();
        if (name == op::kPrimListUnpack || IsViewOp(g_.node(def).op) || IsMutableNode(def)) {
          v = g_.node(def).inputs[0];
        } else {
          break;
        }
      }
      if (const TensorId* t = tensor_of_.Find(v)) out.insert(tensors_[*t].memory);
    }
  }
}

bool Functionalizer::IsMutableNode(NodeId n) const {
  const FunctionSchema* schema = FindSchema(g_.node(n).op);
  return schema != nullptr && schema->IsMutable();
}

ValueId Functionalizer::WrittenSelf(ValueId v) const {
  while (g_.value(v).type.IsTensor()) {
    const Node& def = g_.node(g_.value(v).def);
    const FunctionSchema* schema = def.inputs.empty() ? nullptr : FindSchema(def.op);
    if (schema == nullptr || !schema->IsMutable() || !absl::EndsWith(def.op.name(), "_") ||
        !IsWritten(schema->arguments[0]) || schema->returns.size() != 1 || def.op.name() == op::kSetInPlace) {
      break;
    }
    v = def.inputs[0];
  }
  return v;
}

absl::Status Functionalizer::ProcessLoop(NodeId n) {
  SMELT_RETURN_IF_ERROR(CheckResults(n));
  const bool is_while = g_.node(n).op.name() == op::kSmeltWhileLoop;
  // smelt::while_loop(carried..., additional...) {cond(all), body(all) -> carried}; prim::Loop(trips, condition,
  // carried...) {body(i, carried...) -> condition, carried...}.
  const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
  const BlockId body = blocks.back();
  const int first_input = is_while ? 0 : 2;
  const int first_param = is_while ? 0 : 1;
  int num_carried = static_cast<int>(g_.node(n).outputs.size());
  if (is_while) {
    // Additional operands are constants of the loop: they are captured.
    for (BlockId b : blocks) {
      for (int i = static_cast<int>(g_.params(b).size()) - 1; i >= num_carried; --i) {
        g_.ReplaceAllUses(g_.params(b)[i], g_.node(n).inputs[i]);
        g_.EraseParam(b, i);
      }
    }
    while (static_cast<int>(g_.node(n).inputs.size()) > num_carried)
      g_.RemoveInput(n, static_cast<uint32_t>(g_.node(n).inputs.size()) - 1);
  }
  // A value that every round passes on unchanged is one tensor from before the loop to after it. (PyTorch's while_loop
  // returns a copy if the body never runs.)
  const int first_result = is_while ? 0 : 1;
  for (int i = num_carried - 1; i >= 0 && !is_while; --i) {
    const ValueId param = g_.params(body)[first_param + i];
    if (WrittenSelf(g_.results(body)[first_result + i]) != param) continue;
    const ValueId init = g_.node(n).inputs[first_input + i];
    g_.ReplaceAllUses(param, init);
    g_.ReplaceAllUses(g_.node(n).outputs[i], init);
    g_.EraseResult(body, first_result + i);
    g_.EraseParam(body, first_param + i);
    g_.RemoveInput(n, static_cast<uint32_t>(first_input + i));
    g_.EraseNodeOutput(n, i);
    --num_carried;
  }
  // Memory outside that the body writes is carried too. Parameters are not known yet, so a write to one is not traced
  // to an outer memory; it is refused below.
  absl::flat_hash_set<MemoryId> written_set;
  CollectWritten(body, written_set);
  if (is_while) CollectWritten(blocks[0], written_set);
  std::vector<MemoryId> written(written_set.begin(), written_set.end());
  std::sort(written.begin(), written.end());

  // A carried tensor is copied from round to round; which tensor it really is matters only if something is written.
  const std::optional<ConstantValue> trips = is_while ? std::nullopt : GetConstant(g_, g_.node(n).inputs[0]);
  const std::optional<ConstantValue> enters = is_while ? std::nullopt : GetConstant(g_, g_.node(n).inputs[1]);
  const bool surely_runs = trips && std::holds_alternative<int64_t>(*trips) && std::get<int64_t>(*trips) > 0 &&
                           enters && std::holds_alternative<bool>(*enters) && std::get<bool>(*enters);
  std::vector<std::optional<PossibleSharing::Set>> init_may_be(num_carried);
  std::vector<std::vector<PossibleSharing::Set>> may_be(num_carried);
  // Computes whether something reads it, before the body is made pure, which removes uses.
  std::vector<bool> matters(num_carried);

  std::vector<SymbolicGeometry> layouts(num_carried);
  for (int i = 0; i < num_carried; ++i) {
    const ValueId out = g_.node(n).outputs[i];
    if (!g_.value(out).type.IsTensor()) continue;
    SMELT_ASSIGN_OR_RETURN(TensorId init, TensorOf(g_.node(n).inputs[first_input + i]));
    matters[i] = is_while || !g_.value(out).uses.empty() || !g_.value(g_.params(body)[first_param + i]).uses.empty();
    if (matters[i]) init_may_be[i] = sharing_.SetOf(tensors_[init].memory);
    SymbolicGeometry geometry = tensors_[init].geometry;
    geometry.offset = 0;
    if (!IsDense(geometry, g_.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
    const TensorType& declared = g_.value(out).type.tensor();
    if (declared.IsComplete() && IsDense(GeometryOf(declared), g_.symbols) && *declared.sizes == geometry.sizes)
      geometry = GeometryOf(declared);
    if (declared.dtype && *declared.dtype != geometry.dtype)
      return absl::UnimplementedError("a loop-carried tensor that changes its dtype");
    layouts[i] = geometry;
    // The first round sees the present layout, and without a round so does the caller.
    if (init_may_be[i] && !SameLayout(tensors_[init].geometry, geometry))
      return absl::UnimplementedError("a loop-carried tensor with gaps");
    g_.SetInput(n, first_input + i, Own(n, Read(init, n), geometry.strides));
    g_.SetType(out, TypeOf(geometry));
    for (BlockId b : blocks) g_.SetType(g_.params(b)[first_param + i], TypeOf(geometry));
  }
  if (!is_while) {
    for (int i = 0; i < 2; ++i) {
      if (const TensorId* t = tensor_of_.Find(g_.node(n).inputs[i])) g_.SetInput(n, i, Read(*t, n));
    }
  }
  const PossibleSharing::Mark before = sharing_.Now(memories_.size());
  std::vector<PossibleSharing::Set> written_may_be;
  for (MemoryId m : written) written_may_be.push_back(sharing_.SetOf(m));
  for (MemoryId m : written) g_.AddNodeInput(n, memories_[m].version);

  // After the loop a memory's version is the node's output; inside, each block's parameter.
  std::vector<std::vector<ValueId>> block_versions;
  for (BlockId b : blocks) {
    std::vector<ValueId> versions;
    for (MemoryId m : written) versions.push_back(g_.AddParam(b, g_.value(memories_[m].version).type));
    block_versions.push_back(std::move(versions));
  }
  for (size_t bi = 0; bi < blocks.size(); ++bi) {
    const BlockId b = blocks[bi];
    memories_.Enter();
    sharing_.Enter();
    for (size_t k = 0; k < written.size(); ++k) memories_.Edit(written[k]).version = block_versions[bi][k];
    std::vector<MemoryId> own;
    for (int i = 0; i < num_carried; ++i) {
      const ValueId p = g_.params(b)[first_param + i];
      if (!g_.value(p).type.IsTensor()) continue;
      BindFresh(p);
      own.push_back(tensors_[tensor_of_[p]].memory);
    }
    SMELT_RETURN_IF_ERROR(ProcessInner(b));
    for (MemoryId m : own) {
      if (memories_[m].generation > 0)
        return absl::UnimplementedError("a loop's body writes into a carried tensor itself");
    }
    if (b == body) {
      absl::flat_hash_set<PossibleSharing::Set> passed_on, initial;
      std::optional<PossibleSharing::Set> any_carried;
      for (int i = 0; i < num_carried; ++i) {
        const TensorId* t = tensor_of_.Find(g_.results(b)[first_result + i]);
        if (t == nullptr || !matters[i]) continue;
        const PossibleSharing::Set next = sharing_.SetOf(tensors_[*t].memory);
        may_be[i] = {next};
        if (passed_on.insert(next).second) any_carried = any_carried ? sharing_.EitherOf(*any_carried, next) : next;
        if (!init_may_be[i]) continue;
        if (initial.insert(*init_may_be[i]).second) any_carried = sharing_.EitherOf(*any_carried, *init_may_be[i]);
        // If no round runs, the result is the initial tensor.
        if (!surely_runs && !is_while) may_be[i].push_back(*init_may_be[i]);
      }
      // One carried tensor becomes another, so each may be any of them.
      const bool rotates = absl::c_any_of(own, [&](MemoryId m) { return passed_on.contains(sharing_.SetOf(m)); });
      for (int i = 0; rotates && i < num_carried; ++i) {
        if (!may_be[i].empty()) may_be[i] = {*any_carried};
      }
      for (size_t k = 0; k < written.size(); ++k) {
        if (passed_on.contains(sharing_.SetOf(written[k])) || initial.contains(written_may_be[k]))
          return absl::UnimplementedError("a loop's body writes to memory that a carried tensor may share");
      }
    }
    const NodeId ret = g_.block(b).return_node;
    for (size_t k = 0; k < g_.results(b).size(); ++k) {
      const ValueId v = g_.results(b)[k];
      const TensorId* t = tensor_of_.Find(v);
      if (t == nullptr) continue;
      ValueId now = Read(*t, ret);
      const int carried = is_while ? (b == body ? static_cast<int>(k) : -1) : static_cast<int>(k) - 1;
      if (carried >= 0) {
        if (tensors_[*t].geometry.sizes != layouts[carried].sizes)
          return absl::UnimplementedError("a loop-carried tensor that changes its size");
        if (b == body && init_may_be[carried] && !SameLayout(tensors_[*t].geometry, layouts[carried]))
          return absl::UnimplementedError("a loop-carried tensor that changes its layout");
        now = Own(ret, now, layouts[carried].strides);
      }
      g_.SetInput(ret, static_cast<uint32_t>(k), now);
    }
    DropCachedViewsSince(0);
    const MemoryTable::Edits edits = memories_.Leave();
    sharing_.Leave();
    for (const auto& [m, state] : edits.all()) {
      if (state.generation == memories_[m].generation) continue;
      if (b != body) return absl::UnimplementedError("a loop's condition that writes to memory");
      if (!written_set.contains(m))
        return absl::UnimplementedError("a loop's body writes to memory through a path that is not followed");
    }
    if (b != body) continue;
    for (MemoryId m : written) {
      const MemoryState& state = *edits.Find(m);
      g_.AddResult(b, state.version);
      if (absolute_access_ && memories_[m].origin != MemoryState::Origin::kFresh && !memories_[m].shared)
        return absl::UnimplementedError("a loop that writes to an argument that as_strided addresses absolutely");
      if (!SameGeometry(state.nominal, memories_[m].nominal))
        return absl::UnimplementedError("memory resized inside a loop");
      // The convention says what was written.
      MemoryState& memory = memories_.Edit(m);
      AddWrites(state, memory);
      memory.generation = state.generation + 1;
    }
  }
  for (MemoryId m : written) memories_.Edit(m).version = g_.AddNodeOutput(n, g_.value(memories_[m].version).type);
  std::vector<PossibleSharing::Copy> copied;
  for (int i = 0; i < num_carried; ++i) {
    const ValueId out = g_.node(n).outputs[i];
    if (!g_.value(out).type.IsTensor()) continue;
    BindFresh(out);
    copied.push_back({tensors_[tensor_of_[out]].memory, std::move(may_be[i])});
  }
  sharing_.Join(copied, before);
  return absl::OkStatus();
}

}  // namespace smelt
