// Runs every model and every scenario with its kernels made for CUDA: compiles as usual, then replaces each kernel's
// code by a jump into the emulation of its CUDA form (codegen/cuda_emulation.h), whose threads run in lockstep. All
// results must be correct as with the CPU's kernels, and no two accesses may race.
#include "smelt/codegen/cuda_emulation.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// Returns the emulation of a kernel, each made once. With `small` limits, small sizes take the schedules of large ones.
absl::StatusOr<CudaEmulation*> EmulationOf(const std::string& spec, bool small) {
  static auto* const kernels = new std::map<std::pair<std::string, bool>, std::unique_ptr<CudaEmulation>>();
  const CudaLimits limits = {.short_row = 4, .few_elements = 2, .row_chunk = 16, .column_chunk = 4, .short_side = 3};
  auto& kernel = (*kernels)[{spec, small}];
  if (kernel == nullptr) {
    SMELT_ASSIGN_OR_RETURN(KernelSpec parsed, ParseKernelSpec(spec));
    SMELT_ASSIGN_OR_RETURN(kernel, CudaEmulation::Create(parsed, small ? limits : CudaLimits{}));
  }
  return kernel.get();
}

constexpr int kJumpBytes = 16;

// movabs $address, %rax; jmp *%rax
std::string JumpTo(KernelEntry entry) {
  std::string code("\x48\xb8\0\0\0\0\0\0\0\0\xff\xe0", 12);
  std::memcpy(code.data() + 2, &entry, sizeof entry);
  code.resize(kJumpBytes, '\x90');
  return code;
}

// Replaces the code of the kernels in the bundle at `path`, and returns the emulations.
absl::StatusOr<std::vector<CudaEmulation*>> EmulateKernels(const std::string& path, bool small) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Container> container, Container::Open(path, ContentKind::kBundle));
  const int metadata = container->Find(SegmentKind::kMetadata);
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<fb::BundleT> bundle, DecodeBundle(container->bytes(metadata)));
  std::vector<CudaEmulation*> kernels;
  std::string code;
  for (size_t k = 0; k < bundle->kernels.size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(CudaEmulation * kernel, EmulationOf(bundle->kernels[k]->spec, small));
    kernels.push_back(kernel);
    bundle->targets[0]->kernels[k]->offset = static_cast<int64_t>(code.size());
    bundle->targets[0]->kernels[k]->size = kJumpBytes;
    code += JumpTo(kernel->entry());
  }
  code.resize((code.size() + kContainerPage - 1) / kContainerPage * kContainerPage, '\0');
  ContainerWriter writer = ContainerWriter::InMemory(ContentKind::kBundle);
  for (int s = 0; s < static_cast<int>(container->segments().size()); ++s) {
    const SegmentKind kind = container->segments()[s].kind;
    if (s == metadata) {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, EncodeBundle(*bundle)).status());
    } else if (s == bundle->targets[0]->image_segment) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(code.data());
      SMELT_RETURN_IF_ERROR(writer.Add(kind, {bytes, code.size()}).status());
    } else {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, container->bytes(s)).status());
    }
  }
  SMELT_ASSIGN_OR_RETURN(std::string file, writer.FinishToString());
  SMELT_RETURN_IF_ERROR(WriteFileAtomically(path, file));
  return kernels;
}

struct Case {
  std::string folder, name;
};

class CudaEmulationTest : public ::testing::TestWithParam<Case> {};

TEST_P(CudaEmulationTest, HoldsWithoutARace) {
  static KernelCache* const cache = KernelCache::Create({.mode = CacheMode::kOff})->release();
  const auto& [folder, name] = GetParam();
  CompileOptions options;
  options.targets = {kHostTargets[0]};
  options.cache = cache;
  const std::string path = Scratch(name + ".smb");
  ASSERT_TRUE(CompileModel(ModelPath(folder, name), path, options).ok());
  // Models have the sizes that schedules are made for; scenarios are small.
  auto kernels = EmulateKernels(path, folder != "testdata");
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  auto program = Program::Load(path);
  ASSERT_TRUE(program.ok()) << program.status();
  auto report = RunCase(*program, absl::StrCat(folder, "/", name, ".case.safetensors"), {});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const CaseFailure& f : report->failures)
    ADD_FAILURE() << "[call " << f.call << "] " << f.where << ": " << f.what;
  for (size_t k = 0; k < kernels->size(); ++k) EXPECT_EQ((*kernels)[k]->race(), "") << "kernel " << k;
}

std::vector<Case> AllCases() {
  std::vector<Case> out;
  for (const char* folder : {"testdata", "testdata/scenarios"}) {
    for (const std::string& name : ModelNames(folder)) out.push_back({folder, name});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, CudaEmulationTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace smelt
