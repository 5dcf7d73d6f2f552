// Explains in words why two kernels differ: the parts of their keys that are not equal.
//
//   for (const KeyDifference& d : CompareKeys(wanted_text, cached_text)) d.ToString();
//   // "constant of %1: float32 3, cached 2"
#ifndef SMELT_CODEGEN_KEY_DIFFERENCE_H_
#define SMELT_CODEGEN_KEY_DIFFERENCE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace smelt {

struct KeyDifference {
  // "target", "code generator", "rank", "vector dim", "order", "param count", "dtype", "access", "stride class",
  // "alias class", "scalar", "length", "operation", "constant", "operands", "dim", "phases", "spec" (of a cached entry
  // whose spec this smelt cannot read)
  std::string part;
  std::string where;  // "param 0", "%3"; empty: the whole kernel
  std::string wanted, cached;
  std::string ToString() const;
};

// Compares two texts of KernelKeyText. Returns nothing if they are equal. Instructions are compared by their number in
// the canonical order.
std::vector<KeyDifference> CompareKeys(absl::string_view wanted, absl::string_view cached);

}  // namespace smelt

#endif  // SMELT_CODEGEN_KEY_DIFFERENCE_H_
