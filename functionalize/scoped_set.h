// A set whose changes in a block are undone when the block ends.
//
//   ScopedSet<int> seen;
//   seen.Enter();
//   seen.Insert(3);
//   seen.Leave();
//   seen.Insert(3);   // true: new again
//
// Entering costs nothing, leaving takes time in the changes.
#ifndef SMELT_FUNCTIONALIZE_SCOPED_SET_H_
#define SMELT_FUNCTIONALIZE_SCOPED_SET_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace smelt {

template <typename T>
class ScopedSet {
 public:
  // Returns whether the element is new.
  bool Insert(T element) {
    if (!elements_.insert(element).second) return false;
    if (!blocks_.empty()) changes_.push_back({std::move(element), /*is_inserted=*/true});
    return true;
  }

  // Takes time in the elements of the set.
  template <typename Predicate>
  void EraseIf(const Predicate& predicate) {
    absl::erase_if(elements_, [&](const T& element) {
      const bool erases = predicate(element);
      if (erases && !blocks_.empty()) changes_.push_back({element, /*is_inserted=*/false});
      return erases;
    });
  }

  // Blocks nest.
  void Enter() { blocks_.push_back(changes_.size()); }
  void Leave() {
    for (; changes_.size() > blocks_.back(); changes_.pop_back()) {
      Change& change = changes_.back();
      if (change.is_inserted) {
        elements_.erase(change.element);
      } else {
        elements_.insert(std::move(change.element));
      }
    }
    blocks_.pop_back();
  }

 private:
  struct Change {
    T element;
    bool is_inserted;
  };

  absl::flat_hash_set<T> elements_;
  std::vector<Change> changes_;  // while a block is open, in order
  std::vector<size_t> blocks_;   // the number of changes when each began
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_SCOPED_SET_H_
