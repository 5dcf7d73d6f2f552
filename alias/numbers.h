// The integers of a graph as expressions, as far as they can be compared. Private to alias/.
//
//   Numbers numbers(state);
//   numbers.IntOf(n);  // n // 2 of an input n is an expression over a symbol for n
//
// Outside loops a value is one number throughout a run, and an unknown number is a symbol. In loops only facts that the
// graph states are used. Two values with equal expressions are equal whenever both are known. A number is added up from
// a bounded number of terms, so each question costs O(1).
#ifndef SMELT_ALIAS_NUMBERS_H_
#define SMELT_ALIAS_NUMBERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Numbers {
 public:
  explicit Numbers(AliasDb::State& s) : s_(s) {}
  std::optional<int64_t> ConstantInt(ValueId v) const;
  std::optional<Expr> IntOf(ValueId v);
  std::optional<std::vector<Expr>> IntsOf(ValueId v);  // of a list; nothing: some are not known, or it is long

 private:
  struct PlusConstant {
    ValueId value;
    int64_t constant;
  };
  std::optional<Expr> IntOf(ValueId v, int depth, int* left);
  std::optional<Expr> IntOfNode(ValueId v, int depth, int* left);
  std::optional<PlusConstant> PartsOfSum(ValueId v) const;  // if it is the sum of a value and a constant

  AliasDb::State& s_;
  // The last results: the end of a view is often the beginning of the next one. Valid until the next edit.
  struct Known {
    uint64_t edits = 0;
    ValueId v;
    std::optional<Expr> e;
  };
  std::array<Known, 4> known_;
  size_t oldest_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_NUMBERS_H_
