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
  items_.push_back({function, name, shape, words_.size(), words.size(), end, status, workspace_bytes > 0, part_,
                    part_ == kAlways ? -1 : num_choices_ - 1, nullptr});
  words_.insert(words_.end(), words.begin(), words.end());
  workspace_bytes_ = std::max(workspace_bytes_, workspace_bytes);
}

void LaunchList::Add(std::shared_ptr<const LibraryWork> work, absl::Span<const int64_t> words,
                     int64_t workspace_bytes) {
  Add(nullptr, nullptr, {}, words, 0, 0, workspace_bytes);
  items_.back().work = std::move(work);
}

absl::Status LaunchList::GiveWork(size_t i, Address workspace, Stream stream) const {
  const Item& item = items_[i];
  return item.work->Give(absl::MakeConstSpan(words_).subspan(item.first_word, item.num_words),
                         item.has_workspace ? workspace : 0, stream);
}

void LaunchList::SetPart(Part part) {
  part_ = part;
  num_choices_ += part == kDecides ? 1 : 0;
}

void LaunchList::EndChoice(bool whole) {
  if (!whole && is_in_choice()) {
    --num_choices_;
    const auto first =
        std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.choice == num_choices_; });
    if (first != items_.end()) words_.resize(first->first_word);
    items_.erase(first, items_.end());
  }
  part_ = kAlways;
}

bool LaunchList::HasLaunches(int choice, Part part) const {
  return std::any_of(items_.begin(), items_.end(),
                     [&](const Item& item) { return item.choice == choice && item.part == part; });
}

void LaunchList::Clear() {
  items_.clear();
  words_.clear();
  workspace_bytes_ = 0;
  part_ = kAlways;
  num_choices_ = 0;
}

bool LaunchList::HasKernelsOf(const LaunchList& other) const {
  return std::equal(items_.begin(), items_.end(), other.items_.begin(), other.items_.end(),
                    [](const Item& a, const Item& b) {
                      return a.function == b.function && a.work == b.work && a.num_words == b.num_words &&
                             a.part == b.part && a.choice == b.choice;
                    });
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
    if (list.item(i).work != nullptr) {
      SMELT_RETURN_IF_ERROR(list.GiveWork(i, AddressOf(workspace), device.stream()));
      continue;
    }
    SMELT_RETURN_IF_ERROR(
        list.WithParameters(i, AddressOf(workspace), {}, [&](const LaunchList::Item& item, void** parameters) {
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
  variant->handles.clear();
  variant->workspace.reset();
}

absl::Status CudaGraphs::Launch(size_t segment, const LaunchList& list) {
  // Only a graph has choices.
  const bool must_be_graph = list.num_choices() > 0;
  if (!must_be_graph && (segment >= kMostSegments || list.size() < kLeastLaunches)) return LaunchEach(device_, list);
  if (segment >= segments_.size()) segments_.resize(segment + 1);
  std::vector<Variant>& variants = segments_[segment];
  auto found =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return list.HasKernelsOf(v.list); });
  if (found == variants.end()) {
    if (variants.size() < kMostVariants) {
      variants.emplace_back().list = list;
    } else if (must_be_graph) {
      Destroy(&variants.back());
    }
    if (!must_be_graph) return LaunchEach(device_, list);
    found = variants.end() - 1;
  }
  absl::Status status = found->exec == nullptr ? Build(list, &*found) : Update(list, &*found);
  if (absl::IsAborted(status)) {
    Destroy(&*found);
    status = Build(list, &*found);
  }
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
  Chain whole = {variant->graph}, sides[2];
  for (size_t i = 0; i < list.size(); ++i) {
    const LaunchList::Item& item = list.item(i);
    if (item.part == LaunchList::kDecides) SMELT_RETURN_IF_ERROR(AddHandles(list, item.choice, variant));
    const bool in_choice = item.part != LaunchList::kAlways && item.part != LaunchList::kDecides;
    SMELT_RETURN_IF_ERROR(
        AddLaunch(list, i, variant, in_choice ? &sides[item.part == LaunchList::kIfNot ? 1 : 0] : &whole));
    if (item.part == LaunchList::kDecides) {
      SMELT_RETURN_IF_ERROR(AddConditions(list, item.choice, *variant, &whole, sides));
    }
  }
  variant->list = list;
  return device_.Check(driver.cuGraphInstantiateWithFlags(&variant->exec, variant->graph, 0), "instantiating a graph");
}

absl::Status CudaGraphs::AddLaunch(const LaunchList& list, size_t i, Variant* variant, Chain* chain) {
  const Driver& driver = device_.driver();
  const size_t before = chain->last == nullptr ? 0 : 1;
  GraphNode node = nullptr;
  if (list.item(i).work != nullptr) {
    SMELT_ASSIGN_OR_RETURN(const Graph child, Capture(list, i, AddressOf(variant->workspace)));
    const Result added = driver.cuGraphAddChildGraphNode(&node, chain->graph, &chain->last, before, child);
    driver.cuGraphDestroy(child);  // the node has a copy
    SMELT_RETURN_IF_ERROR(device_.Check(added, "adding a library's work to a graph"));
  } else {
    SMELT_RETURN_IF_ERROR(list.WithParameters(
        i, AddressOf(variant->workspace), variant->handles, [&](const LaunchList::Item& item, void** parameters) {
          const KernelNodeParameters p = NodeParameters(item, parameters);
          return device_.Check(driver.cuGraphAddKernelNode(&node, chain->graph, &chain->last, before, &p), item.name);
        }));
  }
  variant->nodes.push_back(node);
  chain->last = node;
  return absl::OkStatus();
}

absl::StatusOr<Graph> CudaGraphs::Capture(const LaunchList& list, size_t i, Address workspace) const {
  const Driver& driver = device_.driver();
  SMELT_ASSIGN_OR_RETURN(const Stream stream, device_.CaptureStream());
  SMELT_RETURN_IF_ERROR(device_.Check(driver.cuStreamBeginCapture(stream, kRelaxedCapture), "capturing a library"));
  const absl::Status given = list.GiveWork(i, workspace, stream);
  // The capture ends even if the library has failed.
  Graph graph = nullptr;
  const absl::Status ended = device_.Check(driver.cuStreamEndCapture(stream, &graph), "capturing a library");
  if (given.ok() && ended.ok()) return graph;
  if (graph != nullptr) driver.cuGraphDestroy(graph);
  return given.ok() ? ended : given;
}

absl::Status CudaGraphs::AddHandles(const LaunchList& list, int choice, Variant* variant) {
  LaunchList::Handles& handles = variant->handles.emplace_back();
  handles.fill(0);
  for (const LaunchList::Part part : {LaunchList::kIfChosen, LaunchList::kIfNot, LaunchList::kDecidesAgain}) {
    if (!list.HasLaunches(choice, part)) continue;
    SMELT_RETURN_IF_ERROR(
        device_.Check(device_.driver().cuGraphConditionalHandleCreate(&handles[part == LaunchList::kIfNot ? 1 : 0],
                                                                      variant->graph, device_.context(), 0, 0),
                      "making a condition"));
  }
  return absl::OkStatus();
}

absl::Status CudaGraphs::AddConditions(const LaunchList& list, int choice, const Variant& variant, Chain* chain,
                                       Chain* sides) {
  for (size_t k = 0; k < 2; ++k) {
    GraphNodeParameters p;
    p.handle = variant.handles[static_cast<size_t>(choice)][k];
    if (p.handle == 0) continue;
    if (list.HasLaunches(choice, LaunchList::kDecidesAgain)) p.condition = kConditionWhile;
    p.context = device_.context();
    GraphNode node = nullptr;
    SMELT_RETURN_IF_ERROR(
        device_.Check(device_.driver().cuGraphAddNode(&node, chain->graph, &chain->last, nullptr, 1, &p),
                      "adding a condition to a graph"));
    chain->last = node;
    sides[k] = {p.graphs[0]};
  }
  return absl::OkStatus();
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
    if (list.item(i).work != nullptr) {
      SMELT_RETURN_IF_ERROR(UpdateWork(list, i, *variant));
      continue;
    }
    SMELT_RETURN_IF_ERROR(list.WithParameters(
        i, AddressOf(variant->workspace), variant->handles, [&](const LaunchList::Item& item, void** parameters) {
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

absl::Status CudaGraphs::UpdateWork(const LaunchList& list, size_t i, const Variant& variant) {
  const Driver& driver = device_.driver();
  SMELT_ASSIGN_OR_RETURN(const Graph child, Capture(list, i, AddressOf(variant.workspace)));
  const Result set = driver.cuGraphExecChildGraphNodeSetParams(variant.exec, variant.nodes[i], child);
  driver.cuGraphDestroy(child);
  // A library may launch other kernels for other addresses.
  if (set == kInvalidValue || set == kGraphCannotChange) return absl::AbortedError("the work of a library has changed");
  return device_.Check(set, "changing a library's work in a graph");
}

}  // namespace smelt::cuda
