// Times the workloads of bench/README.md, and three that write, with arguments in other layouts than the exported one, in
// turns with the exported layout. Prints for each layout the plan that took the call, by kind and number, the time, and its
// ratio to the time of the exported layout. `bytes` is the ratio of the memory that such a call must move at least, in whole
// cache lines: no kernel that is bound by memory can have a smaller ratio. `eager` is PyTorch's ratio for the same layouts,
// if --eager says how to call bench/peers.py. In the first plan arguments in other layouts are copied.
//
//   bazel run -c opt //bench:layouts -- [--only=softmax,mlp] [--layouts=transposed] [--cpu-time] [--budget=SECONDS]
//                                       [--eager="python3 bench/peers.py"]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "smelt/bench/roofline.h"
#include "smelt/bench/workloads.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"

namespace smelt::bench {
namespace {

struct Options {
  std::vector<std::string> only, layouts;
  double budget = 0.5;
  std::string eager;  // the command that runs bench/peers.py
  bool cpu_time = false;
};

// How an argument lies in memory.
enum class Layout { kExported, kOffset, kGaps, kTransposed, kChannelsLast, kExpanded, kStepped };

const char* Name(Layout layout) {
  constexpr const char* kNames[] = {"exported", "offset", "gaps", "transposed", "channels_last", "expanded", "stepped"};
  return kNames[static_cast<int>(layout)];
}

// Returns the order of dims in memory, from the outermost to the innermost.
std::vector<int> OrderOf(Layout layout, int rank) {
  std::vector<int> order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  if (layout == Layout::kTransposed) std::swap(order[rank - 2], order[rank - 1]);
  if (layout == Layout::kChannelsLast) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

bool Applies(Layout layout, const ArgInfo& a) {
  int64_t elements = 1;
  for (int64_t s : a.sizes) elements *= s;
  const int rank = static_cast<int>(a.sizes.size());
  constexpr int64_t kFew = 1 << 12;  // biases and the like stay as they are
  if (elements < kFew) return false;
  switch (layout) {
    case Layout::kExported:
    case Layout::kOffset:
    case Layout::kStepped:
      return true;
    case Layout::kChannelsLast:
      return rank == 4;
    default:
      return rank >= 2;
  }
}

Geometry GeometryOf(const ArgInfo& a, Layout layout) {
  const int rank = static_cast<int>(a.sizes.size());
  Geometry g = Geometry::Contiguous(a.sizes);
  if (Applies(layout, a)) {
    if (layout == Layout::kOffset) g.offset = 1;
    const std::vector<int> order = OrderOf(layout, rank);
    int64_t stride = layout == Layout::kStepped ? 2 : 1;
    for (int k = rank; k-- > 0;) {
      g.strides[order[k]] = stride;
      stride *= a.sizes[order[k]];
      if (k == rank - 1 && layout == Layout::kGaps) stride += 64;
    }
    if (layout == Layout::kExpanded) g.strides[0] = 0;
  }
  return g;
}

// Returns the bytes of the cache lines that hold the elements, if these are all read once.
double BytesOf(const ArgInfo& a, Layout layout) {
  const Geometry g = GeometryOf(a, layout);
  double bytes = ItemSize(a.dtype);
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.strides[d] != 0) bytes *= static_cast<double>(g.sizes[d]);
  }
  return layout == Layout::kStepped && Applies(layout, a) ? 2 * bytes : bytes;
}

Tensor Make(const ArgInfo& a, Layout layout) {
  Geometry g = GeometryOf(a, layout);
  const int64_t elements = g.Span().second;
  auto storage = Storage::Allocate(elements * ItemSize(a.dtype));
  uint32_t seed = 7;
  for (int64_t i = 0; i < elements; ++i) {
    seed = seed * 1664525 + 1013904223;
    const float v = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-30f;
    if (a.dtype == DType::kFloat32) reinterpret_cast<float*>(storage->data())[i] = v;
    if (a.dtype == DType::kBFloat16) {
      uint32_t bits;
      std::memcpy(&bits, &v, 4);
      reinterpret_cast<uint16_t*>(storage->data())[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
  return Tensor(storage, a.dtype, std::move(g));
}

// A call: the layouts of the arguments.
struct Call {
  std::string name;
  std::vector<Layout> layouts;
};

// Each layout for all arguments that can have it, and for each of two or three such arguments alone.
std::vector<Call> Calls(const std::vector<ArgInfo>& args) {
  std::vector<Call> calls = {{"exported", std::vector<Layout>(args.size(), Layout::kExported)}};
  for (Layout layout : {Layout::kOffset, Layout::kGaps, Layout::kTransposed, Layout::kChannelsLast, Layout::kExpanded,
                        Layout::kStepped}) {
    std::vector<size_t> can;
    for (size_t k = 0; k < args.size(); ++k) {
      if (Applies(layout, args[k])) can.push_back(k);
    }
    if (can.empty()) continue;
    Call all{Name(layout), calls[0].layouts};
    for (size_t k : can) all.layouts[k] = layout;
    calls.push_back(std::move(all));
    for (size_t one = 0; one < can.size() && can.size() > 1 && can.size() <= 3; ++one) {
      Call alone{absl::StrCat(Name(layout), " ", args[can[one]].name), calls[0].layouts};
      alone.layouts[can[one]] = layout;
      calls.push_back(std::move(alone));
    }
  }
  return calls;
}

// Returns the kind and the number of the plan that takes these arguments.
absl::StatusOr<std::string> PlanOf(const std::shared_ptr<const Program>& program, absl::Span<const Datum> args) {
  InstanceOptions options;
  options.time_steps = true;
  SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program, options));
  SMELT_RETURN_IF_ERROR(instance->Run(args).status());
  int plan = -1;
  for (const StepTime& step : instance->step_times()) {
    if (step.runs > 0) plan = step.plan;
  }
  const char* kind = Name(instance->last_call().variant);
  return plan < 0 ? std::string(kind) : absl::StrCat(kind, " ", plan);
}

// Returns the times in eager PyTorch relative to the exported layout's, by call; empty if PyTorch has no such workload.
absl::StatusOr<std::vector<double>> EagerRatios(const Workload& w, const std::vector<Call>& calls,
                                                const Options& options) {
  std::vector<double> ratios;
  if (options.eager.empty()) return ratios;
  const auto in_text = [](const Call& call) {
    return absl::StrJoin(call.layouts, ",", [](std::string* out, Layout layout) { out->append(Name(layout)); });
  };
  const auto add = [&](std::string* out, const Call& call) { out->append(in_text(call)); };
  const std::string command =
      absl::StrCat(options.eager, " --cpu=-1 ", options.cpu_time ? "--cpu-time " : "", "--budget=", options.budget,
                   " --only=", w.name, " --layouts='", absl::StrJoin(calls, ";", add), "'");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::UnavailableError(absl::StrCat("cannot run ", command));
  char line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool is_ratio = parsed.is_object() && parsed.contains("ratio") && parsed["ratio"].is_number();
    ratios.push_back(is_ratio ? parsed["ratio"].get<double>() : 0);
  }
  if (pclose(pipe) != 0) return absl::UnknownError(absl::StrCat("failed: ", command));
  if (!ratios.empty() && ratios.size() != calls.size()) return absl::UnknownError(absl::StrCat("no ratios: ", command));
  return ratios;
}

absl::Status Measure(const Workload& w, const Options& options) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, BuildGraph(w));
  CompileOptions compile;
  SMELT_ASSIGN_OR_RETURN(Target native, ParseTarget("native"));
  compile.targets = {native};
  const std::string path = absl::StrCat("/tmp/smelt_bench_", w.name, ".smb");
  SMELT_RETURN_IF_ERROR(CompileToFile(*graph, path, compile).status());
  ProgramOptions program_options;
  program_options.threads = 1;
  SMELT_ASSIGN_OR_RETURN(auto program, Program::Load(path, program_options));
  std::remove(path.c_str());
  std::vector<Call> calls = Calls(program->args());
  std::erase_if(calls, [&](const Call& call) {
    const std::string layout = call.name.substr(0, call.name.find(' '));
    return !options.layouts.empty() && absl::c_find(options.layouts, layout) == options.layouts.end();
  });
  SMELT_ASSIGN_OR_RETURN(const std::vector<double> eager, EagerRatios(w, calls, options));
  const auto make = [&](const std::vector<Layout>& layouts) {
    std::vector<Datum> args;
    for (size_t k = 0; k < layouts.size(); ++k) args.push_back(Datum(Make(program->args()[k], layouts[k])));
    return args;
  };
  const auto bytes = [&](const std::vector<Layout>& layouts) {
    double sum = w.written_bytes;
    for (size_t k = 0; k < layouts.size(); ++k) sum += BytesOf(program->args()[k], layouts[k]);
    return sum;
  };
  const std::vector<Layout> as_exported(program->args().size(), Layout::kExported);
  SMELT_ASSIGN_OR_RETURN(auto beside, Instance::Create(program));
  const std::vector<Datum> beside_args = make(as_exported);
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> beside_outputs, beside->Run(beside_args));
  for (size_t k = 0; k < calls.size(); ++k) {
    const Call& call = calls[k];
    SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program));
    const std::vector<Datum> args = make(call.layouts);
    absl::StatusOr<std::vector<Datum>> outputs = instance->Run(args);
    if (!outputs.ok()) {
      std::printf("%-20s %-22s %s\n", w.name.c_str(), call.name.c_str(), outputs.status().ToString().c_str());
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(const std::string plan, PlanOf(program, args));
    absl::Status status;
    const auto run = [&](Instance& on, const std::vector<Datum>& with, std::vector<Datum>& into) {
      absl::Status s = on.RunInto(with, &into);
      if (!s.ok()) status = s;
    };
    const auto [exported, other] = MinSecondsInTurns([&] { run(*beside, beside_args, beside_outputs); },
                                                     [&] { run(*instance, args, *outputs); }, options.budget);
    SMELT_RETURN_IF_ERROR(status);
    const bool has_eager = !eager.empty() && eager[k] > 0;
    std::printf("%-20s %-22s %-14s %10.4f %8.2f %8.2f %8s\n", w.name.c_str(), call.name.c_str(), plan.c_str(),
                other * 1e3, other / exported, bytes(call.layouts) / bytes(as_exported),
                has_eager ? absl::StrFormat("%.2f", eager[k]).c_str() : "-");
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

int Run(const Options& options) {
  std::printf("%-20s %-22s %-14s %10s %8s %8s %8s\n", "workload", "layout", "plan", "ms", "ratio", "bytes", "eager");
  std::vector<Workload> workloads = AllWorkloads();
  for (Workload& w : WritingWorkloads()) workloads.push_back(std::move(w));
  int failed = 0;
  for (const Workload& w : workloads) {
    if (!options.only.empty() && std::find(options.only.begin(), options.only.end(), w.name) == options.only.end())
      continue;
    if (absl::Status s = Measure(w, options); !s.ok()) {
      std::fprintf(stderr, "%s: %s\n", w.name.c_str(), s.ToString().c_str());
      ++failed;
    }
  }
  return failed != 0;
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  smelt::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--only=")) {
      options.only = absl::StrSplit(a, ',');
    } else if (absl::ConsumePrefix(&a, "--layouts=")) {
      options.layouts = absl::StrSplit(a, ',');
    } else if (absl::ConsumePrefix(&a, "--eager=")) {
      options.eager = std::string(a);
    } else if (a == "--cpu-time") {
      smelt::bench::UseCpuTime();
      options.cpu_time = true;
    } else if (absl::ConsumePrefix(&a, "--budget=") && absl::SimpleAtod(a, &options.budget)) {
    } else {
      std::fprintf(stderr, "layouts [--only=A,B] [--layouts=A,B] [--cpu-time] [--budget=SECONDS] [--eager=COMMAND]\n");
      return 64;
    }
  }
  return smelt::bench::Run(options);
}
