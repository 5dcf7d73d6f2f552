// Calls on a CUDA device whose driver is the tests' own.
#ifndef SMELT_RUNTIME_CUDA_TESTING_DEVICE_CALLS_H_
#define SMELT_RUNTIME_CUDA_TESTING_DEVICE_CALLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/schema/bundle.h"

namespace smelt {

inline Tensor OnDevice(const std::vector<float>& values) { return *VectorOf(values).CopyTo(Device::Cuda(0)); }
inline std::vector<float> Values(const Tensor& t) { return FloatsOf(*t.CopyTo(Device::Cpu())); }

inline std::unique_ptr<Instance> InstanceOf(const std::string& bundle, bool words_by_value = true) {
  auto program = LoadWithNativeKernels(bundle, words_by_value);
  EXPECT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

// f(x): while x[0] < 6: x += 1; x += 1. A loop that counts its rounds is one for the host.
inline std::string AddWhileLess(bool refuses = false, bool counts = false) {
  HandBundle b;
  const int n = b.Const(4), one = b.Const(1);
  b.VectorArg("x", n);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), first = p.Vector(p.raw().views[x]->slot, one);
  const int less = p.View(p.ArenaSlot(b.Const(0), b.Const(16)), {one}, {one}, -1, DType::kBool);
  p.raw().arena_bytes = b.Const(16);
  p.raw().num_registers = counts ? 2 : 1;
  auto* loop = p.Step<fb::WhileT>();
  loop->predicate = 0;
  if (counts) loop->counter = 1;
  loop->cond_block = 1;
  loop->body_block = 2;
  auto* compare = p.Step<fb::LaunchT>(1);
  compare->kernel = kLess;
  compare->tiles = compare->bytes = one;
  compare->words = {p.Address(first), fb::Word(fb::WordKind::IntConst, 0, 0, 6), p.Address(less)};
  compare->reads = {first};
  compare->writes = {less};
  p.Step<fb::ReadScalarT>(1)->view = less;
  p.Launch(kAddOne, n, x, x, 2);
  p.Launch(kAddOne, n, x, x, 2);
  if (refuses) p.Launch(kFail, n, x, x, 2);
  p.raw().written_args = {0};
  p.raw().may_refuse_late = refuses;
  return b.Pack();
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_CUDA_TESTING_DEVICE_CALLS_H_
