#include "smelt/pipeline/write_bundle.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/link_image.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/container.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {
namespace {

// Returns the kernels of library operators that the bundle's steps may use.
absl::StatusOr<std::vector<std::shared_ptr<const KernelObject>>> MakeLibraryKernels(const fb::BundleT& bundle,
                                                                                    Target target, KernelCache& cache) {
  std::vector<std::shared_ptr<const KernelObject>> out;
  for (const LibraryKernel& kernel : LibraryKernelsOf(bundle)) {
    auto object = cache.GetOrCompileLibrary(kernel, target);
    // Without libdevice the step runs on the host.
    if (absl::IsUnimplemented(object.status())) continue;
    SMELT_RETURN_IF_ERROR(object.status());
    out.push_back(*std::move(object));
  }
  return out;
}

// The code of all kernels for one target: a segment of the file and an entry of the bundle.
absl::Status AddTarget(Target target, const std::vector<KernelSpec>& kernels, const std::vector<int>& main_uses,
                       KernelCache& cache, int threads, ContainerWriter& writer, fb::BundleT& bundle,
                       CompileStats& stats) {
  std::vector<KernelCache::Request> requests;
  for (const KernelSpec& spec : kernels) requests.push_back({&spec, target});
  SMELT_ASSIGN_OR_RETURN(std::vector<std::shared_ptr<const KernelObject>> objects,
                         cache.GetOrCompileAll(requests, threads));
  // Library kernels may go on with them.
  if (bundle.kernels.empty()) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      auto k = std::make_unique<fb::KernelT>();
      k->key = objects[i]->key;
      k->spec = kernels[i].ToString();
      k->uses = i < main_uses.size() ? main_uses[i] : 0;
      k->num_words = static_cast<int>(kernels[i].num_words());
      bundle.kernels.push_back(std::move(k));
    }
  }
  std::vector<const KernelObject*> pointers;
  for (const auto& o : objects) pointers.push_back(o.get());
  auto code = std::make_unique<fb::TargetCodeT>();
  code->name = Name(target);
  code->triple = Triple(target);
  code->features = RequiredFeatures(target);
  code->compute_capability = ComputeCapability(target);
  code->exact_device = IsForExactDevice(target);
  Image image;
  if (IsCuda(target)) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const KernelObject>> library,
                           MakeLibraryKernels(bundle, target, cache));
    for (const auto& o : library) pointers.push_back(o.get());
    SMELT_ASSIGN_OR_RETURN(CudaImage cuda, LinkCudaImage(pointers, [&](const std::string& ptx, Target t) {
                             return cache.GetOrAssemble(ptx, t);
                           }));
    image = std::move(cuda.image);
    code->is_ptx = !cuda.is_cubin;
    if (!cuda.ptx.empty() && !code->exact_device) {
      SMELT_ASSIGN_OR_RETURN(code->ptx_segment, writer.Add(SegmentKind::kCode, cuda.ptx));
    }
    if (!pointers.empty() && !cuda.is_cubin) {
      stats.notes.push_back(absl::StrCat("target ", Name(target),
                                         ": ptxas is not found; the bundle holds PTX and no cubin, so the driver will "
                                         "assemble it at each load"));
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(image, LinkImage(pointers));
  }
  SMELT_ASSIGN_OR_RETURN(code->image_segment, writer.Add(SegmentKind::kCode, image.bytes));
  for (size_t i = 0; i < kernels.size(); ++i) {
    auto k = std::make_unique<fb::TargetKernelT>();
    k->offset = image.entries[i].offset;
    k->size = image.entries[i].size;
    k->key = objects[i]->key;
    if (IsCuda(target)) k->cuda = std::make_unique<fb::CudaKernelT>(CudaLaunchFor(kernels[i], objects[i]->symbol));
    code->kernels.push_back(std::move(k));
  }
  bundle.targets.push_back(std::move(code));
  return absl::OkStatus();
}

// The contents of states and constants: one segment, storages at multiples of 64. Methods that name a weight differently
// share its bytes.
absl::Status AddStates(const Graph& graph, const BundleBuilder& builder, ContainerWriter& writer, fb::BundleT& bundle) {
  if (bundle.storages.empty()) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(writer.Begin(SegmentKind::kWeights));
  int64_t at = 0;
  std::map<std::pair<Sha256Digest, int64_t>, int64_t> places;  // by contents, of storages that no call writes
  const std::string zeros(4096, '\0');
  std::vector<Tensor> constants = builder.constants();
  for (size_t s = 0; s < bundle.storages.size(); ++s) {
    fb::StateStorageT& storage = *bundle.storages[s];
    const char* data = s < graph.weight_storages.size()
                           ? graph.weight_storages[s]->data()
                           : static_cast<const char*>(constants[s - graph.weight_storages.size()].data());
    if (storage.bytes == 0) {
      storage.segment = -1;
      continue;
    }
    const bool may_share = !bundle.methods.empty() && !storage.is_mutated;
    if (may_share) {
      const Sha256Digest digest = Sha256(absl::string_view(data, static_cast<size_t>(storage.bytes)));
      // It is written next, if it is the first.
      const auto [it, fresh] = places.try_emplace({digest, storage.bytes}, (at + 63) / 64 * 64);
      if (!fresh) {
        storage.segment_offset = it->second;
        continue;
      }
    }
    // Mutable ones begin a page, so that their copy-on-write mappings are their own.
    const int64_t align = storage.is_mutated ? 4096 : 64;
    const int64_t pad = (align - at % align) % align;
    auto append = [&](const char* p, int64_t n) {
      return writer.Append(absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(p), n));
    };
    SMELT_RETURN_IF_ERROR(append(zeros.data(), pad));
    at += pad;
    storage.segment_offset = at;
    SMELT_RETURN_IF_ERROR(append(data, storage.bytes));
    at += storage.bytes;
  }
  SMELT_ASSIGN_OR_RETURN(int segment, writer.End());
  for (auto& storage : bundle.storages) {
    if (storage->bytes > 0) storage->segment = segment;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteBundle(fb::BundleT bundle, const Graph& graph, const BundleBuilder& builder,
                         const std::vector<int>& main_uses, const std::string& path, const CompileOptions& options,
                         CompileStats& stats, PhaseTimer& timer) {
  WorksOnPass("kernels");
  std::unique_ptr<KernelCache> own;
  KernelCache* cache = options.cache;
  if (cache == nullptr) {
    SMELT_ASSIGN_OR_RETURN(own, KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff}));
    cache = own.get();
  }
  const KernelCache::Stats before = cache->stats();
  SMELT_ASSIGN_OR_RETURN(ContainerWriter writer, ContainerWriter::Create(path, ContentKind::kBundle));
  if (options.on_kernels) options.on_kernels(static_cast<int64_t>(builder.kernels().size() * options.targets.size()));
  for (const Target target : options.targets) {
    SMELT_RETURN_IF_ERROR(
        AddTarget(target, builder.kernels(), main_uses, *cache, options.threads, writer, bundle, stats));
  }
  const KernelCache::Stats after = cache->stats();
  stats.kernels_compiled = after.compiled - before.compiled;
  stats.kernels_from_cache = (after.memory_hits + after.disk_hits + after.store_hits) -
                             (before.memory_hits + before.disk_hits + before.store_hits);
  timer.End("kernels");

  WorksOnPass("write");
  SMELT_RETURN_IF_ERROR(AddStates(graph, builder, writer, bundle));
  SMELT_RETURN_IF_ERROR(VerifyBundle(bundle, nullptr));
  SMELT_RETURN_IF_ERROR(writer.Add(SegmentKind::kMetadata, EncodeBundle(bundle)).status());
  SMELT_RETURN_IF_ERROR(writer.Finish());
  stats.bundle_bytes = writer.bytes_written();
  timer.End("write");
  return absl::OkStatus();
}

}  // namespace smelt
