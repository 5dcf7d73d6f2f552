// Runs a graph through the evaluator before and after passes, and compares everything that a caller would see.
#ifndef SMELT_PIPELINE_VERIFY_PASSES_H_
#define SMELT_PIPELINE_VERIFY_PASSES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/convention/duplicates.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// `original` run eagerly and `pure` under its convention, on the same random arguments (of the example's sizes), must
// agree in outputs, arguments and states. Otherwise returns Internal with `pass`. Programs that eager execution refuses
// on random data (an index out of range) are not compared.
//
// A pass may change the order of floating-point operations, and a graph may amplify the difference. Elements that differ
// by more than the dtype's tolerance are judged by the graph's own arithmetic: `original` runs several times more with
// each value that it computes, and each argument, off by its last place. A difference far beyond what that does to the
// element is no rounding.
absl::Status VerifyPass(const Graph& original, const Graph& pure, const Convention& convention, absl::string_view pass);

// Does the same for two graphs with one calling convention: `before` and `after` a pass that changes no convention.
// `duplicates` says which arguments of the calls are the same tensor.
absl::Status VerifySameMeaning(const Graph& before, const Graph& after, absl::string_view pass,
                               const DuplicatesLayer& duplicates = {});

}  // namespace smelt

#endif  // SMELT_PIPELINE_VERIFY_PASSES_H_
