// Prints the code of a kernel, whose spec (as `smelt inspect` shows it) comes on standard input; or, with --repeat, how
// long its compilation takes in a process that has compiled before: the least processor time, in milliseconds, and the
// object's bytes.
//
//   bazel run //bench:print_kernel -- [--target=native] [--ir | --repeat=N] < spec.txt
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <iterator>
#include <string>

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

int Measure(const smelt::KernelSpec& spec, smelt::Target target, int repeat) {
  double best = 1e9;
  size_t bytes = 0;
  for (int n = 0; n <= repeat; ++n) {
    const double start = ProcessorSeconds();
    auto object = smelt::CompileKernel(spec, target);
    if (!object.ok()) {
      std::fprintf(stderr, "%s\n", object.status().ToString().c_str());
      return 70;
    }
    best = std::min(best, ProcessorSeconds() - start);
    bytes = object->bytes.size();
  }
  std::printf("%.3f %zu\n", best * 1e3, bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  absl::string_view target_name = "native";
  bool ir = false;
  int repeat = 0;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--target=")) target_name = a;
    if (absl::ConsumePrefix(&a, "--repeat=") && !absl::SimpleAtoi(a, &repeat)) return 64;
    if (a == "--ir") ir = true;
  }
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  auto spec = smelt::ParseKernelSpec(text);
  auto target = smelt::ParseTarget(target_name);
  if (!spec.ok() || !target.ok()) {
    std::fprintf(stderr, "%s\n", (spec.ok() ? target.status() : spec.status()).ToString().c_str());
    return 64;
  }
  if (repeat > 0) return Measure(*spec, *target, repeat);
  auto code = smelt::PrintKernel(*spec, *target, ir ? smelt::KernelText::kLlvmIr : smelt::KernelText::kAssembly);
  if (!code.ok()) {
    std::fprintf(stderr, "%s\n", code.status().ToString().c_str());
    return 70;
  }
  std::fputs(code->c_str(), stdout);
  return 0;
}
