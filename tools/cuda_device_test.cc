// Runs bundles on a CUDA device whose driver is the tests' own (runtime/cuda/testing/fake_driver.h): the runtime opens
// it as it opens NVIDIA's, and the driver runs the emulations of the kernels (codegen/cuda_emulation.h). So everything
// is tested here but the machine code and the GPU.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_emulation.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/cuda/testing/fake_driver.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

constexpr int kCapability = 90;

// A kernel's emulation, which is made when it first runs: of the library's kernels, most are never launched.
class EmulatedKernel {
 public:
  using Make = std::function<absl::StatusOr<std::unique_ptr<CudaEmulation>>()>;
  explicit EmulatedKernel(Make make) : make_(std::move(make)) {}
  CudaEmulation& Get() {
    std::call_once(once_, [&] {
      auto made = make_();
      SMELT_CHECK(made.ok()) << made.status();
      emulation_ = *std::move(made);
    });
    return *emulation_;
  }
  bool has_run() const { return emulation_ != nullptr; }
  // "" if it has not run.
  std::string race() const { return emulation_ == nullptr ? "" : emulation_->race(); }

 private:
  const Make make_;
  std::once_flag once_;
  std::unique_ptr<CudaEmulation> emulation_;
};

// A stage of a kernel, which the driver runs.
struct EmulatedStage {
  EmulatedKernel* kernel;
  int stage;
};

void RunStage(void* user, int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status,
              void* workspace) {
  const auto* s = static_cast<const EmulatedStage*>(user);
  s->kernel->Get().LaunchStage(s->stage, grid, words, begin, end, status, workspace);
}

// The kernels so far, by the entries of their first stages.
std::map<std::string, std::unique_ptr<EmulatedKernel>>& Emulations() {
  static auto* const all = new std::map<std::string, std::unique_ptr<EmulatedKernel>>();
  return *all;
}

// Lets the driver run a kernel.
void Add(const fb::CudaKernelT& launch, int num_words, EmulatedKernel* emulation) {
  for (size_t s = 0; s < launch.stages.size(); ++s) {
    const fake_cuda::KernelInfo info = {num_words, launch.words_by_value, launch.stages[s]->threads, RunStage,
                                        new EmulatedStage{emulation, static_cast<int>(s)}};
    GetFakeDriver().add(launch.stages[s]->entry.c_str(), &info);
  }
}

// Gives the driver an emulation of the kernel, once, and returns how it is launched.
absl::StatusOr<fb::CudaKernelT> Register(const fb::KernelT& kernel) {
  SMELT_ASSIGN_OR_RETURN(const KernelSpec spec, ParseKernelSpec(kernel.spec));
  const std::string symbol = absl::StrCat("k_", kernel.key);
  fb::CudaKernelT launch = CudaLaunchFor(spec, symbol);
  auto& emulation = Emulations()[symbol];
  if (emulation != nullptr) return launch;
  emulation = std::make_unique<EmulatedKernel>([spec] { return CudaEmulation::Create(spec); });
  Add(launch, kernel.num_words, emulation.get());
  return launch;
}

// Gives the driver the library kernels that the bundle's image would hold.
void RegisterLibrary(const fb::BundleT& bundle) {
  for (const LibraryKernel& kernel : LibraryKernelsOf(bundle)) {
    if (!kernel.epilogue_key.empty()) {
      const auto spec = ParseKernelSpec(kernel.epilogue_spec);
      if (!spec.ok() || !CanBeEpilogue(*spec)) continue;
    }
    auto& emulation = Emulations()[kernel.Entry()];
    if (emulation != nullptr) continue;
    emulation =
        std::make_unique<EmulatedKernel>([kernel] { return CudaEmulation::CreateLibrary(kernel, kCapability); });
    Add(kernel.Launch(), kernel.NumWords(), emulation.get());
  }
}

// Gives the bundle at `path` a target sm_90 in place of its own. The driver never looks into its image.
absl::Status TurnToCuda(const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Container> container, Container::Open(path, ContentKind::kBundle));
  const int metadata = container->Find(SegmentKind::kMetadata);
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<fb::BundleT> bundle, DecodeBundle(container->bytes(metadata)));
  if (!bundle->targets.empty()) {
    fb::TargetCodeT& code = *bundle->targets[0];
    code.name = "sm_90";
    code.triple = "nvptx64-nvidia-cuda";
    code.features.clear();
    code.compute_capability = kCapability;
    RegisterLibrary(*bundle);
    for (size_t k = 0; k < bundle->kernels.size(); ++k) {
      SMELT_ASSIGN_OR_RETURN(fb::CudaKernelT launch, Register(*bundle->kernels[k]));
      code.kernels[k]->cuda = std::make_unique<fb::CudaKernelT>(std::move(launch));
    }
  }
  ContainerWriter writer = ContainerWriter::InMemory(ContentKind::kBundle);
  for (int s = 0; s < static_cast<int>(container->segments().size()); ++s) {
    const SegmentKind kind = container->segments()[s].kind;
    if (s == metadata) {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, EncodeBundle(*bundle)).status());
    } else if (!bundle->targets.empty() && s == bundle->targets[0]->image_segment && container->bytes(s).empty()) {
      // Library kernels are code, too.
      const std::vector<uint8_t> code(kContainerPage, 0);
      SMELT_RETURN_IF_ERROR(writer.Add(kind, code).status());
    } else {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, container->bytes(s)).status());
    }
  }
  SMELT_ASSIGN_OR_RETURN(const std::string file, writer.FinishToString());
  return WriteFileAtomically(path, file);
}

CompileOptions Options() {
  static KernelCache* const cache = KernelCache::Create({.mode = CacheMode::kOff})->release();
  CompileOptions options;
  options.targets = {kHostTargets[0]};
  options.cache = cache;
  return options;
}

struct Case {
  std::string folder, name;
};

// Models whose steps all have kernels.
const char* const kOnDeviceAlone[] = {
    "autocast_and_dropout",
    "batch_norm_train_mlp",
    "column_copy",
    "cond",
    "convolution_chains",
    "digits",
    "dynamic_batch",
    "dynamic_mutation",
    "graph_network",
    "gru_bidirectional",
    "kv_cache",
    "llama_dynamic",
    "lstm_100",
    "masks_and_counts",
    "mlp_layernorm_gelu",
    "residual_cnn",
    "scatters_and_products",
    "spatial_transformer",
    "transformer_encoder",
    "unet_decomposed",
};

class CudaDeviceCaseTest : public ::testing::TestWithParam<Case> {};

TEST_P(CudaDeviceCaseTest, HoldsOnADevice) {
  const auto& [folder, name] = GetParam();
  // Nightly checks choose other delays.
  const char* const seed = std::getenv("SMELT_CUDA_SEED");
  GetFakeDriver().seed(std::hash<std::string>()(name + (seed == nullptr ? "" : seed)));
  const std::string path = Scratch(name + ".smb");
  ASSERT_TRUE(CompileModel(ModelPath(folder, name), path, Options()).ok());
  const int64_t before = GetFakeDriver().counts().bytes;
  {
    const absl::Status turned = TurnToCuda(path);
    ASSERT_TRUE(turned.ok()) << turned;
    auto program = Program::Load(path, {.device = "cuda:0"});
    ASSERT_TRUE(program.ok()) << program.status();
    // From the second round on, what lies between two reads of the host is a graph.
    auto report = RunCase(*program, absl::StrCat(folder, "/", name, ".case.safetensors"),
                          {.repeat = 2, .check_all_rounds = true});
    ASSERT_TRUE(report.ok()) << report.status();
    for (const CaseFailure& f : report->failures)
      ADD_FAILURE() << "[call " << f.call << "] " << f.where << ": " << f.what;
    // Without a step or a read of the host, a call is at most one graph (if its launches are those of the last call), and
    // waits once, for its end.
    const auto calls = static_cast<int64_t>(report->alias_variants.size());
    if (report->host_steps == 0 && report->device_waits == calls) {
      EXPECT_LE(report->graph_launches, calls);
    }
    for (const auto& [entry, kernel] : Emulations()) EXPECT_EQ(kernel->race(), "") << entry;
    std::printf("%s: %d launches, %d library calls (%d by cuBLASLt), %d steps on the host\n", name.c_str(),
                static_cast<int>(report->kernel_launches), static_cast<int>(report->library_calls),
                static_cast<int>(report->cublaslt_products), static_cast<int>(report->host_steps));
    if (folder == "testdata" && std::count(std::begin(kOnDeviceAlone), std::end(kOnDeviceAlone), name) > 0) {
      EXPECT_EQ(report->host_steps, 0);
    }
  }
  EXPECT_EQ(GetFakeDriver().counts().bytes, before) << "memory of the device is left";
}

std::vector<Case> CasesOf(const std::string& folder) {
  std::vector<Case> out;
  for (const std::string& name : ModelNames(folder)) out.push_back({folder, name});
  return out;
}
INSTANTIATE_TEST_SUITE_P(Models, CudaDeviceCaseTest, ::testing::ValuesIn(CasesOf("testdata")),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Scenarios, CudaDeviceCaseTest, ::testing::ValuesIn(CasesOf("testdata/scenarios")),
                         [](const auto& info) { return info.param.name; });

// Returns an instance of a graph on the device, or what is wrong with it.
absl::StatusOr<std::unique_ptr<Instance>> InstanceOf(const std::string& name, const char* graph) {
  SMELT_ASSIGN_OR_RETURN(const auto g, ParseModel(graph));
  const std::string path = Scratch(name + ".smb");
  SMELT_RETURN_IF_ERROR(CompileToFile(*g, path, Options()).status());
  SMELT_RETURN_IF_ERROR(TurnToCuda(path));
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(path, {.device = "cuda:0"}));
  return Instance::Create(program);
}

std::vector<Tensor> OnHost(const std::vector<Datum>& results) {
  std::vector<Tensor> out;
  for (const Datum& r : results) {
    auto copy = r.tensor().CopyTo(Device::Cpu());
    SMELT_CHECK(copy.ok()) << copy.status();
    out.push_back(*copy);
  }
  return out;
}

// The cache is larger than the memory that is left. Only the step that is written is saved.
TEST(CudaDeviceTest, ARefusedStepOfALargeCacheIsPutBackWithoutACopyOfTheCache) {
  auto instance = InstanceOf("large_cache", R"(graph(%cache : Float(64, 100, 16, strides=[1600, 16, 1]),
      %k : Float(64, 1, 16, strides=[16, 16, 1]),
      %table : Float(10, 4, strides=[4, 1]),
      %n : Long(3, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %at : int = prim::Constant[value=41]()
  %end : int = prim::Constant[value=42]()
  %step : Tensor = aten::slice(%cache, %one, %at, %end, %one)
  %w : Tensor = aten::copy_(%step, %k, %no)
  %i : Tensor = aten::add(%n, %one, %one)
  %rows : Tensor = aten::embedding(%table, %i)
  return (%rows)
)");
  ASSERT_TRUE(instance.ok()) << instance.status();
  constexpr int64_t kHeads = 64, kSteps = 100, kWidth = 16;
  Tensor cache = Tensor::Empty(DType::kFloat32, {kHeads, kSteps, kWidth});
  Tensor k = Tensor::Empty(DType::kFloat32, {kHeads, 1, kWidth}), table = Tensor::Empty(DType::kFloat32, {10, 4});
  Tensor good = Tensor::Empty(DType::kInt64, {3}), bad = Tensor::Empty(DType::kInt64, {3});
  std::iota(cache.data_as<float>(), cache.data_as<float>() + cache.NumElements(), 0.f);
  std::iota(k.data_as<float>(), k.data_as<float>() + k.NumElements(), -5000.f);
  std::iota(table.data_as<float>(), table.data_as<float>() + table.NumElements(), 0.f);
  std::iota(good.data_as<int64_t>(), good.data_as<int64_t>() + 3, 0);
  std::iota(bad.data_as<int64_t>(), bad.data_as<int64_t>() + 3, 8);
  std::vector<Datum> args;
  for (const Tensor& t : {cache, k, table, bad}) args.emplace_back(*t.CopyTo(Device::Cuda(0)));
  const Tensor on_device = args[0].tensor();
  GetFakeDriver().limit(GetFakeDriver().counts().bytes + cache.storage()->bytes() / 2);
  // From the second call on it is a graph.
  for (int call = 0; call < 3; ++call) {
    const absl::Status refused = (*instance)->Run(args).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_EQ(refused.message().find("may have been written"), absl::string_view::npos) << refused;
  }
  GetFakeDriver().limit(INT64_MAX);
  const auto same = [&](const std::vector<float>& want) {
    const Tensor now = *on_device.CopyTo(Device::Cpu());
    return std::equal(want.begin(), want.end(), now.data_as<float>());
  };
  std::vector<float> want(cache.data_as<float>(), cache.data_as<float>() + cache.NumElements());
  EXPECT_TRUE(same(want));
  args[3] = *good.CopyTo(Device::Cuda(0));
  ASSERT_TRUE((*instance)->Run(args).ok());
  for (int64_t h = 0; h < kHeads; ++h)
    std::copy_n(k.data_as<float>() + h * kWidth, kWidth, want.data() + (h * kSteps + 41) * kWidth);
  EXPECT_TRUE(same(want));
}

// relu(x @ w + b) + r: with own products, all that follows is part of the product's kernel.
TEST(CudaDeviceTest, WhatFollowsAProductIsPartOfItsKernel) {
  const char* const library = std::getenv("SMELT_CUBLASLT");
  if (library == nullptr || std::string(library) != "off") GTEST_SKIP() << "cuBLASLt computes the product";
  auto instance = InstanceOf("joined", R"(graph(%x : Float(70, 20, strides=[20, 1]),
      %w : Float(65, 20, strides=[20, 1]),
      %b : Float(65, strides=[1]),
      %r : Float(70, 65, strides=[65, 1])):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::linear(%x, %w, %b)
  %p : Tensor = aten::relu(%y)
  %o : Tensor = aten::add(%p, %r, %one)
  return (%o)
)");
  ASSERT_TRUE(instance.ok()) << instance.status();
  constexpr int64_t kRows = 70, kColumns = 65, kInner = 20;
  std::vector<Tensor> args;
  std::vector<Datum> on_device;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{kRows, kInner}, {kColumns, kInner}, {kColumns}, {kRows, kColumns}}) {
    Tensor t = Tensor::Empty(DType::kFloat32, sizes);
    for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
    on_device.emplace_back(*t.CopyTo(Device::Cuda(0)));
    args.push_back(std::move(t));
  }
  for (int call = 0; call < 2; ++call) {
    const int64_t launches = GetFakeDriver().counts().launches;
    auto results = (*instance)->Run(on_device);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*instance)->last_call().library_calls, 1);
    EXPECT_EQ((*instance)->last_call().kernel_launches, 1);
    // The status words are cleared, too.
    EXPECT_LE(GetFakeDriver().counts().launches - launches, 2);
    const Tensor out = OnHost(*results)[0];
    int64_t wrong = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) {
        float sum = args[2].data_as<float>()[j];
        for (int64_t k = 0; k < kInner; ++k)
          sum += args[0].data_as<float>()[i * kInner + k] * args[1].data_as<float>()[j * kInner + k];
        wrong +=
            out.data_as<float>()[i * kColumns + j] != std::max(sum, 0.f) + args[3].data_as<float>()[i * kColumns + j];
      }
    }
    EXPECT_EQ(wrong, 0);
  }
  const bool joined = std::any_of(Emulations().begin(), Emulations().end(), [](const auto& e) {
    return e.first.find("_then_") != std::string::npos && e.second->has_run();
  });
  EXPECT_TRUE(joined);
  for (const auto& [entry, kernel] : Emulations()) EXPECT_EQ(kernel->race(), "") << entry;
}

// They are more than one block takes.
TEST(CudaDeviceTest, AllBlocksFindWhichOfManyElementsAreNotZero) {
  auto instance = InstanceOf("nonzero_of_many", R"(graph(%x : Float(9000, strides=[1])):
  symbol u0 in [0, 9000]
  %places : Long(u0, 1, strides=[1, u0]) = aten::nonzero(%x)
  return (%places)
)");
  ASSERT_TRUE(instance.ok()) << instance.status();
  constexpr int64_t kLength = 9000;
  Tensor x = Tensor::Empty(DType::kFloat32, {kLength});
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kLength; ++i) {
    x.data_as<float>()[i] = static_cast<float>(i * i % 101 % 13);
    if (x.data_as<float>()[i] != 0) places.push_back(i);
  }
  auto on_device = x.CopyTo(Device::Cuda(0));
  ASSERT_TRUE(on_device.ok()) << on_device.status();
  auto results = (*instance)->Run({Datum(*on_device)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*instance)->last_call().host_steps, 0);
  const std::vector<Tensor> out = OnHost(*results);
  ASSERT_EQ(out[0].NumElements(), static_cast<int64_t>(places.size()));
  EXPECT_TRUE(std::equal(places.begin(), places.end(), out[0].data_as<int64_t>()));
  const auto& kernel = Emulations()["smelt_nonzero_wide_float32"];
  ASSERT_NE(kernel, nullptr);
  EXPECT_TRUE(kernel->has_run());
  EXPECT_EQ(kernel->race(), "");
}

// A line is longer than what a block of the GPU holds.
TEST(CudaDeviceTest, OrdersOfLongLinesNeedNoStepOnTheHost) {
  auto instance = InstanceOf("long_lines", R"(graph(%x : Float(2, 2100, strides=[2100, 1])):
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %v : Tensor, %i : Tensor = aten::sort(%x, %one, %yes)
  %m : Tensor, %at : Tensor = aten::median.dim(%x, %one, %no)
  return (%v, %i, %m, %at)
)");
  ASSERT_TRUE(instance.ok()) << instance.status();
  constexpr int64_t kLines = 2, kLength = 2100;
  Tensor x = Tensor::Empty(DType::kFloat32, {kLines, kLength});
  for (int64_t i = 0; i < kLines * kLength; ++i) x.data_as<float>()[i] = static_cast<float>(i * 7919 % 4001);
  auto on_device = x.CopyTo(Device::Cuda(0));
  ASSERT_TRUE(on_device.ok()) << on_device.status();
  // The second call is a graph.
  for (int call = 0; call < 2; ++call) {
    auto results = (*instance)->Run({Datum(*on_device)});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*instance)->last_call().host_steps, 0);
    const std::vector<Tensor> out = OnHost(*results);
    int64_t wrong = 0;
    for (int64_t line = 0; line < kLines; ++line) {
      const float* const elements = x.data_as<float>() + line * kLength;
      std::vector<int64_t> order(kLength);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return elements[a] > elements[b]; });
      for (int64_t i = 0; i < kLength; ++i) {
        wrong += out[0].data_as<float>()[line * kLength + i] != elements[order[static_cast<size_t>(i)]];
        wrong += out[1].data_as<int64_t>()[line * kLength + i] != order[static_cast<size_t>(i)];
      }
      const float median = elements[order[kLength / 2]];  // the lower one of two, of descending elements
      EXPECT_EQ(out[2].data_as<float>()[line], median);
      EXPECT_EQ(elements[out[3].data_as<int64_t>()[line]], median);
    }
    EXPECT_EQ(wrong, 0);
  }
  for (const auto& [entry, kernel] : Emulations()) EXPECT_EQ(kernel->race(), "") << entry;
}

}  // namespace
}  // namespace smelt
