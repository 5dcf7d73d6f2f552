#include "smelt/functionalize/possible_sharing.h"

#include "smelt/core/base/check.h"

namespace smelt {

PossibleSharing::Tree PossibleSharing::Find(MemoryId m) const {
  for (auto it = parent_.find(m); it != parent_.end(); it = parent_.find(m)) m = it->second;
  const auto it = trees_.find(m);
  return it == trees_.end() ? Tree{m, 1, Single(m)} : it->second;
}

PossibleSharing::Set PossibleSharing::EitherOf(Set a, Set b) {
  if (a == b) return a;
  joined_.push_back({a, b, a < 0 ? MemoryOf(a) : joined_[a].member});
  return static_cast<Set>(joined_.size()) - 1;
}

void PossibleSharing::JoinTrees(MemoryId a, MemoryId b) {
  Tree above = Find(a), below = Find(b);
  if (above.memory == below.memory) return;
  if (above.size < below.size) std::swap(above, below);
  links_.push_back({below.memory, above});
  parent_[below.memory] = above.memory;
  trees_[above.memory] = {above.memory, above.size + below.size, EitherOf(above.set, below.set)};
}

void PossibleSharing::ForParts(Set set, Mark before, absl::FunctionRef<void(MemoryId)> f) const {
  std::vector<Set> todo = {set};
  while (!todo.empty()) {
    const Set now = todo.back();
    todo.pop_back();
    if (now < 0) {
      if (MemoryOf(now) < static_cast<MemoryId>(before.num_memories)) f(MemoryOf(now));
    } else if (now < static_cast<Set>(before.num_joined)) {
      f(joined_[now].member);
    } else {
      todo.push_back(joined_[now].b);
      todo.push_back(joined_[now].a);
    }
  }
}

void PossibleSharing::Join(const std::vector<Copy>& copies, Mark before) {
  absl::flat_hash_map<Set, MemoryId> first;  // the first copy of each set
  for (const Copy& copy : copies) {
    for (Set set : copy.of) {
      const auto [it, is_first] = first.try_emplace(set, copy.memory);
      if (is_first) {
        ForParts(set, before, [&](MemoryId part) { JoinTrees(copy.memory, part); });
      } else {
        JoinTrees(copy.memory, it->second);
      }
      const auto [known, is_new] = copies_.try_emplace(copy.memory, set);
      if (!is_new) known->second = EitherOf(known->second, set);
    }
  }
}

void PossibleSharing::Leave() {
  SMELT_CHECK(!blocks_.empty()) << "no block is open";
  for (; links_.size() > blocks_.back(); links_.pop_back()) {
    const auto& [child, tree] = links_.back();
    parent_.erase(child);
    if (tree.size == 1) {
      trees_.erase(tree.memory);
    } else {
      trees_[tree.memory] = tree;
    }
  }
  blocks_.pop_back();
}

bool PossibleSharing::Shown::MayBeAnother(MemoryId copy) {
  const auto it = sharing_.copies_.find(copy);
  if (it == sharing_.copies_.end()) return false;
  std::vector<Set> todo = {it->second};
  while (!todo.empty()) {
    const Set now = todo.back();
    todo.pop_back();
    const auto [seen, is_new] = visitor_.try_emplace(now, copy);
    if (!is_new && seen->second != copy) return true;
    if (!is_new) continue;
    if (now < 0) {
      if (is_shown_(MemoryOf(now))) return true;
    } else {
      todo.push_back(sharing_.joined_[now].a);
      todo.push_back(sharing_.joined_[now].b);
    }
  }
  return false;
}

}  // namespace smelt
