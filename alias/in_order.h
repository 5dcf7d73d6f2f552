// A hash of indices that are met in order: neighbours lie side by side. Private to alias/.
#ifndef SMELT_ALIAS_IN_ORDER_H_
#define SMELT_ALIAS_IN_ORDER_H_

#include <cstddef>
#include <cstdint>

#include "smelt/core/base/strong_id.h"

namespace smelt {
namespace alias_internal {

struct InOrder {
  // A table's slot depends on all but the low 7 bits.
  size_t operator()(uint32_t i) const { return (size_t{i} << 7) | (i & 127); }
  template <typename Tag>
  size_t operator()(StrongId<Tag> id) const {
    return (*this)(id.index);
  }
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_IN_ORDER_H_
