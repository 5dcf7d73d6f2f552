#include "smelt/runtime/cuda/testing/native_kernels.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/device/device.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {
namespace {

void RunOnCpu(void* user, int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status,
              void* workspace) {
  // Kernels for the CPU read hints in the second word.
  int64_t own[8] = {0, CpuHints()};
  reinterpret_cast<KernelEntry>(user)(words, begin, end, own);
  if (own[0] != 0) status[0] = own[0];
}

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

const FakeDriver& GetFakeDriver() {
  static const auto* const driver = [] {
    const char* const path = std::getenv("SMELT_CUDA_DRIVER");
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    SMELT_CHECK(library != nullptr) << "SMELT_CUDA_DRIVER names no library";
    auto* out = new FakeDriver();
    const auto find = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      SMELT_CHECK(function != nullptr) << name;
    };
    find(out->add, "fake_cuda_register");
    find(out->fail, "fake_cuda_fail");
    find(out->limit, "fake_cuda_limit");
    find(out->seed, "fake_cuda_seed");
    find(out->stream, "fake_cuda_stream");
    find(out->hold, "fake_cuda_hold");
    find(out->copy_later, "fake_cuda_copy_later");
    find(out->counts, "fake_cuda_counts");
    return out;
  }();
  return *driver;
}

absl::StatusOr<std::string> WithNativeKernels(absl::string_view bundle_bytes, bool words_by_value) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Container> container,
                         Container::FromMemory(Bytes(bundle_bytes), ContentKind::kBundle, "native"));
  const int metadata = container->Find(SegmentKind::kMetadata);
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<fb::BundleT> bundle, DecodeBundle(container->bytes(metadata)));
  if (!bundle->targets.empty()) {
    bundle->targets.resize(1);
    fb::TargetCodeT& target = *bundle->targets[0];
    // The code stays mapped for the kernels that the driver has been given.
    auto* const keep = new std::shared_ptr<const Container>(container);
    const uint8_t* code = nullptr;
    if (!target.kernels.empty()) {
      SMELT_ASSIGN_OR_RETURN(code, (*keep)->MapExecutable(target.image_segment));
    }
    static int64_t bundles = 0;
    ++bundles;
    for (size_t k = 0; k < target.kernels.size(); ++k) {
      auto stage = std::make_unique<fb::CudaStageT>();
      stage->entry = absl::StrCat("k_", bundles, "_", k);
      stage->threads = 256;
      stage->items_per_block = 256;
      stage->factors.push_back(fb::CudaFactor(-1, 0, 1));
      const int words = bundle->kernels[k]->num_words;
      const bool by_value = words_by_value && words > 0;
      const fake_cuda::KernelInfo info = {words, by_value, 256, RunOnCpu,
                                          const_cast<uint8_t*>(code) + target.kernels[k]->offset};
      GetFakeDriver().add(stage->entry.c_str(), &info);
      target.kernels[k]->cuda = std::make_unique<fb::CudaKernelT>();
      target.kernels[k]->cuda->words_by_value = by_value;
      target.kernels[k]->cuda->stages.push_back(std::move(stage));
    }
    target.name = "sm_90";
    target.triple = "nvptx64-nvidia-cuda";
    target.features.clear();
    target.compute_capability = 90;
  }
  ContainerWriter writer = ContainerWriter::InMemory(ContentKind::kBundle);
  for (int s = 0; s < static_cast<int>(container->segments().size()); ++s) {
    const SegmentKind kind = container->segments()[s].kind;
    if (s == metadata) {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, EncodeBundle(*bundle)).status());
    } else {
      SMELT_RETURN_IF_ERROR(writer.Add(kind, container->bytes(s)).status());
    }
  }
  return writer.FinishToString();
}

absl::StatusOr<std::shared_ptr<const Program>> LoadWithNativeKernels(absl::string_view bundle, bool words_by_value) {
  SMELT_ASSIGN_OR_RETURN(const std::string bytes, WithNativeKernels(bundle, words_by_value));
  return Program::LoadFromMemory(Bytes(bytes), {.device = "cuda:0"});
}

}  // namespace smelt
