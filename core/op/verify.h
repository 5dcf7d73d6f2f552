// Checks a graph against the operators' schemas, beyond what VerifyGraph checks of its structure.
#ifndef SMELT_CORE_OP_VERIFY_H_
#define SMELT_CORE_OP_VERIFY_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct VerifySchemasOptions {
  // Arguments of a wrong type are errors too (an int for a float is not: the evaluator converts it).
  bool check_types = true;
  // An operator without a schema is an error.
  bool require_schema = false;
};

// Checks that every node, also in blocks and subgraphs, has as many inputs and outputs as its operator's schema (all
// arguments, defaults filled in), and that control flow has its blocks: prim::If two, each with one result per output;
// prim::Loop one, whose parameters are a counter and the carried values. The error names the node. Linear. Call
// VerifyGraph before: the graph must be sound.
absl::Status VerifySchemas(const Graph& g, const VerifySchemasOptions& options = {});

}  // namespace smelt

#endif  // SMELT_CORE_OP_VERIFY_H_
