// The conditions on sizes and numbers that the program's own branches left in an archive.
#ifndef SMELT_FRONTEND_PT2_GUARDS_H_
#define SMELT_FRONTEND_PT2_GUARDS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/call_structure_reader.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/size_guards.h"

namespace smelt {
namespace pt2_internal {

class Pt2Guards {
 public:
  // All must outlive this. The inputs of the graph have been read, and its nodes have not. `arguments` is how Python
  // nests the arguments; it is emptied if that does not fit the inputs.
  Pt2Guards(const Graph& g, Structure& arguments, const Json& program);

  // Returns the expressions that a condition says to be 0.
  std::vector<Expr> Zeros() const;
  // Adds the conditions to the graph, except those that follow from the ranges of its symbols. Returns those that are
  // not integer arithmetic, as the archive states them.
  std::vector<std::string> Keep(Graph& g) const;

 private:
  std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> Parse() const;
  ValueId ArgumentAt(const ArgumentPath& path) const;
  std::optional<Expr> NumberOf(const GuardedNumber& at) const;
  std::optional<Expr> HoldsForTheExample(absl::string_view guard) const;

  const Graph& g_;
  const Json& program_;
  // By where they are among Python's arguments; nothing if the archive does not say.
  std::optional<absl::flat_hash_map<ArgumentPath, ValueId>> arguments_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_GUARDS_H_
