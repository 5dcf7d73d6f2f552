#include "smelt/alias/stores.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

void Stores::Clear() {
  stores_of_node.clear();
  external_stores = false;
  external_attributes.clear();
  coarse = false;
}

Stores::OfNode Stores::StoresOf(NodeId n) {
  OfNode out;
  const auto it = stores_of_node.find(n.index);
  if (it == stores_of_node.end()) return out;
  for (const StoreAt& s : it->second) out.push_back({s.holder, s_.containers.ContentsOf(s.holder).stores[s.at]});
  return out;
}

void Stores::ForgetStores(NodeId n, NodeRecord& r, bool push) {
  if (!(r.flags & NodeRecord::kStores)) return;
  r.flags &= ~NodeRecord::kStores;
  const auto it = stores_of_node.find(n.index);
  if (it == stores_of_node.end()) return;
  absl::InlinedVector<uint32_t, 2> holders;
  while (!it->second.empty()) {
    const StoreAt s = it->second.back();
    it->second.pop_back();
    DropStore(s.holder, s.at);
    if (holders.empty() || holders.back() != s.holder) holders.push_back(s.holder);
  }
  stores_of_node.erase(it);
  if (!push) return;
  for (uint32_t o : holders) StoresChanged(o, true);
}

bool Stores::CommitStores(NodeId n, absl::Span<std::pair<uint32_t, Store>> had) {
  const auto before = [](const auto& a, const auto& b) {
    const auto key = [](const auto& x) {
      return std::tuple(x.first, x.second.value.index, x.second.slot, x.second.elements, x.second.by_call,
                        x.second.shuffle);
    };
    return key(a) < key(b);
  };
  const auto same_store = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.SameStore(b.second);
  };
  if (new_stores.size() > 1) {
    std::sort(new_stores.begin(), new_stores.end(), before);
    new_stores.erase(std::unique(new_stores.begin(), new_stores.end(), same_store), new_stores.end());
  }
  if (had.size() > 1) std::sort(had.begin(), had.end(), before);
  if (std::equal(new_stores.begin(), new_stores.end(), had.begin(), had.end())) return false;
  if (std::equal(new_stores.begin(), new_stores.end(), had.begin(), had.end(), same_store)) {
    // Only the stored values have changed.
    for (const StoreAt& at : stores_of_node[n.index]) {
      Store& known = s_.containers.ContentsOf(at.holder).stores[at.at];
      for (const auto& [o, s] : new_stores) {
        if (o != at.holder || !known.SameStore(s)) continue;
        const bool other_set = known.set != s.set;
        known = s;
        if (other_set) SumStore(at.holder, at.at);
        break;
      }
    }
    return true;
  }
  if (!had.empty()) ForgetStores(n, s_.records.nodes[n.index], false);
  for (const auto& [o, s] : new_stores) AddStore(o, s);
  if (!new_stores.empty()) s_.records.nodes[n.index].flags |= NodeRecord::kStores;
  return true;
}

int Stores::Precedes(NodeId a, NodeId b) const {
  const BlockTree::Common c = s_.tree.CommonOf(a, b);
  return c.a != c.b && s_.g.node(c.a).order < s_.g.node(c.b).order ? 1 : 0;
}

bool Stores::MayComeBefore(NodeId a, NodeId b, Ref holder) {
  if (!b.valid() || Precedes(a, b) == 1) return true;
  const uint32_t common = s_.loops.CommonOf(a, b);
  if (common == 0) return false;
  const uint32_t holder_loop = s_.objects[ObjectOf(holder)].loop;
  // a ran in an earlier iteration of a loop around both that is not around the allocations in holder_loop. To the
  // contents of an earlier instance of such an allocation, a did what it does before b.
  return !s_.loops.IsWithin(holder_loop, common) ||
         (IsOld(holder) && s_.loops[common].top == s_.loops[holder_loop].top);
}

// Returns the elements that the store has put there for a reader at any time, in this iteration or an earlier one of
// each loop around it. Of the loops between it and the holder, only the innermost and the outermost can make a
// difference: whatever one of them makes older, all loops further out make older too.
SetId Stores::AtAnyTime(const Store& s, uint32_t holder_loop) {
  const LoopTable::Range range = s_.loops.Between(s_.loops.Around(s.node), holder_loop);
  return s_.memory.Join(s_.memory.Join(s.set, s_.memory.Shift(s.set, range.inner)),
                        s_.memory.Shift(s.set, range.outer));
}

void Stores::AddStores(NodeId n, const Node& node, const OpEffects& e) {
  bool container_write = false, escapes = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    container_write |= (e.arg(i) & kWritesContainer) != 0;
    escapes |= (e.arg(i) & kEscapes) != 0;
  }
  if (escapes) {
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!(e.arg(i) & kEscapes)) continue;
      SetId p = s_.records.PointsTo(node.inputs[i]);
      any |= p != 0;
      s_.memory.Escape(p);
    }
    if (any) {
      s_.records.nodes[n.index].flags |= NodeRecord::kEscapes;
      if (!std::exchange(external_stores, true)) s_.containers.readers.PushExternal();
    }
  }
  if (!container_write) return;
  const int32_t attribute = e.kind == EffectKind::kSetAttr ? s_.effects.AttributeSlot(node) : kAnySlot;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (!(b & kWritesContainer) || !s_.records.CanBeContainer(node.inputs[i])) continue;
    // The sets that other arguments hold, looked at once for all holders.
    absl::InlinedVector<std::optional<SetId>, 4> held(node.inputs.size());
    const auto elements_of_input = [&](size_t k) {
      if (!held[k]) held[k] = s_.containers.ContentOfSet(s_.records.PointsTo(node.inputs[k]), kAnySlot, n);
      return *held[k];
    };
    for (Ref holder : s_.sets.Refs(s_.records.PointsTo(node.inputs[i]))) {
      const uint32_t o = ObjectOf(holder);
      const Object h = s_.objects[o];
      if (!h.container) continue;
      const bool leaves = h.external || h.escaped || h.kind == ObjectKind::kSummary || o == kUnknown;
      bool stores = (b & kEscapes) != 0;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        stores |= k != i && (e.arg(k) & (kStored | kStoresElements)) != 0 && s_.records.PointsTo(node.inputs[k]) != 0;
      }
      if (leaves && stores) {
        s_.records.nodes[n.index].flags |= NodeRecord::kEscapes;
        const bool is_new = attribute != kAnySlot ? external_attributes.insert(attribute).second
                                                  : !std::exchange(external_stores, true);
        if (is_new) s_.containers.readers.PushExternal();
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const uint16_t c = e.arg(k);
        if (!(c & (kStored | kStoresElements)) || k == i) continue;
        SetId p = s_.records.PointsTo(node.inputs[k]);
        if (p == 0) continue;
        if (leaves) s_.memory.Escape(c & kStored ? p : elements_of_input(k));
        if (o == kUnknown || h.kind == ObjectKind::kSummary) continue;
        Store s;
        s.node = n;
        s.value = node.inputs[k];
        s.elements = (c & kStoresElements) != 0;
        if (attribute != kAnySlot) {
          s.slot = attribute;
        } else if (node.op.name() == op::kAppend || node.op.name() == op::kExtend ||
                   node.op.name() == op::kAddInPlace) {
          s.slot = kAppended;
        } else if (node.op.name() == op::kPrivateSetItem &&
                   UnwrapOptional(s_.g.value(node.inputs[i]).type).kind() == TypeKind::kList) {
          std::optional<int64_t> at = s_.numbers.ConstantInt(node.inputs[1]);
          s.slot = at && *at >= 0 && *at < INT32_MAX ? static_cast<int32_t>(*at) : kAnySlot;
        }
        s.set = s.elements ? elements_of_input(k) : p;
        s.last = s_.memory.Fingerprint(s.set);
        new_stores.push_back({o, s});
      }
      if (o != kUnknown && h.kind != ObjectKind::kSummary && (b & kShufflesContainer)) {
        Store s;
        s.node = n;
        s.shuffle = true;
        new_stores.push_back({o, s});
      }
    }
  }
}

void Stores::SumStore(uint32_t holder, uint32_t at) {
  Contents& c = s_.containers.ContentsOf(holder);
  if (!c.HasMany()) return;
  const size_t leaves = (*c.sums)[0].size() / 2;
  if (at >= leaves) return SumAgain(holder, 2 * c.stores.size());
  const SetId set = at < c.stores.size() ? AtAnyTime(c.stores[at], s_.objects[holder].loop) : 0;
  const bool appended = at < c.stores.size() && c.stores[at].slot == kAppended;
  for (const int k : {0, 1}) {
    std::vector<SetId>& sums = (*c.sums)[k];
    size_t i = leaves + at;
    sums[i] = appended == (k == 1) ? set : 0;
    for (i /= 2; i > 0; i /= 2) {
      ++s_.steps;
      const SetId sum = s_.memory.Join(sums[2 * i], sums[2 * i + 1]);
      if (sums[i] == sum) break;
      sums[i] = sum;
    }
  }
}

void Stores::SumAgain(uint32_t holder, size_t leaves) {
  Contents& c = s_.containers.ContentsOf(holder);
  size_t size = 2 * Contents::kMany;
  while (size < leaves) size *= 2;
  if (c.sums == nullptr) c.sums = std::make_unique<std::array<std::vector<SetId>, 2>>();
  for (std::vector<SetId>& sums : *c.sums) sums.assign(2 * size, 0);
  for (size_t at = 0; at < c.stores.size(); ++at) {
    (*c.sums)[c.stores[at].slot == kAppended ? 1 : 0][size + at] = AtAnyTime(c.stores[at], s_.objects[holder].loop);
  }
  for (std::vector<SetId>& sums : *c.sums) {
    for (size_t i = size; i-- > 1;) sums[i] = s_.memory.Join(sums[2 * i], sums[2 * i + 1]);
  }
  s_.steps += 2 * static_cast<int64_t>(size);
}

void Stores::AddStore(uint32_t holder, const Store& s) {
  Contents& c = s_.containers.ContentsOf(holder);
  const uint32_t at = static_cast<uint32_t>(c.stores.size());
  c.stores.push_back(s);
  c.shuffles += s.shuffle ? 1 : 0;
  stores_of_node[s.node.index].push_back({holder, at});
  if (c.stores.size() == Contents::kMany + 1) {
    coarse = true;
    SumAgain(holder, 0);
  } else {
    SumStore(holder, at);
  }
}

void Stores::DropStore(uint32_t holder, uint32_t at) {
  Contents& c = s_.containers.ContentsOf(holder);
  const uint32_t last = static_cast<uint32_t>(c.stores.size()) - 1;
  c.shuffles -= c.stores[at].shuffle ? 1 : 0;
  if (at != last) {
    c.stores[at] = c.stores[last];
    for (StoreAt& s : stores_of_node[c.stores[at].node.index]) {
      ++s_.steps;
      if (s.holder == holder && s.at == last) s.at = at;
    }
  }
  c.stores.pop_back();
  if (c.HasMany()) {
    SumStore(holder, last);
    if (at != last) SumStore(holder, at);
  } else {
    c.sums = nullptr;
  }
}

void Stores::StoresChanged(uint32_t holder, bool changed) {
  Contents& c = s_.containers.ContentsOf(holder);
  if (c.HasMany()) {
    uint64_t told = Mix(c.shuffles != 0 ? 3 : 2, s_.memory.Fingerprint((*c.sums)[0][1]));
    told = Mix(told, s_.memory.Fingerprint((*c.sums)[1][1]));
    if (std::exchange(c.told, told) == told) return;
  } else {
    c.told = 0;
  }
  s_.containers.readers.Push(holder, changed);
}

}  // namespace smelt::alias_internal
