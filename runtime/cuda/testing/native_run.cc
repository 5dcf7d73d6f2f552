#include <cstdio>
#include <string>

#include "smelt/core/base/file.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/program.h"

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const absl::StatusOr<std::string> bytes = smelt::ReadFile(argv[i]);
    if (!bytes.ok()) {
      std::printf("%s: %s\n", argv[i], bytes.status().ToString().c_str());
      ++failed;
      continue;
    }
    const int64_t before = smelt::GetFakeDriver().counts().bytes;
    {
      auto program = smelt::LoadWithNativeKernels(*bytes, i % 4 == 1);
      if (!program.ok()) {
        std::printf("%s: %s\n", argv[i], program.status().ToString().c_str());
        ++failed;
        continue;
      }
      auto report = smelt::RunCase(*program, argv[i + 1], {.repeat = 2});
      if (!report.ok()) {
        std::printf("%s: %s\n", argv[i], report.status().ToString().c_str());
        ++failed;
        continue;
      }
      for (const smelt::CaseFailure& f : report->failures)
        std::printf("%s: call %d: %s: %s\n", argv[i], f.call, f.where.c_str(), f.what.c_str());
      failed += report->ok ? 0 : 1;
      std::printf("%s %s: %lld launches, %lld library calls, %lld host steps, %lld waits\n",
                  report->ok ? "ok" : "WRONG", argv[i], static_cast<long long>(report->kernel_launches),
                  static_cast<long long>(report->library_calls), static_cast<long long>(report->host_steps),
                  static_cast<long long>(report->device_waits));
    }
    const int64_t left = smelt::GetFakeDriver().counts().bytes - before;
    if (left != 0) {
      std::printf("%s: %lld bytes of the device are left\n", argv[i], static_cast<long long>(left));
      ++failed;
    }
  }
  std::printf("%d failed\n", failed);
  return failed != 0;
}
