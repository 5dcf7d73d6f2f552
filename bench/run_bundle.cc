// Measures a call of a bundle on one thread with output memory reused: the minimum processor time of many calls, in
// milliseconds, and the call's kernel launches and library calls.
//
//   run_bundle MODEL.smb INPUTS.safetensors
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"

namespace smelt::bench {
namespace {

double ProcessorSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

absl::Status Run(const char* bundle, const char* inputs) {
  ProgramOptions options;
  options.threads = 1;
  SMELT_ASSIGN_OR_RETURN(auto program, Program::Load(bundle, options));
  SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(inputs));
  SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program));
  std::vector<Datum> args;
  for (const ArgInfo& a : program->args()) {
    if (a.kind != ValueKind::kTensor) {
      args.push_back(a.constant);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(Tensor t, file->ReadTensor(a.name));
    args.push_back(Datum(t));
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, instance->Run(args));
  double best = 1e9, sum = 0;
  for (int n = 0; n < 3 || (sum < 0.2 && n < 100); ++n) {
    const double start = ProcessorSeconds();
    SMELT_RETURN_IF_ERROR(instance->RunInto(args, &outputs));
    const double seconds = ProcessorSeconds() - start;
    best = std::min(best, seconds);
    sum += seconds;
  }
  std::printf("%.4f %d %d\n", best * 1e3, static_cast<int>(instance->last_call().kernel_launches),
              static_cast<int>(instance->last_call().library_calls));
  return absl::OkStatus();
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "run_bundle MODEL.smb INPUTS.safetensors\n");
    return 2;
  }
  const absl::Status s = smelt::bench::Run(argv[1], argv[2]);
  if (s.ok()) return 0;
  std::fprintf(stderr, "run_bundle: %s\n", std::string(s.message()).c_str());
  return 1;
}
