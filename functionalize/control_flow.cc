#include "smelt/functionalize/control_flow.h"

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
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/operators.h"

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

// Processes a branch or a body whose parameters stand for known tensors.
absl::Status ProcessInner(ProgramWalk& walk, BlockId b) {
  ++walk.at.block_depth;
  walk.checked.Enter();  // what a branch has checked is not checked where it is not taken
  absl::Status s = ProcessBlock(walk, b);
  walk.checked.Leave();
  --walk.at.block_depth;
  return s;
}

// Checks that a branch or a loop returns tensors and numbers, and no value that may contain tensors.
absl::Status CheckResults(const ProgramWalk& walk, NodeId n) {
  for (ValueId v : walk.g.node(n).outputs) {
    const Type& t = walk.g.value(v).type;
    if (!t.IsTensor() && HoldsTensors(t)) return absl::UnimplementedError("lists or optional tensors are handed on");
  }
  return absl::OkStatus();
}

// Collects the outer memories that a body may write: those of the nearest known tensors in whose storage a written
// operand lies. Results of the body's own branches and loops are not followed; ProcessLoop refuses such writes.
void CollectWritten(ProgramWalk& walk, BlockId b, absl::flat_hash_set<MemoryId>& out) {
  for (NodeId n : walk.g.Nodes(b)) {
    for (BlockId inner : walk.g.node(n).blocks) CollectWritten(walk, inner, out);
    const FunctionSchema* schema = FindSchema(walk.g.node(n).op);
    if (schema == nullptr || !schema->IsMutable()) continue;
    for (size_t i = 0; i < schema->arguments.size() && i < walk.g.node(n).inputs.size(); ++i) {
      if (!IsWritten(schema->arguments[i])) continue;
      ValueId v = walk.g.node(n).inputs[i];
      while (!walk.tensor_of.contains(v)) {
        const StorageSource source = StorageStep(walk.g, v);
        if (source.kind != StorageSource::kOperand) break;
        v = source.operand;
      }
      if (const TensorId* t = walk.tensor_of.Find(v)) out.insert(walk.tensors[*t].memory);
    }
  }
}

}  // namespace

// Makes both branches pure, and then joins what they leave behind: sizes, memories, results. All of this is about one
// state before and two after the branches, which separate functions would have to hand around.
absl::Status ProcessIf(ProgramWalk& walk, NodeId n) {
  SMELT_RETURN_IF_ERROR(CheckResults(walk, n));
  const bool closed = walk.g.node(n).op.name() == op::kSmeltCond;
  // The predicate may be a one-element tensor.
  const ValueId predicate = walk.g.node(n).inputs[0];
  if (const TensorId* t = walk.tensor_of.Find(predicate)) walk.g.SetInput(n, 0, ReadTensor(walk, *t, n));
  const std::vector<BlockId> blocks(walk.g.node(n).blocks.begin(), walk.g.node(n).blocks.end());
  if (closed) {
    // Operands are bound to the parameters: the branch sees the same tensors.
    for (BlockId b : blocks) {
      const std::vector<ValueId> params(walk.g.params(b).begin(), walk.g.params(b).end());
      for (size_t i = 0; i < params.size(); ++i) {
        const ValueId outer = walk.g.node(n).inputs[i + 1];
        walk.g.ReplaceAllUses(params[i], outer);
      }
      for (size_t i = params.size(); i-- > 0;) walk.g.EraseParam(b, static_cast<int>(i));
    }
    while (walk.g.node(n).inputs.size() > 1)
      walk.g.RemoveInput(n, static_cast<uint32_t>(walk.g.node(n).inputs.size()) - 1);
  }
  const size_t num_before = walk.memories.size();
  const PossibleSharing::Mark before = walk.sharing.Now(num_before);
  std::vector<MemoryTable::Edits> after;      // by block
  std::vector<std::vector<ValueId>> results;  // a block's declared results, as values
  std::vector<std::vector<TensorId>> result_tensors;
  std::vector<std::vector<PossibleSharing::Set>> may_be(walk.g.node(n).outputs.size());
  for (BlockId b : blocks) {
    walk.memories.Enter();
    walk.sharing.Enter();
    SMELT_RETURN_IF_ERROR(ProcessInner(walk, b));
    result_tensors.emplace_back();
    for (size_t k = 0; k < walk.g.results(b).size() && k < may_be.size(); ++k) {
      if (const TensorId* t = walk.tensor_of.Find(walk.g.results(b)[k]))
        may_be[k].push_back(walk.sharing.SetOf(walk.tensors[*t].memory));
    }
    std::vector<ValueId> values;
    for (ValueId v : walk.g.results(b)) {
      const TensorId* t = walk.tensor_of.Find(v);
      result_tensors.back().push_back(t == nullptr ? -1 : *t);
      values.push_back(t == nullptr ? v : ReadTensor(walk, *t, walk.g.block(b).return_node));
    }
    // Views cached while reading results belong to the block.
    walk.DropCachedViewsSince(0);
    results.push_back(std::move(values));
    after.push_back(walk.memories.Leave());
    walk.sharing.Leave();
  }
  // Memories that a branch changed become results.
  std::set<MemoryId> changed;
  for (const MemoryTable::Edits& edits : after) {
    for (const auto& [m, state] : edits.all()) {
      if (state.version != walk.memories[m].version) changed.insert(m);
    }
  }
  const auto state_after = [&](size_t block, MemoryId m) -> const MemoryState& {
    const MemoryState* edited = after[block].Find(m);
    return edited == nullptr ? walk.memories[m] : *edited;
  };
  const std::vector<ValueId> outputs(walk.g.node(n).outputs.begin(), walk.g.node(n).outputs.end());
  std::vector<PossibleSharing::Copy> copied;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!walk.g.value(outputs[k]).type.IsTensor()) continue;
    const TensorId t0 = result_tensors[0][k], t1 = result_tensors[1][k];
    if (t0 == t1 && t0 >= 0 && walk.tensors[t0].memory < static_cast<int>(num_before)) {
      walk.tensor_of[outputs[k]] = t0;  // both branches hand out the same tensor
      // Its value is not needed as a result; any value will do.
      continue;
    }
    if (t0 < 0 || t1 < 0)
      return absl::UnimplementedError("a branch's result that is no tensor functionalization knows");
    const TensorType& declared = walk.g.value(outputs[k]).type.tensor();
    SymbolicGeometry geometry = declared.IsComplete() ? GeometryOf(declared) : walk.tensors[t0].geometry;
    geometry.offset = 0;
    if (geometry.sizes != walk.tensors[t0].geometry.sizes || geometry.sizes != walk.tensors[t1].geometry.sizes) {
      return absl::UnimplementedError("branches whose results differ in size");
    }
    if (!IsDense(geometry, walk.g.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
    for (TensorId t : {t0, t1}) {
      if (!SameLayout(walk.tensors[t].geometry, geometry))
        return absl::UnimplementedError("branches whose results differ in layout");
    }
    walk.g.SetType(outputs[k], TypeOf(geometry));
    for (size_t i = 0; i < 2; ++i) {
      walk.at.source = walk.g.node(n).source;
      results[i][k] = OwnContents(walk, walk.g.block(blocks[i]).return_node, results[i][k], geometry.strides);
    }
    walk.BindFresh(outputs[k]);
    copied.push_back({walk.tensors[walk.tensor_of[outputs[k]]].memory, std::move(may_be[k])});
  }
  walk.sharing.Join(copied, before);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t k = 0; k < results[i].size(); ++k) {
      walk.g.SetInput(walk.g.block(blocks[i]).return_node, static_cast<uint32_t>(k), results[i][k]);
    }
    for (MemoryId m : changed) walk.g.AddResult(blocks[i], state_after(i, m).version);
  }
  for (MemoryId m : changed) {
    if (!SameGeometry(state_after(0, m).nominal, walk.memories[m].nominal) ||
        !SameGeometry(state_after(1, m).nominal, walk.memories[m].nominal)) {
      return absl::UnimplementedError("memory resized inside a branch");
    }
    if (walk.absolute_access && walk.memories[m].origin != MemoryState::Origin::kFresh && !walk.memories[m].shared)
      return absl::UnimplementedError("a branch that writes to an argument that as_strided addresses absolutely");
    ValueId out = walk.g.AddNodeOutput(n, walk.g.value(walk.memories[m].version).type);
    MemoryState& memory = walk.memories.Edit(m);
    memory.version = out;
    ++memory.generation;
    for (const MemoryTable::Edits& edits : after) {
      if (const MemoryState* edited = edits.Find(m); edited != nullptr) AddWrites(*edited, memory);
    }
  }
  return absl::OkStatus();
}

// The steps must come in this order: each changes the operands, the parameters and the results of the loop together,
// which only the whole sequence leaves consistent. That is why it is one long function.
absl::Status ProcessLoop(ProgramWalk& walk, NodeId n) {
  SMELT_RETURN_IF_ERROR(CheckResults(walk, n));
  const bool is_while = walk.g.node(n).op.name() == op::kSmeltWhileLoop;
  // smelt::while_loop(carried..., additional...) {cond(all), body(all) -> carried}; prim::Loop(trips, condition,
  // carried...) {body(i, carried...) -> condition, carried...}.
  const std::vector<BlockId> blocks(walk.g.node(n).blocks.begin(), walk.g.node(n).blocks.end());
  const BlockId body = blocks.back();
  const int first_input = is_while ? 0 : 2;
  const int first_param = is_while ? 0 : 1;
  int num_carried = static_cast<int>(walk.g.node(n).outputs.size());
  if (is_while) {
    // Additional operands are constants of the loop: they are captured.
    for (BlockId b : blocks) {
      for (int i = static_cast<int>(walk.g.params(b).size()) - 1; i >= num_carried; --i) {
        walk.g.ReplaceAllUses(walk.g.params(b)[i], walk.g.node(n).inputs[i]);
        walk.g.EraseParam(b, i);
      }
    }
    while (static_cast<int>(walk.g.node(n).inputs.size()) > num_carried)
      walk.g.RemoveInput(n, static_cast<uint32_t>(walk.g.node(n).inputs.size()) - 1);
  }
  // A value that every round passes on unchanged is one tensor from before the loop to after it. (PyTorch's while_loop
  // returns a copy if the body never runs.)
  const int first_result = is_while ? 0 : 1;
  for (int i = num_carried - 1; i >= 0 && !is_while; --i) {
    const ValueId param = walk.g.params(body)[first_param + i];
    if (SameTensor(walk.g, walk.g.results(body)[first_result + i]) != param) continue;
    const ValueId init = walk.g.node(n).inputs[first_input + i];
    walk.g.ReplaceAllUses(param, init);
    walk.g.ReplaceAllUses(walk.g.node(n).outputs[i], init);
    walk.g.EraseResult(body, first_result + i);
    walk.g.EraseParam(body, first_param + i);
    walk.g.RemoveInput(n, static_cast<uint32_t>(first_input + i));
    walk.g.EraseNodeOutput(n, i);
    --num_carried;
  }
  // Memory outside that the body writes is carried too. Parameters are not known yet, so a write to one is not traced
  // to an outer memory; it is refused below.
  absl::flat_hash_set<MemoryId> written_set;
  CollectWritten(walk, body, written_set);
  if (is_while) CollectWritten(walk, blocks[0], written_set);
  std::vector<MemoryId> written(written_set.begin(), written_set.end());
  std::sort(written.begin(), written.end());

  // A carried tensor is copied from round to round; which tensor it really is matters only if something is written.
  const std::optional<ConstantValue> trips = is_while ? std::nullopt : GetConstant(walk.g, walk.g.node(n).inputs[0]);
  const std::optional<ConstantValue> enters = is_while ? std::nullopt : GetConstant(walk.g, walk.g.node(n).inputs[1]);
  const bool surely_runs = trips && std::holds_alternative<int64_t>(*trips) && std::get<int64_t>(*trips) > 0 &&
                           enters && std::holds_alternative<bool>(*enters) && std::get<bool>(*enters);
  std::vector<std::optional<PossibleSharing::Set>> init_may_be(num_carried);
  std::vector<std::vector<PossibleSharing::Set>> may_be(num_carried);
  // Computes whether something reads it, before the body is made pure, which removes uses.
  std::vector<bool> matters(num_carried);

  std::vector<SymbolicGeometry> layouts(num_carried);
  for (int i = 0; i < num_carried; ++i) {
    const ValueId out = walk.g.node(n).outputs[i];
    if (!walk.g.value(out).type.IsTensor()) continue;
    SMELT_ASSIGN_OR_RETURN(TensorId init, walk.TensorOf(walk.g.node(n).inputs[first_input + i]));
    matters[i] =
        is_while || !walk.g.value(out).uses.empty() || !walk.g.value(walk.g.params(body)[first_param + i]).uses.empty();
    if (matters[i]) init_may_be[i] = walk.sharing.SetOf(walk.tensors[init].memory);
    SymbolicGeometry geometry = walk.tensors[init].geometry;
    geometry.offset = 0;
    if (!IsDense(geometry, walk.g.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
    const TensorType& declared = walk.g.value(out).type.tensor();
    if (declared.IsComplete() && IsDense(GeometryOf(declared), walk.g.symbols) && *declared.sizes == geometry.sizes)
      geometry = GeometryOf(declared);
    if (declared.dtype && *declared.dtype != geometry.dtype)
      return absl::UnimplementedError("a loop-carried tensor that changes its dtype");
    layouts[i] = geometry;
    // The first round sees the present layout, and without a round so does the caller.
    if (init_may_be[i] && !SameLayout(walk.tensors[init].geometry, geometry))
      return absl::UnimplementedError("a loop-carried tensor with gaps");
    walk.g.SetInput(n, first_input + i, OwnContents(walk, n, ReadTensor(walk, init, n), geometry.strides));
    walk.g.SetType(out, TypeOf(geometry));
    for (BlockId b : blocks) walk.g.SetType(walk.g.params(b)[first_param + i], TypeOf(geometry));
  }
  if (!is_while) {
    for (int i = 0; i < 2; ++i) {
      if (const TensorId* t = walk.tensor_of.Find(walk.g.node(n).inputs[i]))
        walk.g.SetInput(n, i, ReadTensor(walk, *t, n));
    }
  }
  const PossibleSharing::Mark before = walk.sharing.Now(walk.memories.size());
  std::vector<PossibleSharing::Set> written_may_be;
  for (MemoryId m : written) written_may_be.push_back(walk.sharing.SetOf(m));
  for (MemoryId m : written) walk.g.AddNodeInput(n, walk.memories[m].version);

  // After the loop a memory's version is the node's output; inside, each block's parameter.
  std::vector<std::vector<ValueId>> block_versions;
  for (BlockId b : blocks) {
    std::vector<ValueId> versions;
    for (MemoryId m : written) versions.push_back(walk.g.AddParam(b, walk.g.value(walk.memories[m].version).type));
    block_versions.push_back(std::move(versions));
  }
  for (size_t bi = 0; bi < blocks.size(); ++bi) {
    const BlockId b = blocks[bi];
    walk.memories.Enter();
    walk.sharing.Enter();
    for (size_t k = 0; k < written.size(); ++k) walk.memories.Edit(written[k]).version = block_versions[bi][k];
    std::vector<MemoryId> own;
    for (int i = 0; i < num_carried; ++i) {
      const ValueId p = walk.g.params(b)[first_param + i];
      if (!walk.g.value(p).type.IsTensor()) continue;
      walk.BindFresh(p);
      own.push_back(walk.tensors[walk.tensor_of[p]].memory);
    }
    SMELT_RETURN_IF_ERROR(ProcessInner(walk, b));
    for (MemoryId m : own) {
      if (walk.memories[m].generation > 0)
        return absl::UnimplementedError("a loop's body writes into a carried tensor itself");
    }
    if (b == body) {
      absl::flat_hash_set<PossibleSharing::Set> passed_on, initial;
      std::optional<PossibleSharing::Set> any_carried;
      for (int i = 0; i < num_carried; ++i) {
        const TensorId* t = walk.tensor_of.Find(walk.g.results(b)[first_result + i]);
        if (t == nullptr || !matters[i]) continue;
        const PossibleSharing::Set next = walk.sharing.SetOf(walk.tensors[*t].memory);
        may_be[i] = {next};
        if (passed_on.insert(next).second) any_carried = any_carried ? walk.sharing.EitherOf(*any_carried, next) : next;
        if (!init_may_be[i]) continue;
        if (initial.insert(*init_may_be[i]).second) any_carried = walk.sharing.EitherOf(*any_carried, *init_may_be[i]);
        // If no round runs, the result is the initial tensor.
        if (!surely_runs && !is_while) may_be[i].push_back(*init_may_be[i]);
      }
      // One carried tensor becomes another, so each may be any of them.
      const bool rotates = absl::c_any_of(own, [&](MemoryId m) { return passed_on.contains(walk.sharing.SetOf(m)); });
      for (int i = 0; rotates && i < num_carried; ++i) {
        if (!may_be[i].empty()) may_be[i] = {*any_carried};
      }
      for (size_t k = 0; k < written.size(); ++k) {
        if (passed_on.contains(walk.sharing.SetOf(written[k])) || initial.contains(written_may_be[k]))
          return absl::UnimplementedError("a loop's body writes to memory that a carried tensor may share");
      }
    }
    const NodeId ret = walk.g.block(b).return_node;
    for (size_t k = 0; k < walk.g.results(b).size(); ++k) {
      const ValueId v = walk.g.results(b)[k];
      const TensorId* t = walk.tensor_of.Find(v);
      if (t == nullptr) continue;
      ValueId now = ReadTensor(walk, *t, ret);
      const int carried = is_while ? (b == body ? static_cast<int>(k) : -1) : static_cast<int>(k) - 1;
      if (carried >= 0) {
        if (walk.tensors[*t].geometry.sizes != layouts[carried].sizes)
          return absl::UnimplementedError("a loop-carried tensor that changes its size");
        if (b == body && init_may_be[carried] && !SameLayout(walk.tensors[*t].geometry, layouts[carried]))
          return absl::UnimplementedError("a loop-carried tensor that changes its layout");
        now = OwnContents(walk, ret, now, layouts[carried].strides);
      }
      walk.g.SetInput(ret, static_cast<uint32_t>(k), now);
    }
    walk.DropCachedViewsSince(0);
    const MemoryTable::Edits edits = walk.memories.Leave();
    walk.sharing.Leave();
    for (const auto& [m, state] : edits.all()) {
      if (state.generation == walk.memories[m].generation) continue;
      if (b != body) return absl::UnimplementedError("a loop's condition that writes to memory");
      if (!written_set.contains(m))
        return absl::UnimplementedError("a loop's body writes to memory through a path that is not followed");
    }
    if (b != body) continue;
    for (MemoryId m : written) {
      const MemoryState& state = *edits.Find(m);
      walk.g.AddResult(b, state.version);
      if (walk.absolute_access && walk.memories[m].origin != MemoryState::Origin::kFresh && !walk.memories[m].shared)
        return absl::UnimplementedError("a loop that writes to an argument that as_strided addresses absolutely");
      if (!SameGeometry(state.nominal, walk.memories[m].nominal))
        return absl::UnimplementedError("memory resized inside a loop");
      // The convention says what was written.
      MemoryState& memory = walk.memories.Edit(m);
      AddWrites(state, memory);
      memory.generation = state.generation + 1;
    }
  }
  for (MemoryId m : written)
    walk.memories.Edit(m).version = walk.g.AddNodeOutput(n, walk.g.value(walk.memories[m].version).type);
  std::vector<PossibleSharing::Copy> copied;
  for (int i = 0; i < num_carried; ++i) {
    const ValueId out = walk.g.node(n).outputs[i];
    if (!walk.g.value(out).type.IsTensor()) continue;
    walk.BindFresh(out);
    copied.push_back({walk.tensors[walk.tensor_of[out]].memory, std::move(may_be[i])});
  }
  walk.sharing.Join(copied, before);
  return absl::OkStatus();
}

}  // namespace smelt
