#include "smelt/codegen/arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;

int64_t RoundUp(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

ArenaLayout PackArena(const std::vector<ArenaBuffer>& buffers) {
  ArenaLayout layout;
  layout.offsets.resize(buffers.size());
  // Constant sizes. Buffers are placed in the order in which their lives begin, each into the lowest gap among those
  // alive: first fit by time. For the stack-like lives of tensor programs that is near the optimum and costs O(n *
  // alive).
  std::vector<int> fixed, symbolic;
  for (int i = 0; i < static_cast<int>(buffers.size()); ++i)
    (buffers[i].bytes.IsConstant() ? fixed : symbolic).push_back(i);
  std::stable_sort(fixed.begin(), fixed.end(), [&](int a, int b) { return buffers[a].begin < buffers[b].begin; });
  struct Placed {
    int64_t begin, end;  // bytes
    int dies;
  };
  std::vector<Placed> alive;  // sorted by begin
  int64_t top = 0;
  for (int i : fixed) {
    alive.erase(std::remove_if(alive.begin(), alive.end(), [&](const Placed& p) { return p.dies < buffers[i].begin; }),
                alive.end());
    const int64_t need = RoundUp(std::max<int64_t>(*buffers[i].bytes.Constant(), 1));
    // The tightest gap that holds it.
    int64_t best = -1, best_slack = INT64_MAX, at = 0;
    for (const Placed& p : alive) {
      if (p.begin - at >= need && p.begin - at - need < best_slack) {
        best = at;
        best_slack = p.begin - at - need;
      }
      at = std::max(at, p.end);
    }
    if (best < 0) best = at;
    layout.offsets[i] = best;
    top = std::max(top, best + need);
    Placed placed{best, best + need, buffers[i].end};
    alive.insert(std::upper_bound(alive.begin(), alive.end(), placed,
                                  [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                 placed);
  }
  // Symbolic sizes follow. Each class of equal size has places of its own.
  Expr total = top;
  std::stable_sort(symbolic.begin(), symbolic.end(), [&](int a, int b) { return buffers[a].begin < buffers[b].begin; });
  struct Place {
    Expr offset;
    int dies;
  };
  std::map<std::string, std::vector<Place>> classes;
  for (int i : symbolic) {
    std::vector<Place>& places = classes[buffers[i].bytes.ToString()];
    auto it = std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.dies < buffers[i].begin; });
    if (it == places.end()) {
      places.push_back({total, buffers[i].end});
      layout.offsets[i] = total;
      total = total + FloorDiv(buffers[i].bytes + (kAlign - 1), kAlign) * kAlign;
    } else {
      it->dies = buffers[i].end;
      layout.offsets[i] = it->offset;
    }
  }
  layout.bytes = total;
  return layout;
}

}  // namespace smelt
