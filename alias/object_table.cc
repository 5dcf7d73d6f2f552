#include "smelt/alias/object_table.h"

#include <algorithm>
#include <utility>

#include "smelt/core/base/check.h"

namespace smelt::alias_internal {

void ObjectTable::Reset(size_t expected) {
  objects_.clear();
  objects_.reserve(expected + kFirstObject);
  objects_.resize(kFirstObject);
  is_summary_.assign(kFirstObject, false);
  free_.clear();
  groups.clear();
  summarised = 0;
  objects_[kUnknown].kind = ObjectKind::kUnknown;
  objects_[kUnknown].tensor = objects_[kUnknown].container = objects_[kUnknown].external = true;
  objects_[kRandom].kind = ObjectKind::kRandom;
  objects_[kWorld].kind = ObjectKind::kWorld;
  for (uint32_t o : {kUnknown, kRandom, kWorld}) objects_[o].storage = SetPool::Single(MakeRef(o));
}

uint32_t ObjectTable::New(ObjectKind kind, ValueId def) {
  uint32_t o;
  if (!free_.empty()) {
    o = free_.back();
    free_.pop_back();
    objects_[o] = Object();
  } else {
    o = static_cast<uint32_t>(objects_.size());
    SMELT_CHECK(o < (1u << 29)) << "too many objects";
    objects_.emplace_back();
    is_summary_.push_back(false);
  }
  objects_[o].kind = kind;
  is_summary_[o] = kind == ObjectKind::kSummary;
  objects_[o].def = def;
  return o;
}

void ObjectTable::Release(uint32_t object, bool again) {
  objects_[object] = Object();
  if (again) free_.push_back(object);
}

void ObjectTable::Trim() {
  constexpr size_t kSpare = 8;
  if (objects_.capacity() > objects_.size() + objects_.size() / kSpare) objects_.shrink_to_fit();
}

void ObjectTable::StartMarking() {
  if (marks_.size() < objects_.size()) marks_.resize(objects_.capacity());
  ++mark_;
}

bool ObjectTable::Mark(uint32_t object) { return std::exchange(marks_[object], mark_) != mark_; }

int64_t ObjectTable::bytes() const {
  return static_cast<int64_t>(objects_.capacity() * sizeof(Object) +
                              (free_.capacity() + marks_.capacity()) * sizeof(uint32_t) +
                              groups.capacity() * (sizeof(*groups.begin()) + 1));
}

}  // namespace smelt::alias_internal
