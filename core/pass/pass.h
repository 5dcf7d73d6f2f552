// A rewrite or an analysis of a graph, and the data that passes exchange.
//
//   Pass MergeMatmulsPass() {
//     return {.name = "merge-matmuls",
//             .description = "matmuls of one right operand become one",
//             .prerequisites = {"expand-composites"},
//             .is_optional = true,
//             .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return MergeMatmuls(g) > 0; }};
//   }
//
// A pass keeps no state between runs: its options and its results are in the PassContext. The runner does timing,
// dumps, verification and disabling (core/pass/pass_pipeline.h).
#ifndef SMELT_CORE_PASS_PASS_H_
#define SMELT_CORE_PASS_PASS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The options, results and analyses that the passes of one run share, at most one of each type. A pass's header says
// which types it reads and which it leaves behind. Not thread-safe: a context belongs to one run over one graph.
class PassContext {
 public:
  PassContext() = default;
  PassContext(const PassContext&) = delete;
  PassContext& operator=(const PassContext&) = delete;

  // Returns the value of this type, which is default-constructed if none has been set.
  template <typename T>
  T& Get() {
    std::unique_ptr<Entry>& entry = entries_[KeyOf<T>()];
    if (entry == nullptr) entry = std::make_unique<Holder<T>>();
    return static_cast<Holder<T>&>(*entry).value;
  }

  // Returns the value of this type, or null if none has been set.
  template <typename T>
  T* Find() {
    const auto it = entries_.find(KeyOf<T>());
    return it == entries_.end() ? nullptr : &static_cast<Holder<T>&>(*it->second).value;
  }

  // Replaces the value of this type.
  template <typename T>
  T& Put(T value) {
    T& kept = Get<T>();
    kept = std::move(value);
    return kept;
  }

 private:
  struct Entry {
    virtual ~Entry() = default;
  };
  template <typename T>
  struct Holder final : Entry {
    T value{};
  };
  // One address for each type.
  template <typename T>
  static const void* KeyOf() {
    static const char kKey = 0;
    return &kKey;
  }

  absl::flat_hash_map<const void*, std::unique_ptr<Entry>> entries_;
};

struct Pass {
  // The name for users: lower case, words joined by hyphens. It is unique among all passes.
  std::string name;
  // One line for --list-passes.
  std::string description;
  // Names of passes that must have run on the graph before this one.
  std::vector<std::string> prerequisites = {};
  // True if programs have the same meaning without the pass and only run slower: such a pass can be disabled.
  bool is_optional = false;
  // True if the pass does not change the graph.
  bool is_analysis = false;
  // Rewrites the graph and returns whether anything in it changed. After an error the graph must not be used.
  std::function<absl::StatusOr<bool>(Graph&, PassContext&)> run = nullptr;

  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) const { return run(graph, context); }
};

// Counts the edits of a graph during its lifetime, for passes that do not count themselves.
//
//   EditCounter edits(g);
//   ResolveLists(g);
//   return edits.count() > 0;
class EditCounter : public GraphListener {
 public:
  explicit EditCounter(Graph& graph) : graph_(graph) { graph_.AddListener(this); }
  ~EditCounter() override { graph_.RemoveListener(this); }
  EditCounter(const EditCounter&) = delete;
  EditCounter& operator=(const EditCounter&) = delete;

  int64_t count() const { return count_; }

  void OnNodeInserted(NodeId) override { ++count_; }
  void OnNodeErasing(NodeId) override { ++count_; }
  void OnNodeMoved(NodeId, BlockId) override { ++count_; }
  void OnInputChanged(NodeId, uint32_t, ValueId) override { ++count_; }
  void OnInputRemoved(NodeId, uint32_t, ValueId) override { ++count_; }
  void OnOutputAdded(NodeId, uint32_t) override { ++count_; }
  void OnOutputErasing(NodeId, uint32_t) override { ++count_; }
  void OnBlockAdded(NodeId, BlockId) override { ++count_; }
  void OnTypeChanged(ValueId) override { ++count_; }
  void OnAttributeChanged(NodeId, absl::string_view) override { ++count_; }

 private:
  Graph& graph_;
  int64_t count_ = 0;
};

}  // namespace smelt

#endif  // SMELT_CORE_PASS_PASS_H_
