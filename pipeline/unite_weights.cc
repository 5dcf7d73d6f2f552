#include "smelt/pipeline/unite_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

const char* KindName(Weight::Kind kind) {
  switch (kind) {
    case Weight::Kind::kParameter:
      return "a parameter";
    case Weight::Kind::kBuffer:
      return "a buffer";
    case Weight::Kind::kConstant:
      return "a constant";
  }
  return "?";
}

std::string Numbers(absl::Span<const int64_t> numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

bool HaveEqualBytes(const Storage& a, const Storage& b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || a.data() == b.data() ||
                                    std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0);
}

class Uniter {
 public:
  explicit Uniter(absl::Span<const MethodGraph> methods) : methods_(methods) {}

  absl::Status Run() {
    NumberStorages();
    for (size_t m = 0; m < methods_.size(); ++m) SMELT_RETURN_IF_ERROR(AddMethod(m));
    SMELT_RETURN_IF_ERROR(CheckSharing());
    SMELT_RETURN_IF_ERROR(CheckContents());
    Rewrite();
    return absl::OkStatus();
  }

 private:
  // A weight of the united table, as the first method that has it says it.
  struct United {
    size_t method;
    Weight weight;  // its storage is that of the method's graph
  };

  const Graph& graph(size_t m) const { return *methods_[m].graph; }
  std::string Quoted(size_t m) const { return absl::StrCat("\"", methods_[m].name, "\""); }

  // --- classes of storages that are one: a forest over the storages of all methods ---
  void NumberStorages() {
    int n = 0;
    for (const MethodGraph& m : methods_) {
      first_storage_.push_back(n);
      n += static_cast<int>(m.graph->weight_storages.size());
    }
    parent_.resize(n);
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int Number(size_t m, int storage) const { return first_storage_[m] + storage; }
  // Returns the first storage of the class.
  int ClassOf(int number) {
    while (parent_[number] != number) number = parent_[number] = parent_[parent_[number]];
    return number;
  }
  void Join(int a, int b) {
    a = ClassOf(a);
    b = ClassOf(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  const Storage& StorageOf(int number) const {
    const size_t m =
        std::upper_bound(first_storage_.begin(), first_storage_.end(), number) - first_storage_.begin() - 1;
    return *graph(m).weight_storages[number - first_storage_[m]];
  }

  absl::Status AddMethod(size_t m) {
    united_of_.emplace_back();
    for (const Weight& w : graph(m).weights) {
      std::string name = w.name;
      auto it = index_.find(name);
      if (it != index_.end() &&
          (w.kind == Weight::Kind::kConstant || united_[it->second].weight.kind == Weight::Kind::kConstant)) {
        if (!AreEqualConstants(united_[it->second], m, w)) {
          name = absl::StrCat(methods_[m].name, ".", w.name);
          while (index_.contains(name)) name += "_";
          it = index_.end();
        }
      }
      if (it == index_.end()) {
        index_.emplace(name, static_cast<int>(united_.size()));
        united_of_.back().push_back(static_cast<int>(united_.size()));
        united_.push_back({m, w});
        united_.back().weight.name = std::move(name);
        continue;
      }
      SMELT_RETURN_IF_ERROR(CheckGeometry(united_[it->second], m, w));
      united_of_.back().push_back(it->second);
      Join(Number(united_[it->second].method, united_[it->second].weight.storage), Number(m, w.storage));
    }
    return absl::OkStatus();
  }

  bool AreEqualConstants(const United& u, size_t m, const Weight& w) const {
    const Weight& v = u.weight;
    return v.kind == w.kind && v.dtype == w.dtype && v.geometry == w.geometry &&
           HaveEqualBytes(*graph(u.method).weight_storages[v.storage], *graph(m).weight_storages[w.storage]);
  }

  absl::Status CheckGeometry(const United& u, size_t m, const Weight& w) const {
    const Weight& v = u.weight;
    const auto differ = [&](absl::string_view what, const std::string& first, const std::string& second) {
      return absl::InvalidArgumentError(absl::StrCat("the methods ", Quoted(u.method), " and ", Quoted(m),
                                                     " do not agree on the state \"", w.name, "\": ", what, first,
                                                     " in the first, ", second, " in the second"));
    };
    if (v.kind != w.kind) return differ("it is ", KindName(v.kind), KindName(w.kind));
    if (v.dtype != w.dtype) return differ("its dtype is ", std::string(Name(v.dtype)), std::string(Name(w.dtype)));
    if (v.geometry.sizes != w.geometry.sizes)
      return differ("its sizes are ", Numbers(v.geometry.sizes), Numbers(w.geometry.sizes));
    if (v.geometry.strides != w.geometry.strides)
      return differ("its strides are ", Numbers(v.geometry.strides), Numbers(w.geometry.strides));
    if (v.geometry.offset != w.geometry.offset) {
      return differ("its offset in its storage is ", absl::StrCat(v.geometry.offset), absl::StrCat(w.geometry.offset));
    }
    return absl::OkStatus();
  }

  // Storages that are two in a graph must not be one because of another graph.
  absl::Status CheckSharing() {
    for (size_t m = 0; m < methods_.size(); ++m) {
      absl::flat_hash_map<int, const Weight*> first_of_class;
      for (const Weight& w : graph(m).weights) {
        const auto [it, fresh] = first_of_class.try_emplace(ClassOf(Number(m, w.storage)), &w);
        if (fresh || it->second->storage == w.storage) continue;
        return absl::InvalidArgumentError(absl::StrCat("the states \"", it->second->name, "\" and \"", w.name,
                                                       "\" have memory of their own in the method ", Quoted(m),
                                                       ", but share it in another method"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckContents() {
    for (size_t m = 0; m < methods_.size(); ++m) {
      for (const Weight& w : graph(m).weights) {
        const int number = Number(m, w.storage), first = ClassOf(number);
        const Storage &a = StorageOf(first), &b = StorageOf(number);
        if (HaveEqualBytes(a, b)) continue;
        const size_t other =
            std::upper_bound(first_storage_.begin(), first_storage_.end(), first) - first_storage_.begin() - 1;
        return absl::InvalidArgumentError(absl::StrCat(
            "the methods ", Quoted(other), " and ", Quoted(m), " do not agree on the state \"", w.name, "\": ",
            a.bytes() == b.bytes()
                ? "its initial contents differ"
                : absl::StrCat("its storage has ", a.bytes(), " bytes in the first, ", b.bytes(), " in the second"),
            "; export them from one model, without a call of it between the exports"));
      }
    }
    return absl::OkStatus();
  }

  void Rewrite() {
    std::vector<std::shared_ptr<Storage>> storages;
    absl::flat_hash_map<int, int> storage_of_class;
    for (size_t m = 0; m < methods_.size(); ++m) {
      for (size_t s = 0; s < graph(m).weight_storages.size(); ++s) {
        const int number = Number(m, static_cast<int>(s));
        if (ClassOf(number) != number) continue;
        storage_of_class[number] = static_cast<int>(storages.size());
        storages.push_back(graph(m).weight_storages[s]);
      }
    }
    std::vector<Weight> weights;
    for (const United& u : united_) {
      weights.push_back(u.weight);
      weights.back().storage = storage_of_class.at(ClassOf(Number(u.method, u.weight.storage)));
    }
    for (size_t m = 0; m < methods_.size(); ++m) {
      Graph& g = *methods_[m].graph;
      for (InputInfo& info : g.input_infos) {
        if (info.kind == InputInfo::Kind::kWeight) info.weight = united_of_[m][info.weight];
      }
      g.weights = weights;
      g.weight_storages = storages;
    }
  }

  const absl::Span<const MethodGraph> methods_;
  std::vector<int> first_storage_;  // by method: the number of its first storage among all
  std::vector<int> parent_;         // by number
  std::vector<United> united_;
  absl::flat_hash_map<std::string, int> index_;  // by name in united_
  std::vector<std::vector<int>> united_of_;      // by method and weight
};

}  // namespace

absl::Status UniteWeights(absl::Span<const MethodGraph> methods) { return Uniter(methods).Run(); }

}  // namespace smelt
