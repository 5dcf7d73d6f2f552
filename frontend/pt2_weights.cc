#include "smelt/frontend/pt2_weights.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2_codes.h"

namespace smelt {
namespace pt2_internal {

namespace {

absl::StatusOr<std::vector<int64_t>> ConcreteInts(const Json& list) {
  if (!list.is_array()) return Expected("a list");
  if (list.size() > kMaxRank)
    return absl::InvalidArgumentError(absl::StrCat("rank ", list.size(), ", at most ", kMaxRank, " expected"));
  std::vector<int64_t> out;
  for (const Json& e : list) {
    SMELT_ASSIGN_OR_RETURN(const Json* v, Get(e, "as_int"));
    SMELT_ASSIGN_OR_RETURN(int64_t i, AsInt(*v));
    out.push_back(i);
  }
  return out;
}

}  // namespace

absl::Status Pt2Weights::Read() {
  SMELT_RETURN_IF_ERROR(ReadConfig("weights", "model_weights_config.json", weights_));
  return ReadConfig("constants", "model_constants_config.json", constants_);
}

absl::Status Pt2Weights::ReadConfig(const std::string& folder, const std::string& file, Entries& into) {
  const std::string name = absl::StrCat(root_, "/data/", folder, "/", file);
  if (!zip_.Contains(name)) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(std::string text, zip_.Read(name, options_.max_json_bytes));
  SMELT_ASSIGN_OR_RETURN(Json json, ParseJson(text, absl::StrCat(zip_.path(), ": ", name)));
  const Json* config = Find(json, "config");
  if (config == nullptr || !config->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(zip_.path(), ": ", name, ": a field \"config\" with an object expected"));
  }
  for (auto it = config->begin(); it != config->end(); ++it) {
    auto entry = ReadEntry(*it, folder);
    if (!entry.ok()) {
      bad_.emplace(it.key(), Annotate(entry.status(), absl::StrCat(name, ": \"", it.key(), "\"")));
      continue;  // an error only if the graph needs it
    }
    into.emplace(it.key(), *std::move(entry));
  }
  return absl::OkStatus();
}

absl::StatusOr<Pt2Weights::Entry> Pt2Weights::ReadEntry(const Json& entry, const std::string& folder) const {
  Entry w;
  SMELT_ASSIGN_OR_RETURN(w.path, GetString(entry, "path_name"));
  if (const Json* pickled = Find(entry, "use_pickle");
      pickled != nullptr && pickled->is_boolean() && pickled->get<bool>()) {
    return absl::UnimplementedError(
        "use_pickle: the tensor is pickled, and unpickling runs code; save it as raw bytes");
  }
  w.path = absl::StrCat(root_, "/data/", folder, "/", w.path);
  SMELT_ASSIGN_OR_RETURN(const Json* meta, Get(entry, "tensor_meta"));
  SMELT_ASSIGN_OR_RETURN(const Json* dtype, Get(*meta, "dtype"));
  SMELT_ASSIGN_OR_RETURN(int64_t code, AsInt(*dtype));
  SMELT_ASSIGN_OR_RETURN(w.dtype, ToDType(code));
  SMELT_ASSIGN_OR_RETURN(const Json* sizes, Get(*meta, "sizes"));
  SMELT_ASSIGN_OR_RETURN(const Json* strides, Get(*meta, "strides"));
  SMELT_ASSIGN_OR_RETURN(const Json* offset, Get(*meta, "storage_offset"));
  SMELT_ASSIGN_OR_RETURN(w.geometry.sizes, ConcreteInts(*sizes));
  SMELT_ASSIGN_OR_RETURN(w.geometry.strides, ConcreteInts(*strides));
  SMELT_ASSIGN_OR_RETURN(const Json* offset_int, Get(*offset, "as_int"));
  SMELT_ASSIGN_OR_RETURN(w.geometry.offset, AsInt(*offset_int));
  if (const Json* layout = Find(*meta, "layout"); layout != nullptr && *layout != 7) {
    return absl::UnimplementedError("layout: only strided tensors are supported");
  }
  SMELT_RETURN_IF_ERROR(CheckGeometry(w.geometry, w.dtype));
  return w;
}

absl::Status CheckGeometry(const Geometry& g, DType dtype) {
  if (g.sizes.size() != g.strides.size()) return absl::InvalidArgumentError("sizes and strides differ in number");
  int64_t last = g.offset;
  bool empty = false;
  if (g.offset < 0) return absl::InvalidArgumentError("negative storage_offset");
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.sizes[d] < 0 || g.strides[d] < 0) return absl::InvalidArgumentError("negative size or stride");
    if (g.sizes[d] == 0) empty = true;
  }
  int64_t elements = 1;
  for (size_t d = 0; d < g.sizes.size() && !empty; ++d) {
    int64_t step;
    if (__builtin_mul_overflow(g.sizes[d] - 1, g.strides[d], &step) || __builtin_add_overflow(last, step, &last) ||
        __builtin_mul_overflow(elements, g.sizes[d], &elements)) {
      return absl::InvalidArgumentError("sizes and strides overflow 64 bits");
    }
  }
  int64_t bytes;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, ItemSize(dtype), &bytes) ||
      __builtin_mul_overflow(elements, ItemSize(dtype), &bytes)) {
    return absl::InvalidArgumentError("sizes and strides overflow 64 bits");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Pt2Weights::Add(const std::string& name, Weight::Kind kind, Graph& g) {
  auto it = weights_.find(name);
  if (it == weights_.end() || (kind != Weight::Kind::kParameter && constants_.contains(name))) {
    auto c = constants_.find(name);
    if (c == constants_.end()) {
      auto bad = bad_.find(name);
      if (bad != bad_.end()) return bad->second;
      return absl::InvalidArgumentError(
          absl::StrCat("the signature names \"", name, "\", which neither the weights nor the constants hold"));
    }
    it = c;
  }
  const Entry& w = it->second;
  auto [storage, fresh] = storages_.try_emplace(w.path, 0);
  // All tensors without bytes are one file in the archive. Nothing can observe that they share memory until they grow.
  const bool empty = !fresh && g.weight_storages[storage->second]->bytes() == 0;
  if (fresh || empty) {
    storage->second = static_cast<int>(g.weight_storages.size());
    SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> bytes, zip_.ReadStorage(w.path, options_.max_weight_bytes));
    g.weight_storages.push_back(std::move(bytes));
  }
  Weight out;
  out.name = name;
  out.kind = kind;
  out.storage = storage->second;
  out.dtype = w.dtype;
  out.geometry = w.geometry;
  const int64_t have = g.weight_storages[out.storage]->bytes();
  const int64_t need = out.geometry.Span().second * ItemSize(out.dtype);
  if (out.geometry.NumElements() > 0 && need > have) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" reaches byte ", need, " of ", w.path, ", which has ", have));
  }
  g.weights.push_back(std::move(out));
  return static_cast<int>(g.weights.size()) - 1;
}

}  // namespace pt2_internal
}  // namespace smelt
