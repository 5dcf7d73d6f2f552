#include "smelt/alias/verify.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/alias/state.h"
#include "smelt/core/base/status_macros.h"

namespace smelt::alias_internal {

namespace {

// For one list of the caller's, "some element" covers everything that "its first" covers. The latter exists if a reader
// looked before it was known that the elements change places.
bool IsSaidByAny(const AliasDb::State& s, Ref r, absl::FunctionRef<bool(Ref)> has) {
  const Object& o = s.objects[ObjectOf(r)];
  if (o.kind != ObjectKind::kElement || o.slot < 0) return false;
  const uint32_t any = s.containers.elements.Find(o.parent, kAnySlot);
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

// Compares a database with a fresh one: the first difference is an error.
class Comparison {
 public:
  explicit Comparison(AliasDb::State& s) : s_(s) {}
  absl::Status VerifyValue(ValueId v, Comparison& fresh, bool summarised);
  absl::Status VerifyOrder();
  std::vector<std::string> WritesToCompare(NodeId n);

 private:
  absl::Status VerifyOrderOf(const AccessIndex& index, uint32_t first, NodeId n);
  std::vector<std::string> NamesToCompare(SetId set) const;

  AliasDb::State& s_;
};

std::vector<std::string> Comparison::NamesToCompare(SetId set) const {
  std::vector<std::string> out;
  s_.sets.ForEach(set, [&](Ref r) {
    if (!IsSaidByAny(s_, r, [&](Ref any) { return s_.sets.Contains(set, any); })) out.push_back(s_.words.RefName(r));
  });
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Comparison::WritesToCompare(NodeId n) {
  std::vector<std::string> out;
  for (uint32_t i = s_.records.RecordOf(n).first_write; i != 0; i = s_.accesses.writes.at(i).node_next) {
    const Access w = s_.accesses.writes.at(i);
    const auto has = [&](Ref any) {
      for (uint32_t k = s_.records.RecordOf(n).first_write; k != 0; k = s_.accesses.writes.at(k).node_next) {
        if (s_.sets.Contains(s_.accesses.writes.at(k).handles, any) && s_.accesses.writes.at(k).bits == w.bits)
          return true;
      }
      return false;
    };
    for (const auto& [handle, storage] : s_.accesses.PairsOf(w)) {
      if (IsSaidByAny(s_, handle, has)) continue;
      out.push_back(
          absl::StrCat(static_cast<int>(w.bits), " ", s_.words.RefName(handle), " in ", s_.words.RefName(storage)));
      const uint32_t list = s_.accesses.ListOf(ObjectOf(storage));
      if (w.list != (w.IsOfOne() ? list : s_.accesses.SetListOf(list))) out.push_back("in the wrong list");
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

absl::Status Comparison::VerifyValue(ValueId v, Comparison& fresh, bool summarised) {
  const std::string name = absl::StrCat("%", s_.g.value(v).name);
  const SetId mine = s_.records.PointsTo(v), theirs = fresh.s_.records.PointsTo(v);
  if (summarised) {
    if (mine != 0 || theirs == 0) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(name, " is empty, a fresh build says {", absl::StrJoin(fresh.NamesToCompare(theirs), ", "), "}"));
  }
  if (s_.budget.stale || s_.stores.coarse || fresh.s_.stores.coarse) {
    const std::vector<std::string> more = NamesToCompare(mine), less = fresh.NamesToCompare(theirs);
    if (SaysAtLeast(more, less)) return absl::OkStatus();
    return Differ(name, "points at least to", more, less);
  }
  SMELT_RETURN_IF_ERROR(Differ(name, "points to", NamesToCompare(mine), fresh.NamesToCompare(theirs)));
  SMELT_RETURN_IF_ERROR(Differ(name, "lives in", NamesToCompare(s_.memory.StoragesOfSet(mine)),
                               fresh.NamesToCompare(fresh.s_.memory.StoragesOfSet(theirs))));
  bool escaped = false, escaped_fresh = false;
  s_.sets.ForEach(mine, [&](Ref r) { escaped |= s_.objects[ObjectOf(r)].escaped; });
  fresh.s_.sets.ForEach(theirs, [&](Ref r) { escaped_fresh |= fresh.s_.objects[ObjectOf(r)].escaped; });
  if (escaped == escaped_fresh) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, escaped ? " escapes" : " does not escape", " here"));
}

absl::Status Comparison::VerifyOrderOf(const AccessIndex& index, uint32_t first, NodeId n) {
  for (uint32_t i = first; i != 0; i = index.at(i).node_next) {
    const uint32_t next = index.Next(i);
    if (next != 0 && s_.tree.IsBefore(index.at(next).node, n)) {
      return absl::InternalError(
          absl::StrCat(s_.words.DescribeNode(n), " stands in the wrong place among the accesses"));
    }
  }
  return absl::OkStatus();
}

// Checks that the known facts about the text's order hold, and that the lists of accesses are in that order.
absl::Status Comparison::VerifyOrder() {
  uint32_t last_position = 0;
  for (NodeId n : s_.g.AllNodes()) {
    const NodeRecord& r = s_.records.RecordOf(n);
    if (r.position != 0 && r.position <= last_position) {
      return absl::InternalError(absl::StrCat(s_.words.DescribeNode(n), " has a wrong position"));
    }
    last_position = std::max(last_position, r.position);
    const uint32_t scope = s_.g.block(s_.g.node(n).parent).return_node.index;
    for (ValueId v : s_.g.node(n).outputs) {
      const ValueRecord& value = s_.records.RecordOf(v);
      if (value.from != 0 && (value.from != r.position || value.scope != scope)) {
        return absl::InternalError(absl::StrCat("%", s_.g.value(v).name, " has a wrong scope"));
      }
    }
    SMELT_RETURN_IF_ERROR(VerifyOrderOf(s_.accesses.writes, s_.records.RecordOf(n).first_write, n));
    SMELT_RETURN_IF_ERROR(VerifyOrderOf(s_.accesses.reads, s_.records.RecordOf(n).first_read, n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompareWithFreshBuild(AliasDb::State& s) {
  if (!s.work.queue.empty() || s.solver.needs_rebuild || s.budget.stale || !s.work.resolve_loops.empty())
    s.solver.Flush();
  AliasDb::State fresh(s.g, s.options);
  fresh.solver.Build();
  Comparison mine(s), theirs(fresh);
  const bool summarised = s.objects.summarised != 0 || fresh.objects.summarised != 0;
  for (ValueId v : AllValues(s.g)) SMELT_RETURN_IF_ERROR(mine.VerifyValue(v, theirs, summarised));
  SMELT_RETURN_IF_ERROR(mine.VerifyOrder());
  if (summarised || s.stores.coarse || fresh.stores.coarse) return absl::OkStatus();
  for (NodeId n : s.g.AllNodes()) {
    if (s.budget.stale) {
      const std::vector<std::string> more = mine.WritesToCompare(n), less = theirs.WritesToCompare(n);
      if (!SaysAtLeast(more, less)) {
        return Differ(s.words.DescribeNode(n), "writes at least", more, less);
      }
      continue;
    }
    SMELT_RETURN_IF_ERROR(
        Differ(s.words.DescribeNode(n), "writes", mine.WritesToCompare(n), theirs.WritesToCompare(n)));
  }
  return absl::OkStatus();
}

}  // namespace smelt::alias_internal
