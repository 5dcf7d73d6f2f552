#include "smelt/pipeline/resized_states.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

bool Names(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool Names(const fb::EagerProgramT& program, const fb::EagerInstrT& i, int value) {
  if (Names(i.inputs, value) || Names(i.outputs, value) || Names(i.layout_inputs, value) || Names(i.targets, value))
    return true;
  return std::any_of(i.blocks.begin(), i.blocks.end(), [&](int block) {
    const fb::EagerBlockT& b = *program.blocks[block];
    return Names(b.params, value) || Names(b.results, value) ||
           std::any_of(b.instrs.begin(), b.instrs.end(),
                       [&](const auto& inner) { return Names(program, *inner, value); });
  });
}

// How an instruction of the top block relates to the sizes of a tensor that exists already.
enum class Dependence { kNone, kGives, kOn };
Dependence DependenceOn(const fb::EagerProgramT& program, const fb::EagerInstrT& i, int value) {
  if (!Names(program, i, value)) return Dependence::kNone;
  // A group's call is for the sizes of the export; otherwise its block runs.
  if (i.kind == fb::EagerKind::Group) {
    for (const auto& inner : program.blocks[i.blocks[0]]->instrs) {
      if (const Dependence d = DependenceOn(program, *inner, value); d != Dependence::kNone) return d;
    }
    return Dependence::kNone;
  }
  const bool alone_first =
      !i.inputs.empty() && i.inputs[0] == value && std::count(i.inputs.begin(), i.inputs.end(), value) == 1;
  if (i.kind == fb::EagerKind::Set || i.op == op::kResizeInPlace)
    return alone_first ? Dependence::kGives : Dependence::kOn;
  // The runtime does these for any sizes, as PyTorch does.
  if (i.kind == fb::EagerKind::ViewInPlace) return alone_first ? Dependence::kNone : Dependence::kOn;
  if (i.kind != fb::EagerKind::Compute || !Names(i.targets, value)) return Dependence::kOn;
  if (i.grows) return Names(i.inputs, value) || Names(i.layout_inputs, value) ? Dependence::kOn : Dependence::kGives;
  const bool only_writes = std::all_of(i.outputs.begin(), i.outputs.end(), [](int o) { return o < 0; });
  return i.flat && only_writes ? Dependence::kNone : Dependence::kOn;
}

// Before instruction `at` of the top block. False if the sizes are not known.
bool InsertSizeCheck(int value, size_t at, std::vector<Expr> sizes, std::vector<ChangedSizes>& changes,
                     fb::EagerProgramT& program) {
  for (const ChangedSizes& c : changes) {
    if (c.value == value && c.instrs <= at) sizes = c.sizes;
  }
  auto list = std::make_unique<fb::EagerInstrT>();
  list->kind = fb::EagerKind::IntList;
  for (const Expr& e : sizes) {
    if (!e.IsConstant()) return false;
    list->ints.push_back(*e.Constant());
  }
  list->outputs = {program.num_values++};
  auto check = std::make_unique<fb::EagerInstrT>();
  check->kind = fb::EagerKind::Number;
  check->op = op::kSmeltAssertSizes;
  check->inputs = {value, list->outputs[0]};
  auto& instrs = program.blocks[0]->instrs;
  check->source = instrs[at]->source;
  instrs.insert(instrs.begin() + static_cast<int64_t>(at), std::move(check));
  instrs.insert(instrs.begin() + static_cast<int64_t>(at), std::move(list));
  for (ChangedSizes& c : changes) c.instrs += c.instrs > at ? 2 : 0;
  return true;
}

}  // namespace

void LetStatesHaveOtherSizes(absl::Span<const std::vector<int64_t>> at_export, std::vector<ChangedSizes> changes,
                             fb::EagerProgramT& program) {
  for (size_t s = 0; s < program.states.size(); ++s) {
    const int value = program.states[s];
    const std::vector<Expr> sizes(at_export[s].begin(), at_export[s].end());
    const bool is_changed = std::any_of(changes.begin(), changes.end(),
                                        [&](const ChangedSizes& c) { return c.value == value && c.sizes != sizes; });
    if (value < 0 || !is_changed) continue;
    const fb::EagerBlockT& top = *program.blocks[0];
    size_t at = 0;
    Dependence found = Dependence::kNone;
    for (; at < top.instrs.size() && found == Dependence::kNone; ++at)
      found = DependenceOn(program, *top.instrs[at], value);
    if (found == Dependence::kOn && !InsertSizeCheck(value, at - 1, sizes, changes, program)) continue;
    program.resized_states.push_back(static_cast<int>(s));
  }
}

}  // namespace smelt
