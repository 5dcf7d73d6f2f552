// Opens composites one after the other (open_composites.h). Internal to functionalize; other code uses
// open_composites.h.
//
//   absl::Status ExpandAs(CompositeOpener& o, NodeId n) {          // the rule of one composite
//     SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kExpand, {...}));
//     o.ReplaceWith(n, v[0]);
//     return absl::OkStatus();
//   }
//
// Rules are functions, in several files by subject. Each file adds its own to the table (Add...Openings); traits.h names
// the rule of an operator.
#ifndef SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_
#define SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/traits.h"
#include "smelt/functionalize/open_composites.h"

namespace smelt {

class CompositeOpener {
 public:
  CompositeOpener(Graph& g, StrideChoices choices) : g_(g), at_run_time_(choices == StrideChoices::kAtRunTime) {}

  absl::Status Run();
  OpenedComposites decided() const { return decided_; }

  // --- for the rules ---
  Graph& graph() const { return g_; }
  bool at_run_time() const { return at_run_time_; }  // strides decide when the program runs, not now
  ValueId In(NodeId n, int i) const { return g_.node(n).inputs[i]; }
  const TensorType& TypeOfValue(ValueId v) const { return g_.value(v).type.tensor(); }
  absl::StatusOr<int> ArgumentIndex(NodeId n, absl::string_view name) const;
  bool IsFlagOfCall(ValueId v) const;  // a bool that is no constant
  // Notes that the strides of v are about to decide a choice.
  void Decide(ValueId v) { (MayBeOfArgument(v) ? decided_.strides_decide : decided_.order_decides) = true; }

  ValueId None(NodeId anchor) { return InsertConstant(g_, anchor, std::monostate()); }
  // Makes a list of sizes as a value: constants, or the expressions of ints made for the purpose.
  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes);
  // Inserts a node before `anchor`, with inferred types. Returns its results.
  absl::StatusOr<std::vector<ValueId>> Insert(NodeId anchor, absl::string_view op, std::vector<ValueId> args,
                                              size_t outputs = 1);
  // These erase the node.
  void ReplaceWith(NodeId n, ValueId v);
  absl::Status ReplaceOutputs(NodeId n, const std::vector<ValueId>& with);
  absl::Status ReplaceList(NodeId n, const std::vector<ValueId>& results);
  absl::Status Identity(NodeId n);  // by its first operand
  // Its argument `flag` is known only at run time: a branch on it, in which the operator stands twice, each opened for
  // what the flag is there.
  absl::Status BranchOnFlag(NodeId n, int flag);
  // Gives the results the types that follow from the operands' types, if one of those differs from the archive's. Only
  // the archive names sizes that the data determines.
  absl::Status Retype(NodeId n);

 private:
  absl::Status Open(NodeId n);
  bool HasMasks(ValueId indices) const;  // or what may be one
  // Returns whether v may share an argument's storage, or that of a state which takes another storage. Values after
  // blocks and lists count as such.
  bool MayBeOfArgument(ValueId v);
  bool IsAssigned(ValueId v) const;
  bool IsUserInput(ValueId v) const;
  // Corrects the layout of results. For many operators an archive states strides that differ from those of PyTorch's
  // kernels if operands are not contiguous, because the exporter has its own formulas.
  absl::Status CorrectLayout(NodeId n);
  // Until its geometry changes, the results of in-place operators are names of their operand.
  void UseOneName(NodeId n);
  // Decomposes a composite that writes and is equivalent to a sequence of other operators, by core/op's rule for it.
  absl::Status Decomposed(NodeId n);
  // A block that hands on a new tensor which nobody else has hands on a copy: what is written there later is not seen
  // elsewhere, and in the other block the result is a new tensor too.
  absl::Status CopyWhatOnlyBranchHas(NodeId branch);

  Graph& g_;
  const bool at_run_time_;
  bool stale_ = false;  // types of later nodes may be those of a geometry that has changed
  OpenedComposites decided_;
  absl::flat_hash_map<ValueId, bool> may_be_of_argument_;
};

using OpeningRule = absl::Status (*)(CompositeOpener& o, NodeId n);
using OpeningTable = absl::flat_hash_map<Opening, OpeningRule>;

void AddViewOpenings(OpeningTable& table);           // views, or copies where PyTorch copies
void AddNormalizationOpenings(OpeningTable& table);  // normalization, and the statistics that it writes
void AddActivationOpenings(OpeningTable& table);     // activations, dropout, numbers

// Returns whether the operator writes its results into given tensors.
bool HasOut(OpName op);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_
