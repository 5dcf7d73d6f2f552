// Checks that functionalization leaves to the call: facts about sizes and offsets, each inserted once.
//
//   SizeAssertions assertions(g, position);
//   SMELT_RETURN_IF_ERROR(assertions.Assert(a, n));   // a call whose sizes violate it is refused
//   SMELT_RETURN_IF_ERROR(assertions.Assume(b, n));   // such a call runs another program
#ifndef SMELT_FUNCTIONALIZE_SIZE_ASSERTIONS_H_
#define SMELT_FUNCTIONALIZE_SIZE_ASSERTIONS_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/functionalize/walk_position.h"

namespace smelt {

// Returns whether only the data tell the number.
bool HasDataSymbols(const Expr& e);

class SizeAssertions {
 public:
  // Both outlive this object.
  SizeAssertions(Graph& g, const WalkPosition& at) : g_(g), at_(at) {}

  // Both are Unimplemented in a branch or a loop, since a call that takes another way need not satisfy the fact. Facts
  // about numbers from data are left out: they are seen when the program runs.
  absl::Status Assert(const Assumption& a, NodeId anchor);
  absl::Status Assume(const Assumption& a, NodeId anchor);
  // Checks that the number is not 0, once for each pair of number and message.
  void AssertNotZero(const Expr& number, const std::string& message, NodeId anchor);

  bool assumes() const { return assumes_; }

 private:
  absl::StatusOr<bool> IsNew(const Assumption& a);
  NodeId Insert(const Assumption& a, NodeId anchor);
  NodeId Insert(const Expr& not_zero, const std::string& message, NodeId anchor);

  Graph& g_;
  const WalkPosition& at_;
  absl::flat_hash_set<std::string> asserted_;
  bool assumes_ = false;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_SIZE_ASSERTIONS_H_
