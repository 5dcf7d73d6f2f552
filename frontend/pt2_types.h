// Sizes and types of values, from an archive's metadata.
#ifndef SMELT_FRONTEND_PT2_TYPES_H_
#define SMELT_FRONTEND_PT2_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_counts.h"
#include "smelt/frontend/pt2_scope.h"

namespace smelt {
namespace pt2_internal {

class Pt2Types {
 public:
  // Both must outlive this. Values of uint16 are noted in `uint16`.
  Pt2Types(Graph& g, Uint16Values& uint16) : g_(g), uint16_(uint16) {}

  absl::StatusOr<Type> TensorTypeOf(const Scope& scope, const std::string& name);
  // Returns nothing if the archive gives the integer no expression that can be read.
  absl::StatusOr<std::optional<Expr>> SymIntExpr(const Scope& scope, const std::string& name);
  // Notes that the symbols of a defined value are not new.
  void MeetSymbols(const Type& type, const std::optional<Expr>& expr);
  // A slice between bounds that only the data determines has a size with a new symbol in the archive. The bounds
  // replace it wherever the archive names it. Returns whether there is one, in which case the type must be read again.
  bool ComputeNewSizes(NodeId n, const Type& declared);

 private:
  absl::StatusOr<Expr> ReadSize(const Json& j);
  absl::StatusOr<std::vector<Expr>> ReadSizes(const Json& list);
  // Computes the example's value of a symbol from that of a linear expression in it.
  void NoteHint(const Expr& e, int64_t value);

  Graph& g_;
  Uint16Values& uint16_;
  absl::flat_hash_set<std::string> symbols_met_;
  absl::flat_hash_map<std::string, Expr> computed_;  // symbols of the archive that are expressions of others
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_TYPES_H_
