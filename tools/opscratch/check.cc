#include <cstdio>
#include <map>
#include "smelt/frontend/pt2.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/decompose.h"
using namespace smelt;
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto m = ReadPt2(argv[i]);
    if (!m.ok()) { printf("%s: %s\n", argv[i], std::string(m.status().message()).c_str()); continue; }
    Graph& g = *m->graph;
    std::map<std::string, int> unknown;
    for (NodeId n : g.AllNodes()) {
      const OpInfo& info = GetOpInfo(g.node(n).op);
      if (info.kind == OpKind::kUnknown) unknown[g.node(n).op.full()]++;
      if (info.kind == OpKind::kPointwise) { auto c = OpCall::Of(g, n); auto b = BuildPointwise(*c); if (!b.ok()) printf("  PW %s\n", std::string(b.status().message()).c_str()); }
      if (info.kind == OpKind::kReduction) { auto c = OpCall::Of(g, n); auto b = BuildReduction(*c); if (!b.ok()) printf("  RED %s\n", std::string(b.status().message()).c_str()); }
    }
    auto lines = CheckTypes(g);
    printf("%s: %d nodes, %d differences\n", argv[i], (int)g.num_nodes(), (int)lines.size());
    for (auto& l : lines) printf("  %s\n", l.c_str());
    for (auto& [k, v] : unknown) printf("  UNKNOWN %s %d\n", k.c_str(), v);
    absl::Status s = InferTypes(g);
    if (!s.ok()) printf("  INFER %s\n", std::string(s.message()).c_str());
  }
}
