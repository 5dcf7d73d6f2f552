// The contents of containers, by container. Private to alias/.
//
//   ContentsTable contents;
//   contents.Of(list).stores.push_back(store);
//   contents.Find(other);  // null: nothing is known of it
//
// Invariant: the contents of a container stay where they are until Erase or Clear, so references to them last.
#ifndef SMELT_ALIAS_CONTENTS_TABLE_H_
#define SMELT_ALIAS_CONTENTS_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// A store of a node into a container, or a change of the places of its elements.
struct Store {
  NodeId node;
  ValueId value;
  int32_t slot = -1;
  bool elements = false;  // the elements of `value`
  bool by_call = false;   // whatever the call that makes `value` reaches and makes
  bool shuffle = false;
  SetId set = 0;      // what that was when the node was evaluated
  uint64_t last = 0;  // and a hash of it, storages included
  bool SameStore(const Store& o) const {
    return node == o.node && value == o.value && slot == o.slot && elements == o.elements && by_call == o.by_call &&
           shuffle == o.shuffle;
  }
  bool operator==(const Store& o) const { return SameStore(o) && set == o.set && last == o.last; }
};

// The contents of a container. While the stores are few, a reader looks at each of them by itself: whether it may come
// before, and at which slot. With many stores it gets their union, which is kept in a tree over them: a change costs
// O(log).
struct Contents {
  static constexpr size_t kMany = 16;
  // Most have only one or two.
  using Readers = absl::InlinedVector<NodeId, 2>;
  std::vector<Store> stores;
  uint32_t shuffles = 0;     // how many of them are
  uint32_t distinct = 0;     // of readers: how many there were when they were last told apart
  Readers readers;           // nodes whose evaluation looked inside
  SetId base = 0;            // what it was made with, or of a summary what its members hold
  SetId of_call = 0;         // of kMade: what the call reaches and makes
  std::vector<SetId> slots;  // by slot, where that is not what its node takes
  uint64_t made_of = 0;      // a hash of what it was made with
  // Trees over many stores: leaf k, at half the size and on, is store k's. [1] holds what is appended.
  std::unique_ptr<std::array<std::vector<SetId>, 2>> sums;
  uint64_t told = 0;       // a hash of what the readers of many stores were told
  uint64_t kept_told = 0;  // a hash of `kept`, storages included
  SetId kept = 0;          // all that it has held since it was blurred
  bool blurred = false;    // a reader gets `kept` whatever it looks for, until all is built again
  bool HasMany() const { return stores.size() > kMany; }
};

class ContentsTable {
 public:
  Contents* Find(uint32_t container) {
    const uint32_t at = container < at_.size() ? at_[container] : 0;
    return at != 0 ? &Get(at) : nullptr;
  }
  Contents& Of(uint32_t container) {  // empty contents if nothing is known
    if (Contents* const known = Find(container); known != nullptr) return *known;
    if (container >= at_.size()) at_.resize(std::max<size_t>(container + 1, at_.size() + at_.size() / 2));
    if (free_.empty()) {
      if (used_ % kChunk == 0) chunks_.push_back(std::make_unique<Chunk>());
      at_[container] = ++used_;
    } else {
      at_[container] = free_.back();
      free_.pop_back();
    }
    return Get(at_[container]);
  }
  void Erase(uint32_t container) {
    Contents* const known = Find(container);
    if (known == nullptr) return;
    *known = Contents();
    free_.push_back(std::exchange(at_[container], 0));
  }
  void Clear() {
    at_.clear();
    chunks_.clear();
    free_.clear();
    used_ = 0;
  }
  // In an order that depends only on the calls made before.
  template <typename F>
  void ForEach(const F& f) const {
    for (uint32_t i = 1; i <= used_; ++i) f((*chunks_[(i - 1) / kChunk])[(i - 1) % kChunk]);
  }
  int64_t bytes() const {
    int64_t out = static_cast<int64_t>((at_.capacity() + free_.capacity()) * sizeof(uint32_t) +
                                       chunks_.size() * (sizeof(Chunk) + sizeof(chunks_[0])));
    ForEach([&](const Contents& c) {
      const auto of = [](const auto& v) { return static_cast<int64_t>(v.capacity() * sizeof(v[0])); };
      out += of(c.stores) + of(c.slots);
      if (c.readers.capacity() > Contents::Readers().capacity()) out += of(c.readers);
      if (c.sums != nullptr) out += of((*c.sums)[0]) + of((*c.sums)[1]);
    });
    return out;
  }

 private:
  static constexpr uint32_t kChunk = 32;
  using Chunk = std::array<Contents, kChunk>;
  Contents& Get(uint32_t at) { return (*chunks_[(at - 1) / kChunk])[(at - 1) % kChunk]; }

  std::vector<uint32_t> at_;  // by container; 0: none
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_CONTENTS_TABLE_H_
