// Checks that functionalization, which tracks memory itself, and the alias database agree.
//
//   AliasAgreement agreement(graph);           // before it is made pure; a database of a copy of it
//   options.on_operand = [&](ValueId v, int memory) { agreement.Add(v, memory); };
//   ...
//   SMELT_RETURN_IF_ERROR(agreement.status());
#ifndef SMELT_PIPELINE_ALIAS_AGREEMENT_H_
#define SMELT_PIPELINE_ALIAS_AGREEMENT_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Checks two claims about tensors whose storage no node changes. Tensors in one memory have a common location in the
// database (otherwise the database misses an alias). If the database knows the only location of two tensors and it is
// the same, they are in one memory (otherwise functionalization misses an alias). Undecided answers of the database,
// and results of control flow, are not compared.
class AliasAgreement {
 public:
  explicit AliasAgreement(const Graph& graph);

  void Add(ValueId tensor, int memory);
  // Returns an Internal error that names two tensors if some claim did not hold.
  const absl::Status& status() const { return status_; }

 private:
  struct Known {
    std::vector<LocationId> locations;
    ValueId example;
  };
  const std::unique_ptr<Graph> graph_;
  const std::unique_ptr<AliasDb> db_;
  absl::flat_hash_map<int, Known> of_memory_;  // the locations that all its tensors have in common
  absl::flat_hash_map<LocationId, std::pair<int, ValueId>> memory_of_;
  absl::Status status_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_ALIAS_AGREEMENT_H_
