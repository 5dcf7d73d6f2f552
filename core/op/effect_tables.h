// Operators by name, for effects that neither a schema nor observations of memory show. Private to core/op/effects.
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

// Operators that change the geometry (or only what autograd and named tensors know) of their first argument, never its
// bytes.
const NameSet& GeometryWriters();
// Operators that read sizes, strides, dtype or the handle, not bytes.
const NameSet& GeometryReaders();
// Operators that make contiguous tensors with the sizes of their argument `size`.
const NameSet& TakesSizes();
// Operators that declare `(a)` or hide an alias, and may copy instead, or return the argument itself.
const NameSet& MayCopy();
// Views that are the argument itself if it is already as requested: real(x) is x for real numbers, x.mT is x without
// dims.
const NameSet& MayBeItself();
// Operators that hide an alias and never copy: their results are always views.
const NameSet& HiddenPureViews();
// Views whose result is never the argument's own handle.
const NameSet& NewHandles();
const NameSet& Partitions();
const NameSet& SideEffects();
const NameSet& RandomNames();

// Nodes of TorchScript and of smelt whose effects no schema states. Returns false if it is none of those.
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
