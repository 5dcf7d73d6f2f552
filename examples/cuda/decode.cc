// A decoder with a cache of keys and values whose whole state stays on a GPU: the result of a step is the argument of
// the next one, and the host waits once, after the last. testdata/kv_cache.pt2 is the model.
//
//   bazel-bin/tools/smelt compile testdata/kv_cache.pt2 --target=x86-64-v3,sm_80 -o kv_cache.smb
//   bazel-bin/examples/cuda/decode kv_cache.smb cuda:0
//
// Without the second argument the same steps run on the CPU. It fails if the steps that were given at once come to
// another result than steps that were each waited for.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/program.h"

namespace smelt {
namespace {

constexpr int64_t kWidth = 64, kSteps = 32;  // of the model; the places of its cache

// Returns the result of all steps, from the model's initial state on.
absl::StatusOr<Tensor> Decode(Instance& instance, const Tensor& first, const Tensor& positions, bool wait_for_each) {
  SMELT_RETURN_IF_ERROR(instance.ResetStates());
  Tensor x = first;
  StartedCall call;
  for (int64_t step = 0; step < kSteps; ++step) {
    // The position is an element of a tensor that is on the device already.
    SMELT_ASSIGN_OR_RETURN(call, instance.Start({x, positions.View({{1}, {1}, step})}));
    if (wait_for_each) SMELT_RETURN_IF_ERROR(call.Wait());
    x = call.outputs()[0].tensor();
  }
  // Steps run in the order in which they were started.
  SMELT_RETURN_IF_ERROR(call.Wait());
  return x.CopyTo(Device::Cpu());
}

absl::StatusOr<bool> Run(const char* bundle, const char* device) {
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(bundle, {.device = device}));
  SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance, Instance::Create(program));
  Tensor x = Tensor::Empty(DType::kFloat32, {1, 1, kWidth}), positions = Tensor::Empty(DType::kInt64, {kSteps});
  for (int64_t i = 0; i < kWidth; ++i) x.data_as<float>()[i] = std::sin(static_cast<float>(i));
  for (int64_t i = 0; i < kSteps; ++i) positions.data_as<int64_t>()[i] = i;
  SMELT_ASSIGN_OR_RETURN(x, x.CopyTo(program->on_device()));
  SMELT_ASSIGN_OR_RETURN(positions, positions.CopyTo(program->on_device()));

  SMELT_ASSIGN_OR_RETURN(const Tensor each, Decode(*instance, x, positions, /*wait_for_each=*/true));
  const auto begin = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(const Tensor at_once, Decode(*instance, x, positions, /*wait_for_each=*/false));
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  const CallStats& stats = instance->last_call();
  std::printf("%s: %.0f us per step; the last: %lld kernels, %lld graphs, %lld steps on the CPU, %lld waits\n",
              program->on_device().ToString().c_str(), us / kSteps, static_cast<long long>(stats.kernel_launches),
              static_cast<long long>(stats.graph_launches), static_cast<long long>(stats.host_steps),
              static_cast<long long>(stats.device_waits));
  for (int64_t i = 0; i < kWidth; ++i) {
    if (each.data_as<float>()[i] == at_once.data_as<float>()[i]) continue;
    std::printf("element %lld is %g, and %g if each step is waited for\n", static_cast<long long>(i),
                at_once.data_as<float>()[i], each.data_as<float>()[i]);
    return false;
  }
  std::printf("y[0] = %g after %lld steps\n", at_once.data_as<float>()[0], static_cast<long long>(kSteps));
  return true;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: decode BUNDLE.smb [cuda:0]\n");
    return 2;
  }
  const absl::StatusOr<bool> ok = smelt::Run(argv[1], argc == 3 ? argv[2] : "");
  if (!ok.ok()) std::fprintf(stderr, "decode: %s\n", std::string(ok.status().message()).c_str());
  if (ok.ok()) return *ok ? 0 : 1;
  return ok.status().code() == absl::StatusCode::kFailedPrecondition ? 5 : 1;  // no such device, as smelt's exit codes
}
