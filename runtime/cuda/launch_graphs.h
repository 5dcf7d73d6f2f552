// Launches that a call gathers, and the graphs that launch them at once when they occur again. Internal.
//
//   LaunchList list;
//   list.Add(function, "add", {.grid = 4, .threads = 256}, words, tiles, status);
//   SMELT_RETURN_IF_ERROR(graphs.Launch(/*segment=*/0, list));   // one by one; the second time as a graph
//
// Launches run in the order of the list. The context must be current, and calls of a device hold its lock.
#ifndef SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_
#define SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/device/device.h"

namespace smelt::cuda {

class CudaDevice;

class LaunchList {
 public:
  struct Shape {
    unsigned grid = 1, threads = 1, shared_bytes = 0;
    bool operator==(const Shape& o) const {
      return grid == o.grid && threads == o.threads && shared_bytes == o.shared_bytes;
    }
  };
  struct Item {
    Function function;
    const char* name;  // for errors; it outlives the function
    Shape shape;
    size_t first_word, num_words;  // passed by value
    int64_t end;
    Address status;
    bool has_workspace;
  };

  void Add(Function function, const char* name, const Shape& shape, absl::Span<const int64_t> words, int64_t end,
           Address status, int64_t workspace_bytes);
  void Clear();
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  const Item& item(size_t i) const { return items_[i]; }
  int64_t workspace_bytes() const { return workspace_bytes_; }  // which all launches share
  void KeepWorkspace(int64_t bytes) { workspace_bytes_ = bytes; }
  // Returns whether the launches are of the same kernels.
  bool HasKernelsOf(const LaunchList& other) const;
  bool IsSame(size_t i, const LaunchList& other) const;  // words and all

  // Calls `launch` with an item's parameters, which are valid during the call.
  template <typename Launch>
  absl::Status WithParameters(size_t i, Address workspace, const Launch& launch) const {
    const Item& item = items_[i];
    int64_t begin = 0, end = item.end;
    Address status = item.status, at = item.has_workspace ? workspace : 0;
    void* parameters[] = {const_cast<int64_t*>(words_.data() + item.first_word), &begin, &end, &status, &at};
    return launch(item, parameters);
  }

 private:
  std::vector<Item> items_;
  std::vector<int64_t> words_;
  int64_t workspace_bytes_ = 0;
};

// Launches the list one by one.
absl::Status LaunchEach(const CudaDevice& device, const LaunchList& list);

class CudaGraphs final : public LaunchGraphs {
 public:
  explicit CudaGraphs(const CudaDevice& device) : device_(device) {}
  ~CudaGraphs() override;
  // Launches the list that is number `segment` of the call.
  absl::Status Launch(size_t segment, const LaunchList& list);

 private:
  // The graph of one list of kernels; there is none until the list occurs again.
  struct Variant {
    LaunchList list;  // as the graph has it
    GraphExec exec = nullptr;
    Graph graph = nullptr;
    std::vector<GraphNode> nodes;
    std::shared_ptr<void> workspace;
  };
  absl::Status Build(const LaunchList& list, Variant* variant);
  absl::Status Update(const LaunchList& list, Variant* variant);
  void Destroy(Variant* variant);

  const CudaDevice& device_;
  std::vector<std::vector<Variant>> segments_;
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_
