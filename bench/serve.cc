// Serves a bundle at many shapes, as a process that has one model does: prints how long the first and the later calls
// of each shape take, and the memory of the process behind each.
//
//   serve MODEL.smb [--threads=N] [--calls=N] [--method=NAME] SIZES...
//
// SIZES has the sizes of the tensors that the model takes, in order: "2x16" or "2x16,2x1x16". Tensors hold small numbers
// that repeat from call to call.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/program.h"

namespace smelt::bench {
namespace {

double ProcessorMs() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + 1e-6 * static_cast<double>(t.tv_nsec);
}

// Returns a line of /proc/self/status in MB: "VmRSS", "VmHWM", "RssAnon".
double StatusMb(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, absl::StrCat(key, ":"))) return std::atof(line.c_str() + key.size() + 1) * 1024 / 1e6;
  }
  return 0;
}

absl::StatusOr<Tensor> Filled(DType dtype, const std::string& text) {
  std::vector<int64_t> sizes;
  for (absl::string_view size : absl::StrSplit(text, 'x')) {
    sizes.emplace_back();
    if (!absl::SimpleAtoi(size, &sizes.back()) || sizes.back() < 0)
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not sizes such as 2x16"));
  }
  Tensor t = Tensor::Empty(dtype, sizes);
  char* data = t.storage()->address();
  for (int64_t i = 0; i < t.geometry().NumElements(); ++i, data += ItemSize(dtype)) {
    const int64_t number = i * 7919 % 199;
    if (IsFloating(dtype)) {
      StoreDouble(data, dtype, static_cast<double>(number) / 100 - 1);
    } else {
      StoreInt(data, dtype, dtype == DType::kBool ? 1 : number);
    }
  }
  return t;
}

struct Options {
  std::string bundle, method;
  int threads = 1, calls = 3;
  std::vector<std::string> shapes;
};

absl::Status Serve(const Options& o) {
  ProgramOptions options;
  options.threads = o.threads;
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(o.bundle, options));
  SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> whole, Instance::Create(program));
  Instance* instance = whole.get();
  if (!o.method.empty()) {
    SMELT_ASSIGN_OR_RETURN(program, program->Method(o.method));
    SMELT_ASSIGN_OR_RETURN(instance, whole->Method(o.method));
  }
  std::printf("loaded: %.0f MB resident, %.0f MB packed\n", StatusMb("VmRSS"),
              static_cast<double>(program->packed_weight_bytes()) / 1e6);
  for (const std::string& shape : o.shapes) {
    const std::vector<std::string> texts = absl::StrSplit(shape, ',');
    std::vector<Datum> args;
    size_t next = 0;
    for (const ArgInfo& a : program->args()) {
      if (a.kind != ValueKind::kTensor) {
        args.push_back(a.constant);
        continue;
      }
      if (next == texts.size()) return absl::InvalidArgumentError(absl::StrCat(shape, ": there are more tensors"));
      SMELT_ASSIGN_OR_RETURN(Tensor t, Filled(a.dtype, texts[next++]));
      args.push_back(Datum(std::move(t)));
    }
    std::vector<Datum> outputs;
    double first = 0, later = 1e30;
    for (int call = 0; call < std::max(o.calls, 2); ++call) {
      const double start = ProcessorMs();
      SMELT_RETURN_IF_ERROR(instance->RunInto(args, &outputs));
      const double took = ProcessorMs() - start;
      call == 0 ? first = took : later = std::min(later, took);
    }
    std::printf("%s: first %.2f ms, later %.2f ms (%.2f); arena %.0f MB, packed %.0f MB, resident %.0f MB\n",
                shape.c_str(), first, later, first / later,
                static_cast<double>(instance->last_call().arena_bytes) / 1e6,
                static_cast<double>(program->packed_weight_bytes()) / 1e6, StatusMb("VmRSS"));
  }
  std::printf("at most %.0f MB resident, of which %.0f MB are not of files now\n", StatusMb("VmHWM"),
              StatusMb("RssAnon"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  smelt::bench::Options o;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--threads=")) {
      good = good && absl::SimpleAtoi(a, &o.threads);
    } else if (absl::ConsumePrefix(&a, "--calls=")) {
      good = good && absl::SimpleAtoi(a, &o.calls);
    } else if (absl::ConsumePrefix(&a, "--method=")) {
      o.method = std::string(a);
    } else if (o.bundle.empty()) {
      o.bundle = std::string(a);
    } else {
      o.shapes.emplace_back(a);
    }
  }
  if (!good || o.shapes.empty()) {
    std::fprintf(stderr, "serve MODEL.smb [--threads=N] [--calls=N] [--method=NAME] SIZES...\n");
    return 2;
  }
  const absl::Status s = smelt::bench::Serve(o);
  if (s.ok()) return 0;
  std::fprintf(stderr, "serve: %s\n", std::string(s.message()).c_str());
  return 1;
}
