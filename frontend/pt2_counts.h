// Values of uint16, which are read as int32. That says the same of numbers from 0 on that are counted and compared:
// PyTorch decomposes torch.eye of 256 to 65,535 rows into two ranges of them, compared.
#ifndef SMELT_FRONTEND_PT2_COUNTS_H_
#define SMELT_FRONTEND_PT2_COUNTS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace pt2_internal {

class Uint16Values {
 public:
  static constexpr int64_t kReadAs = 4;  // the archive's code of int32

  void Add(const std::string& name) { names_.insert(name); }
  // Returns an error if one of the values is anything but a count that is compared, or is an input or a result.
  absl::Status Check(const Graph& g) const;

 private:
  absl::flat_hash_set<std::string> names_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_COUNTS_H_
