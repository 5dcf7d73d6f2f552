// Fuses graphs of 1,000, 10,000 and 100,000 nodes of several shapes, with and without queries to the alias database for
// each move. Prints processor times, which should grow in proportion to the number of nodes.
//
//   fuse_bench [SHAPE] [NODES]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/fuse.h"
#include "smelt/pipeline/passes.h"

namespace smelt {
namespace {

const Type kRow = Type::Tensor(DType::kFloat32, {4, 8}, {8, 1});

class Maker {
 public:
  explicit Maker(Graph& g) : g_(g) {
    x = g.AddInput("x", kRow);
    w = g.AddInput("w", Type::Tensor(DType::kFloat32, {8, 8}, {8, 1}));
    one = InsertConstant(g, g.block(g.top()).return_node, int64_t{1});
  }
  ValueId Op(const char* op, std::vector<ValueId> in, Type type = kRow) {
    ++nodes;
    return g_.node(g_.Append(g_.top(), OpName::Get(op), in, {type})).outputs[0];
  }
  ValueId Add(ValueId a, ValueId b) { return Op("aten::add.Tensor", {a, b, one}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("aten::mul.Tensor", {a, b}); }
  ValueId Mm(ValueId a) { return Op("aten::mm", {a, w}); }
  ValueId View(ValueId base, int64_t offset) {
    ++nodes;
    return g_
        .node(g_.Append(g_.top(), OpName::Get("smelt::view"), {base}, {Type::Tensor(DType::kFloat32, {4, 4}, {8, 1})},
                        Region({4, 4}, {8, 1}, offset)))
        .outputs[0];
  }
  ValueId List(std::vector<ValueId> parts) {
    ++nodes;
    return g_.node(g_.Append(g_.top(), OpName::Get("prim::ListConstruct"), parts, {Type::List(Type::Tensor())}))
        .outputs[0];
  }
  ValueId Write(ValueId base, ValueId value, int64_t offset) {
    ++nodes;
    return g_
        .node(g_.Append(g_.top(), OpName::Get("smelt::write_region"), {base, value}, {g_.value(base).type},
                        Region({4, 8}, {8, 1}, offset)))
        .outputs[0];
  }

  ValueId x, w, one;
  int nodes = 0;

 private:
  static Graph::Attributes Region(std::vector<Expr> sizes, std::vector<Expr> strides, int64_t offset) {
    return {{"sizes", sizes}, {"strides", strides}, {"offset", Expr(offset)}, {"dtype", int64_t{6}}};
  }
  Graph& g_;
};

// Pairs of a product and a matmul.
void Pairs(Graph& g, int nodes) {
  Maker m(g);
  ValueId v = m.x;
  while (m.nodes < nodes) v = m.Mm(m.Mul(v, m.x));
  g.AddOutput(v);
}
// One long chain.
void Chain(Graph& g, int nodes) {
  Maker m(g);
  ValueId v = m.x;
  while (m.nodes < nodes) v = m.Add(m.Mul(v, m.x), v);
  g.AddOutput(v);
}
// One value that very many library calls and kernels read.
void Fan(Graph& g, int nodes) {
  Maker m(g);
  const ValueId hub = m.Mul(m.x, m.x);
  ValueId sum = m.x;
  while (m.nodes < nodes) sum = m.Add(sum, m.Mul(m.Mm(hub), hub));
  g.AddOutput(sum);
}
// Siblings that nothing joins.
void Siblings(Graph& g, int nodes) {
  Maker m(g);
  const ValueId hub = m.Mm(m.x);
  while (m.nodes < nodes) g.AddOutput(m.Mul(m.Add(hub, m.x), m.x));
}
// Slices of sums, which are fused into their readers.
void Slices(Graph& g, int nodes) {
  Maker m(g);
  const Type half = Type::Tensor(DType::kFloat32, {4, 4}, {4, 1});
  ValueId v = m.x;
  while (m.nodes < nodes) {
    const ValueId s = m.Add(m.Mm(v), m.x);
    const ValueId p = m.Op("aten::mul.Tensor", {m.View(s, 0), m.View(s, 4)}, half);
    g.AddOutput(p);
    v = s;
  }
}
// Scans by doubling: each step is read in place and, with its halves exchanged, at other positions.
void Scans(Graph& g, int nodes) {
  Maker m(g);
  ValueId v = m.x;
  while (m.nodes < nodes) {
    const ValueId parts = m.List({m.View(v, 4), m.View(v, 0)});
    v = m.Add(m.Mul(v, m.x), m.Op("aten::cat", {parts, m.one}));
  }
  g.AddOutput(v);
}
// The same, where each step takes parts of the same few values.
void Gathers(Graph& g, int nodes) {
  Maker m(g);
  ValueId v = m.x;
  while (m.nodes < nodes) {
    const ValueId hub = m.Mul(v, m.x);
    v = hub;
    for (int k = 0; k < 30; ++k) {
      const ValueId parts = m.List({m.View(hub, 4), m.View(v, 0)});
      v = m.Add(m.Op("aten::cat", {parts, m.one}), v);
    }
  }
  g.AddOutput(v);
}
// Short chains that all end in one sum, which reads a part of each at another position.
void Joins(Graph& g, int nodes) {
  Maker m(g);
  ValueId sum = m.x;
  while (m.nodes < nodes) {
    ValueId v = m.Mul(m.x, m.x);
    for (int k = 0; k < 6; ++k) v = m.Add(v, m.x);
    sum = m.Add(sum, m.Add(v, m.Op("aten::cat", {m.List({m.View(v, 4), m.View(v, 0)}), m.one})));
  }
  g.AddOutput(sum);
}
// Rows written to one result, one after the other.
void Regions(Graph& g, int nodes) {
  const int steps = nodes / 3;
  Maker m(g);
  ValueId y = g.AddInput("y", Type::Tensor(DType::kFloat32, {4 * steps, 8}, {8, 1}));
  ValueId v = m.x;
  for (int k = 0; k < steps; ++k) {
    v = m.Mul(m.Mm(v), m.x);
    y = m.Write(y, v, int64_t{32} * k);
  }
  g.AddOutput(y);
}
// Many readers of a memory before each write to it.
void Overwrites(Graph& g, int nodes) {
  Maker m(g);
  ValueId y = g.AddInput("y", Type::Tensor(DType::kFloat32, {8, 8}, {8, 1}));
  ValueId sum = m.x;
  while (m.nodes < nodes) {
    for (int k = 0; k < 4; ++k) sum = m.Add(sum, m.Op("aten::mm", {sum, y}));
    y = m.Write(y, m.Mul(sum, m.x), 0);
  }
  g.AddOutput(y);
  g.AddOutput(sum);
}

struct Shape {
  const char* name;
  void (*make)(Graph&, int);
};
const Shape kShapes[] = {{"pairs", Pairs},   {"chain", Chain},          {"fan", Fan},     {"siblings", Siblings},
                         {"slices", Slices}, {"regions", Regions},      {"scans", Scans}, {"gathers", Gathers},
                         {"joins", Joins},   {"overwrites", Overwrites}};

absl::StatusOr<FusionReport> FuseGraph(Graph& g, const FuseOptions& options) {
  PassContext context;
  context.Put(options);
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kFuse}).Run(g, context));
  return std::move(context.Get<FusionReport>());
}

// Milliseconds of processor time: other work on the machine does not count.
double Now() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int Main(int argc, char** argv) {
  std::printf("%-12s %8s %10s %8s %12s %12s %8s\n", "shape", "nodes", "fuse ms", "us/node", "database ms", "fuse+moves",
              "groups");
  for (const Shape& shape : kShapes) {
    if (argc > 1 && std::strcmp(argv[1], shape.name) != 0) continue;
    for (int nodes : {1000, 10000, 100000}) {
      if (argc > 2 && std::atoi(argv[2]) != nodes) continue;
      Graph alone, asked;
      shape.make(alone, nodes);
      shape.make(asked, nodes);
      const double start = Now();
      auto report = FuseGraph(alone, {});
      const double fused = Now();
      const std::unique_ptr<AliasDb> alias = AliasDb::Build(asked);
      const double built = Now();
      FuseOptions options;
      options.alias_db = alias.get();
      auto report_asked = FuseGraph(asked, options);
      const double moved = Now();
      if (!report.ok() || !report_asked.ok() || report->groups != report_asked->groups) {
        std::printf("%s: the alias database changes what is fused, or fusing fails\n", shape.name);
        return 1;
      }
      std::printf("%-12s %8d %10.1f %8.2f %12.1f %12.1f %8d\n", shape.name, nodes, fused - start,
                  1e3 * (fused - start) / nodes, built - fused, moved - built, report->groups);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) { return smelt::Main(argc, argv); }
