// Measures the time of functionalization and the size of its result; the cost of a call apart from its kernels; and
// writes into parts of large memory compared with memcpy of the same bytes in the same run.
//
//   ./bazelw run //bench/functionalize:functionalize_bench [-- views|fresh|nested|calls|bytes ...]
//
// Times are the minimum of many runs, because other work on the machine only adds time.
// bench/functionalize/export_peer.py gives PyTorch's times for the first two tables.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"
#include "smelt/pipeline/compile.h"
#include "smelt/pipeline/complete_types.h"
#include "smelt/pipeline/passes.h"
#include "smelt/runtime/program.h"

namespace smelt {
namespace {

double Seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The processor time of the thread, in which other work on the machine counts less.
double ProcessorSeconds(const std::function<void()>& f) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  const double start = now();
  f();
  return now() - start;
}

// --- the pass ---
NodeId Add(Graph& g, absl::string_view op, std::vector<ValueId> inputs) {
  const FunctionSchema* schema = FindSchema(OpName::Get(op));
  std::vector<Type> types;
  for (const Argument& r : schema->returns) types.push_back(r.type);
  const NodeId n = g.Append(g.top(), schema->op, inputs, types);
  SMELT_CHECK_OK(InferNode(g, n));
  return n;
}
ValueId Int(Graph& g, int64_t i) { return InsertConstant(g, g.block(g.top()).return_node, i); }

// x[i % 64].add_(1), `writes` times; x an argument.
std::unique_ptr<Graph> WritesThroughViews(int writes) {
  auto g = std::make_unique<Graph>();
  const ValueId x = g->AddInput("x", Type::Tensor(DType::kFloat32, {64, 8}, {8, 1}));
  std::vector<ValueId> index;
  for (int i = 0; i < 64; ++i) index.push_back(Int(*g, i));
  for (int i = 0; i < writes; ++i) {
    const ValueId row = g->node(Add(*g, "aten::select.int", {x, index[0], index[i % 64]})).outputs[0];
    Add(*g, "aten::add_.Scalar", {row, index[1], index[1]});
  }
  g->AddOutput(x);
  return g;
}
// t = relu(x); t.add_(1), `writes` times.
std::unique_ptr<Graph> WritesToAFreshTensor(int writes) {
  auto g = std::make_unique<Graph>();
  const ValueId x = g->AddInput("x", Type::Tensor(DType::kFloat32, {64, 8}, {8, 1}));
  const ValueId one = Int(*g, 1), t = g->node(Add(*g, "aten::relu", {x})).outputs[0];
  for (int i = 0; i < writes; ++i) Add(*g, "aten::add_.Scalar", {t, one, one});
  g->AddOutput(t);
  return g;
}
// A view of a view of a view ..., written once; all of them are used afterwards.
std::unique_ptr<Graph> NestedViews(int views) {
  auto g = std::make_unique<Graph>();
  const ValueId x = g->AddInput("x", Type::Tensor(DType::kFloat32, {64, 64}, {64, 1}));
  const ValueId zero = Int(*g, 0), one = Int(*g, 1);
  std::vector<ValueId> all = {x};
  for (int i = 0; i < views; ++i)
    all.push_back(g->node(Add(*g, "aten::transpose.int", {all.back(), zero, one})).outputs[0]);
  Add(*g, "aten::add_.Scalar", {all.back(), one, one});
  g->AddOutput(all.back());
  return g;
}

struct PassCost {
  double seconds = std::numeric_limits<double>::infinity();
  int64_t nodes = 0;
};
PassCost CostOfPass(const std::function<std::unique_ptr<Graph>()>& make, int runs) {
  PassCost cost;
  for (int i = 0; i < runs; ++i) {
    std::unique_ptr<Graph> g = make();
    cost.seconds = std::min(cost.seconds, ProcessorSeconds([&] {
                              PassContext context;
                              PassRunOptions options;
                              options.disabled = {"build-alias-db"};
                              SMELT_CHECK_OK(PassesOf({PassGroup::kOpen, PassGroup::kPure}).Run(*g, context, options));
                            }));
    cost.nodes = 0;
    for (NodeId n : g->AllNodes()) cost.nodes += g->node(n).op != "prim::Constant";
  }
  return cost;
}

void Scaling(const char* what, std::unique_ptr<Graph> (*make)(int), const std::vector<int>& sizes) {
  std::printf("%s\n%10s %12s %10s %10s\n", what, "N", "seconds", "nodes", "t(2N)/t(N)");
  double before = 0;
  for (int n : sizes) {
    const PassCost c = CostOfPass([&] { return make(n); }, n <= 12500 ? 9 : 5);
    std::printf("%10d %12.5f %10lld", n, c.seconds, static_cast<long long>(c.nodes));
    if (before > 0) std::printf(" %10.2f", c.seconds / before);
    std::printf("\n");
    before = c.seconds;
  }
}

// --- calls ---
class Compiled {
 public:
  explicit Compiled(const std::string& text) {
    ParseOptions options;
    options.resolve_overload = ResolveOverload;
    auto graph = ParseGraph(text, options);
    SMELT_CHECK_OK(graph.status());
    SMELT_CHECK_OK(CompleteTypes(**graph));
    const std::string path =
        absl::StrCat(std::filesystem::temp_directory_path().string(), "/functionalize-bench-", getpid(), ".smb");
    SMELT_CHECK_OK(CompileToFile(**graph, path, {}).status());
    ProgramOptions load;
    load.threads = 1;
    auto program = Program::Load(path, load);
    std::remove(path.c_str());
    SMELT_CHECK_OK(program.status());
    auto instance = Instance::Create(*program);
    SMELT_CHECK_OK(instance.status());
    instance_ = *std::move(instance);
  }
  // Returns the minimum time of a call.
  double Call(const std::vector<Datum>& args, int runs) {
    std::vector<Datum> outputs;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < runs; ++i) {
      best = std::min(best, Seconds([&] { SMELT_CHECK_OK(instance_->RunInto(args, &outputs)); }));
    }
    return best;
  }
  const CallStats& stats() const { return instance_->last_call(); }

 private:
  std::unique_ptr<Instance> instance_;
};

Tensor Filled(absl::Span<const int64_t> sizes) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  std::fill_n(t.data_as<float>(), t.NumElements(), 1.0f);
  return t;
}

void Calls() {
  std::printf("a call beyond its kernels\n");
  // The graph does not read its arguments, so only the call itself is measured. With `writes`, a write to the first
  // argument makes smelt compare the arguments' memory.
  const auto text = [](int inputs, bool writes) {
    std::string out = "graph(";
    for (int i = 0; i < inputs; ++i) absl::StrAppend(&out, i > 0 ? ", " : "", "%x", i, " : Float(4, strides=[1])");
    absl::StrAppend(&out, "):\n");
    if (writes) absl::StrAppend(&out, "  %y : Float(4, strides=[1]) = aten::relu_(%x0)\n");
    return out + "  return ()\n";
  };
  const auto arguments = [](int inputs, bool one_storage) {
    std::vector<Datum> args;
    Tensor base = Filled({4 * inputs + 4});
    for (int i = 0; i < inputs; ++i) args.push_back(one_storage ? base.View({{4}, {1}, 4 * i}) : Filled({4}));
    return args;
  };
  const auto line = [](const char* what, double seconds, const CallStats& s) {
    std::printf("%60s %9.0f ns   %s, %lld launches\n", what, seconds * 1e9, Name(s.variant),
                static_cast<long long>(s.kernel_launches));
  };
  double one = 0;  // what a write to the only input adds
  for (int inputs : {1, 4, 10, 100}) {
    Compiled quiet(text(inputs, false)), writes(text(inputs, true));
    const std::string n = absl::StrCat(inputs, " inputs, ");
    // Both are measured alternately: `classify` is a difference of differences.
    const std::vector<Datum> apart = arguments(inputs, false);
    double no_write = std::numeric_limits<double>::infinity(), written = no_write;
    for (int round = 0; round < 10; ++round) {
      no_write = std::min(no_write, quiet.Call(apart, 5000));
      written = std::min(written, writes.Call(apart, 5000));
    }
    line((n + "no write").c_str(), no_write, quiet.stats());
    line((n + "one written by a kernel of 4 elements").c_str(), written, writes.stats());
    if (inputs == 1) {
      one = written - no_write;
    } else {
      std::printf("%60s %9.0f ns\n", (n + "to find who shares memory with it").c_str(),
                  (written - no_write - one) * 1e9);
    }
    line((n + "the same, all in one storage, apart").c_str(), writes.Call(arguments(inputs, true), 20000),
         writes.stats());
    if (inputs < 2) continue;
    std::vector<Datum> overlapping = arguments(inputs, true);
    overlapping[1] = overlapping[0].tensor().View({{4}, {1}, 2});
    line((n + "the same, two overlap").c_str(), writes.Call(overlapping, 20000), writes.stats());
  }
}

// --- bytes ---
double CopyTime(int64_t bytes, int runs) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    best = std::min(best, Seconds([&] {
                      std::memcpy(to.data(), from.data(), bytes);
                      asm volatile("" : : "r"(to.data()) : "memory");
                    }));
  }
  return best;
}
void Bytes() {
  std::printf("writes into parts, beside memcpy of the bytes written in the same run\n");
  std::printf("%44s %12s %12s %8s %12s\n", "", "smelt us", "memcpy us", "ratio", "copied back");
  const auto line = [](const char* what, Compiled& c, const std::vector<Datum>& args, int64_t bytes, int runs) {
    double smelt = std::numeric_limits<double>::infinity(), copy = smelt;
    for (int round = 0; round < 5; ++round) {  // side by side
      smelt = std::min(smelt, c.Call(args, runs));
      copy = std::min(copy, CopyTime(bytes, runs));
    }
    std::printf("%44s %12.2f %12.2f %8.2f %12lld\n", what, smelt * 1e6, copy * 1e6, copy / smelt,
                static_cast<long long>(c.stats().bytes_copied_back));
  };
  {
    Compiled c(R"(graph(%x : Float(4096, 1024, strides=[1024, 1]), %y : Float(4096, 1024, strides=[1024, 1])):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %false : bool = prim::Constant[value=0]()
  %a : Float(4096, strides=[1024]) = aten::select.int(%y, %one, %zero)
  %b : Float(4096, strides=[1024]) = aten::select.int(%x, %one, %zero)
  %c : Float(4096, strides=[1024]) = aten::copy_(%a, %b, %false)
  return ()
)");
    // A column of 4096 elements touches 4096 cache lines of each matrix.
    line("column of [4096, 1024], in place", c, {Filled({4096, 1024}), Filled({4096, 1024})}, 4096 * 64, 50);
  }
  {
    Compiled c(R"(graph(%x : Float(4096, 1024, strides=[1024, 1]), %y : Float(4096, 1024, strides=[1024, 1])):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %three : int = prim::Constant[value=3]()
  %false : bool = prim::Constant[value=0]()
  %z : Float(4096, 1024, strides=[1024, 1]) = aten::add.Scalar(%y, %three, %one)
  %a : Float(4096, strides=[1024]) = aten::select.int(%z, %one, %zero)
  %b : Float(4096, strides=[1024]) = aten::select.int(%x, %one, %zero)
  %c : Float(4096, strides=[1024]) = aten::copy_(%a, %b, %false)
  return (%z)
)");
    line("y + 3, its column copied", c, {Filled({4096, 1024}), Filled({4096, 1024})}, 4096 * 1024 * 4, 20);
  }
  {
    Compiled c(
        R"(graph(%cache : Float(8, 2048, 1024, strides=[2097152, 1024, 1]), %new : Float(8, 64, 1024, strides=[65536, 1024, 1])):
  %one : int = prim::Constant[value=1]()
  %begin : int = prim::Constant[value=512]()
  %end : int = prim::Constant[value=576]()
  %false : bool = prim::Constant[value=0]()
  %a : Float(8, 64, 1024, strides=[2097152, 1024, 1]) = aten::slice.Tensor(%cache, %one, %begin, %end, %one)
  %c : Float(8, 64, 1024, strides=[2097152, 1024, 1]) = aten::copy_(%a, %new, %false)
  return ()
)");
    line("KV cache, 64 rows of 8 heads", c, {Filled({8, 2048, 1024}), Filled({8, 64, 1024})}, 8 * 64 * 1024 * 4, 50);
  }
  {
    Compiled c(
        R"(graph(%x : Float(500000, strides=[1]), %y : Float(500000, strides=[1]), %n : Float(500000, strides=[1])):
  %false : bool = prim::Constant[value=0]()
  %a : Float(500000, strides=[1]) = aten::copy_(%x, %n, %false)
  %b : Float(500000, strides=[1]) = aten::copy_(%y, %n, %false)
  return ()
)");
    Tensor base = Filled({1000000});
    line("two halves of one base of 1,000,000", c,
         {base.View({{500000}, {1}, 0}), base.View({{500000}, {1}, 500000}), Filled({500000})}, 1000000 * 4, 50);
  }
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Without arguments it prints all sections.
  const auto wanted = [&](const char* section) {
    return argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, section) == 0; });
  };
  const std::vector<int> sizes = {1600, 12500, 25000, 50000, 100000, 200000};
  if (wanted("views")) smelt::Scaling("writes through views", smelt::WritesThroughViews, sizes);
  if (wanted("fresh")) smelt::Scaling("writes to a fresh tensor", smelt::WritesToAFreshTensor, sizes);
  if (wanted("nested")) smelt::Scaling("nested views, one write", smelt::NestedViews, {100, 400, 800, 1600});
  if (wanted("calls")) smelt::Calls();
  if (wanted("bytes")) smelt::Bytes();
  return 0;
}
