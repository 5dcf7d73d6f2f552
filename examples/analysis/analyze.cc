// Uses smelt's analyses, each of which is its own library: reads a model, asks which nodes write its buffers, and makes
// it pure.
#include <cstdio>
#include <memory>

#include "smelt/alias/alias_db.h"
#include "smelt/frontend/pt2.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  absl::StatusOr<smelt::Pt2Model> model = smelt::ReadPt2(argv[1]);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  smelt::Graph& graph = *model->graph;
  int written = 0;
  {
    // The answers hold for callers whose tensors share no memory.
    const std::unique_ptr<smelt::AliasDb> alias = smelt::AliasDb::Build(graph, {.distinct_inputs = true});
    for (smelt::ValueId v : graph.inputs()) written += alias->HasWriters(v);
  }
  absl::Status status = smelt::OpenComposites(graph).status();
  int removed = 0;
  if (status.ok()) {
    absl::StatusOr<smelt::FunctionalizeResult> result = smelt::Functionalize(graph, {});
    status = result.status();
    if (result.ok()) removed = result->mutations_removed;
  }
  if (status.ok()) status = smelt::VerifyFunctional(graph);
  std::printf("%d inputs are written; %d mutations removed; %s\n", written, removed, status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
