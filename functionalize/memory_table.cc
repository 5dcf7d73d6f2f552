#include "smelt/functionalize/memory_table.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "smelt/core/base/check.h"

namespace smelt {
namespace {

template <typename T>
std::vector<T> CutFrom(std::vector<T>& list, size_t size) {
  const auto at = list.begin() + static_cast<int64_t>(size);
  std::vector<T> tail(std::make_move_iterator(at), std::make_move_iterator(list.end()));
  list.resize(size);
  return tail;
}

}  // namespace

const MemoryState* MemoryTable::Edits::Find(MemoryId m) const {
  const auto it = std::lower_bound(states_.begin(), states_.end(), m,
                                   [](const auto& edited, MemoryId id) { return edited.first < id; });
  return it == states_.end() || it->first != m ? nullptr : &it->second;
}

MemoryId MemoryTable::Add(MemoryState state) {
  states_.push_back(std::move(state));
  return static_cast<MemoryId>(states_.size()) - 1;
}

MemoryState& MemoryTable::Edit(MemoryId m) {
  MemoryState& state = states_[m];
  if (blocks_.empty() || static_cast<size_t>(m) >= blocks_.back().num_memories) return state;
  const auto [it, is_first] = blocks_.back().before.try_emplace(m);
  if (!is_first) return state;
  // The writes so far may be many. They are not copied, since Leave can tell them from the block's own.
  std::vector<SymbolicGeometry> written = std::move(state.written);
  std::vector<int> written_home = std::move(state.written_home);
  state.written.clear();
  state.written_home.clear();
  it->second = {state, written.size(), written_home.size()};
  state.written = std::move(written);
  state.written_home = std::move(written_home);
  return state;
}

void MemoryTable::Enter() { blocks_.push_back({states_.size(), {}}); }

MemoryTable::Edits MemoryTable::Leave() {
  SMELT_CHECK(!blocks_.empty()) << "no block is open";
  OpenBlock block = std::move(blocks_.back());
  blocks_.pop_back();
  Edits out;
  for (auto& [m, before] : block.before) {
    MemoryState after = std::move(states_[m]);
    std::vector<SymbolicGeometry> written = CutFrom(after.written, before.num_written);
    std::vector<int> written_home = CutFrom(after.written_home, before.num_written_home);
    std::swap(written, after.written);
    std::swap(written_home, after.written_home);
    states_[m] = std::move(before.state);
    states_[m].written = std::move(written);
    states_[m].written_home = std::move(written_home);
    out.states_.emplace_back(m, std::move(after));
  }
  std::sort(out.states_.begin(), out.states_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

}  // namespace smelt
