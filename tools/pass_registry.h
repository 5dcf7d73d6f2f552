// The passes of smelt-opt: each by name, run one at a time over a graph.
//
//   RegisterPass({"functionalize", "writes become values", [](PassContext& c) { return Functionalize(c.graph); }});
//
// A file that registers passes has one function for it, which smelt_opt.cc calls: nothing is registered by static
// objects.
#ifndef SMELT_TOOLS_PASS_REGISTRY_H_
#define SMELT_TOOLS_PASS_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct PassContext {
  std::unique_ptr<Graph> graph;  // a pass may replace it
  std::string output;            // what the pass wants printed (a report); nothing else prints
  bool json = false;             // --json
  bool dot = false;              // --dot
  bool html = false;             // --html=FILE
  bool explain = false;          // --explain
  std::string page;              // for --html=FILE
};

struct Pass {
  std::string name;
  std::string description;  // one line
  std::function<absl::Status(PassContext&)> run;
  bool is_analysis = false;               // leaves the graph as it is: the graph is not printed after it
  std::vector<std::string> options = {};  // of json, dot, html and explain those that it heeds
};

void RegisterPass(Pass pass);
const std::vector<Pass>& Passes();  // in order of registration
const Pass* FindPass(const std::string& name);

void RegisterAliasPasses();
void RegisterPipelinePasses();

}  // namespace smelt

#endif  // SMELT_TOOLS_PASS_REGISTRY_H_
