#include "smelt/alias/element_table.h"

#include <algorithm>

namespace smelt::alias_internal {

uint32_t ElementTable::Find(uint32_t container, int32_t slot) const {
  const uint32_t last = LastOf(container);
  if (last == 0) return 0;
  uint32_t at = last;
  for (size_t k = 0; k < kFew; ++k) {
    at = records_[at].next;
    if (records_[at].slot == slot) return records_[at].object;
    if (at == last) return 0;
  }
  const auto it = further_.find({container, slot});
  return it != further_.end() ? it->second : 0;
}

void ElementTable::Add(uint32_t container, int32_t slot, uint32_t object) {
  if (container >= last_.size()) last_.resize(std::max<size_t>(container + 1, last_.size() + last_.size() / 2));
  uint32_t i;
  if (free_.empty()) {
    i = static_cast<uint32_t>(records_.size());
    records_.emplace_back();
  } else {
    i = free_.back();
    free_.pop_back();
  }
  const uint32_t last = last_[container];
  records_[i] = {object, slot, i};
  last_[container] = i;
  if (last == 0) return;
  records_[i].next = records_[last].next;
  records_[last].next = i;
  size_t before = 0;
  for (uint32_t at = records_[i].next; at != i && before < kFew; at = records_[at].next) ++before;
  if (before == kFew) further_[{container, slot}] = object;
}

ElementTable::Elements ElementTable::Of(uint32_t container) const {
  Elements out;
  const uint32_t last = LastOf(container);
  if (last == 0) return out;
  uint32_t at = last;
  do {
    at = records_[at].next;
    out.push_back(records_[at].object);
  } while (at != last);
  return out;
}

uint32_t ElementTable::FirstOf(uint32_t container) const { return records_[records_[LastOf(container)].next].object; }

void ElementTable::Erase(uint32_t container) {
  const uint32_t last = LastOf(container);
  if (last == 0) return;
  last_[container] = 0;
  uint32_t at = last;
  do {
    at = records_[at].next;
    if (!further_.empty()) further_.erase({container, records_[at].slot});
    free_.push_back(at);
  } while (at != last);
}

void ElementTable::Clear() {
  last_.clear();
  records_.assign(1, Record());
  free_.clear();
  further_.clear();
}

int64_t ElementTable::bytes() const {
  return static_cast<int64_t>((last_.capacity() + free_.capacity()) * sizeof(uint32_t) +
                              records_.capacity() * sizeof(Record) +
                              further_.capacity() * (sizeof(*further_.begin()) + 1));
}

}  // namespace smelt::alias_internal
