// Launches that a call gathers, and the graphs that launch them at once when they occur again. Internal.
//
//   LaunchList list;
//   list.Add(function, "add", {.grid = 4, .threads = 256}, words, tiles, status);
//   SMELT_RETURN_IF_ERROR(graphs.Launch(/*segment=*/0, list));   // one by one; the second time as a graph
//
// Launches run in the order of the list. Those of a choice run or not, which a kernel of the list decides; a list with
// choices is a graph from the first time on. The context must be current, and calls of a device hold its lock.
//
// Between them stands work of libraries, which launches what only the library knows. A stream captures that as a graph,
// which becomes one node of the whole. With other addresses it is captured anew.
#ifndef SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_
#define SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/device/device.h"

namespace smelt::cuda {

class CudaDevice;

// Work that a library gives to a stream.
class LibraryWork {
 public:
  virtual ~LibraryWork() = default;
  // Gives it for these words, which are addresses. The workspace has the bytes that LaunchList::Add was told.
  virtual absl::Status Give(absl::Span<const int64_t> words, Address workspace, Stream stream) const = 0;
};

class LaunchList {
 public:
  // The launch that decides a choice, those that run if it chooses so, and those that run if it does not. Or those that
  // run again and again while it is chosen so, of which the last one decides again.
  enum Part { kAlways, kDecides, kIfChosen, kIfNot, kRepeated, kDecidesAgain };
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
    Part part;
    int choice;                               // its number; -1: of none
    std::shared_ptr<const LibraryWork> work;  // instead of a function; null: it is a kernel
  };

  void Add(Function function, const char* name, const Shape& shape, absl::Span<const int64_t> words, int64_t end,
           Address status, int64_t workspace_bytes);
  void Add(std::shared_ptr<const LibraryWork> work, absl::Span<const int64_t> words, int64_t workspace_bytes);
  // Says what the following launches belong to. kDecides begins a choice, to which the others belong. The first two words
  // of a launch that decides become the handles of its conditional nodes.
  void SetPart(Part part);
  // The following launches belong to no choice. Without all of its launches (`whole`) a choice is dropped.
  void EndChoice(bool whole);
  bool is_in_choice() const { return part_ != kAlways; }
  int num_choices() const { return num_choices_; }
  bool HasLaunches(int choice, Part part) const;
  void Clear();
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  const Item& item(size_t i) const { return items_[i]; }
  int64_t workspace_bytes() const { return workspace_bytes_; }  // which all launches share
  void KeepWorkspace(int64_t bytes) { workspace_bytes_ = bytes; }
  // Returns whether the launches are of the same kernels.
  bool HasKernelsOf(const LaunchList& other) const;
  bool IsSame(size_t i, const LaunchList& other) const;  // words and all
  // Gives an item's work, which is a library's, to a stream.
  absl::Status GiveWork(size_t i, Address workspace, Stream stream) const;

  // The handles of the conditional nodes of a choice; 0 where a side has no launches.
  using Handles = std::array<ConditionalHandle, 2>;
  // Calls `launch` with an item's parameters, which are valid during the call. `handles` are those of the list's choices.
  template <typename Launch>
  absl::Status WithParameters(size_t i, Address workspace, absl::Span<const Handles> handles,
                              const Launch& launch) const {
    const Item& item = items_[i];
    int64_t begin = 0, end = item.end;
    Address status = item.status, at = item.has_workspace ? workspace : 0;
    auto* words = const_cast<int64_t*>(words_.data() + item.first_word);
    std::vector<int64_t> with_handles;
    if (item.part == kDecides || item.part == kDecidesAgain) {
      with_handles.assign(words, words + item.num_words);
      for (size_t k = 0; k < 2; ++k)
        with_handles[k] = static_cast<int64_t>(handles[static_cast<size_t>(item.choice)][k]);
      words = with_handles.data();
    }
    void* parameters[] = {words, &begin, &end, &status, &at};
    return launch(item, parameters);
  }

 private:
  std::vector<Item> items_;
  std::vector<int64_t> words_;
  int64_t workspace_bytes_ = 0;
  Part part_ = kAlways;
  int num_choices_ = 0;
};

// Launches the list, which has no choices, one by one.
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
    std::vector<GraphNode> nodes;  // by launch
    std::vector<LaunchList::Handles> handles;
    std::shared_ptr<void> workspace;
  };
  // A graph that is built: each node follows the last one.
  struct Chain {
    Graph graph = nullptr;
    GraphNode last = nullptr;
  };
  absl::Status AddLaunch(const LaunchList& list, size_t i, Variant* variant, Chain* chain);
  // Returns a graph of the launches of an item that is a library's work.
  absl::StatusOr<Graph> Capture(const LaunchList& list, size_t i, Address workspace) const;
  // Adds the handles of a choice.
  absl::Status AddHandles(const LaunchList& list, int choice, Variant* variant);
  // Adds the conditional nodes of a choice, whose empty graphs become `sides`.
  absl::Status AddConditions(const LaunchList& list, int choice, const Variant& variant, Chain* chain, Chain* sides);
  absl::Status Build(const LaunchList& list, Variant* variant);
  // Returns Aborted if only a new graph can have these words.
  absl::Status Update(const LaunchList& list, Variant* variant);
  absl::Status UpdateWork(const LaunchList& list, size_t i, const Variant& variant);
  void Destroy(Variant* variant);

  const CudaDevice& device_;
  std::vector<std::vector<Variant>> segments_;
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_LAUNCH_GRAPHS_H_
