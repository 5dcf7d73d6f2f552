// Prints the code of a kernel, whose spec (as `smelt inspect` shows it) is read from standard input. With --repeat,
// prints instead the time of its compilation in a process that has compiled before (the minimum processor time, in
// milliseconds) and the size of the object. For several specs in files it prints one line each, and the mean and median
// of all.
//
//   bazel run //bench:print_kernel -- [--target=native] [--ir | --repeat=N] < spec.txt
//   bazel run //bench:print_kernel -- [--target=native] --repeat=N FILE...
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/target.h"
#include "smelt/fuser/kernel_spec.h"

namespace {

double ProcessorSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Figures {
  double ms = 1e12;
  size_t bytes = 0;
};

absl::StatusOr<Figures> MeasureSpec(const smelt::KernelSpec& spec, smelt::Target target, int repeat) {
  Figures best;
  for (int n = 0; n <= repeat; ++n) {
    const double start = ProcessorSeconds();
    auto object = smelt::CompileKernel(spec, target);
    if (!object.ok()) return object.status();
    best.ms = std::min(best.ms, (ProcessorSeconds() - start) * 1e3);
    best.bytes = object->bytes.size();
  }
  return best;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 70;
}

int MeasureFiles(const std::vector<std::string>& files, smelt::Target target, int repeat) {
  std::vector<double> all;
  for (const std::string& file : files) {
    std::ifstream in(file);
    auto spec = smelt::ParseKernelSpec(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!spec.ok()) return Fail(spec.status());
    auto figures = MeasureSpec(*spec, target, repeat);
    if (!figures.ok()) return Fail(figures.status());
    std::printf("%.3f %zu %s\n", figures->ms, figures->bytes, file.c_str());
    all.push_back(figures->ms);
  }
  std::sort(all.begin(), all.end());
  const double sum = std::accumulate(all.begin(), all.end(), 0.0);
  std::printf("mean %.3f median %.3f of %zu\n", sum / static_cast<double>(all.size()), all[all.size() / 2], all.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  absl::string_view target_name = "native";
  bool ir = false;
  int repeat = 0;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (!absl::StartsWith(a, "-")) {
      files.emplace_back(a);
    } else if (absl::ConsumePrefix(&a, "--target=")) {
      target_name = a;
    } else if (absl::ConsumePrefix(&a, "--repeat=")) {
      if (!absl::SimpleAtoi(a, &repeat)) return 64;
    } else if (a == "--ir") {
      ir = true;
    }
  }
  auto target = smelt::ParseTarget(target_name);
  if (!target.ok()) return Fail(target.status());
  if (!files.empty()) return MeasureFiles(files, *target, std::max(repeat, 1));
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  auto spec = smelt::ParseKernelSpec(text);
  if (!spec.ok()) {
    std::fprintf(stderr, "%s\n", spec.status().ToString().c_str());
    return 64;
  }
  if (repeat > 0) {
    auto figures = MeasureSpec(*spec, *target, repeat);
    if (!figures.ok()) return Fail(figures.status());
    std::printf("%.3f %zu\n", figures->ms, figures->bytes);
    return 0;
  }
  auto code = smelt::PrintKernel(*spec, *target, ir ? smelt::KernelText::kLlvmIr : smelt::KernelText::kAssembly);
  if (!code.ok()) {
    std::fprintf(stderr, "%s\n", code.status().ToString().c_str());
    return 70;
  }
  std::fputs(code->c_str(), stdout);
  return 0;
}
