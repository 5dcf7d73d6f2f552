// The comparison with a fresh build.
#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/alias/state.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

using alias_internal::AllValues;
using alias_internal::IsOld;
using alias_internal::kAnySlot;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::Ref;

namespace {

// For one list of the caller's, "some element" covers everything that "its first" covers. The latter exists if a reader
// looked before it was known that the elements change places.
template <typename State>
bool IsSaidByAny(const State& s, Ref r, absl::FunctionRef<bool(Ref)> has) {
  const alias_internal::Object& o = s.objects[ObjectOf(r)];
  if (o.kind != alias_internal::ObjectKind::kElement || o.slot < 0) return false;
  const uint32_t any = s.elements.Find(o.parent, kAnySlot);
  return any != 0 && has(MakeRef(any, IsOld(r)));
}

// "Some piece of %l" says all that "its first" says.
bool SaysAtLeast(absl::Span<const std::string> more, absl::Span<const std::string> less) {
  return std::all_of(less.begin(), less.end(), [&](std::string name) {
    if (std::binary_search(more.begin(), more.end(), name)) return true;
    for (size_t at = 0; (at = name.find('[', at)) != std::string::npos; ++at) {
      const size_t end = name.find(']', at);
      if (end != std::string::npos) name.replace(at + 1, end - at - 1, "*");
    }
    return std::binary_search(more.begin(), more.end(), name);
  });
}

absl::Status Differ(absl::string_view what, absl::string_view does, absl::Span<const std::string> mine,
                    absl::Span<const std::string> theirs) {
  if (mine == theirs) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " ", does, " {", absl::StrJoin(mine, ", "), "}, a fresh build says {",
                                          absl::StrJoin(theirs, ", "), "}"));
}

}  // namespace

std::vector<std::string> AliasDb::State::NamesToCompare(SetId set) const {
  std::vector<std::string> out;
  sets.ForEach(set, [&](Ref r) {
    if (!IsSaidByAny(*this, r, [&](Ref any) { return sets.Contains(set, any); })) out.push_back(RefName(r));
  });
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> AliasDb::State::WritesToCompare(NodeId n) {
  std::vector<std::string> out;
  for (uint32_t i = RecordOf(n).first_write; i != 0; i = writes.at(i).node_next) {
    const Access w = writes.at(i);
    const auto has = [&](Ref any) {
      for (uint32_t k = RecordOf(n).first_write; k != 0; k = writes.at(k).node_next) {
        if (sets.Contains(writes.at(k).handles, any) && writes.at(k).bits == w.bits) return true;
      }
      return false;
    };
    ForEachPair(w, [&](Ref handle, Ref storage) {
      if (IsSaidByAny(*this, handle, has)) return;
      out.push_back(absl::StrCat(static_cast<int>(w.bits), " ", RefName(handle), " in ", RefName(storage)));
      const uint32_t list = ListOf(ObjectOf(storage));
      if (w.list != (w.IsOfOne() ? list : SetListOf(list))) out.push_back("in the wrong list");
    });
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

absl::Status AliasDb::State::VerifyValue(ValueId v, State& fresh, bool summarised) {
  const std::string name = absl::StrCat("%", g.value(v).name);
  const SetId mine = PointsTo(v), theirs = fresh.PointsTo(v);
  if (summarised) {
    if (mine != 0 || theirs == 0) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(name, " is empty, a fresh build says {", absl::StrJoin(fresh.NamesToCompare(theirs), ", "), "}"));
  }
  if (stale || coarse || fresh.coarse) {
    const std::vector<std::string> more = NamesToCompare(mine), less = fresh.NamesToCompare(theirs);
    if (SaysAtLeast(more, less)) return absl::OkStatus();
    return Differ(name, "points at least to", more, less);
  }
  SMELT_RETURN_IF_ERROR(Differ(name, "points to", NamesToCompare(mine), fresh.NamesToCompare(theirs)));
  SMELT_RETURN_IF_ERROR(
      Differ(name, "lives in", NamesToCompare(StoragesOfSet(mine)), fresh.NamesToCompare(fresh.StoragesOfSet(theirs))));
  bool escaped = false, escaped_fresh = false;
  sets.ForEach(mine, [&](Ref r) { escaped |= objects[ObjectOf(r)].escaped; });
  fresh.sets.ForEach(theirs, [&](Ref r) { escaped_fresh |= fresh.objects[ObjectOf(r)].escaped; });
  if (escaped == escaped_fresh) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, escaped ? " escapes" : " does not escape", " here"));
}

absl::Status AliasDb::State::VerifyOrderOf(const alias_internal::AccessIndex& index, uint32_t first, NodeId n) {
  for (uint32_t i = first; i != 0; i = index.at(i).node_next) {
    const uint32_t next = index.Next(i);
    if (next != 0 && tree.IsBefore(index.at(next).node, n)) {
      return absl::InternalError(absl::StrCat(DescribeNode(n), " stands in the wrong place among the accesses"));
    }
  }
  return absl::OkStatus();
}

// Checks that the known facts about the text's order hold, and that the lists of accesses are in that order.
absl::Status AliasDb::State::VerifyOrder() {
  uint32_t last_position = 0;
  for (NodeId n : g.AllNodes()) {
    const NodeRecord& r = RecordOf(n);
    if (r.position != 0 && r.position <= last_position) {
      return absl::InternalError(absl::StrCat(DescribeNode(n), " has a wrong position"));
    }
    last_position = std::max(last_position, r.position);
    const uint32_t scope = g.block(g.node(n).parent).return_node.index;
    for (ValueId v : g.node(n).outputs) {
      const ValueRecord& value = RecordOf(v);
      if (value.from != 0 && (value.from != r.position || value.scope != scope)) {
        return absl::InternalError(absl::StrCat("%", g.value(v).name, " has a wrong scope"));
      }
    }
    SMELT_RETURN_IF_ERROR(VerifyOrderOf(writes, RecordOf(n).first_write, n));
    SMELT_RETURN_IF_ERROR(VerifyOrderOf(reads, RecordOf(n).first_read, n));
  }
  return absl::OkStatus();
}

absl::Status AliasDb::Verify() const {
  State& s = *state_;
  if (!s.queue.empty() || s.needs_rebuild || s.stale || !s.resolve_loops.empty()) s.Flush();
  State fresh(s.g, s.options);
  fresh.Build();
  const bool summarised = s.summarised != 0 || fresh.summarised != 0;
  for (ValueId v : AllValues(s.g)) SMELT_RETURN_IF_ERROR(s.VerifyValue(v, fresh, summarised));
  SMELT_RETURN_IF_ERROR(s.VerifyOrder());
  if (summarised || s.coarse || fresh.coarse) return absl::OkStatus();
  for (NodeId n : s.g.AllNodes()) {
    if (s.stale) {
      const std::vector<std::string> more = s.WritesToCompare(n), less = fresh.WritesToCompare(n);
      if (!SaysAtLeast(more, less)) {
        return Differ(s.DescribeNode(n), "writes at least", more, less);
      }
      continue;
    }
    SMELT_RETURN_IF_ERROR(Differ(s.DescribeNode(n), "writes", s.WritesToCompare(n), fresh.WritesToCompare(n)));
  }
  return absl::OkStatus();
}

}  // namespace smelt
