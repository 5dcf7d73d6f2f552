// A set that is a short list while it is small, and a hash set from then on. Private to alias/.
//
//   SmallSet<NodeId, 2> nodes;
//   nodes.Insert(n);  // true: it is new
//
// Most sets have a few members. Those need no memory of their own, and no hash.
#ifndef SMELT_ALIAS_SMALL_SET_H_
#define SMELT_ALIAS_SMALL_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"

namespace smelt {
namespace alias_internal {

template <typename T, size_t kInlined, typename Hash = absl::Hash<T>>
class SmallSet {
 public:
  static constexpr size_t kFew = 32;

  bool Contains(const T& x) const {
    return many_ != nullptr ? many_->contains(x) : std::find(few_.begin(), few_.end(), x) != few_.end();
  }
  // Returns whether it is new.
  bool Insert(const T& x) {
    if (many_ != nullptr) return many_->insert(x).second;
    if (Contains(x)) return false;
    few_.push_back(x);
    if (few_.size() > kFew) {
      many_ = std::make_unique<absl::flat_hash_set<T, Hash>>(few_.begin(), few_.end());
      few_.clear();
    }
    return true;
  }
  void Erase(const T& x) {
    if (many_ != nullptr) {
      many_->erase(x);
    } else if (const auto at = std::find(few_.begin(), few_.end(), x); at != few_.end()) {
      few_.erase(at);
    }
  }
  size_t size() const { return many_ != nullptr ? many_->size() : few_.size(); }
  bool empty() const { return size() == 0; }
  // Returns whether the test holds for some member.
  template <typename F>
  bool Any(const F& test) const {
    return many_ != nullptr ? std::any_of(many_->begin(), many_->end(), test)
                            : std::any_of(few_.begin(), few_.end(), test);
  }
  // The bytes that it allocates.
  int64_t bytes() const {
    const int64_t list = few_.capacity() > kInlined ? static_cast<int64_t>(few_.capacity() * sizeof(T)) : 0;
    return many_ != nullptr ? list + static_cast<int64_t>(many_->capacity() * (sizeof(T) + 1)) : list;
  }

 private:
  absl::InlinedVector<T, kInlined> few_;
  std::unique_ptr<absl::flat_hash_set<T, Hash>> many_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_SMALL_SET_H_
