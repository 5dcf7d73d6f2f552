// The objects that a value of a type may hold. Private to alias/.
#ifndef SMELT_ALIAS_TYPES_H_
#define SMELT_ALIAS_TYPES_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

inline const Type& UnwrapOptional(const Type& t) {
  const Type* p = &t;
  while (p->kind() == TypeKind::kOptional) p = &p->element();
  return *p;
}
inline bool MayBeTensor(const Type& t) {
  const Type& u = UnwrapOptional(t);
  return u.IsTensor() || u.kind() == TypeKind::kAny || u.kind() == TypeKind::kUnion;
}
inline bool MayBeContainer(const Type& t) { return IsContainerType(t); }

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_TYPES_H_
