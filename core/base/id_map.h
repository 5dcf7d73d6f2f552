// A table from StrongIds to values: an array, since a hash table would access memory at random.
//
//   IdMap<ValueId, int> tensor_of;
//   tensor_of[v] = 3;
//   if (const int* t = tensor_of.Find(v)) ...
//
// Its size is that of the largest index. If an index is reused by another generation, the newest entry stays.
#ifndef SMELT_CORE_BASE_ID_MAP_H_
#define SMELT_CORE_BASE_ID_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace smelt {

template <typename Id, typename T>
class IdMap {
 public:
  // Reserves room for ids of indices below `bound`.
  void Reserve(size_t bound) { entries_.reserve(bound); }
  const T* Find(Id id) const {
    if (id.index >= entries_.size()) return nullptr;
    const Entry& e = entries_[id.index];
    return e.generation == id.generation && id.valid() ? &e.value : nullptr;
  }
  bool contains(Id id) const { return Find(id) != nullptr; }
  // A new entry is T(). `id` is valid.
  T& operator[](Id id) {
    if (id.index >= entries_.size()) entries_.resize(size_t{id.index} + 1);
    Entry& e = entries_[id.index];
    if (e.generation != id.generation) e = {id.generation, T()};
    return e.value;
  }
  void erase(Id id) {
    if (contains(id)) entries_[id.index] = Entry();
  }

 private:
  struct Entry {
    uint32_t generation = 0;  // no id's
    T value = T();
  };
  std::vector<Entry> entries_;
};

}  // namespace smelt

#endif  // SMELT_CORE_BASE_ID_MAP_H_
