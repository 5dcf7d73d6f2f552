#include "smelt/runtime/cuda/launch_graphs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/cuda/cuda_device.h"

namespace smelt::cuda {
namespace {

// A graph costs more to build than its launches cost; fewer than these are launched one by one.
constexpr size_t kLeastLaunches = 2;
// The work between two reads of the host depends on the numbers that were read, and on arguments that are copied first.
// These many are kept as graphs; further work is launched one by one.
constexpr size_t kMostVariants = 4, kMostSegments = 64;

Address AddressOf(const std::shared_ptr<void>& memory) {
  return static_cast<Address>(reinterpret_cast<uintptr_t>(memory.get()));
}

KernelNodeParameters NodeParameters(const LaunchList::Item& item, void** parameters) {
  KernelNodeParameters out;
  out.function = item.function;
  out.grid_x = item.shape.grid;
  out.block_x = item.shape.threads;
  out.shared_bytes = item.shape.shared_bytes;
  out.parameters = parameters;
  return out;
}

}  // namespace

void LaunchList::Add(Function function, const char* name, const Shape& shape, absl::Span<const int64_t> words,
                     int64_t end, Address status, int64_t workspace_bytes) {
  items_.push_back({function, name, shape, words_.size(), words.size(), end, status, workspace_bytes > 0});
  words_.insert(words_.end(), words.begin(), words.end());
  workspace_bytes_ = std::max(workspace_bytes_, workspace_bytes);
}

void LaunchList::Clear() {
  items_.clear();
  words_.clear();
  workspace_bytes_ = 0;
}

bool LaunchList::HasKernelsOf(const LaunchList& other) const {
  return std::equal(
      items_.begin(), items_.end(), other.items_.begin(), other.items_.end(),
      [](const Item& a, const Item& b) { return a.function == b.function && a.num_words == b.num_words; });
}

bool LaunchList::IsSame(size_t i, const LaunchList& other) const {
  const Item &a = items_[i], &b = other.items_[i];
  return a.shape == b.shape && a.end == b.end && a.status == b.status && a.has_workspace == b.has_workspace &&
         std::memcmp(words_.data() + a.first_word, other.words_.data() + b.first_word, a.num_words * sizeof(int64_t)) ==
             0;
}

absl::Status LaunchEach(const CudaDevice& device, const LaunchList& list) {
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<void> workspace, device.Allocate(list.workspace_bytes()));
  for (size_t i = 0; i < list.size(); ++i) {
    SMELT_RETURN_IF_ERROR(
        list.WithParameters(i, AddressOf(workspace), [&](const LaunchList::Item& item, void** parameters) {
          return device.Check(
              device.driver().cuLaunchKernel(item.function, item.shape.grid, 1, 1, item.shape.threads, 1, 1,
                                             item.shape.shared_bytes, device.stream(), parameters, nullptr),
              item.name);
        }));
  }
  return absl::OkStatus();
}

CudaGraphs::~CudaGraphs() {
  for (std::vector<Variant>& variants : segments_) {
    for (Variant& v : variants) Destroy(&v);
  }
}

void CudaGraphs::Destroy(Variant* variant) {
  if (variant->graph == nullptr) return;
  const CudaDevice::Scope scope(device_, CudaDevice::kReleaseTries);
  if (scope.status().ok()) {
    // Its last launch may not be over. There is nobody to tell of a failure here.
    device_.Check(device_.driver().cuStreamSynchronize(device_.stream()), "the end of a graph").IgnoreError();
    if (variant->exec != nullptr) device_.driver().cuGraphExecDestroy(variant->exec);
    device_.driver().cuGraphDestroy(variant->graph);
  }
  variant->exec = nullptr;
  variant->graph = nullptr;
  variant->nodes.clear();
  variant->workspace.reset();
}

absl::Status CudaGraphs::Launch(size_t segment, const LaunchList& list) {
  if (segment >= kMostSegments || list.size() < kLeastLaunches) return LaunchEach(device_, list);
  if (segment >= segments_.size()) segments_.resize(segment + 1);
  std::vector<Variant>& variants = segments_[segment];
  const auto found =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return list.HasKernelsOf(v.list); });
  if (found == variants.end()) {
    if (variants.size() < kMostVariants) variants.emplace_back().list = list;
    return LaunchEach(device_, list);
  }
  absl::Status status = found->exec == nullptr ? Build(list, &*found) : Update(list, &*found);
  if (!status.ok()) {
    // Half of the nodes may have other words than the list says.
    Destroy(&*found);
    return status;
  }
  device_.CountGraphLaunch();
  return device_.Check(device_.driver().cuGraphLaunch(found->exec, device_.stream()), "launching a graph");
}

absl::Status CudaGraphs::Build(const LaunchList& list, Variant* variant) {
  const Driver& driver = device_.driver();
  SMELT_ASSIGN_OR_RETURN(variant->workspace, device_.SharedWorkspace(list.workspace_bytes()));
  SMELT_RETURN_IF_ERROR(device_.Check(driver.cuGraphCreate(&variant->graph, 0), "making a graph"));
  for (size_t i = 0; i < list.size(); ++i) {
    const GraphNode* const before = variant->nodes.empty() ? nullptr : &variant->nodes.back();
    GraphNode node = nullptr;
    SMELT_RETURN_IF_ERROR(
        list.WithParameters(i, AddressOf(variant->workspace), [&](const LaunchList::Item& item, void** parameters) {
          const KernelNodeParameters p = NodeParameters(item, parameters);
          return device_.Check(
              driver.cuGraphAddKernelNode(&node, variant->graph, before, before == nullptr ? 0 : 1, &p), item.name);
        }));
    variant->nodes.push_back(node);
  }
  variant->list = list;
  return device_.Check(driver.cuGraphInstantiateWithFlags(&variant->exec, variant->graph, 0), "instantiating a graph");
}

absl::Status CudaGraphs::Update(const LaunchList& list, Variant* variant) {
  bool moved = false;
  if (list.workspace_bytes() > variant->list.workspace_bytes()) {
    SMELT_ASSIGN_OR_RETURN(variant->workspace, device_.SharedWorkspace(list.workspace_bytes()));
    moved = true;
  }
  bool changed = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list.IsSame(i, variant->list) && !(moved && list.item(i).has_workspace)) continue;
    changed = true;
    SMELT_RETURN_IF_ERROR(
        list.WithParameters(i, AddressOf(variant->workspace), [&](const LaunchList::Item& item, void** parameters) {
          const KernelNodeParameters p = NodeParameters(item, parameters);
          return device_.Check(device_.driver().cuGraphExecKernelNodeSetParams(variant->exec, variant->nodes[i], &p),
                               item.name);
        }));
  }
  // A list with a smaller workspace does not shrink the graph's.
  if (changed) {
    const int64_t had = std::max(variant->list.workspace_bytes(), list.workspace_bytes());
    variant->list = list;
    variant->list.KeepWorkspace(had);
  }
  return absl::OkStatus();
}

}  // namespace smelt::cuda
