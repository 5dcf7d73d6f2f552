#include "smelt/functionalize/program_inputs.h"

#include "absl/strings/str_cat.h"

namespace smelt {

Expr ProgramInputs::OffsetOf(int argument, int item_bytes) const {
  const Argument& a = arguments[argument];
  const Expr offset = Expr::Symbol(absl::StrCat(a.name, ".offset"));
  const int own = ItemSize(a.initial.dtype);
  return own >= item_bytes ? offset * (own / item_bytes) : FloorDiv(offset, item_bytes / own);
}

absl::flat_hash_set<MemoryId> ProgramInputs::SharedStates() const {
  absl::flat_hash_set<MemoryId> seen, shared;
  for (const State& state : states) {
    if (!seen.insert(state.memory).second) shared.insert(state.memory);
  }
  return shared;
}

SymbolicGeometry WeightGeometry(const Weight& w) {
  SymbolicGeometry g;
  g.dtype = w.dtype;
  g.sizes.assign(w.geometry.sizes.begin(), w.geometry.sizes.end());
  g.strides.assign(w.geometry.strides.begin(), w.geometry.strides.end());
  g.offset = w.geometry.offset;
  return g;
}

}  // namespace smelt
