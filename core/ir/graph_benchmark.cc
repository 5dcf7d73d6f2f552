// Measures how long building, printing, parsing, cloning and verifying graphs takes, and the memory of a node.
//
//   bazel run //core/ir:graph_benchmark
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "benchmark/benchmark.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// Returns the bytes of memory that the process occupies.
int64_t Resident() {
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  SMELT_CHECK(f != nullptr && std::fscanf(f, "%ld %ld", &total, &resident) == 2);
  std::fclose(f);
  return static_cast<int64_t>(resident) * sysconf(_SC_PAGESIZE);
}

// x = x + x * alpha with one shared constant: `nodes` nodes in all.
std::unique_ptr<Graph> BuildChain(int64_t nodes) {
  const OpName add = OpName::Get("aten::add.Tensor");
  const Type type = Type::Tensor(DType::kFloat32, {4, 8});
  auto g = std::make_unique<Graph>();
  ValueId x = g->AddInput("x", type);
  ValueId one = InsertConstant(*g, g->block(g->top()).return_node, int64_t{1});
  for (int64_t i = 1; i < nodes; ++i) x = g->node(g->Append(g->top(), add, {x, x, one}, {type})).outputs[0];
  g->AddOutput(x);
  return g;
}

// A chain of Ifs: each is a node with two blocks of one node.
std::unique_ptr<Graph> BuildIfs(int64_t nodes) {
  const OpName branch = OpName::Get("prim::If"), relu = OpName::Get("aten::relu");
  const Type type = Type::Tensor(DType::kFloat32, {4, 8});
  auto g = std::make_unique<Graph>();
  ValueId x = g->AddInput("x", type), c = g->AddInput("c", Type::Bool());
  for (int64_t i = 0; i < nodes; i += 3) {
    NodeId n = g->Append(g->top(), branch, {c}, {type});
    for (int k = 0; k < 2; ++k) {
      BlockId b = g->AddBlock(n);
      g->AddResult(b, g->node(g->Append(b, relu, {x}, {type})).outputs[0]);
    }
    x = g->node(n).outputs[0];
  }
  g->AddOutput(x);
  return g;
}

void Count(benchmark::State& state) {
  state.counters["per_node"] = benchmark::Counter(static_cast<double>(state.range(0) * state.iterations()),
                                                  benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_BuildChain(benchmark::State& state) {
  double bytes = 0;
  for (auto _ : state) {
    int64_t before = Resident();
    std::unique_ptr<Graph> g = BuildChain(state.range(0));
    bytes = static_cast<double>(Resident() - before) / static_cast<double>(state.range(0));
    state.PauseTiming();
    g.reset();
    state.ResumeTiming();
  }
  Count(state);
  state.counters["bytes_per_node"] = bytes;
}
BENCHMARK(BM_BuildChain)->Arg(1000000)->Arg(2000000)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_BuildIfs(benchmark::State& state) {
  for (auto _ : state) {
    std::unique_ptr<Graph> g = BuildIfs(state.range(0));
    state.PauseTiming();
    g.reset();
    state.ResumeTiming();
  }
  Count(state);
}
BENCHMARK(BM_BuildIfs)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_InsertBeforeTheSameNode(benchmark::State& state) {
  const OpName relu = OpName::Get("aten::relu");
  for (auto _ : state) {
    std::unique_ptr<Graph> g = BuildChain(3);
    NodeId anchor = g->block(g->top()).last;
    ValueId x = g->inputs()[0];
    for (int64_t i = 0; i < state.range(0); ++i) g->InsertBefore(anchor, relu, {x}, {g->value(x).type});
  }
  Count(state);
}
BENCHMARK(BM_InsertBeforeTheSameNode)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_EraseFromTheBack(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    std::unique_ptr<Graph> g = BuildChain(state.range(0));
    g->SetOutput(0, g->inputs()[0]);
    state.ResumeTiming();
    for (NodeId n = g->block(g->top()).last; n.valid();) {
      NodeId prev = g->node(n).prev;
      g->Erase(n);
      n = prev;
    }
  }
  Count(state);
}
BENCHMARK(BM_EraseFromTheBack)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_Print(benchmark::State& state) {
  std::unique_ptr<Graph> g = BuildChain(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(PrintGraph(*g));
  Count(state);
}
BENCHMARK(BM_Print)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_Parse(benchmark::State& state) {
  std::string text = PrintGraph(*BuildChain(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(ParseGraph(text));
  Count(state);
}
BENCHMARK(BM_Parse)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_Clone(benchmark::State& state) {
  std::unique_ptr<Graph> g = BuildChain(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(g->Clone());
  Count(state);
}
BENCHMARK(BM_Clone)->Arg(1000000)->Unit(benchmark::kMillisecond);

void BM_Verify(benchmark::State& state) {
  std::unique_ptr<Graph> g = BuildChain(state.range(0));
  for (auto _ : state) SMELT_CHECK_OK(VerifyGraph(*g));
  Count(state);
}
BENCHMARK(BM_Verify)->Arg(1000000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace smelt
