// An index of the writes of one location by the interval of one dimension that they cover: finds the few of many that
// may touch a piece. Private to alias/.
#ifndef SMELT_ALIAS_WRITE_SPANS_H_
#define SMELT_ALIAS_WRITE_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace smelt {
namespace alias_internal {

// The index is made when a long list of writes is first queried, and is then kept up to date. Added writes are in
// levels, each at least twice as large as the next. Adding a write takes O(log) steps of a merge, removing one O(log),
// and finding the next one that meets an interval O(log) per level.
class WriteSpans {
 public:
  struct Span {
    int64_t lo, hi;
  };
  // The facts that the list's owner knows about a write.
  struct Source {
    absl::FunctionRef<std::optional<Span>(uint32_t record)> span_of;  // nothing: it may be anywhere
    absl::FunctionRef<bool(uint32_t, uint32_t)> is_before;            // in the text
    absl::FunctionRef<uint32_t(uint32_t)> position_of;                // 0: not known
  };

  // The intervals belong to one dimension of one space.
  uint32_t space = 0;
  int64_t key = 0;
  uint32_t version = 0;  // of the list

  void Fill(std::vector<uint32_t> in_order, const Source& source);
  void Add(uint32_t record);
  void Skip() { ++version; }  // the list has another record, which is none of these
  void Remove(uint32_t record);
  void Settle(const Source& source);  // before it is asked: what was added finds its place

  bool has_spans() const { return has_spans_; }
  // Calls visit with each write whose interval meets [lo, hi), those that begin last first, until it returns kStop.
  // After kPassGroup, earlier writes with the same interval are left out.
  enum class Next { kGoOn, kPassGroup, kStop };
  bool VisitSpans(Span mine, absl::FunctionRef<Next(uint32_t record)> visit) const;  // whether it was stopped
  // Does the same for writes without an interval, the last ones first, from before `until` if positions are known.
  // After kPassGroup none of the earlier ones is visited.
  bool VisitOthers(uint32_t until, absl::FunctionRef<Next(uint32_t record)> visit) const;
  int64_t steps() const { return steps_; }

 private:
  // The largest value of every range, as a tree over an array: finds the next smaller index with a value above a bound.
  class Most {
   public:
    void Fill(std::vector<int64_t> values);
    void Set(size_t i, int64_t value);
    size_t Before(size_t i, int64_t bound,
                  int64_t* steps) const;  // the largest index < i above the bound, plus 1; 0: none
    size_t size() const { return size_; }

   private:
    size_t size_ = 0, leaves_ = 1;
    std::vector<int64_t> tree_;
  };
  struct Entry {
    Span span;
    uint32_t record;
    uint32_t group;  // where those with the same interval begin; they are in program order
  };
  struct Level {
    std::vector<Entry> spans;
    std::vector<uint32_t> others;
    std::vector<uint32_t> others_at;  // their positions; none if that of some is not known
    Most ends, live;
    absl::flat_hash_map<uint32_t, uint32_t> where;  // record -> index << 1, of the others | 1
    size_t size() const { return where.size(); }
    size_t made = 0;  // its size when it was made
  };
  Level Make(std::vector<uint32_t> records, const Source& source);
  static std::vector<uint32_t> RecordsOf(const Level& level);

  std::vector<Level> levels_;
  std::vector<uint32_t> added_;
  bool has_spans_ = false;
  mutable int64_t steps_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_WRITE_SPANS_H_
