// A run with sizes that occurred before allocates nothing except results that the caller did not provide. A program of
// its own, because it counts every operator new.
#include <atomic>
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"

namespace {
std::atomic<int64_t> g_allocations = 0;
}  // namespace

void* operator new(size_t n) {
  ++g_allocations;
  if (void* p = std::malloc(n == 0 ? 1 : n)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace smelt {
namespace {

// f(x [n, 8], w [8, 4]): h = x @ w in the arena; x += 1; return relu(h), written in place in x where x is large.
std::unique_ptr<Instance> Model() {
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0), eight = b.Const(8), four = b.Const(4), one = b.Const(1);
  b.TensorArg("x", DType::kFloat32, {n, eight}, {eight, one});
  b.TensorArg("other", DType::kFloat32, {eight}, {one});
  b.State("w", std::vector<float>(32, 0.5f), false);
  b.Output("y");
  HandPlan p = b.Plan();
  const int bytes = b.Mul(n, b.Const(16));
  p.raw().arena_bytes = bytes;
  p.raw().needs_exported_strides = true;
  p.raw().written_args = {0};
  const int elements = b.Mul(n, eight), results = b.Mul(n, four);
  const int xs = p.ArgSlot(0), arena = p.ArenaSlot(b.Const(0), bytes), fresh = p.FreshSlot(bytes);
  const int x = p.View(xs, {n, eight}, {eight, one}), flat = p.Vector(xs, elements);
  const int w = p.View(p.StateSlot(0), {eight, four}, {four, one});
  const int h = p.View(arena, {n, four}, {four, one}), h_flat = p.Vector(arena, results),
            y_flat = p.Vector(fresh, results);
  auto* c = p.Step<fb::LibraryCallT>();
  c->op = "matmul";
  c->inputs = {x, w, -1};
  c->outputs = {h};
  p.Launch(kAddOne, elements, flat, flat);
  p.Launch(kRelu, results, h_flat, y_flat);
  p.Mutated(0, 1)->written = {flat};
  p.Output(fb::OutputKind::Fresh, -1, p.View(fresh, {n, four}, {four, one}));
  return b.Instantiate();
}

TEST(AllocationTest, NothingIsAllocatedAtSizesAlreadySeen) {
  auto instance = Model();
  {
    std::vector<std::vector<Datum>> args, outputs;
    for (int64_t n : {3, 64, 5}) {
      Tensor x = Tensor::Empty(DType::kFloat32, {n, 8}), other = Tensor::Empty(DType::kFloat32, {8});
      std::fill_n(x.data_as<float>(), x.NumElements(), 1.0f);
      args.push_back({x, other});
      outputs.push_back({Tensor::Empty(DType::kFloat32, {n, 4})});
    }
    const auto run_all = [&] {
      for (size_t i = 0; i < args.size(); ++i) ASSERT_TRUE(instance->RunInto(args[i], &outputs[i]).ok());
    };
    // oneDNN itself allocates a little in each execution of a primitive, which is counted separately below.
    run_all();
    run_all();
    const int64_t before = g_allocations;
    run_all();
    const int64_t of_three_calls = g_allocations - before;
    EXPECT_LE(of_three_calls, 2 * 8) << "beyond what two executions of a oneDNN primitive take";
  }
}

// The same without a library call: none at all.
TEST(AllocationTest, KernelsAloneAllocateNothing) {
  HandBundle b;
  const int n = b.Symbol("n", fb::SymbolSource::ArgSize, 0, 0);
  b.VectorArg("x", n);
  b.VectorArg("y", n);
  b.Output("z");
  HandPlan p = b.Plan();
  const int bytes = b.Mul(n, b.Const(4));
  p.raw().arena_bytes = bytes;
  p.raw().written_args = {0};
  const int x = p.Vector(p.ArgSlot(0), n), t = p.Vector(p.ArenaSlot(b.Const(0), bytes), n),
            z = p.Vector(p.FreshSlot(bytes), n);
  p.Launch(kAddOne, n, x, t);
  p.Launch(kRelu, n, t, z);
  p.Copy(t, x, true);
  p.Output(fb::OutputKind::Fresh, -1, z);
  auto instance = b.Instantiate();
  std::vector<std::vector<Datum>> args, outputs;
  for (int64_t size : {3, 100000, 64}) {
    args.push_back({Tensor::Empty(DType::kFloat32, {size}), Tensor::Empty(DType::kFloat32, {size})});
    outputs.push_back({Tensor::Empty(DType::kFloat32, {size})});
  }
  const auto run_all = [&] {
    for (size_t i = 0; i < args.size(); ++i) ASSERT_TRUE(instance->RunInto(args[i], &outputs[i]).ok());
  };
  run_all();
  run_all();
  const int64_t before = g_allocations;
  for (int round = 0; round < 10; ++round) run_all();
  EXPECT_EQ(g_allocations - before, 0);
}

}  // namespace
}  // namespace smelt
