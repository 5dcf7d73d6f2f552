// The passes of smelt-opt: the compiler's (pipeline/passes.h), and those that only query the alias database or edit
// over it.
#ifndef SMELT_TOOLS_OPT_PASSES_H_
#define SMELT_TOOLS_OPT_PASSES_H_

#include <string>
#include <vector>

#include "smelt/core/pass/pass_pipeline.h"

namespace smelt {

// In the context: the user's options, and the text that a pass prints.
struct OptOutput {
  bool json = false;     // --json
  bool dot = false;      // --dot
  bool html = false;     // --html=FILE
  bool explain = false;  // --explain
  std::string text;      // printed
  std::string page;      // for --html=FILE
};

PassPipeline OptPasses();

// Returns the options among "json", "dot", "html" and "explain" that a pass uses.
std::vector<std::string> OptionsOf(const Pass& pass);

// Returns the output of --explain after a pass of the compiler: a convention, the edges that fused and those that did
// not. "" for passes without an explanation.
std::string Explanation(const Pass& pass, PassContext& context);

}  // namespace smelt

#endif  // SMELT_TOOLS_OPT_PASSES_H_
