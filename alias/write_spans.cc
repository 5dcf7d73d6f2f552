#include "smelt/alias/write_spans.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace smelt::alias_internal {

namespace {

constexpr int64_t kGone = std::numeric_limits<int64_t>::min();
constexpr size_t kManyAdded = 16;

}  // namespace

void WriteSpans::Most::Fill(std::vector<int64_t> values) {
  size_ = values.size();
  leaves_ = 1;
  while (leaves_ <= size_) leaves_ *= 2;
  tree_.assign(2 * leaves_, kGone);
  std::copy(values.begin(), values.end(), tree_.begin() + static_cast<ptrdiff_t>(leaves_));
  for (size_t i = leaves_; i-- > 1;) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
}

void WriteSpans::Most::Set(size_t i, int64_t value) {
  i += leaves_;
  tree_[i] = value;
  for (i /= 2; i > 0; i /= 2) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
}

size_t WriteSpans::Most::Before(size_t i, int64_t bound, int64_t* steps) const {
  if (size_ == 0) return 0;
  // Goes up from the left neighbour of i until a range to the left has one, and down to its last.
  for (i += leaves_; i > 1; i /= 2) {
    ++*steps;
    if (i % 2 == 0 || tree_[i - 1] <= bound) continue;
    for (--i; i < leaves_;) {
      ++*steps;
      i = tree_[2 * i + 1] > bound ? 2 * i + 1 : 2 * i;
    }
    return i - leaves_ + 1;
  }
  return 0;
}

WriteSpans::Level WriteSpans::Make(std::vector<uint32_t> records, const Source& source) {
  Level out;
  steps_ += static_cast<int64_t>(records.size());
  bool known = true;
  for (uint32_t r : records) {
    if (const std::optional<Span> span = source.span_of(r)) {
      out.spans.push_back({*span, r, 0});
    } else {
      out.others.push_back(r);
      out.others_at.push_back(source.position_of(r));
      known = known && out.others_at.back() != 0;
    }
  }
  if (!known) out.others_at.clear();
  std::stable_sort(out.spans.begin(), out.spans.end(), [](const Entry& x, const Entry& y) {
    return x.span.lo != y.span.lo ? x.span.lo < y.span.lo : x.span.hi < y.span.hi;
  });
  std::vector<int64_t> ends;
  for (size_t i = 0; i < out.spans.size(); ++i) {
    Entry& s = out.spans[i];
    const bool same = i > 0 && out.spans[i - 1].span.lo == s.span.lo && out.spans[i - 1].span.hi == s.span.hi;
    s.group = same ? out.spans[i - 1].group : static_cast<uint32_t>(i);
    ends.push_back(s.span.hi);
    out.where[s.record] = static_cast<uint32_t>(i) << 1;
  }
  for (size_t i = 0; i < out.others.size(); ++i) out.where[out.others[i]] = static_cast<uint32_t>(i) << 1 | 1;
  out.ends.Fill(std::move(ends));
  out.live.Fill(std::vector<int64_t>(out.others.size(), 1));
  out.made = out.where.size();
  has_spans_ |= !out.spans.empty();
  return out;
}

std::vector<uint32_t> WriteSpans::RecordsOf(const Level& level) {
  std::vector<uint32_t> out;
  for (const Entry& s : level.spans) {
    if (level.where.contains(s.record)) out.push_back(s.record);
  }
  for (uint32_t r : level.others) {
    if (level.where.contains(r)) out.push_back(r);
  }
  return out;
}

void WriteSpans::Fill(std::vector<uint32_t> in_order, const Source& source) {
  levels_.clear();
  added_.clear();
  has_spans_ = false;
  levels_.push_back(Make(std::move(in_order), source));
}

void WriteSpans::Add(uint32_t record) {
  ++version;
  added_.push_back(record);
}

void WriteSpans::Remove(uint32_t record) {
  ++version;
  if (const auto it = std::find(added_.rbegin(), added_.rend(), record); it != added_.rend()) {
    steps_ += it - added_.rbegin();
    added_.erase(std::next(it).base());
    return;
  }
  for (Level& level : levels_) {
    ++steps_;
    const auto it = level.where.find(record);
    if (it == level.where.end()) continue;
    const size_t i = it->second >> 1;
    (it->second & 1 ? level.live : level.ends).Set(i, kGone);
    level.where.erase(it);
    return;
  }
}

void WriteSpans::Settle(const Source& source) {
  std::vector<uint32_t> records;
  if (added_.size() > kManyAdded) {
    records.swap(added_);
    while (!levels_.empty() && levels_.back().size() < 2 * records.size()) {
      const std::vector<uint32_t> more = RecordsOf(levels_.back());
      steps_ += static_cast<int64_t>(levels_.back().made);
      records.insert(records.end(), more.begin(), more.end());
      levels_.pop_back();
    }
  } else if (levels_.empty() || levels_.back().made <= 2 * levels_.back().size() + kManyAdded) {
    return;
  } else {
    records = RecordsOf(levels_.back());
    steps_ += static_cast<int64_t>(levels_.back().made);
    levels_.pop_back();
  }
  std::sort(records.begin(), records.end(), source.is_before);
  levels_.push_back(Make(std::move(records), source));
}

bool WriteSpans::VisitSpans(Span mine, absl::FunctionRef<Next(uint32_t record)> visit) const {
  for (const Level& level : levels_) {
    size_t i = std::partition_point(level.spans.begin(), level.spans.end(),
                                    [&](const Entry& e) { return e.span.lo < mine.hi; }) -
               level.spans.begin();
    while ((i = level.ends.Before(i, mine.lo, &steps_)) != 0) {
      const Entry& e = level.spans[--i];
      const Next next = visit(e.record);
      if (next == Next::kStop) return true;
      if (next == Next::kPassGroup) i = e.group;
    }
  }
  for (uint32_t record : added_) {
    if (visit(record) == Next::kStop) return true;
  }
  return false;
}

bool WriteSpans::VisitOthers(uint32_t until, absl::FunctionRef<Next(uint32_t record)> visit) const {
  for (const Level& level : levels_) {
    size_t i = level.others.size();
    if (until != 0 && !level.others_at.empty()) {
      i = std::partition_point(level.others_at.begin(), level.others_at.end(),
                               [&](uint32_t at) { return at < until; }) -
          level.others_at.begin();
    }
    while ((i = level.live.Before(i, 0, &steps_)) != 0) {
      const Next next = visit(level.others[--i]);
      if (next == Next::kStop) return true;
      if (next == Next::kPassGroup) break;
    }
  }
  if (has_spans_) return false;  // VisitSpans has been there
  for (uint32_t record : added_) {
    if (visit(record) == Next::kStop) return true;
  }
  return false;
}

}  // namespace smelt::alias_internal
