#include "smelt/pipeline/eager_program_writer.h"

#include <utility>

#include "smelt/core/op/ops.h"

namespace smelt {

std::unique_ptr<fb::EagerProgramT> EagerProgramWriter::Finish() {
  program_->num_values = next_;
  std::vector<std::vector<int64_t>> sizes;
  for (const Weight& weight : g_.weights) sizes.push_back(weight.geometry.sizes);
  LetStatesHaveOtherSizes(sizes, std::move(changed_sizes_), *program_);
  return std::move(program_);
}

int EagerProgramWriter::Number(ValueId v) {
  auto [it, fresh] = numbers_.try_emplace(v, next_);
  if (fresh) ++next_;
  return it->second;
}

void EagerProgramWriter::Same(NodeId n, size_t output, ValueId as) {
  if (output >= g_.node(n).outputs.size()) return;
  const ValueId now = g_.node(n).outputs[output];
  Share(now, Number(as));
  NoteSizes(now);
}

void EagerProgramWriter::NoteSizes(ValueId now) {
  const Type& type = g_.value(now).type;
  if (block_ != 0 || !type.IsTensor() || !type.tensor().sizes) return;
  changed_sizes_.push_back({Number(now), program_->blocks[0]->instrs.size(), *type.tensor().sizes});
}

int EagerProgramWriter::AddBlock() {
  program_->blocks.push_back(std::make_unique<fb::EagerBlockT>());
  return static_cast<int>(program_->blocks.size()) - 1;
}

std::unique_ptr<fb::EagerInstrT> EagerProgramWriter::New(fb::EagerKind kind, NodeId n) const {
  auto i = std::make_unique<fb::EagerInstrT>();
  i->kind = kind;
  if (g_.node(n).source != nullptr) i->source = g_.node(n).source->ToString();
  return i;
}

fb::EagerInstrT& EagerProgramWriter::Add(std::unique_ptr<fb::EagerInstrT> i) {
  auto& instrs = program_->blocks[block_]->instrs;
  instrs.push_back(std::move(i));
  return *instrs.back();
}

void EagerProgramWriter::Inputs(fb::EagerInstrT& i, NodeId n) {
  for (ValueId v : g_.node(n).inputs) i.inputs.push_back(Number(v));
}

void EagerProgramWriter::Outputs(fb::EagerInstrT& i, NodeId n) {
  for (ValueId v : g_.node(n).outputs) i.outputs.push_back(Number(v));
}

void EagerProgramWriter::EmitRaise(const std::string& message, NodeId n) {
  const int text = Fresh();
  fb::EagerInstrT& said = Emit(fb::EagerKind::String, n);
  said.text = message;
  said.outputs = {text};
  fb::EagerInstrT& i = Emit(fb::EagerKind::Number, n);
  i.op = op::kPrimRaiseException;
  i.inputs = {text};
}

std::optional<DType> DTypeOf(const Graph& g, ValueId v) {
  return g.value(v).type.IsTensor() ? g.value(v).type.tensor().dtype : std::nullopt;
}

}  // namespace smelt
