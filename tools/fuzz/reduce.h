// Reduces a failing program to a small one that still fails: fewer nodes, outputs and arguments, no control flow,
// smaller tensors, simpler memory and values.
#ifndef SMELT_TOOLS_FUZZ_REDUCE_H_
#define SMELT_TOOLS_FUZZ_REDUCE_H_

#include <functional>

#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// Returns the smallest sample that was found for which `fails` returns true; it returns true for `sample`. Greedy:
// calls it at most `max_tries` times.
Sample Reduce(const Sample& sample, const std::function<bool(const Sample&)>& fails, int max_tries = 3000);

// Runs RunSample in a separate process, so that a crash is a failure like any other. Calls `waiting` a few times per
// second while that process is at work.
struct Isolated {
  bool crashed = false;
  Verdict verdict;
};
Isolated RunIsolated(const Sample& sample, const RunOptions& options, const std::function<void()>& waiting = nullptr);

// Gives the graph's weights the contents that the call leaves in them, as the evaluator runs it.
absl::Status AdvanceState(Sample& sample);

// The same for a sample that RunSample finds different, or that crashes.
Sample ReduceWrongAnswer(const Sample& sample, const RunOptions& options);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_REDUCE_H_
