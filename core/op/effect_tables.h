// Operators by name, for what neither a schema nor a look at the memory says. Private to core/op/effects.
#ifndef SMELT_CORE_OP_EFFECT_TABLES_H_
#define SMELT_CORE_OP_EFFECT_TABLES_H_

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace effects_internal {

using NameSet = absl::flat_hash_set<absl::string_view>;

inline constexpr uint16_t kReadsAll = kReadsData | kReadsGeometry | kReadsElements | kReadsContainer;

// Change the geometry (or only what autograd and names know of) of their first argument, never its bytes.
const NameSet& GeometryWriters();
// Look at sizes, strides, dtype or the handle; not at bytes.
const NameSet& GeometryReaders();
// Make contiguous tensors of the sizes that their argument `size` says.
const NameSet& TakesSizes();
// Say `(a)` or hide an alias, and may copy instead, or return the argument itself.
const NameSet& MayCopy();
// Views that are the very argument where it is as asked already: of real numbers, real(x) is x; of no dimension, x.mT.
const NameSet& MayBeItself();
// Hide an alias, and never copy: their results are views, always.
const NameSet& HiddenPureViews();
// Views whose result is never the argument's own handle.
const NameSet& NewHandles();
const NameSet& Partitions();
const NameSet& SideEffects();
const NameSet& RandomNames();

// Nodes of TorchScript and of smelt whose effects no schema says. False: it is none of those.
bool MakeSpecial(absl::string_view name, OpEffects* e);
OpEffects UnknownEffects();  // may do anything

inline const Type& Unwrap(const Type& t) {
  const Type* p = &t;
  while (p->kind() == TypeKind::kOptional) p = &p->element();
  return *p;
}
inline uint64_t Bit(size_t i) { return i < 64 ? uint64_t{1} << i : 0; }

}  // namespace effects_internal
}  // namespace smelt

#endif  // SMELT_CORE_OP_EFFECT_TABLES_H_
