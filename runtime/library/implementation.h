// Lists of the ways to compute an operator, each of which says why it does not apply.
//
//   constexpr Implementation<Product> kProducts[] = {
//       {"rows", [](const Product& p) { return IsSmall(p) ? nullptr : "the product is not small"; }, MakeRows},
//       {"tiles", [](const Product& p) { return HasTiles(p) ? nullptr : "tiles have other dtypes"; }, MakeTiles},
//   };
//   return MakeFirst<Product>(kProducts, product, "matmul of float32");   // tiles (rows: the product is not small)
//
// MakeCheapest takes the one with the least estimate of its time instead.
#ifndef SMELT_RUNTIME_LIBRARY_IMPLEMENTATION_H_
#define SMELT_RUNTIME_LIBRARY_IMPLEMENTATION_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

template <typename Problem>
struct Implementation {
  const char* name;
  // Returns why it does not apply, as the rest of "it does not apply, because"; null if it applies.
  const char* (*why_not)(const Problem& p);
  // Returns null if it turns out to have no code for this problem.
  MakeResult (*make)(const Problem& p);
  // Returns an estimate of its time. Null in lists of which the first is taken.
  double (*nanoseconds)(const Problem& p) = nullptr;
};

// Appends why an implementation is passed over.
void PassOver(absl::string_view name, absl::string_view why_not, std::string& passed_over);
// Notes in `op` which implementation it is, and which were passed over.
void NoteChoice(absl::string_view name, absl::string_view passed_over, PreparedOp& op);

// Makes the first implementation that applies, and notes in it why those before do not. Returns kUnimplemented, which
// says why for all of them, if none does; `what` names the call.
template <typename Problem>
MakeResult MakeFirst(absl::Span<const Implementation<Problem>> list, const Problem& p, absl::string_view what) {
  std::string passed_over;
  for (const Implementation<Problem>& way : list) {
    const char* why_not = way.why_not(p);
    if (why_not == nullptr) {
      MakeResult op = way.make(p);
      if (!op.ok()) return op;
      if (*op != nullptr) {
        NoteChoice(way.name, passed_over, **op);
        return op;
      }
      why_not = "there is no code for these operands";
    }
    PassOver(way.name, why_not, passed_over);
  }
  return absl::UnimplementedError(absl::StrCat(what, ": ", passed_over));
}

// Appends that an implementation is passed over because it is estimated to take `times` as long as the chosen one.
void PassOverForLess(absl::string_view name, double times, std::string& passed_over);

// An implementation that applies, and its estimate.
template <typename Problem>
struct Estimated {
  const Implementation<Problem>* way;
  double nanoseconds;
};

// Returns those that apply, the one with the least estimate first; of equal ones, the first of the list. Appends why the
// others do not apply to `passed_over`.
template <typename Problem>
std::vector<Estimated<Problem>> ByEstimate(absl::Span<const Implementation<Problem>> list, const Problem& p,
                                           std::string& passed_over) {
  std::vector<Estimated<Problem>> ways;
  for (const Implementation<Problem>& way : list) {
    const char* why_not = way.why_not(p);
    if (why_not == nullptr) {
      ways.push_back({&way, way.nanoseconds(p)});
    } else {
      PassOver(way.name, why_not, passed_over);
    }
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const auto& a, const auto& b) { return a.nanoseconds < b.nanoseconds; });
  return ways;
}

// Makes the implementation with the least estimate among those that apply and have code, and notes in it why the others
// are passed over. Fails as MakeFirst does.
template <typename Problem>
MakeResult MakeCheapest(absl::Span<const Implementation<Problem>> list, const Problem& p, absl::string_view what) {
  std::string passed_over;
  const std::vector<Estimated<Problem>> ways = ByEstimate(list, p, passed_over);
  for (size_t i = 0; i < ways.size(); ++i) {
    MakeResult op = ways[i].way->make(p);
    if (!op.ok()) return op;
    if (*op == nullptr) {
      PassOver(ways[i].way->name, "there is no code for these operands", passed_over);
      continue;
    }
    for (size_t k = i + 1; k < ways.size(); ++k)
      PassOverForLess(ways[k].way->name, ways[k].nanoseconds / ways[i].nanoseconds, passed_over);
    NoteChoice(ways[i].way->name, passed_over, **op);
    return op;
  }
  return absl::UnimplementedError(absl::StrCat(what, ": ", passed_over));
}

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_IMPLEMENTATION_H_
