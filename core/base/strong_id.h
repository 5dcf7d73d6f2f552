// An index into an arena that cannot be mistaken for another arena's, and that safely outlives the object that it
// names.
//
//   using NodeId = StrongId<struct NodeTag>;
//   NodeId id(/*index=*/7, /*generation=*/1);
//   if (id.valid() && nodes_[id.index].generation == id.generation) ...
//
// A slot that is freed and reused increments its generation, so a stale id is detected. Generation 0 belongs to no
// slot: a default-constructed id is invalid. Ids are ordered by index, then generation. They hash with Abseil and print
// as "#7" or, if the slot was used before, "#7.2".
#ifndef SMELT_CORE_BASE_STRONG_ID_H_
#define SMELT_CORE_BASE_STRONG_ID_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace smelt {

template <typename Tag>
struct StrongId {
  uint32_t index = 0;
  uint32_t generation = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(uint32_t index, uint32_t generation = 1) : index(index), generation(generation) {}

  constexpr bool valid() const { return generation != 0; }
  constexpr explicit operator bool() const { return valid(); }

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;

  std::string ToString() const {
    if (!valid()) return "#none";
    std::string text = "#" + std::to_string(index);
    if (generation != 1) text += "." + std::to_string(generation);
    return text;
  }

  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) { return out << id.ToString(); }

  template <typename H>
  friend H AbslHashValue(H state, const StrongId& id) {
    return H::combine(std::move(state), id.index, id.generation);
  }
};

}  // namespace smelt

#endif  // SMELT_CORE_BASE_STRONG_ID_H_
