// The schema's statement about the memory of one argument or result: `Tensor(a!)`, `Tensor(a|b)`, `Tensor(a -> *)`,
// `Tensor(*)`.
#ifndef SMELT_CORE_IR_ALIAS_INFO_H_
#define SMELT_CORE_IR_ALIAS_INFO_H_

#include <string>
#include <vector>

namespace smelt {

struct AliasInfo {
  // The alias sets before and after the call, as written, in order of writing; "*" is the wildcard. Without "->" both
  // are equal. If both are empty, there is no statement about this level (for a list of which only the elements alias
  // something).
  std::vector<std::string> before, after;
  bool is_write = false;
  // The statement about the elements of a container: `Tensor(a!)[]`, `(Tensor(a), Tensor(b))`. Parallel to the elements
  // of a tuple or dictionary, one entry for a list; empty if there is none for any element. An Optional is not a level
  // of its own.
  std::vector<AliasInfo> contained;

  bool IsWildcardBefore() const { return before.size() == 1 && before[0] == "*"; }
  bool IsWildcardAfter() const { return after.size() == 1 && after[0] == "*"; }
  // Returns whether there is no statement, here or inside.
  bool IsEmpty() const {
    for (const AliasInfo& c : contained) {
      if (!c.IsEmpty()) return false;
    }
    return before.empty() && after.empty() && !is_write;
  }
  bool operator==(const AliasInfo& o) const {
    return before == o.before && after == o.after && is_write == o.is_write && contained == o.contained;
  }
};

}  // namespace smelt

#endif  // SMELT_CORE_IR_ALIAS_INFO_H_
