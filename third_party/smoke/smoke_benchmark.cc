#include "benchmark/benchmark.h"

namespace {
void BM_Nothing(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(0);
}
BENCHMARK(BM_Nothing);
}  // namespace
