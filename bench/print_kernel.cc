// Prints the code of a kernel, whose spec (as `smelt inspect` shows it) comes on standard input.
//
//   bazel run //bench:print_kernel -- [--target=native] [--ir] < spec.txt
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/strings/strip.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/target.h"
#include "smelt/fuser/kernel_spec.h"

int main(int argc, char** argv) {
  absl::string_view target_name = "native";
  bool ir = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--target=")) target_name = a;
    if (a == "--ir") ir = true;
  }
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  auto spec = smelt::ParseKernelSpec(text);
  auto target = smelt::ParseTarget(target_name);
  if (!spec.ok() || !target.ok()) {
    std::fprintf(stderr, "%s\n", (spec.ok() ? target.status() : spec.status()).ToString().c_str());
    return 64;
  }
  auto code = smelt::PrintKernel(*spec, *target, ir ? smelt::KernelText::kLlvmIr : smelt::KernelText::kAssembly);
  if (!code.ok()) {
    std::fprintf(stderr, "%s\n", code.status().ToString().c_str());
    return 70;
  }
  std::fputs(code->c_str(), stdout);
  return 0;
}
