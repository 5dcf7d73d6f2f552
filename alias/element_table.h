// The objects that stand for elements of containers, by container and slot. Private to alias/.
//
//   ElementTable elements;
//   elements.Add(list, 0, first);
//   elements.Find(list, 0);  // first; 0 if there is none
//
// Invariants: a container has at most one element for each slot, and an object is an element of at most one container.
// The elements of a container keep the order in which they were added.
#ifndef SMELT_ALIAS_ELEMENT_TABLE_H_
#define SMELT_ALIAS_ELEMENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

namespace smelt {
namespace alias_internal {

class ElementTable {
 public:
  using Elements = absl::InlinedVector<uint32_t, 2>;

  ElementTable() { Clear(); }
  uint32_t Find(uint32_t container, int32_t slot) const;
  void Add(uint32_t container, int32_t slot, uint32_t object);  // which has none for the slot
  Elements Of(uint32_t container) const;
  uint32_t FirstOf(uint32_t container) const;  // 0: it has none
  void Erase(uint32_t container);              // all of its elements
  void Clear();
  int64_t bytes() const;

 private:
  // Up to this many elements are looked at one by one; further ones are found in a table.
  static constexpr size_t kFew = 8;
  struct Record {
    uint32_t object = 0;
    int32_t slot = 0;
    uint32_t next = 0;  // of its container; the first one after the last
  };
  uint32_t LastOf(uint32_t container) const { return container < last_.size() ? last_[container] : 0; }

  std::vector<uint32_t> last_;  // by container: its last record; 0: none
  std::vector<Record> records_;
  std::vector<uint32_t> free_;
  absl::flat_hash_map<std::pair<uint32_t, int32_t>, uint32_t> further_;  // (container, slot) -> object
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_ELEMENT_TABLE_H_
