// Measures the time of the alias database and how it grows: one line of JSON per measurement.
//
//   bazel run -c opt //bench/alias -- [--only=build/chain] [--max=1000000] [--runs=3]
//   bazel run -c opt //bench/alias -- --only=linear/ --questions=0 --stages=remove,group,insert_random
//                                                                    edits every family; groups form once
//                                                                    mutations are removed
//   bazel run -c opt //bench/alias -- --print=chain --nodes=1000      prints the graph as text, for TorchScript
//   python3 bench/alias/torchscript.py bazel-bin/bench/alias/alias    runs the same graphs in TorchScript; prints
//   ratios
//
// Figures are minima over the runs. `ratio` is time(2N) / time(N) at the two largest sizes.

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/alias/live_passes.h"
#include "smelt/bench/alias/families.h"
#include "smelt/bench/alias/shapes.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// The processor time of the thread: other work on the machine does not count.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The pages that the thread has touched for the first time.
int64_t PageFaults() {
  rusage r;
  getrusage(RUSAGE_THREAD, &r);
  return r.ru_minflt;
}

struct Options {
  std::string only, print;
  int64_t max = 1000000, nodes = 1000;
  int runs = 3;
  int64_t tiles = 40;                   // random families
  int64_t seeds = 100, first_seed = 1;  // more of them
  int64_t edits = 10;                   // the families' edits: one in so many nodes; 0: none
  bool questions = true;                // about the families
  std::vector<std::string> stages;      // of the families' edits; none: all
};

bool Wanted(const Options& o, const std::string& name) { return o.only.empty() || absl::StrContains(name, o.only); }
bool WantedStage(const Options& o, const std::string& name) {
  return o.edits != 0 && (o.stages.empty() || std::find(o.stages.begin(), o.stages.end(), name) != o.stages.end());
}

// Returns the tensor values in program order.
std::vector<ValueId> Tensors(const Graph& g) {
  std::vector<ValueId> out;
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) {
      if (g.value(v).type.IsTensor()) out.push_back(v);
    }
  }
  return out;
}

// The sizes alternate, so that other work on the machine slows both.
void Build(const Options& o) {
  struct Size {
    std::unique_ptr<Graph> graph;
    double best = 1e9;
    AliasDb::Stats stats;
  };
  for (const Shape& shape : Shapes()) {
    const std::string name = absl::StrCat("build/", shape.name);
    if (!Wanted(o, name)) continue;
    Size sizes[2];
    for (int k : {0, 1}) sizes[k].graph = shape.make(o.max / (2 - k));
    for (int run = 0; run < o.runs; ++run) {
      for (Size& size : sizes) {
        const double start = Now();
        std::unique_ptr<AliasDb> db = AliasDb::Build(*size.graph);
        size.best = std::min(size.best, Now() - start);
        size.stats = db->GetStats();
      }
    }
    for (const Size& size : sizes) {
      const int64_t nodes = size.graph->num_nodes();
      std::printf(
          "{\"name\": \"%s\", \"nodes\": %lld, \"seconds\": %.6f, \"us_per_node\": %.4f, \"bytes_per_node\": %.0f",
          name.c_str(), static_cast<long long>(nodes), size.best, size.best / nodes * 1e6,
          static_cast<double>(size.stats.bytes) / nodes);
      if (size.stats.summarised != 0) {
        std::printf(", \"summarised\": %lld", static_cast<long long>(size.stats.summarised));
      }
      if (&size == &sizes[1]) std::printf(", \"ratio\": %.2f", size.best / sizes[0].best);
      std::printf("}\n");
    }
    std::fflush(stdout);
  }
}

// Asks has_writers for every tensor in program order, and may_alias with the tensor before. Then asks about random
// pairs.
void Ask(const Options& o) {
  for (const Shape& shape : Shapes()) {
    const std::string name = absl::StrCat("query/", shape.name);
    if (!Wanted(o, name)) continue;
    std::unique_ptr<Graph> g = shape.make(o.max);
    std::vector<ValueId> values = Tensors(*g);
    int64_t yes = 0;
    // Asks about each value once, with a database that has not answered anything yet.
    auto ask_all = [&](const AliasDb& db) {
      for (ValueId v : values) yes += db.HasWriters(v);
      for (size_t i = 1; i < values.size(); ++i) yes += db.MayAlias(values[i - 1], values[i]);
    };
    double build_and_first = 1e9;
    for (int run = 0; run < o.runs; ++run) {
      const double start = Now();
      ask_all(*AliasDb::Build(*g));
      build_and_first = std::min(build_and_first, Now() - start);
    }
    std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    auto time = [&](const std::function<int64_t()>& ask, int64_t count) {
      double best = 1e9;
      for (int run = 0; run < o.runs; ++run) {
        const double start = Now();
        yes += ask();
        best = std::min(best, Now() - start);
      }
      return best / count * 1e9;
    };
    const double first_start = Now();
    ask_all(*db);
    const double first = (Now() - first_start) / (2 * values.size()) * 1e9;
    const double writers = time(
        [&] {
          int64_t n = 0;
          for (ValueId v : values) n += db->HasWriters(v);
          return n;
        },
        values.size());
    const double alias = time(
        [&] {
          int64_t n = 0;
          for (size_t i = 1; i < values.size(); ++i) n += db->MayAlias(values[i - 1], values[i]);
          return n;
        },
        values.size());
    std::mt19937_64 rng(1);
    std::vector<std::pair<ValueId, ValueId>> pairs;
    for (int i = 0; i < 200000; ++i) pairs.push_back({values[rng() % values.size()], values[rng() % values.size()]});
    const double random_alias = time(
        [&] {
          int64_t n = 0;
          for (const auto& [a, b] : pairs) n += db->MayAlias(a, b);
          return n;
        },
        pairs.size());
    const double random_writers = time(
        [&] {
          int64_t n = 0;
          for (const auto& [a, b] : pairs) n += db->HasWriters(a);
          return n;
        },
        pairs.size());
    std::printf(
        "{\"name\": \"%s\", \"nodes\": %lld, \"build_and_first_seconds\": %.6f, \"first_ns\": %.1f, "
        "\"has_writers_ns\": %.1f, \"may_alias_ns\": %.1f, "
        "\"random_has_writers_ns\": %.1f, \"random_may_alias_ns\": %.1f, \"yes\": %lld}\n",
        name.c_str(), static_cast<long long>(g->num_nodes()), build_and_first, first, writers, alias, random_writers,
        random_alias, static_cast<long long>(yes));
    std::fflush(stdout);
  }
}

// Moves an independent node over `distance` others.
void Move(const Options& o) {
  if (!Wanted(o, "move")) return;
  for (int64_t distance : {int64_t{1000}, int64_t{10000}, int64_t{100000}}) {
    std::unique_ptr<Graph> g = FindShape("fresh_written")->make(distance + 4);
    std::vector<NodeId> nodes = g->Nodes(g->top());
    std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
    NodeId first = nodes[2], last = nodes.back();  // after the two constants; mul and the last add_
    double start = Now();
    bool ok = db->CanMoveAfter(nodes[3], last);
    const double prepare = Now() - start;
    double best = 1e9;
    for (int run = 0; run < 20; ++run) {
      start = Now();
      ok = ok && db->MoveAfter(first, last).ok();
      ok = ok && db->MoveBefore(first, nodes[4]).ok();
      best = std::min(best, Now() - start);
    }
    std::printf(
        "{\"name\": \"move\", \"distance\": %lld, \"first_us\": %.2f, \"there_and_back_us\": %.2f, \"ok\": %d}\n",
        static_cast<long long>(distance), prepare * 1e6, best * 1e6, ok ? 1 : 0);
  }
}

// N rows of mul, add, sigmoid, tanh, mm, written column by column: every producer is N nodes before its consumer.
std::unique_ptr<Graph> IndependentGroups(int64_t rows) {
  auto g = std::make_unique<Graph>();
  const Type t = Type::Tensor();
  ValueId x = g->AddInput("x", t), y = g->AddInput("y", t), w = g->AddInput("w", t);
  ValueId one = InsertConstant(*g, g->block(g->top()).return_node, int64_t{1});
  std::vector<ValueId> v(rows);
  auto column = [&](const char* op, const std::function<std::vector<ValueId>(ValueId)>& inputs) {
    for (ValueId& e : v) e = g->node(g->Append(g->top(), OpName::Get(op), inputs(e), {t})).outputs[0];
  };
  column("aten::mul.Tensor", [&](ValueId) { return std::vector<ValueId>{x, y}; });
  column("aten::add.Tensor", [&](ValueId e) { return std::vector<ValueId>{e, y, one}; });
  column("aten::sigmoid", [&](ValueId e) { return std::vector<ValueId>{e}; });
  column("aten::tanh", [&](ValueId e) { return std::vector<ValueId>{e}; });
  column("aten::mm", [&](ValueId e) { return std::vector<ValueId>{e, w}; });
  g->AddOutput(g->node(g->Append(g->top(), OpName::Get("prim::ListConstruct"), v, {Type::List(t)})).outputs[0]);
  return g;
}

struct EditWork {
  const char* name;
  std::function<std::unique_ptr<Graph>(int64_t)> make;
  bool remove;
};
const EditWork kEdits[] = {
    {"edit/fuse_independent", IndependentGroups, false},
    {"edit/remove_from_fresh", [](int64_t n) { return FindShape("fresh_summed")->make(3 * n); }, true},
    {"edit/remove_from_one", [](int64_t n) { return FindShape("one_written")->make(n); }, true},
};

// Passes that query one database while they edit: the database is built before, except in `yolo`.
void Edit(const Options& o) {
  for (const EditWork& work : kEdits) {
    if (!Wanted(o, work.name)) continue;
    std::vector<int64_t> sizes = {6400, 16000, 50000, 100000};
    while (!sizes.empty() && sizes.back() >= o.max) sizes.pop_back();
    if (o.max <= 100000 || sizes.empty()) sizes.push_back(o.max);
    for (int64_t size : sizes) {
      double best = 1e9;
      int64_t done = 0, rebuilds = 0;
      for (int run = 0; run < o.runs; ++run) {
        std::unique_ptr<Graph> g = work.make(size);
        std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
        Editor edit(*g);
        const double start = Now();
        done = work.remove ? RemoveMutations(*g, *db, edit) : GroupPointwise(*g, *db, edit);
        best = std::min(best, Now() - start);
        rebuilds = db->GetStats().rebuilds;
      }
      std::printf(
          "{\"name\": \"%s\", \"n\": %lld, \"seconds\": %.6f, \"us_each\": %.3f, \"done\": %lld, \"rebuilds\": %lld}\n",
          work.name, static_cast<long long>(size), best, best / size * 1e6, static_cast<long long>(done),
          static_cast<long long>(rebuilds));
      std::fflush(stdout);
    }
  }
  struct Scripted {
    const char* name;
    std::unique_ptr<Graph> (*make)(int64_t scale);
  };
  for (const auto& [name, make] :
       {Scripted{"detector", MakeScriptedDetector}, {"transformer", MakeScriptedTransformer}}) {
    if (!Wanted(o, name)) continue;
    double build = 1e9, all = 1e9;
    int64_t nodes = 0;
    for (int run = 0; run < o.runs; ++run) {
      std::unique_ptr<Graph> g = make(10);
      nodes = g->num_nodes();
      const double start = Now();
      std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
      build = std::min(build, Now() - start);
      AskAll(*g, *db);
      Editor edit(*g);
      RemoveMutations(*g, *db, edit);
      GroupPointwise(*g, *db, edit);
      all = std::min(all, Now() - start);
    }
    std::printf("{\"name\": \"%s\", \"nodes\": %lld, \"build_seconds\": %.6f, \"seconds\": %.6f}\n", name,
                static_cast<long long>(nodes), build, all);
  }
  if (Wanted(o, "yolo")) {
    double best = 1e9;
    int64_t nodes = 0, removed = 0, groups = 0;
    for (int run = 0; run < 5 * o.runs; ++run) {
      std::unique_ptr<Graph> g = MakeYolo();
      nodes = g->num_nodes();
      const double start = Now();
      std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
      Editor edit(*g);
      removed = RemoveMutations(*g, *db, edit);
      groups = GroupPointwise(*g, *db, edit);
      best = std::min(best, Now() - start);
    }
    std::printf("{\"name\": \"yolo\", \"nodes\": %lld, \"seconds\": %.6f, \"removed\": %lld, \"groups\": %lld}\n",
                static_cast<long long>(nodes), best, static_cast<long long>(removed), static_cast<long long>(groups));
  }
}

std::vector<Family> Families(const Options& o) {
  std::vector<Family> out = NamedFamilies();
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(o.tiles); ++seed) out.push_back(TiledFamily(seed));
  for (int64_t seed = o.first_seed; seed < o.first_seed + o.seeds; ++seed) {
    out.push_back(RandomFamily(static_cast<uint64_t>(seed)));
    out.push_back(TypedFamily(static_cast<uint64_t>(seed)));
  }
  return out;
}

// Families that combine everything: the cost of each stage per node and its growth, in time and in counted steps, and
// at the end the worst of each.
void Linear(const Options& o) {
  constexpr double kNever = 1e9;
  struct Stage {
    std::string name;
    double seconds[2] = {kNever, kNever};
    int64_t steps[2] = {0, 0};
    double worst_us = 0, worst_ratio = 0, worst_steps = 0;
    std::string worst_us_in, worst_ratio_in, worst_steps_in;
  };
  std::vector<Stage> worst;
  double worst_bytes = 0;
  std::string worst_bytes_in;
  for (const Family& family : Families(o)) {
    const std::string name = absl::StrCat("linear/", family.name);
    if (!Wanted(o, name)) continue;
    std::vector<Stage> stages = {{"build"}, {"ask"}, {"ask_random"}, {"remove"}, {"group"}};
    struct Editing {
      const char* name;
      std::function<void(Graph&, const AliasDb&, int64_t, Order)> edit;
    };
    const Editing edits[] = {
        {"insert",
         [](Graph& g, const AliasDb& db, int64_t most, Order order) {
           std::mt19937_64 rng(1);
           InsertAndErase(g, db, most, order, rng);
         }},
        {"escapes", RemoveEscapes},
        {"pure", MakeAllPure},
        {"rewire", Rewire},
    };
    for (const Editing& e : edits) {
      for (const char* order : {"front", "back", "random"}) stages.push_back({absl::StrCat(e.name, "_", order)});
    }
    if (worst.empty()) worst = stages;
    int64_t nodes[2] = {0, 0}, sizes[2] = {0, 0};
    double bytes[2] = {0, 0}, first_us = 0;
    int64_t first_faults = 0, last_faults = 0;
    for (int k : {0, 1}) {
      std::unique_ptr<Graph> g = family.make(o.max / (2 - k));
      nodes[k] = g->num_nodes();
      sizes[k] = NodesAndEdges(*g);
      const auto time = [&](size_t stage, const AliasDb* db, const auto& f) {
        const int64_t before = db != nullptr ? db->GetStats().steps : 0;
        const double start = Now();
        const AliasDb* used = f();
        stages[stage].seconds[k] = std::min(stages[stage].seconds[k], Now() - start);
        stages[stage].steps[k] = used->GetStats().steps - before;
      };
      std::unique_ptr<AliasDb> db;
      std::mt19937_64 rng(1);
      const auto build = [&] {
        db = AliasDb::Build(*g);
        return db.get();
      };
      // The first build of the larger size is the first to use so much memory: half of its time may go into page faults.
      for (int run = 0; run < o.runs; ++run) {
        db.reset();
        const int64_t before = PageFaults();
        time(0, nullptr, build);
        if (run == 0) {
          first_us = stages[0].seconds[k] / sizes[k] * 1e6;
          first_faults = PageFaults() - before;
        }
        last_faults = PageFaults() - before;
      }
      bytes[k] = static_cast<double>(db->GetStats().bytes) / nodes[k];
      const auto ask = [&] {
        AskAll(*g, *db);
        return db.get();
      };
      if (o.questions) time(1, db.get(), ask);
      const auto ask_random = [&] {
        AskAtRandom(*g, *db, rng);
        return db.get();
      };
      if (o.questions) time(2, db.get(), ask_random);
      // Both edit the same graph.
      const bool fresh[] = {WantedStage(o, stages[3].name), WantedStage(o, stages[4].name)};
      for (int run = 0; run < o.runs && (fresh[0] || fresh[1]); ++run) {
        if (run != 0) {
          db.reset();
          g = family.make(o.max / (2 - k));
          db = AliasDb::Build(*g);
        }
        Editor edit(*g);
        const auto remove = [&] {
          RemoveMutations(*g, *db, edit);
          return db.get();
        };
        if (fresh[0]) time(3, db.get(), remove);
        const auto group = [&] {
          GroupPointwise(*g, *db, edit);
          return db.get();
        };
        if (fresh[1]) time(4, db.get(), group);
      }
      size_t stage = 5;
      for (const Editing& e : edits) {
        for (Order order : {Order::kFront, Order::kBack, Order::kRandom}) {
          const auto edit = [&] {
            e.edit(*g, *db, nodes[k] / o.edits, order);
            return db.get();
          };
          const size_t at = stage++;
          for (int run = 0; run < o.runs && WantedStage(o, stages[at].name); ++run) {
            db.reset();
            g = family.make(o.max / (2 - k));
            db = AliasDb::Build(*g);
            time(at, db.get(), edit);
          }
        }
      }
    }
    std::printf("{\"name\": \"%s\", \"nodes\": %lld, \"nodes_and_edges\": %lld, \"bytes_per_node\": %.0f", name.c_str(),
                static_cast<long long>(nodes[1]), static_cast<long long>(sizes[1]), bytes[1]);
    std::printf(", \"first_us\": %.3f, \"first_page_faults\": %lld, \"last_page_faults\": %lld", first_us,
                static_cast<long long>(first_faults), static_cast<long long>(last_faults));
    if (bytes[1] > worst_bytes) {
      worst_bytes = bytes[1];
      worst_bytes_in = name;
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      const Stage& s = stages[i];
      if (s.seconds[1] >= kNever) continue;
      const double size = static_cast<double>(sizes[1]) / std::max<int64_t>(1, sizes[0]) / 2;
      const double us = s.seconds[1] / sizes[1] * 1e6, ratio = s.seconds[1] / std::max(s.seconds[0], 1e-7) / size;
      const double steps = static_cast<double>(s.steps[1]) / std::max<int64_t>(1, s.steps[0]) / size;
      std::printf(", \"%s\": {\"us\": %.3f, \"ratio\": %.2f, \"steps\": %.1f, \"steps_ratio\": %.2f}", s.name.c_str(),
                  us, ratio, static_cast<double>(s.steps[1]) / sizes[1], steps);
      const auto note = [&](double x, double* most, std::string* in) {
        if (x > *most) {
          *most = x;
          *in = name;
        }
      };
      note(us, &worst[i].worst_us, &worst[i].worst_us_in);
      note(ratio, &worst[i].worst_ratio, &worst[i].worst_ratio_in);
      note(steps, &worst[i].worst_steps, &worst[i].worst_steps_in);
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
  if (worst.empty()) return;
  std::printf("{\"name\": \"linear/worst\", \"bytes_per_node\": [%.0f, \"%s\"]", worst_bytes, worst_bytes_in.c_str());
  for (const Stage& s : worst) {
    if (s.worst_us_in.empty()) continue;
    std::printf(", \"%s\": {\"us\": [%.3f, \"%s\"], \"ratio\": [%.2f, \"%s\"], \"steps_ratio\": [%.2f, \"%s\"]}",
                s.name.c_str(), s.worst_us, s.worst_us_in.c_str(), s.worst_ratio, s.worst_ratio_in.c_str(),
                s.worst_steps, s.worst_steps_in.c_str());
  }
  std::printf("}\n");
}

int Main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--only=")) {
      o.only = std::string(a);
    } else if (absl::ConsumePrefix(&a, "--print=")) {
      o.print = std::string(a);
    } else if (absl::ConsumePrefix(&a, "--max=") && absl::SimpleAtoi(a, &o.max)) {
    } else if (absl::ConsumePrefix(&a, "--nodes=") && absl::SimpleAtoi(a, &o.nodes)) {
    } else if (absl::ConsumePrefix(&a, "--runs=") && absl::SimpleAtoi(a, &o.runs)) {
    } else if (absl::ConsumePrefix(&a, "--tiles=") && absl::SimpleAtoi(a, &o.tiles)) {
    } else if (absl::ConsumePrefix(&a, "--seeds=") && absl::SimpleAtoi(a, &o.seeds)) {
    } else if (absl::ConsumePrefix(&a, "--first_seed=") && absl::SimpleAtoi(a, &o.first_seed)) {
    } else if (absl::ConsumePrefix(&a, "--edits=") && absl::SimpleAtoi(a, &o.edits)) {
    } else if (absl::ConsumePrefix(&a, "--stages=")) {
      o.stages = absl::StrSplit(a, ',');
    } else if (a == "--questions=0") {
      o.questions = false;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (!o.print.empty()) {
    std::unique_ptr<Graph> g;
    if (const Shape* shape = FindShape(o.print); shape != nullptr) g = shape->make(o.nodes);
    if (o.print == "yolo") g = MakeYolo();
    if (o.print == "detector") g = MakeScriptedDetector(o.nodes);
    if (o.print == "transformer") g = MakeScriptedTransformer(o.nodes);
    for (const EditWork& work : kEdits) {
      if (work.name == "edit/" + o.print) g = work.make(o.nodes);
    }
    for (const Family& family : Families(o)) {
      if (family.name == o.print) g = family.make(o.nodes);
    }
    if (g == nullptr) {
      std::fprintf(stderr, "there is no shape %s\n", o.print.c_str());
      return 2;
    }
    std::fputs(PrintGraph(*g).c_str(), stdout);
    return 0;
  }
  Build(o);
  Ask(o);
  Move(o);
  Edit(o);
  Linear(o);
  return 0;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  // All runs but the first use memory that the process already has. Otherwise large blocks would be mapped anew each
  // time and small ones would not, and the comparison of two sizes would measure page faults.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  return smelt::Main(argc, argv);
}
