// The calls of an eager-order program: pure graphs of one operator or a group, each compiled like any graph.
#ifndef SMELT_PIPELINE_EAGER_CALL_TABLE_H_
#define SMELT_PIPELINE_EAGER_CALL_TABLE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/call_graph.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerCallTable {
 public:
  // Kernels go to `bundle`, the calls themselves to `program`.
  EagerCallTable(const Graph& graph, BundleBuilder& bundle, fb::EagerProgramT& program)
      : g_(graph), bundle_(bundle), program_(program) {}

  // Compiles a call and returns its number; equal calls have one number.
  absl::StatusOr<int> Add(CallGraph& call);
  // The same for the call of a group. Unimplemented if it would not make fewer launches and library calls than `steps`,
  // or needs an assumption on sizes.
  absl::StatusOr<int> AddGroup(CallGraph& call, int steps);
  // Returns the number of launches and library calls of a call.
  int steps(int call) const { return steps_[call]; }
  // Returns the text of a call's scalar function, or "".
  const std::string& function(int call) const { return functions_[call]; }
  // Returns the call that converts a value of the graph to another dtype.
  absl::StatusOr<int> Conversion(ValueId from, DType to);

 private:
  struct Compiled {
    fb::BundleT bundle;
    int steps = 0;         // launches and library calls
    bool assumes = false;  // something about sizes
  };
  absl::StatusOr<Compiled> Compile(Graph& g, bool with_alias_db);

  const Graph& g_;
  BundleBuilder& bundle_;
  fb::EagerProgramT& program_;
  absl::flat_hash_map<std::string, int> numbers_;  // by text
  std::vector<int> steps_;                         // by call
  std::vector<std::string> functions_;             // the same
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_CALL_TABLE_H_
