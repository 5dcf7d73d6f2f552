// The passes of smelt-opt: the compiler's (pipeline/passes.h), and those that only look at the alias database or edit
// over it.
#ifndef SMELT_TOOLS_OPT_PASSES_H_
#define SMELT_TOOLS_OPT_PASSES_H_

#include <string>
#include <vector>

#include "smelt/core/pass/pass_pipeline.h"

namespace smelt {

// In the context: what the user asked for, and what a pass wants printed.
struct OptOutput {
  bool json = false;     // --json
  bool dot = false;      // --dot
  bool html = false;     // --html=FILE
  bool explain = false;  // --explain
  std::string text;      // printed
  std::string page;      // for --html=FILE
};

PassPipeline OptPasses();

// The options among "json", "dot", "html" and "explain" that a pass heeds.
std::vector<std::string> OptionsOf(const Pass& pass);

// Returns the output of --explain after a pass of the compiler: a convention, the edges that fused and those that did
// not. "" for passes without an explanation.
std::string Explanation(const Pass& pass, PassContext& context);

}  // namespace smelt

#endif  // SMELT_TOOLS_OPT_PASSES_H_
