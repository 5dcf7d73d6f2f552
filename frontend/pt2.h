// Reads a PyTorch export archive (.pt2, as torch.export.save of PyTorch 2.x writes it) into a graph, mutations and all.
//
//   SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2("model.pt2"));
//   // Parameters, buffers, constants (InputInfo::kWeight) and the user's arguments, in the archive's order:
//   model.graph->inputs();
//
// Both dialects are read: training IR, where in-place ops stand as written, and decomposed IR, where the signature
// lists the mutations (they become copy_s at the end of the graph). Arguments are in schema order with defaults filled
// in. Every tensor value has the type that the archive states. Nothing in the archive is executed; pickled weights are
// refused.
//
// Errors name the archive's entry, the node and the field. Unsupported operators are not an error here. The code that
// has to run them finds them, so that all can be listed at once.
#ifndef SMELT_FRONTEND_PT2_H_
#define SMELT_FRONTEND_PT2_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/declare.h"

namespace smelt {

struct Pt2Options {
  int64_t max_json_bytes = int64_t{1} << 30;
  int64_t max_weight_bytes = int64_t{1} << 40;  // each
  // The schemas of the operators of the user's own that the archive calls. An operator that is not among them keeps its
  // name, so that it can be listed as unsupported.
  const OperatorDeclarations* operators = nullptr;
};

struct Pt2Model {
  std::unique_ptr<Graph> graph;
  std::string torch_version;  // "2.13.0+cpu", or "" if the archive does not say
  // Conditions on sizes that are not integer arithmetic, as the archive states them. Calls are not checked against
  // these.
  std::vector<std::string> unchecked_guards;
  // One sentence for each part of the archive that is newer than smelt knows. It was read nevertheless.
  std::vector<std::string> warnings;
  // How Python nests the arguments and results; a part that the archive does not say is empty.
  CallStructure structure;
};

absl::StatusOr<Pt2Model> ReadPt2(const std::string& path, const Pt2Options& options = {});

}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_H_
