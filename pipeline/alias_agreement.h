// Checks that functionalization, which follows memory for itself, and the alias database agree.
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

// Checks two claims about tensors whose storage no node changes. Tensors of one memory have a location of the database
// in common (else it misses an alias). If the database knows the only location of two tensors and it is the same, they
// are of one memory (else functionalization misses one). Open answers of the database, and results of control flow, are
// not compared.
class AliasAgreement {
 public:
  explicit AliasAgreement(const Graph& graph);

  void Add(ValueId tensor, int memory);
  // Internal, with two tensors, if some claim did not hold.
  const absl::Status& status() const { return status_; }

 private:
  struct Known {
    std::vector<LocationId> locations;
    ValueId example;
  };
  const std::unique_ptr<Graph> graph_;
  const std::unique_ptr<AliasDb> db_;
  absl::flat_hash_map<int, Known> of_memory_;  // what all its tensors have in common
  absl::flat_hash_map<LocationId, std::pair<int, ValueId>> memory_of_;
  absl::Status status_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_ALIAS_AGREEMENT_H_
