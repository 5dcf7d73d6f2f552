// A graph as text, and queries with their answers, one per line:
//
//   Expect(R"(graph(%x : Tensor): ...)", R"(
//     may_alias %x %y: true
//     has_writers %y: false)");
#ifndef SMELT_ALIAS_SCENARIO_H_
#define SMELT_ALIAS_SCENARIO_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Resolves overloads. If the text does not parse, fails the test and returns a null pointer.
std::unique_ptr<Graph> ParseForTest(const std::string& text);
NodeId NodeOf(const Graph& g, absl::string_view value);

void Expect(const std::string& graph, absl::string_view questions);

}  // namespace smelt

#endif  // SMELT_ALIAS_SCENARIO_H_
